"""A swap that was on its way while its number was doomed: the author finds out, and nothing is lost or done twice.

The store holds a version's PUT back (S3), or the writer stands still right before it (disk). Meanwhile others commit and
clean up, so that the number is free again when the PUT arrives. It "succeeds", and nobody will ever see that version.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

import omnigraph as og
from omnigraph.commit.engine import MAIN
from omnigraph.commit.plan import Owner
from omnigraph.core import failpoints
from omnigraph.core.ids import new_ulid
from omnigraph.core.meter import Meter
from omnigraph.graph import Graph
from omnigraph.manifest.boundary import Boundary
from omnigraph.testing.faults import FaultProxy, Match, Rule, hold
from omnigraph.upkeep.cleanup_boundary import change_head
from tests.component.upkeep.material import engine_of, make, people

ELSEWHERE = Owner("elsewhere", "another-boot", 1, 1)
WAIT_S = 60


@contextmanager
def _asleep_on_s3(sleeper: Graph, proxy: FaultProxy) -> Iterator[Callable[[], Any]]:
    held = proxy.rule(Rule(hold(), Match(methods=("PUT",), key=r"__manifest/_versions/")))
    with ThreadPoolExecutor(1) as pool:
        write = pool.submit(sleeper.load, people("sleeper"), mode="append")
        held.wait_fired()

        def wake() -> Any:
            held.release()
            return write.result(WAIT_S)

        try:
            yield wake
        finally:
            held.release()


@contextmanager
def _asleep_on_disk(sleeper: Graph) -> Iterator[Callable[[], Any]]:
    there, go = threading.Event(), threading.Event()

    def pause(**_: object) -> None:
        there.set()
        assert go.wait(WAIT_S)

    with failpoints.armed("publish.before_swap", pause), ThreadPoolExecutor(1) as pool:
        write = pool.submit(sleeper.load, people("sleeper"), mode="append")
        assert there.wait(WAIT_S)

        def wake() -> Any:
            go.set()
            return write.result(WAIT_S)

        try:
            yield wake
        finally:
            go.set()


@pytest.fixture(params=["disk", "s3"])
def place(request: pytest.FixtureRequest) -> tuple[str, Callable[[Graph], Any]]:
    if request.param == "disk":
        return request.getfixturevalue("local_root"), _asleep_on_disk
    proxy: FaultProxy = request.getfixturevalue("fault_proxy")
    root: str = request.getfixturevalue("proxied_root")
    return root, lambda graph: _asleep_on_s3(graph, proxy)


def others_write_and_clean(graph: Graph, *, published: bool) -> str:
    """End the sleeper's plan, write on, and free its number. Returns what became of the plan."""
    if not published:
        # A cleanup sets its mark while the plan is on its way: whoever ends that may not publish it any more.
        change_head(engine_of(graph), MAIN, lambda head: replace(head, mark=new_ulid()), Meter())
    [recovered] = graph.recover(grace_s=0).recovered
    for number in range(4):
        graph.load([{"type": "Place", "data": {"title": f"place {number}"}}], mode="append")
    graph.cleanup(keep=1, min_age="0s", confirm=True)
    return recovered.decision


def ghost_and_boundary(graph: Graph, version: int) -> tuple[bool, int]:
    engine = engine_of(graph)
    identity = engine.latest(MAIN).state.identity
    return engine.tables.exists(engine.manifest.ref(None), version), engine.boundary.value(identity)


def sleepers(graph: Graph) -> list[str]:
    names = graph.snapshot().to_arrow("Person")["name"].to_pylist()
    return [name for name in names if name == "sleeper"]


def test_a_swap_that_lands_on_a_freed_number_is_noticed_and_the_write_is_made_again(
    place: tuple[str, Callable[[Graph], Any]],
) -> None:
    root, asleep = place
    make(root).close()
    with og.open(root) as sleeper, og.open(root) as graph:
        engine_of(sleeper).owner = ELSEWHERE
        number = engine_of(sleeper).latest(MAIN).version + 1
        with asleep(sleeper) as wake:
            assert others_write_and_clean(graph, published=False) == "roll-back"
            assert ghost_and_boundary(graph, number)[0] is False
            receipt = wake()
        there, boundary = ghost_and_boundary(graph, number)
        assert there and number <= boundary, "the PUT did not land on the freed number; this test shows nothing"
        assert sleepers(graph) == ["sleeper"]
        assert graph.outcome(receipt.commit_id).state == "landed"
        assert graph.verify().clean
        graph.load(people("next"), mode="append")


def test_a_swap_that_somebody_else_had_published_and_cleaned_up_is_not_made_twice(
    place: tuple[str, Callable[[Graph], Any]],
) -> None:
    root, asleep = place
    make(root).close()
    with og.open(root) as sleeper, og.open(root) as graph:
        engine_of(sleeper).owner = ELSEWHERE
        number = engine_of(sleeper).latest(MAIN).version + 1
        with asleep(sleeper) as wake:
            assert others_write_and_clean(graph, published=True) == "roll-forward"
            receipt = wake()
        there, boundary = ghost_and_boundary(graph, number)
        assert there and number <= boundary
        assert sleepers(graph) == ["sleeper"]
        assert graph.outcome(receipt.commit_id).state == "landed"
        assert [commit.id for commit in graph.commits()].count(receipt.commit_id) == 1
        assert graph.verify().clean


def test_without_the_look_at_the_boundary_the_write_is_acknowledged_and_lost(
    place: tuple[str, Callable[[Graph], Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted defect: what the two tests above would miss if the author did not look."""
    root, asleep = place
    make(root).close()
    with og.open(root) as sleeper, og.open(root) as graph:
        engine_of(sleeper).owner = ELSEWHERE
        blind = engine_of(sleeper).boundary
        look = Boundary.value
        monkeypatch.setattr(
            Boundary, "value", lambda self, identity, **rest: 0 if self is blind else look(self, identity, **rest)
        )
        with asleep(sleeper) as wake:
            others_write_and_clean(graph, published=False)
            receipt = wake()
        assert receipt.commit_id is not None
        assert sleepers(graph) == []
        assert graph.outcome(receipt.commit_id).state == "aborted"
