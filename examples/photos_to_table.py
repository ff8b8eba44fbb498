"""From a folder of photos and a file of tags to a classifier and a completed label table.

You have photos and `tags.csv` with what people happened to write down, a line per photo:

    image,labels
    0001.jpg,cat;sofa
    0002.jpg,dog

A photo may be missing from the file: it is trained on as an unlabelled one. Without photos of your
own the script makes some, scenes of handwritten digits, and tags 60 % of them with one digit each.

    python examples/photos_to_table.py
    python examples/photos_to_table.py --photos my-photos --tags tags.csv --backbone lite0

It writes `completed.csv` (a row per photo and class: value, score, source) and `sure.csv` (a label
file like yours, with every label filled in that is correct with probability 0.9).
"""

import argparse
from pathlib import Path

from g2netpl import (
    RunConfig,
    Setting,
    complete_run,
    make_scenes,
    observe,
    read_labels,
    train,
    write_completed,
    write_labels,
    write_scenes,
)


def main() -> None:
    """Read, train, complete."""
    flags = read_flags()
    photos, tags = flags.photos, flags.tags
    if photos is None:
        photos, tags = make_tagged_photos(flags.output, flags.scenes)

    known = read_labels(tags)
    print(f"{len(known)} tagged photos, {len(known.classes)} classes, {known.known} tags")

    run = train(
        RunConfig(
            labels=tags,
            images=photos,
            output=flags.output / "run",
            mode="full" if flags.backbone == "tiny" else "linear",
            backbone=flags.backbone,
            **({"image_size": 64} if flags.backbone == "tiny" else {}),
            learning_rate=3e-3 if flags.backbone == "tiny" else None,
            epochs=flags.epochs,
            augment="plain",  # digits must not be mirrored; leave this out for photos
            workers=0,
        ),
        overwrite=True,
    )
    print(f"{run.expected_positives:.2f} labels per photo are expected")

    everything = complete_run(run)
    write_completed(everything, flags.output / "completed.csv")
    print(everything)
    sure = complete_run(run, confidence=0.9)
    write_labels(sure.table, flags.output / "sure.csv")
    print(f"{int(sure.added().sum())} new positives are confident, see {flags.output / 'sure.csv'}")

    photo = everything.observed.images[0]
    scores = run.predict(Path(photos) / photo)[0]
    best = scores.argmax()
    print(f"{photo} shows {run.classes[best]} with probability {scores[best]:.0%}")


def make_tagged_photos(folder: Path, count: int) -> tuple[Path, Path]:
    """Scenes as photos, and a file of single tags for 60 % of them."""
    write_scenes(make_scenes(train=count, test=0), folder / "scenes")
    truth = read_labels(folder / "scenes" / "train.csv")
    seen = observe(truth, Setting.parse("sspl:0.6"), seed=0)
    write_labels(seen.take(seen.labelled.nonzero()[0]), folder / "tags.csv", "tags")
    return folder / "scenes", folder / "tags.csv"


def read_flags() -> argparse.Namespace:
    """What the user wants."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--photos", type=Path, help="folder of photos (default: scenes are made)")
    parser.add_argument("--tags", type=Path, help="CSV `image,labels`, names relative to --photos")
    parser.add_argument("--backbone", default="tiny", help="tiny, lite0 to lite2, or any timm name")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--scenes", type=int, default=1000, help="how many to make")
    parser.add_argument("--output", type=Path, default=Path("photos-example"))
    flags = parser.parse_args()
    if (flags.photos is None) != (flags.tags is None):
        parser.error("give --photos and --tags together, or neither")
    return flags


if __name__ == "__main__":
    main()
