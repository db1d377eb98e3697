"""Branches and checkpoints that are made of a commit which a cleanup is about to delete: those that come too late fail, all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

import omnigraph as og
from omnigraph.branch import create as creating
from omnigraph.core import failpoints
from omnigraph.core.errors import Reclaimed
from omnigraph.core.meter import Meter
from omnigraph.store import layout
from omnigraph.upkeep import checkpoints, cleanup_look
from omnigraph.upkeep import cleanup as cleaning
from omnigraph.upkeep.cleanup_plan import doom, make_policy
from tests.component.upkeep.material import engine_of, make, people

NOW: dict[str, Any] = {"keep": 1, "min_age": "0s", "confirm": True}


@pytest.fixture
def graph(any_root: str) -> og.Graph:
    return make(any_root, 4)


class Steps:
    """The test holds threads at named failpoints and releases them in its own order."""

    def __init__(self) -> None:
        self._reached: dict[str, threading.Event] = {}
        self._open: dict[str, threading.Event] = {}

    def _event(self, events: dict[str, threading.Event], name: str) -> threading.Event:
        return events.setdefault(name, threading.Event())

    def hold(self, name: str) -> None:
        self._event(self._reached, name).set()
        assert self._event(self._open, name).wait(15), name

    def hold_by_thread(self, **_: Any) -> None:
        self.hold(threading.current_thread().name)

    def reached(self, *names: str) -> None:
        for name in names:
            assert self._event(self._reached, name).wait(15), name

    def go(self, *names: str) -> None:
        for name in names:
            self._event(self._open, name).set()


def files(graph: og.Graph, prefix: str) -> list[str]:
    return [entry.key for entry in engine_of(graph).store.list(prefix)]


def error_of(done: Future[Any]) -> BaseException | None:
    return done.exception(60)


def test_two_branches_of_a_doomed_commit_do_not_take_each_other_for_roots(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps()
    old = graph.commits()[2].id
    real: Callable[..., bool] = creating.kept_by_another

    def kept(*args: Any, **kwargs: Any) -> bool:
        steps.hold(f"line {threading.current_thread().name}")
        return real(*args, **kwargs)

    monkeypatch.setattr(creating, "kept_by_another", kept)

    def claiming(**facts: Any) -> None:
        if facts["state"] == "making":
            steps.hold(f"claim {facts['branch']}")

    def create(name: str) -> None:
        threading.current_thread().name = name
        with og.open(graph.uri) as other:
            other.branches.create(name, at=old)

    with (
        ThreadPoolExecutor(3) as pool,
        failpoints.armed("names.before_write", claiming, at=None),
        failpoints.armed("cleanup.recorded", lambda **_: steps.hold("recorded")),
    ):
        made = {name: pool.submit(create, name) for name in ("a", "b")}
        steps.reached("claim a", "claim b")
        cleaned = pool.submit(lambda: graph.cleanup(**NOW))
        steps.reached("recorded")
        steps.go("claim a", "claim b")
        steps.reached("line a", "line b")
        steps.go("line a", "line b")
        errors = {name: error_of(one) for name, one in made.items()}
        steps.go("recorded")
        assert error_of(cleaned) is None
    assert all(isinstance(error, Reclaimed) for error in errors.values()), errors
    fresh = og.open(graph.uri)
    assert [one.name for one in fresh.branches.list()] == ["main"]
    assert fresh.verify().ok


def test_a_cleanup_leaves_a_branch_whose_name_another_one_had_when_it_looked(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handle is shared: what the name stands for changes under the cleanup."""
    graph.branches.create("feature")
    for name in ("a", "b", "c", "d"):
        graph.load(people(name), mode="append", branch="feature")
    real: Callable[..., None] = cleaning._refuse_drift

    def looked(*args: Any, **facts: Any) -> None:
        real(*args, **facts)
        graph.branches.delete("feature")
        graph.branches.create("feature")
        graph.load(people("e"), mode="append", branch="feature")

    monkeypatch.setattr(cleaning, "_refuse_drift", looked)
    graph.cleanup(**NOW)
    monkeypatch.undo()
    held = engine_of(graph).latest("feature")
    assert engine_of(graph).boundary.value(held.state.identity) == 0
    assert held.state.head.boundary == 0
    graph.load(people("f"), mode="append", branch="feature")
    assert graph.snapshot("feature").count("Person") == 6


def test_a_plan_says_nothing_about_a_branch_that_was_made_after_it_under_the_same_name(graph: og.Graph) -> None:
    graph.branches.create("feature")
    for name in ("a", "b", "c", "d"):
        graph.load(people(name), mode="append", branch="feature")
    plan = graph.plan_cleanup(keep=1, min_age="0s")
    graph.branches.delete("feature")
    graph.branches.create("feature")
    ids = [graph.load(people(name), mode="append", branch="feature").commit_id for name in ("a", "b", "c", "d")]
    graph.cleanup(plan)
    for number, commit in enumerate(ids, 5):
        assert graph.snapshot("feature", at=commit).count("Person") == number
    assert engine_of(graph).boundary.value(engine_of(graph).latest("feature").state.identity) == 0


def held_checkpoints(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> Callable[[og.Graph, str, str], None]:
    """What makes a checkpoint: it is held once its commit was found to open, and once its file is there."""
    real: Callable[..., None] = checkpoints._check_opens

    def opens(engine: Any, made: Any, meter: Any) -> None:
        real(engine, made, meter)
        steps.hold(f"found {made.name}")

    def pin(graph: og.Graph, name: str, commit: str) -> None:
        threading.current_thread().name = name
        with og.open(graph.uri) as other:
            other.checkpoints.create(name, commit)

    monkeypatch.setattr(checkpoints, "_check_opens", opens)
    return pin


def test_two_checkpoints_of_a_doomed_commit_do_not_take_each_other_for_roots(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, old = Steps(), graph.commits()[2].id
    pin = held_checkpoints(steps, monkeypatch)
    with (
        ThreadPoolExecutor(3) as pool,
        failpoints.armed("checkpoint.created", steps.hold_by_thread, at=None),
        failpoints.armed("cleanup.recorded", lambda **_: steps.hold("recorded")),
    ):
        made = [pool.submit(pin, graph, name, old) for name in ("a", "b")]
        steps.reached("found a", "found b")
        cleaned = pool.submit(lambda: graph.cleanup(**NOW))
        steps.reached("recorded")
        steps.go("found a", "found b")
        steps.reached("a", "b")
        steps.go("a", "b")
        errors = [error_of(one) for one in made]
        steps.go("recorded")
        assert error_of(cleaned) is None
    assert all(isinstance(error, Reclaimed) for error in errors), errors
    assert files(graph, layout.CHECKPOINTS) == []


def test_a_branch_does_not_take_a_checkpoint_that_came_too_late_for_a_root(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, old = Steps(), graph.commits()[2].id
    pin = held_checkpoints(steps, monkeypatch)

    def create() -> None:
        with og.open(graph.uri) as other:
            other.branches.create("feature", at=old)

    def claiming(**facts: Any) -> None:
        if facts["state"] == "making":
            steps.hold("claim")

    with (
        ThreadPoolExecutor(3) as pool,
        failpoints.armed("names.before_write", claiming, at=None),
        failpoints.armed("checkpoint.created", steps.hold_by_thread),
        failpoints.armed("cleanup.recorded", lambda **_: steps.hold("recorded")),
    ):
        pinned, made = pool.submit(pin, graph, "a", old), pool.submit(create)
        steps.reached("found a", "claim")
        cleaned = pool.submit(lambda: graph.cleanup(**NOW))
        steps.reached("recorded")
        steps.go("found a")
        steps.reached("a")
        steps.go("claim")
        branched = error_of(made)
        steps.go("a")
        late = error_of(pinned)
        steps.go("recorded")
        assert error_of(cleaned) is None
    assert isinstance(late, Reclaimed) and isinstance(branched, Reclaimed), (late, branched)
    fresh = og.open(graph.uri)
    assert [one.name for one in fresh.branches.list()] == ["main"] and fresh.verify().ok


def test_what_a_checkpoint_has_kept_can_be_pinned_and_branched_from_again(graph: og.Graph) -> None:
    graph.checkpoints.create("first", graph.commits()[2].id)
    graph.cleanup(**NOW)
    pinned = graph.checkpoints.create("second", "first")
    graph.checkpoints.delete("first")
    graph.branches.create("feature", at="second")
    graph.checkpoints.delete("second")
    assert files(graph, layout.CHECKPOINTS) == []
    graph.cleanup(**NOW)
    assert graph.snapshot("feature").commit_id == pinned.commit_id
    assert graph.snapshot("feature").count("Person") == 2


def test_a_checkpoint_whose_making_was_interrupted_keeps_its_commit_and_proves_nothing(graph: og.Graph) -> None:
    old = graph.commits()[2].id
    with failpoints.armed("checkpoint.created", failpoints.FailpointHit), pytest.raises(failpoints.FailpointHit):
        graph.checkpoints.create("first", old)
    graph.cleanup(**NOW)
    assert graph.snapshot(at="first").count("Person") == 2
    with pytest.raises(Reclaimed):
        graph.checkpoints.create("second", "first")
    with pytest.raises(Reclaimed):
        graph.branches.create("feature", at="first")
    assert [one.name for one in graph.checkpoints.list()] == ["first"]


def doomed_of_main(graph: og.Graph) -> tuple[int, ...]:
    engine = engine_of(graph)
    policy = make_policy(1, None, "0s")
    seen = cleanup_look.look(engine, policy, None, engine.clock.now_us(), Meter())
    [line] = [one for one in seen.lines if one.place == (layout.MANIFEST, None)]
    return doom(line, policy, seen.now_us).doomed


@pytest.mark.parametrize("heir", ["branch", "checkpoint"])
def test_a_look_sees_what_is_handed_from_one_root_to_another_meanwhile(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, heir: str
) -> None:
    """A checkpoint is deleted once a branch, or another checkpoint, has been made of it: one of the two is seen."""
    version = graph.checkpoints.create("first", graph.commits()[2].id).manifest_version
    graph.cleanup(**NOW)
    assert version not in doomed_of_main(graph)
    other = og.open(graph.uri)
    done = threading.Event()

    def hand_over() -> None:
        if done.is_set():
            return
        done.set()
        if heir == "branch":
            other.branches.create("feature", at="first")
        else:
            other.checkpoints.create("second", "first")
        other.checkpoints.delete("first")

    if heir == "branch":  # the names are read, and what they stand for is not
        real = cleanup_look._branch
        monkeypatch.setattr(cleanup_look, "_branch", lambda *args: (hand_over(), real(*args))[1])
    else:  # the checkpoints are listed, and not read
        get = engine_of(graph).store.get

        def after_the_list(key: str, **facts: Any) -> bytes | None:
            if key.startswith(layout.CHECKPOINTS):
                hand_over()
            return get(key, **facts)

        monkeypatch.setattr(engine_of(graph).store, "get", after_the_list)
    assert version not in doomed_of_main(graph)
    assert done.is_set()


def test_a_list_whose_checkpoints_go_while_it_is_read_is_asked_for_again(
    any_root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with make(any_root, 1) as graph:
        graph.checkpoints.create("kept")
        with monkeypatch.context() as during:
            during.setattr(type(engine_of(graph).store), "get", lambda *_, **__: None)
            with pytest.raises(og.errors.Conflict) as caught:
                graph.checkpoints.list()
        assert caught.value.hint == "call again"
        assert [one.name for one in graph.checkpoints.list()] == ["kept"]
