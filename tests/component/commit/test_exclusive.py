"""Exclusive use: a claim that fails leaves the graph free, and an owner that is gone is named and cleared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import omnigraph as og
from omnigraph.commit import exclusive
from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.queue import local_operations
from omnigraph.core.errors import OmnigraphError, OutcomeUnknown, StoreRefused, WriterFenced
from omnigraph.core.meter import Meter
from omnigraph.testing.content import faults_of
from omnigraph.testing.operations import append, create, keys_of

ONE = keys_of(1)
REFUSED = StoreRefused("the store refuses the listing")


@pytest.fixture
def engine(engines: Callable[..., Engine]) -> Engine:
    return engines()


def refusing(engine: Engine, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """The look at the boundary fails so many times."""
    value = engine.boundary.value
    left = iter(range(times))

    def fail(*args: Any, **facts: Any) -> int:
        if next(left, None) is not None:
            raise REFUSED
        return value(*args, **facts)

    monkeypatch.setattr(engine.boundary, "value", fail)


def owner(engine: Engine) -> str | None:
    return engine.latest(MAIN).state.head.owner


def test_one_refused_listing_after_the_claim_does_not_fail_it(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    refusing(engine, monkeypatch, 1)
    exclusive.claim(engine, Meter())
    append(engine, ONE, ["a"])
    exclusive.release(engine, Meter())
    assert owner(engine) is None and faults_of(engine) == []


@pytest.mark.parametrize("times", [24, 25, 30, 46])
def test_a_claim_that_fails_leaves_nothing_claimed(
    engine: Engine, engines: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    monkeypatch.setattr(engine.timing, "jitter_s", lambda attempt: 0.0)
    refusing(engine, monkeypatch, times)
    try:
        exclusive.claim(engine, Meter())
    except OmnigraphError:
        assert engine.exclusive_token is None
        assert owner(engines()) is None
        append(engines(), ONE, ["a"])
    else:
        exclusive.release(engine, Meter())


def test_a_claim_that_cannot_be_taken_back_is_cleared_by_recovery(
    engine: Engine, engines: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine.timing, "jitter_s", lambda attempt: 0.0)
    real = exclusive._edit

    def silent(engine: Engine, edit: Any, what: str, meter: Meter) -> None:
        if "taken back" not in what:
            real(engine, edit, what, meter)
        raise OutcomeUnknown(what)

    monkeypatch.setattr(exclusive, "_edit", silent)
    with pytest.raises(OutcomeUnknown):
        exclusive.claim(engine, Meter())
    monkeypatch.setattr(exclusive, "_edit", real)
    other = engines()
    token = owner(other)
    assert token is not None and not local_operations.has(token)
    with pytest.raises(WriterFenced):
        append(other, ONE, ["a"])
    assert exclusive.clear_dead(other, Meter()) == token
    append(other, ONE, ["a"])


def test_the_owner_of_another_handle_is_not_cleared(engine: Engine, engines: Callable[..., Engine]) -> None:
    exclusive.claim(engine, Meter())
    assert exclusive.clear_dead(engines(), Meter()) is None
    assert exclusive.clear_dead(engine, Meter()) is None
    assert owner(engine) == engine.exclusive_token
    exclusive.release(engine, Meter())


def test_the_owner_on_another_host_is_not_cleared(engine: Engine, engines: Callable[..., Engine]) -> None:
    token = "elsewhere/boot/7/7#01ARZ3NDEKTSV4RRFFQ69G5FAV"
    exclusive._edit(engine, lambda head: exclusive._claimed(head, token), "the owner could not be set", Meter())
    assert exclusive.clear_dead(engines(), Meter()) is None and owner(engine) == token


def test_status_names_an_owner_that_is_gone_and_recover_clears_it(local_root: str) -> None:
    create(local_root)
    with og.open(local_root) as graph:
        engine = graph._engine
        dead = f"{engine.owner.token}#01ARZ3NDEKTSV4RRFFQ69G5FAV"
        exclusive._edit(engine, lambda head: exclusive._claimed(head, dead), "the owner could not be set", Meter())
        [finding] = [one for one in graph.status().findings if one.code == "dead-owner"]
        assert dead in finding.message and finding.command == "recover"
        assert graph.recover().owner_cleared == dead
        assert not graph.status().findings


def test_a_graph_without_types_can_be_used_exclusively_and_gets_its_first_type(local_root: str) -> None:
    """Its base fragment holds no pin, and Lance keeps no empty fragment."""
    og.init(local_root, "// nothing yet\n").close()
    with og.open(local_root, exclusive=True) as graph:
        assert graph.snapshot().tables == {}
    with og.open(local_root) as graph:
        graph.cleanup(keep=1, min_age="0s", confirm=True)
        graph.schema.apply("node Person { name: String @key }\n")
        graph.load([{"type": "Person", "data": {"name": "a"}}], mode="append")
    with og.open(local_root) as graph:
        assert graph.snapshot().count("Person") == 1 and graph.verify(deep=True).clean
