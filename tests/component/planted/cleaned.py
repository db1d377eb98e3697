"""A cleanup that has looked and acts later, beside branches, checkpoints and repairs that go on meanwhile."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import omnigraph as og
from omnigraph.branch import create, source
from omnigraph.commit.lines import GraphLines, read_lines
from omnigraph.commit.recovery import torn
from omnigraph.core import failpoints
from omnigraph.core.errors import NotFound, OmnigraphError, Reclaimed
from omnigraph.core.ids import new_ulid, new_uuid
from omnigraph.core.meter import Meter
from omnigraph.distributed import staged_load
from omnigraph.manifest.checkpoints import list_checkpoints
from omnigraph.manifest.refs import BranchSource
from omnigraph.read.places import find_place
from omnigraph.testing.all_operations import OPERATIONS
from omnigraph.testing.branch_operations import FEATURE
from omnigraph.testing.content import branches_of, faults_of
from omnigraph.testing.operations import opened
from omnigraph.upkeep import checkpoints, cleanup
from tests.component.planted.scenes import Defect, Engines, Plant, setting
from tests.component.upkeep import test_cleanup as upkeep
from tests.component.upkeep import test_torn_files as torn_files
from tests.component.upkeep.material import engine_of, make

NOW: dict[str, Any] = {"keep": 1, "min_age": "0s", "confirm": True}
_numbers = itertools.count()


def place(engines: Engines) -> str:
    """A place beside the graph of the engines, used once."""
    return f"{engines().uri}-cleaned-{next(_numbers)}"


# --- names ----------------------------------------------------------------------------------------------------------------


def driven(name: str) -> Callable[[Engines], list[str]]:
    """What an operation of the crash matrix leaves when nothing disturbs it."""

    def scene(engines: Engines) -> list[str]:
        root, operation = place(engines), OPERATIONS[name]
        operation.prepare(root, 1)
        operation.act(root, 1)
        with opened(root) as engine:
            missing = [] if FEATURE in branches_of(engine) else [f"{FEATURE} is gone"]
            return missing + faults_of(engine)

    scene.__name__ = name.replace("-", "_")
    return scene


MADE, MADE_AGAIN = driven("branch-create-looked"), driven("branch-again-judged")


def without_a_name(lines: GraphLines) -> frozenset[str]:
    return frozenset(line.identity for line in lines.lines if line.name is None and line.claimed)


def boundaries_by_name(patch: pytest.MonkeyPatch) -> None:
    real = cleanup.raise_boundaries

    def by_name(engine: Any, plan: Any, seen: Any, doomed: Any, *rest: Any) -> Any:
        views = tuple(replace(view, held=engine.latest(view.branch)) for view in seen.branches)
        shown = {("__manifest", view.held.state.ref): line for view in views for line in doomed.values()}
        return real(engine, plan, replace(seen, branches=views), {**doomed, **shown}, *rest)

    patch.setattr(cleanup, "raise_boundaries", by_name)


# --- roots that come too late ---------------------------------------------------------------------------------------------


def a_branch_beside_one_that_is_being_made(engines: Engines) -> list[str]:
    """Of a commit that a cleanup is about to delete. It looked before both, and the other one gets no further."""
    graph = make(place(engines), 4)
    old = graph.commits()[2].id

    def clean(**facts: Any) -> None:
        if facts["state"] == "making":
            failpoints.disarm("names.before_write")
            with (
                failpoints.armed("cleanup.recorded", failpoints.FailpointHit),
                contextlib.suppress(failpoints.FailpointHit),
            ):
                og.open(graph.uri).cleanup(**NOW)
            being_made(og.open(graph.uri), state)

    state = find_place(engine_of(graph), old, branch="main", meter=Meter()).held.state
    failpoints.arm("names.before_write", clean, at=None)
    try:
        og.open(graph.uri).branches.create("feature", at=old)
    except Reclaimed:
        return []
    finally:
        failpoints.disarm("names.before_write")
    return ["a branch was made of a commit that is being deleted"]


def being_made(graph: og.Graph, state: Any) -> None:
    engine = engine_of(graph)
    said = BranchSource(state.identity, state.ref, state.version, state.head.commit_id)
    entry = create.names.making_entry(engine, "other", new_ulid(engine.clock), said, None)
    engine.names.write(None, entry)
    engine.manifest.create(create.first_state(state, entry), uuid=new_uuid())


def taking_all_for_bound(patch: pytest.MonkeyPatch) -> None:
    def lines(*args: Any, **facts: Any) -> GraphLines:
        found = read_lines(*args, **facts)
        return replace(found, lines=tuple(replace(line, name=line.name or "making") for line in found.lines))

    patch.setattr(source, "read_lines", lines)


def a_checkpoint_of_one_whose_making_was_interrupted(engines: Engines) -> list[str]:
    graph = make(place(engines), 4)
    with failpoints.armed("checkpoint.created", failpoints.FailpointHit), contextlib.suppress(failpoints.FailpointHit):
        graph.checkpoints.create("first", graph.commits()[2].id)
    graph.cleanup(**NOW)
    try:
        graph.checkpoints.create("second", "first")
    except Reclaimed:
        return []
    return ["a checkpoint relies on one that may have come too late"]


def any_checkpoint(store: Any, identity: str, version: int, *_: str, **facts: Any) -> bool:
    others = (one for one in list_checkpoints(store) if one.name != facts.get("besides"))
    return any((one.identity, one.manifest_version) == (identity, version) for one in others)


# --- staged batches -------------------------------------------------------------------------------------------------------


def a_batch_that_was_given_up_is_loaded(engines: Engines) -> list[str]:
    """While the second cleanup is about to delete its files."""
    graph = make(place(engines), 8)
    txn, _file = upkeep.old_batch(graph)
    graph.cleanup(**NOW)
    graph.load(torn_files.people("more"), mode="append")
    real = cleanup._loose

    def loose(*args: Any) -> set[str]:
        found = real(*args)
        with contextlib.suppress(NotFound):
            txn.load_staged()
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cleanup, "_loose", loose)
        graph.cleanup(**NOW)
    return [problem.message for problem in og.open(graph.uri).verify(deep=True).problems]


# --- torn files -----------------------------------------------------------------------------------------------------------


def two_open_after_a_power_cut(engines: Engines) -> list[str]:
    root = place(engines)
    torn_files.tear(Path(root, torn_files.interrupted(root)))

    def open_and_write() -> None:
        with og.open(root) as graph:
            graph.load(torn_files.people("next"), mode="append")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torn, "WAIT_S", 0.2)
        written = torn_files.beside_a_slow_one(lambda: og.open(root).close(), open_and_write)
    try:
        found = torn_files.names(og.open(root))
    except OmnigraphError as error:
        return [repr(error)]
    return [] if found == (["next", "p0", "p1"] if written else ["p0", "p1"]) else [f"there is {found}"]


def without_lock(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(torn, "_lock", lambda *_: None)


RELYING: Plant = setting(checkpoints, "proven_to_keep", any_checkpoint)

DEFECTS = {
    "a name that was being made at the look is taken for that of a deleted branch": Defect(
        MADE, setting(GraphLines, "closed", property(without_a_name))
    ),
    "a cleanup raises boundaries by the names of branches": Defect(MADE_AGAIN, boundaries_by_name),
    "a branch relies on one that is being made": Defect(a_branch_beside_one_that_is_being_made, taking_all_for_bound),
    "a checkpoint relies on one that is not proven": Defect(a_checkpoint_of_one_whose_making_was_interrupted, RELYING),
    "a staged batch is loaded whose record is gone": Defect(
        a_batch_that_was_given_up_is_loaded, setting(staged_load, "Records", lambda _: Mock())
    ),
    "two move the same torn files aside": Defect(two_open_after_a_power_cut, without_lock),
}
