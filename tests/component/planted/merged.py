"""Merges: what both sides added is one from then on, and what is carried along is written down as this line's."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

import omnigraph as og
from omnigraph.core.errors import OmnigraphError
from omnigraph.manifest import state
from omnigraph.manifest.rows import HistoryRow, MergedRow
from omnigraph.schema import merge as schema_merge
from tests.component.planted.scenes import Defect, Engines, Plant, setting

SCHEMA = "node Person { name: String @key age: I32? }"
WITH_RANK = "node Person { name: String @key age: I32? rank: I32? }"
_numbers = itertools.count()


def made(engines: Engines) -> og.Graph:
    graph = og.init(f"{engines().uri}-merged-{next(_numbers)}", SCHEMA, durability="relaxed")
    graph.load([person("a"), person("b"), person("c")], mode="append")
    graph.branches.create("side")
    return graph


def person(name: str, **data: Any) -> dict[str, Any]:
    return {"type": "Person", "data": {"name": name, **data}}


def wrong(graph: og.Graph) -> list[str]:
    with og.open(graph.uri) as fresh:
        return [one.message for one in fresh.verify(deep=True).problems if one.severity == "damage"]


def both_add_a_property_and_merge_twice(engines: Engines) -> list[str]:
    graph = made(engines)
    for branch in ("side", "main"):
        graph.schema.apply(WITH_RANK, branch=branch)
    graph.load([person("a", rank=1)], mode="patch", branch="side")
    graph.load([person("b", rank=2)], mode="patch")
    graph.branches.merge("side")
    graph.load([person("c", rank=3)], mode="patch", branch="side")
    try:
        graph.branches.merge("side")
        graph.branches.merge("main", into="side")
    except OmnigraphError as error:
        return [repr(error)]
    found = []
    for branch in ("main", "side"):
        ranks = {row["id"]: row.get("rank") for row in graph.snapshot(branch).to_arrow("Person").to_pylist()}
        if ranks != {"a": 1, "b": 2, "c": 3}:
            found.append(f"{branch} has the ranks {ranks}")
    return found + wrong(graph)


def commits_are_carried_from_a_shorter_line(engines: Engines) -> list[str]:
    """What they were numbered with on their own line is below what main has written since."""
    graph = made(engines)
    ids = [graph.load([person(name)], mode="append", branch="side").commit_id for name in ("s1", "s2")]
    for name in ("m1", "m2", "m3", "m4", "m5"):
        graph.load([person(name)], mode="append")
    graph.branches.merge("side")
    graph.load([person("m6")], mode="append")
    with og.open(graph.uri) as fresh:
        listed = [one.id for one in fresh.commits()]
        found = [f"{one} is not in the list" for one in ids if one not in listed]
        found += [f"{one} has not landed" for one in ids if not fresh.outcome(str(one)).landed]
    return found + wrong(graph)


def without_also() -> Plant:
    """The merged element has the target's identity, and forgets the source's."""
    real = schema_merge._Three.ids
    assert isinstance(real, property) and real.fget is not None
    get = real.fget
    return setting(schema_merge._Three, "ids", property(lambda self: get(self)[:1]))


def numbered_as_on_their_own_line(patch: pytest.MonkeyPatch) -> None:
    real = state._numbered

    def numbered(before: Any, history: Any, version: int) -> tuple[HistoryRow, ...]:
        history = tuple(history)
        given = {row.object_id: row.row.version for row in history if isinstance(row, MergedRow)}
        return tuple(
            replace(row, version=given[row.object_id]) if isinstance(row, MergedRow) else row
            for row in real(before, history, version)
        )

    patch.setattr(state, "_numbered", numbered)


DEFECTS = {
    "what both sides added has one identity alone": Defect(both_add_a_property_and_merge_twice, without_also()),
    "carried commits keep the version of their own line": Defect(
        commits_are_carried_from_a_shorter_line, numbered_as_on_their_own_line
    ),
}
