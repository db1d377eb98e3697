"""Bring records into a graph: read, check, lower, commit. One call, one commit, one receipt.

Owns the order of these and the options of a load. Reading is ``input``'s, judging ``validate``'s, staging ``lower``'s, and
everything durable ``commit``'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from omnigraph.commit.deadline import Deadline
from omnigraph.commit.engine import Engine
from omnigraph.commit.run import Outcome, Prepared, Request, run
from omnigraph.commit.txn import Txn, read_current
from omnigraph.core import progress
from omnigraph.core.errors import InvalidInput, NotFound
from omnigraph.core.meter import Meter
from omnigraph.core.shown import count_text, html_table
from omnigraph.schema import Catalog
from omnigraph.schema.catalog import EdgeType
from omnigraph.write.adopt import adopt_ids
from omnigraph.write.batch import Batch
from omnigraph.write.changes import MODES, Mode, TypeChange
from omnigraph.write.files import store_opener
from omnigraph.write.input import Input, read_source
from omnigraph.write.lower import STAGE_FIRST_BYTES, StagedAppends, lower
from omnigraph.write.quarantine import REJECTED_SHOWN_MAX, BadRowsMax, Sifted, sift, too_many, write_quarantine
from omnigraph.write.receipt import Receipt, RejectedRows, TableChange, table_changes
from omnigraph.write.sources import is_record_source
from omnigraph.write.validate import Verdict, validate


@dataclass(frozen=True)
class LoadOptions:
    """What ``graph.load`` was asked for."""

    mode: str
    branch: str = "main"
    from_branch: str | None = None
    actor: str | None = None
    idempotency_key: str | None = None
    on_bad_row: str = "fail"
    bad_rows_max: int | float | None = None
    quarantine_to: str | Path | None = None
    expect_head: str | None = None
    deadline_s: float = 60

    def check(self) -> None:
        if self.mode not in MODES:
            raise InvalidInput(f"mode must be one of {', '.join(MODES)}, not {self.mode!r}")
        if self.on_bad_row not in ("fail", "quarantine"):
            raise InvalidInput(f"on_bad_row must be 'fail' or 'quarantine', not {self.on_bad_row!r}")
        if self.quarantine_to is not None and self.on_bad_row != "quarantine":
            raise InvalidInput("quarantine_to needs on_bad_row='quarantine'")
        BadRowsMax(self.bad_rows_max)
        if self.from_branch is not None:
            raise NotFound(f"no branch {self.from_branch!r}", branch=self.from_branch)

    @property
    def checked_mode(self) -> Mode:
        return cast(Mode, self.mode)


@dataclass(frozen=True)
class CheckReport:
    """What ``graph.check`` found. Nothing was written."""

    ok: bool
    records: int
    rows: Mapping[str, int]
    violations: tuple[Mapping[str, Any], ...]
    total: int
    reads: tuple[str, ...] = ()
    pins: Mapping[str, tuple[str, str | None, int]] = field(default_factory=dict)  # what the answer rests on
    digest: str | None = None  # of the staged fragments that were judged

    def to_dict(self) -> dict[str, Any]:
        return {
            "pins": {key: list(triple) for key, triple in sorted(self.pins.items())},
            "digest": self.digest,
            "ok": self.ok,
            "records": self.records,
            "rows": dict(self.rows),
            "violations": [dict(one) for one in self.violations],
            "total": self.total,
            "reads": list(self.reads),
        }

    def __repr__(self) -> str:
        rows = ", ".join(f"{key}: {count}" for key, count in sorted(self.rows.items()))
        return f"<CheckReport {'ok' if self.ok else f'{self.total} violations'}; {self.records} records; {rows}>"

    def _repr_html_(self) -> str:
        names = ("source", "record", "id", "reason")
        rows = [(one.get("source"), one.get("record"), one.get("id"), one["message"]) for one in self.violations]
        title = f"{count_text(self.records, 'record')} checked, {count_text(self.total, 'violation')}"
        return html_table(names, rows, title, empty="ok")


@dataclass
class _Load:
    """One load under way: what was read, and what survives a change of plan."""

    engine: Engine
    options: LoadOptions
    catalog: Catalog
    input: Input
    staged: StagedAppends = field(default_factory=StagedAppends)
    sifted: Sifted | None = None
    unchanged: dict[str, TableChange] = field(default_factory=dict)

    def prepare(self, txn: Txn) -> Prepared | None:
        """Judge the input against the pins of one transaction and say what it comes to."""
        txn.open_ahead(self.input.tables, self._endpoints())
        with progress.phase("checking", total=self.input.rows):
            changes, verdict = self._judge(txn)
            progress.advance(self.input.rows)
        by_key = {change.table_key: change for change in changes}
        actions = lower(txn, by_key, self.staged)
        acted = {action.key for action in actions}
        self.unchanged = {
            key: TableChange(txn.pin(key).version, unchanged=change.rows.num_rows)
            for key, change in by_key.items()
            if key not in acted and change.rows.num_rows
        }
        if not actions:
            return None
        size = sum(change.rows.nbytes for change in changes)
        # Rows that are there already are not written, yet edges lean on them: their tables were read.
        idle = frozenset(by_key) - acted
        return Prepared(
            actions,
            verdict.reads | idle,
            revalidate=lambda other: _unmoved(idle, txn, other) and self._still_fits(other, changes),
            stage_first=size > STAGE_FIRST_BYTES,
        )

    def _endpoints(self) -> set[str]:
        """Node tables that edges of the input point at, and that it does not write itself."""
        edges = [table.type for table in self.input.tables.values() if isinstance(table.type, EdgeType)]
        named = {f"node:{name}" for edge in edges for name in (edge.src_type, edge.dst_type)}
        return named - self.input.tables.keys()

    def _judge(self, txn: Txn) -> tuple[list[TypeChange], Verdict]:
        sets_aside = self.options.on_bad_row == "quarantine"
        changes = with_committed_ids(self.input, self.options, txn, asks=sets_aside or not self.input.malformed)
        if sets_aside:
            return self._sift(txn, changes)
        verdict = validate(changes, self.catalog, txn, limits=self.engine.limits, malformed=self.input.malformed)
        verdict.raise_if_bad()
        return changes, verdict

    def _sift(self, txn: Txn, changes: list[TypeChange]) -> tuple[list[TypeChange], Verdict]:
        sifted = sift(changes, self.catalog, txn, rejected=self.input.rejected, limits=self.engine.limits)
        sifted.verdict.raise_if_bad()
        error = too_many(sifted, self.input.records, BadRowsMax(self.options.bad_rows_max))
        if error is not None:
            raise error
        self.sifted = sifted
        return list(sifted.changes), sifted.verdict

    def _still_fits(self, txn: Txn, changes: list[TypeChange]) -> bool:
        """Only tables that were read have moved: do the checks pass on them as they are now?"""
        return validate(changes, self.catalog, txn, limits=self.engine.limits).ok


def _unmoved(keys: frozenset[str], txn: Txn, other: Txn) -> bool:
    """Whether tables are where they were. Of rows that were found unchanged nothing else says that they still are."""
    return all(txn.pin(key).triple == other.pin(key).triple for key in keys)


def with_committed_ids(given: Input, options: LoadOptions, txn: Txn, *, asks: bool) -> list[TypeChange]:
    """Return the change set; edges that are committed already keep the ids that they have. Unless ``asks``, the graph is
    asked nothing: records are malformed, so rows are missing that others may depend on."""
    changes = given.changes(options.checked_mode)
    return [adopt_ids(change, txn) for change in changes] if asks else changes


def load(engine: Engine, source: Any, options: LoadOptions) -> Receipt:
    """Read the source, then commit it whole or not at all."""
    options.check()
    engine.ref_of(options.branch)
    meter = Meter()
    known = replay(engine, options, meter)
    if known is not None:
        return known
    if options.mode == "append" and options.on_bad_row == "fail" and has_readers(source):
        from omnigraph.write.streamed_load import load_stream

        return load_stream(engine, source, options, meter)
    work = _read(engine, source, options)
    if not work.input.tables and not work.input.malformed:
        return Receipt(None, options.branch, {}, storage=meter.snapshot())
    request = Request(
        kind="load",
        branch=options.branch,
        keys=frozenset(work.input.tables),
        actor=options.actor,
        idempotency_key=options.idempotency_key,
        expect_head=options.expect_head,
        deadline_s=options.deadline_s,
    )
    outcome = run(engine, request, work.prepare, meter)
    rejected = RejectedRows()
    if work.sifted is not None and not outcome.replayed:
        rows = tuple(one.to_dict() for one in work.sifted.rejected[:REJECTED_SHOWN_MAX])
        rejected = RejectedRows(rows, len(work.sifted.rejected))
        if options.quarantine_to is not None:
            write_quarantine(options.quarantine_to, work.sifted.rejected)
    return receipt(outcome, options.branch, rejected, work.unchanged, meter)


def has_readers(source: Any) -> bool:
    """Whether some of the input is not in memory: then an append need not bring it there."""
    if is_record_source(source):
        return False
    given = [*source.nodes.values(), *source.edges.values()] if isinstance(source, Batch) else list(source.values())
    return any(not isinstance(one, pa.Table | pa.RecordBatch | list | tuple) for one in given)


def receipt(
    outcome: Outcome, branch: str, rejected: RejectedRows, unchanged: Mapping[str, TableChange], meter: Meter
) -> Receipt:
    """``unchanged``: tables that were named and stay as they are; the commit does not know them."""
    tables = dict(unchanged)
    if outcome.row is not None:
        tables = table_changes(outcome.row) if outcome.replayed else {**tables, **table_changes(outcome.row)}
    return Receipt(
        None if outcome.row is None else outcome.row.commit_id,
        branch,
        dict(sorted(tables.items())),
        replayed=outcome.replayed,
        rejected=rejected,
        storage=meter.snapshot(),
        warnings=outcome.warnings,
    )


def check(engine: Engine, source: Any, options: LoadOptions) -> CheckReport:
    """What a load of this source would be told. Writes nothing."""
    options.check()
    work = _read(engine, source, options)
    meter = Meter()
    held = read_current(engine, options.branch, meter=meter)
    txn = Txn(engine, options.branch, held, Deadline(engine.clock, options.deadline_s), meter)
    changes = with_committed_ids(work.input, options, txn, asks=not work.input.malformed)
    with progress.phase("checking", total=work.input.rows):
        verdict = validate(changes, work.catalog, txn, limits=engine.limits, malformed=work.input.malformed)
        progress.advance(work.input.rows)
    return CheckReport(
        verdict.ok,
        work.input.records,
        {key: table.rows.num_rows for key, table in work.input.tables.items()},
        tuple(violation.to_dict() for violation in verdict.violations),
        verdict.total,
        tuple(sorted(verdict.reads)),
    )


def replay(engine: Engine, options: LoadOptions, meter: Meter) -> Receipt | None:
    """A known key is answered before the source is even opened: it may be gone by now."""
    if options.idempotency_key is None:
        return None
    engine.limits.check("idempotency_key_bytes", len(options.idempotency_key.encode()))
    held = engine.known(options.branch)
    if held is None:
        return None
    row = engine.history.find_key(held, options.idempotency_key, meter=meter)
    if row is None:
        return None
    return Receipt(row.commit_id, options.branch, table_changes(row), replayed=True, storage=meter.snapshot())


def _read(engine: Engine, source: Any, options: LoadOptions) -> _Load:
    held = engine.known(options.branch) or engine.latest(options.branch)
    catalog = engine.catalog(held.state.schema)
    with progress.phase("reading"):
        given = read_source(
            source,
            catalog,
            engine.limits,
            mode=options.checked_mode,
            clock=engine.clock,
            keep_rejected=options.on_bad_row == "quarantine",
            opener=store_opener(engine.store.lance_options),
        )
    return _Load(engine, options, catalog, given)
