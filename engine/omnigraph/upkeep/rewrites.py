"""Commit finished rewrites of one table in a turn: those whose fragments nobody has changed since.

One conflict costs one rewrite. The others stand, because each is a commit of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from omnigraph.commit.compensate import OP_PROPERTY
from omnigraph.commit.engine import Engine
from omnigraph.commit.maintain import Line
from omnigraph.core.meter import Meter
from omnigraph.table import compaction


@dataclass
class Sent:
    """What became of the rewrites of one table. ``lost``: they have to be planned again."""

    rewrites: int = 0
    rows: int = 0
    bytes: int = 0
    lost: int = 0


def send_rewrites(
    engine: Engine, line: Line, results: Iterable[Any], signature: frozenset[tuple[str, str]] | None, meter: Meter
) -> Sent:
    """``signature``: the index segments that the rewrites know; None where they were made in this very turn."""
    sent = Sent()
    results = list(results)
    if signature is not None and compaction.index_signature(line.current) != signature:
        sent.lost = len(results)
        return sent
    for index, result in enumerate(results):
        if not compaction.still_there(result, line.current):
            sent.lost += 1
            continue
        if not line.send(_committing(engine, line, result, meter), compaction.VERSIONS_OF_A_REWRITE):
            sent.lost += len(results) - index
            return sent
        sent.rewrites += 1
        sent.rows += compaction.source_rows(result)
        sent.bytes += compaction.source_bytes(result)
    return sent


def _committing(engine: Engine, line: Line, result: Any, meter: Meter) -> Callable[[], Any]:
    handle, op = line.current, line.properties[OP_PROPERTY]
    return lambda: compaction.commit_rewrite(engine.tables, line.ref, handle, result, op, meter)
