"""A load as the commit protocol takes it, and the receipt of an earlier load with the same key."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from omnigraph.commit import parents
from omnigraph.commit.conflicts import mismatch
from omnigraph.commit.decide import same_request
from omnigraph.commit.engine import Engine
from omnigraph.commit.request import Request
from omnigraph.commit.steps import StagedFiles
from omnigraph.core import documents
from omnigraph.core.meter import Meter
from omnigraph.options import CommitOptions
from omnigraph.options import LoadOptions as LoadOptions
from omnigraph.wire.receipt import CheckReport as CheckReport
from omnigraph.wire.receipt import Receipt
from omnigraph.write.receipt import others_of, replay_warnings, table_changes


def load_request(
    options: LoadOptions, keys: Iterable[str], files: StagedFiles | None = None, content: str | None = None
) -> Request:
    """A load of these tables, as the commit protocol takes it. ``files``: those that it has staged already; ``content``: the
    digest of its input."""
    return commit_request("load", options, keys, files, request=load_digest(options), content=content)


def load_digest(options: LoadOptions) -> str:
    """Names what of a load changes its result, the input apart."""
    return documents.digest(
        {
            "kind": "load",
            "mode": options.mode,
            "on_bad_row": options.on_bad_row,
            "bad_rows_max": options.bad_rows_max,
            "bounds": options.bounds,
            "on_missing_endpoint": options.on_missing_endpoint,
        }
    )


def commit_request(
    kind: str,
    options: CommitOptions,
    keys: Iterable[str],
    files: StagedFiles | None = None,
    *,
    request: str | None = None,
    content: str | None = None,
) -> Request:
    """What the commit protocol is asked for. ``keys``: tables that may be written."""
    return Request(
        kind=kind,
        branch=options.branch,
        keys=frozenset(keys),
        actor=options.actor,
        idempotency_key=options.idempotency_key,
        expect_head=options.expect_head,
        deadline_s=options.deadline_s,
        request=request,
        content=content if options.idempotency_key is not None else None,
        files=files or StagedFiles(),
        group=options.group,
    )


def replay(
    engine: Engine, options: LoadOptions, meter: Meter, content: Callable[[], str | None] | None = None
) -> Receipt | None:
    """Return the receipt of an earlier load with this key, or None. Asked before the source is opened: it may be gone by now.
    ``content`` tells the digest of the input, where the caller has one; None compares the key alone."""
    if options.idempotency_key is None:
        return None
    held = engine.known(options.branch)
    if held is None:
        return None
    found = parents.find_key(engine, held, options.idempotency_key, meter)
    if found is None:
        return None
    row = found[0]
    if content is not None and not same_request(row, load_digest(options), content()):
        raise mismatch(row, options.idempotency_key)
    return Receipt(
        row.commit_id,
        options.branch,
        table_changes(row),
        replayed=True,
        warnings=replay_warnings(row),
        storage=meter.snapshot(),
        kind=row.kind,
        grouped_with=others_of(engine, found[1], row),
    )
