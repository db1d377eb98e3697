"""Probes: one number each, in at most two requests, for whoever asks every few seconds. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable

from omnigraph.commit.engine import MAIN, Engine
from omnigraph.core.errors import InvalidInput
from omnigraph.core.meter import Meter
from omnigraph.table.strict import fragment_count


def probe(engine: Engine, name: str, *, branch: str = MAIN, meter: Meter | None = None) -> int:
    """``manifest_fragments``, ``version_backlog`` or ``pending_intents``."""
    found = PROBES.get(name)
    if found is None:
        raise InvalidInput(
            f"no probe {str(name)[:80]!r}", hint=f"there are {', '.join(sorted(PROBES))}", name=str(name)[:80]
        )
    return found(engine, branch, meter or Meter())


def _manifest_fragments(engine: Engine, branch: str, meter: Meter) -> int:
    """Archive fragments of ``__manifest``: what a look-up of an old commit may have to read."""
    handle = engine.tables.open_latest(engine.manifest.ref(engine.ref_of(branch)), meter, "manifest")
    return max(0, fragment_count(handle) - 1)


def _version_backlog(engine: Engine, branch: str, meter: Meter) -> int:
    """Versions of ``__manifest`` that no cleanup has doomed yet."""
    held = engine.known(branch) or engine.latest(branch, meter)
    newest = engine.tables.head_version(held.handle, meter)
    return max(0, newest - engine.boundary.value(held.state.identity, meter=meter))


def _pending_intents(engine: Engine, branch: str, meter: Meter) -> int:
    """Writes that have not ended, those under way included."""
    del branch  # intents of all branches lie in one place
    return len(engine.intents.names(meter))


PROBES: dict[str, Callable[[Engine, str, Meter], int]] = {
    "manifest_fragments": _manifest_fragments,
    "version_backlog": _version_backlog,
    "pending_intents": _pending_intents,
}
