"""A compactor and a cleaner beside writers and readers, in real processes: content is the writers', snapshots stay whole."""

from __future__ import annotations

from typing import Any

import pytest

import omnigraph as og
from omnigraph.testing import upkeep_workload as work
from omnigraph.testing.children import Child

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]
WRITERS = ("ann", "bob")
MIN_AGE_S = 2


def together(root: str, writes: int, rounds: int) -> list[Any]:
    """Run everybody; what they said."""
    children = [
        *(Child(work.write, root, name, writes) for name in WRITERS),
        Child(work.read, root, 4 * rounds, float(MIN_AGE_S)),
        Child(work.optimize, root, rounds),
        Child(work.clean, root, rounds, MIN_AGE_S),
    ]
    said: list[Any] = []
    try:
        for child in children:
            said += child.hear_all(240)
    finally:
        for child in children:
            if child.alive:
                child.kill()
    return said


def check(root: str, said: list[Any], writes: int) -> None:
    assert [line for line in said if line[0] == "broken"] == []
    assert [line for line in said if line[0] == "failed"] == []
    assert sum(line[0] == "done" for line in said) == len(WRITERS) + 3
    with og.open(root) as graph:
        graph.recover(grace_s=0)
        people = set(graph.snapshot().to_arrow("Person")["name"].to_pylist())
        wrote = {line[1] for line in said if line[0] == "wrote"}
        assert people == {"hub", *WRITERS, *wrote} and len(wrote) == writes * len(WRITERS)
        assert graph.snapshot().count("Knows") == len(wrote)
        for name in WRITERS:
            row = graph.snapshot().get("Person", name)
            assert row is not None and row["age"] == writes - 1
        commits = [commit.id for commit in graph.commits() if commit.kind == "load"]
        assert len(commits) == 1 + len(wrote)
        assert graph.verify(deep=True).clean


def test_upkeep_beside_writers_and_readers_on_a_disk(local_root: str) -> None:
    work.start(local_root)
    said = together(local_root, writes=15, rounds=6)
    check(local_root, said, writes=15)
    assert any(line[0] == "optimized" and line[1] for line in said)


def test_upkeep_beside_writers_and_readers_on_s3(s3_root: str) -> None:
    work.start(s3_root)
    said = together(s3_root, writes=6, rounds=2)
    check(s3_root, said, writes=6)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_upkeep_beside_writers_and_readers_for_long(any_root: str) -> None:
    work.start(any_root)
    said = together(any_root, writes=150, rounds=60)
    check(any_root, said, writes=150)
    assert sum(line[1] for line in said if line[0] == "cleaned") > 0
