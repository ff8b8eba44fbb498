"""The memory of the label player: the same, whatever happens between."""

import torch
from hypothesis import given
from hypothesis import strategies as some

from g2netpl.game.label_memory import LabelMemory


def test_an_epoch_reads_the_one_before_and_carries_over_what_nobody_visited():
    memory = LabelMemory(torch.zeros(3, 2))
    memory.write(torch.tensor([1]), torch.ones(1, 2))
    assert memory.read(torch.tensor([1])).tolist() == [[0, 0]]  # not yet
    memory.end_epoch()
    assert memory.previous.tolist() == [[0, 0], [1, 1], [0, 0]]
    memory.write(torch.tensor([0, 2]), torch.full((2, 2), 5.0))
    memory.end_epoch()
    assert memory.previous.tolist() == [[5, 5], [1, 1], [5, 5]]
    assert memory.previous.dtype == memory.read(torch.tensor([0])).dtype == torch.float32


ROWS, WIDTH = 7, 3


def batches_of(rows):
    """Some of the rows, in any order, three at a time: an image is visited once, or missed."""
    return [rows[start : start + 3] for start in range(0, len(rows), 3)]


@given(
    epochs=some.lists(
        some.lists(some.integers(0, ROWS - 1), unique=True).map(batches_of),
        min_size=1,
        max_size=4,
    ),
    crashes=some.lists(some.tuples(some.integers(0, 15), some.integers(0, 15)), max_size=4),
)
def test_any_writes_interruptions_and_resumes_are_as_good_as_none(epochs, crashes):
    """A crash goes back to the state saved last; what was written since may be anything."""
    start = torch.arange(ROWS * WIDTH).reshape(ROWS, WIDTH).float() / 7
    steps = [batch for batches in epochs for batch in [*batches, None]]

    def play(memory, position):
        """A batch, or the end of an epoch; what is written depends on what was read."""
        batch = steps[position]
        if batch is None:
            memory.end_epoch()
            return
        rows = torch.tensor(batch)
        memory.write(rows, torch.full((len(rows), WIDTH), 5.0))  # a player may think twice
        memory.write(rows, memory.read(rows) * 0.7 + 0.01 * position + rows[:, None] / 3)

    whole, memory = LabelMemory(start), LabelMemory(start)
    for position in range(len(steps)):
        play(whole, position)
    saved, position, plan = ({}, 0), 0, list(crashes)
    while position < len(steps):
        if plan and plan[0][0] % len(steps) == position:
            saved = ({k: v.clone() for k, v in memory.state().items()}, position)
        if plan and plan[0][1] % len(steps) == position:
            plan.pop(0)
            state, position = saved
            memory = LabelMemory(start)
            if state:
                memory.load_state(state)
            continue
        play(memory, position)
        position += 1
    assert torch.equal(whole.previous, memory.previous)
