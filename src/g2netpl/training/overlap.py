"""What is done with images that two label files have."""

import os
from dataclasses import dataclass

import numpy as np

from g2netpl.images.identity import same_files
from g2netpl.labels.files import named
from g2netpl.labels.table import IndexArray, LabelTable, per_image
from g2netpl.runs.config import RunConfig
from g2netpl.training.splits import ListedImages
from g2netpl.utils.errors import InputError, counted


def resolve_overlap(training: ListedImages, validation: ListedImages) -> "Shared":
    """What becomes of images that the training file and the validation file both have.

    Those that the validation file knows everything about are not trained on, and have its labels;
    the others are trained on, and nothing is judged by them.
    """
    pairs = np.array(same_files(training.paths, validation.paths), dtype=np.int64).reshape(-1, 2)
    table, held = training.table, validation.table.values
    known = per_image(held)[pairs[:, 1]] == len(table.classes)
    rows, theirs = pairs[known].T
    left = np.setdiff1d(np.arange(len(held)), pairs[~known, 1])
    notes = []
    if len(rows):
        values = table.values.copy()
        values[rows] = held[theirs]
        table = table.with_values(values)
        images = counted(len(rows), "image")
        notes.append(f"{images} of the validation file also in the training file: not trained on")
    if not known.all():
        images = counted(int((~known).sum()), "image")
        notes.append(
            f"{images} of the validation file also in the training file, and not labelled "
            "completely: trained on, and left out of the validation"
        )
    kept = ListedImages(validation.table.take(left), [validation.paths[row] for row in left])
    return Shared(table, np.unique(rows), kept, notes)


@dataclass(frozen=True)
class Shared:
    """A training file and a validation file that share images."""

    table: LabelTable  # of the training file
    rows: IndexArray  # of it, that are not trained on
    validation: ListedImages
    notes: list[str]


def keep_validation_apart(validation: ListedImages, test: ListedImages, config: RunConfig) -> None:
    """Nothing is chosen on test: the two files must not share images."""
    tested = {os.path.realpath(path) for path in test.paths}
    shared = sum(os.path.realpath(path) in tested for path in validation.paths)
    if shared:
        raise InputError(
            f"--validation-labels {named(config.validation_labels or ())}: "
            f"{counted(shared, 'image')} also in the test file {named(config.test_labels or ())}, "
            "and nothing is chosen on test; leave them out of one of the two"
        )


def keep_test_apart(
    training: ListedImages, test: ListedImages, config: RunConfig, way_out: str
) -> list[str]:
    """Refuse tests on images that are trained on, be it as a copy; a note where that is allowed."""
    shared = same_files(training.paths, test.paths)
    if not shared:
        return []
    row, first = shared[0]
    name, trained = test.table.images[first], training.table.images[row]
    copy = "" if name == trained else f" = {trained!r}"
    where = named(config.test_labels or f"the test part of {named(config.labels)}")
    what = f"{where}: {counted(len(shared), 'image')} also trained on, the first {name!r}{copy}"
    if config.overlap == "refuse":
        raise InputError(f"{what}; {way_out}, or go on with --overlap allow")
    return [f"{what}: figures on test are too good"]
