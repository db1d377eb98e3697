"""Tables whose rows are JSON objects, one a line: quickly where Arrow can read a block, strictly where it cannot.

Owns the choice between the two. A block that Arrow's reader does not take as the declared kinds is read again as records
are, value by value, which names the row and the property at fault; so the fast way never decides what is wrong.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from omnigraph.core.limits import Limits
from omnigraph.schema.arrow import arrow_type
from omnigraph.schema.catalog import Catalog, EdgeType, PropType, ScalarKind, TableType
from omnigraph.write.base.constants import ENDS
from omnigraph.write.base.rejects import Rejects
from omnigraph.write.sources.batch import TableFile
from omnigraph.write.sources.json_stream import Repeated, read_values
from omnigraph.write.sources.pieces import Piece
from omnigraph.write.sources.records import RecordReader
from omnigraph.write.sources.tables import TableReader, read_json_values

_AS_TEXT = (ScalarKind.STRING, ScalarKind.DATE, ScalarKind.DATETIME, ScalarKind.BLOB)


class ObjectReader:
    """Pieces of one type out of blocks of whole lines. ``columns`` maps properties to members."""

    def __init__(
        self,
        declared: TableType,
        catalog: Catalog,
        limits: Limits,
        rejects: Rejects,
        *,
        source: str | None = None,
        order: int = 0,
        columns: Mapping[str, str] | None = None,
        partial: bool = False,
    ) -> None:
        self._partial = partial
        self._type = declared
        self._limits = limits
        self._columns = dict(columns or {})
        self._found: list[Piece] = []
        self._tables = TableReader(
            declared,
            catalog,
            limits,
            None,
            rejects,
            source=source,
            order=order,
            file=TableFile((), self._columns),
            reading=read_json_values,
        )
        self._records = RecordReader(
            catalog,
            limits,
            None,
            rejects,
            lambda _, piece: self._found.append(piece),
            source,
            order=order,
            partial=partial,
        )
        self._places = self._members()
        self._targets = {member: target for target, member in self._places.items()}
        self._schemas = list(dict.fromkeys(self._expected(catalog)))
        # Says at once, and by name, what is mapped to nothing.
        self._tables.resolve(list(self._places.values()))
        self.records = 0

    def _members(self) -> dict[str, str]:
        """Target to the member it is read from: mapped, or of its own name."""
        ends = tuple(ENDS.values()) if isinstance(self._type, EdgeType) else ()
        mapped = {ENDS.get(target, target): member for target, member in self._columns.items()}
        places = {target: mapped.get(target, target) for target in ("id", *ends, *self._type.by_name)}
        return {**places, **{target: member for target, member in mapped.items() if target not in places}}

    def pieces(self, blocks: Iterable[bytes]) -> Iterator[Piece]:
        for block in blocks:
            table = None if self._partial else self._quickly(block)  # there an absent member is a null
            if table is None:
                yield from self._strictly(block)
                continue
            self._tables.records = self.records
            yield from self._tables.pieces(table.to_batches())
            self.records = self._tables.records

    def _quickly(self, block: bytes) -> pa.Table | None:
        import pyarrow.json as pj

        for at, schema in enumerate(self._schemas):
            stream: Any = pa.BufferReader(block)
            try:
                table: pa.Table = pj.read_json(
                    stream,
                    read_options=pj.ReadOptions(use_threads=False, block_size=len(block) + 1),
                    parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error"),
                )
            except pa.ArrowException:
                continue
            # Blocks of one source mostly look alike.
            self._schemas.insert(0, self._schemas.pop(at))
            return table
        return None

    def _expected(self, catalog: Catalog) -> Iterator[pa.Schema]:
        """How a block may be written: endpoints as texts, or in the kind of the node's key."""
        for as_key in (False, True):
            fields: list[pa.Field[Any]] = []
            for target, member in self._places.items():
                kind: pa.DataType = pa.utf8()
                if target in ENDS.values():
                    kind = key_kind(self._type, catalog, target) if as_key else kind
                elif target in self._type.by_name:
                    kind = read_as(self._type.property(target).type)
                fields.append(pa.field(member, kind))
            yield pa.schema(fields)

    def _strictly(self, block: bytes) -> Iterator[Piece]:
        self._records.records = self.records
        for values in read_values(io.BytesIO(block), self._limits):
            self._records.feed([self._record(value) for value in values])
        self.records = self._records.records
        found, self._found = self._found, []
        yield from found

    def _record(self, value: Any) -> Any:
        """The object as the record that says the same. What is no plain object stays what it is and is refused."""
        if not isinstance(value, dict) or isinstance(value, Repeated):
            return value
        data = {self._targets.get(member, member): inner for member, inner in value.items()}
        if not isinstance(self._type, EdgeType):
            return {"type": self._type.name, "data": data}
        ends = {end: data.pop(end) for end in ENDS.values() if end in data}
        return {"edge": self._type.name, **ends, "data": data}


def key_kind(edge: TableType, catalog: Catalog, end: str) -> pa.DataType:
    assert isinstance(edge, EdgeType)
    node = catalog.node(edge.src_type if end == "from" else edge.dst_type)
    if node.key is None or len(node.key) != 1:
        return pa.utf8()
    return read_as(node.property(node.key[0]).type)


def read_as(kind: PropType) -> pa.DataType:
    """The Arrow type with which a property is read, so that nothing is lost before it is checked."""
    if kind.scalar is ScalarKind.VECTOR:
        return pa.list_(pa.float64())
    scalar = _scalar(kind.scalar)
    return pa.list_(scalar) if kind.is_list else scalar


def _scalar(kind: ScalarKind) -> pa.DataType:
    if kind in _AS_TEXT:
        return pa.utf8()
    if kind is ScalarKind.U64:
        return pa.uint64()
    if kind.is_integer:
        return pa.int64()
    return pa.float64() if kind.is_float else arrow_type(PropType(kind))
