"""The door for bytes that others have staged: begin, add, check, load, abort; across processes and steps.

The same validator and the same commit as any load. A staging transaction only remembers where its files are; nothing
waits for it, and what it was begun on binds an update alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from omnigraph.commit.deadline import Deadline
from omnigraph.commit.engine import Engine
from omnigraph.commit.properties import Counts
from omnigraph.commit.protocol.run import run
from omnigraph.commit.recovery.drift import pending_intents
from omnigraph.commit.request import Prepared
from omnigraph.commit.steps import AppendFiles, OverwriteFiles, Step, UpdateFiles
from omnigraph.commit.txn import Txn, read_current
from omnigraph.core.errors import InvalidInput, NotFound, OmnigraphError, ReadSetChanged
from omnigraph.core.ids import new_ulid
from omnigraph.core.meter import Meter
from omnigraph.core.operation import operating
from omnigraph.core.progress import Listener, phase
from omnigraph.distributed.staged_part import StagedPart, Threads, Workers
from omnigraph.distributed.staging_record import Record, Records, StagedFile, StagedFragments, check_files, record_table
from omnigraph.manifest.rows import Pin
from omnigraph.manifest.state import State
from omnigraph.schema import table_schema
from omnigraph.table import staged as fragments_
from omnigraph.table.collect import loose_files
from omnigraph.table.dataset import TableRef
from omnigraph.write.base.changes import Mode, TypeChange
from omnigraph.write.load_options import CheckReport, LoadOptions, load_request, replay
from omnigraph.write.receipt import Receipt, RejectedRows, receipt_of
from omnigraph.write.rules.validate import Verdict, validate
from omnigraph.write.streamed_load import as_declared, judge_staged

if TYPE_CHECKING:
    from omnigraph.distributed.shuffle import Exchange
    from omnigraph.distributed.stage_task import PartTask

Staged = StagedFragments | Sequence[StagedFragments]

_HELD_ROWS: Final = 1 << 20


@dataclass(frozen=True)
class StagingTable:
    """Where to write fragments of one table, and the version whose schema they must have."""

    key: str
    uri: str
    version: int
    identity: str
    staging_id: str

    def describe(self, fragments: Iterable[Any], kind: str = "append") -> StagedFragments:
        """Lance fragments that were written with ``write_fragments(data, uri)`` as something that ``load_staged`` takes."""
        new = [one if isinstance(one, Mapping) else fragments_.fragment_json(one) for one in fragments]
        files = [
            StagedFile(path=f"data/{file['path']}", size=file["file_size_bytes"] or 0)
            for one in new
            for file in one["files"]
        ]
        return StagedFragments(
            staging_id=self.staging_id,
            table_key=self.key,
            identity=self.identity,
            base_pin=self.version,
            kind=kind,  # type: ignore[arg-type]  # pydantic refuses any other
            new=[dict(one) for one in new],
            files=files,
            rows=sum(fragments_.rows_of(one) for one in new),
        )


@dataclass
class StagingTxn:
    """Bytes on their way into a graph. ``graph.begin()`` makes one; ``graph.begin(resume=txn.id)`` takes it up elsewhere."""

    _engine: Engine = field(repr=False)
    _record: Record
    sent: bool = False  # a table commit of these files may be on its way: they are nobody's to delete

    @property
    def id(self) -> str:
        return self._record.id

    @property
    def base(self) -> str:
        """The head commit at which it was begun."""
        return self._record.head

    @property
    def branch(self) -> str:
        return self._record.branch

    @property
    def staged(self) -> tuple[StagedFragments, ...]:
        """Everything added so far."""
        return tuple(self._record.staged)

    def table(self, name: str) -> StagingTable:
        """By table key (``node:Person``) or type name."""
        key = self._key(name)
        noted = self._record.table(key)
        uri = self._engine.tables.uri(TableRef(noted.path, noted.ref))
        return StagingTable(key, uri, noted.pin, noted.identity, self.id)

    def _key(self, name: str) -> str:
        keys = [table.key for table in self._record.tables]
        for key in (name, f"node:{name}", f"edge:{name}"):
            if key in keys:
                return key
        raise NotFound(f"the graph has no type {name!r}", hint=f"it has {', '.join(keys[:20])}", table_key=name)

    def add(self, staged: Staged) -> None:
        """Note files in the record, so that an abort and a cleanup can find them."""
        added = _listed(staged)
        for one in added:
            self._check_mine(one)
        known = {one.digest for one in self._record.staged}
        fresh = [one for one in added if one.digest not in known]
        if fresh:
            record = self._record.model_copy(update={"staged": [*self._record.staged, *fresh]})
            Records(self._engine.store).save(record)
            self._record = record

    def _check_mine(self, one: StagedFragments) -> None:
        noted = self._record.table(one.table_key)
        if one.staging_id != self.id or one.identity != noted.identity:
            raise InvalidInput(
                f"these fragments of {one.table_key} were staged for {one.staging_id}, not for {self.id}",
                hint="resume the transaction that they were staged for with graph.begin(resume=...)",
                staging_id=one.staging_id,
                table_key=one.table_key,
            )
        named = {file.path for file in one.files}
        for described in (*one.new, *one.updated):
            missing = set(fragments_.files_of(described)) - named
            if described in one.new and missing:
                raise InvalidInput(
                    f"the description of {one.table_key} does not list its file {sorted(missing)[0]}",
                    hint="list every file of every new fragment with its size",
                    table_key=one.table_key,
                )

    def abort(self) -> int:
        """Delete exactly the files that were added, then the record. Returns how many files went.

        What a commit has taken up stays: whoever died after it may have been published by a recovery since, or may yet be."""
        keys = self._free(self._files())
        failures = self._engine.store.delete_many(keys)
        if failures:
            raise failures[0].error
        Records(self._engine.store).delete(self.id)
        return len(keys)

    def _free(self, keys: Iterable[str]) -> list[str]:
        """Of these files, those that no version of a table names, and that no pending write may come to name."""
        wanted = frozenset(keys)
        if not wanted:
            return []
        meter = Meter()
        # Intents first: a write that ends in between is in a version by the time the versions are read.
        busy = {key for intent in pending_intents(self._engine, meter) for key in intent.keys}
        free: set[str] = set()
        for noted in self._record.tables:
            ref = TableRef(noted.path, noted.ref)
            base = f"{ref.relative}/"
            if noted.key in busy or not any(key.startswith(base) for key in wanted):
                continue
            try:
                handle = self._engine.tables.open_latest(ref, meter)
            except NotFound:
                continue  # the whole table is gone, or is rubbish that a cleanup takes
            free |= {base + file.path.rpartition(base)[2] for file in loose_files(handle, noted.key, meter)}
        return sorted(wanted & free)

    # --- batches that are staged in parts ---------------------------------------------------------------------------

    def task(self, mode: str, *, set_aside: bool = False, rows_per_file: int | None = None) -> PartTask:
        """What somebody elsewhere needs to stage parts of a batch; picklable. ``set_aside``: bad rows are kept apart with
        their records instead of being counted."""
        from omnigraph.distributed.stage_task import ROWS_PER_FILE, PartTask, Target

        held = self._engine.known(self.branch) or self._engine.latest(self.branch)
        if held.state.schema.hash != self._record.schema_hash:
            held = read_current(self._engine, self.branch, meter=Meter())
        if held.state.schema.hash != self._record.schema_hash:
            raise ReadSetChanged(
                "the schema has changed since this staging was begun",
                hint="begin a new one with graph.begin()",
                table_key="schema",
                expected=self._record.schema_hash,
                actual=held.state.schema.hash,
            )
        return PartTask(
            store=self._engine.store,
            catalog=self._engine.catalog(held.state.schema),
            staging_id=self.id,
            targets={t.key: Target(t.key, t.identity, t.path, t.ref, t.pin) for t in self._record.tables},
            kind="overwrite" if mode == "overwrite" else "append",
            set_aside=set_aside,
            rows_per_file=rows_per_file or ROWS_PER_FILE,
            limits=self._engine.limits,
        )

    def add_parts(self, parts: Iterable[StagedPart]) -> None:
        """Note the files of parts in the record, so that an abort and a cleanup can find them."""
        self.add([held.staged for part in parts for held in part.tables if held.staged is not None])

    def load_parts(
        self,
        parts: Sequence[StagedPart],
        types: Iterable[str],
        *,
        mode: str,
        workers: Workers | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
        on_bad_row: str = "fail",
        bad_rows_max: int | float | None = None,
        quarantine_to: str | Path | None = None,
        expect_head: str | None = None,
        deadline_s: float = 60,
        rows_per_file: int | None = None,
        memory_mb: int | None = None,
        exchange: Exchange | None = None,
        exchange_always: bool = False,
        progress: Listener | None = None,
    ) -> Receipt:
        """Commit a batch that was staged in parts. ``types``: what it names, with rows or without. ``workers`` do what
        touches every row. ``memory_mb``: for comparing the keys of a table here, beyond which (or always) ``exchange`` brings
        equal keys together elsewhere; without one that is done in passes, and 30 bytes or so for each row with an id of its
        own are needed besides. Where it fails with ``sent`` still false, an abort takes everything back."""
        from omnigraph.distributed.batch_rows import PartInput
        from omnigraph.distributed.load import PartLoad
        from omnigraph.distributed.pass_rules import Budget
        from omnigraph.distributed.placement import Checker

        options = LoadOptions(
            mode=mode,
            branch=self.branch,
            actor=actor if actor is not None else self._record.actor,
            idempotency_key=idempotency_key,
            on_bad_row=on_bad_row,
            bad_rows_max=bad_rows_max,
            quarantine_to=quarantine_to,
            expect_head=expect_head,
            deadline_s=deadline_s,
        )
        options.check()
        known = self.replay(idempotency_key)
        if known is not None:
            self.abort()
            return known
        for part in parts:
            for held in part.tables:
                if held.staged is not None:
                    self._check_mine(held.staged)
        task = self.task(mode, rows_per_file=rows_per_file)
        keys = [self._key(name) for name in types]
        given = PartInput(parts, keys, task.catalog, set_aside=on_bad_row == "quarantine")
        checker = Checker(Budget.of(memory_mb), exchange, exchange_always)
        load = PartLoad(
            self._engine, options, given, task, self._record.schema_hash, workers or Threads(), self.add, checker
        )
        try:
            with operating("load", self._engine.uri, writes=True, listener=progress, clock=self._engine.clock):
                done = load.run()
        except BaseException:
            self.sent = load.files.sent
            load.drop_written()
            raise
        left = (load.written | set(self._files())) - load.used
        # With the receipt of an earlier try, its files are in use.
        self._engine.store.delete_many(self._free(left) if done.replayed else sorted(left))
        return forgotten(self._engine, self.id, done)

    def replay(self, idempotency_key: str | None) -> Receipt | None:
        """The receipt of an earlier load with this key: then nothing need be staged at all."""
        if idempotency_key is None:
            return None
        read_current(self._engine, self.branch, meter=Meter())
        options = LoadOptions(mode="append", branch=self.branch, idempotency_key=idempotency_key)
        return replay(self._engine, options, Meter())

    def _files(self) -> list[str]:
        """Everything that was added, below the root."""
        keys = []
        for one in self._record.staged:
            noted = self._record.table(one.table_key)
            base = TableRef(noted.path, noted.ref).relative
            keys += [f"{base}/{file.path}" for file in one.files]
        return sorted(set(keys))

    # --- fragments that somebody else described -----------------------------------------------------------------------

    def load_staged(
        self,
        staged: Mapping[str, Staged] | None = None,
        *,
        mode: str = "append",
        checks: CheckReport | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
        on_bad_row: str = "fail",
        expect_head: str | None = None,
        deadline_s: float = 60,
        progress: Listener | None = None,
    ) -> Receipt:
        """Commit staged fragments: verified to exist, checked on a fresh base, published like any load."""
        options = LoadOptions(
            mode=mode,
            branch=self.branch,
            actor=actor if actor is not None else self._record.actor,
            idempotency_key=idempotency_key,
            on_bad_row=on_bad_row,
            expect_head=expect_head,
            deadline_s=deadline_s,
        )
        options.check()
        if on_bad_row != "fail":
            raise InvalidInput(
                "staged fragments are loaded whole: on_bad_row must be 'fail'",
                hint="leave bad rows out while staging; og.check_staged names them",
            )
        given = _by_key(self, staged if staged is not None else _grouped(self.staged))
        for one in (one for listed in given.values() for one in listed):
            self._check_mine(one)
        with operating("load", self._engine.uri, writes=True, listener=progress, clock=self._engine.clock):
            return _StagedLoad(self._engine, options, given, checks).run(self._record)


def begin(engine: Engine, *, branch: str, actor: str | None, resume: str | None) -> StagingTxn:
    """Open a staging transaction, or take one up again."""
    records = Records(engine.store)
    if resume is not None:
        record = records.read(resume)
        if record.graph != engine.graph_id:
            raise InvalidInput(f"the staging record {resume} belongs to another graph", staging_id=resume)
        return StagingTxn(engine, record)
    held = read_current(engine, branch, meter=Meter())
    state = held.state
    record = Record(
        id=new_ulid(engine.clock),
        graph=engine.graph_id,
        branch=branch,
        branch_identity=state.identity,
        manifest_version=state.version,
        head=state.head.commit_id,
        schema_hash=state.schema.hash,
        actor=actor,
        created_at_us=engine.clock.now_us(),
        tables=[
            record_table(pin.key, pin.identity, pin.location, pin.ref, pin.version) for pin in state.tables.values()
        ],
    )
    records.create(record)
    return StagingTxn(engine, record)


def check_staged(txn: StagingTxn, staged: Staged | Mapping[str, Staged], memory_mb: int | None = None) -> CheckReport:
    """Judge staged fragments against the branch as it is now. The report fits ``load_staged`` while nothing moves.

    Rows are read batch by batch, and keys are compared in passes that take ``memory_mb`` at most; 30 bytes or so a row are
    needed besides. What was staged as an update is held.
    """
    engine = txn._engine
    given = _by_key(txn, staged if isinstance(staged, Mapping) else _grouped(_listed(staged)))
    meter = Meter()
    held = read_current(engine, txn.branch, meter=meter)
    view = Txn(engine, txn.branch, held, Deadline(engine.clock, 3600), meter)
    verdict = _judge(view, given, memory_mb)
    rows = {key: sum(fragments_.rows_of(new) for one in listed for new in one.new) for key, listed in given.items()}
    return CheckReport(
        verdict.ok,
        sum(rows.values()),
        rows,
        tuple(violation.to_dict() for violation in verdict.violations),
        verdict.total,
        tuple(sorted(verdict.reads)),
        pins=_pins(held.state, {*verdict.reads, *given}),
        digest=_digest(given),
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
class _StagedLoad:
    engine: Engine
    options: LoadOptions
    given: Mapping[str, Sequence[StagedFragments]]
    checks: CheckReport | None

    def run(self, record: Record) -> Receipt:
        meter = Meter()
        with phase("looking at files", unit="tables", total=len(self.given)):
            self._verify_files(record, meter)
        request = load_request(self.options, self.given)
        outcome = run(self.engine, request, self._prepare, meter)
        done = receipt_of(outcome, self.options.branch, RejectedRows(), {}, meter)
        if outcome.row is not None and not outcome.replayed:
            return forgotten(self.engine, record.id, done)
        return done

    def _verify_files(self, record: Record, meter: Meter) -> None:
        """Every file is there with its size, before anything is armed: a commit checks none of them."""
        wanted = {}
        for key, listed in self.given.items():
            noted = record.table(key)
            base = TableRef(noted.path, noted.ref).relative
            wanted.update({f"{base}/{file.path}": file.size for one in listed for file in one.files})
        check_files(self.engine, wanted, meter)

    def _prepare(self, txn: Txn) -> Prepared | None:
        for key, listed in self.given.items():
            _check_base(txn.pin(key), listed)
        if self.checks is not None and self._trusted(txn.state):
            reads = frozenset(self.checks.reads)
        else:
            with phase("checking", unit="tables", total=len(self.given)):
                verdict = _judge(txn, self.given)
            verdict.raise_if_bad()
            reads = verdict.reads
        found = (_step(txn, key, listed, self.options.checked_mode) for key, listed in sorted(self.given.items()))
        steps = tuple(step for step in found if step is not None)
        return Prepared(steps, reads, stage_first=True) if steps else None

    def _trusted(self, state: State) -> bool:
        checks = self.checks
        if checks is None or not checks.ok or checks.digest != _digest(self.given):
            return False
        return dict(checks.pins) == _pins(state, set(checks.pins)) and set(self.given) <= set(checks.pins)


def _check_base(pin: Pin, listed: Sequence[StagedFragments]) -> None:
    for one in listed:
        if one.identity != pin.identity:
            raise ReadSetChanged(
                f"table {pin.key} was dropped and made again since its fragments were staged",
                table_key=pin.key,
                expected=one.base_pin,
                actual=pin.version,
            )
        if one.kind == "update" and one.base_pin != pin.version:
            raise ReadSetChanged(
                f"an update of {pin.key} was staged at version {one.base_pin}, which is {pin.version} now",
                hint="stage the update again on the present version",
                table_key=pin.key,
                expected=one.base_pin,
                actual=pin.version,
            )


def _judge(txn: Txn, given: Mapping[str, Sequence[StagedFragments]], memory_mb: int | None = None) -> Verdict:
    """An append is judged batch by batch; what replaces rows is compared with them, which holds it if it is small."""
    kinds = {one.kind for listed in given.values() for one in listed}
    rows = sum(one.rows for listed in given.values() for one in listed)
    if len(kinds) == 1 and "update" not in kinds and (memory_mb is not None or rows > _HELD_ROWS):
        return _judge_in_passes(txn, given, "overwrite" if "overwrite" in kinds else "append", memory_mb)
    if all(one.kind == "append" for listed in given.values() for one in listed):
        return judge_staged(txn, {key: [new for one in listed for new in one.new] for key, listed in given.items()})
    changes = [_change(txn, key, listed) for key, listed in sorted(given.items())]
    return validate(changes, txn.catalog, txn, limits=txn.engine.limits)


def _judge_in_passes(
    txn: Txn, given: Mapping[str, Sequence[StagedFragments]], mode: Mode, memory_mb: int | None
) -> Verdict:
    from omnigraph.distributed.batch_rows import PartInput
    from omnigraph.distributed.key_checks import check_keys
    from omnigraph.distributed.pass_rules import Budget
    from omnigraph.distributed.staged_part import Split, Stretch, TaskRows

    parts = []
    for order, (key, listed) in enumerate(sorted(given.items())):
        for index, one in enumerate(listed):
            split = Split(order, index)
            rows = sum(fragments_.rows_of(described) for described in one.new)
            held = TaskRows(key, one, (Stretch(split.key, rows),))
            parts.append(StagedPart(split.key, ((split, rows),), (held,)))
    return check_keys(PartInput(parts, given, txn.catalog), txn, mode, Budget.of(memory_mb), values=True).verdict


def _change(txn: Txn, key: str, listed: Sequence[StagedFragments]) -> TypeChange:
    declared = txn.catalog.by_table_key(key)
    pin = txn.pin(key)
    schema = table_schema(declared)
    ref = TableRef(pin.location, pin.ref)
    new = [described for one in listed for described in one.new]
    batches = [
        pa.RecordBatch.from_arrays(
            [as_declared(batch.column(name), schema.field(name).type) for name in schema.names], schema=schema
        )
        for batch in fragments_.read_rows(txn.engine.tables, ref, txn.handle(key), new, schema.names)
    ]
    mode: Mode = "append"
    if any(one.kind == "overwrite" for one in listed):
        mode = "overwrite"
    elif any(one.kind == "update" for one in listed):
        mode = "merge"
    return TypeChange(declared, pa.Table.from_batches(batches, schema=schema), mode)


def _step(txn: Txn, key: str, listed: Sequence[StagedFragments], mode: Mode) -> Step | None:
    pin = txn.pin(key)
    new = [described for one in listed for described in one.new]
    rows = sum(fragments_.rows_of(described) for described in new)
    kinds = {one.kind for one in listed}
    wanted = {"append": {"append"}, "overwrite": {"overwrite"}, "merge": {"append", "update"}}[mode]
    if not kinds <= wanted:
        raise InvalidInput(
            f"fragments of {key} were staged as {', '.join(sorted(kinds))}, which mode={mode!r} does not take",
            table_key=key,
        )
    if mode == "overwrite":
        counts = Counts(inserted=rows, deleted=pin.rows)
        return OverwriteFiles(key, (counts,), tuple(new))
    updated = [described for one in listed for described in one.updated]
    removed = [number for one in listed for number in one.removed]
    if not updated and not removed:
        if not new:
            return None
        return AppendFiles(key, (Counts(inserted=rows),), tuple(new))
    handle = txn.handle(key)
    gone = fragments_.deleted_by(handle, updated, removed)
    counts = Counts(inserted=rows - min(gone, rows), updated=min(gone, rows), deleted=gone - min(gone, rows))
    return UpdateFiles(key, (counts,), tuple(new), tuple(updated), tuple(removed))


# --- small values -------------------------------------------------------------------------------------------------------


def _listed(staged: Staged) -> list[StagedFragments]:
    return [staged] if isinstance(staged, StagedFragments) else list(staged)


def _grouped(staged: Iterable[StagedFragments]) -> dict[str, list[StagedFragments]]:
    found: dict[str, list[StagedFragments]] = {}
    for one in staged:
        found.setdefault(one.table_key, []).append(one)
    return found


def _by_key(txn: StagingTxn, staged: Mapping[str, Staged]) -> dict[str, list[StagedFragments]]:
    found: dict[str, list[StagedFragments]] = {}
    for name, value in staged.items():
        key = txn._key(name)
        for one in _listed(value):
            if one.table_key != key:
                raise InvalidInput(f"fragments of {one.table_key} were given for {key}", table_key=key)
            found.setdefault(key, []).append(one)
    return found


def _pins(state: State, keys: Iterable[str]) -> dict[str, tuple[str, str | None, int]]:
    return {key: state.tables[key].triple for key in sorted(keys) if key in state.tables}


def _digest(given: Mapping[str, Sequence[StagedFragments]]) -> str:
    named = {key: sorted(one.digest for one in listed) for key, listed in sorted(given.items())}
    return hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()
