"""PartialLabelClassifier: the Trainer on features, behind scikit-learn's fit and predict.

X is an array of features (N, D). y is (N, L): 1 positive, 0 negative, −1 or NaN unobserved. A row
may be unobserved altogether: such images are trained on too.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags, check_array, check_random_state, column_or_1d
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from g2netpl.core.inference import predict_all
from g2netpl.images.loader import ArraySource
from g2netpl.labels.table import UNOBSERVED, LabelTable, check_values
from g2netpl.runs.metrics import can_rank, mean_average_precision
from g2netpl.runs.train_config import TrainConfig
from g2netpl.training.calibration import calibrate
from g2netpl.training.configuration import check_settings
from g2netpl.training.datamodule import TensorDataModule
from g2netpl.training.progress import Progress
from g2netpl.training.results import completed_labels, thresholds_of
from g2netpl.training.splits import observe_data
from g2netpl.training.trainer import Trainer
from g2netpl.utils.arrays import Scores
from g2netpl.utils.console import Console
from g2netpl.utils.errors import InputError, UserError, did_you_mean
from g2netpl.utils.launch import device_of


class PartialLabelClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A multi-label classifier for partial labels, most of them missing.

    Parameters
    ----------
    method, options
        A name of `g2netpl.METHODS` and changes of its options.
    epochs, learning_rate, batch_size, optimizer, ema, hidden, patience
        As in `g2netpl train`; None stands for the usual value.
    validation
        Fraction of the labelled images held out to choose the epoch and the thresholds by. If
        they have no negatives, all images are trained on and the last epoch is kept.
    expected_positives
        Positives per image: a number, or "estimate".
    annotation
        How labels came to be observed: "sampled", "random", "complete", or "auto"; None: the
        default of the method.
    thresholds
        How `predict` decides: "f1" or "precision:P" on validation, or "expected".
    classes
        Names of the columns of y; without them the columns of a data frame, or their numbers.
    device, random_state, verbose
        "auto" or "cpu"; the seed of split, start and order; whether to show progress.
    single_label
        Each image has exactly one class: a positive in y makes all others negative, and `predict`
        gives every image its most probable class only.

    Attributes
    ----------
    completed_labels_
        (N, L) in [0, 1] for the images of `fit`: observed labels as they are, pseudo-labels if
        the method has them, predictions elsewhere.
    classes_, class_names_
        The values of each column, as scikit-learn has it, and the names of the columns.
    history_, best_epoch_, validation_score_
        A record per epoch, the epoch that was kept, and its mAP on validation (or None).
    model_, decisions_, expected_positives_
        The trained model, its calibration and thresholds, and k.
    """

    def __init__(
        self,
        *,
        method: str = "g2netpl",
        options: Mapping[str, Any] | None = None,
        epochs: int | None = None,
        learning_rate: float | None = None,
        batch_size: int = 64,
        optimizer: str = "adam",
        ema: float | None = None,
        hidden: int = 0,
        patience: int = 3,
        validation: float = 0.2,
        expected_positives: float | str = "estimate",
        thresholds: str = "f1",
        annotation: str | None = None,
        classes: Sequence[str] | None = None,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = 0,
        verbose: bool = False,
        single_label: bool = False,
    ) -> None:
        given = locals()
        for name in self._get_param_names():  # each an attribute of its name, as scikit-learn asks
            setattr(self, name, given[name])

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike, groups: npt.ArrayLike | None = None) -> Self:
        """Train on what is observed in y.

        Images of one of the `groups` (a sequence, a patient) are held out together or not at all;
        an image with None or NaN is in no group.
        """
        features = self._features(X, reset=True)
        with _as_value_error():
            config, console = self._config(), Console(quiet=not self.verbose)
            table = label_table(y, len(features), self.classes)
            if groups is not None:
                names = column_or_1d(groups, dtype=object)
                table = table.with_groups(["" if pd.isna(name) else str(name) for name in names])
            check_settings(config, full=table.is_complete, images=False)
            data = observe_data(config, table)
            inputs = TensorDataModule(data, features)
            trainer = Trainer(config, data, inputs, callbacks=[Progress(console)])
            trainer.fit()
        self._keep(trainer)
        return self

    def _keep(self, trainer: Trainer) -> None:
        """The model of the best epoch, its thresholds, and the completed labels."""
        data, soft, state = trainer.data, trainer.pseudo_labels(), trainer.state
        calibrate(trainer)
        predicted = trainer.predict(state.best_model, trainer.inputs.all("linear"))
        held = None
        if data.validation is not None:
            held = (predicted[data.held_out], data.validation.values)
        self.decisions_ = thresholds_of(trainer, held, predicted[data.training])
        self.completed_labels_ = completed_labels(data, predicted, soft)
        self.model_, self.expected_positives_ = trainer.full_model.eval(), trainer.k
        self.history_, self.best_epoch_ = state.history, state.best_epoch
        self.validation_score_ = state.best_map
        self.class_names_ = np.array(data.table.classes)
        self.classes_ = [np.array([0, 1]) for _ in self.class_names_]

    def predict_proba(self, X: npt.ArrayLike) -> Scores:
        """Calibrated scores (N, L) in [0, 1]."""
        check_is_fitted(self)
        source = ArraySource(self._features(X, reset=False))
        with _as_value_error():
            scores = predict_all(self.model_.to(device_of(self.device)), source)
        return self.decisions_.calibrate(scores)

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Labels (N, L) of 1 and 0, by the thresholds chosen in `fit`."""
        check_is_fitted(self)
        return self.decisions_.decide(self.predict_proba(X)).astype(np.int64)

    def score(self, X: npt.ArrayLike, y: npt.ArrayLike) -> float:
        """Mean average precision over the known entries of y."""
        scores = self.predict_proba(X)
        with _as_value_error():
            truth = label_table(y, len(scores), list(self.class_names_)).values
            if not can_rank(truth):
                raise InputError(
                    "y: no class has both a positive and a negative, so mAP is undefined"
                )
            return mean_average_precision(scores, truth)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = False
        tags.target_tags.multi_output = True
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        return tags

    def _config(self) -> TrainConfig:
        """The parameters as a configuration, which checks them."""
        shared = set(TrainConfig.model_fields) - {"options"}
        values = {name: value for name, value in self.get_params().items() if name in shared}
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(2**31)
        values |= {"seed": int(seed), "options": self.options or {}, "mode": "linear"}
        return TrainConfig.read(values, type(self).__name__)

    def _features(self, X: Any, reset: bool) -> torch.Tensor:
        return torch.from_numpy(validate_data(self, X, dtype=np.float32, order="C", reset=reset))

    def __getstate__(self) -> dict[str, Any]:
        if hasattr(self, "model_"):
            self.model_.cpu()  # so that it can be loaded where there is no GPU
        state: dict[str, Any] = super().__getstate__()
        return state


def label_table(y: Any, count: int, classes: Sequence[str] | None) -> LabelTable:
    """y as a table of `count` images; NaN and what is masked become unobserved.

    The columns of a data frame go by their names, all others by their places.
    """
    if y is None:
        raise InputError("requires y to be passed, but the target y is None")
    columns = [str(name) for name in getattr(y, "columns", ())]
    if isinstance(y, np.ma.MaskedArray):
        y = np.ma.filled(y.astype(np.float64), np.nan)
    values = check_array(
        y,
        ensure_all_finite="allow-nan",
        ensure_2d=False,
        allow_nd=True,
        ensure_min_samples=0,
        input_name="y",
    )
    if values.ndim != 2:
        raise InputError(
            "y: expected a matrix (images × classes) of 1 (positive), 0 (negative) and -1 or NaN "
            f"(unobserved), got {type_of_target(values)} labels in {values.ndim} dimension(s). "
            "Only binary classification is supported, per class."
        )
    values = np.where(np.isnan(values), UNOBSERVED, values)
    if len(values) != count:
        raise InputError(f"X and y: inconsistent numbers of samples: {count} and {len(values)}")
    places = [str(place) for place in range(values.shape[1])]
    names = [str(name) for name in (columns or places if classes is None else classes)]
    if len(names) != values.shape[1]:
        raise InputError(f"y: expected {len(names)} classes, got {values.shape[1]} columns")
    if sorted(columns) == sorted(names):
        values = values[:, [columns.index(name) for name in names]]
    elif columns and columns != places:
        odd = next(name for name in columns if name not in names)
        raise InputError(f"y: column {odd!r} is none of the classes ({did_you_mean(odd, names)})")
    return LabelTable(tuple(str(row) for row in range(count)), tuple(names), check_values(values))


@contextmanager
def _as_value_error() -> Iterator[None]:
    """A mistake of the user as scikit-learn's users expect it."""
    try:
        yield
    except UserError as problem:
        raise ValueError(str(problem)) from None
