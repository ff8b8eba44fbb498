import torch

from g2netpl.store import LabelStore


def test_an_epoch_reads_the_one_before_and_carries_over_what_nobody_visited():
    store = LabelStore(torch.zeros(3, 2))
    store.write(torch.tensor([1]), torch.ones(1, 2))
    assert store.read(torch.tensor([1])).tolist() == [[0, 0]]  # not yet
    store.end_epoch()
    assert store.previous.tolist() == [[0, 0], [1, 1], [0, 0]]
    store.write(torch.tensor([0, 2]), torch.full((2, 2), 5.0))
    store.end_epoch()
    assert store.previous.tolist() == [[5, 5], [1, 1], [5, 5]]


def test_an_epoch_begun_again_gives_the_same_answer():
    store = LabelStore(torch.zeros(4, 1))

    def play(rows):
        store.write(rows, store.read(rows) * 2 + rows[:, None].float())

    play(torch.arange(4))
    store.end_epoch()
    saved = {key: value.clone() for key, value in store.state().items()}
    play(torch.tensor([0, 1]))  # broken off here
    store.load_state(saved)
    play(torch.arange(4))
    store.end_epoch()
    assert store.previous.flatten().tolist() == [0, 3, 6, 9]


def test_loaded_state_is_a_copy():
    store = LabelStore(torch.zeros(2, 1))
    state = {"latents": torch.ones(2, 1)}
    store.load_state(state)
    state["latents"].zero_()
    assert store.previous.tolist() == [[1], [1]]
