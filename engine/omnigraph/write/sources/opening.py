"""Everything that ``load`` accepts, as streams of pieces per type.

Owns telling sources apart. There are two families: streams of records, in which types are mixed, and tables, one type
each; the second can be read in any order and piece by piece, which is what an append of readers needs.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from omnigraph.core.clock import Clock
from omnigraph.core.errors import InvalidInput
from omnigraph.core.limits import Limits
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType, TableType
from omnigraph.write.base import violations as v
from omnigraph.write.base.constants import ENDS
from omnigraph.write.base.hints import similar
from omnigraph.write.base.refusal import data_invalid
from omnigraph.write.base.rejects import Rejects
from omnigraph.write.base.violations import Violation, show_value
from omnigraph.write.sources.batch import Batch, TableFile
from omnigraph.write.sources.files import Opener, expand, is_csv, open_bytes, open_table
from omnigraph.write.sources.json_stream import ByteStream, Take, read_values
from omnigraph.write.sources.pieces import Piece
from omnigraph.write.sources.records import RecordReader, take_lists
from omnigraph.write.sources.tables import TableReader, read_texts

if TYPE_CHECKING:
    from omnigraph.write.sources.json_columns import ColumnReader

COLUMNS_FROM_BYTES: Final = 16 * 1024  # of a chunk; fewer records are read sooner than the columns are set up

Deliver = Callable[[TableType, Piece], None]

_KNOWN_SHOWN = 10


@dataclass(frozen=True)
class Context:
    """What reading needs beside the source."""

    catalog: Catalog
    limits: Limits
    clock: Clock | None
    rejects: Rejects
    opener: Opener | None = None
    partial: bool = False  # properties may be left out


@dataclass(frozen=True)
class TableStream:
    """One table of the input. ``pieces`` can be called once."""

    type: TableType
    pieces: Callable[[], Iterator[Piece]]
    # Whether the rows are in memory anyway, so that reading them all costs nothing.
    is_held: bool = False


def is_record_source(source: Any) -> bool:
    return not isinstance(source, Batch | TableFile | Mapping)


# --- records ------------------------------------------------------------------------------------------------------------


def read_records(source: Any, context: Context, deliver: Deliver) -> int:
    """Deliver all pieces of a stream of records; returns how many records there were."""
    if isinstance(source, str) and source.lstrip().startswith("{"):
        return _feed_json(io.BytesIO(source.encode("utf-8", "surrogatepass")), context, deliver)
    if isinstance(source, str | PathLike):
        with open_bytes(source, context.opener) as stream:
            try:
                return _feed_json(stream, context, deliver, _name(source))
            except (EOFError, OSError, zlib.error) as error:
                raise _unreadable(source, error) from error
    if hasattr(source, "__arrow_c_stream__"):  # a frame is iterable as well, by its columns
        kind = type(source).__name__
        raise InvalidInput(f"a table does not say of which type its rows are: {kind}", hint='pass {"TYPE": table}')
    if isinstance(source, bytes | bytearray) or not isinstance(source, Iterable):
        raise InvalidInput(
            f"not a source of records: {type(source).__name__}",
            hint='pass a Path, dicts, {"TYPE": table or path}, or og.Batch',
        )
    return _feed(take_lists(source), _record_reader(context, deliver))


def _unreadable(source: str | PathLike[str], error: Exception) -> Exception:
    """A compressed file that ends early or is damaged: what was read of it is not trusted."""
    return data_invalid([Violation(v.MALFORMED, f"cannot be read: {str(error)[:200]}", source=_name(source))], 1)


def _name(source: str | PathLike[str]) -> str:
    return fspath(source).rpartition("/")[2]


def _feed_json(stream: ByteStream, context: Context, deliver: Deliver, name: str | None = None) -> int:
    """Lines are read by columns as far as that comes to the same."""
    reader = _record_reader(context, deliver, name)
    # Where members may be left out, one that is absent is not one that is null, which Arrow reads alike.
    take = None if context.partial else _take_by_columns(reader)
    return _feed(read_values(stream, context.limits, take=take), reader)


def _take_by_columns(reader: RecordReader) -> Take:
    @cache
    def columns() -> ColumnReader:
        from omnigraph.write.sources.json_columns import ColumnReader  # costs more than a few records

        return ColumnReader(reader)

    return lambda chunk: columns().take(chunk) if len(chunk) >= COLUMNS_FROM_BYTES else None


def _record_reader(context: Context, deliver: Deliver, name: str | None = None) -> RecordReader:
    return RecordReader(
        context.catalog, context.limits, context.clock, context.rejects, deliver, name, partial=context.partial
    )


def _feed(lists: Iterator[list[Any]], reader: RecordReader) -> int:
    for values in lists:
        reader.feed(values)
    return reader.records


# --- tables -------------------------------------------------------------------------------------------------------------


def open_tables(source: Any, context: Context) -> list[TableStream]:
    """The tables of a source in the order of table keys, nodes named as nodes and edges as edges."""
    if isinstance(source, TableFile):
        raise InvalidInput("a TableFile needs a type: pass {type name: TableFile(...)}")
    named = list(_named(source, context.catalog))
    seen: dict[str, str] = {}
    for name, declared, _ in named:
        if declared.table_key in seen:
            raise InvalidInput(f"one type is named twice: {seen[declared.table_key]!r} and {name!r}")
        seen[declared.table_key] = name
    named.sort(key=lambda item: item[1].table_key)
    streams, order = [], 0
    for _, declared, given in named:
        stream, order = _open_one(declared, given, context, order)
        streams.append(stream)
    return streams


def _named(source: Any, catalog: Catalog) -> Iterator[tuple[str, TableType, Any]]:
    if isinstance(source, Batch):
        for name, given in source.nodes.items():
            yield name, _known(catalog, catalog.find_node(name), "node", name), given
        for name, given in source.edges.items():
            yield name, _known(catalog, catalog.find_edge(name), "edge", name), given
        return
    for name, given in source.items():
        if not isinstance(name, str):
            raise InvalidInput(f"types are named by texts, got {show_value(name)}")
        yield name, _known(catalog, catalog.find_node(name) or catalog.find_edge(name), "", name), given


def _known(catalog: Catalog, declared: NodeType | EdgeType | None, kind: str, name: str) -> TableType:
    if declared is None:
        names = [one.name for one in catalog.types() if one.table_key.startswith(kind)]
        shown = ", ".join(names[:_KNOWN_SHOWN]) + (", …" if len(names) > _KNOWN_SHOWN else "")
        message = f"no such {kind + ' ' if kind else ''}type: {show_value(name)}; there are {shown or 'none'}"
        raise data_invalid([Violation(v.UNKNOWN_TYPE, message, value=show_value(name), hint=_hint(catalog, name))], 1)
    return declared


def _hint(catalog: Catalog, name: str) -> str | None:
    for kind, found in (("node", catalog.find_node(name)), ("edge", catalog.find_edge(name))):
        if found is not None:
            return f"{name} is the type of {kind}s: --{kind} {name}=FILE, in Python Batch({kind}s={{...}})"
    return similar(name, (one.name for one in catalog.types()))


def _open_one(declared: TableType, given: Any, context: Context, order: int) -> tuple[TableStream, int]:
    """``order`` numbers the sources of the whole input, so that violations come in the order of the input."""
    if isinstance(given, str | PathLike):
        given = TableFile(given)
    if isinstance(given, list | tuple) and given and all(isinstance(one, str | PathLike) for one in given):
        given = TableFile(given)
    if isinstance(given, TableFile):
        places = expand(given.paths)
        return TableStream(declared, lambda: _file_pieces(declared, places, given, context, order)), order + len(places)
    if isinstance(given, list | tuple) and all(isinstance(one, Mapping) for one in given):
        return TableStream(declared, lambda: _row_pieces(declared, given, context, order), True), order + 1
    batches, held = _batches(given, declared)
    reader = _reader(declared, context, None, order)
    # A table without rows still has columns, and they are checked.
    reader.resolve(batches.schema.names)
    return TableStream(declared, lambda: reader.pieces(_safely(batches, declared)), held), order + 1


def _reader(declared: TableType, context: Context, source: str | None, order: int, **more: Any) -> TableReader:
    return TableReader(
        declared,
        context.catalog,
        context.limits,
        context.clock,
        context.rejects,
        source=source,
        order=order,
        partial=context.partial,
        **more,
    )


def _file_pieces(
    declared: TableType, places: list[str], given: TableFile, context: Context, order: int
) -> Iterator[Piece]:
    for i, place in enumerate(places):
        more = {"reading": read_texts} if is_csv(place) else {}
        with open_table(place, context.opener, given.csv) as table:
            reader = _reader(declared, context, _name(place), order + i, file=given, ragged=table.ragged, **more)
            reader.resolve(table.names)
            yield from reader.pieces(table.batches)


def _batches(given: Any, declared: TableType) -> tuple[pa.RecordBatchReader, bool]:
    """Arrow tables, batches, lists of batches, readers, and whatever hands out an Arrow stream (pandas, polars, DuckDB)."""
    if isinstance(given, pa.RecordBatchReader):
        return given, False
    if isinstance(given, pa.Table):
        return given.to_reader(), True
    if isinstance(given, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(given.schema, [given]), True
    if isinstance(given, list | tuple) and given and all(isinstance(one, pa.RecordBatch) for one in given):
        return pa.RecordBatchReader.from_batches(given[0].schema, given), True
    if hasattr(given, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(given), False
    raise InvalidInput(f"not a table of {declared.name}: {type(given).__name__}")


def _row_pieces(
    declared: TableType, rows: Iterable[Mapping[str, Any]], context: Context, order: int
) -> Iterator[Piece]:
    """Rows as Python mappings take the values that records take."""
    made: list[Piece] = []
    reader = RecordReader(
        context.catalog,
        context.limits,
        context.clock,
        context.rejects,
        lambda _, piece: made.append(piece),
        order=order,
        partial=context.partial,
    )
    for taken in take_lists(rows):
        reader.feed([_as_record(declared, row) for row in taken])
        yield from made
        made.clear()


def _as_record(declared: TableType, row: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(declared, EdgeType):
        return {"type": declared.name, "data": dict(row)}
    ends = {member: row[member] for member in ENDS.values() if member in row}
    return {"edge": declared.name, **ends, "data": {name: value for name, value in row.items() if name not in ends}}


def _safely(batches: Iterable[pa.RecordBatch], declared: TableType) -> Iterator[pa.RecordBatch]:
    """The reader is the caller's code: an error of Arrow's kind is bad input, any other error is raised as it is."""
    iterator = iter(batches)
    while True:
        try:
            batch = next(iterator)
        except StopIteration:
            return
        except pa.ArrowException as error:
            raise data_invalid([Violation(v.MALFORMED, f"{declared.name}: {str(error)[:200]}")], 1) from error
        yield batch
