"""Branches that are made, and made again, while a cleanup of another handle or of the same one is under way: it has looked, and acts later.

The cleanup is a rival whose own failure is no answer to the caller: what it has broken, the graph shows.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from omnigraph import graph as graphs
from omnigraph.core import failpoints
from omnigraph.core.errors import OmnigraphError
from omnigraph.testing.branch_operations import FEATURE, seeded, with_written_branch
from omnigraph.testing.operations import Operation, append, keys_of, opened, register

PLACES = ("cleanup.looked", "cleanup.marked", "cleanup.judged", "cleanup.bounded", "cleanup.recorded")
HOLD_S = 60.0


class _Hold:
    """Hold a thread at a failpoint until ``go`` is set."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.go = threading.Event()

    def __call__(self, **_: object) -> None:
        self.reached.set()
        self.go.wait(HOLD_S)


def _clean(graph: graphs.Graph) -> None:
    with contextlib.suppress(OmnigraphError):
        graph.cleanup(keep=1, min_age="0s", confirm=True)


@contextlib.contextmanager
def _cleaning_until(place: str, graph: graphs.Graph) -> Iterator[None]:
    """A cleanup has come to the place when the block begins, and goes on when it ends; another one follows."""
    hold = _Hold()
    with ThreadPoolExecutor(1) as pool, failpoints.armed(place, hold):
        cleaning = pool.submit(_clean, graph)
        cleaning.add_done_callback(lambda _: hold.reached.set())  # it may end before it gets there
        hold.reached.wait(HOLD_S)
        try:
            yield
        finally:
            hold.go.set()
            cleaning.result()
    _clean(graph)


def _made(place: str, root: str, width: int) -> str | None:
    """The cleanup sees a line whose name is being made, and the name is bound when it goes on."""
    making = _Hold()
    with (
        graphs.open(root) as maker,
        graphs.open(root, actor="keeper") as keeper,
        ThreadPoolExecutor(1) as pool,
        failpoints.armed("branch.before_bind", making),
    ):
        made = pool.submit(maker.branches.create, FEATURE)
        made.add_done_callback(lambda _: making.reached.set())
        try:
            making.reached.wait(HOLD_S)
            with _cleaning_until(place, keeper):
                making.go.set()
                made.result()
        finally:
            making.go.set()
    return None


def _made_again(place: str, root: str, width: int) -> str | None:
    """The name that the cleanup has read is bound to another branch by the time that the cleanup acts."""
    with graphs.open(root) as graph, _cleaning_until(place, graph):
        graph.branches.delete(FEATURE)
        graph.branches.create(FEATURE)
    return None


def _with_older_branch(root: str, width: int) -> None:
    with_written_branch(root, width)
    with opened(root) as engine:
        for name in ("fourth", "fifth"):
            append(engine, keys_of(width), [name], branch=FEATURE)


def _deleted(root: str) -> None:
    with graphs.open(root) as graph:
        graph.branches.delete(FEATURE)


for _place in PLACES:
    _at = _place.removeprefix("cleanup.")
    register(Operation(f"branch-create-{_at}", frozenset({"branches"}), seeded, partial(_made, _place), widths=(1,)))
    register(
        Operation(
            f"branch-again-{_at}",
            frozenset({"branches"}),
            _with_older_branch,
            partial(_made_again, _place),
            widths=(1,),
            rival=_deleted,
        )
    )
