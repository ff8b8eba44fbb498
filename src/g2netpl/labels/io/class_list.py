"""A list of class names, one per line, and no labels: for runs that predict by class names only."""

from pathlib import Path

import numpy as np

from g2netpl.labels.io.options import ReadOptions, read_classes
from g2netpl.labels.table import LabelTable


def can_read(path: Path) -> bool:
    """Never: any text file may be one, so it is asked for by name."""
    return False


def read(path: Path, options: ReadOptions) -> LabelTable:
    """The classes, and no image."""
    classes = read_classes(path)
    return LabelTable((), classes, np.zeros((0, len(classes)), dtype=np.int8))
