"""Branches beside upkeep and undo: what keeps a version, which bases are needed, and pins that never come back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import lance
import pytest

import omnigraph as og
from omnigraph.commit import pins
from omnigraph.commit.engine import Engine
from omnigraph.commit.protocol import newest_rows
from omnigraph.table import compaction
from omnigraph.table.dataset import TableRef
from omnigraph.upkeep import cleanup_roots, merge_roots
from tests.component.planted.scenes import Defect, Engines, Plant, setting

SCHEMA = "node Person { name: String @key age: I32? @index }"
PERSON = "node:Person"


def graph_beside(engines: Engines) -> og.Graph:
    """Three commits on main, each a person, indexes over them, and a branch."""
    graph = og.init(engines().uri + "-branches", SCHEMA, durability="relaxed")
    for name in ("a", "b", "c"):
        graph.load([person(name, 1)], mode="append")
    graph.ensure_indices()
    graph.branches.create("side")
    return graph


def person(name: str, age: int) -> dict[str, Any]:
    return {"type": "Person", "data": {"name": name, "age": age}}


def cleaned_up(graph: og.Graph) -> og.Graph:
    """A branch is left that was made from the first one, which is deleted, and that has merged the newest of main: nothing that it
    was made from is a root any more. Main has left its old files behind, and cleanups take what is not kept."""
    graph.branches.create("deep", from_="side")
    graph.branches.delete("side")
    graph.optimize()
    graph.branches.merge("main", into="deep")
    for _ in range(2):
        graph.cleanup(keep=1, min_age="0s", confirm=True)
    return og.open(graph.uri)


def wrong(graph: og.Graph, branch: str, expected: dict[str, int]) -> list[str]:
    """What the branch holds, read whole and by look-ups, on handles that know nothing."""
    found = {row["id"]: row["age"] for row in graph.snapshot(branch).to_arrow("Person").to_pylist()}
    problems = [] if found == expected else [f"{branch} holds {found}, not {expected}"]
    engine: Engine = graph._engine
    pin = engine.latest(branch).state.tables[PERSON]
    handle = lance.dataset(engine.tables.uri(TableRef(pin.location, pin.ref)), version=pin.version)
    try:
        problems += [f"{one} is not found" for one in expected if not handle.to_table(filter=f"id = '{one}'").num_rows]
    except (OSError, ValueError) as error:
        problems.append(f"a look-up fails: {error}")
    return problems + [problem.message for problem in graph.verify().problems if problem.severity == "damage"]


# --- scenes ---------------------------------------------------------------------------------------------------------------


def a_fork_reads_its_base_after_a_cleanup(engines: Engines) -> list[str]:
    graph = graph_beside(engines)
    graph.load([person("d", 2)], mode="append", branch="side")
    return wrong(cleaned_up(graph), "deep", {"a": 1, "b": 1, "c": 1, "d": 2})


def a_fork_is_compacted(engines: Engines) -> list[str]:
    graph = graph_beside(engines)
    for number, name in enumerate(("d", "e", "f")):
        graph.load([person(name, number)], mode="append", branch="side")
    graph.optimize(branches=["side"])
    return wrong(og.open(graph.uri), "side", {"a": 1, "b": 1, "c": 1, "d": 0, "e": 1, "f": 2})


def a_fork_goes_back_to_its_base(engines: Engines) -> list[str]:
    """The pin has let the base go, and what comes back leans on it."""
    graph = graph_beside(engines)
    graph.load([person("d", 2)], mode="append", branch="side")
    bad = str(graph.load([person("e", 2)], mode="overwrite", branch="side").commit_id)
    graph.revert(bad, "side")
    return wrong(cleaned_up(graph), "deep", {"a": 1, "b": 1, "c": 1, "d": 2})


def an_old_version_is_put_back(engines: Engines) -> list[str]:
    """A plan that was dead by its pin would be alive again if the pin came back."""
    graph = graph_beside(engines)
    bad = str(graph.load([person("d", 2)], mode="append").commit_id)
    before = graph._engine.latest("main").state.tables[PERSON].version
    graph.revert(bad)
    after = graph._engine.latest("main").state.tables[PERSON].version
    found = wrong(og.open(graph.uri), "main", {"a": 1, "b": 1, "c": 1})
    return found if after > before else [*found, f"the pin came back from {before} to {after}"]


def both_sides_merge_and_clean_up(engines: Engines) -> list[str]:
    graph = graph_beside(engines)
    graph.load([person("a", 5)], mode="merge")
    graph.branches.merge("main", into="side")
    graph.load([person("b", 6)], mode="merge", branch="side")
    graph.load([person("d", 7)], mode="append")
    for _ in range(2):
        graph.cleanup(keep=1, min_age="0s", confirm=True)
    graph.branches.merge("side")
    return wrong(og.open(graph.uri), "main", {"a": 5, "b": 6, "c": 1, "d": 7})


# --- defects --------------------------------------------------------------------------------------------------------------


def pointing_back(patch: pytest.MonkeyPatch) -> None:
    """An undo publishes the old version itself, and not a new one with its content."""
    real: Callable[..., Any] = pins.landed_pins

    def landed(state: Any, plan: Any, handles: Any) -> Any:
        found = real(state, plan, handles)
        old = {(one.path, one.ref): one.version for source in plan.sources for one in source.tables}
        if plan.kind != "revert":
            return found
        return {
            key: replace(pin, version=old.get((pin.location, pin.ref), pin.version), rows=pin.rows)
            for key, pin in found.items()
        }

    patch.setattr(newest_rows, "landed_pins", landed)


def own_bases(patch: pytest.MonkeyPatch) -> None:
    """What comes back is said to have the bases that the pin has now."""
    real: Callable[..., Any] = pins._restored_bases
    patch.setattr(pins, "_restored_bases", lambda *given: tuple(replace(one, needed=False) for one in real(*given)))


def compacting_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(compaction, "inherited_indices", lambda _: frozenset())


def unkept_bases() -> Plant:
    return setting(cleanup_roots, "_bases", lambda _pin, *, needed_only: iter(()))


DEFECTS = {
    "roots are not closed under bases": Defect(a_fork_reads_its_base_after_a_cleanup, unkept_bases()),
    "no base is ever needed": Defect(
        a_fork_reads_its_base_after_a_cleanup, setting(pins, "bases_in_use", lambda _: False)
    ),
    "a fork is compacted with the index of its base": Defect(a_fork_is_compacted, compacting_at_once),
    "what comes back has the bases of now": Defect(a_fork_goes_back_to_its_base, own_bases),
    "a pin is pointed back": Defect(an_old_version_is_put_back, pointing_back),
    "merge bases are not kept": Defect(
        both_sides_merge_and_clean_up, setting(merge_roots, "_bases", lambda *_: iter(()))
    ),
}
