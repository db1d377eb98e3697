"""A graph that follows another one by its feed alone."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

import omnigraph as og
from omnigraph.read.changes import ChangeFeed
from omnigraph.schema import EdgeType
from omnigraph.wire.changes import Change


def follow(copy: og.Graph, feed: ChangeFeed) -> str:
    """Do to a copy what the feed tells, entry by entry. Returns where to go on."""
    for _, changes in groupby(feed, key=lambda change: change.commit_ids):
        _apply(copy, list(changes))
    return feed.cursor


def _apply(copy: og.Graph, changes: list[Change]) -> None:
    records: list[dict[str, Any]] = []
    gone: list[Change] = []
    for change in changes:
        if change.kind == "schema":
            assert change.row is not None
            copy.schema.apply(change.row["schema"], fill=fills_of(copy, change.row), allow_data_loss=False)
        elif change.kind == "delete":
            gone.append(change)
        else:
            records.append(record_of(copy, change))
    for change in gone:
        delete(copy, change)
    if records:
        copy.load(records, mode="merge")


def fills_of(copy: og.Graph, row: dict[str, Any]) -> dict[str, Any]:
    """The fills of a schema entry as ``apply`` takes them: under the names that the new text has."""
    found = {}
    wanted = og.parse_schema(row["schema"])
    for step in row["steps"]:
        if step["step"] == "add_property" and step["fill"] is not None:
            name = step["to"].split(":")[0]
            owners = [one.name for one in wanted.types() if name in one.by_name]
            [(kind, given)] = step["fill"].items()
            found |= {f"{owner}.{name}": given if kind == "value" else {kind: given} for owner in owners}
    return found


def record_of(copy: og.Graph, change: Change) -> dict[str, Any]:
    """The row as a record that a load takes."""
    assert change.row is not None and change.type is not None
    data = dict(change.row)
    if isinstance(copy.snapshot().catalog.type(change.type), EdgeType):
        return {"edge": change.type, "from": data.pop("src"), "to": data.pop("dst"), "data": data}
    del data["id"]
    return {"type": change.type, "data": data}


def delete(copy: og.Graph, change: Change) -> None:
    """Delete one row of a copy. Edges are named by their property ``n``; one whose node has gone is gone already."""
    declared = copy.snapshot().catalog.type(str(change.type))
    assert change.before is not None, "the feed has to be read with before=True"
    name = "n" if isinstance(declared, EdgeType) else next(iter(declared.key or ()))
    text = f"query q($k: String) {{ delete {change.type} where {name} = $k }}"
    copy.mutate(text, params={"k": change.before[name]})


def content(graph: og.Graph, branch: str = "main", at: str | None = None) -> dict[str, dict[str, Any]]:
    snap = graph.snapshot(branch, at)
    return {key: {row["id"]: row for row in snap.to_arrow(key).to_pylist()} for key in sorted(snap.tables)}


def kinds(changes: Iterable[Change]) -> list[tuple[str | None, str | None, str]]:
    return [(one.type, one.key, one.kind) for one in changes]
