"""Schemas of a Lance table with the ids of their fields.

A schema made from Arrow counts its fields from zero. A transaction that carries such a schema lands, and the table cannot be
read any more, because its data files name columns by id. So a changed schema is made from the one that the handle has, in
the protobuf form in which pylance pickles it: fields are taken out, renamed or added, and all others keep their ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from lance.schema import LanceSchema

# Numbers of the members of Lance's protobuf message of one field.
_NAME, _ID, _PARENT, _NULLABLE = 2, 3, 4, 6
_VARINT, _BYTES = 0, 2
_NO_PARENT = 1 << 63  # a parent at or above this is negative: the field is a column

Message = list[tuple[int, int, Any]]


@dataclass(frozen=True)
class Projection:
    """What a change of columns keeps: columns to take out, columns to rename, columns whose nullability changes.

    ``order``: the names after the change, in the order that the columns take; what is not named keeps its place at the end.
    """

    drop: frozenset[str] = frozenset()
    rename: Mapping[str, str] = field(default_factory=dict)
    nullable: Mapping[str, bool] = field(default_factory=dict)
    order: tuple[str, ...] = ()


def projected(handle: Any, change: Projection) -> LanceSchema:
    """The handle's schema after the change. Every field that stays keeps its id."""
    metadata, messages = _protos(handle)
    kept: list[Message] = []
    gone: set[int] = set()
    for message in messages:
        parent, number = _member(message, _PARENT, 0), _member(message, _ID, 0)
        name = bytes(_member(message, _NAME, b"")).decode()
        column = parent >= _NO_PARENT
        if parent in gone or (column and name in change.drop):
            gone.add(number)
            continue
        if column and name in change.rename:
            message = [(m, w, change.rename[name].encode() if m == _NAME else v) for m, w, v in message]
        if column and name in change.nullable:
            message = [part for part in message if part[0] != _NULLABLE]
            if change.nullable[name]:
                message = sorted([*message, (_NULLABLE, _VARINT, 1)])
        kept.append(message)
    return _schema(metadata, _ordered(kept, change.order))


def extended(
    handle: Any,
    added: Iterable[pa.Field[Any]],
    *,
    replaced: frozenset[str] = frozenset(),
    order: Sequence[str] = (),
) -> LanceSchema:
    """The handle's schema with more columns, under ids that no field of this version has. Columns named in ``replaced`` are
    left out: an added one takes their name.

    Lance gives a number again once the last file with it is gone, so an id alone does not tell a column from one that was
    dropped.
    """
    metadata, messages = _protos(handle)
    found = _without(messages, replaced)
    first = int(handle.max_field_id) + 1
    for one in added:
        _, new = _protos_of(LanceSchema.from_pyarrow(pa.schema([one])))
        for message in new:
            number, parent = _member(message, _ID, 0), _member(message, _PARENT, 0)
            rest = [part for part in message if part[0] not in (_ID, _PARENT)]
            above = parent if parent >= _NO_PARENT else parent + first
            found.append(sorted([*rest, (_ID, _VARINT, number + first), (_PARENT, _VARINT, above)]))
        first += len(new)
    return _schema(metadata, _ordered(found, order))


def _schema(metadata: Any, messages: list[Message]) -> LanceSchema:
    made: LanceSchema = LanceSchema._from_protos(metadata, *map(_encode, messages))
    return made


def _columns(messages: Iterable[Message]) -> list[list[Message]]:
    """The fields of each column: its own, then those inside it."""
    found: list[list[Message]] = []
    for message in messages:
        if _member(message, _PARENT, 0) >= _NO_PARENT:
            found.append([])
        found[-1].append(message)
    return found


def _column_name(column: Sequence[Message]) -> str:
    return bytes(_member(column[0], _NAME, b"")).decode()


def _without(messages: Iterable[Message], names: frozenset[str]) -> list[Message]:
    return [one for column in _columns(messages) if _column_name(column) not in names for one in column]


def _ordered(messages: list[Message], order: Sequence[str]) -> list[Message]:
    place = {name: at for at, name in enumerate(order)}
    columns = sorted(_columns(messages), key=lambda column: place.get(_column_name(column), len(place)))
    return [one for column in columns for one in column]


def _protos(handle: Any) -> tuple[Any, list[Message]]:
    return _protos_of(handle.lance_schema)


def _protos_of(schema: LanceSchema) -> tuple[Any, list[Message]]:
    pickled: Any = schema.__reduce__()[1]
    metadata, *protos = pickled
    return metadata, [list(_decode(proto)) for proto in protos]


def _member(message: Message, number: int, default: Any) -> Any:
    return next((value for member, _, value in message if member == number), default)


def _decode(data: bytes) -> Iterator[tuple[int, int, Any]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        value: Any
        if wire == _VARINT:
            value, at = _varint(data, at)
        elif wire == _BYTES:
            size, at = _varint(data, at)
            value, at = data[at : at + size], at + size
        else:
            raise ValueError(f"a field of a Lance schema has wire type {wire}, which this release does not know")
        yield number, wire, value


def _encode(message: Message) -> bytes:
    found = bytearray()
    for number, wire, value in message:
        found += _as_varint(number << 3 | wire)
        found += _as_varint(value) if wire == _VARINT else _as_varint(len(value)) + value
    return bytes(found)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _as_varint(value: int) -> bytes:
    found = bytearray()
    while True:
        low, value = value & 0x7F, value >> 7
        found.append(low | (0x80 if value else 0))
        if not value:
            return bytes(found)
