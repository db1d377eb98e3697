"""Recovery on request, and by the reconciler: end what can be ended, watch the rest for a while, heal drift that no operation claims.

The decisions are ``commit``'s. Owned here is the watching: an intent that did not change while it was watched for the grace
period counts as left behind, by this process's own clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from omnigraph.commit import exclusive
from omnigraph.commit.engine import Engine
from omnigraph.commit.intent import Intent
from omnigraph.commit.lines import ManifestLine, owned_keys, read_lines, unresolved, while_there
from omnigraph.commit.plan import BranchName
from omnigraph.commit.recovery.drift import Drift, TableDrift, VersionAbove, heal
from omnigraph.commit.recovery.evidence import owner_gone
from omnigraph.commit.recovery.recover import Recovered, clear_refusals, recover_or_leave
from omnigraph.core.errors import InvalidInput
from omnigraph.core.meter import Meter
from omnigraph.wire.recovery import DriftingTable, RecoveredWrite, RecoveryReport, UnpublishedVersion

GRACE_S_MAX = 3600.0  # to watch longer, call again
_POLLS = 20


def recover(
    engine: Engine,
    *,
    grace_s: float | None = None,
    branches: Sequence[str] | None = None,
    meter: Meter | None = None,
) -> RecoveryReport:
    """End every pending intent. ``grace_s``: how long an intent whose owner may be alive is watched for a change before it
    is undone (None: what writers grant each other; 0: at once). ``branches``: those whose intents are ended and whose drift
    is healed; None for all that are there and are not deleted meanwhile. An intent of a branch that is not there is left and
    reported."""
    meter = meter or Meter()
    grace_s = check_grace(engine, grace_s)
    recovered: list[Recovered] = []
    watched: dict[str, str] = {}
    left: list[str] = []
    stopped: list[Recovered] = []
    pending = engine.pending(meter)
    clear_refusals(engine, pending, meter)
    read = [(op, engine.intents.read(op, meter)) for op, _stamp in pending]
    intents = {op: intent for op, intent in read if intent is not None}
    lines = read_lines(engine, meter)
    scope = [lines.named(branch) for branch in lines.scope(branches)]
    named = {line.identity for line in scope}
    away = set() if branches is None else {line.identity for line in lines.lines} - named
    strange = unresolved(engine, intents.values(), lines, meter)
    left += strange
    for op, intent in intents.items():
        if op in strange or intent.branch.identity in away:
            continue
        done = recover_or_leave(engine, intent, gone=owner_gone(engine, intent), meter=meter)
        if done.ended:
            recovered.append(done)
        elif done.no_room:
            stopped.append(done)
        else:
            watched[op] = intent.stamp
    ended, alive, without_room = _watch(engine, watched, grace_s, meter)
    stopped += without_room
    left += [one.op for one in stopped]
    recovered += ended
    left += alive
    left += [one.op for one in recovered if one.file_left]
    drift = {
        (line.identity, key): one
        for line in scope
        for key, one in _healed(engine, line, meter, named=branches is not None).items()
    }
    return RecoveryReport(
        tuple(map(_recovered, recovered)),
        tuple(sorted(left)),
        tuple(_drifting(one) for one in drift.values() if one.state is Drift.HEALED),
        tuple(_drifting(one) for one in drift.values() if one.state is not Drift.HEALED),
        (
            *(trouble.message for trouble in (*strange.values(), *lines.troubles)),
            *(one.reason or "" for one in stopped),
        ),
        exclusive.clear_dead(engine, meter),
    )


def _healed(engine: Engine, line: ManifestLine, meter: Meter, *, named: bool) -> dict[str, TableDrift]:
    """Drift of the tables that this branch owns now; nothing where it was deleted since the lines were read."""

    def act(branch: BranchName) -> dict[str, TableDrift]:
        return heal(engine, branch, owned_keys(engine.latest(branch, meter).state), meter=meter)

    return while_there(engine, line.branch, act, meter, named=named) or {}


def _watch(
    engine: Engine, watched: dict[str, str], grace_s: float, meter: Meter
) -> tuple[list[Recovered], list[str], list[Recovered]]:
    """Watch these intents, by the stamps that they had, until each has changed, has ended or is beyond the grace. Return what
    was ended here, the operations that are left to their owners, and what a full disk has stopped."""
    recovered: list[Recovered] = []
    left: list[str] = []
    stopped: list[Recovered] = []
    started = engine.clock.monotonic()
    while watched:
        over = engine.clock.monotonic() - started >= grace_s
        for op, stamp in list(watched.items()):
            now = engine.intents.read(op, meter)
            if now is None:
                del watched[op]
            elif now.stamp != stamp or _is_ours(engine, now):
                # A sign of life: it is under way, and its owner will end it.
                del watched[op]
                left.append(op)
            else:
                done = recover_or_leave(engine, now, gone=over or owner_gone(engine, now), meter=meter)
                if done.ended:
                    recovered.append(done)
                    del watched[op]
                elif done.no_room:
                    stopped.append(done)
                    del watched[op]
                elif over:
                    del watched[op]
                    left.append(op)
        if watched:
            engine.clock.sleep(max(0.01, grace_s / _POLLS))
    return recovered, left, stopped


def _recovered(one: Recovered) -> RecoveredWrite:
    tables = {key: dict(counts) for key, counts in sorted(one.tables.items())}
    return RecoveredWrite(one.op, one.decision.value, one.commit_id, one.branch, one.actor, tables)


def _drifting(one: TableDrift) -> DriftingTable:
    return DriftingTable(one.key, one.pin, one.head, one.state.value, unpublished(one.versions), one.published)


def unpublished(versions: Iterable[VersionAbove]) -> tuple[UnpublishedVersion, ...]:
    """Versions above a pin, as reports say them."""
    return tuple(UnpublishedVersion(v.version, v.kind, v.op, v.pending, v.restore_of) for v in versions)


def check_grace(engine: Engine, grace_s: object) -> float:
    if grace_s is None:
        return engine.timing.grace_s
    if not isinstance(grace_s, int | float) or isinstance(grace_s, bool) or not 0 <= grace_s <= GRACE_S_MAX:
        raise InvalidInput(
            f"grace_s is a number of seconds from 0 to {GRACE_S_MAX:.0f}, not {grace_s!r}", hint="0 recovers at once"
        )
    return float(grace_s)


def _is_ours(engine: Engine, intent: Intent) -> bool:
    """An operation of this very process, under way in another thread."""
    return intent.owner == engine.owner and not owner_gone(engine, intent)
