"""Upkeep of all branches, while others make and delete some: those are passed over, by identity, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.commit import lines as graph_lines
from omnigraph.core import failpoints
from omnigraph.core.errors import Corruption, NotFound, Refused
from omnigraph.store import layout
from omnigraph.table.dataset import TableRef
from omnigraph.upkeep import cleanup_look
from omnigraph.upkeep import recover as recovering
from omnigraph.upkeep import repair as repairing
from tests.component.branch.test_torn_lines import line_file
from tests.component.upkeep.material import engine_of, make, people
from tests.component.upkeep.test_torn_files import tear

NOW: dict[str, Any] = {"keep": 1, "min_age": "0s"}
Rival = Callable[[str], None]


def deletes(uri: str) -> None:
    with og.open(uri) as other:
        other.branches.delete("x")


def makes_it_again(uri: str) -> None:
    with og.open(uri) as other:
        other.branches.delete("x")
        other.branches.create("x")
        other.load(people("again"), mode="append", branch="x")


def cleans_up(uri: str) -> None:
    with og.open(uri) as other:
        other.branches.delete("x")
        other.cleanup(**NOW, confirm=True)


def tears(uri: str) -> None:
    tear(line_file(uri, branch="x"))


def unreadable_history(uri: str) -> None:
    """The newest state reads; an older one that is still needed does not."""
    tear(line_file(uri, below=1, branch="x"))


RIVALS: tuple[Rival, ...] = (deletes, makes_it_again, cleans_up)


@pytest.fixture
def graph(local_root: str) -> og.Graph:
    """Commits of main, and some of two branches with a line of their own each."""
    graph = make(local_root, 3)
    for branch in ("x", "z"):
        graph.branches.create(branch)
        for name in ("a", "b", "c"):
            graph.load(people(f"{branch}{name}"), mode="append", branch=branch)
    return graph


def once(rival: Rival, uri: str) -> Callable[..., None]:
    acted: list[str] = []

    def act(**_: Any) -> None:
        if not acted:
            acted.append(uri)
            rival(uri)

    return act


def before(patch: pytest.MonkeyPatch, owner: Any, name: str, act: Callable[..., None]) -> None:
    real = getattr(owner, name)
    patch.setattr(owner, name, lambda *given, **more: (act(), real(*given, **more))[1])


def whole(graph: og.Graph, rival: Rival | None = None) -> None:
    failpoints.disarm()
    with og.open(graph.uri) as fresh:
        assert fresh.verify(deep=True).ok
        assert fresh.snapshot().count("Person") == 3 and fresh.snapshot("z").count("Person") == 6
        if rival is makes_it_again:
            assert fresh.snapshot("x").count("Person") == 4
        fresh.load(people("more"), mode="append", branch="z")


# --- recovery and repair ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rival", RIVALS)
def test_recovery_passes_over_a_branch_that_is_deleted_meanwhile(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, rival: Rival
) -> None:
    before(monkeypatch, recovering, "unresolved", once(rival, graph.uri))
    report = graph.recover(grace_s=0)
    assert report.left == () and report.drifting == ()
    whole(graph, rival)


@pytest.mark.parametrize("rival", [deletes, cleans_up])
def test_recovery_of_a_branch_that_was_named_says_that_it_is_gone(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, rival: Rival
) -> None:
    before(monkeypatch, recovering, "unresolved", once(rival, graph.uri))
    with pytest.raises(NotFound) as caught:
        graph.recover(grace_s=0, branches=["main", "x"])
    assert caught.value.facts["branch"] == "x"


def test_recovery_never_passes_over_a_line_that_does_not_read(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    before(monkeypatch, recovering, "unresolved", once(tears, graph.uri))
    with pytest.raises(Corruption):
        graph.recover(grace_s=0)


def test_no_table_is_put_back_for_a_branch_that_is_deleted_meanwhile(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of(graph)
    pin = engine.latest("x").state.tables["node:Person"]
    ref = TableRef(pin.location, pin.ref)
    above = stray(graph, "x")
    before(monkeypatch, recovering, "unresolved", once(deletes, graph.uri))
    graph.recover(grace_s=0)
    assert engine.tables.open_latest(ref).version == above
    whole(graph)


def stray(graph: og.Graph, branch: str) -> int:
    """A version above the pin that no operation claims."""
    engine = engine_of(graph)
    pin = engine.latest(branch).state.tables["node:Person"]
    ref = TableRef(pin.location, pin.ref)
    newest = engine.tables.open_latest(ref)
    landed = engine.tables.commit(ref, newest, engine.tables.stage_append(newest, newest.to_table()))
    assert landed.version > pin.version
    return int(landed.version)


@pytest.mark.parametrize("confirm", [False, True])
@pytest.mark.parametrize("rival", [deletes, makes_it_again])
def test_repair_passes_over_a_branch_that_is_deleted_meanwhile(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, rival: Rival, confirm: bool
) -> None:
    stray(graph, "z")
    before(monkeypatch, repairing, "partial", once(rival, graph.uri))
    [table] = graph.repair(confirm=confirm).tables
    assert (table.table_key, table.action) == ("node:Person", "healed" if confirm else "preview")
    graph.recover(grace_s=0)
    whole(graph, rival)


# --- cleanup ----------------------------------------------------------------------------------------------------------------

SPOTS = ("cleanup.looked", "cleanup.marked", "cleanup.judged", "cleanup.bounded")


@pytest.mark.parametrize("spot", SPOTS)
@pytest.mark.parametrize("rival", RIVALS)
def test_cleanup_passes_over_a_branch_that_is_deleted_meanwhile(graph: og.Graph, rival: Rival, spot: str) -> None:
    with failpoints.armed(spot, once(rival, graph.uri)):
        report = graph.cleanup(**NOW, confirm=True)
    assert not report.errors
    assert report.versions or rival is cleans_up, "the other branches are cleaned up all the same"
    whole(graph, rival)


@pytest.mark.parametrize("rival", RIVALS)
def test_cleanup_passes_over_a_branch_that_is_deleted_before_its_mark_is_set(graph: og.Graph, rival: Rival) -> None:
    """Main's mark is set first; then those of the branches."""
    with failpoints.armed("advance.before_swap", once(rival, graph.uri), at=2):
        report = graph.cleanup(**NOW, confirm=True)
    assert not report.errors
    assert report.versions or rival is cleans_up, "the other branches are cleaned up all the same"
    whole(graph, rival)


@pytest.mark.parametrize("rival", RIVALS)
def test_a_plan_passes_over_a_branch_that_was_deleted_since(graph: og.Graph, rival: Rival) -> None:
    plan = graph.plan_cleanup(**NOW)
    rival(graph.uri)
    assert not graph.cleanup(plan).errors
    whole(graph, rival)


def test_a_plan_for_a_branch_that_was_named_says_that_it_is_gone(graph: og.Graph) -> None:
    plan = graph.plan_cleanup(**NOW, branches=["main", "x"])
    deletes(graph.uri)
    with pytest.raises(NotFound) as caught:
        graph.cleanup(plan)
    assert caught.value.facts["branch"] == "x"


@pytest.mark.parametrize("spot", SPOTS)
def test_cleanup_of_a_branch_that_was_named_says_that_it_is_gone(graph: og.Graph, spot: str) -> None:
    with failpoints.armed(spot, once(deletes, graph.uri)), pytest.raises(NotFound) as caught:
        graph.cleanup(**NOW, branches=["x"], confirm=True)
    assert caught.value.facts["branch"] == "x"
    whole(graph)


@pytest.mark.parametrize("spot", SPOTS)
def test_cleanup_never_passes_over_a_line_that_does_not_read(graph: og.Graph, spot: str) -> None:
    with failpoints.armed(spot, once(tears, graph.uri)), pytest.raises((Refused, Corruption)):
        graph.cleanup(**NOW, confirm=True)


def test_a_line_that_goes_while_the_branches_are_read_is_no_damage(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names are read, and what they stand for is not."""
    act = once(cleans_up, graph.uri)
    before(monkeypatch, graph_lines, "Lines", act)
    engine = engine_of(graph)
    engine.drop("x")
    assert graph.plan_cleanup(**NOW).branches == ("main", "z")
    whole(graph)


def test_a_line_that_goes_while_it_is_judged_is_no_damage(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    real, act = cleanup_look._branch, once(cleans_up, graph.uri)

    def judged(*given: Any) -> Any:
        if given[-1].name == "x":
            act()
        return real(*given)

    monkeypatch.setattr(cleanup_look, "_branch", judged)
    assert graph.plan_cleanup(**NOW).branches == ("main", "z")
    whole(graph)


def test_a_line_that_does_not_read_while_it_is_judged_is_damage(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, act = cleanup_look._branch, once(unreadable_history, graph.uri)

    def judged(*given: Any) -> Any:
        if given[-1].name == "x":
            act()
        return real(*given)

    monkeypatch.setattr(cleanup_look, "_branch", judged)
    with pytest.raises(Refused) as caught:
        graph.plan_cleanup(keep=2, min_age="0s")
    assert caught.value.reason == "unreadable-branch"


def test_a_line_that_is_missing_under_its_name_is_damage(graph: og.Graph) -> None:
    identity = engine_of(graph).latest("x").state.identity
    line = Path(graph.uri, layout.MANIFEST_LINES, layout.branch_ref(identity))
    line.rename(line.with_name("gone").parent.parent.parent / "gone")
    with og.open(graph.uri) as fresh, pytest.raises(Refused) as caught:
        fresh.cleanup(**NOW, confirm=True)
    assert caught.value.reason == "unreadable-branch"


# --- what is written while a cleanup looks ------------------------------------------------------------------------------------


def test_a_fork_whose_first_commit_lands_while_a_cleanup_looks_is_no_damage(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables are listed, and the manifests are not read."""
    graph.branches.create("new")

    def writes(uri: str) -> None:
        with og.open(uri) as other:
            other.load(people("first"), mode="append", branch="new")

    before(monkeypatch, cleanup_look, "_checkpoints", once(writes, graph.uri))
    plan = graph.plan_cleanup(**NOW)
    assert "new" in plan.branches
    graph.cleanup(plan)
    assert graph.snapshot("new").count("Person") == 4
    whole(graph)


def test_a_commit_that_lands_while_a_cleanup_looks_is_no_damage(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest commit alone is kept, and its version was not there when the tables were listed."""

    def writes(uri: str) -> None:
        with og.open(uri) as other:
            other.load(people("za"), mode="merge", branch="z")

    before(monkeypatch, cleanup_look, "_checkpoints", once(writes, graph.uri))
    assert graph.plan_cleanup(**NOW).versions > 0
    whole(graph)


def test_a_version_that_is_not_there_at_the_second_look_either_is_damage(graph: og.Graph) -> None:
    pin = engine_of(graph).latest("x").state.tables["node:Person"]
    for file in Path(graph.uri, pin.location, "tree", str(pin.ref), "_versions").iterdir():
        file.unlink()
    with og.open(graph.uri) as fresh, pytest.raises(Refused) as caught:
        fresh.plan_cleanup(**NOW)
    assert caught.value.reason == "missing-version"
