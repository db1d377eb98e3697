"""A batch judged by partitions of its keys is the batch judged as a whole: the same complaints, the same rest, the same graph."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings

import omnigraph as og
from omnigraph import distributed
from omnigraph.distributed import driver as part_driver
from omnigraph.distributed import pass_rules as part_checks
from omnigraph.distributed import placement as part_placement
from omnigraph.distributed import reduce as part_reduce
from omnigraph.distributed.shuffle import Piece, PieceKind
from omnigraph.distributed.stage_task import TableRows
from omnigraph.distributed.staged_part import Split
from tests.component.distributed import test_parts as parts
from tests.component.distributed.test_parts import LOADS, SCHEMA, STEPS, content, outcome, tables
from tests.corpus.replay import replaying

EXAMPLES = max(settings().max_examples // 2, 1)

# Sources need an edge, and edges have identities of their own and tuples.
TIGHT = SCHEMA.replace("@card(0..3)", "@card(1..2)").replace("since: Date?", "since: Date? @unique(src, dst)")


class Wire:
    """As executors do it: what is run is pickled, pieces travel as bytes, and come in any order."""

    side_by_side = 3

    def __init__(self) -> None:
        self.rounds = 0
        self.bytes = 0  # that pass through the process that commits: what it sends out, and what it gets back

    def run(
        self,
        map_: Callable[[Any, int | None], Iterator[Piece]],
        items: Sequence[Any],
        reduce: Callable[[int, Iterable[Piece]], Any],
        partitions: int,
    ) -> list[Any]:
        self.rounds += 1
        sent: dict[int, list[bytes]] = defaultdict(list)
        for item in pickle.loads(pickle.dumps(list(items))):
            for piece in pickle.loads(pickle.dumps(map_))(item, None):
                sent[piece.partition].append(piece.to_bytes())
        reduce = pickle.loads(pickle.dumps(reduce))
        answers = [
            pickle.dumps(reduce(partition, [Piece.from_bytes(partition, one) for one in reversed(sent[partition])]))
            for partition in sorted(sent)
        ]
        self.bytes += len(pickle.dumps((map_, reduce, list(items)))) + sum(map(len, answers))
        return [pickle.loads(answer) for answer in answers]


@pytest.fixture
def stage_by_wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    """Every staged load of these tests goes through the exchange."""
    wire = Wire()
    by_wire(monkeypatch, wire)
    return wire


def by_wire(patch: pytest.MonkeyPatch, exchange: Any) -> None:
    from omnigraph.distributed.staging_txn import StagingTxn

    load, check = StagingTxn.load_parts, distributed.check_parts
    chosen = {"exchange": exchange, "exchange_always": True}
    patch.setattr(StagingTxn, "load_parts", lambda *args, **options: load(*args, **options, **chosen))
    patch.setattr(distributed, "check_parts", lambda *args, **options: check(*args, **options, **chosen))


@settings(deadline=None, max_examples=EXAMPLES, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(loads=LOADS)
@replaying("staged_batches", lambda entry: {"loads": entry["loads"]})
@pytest.mark.parametrize("schema", [SCHEMA, TIGHT])
def test_random_batches_come_out_the_same(schema: str, loads: list[Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        by_wire(patch, Wire())
        parts.same_through_both_doors(schema, loads, 2)


def quarantined(loads: list[Any]) -> list[Any]:
    return [(rows, mode, "quarantine") for rows, mode, _ in loads]


def few_rows_at_once(patch: pytest.MonkeyPatch, rows: int) -> None:
    """As if the memory were full after so many rows."""
    bytes_ = (part_checks.MEMORY_MB << 20) // rows
    for module, name in (
        (part_checks, "ROW_BYTES"),
        (part_driver, "STAGED_ROW_BYTES"),
        (part_driver, "COMMITTED_ROW_BYTES"),
    ):
        patch.setattr(module, name, bytes_)


@settings(deadline=None, max_examples=EXAMPLES, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(loads=LOADS.map(quarantined))
@replaying("staged_batches", lambda entry: {"loads": quarantined(entry["loads"])})
def test_rows_are_set_aside_in_passes_as_they_are_where_all_keys_are_held(loads: list[Any]) -> None:
    """Neither the keys of the batch nor an exchange: what falls because of other rows is found partition by partition."""
    sort = part_placement._sort_held

    def held(given: Any, *args: Any) -> Any:
        assert not any(given.rows(key) for key in given.tables)
        return sort(given, *args)

    with pytest.MonkeyPatch.context() as patch:
        few_rows_at_once(patch, 3)
        patch.setattr(part_checks, "PLAIN_ROWS", 0)
        patch.setattr(part_placement, "_sort_held", held)
        parts.same_through_both_doors(TIGHT, loads, 2)


def test_passes_hold_one_share_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []
    judge = part_reduce.ReducePartition.__call__

    def noted(self: Any, partition: int, pieces: Iterable[Piece]) -> Any:
        pieces = list(pieces)
        held.append(
            sum(piece.rows.num_rows for piece in pieces if piece.kind == PieceKind("node:Person", "staged", "ids"))
        )
        return judge(self, partition, pieces)

    monkeypatch.setattr(part_reduce.ReducePartition, "__call__", noted)
    rows = [{"name": f"p{n}", "age": 1, "city": None, "mail": f"m{n // 2}" if n < 4 else None} for n in range(400)]
    with og.init(tmp_path / "a", SCHEMA) as graph:
        few_rows_at_once(monkeypatch, 40)
        receipt = parts.stage(graph, tables({"Person": rows}), "append", 100, on_bad_row="quarantine")
        assert (receipt.rejected.total, graph.snapshot().count("Person")) == (4, 396)
    assert sum(held) > 400 and max(held) < 100


def test_every_rule_about_several_rows(tmp_path: Path, stage_by_wire: Wire) -> None:
    schema = SCHEMA.replace("@card(0..3)", "@card(1..2)")
    with og.init(tmp_path / "a", schema) as one, og.init(tmp_path / "b", schema) as other:
        for mode, rows, said in STEPS:
            mine = outcome(lambda: parts.stage(one, tables(rows), mode, 2))  # noqa: B023
            assert mine == outcome(lambda: other.load(tables(rows), mode=mode))  # noqa: B023
            assert (said in mine[1]) if said else not isinstance(mine[0], str), mine
            assert content(one) == content(other)
        assert one.verify(deep=True).ok
    assert stage_by_wire.rounds >= len(STEPS)


def test_of_many_complaints_the_first_come_back_and_all_are_counted(tmp_path: Path, stage_by_wire: Wire) -> None:
    rows = [{"name": f"p{n % 70:02}", "age": 1, "city": None, "mail": None} for n in range(140)]
    with og.init(tmp_path / "a", SCHEMA) as one, og.init(tmp_path / "b", SCHEMA) as other:
        mine = outcome(lambda: parts.stage(one, tables({"Person": rows}), "append", 50))
        assert mine == outcome(lambda: other.load(tables({"Person": rows}), mode="append"))
        assert mine[1].endswith(", 70]") and "69 more" in mine[1]


def test_what_a_commit_handles_depends_on_fragments_and_not_on_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four fragments with 100 rows or with 10,000 each: as many requests, as many bytes written, as much said."""
    found = []
    for rows in (100, 10_000):
        wire = Wire()
        with monkeypatch.context() as patch, og.init(tmp_path / f"g{rows}", SCHEMA) as graph:
            by_wire(patch, wire)
            txn = graph.begin()
            task = txn.task("append", rows_per_file=rows)
            staged = []
            for index in range(4):
                names = [f"p{n:06}" for n in range(index * rows, (index + 1) * rows)]
                ends = {"id": [f"k{name}" for name in names], "from": names, "to": names}
                split = Split(0, index)
                staged.append(task.stage_table("Person", _rows(split, {"name": names}), split.key))
                split = Split(1, index)
                staged.append(task.stage_table("Knows", _rows(split, ends), split.key))
            txn.add_parts(staged)
            receipt = txn.load_parts(staged, ["Person", "Knows"], options=og.LoadOptions(mode="append"))
            assert receipt.affected_nodes == receipt.affected_edges == 4 * rows
            cost = receipt.storage
            found.append((cost.requests, cost.hops, len(pickle.dumps(staged)), wire.bytes, cost.bytes_written))
    few, many = found
    assert few[:2] == many[:2]
    # Numbers have a few more digits.
    for one, other in zip(few[2:], many[2:], strict=True):
        assert abs(other - one) < 0.02 * one + 200, found


def _rows(split: Split, columns: dict[str, list[str]]) -> list[TableRows]:
    return [TableRows(split, pa.table(columns).to_batches())]
