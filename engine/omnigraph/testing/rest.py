"""What has to be so after any interrupted write was recovered, whatever interrupted it: the second half of the oracle."""

from __future__ import annotations

from omnigraph.commit.engine import MAIN
from omnigraph.commit.recovery.drift import heal
from omnigraph.commit.recovery.recover import recover_all
from omnigraph.core.meter import Meter
from omnigraph.testing.content import faults_of, leftovers_of
from omnigraph.testing.operations import append, keys_of, opened
from omnigraph.upkeep.verify import RUBBISH, verify


def findings_at_rest(root: str, leaves: tuple[str, ...], width: int) -> list[str]:
    """Nothing is left over, a second recovery has no work, the next write meets nothing in its way, all is sound."""
    found: list[str] = []
    with opened(root) as engine:
        engine.latest(MAIN)
        left = leftovers_of(engine, leaves)
        found.extend(f"left over: {key}" for key in left)
        version = engine.latest(MAIN).version
        again = [*recover_all(engine, meter=Meter(), beyond_grace=True), *heal(engine, MAIN, meter=Meter())]
        if again or engine.latest(MAIN).version != version:
            found.append(f"a second recovery still found work: {again}")
        # The next write tells of drift, and what is checked after it was there before it.
        held = engine.latest(MAIN)
        keys = [key for key in keys_of(width) if key in held.state.tables]
        wrote = append(engine, keys, ["next"]).row
        now = engine.latest(MAIN).state
        moved = {key: now.tables[key].version - held.state.tables[key].version for key in keys}
        if wrote is None or now.version != held.version + 1 or set(moved.values()) != {1}:
            found.append(f"the next write had to work around something: {moved}")
        found.extend(faults_of(engine))
        found.extend(problem.message for problem in verify(engine).problems if problem.severity != RUBBISH)
    return found
