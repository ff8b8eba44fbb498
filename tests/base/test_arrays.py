"""Tables in blocks are the tables that numpy would write, and no more of them is in memory."""

import io
import os
import re
from pathlib import Path

import numpy as np
import pytest

from g2netpl import RunConfig, load_run, train
from g2netpl.base import arrays
from g2netpl.base.arrays import Blocks, room, row_blocks, write_npy, write_npz
from g2netpl.training import results as finishing

TABLE = np.random.default_rng(0).random((23, 7)).astype(np.float32)


@pytest.mark.parametrize("whole", [1, 40, 161, 1000])
@pytest.mark.parametrize("shape", [(23, 7), (1, 200), (0, 7), (50, 1)])
def test_blocks_are_all_rows_in_order(monkeypatch, whole, shape):
    monkeypatch.setattr(arrays, "WHOLE", whole)
    monkeypatch.setattr(arrays, "_BLOCK", 20)
    found = list(row_blocks(*shape))
    assert np.concatenate([np.arange(0), *found]).tolist() == list(range(shape[0]))
    assert all(len(rows) * shape[1] <= max(whole, 20) or len(rows) == 1 for rows in found)
    if shape[0] and shape[0] * shape[1] <= whole:
        assert len(found) == 1


@pytest.mark.parametrize("whole", [1, 1000])
@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int8])
def test_the_bytes_are_those_of_numpy(monkeypatch, whole, kind):
    monkeypatch.setattr(arrays, "WHOLE", whole)
    monkeypatch.setattr(arrays, "_BLOCK", 20)
    ours, theirs = io.BytesIO(), io.BytesIO()
    table = Blocks(TABLE.shape, kind, lambda rows: 9 * TABLE[rows])
    write_npy(ours, table)
    np.save(theirs, (9 * TABLE).astype(kind))
    assert ours.getvalue() == theirs.getvalue()


def test_so_are_those_of_an_archive():
    names, mask = np.array(["a", "bcd"]), np.array([True, False])
    ours, theirs = io.BytesIO(), io.BytesIO()
    write_npz(ours, table=Blocks(TABLE.shape, np.float32, TABLE.__getitem__), names=names, m=mask)
    np.savez_compressed(theirs, table=TABLE, names=names, m=mask)
    ours.seek(0)
    theirs.seek(0)
    with np.load(ours, allow_pickle=False) as one, np.load(theirs) as two:
        assert one.files == two.files
        for name in two.files:
            assert one[name].dtype == two[name].dtype
            assert (one[name] == two[name]).all()


def anonymous():
    return int(re.search(r"RssAnon:\s+(\d+)", Path("/proc/self/status").read_text())[1]) * 1024


def test_a_large_table_lies_in_a_file_that_leaves_nothing_behind(tmp_path):
    before = anonymous()
    table = room(tmp_path, (arrays.WHOLE // 8 + 1, 8))
    table[:] = 3.0
    assert anonymous() - before < table.nbytes / 4
    assert (table[::1000] == 3.0).all()
    assert os.listdir(tmp_path) == []
    del table
    small = room(tmp_path, (5, 3))
    assert small.shape == (5, 3)
    assert small.dtype == np.float32


@pytest.mark.parametrize("method", ["g2netpl", "role", "ups", "an"])
def test_a_training_in_blocks_leaves_the_same_behind(small_training, tmp_path, monkeypatch, method):
    def run(name):
        more = {"mode": "linear", "batch_size": 7, "thresholds": "expected"}
        values = small_training(name, method=method, **more)
        train(RunConfig.read(values, "test"))
        return load_run(tmp_path / name)

    whole = run("whole")
    monkeypatch.setattr(arrays, "WHOLE", 30)
    monkeypatch.setattr(arrays, "_BLOCK", 70)
    blocks = run("blocks")
    np.testing.assert_allclose(whole.soft_labels(), blocks.soft_labels(), atol=1e-6, rtol=0)
    assert (whole.observed().values == blocks.observed().values).all()
    assert (whole.has_soft_labels() == blocks.has_soft_labels()).all()
    for name in ("model.safetensors", "logits.npy", "decisions.json", "labels.npz"):
        assert (whole.folder / name).read_bytes() == (blocks.folder / name).read_bytes()
    for key, value in whole.result.items():
        if isinstance(value, float) and key != "seconds":
            assert blocks.result[key] == pytest.approx(value, abs=1e-6)
    monkeypatch.setattr(finishing, "WHOLE", 240)  # 48 × 10 labels, k is met on a quarter of them
    some = run("some")
    assert some.thresholds.rule == "expected"
    assert some.thresholds.per_class[0] == pytest.approx(whole.thresholds.per_class[0], abs=0.1)
    assert some.thresholds.shift != whole.thresholds.shift
