"""Messages in protocol buffers' form, as Lance writes its version files: the fields of one message. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.core.errors import Corruption

_VARINT, _EIGHT_BYTES, _COUNTED, _FOUR_BYTES = 0, 1, 2, 5


def tagged(field: int, text: str) -> bytes:
    """How a short text stands in a message."""
    data = text.encode()
    return bytes((field << 3 | _COUNTED, len(data))) + data


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(number, value) of the numbers and counted values at the top level of a message, in their order. Raise ``Corruption`` or
    ``IndexError`` where it is no message."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == _VARINT:
            number, at = _varint(message, at)
            yield tag >> 3, number
        elif kind == _COUNTED:
            length, at = _varint(message, at)
            yield tag >> 3, message[at : at + length]
            at += length
        elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
            at += 8 if kind == _EIGHT_BYTES else 4
        else:
            raise Corruption(f"a version file of Lance has a field of an unknown kind: kind={kind}")


def text_field(message: bytes, wanted: int) -> str | None:
    """One text of a message, at its top level; the last one counts."""
    found: str | None = None
    for number, value in fields(message):
        if number == wanted and isinstance(value, bytes):
            found = value.decode()
    return found


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at += 1
        shift += 7
        if byte < 128:
            return value, at
