"""Writes feel that upkeep lags: they warn, wait, are refused, and go on when it has run."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph import errors
from omnigraph.commit.engine import MAIN
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
