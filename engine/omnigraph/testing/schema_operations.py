"""Changes of the schema as drivers of the crash matrix: columns with and without values, chains, types that come and go,
rules, a load beside, and a branch whose tables are still those of main.

Imported by ``all_operations``; the registry is in ``operations``.
"""

from __future__ import annotations

from typing import Any

from omnigraph import graph as graphs
from omnigraph.core import failpoints
from omnigraph.testing.operations import TYPES, Operation, register, schema_of

FEATURE = "feature"

_OPEN: dict[str, Any] = {"actor": "writer"}
_LEAVES = ("nodes/", "edges/")  # a created table whose plan was given up is left to cleanup


_MORE_TYPES = "node Old { name: String @key n: I32? }\nnode Gone { name: String @key n: I32? }\n"


def _seeded(root: str, width: int, more: str = "") -> None:
    """``width`` tables with rows in two fragments, some of them deleted."""
    with graphs.init(root, schema_of(width) + more, actor="creator") as graph:
        for names in (("a", "b"), ("c",)):
            graph.load(
                [{"type": type_, "data": {"name": name, "n": 1}} for type_ in TYPES[:width] for name in names],
                mode="append",
            )
        graph.mutate('query q() { delete T1 where name = "b" }')


def _changed(width: int, columns: str, more: str = "") -> str:
    return "".join(f"node {name} {{ name: String @key {columns} }}\n" for name in TYPES[:width]) + more


def _apply(root: str, text: str, fill: dict[str, object] | None = None, branch: str = "main") -> str | None:
    with graphs.open(root, **_OPEN) as graph:
        commit_id: str | None = graph.schema.apply(text, fill=fill, branch=branch).commit_id
        return commit_id


def _nullable(root: str, width: int) -> str | None:
    return _apply(root, _changed(width, "n: I32? more: String?"))


def _filled(root: str, width: int) -> str | None:
    fill: dict[str, object] = {f"{name}.more": {"sql": "upper(name)"} for name in TYPES[:width]}
    return _apply(root, _changed(width, "n: I32? more: String"), fill)


def _chain(root: str, width: int) -> str | None:
    """Two commits a table: a rename, then a column with values and a wider one."""
    fill: dict[str, object] = {f"{name}.more": 7 for name in TYPES[:width]}
    return _apply(root, _changed(width, 'm: I64? @rename_from("n") more: I32'), fill)


def _with_more_types(root: str, width: int) -> None:
    _seeded(root, width, _MORE_TYPES)
    with graphs.open(root, **_OPEN) as graph:
        graph.load([{"type": name, "data": {"name": "x"}} for name in ("Old", "Gone")], mode="append")


def _types(root: str, width: int) -> str | None:
    """Two types are made, one is renamed, one is dropped, and the others get a column."""
    renamed = 'node Renamed @rename_from("Old") { name: String @key n: I32? }\n'
    made = "node Made { name: String @key }\nedge Joins: Made -> Renamed\n"
    return _apply(root, _changed(width, "n: I32? more: String?", renamed + made))


def _rule(root: str, width: int) -> str | None:
    return _apply(root, _changed(width, "n: I32? @range(n, 0..9)"))


def _rival(root: str) -> None:
    with graphs.open(root, actor="other") as other:
        other.load([{"type": "T1", "data": {"name": "d", "n": 2}}], mode="append")


def _hard(root: str, width: int) -> str | None:
    """A drop, and then the rewrite of the fragments that hold the column."""
    with graphs.open(root, **_OPEN) as graph:
        commit_id: str | None = graph.schema.apply(_changed(width, ""), allow_data_loss=True).commit_id
        return commit_id


def _beside(root: str, width: int) -> str | None:
    """A change that a load comes before: its tables have moved when it gets to them."""
    with graphs.open(root, **_OPEN) as graph:

        def load(**_: Any) -> None:
            failpoints.disarm()
            _rival(root)  # if it fails, so does the driver: whether it landed is not known then

        with failpoints.armed("arm.before", load):
            commit_id: str | None = graph.schema.apply(_changed(width, "n: I32? more: String?")).commit_id
            return commit_id


def _with_branch(root: str, width: int) -> None:
    """A branch without a commit of its own: every table of it is on main's line, with an index there."""
    _seeded(root, width)
    with graphs.open(root, **_OPEN) as graph:
        graph.ensure_indices()
        graph.branches.create(FEATURE)


def _on_branch(root: str, width: int) -> str | None:
    """Three commits a table: a fork, a rename, a column with values and a wider one. A type is made beside them."""
    fill: dict[str, object] = {f"{name}.more": {"sql": "upper(name)"} for name in TYPES[:width]}
    columns = 'm: I64? @rename_from("n") more: String'
    return _apply(root, _changed(width, columns, "node Made { name: String @key }\n"), fill, FEATURE)


_ENTRY = frozenset({"schema"})
register(Operation("schema-nullable", _ENTRY, _seeded, _nullable, widths=(1, 4)))
register(Operation("schema-filled", _ENTRY, _seeded, _filled, widths=(1, 4)))
register(Operation("schema-chain", _ENTRY, _seeded, _chain, widths=(1, 4)))
register(Operation("schema-types", _ENTRY, _with_more_types, _types, widths=(1, 4), leaves=_LEAVES))
register(Operation("schema-hard", _ENTRY, _seeded, _hard, widths=(1, 2)))
register(Operation("schema-rule", _ENTRY, _seeded, _rule, widths=(1, 2), keeps_content=True))
register(Operation("schema-beside", _ENTRY, _seeded, _beside, widths=(1,), rival=_rival))
register(Operation("schema-branch", _ENTRY, _with_branch, _on_branch, widths=(1, 2), leaves=_LEAVES))
