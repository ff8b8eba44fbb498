"""Labels as entries say in every operation what the same labels say as a matrix."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from g2netpl.base.errors import InputError
from g2netpl.labels import entries
from g2netpl.labels import table as labels
from g2netpl.labels.entries import Entries
from g2netpl.labels.formats.twins import say_the_same
from g2netpl.labels.observation import from_both_signs, from_complete
from g2netpl.labels.settings import Setting, observe
from g2netpl.labels.table import LabelTable, repeated
from g2netpl.runs.metrics import can_rank

SHAPES = st.tuples(st.integers(0, 8), st.integers(1, 6))
LABELS = st.sampled_from([-1, -1, -1, 0, 1])
matrices = arrays(np.int8, SHAPES, elements=LABELS)
filled = arrays(np.int8, st.tuples(st.integers(1, 8), st.integers(1, 6)), elements=LABELS)
VALUES = (None, 0, 1)


def known_as(matrix, value):
    return matrix != -1 if value is None else matrix == value


@given(matrices)
def test_a_matrix_comes_back(matrix):
    made = Entries.of_matrix(matrix)
    assert made.shape == matrix.shape
    assert made.known == (matrix != -1).sum()
    assert made.matrix().dtype == np.int8
    assert (made.matrix() == matrix).all()
    assert (made.matrix(unknown=0) == np.maximum(matrix, 0)).all()
    assert made == Entries.of_matrix(matrix.copy())


@given(filled, st.data())
def test_one_other_label_is_another_table(matrix, data):
    row = data.draw(st.integers(0, matrix.shape[0] - 1))
    column = data.draw(st.integers(0, matrix.shape[1] - 1))
    other = matrix.copy()
    other[row, column] = {-1: 0, 0: 1, 1: -1}[int(matrix[row, column])]
    assert Entries.of_matrix(matrix) != Entries.of_matrix(other)
    assert Entries.of_matrix(matrix) != Entries.of_matrix(np.pad(matrix, ((0, 0), (0, 1))))
    assert Entries.of_matrix(matrix) != matrix


@given(filled, st.data())
def test_rows_that_say_the_same_and_some_of_the_classes(matrix, data):
    made = Entries.of_matrix(matrix)
    rows = st.lists(st.integers(0, matrix.shape[0] - 1), min_size=4, max_size=4)
    some, others = np.array(data.draw(rows)), np.array(data.draw(rows))
    same = [(matrix[a] == matrix[b]).all() for a, b in zip(some, others, strict=True)]
    for form in (made, matrix):
        assert say_the_same(form, some, others).tolist() == same
    classes = data.draw(st.lists(st.integers(0, matrix.shape[1] - 1), unique=True))
    assert (entries.of_classes(made, classes).matrix() == matrix[:, classes]).all()
    assert (entries.of_classes(matrix, classes) == matrix[:, classes]).all()


@given(matrices)
def test_counts_and_pairs(matrix):
    made = Entries.of_matrix(matrix)
    for value in VALUES:
        asked = known_as(matrix, value)
        for form in (matrix, made):
            assert entries.per_class(form, value).tolist() == asked.sum(axis=0).tolist()
            assert entries.per_image(form, value).tolist() == asked.sum(axis=1).tolist()
            if value is not None:
                found = list(zip(*entries.pairs(form, value), strict=True))
                assert found == [tuple(pair) for pair in np.argwhere(asked)]


@given(filled, st.data())
def test_rows_are_taken_as_from_a_matrix(matrix, data):
    made = Entries.of_matrix(matrix)
    count = len(matrix)
    rows = data.draw(st.lists(st.integers(-count, count - 1), max_size=12))
    assert (made.take(rows).matrix() == matrix[np.array(rows, dtype=int)]).all()
    assert (entries.dense(made, rows) == entries.dense(matrix, rows)).all()
    assert made.take(range(count)) == made
    with pytest.raises(IndexError):
        made.take([count])
    start = data.draw(st.integers(0, count))
    stop = data.draw(st.integers(start, count))
    assert (made.part(start, stop).matrix() == matrix[start:stop]).all()
    more = np.full((2, matrix.shape[1]), -1)
    assert (made.followed_by(2).matrix() == np.vstack([matrix, more])).all()


@given(matrices, st.sampled_from([1, 3, 7, 1 << 20]))
def test_blocks_put_together_are_the_whole(matrix, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entries, "_BLOCK", size)
        for form in (matrix, Entries.of_matrix(matrix)):
            found = list(entries.blocks(form))
            places = np.concatenate([start + np.arange(len(part)) for start, part in found] or [[]])
            assert places.tolist() == list(range(len(matrix)))
            if found:
                whole = entries.stacked([part for _, part in found])
                assert type(whole) is type(form)
                assert (entries.dense(whole, range(len(matrix))) == matrix).all()


@given(filled, st.data())
def test_classes_move_alike(matrix, data):
    classes = matrix.shape[1] + data.draw(st.integers(0, 2))
    places = data.draw(st.permutations(range(classes)))[: matrix.shape[1]]
    moved = entries.with_columns(Entries.of_matrix(matrix), places, classes).matrix()
    assert (moved == entries.with_columns(matrix, places, classes)).all()
    assert (moved[:, places] == matrix).all()
    assert (np.delete(moved, places, axis=1) == -1).all()


@given(SHAPES, st.data())
def test_pairs_in_any_order_and_named_twice(shape, data):
    if not shape[0]:
        return
    named = data.draw(
        st.lists(
            st.tuples(
                st.integers(0, shape[0] - 1), st.integers(0, shape[1] - 1), st.integers(0, 1)
            ),
            max_size=20,
        )
    )
    expected = np.full(shape, -1)
    for row, column, sign in named:
        expected[row, column] = max(expected[row, column], sign)
    rows, columns, signs = (np.array([each[at] for each in named], dtype=int) for at in range(3))
    assert (Entries.of_pairs(shape, rows, columns, signs).matrix() == expected).all()


@given(matrices)
def test_together_the_positive_wins(matrix):
    positive = np.where(matrix == 1, matrix, -1).astype(np.int8)
    negative = np.where(matrix == 0, matrix, -1).astype(np.int8)
    parts = [positive, negative]
    assert (entries.together(parts) == matrix).all()
    assert (entries.together([Entries.of_matrix(part) for part in parts]).matrix() == matrix).all()


@pytest.mark.parametrize(
    ("starts", "columns", "signs", "message"),
    [
        ([1, 1], [0], [1], "begin with 0"),
        ([0, 2, 1], [0], [1], "never fall"),
        ([0, 2], [0], [1], "starts end at 2"),
        ([0, 1], [0], [1, 1], "1 classes and 2 signs"),
        ([0, 1], [3], [1], "from 0 to 2"),
        ([0, 1], [-1], [1], "from 0 to 2"),
        ([0, 1], [0], [-1], "expected 1"),
        ([0, 2], [1, 0], [1, 1], "in order, each once"),
        ([0, 2], [1, 1], [1, 1], "in order, each once"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(starts, columns, signs, message):
    with pytest.raises(InputError, match=message):
        Entries(np.array(starts), np.array(columns), np.array(signs), 3)


def test_entries_cannot_be_changed():
    made = Entries.of_matrix(np.array([[1, -1]], dtype=np.int8))
    for array in (made.starts, made.columns, made.signs):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(TypeError, match="unhashable"):
        hash(made)


def both(matrix):
    """The same table, held as a matrix and as entries."""
    names = tuple(f"{row}.jpg" for row in range(len(matrix)))
    classes = tuple(f"class {column}" for column in range(matrix.shape[1]))
    forms = (matrix, Entries.of_matrix(matrix))
    return [LabelTable(names, classes, form) for form in forms]


def same(one, other):
    assert one.images == other.images
    assert one.classes == other.classes
    assert (one.values == other.values).all()
    assert one.entries == other.entries
    assert one.known == other.known == (one.values != -1).sum()
    assert one.labelled.tolist() == other.labelled.tolist() == (one.values != -1).any(1).tolist()
    assert one.is_complete == other.is_complete == (one.values != -1).all()
    assert one.observed_fraction == other.observed_fraction
    assert one.fingerprint() == other.fingerprint()
    assert [row.tolist() for row in other.rows()] == one.values.tolist()
    return True


@given(matrices, st.data())
def test_a_table_does_not_care_how_it_is_held(matrix, data):
    dense, sparse = both(matrix)
    assert same(dense, sparse)
    assert isinstance(sparse.held, Entries)
    rows = data.draw(st.permutations(range(len(matrix))))[: len(matrix) // 2 + 1]
    assert same(dense.take(rows), sparse.take(rows))
    assert isinstance(sparse.take(rows).held, Entries)
    assert (sparse.dense(rows) == dense.values[np.array(rows, dtype=int)]).all()
    more = ["new", "another"]
    assert same(dense.with_unlabelled(more), sparse.with_unlabelled(more))
    assert isinstance(sparse.with_unlabelled(more).held, Entries)
    flipped = np.where(matrix == 1, 0, matrix)
    assert same(
        dense.with_values(flipped), dense.with_values(Entries.of_matrix(flipped.astype(np.int8)))
    )
    assert sparse.with_notes(["told"]).notes == ("told",)
    with pytest.raises(ValueError, match="read-only"):
        sparse.values[:1] = 0


@given(filled, filled)
def test_the_fingerprint_of_a_large_table_tells_tables_apart_too(matrix, other):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(labels, "_LARGE", 0)
        patch.setattr(entries, "_BLOCK", 4)
        prints = {table.fingerprint() for table in both(matrix)}
        assert len(prints) == 1
        alike = matrix.shape == other.shape and bool((matrix == other).all())
        assert (both(other)[1].fingerprint() in prints) == alike


def test_the_fingerprint_is_a_hash_of_names_and_bytes():
    dense, sparse = both(np.array([[1, -1], [0, 1]], dtype=np.int8))
    content = b"0.jpg\x001.jpg\x01class 0\0class 1\x01" + bytes([1, 255, 0, 1])
    expected = hashlib.sha256(content).hexdigest()
    assert dense.fingerprint() == sparse.fingerprint() == expected


def test_long_lists_of_names_are_hashed_as_one_text(monkeypatch):
    (table, _), before = both(np.ones((7, 3), dtype=np.int8)), labels._NAMES
    expected = table.fingerprint()
    for size in (1, 2, 3, before):
        monkeypatch.setattr(labels, "_NAMES", size)
        assert table.fingerprint() == expected


def test_a_matrix_that_is_too_large_is_refused_in_one_line():
    names = tuple(map(str, range(100_000)))
    table = LabelTable(names, names[:50_000], Entries.nothing(100_000, 50_000))
    with pytest.raises(InputError, match=r"100,000 images × 50,000 classes.* 4\.7 GB") as caught:
        _ = table.values
    assert "\n" not in str(caught.value)
    assert table.known == 0
    assert not table.labelled.any()
    assert table.dense([7]).shape == (1, 50_000)


def test_a_table_of_entries_checks_its_shape():
    with pytest.raises(InputError, match="2 images × 1 classes, got shape"):
        LabelTable(("a", "b"), ("x",), Entries.nothing(1, 1))


@given(st.lists(st.sampled_from(["a", "b", "c", "d", ""]), max_size=8))
def test_repeated_names_are_found_with_their_first_place(names):
    expected = [(at, names.index(name)) for at, name in enumerate(names) if name in names[:at]]
    assert repeated(names) == expected


SETTINGS = (
    "fspl",
    "sspl:0.4",
    "positives:1+1",
    "positives:0+2",
    "positives:9+9",
    "known:0.5",
    "biased:frequency",
    "fspl@spml",
    "positives:2+1@spml",
)


@pytest.mark.parametrize("name", SETTINGS)
@given(matrix=matrices, seed=st.integers(0, 99), size=st.sampled_from([1, 5, 1 << 20]))
def test_settings_show_the_same_labels_of_either_form(name, matrix, seed, size):
    dense, sparse = both(matrix)
    whole = observe(dense, Setting.parse(name), seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entries, "_BLOCK", size)
        parts = [observe(table, Setting.parse(name), seed) for table in (dense, sparse)]
    assert isinstance(parts[1].held, Entries)
    assert same(whole, parts[0])
    assert same(whole, parts[1])


def test_random_numbers_are_drawn_for_the_whole_matrix_at_once():
    # the rules written down for a whole matrix; 20,000 × 70 cells are more than one block
    random = np.random.default_rng(3)
    matrix = (random.random((20_000, 70)) < 0.1).astype(np.int8)
    matrix[random.random(matrix.shape) < 0.3] = -1
    for table in both(matrix):
        stream = np.random.default_rng([5, 0x6F62])
        race = np.where(matrix == 1, stream.exponential(size=matrix.shape), np.inf)
        visible = observe(table, Setting.parse("fspl"), 5).values
        expected = np.where((matrix == 1).any(axis=1), race.argmin(axis=1), -1)
        assert (np.where((visible == 1).any(axis=1), visible.argmax(axis=1), -1) == expected).all()

        stream = np.random.default_rng([5, 0x6F62])
        expected = np.where(stream.random(matrix.shape) < 0.2, matrix, -1)
        assert (observe(table, Setting.parse("known:0.2"), 5).values == expected).all()

        stream = np.random.default_rng([5, 0x6F62])
        expected = np.full(matrix.shape, -1)
        for value, count in ((1, 2), (0, 3)):
            lottery = np.where(matrix == value, stream.random(matrix.shape), np.inf)
            rank = lottery.argsort(axis=1).argsort(axis=1)
            expected[(matrix == value) & (rank < count)] = value
        assert (observe(table, Setting.parse("positives:2+3"), 5).values == expected).all()


@given(filled)
def test_what_can_be_ranked_and_expected_is_the_same(matrix):
    made = Entries.of_matrix(matrix)
    ranked = any((column == 1).any() and (column == 0).any() for column in matrix.T)
    assert can_rank(matrix) == can_rank(made) == ranked
    tall = np.vstack([matrix] * 12)
    for estimate in (from_complete, from_both_signs):
        assert estimate(tall) == estimate(Entries.of_matrix(tall))
    complete = tall[(tall != -1).all(axis=1)]
    if len(complete) and (complete == 0).any():
        assert from_complete(tall) == pytest.approx((complete == 1).sum() / len(complete))
