"""The door for bytes that others have staged: begin, add, check, load, abort; across processes and steps.

The same validator and the same commit as any load. A staging transaction only remembers where its files are; nothing
waits for it, and what it was begun on binds an update alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph.commit.engine import Engine
from omnigraph.commit.gate import entering
from omnigraph.commit.plan import BranchName
from omnigraph.commit.recovery.drift import pending_intents
from omnigraph.commit.txn import read_current
from omnigraph.core.errors import InvalidInput, NotFound, SchemaChanged
from omnigraph.core.kinds import methods_checked
from omnigraph.core.meter import Meter
from omnigraph.core.modes import INPUT_MODES
from omnigraph.core.progress import Listener
from omnigraph.core.shown import Shown, count_text, html_table
from omnigraph.distributed.fragments import StagedFragments, schema_id_of
from omnigraph.distributed.stage_task import field_ids
from omnigraph.distributed.staged_load import (
    Staged,
    StagedLoad,
    as_parts,
    by_key,
    check_can_leave,
    forgotten,
    grouped,
    listed,
)
from omnigraph.distributed.staged_part import StagedPart, Threads, Workers
from omnigraph.distributed.staging_record import (
    Record,
    Records,
    described_files,
)
from omnigraph.options import LoadOptions
from omnigraph.table import parts as parts_
from omnigraph.table import staged as fragments_
from omnigraph.table.collect import loose_files
from omnigraph.table.dataset import TableRef
from omnigraph.wire.receipt import CheckReport, Receipt
from omnigraph.write.load_options import replay
from omnigraph.write.rules.quarantine_file import LoadQuarantine

if TYPE_CHECKING:
    from omnigraph.distributed.load import PartLoad
    from omnigraph.distributed.parts_report import PartsReport
    from omnigraph.distributed.placement import Checker
    from omnigraph.distributed.shuffle import Exchange
    from omnigraph.distributed.stage_task import PartTask
    from omnigraph.schema import Catalog


@dataclass(frozen=True)
class StagingTable(Shown):
    """Where to write fragments of one table, and the version whose schema they must have."""

    key: str
    uri: str
    version: int
    identity: str
    staging_id: str
    ref: str | None
    schema_id: str
    fields: Mapping[str, int] = field(repr=False)  # Lance's field ids by property

    def describe(self, fragments: Iterable[Any], kind: str = "append") -> StagedFragments:
        """Lance fragments that were written with ``write_fragments(data, uri)`` as something that ``load_staged`` takes."""
        new = [dict(one) if isinstance(one, Mapping) else fragments_.fragment_json(one) for one in fragments]
        held = {number for one in new for file in one["files"] for number in file["fields"]}
        files = described_files(self.uri, parts_.data_files(new))
        return StagedFragments.from_dict(
            {
                "format": 2,
                "staging_id": self.staging_id,
                "table_key": self.key,
                "identity": self.identity,
                "ref": self.ref,
                "base_pin": self.version,
                "schema_id": self.schema_id,
                "fields": {name: number for name, number in self.fields.items() if number in held},
                "kind": kind,
                "new": new,
                "updated": [],
                "removed": [],
                "files": [one.model_dump() for one in files],
                "rows": sum(fragments_.rows_of(one) for one in new),
            }
        )


@methods_checked
@dataclass(repr=False)
class StagingTxn:
    """Bytes on their way into a graph. ``graph.begin()`` makes one; ``graph.begin(resume=txn.id)`` takes it up elsewhere."""

    _engine: Engine = field(repr=False)
    _record: Record
    sent: bool = False  # a table commit of these files may be on its way: no one may delete them

    def __repr__(self) -> str:
        tables, staged = len(self._record.tables), len(self._record.staged)
        return f"<StagingTxn {self.id} on {self.branch}: {count_text(tables, 'table')}, {staged} staged>"

    def _repr_html_(self) -> str:
        rows = [(one.table_key, one.rows, len(one.new), one.digest) for one in self.staged]
        return html_table(("table", "rows", "fragments", "digest"), rows, repr(self), empty="nothing is staged")

    @property
    def id(self) -> str:
        return self._record.id

    @property
    def base(self) -> str:
        """The head commit at which it was begun."""
        return self._record.base.head

    @property
    def branch(self) -> str:
        return self._record.branch.name

    @property
    def staged(self) -> tuple[StagedFragments, ...]:
        """Everything added so far."""
        return tuple(self._record.staged)

    def table(self, name: str) -> StagingTable:
        """By table key (``node:Person``) or type name."""
        tables = self._engine.tables
        with entering(self._engine, "table"):
            key = self._key_of(name)
            noted = self._record.table(key)
            declared = self._catalog_of_then().by_table_key(key)
            fields = field_ids(declared, tables.open(noted.table, noted.pin))
        return StagingTable(
            key,
            tables.uri(noted.table),
            noted.pin,
            noted.identity,
            self.id,
            noted.ref,
            self._record.base.schema_id,
            fields,
        )

    def _key_of(self, name: str) -> str:
        """The key of a table that this transaction was begun for."""
        try:
            return self._record.key_of(name)
        except NotFound:
            state = (self._engine.known(self.branch) or self._engine.latest(self.branch)).state
            if not any(key in state.tables for key in (name, f"node:{name}", f"edge:{name}")):
                raise
            raise InvalidInput(
                f"this staging was not begun for {name!r}",
                hint=f"begin one with tables=[{name!r}, ...]: a table that the branch inherits gets a line of its own then",
                table_key=name,
            ) from None

    def add(self, staged: Staged) -> None:
        """Note files in the record, so that an abort and a cleanup can find them."""
        with entering(self._engine, "add", writes=True):
            added = listed(staged)
            for one in added:
                self._record.check_mine(one)
            known = {one.digest for one in self._record.staged}
            fresh = [one for one in added if one.digest not in known]
            if fresh:
                record = self._record.model_copy(update={"staged": [*self._record.staged, *fresh]})
                records = Records(self._engine.store)
                records.read(self.id)  # one that a cleanup has given up does not come back: its files are being deleted
                records.save(record)
                self._record = record

    def abort(self) -> int:
        """Delete exactly the files that were added, then the record. Returns how many files went.

        Files that a commit names stay: a recovery may have published a commit whose process died, or may yet do so."""
        with entering(self._engine, "abort", writes=True):
            keys = self._free(self._record.files())
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
                continue  # the whole table is gone, or a cleanup takes it
            free |= {base + file.path.rpartition(base)[2] for file in loose_files(handle, noted.key, meter)}
        return sorted(wanted & free)

    # --- batches that are staged in parts ---------------------------------------------------------------------------

    def task(self, mode: str, *, set_aside: bool = False, rows_per_file: int | None = None) -> PartTask:
        """What another process needs to stage parts of a batch; picklable. ``set_aside``: bad rows are kept apart with
        their records instead of being counted."""
        from omnigraph.distributed.stage_task import ROWS_PER_FILE, PartTask, Target

        with entering(self._engine, "task"):
            catalog = self._catalog_of_then()
        return PartTask(
            store=self._engine.store,
            catalog=catalog,
            staging_id=self.id,
            schema_id=self._record.base.schema_id,
            targets={t.key: Target(t.key, t.identity, t.path, t.ref, t.pin) for t in self._record.tables},
            kind="overwrite" if mode == "overwrite" else "append",
            set_aside=set_aside,
            rows_per_file=rows_per_file or ROWS_PER_FILE,
            limits=self._engine.limits,
            patches=mode == "patch",
        )

    def _catalog_of_then(self) -> Catalog:
        """The schema under which the batch is staged. Its parts are made under one schema, whatever becomes of it meanwhile."""
        base = self._record.base
        held = self._engine.known(self.branch) or self._engine.latest(self.branch)
        state = held.state
        if schema_id_of(state) != base.schema_id:
            try:
                state = self._engine.manifest.open_at(state.ref, base.manifest_version, Meter()).state
            except NotFound:
                pass  # a cleanup took it
        if schema_id_of(state) != base.schema_id:
            raise SchemaChanged(
                "the schema has changed since this staging was begun",
                hint="begin a new one with graph.begin()",
                expected=base.schema_id,
                actual=schema_id_of(state),
            )
        return self._engine.catalog(state.schema)

    def add_parts(self, parts: Iterable[StagedPart]) -> None:
        """Note the files of parts in the record, so that an abort and a cleanup can find them."""
        self.add([held.staged for part in parts for held in part.tables if held.staged is not None])

    def load_parts(
        self,
        parts: Sequence[StagedPart],
        types: Iterable[str],
        *,
        options: LoadOptions,
        workers: Workers | None = None,
        rows_per_file: int | None = None,
        memory_mb: int | None = None,
        exchange: Exchange | None = None,
        exchange_always: bool = False,
        checks: PartsReport | None = None,
        progress: Listener | None = None,
    ) -> Receipt:
        """Commit a batch that was staged in parts. ``types``: what it names, with rows or without. ``workers`` do what
        touches every row. ``memory_mb``: for comparing the keys of a table here, beyond which (or always) ``exchange`` brings
        equal keys together elsewhere; without one that is done in passes, and about 30 bytes for each row with an id of its
        own are needed besides. ``checks``: the report of ``check_parts`` on the same parts with the same options; while nothing
        has moved since, the batch is not checked again. Where it fails with ``sent`` still false, an abort takes everything back."""
        from omnigraph.distributed.pass_rules import Budget
        from omnigraph.distributed.placement import Checker

        checker = Checker(Budget.of(memory_mb), exchange, exchange_always)
        options.check_mode(INPUT_MODES)
        with entering(self._engine, "load", writes=True, listener=progress):
            options = self._mine(options)
            known = self.replay(options.idempotency_key)
            if known is not None:
                self.abort()
                assert known.commit_id is not None, "a key is that of a commit"
                told = LoadQuarantine(options.quarantine_to).keep(known.commit_id)
                return replace(known, warnings=(*known.warnings, *told))
            task = self.task(options.mode, rows_per_file=rows_per_file)
            return self._run(self._part_load(list(parts), types, options, task, workers or Threads(), checker, checks))

    def _part_load(
        self,
        parts: list[StagedPart],
        types: Iterable[str],
        options: LoadOptions,
        task: PartTask,
        workers: Workers,
        checker: Checker,
        checks: PartsReport | None,
    ) -> PartLoad:
        from omnigraph.distributed.batch_rows import PartInput
        from omnigraph.distributed.load import PartLoad
        from omnigraph.distributed.parts_report import parts_digest

        for part in parts:
            for held in part.tables:
                if held.staged is not None:
                    self._record.check_mine(held.staged)
        keys = [self._record.key_of(name) for name in types]
        given = PartInput(parts, keys, task.catalog, set_aside=options.sets_aside)
        digest = parts_digest(parts, keys, options.mode, sets_aside=options.sets_aside)
        trusted = checks if checks is not None and checks.digest == digest else None
        return PartLoad(self._engine, options, given, task, self._record, workers, self.add, checker, trusted=trusted)

    def _run(self, load: PartLoad) -> Receipt:
        try:
            done = load.run()
        except BaseException:
            self.sent = load.files.sent
            load.drop_written()
            raise
        left = (load.written | set(self._record.files())) - load.used
        # With the receipt of an earlier try, its files are in use.
        self._engine.store.delete_many(self._free(left) if done.replayed else sorted(left))
        return forgotten(self._engine, self.id, done)

    def _mine(self, options: LoadOptions) -> LoadOptions:
        """The options as this transaction means them: its branch, and its actor unless another one is named. Raise
        ``NotFound`` where another branch has the name by now."""
        line = BranchName(self.branch, self._record.branch.identity)
        if self._engine.ref_of(self.branch) != self._engine.ref_of(line):
            raise self._engine.gone(self.branch, self._engine.ref_of(line) or "", Meter())
        return options.but(branch=self.branch, actor=options.actor if options.actor is not None else self._record.actor)

    def replay(self, idempotency_key: str | None) -> Receipt | None:
        """The receipt of an earlier load with this key: then nothing need be staged at all."""
        if idempotency_key is None:
            return None
        options = LoadOptions(mode="append", branch=self.branch, idempotency_key=idempotency_key)
        with entering(self._engine, "replay"):
            read_current(self._engine, self.branch, meter=Meter())
            return replay(self._engine, options, Meter())

    # --- fragments that another program described -----------------------------------------------------------------------

    def load_staged(
        self,
        staged: Mapping[str, Staged] | None = None,
        *,
        mode: str = "append",
        checks: CheckReport | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
        on_bad_row: str = "fail",
        bad_rows_max: int | float | None = None,
        bounds: Mapping[str, int | float] | None = None,
        on_missing_endpoint: str | Mapping[str, str] | None = None,
        quarantine_to: str | Path | None = None,
        expect_head: str | None = None,
        deadline_s: float = 60,
        progress: Listener | None = None,
    ) -> Receipt:
        """Commit staged fragments: verified to exist, checked on a fresh base, published like any load. ``on_bad_row`` to
        ``quarantine_to``: as those of ``Graph.load``. Where rows leave, the fragments that hold them are written again without
        them; that takes appends or overwrites, and ``checks`` is not asked then."""
        options = self._mine(
            LoadOptions(
                mode=mode,
                actor=actor,
                idempotency_key=idempotency_key,
                on_bad_row=on_bad_row,
                bad_rows_max=bad_rows_max,
                bounds=bounds,
                on_missing_endpoint=on_missing_endpoint,
                quarantine_to=quarantine_to,
                expect_head=expect_head,
                deadline_s=deadline_s,
            )
        )
        options.check_mode()
        with entering(self._engine, "load", writes=True, listener=progress):
            given = by_key(self, staged if staged is not None else grouped(self.staged))
            for one in (one for every in given.values() for one in every):
                self._record.check_mine(one)
            if options.lets_rows_go:
                return self._run(self._sifted_load(given, options))
            return StagedLoad(self._engine, options, given, checks, self._record).run()

    def _sifted_load(self, given: Mapping[str, Sequence[StagedFragments]], options: LoadOptions) -> PartLoad:
        """A load of described fragments of which some rows may leave."""
        from omnigraph.distributed.batch_rows import PartInput
        from omnigraph.distributed.placement import Checker
        from omnigraph.distributed.sifted_load import AS_WRITTEN, SiftedLoad

        check_can_leave(given, options)
        task = self.task(options.mode, rows_per_file=AS_WRITTEN)
        parts = PartInput(as_parts(given), given, task.catalog)
        return SiftedLoad(self._engine, options, parts, task, self._record, Threads(), self.add, Checker(values=True))
