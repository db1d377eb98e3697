"""Claims before lines and forks, work that belongs to its line, and roots: the last member of a swap, and on disk."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.branch import create, source
from omnigraph.commit.durable import Durable
from omnigraph.commit.intent import Intents
from omnigraph.commit.protocol import apply
from omnigraph.core.errors import OmnigraphError
from omnigraph.manifest import durable as rules
from omnigraph.manifest.durable import DurabilityRules, Sync
from omnigraph.manifest.rows import CommitRow
from omnigraph.manifest.swap import Manifest
from omnigraph.table.dataset import Tables
from omnigraph.testing.grouping import together
from omnigraph.upkeep import checkpoints, cleanup
from tests.component.branch import test_roots_on_disk as on_disk
from tests.component.branch.power import Power
from tests.component.planted.scenes import Defect, Engines, setting

SCHEMA = "node Person { name: String @key age: I32? }"
PERSON = "node:Person"
NOW: dict[str, Any] = {"keep": 1, "min_age": "0s", "confirm": True}
_numbers = itertools.count()


def person(name: str, age: int = 1) -> dict[str, Any]:
    return {"type": "Person", "data": {"name": name, "age": age}}


def place(engines: Engines) -> Path:
    """A place beside the graph of the engines, used once."""
    return Path(f"{engines().uri}-roots-{next(_numbers)}")


def made(engines: Engines) -> og.Graph:
    graph = og.init(place(engines), SCHEMA, durability="relaxed")
    for name in ("a", "b", "c"):
        graph.load([person(name)], mode="append")
    return graph


def names(graph: og.Graph, branch: str = "main") -> list[str]:
    return sorted(graph.snapshot(branch).to_arrow("Person")["name"].to_pylist())


def tried(act: Callable[[], Any]) -> list[str]:
    try:
        act()
    except (OmnigraphError, OSError, ValueError) as error:
        return [f"{type(error).__name__}: {error}"]
    return []


def cleaning_after(patch: pytest.MonkeyPatch, owner: Any, name: str, graph: og.Graph, **policy: Any) -> None:
    """A cleanup runs once in another process, right after this call."""
    real = getattr(owner, name)

    def then(*args: Any, **facts: Any) -> Any:
        made_ = real(*args, **facts)
        patch.setattr(owner, name, real)
        og.open(graph.uri).cleanup(**(NOW | policy))
        return made_

    patch.setattr(owner, name, then)


# --- claims ---------------------------------------------------------------------------------------------------------------


def a_cleanup_runs_when_the_line_is_there(engines: Engines) -> list[str]:
    """The line of a branch is there and its name is not bound yet."""
    graph = made(engines)
    with pytest.MonkeyPatch.context() as patch:
        cleaning_after(patch, Manifest, "create", graph)
        found = tried(lambda: graph.branches.create("new"))
    return found or tried(lambda: _expect(names(og.open(graph.uri), "new"), ["a", "b", "c"]))


def a_cleanup_runs_when_the_fork_is_there(engines: Engines) -> list[str]:
    """The fork is there with the first commit on it, and no pin names it yet."""
    graph = made(engines)
    graph.branches.create("side")
    with pytest.MonkeyPatch.context() as patch:
        cleaning_after(patch, Tables, "commit", graph, keep=100)
        found = tried(lambda: graph.load([person("d")], mode="append", branch="side"))
    found += tried(lambda: _expect(names(og.open(graph.uri), "side"), ["a", "b", "c", "d"]))
    return found + [one.message for one in og.open(graph.uri).verify(deep=True).problems if one.severity == "damage"]


def _expect(found: object, expected: object) -> None:
    if found != expected:
        raise ValueError(f"{found} is there, not {expected}")


def line_before_claim(patch: pytest.MonkeyPatch) -> None:
    """The line is made before the entry of the name says so."""
    claim = create.names.claim

    def late(engine: Any, wanted: Any, highest: Any, *rest: Any) -> Any:
        held = create.find_source(engine, "main", None, None, *rest)
        engine.manifest.create(create.first_state(held.state, wanted), uuid=create.new_uuid())
        return claim(engine, wanted, highest, *rest)

    patch.setattr(create.names, "claim", late)
    patch.setattr(create, "_line_of", lambda making: making.engine.latest(_named(making), making.meter))


def forking_unclaimed(patch: pytest.MonkeyPatch) -> None:
    """Either of the two would do."""
    patch.setattr(Intents, "arm", lambda *_: None)
    patch.setattr(cleanup, "change_head", lambda *_: None)


def _named(making: Any) -> Any:
    return create.BranchName(making.entry.name, making.entry.identity)


# --- work that is staged on a line ----------------------------------------------------------------------------------------


def rows_staged_on_the_line_below(engines: Engines) -> list[str]:
    """A write to a fork whose rows were written into the folder of the line that it was forked from."""
    graph = made(engines)
    graph.branches.create("side")
    stage = apply.stage

    def elsewhere(step: Any, handle: Any, **facts: Any) -> Any:
        pin = graph._engine.latest("main").state.tables[PERSON]
        return stage(step, graph._engine.tables.open(checkpoints.TableRef(pin.location, None), pin.version), **facts)

    commit = Tables.commit
    with pytest.MonkeyPatch.context() as patch:
        # As an engine would that staged ahead, on the handle that it had before the fork.
        patch.setattr(apply, "stage", elsewhere)
        patch.setattr(Tables, "commit", lambda self, ref, handle, *rest: commit(self, ref, handle, *rest))
        real = Tables.check_line
        patch.setattr(Tables, "check_line", lambda self, ref, handle: real(self, ref, _main(graph)))
        tried(lambda: graph.load([person("d")], mode="append", branch="side", deadline_s=5))
    fresh = og.open(graph.uri)
    tried(lambda: fresh.recover(grace_s=0))
    found = [] if names(fresh) == ["a", "b", "c"] else ["main has changed"]
    found += tried(lambda: _expect(names(fresh, "side"), ["a", "b", "c"]))
    return found + [one.message for one in fresh.verify(deep=True).problems if one.severity == "damage"]


def _main(graph: og.Graph) -> Any:
    pin = graph._engine.latest("main").state.tables[PERSON]
    return graph._engine.tables.open(checkpoints.TableRef(pin.location, None), pin.version)


# --- the last member ------------------------------------------------------------------------------------------------------


def swap_of_three(graph: og.Graph, branch: str) -> list[str]:
    calls = [partial(graph.load, [person(name)], mode="merge", branch=branch) for name in ("m1", "m2", "m3")]
    ended = together(graph._engine, calls, branch)
    return [str(one.value.commit_id) for one in ended if one.value is not None]


def roots_at_a_middle_member(engines: Engines) -> list[str]:
    """A branch, a checkpoint and a merge at the second of three commits of one swap stand on the state that all three made."""
    graph = made(engines)
    graph.branches.create("side")
    graph.load([person("d")], mode="append", branch="side")  # a fork is made alone
    members = swap_of_three(graph, "side")
    found = []
    new = graph.branches.create("new", from_="side", at=members[1])
    if new.parent is None or new.parent.commit_id != members[-1]:
        found.append(f"the branch was made from {new.parent}, not {members[-1]}")
    kept = graph.checkpoints.create("kept", at=members[1], branch="side")
    if kept.commit_id != members[-1]:
        found.append(f"the checkpoint names {kept.commit_id}, not {members[-1]}")
    merged = str(graph.branches.merge("side", at=members[1]).commit_id)
    row = graph._engine.history.find(graph._engine.latest("main"), merged)
    if not isinstance(row, CommitRow) or row.parents[1] != members[-1]:
        found.append(f"the merge has the parents {getattr(row, 'parents', None)}, not {members[-1]}")
    if graph.branches.merge("side").outcome != "up_to_date":
        found.append("what was merged is merged again")
    return found + tried(lambda: og.open(graph.uri).snapshot(at="kept").to_arrow("Person"))


def naming_what_was_asked_for(patch: pytest.MonkeyPatch) -> None:
    """The state is named by the commit that was asked for, wherever it stands in its swap."""
    for module in (source, checkpoints):
        real = module.find_place

        def asked(engine: Any, at: Any, real: Any = real, **facts: Any) -> Any:
            found = real(engine, at, **facts)
            head = replace(found.held.state.head, commit_id=str(at))
            return replace(found, held=replace(found.held, state=replace(found.held.state, head=head)))

        patch.setattr(module, "find_place", asked)


# --- on disk --------------------------------------------------------------------------------------------------------------


def power_goes_after(makes: on_disk.MakesRoot) -> Callable[[Engines], list[str]]:
    def scene(engines: Engines) -> list[str]:
        with pytest.MonkeyPatch.context() as patch:
            power = Power(place(engines), patch)
            try:
                on_disk.played(power, makes, "relaxed")
            except (AssertionError, OmnigraphError) as error:
                return [repr(error)[:300]]
        return []

    scene.__name__ = f"the_power_goes_after_{makes.__name__}"
    return scene


def a_bound_name_has_its_line(engines: Engines) -> list[str]:
    """The name is synced by the store whatever the mode is."""
    root = place(engines)
    with pytest.MonkeyPatch.context() as patch:
        power = Power(root, patch)
        with og.init(root, SCHEMA, durability="commit") as graph:
            graph.load([person("a")], mode="append")
        with og.open(root, durability="relaxed") as graph:
            graph.branches.create("new")
        power.cut()
        return tried(lambda: _expect(names(og.open(root), "new"), ["a"]))


AFTER_A_CHECKPOINT = power_goes_after(on_disk.a_checkpoint)
AFTER_A_MERGE = power_goes_after(on_disk.a_merge)
AFTER_AN_ADOPTION = power_goes_after(on_disk.an_adoption)


def the_version_alone(patch: pytest.MonkeyPatch) -> None:
    """As if every version below were synced, which relaxed writers do not see to."""
    patch.setattr(rules, "_until_durable", lambda record, newest, _since: Sync.VERSION)


DEFECTS = {
    "a line is made before its name is claimed": Defect(a_cleanup_runs_when_the_line_is_there, line_before_claim),
    "a fork is made before its intent, and no mark is set for it": Defect(
        a_cleanup_runs_when_the_fork_is_there, forking_unclaimed
    ),
    "what was staged on one line is committed to another": Defect(
        rows_staged_on_the_line_below, setting(Tables, "check_line", lambda *_: None)
    ),
    "a member is named that is not the last of its swap": Defect(roots_at_a_middle_member, naming_what_was_asked_for),
    "a checkpoint rests on what is not synced": Defect(
        AFTER_A_CHECKPOINT, setting(DurabilityRules, "before_root", lambda *_: Sync.NOTHING)
    ),
    "a merge syncs the newest version of its source alone": Defect(AFTER_A_MERGE, the_version_alone),
    "what is adopted is not synced": Defect(AFTER_AN_ADOPTION, setting(Durable, "root", lambda *_: None)),
    "a name is bound to a line that is not synced": Defect(
        a_bound_name_has_its_line, setting(Durable, "new_line", lambda *_: None)
    ),
}
