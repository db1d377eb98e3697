"""Take a commit back, or go back to an older state: one new commit each, by the machine that merges branches.

A revert does to the branch what leads from the commit to the state before it; a restore what leads from the branch to the old
state. Where no write has touched a table since, its old version is put back as it is; elsewhere rows are compared, and rows that
were changed since are named as conflicts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from omnigraph.branch.merging import Merging, Task
from omnigraph.branch.schema_side import SchemaSide
from omnigraph.branch.triple import Terms
from omnigraph.commit.deadline import Deadline
from omnigraph.commit.decide import swap_stands
from omnigraph.commit.engine import Engine
from omnigraph.commit.protocol.planning import plan_of
from omnigraph.commit.protocol.run import run
from omnigraph.commit.request import Prepared, Request
from omnigraph.commit.txn import Txn, read_current
from omnigraph.core import documents
from omnigraph.core.errors import InvalidInput, NotFound, Reclaimed, Refused
from omnigraph.core.ids import new_ulid
from omnigraph.core.meter import Meter
from omnigraph.manifest.ancestry import Place
from omnigraph.manifest.rows import CommitRow
from omnigraph.manifest.swap import Held
from omnigraph.options import CommitOptions
from omnigraph.read.at import not_served, opened
from omnigraph.read.lifts import NO_FILLS, Fills, read_fills
from omnigraph.read.place_names import At, place_text, read_commit_name
from omnigraph.read.places import branch_with, commit_named, find_place
from omnigraph.read.states import View
from omnigraph.wire.receipt import Receipt
from omnigraph.wire.undo import UndoPlan
from omnigraph.write.load_options import commit_request
from omnigraph.write.receipt import planned_tables, receipt_of
from omnigraph.write.rules.left_out import LeftOut

_MAINTENANCE = "the commit is upkeep: it changed no row, so there is nothing to take back"


@dataclass(frozen=True, kw_only=True)
class RevertOptions(CommitOptions):
    """``commit_id``: the id of a commit, or the beginning of one."""

    commit_id: str
    whole_group: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        read_commit_name(self.commit_id)


@dataclass(frozen=True, kw_only=True)
class RestoreOptions(CommitOptions):
    at: At

    def __post_init__(self) -> None:
        super().__post_init__()
        place_text(self.at)


@dataclass(frozen=True)
class Undone:
    """What an undo came to on one state. ``commits``: those that are taken back, in order; None of a restore."""

    prepared: Prepared
    commits: tuple[str, ...] | None
    warnings: tuple[str, ...] = ()


Prepare = Callable[[Txn], Undone]


def revert(engine: Engine, options: RevertOptions) -> Receipt:
    """Take back what one commit did, as a new commit."""
    digest = documents.digest({"kind": "revert", "commit": options.commit_id, "whole_group": options.whole_group})
    return _undo(engine, "revert", options, digest, lambda txn: _revert(txn, options))


def restore(engine: Engine, options: RestoreOptions) -> Receipt:
    """Make the branch what it was, as a new commit."""
    digest = documents.digest({"kind": "restore", "at": place_text(options.at)})
    chosen = _Chosen()
    return _undo(engine, "restore", options, digest, lambda txn: _restore(txn, options, chosen))


def plan_revert(engine: Engine, options: RevertOptions) -> UndoPlan:
    """What a revert would do now. Writes nothing."""
    return _plan(engine, "revert", options, lambda txn: _revert(txn, options))


def plan_restore(engine: Engine, options: RestoreOptions) -> UndoPlan:
    """What a restore would do now. Writes nothing."""
    return _plan(engine, "restore", options, lambda txn: _restore(txn, options, _Chosen()))


@dataclass
class _Work:
    """One undo under way, and what is reported once it has ended."""

    prepare_one: Prepare
    warnings: list[str] = field(default_factory=list)

    def prepare(self, txn: Txn) -> Prepared:
        found = self.prepare_one(txn)
        self.warnings = list(found.warnings)
        return replace(found.prepared, reverts=found.commits if found.prepared.steps else None)


def _undo(engine: Engine, kind: str, options: CommitOptions, digest: str, prepare: Prepare) -> Receipt:
    engine.ref_of(options.branch)
    meter = Meter()
    held = engine.known(options.branch) or engine.latest(options.branch, meter)
    keys = sorted(held.state.tables)[: engine.limits.tables_per_commit]
    work = _Work(prepare)
    outcome = run(engine, commit_request(kind, options, keys, request=digest), work.prepare, meter)
    receipt = receipt_of(outcome, options.branch, LeftOut(), {}, meter)
    warnings = receipt.warnings if receipt.replayed else (*receipt.warnings, *work.warnings)
    return replace(receipt, kind=kind, warnings=warnings)


def _plan(engine: Engine, kind: str, options: CommitOptions, prepare: Prepare) -> UndoPlan:
    meter = Meter()
    held = read_current(engine, options.branch, meter=meter)
    txn = Txn(engine, options.branch, held, Deadline(engine.clock, options.deadline_s), meter)
    found = prepare(txn)
    tables = {}
    if found.prepared.steps:
        request: Request = commit_request(kind, options, ())
        tables = planned_tables(plan_of(txn, request, found.prepared, new_ulid(engine.clock)))
    state = txn.state
    return UndoPlan(kind, options.branch, state.head.commit_id, state.version, found.commits, tables, found.warnings)


# --- revert -------------------------------------------------------------------------------------------------------------


def _revert(txn: Txn, options: RevertOptions) -> Undone:
    row = _to_take_back(txn, options)
    if row.kind == "init":
        raise InvalidInput(
            f"commit {row.commit_id} made the graph; there is nothing before it",
            hint="name a later commit; `omnigraph commit list` shows them",
            commit_id=row.commit_id,
        )
    after = _open(txn, row, row.manifest_version, row.commit_id)
    members = _members(after, row)
    undone = _undone(row, members, options.whole_group)
    if all(one.kind == "maintenance" for one in undone):
        return Undone(Prepared(()), tuple(one.commit_id for one in undone), (_MAINTENANCE,))
    before = _open(txn, row, row.manifest_version - 1, members[0].parents[0])
    identities = frozenset(change.identity for one in undone for change in one.tables.values())
    views = [View(txn.engine, held, txn.meter) for held in (after, before)]
    only = frozenset(
        pin.type_id for held in (after, before) for pin in held.state.tables.values() if pin.identity in identities
    )
    if any(one.schema is not None for one in undone):
        raise _schema_differs(txn, before, f"commit {row.commit_id} changed the schema")
    if not only <= txn.catalog.by_id.keys():
        raise _schema_differs(txn, before, f"a type that commit {row.commit_id} wrote to was dropped since")
    place = Place(after.state.ref, after.version, after.state.head.commit_id)
    task = Task(
        f"commit {row.commit_id} cannot be reverted: rows that it changed were changed since",
        "revert the later commits first, or load the rows named as they should be",
        {place: views[0]},
        place,
        views[1],
        Terms(txn.state.identity, restores=_is_kept(txn, before)),
        only=only,
    )
    return Undone(_merged(txn, task), tuple(one.commit_id for one in undone))


def _to_take_back(txn: Txn, options: RevertOptions) -> CommitRow:
    """The commit in the history of the branch. Where it is on another one, the error says on which."""
    try:
        return commit_named(txn.engine, txn.held, options.commit_id, txn.meter)
    except NotFound as error:
        found = branch_with(txn.engine, options.commit_id, txn.meter)
        if found is None or found[0] == txn.state.head.name:
            raise
        branch, commit_id = found
        raise NotFound(
            f"commit {commit_id} is of branch {branch}: it is not in the history of {txn.state.head.name}",
            hint=f"revert it on {branch}, with branch={branch!r} (--branch {branch})",
            commit_id=commit_id,
            branch=branch,
        ) from error


def _members(after: Held, row: CommitRow) -> tuple[CommitRow, ...]:
    """The commits of the swap that made the commit visible, in order."""
    found = [one for one in after.state.tail if isinstance(one, CommitRow) and one.version == after.version]
    return tuple(found) or (row,)


def _undone(row: CommitRow, members: Sequence[CommitRow], whole_group: bool) -> tuple[CommitRow, ...]:
    """The members of a swap that are taken back with one of them."""
    if whole_group:
        return tuple(members)
    mine = {change.identity for change in row.tables.values()}
    shared = [
        one
        for one in members
        if one.commit_id != row.commit_id and mine & {change.identity for change in one.tables.values()}
    ]
    if shared:
        ids = [one.commit_id for one in members]
        raise Refused(
            f"commit {row.commit_id} shares its swap and its tables with {', '.join(one.commit_id for one in shared)}: "
            "they have one state before and one after",
            hint="take all of them back with whole_group=True (--whole-group)",
            reason="group-member",
            members=ids,
        )
    return (row,)


# --- restore ------------------------------------------------------------------------------------------------------------


@dataclass
class _Chosen:
    """The state that a restore goes back to. It is chosen once: when the plan is made again, a branch that was named may have
    moved, and a time counts from now."""

    held: Held | None = field(default=None, repr=False)

    def of(self, txn: Txn, at: At) -> Held:
        if self.held is None:
            try:
                self.held = find_place(txn.engine, at, branch=txn.branch, meter=txn.meter).held
            except Reclaimed as error:
                oldest = error.facts.get("oldest")
                which = "" if oldest is None else f", the oldest of which is {oldest}"
                raise _gone(error, f"restore to a checkpoint or to a commit that is left{which}") from error
        return self.held


def _restore(txn: Txn, options: RestoreOptions, chosen: _Chosen) -> Undone:
    held = chosen.of(txn, options.at)
    if held.state.schema.id != txn.state.schema.id:
        raise _schema_differs(txn, held, "the old state has another schema")
    head = View(txn.engine, txn.held, txn.meter)
    place = Place(txn.state.ref, txn.state.version, txn.state.head.commit_id)
    task = Task(
        f"the branch cannot be restored to {options.at}",
        "look at the rows named",
        {place: head},
        place,
        View(txn.engine, held, txn.meter),
        Terms(txn.state.identity, restores=_is_kept(txn, held)),
    )
    return Undone(_merged(txn, task), None)


# --- both ---------------------------------------------------------------------------------------------------------------


def _merged(txn: Txn, task: Task) -> Prepared:
    prepared = Merging(txn, task, SchemaSide(txn.catalog, fills=_fills(txn, task))).prepare()
    if prepared.sources:
        # What the plan takes from is made durable first: a power cut must not take it back under the new commit.
        source = prepared.sources[0]
        own = source.identity == txn.state.identity
        newest = txn.held if own else txn.engine.latest_of(source.identity, txn.meter) or task.source.held
        txn.engine.durable.root(source.manifest_version, newest)
    return prepared


def _fills(txn: Txn, task: Task) -> Fills:
    """What properties that were added since were filled with: rows that come back have it too."""
    old = task.source.state.schema.id
    if old == txn.state.schema.id:
        return NO_FILLS
    return read_fills(txn.engine, (txn.held,), frozenset({old}), txn.meter)


def _open(txn: Txn, row: CommitRow, version: int, head: str) -> Held:
    """The state at a version of the line that has the commit, if it still is there."""
    found = opened(txn.engine, Place(row.ref, version, head), txn.meter)
    if isinstance(found, Held) and head in (found.state.head.commit_id, *found.state.commits_of_version()):
        return found
    error = not_served(txn.engine, Place(row.ref, version, row.commit_id), txn.held, found, txn.meter)
    if isinstance(error, Reclaimed):
        raise _gone(error, "correct the rows with a load or a mutation: what they were before is not known any more")
    raise error


def _gone(error: Reclaimed, hint: str) -> Reclaimed:
    """A state that an undo needs was cleaned up. To take another snapshot, as a reader does, takes nothing back."""
    return Reclaimed(error.message, hint=hint, **error.facts)


def _schema_differs(txn: Txn, old: Held, what: str) -> Refused:
    """An undo changes rows. Where it would have to change the schema, it says which one to apply."""
    return Refused(
        f"{what}: rows alone cannot go back",
        hint="apply the schema in the fact `schema` with `omnigraph schema apply --schema FILE`, then bring the rows back with a load",
        reason="schema-differs",
        schema=old.state.schema.source,
        expected=txn.state.schema.id,
        actual=old.state.schema.id,
    )


def _is_kept(txn: Txn, held: Held) -> bool:
    """Whether no cleanup has reached this state, so that its versions can be put back."""
    state = held.state
    repeated = txn.state.head.boundary if state.identity == txn.state.identity else 0
    return swap_stands(state.version, txn.engine.boundary.value(state.identity, repeated=repeated, meter=txn.meter))
