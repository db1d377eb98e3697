"""Fragments that another program has written and described: check them, and commit them like any load.

Owns the verdict on such fragments, and when a report made earlier still answers. The checks are those of any load.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from omnigraph.commit.deadline import Deadline
from omnigraph.commit.engine import Engine
from omnigraph.commit.gate import entering
from omnigraph.commit.properties import Counts
from omnigraph.commit.protocol.run import run
from omnigraph.commit.request import Prepared
from omnigraph.commit.steps import AppendFiles, OverwriteFiles, Step, UpdateFiles
from omnigraph.commit.txn import Txn, read_current
from omnigraph.core import documents
from omnigraph.core.errors import InvalidInput, OmnigraphError, ReadSetChanged, SchemaChanged
from omnigraph.core.kinds import kinds_checked
from omnigraph.core.meter import Meter
from omnigraph.core.progress import phase
from omnigraph.distributed.batch_rows import PartInput
from omnigraph.distributed.fragments import StagedFragments, check_schema_fits, schema_id_of, staged_otherwise
from omnigraph.distributed.key_checks import check_keys
from omnigraph.distributed.pass_rules import Budget
from omnigraph.distributed.staged_part import Split, StagedPart, Stretch, TaskRows
from omnigraph.distributed.staging_record import Record, Records, check_files
from omnigraph.manifest.state import State
from omnigraph.schema import table_schema
from omnigraph.table import staged as fragments_
from omnigraph.table.dataset import TableRef
from omnigraph.wire.receipt import CheckReport, Receipt
from omnigraph.write.base.changes import Mode, TypeChange
from omnigraph.write.base.staged_columns import live_fields
from omnigraph.write.load_options import LoadOptions, load_request
from omnigraph.write.receipt import receipt_of
from omnigraph.write.rules.left_out import LeftOut
from omnigraph.write.rules.validate import Verdict, validate
from omnigraph.write.schema_change.history import filled_since
from omnigraph.write.streamed_load import as_declared

if TYPE_CHECKING:
    from omnigraph.distributed.staging_txn import StagingTxn

Staged = StagedFragments | Sequence[StagedFragments]

_CHECK_S: Final = 3600.0  # a check has no deadline that a caller would want to give


def listed(staged: Staged) -> list[StagedFragments]:
    return [staged] if isinstance(staged, StagedFragments) else list(staged)


def grouped(staged: Iterable[StagedFragments]) -> dict[str, list[StagedFragments]]:
    found: dict[str, list[StagedFragments]] = {}
    for one in staged:
        found.setdefault(one.table_key, []).append(one)
    return found


def by_key(txn: StagingTxn, staged: Mapping[str, Staged]) -> dict[str, list[StagedFragments]]:
    found: dict[str, list[StagedFragments]] = {}
    for name, value in staged.items():
        key = txn._record.key_of(name)
        for one in listed(value):
            if one.table_key != key:
                raise InvalidInput(f"fragments of {one.table_key} were given for {key}", table_key=key)
            found.setdefault(key, []).append(one)
    return found


@kinds_checked
def check_staged(txn: StagingTxn, staged: Staged | Mapping[str, Staged], memory_mb: int | None = None) -> CheckReport:
    """Check staged fragments against the branch as it is now. ``load_staged`` trusts the report while nothing moves.

    Rows are read batch by batch, and keys are compared in passes that take ``memory_mb`` at most; about 30 bytes a row are
    needed besides. What was staged as an update is held.
    """
    engine = txn._engine
    given = by_key(txn, staged if isinstance(staged, Mapping) else grouped(listed(staged)))
    with entering(engine, "check"):
        meter = Meter()
        held = read_current(engine, txn.branch, meter=meter)
        view = Txn(engine, txn.branch, held, Deadline(engine.clock, _CHECK_S), meter)
        verdict = _validate(view, given, memory_mb)
    rows = {key: sum(fragments_.rows_of(new) for one in every for new in one.new) for key, every in given.items()}
    return CheckReport(
        verdict.ok,
        sum(rows.values()),
        rows,
        tuple(violation.to_dict() for violation in verdict.violations),
        verdict.total,
        tuple(sorted(verdict.reads)),
        pins=pins_of(held.state, {*verdict.reads, *given}),
        digest=digest_of(given, held.state),
    )


# --- one staged load ----------------------------------------------------------------------------------------------------


def forgotten(engine: Engine, staging_id: str, done: Receipt) -> Receipt:
    """Delete the record of a staging that is committed. One that stays is a warning, since the commit stands, and it
    expires by itself."""
    try:
        Records(engine.store).delete(staging_id)
    except OmnigraphError as error:
        return replace(done, warnings=(*done.warnings, error.message))
    return done


@dataclass
class StagedLoad:
    """One commit of fragments that were described."""

    engine: Engine
    options: LoadOptions
    given: Mapping[str, Sequence[StagedFragments]]
    checks: CheckReport | None
    record: Record

    def run(self) -> Receipt:
        meter = Meter()
        with phase("checking files", unit="tables", total=len(self.given)):
            check_files(self.engine, self.record, [one for every in self.given.values() for one in every], meter)
        request = load_request(self.options, self.given)
        outcome = run(self.engine, request, self._prepare, meter)
        done = receipt_of(outcome, self.options.branch, LeftOut(), {}, meter)
        if outcome.row is not None and not outcome.replayed:
            return forgotten(self.engine, self.record.id, done)
        return done

    def _prepare(self, txn: Txn) -> Prepared | None:
        # A cleanup deletes files of a record that an earlier one has deleted, after a mark: a plan that has this mark finds no record.
        Records(self.engine.store).read(self.record.id, txn.meter)
        for key, every in self.given.items():
            check_base(txn, key, every)
        if self.checks is not None and self._trusted(txn.state):
            reads = frozenset(self.checks.reads)
        else:
            with phase("checking", unit="tables", total=len(self.given)):
                verdict = _validate(txn, self.given)
            verdict.raise_if_bad()
            reads = verdict.reads
        found = (_step(txn, key, every, self.options.checked_mode) for key, every in sorted(self.given.items()))
        steps = tuple(step for step in found if step is not None)
        return Prepared(steps, reads, stage_first=True) if steps else None

    def _trusted(self, state: State) -> bool:
        checks = self.checks
        if checks is None or not checks.ok or checks.digest != digest_of(self.given, state):
            return False
        return pins_hold(state, checks.pins, self.given)


def check_base(txn: Txn, key: str, every: Sequence[StagedFragments]) -> None:
    """Refuse fragments that cannot be committed at the pin that the table has now."""
    schema_id = schema_id_of(txn.state)
    for one in every:
        pin = txn.state.tables.get(key)
        if pin is None:
            raise SchemaChanged(
                f"table {key} was dropped or renamed since its fragments were staged",
                table_key=key,
                expected=one.schema_id,
                actual=schema_id,
            )
        if one.identity != pin.identity:
            raise ReadSetChanged(
                f"table {pin.key} was dropped and made again since its fragments were staged",
                table_key=pin.key,
                expected=one.base_pin,
                actual=pin.version,
            )
        if one.ref != pin.ref:
            raise ReadSetChanged(
                f"table {pin.key} has moved to another line since its fragments were staged",
                hint="begin a new staging with graph.begin()",
                table_key=pin.key,
                expected=one.ref,
                actual=pin.ref,
            )
        if one.kind == "update" and one.base_pin != pin.version:
            raise ReadSetChanged(
                f"an update of {pin.key} was staged at version {one.base_pin}, which is {pin.version} now",
                hint="stage the update again on the present version",
                table_key=pin.key,
                expected=one.base_pin,
                actual=pin.version,
            )
        if one.schema_id != schema_id:
            columns = fragments_.column_ids(txn.handle(key))
            live = live_fields(txn.catalog.by_table_key(key), columns, filled_since(txn, one.schema_id))
            check_schema_fits(one, schema_id, live)


def _validate(txn: Txn, given: Mapping[str, Sequence[StagedFragments]], memory_mb: int | None = None) -> Verdict:
    """Rows are read batch by batch; what is staged as an update is compared with the rows that it replaces, and held."""
    kinds = {one.kind for every in given.values() for one in every}
    if kinds == {"append"} or kinds == {"overwrite"}:
        mode: Mode = "overwrite" if "overwrite" in kinds else "append"
        parts = as_parts(given)
        return check_keys(PartInput(parts, given, txn.catalog), txn, mode, Budget.of(memory_mb), values=True).verdict
    changes = [_change(txn, key, every) for key, every in sorted(given.items())]
    return validate(changes, txn.catalog, txn, limits=txn.engine.limits)


def check_can_leave(given: Mapping[str, Sequence[StagedFragments]], options: LoadOptions) -> None:
    """Refuse to leave rows out of an update: what a described update replaces is said by its fragments as a whole."""
    kinds = {one.kind for every in given.values() for one in every}
    if options.mode == "merge" or not kinds <= {options.mode}:
        what = "an update" if options.mode == "merge" or "update" in kinds else f"{', '.join(sorted(kinds))} fragments"
        raise InvalidInput(
            f"rows are left out of what was staged as mode={options.mode!r} loads it, append or overwrite, not of {what}",
            hint='call og.check_staged, leave out the rows that it names where they are staged, and load with on_bad_row="fail"',
        )


def as_parts(given: Mapping[str, Sequence[StagedFragments]]) -> list[StagedPart]:
    """Fragments as if one task had staged each of them."""
    parts = []
    for order, (key, every) in enumerate(sorted(given.items())):
        for index, one in enumerate(every):
            split = Split(order, index)
            rows = sum(fragments_.rows_of(described) for described in one.new)
            held = TaskRows(key, one, (Stretch(split.key, rows),))
            parts.append(StagedPart(one.staging_id, split.key, ((split, rows),), (held,)))
    return parts


def _change(txn: Txn, key: str, every: Sequence[StagedFragments]) -> TypeChange:
    declared = txn.catalog.by_table_key(key)
    pin = txn.pin(key)
    schema = table_schema(declared)
    ref = TableRef(pin.location, pin.ref)
    new = [described for one in every for described in one.new]
    batches = [
        pa.RecordBatch.from_arrays(
            [as_declared(batch.column(name), schema.field(name).type) for name in schema.names], schema=schema
        )
        for batch in fragments_.read_rows(
            txn.engine.tables, ref, txn.handle(key), new, schema.names, by_id=staged_otherwise(txn.state, every)
        )
    ]
    mode: Mode = "append"
    if any(one.kind == "overwrite" for one in every):
        mode = "overwrite"
    elif any(one.kind == "update" for one in every):
        mode = "merge"
    return TypeChange(declared, pa.Table.from_batches(batches, schema=schema), mode)


def _step(txn: Txn, key: str, every: Sequence[StagedFragments], mode: Mode) -> Step | None:
    pin = txn.pin(key)
    new = [described for one in every for described in one.new]
    rows = sum(fragments_.rows_of(described) for described in new)
    kinds = {one.kind for one in every}
    wanted = {"append": {"append"}, "overwrite": {"overwrite"}, "merge": {"append", "update"}}[mode]
    if not kinds <= wanted:
        raise InvalidInput(
            f"fragments of {key} were staged as {', '.join(sorted(kinds))}, which mode={mode!r} does not take",
            table_key=key,
        )
    if mode == "overwrite":
        counts = Counts(inserted=rows, deleted=pin.rows)
        return OverwriteFiles(key, (counts,), tuple(new))
    updated = [described for one in every for described in one.updated]
    removed = [number for one in every for number in one.removed]
    if not updated and not removed:
        if not new:
            return None
        return AppendFiles(key, (Counts(inserted=rows),), tuple(new))
    handle = txn.handle(key)
    gone = fragments_.deleted_by(handle, updated, removed)
    counts = Counts(inserted=rows - min(gone, rows), updated=min(gone, rows), deleted=gone - min(gone, rows))
    return UpdateFiles(key, (counts,), tuple(new), tuple(updated), tuple(removed))


def pins_of(state: State, keys: Iterable[str]) -> dict[str, tuple[str, str | None, int]]:
    """Where the tables stand: what a report rests on."""
    return {key: state.tables[key].triple for key in sorted(keys) if key in state.tables}


def pins_hold(state: State, pins: Mapping[str, tuple[str, str | None, int]], needed: Iterable[str]) -> bool:
    """Whether a report made at ``pins`` still answers: it covers ``needed``, and none of its tables has moved."""
    return set(needed) <= pins.keys() and dict(pins) == pins_of(state, pins)


def digest_of(given: Mapping[str, Sequence[StagedFragments]], state: State) -> str:
    """Names these very fragments, and the schema by whose rules they were checked."""
    named: dict[str, Any] = {key: sorted(one.digest for one in every) for key, every in given.items()}
    named["schema_id"] = schema_id_of(state)
    return hashlib.sha256(documents.canonical(named)).hexdigest()
