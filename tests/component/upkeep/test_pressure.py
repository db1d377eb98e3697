"""Writes feel that upkeep lags: they warn, wait, are refused, and go on when it has run."""

from __future__ import annotations

from functools import partial

import pytest

import omnigraph as og
from omnigraph import errors
from omnigraph.commit.engine import MAIN
from omnigraph.testing.grouping import Ended, together
from tests.component.upkeep.material import engine_of, leave_ticket, make, people


def test_a_write_warns_with_the_command_that_helps(local_root: str) -> None:
    make(local_root, commits=4).close()
    with og.open(local_root, backpressure={"warn": 4}) as graph:
        receipt = graph.load(people("one more"), mode="append")
        [warning] = receipt.warnings
        assert "warn=4" in warning and "omnigraph" in warning


def test_a_write_past_the_last_bound_is_refused_before_anything_is_written(local_root: str) -> None:
    make(local_root, commits=4).close()
    with og.open(local_root, backpressure={"warn": None, "fail": 4}) as graph:
        before = [entry.key for entry in engine_of(graph).store.list("")]
        with pytest.raises(errors.Overloaded) as caught:
            graph.load(people("refused"), mode="append")
        assert caught.value.bound == 4
        assert [entry.key for entry in engine_of(graph).store.list("")] == before
        assert graph.snapshot().get("Person", "refused") is None


def test_upkeep_itself_is_not_refused_and_takes_the_pressure_away(local_root: str) -> None:
    make(local_root, commits=5).close()
    with og.open(local_root, backpressure={"fail": 5, "warn": None}) as graph:
        with pytest.raises(errors.Overloaded):
            graph.load(people("refused"), mode="append")
        graph.optimize()
        graph.cleanup(keep=1, min_age="0s", confirm=True)
        assert graph.load(people("welcome"), mode="append").warnings == ()


def test_a_known_key_is_answered_under_any_pressure(local_root: str) -> None:
    with make(local_root, commits=4) as graph:
        first = graph.load(people("keyed"), mode="append", idempotency_key="k").commit_id
    with og.open(local_root, backpressure={"fail": 1, "warn": None}) as graph:
        again = graph.load(people("keyed"), mode="append", idempotency_key="k")
        assert again.replayed and again.commit_id == first


def test_a_slowed_write_waits_once_and_lands(local_root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make(local_root, commits=4).close()
    with og.open(local_root, backpressure={"warn": None, "slow": 4}) as graph:
        slept: list[float] = []
        monkeypatch.setattr(type(engine_of(graph).clock), "sleep", lambda _self, seconds: slept.append(seconds))
        receipt = graph.load(people("slow"), mode="append")
        assert receipt.commit_id is not None and len(receipt.warnings) == 1
        assert len([pause for pause in slept if pause > 0]) == 1


def test_the_figures_of_back_pressure_cost_no_request(proxied_root: str, fault_proxy: object) -> None:
    make(proxied_root, commits=2).close()
    costs = []
    for bounds in ({"warn": None}, {"warn": 1}):
        with og.open(proxied_root, backpressure=bounds) as graph:
            graph.load(people(f"first {bounds}"), mode="append")
            assert engine_of(graph).known(MAIN) is not None
            fault_proxy.reset()  # type: ignore[attr-defined]
            graph.load(people(f"second {bounds}"), mode="append")
            costs.append(len(fault_proxy.log))  # type: ignore[attr-defined]
    assert costs[0] == costs[1]


def test_pending_writes_count_as_they_are_now(local_root: str) -> None:
    make(local_root, commits=1).close()
    with og.open(local_root, backpressure={"warn": None, "fail": 6}) as graph:
        engine = engine_of(graph)
        ops = [leave_ticket(graph, "node:Place") for _ in range(8)]
        assert len(engine.intents.names()) == 8
        with pytest.raises(errors.Overloaded) as caught:
            graph.load(people("refused"), mode="append")
        assert (caught.value.metric, caught.value.actual) == ("intents", 8)
        for op in ops:
            engine.intents.disarm(op)
        assert graph.load(people("welcome"), mode="append").commit_id is not None


# --- groups -------------------------------------------------------------------------------------------------------------


def meeting(graph: og.Graph, count: int) -> list[Ended[og.Receipt]]:
    """So many writes of one table that share a swap, if they may."""
    calls = [partial(graph.load, people(f"p of {graph.snapshot().commit_id} {n}"), mode="append") for n in range(count)]
    return together(engine_of(graph), calls)


def test_what_a_group_writes_counts_and_not_how_many_requests_it_has(local_root: str) -> None:
    """Eight requests make one fragment and one version, like one: none of them is refused for the others."""
    make(local_root, commits=4).close()
    with og.open(local_root, backpressure={"warn": None, "fail": 7}) as graph:
        before = graph.snapshot()
        ended = meeting(graph, 8)
        assert [one.error for one in ended] == [None] * 8
        after = graph.snapshot()
        assert after.manifest_version == before.manifest_version + 1
        assert len(after.fragments("Person")) == len(before.fragments("Person")) + 1


def test_each_request_of_a_group_past_the_last_bound_is_refused_and_none_is_written(local_root: str) -> None:
    make(local_root, commits=4).close()
    with og.open(local_root, backpressure={"warn": None, "fail": 4}) as graph:
        before = [entry.key for entry in engine_of(graph).store.list("")]
        ended = meeting(graph, 8)
        assert [type(one.error) for one in ended] == [errors.Overloaded] * 8
        assert len({id(one.error) for one in ended}) == 8
        assert [entry.key for entry in engine_of(graph).store.list("")] == before


def test_a_slowed_group_waits_once_and_every_receipt_says_so(local_root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make(local_root, commits=4).close()
    with og.open(local_root, backpressure={"warn": None, "slow": 4}) as graph:
        slept: list[float] = []
        monkeypatch.setattr(type(engine_of(graph).clock), "sleep", lambda _self, seconds: slept.append(seconds))
        ended = meeting(graph, 8)
        assert [one.error for one in ended] == [None] * 8
        assert all(one.value is not None and len(one.value.warnings) == 1 for one in ended)
        assert len({one.value.storage.shared_by for one in ended if one.value is not None}) == 1
        assert len([pause for pause in slept if pause > 0]) == 1
