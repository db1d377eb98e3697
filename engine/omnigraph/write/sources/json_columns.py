"""Records by columns: a block of lines that Arrow's JSON reader takes under the schema of its types.

The reader of ``records`` decides what a record is. Here only such blocks are taken as both read alike; of any other one nothing is
taken, and it is read value by value. Arrow cannot tell a member that is null from one that is absent, and reads ``-0`` as a
number below zero: where that could make a difference the block is left.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute

from omnigraph.core.errors import InvalidInput
from omnigraph.schema.catalog import EdgeType, NodeType, PropType, ScalarKind, TableType
from omnigraph.table.arrays import one_array, positions
from omnigraph.write.base.changes import RowIndex
from omnigraph.write.base.constants import ENDS
from omnigraph.write.base.rejects import Rejects
from omnigraph.write.sources.json_objects import key_kind, read_as
from omnigraph.write.sources.json_stream import plain_lines
from omnigraph.write.sources.pieces import Piece, RawRows, settle
from omnigraph.write.sources.records import ID_KIND, RecordReader, origin_of
from omnigraph.write.sources.tables import read_json_values
from omnigraph.write.values.conform import WrongKind, conform_column
from omnigraph.write.values.endpoint_text import end_array

pc: Any = pyarrow.compute

_TYPE_NAME: Final = re.compile(rb'"(?:type|edge)"[ \t]*:[ \t]*"([^"\\]{1,256})"')
_TYPES_MAX: Final = 16  # of one block; a row costs a null in every column of the other types
# So many blocks in a row that are not taken; then only one of as many is tried.
_FAILURES_MAX: Final = 4
_PAUSE: Final = 16

Types = tuple[TableType, ...]


class _NotAlike(Exception):
    """Both ways of reading might differ here."""


class ColumnReader:
    """Takes blocks for a ``RecordReader`` and counts their records as it does."""

    def __init__(self, reader: RecordReader) -> None:
        self._reader = reader
        self._types: Types = ()
        self._ends_as_keys = False
        self._schemas: dict[tuple[Types, bool], pa.Schema | None] = {}
        self._failures = 0
        self._pause = 0

    def take(self, chunk: bytes) -> int | None:
        """How many records of whole lines were delivered: all of them, or None: not one."""
        if self._pause:
            self._pause -= 1
            return None
        body, lines = plain_lines(chunk, self._reader.limits) or (b"", 0)
        if not lines:
            return None
        pieces = self._read(body, lines)
        if pieces is None:
            self._failures += 1
            self._pause = _PAUSE if self._failures >= _FAILURES_MAX else 0
            return None
        self._failures = 0
        self._reader.records += lines
        for declared, piece in pieces:
            self._reader.deliver(declared, piece)
        return lines

    def _read(self, body: bytes, lines: int) -> list[tuple[TableType, Piece]] | None:
        tried: set[Types] = set()
        for types in self._guesses(body):
            if not types or types in tried:
                continue
            tried.add(types)
            pieces = self._read_types(body, lines, types)
            if pieces is not None:
                self._types = types
                return pieces
        return None

    def _guesses(self, body: bytes) -> Iterator[Types]:
        """Which types a block may have, from what costs nothing to what reads all of it. Blocks of one source are mostly alike."""
        yield self._types
        yield self._find(_first_name(body))
        yield self._find(_names(body))

    def _find(self, names: Iterable[str]) -> Types:
        """The declared types of some names. Names of none may be texts that look like it."""
        catalog = self._reader.catalog
        found = {
            one.table_key: one for name in names for one in (catalog.find_node(name), catalog.find_edge(name)) if one
        }
        return tuple(found[key] for key in sorted(found)) if len(found) <= _TYPES_MAX else ()

    def _read_types(self, body: bytes, lines: int, types: Types) -> list[tuple[TableType, Piece]] | None:
        nulls = b"null" in body
        if len(types) > 1 and nulls:
            return None  # a member of another type that is null is refused, one that is absent is not
        for as_keys in (self._ends_as_keys, not self._ends_as_keys):
            schema = self._schema(types, as_keys)
            table = None if schema is None else _parsed(body, schema)
            if table is None or table.num_rows != lines:
                continue
            self._ends_as_keys = as_keys
            try:
                return self._pieces(table, types, nulls=nulls)
            except (_NotAlike, WrongKind, InvalidInput, pa.ArrowException):
                return None
        return None

    # --- what a block may hold --------------------------------------------------------------------------------------

    def _schema(self, types: Types, as_keys: bool) -> pa.Schema | None:
        """None where two types do not go together, or keys are texts as well."""
        key = (types, as_keys)
        if key not in self._schemas:
            self._schemas[key] = self._make_schema(types, as_keys)
        return self._schemas[key]

    def _make_schema(self, types: Types, as_keys: bool) -> pa.Schema | None:
        members: dict[str, pa.DataType] = {}
        data: dict[str, pa.DataType] = {"id": pa.utf8()}
        wanted: list[tuple[dict[str, pa.DataType], str, pa.DataType]] = []
        for declared in types:
            wanted.append((members, "edge" if isinstance(declared, EdgeType) else "type", pa.utf8()))
            for end in ENDS.values() if isinstance(declared, EdgeType) else ():
                kind = key_kind(declared, self._reader.catalog, end)
                wanted.append((members, end, kind if as_keys and pa.types.is_integer(kind) else pa.utf8()))
            wanted += [(data, prop.name, read_as(prop.type)) for prop in declared.properties]
        if as_keys and all(kind == pa.utf8() for _, name, kind in wanted if name in ENDS.values()):
            return None
        if any(within.setdefault(name, kind) != kind for within, name, kind in wanted):
            return None
        return pa.schema([*members.items(), ("data", pa.struct(list(data.items())))])

    # --- rows -------------------------------------------------------------------------------------------------------

    def _pieces(self, table: pa.Table, types: Types, *, nulls: bool) -> list[tuple[TableType, Piece]]:
        columns = {name: _whole(table.column(name)) for name in table.schema.names}
        data = columns.pop("data")
        if nulls and data.null_count:
            raise _NotAlike  # an object that is null is refused, one that is absent is empty
        cells = dict(zip((field.name for field in data.type), data.flatten(), strict=True))
        left = table.num_rows
        pieces = []
        for declared in types:
            rows = _rows_of(declared, columns)
            if rows is not None and not len(rows):
                continue
            left -= table.num_rows if rows is None else len(rows)
            mine = _taken(columns, rows), _taken(cells, rows)
            numbers = np.arange(table.num_rows, dtype=np.int64) if rows is None else rows
            pieces.append((declared, self._piece(declared, *mine, numbers + self._reader.records + 1)))
        if left:
            raise _NotAlike  # of a type that is not there, or of two
        return pieces

    def _piece(self, declared: TableType, members: Mapping[str, Any], data: dict[str, Any], numbers: RowIndex) -> Piece:
        reader = self._reader
        raw = RawRows(declared, len(numbers))
        raw.given_ids = _good(conform_column(ID_KIND, data.pop("id")))
        for name, column in data.items():
            if name in declared.by_name:
                raw.columns[name] = _value_column(declared.property(name).type, column)
            elif column.null_count < len(column):
                raise _NotAlike
        if isinstance(declared, EdgeType):
            for column_name, member in ENDS.items():
                node = reader.catalog.node(declared.src_type if column_name == "src" else declared.dst_type)
                raw.ends[column_name] = _end_column(node, members[member])
        elif any(members[end].null_count < len(numbers) for end in ENDS.values() if end in members):
            raise _NotAlike
        rejects = Rejects(keep=False)
        piece = settle(raw, origin_of(reader.parts, numbers), lambda row: row, rejects, reader.limits, reader.clock)
        if rejects.log:
            raise _NotAlike  # the records say what is wrong
        return piece


def _first_name(body: bytes) -> Iterator[str]:
    try:
        first = json.loads(body.partition(b"\n")[0])
    except (ValueError, RecursionError):
        return
    yield from (name for name in (first.get("type"), first.get("edge")) if isinstance(name, str))


def _names(body: bytes) -> set[str]:
    return {name.decode("utf-8", "replace") for name in _TYPE_NAME.findall(body)}


def _parsed(body: bytes, schema: pa.Schema) -> pa.Table | None:
    """The rows as Arrow reads them; None where it does not."""
    import pyarrow.json as pj

    stream: Any = pa.BufferReader(body)
    try:
        table: pa.Table = pj.read_json(
            stream,
            read_options=pj.ReadOptions(use_threads=False, block_size=len(body) + 1),
            parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error"),
        )
    except pa.ArrowException:
        return None
    return table


def _whole(column: pa.ChunkedArray[Any]) -> Any:
    return one_array(column, column.type)


def _taken(columns: Mapping[str, Any], rows: RowIndex | None) -> dict[str, Any]:
    if rows is None:
        return dict(columns)
    at = positions(rows)
    return {name: column.take(at) for name, column in columns.items()}


def _rows_of(declared: TableType, members: Mapping[str, Any]) -> RowIndex | None:
    """The rows of a type; None: all."""
    name = "edge" if isinstance(declared, EdgeType) else "type"
    hits = pc.fill_null(pc.equal(members[name], declared.name), False)
    if "type" in members and "edge" in members:
        other = members["type" if name == "edge" else "edge"]
        hits = pc.and_(hits, other.is_null())
    found = hits.to_numpy(zero_copy_only=False)
    return None if found.all() else np.flatnonzero(found)


def _good(taken: tuple[Any, list[Any]]) -> Any:
    column, bad = taken
    if bad:
        raise _NotAlike
    return column


def _end_column(node: NodeType, column: Any) -> Any:
    if column.null_count:
        raise _NotAlike
    kind = ID_KIND if pa.types.is_string(column.type) else node.property((node.key or ("",))[0]).type
    return end_array(node, _good(conform_column(kind, column)))


def _value_column(kind: PropType, column: Any) -> Any:
    if column.null_count == len(column):
        return _good(conform_column(kind, pa.nulls(len(column))))
    if kind.scalar.is_float or kind.scalar is ScalarKind.VECTOR:
        _check_zeros(column)
    return _good(read_json_values(kind, column))


def _check_zeros(column: Any) -> None:
    numbers = column.flatten() if pa.types.is_list(column.type) else column
    values = numbers.to_numpy(zero_copy_only=False)
    if np.signbit(values).any() and bool((np.signbit(values) & (values == 0)).any()):
        raise _NotAlike
