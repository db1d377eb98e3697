"""Every decision of the protocol, as pure functions on values. No I/O, no clock, no Lance.

Four questions are answered here: may this plan be published on this state; what does a version of the manifest prove beside
a cleanup; what is to be done with a table whose plan is being given up; what does durable state say about an intent. Tests
explore them exhaustively.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from omnigraph.commit.plan import Owner, PublishPlan
from omnigraph.manifest.rows import AbortRow, CommitRow, Head, HistoryRow
from omnigraph.manifest.state import State

# --- may this plan be published on this state? --------------------------------------------------------------------------


class Check(Enum):
    GO = "go"
    PUBLISHED = "published"  # its commit is in the lineage: success
    ABORTED = "aborted"  # its abort is: whoever prepared it may prepare again
    KEY_TAKEN = "key-taken"  # its idempotency key belongs to another commit
    HEAD_MOVED = "head-moved"  # the caller's precondition does not hold
    FENCED = "fenced"  # somebody uses the graph exclusively
    MARK_MOVED = "mark-moved"  # a cleanup began: files staged before it may be gone
    SCHEMA_MOVED = "schema-moved"
    BRANCH_GONE = "branch-gone"
    READ_MOVED = "read-moved"  # only tables that were read, not written, have moved
    PIN_MOVED = "pin-moved"  # a written table has moved: terminal for this plan


@dataclass(frozen=True)
class Moved:
    """A pin that is not where the plan left it."""

    table_key: str
    expected: int
    actual: int


@dataclass(frozen=True)
class PublishCheck:
    check: Check
    moved: tuple[Moved, ...] = ()
    row: CommitRow | None = None


def check_publish(state: State, plan: PublishPlan, *, own: HistoryRow | None, keyed: CommitRow | None) -> PublishCheck:
    """The checks of one publish attempt, in the order in which they win.

    ``own`` is the history row under the plan's commit id and ``keyed`` the commit that carries its idempotency key, both
    looked up back to the plan's base. The caller has checked the storage version by reading the state at all.
    """
    if state.identity != plan.branch.identity:
        return PublishCheck(Check.BRANCH_GONE)
    if isinstance(own, CommitRow):
        return PublishCheck(Check.PUBLISHED, row=own)
    if isinstance(own, AbortRow):
        return PublishCheck(Check.ABORTED)
    if keyed is not None and keyed.commit_id != plan.commit.id:
        return PublishCheck(Check.KEY_TAKEN, row=keyed)
    if plan.commit.expect_head is not None and state.head.commit_id != plan.commit.expect_head:
        return PublishCheck(Check.HEAD_MOVED)
    if is_fenced(state.head, plan.owner, plan.base.epoch):
        return PublishCheck(Check.FENCED)
    if state.head.mark != plan.base.mark:
        return PublishCheck(Check.MARK_MOVED)
    if state.schema.hash != plan.base.schema_hash:
        return PublishCheck(Check.SCHEMA_MOVED)
    written = moved_writes(state, plan)
    if written:
        return PublishCheck(Check.PIN_MOVED, written)
    read = moved_reads(state, plan)
    if read:
        return PublishCheck(Check.READ_MOVED, read)
    return PublishCheck(Check.GO)


def is_fenced(head: Head, owner: Owner, epoch: int) -> bool:
    """Whether somebody else uses the graph exclusively. A plan made before the same process took it over is fenced too:
    it belongs to another of its handles."""
    return head.owner is not None and (head.owner.partition("#")[0] != owner.token or head.epoch != epoch)


def moved_writes(state: State, plan: PublishPlan) -> tuple[Moved, ...]:
    """Tables of the write set whose pin (identity, ref, version; absent counts) is not as planned."""
    found = []
    for table in plan.tables:
        pin = state.tables.get(table.key)
        if table.creates:
            if pin is not None:
                found.append(Moved(table.key, 0, pin.version))
        elif pin is None or pin.triple != (table.identity, table.ref, table.pin):
            found.append(Moved(table.key, table.pin, state.actual_version(table.key)))
    return tuple(found)


def moved_reads(state: State, plan: PublishPlan) -> tuple[Moved, ...]:
    found = []
    for read in plan.reads:
        pin = state.tables.get(read.key)
        if pin is None or pin.triple != (read.identity, read.ref, read.pin):
            found.append(Moved(read.key, read.pin, state.actual_version(read.key)))
    return tuple(found)


# --- what does a version of the manifest prove, beside a cleanup that has doomed all up to a boundary? -------------------


def swap_stands(version: int, boundary: int) -> bool:
    """Whether the version that a swap has just made is certainly in the line. At or below the boundary it may be a ghost on
    a number that had been freed, or have been published and reclaimed while its author slept: only the newest can tell."""
    return version > boundary


def look_holds(version: int, boundary: int) -> bool:
    """Whether "the next version is not there" means that this one is the newest. Below the boundary the next may have been
    there, and have been reclaimed."""
    return version >= boundary


# --- what to do with one table of a plan that is being given up? --------------------------------------------------------


class Undo(Enum):
    NOTHING = "nothing"
    RESTORE = "restore"  # put the pin's content back on top
    PUBLISH_RESTORE = "publish-restore"  # the version above the pin is a Restore of it: publish that
    YIELD = "yield"  # the version above the pin belongs to another operation: it goes first


@dataclass(frozen=True)
class Above:
    """The first version above the pin, as far as it matters. ``op`` is the operation that its properties name."""

    uuid: str | None
    op: str | None
    restore_of: int | None = None


def undo_table(
    *, pin: int, head: int, above: Above | None, own_uuids: frozenset[str], unknown: bool, other_pending: bool
) -> Undo:
    """``unknown``: a commit of the plan has no known outcome. ``other_pending``: the operation of ``above`` has an intent."""
    if head <= pin:
        # Nothing stands above the pin, but a commit of ours may still arrive: a Restore makes most kinds land off.
        return Undo.RESTORE if unknown else Undo.NOTHING
    if above is None:
        return Undo.RESTORE
    if above.restore_of == pin:
        return Undo.PUBLISH_RESTORE
    if above.uuid is not None and above.uuid in own_uuids:
        return Undo.RESTORE
    if other_pending:
        return Undo.YIELD
    return Undo.RESTORE


# --- what does durable state say about an intent? -----------------------------------------------------------------------


class Decision(Enum):
    WAIT = "wait"  # its owner may be alive
    DELETE_TICKET = "delete-ticket"
    DISCARD = "discard"  # its branch is gone
    FINISH = "finish"  # it has ended; only its leftovers are to be cleared
    UNDO_MAINTENANCE = "undo-maintenance"
    ROLL_FORWARD = "roll-forward"
    ROLL_BACK = "roll-back"
    STOP = "stop"  # durable state contradicts itself


@dataclass(frozen=True)
class TableWitness:
    """One table of an intent. ``pin`` and ``head`` are None where the branch has no such table on this line."""

    key: str
    pin: int | None
    head: int | None
    exact: bool  # every planned transaction stands at its place
    landed: bool  # at least one planned transaction stands somewhere above the pin


@dataclass(frozen=True)
class Witness:
    """Durable state as read for one intent: the manifest first, heads after."""

    ticket: bool
    maintenance: bool
    branch_exists: bool
    own: HistoryRow | None
    owner_gone: bool  # beyond grace, or its process is known to be dead
    tables: Mapping[str, TableWitness] = field(default_factory=dict)


def decide(witness: Witness, *, forward_only: bool = False) -> Decision:
    """What recovery does with one intent. ``forward_only``: a caller that must not wait and must not undo the living."""
    if not witness.branch_exists:
        return Decision.DISCARD
    if witness.ticket:
        return Decision.DELETE_TICKET if witness.owner_gone else Decision.WAIT
    if witness.own is not None:
        # Its owner, if it lives, is about to delete it, or keeps its turn by it.
        return Decision.FINISH if witness.owner_gone else Decision.WAIT
    tables = witness.tables.values()
    if any(t.pin is not None and t.head is not None and t.head < t.pin for t in tables):
        return Decision.STOP
    if witness.maintenance:
        return Decision.UNDO_MAINTENANCE if witness.owner_gone else Decision.WAIT
    if witness.tables and all(t.exact for t in tables):
        return Decision.ROLL_FORWARD
    if witness.owner_gone and not forward_only:
        return Decision.ROLL_BACK
    return Decision.WAIT
