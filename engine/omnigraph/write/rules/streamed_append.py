"""An append of tables that are read, checked and written batch by batch: the input is never held.

The same rules as for a change set that is held, fed as the batches go by; what stays in memory are key columns. Nodes are
drawn before edges, so that endpoints find the nodes of the same input. Once something is wrong nothing more is handed
out, but the rest is still read and judged, so that the list of violations is complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from omnigraph.core.clock import Clock
from omnigraph.core.errors import InvalidInput
from omnigraph.core.limits import DEFAULT_LIMITS, Limits
from omnigraph.schema.catalog import Catalog, TableType
from omnigraph.write.base.blocks import Block, OriginLog
from omnigraph.write.base.changes import PinnedView
from omnigraph.write.base.rejects import Rejects
from omnigraph.write.base.wording import Wording
from omnigraph.write.rules.streamed import StreamedEvaluation
from omnigraph.write.rules.validate import Verdict
from omnigraph.write.sources.files import Opener
from omnigraph.write.sources.opening import Context, is_record_source, open_tables
from omnigraph.write.sources.pieces import Piece


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
        self._rejects = Rejects(keep=False)
        streams = open_tables(source, Context(catalog, limits, clock, self._rejects, opener))
        self._streams = {stream.type.table_key: stream for stream in streams}
        self._evaluation = StreamedEvaluation([stream.type for stream in streams], catalog, "append", view, limits)
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

    @property
    def warnings(self) -> tuple[str, ...]:
        return self._rejects.warnings

    def batches(self, table_key: str) -> Iterator[pa.RecordBatch]:
        """Checked batches in the physical schema."""
        expected = list(self._evaluation.checks)[len(self._drawn)]
        if table_key != expected:
            raise InvalidInput(f"tables are drawn in order: {expected} is next, not {table_key}")
        self._drawn.append(table_key)
        checks = self._evaluation.checks[table_key]
        for piece in self._streams[table_key].pieces():
            if piece.batch.num_rows:
                self._feed(table_key, checks.type, piece)
            if not self.is_bad and piece.batch.num_rows:
                yield piece.batch

    @property
    def is_bad(self) -> bool:
        return self._evaluation.is_bad or bool(self._rejects.log)

    def _feed(self, key: str, declared: TableType, piece: Piece) -> None:
        origin = self._origins[key]
        origin.add(piece.origin, piece.batch.num_rows)
        block = Block(piece.batch, self._rows[key], piece.minted, Wording(declared, origin))
        self._rows[key] += piece.batch.num_rows
        if self._rejects.log:
            self._evaluation.stop_asking()
        self._evaluation.feed(key, block)

    def finish(self) -> Verdict:
        """What the whole came to. Every table has to be drawn."""
        if len(self._drawn) < len(self._rows):
            raise InvalidInput(f"not drawn yet: {', '.join(list(self._rows)[len(self._drawn) :])}")
        if self._rejects.log:
            self._evaluation.stop_asking()
        return self._evaluation.finish(self._rejects.log)

    def still_fits(self, view: PinnedView) -> bool:
        """Whether the answer holds at other pins of tables that were only read: every committed endpoint is there."""
        return self._evaluation.still_fits(view)
