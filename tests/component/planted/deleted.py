"""Upkeep beside a process that deletes branches: upkeep skips a deleted branch, and refuses a line that it cannot read."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.commit import lines as graph_lines
from omnigraph.commit.decide import Decision, Evidence, Line, decide
from omnigraph.commit.recovery import drift
from omnigraph.commit.recovery import recover as recovery
from omnigraph.core import failpoints
from omnigraph.core.errors import OmnigraphError, OutcomeUnknown
from omnigraph.store import layout
from omnigraph.table.dataset import TableRef
from omnigraph.upkeep import cleanup_look
from omnigraph.upkeep import recover as recovering
from tests.component.branch import test_deleted_meanwhile as meanwhile
from tests.component.planted.scenes import Defect, Engines, setting
from tests.component.upkeep.material import engine_of, make, people

PERSON = "node:Person"
_numbers = itertools.count()


def made(engines: Engines) -> og.Graph:
    """Three commits of main, and a branch ``x`` that has written."""
    graph = make(f"{engines().uri}-deleted-{next(_numbers)}", 3)
    graph.branches.create("x")
    for name in ("xa", "xb"):
        graph.load(people(name), mode="append", branch="x")
    return graph


def refuses(act: Callable[[], Any], what: str) -> list[str]:
    try:
        act()
    except OmnigraphError:
        return []
    return [what]


def a_line_is_torn_while_recovery_reads(engines: Engines) -> list[str]:
    graph = made(engines)
    with pytest.MonkeyPatch.context() as patch:
        meanwhile.before(patch, recovering, "unresolved", meanwhile.once(meanwhile.tears, graph.uri))
        return refuses(lambda: graph.recover(grace_s=0), "a torn line is passed over")


def a_line_is_torn_while_it_is_judged(engines: Engines) -> list[str]:
    graph = made(engines)
    real, tear = cleanup_look._branch, meanwhile.once(meanwhile.unreadable_history, graph.uri)

    def judged(*given: Any) -> Any:
        if given[-1].name == "x":
            tear()
        return real(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cleanup_look, "_branch", judged)
        return refuses(lambda: graph.plan_cleanup(keep=2, min_age="0s"), "a torn line is passed over")


def a_bound_name_has_no_line(engines: Engines) -> list[str]:
    graph = made(engines)
    ref = layout.branch_ref(engine_of(graph).latest("x").state.identity)
    Path(graph.uri, layout.MANIFEST_LINES, ref).rename(Path(graph.uri, "away"))
    with og.open(graph.uri) as fresh:
        return refuses(lambda: fresh.plan_cleanup(**meanwhile.NOW), "a lost line is passed over")


def a_version_of_a_table_is_gone(engines: Engines) -> list[str]:
    graph = made(engines)
    pin = engine_of(graph).latest("x").state.tables[PERSON]
    for file in Path(graph.uri, pin.location, "tree", str(pin.ref), "_versions").iterdir():
        file.unlink()
    with og.open(graph.uri) as fresh:
        return refuses(lambda: fresh.plan_cleanup(**meanwhile.NOW), "a lost version is passed over")


def a_branch_with_drift_is_deleted(engines: Engines) -> list[str]:
    graph = made(engines)
    pin = engine_of(graph).latest("x").state.tables[PERSON]
    above = meanwhile.stray(graph, "x")
    with pytest.MonkeyPatch.context() as patch:
        meanwhile.before(patch, recovering, "unresolved", meanwhile.once(meanwhile.deletes, graph.uri))
        graph.recover(grace_s=0)
    newest = engine_of(graph).tables.open_latest(TableRef(pin.location, pin.ref)).version
    return [] if newest == above else [f"version {newest} was made for a deleted branch"]


def a_published_plan_is_left_by_a_deleted_branch(engines: Engines) -> list[str]:
    """Its owner died before it deleted the intent, and somebody else the branch."""
    graph = made(engines)
    with failpoints.armed("publish.after_swap", "raise"), contextlib.suppress(OutcomeUnknown):
        graph.load(people("late"), mode="append", branch="x", actor="ada")
    failpoints.disarm()
    graph.branches.delete("x")
    with og.open(graph.uri) as fresh:
        fresh.recover(grace_s=0)
        found = [one.how for one in fresh.recoveries()]
    return [] if found == ["RolledForward"] else [f"what was published is on record as {found}"]


def closed_before_its_record(evidence: Evidence, **facts: Any) -> Decision:
    if evidence.line is Line.CLOSED and not evidence.ticket:
        return Decision.DISCARD
    return decide(evidence, **facts)


DEFECTS = {
    "a closed branch is looked at before the plan's own record": Defect(
        a_published_plan_is_left_by_a_deleted_branch, setting(recovery, "decide", closed_before_its_record)
    ),
    "a line that does not read is taken for a deleted one": Defect(
        a_line_is_torn_while_recovery_reads, setting(graph_lines, "was_deleted", lambda *_: True)
    ),
    "a line that cannot be judged is taken for one that was given up": Defect(
        a_line_is_torn_while_it_is_judged, setting(cleanup_look, "is_given_up", lambda *_: True)
    ),
    "a name is taken for free because its line is missing": Defect(
        a_bound_name_has_no_line, setting(graph_lines, "_let_go", lambda *_: True)
    ),
    "a version that was not listed is not looked for again": Defect(
        a_version_of_a_table_is_gone, setting(cleanup_look, "_reaches", lambda *_: True)
    ),
    "a table is put back for a deleted branch": Defect(
        a_branch_with_drift_is_deleted, setting(drift._Healing, "_refuse_closed", lambda *_: None)
    ),
}
