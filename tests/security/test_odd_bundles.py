"""Bundles of a stranger: no other file is read, every answer is checked, and all is one line."""

import json

import numpy as np
import pytest
from PIL import Image

from g2netpl import load_bundle
from g2netpl.cli import main
from g2netpl.utils.errors import InputError

pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")
onnx = pytest.importorskip("onnx", reason="the extra 'export' is not installed")

from onnx import helper  # noqa: E402

FLOAT, UINT8 = onnx.TensorProto.FLOAT, onnx.TensorProto.UINT8
WEIGHT = np.float32([[0.01, -0.01], [0.02, 0.01], [0, -0.005]])
ABOUT = {
    "format": 2,
    "classes": ["cat", "dog"],
    "image_size": 8,
    "mean": [0.5, 0.5, 0.5],
    "std": [0.2, 0.2, 0.2],
    "temperature": 1.0,
    "shift": 0.0,
    "thresholds": [0.5, None],
    "rule": "f1",
    "basis": "10 validation images",
    "training": {},
}
node, value_info = helper.make_node, helper.make_tensor_value_info
PIXELS = value_info("pixels", UINT8, ["batch", 8, 8, 3])
SCORES = value_info("scores", FLOAT, ["batch", 2])
SUMS = (
    node("Cast", ["pixels"], ["numbers"], to=FLOAT),
    node("ReduceMean", ["numbers"], ["means"], axes=[1, 2], keepdims=0),
    node("MatMul", ["means", "w"], ["sums"]),
)
LAST = node("Sigmoid", ["sums"], ["scores"])


def weight(name="w", location=None, shape=(3, 2)):
    """The only tensor of the network, whose data may lie in another file."""
    tensor = onnx.numpy_helper.from_array(WEIGHT.reshape(shape), name)
    if location is not None:
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=location)
    return tensor


def constant(name, value):
    return node("Constant", [], [name], value=onnx.numpy_helper.from_array(np.asarray(value)))


def model(nodes=(*SUMS, LAST), tensors=None, ends=((PIXELS,), (SCORES,)), opset=13, **about):
    """A network that scores the mean colour of an image; `text` replaces the metadata."""
    tensors = [weight()] if tensors is None else tensors
    graph = helper.make_graph(nodes, "graph", *ends, tensors)
    domains = {each.domain for each in nodes} - {"", "ai.onnx"}
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(name, 1) for name in domains)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    text = about.pop("text", None) or json.dumps(ABOUT | about)
    helper.set_model_props(made, {"g2netpl": text})
    return made


def ending(*nodes):
    return model((*SUMS, *nodes))


def content_of(made):
    return made if isinstance(made, bytes) else made.SerializeToString()


def field(number, content):
    """A field of protobuf that holds bytes."""
    size, rest = b"", len(content)
    while rest > 127:
        size, rest = size + bytes([rest & 127 | 128]), rest >> 7
    return bytes([number << 3 | 2]) + size + bytes([rest]) + content


@pytest.fixture
def predict(tmp_path, monkeypatch, capfd):
    """Score three images with such a bundle; gives the exit code and what was said."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    for number in range(3):
        pixels = np.full((8, 8, 3), 80 * number, dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "photos" / f"{number}.png")
    (tmp_path / "secret").write_bytes(WEIGHT.tobytes())

    def run(made):
        (tmp_path / "b.onnx").write_bytes(content_of(made))
        flags = ["--images", "photos", "--output", "scores.csv", "--workers", "0", "--overwrite"]
        code = main(["predict", "b.onnx", *flags])
        shown = capfd.readouterr()
        assert (tmp_path / "scores.csv").exists() == bool(shown.out) == (code == 0)
        return code, shown.err

    return run


def is_one_line(said):
    return said.count("\n") == 1 and said.strip().isprintable() and len(said) < 700


def sound():
    """Files that are in order, though not all are as we would write them."""
    plain = model()
    return {
        "plain": plain,
        "in two parts": model(tensors=[]).SerializeToString()
        + field(7, onnx.GraphProto(initializer=[weight()]).SerializeToString()),
    }


@pytest.mark.parametrize("name", sound())
def test_a_sound_bundle_gives_the_scores_that_its_graph_says(name, predict, tmp_path):
    assert predict(sound()[name]) == (0, "")
    rows = [line.split(",") for line in (tmp_path / "scores.csv").read_text().splitlines()]
    assert rows[0] == ["image", "labels", "cat", "dog"]
    for number, row in enumerate(rows[1:]):
        expected = 1 / (1 + np.exp(-np.full(3, 80.0 * number) @ WEIGHT))
        np.testing.assert_allclose(np.float64(row[2:]), expected, atol=1e-4)


def elsewhere(location):
    """The ways to make onnxruntime read another file."""
    away = weight(location=location)
    inner = helper.make_graph(
        [node("Identity", ["inner"], ["given"])],
        "branch",
        [],
        [value_info("given", FLOAT, [3, 2])],
        [weight("inner", location=location)],
    )
    branches = {"then_branch": inner, "else_branch": inner}
    chosen = (constant("yes", True), node("If", ["yes"], ["w"], **branches), *SUMS, LAST)
    function = model((node("Make", [], ["w"], domain="own"), *SUMS, LAST), tensors=[])
    body = [node("Constant", [], ["o"], value=away)]
    opsets = [helper.make_opsetid("", 13)]
    function.functions.append(helper.make_function("own", "Make", [], ["o"], body, opsets))
    sparse = model(tensors=[])
    indices = onnx.numpy_helper.from_array(np.arange(6), "i")
    sparse.graph.sparse_initializer.add(
        values=weight(location=location, shape=6), indices=indices, dims=[3, 2]
    )
    return {
        "initializer": model(tensors=[away]),
        "constant": model((node("Constant", [], ["w"], value=away), *SUMS, LAST), tensors=[]),
        "branch": model(chosen, tensors=[]),
        "function": function,
        "sparse": sparse,
    }


@pytest.mark.parametrize("name", elsewhere("secret"))
@pytest.mark.parametrize("location", ["secret", "up", "absolute"])
def test_no_other_file_is_read(name, location, predict, tmp_path):
    """Its values would make a bundle that gives scores."""
    (tmp_path.parent / "secret").write_bytes(WEIGHT.tobytes())
    location = {"up": "../secret", "absolute": str(tmp_path / "secret")}.get(location, location)
    code, said = predict(elsewhere(location)[name])
    assert (code, is_one_line(said)) == (2, True), said
    assert "cannot be used by onnxruntime" in said


def wrong_answers():
    """Graphs that load and then do not answer as promised, and what is to be said."""
    first = (
        node("ReduceMax", ["numbers"], ["most"], keepdims=0),
        constant("zero", np.float32(0)),
        constant("one", np.int64([1])),
        node("Mul", ["most", "zero"], ["nought"]),
        node("Cast", ["nought"], ["whole"], to=onnx.TensorProto.INT64),
        node("Add", ["whole", "one"], ["count"]),
    )
    none = constant("none", np.int64([0]))
    row = node("Slice", ["sums", "none", "count", "none"], ["row"])
    return {
        "one row for all": (
            ending(*first, none, row, node("Sigmoid", ["row"], ["scores"])),
            "expected float32 scores of shape (3, 2), got float32 of (1, 2)",
        ),
        "no number": (
            ending(node("Sub", ["sums", "sums"], ["z"]), node("Div", ["z", "z"], ["scores"])),
            "expected scores between 0 and 1, got nan",
        ),
        "above 1": (ending(node("Exp", ["sums"], ["scores"])), "expected scores between 0 and 1"),
        "always one image": (
            model(
                ends=(
                    [value_info("pixels", UINT8, [1, 8, 8, 3])],
                    [value_info("scores", FLOAT, [1, 2])],
                )
            ),
            "cannot be used by onnxruntime (",
        ),
        "three classes": (
            model(classes=["a", "b", "c"], thresholds=[0.5] * 3),
            "expected float32 scores of shape (3, 3), got float32 of (3, 2)",
        ),
    }


@pytest.mark.parametrize("name", wrong_answers())
def test_every_answer_is_checked(name, predict):
    made, says = wrong_answers()[name]
    code, said = predict(made)
    assert (code, is_one_line(said)) == (2, True), said
    assert says in said


def without_metadata():
    made = model()
    del made.metadata_props[:]
    return made


def odd_files():
    """Files that no graph can be made of, and what is to be said."""
    plain = model().SerializeToString()
    odd = node("Ev\x1b[31mil", ["sums"], ["scores"])
    deep = onnx.GraphProto().SerializeToString()
    for _ in range(2000):
        deep = field(1, field(5, field(6, deep)))
    return {
        "unknown operator": (ending(odd), "cannot be used by onnxruntime"),
        "own operators": (
            ending(node("Evil", ["sums"], ["scores"], domain="com.evil")),
            "cannot be used by onnxruntime",
        ),
        "no graph": (plain[:0] + field(14, b""), "cannot be used by onnxruntime"),
        "a field cut off": (plain[:-5], "cannot be used by onnxruntime"),
        "graphs in graphs": (plain + field(7, deep), "cannot be used by onnxruntime"),
        "metadata in Latin-1": (
            plain.replace(b'"cat"', b'"c\xe4t"'),
            "cannot be used by onnxruntime",
        ),
        "text": (b"image,cat\n1.jpg,1\n", "cannot be used by onnxruntime"),
        "no metadata": (without_metadata(), "not a bundle of g2netpl"),
        "metadata are a list": (model(text="[]"), "metadata: expected an object"),
        "metadata lack keys": (model(text="{}"), "required, but not given"),
        "a later format": (model(format=3), "format: "),
        "an unknown key": (model(more=1), "unknown key 'more'"),
        "metadata nested": (model(text="[" * 100_000), "metadata: not valid JSON"),
        "NaN": (model(shift=float("nan")), "shift: input should be a finite number"),
        "a class twice": (model(classes=["cat", "cat"]), "a class is listed twice"),
        "a class that is a number": (model(classes=["cat", 3]), "classes: "),
        "thresholds that are texts": (model(thresholds=["0.5", "0.6"]), "thresholds: "),
        "one threshold": (model(thresholds=[0.5]), "expected 2 thresholds, got 1"),
        "a ground for the terminal": (
            model(reasons=["\x1b[2J", "x"]),
            "reasons: string should",
        ),
        "temperature of almost 0": (model(temperature=1e-320), "temperature: "),
        "a huge shift": (model(shift=1e308), "shift: "),
        "a huge image": (model(image_size=10**6), "image_size: "),
        "a rule for the terminal": (model(rule="f1\x1b]0;x\x07"), "rule: string should match"),
    }


@pytest.mark.parametrize("name", odd_files())
def test_odd_files_are_told_in_one_line(name, predict):
    made, says = odd_files()[name]
    code, said = predict(made)
    assert (code, is_one_line(said)) == (2, True), said
    assert says in said
    assert said.startswith("g2netpl: b.onnx: ")


def test_a_file_of_endless_bytes_is_not_read(tmp_path):
    path = tmp_path / "b.onnx"
    with open(path, "wb") as file:
        file.truncate(1 << 32)  # takes no room
    with pytest.raises(InputError, match="not a bundle of g2netpl, which has 2 GB at most"):
        load_bundle(path)
