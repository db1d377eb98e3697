"""Every decision of the protocol, as pure functions on values. No I/O, no clock, no Lance.

Five questions are answered here: how has a plan ended; may this plan be published on this state; what does a version of the
manifest prove beside a cleanup; what is to be done with a table whose plan is being given up; what does durable state say
about an intent. Tests explore them exhaustively.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from omnigraph.commit.effects import Chain
from omnigraph.commit.plan import MAINTENANCE, Owner, PublishPlan
from omnigraph.manifest.rows import AbortRow, CommitRow, Head, HistoryRow, MergedRow
from omnigraph.manifest.state import State

# --- how has a plan ended? ----------------------------------------------------------------------------------------------


class End(Enum):
    """What the lineage says about a plan."""

    OPEN = "open"
    PUBLISHED = "published"  # every member's commit is there, in one version
    ABORTED = "aborted"
    CARRIED = "carried"  # an offered request of this plan has ended by another plan: this one can only be given up
    MIXED = "mixed"  # no swap of this protocol writes that


@dataclass(frozen=True)
class Lineage:
    """The history rows that bear on one plan, looked up back to its base: under its id and its members' ids, and the commits
    that carry its members' idempotency keys."""

    rows: Mapping[str, HistoryRow] = field(default_factory=dict)  # by plan id or member id
    keyed: Mapping[str, CommitRow] = field(default_factory=dict)  # by member id: the commit that has its key

    def commits(self, plan: PublishPlan) -> tuple[CommitRow, ...]:
        """The members' commits, in order, as far as they are there."""
        found = (_commit(self.rows.get(one)) for one in plan.members)
        return tuple(row for row in found if row is not None)


def _commit(row: HistoryRow | None) -> CommitRow | None:
    if isinstance(row, MergedRow):
        return row.row
    return row if isinstance(row, CommitRow) else None


def how_ended(plan: PublishPlan, lineage: Lineage) -> End:
    """A plan ends once, in one swap, by records of one kind: this tells which, or that none is there.

    A request that it owns may have landed by the plan of another writer, which had read it as an offer: that is no end of this plan,
    unless nothing else is in it."""
    rows = lineage.rows
    aborted = [one for one in plan.ends if isinstance(rows.get(one), AbortRow)]
    landed = [row for one in plan.owned if (row := _commit(rows.get(one))) is not None]
    by_this = any(row.plan == plan.id for row in landed)
    if aborted and by_this:
        return End.MIXED
    if aborted:
        return End.ABORTED
    if landed:
        found = lineage.commits(plan)
        if len(found) == len(plan.requests) and len({row.version for row in found}) == 1:
            return End.PUBLISHED
        return End.MIXED if by_this else End.CARRIED
    if any(one in rows for one in plan.members):
        return End.CARRIED
    return End.OPEN


# --- may this plan be published on this state? --------------------------------------------------------------------------


class Check(Enum):
    GO = "go"
    PUBLISHED = "published"  # its commits are in the lineage: success
    ABORTED = "aborted"  # its abort is: the writer that prepared it may prepare again
    CARRIED_ENDED = "carried-ended"  # an offered request of it has ended elsewhere
    CLOSED = "closed"  # the branch was deleted
    KEY_TAKEN = "key-taken"  # an idempotency key of it belongs to another commit
    HEAD_MOVED = "head-moved"  # the caller's precondition does not hold
    FENCED = "fenced"  # another handle uses the graph exclusively
    MARK_MOVED = "mark-moved"  # a cleanup began: files staged before it may be gone
    SCHEMA_MOVED = "schema-moved"
    BRANCH_GONE = "branch-gone"
    SOURCE_GONE = "source-gone"  # a version that it copies from or adopts is being deleted
    READ_MOVED = "read-moved"  # only tables that were read, not written, have moved
    PIN_MOVED = "pin-moved"  # a written table has moved: terminal for this plan
    NOT_OWNED = "not-owned"  # a written line belongs to another branch


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
    rows: tuple[CommitRow, ...] = ()  # PUBLISHED: the members' commits. KEY_TAKEN: the commit that has the key
    member: str | None = None  # KEY_TAKEN, CARRIED_ENDED: the request that it is about


def check_publish(state: State, plan: PublishPlan, lineage: Lineage, *, sources_gone: bool = False) -> PublishCheck:
    """The checks of one publish attempt, in the order in which they win.

    ``sources_gone``: the boundary of a source line has reached a version that the plan takes from. The caller has checked
    the storage version by reading the state at all. What has ended is reported before anything that could refuse it.
    """
    if state.identity != plan.branch.identity:
        return PublishCheck(Check.BRANCH_GONE)
    end = how_ended(plan, lineage)
    if end is End.PUBLISHED:
        return PublishCheck(Check.PUBLISHED, rows=lineage.commits(plan))
    if end is End.ABORTED:
        return PublishCheck(Check.ABORTED)
    if end is End.MIXED:
        raise ValueError(f"the requests of plan {plan.id} have ended in different ways")
    if state.head.closed is not None:
        return PublishCheck(Check.CLOSED)
    if end is End.CARRIED:
        return PublishCheck(Check.CARRIED_ENDED, member=next(one for one in plan.members if one in lineage.rows))
    for request in plan.requests:
        taken = lineage.keyed.get(request.id)
        if taken is not None and taken.commit_id != request.id:
            return PublishCheck(Check.KEY_TAKEN, rows=(taken,), member=request.id)
    return _check_base(state, plan, sources_gone=sources_gone)


def _check_base(state: State, plan: PublishPlan, *, sources_gone: bool) -> PublishCheck:
    expected = plan.requests[0].expect_head if plan.requests else None
    if expected is not None and state.head.commit_id != expected:
        return PublishCheck(Check.HEAD_MOVED)
    if plan.kind != MAINTENANCE and is_fenced(state.head, plan.owner, plan.base.epoch):
        return PublishCheck(Check.FENCED)
    if sources_gone:
        return PublishCheck(Check.SOURCE_GONE)
    if state.head.mark != plan.base.mark:
        return PublishCheck(Check.MARK_MOVED)
    if state.schema.id != plan.base.schema_id:
        return PublishCheck(Check.SCHEMA_MOVED)
    written = moved_writes(state, plan)
    if written:
        return PublishCheck(Check.PIN_MOVED, written)
    foreign = not_owned(state, plan)
    if foreign:
        return PublishCheck(Check.NOT_OWNED, foreign)
    read = moved_reads(state, plan)
    if read:
        return PublishCheck(Check.READ_MOVED, read)
    return PublishCheck(Check.GO)


def is_fenced(head: Head, owner: Owner, epoch: int) -> bool:
    """Whether another handle uses the graph exclusively. A plan made before the same process took it over is fenced too:
    it belongs to another of its handles."""
    return head.owner is not None and (head.owner.partition("#")[0] != owner.token or head.epoch != epoch)


def moved_writes(state: State, plan: PublishPlan) -> tuple[Moved, ...]:
    """Tables of the write set whose pin (identity, ref, version; absent counts) is not as planned."""
    found = []
    for chain in plan.chains:
        pin = state.tables.get(chain.key)
        if chain.base is None:
            if pin is not None:
                found.append(Moved(chain.key, 0, pin.version))
        elif (
            pin is None or (pin.ref, pin.version) != (chain.base.ref, chain.base.pin) or _replaced(pin.identity, chain)
        ):
            found.append(Moved(chain.key, chain.base.pin, state.actual_version(chain.key)))
    return tuple(found)


def _replaced(identity: str, chain: Chain) -> bool:
    """An adopted version keeps the identity of its table, whose pin it replaces."""
    return identity != chain.identity


def forks_published(state: State, plan: PublishPlan) -> bool:
    """Whether a plan that only makes forks has ended by its swap: it has no commit, so its targets are the only record. A line
    that a plan has made is never left for another one, but versions are added to it."""
    if plan.requests or not plan.landing or any(chain.first.kind != "fork" for chain in plan.landing):
        return False
    pins = [(state.tables.get(chain.key), chain) for chain in plan.landing]
    return all(pin is not None and (pin.identity, pin.ref) == (chain.identity, chain.ref) for pin, chain in pins)


def not_owned(state: State, plan: PublishPlan) -> tuple[Moved, ...]:
    """Tables whose line another branch owns, and that the plan commits to all the same."""
    found = []
    for chain in plan.landing:
        pin = state.tables.get(chain.key)
        if not chain.begins_line and pin is not None and pin.owner != state.identity:
            found.append(Moved(chain.key, chain.pin, pin.version))
    return tuple(found)


def moved_reads(state: State, plan: PublishPlan) -> tuple[Moved, ...]:
    found = []
    for read in plan.reads:
        pin = state.tables.get(read.key)
        if read.pin == 0:
            if pin is not None:
                found.append(Moved(read.key, 0, pin.version))
        elif pin is None or pin.triple != (read.identity, read.ref, read.pin):
            found.append(Moved(read.key, read.pin, state.actual_version(read.key)))
    return tuple(found)


def same_request(row: CommitRow, request: str | None, content: str | None) -> bool:
    """Whether a request with the key of this commit may be the one that made it. What either side does not know is not
    compared."""
    pairs = ((row.request, request), (row.content, content))
    return all(one is None or other is None or one == other for one, other in pairs)


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
    LEAVE = "leave"  # of a later release, or of a branch that cannot be resolved: it is reported, and cleanup refuses
    DELETE_TICKET = "delete-ticket"
    WITHDRAW = "withdraw"  # an offer without owner
    DISCARD = "discard"  # its branch was deleted
    FINISH = "finish"  # it has ended; only its leftovers are to be cleared
    UNDO_MAINTENANCE = "undo-maintenance"
    ROLL_FORWARD = "roll-forward"
    ROLL_BACK = "roll-back"
    STOP = "stop"  # durable state contradicts itself


class Line(Enum):
    """What is known about the branch of an intent."""

    OPEN = "open"
    CLOSED = "closed"  # its head says that it was deleted, or its boundary dooms all of it
    UNRESOLVED = "unresolved"  # nothing readable says what became of it


@dataclass(frozen=True)
class TableEvidence:
    """One table of an intent. ``pin`` and ``head`` are None where the branch has no such table on the plan's line."""

    key: str
    pin: int | None
    head: int | None
    exact: bool  # every planned transaction stands at its place
    landed: bool  # at least one planned transaction stands somewhere above the pin


@dataclass(frozen=True)
class Evidence:
    """Durable state as read for one intent: the manifest first, heads after."""

    line: Line
    known: bool = True  # its format, state and kind are known to this release
    ticket: bool = False
    offered: bool = False
    maintenance: bool = False
    published: bool = False  # the forks of a plan without a commit are the pins
    end: End = End.OPEN
    owner_gone: bool = False  # beyond grace, or its process is known to be dead
    rebooted: bool = False  # armed, not applied, under an earlier boot of this host: its files may be torn
    tables: Mapping[str, TableEvidence] = field(default_factory=dict)


def decide(evidence: Evidence, *, forward_only: bool = False) -> Decision:
    """What recovery does with one intent. ``forward_only``: a caller that must not wait and must not undo the living."""
    if not evidence.known or evidence.line is Line.UNRESOLVED:
        return Decision.LEAVE
    gone = evidence.owner_gone
    if evidence.ticket:
        return Decision.DELETE_TICKET if gone or evidence.line is Line.CLOSED else Decision.WAIT
    if evidence.end is End.MIXED:
        return Decision.STOP
    if evidence.end in (End.PUBLISHED, End.ABORTED) or evidence.published:
        # Its owner, if it lives, is about to delete it, or keeps its queue position by it.
        return Decision.FINISH if gone or evidence.line is Line.CLOSED else Decision.WAIT
    if evidence.line is Line.CLOSED:
        return Decision.DISCARD
    if evidence.offered:
        return Decision.WITHDRAW if gone else Decision.WAIT
    tables = evidence.tables.values()
    if any(t.pin is not None and t.head is not None and t.head < t.pin for t in tables):
        return Decision.STOP
    if evidence.maintenance:
        return Decision.UNDO_MAINTENANCE if gone else Decision.WAIT
    # A plan that moves no table, such as a rename of a type, has nothing that could be missing.
    complete = all(t.exact for t in tables)
    if complete and evidence.end is End.OPEN and not evidence.rebooted:
        return Decision.ROLL_FORWARD
    if gone and not forward_only:
        return Decision.ROLL_BACK
    return Decision.WAIT
