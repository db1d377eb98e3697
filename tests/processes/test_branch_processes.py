"""Branches that several real processes make, write, merge and delete beside upkeep: what was acknowledged stays, or was deleted."""

from __future__ import annotations

import pytest

from omnigraph.testing import branch_workload as branches
from omnigraph.testing.children import Child

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]
LONG = [pytest.mark.long, pytest.mark.timeout(3000)]
FOUR = ("ann", "bob", "cid", "dan")


@pytest.mark.parametrize("lives", [3, pytest.param(250, marks=LONG)])
def test_one_name_is_made_and_deleted_by_four_processes(local_root: str, lives: int) -> None:
    """Beside a cleaner, and one who trims the names and repeats his deletes late."""
    branches.start(local_root)
    workers = [Child(branches.live, local_root, who, "x", lives) for who in FOUR]
    upkeep = [Child(branches.clean, local_root), Child(branches.trim, local_root)]
    said = branches.together(local_root, workers, upkeep, 2500)
    assert list(branches.faults(local_root, said, done=6)) == []
    made = [line[2] for line in said if line[0] == "made"]
    assert len(made) == len(set(made)) >= lives * len(FOUR)
    assert {line[0] for line in said} >= {"wrote", "deleted", "cleaned", "trimmed"}


@pytest.mark.parametrize("rounds", [2, pytest.param(40, marks=LONG)])
def test_one_table_is_forked_by_four_processes_at_once(local_root: str, rounds: int) -> None:
    """On four branches, and on one: every first write is there, and nothing of main has changed."""
    branches.start(local_root)
    with branches.graphs.open(local_root) as graph:
        for number in range(rounds):
            graph.branches.create(f"all-{number}")
    workers = [Child(branches.fork, local_root, who, rounds) for who in FOUR]
    said = branches.together(local_root, workers, [], 2500)
    assert list(branches.faults(local_root, said, done=4)) == []
    assert sum(line[0] == "wrote" for line in said) == 2 * rounds * len(FOUR)
    with branches.graphs.open(local_root, read_only=True) as graph:
        assert graph.snapshot().count("Person") == 3
        for number in range(rounds):
            assert graph.snapshot(f"all-{number}").count("Person") == 3 + len(FOUR)
            forks = {graph._engine.latest(f"{who}-{number}").state.tables["node:Person"].ref for who in FOUR}
            assert len(forks) == len(FOUR)


@pytest.mark.parametrize("rounds", [4, pytest.param(60, marks=LONG)])
def test_branches_are_written_merged_and_deleted_beside_upkeep(local_root: str, rounds: int) -> None:
    branches.start(local_root)
    workers = [
        *(Child(branches.work, local_root, who, "shared", rounds) for who in FOUR[:2]),
        Child(branches.remake, local_root, "shared", 3 * rounds),
    ]
    upkeep = [Child(branches.clean, local_root), Child(branches.recover, local_root, 0.5)]
    said = branches.together(local_root, workers, upkeep, 2500)
    assert list(branches.faults(local_root, said, done=5)) == []
    assert {line[0] for line in said} >= {"made", "wrote", "merged", "deleted", "cleaned", "recovered"}


def test_planted_a_commit_that_is_lost_is_found(local_root: str) -> None:
    """The judge asks for every acknowledged branch and row, and for half a write."""
    branches.start(local_root)
    said: list[object] = []
    branches.work(said.append, local_root, "ann", "shared", 3)
    with branches.graphs.open(local_root) as graph:
        left = [
            *said,
            ("wrote", "ann-2", branches.identity_of(graph, "ann-2"), "lost"),
            ("wrote", "ann-0", None, "lost"),
        ]
        found = list(branches.faults(local_root, [*left, ("made", "ann-9", "nobody"), ("broken", "x")], done=1))
        assert len(found) == 4 and sum("lost was written" in one for one in found) == 1
        graph.load([branches.person("half")], mode="append")
    with pytest.raises(AssertionError, match="half a write"):
        list(branches.faults(local_root, said, done=1))
