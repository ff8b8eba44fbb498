"""One step that nobody remembers, before old results are touched: what a flag breaks shows here."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from g2netpl.base.errors import InputError
from g2netpl.game.batches import Batch, readable_batch, stacked_views, strong_view
from g2netpl.game.methods import find_method
from g2netpl.game.network.network import any_batch_size
from g2netpl.game.network.optimizers import make_optimizer
from g2netpl.images.loader import epoch_groups, shards_in
from g2netpl.labels.table import POSITIVE
from g2netpl.runs.config import RunConfig
from g2netpl.training.epochs import NumericalStop
from g2netpl.training.session import Phase, Session


def rehearse(session: Session) -> None:
    """Take one step of every phase and go back, or say what stands against it."""
    config, processes = session.config, session.processes
    for phase in session.phases:
        part = session.inputs.training(phase.mode)
        order = (config.seed, phase.first_epoch, shards_in(part))
        groups = epoch_groups(len(part), config.batch_size, *order)
        rows = processes.shares(groups[0])[processes.rank]
        mine = [rows] if len(rows) else []
        with _told(config):
            for inputs in part.load(mine, phase.first_epoch, session.device):
                batch = readable_batch(rows, inputs, session.observed)
                if len(batch):
                    _try_step(session, phase, batch)


def _try_step(session: Session, phase: Phase, batch: Batch) -> None:
    """Let the network take a step, look at what it says then, and put its weights back."""
    network = session.part_of_network(phase.mode)
    rate, training = session.rate(phase.mode), network.training
    before = {name: value.clone() for name, value in network.state_dict().items()}
    optimizer = make_optimizer(session.config.optimizer, network.parameters(), rate)
    two_views = find_method(session.config.method).two_views
    seen = (stacked_views if two_views else strong_view)(batch.inputs)
    wanted = (batch.observed == POSITIVE).float()
    network.train()
    try:
        with torch.random.fork_rng(devices=[]):
            for _ in range(2):
                with session.accelerator.autocast(), any_batch_size(network, len(seen)):
                    logits = network(seen)
                targets = wanted.repeat(len(logits) // len(wanted), 1)  # of several views
                cost = binary_cross_entropy_with_logits(logits.float(), targets)
                optimizer.zero_grad()
                cost.backward()  # type: ignore[no-untyped-call]
                if _are_numbers(network):
                    optimizer.step()
    finally:
        network.zero_grad()
        network.load_state_dict(before)
        network.train(training)
    if not torch.isfinite(cost.detach()):
        raise NumericalStop(
            f"learning rate {rate:g}: after one step the network's cost is {cost.item()}; use a "
            "smaller learning rate"
        )


def _are_numbers(network: nn.Module) -> bool:
    """Whether all gradients are; 16-bit ones that are not are left out by the training too."""
    gradients = (each.grad for each in network.parameters() if each.grad is not None)
    return all(bool(torch.isfinite(gradient).all()) for gradient in gradients)


@contextmanager
def _told(config: RunConfig) -> Iterator[None]:
    """Too little memory is one line."""
    try:
        yield
    except (MemoryError, RuntimeError) as problem:
        if isinstance(problem, RuntimeError) and "memory" not in str(problem):
            raise
        raise InputError(
            f"image_size {config.image_size:,}, batch_size {config.batch_size:,}: one step needs "
            "more memory than there is; make one of them smaller"
        ) from None
