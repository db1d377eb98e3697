"""The commit protocol searched exhaustively, with the engine's own decisions; and each guard taken out, to see it missed.

The long settings have the marker ``long``. A search that does not end in time proves nothing and fails.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from omnigraph import graph as graphs
from omnigraph.commit import applied_plans
from omnigraph.commit import decide as engine
from omnigraph.commit.decide import Check, Decision, End, Evidence, Lineage, PublishCheck, Undo
from omnigraph.commit.maintain import Forward
from omnigraph.manifest import state as states
from omnigraph.manifest.rows import CommitRow
from omnigraph.manifest.state import Change
from omnigraph.testing.explorer import explore
from omnigraph.testing.protocol_model import APPEND, STRICT, Model, Rules, Setting

ONE: dict[str, Any] = {"tables": 1, "writes": ((0,),), "reads": ((),), "operations": (0,), "kinds": (APPEND,)}
BOTH: dict[str, Any] = {"tables": 2, "writes": ((0, 1), (0, 1))}
CROSSED: dict[str, Any] = {"tables": 2, "writes": ((0,), (1,)), "reads": ((1,), (0,))}
APART: dict[str, Any] = {"tables": 2, "writes": ((0,), (1,)), "combining": True}
THREE: dict[str, Any] = {
    "tables": 3, "writes": ((0,), (1,), (2,)), "reads": ((), (), ()), "operations": (0, 1, 2), "kinds": (APPEND,) * 3, "combining": True,
}  # fmt: skip
GROUPS: dict[str, Any] = {
    "tables": 2, "writes": ((0, 1), (1,)), "requests": (2, 1), "operations": ((0, 1), 2), "reads": ((), ()),
}  # fmt: skip
PAIR: dict[str, Any] = {**ONE, "requests": (2,), "operations": ((0, 1),)}
ROLLING: dict[str, Any] = {**GROUPS, "writes": ((0,), (1,)), "tail": (4, 2)}
RECOVERY: dict[str, Any] = {"recoverers": 1, "recoveries": 1}

SHORT = {
    "1 writer, 2 tables, 2 lost requests, recovery": Setting(
        **{**ONE, "tables": 2, "writes": ((0, 1),)}, recoverers=1, recoveries=1, lost=2
    ),
    "2 writers, 1 table, 2 attempts, recovery": Setting(attempts=2, recoverers=1, recoveries=1),
    "2 writers, 2 tables, a lost request, a spent budget": Setting(**BOTH, lost=1, exhausted=1),
    "2 writers that read what the other writes, recovery": Setting(**CROSSED, recoverers=1, recoveries=1),
    "one key twice on different tables, recovery": Setting(
        tables=2, writes=((0,), (1,)), operations=(0, 0), recoverers=1, recoveries=1
    ),
    "2 recoveries beside each other, a lost request": Setting(**ONE, attempts=2, recoverers=2, recoveries=2, lost=1),
    "a strict writer beside an appending one": Setting(kinds=(STRICT, APPEND), recoverers=1, recoveries=1, exhausted=1),
    "2 writers of tables of their own that share swaps, a lost request, a spent budget, recovery": Setting(
        **APART, lost=1, exhausted=1, **RECOVERY
    ),
    "2 writers of one table that share swaps, 2 attempts": Setting(attempts=2, combining=True, exhausted=1),
    "2 writers that share swaps and read what the other writes, recovery": Setting(
        **CROSSED, **RECOVERY, combining=True, exhausted=1
    ),
    "3 writers of tables of their own that share swaps, a spent budget": Setting(**THREE, exhausted=1),
    "one key twice in shared swaps, recovery": Setting(
        tables=2, writes=((0,), (1,)), operations=(0, 0), combining=True, **RECOVERY
    ),
    "a plan of 2 requests beside one, a spent budget": Setting(**GROUPS, exhausted=1),
    "a plan of 2 requests, 2 attempts, a lost request, recovery": Setting(**PAIR, attempts=2, lost=1, **RECOVERY),
    "a plan of 2 requests whose records leave the tail, a lost request": Setting(**ROLLING, lost=1, exhausted=1),
    "one key in members of two plans": Setting(
        **{**GROUPS, "writes": ((0,), (1,)), "requests": (2, 2), "operations": ((0, 1), (2, 1))}, **RECOVERY
    ),
    "maintenance of 2 commits beside a writer": Setting(**ONE, attempts=2, upkeep=2, recoverers=1, recoveries=1),
}
LONG = {
    "2 writers, 2 tables, recovery, a spent budget": Setting(**BOTH, recoverers=1, recoveries=1, exhausted=1),
    "2 writers, 1 table, recovery, a lost request, a spent budget": Setting(
        recoverers=1, recoveries=1, lost=1, exhausted=1
    ),
    "2 writers, 1 table, 2 recoveries": Setting(recoverers=2, recoveries=2),
    "maintenance of 2 commits, a lost request": Setting(
        **ONE, attempts=2, upkeep=2, recoverers=1, recoveries=1, lost=1
    ),
    "2 writers, 1 table, maintenance": Setting(upkeep=1, recoverers=1, recoveries=1),
    "3 writers of tables of their own that share swaps, recovery": Setting(**THREE, **RECOVERY),
    "2 writers that share swaps, 2 attempts, a lost request, recovery": Setting(
        **APART, attempts=2, lost=1, exhausted=1, **RECOVERY
    ),
    "a plan of 2 requests beside one, a lost request, recovery": Setting(**GROUPS, lost=1, **RECOVERY),
    "2 plans of 3 and 2 requests of one table, recovery, a spent budget": Setting(
        requests=(3, 2), operations=((0, 1, 2), (3, 4)), exhausted=1, **RECOVERY
    ),
    "3 plans whose records leave the tail, a lost request": Setting(
        tables=3,
        writes=((0,), (1,), (2,)),
        reads=((), (), ()),
        kinds=(APPEND,) * 3,
        requests=(2, 2, 1),
        operations=((0, 1), (2, 3), 4),
        tail=(4, 2),
        lost=1,
    ),
    "plans of 2 requests that share swaps, a lost request, recovery": Setting(
        **{**APART, "requests": (2, 2), "operations": ((0, 1), (2, 3))}, lost=1, exhausted=1, **RECOVERY
    ),
    "crossed reads, 2 attempts, a lost request": Setting(**CROSSED, attempts=2, recoverers=1, recoveries=1, lost=1),
}


def search(setting: Setting, seconds_max: float) -> str | None:
    model = Model(setting)
    found = explore(model.start, model.steps, model.check, seconds_max=seconds_max)
    assert found.error is None, f"{found.error}\n  " + "\n  ".join(found.trace)
    assert found.exhausted, f"not exhausted: {found}"
    return found.error


@pytest.mark.parametrize("setting", SHORT.values(), ids=SHORT.keys())
def test_no_order_of_requests_breaks_a_promise(setting: Setting) -> None:
    search(setting, 60)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("setting", LONG.values(), ids=LONG.keys())
def test_no_order_of_requests_breaks_a_promise_in_larger_settings(setting: Setting) -> None:
    search(setting, 3000)


# --- guards -------------------------------------------------------------------------------------------------------------


def passing(*checks: Check) -> Callable[..., PublishCheck]:
    """Publishing that does not mind these."""

    def check(*args: Any, **facts: Any) -> PublishCheck:
        verdict = engine.check_publish(*args, **facts)
        return PublishCheck(Check.GO) if verdict.check in checks else verdict

    return check


def forgetting_the_key(state: Any, plan: Any, lineage: Lineage) -> PublishCheck:
    return engine.check_publish(state, plan, replace(lineage, keyed={}))


def forgetting_the_abort(state: Any, plan: Any, lineage: Lineage) -> PublishCheck:
    rows = {one: row for one, row in lineage.rows.items() if isinstance(row, CommitRow)}
    return engine.check_publish(state, plan, replace(lineage, rows=rows))


def forgetting_itself(state: Any, plan: Any, lineage: Lineage) -> PublishCheck:
    other = {one: row for one, row in lineage.keyed.items() if row.commit_id != plan.id}
    return engine.check_publish(state, plan, Lineage({}, other))


def forgetting_the_keys_of_later_members(state: Any, plan: Any, lineage: Lineage) -> PublishCheck:
    keyed = {one: row for one, row in lineage.keyed.items() if one == plan.members[0]}
    return engine.check_publish(state, plan, replace(lineage, keyed=keyed))


def looking_for(ids: Callable[[Any], Any]) -> dict[str, Callable[..., Any]]:
    """Looks for the records of a plan that take these ids for all of it, and one record found for all."""

    def how_ended(plan: Any, lineage: Lineage) -> End:
        rows = [row for one in ids(plan) if (row := lineage.rows.get(one)) is not None]
        if not rows:
            return End.OPEN
        return End.PUBLISHED if isinstance(rows[0], CommitRow) else End.ABORTED

    def check(state: Any, plan: Any, lineage: Lineage) -> PublishCheck:
        end = how_ended(plan, lineage)
        if end is End.OPEN:
            return engine.check_publish(state, plan, replace(lineage, rows={}))
        return PublishCheck(Check.PUBLISHED if end is End.PUBLISHED else Check.ABORTED)

    return {"how_ended": how_ended, "check_publish": check}


def dividing(tail: Any) -> int:
    """A cut that leaves as many records as it may, whatever it divides."""
    return len(tail) - states.TAIL_KEEP if len(tail) >= states.TAIL_ROLL else 0


def taking_any_restore(**facts: Any) -> Undo:
    above = facts["above"]
    if facts["head"] > facts["pin"] and above is not None and above.restore_of is not None:
        return Undo.PUBLISH_RESTORE
    return engine.undo_table(**facts)


def taking_what_is_there(**facts: Any) -> Undo:
    if facts["head"] > facts["pin"] and facts["above"] is not None and not facts["other_pending"]:
        return Undo.PUBLISH_RESTORE
    return engine.undo_table(**facts)


def minding_no_unknown(**facts: Any) -> Undo:
    return engine.undo_table(**{**facts, "unknown": False})


def impatient(**facts: Any) -> Undo:
    """Gives nobody the right of way, as if everybody else were beyond grace."""
    return engine.undo_table(**{**facts, "other_pending": False})


def deciding(change: Callable[[Evidence], Evidence]) -> Callable[..., Decision]:
    return lambda evidence, **facts: engine.decide(change(evidence), **facts)


def blind_to_aborts(evidence: Evidence) -> Evidence:
    return replace(evidence, end=End.OPEN) if evidence.end is End.ABORTED else evidence


def content_with_landed(evidence: Evidence) -> Evidence:
    return replace(evidence, tables={k: replace(t, exact=t.exact or t.landed) for k, t in evidence.tables.items()})


def content_with_some(evidence: Evidence, **facts: Any) -> Decision:
    if evidence.end is End.OPEN and any(table.exact for table in evidence.tables.values()):
        return Decision.ROLL_FORWARD
    return engine.decide(evidence, **facts)


def taking(*checks: Check) -> Callable[..., Change]:
    """Plans of others come along though these checks refuse them."""

    def take(state: Any, own: Any, change: Change, others: Any) -> Change:
        with mock.patch.object(applied_plans, "check_publish", passing(*checks)):
            return applied_plans.take_along(state, own, change, others)

    return take


def taking_what_has_ended(state: Any, own: Any, change: Change, others: Any) -> Change:
    return applied_plans.take_along(replace(state, tail=state.tail[:1]), own, change, others)


def counting(*, pin: int, achieved: int, own: frozenset[int], **_: Any) -> Forward:
    return Forward.PUBLISH if 0 < achieved - pin <= len(own) else Forward.UNDO


GUARDS: dict[str, Setting] = {
    "landing rule": Setting(rules=Rules(landed=lambda version, pin: version > 0)),
    "exact uuid in recovery": Setting(**RECOVERY, rules=Rules(exact=False)),
    "exact place in recovery": Setting(**RECOVERY, rules=Rules(decide=deciding(content_with_landed))),
    "every table in recovery": Setting(
        **{**ONE, "tables": 2, "writes": ((0, 1),)}, **RECOVERY, rules=Rules(decide=content_with_some)
    ),
    "pins of the write set": Setting(
        attempts=2, exhausted=1, rules=Rules(check_publish=passing(Check.PIN_MOVED), undo_table=impatient)
    ),
    "pins of the read set": Setting(**CROSSED, rules=Rules(check_publish=passing(Check.READ_MOVED))),
    "strict swap": Setting(**ONE, lost=1, exhausted=1, attempts=2, rules=Rules(strict=False)),
    "own id when giving up": Setting(**ONE, **RECOVERY, attempts=2, exhausted=1, rules=Rules(looks_for_itself=False)),
    "own id when rolling back": Setting(**ONE, **RECOVERY, rules=Rules(stranger_looks=False)),
    "pin of a restore": Setting(attempts=2, exhausted=1, rules=Rules(pins_of_restores=False)),
    "whose restore it is": Setting(attempts=2, exhausted=1, rules=Rules(undo_table=taking_any_restore)),
    "no foreign bytes": Setting(exhausted=1, rules=Rules(undo_table=taking_what_is_there)),
    "idempotency key at publish": Setting(
        tables=2, writes=((0,), (1,)), operations=(0, 0), rules=Rules(check_publish=forgetting_the_key)
    ),
    "own id at publish": Setting(**ONE, attempts=2, **RECOVERY, rules=Rules(check_publish=forgetting_itself)),
    "an abort is an end for its owner": Setting(
        **ONE, **RECOVERY, attempts=2, lost=1, rules=Rules(check_publish=forgetting_the_abort)
    ),
    "an end is an end for recovery": Setting(
        **ONE, **RECOVERY, rules=Rules(decide=deciding(lambda e: replace(e, end=End.OPEN)), stranger_looks=False)
    ),
    "a record of what was given up": Setting(**ONE, lost=1, exhausted=1, rules=Rules(aborts=False)),
    "an aborted plan is finished": Setting(
        **ONE, recoverers=2, recoveries=2, rules=Rules(decide=deciding(blind_to_aborts), stranger_looks=False)
    ),
    "pins of the write set in a shared swap": Setting(
        combining=True, attempts=2, exhausted=1, rules=Rules(take_along=taking(Check.PIN_MOVED), undo_table=impatient)
    ),
    "pins of the read set in a shared swap": Setting(
        **CROSSED, combining=True, rules=Rules(take_along=taking(Check.READ_MOVED))
    ),
    "idempotency key in a shared swap": Setting(
        tables=2,
        writes=((0,), (1,)),
        operations=(0, 0),
        combining=True,
        rules=Rules(take_along=taking(Check.KEY_TAKEN)),
    ),
    "own id of a plan to be taken along": Setting(**APART, **RECOVERY, rules=Rules(take_along=taking_what_has_ended)),
    "applied means that all has landed": Setting(**APART, rules=Rules(applied_last=False)),
    "the ids of its requests": Setting(
        **PAIR, **RECOVERY, attempts=2, rules=Rules(**looking_for(lambda plan: [plan.id]))
    ),
    "the keys of every request": Setting(
        **{**GROUPS, "writes": ((0,), (1,)), "requests": (2, 2), "operations": ((0, 1), (2, 1))},
        rules=Rules(check_publish=forgetting_the_keys_of_later_members),
    ),
    "a cut divides no plan": Setting(**ROLLING, lost=1, rules=Rules(cut=dividing)),
    "a cut divides no plan, and one of its ids is looked for": Setting(
        **ROLLING,
        lost=1,
        rules=Rules(cut=dividing, **looking_for(lambda plan: plan.members[:1])),
    ),
    "maintenance: every version its own": Setting(**ONE, upkeep=2, rules=Rules(fast_forward=counting)),
    "maintenance: never backwards": Setting(**ONE, upkeep=2, rules=Rules(fast_forward=lambda **facts: Forward.PUBLISH)),
}
# Shown to be redundant for what is visible; they save work, and are kept. Every id of a plan and its own record are not among them: where
# all requests of a plan are its own, who finds one record knows of all, but a carried one may end elsewhere (``test_offers_model``).
SPARE = {
    "right of way": Setting(attempts=2, exhausted=1, rules=Rules(undo_table=impatient)),
    "a restore against what may still arrive": Setting(
        **ONE, attempts=2, lost=1, **RECOVERY, rules=Rules(undo_table=minding_no_unknown)
    ),
}


@pytest.mark.parametrize("setting", GUARDS.values(), ids=GUARDS.keys())
def test_without_the_guard_some_order_of_requests_breaks_a_promise(setting: Setting) -> None:
    model = Model(setting)
    found = explore(model.start, model.steps, model.check, seconds_max=60)
    assert found.error is not None, f"nobody missed it: {found}"
    assert 3 <= len(found.trace) <= 30
    kept = Rules(undo_table=impatient) if setting.rules.undo_table is impatient else Rules()
    allowed = Model(replace(setting, rules=kept))
    sound = explore(allowed.start, allowed.steps, allowed.check, seconds_max=60)
    assert sound.exhausted and sound.error is None, "with the guard the same setting is sound"


@pytest.mark.parametrize("setting", SPARE.values(), ids=SPARE.keys())
def test_a_guard_that_only_saves_work_is_not_missed(setting: Setting) -> None:
    search(setting, 60)


def test_every_kind_of_write_that_is_built_is_in_the_model() -> None:
    """A new kind of plan needs a setting here, before it is relied on."""
    modelled = {"load", "mutate", "optimize", "ensure_indices"}
    elsewhere = {
        "schema": "schema_model",
        "branches": "names_model",  # merges: sources_model
        "revert": "sources_model",
        "restore": "sources_model",
    }
    plans = {"load", "mutate", "optimize", "ensure_indices", "schema", "branches", "revert", "restore"}
    built = {name for name in plans if hasattr(graphs.Graph, name)}
    assert built - modelled == elsewhere.keys()
    assert all(importlib.util.find_spec(f"omnigraph.testing.{name}") for name in elsewhere.values())
