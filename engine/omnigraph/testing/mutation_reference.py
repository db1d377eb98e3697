"""What mutations mean, in plain Python: an interpreter to compare the engine with.

It shares nothing with the engine but the declared schema: rows are dictionaries, a query is run by walking over all of
them, and every rule is checked over the whole graph. Slow and obvious on purpose.
"""

from __future__ import annotations

import copy
import json
import math
import re
import struct
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from omnigraph.schema.catalog import Catalog, EdgeType, NodeType, PropType, ScalarKind, TableType

# --- queries ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Where:
    name: str
    op: str
    value: Any


@dataclass(frozen=True)
class Insert:
    type: str
    values: dict[str, Any]


@dataclass(frozen=True)
class Update:
    type: str
    values: dict[str, Any]
    where: Where


@dataclass(frozen=True)
class Delete:
    type: str
    where: Where


Statement = Insert | Update | Delete


# --- answers ------------------------------------------------------------------------------------------------------------


class Refused(Exception):
    """The query must be refused: ``query`` for what the text or its values say, ``data`` for what the rows would be."""

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(f"{kind}: {why}")
        self.kind = kind


@dataclass
class Answer:
    """``tables``: key → (inserted, updated, deleted, unchanged), for tables with anything to report."""

    nodes: int = 0
    edges: int = 0
    tables: dict[str, tuple[int, int, int, int]] = field(default_factory=dict)

    @property
    def changed(self) -> bool:
        return any(sum(counts[:3]) for counts in self.tables.values())


Row = dict[str, Any]


class ReferenceGraph:
    """The rows of a graph by type and id. Ids of edges and of nodes without a key are the interpreter's own."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.rows: dict[str, dict[str, Row]] = {declared.table_key: {} for declared in catalog.types()}
        self._minted = 0

    # --- running ----------------------------------------------------------------------------------------------------

    def run(self, statements: list[Statement]) -> Answer:
        """Run one query. Raises ``Refused`` and changes nothing, or changes everything."""
        self._look_at(statements)
        before, after = self.rows, copy.deepcopy(self.rows)
        answer = Answer()
        touched: dict[str, set[str]] = {}
        if isinstance(statements[0], Delete):
            gone: dict[str, set[str]] = {}
            for statement in statements:
                assert isinstance(statement, Delete)
                self._delete(statement, after, gone, answer)
            self._cascade(after, gone, answer)
            for key, ids in gone.items():
                for id_ in ids:
                    del after[key][id_]
        else:
            for statement in statements:
                if isinstance(statement, Insert):
                    self._insert(statement, after, touched, answer)
                elif isinstance(statement, Update):
                    self._update(statement, after, touched, answer)
        self._check(before, after)
        self._count(before, after, touched, answer)
        self.rows = after
        return answer

    def _type(self, name: str) -> TableType:
        return self.catalog.find_node(name) or self.catalog.edge(name)

    def _look_at(self, statements: list[Statement]) -> None:
        kinds = {isinstance(statement, Delete) for statement in statements}
        if len(kinds) > 1:
            raise Refused("query", "writes and deletes in one query")
        for statement in statements:
            declared = self._type(statement.type)
            if isinstance(statement, Update):
                if isinstance(declared, EdgeType):
                    raise Refused("query", "edges are not updated")
                assert isinstance(declared, NodeType)
                if set(statement.values) & set(declared.key or ()):
                    raise Refused("query", "a key is not assigned")
            if isinstance(statement, Insert):
                for prop in declared.properties:
                    if not prop.type.nullable and prop.name not in statement.values:
                        raise Refused("query", f"{prop.name} is required")
            if not isinstance(statement, Delete):
                for name, value in statement.values.items():
                    self._fits(declared, name, value, assigned=True)
            if not isinstance(statement, Insert):
                self._fits(declared, statement.where.name, statement.where.value, assigned=False)

    def _fits(self, declared: TableType, name: str, value: Any, *, assigned: bool) -> None:
        if isinstance(declared, EdgeType) and name in ("from", "to"):
            if value is None and assigned:
                raise Refused("query", "an end is null")
            return
        kind = declared.property(name).type
        if value is None:
            if assigned and not kind.nullable:
                raise Refused("query", f"{name} is null")
            return
        for one in value if kind.is_list else (value,):
            if one is not None:
                _scalar_fits(kind, one)

    # --- statements -------------------------------------------------------------------------------------------------

    def _insert(self, statement: Insert, rows: dict[str, dict[str, Row]], touched: Any, answer: Answer) -> None:
        declared = self._type(statement.type)
        row: Row = {prop.name: None for prop in declared.properties}
        for name, value in statement.values.items():
            if isinstance(declared, EdgeType) and name in ("from", "to"):
                row["src" if name == "from" else "dst"] = value
            else:
                row[name] = stored(declared.property(name).type, value)
        id_ = self._id(declared, row)
        rows[declared.table_key][id_] = row
        touched.setdefault(declared.table_key, set()).add(id_)
        _add(answer, declared, 1)

    def _id(self, declared: TableType, row: Row) -> str:
        if isinstance(declared, NodeType) and declared.key is not None:
            texts = [str(row[name]) for name in declared.key]  # texts and integers only
            return texts[0] if len(texts) == 1 else json.dumps(texts, ensure_ascii=False, separators=(",", ":"))
        self._minted += 1
        return f"minted {self._minted}"

    def _update(self, statement: Update, rows: dict[str, dict[str, Row]], touched: Any, answer: Answer) -> None:
        declared = self._type(statement.type)
        meant = [id_ for id_, row in rows[declared.table_key].items() if matches(declared, statement.where, row)]
        for id_ in meant:
            for name, value in statement.values.items():
                rows[declared.table_key][id_][name] = stored(declared.property(name).type, value)
            touched.setdefault(declared.table_key, set()).add(id_)
        _add(answer, declared, len(meant))

    def _delete(self, statement: Delete, rows: dict[str, dict[str, Row]], gone: Any, answer: Answer) -> None:
        declared = self._type(statement.type)
        mine = gone.setdefault(declared.table_key, set())
        meant = {id_ for id_, row in rows[declared.table_key].items() if matches(declared, statement.where, row)}
        _add(answer, declared, len(meant - mine))
        mine |= meant

    def _cascade(self, rows: dict[str, dict[str, Row]], gone: Any, answer: Answer) -> None:
        for edge in self.catalog.edges.values():
            mine = gone.setdefault(edge.table_key, set())
            lost_src = gone.get(f"node:{edge.src_type}", set())
            lost_dst = gone.get(f"node:{edge.dst_type}", set())
            along = {
                id_ for id_, row in rows[edge.table_key].items() if row["src"] in lost_src or row["dst"] in lost_dst
            }
            answer.edges += len(along - mine)
            mine |= along

    # --- rules ------------------------------------------------------------------------------------------------------

    def _check(self, before: dict[str, dict[str, Row]], after: dict[str, dict[str, Row]]) -> None:
        for node in self.catalog.nodes.values():
            rows = list(after[node.table_key].values())
            for bound in node.ranges:
                for row in rows:
                    value = row[bound.property]
                    if value is not None and not (
                        (bound.min is None or value >= bound.min) and (bound.max is None or value <= bound.max)
                    ):
                        raise Refused("data", f"{bound.property} {value} is out of range")
            for check in node.checks:
                for row in rows:
                    value = row[check.property]
                    if value is not None and re.search(check.pattern, value) is None:
                        raise Refused("data", f"{check.property} {value!r} does not match")
            self._unique(node, rows)
        for edge in self.catalog.edges.values():
            rows = list(after[edge.table_key].values())
            self._unique(edge, rows)
            for row in rows:
                if row["src"] not in after[f"node:{edge.src_type}"] or row["dst"] not in after[f"node:{edge.dst_type}"]:
                    raise Refused("data", f"an end of {row} is missing")
            self._cardinality(edge, before, after)

    def _unique(self, declared: TableType, rows: list[Row]) -> None:
        for group in declared.uniques:
            tuples = [tuple(row[name] for name in group) for row in rows]
            seen = Counter(one for one in tuples if None not in one)
            if any(times > 1 for times in seen.values()):
                raise Refused("data", f"{group} is unique")

    def _cardinality(self, edge: EdgeType, before: dict[str, dict[str, Row]], after: dict[str, dict[str, Row]]) -> None:
        counts = Counter(row["src"] for row in after[edge.table_key].values())
        had = {row["src"] for row in before[edge.table_key].values()}
        for source in had | set(counts):
            if source not in after[f"node:{edge.src_type}"]:
                continue
            if edge.card.max is not None and counts[source] > edge.card.max:
                raise Refused("data", f"{source} has too many {edge.name}")
            if counts[source] < edge.card.min:
                raise Refused("data", f"{source} has too few {edge.name}")

    def _count(
        self,
        before: dict[str, dict[str, Row]],
        after: dict[str, dict[str, Row]],
        touched: dict[str, set[str]],
        answer: Answer,
    ) -> None:
        for key in after:
            old, new = before[key], after[key]
            inserted = len(new.keys() - old.keys())
            updated = unchanged = 0
            for id_ in touched.get(key, set()) & old.keys():
                if old[id_] == new[id_]:
                    unchanged += 1
                    new[id_] = old[id_]  # equal is not always identical: a zero keeps its sign
                else:
                    updated += 1
            counts = (inserted, updated, len(old.keys() - new.keys()), unchanged)
            if any(counts):
                answer.tables[key] = counts


def _add(answer: Answer, declared: TableType, rows: int) -> None:
    if isinstance(declared, NodeType):
        answer.nodes += rows
    else:
        answer.edges += rows


# --- values -------------------------------------------------------------------------------------------------------------

_RANGES = {
    ScalarKind.I32: (-(2**31), 2**31 - 1),
    ScalarKind.I64: (-(2**63), 2**63 - 1),
    ScalarKind.U32: (0, 2**32 - 1),
    ScalarKind.U64: (0, 2**64 - 1),
}


def _scalar_fits(kind: PropType, value: Any) -> None:
    if kind.scalar in _RANGES:
        low, high = _RANGES[kind.scalar]
        if not low <= value <= high:
            raise Refused("query", f"{value} is no {kind}")
    if kind.enum is not None and value not in kind.enum:
        raise Refused("query", f"{value} is no {kind}")
    if kind.scalar is ScalarKind.F32 and math.isinf(_f32(value)):
        raise Refused("query", f"{value} is no {kind}")


def stored(kind: PropType, value: Any) -> Any:
    """A value as a column of that kind gives it back."""
    if value is None:
        return None
    if kind.is_list or kind.scalar is ScalarKind.VECTOR:
        element = PropType(ScalarKind.F32 if kind.scalar is ScalarKind.VECTOR else kind.scalar)
        return [stored(element, one) for one in value]
    if kind.scalar is ScalarKind.F32:
        return _f32(value)
    if kind.scalar is ScalarKind.F64:
        return float(value)
    return value


def _f32(value: float) -> float:
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.inf
    return rounded


def matches(declared: TableType, where: Where, row: Row) -> bool:
    """Three-valued: a null on either side is not a match."""
    if isinstance(declared, EdgeType) and where.name in ("from", "to"):
        held, asked = row["src" if where.name == "from" else "dst"], where.value
    else:
        held, asked = row[where.name], stored(declared.property(where.name).type, where.value)
    if held is None or asked is None:
        return False
    match where.op:
        case "=":
            return bool(held == asked)
        case "!=":
            return bool(held != asked)
        case "<":
            return bool(held < asked)
        case "<=":
            return bool(held <= asked)
        case ">":
            return bool(held > asked)
        case ">=":
            return bool(held >= asked)
    raise AssertionError(where.op)
