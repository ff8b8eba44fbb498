"""Frozen features: computed by a backbone, kept in a folder, read for training on features.

On a CPU, onnxruntime computes them faster than PyTorch (1.4 to 1.9 times, dev/log/speed.md). Which
of the two is used depends on the number of images and on what is installed, never on a clock, so
the same command gives the same bits.

A features folder holds `train.npz` and optionally `test.npz` (`features` float or uint8, `labels`
int8 N×L of 1 / 0 / −1) and `meta.npz` (`classes`, optionally a `scale` per dimension that features
are multiplied by). `imagenet_head.npz` has the backbone's ImageNet classifier, if it has one
(`weight` C×D, `bias` C). All of them are finite numbers.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from g2netpl.images.loader import Device, Rows, Source, plain_groups
from g2netpl.labels.table import LabelTable
from g2netpl.utils import distributed
from g2netpl.utils.arrays import read_npz, write_npz
from g2netpl.utils.errors import InputError

Features = npt.NDArray[np.float32]
OnBatch = Callable[[int], None] | None  # receives the number of images of a batch
CLASSIFIER = "imagenet_head.npz"
ENOUGH = 2000  # images; for fewer the graph for onnxruntime takes longer to make than it saves
TOLERANCE = 1e-4  # of the largest value


@dataclass(frozen=True)
class FeatureFolder:
    """Features and labels of a training split, and of a test split if there is one."""

    train_features: Features
    train: LabelTable
    test_features: Features | None = None
    test: LabelTable | None = None
    classifier: tuple[Features, Features] | None = None  # weight and bias of ImageNet's


def compute_features(
    backbone: nn.Module, source: Source, batch_size: int | None = None, on_batch: OnBatch = None
) -> Features:
    """The output of a frozen backbone for every image, not augmented, in the order of the source.

    The ranks share the images, and each of them gets the whole table.
    """
    device = next(backbone.parameters(), torch.empty(0)).device
    backbone.eval()
    return compute_rows(lambda _, images: backbone(images), source, device, batch_size, on_batch)


def compute_rows(
    function: Callable[[Rows, Tensor], Tensor],
    source: Source,
    device: Device,
    batch_size: int | None = None,
    on_batch: OnBatch = None,
) -> Features:
    """A function of rows and their images for all rows; the ranks share them."""
    mine = distributed.own_rows(len(source))
    groups = [mine[rows] for rows in plain_groups(len(mine), batch_size or source.evaluation_batch)]
    table, done = np.zeros((0, 0), np.float32), 0
    with torch.inference_mode():
        for rows, images in zip(groups, source.load(groups, None, device), strict=True):
            values = function(rows, images).float().cpu().numpy()
            if not done:  # one table: many small arrays would fragment the heap
                table = np.empty((len(mine), *values.shape[1:]), np.float32)
            table[done : done + len(values)] = values
            done += len(values)
            if on_batch is not None:
                on_batch(len(values) * distributed.size())
    return distributed.gather_rows(table, len(source))


class Engine(nn.Module):
    """A network that onnxruntime runs; the output of an input with NaN is NaN."""

    def __init__(self, content: bytes) -> None:
        import onnxruntime

        super().__init__()
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = torch.get_num_threads()
        # threads that wait leave the cores to the processes that load images
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = onnxruntime.InferenceSession(
            content, options, providers=["CPUExecutionProvider"]
        )

    def forward(self, inputs: Tensor) -> Tensor:
        """The output for a batch of any length."""
        (made,) = self._session.run(None, {"inputs": inputs.contiguous().numpy()})
        outputs = torch.from_numpy(made)
        outputs[inputs.flatten(1).isnan().any(dim=1)] = torch.nan  # a clip makes a number of it
        return outputs


def faster(
    module: nn.Module, source: Source, count: int, say: Callable[[str], None] = lambda line: None
) -> nn.Module:
    """The network in onnxruntime if that is faster for so many images; else the network itself.

    Its output is compared with that of PyTorch on the first images.
    """
    if count < ENOUGH or any(value.device.type != "cpu" for value in module.parameters()):
        return module
    (first,) = source.load(plain_groups(len(source), source.evaluation_batch)[:1], None)
    training = module.training
    try:
        return _checked_engine(module.eval(), first.nan_to_num())
    except ModuleNotFoundError as problem:
        say(f"note: {problem.name} is not installed; pip install 'g2netpl[export]' is faster")
    except Exception as problem:  # exporters fail in many ways
        say(f"note: features by PyTorch: onnxruntime fails ({type(problem).__name__})")
    finally:
        module.train(training)
    return module


def _checked_engine(module: nn.Module, images: Tensor) -> Engine:
    """The engine, if its output is that of the module."""
    example = torch.zeros(2, *images.shape[1:])
    engine = Engine(onnx_graph(module, example, "inputs", "outputs").SerializeToString())
    with torch.inference_mode():
        made, expected = engine(images), module(images)
    if not (made - expected).abs().max() <= TOLERANCE * expected.abs().max():
        raise ValueError("another output")
    return engine


def onnx_graph(module: nn.Module, example: Tensor, given: str, made: str) -> Any:
    """The network as an ONNX model for batches of any length, with these names of its ends."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter, about itself
        program: Any = torch.onnx.export(
            module,
            (example,),
            dynamo=True,
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            input_names=[given],
            output_names=[made],
            verbose=False,
        )
    return program.model_proto


def read_features(folder: str | Path) -> FeatureFolder:
    """Read a features folder; every mistake in it is named."""
    folder = Path(folder)
    meta = _Arrays(folder / "meta.npz")
    classes = meta.names("classes")
    scale = meta.numbers("scale", 1) if "scale" in meta else None
    train = _read_split(folder / "train.npz", classes, scale)
    width, classifier = train[0].shape[1], None
    if (folder / CLASSIFIER).is_file():
        head = _Arrays(folder / CLASSIFIER)
        classifier = weight, bias = head.numbers("weight", 2), head.numbers("bias", 1)
        head.check("weight", weight.shape == (len(bias), width), f"({len(bias)}, {width})")
    if not (folder / "test.npz").is_file():
        return FeatureFolder(*train, classifier=classifier)
    test = _read_split(folder / "test.npz", classes, scale)
    if width != test[0].shape[1]:
        raise InputError(f"{folder}: train and test features have different widths")
    return FeatureFolder(*train, *test, classifier)


def _read_split(
    path: Path, classes: tuple[str, ...], scale: Features | None
) -> tuple[Features, LabelTable]:
    content = _Arrays(path)
    features, labels = content.numbers("features", 2, scale), content.numbers("labels", 2)
    content.check("labels", len(features) == len(labels), f"({len(features)}, L)")
    content.setdefault("images", np.arange(len(features)))
    groups = content.names("groups") if "groups" in content else None
    try:
        return features, LabelTable(content.names("images"), classes, labels, groups=groups)
    except InputError as problem:
        raise InputError(f"{path}: {problem}") from None


class _Arrays(dict[str, npt.NDArray[Any]]):
    """The arrays of an .npz file; every mistake in one is an `InputError` with its place."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise InputError(f"{path}: no such file (a features folder has train.npz and meta.npz)")
        try:
            super().__init__(read_npz(path))
        except ValueError as problem:
            raise InputError(f"{path}: not a readable .npz file ({problem})") from None
        self.path = path

    def __missing__(self, name: str) -> NoReturn:
        raise InputError(f"{self.path}: array {name!r} is missing (found: {', '.join(self)})")

    def check(self, name: str, is_valid: bool, expected: str) -> None:
        """Report an array that is not as expected."""
        if not is_valid:
            got = f"{self[name].dtype} {self[name].shape}"
            raise InputError(f"{self.path}: {name}: expected {expected}, got {got}")

    def numbers(self, name: str, dimensions: int, scale: Features | None = None) -> Features:
        """An array of finite numbers, multiplied by the scale of each column."""
        given = self[name]
        is_array = given.dtype.kind in "biuf" and given.ndim == dimensions and given.size > 0
        self.check(name, is_array, f"numbers in {dimensions} dimensions")
        if scale is not None:
            fits = scale.shape == given.shape[1:]
            self.check(name, fits, f"{len(scale)} columns, as in the scale of meta.npz")
        with np.errstate(over="ignore", invalid="ignore"):
            values: Features = given.astype(np.float32)
            values *= 1 if scale is None else scale
        for place in np.argwhere(~np.isfinite(values))[:1].tolist():
            where = f"row {', column '.join(map(str, place))}"
            got = f"expected a finite number, got {values[tuple(place)]}"
            raise InputError(f"{self.path}: {name}: {where}: {got}")
        return values

    def names(self, name: str) -> tuple[str, ...]:
        """An array of texts, or of whole numbers as texts."""
        given = self[name]
        self.check(name, given.ndim == 1 and given.dtype.kind in "USiu", "a list of names")
        try:
            names: list[str] = given.astype(str).tolist()
            "".join(names).encode()
        except ValueError:  # a damaged file may hold numbers that are not characters
            raise InputError(f"{self.path}: {name}: expected text") from None
        return tuple(names)


def write_features(folder: str | Path, features: FeatureFolder) -> None:
    """Write a features folder: each file is there whole or not at all, and `meta.npz` last."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for split, values, table in (
        ("train", features.train_features, features.train),
        ("test", features.test_features, features.test),
    ):
        if values is None or table is None:
            continue
        arrays = {"features": values, "labels": table.values, "images": table.images}
        arrays |= {} if table.groups is None else {"groups": table.groups}
        write_npz(folder / f"{split}.npz", arrays, is_compressed=False)
    if features.classifier is not None:
        weight, bias = features.classifier
        write_npz(folder / CLASSIFIER, {"weight": weight, "bias": bias}, is_compressed=False)
    write_npz(folder / "meta.npz", {"classes": features.train.classes})
