"""The Trainer: trains a model with a method, phase by phase, and keeps the best epoch.

    trainer = Trainer(config, data, inputs)      # builds the model and the method
    trainer.fit()

linear   the head is trained on features of the frozen backbone, which are computed once
partial  the upper blocks are trained too; activations of the frozen blocks are computed once
full     everything is trained
lp-ft    linear, then full or partial

Nothing here sees test data. The best epoch is the one with the best validation mAP; if no class has
both positives and negatives there, mAP is undefined and the last epoch is kept.

Order, augmentation and dropout are functions of (seed, epoch, image or step). So a run that was
interrupted and resumed from a checkpoint gives the same weights and pseudo-labels, bitwise.
"""

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from g2netpl.core.algorithm import Batch, train_epoch
from g2netpl.core.inference import mc_dropout, one_thread, predict_all, readable_batch
from g2netpl.core.methods import build_method
from g2netpl.core.models import (
    Model,
    build_model,
    build_optimizer,
    fixed_random_state,
    is_pretrained,
)
from g2netpl.images.loader import Rows, Source, Subset, epoch_groups
from g2netpl.runs.metrics import can_rank, mean_average_precision
from g2netpl.runs.prior import FoundPrior, find_prior
from g2netpl.runs.records import Epoch
from g2netpl.runs.train_config import PhaseMode, TrainConfig
from g2netpl.training import expected_positives
from g2netpl.training.configuration import resolve_annotation
from g2netpl.training.datamodule import DataModule
from g2netpl.training.diagnostics import Diagnostics
from g2netpl.training.linear_probe import Choice, can_solve, solve_head
from g2netpl.training.splits import TrainingData
from g2netpl.utils import distributed
from g2netpl.utils.arrays import Scores, first_line
from g2netpl.utils.errors import InputError, UserError
from g2netpl.utils.launch import device_of

State = dict[str, Tensor]

_FEW_STEPS = 1000  # in longer runs the softmax, which learns faster, has a smaller learning rate
_SMALLEST_SCALE = 0.3
_NON_FINITE = 3  # batches in a row


class NumericalStop(UserError):
    """The loss or the weights are no longer finite."""


@dataclass(frozen=True)
class Phase:
    """Epochs in which the same parameters are trained."""

    mode: PhaseMode
    epochs: int
    first_epoch: int = 0


@dataclass
class TrainerState:
    """How far a run is: everything in a checkpoint that is not a tensor of model or method."""

    phase: int = 0
    finished: int = 0  # epochs of this phase
    step: int = 0  # finished batches of the current epoch
    loss_sum: float = 0.0  # over the images of this epoch
    images: int = 0
    seconds: float = 0.0
    non_finite: int = 0  # batches in a row
    best_epoch: int = 0  # from 1; 0 before the first
    best_map: float | None = None
    best_model: State = field(default_factory=dict)
    history: list[Epoch] = field(default_factory=list)
    is_converged: bool = False


class Callback:
    """What happens next to training: checkpoints, progress, trackers."""

    def on_phase_start(self, trainer: "Trainer") -> None:
        """A phase begins, or is resumed."""

    def on_step_end(self, trainer: "Trainer", images: int) -> None:
        """A step is finished, pseudo-labels included."""

    def on_epoch_end(self, trainer: "Trainer") -> None:
        """An epoch is finished and validated."""

    def on_phase_end(self, trainer: "Trainer") -> None:
        """A phase is finished."""

    def on_fit_end(self, trainer: "Trainer") -> None:
        """The training is finished, or was interrupted."""

    def on_non_finite(self, trainer: "Trainer", batch: Batch, loss: float) -> None:
        """A batch was skipped, since its loss is not finite."""


class Trainer:
    """Model, method, data and optimizer of one training run.

    `prior`, `k` and `annotation`, each with its origin, follow from configuration and data unless
    given.
    """

    def __init__(
        self,
        config: TrainConfig,
        data: TrainingData,
        inputs: DataModule,
        *,
        prior: FoundPrior | None = None,
        k: expected_positives.Expected | None = None,
        annotation: tuple[str, str] | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.config, self.data, self.inputs = config, data, inputs
        self.callbacks = list(callbacks)
        self.device = torch.device(device_of(config.device))
        *before, last = config.phases
        self.phases = [Phase(mode, config.linear_epochs) for mode in before]
        first = len(before) * config.linear_epochs
        self.phases.append(Phase(last, config.epochs_on(len(data.training)), first))
        self.prior = prior or find_prior(config, data.table.classes, inputs.backbone)
        inputs.prior, inputs.scores = self.prior.prior, self.prior.scores
        self.k, self.k_origin, at_random = distributed.broadcast(
            k or expected_positives.find(config, data, inputs)
        )
        self.annotation, self.annotation_reason = annotation or resolve_annotation(
            config, data, self.k, at_random
        )
        self.rows = distributed.own_rows(len(data.training))  # and their pseudo-labels
        observed = torch.tensor(data.visible.values, device=self.device)
        self.method = build_method(
            config.method,
            observed,
            k=self.k,
            epochs=self.epochs,
            seed=config.seed,
            lr=config.lr(self.mode),
            deep=self.mode != "linear",
            **config.options,
        )
        self.full_model = build_model(
            inputs.backbone,
            observed.shape[1],
            annotation=self.annotation,
            k=self.k,
            hidden=config.hidden,
            dropout=self.method.dropout,
            trains_sigmoids=self.method.trains_sigmoids,
            prior=self.prior.prior,
            seed=config.seed,
        ).to(self.device)
        if distributed.size() > 1:
            self.method.keep_rows(torch.from_numpy(self.rows).to(self.device))
        self.state = TrainerState()
        self._batch: Batch
        self.is_solved = can_solve(self)  # whether the linear phase starts with the solved probe
        self.choice: Choice | None = None  # what held-out labels chose for the solved probe
        self.linear_decay = config.weight_decay  # the solved probe has its own

    @property
    def mode(self) -> PhaseMode:
        """What is trained in the last phase."""
        return self.phases[-1].mode

    @property
    def phase(self) -> Phase:
        """The current phase."""
        return self.phases[self.state.phase]

    @property
    def epoch(self) -> int:
        """The number of the current epoch, from 1."""
        return self.phase.first_epoch + self.state.finished + 1

    @property
    def epochs(self) -> int:
        """Epochs of all phases."""
        return sum(phase.epochs for phase in self.phases)

    @property
    def softmax_scale(self) -> float:
        """Learning rate of the softmax in proportion to that of the sigmoids; 0 if it is solved."""
        if self.is_solved and self.phase.mode == "linear":
            return 0.0
        steps = self.epochs * -(-len(self.data.training) // self.config.batch_size)
        return min(1.0, max(_SMALLEST_SCALE, _FEW_STEPS / max(steps, 1)))

    @property
    def evaluated(self) -> Model:
        """The model that is validated and kept: the average of the weights if there is one."""
        model: Any = self.model if self.averaged is None else self.averaged.module
        return model  # type: ignore[no-any-return]

    def fit(self, checkpoint: Mapping[str, Any] | None = None) -> TrainerState:
        """Train all phases, or what is left of them after a checkpoint."""
        first = 0 if checkpoint is None else checkpoint["trainer"]["phase"]
        if checkpoint is None:
            self.start_head()
        try:
            for number in range(first, len(self.phases)):
                self._start_phase(number, checkpoint if number == first else None)
                self._notify("on_phase_start")
                with one_thread() if self.phase.mode == "linear" else nullcontext():
                    while not self._is_finished:
                        self._run_epoch()
                self.last_model = copy_state(self.evaluated)
                self.load_model(self.state.best_model)
                self._notify("on_phase_end")
        finally:
            self._notify("on_fit_end")
        return self.state

    def start_head(self) -> None:
        """Start with the solved linear probe."""
        if self.is_solved and self.choice is None:
            self.choice, decay = solve_head(self)
            self.linear_decay = max(self.linear_decay, decay)

    def model_of(self, mode: PhaseMode) -> Model:
        """The part of the model that a phase trains, on the inputs of that phase."""
        if mode == "full":
            return self.full_model
        upper = self.inputs.split.upper if mode == "partial" else nn.Identity()
        return Model(upper, self.full_model.head)

    def load_model(self, state: Mapping[str, Tensor]) -> None:
        """Give the model of the current phase these weights."""
        self.model.load_state_dict(state)

    def predict(self, state: Mapping[str, Tensor], source: Source) -> Scores:
        """Probabilities (N, L) by these weights, which the model then has."""
        self.load_model(state)
        return predict_all(self.model, source)

    def pseudo_labels(self) -> Scores | None:
        """Pseudo-labels (N, L) of all training images, on every rank; None if there are none."""
        with torch.no_grad():
            labels = self.method.pseudo_labels(torch.arange(len(self.rows), device=self.device))
        if labels is None:
            return None
        return distributed.gather_rows(labels.float().cpu().numpy(), len(self.data.training))

    def state_dict(self) -> dict[str, Any]:
        """Everything that `fit` needs to resume; tensors are not copied."""
        return {
            "trainer": {**vars(self.state)},
            "labels_before": self.diagnostics.before,
            **{name: part.state_dict() for name, part in self._stateful.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a checkpoint of the current phase."""
        try:
            self.state = TrainerState(**state["trainer"])
            for name, part in self._stateful.items():
                part.load_state_dict(state[name])
            before: Tensor | None = state["labels_before"]
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as problem:
            raise InputError(
                f"the checkpoint is not one of this run ({first_line(problem)}); start again with "
                "--overwrite"
            ) from None
        self.diagnostics.before = None if before is None else before.to(self.device)

    @property
    def _stateful(self) -> dict[str, Any]:
        names = ("model", "optimizer", "method", "scaler", "averaged")
        parts = {name: getattr(self, name) for name in names}
        return {name: part for name, part in parts.items() if part is not None}

    # --- phases ----------------------------------------------------------------------------------

    def _start_phase(self, number: int, checkpoint: Mapping[str, Any] | None) -> None:
        self.state = TrainerState(phase=number, history=self.state.history)
        config, phase = self.config, self.phase
        # linear epochs were trained on pretrained batch statistics; new ones would undo them
        self.full_model.freezes_statistics = phase.first_epoch > 0 and is_pretrained(
            config.backbone, config.pretrained, config.weights
        )
        self.model = self.model_of(phase.mode)
        types = {"bf16": torch.bfloat16, "fp16": torch.float16}
        if config.precision in types:
            self.model.autocast = torch.autocast(self.device.type, types[config.precision])
        lr = config.lr(phase.mode)
        groups = self.full_model.head.parameter_groups(lr, self.softmax_scale)
        backbone = list(self.model.backbone.parameters())
        if backbone:
            groups.append({"params": backbone, "lr": lr})
        decay = self.linear_decay if phase.mode == "linear" else config.weight_decay
        self.optimizer = build_optimizer(config.optimizer, groups, lr, decay)
        self.scaler = torch.amp.GradScaler(
            self.device.type, enabled=config.precision == "fp16" and self.device.type == "cuda"
        )
        self.method.start_phase(lr, phase.mode != "linear")
        self._start_average()
        self.source = self.inputs.training(phase.mode)
        if distributed.size() > 1:
            self.source = Subset(self.source, self.rows)
        self.validation = self.inputs.validation(phase.mode)
        if self.method.rounds > 1:
            self._initial = copy_state(self.model), copy.deepcopy(self.optimizer.state_dict())
        self.diagnostics = Diagnostics(self.model, self.method, self.source, config.seed)
        self.diagnostics.remember()
        if checkpoint is not None:
            self.load_state_dict(checkpoint)
        self.parallel: Any = distributed.parallel(self.model)

    def _start_average(self) -> None:
        self.averaged: AveragedModel | None = None
        if self.config.ema is not None:
            self.averaged = AveragedModel(self.model, multi_avg_fn=_warm_average(self.config.ema))

    def _start_round(self) -> None:
        """The method sees the predictions of this round; the model starts again."""
        with fixed_random_state(self.config.seed * 1_000_003 + self.state.finished):
            predictions = mc_dropout(self.evaluated, self.source, self.method.passes)
            self.method.start_round(predictions)
        state, optimizer = self._initial
        self.load_model(state)
        self.optimizer.load_state_dict(copy.deepcopy(optimizer))
        self._start_average()
        self.diagnostics.remember()

    @property
    def _is_finished(self) -> bool:
        epochs = self.phase.epochs * self.method.rounds
        return self.state.is_converged or self.state.finished >= epochs

    # --- epochs ----------------------------------------------------------------------------------

    def _run_epoch(self) -> None:
        state, phase = self.state, self.phase
        if state.finished and state.step == 0 and state.finished % phase.epochs == 0:
            self._start_round()
        epoch = phase.first_epoch + state.finished
        phi = epoch / (self.epochs * self.method.rounds)  # fraction of all epochs finished
        self._began = time.perf_counter() - state.seconds
        with fixed_random_state(self.config.seed):
            batches, resumed = self._batches(epoch), state.step > 0
            train_epoch(self.parallel, self.method, batches, self._step, phi, resumed)
        seconds, parts = state.seconds, distributed.gather((state.loss_sum, state.images))
        self._check_finite()
        record: Epoch = {
            "epoch": epoch + 1,
            "cost": sum(loss for loss, _ in parts) / max(sum(count for _, count in parts), 1),
            "validation_map": self._validate(),
            **self.diagnostics.read(phi),
            "seconds": seconds,
            "images_per_second": len(self.data.training) / max(seconds, 1e-9),
        }
        self._finish_epoch(record)
        self._notify("on_epoch_end")

    def _batches(self, epoch: int) -> Iterator[Batch]:
        """The batches that are left of an epoch. When the next one is asked for, the step and the
        update of the pseudo-labels are finished."""
        state = self.state
        groups = self._groups(epoch)[state.step :]
        self.parallel.train()
        for rows, images in zip(groups, self.source.load(groups, epoch, self.device), strict=True):
            self._seed(epoch, state.step)
            batch = readable_batch(self.source, rows, images, self.method.observed)
            self._is_empty = not len(batch)
            if self._is_empty and distributed.size() > 1:  # all ranks make the same steps
                first, observed = images[:1].nan_to_num(), self.method.observed
                batch = readable_batch(self.source, rows[:1], first, observed)
            if len(batch):
                self._batch = batch
                yield batch
            state.step += 1
            state.seconds = time.perf_counter() - self._began
            self._notify("on_step_end", len(rows) * distributed.size())

    def _groups(self, epoch: int) -> list[Rows]:
        """The rows of each batch; all ranks have the same number of batches."""
        count, rows = len(self.data.training), len(self.rows)
        steps = max(1, min(-(-count // self.config.batch_size), count // distributed.size()))
        seed = self.config.seed + 7919 * distributed.rank()
        (order,) = epoch_groups(rows, rows, seed, epoch, self.source.shards)
        return np.array_split(order, steps)

    def _step(self, loss: Tensor) -> bool:
        """One optimizer step; False if the loss is not finite, on this rank or another."""
        if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.requires_grad:
            raise InputError(
                f"method {self.config.method}: `loss` must return a tensor of one number with a "
                "gradient, such as a mean"
            )
        loss = loss * 0.0 if self._is_empty else loss
        value, state = loss.item(), self.state
        if distributed.any_rank(not np.isfinite(value)):
            self._skip(value)
            return False
        self.optimizer.zero_grad()
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        self.scaler.step(self.optimizer)
        self.scaler.update()
        if self.averaged is not None:
            self.averaged.update_parameters(self.model)
        state.loss_sum += value * len(self._batch)
        state.images += len(self._batch)
        state.non_finite = 0
        return True

    def _skip(self, loss: float) -> None:
        """Report a batch whose loss is not finite; several in a row stop the run."""
        self._notify("on_non_finite", self._batch, loss)
        self.state.non_finite += 1
        if self.state.non_finite == _NON_FINITE:
            raise NumericalStop(
                f"epoch {self.epoch}: the loss is {loss} in {_NON_FINITE} batches in a row; use a "
                "smaller --learning-rate"
            )

    def _check_finite(self) -> None:
        """The loss of a step may be finite while gradients or batch statistics are not."""
        if not all(bool(torch.isfinite(value).all()) for value in self.model.state_dict().values()):
            raise NumericalStop(
                f"epoch {self.epoch}: the weights are not finite; use a smaller --learning-rate"
            )

    def _validate(self) -> float | None:
        """The validation mAP; None if it is undefined."""
        truth = self.data.validation
        if self.validation is None or truth is None or not can_rank(truth.values):
            return None
        scores = predict_all(self.evaluated, self.validation)
        return distributed.broadcast(mean_average_precision(scores, truth.values))

    def _finish_epoch(self, record: Epoch) -> None:
        state, score = self.state, record["validation_map"]
        state.history = [*state.history, record]
        is_first = state.finished % self.phase.epochs == 0  # of the round
        weights = copy_state(self.evaluated)
        if is_first or score is None or state.best_map is None or score > state.best_map:
            state.best_model, state.best_map = weights, score
            state.best_epoch = record["epoch"]
        state.finished += 1
        state.step, state.images, state.loss_sum, state.seconds = 0, 0, 0.0, 0.0
        state.is_converged = distributed.broadcast(self._is_converged())

    def _is_converged(self) -> bool:
        """Whether pseudo-labels and model have been at equilibrium for some epochs."""
        patience, first = self.config.patience, self.phase.first_epoch
        records = [each for each in self.state.history if each["epoch"] > first]
        return 0 < patience <= len(records) and all(map(self._is_quiet, records[-patience:]))

    def _is_quiet(self, record: Epoch) -> bool:
        unresolved, regret, movement = record["unresolved"], record["regret"], record["movement"]
        if unresolved is None or regret is None or movement is None:
            return False
        has_moved = unresolved < 1.0  # pseudo-labels that are all uncertain have not begun to
        is_still = movement < self.config.movement_tolerance
        return has_moved and is_still and regret < self.config.regret_tolerance

    def _seed(self, epoch: int, step: int) -> None:
        """Dropout depends on the step and not on the history of the process."""
        number = ((self.config.seed * 1_000_003 + epoch) * 1_000_003 + step) * 1_000_003
        torch.manual_seed((number + distributed.rank()) % 2**63)

    def _notify(self, event: str, *arguments: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, event)(self, *arguments)


def copy_state(model: nn.Module) -> State:
    """A copy of the weights in main memory."""
    return {
        name: value.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, value in model.state_dict().items()
    }


def _warm_average(decay: float) -> Callable[..., None]:
    """An exponential moving average whose decay grows from 2/11 to its value."""

    @torch.no_grad()
    def average(averages: list[Tensor], weights: list[Tensor], steps: Tensor) -> None:
        now = min(decay, (1.0 + float(steps)) / (10.0 + float(steps)))
        torch._foreach_lerp_(averages, weights, 1.0 - now)

    return average
