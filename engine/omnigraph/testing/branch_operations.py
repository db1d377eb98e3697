"""Drivers of branches: made, deleted, written to for the first time, staged for, and looked after."""

from __future__ import annotations

from omnigraph import graph as graphs
from omnigraph.testing.operations import Operation, append, commit_id, create, keys_of, opened, register

FEATURE = "feature"


def seeded(root: str, width: int) -> None:
    create(root, width)
    with opened(root) as engine:
        append(engine, keys_of(width), ["first", "second"], actor="seed")


def _with_branch(root: str, width: int) -> None:
    seeded(root, width)
    with graphs.open(root) as graph:
        graph.branches.create(FEATURE)


def with_written_branch(root: str, width: int) -> None:
    _with_branch(root, width)
    with opened(root) as engine:
        append(engine, keys_of(width), ["third"], branch=FEATURE)


def _create(root: str, width: int) -> str | None:
    with graphs.open(root) as graph:
        graph.branches.create(FEATURE)
    return None


def _delete(root: str, width: int) -> str | None:
    with graphs.open(root) as graph:
        graph.branches.delete(FEATURE)
    return None


def _first_write(root: str, width: int) -> str | None:
    """Every table is forked by the plan that writes to it."""
    with opened(root) as engine:
        return commit_id(append(engine, keys_of(width), ["a", "b"], branch=FEATURE))


def _next_write(root: str, width: int) -> str | None:
    with opened(root) as engine:
        return commit_id(append(engine, keys_of(width), ["a", "b"], branch=FEATURE))


def _staged_write(root: str, width: int) -> str | None:
    """The forks are published before anything is staged: two swaps, of which the first changes no content."""
    with opened(root) as engine:
        return commit_id(append(engine, keys_of(width), ["a", "b"], branch=FEATURE, stage_first=True))


def _begin(root: str, width: int) -> str | None:
    with graphs.open(root) as graph:
        graph.begin(FEATURE, keys_of(width))
    return None


def _with_inherited_files(root: str, width: int) -> None:
    """A branch whose tables read files and an index of main's lines, and have small files of their own."""
    seeded(root, width)
    with graphs.open(root) as graph:
        graph.ensure_indices()
        graph.branches.create(FEATURE)
    with opened(root) as engine:
        for number in range(4):
            append(engine, keys_of(width), [f"own{number}"], branch=FEATURE)


def _optimize(root: str, width: int) -> str | None:
    """The index of another line is built anew before a fragment is rewritten."""
    with graphs.open(root, actor="keeper") as graph:
        graph.optimize(branches=[FEATURE])
    return None


def _settle(root: str, width: int) -> str | None:
    """What lies in folders of other lines is copied into those of the branch."""
    with graphs.open(root, actor="keeper") as graph:
        graph.optimize(branches=[FEATURE], settle=True)
    return None


_FORKS = ("nodes/",)

register(Operation("branch-create", frozenset({"branches"}), seeded, _create, widths=(1, 2)))
register(Operation("branch-delete", frozenset({"branches"}), with_written_branch, _delete, widths=(1, 2)))
register(Operation("branch-first-write", frozenset(), _with_branch, _first_write, widths=(1, 2), leaves=_FORKS))
register(Operation("branch-next-write", frozenset(), with_written_branch, _next_write, widths=(1, 2)))
register(Operation("branch-staged-write", frozenset(), _with_branch, _staged_write, widths=(1, 2), leaves=_FORKS))
register(
    Operation(
        "branch-begin",
        frozenset({"begin"}),
        _with_branch,
        _begin,
        widths=(1, 2),
        keeps_content=True,
        leaves=("__staging/", *_FORKS),
    )
)
for _name, _act in (("branch-optimize", _optimize), ("branch-settle", _settle)):
    register(Operation(_name, frozenset({"optimize"}), _with_inherited_files, _act, widths=(1, 2), keeps_content=True))
