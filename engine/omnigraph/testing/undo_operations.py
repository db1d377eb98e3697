"""Undo as drivers of the crash matrix: old versions put back, and rows where the tables have moved since, on main and on a branch
that has forked its tables.

Imported by ``all_operations``; the registry is in ``operations``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from omnigraph import graph as graphs
from omnigraph.testing.operations import TYPES, Operation, register, schema_of

FEATURE = "feature"

_OPEN: dict[str, Any] = {"actor": "writer"}


def _rows(width: int, *names: str, n: int = 1) -> list[dict[str, Any]]:
    return [{"type": type_, "data": {"name": name, "n": n}} for type_ in TYPES[:width] for name in names]


def _loaded(root: str, width: int) -> None:
    """Two rows in each table, then a commit that changes one and adds one."""
    with graphs.init(root, schema_of(width), actor="creator") as graph:
        graph.load(_rows(width, "a", "b"), mode="append")
        graph.load(_rows(width, "b", "c", n=2), mode="merge")


def _moved(root: str, width: int) -> None:
    """The same, and a later commit to the same tables."""
    _loaded(root, width)
    with graphs.open(root) as graph:
        graph.load(_rows(width, "d", n=3), mode="append")


def _with_forks(root: str, width: int) -> None:
    """Two commits on a branch, of which the first has forked its tables; the second changes a row and adds one."""
    with graphs.init(root, schema_of(width), actor="creator") as graph:
        graph.load(_rows(width, "a", "b"), mode="append")
        graph.ensure_indices()
        graph.branches.create(FEATURE)
        graph.load(_rows(width, "c"), mode="append", branch=FEATURE)
        graph.load(_rows(width, "b", "d", n=2), mode="merge", branch=FEATURE)


def _with_updating_fork(root: str, width: int) -> None:
    """The commit that has forked the tables changes a row and adds one: the version before it is on main's line."""
    with graphs.init(root, schema_of(width), actor="creator") as graph:
        graph.load(_rows(width, "a", "b"), mode="append")
        graph.branches.create(FEATURE)
        graph.load(_rows(width, "b", "c", n=2), mode="merge", branch=FEATURE)


def _revert(root: str, width: int, branch: str = "main") -> str | None:
    with graphs.open(root, **_OPEN) as graph:
        commits = graph.commits(branch)
        bad = next(one for one in commits if any(change.updated for change in one.tables.values()))
        return graph.revert(bad.id, branch=branch).commit_id


def _restore(root: str, width: int, branch: str = "main") -> str | None:
    with graphs.open(root, **_OPEN) as graph:
        first = [one for one in graph.commits(branch) if one.kind == "load"][-1]
        return graph.restore(first.id, branch=branch).commit_id


_revert_on_branch, _restore_on_branch = (partial(one, branch=FEATURE) for one in (_revert, _restore))


register(Operation("revert", frozenset({"revert"}), _loaded, _revert, widths=(1, 2)))
register(Operation("revert-rows", frozenset({"revert"}), _moved, _revert, widths=(1, 2)))
register(Operation("restore", frozenset({"restore"}), _moved, _restore, widths=(1, 2)))
register(Operation("branch-revert", frozenset({"revert"}), _with_forks, _revert_on_branch, widths=(1, 2)))
register(Operation("branch-revert-fork", frozenset({"revert"}), _with_updating_fork, _revert_on_branch, widths=(1, 2)))
register(Operation("branch-restore", frozenset({"restore"}), _with_forks, _restore_on_branch, widths=(1, 2)))
