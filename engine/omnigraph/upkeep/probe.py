"""Probes: one number each, in at most two requests, for callers that ask every few seconds. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable

from omnigraph.commit.engine import MAIN, Engine
from omnigraph.core.errors import InvalidInput
from omnigraph.core.meter import Meter
from omnigraph.manifest.fragments import archives
from omnigraph.store import layout
from omnigraph.table.strict import fragment_count


def probe(engine: Engine, name: str, *, branch: str = MAIN, meter: Meter | None = None) -> int:
    """``manifest_fragments``, ``version_backlog``, ``pending_intents`` or ``oldest_intent_s``."""
    found = PROBES.get(name)
    if found is None:
        raise InvalidInput(
            f"no probe {str(name)[:80]!r}", hint=f"there are {', '.join(sorted(PROBES))}", name=str(name)[:80]
        )
    return found(engine, branch, meter or Meter())


def _manifest_fragments(engine: Engine, branch: str, meter: Meter) -> int:
    """Archive fragments of ``__manifest``: what a look-up of an old commit may have to read."""
    handle = engine.tables.open_latest(engine.manifest.ref(engine.ref_of(branch)), meter, "manifest")
    return archives(fragment_count(handle))


def _version_backlog(engine: Engine, branch: str, meter: Meter) -> int:
    """Versions of ``__manifest`` that no cleanup has doomed yet. ``Corruption`` where a mark of the boundary is missing: no
    cleanup would run then, and a caller that asks in order to start one needs to know."""
    held = engine.known(branch) or engine.latest(branch, meter)
    newest = engine.tables.head_version(held.handle, meter)
    return max(0, newest - engine.boundary.value(held.state.identity, repeated=held.state.head.boundary, meter=meter))


def _pending_intents(engine: Engine, branch: str, meter: Meter) -> int:
    """Writes that have not ended, those under way included."""
    del branch  # intents of all branches lie in one place
    return len(engine.pending(meter))


def _oldest_intent_s(engine: Engine, branch: str, meter: Meter) -> int:
    """Whole seconds since the intent was written that has not changed for longest, rounded up; 0 where none is pending.

    By the store's clock against ours. It helps to decide when to read more; no decision about data rests on it."""
    del branch
    written = [
        entry.modified_us
        for entry in engine.store.list(layout.INTENTS, meter=meter)
        if layout.record_ulid(entry.key) is not None
    ]
    return max(1, -((min(written) - engine.clock.now_us()) // 1_000_000)) if written else 0


PROBES: dict[str, Callable[[Engine, str, Meter], int]] = {
    "manifest_fragments": _manifest_fragments,
    "version_backlog": _version_backlog,
    "pending_intents": _pending_intents,
    "oldest_intent_s": _oldest_intent_s,
}
