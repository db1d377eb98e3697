"""The evaluator for rows that go by in blocks: the rules of ``validate`` on rows that no process holds.

Owns the order of the questions and what stays in memory, which are keys. Where the rows come from is the caller's: a stream that
is written as it is read, or fragments that tasks have staged. Nodes have to be fed before the edges that refer to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from omnigraph.core.limits import Limits
from omnigraph.schema.arrow import table_schema
from omnigraph.schema.catalog import Catalog, EdgeType, TableType
from omnigraph.write.base.blocks import Block
from omnigraph.write.base.changes import Mode, PinnedView, RecordingView, TypeChange
from omnigraph.write.base.constants import ENDS
from omnigraph.write.base.rejects import Finding
from omnigraph.write.base.violations import ViolationLog
from omnigraph.write.rules.edge_rules import Loose, NodePresence, unresolved_ends
from omnigraph.write.rules.validate import Conflicts, Evaluation, Judged, TableChecks, Verdict, judged

_SEARCH_THREADS: Final = 2
_THREADS_FROM_ROWS: Final = 1 << 14


class StreamedEvaluation:
    """One pass over the tables of one input. ``feed`` every block, then ``finish``.

    ``values``: whether rows are checked by themselves. ``found_nodes_max``: how many committed nodes that edges refer to are
    remembered; without it all are, so that ``still_fits`` can be asked."""

    def __init__(
        self,
        types: Iterable[TableType],
        catalog: Catalog,
        mode: Mode,
        view: PinnedView,
        limits: Limits,
        *,
        values: bool = True,
        found_nodes_max: int | None = None,
    ) -> None:
        self.view = RecordingView(view)
        self._mode: Mode = mode
        empty = [TypeChange(one, table_schema(one).empty_table(), mode) for one in types]
        self._evaluation = Evaluation(empty, catalog, limits, values=values)
        self._found_nodes_max = found_nodes_max
        self._log = ViolationLog()
        # What the graph has against the rows may be found before it is known that a later record is malformed.
        self._graph_log = ViolationLog()
        self._conflicts = Conflicts()
        self.asks = True

    @property
    def checks(self) -> dict[str, TableChecks]:
        """The rules by table key, nodes first, then edges, each by table key."""
        return self._evaluation.checks

    def presence(self, name: str) -> NodePresence:
        """Of a node type, as far as its rows were fed."""
        return self._evaluation.presence(name)

    @property
    def is_bad(self) -> bool:
        return bool(self._log) or bool(self._graph_log)

    def stop_asking(self) -> None:
        """A record is malformed: the graph is asked nothing more, and what it had against the rows is not reported."""
        self.asks = False
        self._graph_log, self._conflicts = ViolationLog(), Conflicts()

    def feed(self, key: str, block: Block) -> None:
        """Check one block of a table: by itself, against the blocks before it, and its ids and endpoints against the graph."""
        checks = self.checks[key]
        self.report(key, checks.feed(block))
        if not self.asks:
            checks.ids.forget()
            return
        if self._mode == "append":
            self.report(key, checks.ids.ask(self.view), asked=True)
        if isinstance(checks.type, EdgeType):
            self.report(key, self._endpoints(checks.type, block), asked=True)

    def report(self, key: str, found: Iterable[Finding | Loose], *, asked: bool = False) -> None:
        """Note what a rule has found; ``asked``: with the graph."""
        log = self._graph_log if asked else self._log
        self._evaluation.report((judged(key, finding) for finding in found), log, self._conflicts)

    def _endpoints(self, edge: EdgeType, block: Block) -> Iterator[Finding]:
        """Endpoints of one block that do not exist."""
        asked: list[Any] = [
            (block, end, self.presence(edge.src_type if end == "src" else edge.dst_type)) for end in ENDS
        ]
        if block.batch.num_rows < _THREADS_FROM_ROWS:
            open_ends = [unresolved_ends(*one) for one in asked]
        else:
            with ThreadPoolExecutor(_SEARCH_THREADS, "omnigraph-check") as pool:
                open_ends = list(pool.map(lambda one: unresolved_ends(*one), asked))
        for (_, _, nodes), unresolved in zip(asked, open_ends, strict=True):
            if unresolved is not None:
                for _, finding in nodes.check(self.view, [unresolved]):
                    yield finding
                if self._found_nodes_max is not None:
                    nodes.forget_beyond(self._found_nodes_max)

    def finish(self, *others: ViolationLog) -> Verdict:
        """Ask what can only be asked at the end. ``others``: what was found where the rows come from."""
        if self.asks:
            rest: Iterator[Judged] = self._evaluation.ask(self.view)
            self._evaluation.report(rest, self._graph_log, self._conflicts)
        whole = ViolationLog()
        for log in (self._log, self._graph_log, *others):
            whole.merge(log)
        return Verdict.of(whole, self._conflicts.all(), self.view.reads)

    def still_fits(self, view: PinnedView) -> bool:
        """Whether the answer holds at other pins of tables that were only read: every committed endpoint is there."""
        return all(presence.still_there(view) for presence in self._evaluation.presences())
