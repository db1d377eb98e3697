"""Which transaction has made a version of a table, read off the version file alone.

Lance writes the transaction of a commit into the version file that it makes. To open the version and ask takes three requests; the
file is one. Where it does not read in this way the caller asks Lance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.core.errors import Corruption
from omnigraph.table.message import fields

_MAGIC = b"LANC"
_FOOTER_BYTES = 16  # where the manifest lies (8), the version of the format (4), the magic (4)
_LENGTH_BYTES = 4  # before each message of the file
_TRANSACTION_SECTION = 23  # numbers of fields in Lance's table format: of the manifest ...
_UUID, _PROPERTIES = 2, 4  # ... of the transaction ...
_KEY, _VALUE = 1, 2  # ... and of one of its properties


@dataclass(frozen=True)
class VersionStamp:
    """The uuid and the properties of the transaction that has made a version."""

    uuid: str
    properties: Mapping[str, str]


def stamp_in(stored: bytes) -> VersionStamp | None:
    """What a version file says of its transaction; None where it holds none, or does not read."""
    if len(stored) < _FOOTER_BYTES or stored[-len(_MAGIC) :] != _MAGIC:
        return None
    try:
        manifest = _message_at(stored, int.from_bytes(stored[-_FOOTER_BYTES:][:8], "little"))
        places = [value for number, value in fields(manifest) if number == _TRANSACTION_SECTION]
        if len(places) != 1 or not isinstance(places[0], int):
            return None
        return _stamp(_message_at(stored, places[0]))
    except (Corruption, IndexError, ValueError):
        return None


def _message_at(stored: bytes, at: int) -> bytes:
    start = at + _LENGTH_BYTES
    end = start + int.from_bytes(stored[at:start], "little")
    if end > len(stored):
        raise ValueError("a message that is longer than its file")
    return stored[start:end]


def _stamp(transaction: bytes) -> VersionStamp | None:
    uuid = ""
    properties: dict[str, str] = {}
    for number, value in fields(transaction):
        if number == _UUID and isinstance(value, bytes):
            uuid = value.decode()
        elif number == _PROPERTIES and isinstance(value, bytes):
            entry = {part: text.decode() for part, text in fields(value) if isinstance(text, bytes)}
            properties[entry.get(_KEY, "")] = entry.get(_VALUE, "")
    return VersionStamp(uuid, properties) if uuid else None
