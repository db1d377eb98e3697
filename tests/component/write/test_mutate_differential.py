"""The engine and a plain interpreter run the same random queries and have to agree on every answer and every row."""

from __future__ import annotations

import json
import os
import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.core.errors import DataInvalid, QueryInvalid
from omnigraph.schema.catalog import EdgeType, NodeType, TableType
from omnigraph.testing.mutation_histories import SCHEMA, SEED, Histories, Query
from omnigraph.testing.mutation_reference import ReferenceGraph, Refused, Row, stored

QUERIES_A_HISTORY = 3
HISTORIES_A_GRAPH = 25
SHORT = 200
LONG = 20_000


class Pair:
    """A graph and its reference, from the same start."""

    def __init__(self, root: Path, rng: random.Random) -> None:
        self.graph = og.init(root, SCHEMA)
        self.graph.load("\n".join(json.dumps(record) for record in SEED), mode="append")
        self.reference = ReferenceGraph(self.graph.catalog)
        for declared in self.graph.catalog.types():
            self.reference.rows[declared.table_key] = {row.pop("id"): row for row in self.rows_of(declared)}
        self.histories = Histories(self.graph.catalog, rng)

    def rows_of(self, declared: TableType) -> list[Row]:
        rows: list[Row] = self.graph.snapshot().to_arrow(declared.name).to_pylist()
        return rows

    def step(self, query: Query) -> str:
        """Run one query on both sides; how it ended."""
        try:
            answer = self.reference.run(query.statements)
        except Refused as refused:
            expected = {"query": QueryInvalid, "data": DataInvalid}[refused.kind]
            with pytest.raises(expected):
                self.graph.mutate(query.text, params=query.params)
            return refused.kind
        receipt = self.graph.mutate(query.text, params=query.params)
        assert (receipt.affected_nodes, receipt.affected_edges) == (answer.nodes, answer.edges)
        assert (receipt.commit_id is not None) == answer.changed
        counted = {
            key: (change.inserted, change.updated, change.deleted, change.unchanged)
            for key, change in receipt.tables.items()
        }
        changed_tables = {key for key, counts in answer.tables.items() if sum(counts[:3])}
        assert counted == answer.tables
        self.compare(changed_tables)
        return "changed" if answer.changed else "nothing"

    def compare(self, keys: set[str] | None = None) -> None:
        for declared in self.graph.catalog.types():
            if keys is None or declared.table_key in keys:
                assert self.content(declared) == self.expected(declared), declared.table_key

    def content(self, declared: TableType) -> Counter[str]:
        return Counter(_shown(declared, row["id"], row) for row in self.rows_of(declared))

    def expected(self, declared: TableType) -> Counter[str]:
        rows = self.reference.rows[declared.table_key]
        return Counter(_shown(declared, id_, row) for id_, row in rows.items())


def _shown(declared: TableType, id_: str, row: Row) -> str:
    """A row as text. Minted ids differ between the two sides, so only ids of keys are compared."""
    keyed = isinstance(declared, NodeType) and declared.key is not None
    ends = {name: row[name] for name in ("src", "dst")} if isinstance(declared, EdgeType) else {}
    values = {prop.name: stored(prop.type, row[prop.name]) for prop in declared.properties}
    values = {name: value.timestamp() if isinstance(value, datetime) else value for name, value in values.items()}
    return repr((id_ if keyed else "", ends, values))


@contextmanager
def memory_folder() -> Iterator[Path]:
    """Durability is not what is compared here, and a thousand commits on a disk take a while."""
    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="mutations-", dir=where) as folder:
        yield Path(folder)


def compare_histories(first: int, count: int) -> Counter[str]:
    """Run histories ``first`` and following; every 25 share a graph. How their queries ended."""
    ended: Counter[str] = Counter()
    for start in range(first, first + count, HISTORIES_A_GRAPH):
        rng = random.Random(start)
        with memory_folder() as folder:
            pair = Pair(folder / "graph", rng)
            try:
                for number in range(start, min(start + HISTORIES_A_GRAPH, first + count)):
                    for _ in range(QUERIES_A_HISTORY):
                        query = pair.histories.query()
                        try:
                            ended[pair.step(query)] += 1
                        except BaseException as error:
                            error.add_note(f"history {number} (seed {start}): {query.text} {query.params}")
                            raise
                pair.compare()
            finally:
                pair.graph.close()
    return ended


def test_the_engine_agrees_with_the_reference() -> None:
    ended = compare_histories(0, SHORT)
    # Histories that are all refused, or never are, would compare little.
    assert min(ended["changed"], ended["nothing"], ended["data"], ended["query"]) > SHORT * QUERIES_A_HISTORY // 50, (
        ended
    )


@pytest.mark.long
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("part", range(20))
def test_the_engine_agrees_with_the_reference_for_long(part: int) -> None:
    share = LONG // 20
    compare_histories(1_000_000 + part * share, share)


# --- the comparison itself ------------------------------------------------------------------------------------------------


def run_with(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, fault: Any) -> None:
    monkeypatch.setattr(module, name, fault)
    with pytest.raises(BaseException):  # noqa: B017 - whichever way the difference shows
        compare_histories(0, 100)


def test_a_pending_row_that_does_not_shadow_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    from omnigraph.write.mutation.pending_rows import PendingRows

    run_with(monkeypatch, PendingRows, "_shadows", lambda self, rows: np.zeros(rows.num_rows, dtype=bool))


def test_a_delete_that_forgets_edges_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from omnigraph.write.mutation.deletes import Removals

    run_with(monkeypatch, Removals, "cascade", lambda self: 0)


def test_checks_that_are_left_out_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from omnigraph.write import mutate
    from omnigraph.write.rules.validate import Verdict

    run_with(monkeypatch, mutate, "validate", lambda *_args, **_options: Verdict())
