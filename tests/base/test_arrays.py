"""Arrays are written as numpy writes them."""

import io

import numpy as np
import pytest

from g2netpl.base.arrays import write_npy, write_npz

TABLE = np.random.default_rng(0).random((23, 7)).astype(np.float32)


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int8])
def test_the_bytes_are_those_of_numpy(kind):
    ours, theirs = io.BytesIO(), io.BytesIO()
    write_npy(ours, (9 * TABLE).astype(kind))
    np.save(theirs, (9 * TABLE).astype(kind))
    assert ours.getvalue() == theirs.getvalue()


def test_so_are_those_of_an_archive():
    names, mask = np.array(["a", "bcd"]), np.array([True, False])
    ours, theirs = io.BytesIO(), io.BytesIO()
    write_npz(ours, table=TABLE, names=names, m=mask)
    np.savez_compressed(theirs, table=TABLE, names=names, m=mask)
    ours.seek(0)
    theirs.seek(0)
    with np.load(ours, allow_pickle=False) as one, np.load(theirs) as two:
        assert one.files == two.files
        for name in two.files:
            assert one[name].dtype == two[name].dtype
            assert (one[name] == two[name]).all()
