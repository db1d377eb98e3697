"""The façade: one open graph. Thin; every method names the module that does the work.

Owns argument defaults, the life of an open graph and nothing else.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, overload

from omnigraph.commit.durable import durability_of
from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.gate import entering
from omnigraph.commit.pressure import make_bounds
from omnigraph.core.errors import Corruption, InvalidInput
from omnigraph.core.ids import new_ulid
from omnigraph.core.kinds import kinds_checked, methods_checked
from omnigraph.core.meter import Meter
from omnigraph.core.operation import Operation
from omnigraph.core.progress import Listener
from omnigraph.core.shown import html_or_text
from omnigraph.graph_schema import GraphSchema, read_schema
from omnigraph.manifest.rows import STORAGE_VERSION, SchemaRow
from omnigraph.manifest.schema_id import schema_id
from omnigraph.options import (
    CommitOptions,
    LoadOptions,
    check_actor,
    check_commit,
    check_flag,
    check_rate,
    check_switch,
)
from omnigraph.store import open_store

if TYPE_CHECKING:
    from omnigraph.branch.branches import Branches
    from omnigraph.distributed.staging_txn import StagingTxn
    from omnigraph.read.changes import ChangeFeed
    from omnigraph.read.diff import Diff
    from omnigraph.read.place_names import At
    from omnigraph.read.snapshot import Snapshot
    from omnigraph.read.sql import Params, SqlResult
    from omnigraph.schema import Catalog
    from omnigraph.upkeep.checkpoints import Checkpoints
    from omnigraph.upkeep.distribute import CompactionPlan, CompactionResult
    from omnigraph.upkeep.notes import Notes
    from omnigraph.wire.cleanup import CleanupPlan, CleanupReport
    from omnigraph.wire.history import Commit, Commits, RowHistory
    from omnigraph.wire.optimize import ManifestReport, OptimizeReport
    from omnigraph.wire.receipt import CheckReport, LoadPlan, Outcome, Receipt
    from omnigraph.wire.recovery import PendingIntents, RecoveryHistory, RecoveryReport, RepairReport
    from omnigraph.wire.status import StatusReport
    from omnigraph.wire.undo import UndoPlan
    from omnigraph.wire.verify import VerifyReport

# An open ends what others left behind for that long at most; the rest is ended by `recover`, or by a writer that finds it in its way.
OPEN_RECOVERY_S = 30.0
VERIFY_READS = "OMNIGRAPH_VERIFY_READS"


@kinds_checked
def init(
    uri: str | Path,
    schema: str | Path,
    *,
    storage_options: Mapping[str, str] | None = None,
    actor: str | None = None,
    durability: str | None = None,
) -> Graph:
    """Create a graph and open it. ``schema`` is the text of a ``.pg`` file, or a Path to one. ``durability``: as in
    ``open``."""
    from omnigraph.commit.genesis import create_graph
    from omnigraph.schema import canonical_text, parse_schema

    promised = durability_of(durability)
    text = read_schema(schema)
    catalog = parse_schema(text, mint=new_ulid)
    canonical = canonical_text(catalog)
    actor = check_actor(actor)
    groups = check_switch("group", None, "OMNIGRAPH_GROUP", default=True)
    engine = Engine(open_store(uri, storage_options), durability=promised, groups=groups)
    shared = check_commit(None)
    engine.combine, engine.offers = shared.combine, shared.offers
    with entering(engine, "init", writes=True):
        create_graph(
            engine,
            catalog,
            SchemaRow(text, canonical, catalog.hash, schema_id(canonical)),
            actor=actor,
            meter=Meter(),
        )
    return Graph(engine, actor=actor)


@kinds_checked
def open(
    uri: str | Path,
    *,
    read_only: bool = False,
    exclusive: bool = False,
    storage_options: Mapping[str, str] | None = None,
    actor: str | None = None,
    backpressure: Mapping[str, int | None] | None = None,
    durability: str | None = None,
    group: bool | None = None,
    verify_reads: bool | None = None,
    commit: Mapping[str, bool] | None = None,
) -> Graph:
    """Open a graph. Opening for writing first ends what dead processes of this host and finished writers left behind.

    ``backpressure``: from how many unmerged fragments, versions or pending writes on a write warns, slows down and fails
    (``{"warn": 500, "slow": 2000, "fail": 10000}``); without it, it only warns. ``durability``: what an acknowledgement
    promises on a local disk; ``commit`` survives a power cut, ``relaxed`` the end of the process. None: what
    ``OMNIGRAPH_DURABILITY`` says, else ``commit``. ``verify_reads``: compare each file of a table on a local disk with its
    checksum before its first use. None: what ``OMNIGRAPH_VERIFY_READS`` says, else not. ``group``: whether writes of several
    threads may share a swap; None: what ``OMNIGRAPH_GROUP`` says, else they may. Writes of several processes
    may share one as well, and those that wait for the same tables may carry each other out. ``commit``: ``{"combine": False}`` and
    ``{"offers": False}`` say that they may not; without them, what ``OMNIGRAPH_COMMIT_COMBINE`` and ``OMNIGRAPH_COMMIT_OFFERS`` say.
    """
    promised = durability_of(durability)
    groups = check_switch("group", group, "OMNIGRAPH_GROUP", default=True)
    verified = check_switch("verify_reads", verify_reads, VERIFY_READS, default=False)
    shared = check_commit(commit)
    check_flag("read_only", read_only)
    check_flag("exclusive", exclusive)
    if read_only and exclusive:
        raise InvalidInput("read_only and exclusive exclude each other", hint="pass one of them")
    bounds = make_bounds(backpressure)
    actor = check_actor(actor)
    store = open_store(uri, storage_options)
    engine = Engine(store, read_only=read_only, durability=promised, groups=groups, verify_reads=verified)
    engine.bounds, engine.combine, engine.offers = bounds, shared.combine, shared.offers
    with entering(engine, "open"):
        meter = Meter()
        engine.latest(MAIN, meter)
        pending = () if read_only else engine.pending(meter)
        if pending:
            from omnigraph.commit.recovery.recover import recover_all

            recover_all(engine, meter=meter, pending=pending, within_s=OPEN_RECOVERY_S)
        if exclusive:
            from omnigraph.commit.exclusive import claim

            claim(engine, meter)
    return Graph(engine, actor=actor, exclusive=exclusive)


def open_for_repair(
    uri: str | Path, *, storage_options: Mapping[str, str] | None = None, actor: str | None = None
) -> Graph:
    """Open a graph for writing without ending anything first: an intent that does not read would refuse that, and so would a
    version that was not written whole."""
    actor = check_actor(actor)
    engine = Engine(open_store(uri, storage_options))
    with entering(engine, "open"), contextlib.suppress(Corruption):  # `repair` names it, and says what it can do
        engine.latest(MAIN, Meter())
    return Graph(engine, actor=actor)


def _noted(doing: Operation, receipt: Receipt) -> Receipt:
    """For the log: which commit it became."""
    doing.facts |= {"commit_id": receipt.commit_id, "branch": receipt.branch, "replayed": receipt.replayed}
    return receipt


@methods_checked
class Graph:
    """One open graph. Safe to share between threads; close it, or use it in a ``with`` statement."""

    def __init__(self, engine: Engine, *, actor: str | None = None, exclusive: bool = False) -> None:
        self._engine = engine
        self._actor = actor
        self._exclusive = exclusive
        self._closed = False

    # --- life -------------------------------------------------------------------------------------------------------

    @property
    def uri(self) -> str:
        return self._engine.uri

    @property
    def storage_version(self) -> int:
        return STORAGE_VERSION

    @property
    def catalog(self) -> Catalog:
        """The accepted schema, as this handle last saw it."""
        held = self._engine.known(MAIN)
        if held is None:
            with self._doing("catalog"):
                held = self._engine.latest(MAIN)
        return self._engine.catalog(held.state.schema)

    def close(self) -> None:
        """Give exclusive use back and stop the threads. Closing twice is fine; in a forked process it changes nothing."""
        if self._closed or self._engine.forked:
            return
        self._closed = True
        try:
            if self._exclusive:
                from omnigraph.commit.exclusive import release

                release(self._engine, Meter())
        finally:
            self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _repr_html_(self) -> str:
        """What a notebook shows: the status, and a picture of the schema."""
        return html_or_text(self, lambda: self.status()._repr_html_() + self.catalog._repr_html_())

    def __reduce__(self) -> tuple[Any, ...]:
        raise InvalidInput(
            "a graph is no value: it holds connections, locks and threads of this process",
            hint=f"pass the path and call omnigraph.open({self.uri!r}) there; a snapshot can be pickled",
        )

    def __repr__(self) -> str:
        mode = "read-only" if self._engine.read_only else "exclusive" if self._exclusive else "read-write"
        mode = "closed" if self._closed else mode
        return f"<Graph {self.uri} ({mode})>"

    def _doing(
        self, name: str, *, writes: bool = False, listener: Listener | None = None
    ) -> AbstractContextManager[Operation]:
        """Enter the operation that a method is, through the gate that checks whether it may begin."""
        return entering(self._engine, name, writes=writes, listener=listener)

    def _who(self, actor: str | None) -> str | None:
        """The actor of one call: the one named, else the handle's."""
        return check_actor(actor, self._actor)

    # --- reading ----------------------------------------------------------------------------------------------------

    def snapshot(self, branch: str = MAIN, at: At | None = None) -> Snapshot:
        """A branch as it is now, or the graph at a place: a commit, a checkpoint, a branch, a time. It never changes."""
        from omnigraph.read.places import snapshot_at
        from omnigraph.read.snapshot import snapshot_of_branch

        with self._doing("snapshot"):
            engine = self._engine
            if at is not None:
                return snapshot_at(engine, at, branch=branch)
            return snapshot_of_branch(engine, branch)

    def sql(self, text: str, params: Params | None = None, branch: str = MAIN, at: At | None = None) -> SqlResult:
        """One select statement over a snapshot, one view a type; ``params`` for ``?`` or ``$name``."""
        return self.snapshot(branch, at=at).sql(text, params)

    def commits(self, branch: str = MAIN, actor: str | None = None, limit: int | None = None) -> Commits:
        """The commits of a branch, newest first."""
        from omnigraph.read.commits import list_commits

        with self._doing("commits"):
            return list_commits(self._engine, branch=branch, actor=actor, limit=limit)

    def commit(self, commit_id: str) -> Commit:
        """One commit by its id."""
        from omnigraph.read.commits import find_commit

        with self._doing("commit"):
            return find_commit(self._engine, commit_id)

    def diff(self, a: At, b: At = MAIN, types: Iterable[str] | None = None, stat: bool = False) -> Diff:
        """What changed from the state ``a`` to the state ``b``, each a place. Rows are read when they
        are asked for; with ``stat`` they are counted now."""
        from omnigraph.read.diff import diff_of

        check_flag("stat", stat)
        with self._doing("diff"):
            return diff_of(self._engine, a, b, types, stat=stat)

    def history(self, type: str, id: object, branch: str = MAIN, limit: int | None = None) -> RowHistory:
        """The changes of one row, newest first, with the row before and after each: as far back as a cleanup has left it."""
        from omnigraph.read.row_history import row_history

        with self._doing("history"):
            return row_history(self._engine, type, id, branch=branch, limit=limit, meter=Meter())

    def changes(
        self,
        since: At,
        until: At | None = None,
        types: Iterable[str] | None = None,
        branch: str = MAIN,
        before: bool = False,
    ) -> ChangeFeed:
        """What the commits of a branch did after ``since`` and up to ``until``, in order: rows inserted, updated and deleted, and
        changes of the schema. ``before``: with each row as it was. The feed's ``cursor`` is the ``since`` to go on from."""
        from omnigraph.read.changes import changes_of

        with self._doing("changes"):
            return changes_of(self._engine, since, until, types, branch=branch, before=before)

    def outcome(self, commit_id: str) -> Outcome:
        """What became of a write: landed with its receipt, aborted, pending, or absent (it cannot land any more)."""
        from omnigraph.commit.recovery.outcome import find_outcome
        from omnigraph.write.receipt import outcome_of

        with self._doing("outcome"):
            return outcome_of(find_outcome(self._engine, commit_id, Meter()), commit_id)

    # --- writing ----------------------------------------------------------------------------------------------------

    @overload
    def load(
        self,
        source: Any,
        *,
        mode: str,
        branch: str = MAIN,
        from_branch: str | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
        on_bad_row: str = "fail",
        bad_rows_max: int | float | None = None,
        bounds: Mapping[str, int | float] | None = None,
        on_missing_endpoint: str | Mapping[str, str] | None = None,
        quarantine_to: str | Path | None = None,
        expect_head: str | None = None,
        deadline_s: float = 60,
        group: bool | None = None,
        dry_run: Literal[False] = False,
        progress: Listener | None = None,
    ) -> Receipt: ...

    @overload
    def load(
        self,
        source: Any,
        *,
        mode: str,
        branch: str = MAIN,
        from_branch: str | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
        on_bad_row: str = "fail",
        bad_rows_max: int | float | None = None,
        bounds: Mapping[str, int | float] | None = None,
        on_missing_endpoint: str | Mapping[str, str] | None = None,
        quarantine_to: str | Path | None = None,
        expect_head: str | None = None,
        deadline_s: float = 60,
        group: bool | None = None,
        dry_run: Literal[True],
        progress: Listener | None = None,
    ) -> LoadPlan: ...

    def load(
        self,
        source: Any,
        *,
        mode: str,
        branch: str = MAIN,
        from_branch: str | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
        on_bad_row: str = "fail",
        bad_rows_max: int | float | None = None,
        bounds: Mapping[str, int | float] | None = None,
        on_missing_endpoint: str | Mapping[str, str] | None = None,
        quarantine_to: str | Path | None = None,
        expect_head: str | None = None,
        deadline_s: float = 60,
        group: bool | None = None,
        dry_run: bool = False,
        progress: Listener | None = None,
    ) -> Receipt | LoadPlan:
        """Bring records into the graph: one call, one commit over any number of tables, one receipt. ``on_missing_endpoint``
        (fail, quarantine, drop, stub; one for all edge types, or one for each) says what becomes of edges that name a node which
        does not exist, ``bounds`` how many rows each check (values, duplicates, endpoints, cardinality) may find bad. ``dry_run``
        returns the plan instead, and writes nothing. ``progress`` is called with a ``Progress`` now and then while it goes on; so it
        is wherever it is a parameter."""
        from omnigraph.branch.first_load import branch_for, plan_on
        from omnigraph.write.load import load

        options = LoadOptions(
            mode=mode,
            branch=branch,
            from_branch=from_branch,
            actor=self._who(actor),
            idempotency_key=idempotency_key,
            on_bad_row=on_bad_row,
            bad_rows_max=bad_rows_max,
            bounds=bounds,
            on_missing_endpoint=on_missing_endpoint,
            quarantine_to=quarantine_to,
            expect_head=expect_head,
            deadline_s=deadline_s,
            group=group,
        )
        if dry_run:
            with self._doing("load", listener=progress):
                return plan_on(self._engine, source, options)
        with self._doing("load", writes=True, listener=progress) as doing:
            with branch_for(self._engine, options):
                return _noted(doing, load(self._engine, source, options))

    def begin(
        self,
        branch: str = MAIN,
        tables: Iterable[str] | None = None,
        *,
        actor: str | None = None,
        resume: str | None = None,
        deadline_s: float = 60,
    ) -> StagingTxn:
        """A staging transaction for bytes that others write; ``resume``: the id of one begun earlier, anywhere. ``tables``:
        types or table keys that will be staged; None means all on main, and on a branch those that it has written. Naming a
        table that the branch inherits gives it a line of its own first."""
        from omnigraph.distributed.begin import begin

        options = CommitOptions(branch=branch, actor=self._who(actor), deadline_s=deadline_s)
        with self._doing("begin", writes=True):
            return begin(self._engine, options, tables=tables, resume=resume)

    def mutate(
        self,
        query: str | Path,
        *,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        branch: str = MAIN,
        actor: str | None = None,
        idempotency_key: str | None = None,
        expect_head: str | None = None,
        deadline_s: float = 60,
        group: bool | None = None,
    ) -> Receipt:
        """Run one query that inserts, updates or deletes: one call, one commit, one receipt. ``query`` is the text of a
        ``.gq`` file, or a Path to one; ``name`` chooses among its queries."""
        from omnigraph.write.mutate import mutate

        options = CommitOptions(
            branch=branch,
            actor=self._who(actor),
            idempotency_key=idempotency_key,
            expect_head=expect_head,
            deadline_s=deadline_s,
            group=group,
        )
        with self._doing("mutate", writes=True) as doing:
            return _noted(doing, mutate(self._engine, query, options, name=name, params=params))

    @overload
    def revert(
        self,
        commit_id: str,
        branch: str = MAIN,
        *,
        whole_group: bool = False,
        dry_run: Literal[False] = False,
        actor: str | None = None,
        expect_head: str | None = None,
        idempotency_key: str | None = None,
        deadline_s: float = 60,
    ) -> Receipt: ...

    @overload
    def revert(
        self,
        commit_id: str,
        branch: str = MAIN,
        *,
        whole_group: bool = False,
        dry_run: Literal[True],
        actor: str | None = None,
        expect_head: str | None = None,
        idempotency_key: str | None = None,
        deadline_s: float = 60,
    ) -> UndoPlan: ...

    def revert(
        self,
        commit_id: str,
        branch: str = MAIN,
        *,
        whole_group: bool = False,
        dry_run: bool = False,
        actor: str | None = None,
        expect_head: str | None = None,
        idempotency_key: str | None = None,
        deadline_s: float = 60,
    ) -> Receipt | UndoPlan:
        """Take back what one commit did, named by its id or the beginning of it, as a new commit. Rows that were changed since are a ``MergeConflict``. ``whole_group``:
        with all commits of its swap; ``dry_run`` returns the plan and writes nothing."""
        from omnigraph.branch.undo import RevertOptions, plan_revert, revert

        options = RevertOptions(
            commit_id=commit_id,
            whole_group=whole_group,
            branch=branch,
            actor=self._who(actor),
            expect_head=expect_head,
            idempotency_key=idempotency_key,
            deadline_s=deadline_s,
        )
        if dry_run:
            with self._doing("revert"):
                return plan_revert(self._engine, options)
        with self._doing("revert", writes=True) as doing:
            return _noted(doing, revert(self._engine, options))

    @overload
    def restore(
        self,
        at: At,
        branch: str = MAIN,
        *,
        dry_run: Literal[False] = False,
        actor: str | None = None,
        expect_head: str | None = None,
        idempotency_key: str | None = None,
        deadline_s: float = 60,
    ) -> Receipt: ...

    @overload
    def restore(
        self,
        at: At,
        branch: str = MAIN,
        *,
        dry_run: Literal[True],
        actor: str | None = None,
        expect_head: str | None = None,
        idempotency_key: str | None = None,
        deadline_s: float = 60,
    ) -> UndoPlan: ...

    def restore(
        self,
        at: At,
        branch: str = MAIN,
        *,
        dry_run: bool = False,
        actor: str | None = None,
        expect_head: str | None = None,
        idempotency_key: str | None = None,
        deadline_s: float = 60,
    ) -> Receipt | UndoPlan:
        """Make the rows of a branch what they were at a place, as a new commit. ``dry_run`` returns the plan and writes nothing."""
        from omnigraph.branch.undo import RestoreOptions, plan_restore, restore

        options = RestoreOptions(
            at=at,
            branch=branch,
            actor=self._who(actor),
            expect_head=expect_head,
            idempotency_key=idempotency_key,
            deadline_s=deadline_s,
        )
        if dry_run:
            with self._doing("restore"):
                return plan_restore(self._engine, options)
        with self._doing("restore", writes=True) as doing:
            return _noted(doing, restore(self._engine, options))

    def check(
        self,
        source: Any,
        *,
        mode: str,
        branch: str = MAIN,
        on_bad_row: str = "fail",
        bad_rows_max: int | float | None = None,
        bounds: Mapping[str, int | float] | None = None,
        on_missing_endpoint: str | Mapping[str, str] | None = None,
        progress: Listener | None = None,
    ) -> CheckReport:
        """Validate what ``load`` with the same arguments would be given. Writes nothing."""
        from omnigraph.write.load import check

        options = LoadOptions(
            mode=mode,
            branch=branch,
            on_bad_row=on_bad_row,
            bad_rows_max=bad_rows_max,
            bounds=bounds,
            on_missing_endpoint=on_missing_endpoint,
        )
        with self._doing("check", listener=progress):
            return check(self._engine, source, options)

    # --- upkeep -----------------------------------------------------------------------------------------------------

    def status(self, deep: bool = False, branches: Sequence[str] | None = None) -> StatusReport:
        """Head, tables, manifest, pending writes and a verdict, from the manifest alone; ``deep`` visits every table. Figures are of
        main, with a line for each branch, or for those in ``branches``."""
        from omnigraph.upkeep.status import OPERATIONS, status_report

        with self._doing("status"):
            built = [name for name in OPERATIONS if hasattr(self, name)]
            return status_report(self._engine, deep=deep, branches=branches, commands=built)

    def probe(self, name: str) -> int:
        """One number in at most two requests: ``manifest_fragments``, ``version_backlog``, ``pending_intents`` or
        ``oldest_intent_s``."""
        from omnigraph.upkeep.probe import probe

        with self._doing("probe"):
            return probe(self._engine, name)

    def verify(
        self,
        deep: bool = False,
        branches: Sequence[str] | None = None,
        *,
        bytes_per_s: int | None = None,
        progress: Listener | None = None,
    ) -> VerifyReport:
        """Whether everything is what the manifest says: pins open, rows match, endpoints exist. Changes nothing.

        ``bytes_per_s``, with ``deep``: only compare files with their checksums, and read so many bytes a second at most, so that
        it may take hours beside writers."""
        from omnigraph.upkeep.verify import verify, verify_files

        rate = check_rate(bytes_per_s, deep)
        with self._doing("verify", listener=progress):
            if rate is not None:
                return verify_files(self._engine, bytes_per_s=rate, branches=branches)
            return verify(self._engine, deep=deep, branches=branches)

    def intents(self) -> PendingIntents:
        """Writes that have not ended, oldest first: whose they are and what a recovery would do with them."""
        from omnigraph.upkeep.intents import list_intents

        with self._doing("intents"):
            return list_intents(self._engine)

    def recover(self, grace_s: float | None = None, branches: Sequence[str] | None = None) -> RecoveryReport:
        """End interrupted writes, of all branches or of those named. One whose owner may be alive is watched for up to
        ``grace_s``, then undone (0: now)."""
        from omnigraph.upkeep.recover import recover

        with self._doing("recover", writes=True):
            return recover(self._engine, grace_s=grace_s, branches=branches)

    def recoveries(self, limit: int | None = None) -> RecoveryHistory:
        """What recovery did, newest first: which writes of others were ended, how, when and by whom."""
        from omnigraph.upkeep.recoveries import list_recoveries

        with self._doing("recoveries"):
            return list_recoveries(self._engine, limit)

    def repair(self, confirm: bool = False, force: bool = False) -> RepairReport:
        """Show versions above the published ones that no operation claims; with ``confirm`` put the tables back."""
        from omnigraph.upkeep.repair import repair

        with self._doing("repair", writes=confirm):
            return repair(self._engine, confirm=confirm, force=force)

    def optimize(
        self,
        types: Iterable[str] | None = None,
        target_rows: int | None = None,
        memory_mb: int | None = None,
        branches: Sequence[str] | None = None,
        *,
        settle: bool | None = None,
        actor: str | None = None,
        progress: Listener | None = None,
    ) -> OptimizeReport:
        """Fewer, larger files and indexes that cover them, beside living writers. Changes no content. ``branches``: None means main;
        tables that a branch inherits are left to the branch that commits to them. ``settle``: copy what tables read from other lines
        into their own folders, so that they can be read without these (None: on main, up to 256 MiB a table)."""
        from omnigraph.upkeep.optimize import optimize

        with self._doing("optimize", writes=True, listener=progress):
            return optimize(
                self._engine,
                types=types,
                target_rows=target_rows,
                memory_mb=memory_mb,
                branches=branches,
                settle=settle,
                actor=self._who(actor),
            )

    def ensure_indices(
        self, branch: str = MAIN, *, actor: str | None = None, progress: Listener | None = None
    ) -> OptimizeReport:
        """Build the indexes that the schema asks for and that are missing; the rest is named with its reason."""
        from omnigraph.upkeep.optimize import ensure_indices

        with self._doing("ensure_indices", writes=True, listener=progress):
            return ensure_indices(self._engine, branch=branch, actor=self._who(actor))

    def compact_manifest(self, fragments_max: int | None = None) -> ManifestReport:
        """Merge the archive of the history where it lies in more than ``fragments_max`` files. Adds no commit."""
        from omnigraph.upkeep.compact import compact_manifest

        with self._doing("compact_manifest", writes=True):
            return compact_manifest(self._engine, fragments_max=fragments_max)

    def plan_compaction(
        self, types: Iterable[str] | None = None, target_rows: int | None = None, memory_mb: int | None = None
    ) -> CompactionPlan:
        """What is worth rewriting, as tasks that can be pickled and run anywhere. Writes nothing."""
        from omnigraph.upkeep.distribute import plan_compaction

        with self._doing("plan_compaction"):
            return plan_compaction(self._engine, types=types, target_rows=target_rows, memory_mb=memory_mb)

    def commit_compaction(self, results: Iterable[CompactionResult], *, actor: str | None = None) -> OptimizeReport:
        """Commit what the tasks of a plan have written; what a writer has overtaken is left out and named."""
        from omnigraph.upkeep.distribute import commit_compaction

        with self._doing("commit_compaction", writes=True):
            return commit_compaction(self._engine, results, actor=self._who(actor))

    @property
    def schema(self) -> GraphSchema:
        """The accepted schema: show, plan, apply."""
        return GraphSchema(self._engine, self._actor)

    @property
    def branches(self) -> Branches:
        """Branches: create, list, delete."""
        from omnigraph.branch.branches import Branches

        return Branches(self._engine, self._actor)

    @property
    def checkpoints(self) -> Checkpoints:
        """Commits pinned by name against cleanup: create, list, delete."""
        from omnigraph.upkeep.checkpoints import Checkpoints

        return Checkpoints(self._engine, self._actor)

    @property
    def notes(self) -> Notes:
        """Small objects that a program which feeds the graph keeps beside it: put, get, list, delete."""
        from omnigraph.upkeep.notes import Notes

        return Notes(self._engine)

    def plan_cleanup(
        self,
        keep: int | None = None,
        older_than: str | int | timedelta | None = None,
        min_age: str | int | timedelta = "1h",
        branches: Sequence[str] | None = None,
        *,
        progress: Listener | None = None,
    ) -> CleanupPlan:
        """What a cleanup would delete, and what keeps the rest. Writes nothing."""
        from omnigraph.upkeep.cleanup import plan_cleanup

        with self._doing("plan_cleanup", listener=progress):
            engine = self._engine
            return plan_cleanup(engine, keep=keep, older_than=older_than, min_age=min_age, branches=branches)

    def cleanup(
        self,
        plan: CleanupPlan | None = None,
        *,
        keep: int | None = None,
        older_than: str | int | timedelta | None = None,
        min_age: str | int | timedelta = "1h",
        branches: Sequence[str] | None = None,
        confirm: bool = False,
        actor: str | None = None,
        progress: Listener | None = None,
    ) -> CleanupReport | CleanupPlan:
        """Delete what a plan says. Without a plan, the plan is made here; it is run only with ``confirm``, else returned."""
        from omnigraph.upkeep.cleanup import run_cleanup

        with self._doing("cleanup", writes=plan is not None or confirm, listener=progress):
            if plan is None:
                plan = self.plan_cleanup(keep, older_than, min_age, branches)
                if not confirm:
                    return plan
            elif keep is not None or older_than is not None:
                raise InvalidInput("a plan says itself what to keep", hint="pass either a plan, or keep and older_than")
            return run_cleanup(self._engine, plan, actor=self._who(actor))
