"""Which requests may be judged together: whatever stands as one change set would have stood one after the other."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from omnigraph.commit.deadline import Deadline
from omnigraph.commit.request import Request
from omnigraph.core.clock import SYSTEM_CLOCK
from omnigraph.core.meter import Meter
from omnigraph.schema.catalog import Catalog
from omnigraph.write.base.changes import TypeChange
from omnigraph.write.group import joint
from omnigraph.write.group.joint import Candidate, separate, union_of
from omnigraph.write.group.member import Member
from omnigraph.write.group.queue import BYTES_MAX, MEMBERS_MAX, choose
from omnigraph.write.rules.id_reuse import adopt_ids
from omnigraph.write.rules.validate import validate
from tests.unit.write.support import SCHEMA, MemoryView, catalog_of, committed, edge, person, read

CATALOG = catalog_of(SCHEMA.replace("@card(1..2)", "@card(2..3)"))  # a bound that one edge does not fill
Records = list[dict[str, Any]]


def member(keys: tuple[str, ...] = ("node:Person",), *, size: int = 0, **asked: Any) -> Member:
    request = Request("load", "main", frozenset(keys), **asked)
    return Member(request, None, size, Deadline(SYSTEM_CLOCK, 60), Meter())  # type: ignore[arg-type]


def candidate(records: Records, view: MemoryView, mode: str = "merge") -> Candidate:
    changes = [adopt_ids(change, view) for change in read(CATALOG, records, mode).changes(mode)]  # type: ignore[arg-type]
    return Candidate(member(), {change.table_key: change for change in changes})


# --- before anything is read --------------------------------------------------------------------------------------------


def test_a_group_has_bounds() -> None:
    assert len(choose(member(), [member() for _ in range(100)], 256)) == MEMBERS_MAX
    assert len(choose(member(), [member(size=BYTES_MAX // 2) for _ in range(9)], 256)) == 3
    many = [member(tuple(f"node:T{n}-{k}" for k in range(10))) for n in range(9)]
    assert len(choose(many[0], many[1:], 25)) == 2


def test_a_key_comes_once_in_a_group() -> None:
    waiting = [member(idempotency_key=key) for key in ("a", "b", "a", "b")]
    assert choose(member(idempotency_key="a"), waiting, 256)[1:] == [waiting[1]]


def test_an_expected_head_stands_first_only() -> None:
    waiting = [member(expect_head="x"), member()]
    assert choose(member(), waiting, 256)[1:] == [waiting[1]]
    assert choose(waiting[0], waiting[1:], 256) == waiting


# --- one after the other ------------------------------------------------------------------------------------------------


def apply(view: MemoryView, changes: list[TypeChange]) -> None:
    for change in changes:
        key = change.table_key
        gone = pc.is_in(view.tables[key]["id"], value_set=change.rows["id"].combine_chunks())
        view.tables[key] = pa.concat_tables([view.tables[key].filter(pc.invert(gone)), change.rows])


def refused_in_turn(taken: list[Candidate], view: MemoryView, catalog: Catalog) -> list[int]:
    """The members that would be refused if each were judged on the rows of those before it."""
    found = []
    now = MemoryView(catalog, dict(view.tables))
    for at, one in enumerate(taken):
        if not validate(list(one.changes.values()), catalog, now).ok:
            found.append(at)
        apply(now, list(one.changes.values()))
    return found


START: Records = [
    *(person(name, mail=f"{name}@x") for name in ("ada", "bob", "cleo")),
    {"type": "Note", "data": {"id": "n1"}},
    {"type": "Note", "data": {"id": "n2"}},
    {"type": "Item", "data": {"sku": 1}},
    edge("Wrote", "ada", "n1", id="w1"),
    edge("Wrote", "ada", "n2", id="w2"),
    edge("Likes", "ada", 1, id="l1"),
    edge("Likes", "ada", 1, id="l2"),
    edge("Owns", "ada", 1, id="o1"),
]


def drawn(rng: random.Random) -> list[Records]:
    """A few requests about few rows, so that they meet."""
    who = ["ada", "bob", "cleo", "dora", "eve"]

    def record() -> dict[str, Any]:
        name, other = rng.choice(who), rng.choice(who)
        return rng.choice(
            [
                person(name, mail=f"{other}@x") if rng.random() < 0.6 else person(name),
                edge("Knows", name, other),
                edge("Wrote", name, rng.choice(["n1", "n2"]), **({"id": "w1"} if rng.random() < 0.3 else {})),
                edge("Likes", name, 1, **({"id": rng.choice(["l1", "l2"])} if rng.random() < 0.4 else {})),
                edge("Owns", name, 1),
            ]
        )

    return [[record() for _ in range(rng.randint(1, 2))] for _ in range(rng.randint(2, 5))]


def contradictions(cases: int, seed: int) -> Iterator[str]:
    """Groups that stand as one change set, and of which a member would have been refused in its turn."""
    rng = random.Random(seed)
    for number in range(cases):
        view = committed(CATALOG, START)
        requests = drawn(rng)
        taken, waiting = separate([candidate(one, view) for one in requests], CATALOG, view)
        assert len(taken) + len(waiting) == len(requests) and taken, "the first that can be judged is"
        union = [one.change for one in union_of(taken).values()]
        if validate(union, CATALOG, view).ok and refused_in_turn(taken, view, CATALOG):
            yield f"case {number}: {requests}"


def test_what_stands_together_stands_one_after_the_other() -> None:
    assert list(contradictions(150, seed=7)) == []


def no_one_leans(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(joint._Together, "leaning_on", lambda *_: [])


def no_bound_is_open(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(joint._Together, "_opens", lambda *_: False)


def no_row_gives_way(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(joint, "_updates", lambda *_: False)


@pytest.mark.parametrize("plant", [no_one_leans, no_bound_is_open, no_row_gives_way])
def test_each_rule_is_needed(monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None]) -> None:
    plant(monkeypatch)
    assert next(contradictions(600, seed=11), None), "no drawn group contradicts it"


def test_two_members_that_name_one_id_are_never_judged_together() -> None:
    view = committed(CATALOG, START)
    one, two = candidate([person("ada", age=1)], view), candidate([person("ada", age=2)], view)
    assert separate([one, two], CATALOG, view) == ([one], [two])


def test_two_modes_of_one_table_are_never_judged_together() -> None:
    view = committed(CATALOG, START)
    one, two = candidate([person("dora")], view, "append"), candidate([person("eve")], view)
    assert separate([one, two], CATALOG, view) == ([one], [two])


def test_a_union_keeps_the_rows_and_their_owners() -> None:
    view = committed(CATALOG, START)
    members = [candidate([person(f"p{n}"), edge("Knows", "ada", "bob")], view) for n in range(3)]
    union = union_of(members)
    assert union["node:Person"].change.rows["id"].to_pylist() == ["p0", "p1", "p2"]
    assert union["node:Person"].owners.tolist() == union["edge:Knows"].owners.tolist() == [0, 1, 2]
    assert union["edge:Knows"].change.minted is True and union["node:Person"].change.minted is False
    mixed = [members[0], replace_minted(members[1])]
    assert union_of(mixed)["edge:Knows"].change.minted_rows().tolist() == [True, False]


def replace_minted(one: Candidate) -> Candidate:
    return Candidate(one.member, {key: replace(change, minted=False) for key, change in one.changes.items()})
