"""An append of tables that are read, checked and written batch by batch: the input is never held.

The same rules as for a change set that is held, fed as the batches go by; what stays in memory are key columns. Nodes are
drawn before edges, so that endpoints find the nodes of the same input. Once something is wrong nothing more is handed
out, but the rest is still read and judged, so that the complaint is complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pyarrow as pa

from omnigraph.core.clock import Clock
from omnigraph.core.errors import InvalidInput
from omnigraph.core.limits import DEFAULT_LIMITS, Limits
from omnigraph.schema.arrow import table_schema
from omnigraph.schema.catalog import Catalog, EdgeType, TableType
from omnigraph.write.base.blocks import Block, OriginLog
from omnigraph.write.base.changes import PinnedView, RecordingView, TypeChange
from omnigraph.write.base.constants import ENDS
from omnigraph.write.base.rejects import Rejects
from omnigraph.write.base.violations import ViolationLog
from omnigraph.write.base.wording import Wording
from omnigraph.write.rules.edge_rules import unresolved_ends
from omnigraph.write.rules.validate import Conflicts, Evaluation, TableChecks, Verdict, judged
from omnigraph.write.sources.files import Opener
from omnigraph.write.sources.opening import Context, is_record_source, open_tables
from omnigraph.write.sources.pieces import Piece

_SEARCH_THREADS: Final = 2
_THREADS_FROM_ROWS: Final = 1 << 14


def can_stream(source: Any) -> bool:
    """Records mix their types, so an edge may come before its node: only tables can be streamed."""
    return not is_record_source(source)


class StreamedAppend:
    """One append under way. Draw ``batches`` of every table of ``types`` in that order and to the end, then ``finish``."""

    def __init__(
        self,
        source: Any,
        catalog: Catalog,
        view: PinnedView,
        limits: Limits = DEFAULT_LIMITS,
        *,
        clock: Clock | None = None,
        opener: Opener | None = None,
    ) -> None:
        if not can_stream(source):
            raise InvalidInput("a stream of records cannot be appended batch by batch")
        self._view = RecordingView(view)
        self._rejects = Rejects(keep=False)
        streams = open_tables(source, Context(catalog, limits, clock, self._rejects, opener))
        self._streams = {stream.type.table_key: stream for stream in streams}
        empty = [TypeChange(s.type, table_schema(s.type).empty_table(), "append") for s in streams]
        self._evaluation = Evaluation(empty, catalog, limits)
        self._log = ViolationLog()
        # What the graph has against the rows is found before it is known whether a later record is malformed.
        self._graph_log = ViolationLog()
        self._conflicts = Conflicts()
        self._rows = dict.fromkeys(self._evaluation.checks, 0)
        self._origins = {key: OriginLog() for key in self._rows}
        self._drawn: list[str] = []

    @property
    def types(self) -> tuple[TableType, ...]:
        """Nodes first, then edges, each by table key."""
        return tuple(checks.type for checks in self._evaluation.checks.values())

    @property
    def rows(self) -> dict[str, int]:
        """Good rows so far, by table key."""
        return dict(self._rows)

    @property
    def records(self) -> int:
        return sum(self._rows.values()) + self._rejects.refused

    def batches(self, table_key: str) -> Iterator[pa.RecordBatch]:
        """Checked batches in the physical schema."""
        expected = list(self._evaluation.checks)[len(self._drawn)]
        if table_key != expected:
            raise InvalidInput(f"tables are drawn in order: {expected} is next, not {table_key}")
        self._drawn.append(table_key)
        checks = self._evaluation.checks[table_key]
        for piece in self._streams[table_key].pieces():
            if piece.batch.num_rows:
                self._check(table_key, checks, piece)
            if not self.is_bad and piece.batch.num_rows:
                yield piece.batch

    @property
    def is_bad(self) -> bool:
        return bool(self._log) or bool(self._graph_log) or bool(self._rejects.log)

    def _check(self, key: str, checks: TableChecks, piece: Piece) -> None:
        origin = self._origins[key]
        origin.add(piece.origin, piece.batch.num_rows)
        block = Block(piece.batch, self._rows[key], piece.minted, Wording(checks.type, origin))
        self._rows[key] += piece.batch.num_rows
        local = [judged(key, finding) for finding in checks.feed(block)]
        self._evaluation.report(local, self._log, self._conflicts)
        if self._rejects.log:
            checks.ids.forget()
            return
        found = [judged(key, finding) for finding in checks.ids.ask(self._view)]
        if isinstance(checks.type, EdgeType):
            found += self._endpoints(key, checks.type, block)
        self._evaluation.report(found, self._graph_log, self._conflicts)

    def _endpoints(self, key: str, edge: EdgeType, block: Block) -> list[Any]:
        asked = [
            (block, end, self._evaluation.presence(edge.src_type if end == "src" else edge.dst_type)) for end in ENDS
        ]
        if block.batch.num_rows < _THREADS_FROM_ROWS:
            open_ends = [unresolved_ends(*one) for one in asked]
        else:
            with ThreadPoolExecutor(_SEARCH_THREADS, "omnigraph-check") as pool:
                open_ends = list(pool.map(lambda one: unresolved_ends(*one), asked))
        found = []
        for (_, _, presence), unresolved in zip(asked, open_ends, strict=True):
            if unresolved is not None:
                found += [judged(key, finding) for _, finding in presence.check(self._view, [unresolved])]
        return found

    def finish(self) -> Verdict:
        """What the whole came to. Every table has to be drawn."""
        if len(self._drawn) < len(self._rows):
            raise InvalidInput(f"not drawn yet: {', '.join(list(self._rows)[len(self._drawn) :])}")
        if self._rejects.log:
            self._graph_log, self._conflicts = ViolationLog(), Conflicts()
        else:
            self._evaluation.report(self._evaluation.ask(self._view), self._graph_log, self._conflicts)
        self._log.merge(self._graph_log)
        self._log.merge(self._rejects.log)
        self._rejects.log, self._graph_log = ViolationLog(), ViolationLog()
        return Verdict(self._log.shown, self._log.total, self._conflicts.all(), frozenset(self._view.reads))

    def still_fits(self, view: PinnedView) -> bool:
        """Whether the answer holds at other pins of tables that were only read: every committed endpoint is there."""
        return all(presence.still_there(view) for presence in self._evaluation.presences())
