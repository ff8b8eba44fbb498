"""The images of a comparison: those to train on and those of the test, before anything is trained.

Without a test file a fifth of the images of the label file are the test.
"""

from dataclasses import dataclass

import numpy as np

from g2netpl.base.errors import InputError, counted
from g2netpl.experiments.data import split_rows
from g2netpl.experiments.grid import VALIDATION_FRACTION
from g2netpl.images.identity import content_of
from g2netpl.images.pixels import check_bad, header_problem
from g2netpl.labels.entries import per_class
from g2netpl.labels.settings import split_indices
from g2netpl.labels.table import POSITIVE, LabelTable
from g2netpl.runs.config import RunConfig
from g2netpl.runs.metrics import can_rank
from g2netpl.training.data import Listed, count_shared, read_training_data
from g2netpl.training.inputs import most_bad


@dataclass(frozen=True)
class Parts:
    """What is trained on and what is tested on."""

    train: Listed
    test: Listed
    whole: LabelTable  # the label file, of which the test is a part if it has no file of its own
    notes: tuple[str, ...]  # what a person should be told about the files

    @property
    def tables(self) -> tuple[LabelTable, LabelTable]:
        """The labels of both."""
        return self.train.table, self.test.table

    @property
    def fingerprints(self) -> dict[str, str]:
        """What the label files say and the pictures hold, in short."""
        train, test = self.tables
        pictures, _ = content_of([*self.train.paths, *self.test.paths])
        return {"training": train.fingerprint(), "test": test.fingerprint(), "images": pictures}

    def check(self, config: RunConfig) -> list[str]:
        """Refuse tests on what was trained on, and too many files that are no images.

        Gives the others of those, a line each.
        """
        shared = count_shared(self.train.paths, self.test.paths)
        if shared:
            test = config.test_labels or f"the test part of {config.labels}"
            raise InputError(
                f"{test}: {counted(shared, 'image')} also in the training file, and nothing is "
                "tested on what was trained on; leave them out of one of the two"
            )
        found = []
        for part in (self.train, self.test):
            problems = [problem for problem in map(header_problem, part.paths) if problem]
            check_bad(problems, most_bad(config, len(part.paths)))
            found += problems
        return found

    def __str__(self) -> str:
        train, test = self.tables
        labelled = np.flatnonzero(train.labelled)
        rows = labelled[split_indices(len(labelled), VALIDATION_FRACTION, 0)[1]]
        held_out = len(rows) if can_rank(train.take(rows).held) else 0  # else all are trained on
        tested = int((per_class(test.held, POSITIVE) > 0).sum())
        return (
            f"{len(train) - held_out:,} training, {held_out:,} validation and {len(test):,} test "
            f"images of {len(train.classes):,} classes, {tested:,} of them in the test"
        )


def read_parts(config: RunConfig) -> Parts:
    """Read the label files and find the images; mistakes in all of them show here."""
    data = read_training_data(config)
    whole = Listed(data.table, data.paths)
    if data.test is not None:
        return Parts(whole, data.test, whole.table, data.notes)
    train, test = (
        Listed(whole.table.take(rows), [whole.paths[row] for row in rows])
        for rows in split_rows(len(whole.table))
    )
    return Parts(train, test, whole.table, data.notes)
