"""Which plans of other writers one swap takes along, and what it then writes. Pure.

A plan whose table commits have all landed says so in its intent: it is *applied*. The writer that swaps next may publish it beside its
own plan, each under its own ids. The rule is that of publishing the plans one after the other: each has to pass every check of a
publish on the state that those before it leave. An applied plan that fails one is left to its owner.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from omnigraph.commit.decide import Check, Lineage, check_publish
from omnigraph.commit.plan import REQUESTS_MAX, PublishPlan
from omnigraph.core.ids import following
from omnigraph.manifest.rows import CommitRow, MergedRow, Pin
from omnigraph.manifest.state import Change, State

KINDS = ("load", "mutate")
EFFECTS = ("append", "rows")  # on lines that the branch owns: nothing that another branch or a cleanup could take back
KNOWN_MAX = 256


@dataclass(frozen=True)
class AppliedPlan:
    """A plan of another writer whose table commits stand at their places, and what publishing it does to a state."""

    plan: PublishPlan
    change: Change


# --- may a plan share a swap with strangers? ----------------------------------------------------------------------------


def may_combine(plan: PublishPlan) -> bool:
    """Whether a plan is of the plain kind: rows added to tables that stay where they are. It may carry requests that others have
    offered: whether one of them has ended elsewhere is among the checks of its publish."""
    return (
        plan.kind in KINDS
        and bool(plan.owned)
        and all(request.kind in KINDS for request in plan.requests)
        and all(effect.kind in EFFECTS for effect in plan.effects)
        and plan.delta.is_empty
        and not plan.sources
        and plan.merge is None
        and plan.reverts is None
    )


def pins_fit(plan: PublishPlan, applied: Iterable[Pin]) -> bool:
    """Whether these are the pins that publishing the plan makes: one for each table, at the version that its effects reach."""
    pins = {pin.key: pin for pin in applied}
    chains = {chain.key: chain for chain in plan.landing}
    if pins.keys() != chains.keys():
        return False
    return all(
        (pin.identity, pin.location, pin.ref, pin.version, pin.owner)
        == (chains[key].identity, chains[key].path, chains[key].ref, chains[key].version, plan.branch.identity)
        for key, pin in pins.items()
    )


def take_along(state: State, own: PublishPlan, change: Change, others: Iterable[AppliedPlan]) -> Change:
    """Return what the swap of ``own`` does on ``state`` if it takes along all of these plans that it may, oldest first.

    ``change``: what it does alone. Its rows stay the first ones."""
    if not may_combine(own):
        return change
    room = REQUESTS_MAX - len(own.requests)
    taken = change
    left = _left_by(state, change)
    seen = {own.op}
    for other in sorted(others, key=lambda one: one.plan.op):
        if other.plan.op in seen or len(other.plan.requests) > room or not _may_follow(left, other):
            continue
        seen.add(other.plan.op)
        room -= len(other.plan.requests)
        left = _left_by(left, other.change)
        taken = replace(
            taken, pins={**taken.pins, **other.change.pins}, history=(*taken.history, *other.change.history)
        )
    return taken


def _may_follow(state: State, other: AppliedPlan) -> bool:
    """Whether a plan may be published on this state, as far as the tail of its line tells."""
    plan = other.plan
    if not may_combine(plan) or not pins_fit(plan, other.change.pins.values()):
        return False
    if not state.tail_reaches(plan.base.manifest_version) or _registered_otherwise(state, other):
        return False
    try:
        verdict = check_publish(state, plan, _lineage_in_tail(state, plan))
    except ValueError:  # its records contradict each other: opens and recoveries stop at it loudly
        return False
    return verdict.check is Check.GO


def _registered_otherwise(state: State, other: AppliedPlan) -> bool:
    """Whether publishing its pins would change what the state says of a table beside its version."""
    pins = ((state.tables.get(key), pin) for key, pin in other.change.pins.items())
    return any(old is None or old.registration != pin.registration or old.owner != pin.owner for old, pin in pins)


def _lineage_in_tail(state: State, plan: PublishPlan) -> Lineage:
    """The rows that bear on the plan, where the tail reaches its base."""
    rows = {one: row for one in (plan.id, *plan.members) if (row := state.in_tail(one)) is not None}
    taken = {}
    for row in state.tail:
        commit = row.row if isinstance(row, MergedRow) else row
        if isinstance(commit, CommitRow) and commit.idempotency_key is not None:
            taken[commit.idempotency_key] = commit
    keys = {request.id: request.idempotency_key for request in plan.requests}
    return Lineage(rows, {one: taken[key] for one, key in keys.items() if key is not None and key in taken})


def _left_by(state: State, change: Change) -> State:
    """What the next plan of the same swap is judged on: the pins, the head and the records that this one leaves. Their numbers are
    given by the swap, and no check of a publish asks for them."""
    newest = next((row.commit_id for row in reversed(change.history) if isinstance(row, CommitRow)), None)
    head = change.head or state.head
    return replace(
        state,
        head=head if newest is None else replace(head, commit_id=newest),
        tables={**state.tables, **change.pins},
        tail=(*state.tail, *change.history),
    )


# --- what this process knows --------------------------------------------------------------------------------------------


class AppliedPlans:
    """The applied plans that this process has read. A file that says *applied* does not change any more, so it is read once;
    one that says less is read again once its change stamp is another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[str, AppliedPlan | None]] = OrderedDict()

    def has(self, op: str, stamp: str) -> bool:
        with self._lock:
            known = self._known.get(op)
        return known is not None and (known[1] is not None or known[0] == stamp)

    def put(self, op: str, stamp: str, found: AppliedPlan | None) -> None:
        with self._lock:
            self._known[op] = (stamp, found)
            self._known.move_to_end(op)
            while len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)

    def in_flight(self, op: str, stamp: str, state: State) -> bool:
        """Whether the plan of a listed intent may still have to be published on this state, as far as this process knows: not one that
        was read and is no such plan, or that has ended. Of one that was not read, its id tells: a plan's commit is made directly
        after it. To be wrong costs a pause, too long or too short."""
        with self._lock:
            known = self._known.get(op)
        if known is not None and known[1] is not None:
            return _may_follow(state, known[1])
        if known is not None and known[0] == stamp:
            return False
        return state.in_tail(following(op)) is None

    def of(self, ops: Iterable[str]) -> list[AppliedPlan]:
        """The applied plans among these operations, as far as they were read."""
        with self._lock:
            known = (self._known.get(op) for op in ops)
            return [one[1] for one in known if one is not None and one[1] is not None]
