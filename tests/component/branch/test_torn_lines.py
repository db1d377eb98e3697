"""What a power cut has torn of a branch: its line of the manifest, and its lines of tables. Main and other branches go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph import errors
from omnigraph.core import failpoints
from omnigraph.graph import open_for_repair
from omnigraph.store import layout
from omnigraph.table.dataset import TableRef
from omnigraph.table.version_list import version_path
from tests.component.branch.material import SCHEMA, person
from tests.component.upkeep.material import engine_of
from tests.component.upkeep.test_torn_files import DAMAGES, tear

PERSON = "node:Person"


@pytest.fixture
def root(tmp_path: Path) -> Iterator[str]:
    """A commit of main, three of branch ``b``: one person each."""
    with og.init(tmp_path / "g", SCHEMA, durability="relaxed") as graph:
        graph.load([person("main")], mode="append")
        graph.branches.create("b")
        for name in ("b1", "b2", "b3"):
            graph.load([person(name)], mode="append", branch="b")
    yield str(tmp_path / "g")


def line_file(root: str, below: int = 0, branch: str = "b") -> Path:
    """A version file of the line of a branch: the newest, or one of those below it."""
    with og.open(root, read_only=True) as graph:
        state = engine_of(graph).latest(branch).state
    return Path(root, version_path(TableRef(layout.MANIFEST, state.ref), state.version - below))


def table_file(root: str, above: int = 0) -> Path:
    with og.open(root, read_only=True) as graph:
        pin = engine_of(graph).latest("b").state.tables[PERSON]
    return Path(root, version_path(TableRef(pin.location, pin.ref), pin.version + above))


def names(graph: og.Graph, branch: str = "b", at: str | None = None) -> list[str]:
    return sorted(graph.snapshot(branch, at).to_arrow("Person")["name"].to_pylist())


def confirm(root: str) -> Any:
    with open_for_repair(root) as graph:
        return graph.repair(confirm=True)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_torn_newest_version_of_a_branch_is_named_and_moved_aside(root: str, damage: str) -> None:
    """Main is read and written meanwhile; only the branch is refused, with the command that puts it right."""
    file = line_file(root)
    with og.open(root, read_only=True) as graph:
        lost = graph.commits("b")[0].id
    tear(file, damage)
    torn = file.read_bytes()
    with og.open(root) as graph:
        with pytest.raises(errors.Corruption) as caught:
            graph.snapshot("b")
        assert file.name in caught.value.message and f"omnigraph repair {root} --confirm" in caught.value.hint
        graph.load([person("more")], mode="append")
        assert names(graph, "main") == ["main", "more"]
        with pytest.raises(errors.Refused) as refused:
            graph.plan_cleanup(keep=1, min_age="0s")
        assert refused.value.reason == "unreadable-branch"
    [line] = confirm(root).lines
    assert (line.action, line.given_up) == ("healed", (lost,)) and line.line is not None
    moved = Path(root, layout.QUARANTINED_VERSIONS)
    assert [one.read_bytes() for one in moved.rglob(file.name)] == [torn]
    with og.open(root) as graph:
        assert names(graph) == ["b1", "b2", "main"]
        graph.load([person("next")], mode="append", branch="b")
        assert names(graph) == ["b1", "b2", "main", "next"]
        graph.branches.merge("b")
        assert names(graph, "main") == ["b1", "b2", "main", "more", "next"]
        assert graph.verify(deep=True).ok


def test_the_handle_that_repaired_a_branch_reads_what_is_left(root: str) -> None:
    file = line_file(root)
    with og.open(root) as graph:
        assert names(graph) == ["b1", "b2", "b3", "main"]
        tear(file)
        assert [one.action for one in graph.repair(confirm=True).lines] == ["healed"]
        assert names(graph) == ["b1", "b2", "main"]
        graph.load([person("next")], mode="append", branch="b")
        assert names(graph) == ["b1", "b2", "main", "next"]


def test_a_torn_version_below_the_newest_costs_its_own_commit_alone(root: str) -> None:
    with og.open(root, read_only=True) as graph:
        middle = graph.commits("b")[1].id
    tear(line_file(root, below=1))
    [line] = confirm(root).lines
    assert line.given_up == (middle,)
    with og.open(root) as graph:
        assert names(graph) == ["b1", "b2", "b3", "main"]
        with pytest.raises(errors.Reclaimed):
            graph.snapshot("b", middle)
        graph.branches.merge("b")
        assert names(graph, "main") == ["b1", "b2", "b3", "main"]


def test_a_version_that_another_branch_was_made_from_is_not_moved(root: str) -> None:
    """It was synced before the other branch was made: what is torn since is damage, and no power cut's."""
    with og.open(root) as graph:
        graph.branches.create("c", from_="b")
    file = line_file(root)
    tear(file)
    before = file.read_bytes()
    [line] = confirm(root).lines
    assert line.action == "refused" and line.reason is not None and "'c'" in line.reason
    assert file.read_bytes() == before


def test_a_torn_version_of_a_fork_above_its_pin_is_moved_aside(root: str) -> None:
    with (
        og.open(root) as graph,
        failpoints.armed("publish.before_swap", "raise", at=1),
        pytest.raises(errors.OutcomeUnknown),
    ):
        graph.load([person("late")], mode="append", branch="b")
    tear(table_file(root, above=1))
    with og.open(root) as graph:
        graph.recover(grace_s=0)
        assert list(graph.intents()) == [] and names(graph) == ["b1", "b2", "b3", "main"]
        assert "TornVersionMovedAside" in [one.how for one in graph.recoveries()]
        graph.load([person("late")], mode="append", branch="b")
        assert names(graph) == ["b1", "b2", "b3", "late", "main"]


def test_a_fork_whose_first_version_is_torn_is_left_and_made_anew(root: str) -> None:
    """A plan that dies after its fork: the fork is named by no pin, and the next writer makes one of its own."""
    with og.open(root) as graph:
        graph.branches.create("c")
        with failpoints.armed("publish.before_swap", "raise", at=1), pytest.raises(errors.OutcomeUnknown):
            graph.load([person("late")], mode="append", branch="c")
        [op] = [one.operation_id for one in graph.intents()]
        pin = engine_of(graph).latest("main").state.tables[PERSON]
    for file in Path(root, pin.location, "tree", f"f-{op}", "_versions").iterdir():
        tear(file)
    with og.open(root) as graph:
        graph.recover(grace_s=0)
        assert list(graph.intents()) == [] and names(graph, "c") == ["main"]
        graph.load([person("late")], mode="append", branch="c")
        assert names(graph, "c") == ["late", "main"] and names(graph, "main") == ["main"]
        for _ in range(2):
            graph.cleanup(keep=1, min_age="0s", confirm=True)
        assert not Path(root, pin.location, "tree", f"f-{op}").exists()


def test_a_pin_of_a_branch_that_names_a_torn_version_leads_back_where_nothing_was_synced(root: str) -> None:
    with og.open(root, read_only=True) as graph:
        lost = graph.commits("b")[0].id
    tear(table_file(root))
    [line] = confirm(root).lines
    assert line.given_up == (lost,) and PERSON in line.moved[0].why
    with og.open(root) as graph:
        assert names(graph) == ["b1", "b2", "main"] and names(graph, "main") == ["main"]


def test_a_branch_whose_every_version_is_torn_is_left_as_it_is(root: str) -> None:
    """Version 1 was synced before the name was bound, so this is damage, and nothing whole would be left."""
    with og.open(root, read_only=True) as graph:
        ref = TableRef(layout.MANIFEST, engine_of(graph).latest("b").state.ref)
    versions = list(Path(root, ref.relative, "_versions").iterdir())
    for file in versions:
        tear(file)
    before = [file.read_bytes() for file in versions]
    [line] = confirm(root).lines
    assert (line.action, line.newest_left) == ("refused", None) and line.reason is not None and "'b'" in line.reason
    assert [file.read_bytes() for file in versions] == before
    with og.open(root) as graph:
        assert names(graph, "main") == ["main"]
        with pytest.raises(errors.Corruption):
            graph.snapshot("b")
