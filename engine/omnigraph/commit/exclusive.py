"""Exclusive use of a graph: an owner in the head row, set and cleared by one swap that adds no commit.

The one place that raises the epoch. Recovery, compensation and upkeep neither raise nor check it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from omnigraph.commit.decide import swap_stands
from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.publish import ATTEMPTS_MAX
from omnigraph.core.errors import Conflict
from omnigraph.core.ids import new_ulid, new_uuid
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import Head
from omnigraph.manifest.state import Change
from omnigraph.manifest.swap import Held, SwapLost, SwapUnknown


def claim(engine: Engine, meter: Meter) -> Held:
    """Become the owner, whoever was it before: asking for exclusive use is the explicit way to take over."""
    token = f"{engine.owner.token}#{new_ulid(engine.clock)}"
    held = _swap_head(engine, lambda head: _claimed(head, token), meter)
    engine.exclusive_token = token
    return held


def release(engine: Engine, meter: Meter) -> None:
    """Clear the owner if it is still this handle. Whoever took over meanwhile stays."""
    token, engine.exclusive_token = engine.exclusive_token, None
    if token is not None and engine.latest(MAIN, meter).state.head.owner == token:
        _swap_head(engine, lambda head: _cleared(head, token), meter)


def _claimed(head: Head, token: str) -> Head:
    return head if head.owner == token else replace(head, epoch=head.epoch + 1, owner=token)


def _cleared(head: Head, token: str) -> Head:
    return replace(head, owner=None) if head.owner == token else head


def _swap_head(engine: Engine, edit: Callable[[Head], Head], meter: Meter) -> Held:
    for attempt in range(1, ATTEMPTS_MAX * 4 + 1):
        held = engine.latest(MAIN, meter)
        wanted = edit(held.state.head)
        if wanted == held.state.head:
            return held
        change = Change(head=wanted)
        try:
            after = engine.manifest.swap(held, engine.manifest.write(held, change, meter), uuid=new_uuid(), meter=meter)
        except (SwapLost, SwapUnknown):
            engine.clock.sleep(engine.manners.jitter_s(attempt))
            continue
        doomed = engine.boundary.value(after.state.identity, meter=meter)
        if swap_stands(after.version, doomed):
            return engine.remember(MAIN, after)
        engine.drop(MAIN)
    raise Conflict("the owner of the graph could not be changed: other writers were faster every time")
