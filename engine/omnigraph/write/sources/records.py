"""Records into rows: ``{"type", "data"}`` and ``{"edge", "from", "to", "data"}``, strictly.

Owns the shapes of records. A list of values is sorted by shape and type first, so that the usual case, very many records
of few shapes, is handled with a few calls a column. Also read is a line of a quarantine file, ``{"record", "reasons"}``:
the record inside is taken, so that such a file can be corrected and loaded as it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from operator import itemgetter
from typing import Any, Final

import numpy as np

from omnigraph.core.clock import Clock
from omnigraph.core.limits import Limits
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType, PropType, ScalarKind, TableType
from omnigraph.write.base import violations as v
from omnigraph.write.base.changes import Origin, RowIndex, SourcePart
from omnigraph.write.base.constants import ENDS
from omnigraph.write.base.hints import similar
from omnigraph.write.base.rejects import Finding, Rejects
from omnigraph.write.base.violations import Violation, show_value
from omnigraph.write.base.wording import Wording
from omnigraph.write.sources.json_stream import Broken, Repeated, parse_text, repeated_text
from omnigraph.write.sources.pieces import Piece, RawRows, settle
from omnigraph.write.values.cells import Refusal, describe
from omnigraph.write.values.columns import Refused, build_column
from omnigraph.write.values.endpoint_text import end_column

ID_KIND: Final = PropType(ScalarKind.STRING, nullable=True)
# Records of one piece when they come from an iterable.
_TAKEN_AT_ONCE: Final = 16_384
_NODE_MEMBERS: Final = ("type", "data")
_EDGE_MEMBERS: Final = ("edge", "from", "to", "data")
_ENVELOPE: Final = frozenset({"record", "reasons"})
_NOTHING: Final = object()

Numbered = tuple[list[dict[str, Any]], RowIndex]


def take_lists(records: Iterable[Any]) -> Iterator[list[Any]]:
    """An iterable in lists of bounded length."""
    iterator = iter(records)
    while taken := list(islice(iterator, _TAKEN_AT_ONCE)):
        yield taken


class RecordReader:
    """Turns lists of values into pieces per type. Numbers records from 1 in the order in which they are fed."""

    def __init__(
        self,
        catalog: Catalog,
        limits: Limits,
        clock: Clock | None,
        rejects: Rejects,
        deliver: Callable[[TableType, Piece], None],
        source: str | None = None,
        *,
        order: int = 0,
        partial: bool = False,
    ) -> None:
        self._partial = partial
        self.catalog = catalog
        self.limits = limits
        self.clock = clock
        self._rejects = rejects
        self.deliver = deliver
        self.parts = (SourcePart(name=source, order=order),)
        self.records = 0

    def feed(self, values: list[Any]) -> None:
        first = self.records + 1
        self.records += len(values)
        groups: dict[str, Numbered] = {}
        for shape, records, numbers in _by_shape(values, first):
            self._sort_out(shape, records, numbers, groups)
        for table_key in sorted(groups):
            records, numbers = groups[table_key]
            self._rows(self.catalog.by_table_key(table_key), records, numbers)

    # --- which table -----------------------------------------------------------------------------------------------

    def _sort_out(
        self, shape: tuple[str, ...] | None, records: list[Any], numbers: RowIndex, groups: dict[str, Numbered]
    ) -> None:
        members = frozenset(shape or ())
        if "type" in members and members <= set(_NODE_MEMBERS):
            name_member = "type"
        elif {"edge", "from", "to"} <= members <= set(_EDGE_MEMBERS):
            name_member = "edge"
        else:
            for record, number in zip(records, numbers.tolist(), strict=True):
                self._one(record, number, groups)
            return
        names = list(map(itemgetter(name_member), records))
        plain = set(map(type, names)) == {str} and ("data" not in members or _kinds(records, "data") == {dict})
        declared = {name: self._find(name_member, name) for name in set(names)} if plain else {}
        if not plain or None in declared.values():
            for record, number in zip(records, numbers.tolist(), strict=True):
                self._one(record, number, groups)
        elif len(declared) == 1:
            _add(groups, declared[names[0]], records, numbers)
        else:
            for name in sorted(declared):
                rows = [i for i, other in enumerate(names) if other == name]
                _add(groups, declared[name], [records[i] for i in rows], numbers[rows])

    def _find(self, name_member: str, name: str) -> TableType | None:
        return self.catalog.find_node(name) if name_member == "type" else self.catalog.find_edge(name)

    def _hint_of_type(self, member: str, name: object) -> str | None:
        if isinstance(name, str) and self._find("edge" if member == "type" else "type", name) is not None:
            return f"write it with the member {'edge' if member == 'type' else 'type'}: {name} is no {'node' if member == 'type' else 'edge'}"
        return similar(name, (one.name for one in self.catalog.types()))

    def _one(self, record: Any, number: int, groups: dict[str, Numbered]) -> None:
        """One record by itself: either it goes to its group or it is refused, with every reason."""
        if isinstance(record, dict) and record.keys() == _ENVELOPE:
            record = record["record"]
            if isinstance(record, str):
                values = parse_text(record, self.limits)
                record = values[0] if len(values) == 1 else Broken(record, "one record is needed")
        declared, reasons = self._judge(record)
        if declared is None or reasons:
            name = self.parts[0].name
            self._rejects.record(_original(record), number, name, self.parts[0].order, reasons)
        else:
            _add(groups, declared, [dict(record)], np.array([number], dtype=np.int64))

    def _judge(self, record: Any) -> tuple[TableType | None, list[Violation]]:
        if isinstance(record, Broken):
            return None, [Violation(v.MALFORMED, f"not JSON: {record.reason}", value=show_value(record.raw))]
        if not isinstance(record, Mapping):
            return None, [Violation(v.MALFORMED, "a record is a JSON object", value=show_value(record))]
        reasons = [_repeated(inner) for inner in (record, record.get("data")) if isinstance(inner, Repeated)]
        if "type" in record:
            member, allowed = "type", frozenset(_NODE_MEMBERS)
        elif "edge" in record:
            member, allowed = "edge", frozenset(_EDGE_MEMBERS)
        else:
            reasons.append(
                Violation(v.MALFORMED, "a record has a 'type' (node) or an 'edge'", value=show_value(record))
            )
            return None, reasons
        reasons += [_unknown_member(name, member, record[name]) for name in record if name not in allowed]
        name = record[member]
        declared = self._find(member, name) if isinstance(name, str) else None
        if declared is None:
            kind = "node" if member == "type" else "edge"
            reasons.append(
                Violation(
                    v.UNKNOWN_TYPE,
                    f"no such {kind} type: {show_value(name)}",
                    value=show_value(name),
                    hint=self._hint_of_type(member, name),
                )
            )
            return None, reasons
        who: dict[str, Any] = {"table_key": declared.table_key, "type": declared.name}
        data = record.get("data", _NOTHING)
        if data is not _NOTHING and not isinstance(data, Mapping):
            message = f"{declared.name}.data is an object, got {show_value(data)}"
            reasons.append(
                Violation(v.WRONG_KIND, message, property="data", value=show_value(data), expected="object", **who)
            )
        for end in ENDS.values() if member == "edge" else ():
            if end not in record:
                message = f"{declared.name} needs {end!r}, the id of a node"
                reasons.append(Violation(v.MISSING_ENDPOINT_VALUE, message, property=end, expected="String", **who))
        return declared, reasons

    # --- rows ------------------------------------------------------------------------------------------------------

    def _rows(self, declared: TableType, records: list[dict[str, Any]], numbers: RowIndex) -> None:
        origin = origin_of(self.parts, numbers)
        wording = Wording(declared, origin)
        datas: list[Mapping[str, Any]] = [record.get("data", {}) for record in records]
        raw = RawRows(declared, len(records), partial=self._partial)
        known = declared.by_name
        members, columns = _transpose(datas)
        for name, values in zip(members, columns, strict=True):
            if name in known:
                raw.columns[name] = _column(known[name].type, name, values, wording, raw.findings)
                if self._partial and None in values:
                    named = np.array([name in data for data in datas], dtype=np.bool_)
                    if not named.all():
                        raw.named[name] = named
            elif name == "id":
                raw.given_ids = _column(ID_KIND, name, values, wording, raw.findings)
            else:
                raw.findings.append(_unknown(name, datas, wording, isinstance(declared, EdgeType)))
        if isinstance(declared, EdgeType):
            for column_name, member in ENDS.items():
                node = self.catalog.node(declared.src_type if column_name == "src" else declared.dst_type)
                raw.ends[column_name] = _ends(node, member, records, wording, raw.findings)
        piece = settle(raw, origin, records.__getitem__, self._rejects, self.limits, self.clock)
        if piece.batch.num_rows:
            self.deliver(declared, piece)


def _by_shape(values: list[Any], first: int) -> Iterator[tuple[tuple[str, ...] | None, list[Any], RowIndex]]:
    numbers = np.arange(first, first + len(values), dtype=np.int64)
    if _all_like_first(values):
        yield tuple(values[0]), values, numbers
        return
    rows: dict[tuple[str, ...] | None, list[int]] = {}
    for row, value in enumerate(values):
        rows.setdefault(tuple(value) if type(value) is dict else None, []).append(row)
    for shape, found in rows.items():
        yield shape, [values[row] for row in found], numbers[found]


def _all_like_first(values: list[Any]) -> bool:
    """Whether all are objects with the members of the first. Without making an object a record: those would keep the
    garbage collector busy."""
    if set(map(type, values)) != {dict} or set(map(len, values)) != {len(values[0])}:
        return False
    try:
        for member in values[0]:
            deque(map(itemgetter(member), values), maxlen=0)
    except KeyError:
        return False
    return True


def _kinds(records: Sequence[dict[str, Any]], member: str) -> set[type]:
    return set(map(type, map(itemgetter(member), records)))


def _add(groups: dict[str, Numbered], declared: TableType | None, records: list[Any], numbers: RowIndex) -> None:
    assert declared is not None
    held = groups.get(declared.table_key)
    if held is None:
        groups[declared.table_key] = (records, numbers)
        return
    joined = held[0] + records
    joined_numbers = np.concatenate([held[1], numbers])
    order = np.argsort(joined_numbers, kind="stable")
    groups[declared.table_key] = ([joined[i] for i in order.tolist()], joined_numbers[order])


def origin_of(parts: tuple[SourcePart, ...], numbers: RowIndex) -> Origin:
    if int(numbers[-1]) - int(numbers[0]) == len(numbers) - 1:
        part = parts[0]
        return Origin((SourcePart(0, part.name, part.order, int(numbers[0])),))
    return Origin(parts, numbers)


def _transpose(datas: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[Sequence[Any]]]:
    """The members that occur, sorted, and for each its values, null where absent."""
    members = sorted(datas[0], key=str)
    if set(map(len, datas)) == {len(members)}:
        try:
            # As many members as the first, and all of the first's: the same members.
            return members, [list(map(itemgetter(name), datas)) for name in members]
        except KeyError:
            pass
    members = sorted(set().union(*datas), key=str)
    return members, [[data.get(name) for data in datas] for name in members]


def _column(kind: PropType, name: str, values: Sequence[Any], wording: Wording, findings: list[Finding]) -> Any:
    column, refused = build_column(kind, values)
    if refused:
        findings.append(_refused(kind, str(kind), name, values, refused, wording))
    return column


def _ends(
    node: NodeType, member: str, records: Sequence[dict[str, Any]], wording: Wording, findings: list[Finding]
) -> Any:
    values = [record.get(member) for record in records]
    column, refused = end_column(node, values)
    if refused:
        findings.append(_refused(ID_KIND, "String", member, values, refused, wording))
    return column


def _refused(
    kind: PropType, expected: str, name: str, values: Sequence[Any], refused: Refused, wording: Wording
) -> Finding:
    def word(row: int) -> Violation:
        refusal: Refusal = refused[row]
        reason = describe(kind, values[row], refusal)
        return wording.row(row, refusal.code, reason, property=name, value=values[row], expected=expected)

    return Finding(np.array(sorted(refused), dtype=np.int64), word, property=name)


def _unknown(name: str, datas: Sequence[Mapping[str, Any]], wording: Wording, is_edge: bool) -> Finding:
    hint = "; endpoints are the members 'from' and 'to' of the record" if is_edge and name in ("src", "dst") else ""

    def word(row: int) -> Violation:
        reason = f"has no property {show_value(name)}{hint}"
        found = wording.row(row, v.UNKNOWN_PROPERTY, reason, value=datas[row][name])
        return replace(found, property=str(name)[:80], hint=similar(name, wording.type.by_name))

    rows = np.array([row for row, data in enumerate(datas) if name in data], dtype=np.int64)
    return Finding(rows, word)


def _unknown_member(name: Any, member: str, value: Any) -> Violation:
    kind, allowed = ("node", _NODE_MEMBERS) if member == "type" else ("an edge", _EDGE_MEMBERS)
    article = "a " if member == "type" else ""
    message = f"{article}{kind} record has no member {show_value(name)}; it has {', '.join(allowed)}"
    return Violation(v.UNKNOWN_MEMBER, message, property=str(name)[:80], value=show_value(value))


def _repeated(inner: Repeated) -> Violation:
    return Violation(
        v.DUPLICATE_MEMBER, f"the member {show_value(inner.member)} is written twice", property=inner.member[:80]
    )


def _original(record: Any) -> Any:
    """What a quarantine file holds: the record, or its text where JSON values cannot say what was wrong with it."""
    if isinstance(record, Broken):
        return record.raw
    if isinstance(record, Mapping) and any(isinstance(inner, Repeated) for inner in (record, record.get("data"))):
        return repeated_text(record)
    return record
