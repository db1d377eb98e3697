"""The one swap loop: every change of ``__manifest`` goes through here, for every caller.

A caller proposes a change as a function of the newest state. The loop loads that state, writes the change, swaps, waits and
tries again where another writer was faster, and looks at the boundary after each swap of its own: a version at or below it
may be one that no reader will ever see. An unknown outcome is resolved by reading the newest state, where the proposal
recognises what it has done; it is never resolved by repeating the swap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, Generic, Protocol, TypeVar

from omnigraph.commit.deadline import Deadline
from omnigraph.commit.decide import swap_stands
from omnigraph.commit.engine import Branch, Engine
from omnigraph.core import failpoints
from omnigraph.core.errors import OmnigraphError, StoreUnavailable
from omnigraph.core.ids import new_uuid
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import Head
from omnigraph.manifest.state import Change
from omnigraph.manifest.swap import Held, Merged, SwapLost, SwapUnknown, Written
from omnigraph.store.durability import SyncFailed
from omnigraph.table.errors import is_full

T = TypeVar("T")

# --- how long to go on --------------------------------------------------------------------------------------------------

BACKOFF_ATTEMPTS_MAX = 6  # the pause grows no further: losing to others says nothing about how busy the next moment is


class Ends(Enum):
    """Whose time a policy without seconds of its own ends with."""

    WITH_THE_CALLER = "with the caller"  # the deadline that the caller was given
    WITH_ITS_ATTEMPTS = "with its attempts"  # no time: what follows the last attempt is dearer than one more


@dataclass(frozen=True)
class SwapPolicy:
    """How often and how long one kind of caller tries. ``lasts``: seconds from the first attempt, or whose time it is.
    ``resolute``: go on after every failure of the store, because what was begun has to be ended.

    Pauses are the same for all, unless the caller knows its rivals: full jitter of a commit, growing up to
    ``BACKOFF_ATTEMPTS_MAX``."""

    attempts: int
    lasts: float | Ends
    resolute: bool = False


# The first and five more: a writer that loses more often queues instead. Table commits have been sent by then, so that the
# alternative to an attempt is an abort, which restores every table before its own swap: no time cuts it short.
PUBLISH: Final = SwapPolicy(6, Ends.WITH_ITS_ATTEMPTS, resolute=True)

# An abort and the closing of a branch have nothing to fall back on, and each look at an abort may also wait for a writer or
# restore a table. The deadline ends them; the number only keeps a defect from looping for ever.
TO_THE_DEADLINE: Final = SwapPolicy(2000, Ends.WITH_THE_CALLER)

# Healing and withdrawn offers: an attempt that finds another recovery at work leaves it the rest, and the next recovery
# repeats what was not reached. Twice the attempts of a publish, because no queue stands behind them.
RECOVERY: Final = SwapPolicy(12, 60.0)

# A turn of upkeep has rewritten whole tables: giving up throws that away, while a swap lost to writers of other tables costs
# one look. It may last as long as a turn may wait to begin.
FAST_FORWARD: Final = SwapPolicy(60, 120.0)

# A change of the head row or of the archive: exclusive use, a cleanup's mark and boundary, compaction of ``__manifest``. It holds no
# queue position. Beside four writers that are as fast it loses thirty swaps in a row once in 800 times, and can then be repeated.
ONE_ROW: Final = SwapPolicy(30, 60.0)


# --- what a caller proposes ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Swap:
    """The change to make on a state. ``base``: the state it is made for, where that is newer than the one given.
    ``written``: its files, if they exist already; they are used where they fit."""

    change: Change | Merged
    properties: Mapping[str, str]
    written: Written | None = None
    base: Held | None = None


@dataclass(frozen=True)
class Answer(Generic[T]):
    """No swap is needed, or none is allowed: the state says so."""

    value: T


@dataclass(frozen=True)
class LookAgain:
    """Something else was done that the next look will show. ``pause``: wait as after a lost swap."""

    pause: bool = False


Propose = Callable[[Held], Swap | Answer[T] | LookAgain]


@dataclass(frozen=True)
class Spots:
    """The failpoints around the swap."""

    before: str = "advance.before_swap"
    after: str = "advance.after_swap"


class Rivals(Protocol):
    """The other writers of a line, as one that swaps meets them."""

    def lost_swap(self) -> None:
        """A swap was lost to one of them; nothing of it landed."""

    def pause_s(self, attempt: int) -> float:
        """How long to wait before this attempt, from 2."""
        ...

    def newest(self, branch: Branch) -> Held:
        """The newest state, by listing."""
        ...


@dataclass(frozen=True)
class Terms:
    """Which policy, and what else happens on the way.

    ``deadline``: the caller's, where the policy ends with it and nowhere else. ``swapped`` is called between a swap and the look
    at the boundary, for what may go on beside that look. ``ghost_ends``: a version that no reader will see ends the loop.
    ``rivals``: how the caller meets the writers it has lost a swap to; without it the loop only waits and looks again."""

    policy: SwapPolicy
    deadline: Deadline | None = None
    spots: Spots = Spots()
    swapped: Callable[[Held], None] | None = None
    ghost_ends: bool = False
    rivals: Rivals | None = None

    def __post_init__(self) -> None:
        if (self.deadline is not None) != (self.policy.lasts is Ends.WITH_THE_CALLER):
            raise AssertionError("a caller passes its deadline exactly where the policy ends with it")

    def begin(self, engine: Engine) -> Deadline | None:
        """The time that the loop has from now."""
        lasts = self.policy.lasts
        return self.deadline if isinstance(lasts, Ends) else Deadline(engine.clock, lasts)


# --- how it came out ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Swapped:
    """The change is in the line, by a swap of ours."""

    held: Held


@dataclass(frozen=True)
class Answered(Generic[T]):
    held: Held
    value: T


@dataclass(frozen=True)
class Ghost:
    """Our swap made a version that no reader will see; ``held`` is the newest state. Only where the caller asked for it."""

    held: Held


@dataclass(frozen=True)
class GaveUp:
    """Out of attempts or time. ``may_stand``: the answer to a swap of ours was lost, so the change may be in the line."""

    held: Held | None
    error: OmnigraphError | None
    may_stand: bool


Outcome = Swapped | Answered[T] | Ghost | GaveUp


# --- the loop -----------------------------------------------------------------------------------------------------------


def advance(
    engine: Engine, branch: Branch, propose: Propose[T], terms: Terms, *, meter: Meter, held: Held | None = None
) -> Outcome[T]:
    """Swap what ``propose`` says on the newest state, until it stands or there is an answer. ``held``: the state to try first;
    the newest is loaded otherwise. It stays with the line that the name stands for now."""
    branch = engine.line_of(branch, meter)
    policy, deadline = terms.policy, terms.begin(engine)
    failure: OmnigraphError | None = None
    may_stand = False
    attempt = 0
    pause = False
    while True:
        if pause:
            pause_s = engine.timing.jitter_s if terms.rivals is None else terms.rivals.pause_s
            engine.clock.sleep(pause_s(min(attempt + 1, BACKOFF_ATTEMPTS_MAX)))
        late = deadline is not None and deadline.passed
        if attempt >= policy.attempts or (late and attempt > 0):  # one is always made
            return GaveUp(held, failure, may_stand)
        attempt += 1
        pause = True
        try:
            if held is None or attempt > 1:
                held = engine.latest(branch, meter) if terms.rivals is None else terms.rivals.newest(branch)
            proposal = propose(held)
            if isinstance(proposal, Answer):
                return Answered(held, proposal.value)
            if isinstance(proposal, LookAgain):
                pause = proposal.pause
                continue
            after = _swap(engine, proposal.base or held, proposal, terms.spots, attempt, meter)
            may_stand = True
            engine.durable.after_swap(after, proposal.change)
            if terms.swapped is not None:
                terms.swapped(after)
            if _stands(engine, after, meter):
                return Swapped(engine.remember(branch, after))
            engine.drop(branch)
            if terms.ghost_ends:
                return Ghost(engine.latest(branch, meter))
        except SwapLost:
            if terms.rivals is not None:
                terms.rivals.lost_swap()
            continue
        except SyncFailed as error:
            # Linux reports a failed sync once: the same file is not synced again. The caller ends what it has begun.
            return GaveUp(held, error, may_stand)
        except SwapUnknown as error:
            failure, may_stand = StoreUnavailable(str(error)), True
            if is_full(error):
                return GaveUp(held, failure, may_stand)
        except StoreUnavailable as error:
            failure = error
            if is_full(error):  # room does not come back within our pauses
                return GaveUp(held, failure, may_stand)
        except OmnigraphError as error:
            # What was begun is ended, and a swap whose outcome is open is never left as if it had failed.
            if not (policy.resolute or may_stand):
                raise
            failure = error


def _swap(engine: Engine, base: Held, proposal: Swap, spots: Spots, attempt: int, meter: Meter) -> Held:
    change = engine.durable.stamp(base.state, proposal.change)
    if isinstance(change, Merged):
        engine.durable.before_swap(base, change)
        failpoints.hit(spots.before, attempt=attempt)
        after = engine.manifest.swap_archives(base, change, uuid=new_uuid(), meter=meter)
    else:
        written = proposal.written
        if written is None or written.base != base.version or written.change != change:
            written = engine.manifest.write(base, change, meter)
        engine.durable.before_swap(base, change)
        failpoints.hit(spots.before, attempt=attempt)
        after = engine.manifest.swap(base, written, uuid=new_uuid(), properties=proposal.properties, meter=meter)
    failpoints.hit(spots.after, attempt=attempt)
    return after


def _stands(engine: Engine, after: Held, meter: Meter) -> bool:
    return swap_stands(after.version, engine.boundary.value(after.state.identity, repeated=0, meter=meter))


# --- the head row -------------------------------------------------------------------------------------------------------


def edit_head(
    engine: Engine, branch: Branch, edit: Callable[[Head], Head], terms: Terms, *, meter: Meter
) -> Answered[None] | Swapped | GaveUp:
    """Change the head row by a swap that adds no commit. ``edit`` is applied to the newest head each time, and returns it as
    it is where nothing is left to change."""

    def propose(held: Held) -> Swap | Answer[None]:
        wanted = edit(held.state.head)
        return Answer(None) if wanted == held.state.head else Swap(Change(head=wanted), {})

    ended = advance(engine, branch, propose, terms, meter=meter)
    if isinstance(ended, Ghost):
        raise AssertionError("a change of the head is made again on the newest state")
    return ended
