"""An edge and the removal of its end, at the same time: an orphan is never committed, and harmless neighbours both land."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.core import failpoints
from omnigraph.core.errors import DataInvalid, OmnigraphError
from omnigraph.testing import skew
from omnigraph.testing.children import Child
from omnigraph.testing.content import commits_of, faults_of

LEANING = ["insert edge", "insert edge from", "insert edge and its node", "insert edge of another type", "load edge"]
REMOVING = ["delete node", "delete nodes", "overwrite nodes"]
PAIRS = [*itertools.product(LEANING, REMOVING), *itertools.product(REMOVING, LEANING)]
LAST = "publish.before_swap"
EARLIER = ["arm.before", "apply.before_commit"]
CASES = [
    *((first, rival, LAST) for first, rival in PAIRS),
    *((first, rival, place) for first, rival in PAIRS[::4] for place in EARLIER),
]


@pytest.fixture
def pair(local_root: str) -> Iterator[tuple[og.Graph, og.Graph]]:
    """Two handles on one graph: nothing of this process orders them."""
    with og.init(local_root, skew.SCHEMA, actor="one") as one, og.open(local_root, actor="other") as other:
        skew.seed(one)
        yield one, other


def interleaved(one: og.Graph, first: str, other: og.Graph, rival: str, place: str) -> tuple[Any, Any]:
    """How both ended, where the rival runs whole at one place of the first."""
    ended: list[Any] = []

    def strike(**_: Any) -> None:
        ended.append(outcome(other, rival))

    with failpoints.armed(place, strike):
        return outcome(one, first), ended[0]


def outcome(graph: og.Graph, name: str) -> Any:
    try:
        return skew.act(graph, name)
    except OmnigraphError as error:
        return error


def orphans(graph: og.Graph) -> list[str]:
    return [fault for fault in faults_of(graph._engine, quiet=False) if "dangles" in fault]


@pytest.mark.parametrize(("first", "rival", "place"), CASES)
def test_no_orphan_is_committed(pair: tuple[og.Graph, og.Graph], first: str, rival: str, place: str) -> None:
    one, other = pair
    mine, theirs = interleaved(one, first, other, rival, place)
    assert faults_of(one._engine) == []
    assert not isinstance(theirs, OmnigraphError) and theirs.commit_id
    people = set(one.snapshot().to_arrow("Person")["id"].to_pylist())
    if isinstance(mine, OmnigraphError):
        # Refused for what the graph had become, not for having met somebody.
        assert isinstance(mine, DataInvalid), mine
        assert first in LEANING or first == "overwrite nodes"
    elif first == "insert edge and its node":
        assert people == {"a", "b"}, "the node that had gone was inserted again"
    elif first.startswith("delete"):
        assert people == {"a"} and one.snapshot().count("Knows") + one.snapshot().count("At") == 0


@pytest.mark.parametrize(
    ("first", "rival"),
    [
        ("insert edge", "delete node"),
        ("insert edge from", "delete nodes"),
        ("insert edge of another type", "delete node"),
        ("insert edge", "overwrite nodes"),
        ("delete node", "insert edge"),
        ("delete nodes", "insert edge of another type"),
        ("delete node", "load edge"),
        ("overwrite nodes", "insert edge"),
    ],
)
def test_without_the_check_of_what_was_read_there_would_be_one(
    pair: tuple[og.Graph, og.Graph], first: str, rival: str
) -> None:
    one, other = pair
    with skew.blind():
        interleaved(one, first, other, rival, "publish.before_swap")
    assert orphans(one)


@pytest.mark.parametrize(
    ("first", "rival"),
    [
        ('insert Knows { from: "a", to: "b" }', 'delete Person where name = "c"'),
        ('delete Person where name = "c"', 'insert Knows { from: "a", to: "b" }'),
        ('insert Knows { from: "a", to: "b" }', 'insert Person { name: "n" }'),
        ('insert Knows { from: "a", to: "b" }', 'update Person set { age: 3 } where name = "b"'),
        ('insert Person { name: "n" }', 'insert Knows { from: "a", to: "b" }'),
        ('update Place set { kind: "x" } where name = "here"', 'delete Person where name = "c"'),
        ('delete Place where name = "nowhere" delete Person where name = "c"', 'insert Place { name: "there" }'),
    ],
)
def test_a_pair_that_does_not_conflict_lands_without_either_being_repeated(
    local_root: str, first: str, rival: str
) -> None:
    schema = skew.SCHEMA.replace("node Place { name: String @key }", "node Place { name: String @key  kind: String? }")
    with og.init(local_root, schema) as one, og.open(local_root) as other:
        skew.seed(one, ("a", "b", "c"))
        rivals: list[Any] = []

        def strike(**_: Any) -> None:
            rivals.append(other.mutate(f"query q() {{ {rival} }}"))

        with failpoints.armed("publish.before_swap", strike), failpoints.recording() as passed:
            mine = one.mutate(f"query q() {{ {first} }}")
        assert mine.commit_id and rivals[0].commit_id
        assert not [name for name, _ in passed if name.startswith("abort.")]
        assert faults_of(one._engine) == []
        assert one.commit(mine.commit_id).parents == (rivals[0].commit_id,)


def test_a_delete_that_was_overtaken_takes_the_new_edge_along(pair: tuple[og.Graph, og.Graph]) -> None:
    one, other = pair
    mine, theirs = interleaved(one, "delete node", other, "insert edge", "publish.before_swap")
    assert (mine.affected_nodes, mine.affected_edges) == (1, 1)
    assert theirs.affected_edges == 1


def test_an_update_that_was_overtaken_runs_again_on_what_it_finds(local_root: str) -> None:
    with og.init(local_root, skew.SCHEMA) as one, og.open(local_root) as other:
        skew.seed(one, ("a", "b"))

        def strike(**_: Any) -> None:
            other.mutate(
                'query q() { update Person set { age: 7 } where name = "a" insert Person { name: "c", age: 7 } }'
            )

        with failpoints.armed("arm.before", strike):
            receipt = one.mutate('query q() { update Person set { age: 9 } where age = 7 insert Place { name: "x" } }')
        ages = {row["id"]: row["age"] for row in one.snapshot().to_arrow("Person").to_pylist()}
        assert ages == {"a": 9, "b": None, "c": 9} and receipt.affected_nodes == 3
        assert faults_of(one._engine) == []


# --- across processes -----------------------------------------------------------------------------------------------------


def stopped_and_overtaken(root: str, first: str, rival: str, gate: Path, *, forgetful: bool) -> tuple[Any, Any]:
    """A process of its own stands still in the last moment before its swap; the rival runs here; then it goes on.

    The rival has the graph open already: opening it now would publish the complete plan of the other."""
    os.mkfifo(gate)
    with og.open(root, actor="rival") as graph, Child(skew.one_act, root, first, str(gate), forgetful) as child:
        assert child.hear() == "publishing"
        with skew.blind() if forgetful else nullcontext():
            theirs = outcome(graph, rival)
        gate.write_bytes(b"go")
        ended = child.hear()
    return ended, theirs


@pytest.mark.processes
@pytest.mark.parametrize(
    ("first", "rival"),
    [
        ("insert edge", "delete node"),
        ("insert edge", "overwrite nodes"),
        ("delete node", "insert edge"),
        ("overwrite nodes", "insert edge"),
    ],
)
@pytest.mark.parametrize("forgetful", [False, True], ids=["as it is", "without the check"])
def test_a_process_that_is_overtaken_commits_no_orphan(
    local_root: str, tmp_path: Path, first: str, rival: str, forgetful: bool
) -> None:
    with og.init(local_root, skew.SCHEMA) as graph:
        skew.seed(graph)
    ended, theirs = stopped_and_overtaken(local_root, first, rival, tmp_path / "gate", forgetful=forgetful)
    with og.open(local_root) as graph:
        if forgetful:
            assert orphans(graph)
            return
        assert faults_of(graph._engine) == []
        assert ended[0] in ("done", "data-invalid") and not isinstance(theirs, OmnigraphError)
        if first == "delete node":
            assert ended[0] == "done" and graph.snapshot().count("Knows") == 0


@pytest.mark.processes
@pytest.mark.timeout(300)
@pytest.mark.parametrize("count", [12, pytest.param(150, marks=pytest.mark.long)])
def test_processes_that_link_and_remove_the_same_people_leave_no_orphan(
    any_root: str, s3_environment: dict[str, str], count: int
) -> None:
    with og.init(any_root, skew.SCHEMA) as graph:
        skew.seed(graph, skew.NAMES)
    names = ("p", "q", "r", "s")
    children = [Child(skew.many_acts, any_root, name, count, env=s3_environment) for name in names]
    told = [line for child in children for line in child.hear_all(280)]
    assert len(told) == count * len(names)
    assert {code for code, _ in told} <= {"done", "data-invalid"}, set(told)
    with og.open(any_root) as graph:
        assert faults_of(graph._engine) == []
        lineage = {row.commit_id for row in commits_of(graph._engine)}
        assert {commit for code, commit in told if code == "done" and commit} <= lineage
