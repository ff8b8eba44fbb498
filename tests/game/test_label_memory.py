"""The memory of the label player, as tensors and as files: the same, whatever happens between."""

import errno
import os

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

from g2netpl.base.processes import Processes
from g2netpl.game import mapped_memory
from g2netpl.game.label_memory import LabelMemory, join_states, load_states
from g2netpl.game.mapped_memory import (
    Checksum,
    MappedMemory,
    MemoryPlace,
    drop_generations,
    generation_of,
)


@pytest.fixture(params=["memory", "files", "small numbers"])
def make(request, tmp_path, monkeypatch):
    """A memory that starts with these rows; in files, one more of the same files."""
    if request.param == "small numbers":
        monkeypatch.setattr(mapped_memory, "WIDE", 0)

    def make(start):
        if request.param == "memory":
            return LabelMemory(start)
        return MappedMemory(tmp_path / "labels", "latents", tuple(start.shape), start)

    return make


def test_an_epoch_reads_the_one_before_and_carries_over_what_nobody_visited(make):
    memory = make(torch.zeros(3, 2))
    memory.write(torch.tensor([1]), torch.ones(1, 2))
    assert memory.read(torch.tensor([1])).tolist() == [[0, 0]]  # not yet
    memory.end_epoch()
    assert memory.previous.tolist() == [[0, 0], [1, 1], [0, 0]]
    memory.write(torch.tensor([0, 2]), torch.full((2, 2), 5.0))
    memory.end_epoch()
    assert memory.previous.tolist() == [[5, 5], [1, 1], [5, 5]]
    assert memory.previous.dtype == memory.read(torch.tensor([0])).dtype == torch.float32


def test_an_epoch_begun_again_gives_the_same_answer(make):
    memory = make(torch.zeros(4, 1))

    def play(rows):
        memory.write(rows, memory.read(rows) * 2 + rows[:, None].float())

    play(torch.arange(4))
    memory.end_epoch()
    saved = {key: value.clone() for key, value in memory.state().items()}
    play(torch.tensor([0, 1]))  # broken off here
    memory.load_state(saved)
    play(torch.arange(4))
    memory.end_epoch()
    assert memory.previous.flatten().tolist() == [0, 3, 6, 9]


def test_the_first_thing_may_be_a_write_or_the_end_of_an_epoch(make):
    memory = make(torch.full((2, 1), 3.0))
    memory.write(torch.tensor([1]), torch.ones(1, 1))
    memory.end_epoch()
    assert memory.previous.tolist() == [[3], [1]]


def test_loaded_state_is_a_copy():
    memory = LabelMemory(torch.zeros(2, 1))
    state = {"latents": torch.ones(2, 1)}
    memory.load_state(state)
    state["latents"].zero_()
    assert memory.previous.tolist() == [[1], [1]]


def test_a_state_that_is_being_saved_does_not_change_while_the_game_goes_on(make):
    memory = make(torch.zeros(3, 2))
    memory.write(torch.tensor([0]), torch.ones(1, 2))
    state = memory.state()
    before = {key: value.clone() for key, value in state.items()}
    memory.write(torch.tensor([2]), torch.ones(1, 2))
    memory.end_epoch()
    memory.write(torch.arange(3), torch.full((3, 2), 7.0))
    memory.end_epoch()
    assert all(torch.equal(value, before[key]) for key, value in state.items())


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
    wide=some.booleans(),
    in_files=some.booleans(),
)
def test_any_writes_interruptions_and_resumes_are_as_good_as_none(
    tmp_path_factory, epochs, crashes, wide, in_files
):
    """A crash goes back to the state saved last; what was written since may be anything."""
    start = torch.arange(ROWS * WIDTH).reshape(ROWS, WIDTH).float() / 7

    def make(name):
        if not in_files:
            return LabelMemory(start)
        folder = tmp_path_factory.mktemp(name)
        return MappedMemory(folder, "latents", (ROWS, WIDTH), start)

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

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mapped_memory, "WIDE", 2**40 if wide else 0)
        whole = make("whole")
        for position in range(len(steps)):
            play(whole, position)
        memory = make("broken")
        saved, position, plan = ({}, 0), 0, list(crashes)
        while position < len(steps):
            if plan and plan[0][0] % len(steps) == position:
                saved = ({k: v.clone() for k, v in memory.state().items()}, position)
            if plan and plan[0][1] % len(steps) == position:
                plan.pop(0)
                state, position = saved
                folder = getattr(memory, "folder", None)
                memory = LabelMemory(start)
                if folder is not None:
                    memory = MappedMemory(folder, "latents", (ROWS, WIDTH), start)
                    spoil(folder, state, memory.dtype)
                if state:
                    memory.load_state(state)
                continue
            play(memory, position)
            position += 1
    assert torch.equal(whole.previous, memory.previous)


def spoil(folder, state, dtype):
    """Fill with garbage what a crash of the machine may have left half written."""
    if not state:
        return
    visited = state.get("visited", torch.zeros(ROWS, dtype=torch.bool)).numpy()
    path = folder / f"latents.{int(state['generation']) + 1}"
    values = np.fromfile(path, dtype).reshape(ROWS, WIDTH)
    values[~visited] = 99
    values.tofile(path)


def filled(folder, rows=50, width=4, epochs=2):
    generator = torch.Generator().manual_seed(0)
    memory = MappedMemory(folder, "latents", (rows, width), 0.5)
    for _ in range(epochs):
        memory.write(torch.arange(rows), torch.randn(rows, width, generator=generator))
        memory.end_epoch()
    memory.write(torch.arange(0, rows, 3), torch.ones(len(range(0, rows, 3)), width))
    return memory


def fresh(folder, rows=50, width=4):
    return MappedMemory(folder, "latents", (rows, width), 0.5)


@pytest.mark.parametrize("wide", [True, False])
def test_every_flipped_bit_of_a_file_is_noticed(tmp_path, monkeypatch, wide):
    monkeypatch.setattr(mapped_memory, "WIDE", 2**40 if wide else 0)
    state = filled(tmp_path).state()
    random = np.random.default_rng(0)
    for generation, rows in ((2, range(50)), (3, range(0, 50, 3))):
        path = tmp_path / f"latents.{generation}"
        whole = path.read_bytes()
        for _ in range(60):
            raw = bytearray(whole)
            size = len(raw) // 50  # bytes of a row
            place = int(random.choice(rows)) * size + int(random.integers(size))
            raw[place] ^= 1 << int(random.integers(8))
            path.write_bytes(raw)
            with pytest.raises(ValueError, match=f"latents.{generation} is damaged"):
                fresh(tmp_path).load_state(state)
        path.write_bytes(whole[:-1])
        with pytest.raises(ValueError, match="missing or has another size"):
            fresh(tmp_path).load_state(state)
        path.write_bytes(whole)
    fresh(tmp_path).load_state(state)


def test_damage_that_looks_regular_is_noticed_too():
    """Signs of two numbers, two rows exchanged, a page of zeros."""
    values = np.random.default_rng(0).normal(size=(64, 8)).astype(np.float32)
    rows, checksum = np.arange(64), Checksum(8)
    whole = checksum.of(rows, values)
    for spoilt in (
        signs(values),
        values[[1, 0, *range(2, 64)]],
        np.where(rows[:, None] < 16, 0, values),
    ):
        assert checksum.of(rows, spoilt.astype(np.float32)) != whole
    order = np.random.default_rng(1).permutation(64)
    assert checksum.of(order, values[order]) == whole
    halves = [checksum.of(rows[part], values[part]) for part in (slice(0, 9), slice(9, 64))]
    assert sum(halves) % 2**64 == whole


def signs(values):
    spoilt = values.copy()
    spoilt[3, 1] *= -1
    spoilt[40, 6] *= -1
    return spoilt


def test_rows_that_are_not_written_yet_may_hold_anything(tmp_path):
    state = filled(tmp_path).state()
    path = tmp_path / "latents.3"
    values = np.fromfile(path, np.float32).reshape(50, 4)
    values[1::3] = np.nan
    values.tofile(path)
    memory = fresh(tmp_path)
    memory.load_state(state)
    memory.end_epoch()
    assert torch.isfinite(memory.previous).all()
    assert (memory.previous[::3] == 1).all()


def test_space_is_reserved_before_it_is_needed(tmp_path, monkeypatch):
    memory = MappedMemory(tmp_path, "latents", (1000, 100), 0.5)
    assert memory.read(torch.tensor([0])).tolist() == [[0.5] * 100]
    for path in tmp_path.iterdir():
        assert path.stat().st_blocks * 512 >= path.stat().st_size == 400_000

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left") as caught:
        memory.end_epoch()
    assert caught.value.filename == str(tmp_path / "latents.2")


def test_a_file_system_that_cannot_reserve_will_do(tmp_path, monkeypatch):
    def cannot(*_):
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "posix_fallocate", cannot)
    assert filled(tmp_path).generation == 2


def test_generations_are_removed_when_nobody_needs_them(tmp_path):
    memory = filled(tmp_path, epochs=4)
    (tmp_path / "latents.note").write_text("of somebody else")
    assert generation_of(join_states({"latents": memory})) == generation_of(memory.state()) == 4
    assert generation_of(LabelMemory(torch.zeros(2, 2)).state()) is None
    drop_generations(tmp_path, before=3)
    assert {path.name for path in tmp_path.iterdir()} == {
        *("latents.3", "latents.4", "latents.5"),
        "latents.note",
    }


def test_small_numbers_are_near(tmp_path, monkeypatch):
    exact = filled(tmp_path / "wide")
    monkeypatch.setattr(mapped_memory, "WIDE", 0)
    small = filled(tmp_path / "small")
    assert small.dtype == np.float16
    assert (tmp_path / "small" / "latents.2").stat().st_size == 50 * 4 * 2
    error = (small.previous.sigmoid() - exact.previous.sigmoid()).abs().max()
    assert 0 < float(error) < 4e-4


def test_the_first_rank_writes_the_files_and_all_read_them(tmp_path):
    class Rank(Processes):
        size = 2

        def __init__(self, rank):
            self.rank = rank

    ranks = [MappedMemory(tmp_path, "latents", (6, 2), 0.5, Rank(rank)) for rank in (0, 1)]
    alone = MappedMemory(tmp_path / "alone", "latents", (6, 2), 0.5)
    for rows in (torch.tensor([4, 0, 3]), torch.tensor([1])):
        for memory in (*ranks, alone):
            memory.write(rows, memory.read(rows) + rows[:, None])
    for _ in range(2):
        states = [memory.state() for memory in (ranks[0], alone)]
        assert all(torch.equal(value, states[1][key]) for key, value in states[0].items())
        for memory in (*ranks, alone):
            memory.end_epoch()
    for memory in ranks:
        assert torch.equal(memory.previous, alone.previous)


def test_several_memories_are_one_state(tmp_path):
    place = MemoryPlace(tmp_path, limit=0)
    device = torch.device("cpu")
    both = {name: place.memory(name, (3, 2), 0.0, device) for name in ("one", "two")}
    both["two"].write(torch.tensor([1]), torch.ones(1, 2))
    state = join_states(both)
    again = {name: place.memory(name, (3, 2), 0.0, device) for name in ("one", "two")}
    load_states(again, state)
    for memory in again.values():
        memory.end_epoch()
    assert again["one"].previous.tolist() == [[0, 0]] * 3
    assert again["two"].previous.tolist() == [[0, 0], [1, 1], [0, 0]]
