"""Requests that share a swap: what each is told, and what a group must not do to any of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import omnigraph as og
from omnigraph.core import failpoints
from omnigraph.testing.grouping import Ended, held_back, together
from omnigraph.write.group.queue import GroupQueue

SCHEMA = """
node Person { name: String @key  email: String? @unique(email)  age: I32? }
node Team { name: String @key }
edge Knows: Person -> Person { weight: F64? }
edge Leads: Team -> Person @card(1..2)
"""
Call = Callable[[], Any]


@pytest.fixture
def graph(local_root: str) -> Iterator[og.Graph]:
    with og.init(local_root, SCHEMA, durability="relaxed") as made:
        made.load([person("ada"), person("bob")], mode="append")
        yield made
    failpoints.disarm()


def person(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "Person", "data": {"name": name, **more}}


def knows(a: str, b: str) -> dict[str, Any]:
    return {"edge": "Knows", "from": a, "to": b}


def leads(team: str, name: str) -> dict[str, Any]:
    return {"edge": "Leads", "from": team, "to": name}


def load(graph: og.Graph, *records: dict[str, Any], mode: str = "merge", **options: Any) -> Call:
    return partial(graph.load, list(records), mode=mode, **options)


def run(graph: og.Graph, *calls: Call) -> list[Ended[Any]]:
    return together(graph._engine, calls)


def codes(ended: list[Ended[Any]]) -> list[str]:
    return ["ok" if one.error is None else getattr(one.error, "code", repr(one.error)) for one in ended]


def names(graph: og.Graph, type_name: str = "Person") -> set[str]:
    return set(graph.snapshot().to_arrow(type_name).column("id").to_pylist())


# --- what they are told -------------------------------------------------------------------------------------------------


def test_requests_that_meet_share_a_swap_and_are_told_apart(graph: og.Graph) -> None:
    insert = 'query add() { insert Person { name: "dora", age: 4 } }'
    ended = run(
        graph,
        load(graph, person("cleo"), actor="one", idempotency_key="k1"),
        partial(graph.mutate, insert, actor="two"),
        load(graph, knows("ada", "bob"), actor="three", mode="append"),
    )
    receipts = [one.value for one in ended]
    assert codes(ended) == ["ok"] * 3
    commits = {commit.id: commit for commit in graph.commits(limit=3)}
    assert len({commit.manifest_version for commit in commits.values()}) == 1
    for number, receipt in enumerate(receipts):
        others = tuple(other.commit_id for other in receipts if other is not receipt)
        assert receipt.grouped_with == others
        commit = commits[receipt.commit_id]
        assert commit.grouped_with == others
        assert commit.actor == ("one", "two", "three")[number]
        assert receipt.storage.shared_by == 3 and not receipt.storage.exact
    assert [commits[r.commit_id].kind for r in receipts] == ["load", "mutate", "load"]
    assert [sorted(commits[r.commit_id].tables) for r in receipts] == [["node:Person"], ["node:Person"], ["edge:Knows"]]
    assert [commit.id for commit in graph.commits(limit=3)] == [r.commit_id for r in reversed(receipts)]
    parents = [commits[r.commit_id].parents[0] for r in receipts]
    assert parents[1:] == [r.commit_id for r in receipts[:-1]]
    assert graph.verify().ok


def test_one_request_by_itself_is_no_group(graph: og.Graph) -> None:
    receipt = graph.load([person("cleo")], mode="merge")
    assert receipt.grouped_with == () and receipt.storage.shared_by == 1


@pytest.mark.parametrize(
    "bad",
    [
        knows("ada", "nobody"),
        person("cleo", age="old"),
        person("eve", email="taken"),
        {"type": "Person", "data": {"age": 3}},
        leads("none", "ada"),
    ],
    ids=["endpoint", "value", "unique", "no key", "two endpoints"],
)
@pytest.mark.parametrize("place", [0, 2])
def test_a_bad_request_fails_by_itself_with_its_own_error(graph: og.Graph, bad: dict[str, Any], place: int) -> None:
    graph.load([person("old", email="taken")], mode="merge")
    with pytest.raises(og.errors.OmnigraphError) as alone:
        graph.load([bad], mode="merge")
    calls = [load(graph, person("cleo")), load(graph, knows("ada", "bob"))]
    calls.insert(place, load(graph, bad))
    ended = run(graph, *calls)
    assert [one.error is None for one in ended] == [at != place for at in range(3)]
    error = ended[place].error
    assert (type(error), str(error)) == (type(alone.value), str(alone.value))
    assert "cleo" in names(graph) and graph.snapshot().count("Knows") == 1


def test_a_key_that_is_taken_is_one_requests_conflict(graph: og.Graph) -> None:
    ended = run(
        graph,
        load(graph, person("cleo"), mode="append"),
        load(graph, person("ada"), mode="append"),
    )
    assert codes(ended) == ["ok", "key-conflict"]


def test_a_group_of_bad_requests_writes_nothing(graph: og.Graph) -> None:
    head = graph.status().head.commit_id
    ended = run(graph, *[load(graph, knows("ada", f"none-{n}")) for n in range(4)])
    assert codes(ended) == ["data-invalid"] * 4
    assert graph.status().head.commit_id == head


def test_rows_that_are_there_already_make_no_commit(graph: og.Graph) -> None:
    ended = run(graph, load(graph, person("ada")), load(graph, person("cleo")))
    assert [one.value.commit_id is None for one in ended] == [True, False]
    assert ended[0].value.tables["node:Person"].unchanged == 1
    assert ended[1].value.grouped_with == ()


# --- judged as one after the other --------------------------------------------------------------------------------------


def test_an_edge_may_lean_on_a_node_of_an_earlier_request(graph: og.Graph) -> None:
    ended = run(graph, load(graph, person("cleo")), load(graph, knows("cleo", "ada")))
    assert codes(ended) == ["ok", "ok"]
    assert ended[0].value.grouped_with == (ended[1].value.commit_id,)


def test_an_edge_that_needs_a_node_of_a_later_request_comes_after_it(graph: og.Graph) -> None:
    ended = run(graph, load(graph, knows("cleo", "ada")), load(graph, person("cleo")), load(graph, person("dora")))
    assert codes(ended) == ["ok"] * 3
    first, node, _ = (one.value for one in ended)
    assert first.commit_id not in node.grouped_with
    assert graph.commit(first.commit_id).manifest_version > graph.commit(node.commit_id).manifest_version


def test_an_edge_is_never_visible_without_the_node_of_a_refused_request(graph: og.Graph) -> None:
    bad = load(graph, person("cleo"), person("eve", age="old"))
    ended = run(graph, bad, load(graph, knows("cleo", "ada")), load(graph, person("dora")))
    assert codes(ended) == ["data-invalid", "data-invalid", "ok"]
    assert graph.snapshot().count("Knows") == 0 and graph.verify(deep=True).ok


def test_an_edge_that_leans_on_an_earlier_node_survives_another_ones_failure(graph: og.Graph) -> None:
    ended = run(
        graph,
        load(graph, person("cleo")),
        load(graph, person("eve", age="old")),
        load(graph, knows("cleo", "ada")),
    )
    assert codes(ended) == ["ok", "data-invalid", "ok"]


def test_two_requests_that_name_one_row_land_one_after_the_other(graph: og.Graph) -> None:
    ended = run(graph, *[load(graph, person("cleo", age=n)) for n in range(4)])
    assert codes(ended) == ["ok"] * 4
    assert len({graph.commit(one.value.commit_id).manifest_version for one in ended}) == 4
    assert graph.snapshot().get("Person", "cleo")["age"] == 3


def test_of_two_equal_unique_values_the_second_is_refused(graph: og.Graph) -> None:
    ended = run(graph, load(graph, person("cleo", email="x")), load(graph, person("dora", email="x")))
    assert codes(ended) == ["ok", "data-invalid"]


def test_a_value_that_one_request_gives_up_is_not_taken_by_another_in_one_swap(graph: og.Graph) -> None:
    graph.load([person("old", email="x")], mode="merge")
    ended = run(graph, load(graph, person("cleo", email="x")), load(graph, person("old", email="y")))
    assert codes(ended) == ["data-invalid", "ok"], "the first is judged before the value was given up"


def test_two_requests_do_not_fill_a_lower_bound_together(graph: og.Graph) -> None:
    graph.load([{"type": "Team", "data": {"name": "t"}}, leads("t", "ada")], mode="merge")
    ended = run(graph, load(graph, leads("t", "bob")), load(graph, leads("t", "bob")), load(graph, person("cleo")))
    assert codes(ended) == ["ok", "data-invalid", "ok"], "a team leads two at most"


# --- keys, heads, deadlines ---------------------------------------------------------------------------------------------


def test_sixty_four_requests_with_one_key_are_one_commit(graph: og.Graph) -> None:
    before = len(graph.commits())
    ended = run(graph, *[load(graph, person("cleo"), idempotency_key="k") for _ in range(64)])
    assert codes(ended) == ["ok"] * 64
    assert len({one.value.commit_id for one in ended}) == 1
    assert sum(one.value.replayed for one in ended) == 63
    assert len(graph.commits()) == before + 1


def test_a_key_with_another_input_is_a_mismatch(graph: og.Graph) -> None:
    ended = run(graph, *[load(graph, person(name), idempotency_key="k") for name in ("cleo", "dora")])
    assert codes(ended) == ["ok", "idempotency-mismatch"]


@pytest.mark.parametrize(
    ("cut", "taken_for", "told"),
    [
        ("apply.before_commit", person("rival"), "ok"),
        ("publish.before_swap", {"type": "Team", "data": {"name": "t"}}, "idempotency-mismatch"),
    ],
)
def test_a_key_that_a_rival_takes_meanwhile_ends_one_request_and_no_other(
    graph: og.Graph, local_root: str, cut: str, taken_for: dict[str, Any], told: str
) -> None:
    taken: list[og.Receipt] = []
    with og.open(local_root) as rival:

        def overtake(**_: Any) -> None:
            taken.append(rival.load([taken_for], mode="merge", idempotency_key="k"))

        with failpoints.armed(cut, overtake):
            ended = run(graph, load(graph, person("rival"), idempotency_key="k"), load(graph, knows("ada", "bob")))
    assert codes(ended) == [told, "ok"]
    assert not taken[0].replayed
    if told == "ok":
        assert ended[0].value.replayed and ended[0].value.commit_id == taken[0].commit_id
    assert ended[1].value.grouped_with == ()


def test_an_expected_head_is_compared_before_the_group_and_by_the_first_alone(graph: og.Graph) -> None:
    head = graph.status().head.commit_id
    ended = run(
        graph,
        load(graph, person("cleo")),
        load(graph, person("dora"), expect_head=head),
        load(graph, person("eve")),
    )
    assert codes(ended) == ["ok", "precondition-failed", "ok"]
    fresh = graph.status().head.commit_id
    ended = run(graph, load(graph, person("fay"), expect_head=fresh), load(graph, person("gus")))
    assert codes(ended) == ["ok", "ok"]
    assert ended[0].value.grouped_with == (ended[1].value.commit_id,)


def test_a_head_that_moves_while_a_group_is_under_way_refuses_one_request(graph: og.Graph, local_root: str) -> None:
    head = graph.status().head.commit_id
    with (
        og.open(local_root) as rival,
        failpoints.armed(
            "publish.before_swap", lambda **_: rival.load([{"type": "Team", "data": {"name": "t"}}], mode="merge")
        ),
    ):
        ended = run(graph, load(graph, person("cleo"), expect_head=head), load(graph, person("dora")))
    assert codes(ended) == ["precondition-failed", "ok"]
    assert names(graph) == {"ada", "bob", "dora"}


def test_a_request_whose_time_is_up_in_the_queue_has_written_nothing(graph: og.Graph) -> None:
    with held_back(graph._engine) as held:
        held.start(load(graph, person("cleo"), deadline_s=0.05))
        held.start(load(graph, person("dora")))
        held._threads[0].join()
    late, other = held.ended
    assert getattr(late.error, "code", None) == "store-unavailable" and "nothing was written" in str(late.error)
    assert other.error is None
    assert names(graph) == {"ada", "bob", "dora"}


def test_a_request_whose_time_is_up_before_arming_is_left_out(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """It leaves between preparing and arming: the plan is made again without it."""
    live, waited = GroupQueue.live, []
    with held_back(graph._engine) as held:
        held.start(load(graph, person("cleo"), deadline_s=1.0))
        held.start(load(graph, person("dora")))

        def take(queue: GroupQueue, members: Any) -> Any:
            found = live(queue, members)
            if not waited:
                waited.append(found)
                held._threads[0].join()
            return found

        monkeypatch.setattr(GroupQueue, "live", take)
    late, other = held.ended
    assert len(waited[0]) == 2, "both were to be planned"
    assert "nothing was written" in str(late.error)
    assert other.error is None and other.value.grouped_with == ()
    assert names(graph) == {"ada", "bob", "dora"}


def test_a_request_that_was_told_unknown_is_never_planned_again(graph: og.Graph, local_root: str) -> None:
    """Its plan is aborted after the answer. Were it planned again, its caller would repeat what has landed."""
    with held_back(graph._engine) as held:
        held.start(load(graph, person("cleo"), deadline_s=1.0))
        held.start(load(graph, person("dora")))

        def stall(**_: Any) -> None:
            held._threads[0].join()
            with og.open(local_root) as rival:
                rival.load([person("rival")], mode="append")

        failpoints.arm("apply.before_commit", stall)
    told, other = held.ended
    assert getattr(told.error, "code", None) == "outcome-unknown"
    assert other.error is None
    assert graph.outcome(told.error.commit_id).state == "aborted"  # type: ignore[union-attr]
    assert names(graph) == {"ada", "bob", "dora", "rival"}


def test_a_request_that_was_told_unknown_may_land_with_its_group(graph: og.Graph) -> None:
    with held_back(graph._engine) as held:
        held.start(load(graph, person("cleo"), deadline_s=1.0))
        held.start(load(graph, person("dora")))
        failpoints.arm("publish.before_swap", lambda **_: held._threads[0].join())
    told, other = held.ended
    assert getattr(told.error, "code", None) == "outcome-unknown"
    assert graph.outcome(told.error.commit_id).landed  # type: ignore[union-attr]
    assert other.value.grouped_with == (told.error.commit_id,)  # type: ignore[union-attr]


def test_a_request_whose_time_is_up_at_any_place_is_told_the_truth(graph: og.Graph) -> None:
    """At each place that a plan of two passes. What was told to have written nothing has not, and never will; the other one lands."""
    with failpoints.recording() as passed:
        assert codes(run(graph, load(graph, person("first")), load(graph, person("second")))) == ["ok", "ok"]
    told: set[str] = set()
    places = ["the queue", *(name for name, _ in passed)]
    for cut, place in enumerate(places):
        mine, others = f"late{cut}", f"other{cut}"
        with held_back(graph._engine) as held:
            held.start(load(graph, person(mine), deadline_s=0.3))
            held.start(load(graph, person(others)))
            if cut == 0:
                held._threads[0].join()
            else:
                failpoints.arm("*", lambda **_: held._threads[0].join(), at=cut)
        failpoints.disarm()
        late, other = held.ended
        assert other.error is None, (place, other.error)
        there = names(graph)
        assert others in there
        if late.error is None:
            told.add("in time")
            assert mine in there
        elif isinstance(late.error, og.errors.OutcomeUnknown):
            outcome = graph.outcome(late.error.commit_id)
            told.add(outcome.state)
            assert outcome.landed == (mine in there), (place, outcome)
        else:
            told.add("nothing written")
            assert "nothing was written" in str(late.error) and mine not in there, place
    assert {"nothing written", "landed"} <= told


# --- the lead -----------------------------------------------------------------------------------------------------------


def test_a_group_outlives_the_interrupt_of_its_leader(graph: og.Graph) -> None:
    import ctypes

    with held_back(graph._engine) as held:
        held.start(load(graph, person("cleo")))
        held.start(load(graph, person("dora")))
        leader = held._threads[0].ident

        def interrupt(**_: Any) -> None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(leader or 0), ctypes.py_object(KeyboardInterrupt))

        failpoints.arm("apply.before_commit", interrupt)
    other = held.ended[1]
    assert other.error is None
    assert names(graph) == {"ada", "bob", "cleo", "dora"}
    assert graph.load([person("eve")], mode="merge").commit_id, "the lead was handed on"


def test_a_store_that_fails_is_told_to_every_request(graph: og.Graph) -> None:
    failpoints.arm("arm.before", og.errors.StoreUnavailable("the store does not answer"))
    ended = run(graph, load(graph, person("cleo")), load(graph, person("dora")))
    assert codes(ended) == ["store-unavailable"] * 2
    assert ended[0].error is not ended[1].error
    assert graph.load([person("cleo")], mode="merge").commit_id


# --- who stays alone ----------------------------------------------------------------------------------------------------


def test_a_request_may_ask_for_a_swap_of_its_own(graph: og.Graph) -> None:
    with held_back(graph._engine) as held:
        held.start(load(graph, person("cleo"), group=False), waits=False)
        held._threads[0].join()
    assert held.ended[0].value.grouped_with == ()


@pytest.mark.parametrize(
    "call",
    [
        lambda g: g.load([person("cleo")], mode="overwrite"),
        lambda g: g.load([person("cleo")], mode="merge", on_bad_row="quarantine"),
        lambda g: g.mutate('query q() { update Person set { age: 3 } where name = "ada" }'),
        lambda g: g.mutate('query q() { delete Person where name = "ada" }'),
    ],
    ids=["overwrite", "quarantine", "update", "delete"],
)
def test_some_requests_wait_for_nobody(graph: og.Graph, call: Callable[[og.Graph], Any]) -> None:
    with held_back(graph._engine) as held:
        held.start(partial(call, graph), waits=False)
        held._threads[0].join()
    assert held.ended[0].error is None


def test_a_handle_may_be_opened_without_groups(local_root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    og.init(local_root, SCHEMA).close()
    for options, variable in (({"group": False}, "1"), ({}, "0")):
        monkeypatch.setenv("OMNIGRAPH_GROUP", variable)
        with og.open(local_root, **options) as graph:
            assert not graph._engine.groups
    monkeypatch.setenv("OMNIGRAPH_GROUP", "yes")
    with pytest.raises(og.errors.InvalidInput, match="OMNIGRAPH_GROUP is 0 or 1"):
        og.open(local_root)


# --- reading ------------------------------------------------------------------------------------------------------------


def test_a_snapshot_at_any_member_is_the_swap_with_all_of_them(graph: og.Graph) -> None:
    ended = run(graph, *[load(graph, person(name)) for name in ("cleo", "dora", "eve")])
    ids = [one.value.commit_id for one in ended]
    for asked in ids:
        snapshot = graph.snapshot(at=asked)
        assert (snapshot.commit_id, snapshot.as_of) == (ids[-1], None if asked == ids[-1] else asked)
        assert snapshot.count("Person") == 5
    graph.load([person("fay")], mode="merge")
    assert graph.snapshot(at=ids[0]).count("Person") == 5
