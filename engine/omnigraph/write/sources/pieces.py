"""From columns of one type as a source has them to rows as the table has them: complete, identified, within limits.

Every source, records and tables alike, ends here. Owns required values, the derivation of ids and the canonical
spelling of endpoints. What rows mean to each other or to the graph is the validator's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from omnigraph.core.clock import Clock
from omnigraph.core.errors import LimitExceeded
from omnigraph.core.ids import bulk_ulids, new_ulid
from omnigraph.core.limits import Limits
from omnigraph.schema.arrow import table_schema
from omnigraph.schema.catalog import EdgeType, NodeType, TableType
from omnigraph.schema.keytext import derive_ids
from omnigraph.table.arrays import one_array, positions
from omnigraph.write.base import violations as v
from omnigraph.write.base.changes import Origin, RowIndex, Unnamed, take_unnamed
from omnigraph.write.base.constants import ENDS
from omnigraph.write.base.rejects import Finding, Rejects
from omnigraph.write.base.violations import Violation, show_value
from omnigraph.write.base.wording import Wording

pc: Any = pyarrow.compute

# Making ids in bulk has a price of entry: about that of a few hundred made singly.
_BULK_IDS_MIN: Final = 256


@dataclass
class RawRows:
    """Columns of one type in their physical kinds, as far as the source has them, and what is wrong with their cells."""

    type: TableType
    count: int
    columns: dict[str, pa.Array[Any]] = field(default_factory=dict)
    given_ids: pa.Array[Any] | None = None
    ends: dict[str, pa.Array[Any]] = field(default_factory=dict)  # "src" and "dst"; null where missing
    findings: list[Finding] = field(default_factory=list)
    # Whether a property may be left out: of a patch. ``named`` has a mask where only some rows name a property.
    partial: bool = False
    named: dict[str, npt.NDArray[np.bool_]] = field(default_factory=dict)

    @property
    def stub(self) -> str | None:
        """The property that marks stubs. Rows that come in are none unless they say so: it is false where nothing is said."""
        return self.type.stub if isinstance(self.type, NodeType) else None

    @property
    def unnamed(self) -> Unnamed:
        """Properties that may be left out and are. Those of a key say which row is meant and never may."""
        if not self.partial:
            return {}
        key = set(self.type.key or ()) if isinstance(self.type, NodeType) else set()
        found: dict[str, bool | npt.NDArray[np.bool_]] = {}
        for name in self.type.by_name:
            if name in key or name == self.stub:
                continue
            if name not in self.columns:
                found[name] = True
            elif name in self.named:
                found[name] = ~self.named[name]
        return found


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows in the physical schema, which of their ids were made here, their record numbers, and what they do not name."""

    batch: pa.RecordBatch
    minted: bool | npt.NDArray[np.bool_]
    origin: Origin
    unnamed: Unnamed = field(default_factory=dict)


def settle(
    raw: RawRows,
    origin: Origin,
    original: Callable[[int], Any],
    rejects: Rejects,
    limits: Limits,
    clock: Clock | None,
) -> Piece:
    """Rows of ``raw`` that can stand, in their order. The others go to ``rejects``."""
    wording = Wording(raw.type, origin)
    findings = [_named(raw, finding) for finding in raw.findings + _missing(raw, wording)]
    bad = rejects.rows(findings, original)
    kept = _without(raw.count, bad)
    if kept is not None:
        raw, origin = _take(raw, kept), origin.take(kept)
        wording = Wording(raw.type, origin)
    ids, minted, findings = _identify(raw, wording, limits, clock)
    if findings and not rejects.keep:
        _refuse_long_ids(findings, limits)
    bad = rejects.rows(findings, original if kept is None else _shifted(original, kept))
    batch = _assemble(raw, ids)
    kept = _without(raw.count, bad)
    if kept is None:
        return Piece(batch, minted, origin, raw.unnamed)
    return Piece(
        batch.take(positions(kept)),
        minted if isinstance(minted, bool) else minted[kept],
        origin.take(kept),
        take_unnamed(raw.unnamed, kept),
    )


def _named(raw: RawRows, finding: Finding) -> Finding:
    """The same finding; its violations say which row it is by its id as well, where that can be told."""

    def describe(row: int) -> Violation:
        found = finding.describe(row)
        return found if found.id is not None else replace(found, id=_id_of(raw, row))

    return replace(finding, describe=describe)


def _id_of(raw: RawRows, row: int) -> str | None:
    declared = raw.type
    if isinstance(declared, NodeType) and declared.key is not None:
        cells = {name: raw.columns[name].slice(row, 1) for name in declared.key if name in raw.columns}
        if len(cells) < len(declared.key) or any(cell.null_count for cell in cells.values()):
            return None
        ids: Any = derive_ids(declared, cells)
    elif raw.given_ids is not None:
        ids = raw.given_ids.slice(row, 1)
    else:
        return None
    text: str | None = ids[0].as_py()
    return None if text is None else text[:1024]


def _shifted(original: Callable[[int], Any], kept: RowIndex) -> Callable[[int], Any]:
    return lambda row: original(int(kept[row]))


def _without(count: int, bad: RowIndex) -> RowIndex | None:
    if not len(bad):
        return None
    good = np.ones(count, dtype=np.bool_)
    good[bad] = False
    return np.flatnonzero(good)


def _take(raw: RawRows, rows: RowIndex) -> RawRows:
    at = positions(rows)
    return RawRows(
        raw.type,
        len(rows),
        {name: column.take(at) for name, column in raw.columns.items()},
        None if raw.given_ids is None else raw.given_ids.take(at),
        {name: column.take(at) for name, column in raw.ends.items()},
        partial=raw.partial,
        named={name: mask[rows] for name, mask in raw.named.items()},
    )


def null_rows(column: pa.Array[Any]) -> RowIndex:
    if column.null_count == 0:
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))


def _missing(raw: RawRows, wording: Wording) -> list[Finding]:
    """Required properties and endpoints without a value. A cell that was refused is null too and not named twice."""
    findings = []
    unnamed, stub = raw.unnamed, raw.stub
    for prop in raw.type.properties:
        left_out = unnamed.get(prop.name)
        if prop.type.nullable or left_out is True or prop.name == stub:
            continue
        column = raw.columns.get(prop.name)
        if column is not None and column.null_count == 0:
            continue
        rows = np.arange(raw.count, dtype=np.int64) if column is None else null_rows(column)
        if not isinstance(left_out, bool | None):
            rows = rows[~left_out[rows]]
        rows = _not_named(rows, prop.name, raw.findings)
        if len(rows):
            findings.append(Finding(rows, _required(wording, prop.name, str(prop.type))))
    for column_name, member in ENDS.items() if isinstance(raw.type, EdgeType) else ():
        if raw.ends[column_name].null_count == 0:
            continue
        rows = _not_named(null_rows(raw.ends[column_name]), member, raw.findings)
        if len(rows):
            findings.append(Finding(rows, _endless(wording, member)))
    return findings


def _not_named(rows: RowIndex, name: str, findings: Sequence[Finding]) -> RowIndex:
    for finding in findings:
        if len(rows) and finding.property == name:
            rows = np.setdiff1d(rows, finding.rows)
    return rows


def _required(wording: Wording, name: str, kind: str) -> Callable[[int], Violation]:
    return lambda row: wording.row(row, v.REQUIRED, "is required", property=name, expected=kind)


def _endless(wording: Wording, member: str) -> Callable[[int], Violation]:
    return lambda row: wording.row(
        row, v.MISSING_ENDPOINT_VALUE, f"needs {member!r}, the id of a node", property=member, expected="String"
    )


# --- ids ----------------------------------------------------------------------------------------------------------------


def _identify(
    raw: RawRows, wording: Wording, limits: Limits, clock: Clock | None
) -> tuple[pa.Array[Any], bool | npt.NDArray[np.bool_], list[Finding]]:
    declared = raw.type
    minted: bool | npt.NDArray[np.bool_] = False
    findings: list[Finding] = []
    if raw.count == 0:
        return pa.array([], pa.utf8()), False, []  # nothing is left, perhaps not even the columns of the key
    if isinstance(declared, NodeType) and declared.key is not None:
        ids = one_array(derive_ids(declared, raw.columns), pa.utf8())
        findings += _disagreements(raw.given_ids, ids, wording)
    elif raw.given_ids is None or raw.given_ids.null_count == raw.count:
        ids, minted = _fresh_ids(raw.count, clock), True
    else:
        ids = raw.given_ids
        if ids.null_count:
            minted = ids.is_null().to_numpy(zero_copy_only=False)
            fresh = _fresh_ids(ids.null_count, clock)
            ids = one_array(pc.replace_with_mask(ids, ids.is_null(), fresh), pa.utf8())
    if minted is not True:
        findings += _too_long("id", ids, wording, limits)
    for column_name, member in ENDS.items() if isinstance(declared, EdgeType) else ():
        findings += _too_long(member, raw.ends[column_name], wording, limits)
    return ids, minted, findings


def _fresh_ids(count: int, clock: Clock | None) -> pa.Array[Any]:
    if count < _BULK_IDS_MIN:
        return pa.array([new_ulid(clock) for _ in range(count)], pa.utf8())
    return bulk_ulids(count, clock)


def _disagreements(given: pa.Array[Any] | None, ids: pa.Array[Any], wording: Wording) -> list[Finding]:
    if given is None or given.null_count == len(given):
        return []
    differs = pc.fill_null(pc.not_equal(given, ids), False).to_numpy(zero_copy_only=False)

    def describe(row: int) -> Violation:
        mine, derived = given[row].as_py(), ids[row].as_py()
        reason = f"{show_value(mine)} does not agree with the key, which makes it {show_value(derived)}"
        return wording.row(row, v.ID_MISMATCH, reason, property="id", value=mine, expected=derived[:80])

    rows = np.flatnonzero(differs)
    return [Finding(rows, describe)] if len(rows) else []


def _too_long(name: str, texts: pa.Array[Any], wording: Wording, limits: Limits) -> list[Finding]:
    lengths = pc.binary_length(texts)
    longest = pc.max(lengths).as_py()
    if longest is None or longest <= limits.id_bytes:
        return []

    def describe(row: int) -> Violation:
        size = lengths[row].as_py()
        reason = f"is longer than an id may be: limit=id_bytes bound={limits.id_bytes} actual={size}"
        return wording.row(
            row,
            v.ID_TOO_LONG,
            reason,
            property=name,
            value=texts[row].as_py(),
            expected=f"at most {limits.id_bytes} bytes",
        )

    return [Finding(np.flatnonzero(pc.greater(lengths, limits.id_bytes).to_numpy(zero_copy_only=False)), describe)]


def _refuse_long_ids(findings: Sequence[Finding], limits: Limits) -> None:
    """A bound that is passed is answered by its own error, unless bad records are to be set aside."""
    for finding in findings:
        first = finding.describe(int(finding.rows[0]))
        if first.code == v.ID_TOO_LONG:
            actual = int(first.message.rpartition("=")[2])
            raise LimitExceeded(first.line, limit="id_bytes", bound=limits.id_bytes, actual=actual, record=first.record)


def _assemble(raw: RawRows, ids: pa.Array[Any]) -> pa.RecordBatch:
    schema, stub = table_schema(raw.type), raw.stub
    made: Mapping[str, pa.Array[Any]] = {"id": ids, **raw.ends}
    columns = []
    for wanted in schema:
        column = made.get(wanted.name)
        if column is None:
            column = raw.columns.get(wanted.name)
        column = pa.nulls(raw.count, wanted.type) if column is None else column
        columns.append(pc.fill_null(column, False) if wanted.name == stub else column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)
