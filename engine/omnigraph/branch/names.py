"""Take a name for a new branch, and give it up again: steps of the log of a name, each decided on what the name says now.

An answer that does not come is resolved by writing another entry at the same number: only one of the two can stand.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from omnigraph.commit.deadline import Deadline
from omnigraph.commit.engine import Engine
from omnigraph.commit.plan import BranchName
from omnigraph.core.errors import (
    AlreadyExists,
    Conflict,
    NotFound,
    OmnigraphError,
    OutcomeUnknown,
    StoreRefused,
    StoreUnavailable,
)
from omnigraph.core.meter import Meter
from omnigraph.manifest.refs import BranchSource, NameEntry, Written, reads_as_free, stands

STORED_GRACES: Final = 2  # clocks of two machines differ
NO_ANSWER: Final = (
    StoreUnavailable,
    StoreRefused,
)  # a refusal may be the answer to a second try whose first has landed


def claim(engine: Engine, wanted: NameEntry, highest: NameEntry | None, deadline: Deadline, meter: Meter) -> NameEntry:
    """Write ``making``, and before it ``free`` where the name stands for a branch that is gone. Return the entry written.
    Raise ``AlreadyExists`` where the name is taken."""
    while True:
        if highest is None or highest.state == "free":
            done = engine.names.write(highest, wanted, meter)
            if isinstance(done, Written):
                return done.entry
            highest = done.highest
        else:
            _check_free(engine, wanted.name, highest, meter)
            engine.names.write(highest, _freed(engine, highest, wanted.actor), meter)
            highest = engine.names.highest(wanted.name, meter)
        deadline.check(f"taking the name {wanted.name!r}")


def bind(engine: Engine, making: NameEntry, meter: Meter) -> NameEntry:
    """Write ``bound`` after our own ``making``, and look whether it is what the name says. Raise where it is not: then the
    branch does not exist, and its line is garbage at a path that nothing uses again."""
    wanted = replace(making, state="bound", source=None, created_at_us=engine.clock.now_us())
    try:
        done = engine.names.write(making, wanted, meter)
    except NO_ANSWER as error:
        return _after_no_answer(engine, making, error, meter)
    if isinstance(done, Written):
        try:
            highest = engine.names.highest(making.name, meter)
        except NO_ANSWER as error:
            raise _unknown(making, error) from error  # it is bound by now
    else:
        highest = done.highest
    if isinstance(done, Written) and stands(done.entry, highest):
        return done.entry
    raise _lost(making, highest)


def give_up(engine: Engine, making: NameEntry, meter: Meter) -> None:
    """Free the name of a branch that will not be made. Where the store does not answer, the next to want the name takes it over
    once it has been ``making`` for too long."""
    try:
        engine.names.write(making, _freed(engine, making, making.actor), meter)
    except NO_ANSWER:
        return


def release(engine: Engine, bound: NameEntry, actor: str | None, meter: Meter) -> None:
    """Free the name of a branch whose line is closed. Readers take it for free from the closing on, so a store that does not
    answer is no failure: the next creator of the name, or a cleanup, frees it."""
    highest: NameEntry | None = bound
    try:
        while highest is not None and highest.identity == bound.identity and highest.state != "free":
            done = engine.names.write(highest, _freed(engine, highest, actor), meter)
            if isinstance(done, Written):
                return
            highest = done.highest
    except NO_ANSWER:
        return


def making_entry(engine: Engine, name: str, identity: str, source: BranchSource, actor: str | None) -> NameEntry:
    return NameEntry(0, "making", name, identity, source, actor, engine.clock.now_us())


def _freed(engine: Engine, entry: NameEntry, actor: str | None) -> NameEntry:
    return replace(entry, state="free", source=None, actor=actor, created_at_us=engine.clock.now_us())


def _check_free(engine: Engine, name: str, highest: NameEntry, meter: Meter) -> None:
    """Raise ``AlreadyExists`` unless the entry stands for a branch that was deleted, or for one whose making has not moved for
    as long as we grant it: on our own clock, or for a multiple of it by the time that the store gives its files, so that a command
    which is called again need not have waited itself. A creator that was only slow finds its name gone, and no branch."""
    if highest.state == "bound":
        held = None
        try:
            held = engine.latest(BranchName(highest.name, highest.identity), meter)
        except NotFound:
            pass  # a name without a line is damage, which `verify` names; the name stays taken
        if reads_as_free(
            highest, line_closed=held is not None and held.state.head.closed is not None, beyond_grace=False
        ):
            return
        twin = "" if highest.name == name else "; names that differ in case only are one name"
        raise AlreadyExists(
            f"there is a branch {highest.name!r} already{twin}",
            hint="use another name, or delete that branch first",
            branch=highest.name,
            identity=highest.identity,
        )
    grace_s = engine.timing.grace_s
    now = engine.clock.monotonic()
    left = grace_s - (now - engine.names_seen.setdefault(highest.key, now))
    by_anybody = STORED_GRACES * grace_s - engine.names.age_s(highest, engine.clock.now_us(), meter)
    if reads_as_free(highest, line_closed=False, beyond_grace=min(left, by_anybody) <= 0):
        return
    raise AlreadyExists(
        f"a branch {highest.name!r} is being made by another process",
        hint=f"call again after {math.ceil(by_anybody)} s: if that process is gone, the name is taken over",
        branch=highest.name,
        identity=highest.identity,
        grace_left_s=round(left, 3),
    )


def _after_no_answer(engine: Engine, making: NameEntry, error: OmnigraphError, meter: Meter) -> NameEntry:
    """``bound`` may stand, or may come to stand. ``free`` at its number tells: one of the two is refused."""
    try:
        done = engine.names.write(making, _freed(engine, making, making.actor), meter)
    except NO_ANSWER:
        raise _unknown(making, error) from error
    if isinstance(done, Written):
        raise error
    highest = done.highest
    if highest is not None and (highest.state, highest.identity) == ("bound", making.identity):
        return highest
    raise _lost(making, highest)


def _unknown(making: NameEntry, error: OmnigraphError) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"whether branch {making.name!r} was made is not known: {error.message}",
        hint="`omnigraph branch list` shows it if it was; a branch that is listed is complete",
        branch=making.name,
        identity=making.identity,
    )


def _lost(making: NameEntry, highest: NameEntry | None) -> OmnigraphError:
    if highest is not None and highest.state != "free" and highest.identity != making.identity:
        return AlreadyExists(
            f"another process has taken the name {making.name!r} while the branch was being made",
            hint="use another name, or delete that branch first",
            branch=highest.name,
            identity=highest.identity,
        )
    return Conflict(
        f"the name {making.name!r} was freed while the branch was being made, which took too long",
        hint="create the branch again",
        branch=making.name,
    )
