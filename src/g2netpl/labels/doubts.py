"""What is odd about the classes of a table, though nothing in it is wrong: each in one line."""

from g2netpl.base.errors import counted, listed
from g2netpl.labels.look_alikes import look_alikes_note
from g2netpl.labels.table import NEGATIVE, POSITIVE, LabelTable, per_class

_NO_CLASS = (  # words for nothing
    *("none", "nothing", "null", "nil", "nan", "na", "n/a", "n.a.", "-", "--", "–", "—", "?"),
    *("keine", "keins", "nichts", "aucun", "aucune", "rien", "nada", "ninguno", "nessuno"),
)


def doubts(table: LabelTable, one_of: bool = False) -> list[str]:
    """All of them that a training tells; `one_of` where every image has one class."""
    named = [] if one_of else called_nothing(table)
    return [*look_alikes_note(table), *named, *without_opposite(table)]


def called_nothing(table: LabelTable) -> list[str]:
    """A note on a class that says by its name that none is there."""
    counts = per_class(table.values, POSITIVE).tolist()
    return [
        f"{name!r} is a class as any other, on {counted(count, 'image')}; if it says that nothing "
        "is there, leave it out, and where tags are complete give --absent negative"
        for name, count in zip(table.classes, counts, strict=True)
        if name.strip().lower() in _NO_CLASS and count
    ]


def without_opposite(table: LabelTable) -> list[str]:
    """A note on a single class that no image is known to be without."""
    positive, negative = (per_class(table.values, sign).any() for sign in (POSITIVE, NEGATIVE))
    if len(table.classes) > 1 or negative or not positive:
        return []
    return [
        f"one class and no negatives: nothing tells {table.classes[0]!r} from the rest; give some "
        "images 0 (among tags: in a column 'absent')"
    ]


def on_one_image(table: LabelTable) -> list[str]:
    """A note on classes that a single image has."""
    counts = per_class(table.values, POSITIVE).tolist()
    alone = [repr(name) for name, count in zip(table.classes, counts, strict=True) if count == 1]
    return [f"on one image alone, too few to learn from: {listed(alone)}"] if alone else []
