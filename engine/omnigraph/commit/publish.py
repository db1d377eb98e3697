"""Make a plan visible: checks, one swap, and the look at the boundary that every swap is followed by.

Used by the owner and, unchanged, by whoever rolls a plan forward. Losing the swap is not a refusal; a refusal is always
one of ``decide.Check``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from omnigraph.commit.decide import Check, PublishCheck, check_publish, swap_stands
from omnigraph.commit.engine import Engine
from omnigraph.commit.plan import PublishPlan
from omnigraph.core import failpoints
from omnigraph.core.errors import OmnigraphError
from omnigraph.core.ids import new_uuid
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import AbortRow, CommitRow, HistoryRow, Pin, TableChange
from omnigraph.manifest.state import Change
from omnigraph.manifest.swap import Held, SwapLost, SwapUnknown, Written

ATTEMPTS_MAX = 6  # the first and five retries; without a queue it was given up once in 31,000 commits


@dataclass(frozen=True)
class Published:
    """The plan's commit is in the lineage. ``fresh``: by a swap of ours, whose boundary is still to be looked at."""

    held: Held
    row: CommitRow
    fresh: bool


@dataclass(frozen=True)
class NotPublished:
    """Refused with a reason, or (``check`` is None) out of attempts. Either way the plan has not ended yet."""

    held: Held | None
    check: PublishCheck | None
    error: OmnigraphError | None = None


def publish_change(plan: PublishPlan, pins: Mapping[str, Pin], counts: Mapping[str, TableChange]) -> Change:
    """What the swap of this plan does to the state. Pure: the same for the owner and for a stranger."""
    row = CommitRow(
        commit_id=plan.commit.id,
        plan=plan.commit.id,
        parents=plan.commit.parents,
        actor=plan.commit.actor,
        created_at_us=plan.commit.created_at_us,
        ref=next((pin.ref for pin in pins.values()), None),
        manifest_version=0,
        kind=plan.kind,
        tables=dict(sorted(counts.items())),
        idempotency_key=plan.commit.idempotency_key,
    )
    registered = {pin.key: pin for pin in plan.delta.register}
    return Change(
        pins={**registered, **pins}, tombstones=plan.delta.tombstone, schema=plan.delta.schema, history=(row,)
    )


def on_state(change: Change, held: Held, plan: PublishPlan) -> Change:
    """The parent of a commit is the head of the state that its swap is based on."""
    parents = (held.state.head.commit_id, *plan.commit.parents[1:])
    rows = (replace(row, parents=parents) if isinstance(row, CommitRow) else row for row in change.history)
    return replace(change, history=tuple(rows))


def publish(
    engine: Engine,
    plan: PublishPlan,
    change: Change,
    *,
    held: Held | None,
    written: Written | None = None,
    revalidate: Callable[[Held], bool] | None = None,
    meter: Meter,
) -> Published | NotPublished:
    """Attempts 1 to 6. The first goes straight to the swap on the state that the caller holds."""
    failure: OmnigraphError | None = None
    for attempt in range(1, ATTEMPTS_MAX + 1):
        try:
            if attempt > 1:
                engine.clock.sleep(engine.manners.jitter_s(attempt))
                held = None
            if held is None:
                held = engine.latest(plan.branch.name, meter)
            own, keyed = lineage(engine, held, plan, meter)
            verdict = check_publish(held.state, plan, own=own, keyed=keyed)
            if verdict.check is Check.PUBLISHED and verdict.row is not None:
                return Published(held, verdict.row, fresh=False)
            if verdict.check is Check.READ_MOVED and revalidate is not None and revalidate(held):
                verdict = PublishCheck(Check.GO)
            if verdict.check is not Check.GO:
                return NotPublished(held, verdict)
            wanted = on_state(change, held, plan)
            if written is None or written.base != held.version or written.change != wanted:
                written = engine.manifest.write(held, wanted, meter)
            failpoints.hit("publish.before_swap", attempt=attempt)
            after = engine.manifest.swap(
                held,
                written,
                uuid=new_uuid(),
                properties={"omnigraph:op": plan.op, "omnigraph:commit": plan.commit.id},
                meter=meter,
            )
            failpoints.hit("publish.after_swap", attempt=attempt)
        except SwapLost:
            continue
        except SwapUnknown as error:
            failure = OmnigraphError(str(error))
            continue
        except OmnigraphError as error:
            # Reading or writing the manifest failed. The tables are committed, so the plan goes on to its end.
            failure = error
            continue
        row = after.state.in_tail(plan.commit.id)
        if not isinstance(row, CommitRow):
            raise AssertionError("the swap of a plan writes its commit")
        return Published(after, row, fresh=True)
    return NotPublished(held, None, failure)


def lineage(engine: Engine, held: Held, plan: PublishPlan, meter: Meter) -> tuple[HistoryRow | None, CommitRow | None]:
    """The plan's own record, and the commit that carries its idempotency key, looked up back to the plan's base."""
    since = plan.base.manifest_version
    if held.state.identity != plan.branch.identity:
        return None, None
    own = engine.history.find(held, plan.commit.id, since=since, meter=meter)
    keyed = None
    if plan.commit.idempotency_key is not None:
        keyed = engine.history.find_key(held, plan.commit.idempotency_key, since=since, meter=meter)
    return own, keyed


def confirm(
    engine: Engine,
    branch: str,
    after: Held,
    commit_id: str,
    meter: Meter,
    *,
    ended_by: type[CommitRow] | type[AbortRow] = CommitRow,
) -> Held | None:
    """The look that follows every swap. None: the version that we made is one that nobody will ever see.

    ``ended_by``: the record that the swap wrote. The other one in its place means that somebody else has ended the plan.

    A version at or below the boundary proves nothing: it may have been published and reclaimed while we slept, or be a
    ghost on a number that cleanup had freed. Only the newest manifest, found by listing, can tell.
    """
    doomed = engine.boundary.value(after.state.identity, repeated=0, meter=meter)
    if swap_stands(after.version, doomed):
        engine.remember(branch, after)
        return after
    engine.drop(branch)
    newest = engine.latest(branch, meter)
    if newest.state.identity != after.state.identity:
        return None
    if not isinstance(engine.history.find(newest, commit_id, meter=meter), ended_by):
        return None
    return newest
