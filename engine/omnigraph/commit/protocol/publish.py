"""Make a plan visible: its change to the state, and the proposal that checks every condition before each swap.

The same for the owner and for another process that rolls the plan forward, so a commit is published once, by one of them,
and the other finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from omnigraph.commit.advance import PUBLISH, Answer, Answered, Ghost, Rivals, Spots, Swap, Swapped, Terms, advance
from omnigraph.commit.ancestry_lines import GraphLines, merged_rows, place_of
from omnigraph.commit.decide import (
    Check,
    End,
    Lineage,
    PublishCheck,
    check_publish,
    how_ended,
    swap_stands,
)
from omnigraph.commit.effects import Chain
from omnigraph.commit.engine import Engine
from omnigraph.commit.plan import PublishPlan, Source
from omnigraph.commit.properties import COMMIT, OP, PLAN, Counts
from omnigraph.core.errors import Corruption, OmnigraphError, OutcomeUnknown
from omnigraph.core.meter import Meter
from omnigraph.manifest.boundary import ALL
from omnigraph.manifest.rows import CommitRow, HistoryRow, MergedRow, Pin, TableChange
from omnigraph.manifest.state import Change, State
from omnigraph.manifest.swap import Held, Written

CountsByTable = Mapping[str, Sequence[Counts] | None]  # by table key; None: nothing was compared


@dataclass(frozen=True)
class Recovered:
    """By whom and when a plan is published that its owner did not publish."""

    by: str
    at_us: int


@dataclass(frozen=True)
class Published:
    """The plan's commits are in the lineage. ``fresh``: by a swap of ours."""

    held: Held
    rows: tuple[CommitRow, ...]
    fresh: bool


@dataclass(frozen=True)
class NotPublished:
    """Refused with a reason, or (``check`` is None) out of attempts. Either way the plan has not ended yet.

    ``ghost``: our swap made a version that no reader will see. ``outrun``: nothing but swaps of others that this plan may share
    was in its way, so they need not be writers of its tables."""

    held: Held | None
    check: PublishCheck | None
    error: OmnigraphError | None = None
    ghost: bool = False
    outrun: bool = False


class Company(Rivals, Protocol):
    """The other writers of the line, for an owner that publishes."""

    @property
    def joins(self) -> bool:
        """Whether to look at the newest state, and at others, before the first swap."""
        ...

    @property
    def outrun(self) -> bool:
        """Whether a swap was lost to writers whose swaps this plan may share."""
        ...

    def swapped(self, after: Held) -> None:
        """Called between a swap and the look at the boundary."""

    def take_along(self, state: State, change: Change) -> Change:
        """The change with those of other plans that may share the swap on this state."""
        ...

    def settle(self) -> None:
        """Wait for what still runs beside the attempts."""


# --- the change (pure) --------------------------------------------------------------------------------------------------


def publish_change(
    plan: PublishPlan, pins: Mapping[str, Pin], counts: CountsByTable, recovered: Recovered | None = None
) -> Change:
    """What the swap of this plan does to the state: the same for the owner and for another process.

    ``pins``: by the key that they are published under. ``counts``: by the table key of the plan, one for each request."""
    rows = tuple(_row(plan, index, pins, counts, recovered) for index in range(len(plan.requests)))
    return Change(pins=dict(pins), tombstones=plan.delta.tombstone, schema=plan.delta.schema, history=rows)


def _row(
    plan: PublishPlan, index: int, pins: Mapping[str, Pin], counts: CountsByTable, recovered: Recovered | None
) -> CommitRow:
    request = plan.requests[index]
    return CommitRow(
        commit_id=request.id,
        plan=plan.id,
        parents=request.parents,
        actor=request.actor,
        created_at_us=request.created_at_us,
        ref=None,
        manifest_version=0,
        kind=request.kind,
        tables=_tables(plan, index, pins, counts),
        idempotency_key=request.idempotency_key,
        request=request.request,
        content=request.content,
        schema=_schema_change(plan),
        merge=plan.merge,
        reverts=plan.reverts,
        recovered_by=None if recovered is None else recovered.by,
        recovered_at_us=None if recovered is None else recovered.at_us,
    )


def _schema_change(plan: PublishPlan) -> Mapping[str, Any] | None:
    schema = plan.delta.schema
    if schema is None:
        return None
    return {"from": plan.base.schema_id, "to": schema.id, "steps": [dict(step) for step in plan.delta.steps]}


def _tables(plan: PublishPlan, index: int, pins: Mapping[str, Pin], counts: CountsByTable) -> dict[str, TableChange]:
    """The tables that one request changes. A request of several names those to which it does something itself."""
    by_identity = {pin.identity: pin for pin in pins.values()}
    found: dict[str, TableChange] = {}
    for chain in plan.chains:
        pin = by_identity.get(chain.identity)
        if pin is None:
            continue  # dropped, or not published by this swap
        listed = counts.get(chain.key)
        mine = None if listed is None or index >= len(listed) else listed[index]
        if len(plan.requests) > 1 and mine == Counts():
            continue
        facts = dict.fromkeys(("inserted", "updated", "deleted", "unchanged")) if mine is None else mine.to_json()
        found[pin.key] = TableChange(pin.identity, pin.ref, pin.version, _via(plan, chain), **facts)
    return dict(sorted(found.items()))


def _via(plan: PublishPlan, chain: Chain) -> str:
    """How a table came to its version."""
    kinds = {effect.kind for effect in chain.effects}
    if "adopt" in kinds:
        return "adopt"
    if "restore" in kinds:
        return "restore"
    if plan.kind in ("merge", "revert", "restore") and kinds & {"append", "rows", "overwrite"}:
        return "rows"
    if kinds & {"create", "columns", "project"} and not kinds & {"append", "rows", "overwrite"}:
        return "schema"
    return "write"


def on_state(change: Change, state: State, plan: PublishPlan) -> Change:
    """The change as it is made on this state: the first commit's parent is the state's head, each next one's the one before."""
    rows: list[HistoryRow] = []
    parent = state.head.commit_id
    for row in change.history:
        if isinstance(row, CommitRow):
            parents = (parent, *row.parents[1:])
            if (row.parents, row.ref) != (parents, state.ref):
                row = replace(row, parents=parents, ref=state.ref)
            parent = row.commit_id
        rows.append(row)
    return replace(change, history=tuple(rows))


def swap_properties(plan: PublishPlan, change: Change) -> dict[str, str]:
    """``change``: what the swap of the plan does; plans that it takes along come after the plan's own commits."""
    head = next((row.commit_id for row in reversed(change.history) if isinstance(row, CommitRow)), plan.head)
    return {OP: plan.op, PLAN: plan.id, COMMIT: head}


# --- publishing ---------------------------------------------------------------------------------------------------------


def publish(
    engine: Engine,
    plan: PublishPlan,
    change: Change,
    *,
    held: Held | None,
    written: Written | None = None,
    revalidate: Callable[[Held], bool] | None = None,
    rivals: Company | None = None,
    meter: Meter,
) -> Published | NotPublished:
    """Attempts 1 to 6. The first goes straight to the swap on the state that the caller holds. ``rivals``: of an owner, who may
    take along the plans of others and have its own taken along."""

    def propose(held: Held) -> Swap | Answer[Published | NotPublished]:
        lineage = read_lineage(engine, held, plan, meter)
        gone = sources_gone(engine, plan, meter)
        verdict = checked(held.state, plan, lineage, gone)
        if verdict.check is Check.PUBLISHED:
            return Answer(Published(held, verdict.rows, fresh=False))
        if verdict.check is Check.READ_MOVED and revalidate is not None and revalidate(held):
            verdict = PublishCheck(Check.GO)
        if verdict.check is not Check.GO:
            return Answer(NotPublished(held, verdict))
        proposed = on_state(change, held.state, plan)
        if plan.merge is not None:
            proposed = replace(proposed, history=(*_carried(engine, held, plan.merge, meter), *proposed.history))
        if rivals is not None:
            proposed = rivals.take_along(held.state, proposed)
        return Swap(proposed, swap_properties(plan, proposed), written)

    terms = Terms(
        PUBLISH,
        spots=Spots("publish.before_swap", "publish.after_swap"),
        swapped=None if rivals is None else rivals.swapped,
        ghost_ends=True,
        rivals=rivals,
    )
    try:
        joins = rivals is not None and rivals.joins
        ended = advance(engine, plan.branch, propose, terms, held=None if joins else held, meter=meter)
    finally:
        if rivals is not None:
            rivals.settle()
    if isinstance(ended, Swapped):
        return Published(ended.held, own_rows(ended.held.state, plan), fresh=True)
    if isinstance(ended, Answered):
        return ended.value
    if isinstance(ended, Ghost):
        _refuse_remains(engine, plan, ended.held, meter)
        return NotPublished(ended.held, None, ghost=True)
    return NotPublished(None, None, ended.error, outrun=rivals is not None and rivals.outrun)


def _carried(engine: Engine, held: Held, merge: Mapping[str, Any], meter: Meter) -> tuple[MergedRow, ...]:
    """The commits that come along with a merge that is published on this state."""
    source = engine.manifest.open_at(merge["ref"], merge["manifest_version"], meter)
    return merged_rows(GraphLines.of(engine, (source, held), meter), place_of(source), held)


def _refuse_remains(engine: Engine, plan: PublishPlan, held: Held, meter: Meter) -> None:
    """Raise ``OutcomeUnknown`` where our swap stands on what a cleanup has left of the line of a deleted branch: the version that
    closed it is gone, so the line does not tell what was published before."""
    if held.state.ref is None or held.state.head.closed is not None:
        return
    if engine.boundary.value(held.state.identity, meter=meter) == ALL:
        raise OutcomeUnknown(
            f"branch {plan.branch.name!r} was deleted while write {plan.head} was published",
            hint=f"ask with `omnigraph commit outcome {plan.head}`: a merge may have carried it to another branch",
            commit_id=plan.head,
            operation_id=plan.op,
        )


def checked(state: State, plan: PublishPlan, lineage: Lineage, sources_gone: bool) -> PublishCheck:
    """``check_publish``, whose contradiction is damage of the graph."""
    try:
        return check_publish(state, plan, lineage, sources_gone=sources_gone)
    except ValueError as error:
        raise Corruption(
            f"the history in __manifest contradicts itself: {error}",
            hint="keep the files and run `omnigraph verify --deep`",
            object="__manifest",
            operation_id=plan.op,
        ) from error


def own_rows(state: State, plan: PublishPlan) -> tuple[CommitRow, ...]:
    """The commits that the swap of this plan has just written."""
    rows = []
    for one in plan.members:
        row = state.in_tail(one)
        if not isinstance(row, CommitRow):
            raise AssertionError("the swap of a plan writes its commits")
        rows.append(row)
    return tuple(rows)


def read_lineage(engine: Engine, held: Held, plan: PublishPlan, meter: Meter) -> Lineage:
    """The rows that bear on the plan, looked up back to its base."""
    if held.state.identity != plan.branch.identity:
        return Lineage()
    since = plan.base.manifest_version
    rows: dict[str, HistoryRow] = {}
    for one in dict.fromkeys((plan.id, *plan.members)):
        row = engine.history.find(held, one, since=since, meter=meter)
        if row is not None:
            rows[one] = row
    keyed: dict[str, CommitRow] = {}
    for request in plan.requests:
        if request.idempotency_key is not None:
            taken = engine.history.find_key(held, request.idempotency_key, since=since, meter=meter)
            if taken is not None:
                keyed[request.id] = taken
    return Lineage(rows, keyed)


def sources_gone(engine: Engine, plan: PublishPlan, meter: Meter) -> bool:
    """Whether a cleanup has reached a version that the plan takes from: one listing for each source line."""
    return any(is_source_gone(engine, source, meter) for source in plan.sources)


def is_source_gone(engine: Engine, source: Source, meter: Meter) -> bool:
    """Whether a cleanup may be deleting this state. A checkpoint on it has kept it all along."""
    if swap_stands(source.manifest_version, engine.boundary.value(source.identity, repeated=0, meter=meter)):
        return False
    from omnigraph.manifest.checkpoints import proven_to_keep

    return not proven_to_keep(engine.store, source.identity, source.manifest_version, source.commit, meter=meter)


def ended(engine: Engine, held: Held, plan: PublishPlan, meter: Meter) -> tuple[End, Lineage]:
    """How the plan has ended, if it has."""
    lineage = read_lineage(engine, held, plan, meter)
    return how_ended(plan, lineage), lineage
