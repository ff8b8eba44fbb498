"""What lies in an ONNX file, seen before onnxruntime meets it and without the package onnx.

Such a file is a protobuf message: fields with a number and a value, in any order, and some values
are messages again. A tensor may say that its data lie in another file, and onnxruntime would read
that one. So every place is looked at where a tensor can be, and what no reader of protobuf would
take is no ONNX file.
"""

from collections.abc import Iterator
from pathlib import Path

from g2netpl.base.errors import InputError

# kind of message → numbers of its fields that hold such messages
_NESTED: dict[str, dict[int, str]] = {
    "model": {7: "graph", 14: "entry", 20: "training", 25: "function"},
    "entry": {},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {},
}
_NAME, _EXTERNAL, _LOCATION = 8, 13, 14  # of a tensor
_OPERATION, _DOMAIN = 4, 7  # of a node
_STANDARD = (b"", b"ai.onnx")
_FIXED = {1: 8, 5: 4}  # bytes of a value by its wire type
_MOST_FIELDS = 2_000_000  # a large transformer has some 50,000

Value = int | memoryview


def read_entries(content: bytes, path: Path) -> list[tuple[bytes, bytes]]:
    """Keys and values of the metadata of a model that needs no other file and no other operators.

    `path` is its name in messages.
    """
    entries = []
    try:
        for kind, fields in _messages(content):
            if kind == "entry":
                values = dict(fields)
                entries.append((_bytes(values.get(1)), _bytes(values.get(2))))
            elif kind == "tensor":
                _check_tensor(fields, path)
            elif kind == "node":
                _check_node(fields, path)
    except ValueError as problem:
        raise InputError(
            f"{path}: cannot be used by onnxruntime (not an ONNX file: {problem})"
        ) from None
    return entries


def _check_tensor(fields: list[tuple[int, Value]], path: Path) -> None:
    """Refuse one whose data lie elsewhere, wherever that may be."""
    if any(number == _EXTERNAL or (number == _LOCATION and value) for number, value in fields):
        name = _shown(dict(fields).get(_NAME))
        raise InputError(
            f"{path}: the data of tensor {name} lie in another file, which is not read: a bundle "
            "has all in one; g2netpl export RUN makes one"
        )


def _check_node(fields: list[tuple[int, Value]], path: Path) -> None:
    """Refuse one that is not of the operators that every ONNX runtime has."""
    values = dict(fields)
    if any(number == _DOMAIN and _bytes(value) not in _STANDARD for number, value in fields):
        name, domain = _shown(values.get(_OPERATION)), _shown(values[_DOMAIN])
        raise InputError(
            f"{path}: expected operators of ONNX alone, got {name} of {domain}; "
            "g2netpl export RUN makes a bundle"
        )


def _messages(content: bytes) -> Iterator[tuple[str, list[tuple[int, Value]]]]:
    """Every message that is a tensor, or may hold one, with its fields."""
    waiting, count = [("model", memoryview(content))], 0
    while waiting:
        kind, message = waiting.pop()
        fields = []
        for number, value in _fields(message):
            count += 1
            if count > _MOST_FIELDS:
                raise ValueError(f"more than {_MOST_FIELDS:,} parts")
            inner = _NESTED[kind].get(number)
            if inner is None:
                fields.append((number, value))
            elif isinstance(value, memoryview):
                waiting.append((inner, value))
        yield kind, fields


def _fields(message: memoryview) -> Iterator[tuple[int, Value]]:
    place = 0
    while place < len(message):
        tag, place = _number(message, place)
        wire = tag & 7
        if not 8 <= tag < 1 << 32:
            raise ValueError(f"a field of number {tag >> 3}")
        if wire == 0:
            value, place = _number(message, place)
            yield tag >> 3, value
            continue
        if wire == 2:
            size, place = _number(message, place)
        elif wire in _FIXED:
            size = _FIXED[wire]
        else:
            raise ValueError(f"a field of wire type {wire}")
        if place + size > len(message):
            raise ValueError("cut off")
        yield tag >> 3, message[place : place + size]
        place += size


def _number(message: memoryview, place: int) -> tuple[int, int]:
    """A whole number of up to ten bytes, seven bits in each, and the place after it."""
    number = 0
    for shift in range(0, 70, 7):
        if place >= len(message):
            raise ValueError("cut off")
        byte = message[place]
        place += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, place
    raise ValueError("a number of more than ten bytes")


def _bytes(value: Value | None) -> bytes:
    return bytes(value) if isinstance(value, memoryview) else b""


def _shown(value: Value | None) -> str:
    """A name out of the file as a short text in quotes, all of it harmless."""
    return repr(_bytes(value)[:60].decode("utf-8", "replace"))
