"""Exclusive use of a graph: an owner in the head row, set and cleared by one swap that adds no commit.

The one place that raises the epoch. Recovery, compensation and upkeep neither raise nor check it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace

from omnigraph.commit.advance import ONE_ROW, GaveUp, Terms, edit_head
from omnigraph.commit.engine import MAIN, Engine, known_dead
from omnigraph.commit.plan import Owner
from omnigraph.commit.queue import local_operations
from omnigraph.core.errors import Conflict, OmnigraphError, OutcomeUnknown
from omnigraph.core.ids import new_ulid
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import Head


def claim(engine: Engine, meter: Meter) -> None:
    """Become the owner, also where another handle is: asking for exclusive use is the explicit way to take over.

    A claim whose outcome cannot be told is taken back; where that fails as well, the head names an owner that ``status``
    shows and that ``recover`` clears."""
    token = f"{engine.owner.token}#{new_ulid(engine.clock)}"
    local_operations.begin(token)
    try:
        _edit(engine, lambda head: _claimed(head, token), "the owner of the graph could not be set", meter)
    except BaseException:
        local_operations.end(token)
        with contextlib.suppress(OmnigraphError):
            _edit(engine, lambda head: _cleared(head, token), "the claim could not be taken back", meter)
        raise
    engine.exclusive_token = token


def release(engine: Engine, meter: Meter) -> None:
    """Clear the owner if it is still this handle. One that took over meanwhile stays."""
    token, engine.exclusive_token = engine.exclusive_token, None
    if token is not None:
        local_operations.end(token)
    if token is not None and engine.latest(MAIN, meter).state.head.owner == token:
        _edit(engine, lambda head: _cleared(head, token), "the owner of the graph could not be cleared", meter)


def clear_dead(engine: Engine, meter: Meter) -> str | None:
    """Clear an owner whose process is known to be gone, or that no handle of this process holds. Returns its token."""
    token = engine.latest(MAIN, meter).state.head.owner
    if token is None or token == engine.exclusive_token or not owner_is_dead(engine, token):
        return None
    _edit(engine, lambda head: _cleared(head, token), "the dead owner of the graph could not be cleared", meter)
    return token


def owner_is_dead(engine: Engine, token: str) -> bool:
    """True only where this host can tell that the owner's process is gone, or it is this one and holds the claim no more."""
    text, _, _claim = token.partition("#")
    host, boot_id, pid, started = (*text.split("/"), "", "", "", "")[:4]
    if not (pid.isdigit() and started.isdigit()):
        return False
    owner = Owner(host, boot_id, int(pid), int(started))
    if owner == engine.owner:
        return not local_operations.has(token)
    return known_dead(owner)


def _claimed(head: Head, token: str) -> Head:
    return head if head.owner == token else replace(head, epoch=head.epoch + 1, owner=token)


def _cleared(head: Head, token: str) -> Head:
    return replace(head, owner=None) if head.owner == token else head


def _edit(engine: Engine, edit: Callable[[Head], Head], what: str, meter: Meter) -> None:
    ended = edit_head(engine, MAIN, edit, Terms(ONE_ROW), meter=meter)
    if not isinstance(ended, GaveUp):
        return
    if ended.may_stand:
        raise OutcomeUnknown(
            f"{what}, and whether it was is not known: {ended.error}",
            hint="look with `omnigraph status`, then open it again",
        )
    if ended.error is not None:
        raise ended.error
    raise Conflict(f"{what}: other writers were faster every time", hint="open the graph again")
