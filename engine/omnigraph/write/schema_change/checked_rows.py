"""Committed rows held against the rules that a change of the schema adds, by the evaluator that loads use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.core.limits import Limits
from omnigraph.schema.catalog import EdgeType, NodeType, TableType
from omnigraph.write.base.blocks import Block
from omnigraph.write.base.changes import TypeChange
from omnigraph.write.base.rejects import Finding
from omnigraph.write.base.violations import SHOWN_MAX, Violation, ViolationLog, show_value
from omnigraph.write.base.wording import Wording
from omnigraph.write.rules.edge_rules import Loose, NodePresence
from omnigraph.write.rules.validate import TableChecks


class CommittedRows:
    """The ids of rows that were read, to name them by: committed rows have no record number."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ids: list[pa.Array[Any]] = []
        self.count = 0

    def add(self, ids: pa.Array[Any]) -> None:
        self._starts.append(self.count)
        self._ids.append(ids)
        self.count += len(ids)

    def place(self, row: int) -> tuple[int, str | None, int]:
        return row + 1, None, 0

    def shown(self, row: int) -> str:
        return show_value(self.id(row))

    def id(self, row: int) -> str:
        part = int(np.searchsorted(np.array(self._starts), row, side="right")) - 1
        text: str = self._ids[part][row - self._starts[part]].as_py()
        return text


class CommittedWording(Wording):
    """Violations of rows that are in the graph, named by their ids."""

    def placed(self, row: int, found: Violation) -> Violation:
        held = self._held
        return replace(found, id=held.id(row)[:1024], message=f"the row {held.shown(row)}: {found.message}")

    def record(self, row: int) -> str:
        return f"the row {self._held.shown(row)}"

    @property
    def _held(self) -> CommittedRows:
        if not isinstance(self.places, CommittedRows):
            raise AssertionError("committed rows are named by their ids")
        return self.places


class RowChecks:
    """The rules of one table, fed with its rows batch by batch. ``declared`` has no other rules than those."""

    def __init__(self, declared: TableType, limits: Limits, log: ViolationLog) -> None:
        self.declared = declared
        self._log = log
        self._rows = CommittedRows()
        self._wording = CommittedWording(declared, self._rows)
        nothing = pa.schema([]).empty_table()
        self._checks = TableChecks(TypeChange(declared, nothing, "overwrite", minted=True), limits)

    def feed(self, rows: pa.RecordBatch) -> None:
        first = self._rows.count
        self._rows.add(rows.column("id"))
        # Their ids were checked when they came.
        self._report(self._checks.feed(Block(rows, first, True, self._wording)))

    def finish(self) -> None:
        """Report what only the last row tells: how many edges a source has."""
        if self._checks.card is not None and isinstance(self.declared, EdgeType):
            # A source that is counted has an edge, so no node is asked about.
            no_node = NodePresence(NodeType(self.declared.src_type), None, replaced_all=True, deleted=None)
            self._report(self._checks.card.ask(_NothingElse(), no_node))

    def _report(self, found: Iterable[Finding | Loose]) -> None:
        for one in found:
            if isinstance(one, Finding):
                self._log.add_rows(one.rows.tolist()[:SHOWN_MAX], len(one.rows), one.describe)


class _NothingElse:
    """The committed side of a check that is fed with all committed rows."""

    def rows(self, table_key: str) -> int:
        return 0

    def contains(self, table_key: str, ids: pa.Array[Any]) -> pa.BooleanArray:
        return pa.array([False] * len(ids), pa.bool_())

    def fetch(self, table_key: str, column: str, values: pa.Array[Any], columns: Sequence[str]) -> pa.Table:
        return pa.table({name: pa.array([], pa.utf8()) for name in columns})

    def scan(self, table_key: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return iter(())
