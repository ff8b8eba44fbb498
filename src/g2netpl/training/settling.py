"""After the last epoch: a network of shares is made to say chances, by names alone."""

import numpy as np
import numpy.typing as npt
import torch

from g2netpl.base.arrays import Scores
from g2netpl.game.network.predicting import predict_all
from g2netpl.game.network.presence import LEAST_SHOWN, Presence
from g2netpl.images.features import compute_features
from g2netpl.images.loader import Part, Source
from g2netpl.labels.observation import telling
from g2netpl.labels.table import POSITIVE, per_image
from g2netpl.runs.chances import (
    count_to_expect,
    sharpness_by_names,
    shown_by_vectors,
)
from g2netpl.training.session import Session
from g2netpl.training.snapshots import Snapshot, State, load_network

_LOOKED_AT = 4000  # images, whether they have a name
_SETTLED = tuple(
    f"classifier.{name}" for name in ("sharpness", "log_count", "shown", "shown_alike")
)


def settle(session: Session, snapshot: Snapshot) -> None:
    """Calibrate what a network of shares says, where nothing but names is known of presence."""
    classifier, inputs = session.network.classifier, session.inputs
    if not isinstance(classifier, Presence):
        return
    held = inputs.validation(session.mode)
    if held is not None:
        scores = session.predict(snapshot.best_network, held.source)
        if len(telling(held.truth, session.k, scores)):
            return
    drawn, others = _experts(session, snapshot.best_network, inputs.training(session.mode))
    sharpness = 1.0
    if held is not None:
        said, _ = _experts(session, snapshot.best_network, held.source)
        sharpness = sharpness_by_names(said, held.truth)
    shown = _learn_shown(session, classifier, snapshot)
    count = count_to_expect(drawn, sharpness, session.k, others, shown)
    classifier.settle(sharpness, count)
    _keep(session, snapshot)


def _experts(session: Session, state: State, source: Source) -> tuple[Scores, Scores | None]:
    """What the shares say of every image (N, L), and the sigmoids where there are any."""
    load_network(session.learner, state)
    said = predict_all(session.learner, source, processes=session.processes, experts=True)
    classes = len(session.data.table.classes)
    return said[:, :classes], said[:, classes:] if session.network.pools else None


def _learn_shown(
    session: Session, classifier: Presence, snapshot: Snapshot
) -> npt.NDArray[np.float64] | None:
    """How likely an image shows anything, by which images have a name.

    Gives it for every readable training image if k is of all of them; else None.
    """
    visible = session.data.visible.values
    named, unknown = per_image(visible, POSITIVE) > 0, per_image(visible) == 0
    if not unknown.any():
        return None
    of_all = session.config.expected_positives != "estimate"  # else of those with a name
    rows = np.arange(len(named))
    if not of_all and len(rows) > _LOOKED_AT:
        rows = np.random.default_rng(session.config.seed).permutation(rows)[:_LOOKED_AT]
    load_network(session.learner, snapshot.best_network)
    source = Part(session.inputs.training(session.mode), rows)
    vectors = compute_features(session.learner.backbone, source, processes=session.processes)
    readable = np.isfinite(vectors).all(axis=1)
    asked = np.flatnonzero(readable & (named | unknown)[rows])[:_LOOKED_AT]
    found = shown_by_vectors(vectors[asked], named[rows[asked]])
    if found is None:
        return None
    weights, alike = found
    classifier.learn_shown(torch.from_numpy(weights), alike)
    _keep(session, snapshot)
    shown = np.clip(vectors[readable] @ weights + alike, LEAST_SHOWN, 1.0)
    return shown if of_all else None


def _keep(session: Session, snapshot: Snapshot) -> None:
    for state in (snapshot.network, snapshot.best_network):
        state.update({n: v for n, v in session.learner.state_dict().items() if n in _SETTLED})
