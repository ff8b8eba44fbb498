"""Observed labels of a training: the same answers from a matrix and from the known labels alone."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from g2netpl.game import observed as module
from g2netpl.game.batches import readable_batch, training_batches
from g2netpl.game.methods import METHODS, make_player, needs_of
from g2netpl.game.network.network import build_network
from g2netpl.game.observed import ObservedLabels, Runs
from g2netpl.game.player import Setup
from g2netpl.images.loader import ArraySource
from g2netpl.labels.entries import Entries
from g2netpl.training.epochs import Schedule, fit

LABELS = st.sampled_from([-1] * 12 + [0, 1])
matrices = arrays(np.int8, st.tuples(st.integers(1, 9), st.integers(1, 6)), elements=LABELS)


@pytest.fixture
def sparse(monkeypatch):
    """No matrix is small enough, as far as the known labels take less."""
    monkeypatch.setattr(module, "LARGEST_MATRIX", 0)


def forms(matrix):
    """A matrix in every form that labels come in."""
    return (matrix, torch.from_numpy(matrix), Entries.of_matrix(matrix))


@given(matrices, st.data())
def test_every_form_answers_as_the_tensor_does(matrix, data):
    tensor = torch.from_numpy(matrix)
    rows = st.integers(0, len(matrix) - 1)
    index = torch.tensor(data.draw(st.lists(rows, max_size=12)), dtype=torch.int64)
    expected = tensor.index_select(0, index)
    few = 5 * (matrix != -1).sum() < matrix.size
    for largest in (matrix.size, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "LARGEST_MATRIX", largest)
            made = [ObservedLabels.of(form) for form in forms(matrix)]
        for each in [*made, made[0].to("cpu"), ObservedLabels.of(made[1])]:
            assert isinstance(each.held, Runs if few and not largest else torch.Tensor)
            assert each.shape == matrix.shape
            assert len(each) == len(matrix)
            assert each.device == tensor.device
            assert each.rows(index).dtype == torch.int8
            assert torch.equal(each.rows(index), expected)
            assert torch.equal(each.whole(), tensor)
            assert each.has_negatives == bool((matrix == 0).any())
            assert each.known_fraction == (matrix != -1).sum() / matrix.size


def test_a_small_tensor_is_not_copied():
    tensor = torch.full((3, 2), -1, dtype=torch.int8)
    made = ObservedLabels.of(tensor)
    assert made.held is tensor
    assert ObservedLabels.of(made) is made
    assert Setup(made, 1.0, 1e-3).observed is made
    assert Setup(tensor, 1.0, 1e-3).observed.held is tensor


def test_the_table_of_a_user_is_not_shared():
    matrix = np.zeros((2, 2), dtype=np.int8)
    made = ObservedLabels.of(matrix)
    matrix[:] = 1
    assert not made.whole().any()


def test_no_images_at_all():
    made = ObservedLabels.of(Entries.nothing(0, 3))
    assert (len(made), made.known_fraction, made.has_negatives) == (0, 0.0, False)


def test_a_million_images_take_what_their_labels_take():
    rows = np.arange(1_000_000)
    entries = Entries.of_pairs((1_000_000, 10_000), rows, rows % 10_000, np.ones_like(rows))
    made = ObservedLabels.of(entries)
    assert isinstance(made.held, Runs)
    assert sum(each.nbytes for each in made.held) == 8 * 1_000_001 + 5 * 1_000_000
    index = torch.tensor([999_999, 0, 12_345])
    labels = made.rows(index)
    assert labels.shape == (3, 10_000)
    assert labels.argmax(dim=1).tolist() == [9_999, 0, 2_345]
    assert (labels != -1).sum(dim=1).tolist() == [1, 1, 1]


@pytest.mark.usefixtures("sparse")
def test_batches_of_sparse_labels_are_those_of_the_tensor():
    tensor = torch.full((30, 9), -1, dtype=torch.int8)
    tensor[torch.arange(30), torch.arange(30) % 9] = 1
    tensor[::4, 0] = 0
    assert isinstance(ObservedLabels.of(tensor).held, Runs)
    inputs = torch.arange(30.0)[:, None]
    for batch in training_batches(ArraySource(inputs), tensor, 7, 0, 0):
        assert torch.equal(batch.observed, tensor[batch.rows])
        assert torch.equal(batch.inputs[:, 0].long(), batch.rows)
    inputs[3] = torch.nan
    batch = readable_batch(np.array([2, 3, 4]), inputs[2:5], ObservedLabels.of(tensor))
    assert batch.rows.tolist() == [2, 4]
    assert torch.equal(batch.observed, tensor[[2, 4]])


RANDOM = np.random.default_rng(0)
INPUTS = torch.from_numpy(RANDOM.normal(size=(40, 6)).astype(np.float32))
SEEN = np.full((40, 7), -1, dtype=np.int8)
SEEN[np.arange(40), RANDOM.integers(0, 7, 40)] = RANDOM.integers(0, 2, 40)
VARIANTS = [(name, {}) for name in METHODS] + [
    ("g2netpl", {"momentum": 0.5}),
    ("g2netpl", {"response": "best_response"}),
    ("ll-cp", {"rate": 0.3}),
]


def train(method, options, observed):
    dropout = needs_of(method, options).dropout
    network = build_network("features", 7, width=6, dropout=dropout, seed=0)
    player = make_player(method, options, Setup(observed, 1.4, 0.02, 0))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    fit(network, player, ArraySource(INPUTS), observed, 1.4, optimizer, Schedule(2, 16, 0))
    return network, player


@pytest.mark.parametrize(("method", "options"), VARIANTS)
def test_a_training_does_not_care_how_its_labels_are_held(method, options, monkeypatch):
    network, player = train(method, options, ObservedLabels.of(SEEN))
    monkeypatch.setattr(module, "LARGEST_MATRIX", 0)
    other_network, other = train(method, options, ObservedLabels.of(Entries.of_matrix(SEEN)))
    for name, value in network.state_dict().items():
        assert torch.equal(value, other_network.state_dict()[name])
    state = other.state()
    assert all(torch.equal(value, state[name]) for name, value in player.state().items())
    rows = torch.tensor([7, 0, 39, 7])
    whole = player.soft_labels()
    for each in (player, other):
        if whole is None:
            assert each.soft_labels(rows) is None
        else:
            assert torch.equal(each.soft_labels(), whole)
            torch.testing.assert_close(each.soft_labels(rows), whole[rows], atol=1e-7, rtol=1e-6)
