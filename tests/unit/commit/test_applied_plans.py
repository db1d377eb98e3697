"""Which plans of strangers one swap takes along: held against publishing the same plans one after the other."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from omnigraph.commit.applied_plans import AppliedPlan, AppliedPlans, may_combine, pins_fit, take_along
from omnigraph.commit.decide import Check, Lineage, check_publish
from omnigraph.commit.plan import REQUESTS_MAX, BranchName, Delta, PublishPlan, ReadPin, Rename, Source
from omnigraph.commit.properties import Counts
from omnigraph.commit.protocol.publish import on_state, publish_change
from omnigraph.core.ids import ulid_row
from omnigraph.manifest.rows import Closed, CommitRow, Pin
from omnigraph.manifest.state import Change, State, fold
from tests.unit.commit.material import (
    GRAPH,
    ULIDS,
    R,
    V,
    W,
    abort_row,
    adopt,
    commit_row,
    create,
    effect,
    fork,
    pin,
    plan,
    request,
    state,
)

TABLES = (W, V, R)
X = pin("node:Fourth", n=40)
OWN_OP, OWN = ULIDS[70], ULIDS[71]


def planned(number: int, writes: Sequence[Pin], reads: Sequence[Pin] = (), **changes: Any) -> PublishPlan:
    commit = ULIDS[50 + number]
    made: dict[str, Any] = {
        "op": ULIDS[60 + number],
        "id": commit,
        "effects": tuple(effect(one) for one in writes),
        "reads": tuple(ReadPin(one.key, one.identity, one.ref, one.version) for one in reads),
        "requests": (request(commit),),
        **changes,
    }
    return plan(**made)


def applied(made: PublishPlan, **changes: Any) -> AppliedPlan:
    """What the owner of this plan makes known, with a pin of other facts for each table."""
    before = {one.identity: one for one in (*TABLES, X)}
    pins = {
        chain.key: replace(before[chain.identity], version=chain.version, ref=chain.ref, rows=90, **changes)
        for chain in made.landing
    }
    counts = dict.fromkeys(pins, tuple(Counts(inserted=1) for _ in made.requests))
    return AppliedPlan(made, publish_change(made, pins, counts))


def own(*writes: Pin, **changes: Any) -> PublishPlan:
    return replace(planned(0, writes or (X,), **changes), op=OWN_OP, id=OWN, requests=(request(OWN),))


def taken(here: State, mine: PublishPlan, others: Sequence[AppliedPlan]) -> list[str]:
    """The commits that come along."""
    change = take_along(here, mine, on_state(applied(mine).change, here, mine), others)
    ids = [row.object_id for row in change.history]
    assert ids[: len(mine.members)] == list(mine.members)
    return ids[len(mine.members) :]


HERE = state(*TABLES, X)


# --- against publishing one after the other -----------------------------------------------------------------------------


def _subsets(of: Sequence[Pin]) -> list[tuple[Pin, ...]]:
    return [found for width in range(len(of) + 1) for found in itertools.combinations(of, width)]


def test_what_is_taken_along_is_what_publishing_one_after_the_other_gives() -> None:
    """Every pair of plans that write and read up to three tables, beside one that writes the first of them."""
    shapes = [(writes, reads) for writes in _subsets(TABLES) if writes for reads in _subsets(TABLES)]
    mine, cells = own(W), 0
    for one, two in itertools.product(shapes, shapes):
        others = [applied(planned(1, *one)), applied(planned(2, *two))]
        change = take_along(HERE, mine, on_state(applied(mine).change, HERE, mine), others)
        after, _ = fold(HERE, change)
        serial, published = HERE, []
        for other in (applied(mine), *others):
            verdict = check_publish(serial, other.plan, Lineage())
            if verdict.check is Check.GO:
                serial, _ = fold(serial, on_state(other.change, serial, other.plan))
                published.append(other.plan.id)
        assert [row.object_id for row in change.history] == published, (one, two)
        assert after.tables == serial.tables and after.head == serial.head
        facts = [(row.object_id, row.parents, row.tables, row.seq) for row in after.tail if isinstance(row, CommitRow)]
        assert facts == [
            (row.object_id, row.parents, row.tables, row.seq) for row in serial.tail if isinstance(row, CommitRow)
        ]
        assert {row.version for row in after.tail[1:]} == {HERE.version + 1}
        cells += 1
    assert cells == 56 * 56


# --- each check, alone --------------------------------------------------------------------------------------------------

GOOD = planned(1, (W,), (R,))
_OTHER_KEY = request(GOOD.id, idempotency_key="k")
_GUEST = ULIDS[37]
CARRYING = replace(GOOD, id=ULIDS[41], requests=(request(GOOD.id), request(_GUEST, owned=False)))
REFUSED: dict[str, tuple[State, PublishPlan, PublishPlan]] = {
    "its commit is in the lineage": (replace(HERE, tail=(*HERE.tail, commit_row(GOOD.id))), own(), GOOD),
    "its abort is in the lineage": (replace(HERE, tail=(*HERE.tail, abort_row(GOOD.id))), own(), GOOD),
    "its key is taken": (
        replace(HERE, tail=(*HERE.tail, commit_row(ULIDS[45], idempotency_key="k"))),
        own(),
        replace(GOOD, requests=(_OTHER_KEY,)),
    ),
    "its key is that of the swap's own plan": (
        HERE,
        replace(own(), requests=(request(OWN, idempotency_key="k"),)),
        replace(GOOD, requests=(_OTHER_KEY,)),
    ),
    "it expects the head before the swap's own commit": (
        HERE,
        own(),
        replace(GOOD, requests=(request(GOOD.id, expect_head=HERE.head.commit_id),)),
    ),
    "another handle uses the graph alone": (
        replace(HERE, head=replace(HERE.head, owner="elsewhere/boot/1/1", epoch=1)),
        own(),
        GOOD,
    ),
    "the same process took it over since": (
        replace(HERE, head=replace(HERE.head, owner=GOOD.owner.token, epoch=1)),
        own(),
        GOOD,
    ),
    "a cleanup began": (replace(HERE, head=replace(HERE.head, mark=ULIDS[44])), own(), GOOD),
    "another schema": (HERE, own(), replace(GOOD, base=replace(GOOD.base, schema_id="sha256:other"))),
    "a written table has moved": (state(replace(W, version=4), V, R, X), own(), GOOD),
    "a table that was read has moved": (state(W, V, replace(R, version=4), X), own(), GOOD),
    "a table that was read is moved by the swap's own plan": (HERE, own(R), GOOD),
    "the swap's own plan writes the table": (HERE, own(W), GOOD),
    "the line of another branch": (state(replace(W, owner=ULIDS[43]), V, R, X), own(), GOOD),
    "another branch": (HERE, own(), replace(GOOD, branch=BranchName("b", ULIDS[42]))),
    "a base that the tail does not reach": (
        replace(HERE, version=9, tail=(replace(commit_row(), seq=7, version=5),)),
        own(),
        GOOD,
    ),
    "a request of another id was recorded for the plan": (
        replace(HERE, tail=(*HERE.tail, abort_row(ULIDS[41], plan=ULIDS[41]))),
        own(),
        replace(GOOD, id=ULIDS[41], requests=(request(GOOD.id), request(ULIDS[40]))),
    ),
    "a request that it carries has landed": (replace(HERE, tail=(*HERE.tail, commit_row(_GUEST))), own(), CARRYING),
    "a request that it carries was withdrawn": (replace(HERE, tail=(*HERE.tail, abort_row(_GUEST))), own(), CARRYING),
    "a request that it carries is one of the swap's own plan": (
        HERE,
        replace(own(), id=ULIDS[36], requests=(request(OWN), request(_GUEST, owned=False))),
        CARRYING,
    ),
}


def test_a_plan_that_fits_is_taken_along() -> None:
    assert taken(HERE, own(), [applied(GOOD)]) == [GOOD.id]


def test_a_plan_that_carries_requests_of_others_takes_along_and_is_taken_along() -> None:
    assert taken(HERE, own(), [applied(CARRYING)]) == [GOOD.id, _GUEST]
    assert taken(HERE, CARRYING, [applied(planned(2, (V,)))]) == [planned(2, (V,)).id]


@pytest.mark.parametrize("cell", REFUSED.values(), ids=REFUSED.keys())
def test_a_plan_that_fails_one_check_is_left_to_its_owner(cell: tuple[State, PublishPlan, PublishPlan]) -> None:
    here, mine, other = cell
    assert taken(here, mine, [applied(other)]) == []


def test_nothing_comes_along_onto_a_closed_state() -> None:
    closed = replace(HERE, head=replace(HERE.head, closed=Closed(1, "ada")))
    assert taken(closed, own(), [applied(GOOD)]) == []


def test_one_key_in_two_plans_lands_once() -> None:
    keyed = [
        replace(planned(n, (t,)), requests=(request(ULIDS[50 + n], idempotency_key="k"),))
        for n, t in enumerate((W, V), 1)
    ]
    assert taken(HERE, own(), [applied(one) for one in keyed]) == [keyed[0].id]


def test_a_plan_comes_along_once_however_often_it_is_listed() -> None:
    assert taken(HERE, own(), [applied(GOOD), applied(GOOD)]) == [GOOD.id]
    assert taken(HERE, GOOD, [applied(GOOD)]) == []


def test_a_pin_that_says_other_things_of_its_table_is_refused() -> None:
    for wrong in ({"incarnation": 2}, {"type_id": ULIDS[39]}, {"owner": ULIDS[38]}, {"location": "nodes/x.lance"}):
        assert taken(HERE, own(), [applied(GOOD, **wrong)]) == [], wrong


def test_a_swap_has_so_many_commits_and_no_more() -> None:
    def several(number: int, table: Pin, requests: int) -> AppliedPlan:
        ids = tuple(f"01ARZ3NDEKTSV4RRFFQ6{number}{one:05d}" for one in range(requests))
        return applied(replace(planned(number, (table,)), id=ULIDS[30], requests=tuple(map(request, ids))))

    mine = own(X)
    assert len(taken(HERE, mine, [several(1, W, REQUESTS_MAX - 1)])) == REQUESTS_MAX - 1
    assert taken(HERE, mine, [several(1, W, REQUESTS_MAX)]) == []
    assert taken(HERE, mine, [several(1, W, REQUESTS_MAX), applied(planned(2, (V,)))]) == [planned(2, (V,)).id]


# --- what may share a swap at all ---------------------------------------------------------------------------------------

_SOURCE = Source(GRAPH, None, 1, ULIDS[1])
ALONE: dict[str, PublishPlan] = {
    "merge": replace(GOOD, kind="merge"),
    "schema": replace(GOOD, kind="schema"),
    "revert": replace(GOOD, kind="revert"),
    "restore": replace(GOOD, kind="restore"),
    "maintenance": replace(GOOD, kind="maintenance", requests=()),
    "no request": replace(GOOD, requests=()),
    "a request of another kind": replace(GOOD, requests=(request(GOOD.id, kind="merge"),)),
    "no request of its own": replace(GOOD, requests=(request(GOOD.id, owned=False),)),
    "sources": replace(GOOD, sources=(_SOURCE,)),
    "what came with a merge": replace(GOOD, merge={"identity": GRAPH}),
    "reverts": replace(GOOD, reverts=(ULIDS[2],)),
    "a delta": replace(GOOD, delta=Delta(rename=(Rename(W.identity, W.key, "node:Other", 2),))),
    "an adopted table": replace(GOOD, effects=(*GOOD.effects, adopt(V))),
    "a fork": replace(GOOD, effects=(fork(W), replace(effect(W), target=replace(fork(W).target, version=4)))),  # type: ignore[type-var]
    "a created table": replace(GOOD, effects=(create(W),)),
    **{
        f"an effect {kind}": replace(GOOD, effects=(replace(effect(W), kind=kind),))
        for kind in ("overwrite", "columns", "project", "restore", "index", "rewrite")
    },
}


@pytest.mark.parametrize("other", ALONE.values(), ids=ALONE.keys())
def test_a_plan_that_is_more_than_rows_on_owned_lines_is_alone_in_its_swap(other: PublishPlan) -> None:
    assert not may_combine(other)
    change = Change(history=(commit_row(OWN),))
    assert take_along(HERE, own(), change, [AppliedPlan(other, applied(GOOD).change)]) is change
    assert take_along(HERE, other, change, [applied(planned(2, (V,)))]) is change


def test_appends_and_rows_in_several_versions_may_share_one() -> None:
    two = replace(effect(W, "rows"), target=replace(effect(W).target, version=W.version + 2, uuid="second"))  # type: ignore[type-var]
    several = replace(GOOD, effects=(effect(W), two))
    assert may_combine(several) and taken(HERE, own(), [applied(several)]) == [GOOD.id]


def test_the_pins_of_an_applied_plan_are_those_that_its_effects_reach() -> None:
    good = applied(GOOD).change.pins[W.key]
    assert pins_fit(GOOD, [good])
    assert not pins_fit(GOOD, []) and not pins_fit(GOOD, [good, applied(planned(2, (V,))).change.pins[V.key]])
    for wrong in ({"version": 9}, {"identity": ULIDS[9]}, {"ref": "g-x"}, {"owner": ULIDS[9]}, {"location": "nodes/y"}):
        assert not pins_fit(GOOD, [replace(good, **wrong)]), wrong  # type: ignore[arg-type]


# --- what is remembered -------------------------------------------------------------------------------------------------


def test_an_armed_file_is_read_again_once_it_has_changed_and_an_applied_one_never() -> None:
    known = AppliedPlans()
    assert not known.has("op", "1:1")
    known.put("op", "1:1", None)
    assert known.has("op", "1:1") and not known.has("op", "2:2")
    known.put("op", "2:2", applied(GOOD))
    assert known.has("op", "3:3")
    assert known.of(["op", "elsewhere"]) == [applied(GOOD)]


def test_it_forgets_the_oldest_of_too_many() -> None:
    known = AppliedPlans()
    for number in range(300):
        known.put(str(number), "1:1", applied(GOOD))
    assert not known.has("0", "1:1") and known.has("299", "1:1")


# --- what is in flight, as far as is known ------------------------------------------------------------------------------


def test_a_plan_is_in_flight_until_it_is_known_to_have_ended_or_to_be_none() -> None:
    known = AppliedPlans()
    op = GOOD.op
    assert known.in_flight(op, "1:1", HERE)  # not read: it may be one
    known.put(op, "1:1", None)
    assert not known.in_flight(op, "1:1", HERE)  # read, and no applied plan
    assert known.in_flight(op, "2:2", HERE)  # it has changed since
    known.put(op, "2:2", applied(GOOD))
    assert known.in_flight(op, "2:2", HERE)
    assert not known.in_flight(op, "2:2", replace(HERE, tail=(*HERE.tail, commit_row(GOOD.id))))
    assert not known.in_flight(op, "2:2", replace(HERE, tail=(*HERE.tail, abort_row(GOOD.id))))


def test_of_a_file_that_was_not_read_the_commit_made_next_to_it_tells_that_it_has_ended() -> None:
    op, commit = ulid_row(2)
    landed = replace(HERE, tail=(*HERE.tail, commit_row(commit)))
    assert not AppliedPlans().in_flight(op, "1:1", landed)
    assert AppliedPlans().in_flight(commit, "1:1", landed)
