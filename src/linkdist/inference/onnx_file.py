"""Find weights of an ONNX file that are stored in other files, without the package `onnx`.

ONNX Runtime reads such files from the current directory before any other check. An ONNX file is a
protocol buffer: a message is a sequence of fields, each with a number, a wire type and a value. The
table below has the fields that lead to tensors, and a tensor with external data has a field 13, its
place, or says so in field 14.
"""

from __future__ import annotations

from collections.abc import Iterator

FIELDS: dict[str, dict[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse tensor"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {
        5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse tensor",
        23: "sparse tensor",
    },
    "sparse tensor": {1: "tensor", 2: "tensor"},
}  # fmt: skip
"""The fields of each message that contain a message of another kind."""

PLACE, LOCATION = 13, 14
"""Fields of a tensor: where its external data is, and whether it has any."""

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types."""


def has_external_data(content: bytes) -> bool:
    """Whether weights of an ONNX file are in other files.

    Raises
    ------
    ValueError
        If the content is not a protocol buffer.

    Examples
    --------
    >>> has_external_data(b"")
    False
    >>> has_external_data(bytes([0x3A, 4, 0x2A, 2, 0x70, 1]))  # the tensor says so in field 14
    True
    """
    waiting = [("model", memoryview(content))]
    while waiting:
        kind, message = waiting.pop()
        for number, value in _fields(message):
            if kind == "tensor":
                if number == PLACE or (number == LOCATION and value != 0):
                    return True
            elif inner := FIELDS[kind].get(number):
                if not isinstance(value, memoryview):
                    raise ValueError(f"field {number} of a {kind} must be a message")
                waiting.append((inner, value))
    return False


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """The fields of a message: their numbers, and their values as an integer or bytes."""
    at, value = 0, 0
    while at < len(message):
        key, at = _varint(message, at)
        wire = key & 7
        if wire == VARINT:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        if wire == BYTES:
            size, at = _varint(message, at)
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
        else:
            raise ValueError(f"wire type {wire} is unknown")
        if at + size > len(message):
            raise ValueError("it is truncated")
        yield key >> 3, message[at : at + size]
        at += size


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """An integer of seven bits in each byte, and where the next field starts."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            raise ValueError("it is truncated")
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("an integer has too many bytes")
