"""The published sizes of the data sets of the paper, to tell a complete copy from a part of one."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """One part of a data set: images in its list, images used in the literature, classes."""

    name: str
    listed: int
    used: int
    classes: int


PUBLISHED = {
    "VOC2012/train": Published("VOC 2012 train", 5_717, 5_717, 20),
    "VOC2012/val": Published("VOC 2012 val", 5_823, 5_823, 20),
    "instances_train2014": Published("COCO 2014 train", 82_783, 82_081, 80),
    "instances_val2014": Published("COCO 2014 val", 40_504, 40_137, 80),
    "NUS-WIDE/TrainImagelist": Published("NUS-WIDE train", 161_789, 161_789, 81),
    "NUS-WIDE/TestImagelist": Published("NUS-WIDE test", 107_859, 107_859, 81),
    "spml/train": Published("NUS-WIDE train of SPML", 150_000, 150_000, 81),
    "spml/val": Published("NUS-WIDE test of SPML", 60_260, 60_260, 81),
}


def compare(key: str, listed: int, used: int, classes: int) -> list[str]:
    """A note on how a part that was read compares with its published size."""
    known = PUBLISHED.get(key)
    if known is None or classes != known.classes:
        return []
    if listed < known.listed:
        return [f"a part of {known.name}: {used:,} of the {known.used:,} images published"]
    if (listed, used) == (known.listed, known.used):
        return [f"{known.name}, complete: {used:,} images, as published"]
    return [
        f"{known.name}: {used:,} images where {known.used:,} were published; "
        "is this another version of the data?"
    ]
