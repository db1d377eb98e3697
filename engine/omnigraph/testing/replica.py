"""A graph that follows another one by its change feed alone. A property ``n`` tells edges apart: the copy makes their ids
anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any

from omnigraph.graph import Graph
from omnigraph.read.changes import ChangeFeed
from omnigraph.schema import EdgeType, parse_schema
from omnigraph.wire.changes import Change


def follow(copy: Graph, feed: ChangeFeed, *, keep: Callable[[str], Any] | None = None) -> str:
    """Do to a copy what the feed tells, swap by swap. Returns where to go on; ``keep`` gets that place after each swap.

    A swap that was done in part can be done again. The feed has to be read with ``before=True``.
    """
    for ids, changes in groupby(feed, key=lambda change: change.commit_ids):
        _apply(copy, list(changes))
        if keep is not None:
            keep(ids[-1])
    return feed.cursor


def _apply(copy: Graph, changes: list[Change]) -> None:
    for change in changes:
        if change.kind == "schema":
            assert change.row is not None
            copy.schema.apply(change.row["schema"], fill=_fills(change.row), allow_data_loss=False)
    for change in changes:
        if change.kind == "delete":
            _delete(copy, change)
    records = [_record(copy, change) for change in changes if change.kind in ("insert", "update")]
    if records:
        copy.load(records, mode="merge")


def _fills(row: Mapping[str, Any]) -> dict[str, Any]:
    """The fills of a schema entry as ``apply`` takes them: under the names that the new text has."""
    found: dict[str, Any] = {}
    wanted = parse_schema(row["schema"])
    for step in row["steps"]:
        if step["step"] == "add_property" and step["fill"] is not None:
            name = step["to"].split(":")[0]
            owners = [one.name for one in wanted.types() if name in one.by_name]
            [(kind, given)] = step["fill"].items()
            found |= {f"{owner}.{name}": given if kind == "value" else {kind: given} for owner in owners}
    return found


def _record(copy: Graph, change: Change) -> dict[str, Any]:
    """The row as a record that a load takes."""
    assert change.row is not None and change.type is not None
    data = dict(change.row)
    if isinstance(copy.snapshot().catalog.type(change.type), EdgeType):
        return {"edge": change.type, "from": data.pop("src"), "to": data.pop("dst"), "data": data}
    del data["id"]
    return {"type": change.type, "data": data}


def _delete(copy: Graph, change: Change) -> None:
    """An edge whose node has gone is gone already."""
    assert change.type is not None and change.before is not None, "the feed has to be read with before=True"
    declared = copy.snapshot().catalog.type(change.type)
    name = "n" if isinstance(declared, EdgeType) else next(iter(declared.key or ()))
    text = f"query q($k: String) {{ delete {change.type} where {name} = $k }}"
    copy.mutate(text, params={"k": change.before[name]})
