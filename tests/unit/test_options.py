"""Options of a write: what is wrong is refused at once, with a typed error, whatever kind of value was given."""

from __future__ import annotations

import inspect
import math
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.core.errors import InvalidInput, LimitExceeded
from omnigraph.distributed.staging_txn import StagingTxn
from omnigraph.options import (
    COMBINE,
    MODES,
    OFFERS,
    CommitOptions,
    CommitSharing,
    LoadOptions,
    check_actor,
    check_commit,
)

WRONG: list[tuple[str, Any]] = [
    ("branch", None), ("branch", ""), ("branch", 7), ("branch", b"main"), ("branch", "\udcff"),
    ("actor", 7), ("actor", b"ann"), ("actor", "\ud800"), ("actor", "ä" * 129), ("actor", "x" * 257),
    ("idempotency_key", ""), ("idempotency_key", " \t\n"), ("idempotency_key", 7), ("idempotency_key", "a\udc80"),
    ("idempotency_key", "x" * 257),
    ("expect_head", ""), ("expect_head", 7), ("expect_head", "\ud800"),
    ("deadline_s", None), ("deadline_s", "60"), ("deadline_s", True), ("deadline_s", 0), ("deadline_s", -1),
    ("deadline_s", math.inf), ("deadline_s", math.nan), ("deadline_s", -math.inf),
]  # fmt: skip
WRONG_LOAD: list[tuple[str, Any]] = [
    ("mode", None), ("mode", "Append"), ("mode", 1), ("mode", ["append"]),
    ("on_bad_row", None), ("on_bad_row", "skip"), ("on_bad_row", {}),
    ("bad_rows_max", "3"), ("bad_rows_max", -1), ("bad_rows_max", 1.0), ("bad_rows_max", math.nan),
    ("bad_rows_max", math.inf), ("bad_rows_max", True),
    ("quarantine_to", 7), ("quarantine_to", ""), ("quarantine_to", "a\0b"),
    ("from_branch", ""), ("from_branch", 7),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_wrong_option_of_a_commit_is_invalid_input_that_names_it(name: str, value: Any) -> None:
    for make in (CommitOptions, lambda **given: LoadOptions(mode="append", **given)):
        with pytest.raises(InvalidInput) as caught:
            make(**{name: value})
        assert name in caught.value.message and caught.value.message.isprintable()
        assert caught.value.to_dict()


@pytest.mark.parametrize(("name", "value"), WRONG_LOAD)
def test_a_wrong_option_of_a_load_is_invalid_input_that_names_it(name: str, value: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        LoadOptions(**{"mode": "append", "on_bad_row": "quarantine", name: value})
    assert name in caught.value.message and caught.value.message.isprintable()


def test_quarantine_to_needs_rows_to_be_set_aside() -> None:
    with pytest.raises(InvalidInput, match="on_bad_row"):
        LoadOptions(mode="append", quarantine_to="bad.jsonl")
    assert LoadOptions(mode="append", on_bad_row="quarantine", quarantine_to=Path("bad.jsonl")).quarantine_to


def test_bounds_of_texts_count_bytes_and_may_be_reached() -> None:
    assert CommitOptions(actor="ä" * 128, idempotency_key="ä" * 128)
    with pytest.raises(LimitExceeded):
        CommitOptions(idempotency_key="ä" * 129)


def test_a_deadline_beyond_what_a_lock_can_wait_is_as_good_as_none() -> None:
    import threading

    asked = CommitOptions(deadline_s=1e300).deadline_s
    assert 1e8 < asked < threading.TIMEOUT_MAX
    assert CommitOptions(deadline_s=1).deadline_s == 1.0


def test_options_with_some_of_them_replaced_are_checked_again() -> None:
    options = LoadOptions(mode="merge", idempotency_key="once")
    assert options.but(mode="append") == LoadOptions(mode="append", idempotency_key="once")
    with pytest.raises(InvalidInput):
        options.but(mode="patchwork")


def test_an_actor_comes_from_the_call_then_the_handle_then_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_ACTOR", "env")
    assert [check_actor("call", "handle"), check_actor(None, "handle"), check_actor(None)] == ["call", "handle", "env"]
    monkeypatch.delenv("OMNIGRAPH_ACTOR")
    assert check_actor(None) is None


def test_every_door_takes_the_options_by_their_names_and_with_their_defaults() -> None:
    defaults = {one.name: one.default for one in fields(LoadOptions)}
    for door in (og.Graph.load, og.Graph.mutate, StagingTxn.load_staged):
        for name, parameter in inspect.signature(door).parameters.items():
            if name in defaults and name != "mode":
                assert parameter.default == defaults[name], (door.__qualname__, name)
    assert MODES == ("append", "merge", "overwrite")


@pytest.mark.parametrize(("name", "value"), [("actor", 7), ("actor", "\ud800"), ("actor", "x" * 257)])
def test_a_handle_refuses_a_wrong_actor(name: str, value: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=name):
        og.init(tmp_path / "graph", "node A { name: String @key }", actor=value)
    og.init(tmp_path / "graph", "node A { name: String @key }").close()
    with pytest.raises(InvalidInput, match=name):
        og.open(tmp_path / "graph", actor=value)
    with og.open(tmp_path / "graph") as graph:
        for call in (
            graph.optimize,
            graph.ensure_indices,
            graph.begin,
            lambda actor: graph.checkpoints.create("c", actor=actor),
        ):
            with pytest.raises(InvalidInput, match=name):
                call(actor=value)


def test_sharing_is_asked_for_by_the_call_then_the_environment() -> None:
    for name, variable in (("combine", COMBINE), ("offers", OFFERS)):

        def said(value: object, environment: dict[str, str], name: str = name) -> bool:
            return bool(getattr(check_commit(value, environment), name))

        assert said(None, {}) and said({}, {})
        assert not said(None, {variable: "0"}) and not said({name: False}, {})
        assert said({name: True}, {variable: "0"}) and not said({}, {variable: "0"})
        wrong: list[Any] = [{name: 1}, {name: "1"}, {"share": True}, True, [(name, True)]]
        for value in wrong:
            with pytest.raises(InvalidInput, match="commit"):
                check_commit(value, {})
        with pytest.raises(InvalidInput, match=variable):
            check_commit(None, {variable: "yes"})
    assert check_commit({"offers": False}, {}) == CommitSharing(combine=True, offers=False)
