"""What each operation sends to a store, exactly: the counts are kept in ``tests/golden/requests.json``.

A change of a count is a change of the product, so it is made on purpose: run with ``OMNIGRAPH_GOLDEN=write`` and look at
the difference.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from bench import costs
from bench.costs import (
    CARD_EDGE,
    CONSTRAINED_OPS,
    EDGE,
    EDGE_MERGE,
    NODE_APPEND,
    PLAIN_OPS,
    TWO_AND_TWO,
    UNIQUE_EDGE,
    Op,
    Writer,
)
from bench.graphs import History, World, upload
from omnigraph.testing.emulator import S3Emulator
from omnigraph.testing.faults import FaultProxy
from tests.conftest import reach

GOLDEN = Path(__file__).parents[2] / "golden" / "requests.json"

# A shorter tail than the default, so that history goes to the archive between the two depths.
TAIL_ROLL, TAIL_KEEP = 64, 32
SHALLOW, BEFORE_ROLL, DEEP = 5, 62, 70
TABLES = 7
OPS = tuple(dict.fromkeys((*PLAIN_OPS, *CONSTRAINED_OPS)))

Counts = dict[str, int]

_serial = itertools.count(1)


@pytest.fixture(scope="module")
def proxy(s3_emulator: S3Emulator) -> Iterator[FaultProxy]:
    with pytest.MonkeyPatch.context() as patch, FaultProxy(s3_emulator.endpoint) as proxy:
        reach(proxy.endpoint, patch)
        patch.setattr("omnigraph.manifest.state.TAIL_ROLL", TAIL_ROLL)
        patch.setattr("omnigraph.manifest.state.TAIL_KEEP", TAIL_KEEP)
        yield proxy


@pytest.fixture(scope="module")
def histories(proxy: FaultProxy, tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[Path, str]]:
    """One history, kept as it was at three depths. Without indexes: which of their pages are read depends on chance."""
    folder = tmp_path_factory.mktemp("histories")
    history = History(folder / "graph", tables=TABLES, constrained=True, indexed=False)
    kept = {}
    for depth in (SHALLOW, BEFORE_ROLL, DEEP):
        history.grow_to(depth)
        kept[depth] = Path(shutil.copytree(history.root, folder / f"{depth}")), history.commit_ids[0]
    history.close()
    return kept


@pytest.fixture
def world(s3_emulator: S3Emulator, histories: dict[int, tuple[Path, str]]) -> Callable[[int], World]:
    """A copy of the history at a depth, for one test alone."""

    def make(depth: int) -> World:
        bucket = f"golden-{os.getpid()}-{next(_serial)}"
        s3_emulator.create_bucket(bucket)
        root, first_commit = histories[depth]
        uri = f"s3://{bucket}/graph"
        return World(uri, depth, TABLES, (first_commit,), upload(root, uri, s3_emulator.endpoint))

    return make


@contextmanager
def checked(section: str) -> Iterator[dict[str, Counts]]:
    """Fill in what was measured; at the end it is what the golden file says, or becomes that."""
    measured: dict[str, Counts] = {}
    yield measured
    golden: dict[str, Any] = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    if os.environ.get("OMNIGRAPH_GOLDEN") == "write":
        GOLDEN.write_text(json.dumps({**golden, section: measured}, indent=1, sort_keys=True) + "\n")
    else:
        assert measured == golden.get(section)


def warm_counts(proxy: FaultProxy, world: World, op: Op) -> Counts:
    with og.open(world.uri) as graph:
        writer = Writer(graph, 1_000 * (1 + OPS.index(op)))
        writer.run(op)
        writer.run(op)
        return costs.measured(proxy, lambda: writer.run(op)).detail


def test_a_warm_write_sends_exactly_this_at_every_depth(proxy: FaultProxy, world: Callable[[int], World]) -> None:
    shallow, deep = world(SHALLOW), world(DEEP)
    with checked("warm") as measured:
        for op in OPS:
            measured[op.name] = warm_counts(proxy, shallow, op)
    assert {op.name: warm_counts(proxy, deep, op) for op in OPS} == measured
    assert sum(measured[EDGE.name].values()) == 11
    assert sum(measured[TWO_AND_TWO.name].values()) - 11 <= 3 * 4


def test_a_commit_that_archives_history_writes_two_files_more(proxy: FaultProxy, world: Callable[[int], World]) -> None:
    with og.open(world(BEFORE_ROLL).uri) as graph:
        writer = Writer(graph)
        first = costs.measured(proxy, lambda: writer.run(EDGE))
        second = costs.measured(proxy, lambda: writer.run(EDGE))
    assert (first.detail["manifest put"], second.detail["manifest put"]) == (5, 3)


def test_the_first_write_of_a_handle_sends_exactly_this(proxy: FaultProxy, world: Callable[[int], World]) -> None:
    """What it asks by id is answered by the pin, whatever the depth. Look-ups by other columns read every data file that no index
    covers, so the counts under a constraint belong to one depth."""
    shallow, deep = world(SHALLOW), world(DEEP)
    with checked(f"cold, depth {SHALLOW}") as measured:
        for number, op in enumerate((EDGE, EDGE_MERGE, NODE_APPEND, TWO_AND_TWO, UNIQUE_EDGE, CARD_EDGE)):
            with og.open(shallow.uri) as graph:
                writer = Writer(graph, 70_000 + number)
                measured[op.name] = costs.measured(proxy, lambda: writer.run(op)).detail  # noqa: B023
    for number, op in enumerate((EDGE, EDGE_MERGE, NODE_APPEND, TWO_AND_TWO)):
        with og.open(deep.uri) as graph:
            writer = Writer(graph, 80_000 + number)
            assert costs.measured(proxy, lambda: writer.run(op)).detail == measured[op.name]  # noqa: B023
    # What a fresh process pays once it is open. Opening for writing is counted apart: six requests, for whatever is written then.
    assert sum(measured[EDGE.name].values()) <= 22
    assert sum(measured[NODE_APPEND.name].values()) <= 24
    # The id of an edge that is given none is minted: looking it up would read every file of the edges' table.
    assert measured[EDGE_MERGE.name] == measured[EDGE.name]


def test_opening_sends_exactly_this_at_every_depth(proxy: FaultProxy, world: Callable[[int], World]) -> None:
    shallow, deep = world(SHALLOW), world(DEEP)

    def snapshot(world: World, at: str | None = None) -> None:
        with og.open(world.uri, read_only=True) as graph:
            graph.snapshot(at=at)

    with checked("open") as measured:
        head = measured["branch head, for reading"] = opened(proxy, lambda: snapshot(shallow))
        assert head == opened(proxy, lambda: snapshot(deep))
        assert (
            sum(head.values()) == 5 + 2
        )  # three fragments side by side; whether it is the newest: a HEAD and the boundary
        writing = measured["branch head, for writing"] = opened(proxy, lambda: og.open(shallow.uri).close())
        assert writing == opened(proxy, lambda: og.open(deep.uri).close())
        in_tail = opened(proxy, lambda: snapshot(shallow, shallow.commit_ids[0]))
        archived = opened(proxy, lambda: snapshot(deep, deep.commit_ids[0]))
        measured["first commit, in the tail"], measured["first commit, in the archive"] = in_tail, archived
        assert (
            sum(archived.values()) == sum(in_tail.values()) + 2
        )  # one archive file; and base, which was written again when the tail rolled


def opened(proxy: FaultProxy, act: Callable[[], Any]) -> Counts:
    return costs.measured(proxy, act).detail


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_a_receipt_says_what_went_over_the_wire(proxy: FaultProxy, world: Callable[[int], World], op: Op) -> None:
    with og.open(world(SHALLOW).uri) as graph:
        writer = Writer(graph, 2_000)
        for _ in range(3):
            cost = costs.measured(proxy, lambda: writer.run(op))
            assert cost.receipt is not None
            assert cost.receipt.exact
            assert cost.receipt.by_class == {name: n for name, n in cost.by_class.items() if n and name != "total"}
            assert cost.receipt.requests == cost.by_class["total"]
