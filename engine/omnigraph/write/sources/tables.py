"""Tables of one type into rows: which column goes where, and every batch in the physical schema.

Owns the names of columns. A table carries properties by name (or by a mapping), ``id`` where ids are given, and for
edges ``from`` and ``to``; the physical names ``src`` and ``dst`` are understood as well, so that what a snapshot gave can
be loaded. A column that is none of these is refused, as a property that does not exist is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute

from omnigraph.core.clock import Clock
from omnigraph.core.errors import DataInvalid
from omnigraph.core.limits import Limits
from omnigraph.schema.arrow import arrow_type
from omnigraph.schema.catalog import Catalog, EdgeType, PropType, ScalarKind, TableType
from omnigraph.write.base import violations as v
from omnigraph.write.base.changes import Origin, SourcePart
from omnigraph.write.base.constants import ENDS, PIECE_ROWS
from omnigraph.write.base.refusal import data_invalid
from omnigraph.write.base.rejects import Finding, Rejects
from omnigraph.write.base.violations import Violation, show_value
from omnigraph.write.base.wording import Wording
from omnigraph.write.sources.batch import TableFile
from omnigraph.write.sources.csv_files import RaggedRow
from omnigraph.write.sources.formats import read_formatted
from omnigraph.write.sources.pieces import Piece, RawRows, settle
from omnigraph.write.values.cells import to_json
from omnigraph.write.values.columns import build_column
from omnigraph.write.values.conform import BadRows, WrongKind, conform_column
from omnigraph.write.values.endpoint_text import end_array

pc: Any = pyarrow.compute
_TEXT = PropType(ScalarKind.STRING, nullable=True)

_AS_IT_IS: Final = TableFile(())
_COLUMNS_SHOWN: Final = 20

Reading = Callable[[PropType, "pa.Array[Any]"], tuple[Any, list[BadRows]]]


class TableReader:
    """Pieces of one type out of record batches of one source."""

    def __init__(
        self,
        declared: TableType,
        catalog: Catalog,
        limits: Limits,
        clock: Clock | None,
        rejects: Rejects,
        *,
        source: str | None = None,
        order: int = 0,
        file: TableFile | None = None,
        ragged: Sequence[RaggedRow] = (),
        reading: Reading = conform_column,
        partial: bool = False,
    ) -> None:
        self._partial = partial
        self._type = declared
        self._catalog = catalog
        self._limits = limits
        self._clock = clock
        self._rejects = rejects
        self._part = SourcePart(name=source, order=order)
        self._file = file or _AS_IT_IS
        self._ragged = ragged
        self._refused = 0  # how many of ``ragged`` have been refused
        self._reading = reading
        self._names: tuple[str, ...] | None = None
        self._places: dict[str, str] = {}  # target: source column
        self.records = 0

    def pieces(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Piece]:
        """Consumes ``batches``; row numbers run on from one to the next."""
        for batch in batches:
            self.resolve(batch.schema.names)
            for start in range(0, batch.num_rows, PIECE_ROWS):
                yield self._piece(batch.slice(start, PIECE_ROWS))
        self._refuse_ragged(len(self._ragged))

    def check(self, schema: pa.Schema) -> None:
        """Refuse a source by its columns alone: their names, and kinds that no row could have."""
        self.resolve(schema.names)
        self._piece(pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema))

    def resolve(self, names: Sequence[str]) -> None:
        """Settle once which source column is which; raises ``DataInvalid`` naming every column at fault."""
        if self._names == tuple(names):
            return
        self._names = tuple(names)
        self._places, faults = place_columns(self._type, names, self._file, partial=self._partial)
        if faults:
            placed = [self._placed(fault) for fault in faults]
            raise data_invalid(placed[: v.SHOWN_MAX], len(placed))

    def _placed(self, violation: Violation) -> Violation:
        return replace(
            violation,
            table_key=self._type.table_key,
            type=self._type.name,
            source=self._part.name,
            source_order=self._part.order,
        )

    def _piece(self, batch: pa.RecordBatch) -> Piece:
        origin = self._origin(batch.num_rows)
        wording = Wording(self._type, origin)
        raw = RawRows(self._type, batch.num_rows, partial=self._partial)
        sources = {target: batch.column(name) for target, name in self._places.items()}
        for target, column in sources.items():
            if target in ENDS:
                raw.ends[target] = self._end(target, column, wording, raw.findings)
            elif target == "id":
                raw.given_ids = self._read(target, _TEXT, column, wording, raw.findings)
            else:
                kind = self._type.property(target).type
                raw.columns[target] = self._read(target, kind, column, wording, raw.findings)
        return settle(
            raw,
            origin,
            lambda row: row_record(self._type, {t: c[row].as_py() for t, c in sources.items()}),
            self._rejects,
            self._limits,
            self._clock,
        )

    def _origin(self, rows: int) -> Origin:
        """Where the next rows stand in the source, counted past those that have no place in the table."""
        first = self.records + 1
        if self._refused == len(self._ragged) or self._ragged[self._refused].number >= first + rows:
            self.records += rows
            return Origin((SourcePart(0, self._part.name, self._part.order, first),))
        numbers = np.empty(rows, dtype=np.int64)
        for row in range(rows):
            while self._refused < len(self._ragged) and self._ragged[self._refused].number == self.records + 1:
                self._refuse_ragged(self._refused + 1)
            self.records += 1
            numbers[row] = self.records
        return Origin((SourcePart(0, self._part.name, self._part.order, first),), numbers)

    def _refuse_ragged(self, end: int) -> None:
        for row in self._ragged[self._refused : end]:
            message = f"a row of {row.found} cells where the file has {row.expected} columns"
            reason = self._placed(Violation(v.MALFORMED, message, value=show_value(row.text)))
            self._rejects.record(row.text, row.number, self._part.name, self._part.order, [reason])
            self.records += 1
        self._refused = end

    def _read(
        self, target: str, kind: PropType, column: pa.Array[Any], wording: Wording, findings: list[Finding]
    ) -> pa.Array[Any]:
        how = self._file.csv.formats.get(self._places.get(target, target))
        try:
            if how is not None:
                taken, bad = read_formatted(kind, column, how)
            elif self._file.decimals == "round" and pa.types.is_decimal(column.type) and kind.scalar.is_float:
                taken, bad = self._rounded(target, kind, column), []
            else:
                taken, bad = self._reading(kind, column)
        except (WrongKind, pa.ArrowException) as error:
            raise self._wrong_kind(target, str(kind), column.type) from error
        findings += [_finding(target, kind, column, each, wording) for each in bad]
        array: pa.Array[Any] = taken
        return array

    def _rounded(self, target: str, kind: PropType, column: pa.Array[Any]) -> pa.Array[Any]:
        """Decimals as the nearest numbers of the property; a warning says how many were not exact."""
        rounded: pa.Array[Any]
        rounded, inexact = conform_column(kind, column)
        for bad in inexact:
            self._rejects.warn(f"{self._type.name}.{target}: decimals were rounded to {kind}", len(bad.rows))
        return rounded

    def _end(self, target: str, column: pa.Array[Any], wording: Wording, findings: list[Finding]) -> pa.Array[Any]:
        assert isinstance(self._type, EdgeType)
        node = self._catalog.node(self._type.src_type if target == "src" else self._type.dst_type)
        member = ENDS[target]
        try:
            if pa.types.is_dictionary(column.type):
                column = pc.cast(column, column.type.value_type)
            if pa.types.is_null(column.type):
                return pa.nulls(len(column), pa.utf8())
            if _is_text(column.type):
                column = self._read(member, _TEXT, column, wording, findings)
            return end_array(node, column)
        except (DataInvalid, pa.ArrowException) as error:
            raise self._wrong_kind(member, "String", column.type) from error

    def _wrong_kind(self, target: str, expected: str, found: pa.DataType) -> DataInvalid:
        place = self._places.get(target) or self._places.get("src" if target == "from" else "dst") or target
        message = f"{self._type.name}.{target} expects {expected}, column {show_value(place)} is {found}"
        wrong = Violation(v.WRONG_KIND, message, property=target, value=str(found)[:80], expected=expected)
        return data_invalid([self._placed(wrong)], 1)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def place_columns(
    declared: TableType, names: Sequence[str], file: TableFile, *, partial: bool = False
) -> tuple[dict[str, str], list[Violation]]:
    """Target (``id``, ``src``, ``dst`` or a property) to source column, and what does not fit. ``partial``: only the
    properties of a key need a column."""
    mapping = file.columns
    needed = set(declared.by_name)
    if partial:
        needed = set(getattr(declared, "key", None) or ())
    is_edge = isinstance(declared, EdgeType)
    physical = {member: column for column, member in ENDS.items()} if is_edge else {}
    targets = {"id", *declared.by_name, *(ENDS if is_edge else ())}
    has = ", ".join(names[:_COLUMNS_SHOWN])
    faults: list[Violation] = []
    places: dict[str, str] = {}
    for asked, source in mapping.items():
        target = physical.get(asked, asked)
        if target not in targets:
            faults.append(
                _column_fault(v.UNKNOWN_PROPERTY, f"{declared.name} has no property {show_value(asked)}", asked)
            )
        elif source not in names:
            faults.append(
                _column_fault(
                    v.UNKNOWN_PROPERTY, f"the source has no column {show_value(source)}; it has {has}", source
                )
            )
        else:
            places[target] = source
    faults += [
        _column_fault(v.UNKNOWN_PROPERTY, f"the source has no column {show_value(name)}; it has {has}", name)
        for name in [*file.skip, *file.csv.formats]
        if name not in names
    ]
    spoken_for = {*mapping.values(), *file.skip}
    for name in names:
        target = physical.get(name, name)
        if name in spoken_for:
            continue
        if target not in targets:
            faults.append(
                _column_fault(
                    v.UNKNOWN_PROPERTY, f"{declared.name} has no property {show_value(name)} (a column)", name
                )
            )
        elif target in places:
            faults.append(_column_fault(v.DUPLICATE_MEMBER, f"two columns for {declared.name}.{target}", name))
        else:
            places[target] = name
    stub = None if isinstance(declared, EdgeType) else declared.stub
    for prop in declared.properties:
        if not prop.type.nullable and prop.name in needed and prop.name not in places and prop.name != stub:
            message = f"{declared.name}.{prop.name} is required and has no column"
            faults.append(_column_fault(v.REQUIRED, message, prop.name))
    faults += [
        _column_fault(v.MISSING_ENDPOINT_VALUE, f"{declared.name} needs a column {ENDS[column]!r}", ENDS[column])
        for column in (ENDS if is_edge else ())
        if column not in places
    ]
    return places, faults


def _column_fault(code: str, message: str, name: str) -> Violation:
    return Violation(code, message, property=name[:80])


def _finding(target: str, kind: PropType, column: pa.Array[Any], bad: BadRows, wording: Wording) -> Finding:
    def word(row: int) -> Violation:
        value = _cell(column, row)
        reason = f"expects {kind}, got {show_value(value)}: {bad.reason}"
        return wording.row(row, bad.code, reason, property=target, value=value, expected=str(kind))

    return Finding(bad.rows, word, property=target)


def _cell(column: pa.Array[Any], row: int) -> Any:
    """A value to show, also where Python has no kind for it (a moment in nanoseconds, a broken text)."""
    scalar: Any = column[row]
    try:
        return scalar.as_py()
    except (ValueError, UnicodeError, OverflowError):
        return str(scalar.cast(pa.int64()).as_py()) if pa.types.is_temporal(column.type) else "<unreadable>"


def row_record(declared: TableType, values: Mapping[str, Any]) -> dict[str, Any]:
    """A row of physical or source columns as the record that would load it."""
    is_edge = isinstance(declared, EdgeType)
    record: dict[str, Any] = {"edge" if is_edge else "type": declared.name}
    for column, member in ENDS.items() if is_edge else ():
        if values.get(column) is not None:
            record[member] = values[column]
    data = {}
    for name in ("id", *declared.by_name):
        value = values.get(name)
        if value is not None:
            data[name] = value if name == "id" else to_json(declared.property(name).type, value)
    record["data"] = data
    return record


# --- texts --------------------------------------------------------------------------------------------------------------


def read_texts(kind: PropType, column: pa.Array[Any]) -> tuple[Any, list[BadRows]]:
    """A column of texts, as CSV has it, in the property's kind. Lists and vectors are written as JSON arrays."""
    if kind.scalar is ScalarKind.STRING and not kind.is_list:
        return conform_column(kind, column)
    return _read(kind, column, lambda texts: _built(kind, [_from_text(kind, text) for text in texts.to_pylist()]))


def read_json_values(kind: PropType, column: pa.Array[Any]) -> tuple[Any, list[BadRows]]:
    """A column as Arrow reads it from JSON: texts are the texts of JSON, everything else has its kind already, but for numbers,
    which have no width in JSON: a property of single precision takes the nearest that it holds."""
    if kind.scalar is ScalarKind.F32 and not pa.types.is_null(column.type):
        single = pc.cast(column, arrow_type(kind), safe=False)
        finite = pc.all(pc.is_finite(single.flatten() if kind.is_list else single), min_count=0).as_py()
        return conform_column(kind, single) if finite else _built(kind, column.to_pylist())
    if not pa.types.is_string(column.type) or (kind.scalar is ScalarKind.STRING and not kind.is_list):
        return conform_column(kind, column)
    if kind.scalar in (ScalarKind.DATE, ScalarKind.DATETIME):
        return _read(kind, column, lambda texts: _built(kind, texts.to_pylist()))
    return _built(kind, column.to_pylist())


# What both Arrow and this language read alike. Anything else goes the slow way, which is the one that decides.
_PLAIN: Final[Mapping[ScalarKind, str]] = {
    ScalarKind.BOOL: r"^(true|false)$",
    **dict.fromkeys((ScalarKind.I32, ScalarKind.I64, ScalarKind.U32, ScalarKind.U64), r"^(0|-?[1-9][0-9]{0,17})$"),
    **dict.fromkeys((ScalarKind.F32, ScalarKind.F64), r"^-?[0-9]{1,17}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,2})?$"),
    ScalarKind.DATE: r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    ScalarKind.DATETIME: (
        r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})?$"
    ),
}
_OFFSET: Final = "(Z|[+-][0-9]{2}:[0-9]{2})$"
_ARROW: Final[Mapping[ScalarKind, pa.DataType]] = {
    ScalarKind.BOOL: pa.bool_(),
    ScalarKind.F32: pa.float64(),
    ScalarKind.F64: pa.float64(),
    ScalarKind.DATE: pa.date32(),
    ScalarKind.DATETIME: pa.timestamp("us", "UTC"),
}


def _read(
    kind: PropType, column: pa.Array[Any], slowly: Callable[[pa.Array[Any]], tuple[Any, list[BadRows]]]
) -> tuple[Any, list[BadRows]]:
    """The column in its kind: at once what is written plainly and can be taken, ``slowly`` what is not."""
    pattern = None if kind.is_list else _PLAIN.get(kind.scalar)
    if pattern is None:
        return slowly(column)
    plain = pc.fill_null(pc.match_substring_regex(column, pattern), True)
    texts = column if pc.all(plain).as_py() else pc.if_else(plain, column, None)
    if kind.scalar is ScalarKind.DATETIME:  # without an offset it is UTC
        texts = pc.if_else(pc.match_substring_regex(texts, _OFFSET), texts, pc.binary_join_element_wise(texts, "Z", ""))
    try:
        values = pc.cast(texts, _ARROW.get(kind.scalar, pa.int64()))
    except pa.ArrowInvalid:  # a thirteenth month
        return slowly(column)
    if kind.scalar is ScalarKind.F32:  # a text has no width: the nearest, as with a number of JSON
        values = pc.cast(values, pa.float32(), safe=False)
    taken, bad = conform_column(kind, values)
    odd = ~plain.to_numpy(zero_copy_only=False)
    for refused in bad:
        odd[refused.rows] = True
    if not odd.any():
        return taken, []
    others, refusals = slowly(column.filter(pa.array(odd)))
    rows = np.flatnonzero(odd)
    return pc.replace_with_mask(taken, pa.array(odd), others), [replace(one, rows=rows[one.rows]) for one in refusals]


def _built(kind: PropType, values: Sequence[Any]) -> tuple[Any, list[BadRows]]:
    taken, refused = build_column(kind, values)
    bad: dict[tuple[str, str], list[int]] = {}
    for row, refusal in refused.items():
        bad.setdefault((refusal.code, refusal.reason), []).append(row)
    return taken, [BadRows(np.array(rows, dtype=np.int64), code, reason) for (code, reason), rows in bad.items()]


def read_json_texts(kind: PropType, column: pa.Array[Any]) -> tuple[Any, list[BadRows]]:
    """A column of texts, each the JSON of its cell, in the property's kind: as strict as a record is read."""
    return _built(kind, [None if text is None else json.loads(text) for text in column.to_pylist()])


def _from_text(kind: PropType, text: str | None) -> Any:
    """The value that JSON would have; the text itself where there is none, which the property then refuses."""
    if text is None:
        return None
    scalar = kind.scalar
    stripped = text.strip()
    if kind.is_list or scalar is ScalarKind.VECTOR:
        try:
            return json.loads(stripped)
        except (ValueError, RecursionError):
            return text
    if scalar is ScalarKind.BOOL:
        return {"true": True, "false": False}.get(stripped.lower(), text)
    if scalar.is_integer:
        try:
            return int(stripped) if stripped.lstrip("+-").isdigit() and stripped.isascii() else text
        except ValueError:
            return text
    if scalar.is_float:
        try:
            return float(stripped)
        except ValueError:
            return text
    return stripped if scalar in (ScalarKind.DATE, ScalarKind.DATETIME) else text
