"""What branches cost, exactly: the counts are kept in ``tests/golden/branches.json``.

Requests are counted at the wire of an object store, and receipts say the same. A change of a count is made on purpose: run with
``OMNIGRAPH_GOLDEN=write`` and look at the difference.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from bench.costs import measured
from bench.graphs import upload
from omnigraph.read import row_changes
from omnigraph.table.delta import Looked
from omnigraph.testing.emulator import S3Emulator
from omnigraph.testing.faults import FaultProxy
from tests.conftest import reach

GOLDEN = Path(__file__).parents[2] / "golden" / "branches.json"
ROWS, CHANGED = 3_000, 100
Counts = dict[str, int]
_numbers = itertools.count()


@contextmanager
def checked(section: str) -> Iterator[dict[str, Any]]:
    """Fill in what was measured; at the end it is what the golden file says, or becomes that."""
    found: dict[str, Any] = {}
    yield found
    golden: dict[str, Any] = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    if os.environ.get("OMNIGRAPH_GOLDEN") == "write":
        GOLDEN.write_text(json.dumps({**golden, section: found}, indent=1, sort_keys=True) + "\n")
    else:
        assert found == golden.get(section)


def text(tables: int) -> str:
    return "\n".join(f"node T{number} {{ name: String @key n: I32? }}" for number in range(tables))


def wide(root: Path | str, tables: int) -> og.Graph:
    return og.init(root, text(tables), durability="relaxed")


def rows(type_: str, first: int, end: int, n: int) -> list[dict[str, Any]]:
    return [{"type": type_, "data": {"name": f"{number:06}", "n": n}} for number in range(first, end)]


class Store:
    """Graphs on a store whose requests are counted."""

    def __init__(self, emulator: S3Emulator, proxy: FaultProxy, folder: Path) -> None:
        self._emulator, self._proxy, self._folder = emulator, proxy, folder

    def graph(self, tables: int, records: list[dict[str, Any]]) -> og.Graph:
        """Made on a disk, which is quick, and copied there. Its first write is a warm handle's."""
        number = next(_numbers)
        bucket, root = f"costs-{os.getpid()}-{number}", self._folder / f"{number}"
        self._emulator.create_bucket(bucket)
        with wide(root, tables) as made:
            made.load([*records, *rows("T0", 900_000, 900_001, 1)], mode="append")
        upload(root, f"s3://{bucket}/graph", self._emulator.endpoint)
        graph = og.open(f"s3://{bucket}/graph")
        graph.load(rows("T0", 900_001, 900_002, 1), mode="append")
        graph.branches.create("warm")  # the first creation of a root probes the store besides
        return graph

    def sent(self, act: Callable[[], Any]) -> Counts:
        """What a call sends, which is what its receipt says."""
        found: list[Any] = []
        cost = measured(self._proxy, lambda: found.append(act()))
        assert found[0].storage.requests == cost.requests
        return cost.detail

    def asked(self, act: Callable[[], Any]) -> Counts:
        """What a call sends that has no receipt."""
        return measured(self._proxy, act).detail


@pytest.fixture
def store(
    s3_emulator: S3Emulator, fault_proxy: FaultProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Store]:
    reach(fault_proxy.endpoint, monkeypatch)
    yield Store(s3_emulator, fault_proxy, tmp_path)


def one(graph: og.Graph, type_: str, name: str, branch: str = "main") -> Callable[[], Any]:
    """Add one row."""
    return lambda: graph.load([{"type": type_, "data": {"name": name, "n": 1}}], mode="append", branch=branch)


def total(found: Counts) -> int:
    return sum(found.values())


# --- making and writing -----------------------------------------------------------------------------------------------------


def test_a_branch_costs_the_same_whatever_the_number_of_tables(store: Store) -> None:
    with checked("create") as found:
        for tables in (5, 50, 500):
            with store.graph(tables, []) as graph:
                found[f"{tables} tables"] = store.sent(lambda: graph.branches.create("b"))
        with store.graph(5, []) as graph:
            graph.branches.create("b")
            graph.branches.delete("b")
            found["the name was used before"] = store.sent(lambda: graph.branches.create("b"))
    assert all(total(one_) <= 11 for one_ in found.values())
    assert found["5 tables"] == found["50 tables"] == found["500 tables"]


def test_the_first_write_of_a_table_costs_a_fork(store: Store) -> None:
    with checked("write") as found, store.graph(5, []) as graph:
        graph.branches.create("b")
        found["main"] = store.sent(one(graph, "T0", "a"))
        found["branch, its first swap"] = store.sent(one(graph, "T0", "b", "b"))
        found["branch, first write of another table"] = store.sent(one(graph, "T1", "c", "b"))
        found["branch, second write"] = store.sent(one(graph, "T0", "d", "b"))
        for number in range(20):
            graph.branches.create(f"other-{number}")
        found["branch beside twenty"] = store.sent(one(graph, "T0", "e", "b"))
    on_main = total(found["main"])
    assert total(found["branch, its first swap"]) <= on_main + 7
    assert total(found["branch, first write of another table"]) <= on_main + 5
    assert total(found["branch, second write"]) <= on_main + 2  # it reads the ids that the fork brought along, once
    assert total(found["branch beside twenty"]) == on_main


def test_deleting_a_branch_costs_the_same_whatever_the_number_of_tables(store: Store) -> None:
    """By a handle that knows nothing of the branch; it has written to main, because the first creation of a key asks the store
    besides whether it refuses a second one."""
    with checked("delete") as found:
        for tables in (5, 50):
            for wrote in (False, True):
                with store.graph(tables, []) as graph:
                    graph.branches.create("b")
                    if wrote:
                        one(graph, "T0", "b", "b")()
                    name = f"{tables} tables, {'written' if wrote else 'as made'}"
                    with og.open(graph.uri) as cold:
                        one(cold, "T0", "a")()
                        found[name] = store.asked(lambda: cold.branches.delete("b"))
    assert all(total(counts) <= 12 for counts in found.values())
    assert found["5 tables, written"] == found["50 tables, written"]
    assert found["5 tables, as made"] == found["50 tables, as made"]


def test_listing_branches_costs_one_listing_and_a_look_at_each_name(store: Store) -> None:
    """Names of deleted branches count; what an entry says never changes, so it is read once. Beside that main is looked at."""
    with checked("list") as found, store.graph(5, []) as graph:
        for number in range(9):
            graph.branches.create(f"b{number}")
        graph.branches.delete("b0")
        with og.open(graph.uri) as cold:
            found["ten names, cold"] = store.asked(lambda: cold.branches.list())
            found["ten names, again"] = store.asked(lambda: cold.branches.list())
    assert (found["ten names, cold"]["other list"], found["ten names, cold"]["other get"]) == (1, 10)
    assert total(found["ten names, again"]) == total(found["ten names, cold"]) - 10


def test_a_branch_is_opened_by_its_name(store: Store) -> None:
    with checked("open") as found, store.graph(5, []) as graph:
        found["main"] = store.asked(lambda: og.open(graph.uri, read_only=True).snapshot())
        graph.branches.create("b")
        with og.open(graph.uri, read_only=True) as cold:
            found["branch, as made"] = store.asked(lambda: cold.snapshot("b"))
        one(graph, "T0", "b", "b")()
        with og.open(graph.uri, read_only=True) as cold:
            found["branch, written"] = store.asked(lambda: cold.snapshot("b"))
    assert total(found["branch, as made"]) == 5 and total(found["branch, written"]) == 7


# --- merge and undo -----------------------------------------------------------------------------------------------------------


def touched_tables(store: Store, tables: int, touched: int) -> og.Graph:
    """Some tables with rows, of which a branch has changed a hundred in each of the first ``touched``."""
    graph = store.graph(tables, [row for number in range(tables) for row in rows(f"T{number}", 0, ROWS, 1)])
    graph.branches.create("b")
    for number in range(touched):
        graph.load(rows(f"T{number}", 50, 50 + CHANGED, 2), mode="merge", branch="b")
    return graph


def test_a_merge_costs_what_was_touched(store: Store) -> None:
    """Tables that no side has changed cost nothing."""
    with checked("merge") as found:
        for tables, touched in ((2, 1), (2, 2), (8, 1), (8, 2)):
            with touched_tables(store, tables, touched) as graph:
                found[f"{touched} of {tables} tables"] = store.sent(lambda: graph.branches.merge("b"))
        with touched_tables(store, 2, 1) as graph:
            graph.load(rows("T0", ROWS - 1, ROWS, 3), mode="merge")
            found["into a target that moved"] = store.sent(lambda: graph.branches.merge("b"))
        with touched_tables(store, 2, 1) as graph:
            graph.load(rows("T0", 50, 60, 3), mode="merge", branch="b")
            found["of rows written twice"] = store.sent(lambda: graph.branches.merge("b"))
        with touched_tables(store, 4, 0) as graph:
            graph.load(rows("T0", 50, 50 + CHANGED, 2), mode="merge")
            found["main into a branch"] = store.sent(lambda: graph.branches.merge("main", into="b"))
    assert found["1 of 2 tables"] == found["1 of 8 tables"] and found["2 of 2 tables"] == found["2 of 8 tables"]
    first, second = total(found["1 of 2 tables"]), total(found["2 of 2 tables"])
    assert second - first <= 25 and first <= 25 + 12
    asked = {name.split()[0] for name in found["main into a branch"]}
    assert not asked & {"data", "versions", "index"}, "no table is asked for anything"


def test_taking_a_load_back_costs_a_restore_a_table(store: Store) -> None:
    with checked("revert") as found:
        for tables in (1, 3):
            with store.graph(4, [row for number in range(tables) for row in rows(f"T{number}", 0, 10, 1)]) as graph:
                bad = [row for number in range(tables) for row in rows(f"T{number}", 10, ROWS, 1)]
                commit_id = str(graph.load(bad, mode="append").commit_id)
                found[f"{tables} tables"] = store.sent(lambda: graph.revert(commit_id))  # noqa: B023
    assert (total(found["3 tables"]) - total(found["1 tables"])) / 2 <= 10


# --- what changed ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> Looked:
    """What comparisons have looked at."""
    found = Looked()
    compare = row_changes.delta
    monkeypatch.setattr(row_changes, "delta", lambda *sides, **more: compare(*sides, **{**more, "looked": found}))
    return found


def test_a_comparison_reads_the_rows_that_changed(tmp_path: Path, looked: Looked) -> None:
    def measure(graph: og.Graph, a: str, b: str) -> dict[str, int]:
        looked.rows = looked.stamps = 0
        changed = len(list(graph.diff(a, b)))
        return {"changed": changed, "rows": looked.rows, "stamps": looked.stamps}

    with checked("diff") as found, wide(tmp_path / "g", 3) as graph:
        graph.load(rows("T0", 0, ROWS, 1), mode="append")
        graph.load(rows("T1", 0, ROWS, 1), mode="append")
        before = graph.snapshot().commit_id
        graph.branches.create("b")
        graph.load([*rows("T0", 100, 180, 2), *rows("T0", ROWS, ROWS + 10, 2)], mode="merge", branch="b")
        gone = " ".join(f'delete T0 where name = "{number:06}"' for number in range(500, 510))
        graph.mutate(f"query q() {{ {gone} }}", branch="b")
        found["as written"] = measure(graph, before, "b")
        found["between branches"] = measure(graph, "main", "b")
        graph.optimize(branches=["b"])
        found["after a compaction"] = measure(graph, before, "b")
    for counts in found.values():
        assert counts["changed"] == 100 and counts["rows"] <= 300


def test_a_feed_of_small_commits_reads_what_they_brought(tmp_path: Path, looked: Looked) -> None:
    """Ten thousand times as many rows lie in the table. Stretches compare nothing."""
    with checked("feed") as found, wide(tmp_path / "g", 2) as graph:
        graph.load(rows("T0", 0, ROWS, 1), mode="append")
        since = graph.snapshot().commit_id
        for number in range(20):
            graph.load(rows("T0", number, number + 1, 7), mode="merge")
        found["updates"] = feed(graph, since, looked)
        since = graph.snapshot().commit_id
        for number in range(20):
            graph.load(rows("T0", ROWS + number, ROWS + number + 1, 7), mode="append")
        found["inserts"] = feed(graph, since, looked)
    assert all(counts == {"changes": 20, "compared": 0} for counts in found.values())


def feed(graph: og.Graph, since: str, looked: Looked) -> dict[str, int]:
    looked.rows = looked.stamps = 0
    with og.open(graph.uri, read_only=True) as reader:
        found = list(reader.changes(since))
    return {"changes": len(found), "compared": looked.rows + looked.stamps}
