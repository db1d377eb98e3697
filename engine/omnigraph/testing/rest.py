"""What has to be so after any interrupted write was recovered, whatever interrupted it: the second half of the oracle."""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph.commit import exclusive
from omnigraph.commit.engine import MAIN
from omnigraph.commit.recovery.drift import heal
from omnigraph.commit.recovery.recover import recover_all
from omnigraph.core.errors import OmnigraphError
from omnigraph.core.meter import Meter
from omnigraph.testing.content import branches_of, faults_of, leftovers_of
from omnigraph.testing.operations import append, keys_of, opened
from omnigraph.upkeep.recover import recover
from omnigraph.upkeep.verify import GARBAGE, verify

LIVENESS_S = 20.0  # no writer is left in the way of the next one for longer than a few graces


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
        for branch in branches_of(engine):
            append(engine, keys, ["next"], branch=branch)
        found.extend(faults_of(engine))
        found.extend(problem.message for problem in verify(engine).problems if problem.severity != GARBAGE)
    return [*found, *findings_about_liveness(root, keys)]


def findings_about_liveness(root: str, keys: Sequence[str]) -> list[str]:
    """An ordinary handle, an exclusive one and a recovery all come through."""
    found: list[str] = []
    for name, call in (("an ordinary write", _write), ("an exclusive write", _write_alone), ("a recovery", _recover)):
        try:
            call(root, keys)
        except OmnigraphError as error:
            found.append(f"{name} does not come through: {error}")
    with opened(root) as engine:
        owner = engine.latest(MAIN).state.head.owner
        if owner is not None:
            found.append(f"the graph is still held exclusively by {owner}")
    return found


def _write(root: str, keys: Sequence[str]) -> None:
    with opened(root) as engine:
        append(engine, keys, ["ordinary"], deadline_s=LIVENESS_S)


def _write_alone(root: str, keys: Sequence[str]) -> None:
    with opened(root) as engine:
        exclusive.claim(engine, Meter())
        append(engine, keys, ["alone"], deadline_s=LIVENESS_S)
        exclusive.release(engine, Meter())


def _recover(root: str, keys: Sequence[str]) -> None:
    with opened(root) as engine:
        recover(engine, grace_s=0)
