"""A load as the commit protocol takes it, and the receipt of an earlier load with the same key."""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.commit.engine import Engine
from omnigraph.commit.request import Request
from omnigraph.commit.steps import StagedFiles
from omnigraph.core.meter import Meter
from omnigraph.options import CommitOptions
from omnigraph.options import LoadOptions as LoadOptions
from omnigraph.wire.receipt import CheckReport as CheckReport
from omnigraph.wire.receipt import Receipt
from omnigraph.write.receipt import table_changes


def load_request(options: LoadOptions, keys: Iterable[str], files: StagedFiles | None = None) -> Request:
    """A load of these tables, as the commit protocol takes it. ``files``: those that it has staged already."""
    return commit_request("load", options, keys, files)


def commit_request(kind: str, options: CommitOptions, keys: Iterable[str], files: StagedFiles | None = None) -> Request:
    """What the commit protocol is asked for. ``keys``: tables that may be written."""
    return Request(
        kind=kind,
        branch=options.branch,
        keys=frozenset(keys),
        actor=options.actor,
        idempotency_key=options.idempotency_key,
        expect_head=options.expect_head,
        deadline_s=options.deadline_s,
        files=files or StagedFiles(),
    )


def replay(engine: Engine, options: LoadOptions, meter: Meter) -> Receipt | None:
    """Return the receipt of an earlier load with this key, or None. Asked before the source is opened: it may be gone by now."""
    if options.idempotency_key is None:
        return None
    held = engine.known(options.branch)
    if held is None:
        return None
    row = engine.history.find_key(held, options.idempotency_key, meter=meter)
    if row is None:
        return None
    return Receipt(
        row.commit_id, options.branch, table_changes(row), replayed=True, storage=meter.snapshot(), kind=row.kind
    )
