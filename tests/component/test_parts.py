"""A batch that many tasks stage is the batch that one load reads: the same rows, the same complaints, the same rest."""

from __future__ import annotations

import json
import pickle
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.write.part import Split, StagedPart
from omnigraph.write.part_task import RecordRows, TableRows

SCHEMA = """
node Person { name: String @key  age: I32?  city: enum(oslo, rome)?  mail: String? @unique  @range(age, 0..150) }
node Note { text: String?  scores: [F64]?  spot: Vector(2)? }
edge Knows: Person -> Person @card(0..3) { weight: F64?  since: Date? }
edge Likes: Person -> Note { at: DateTime?  @unique(src, dst) }
"""
COLUMNS = {
    "Person": pa.schema(
        [("name", pa.string()), ("age", pa.int64()), ("city", pa.string()), ("mail", pa.string())],
    ),
    "Note": pa.schema([("id", pa.string()), ("text", pa.string()), ("spot", pa.list_(pa.float64()))]),
    "Knows": pa.schema([("id", pa.string()), ("from", pa.string()), ("to", pa.string()), ("weight", pa.float64())]),
    "Likes": pa.schema([("from", pa.string()), ("to", pa.string())]),
}
Rows = Mapping[str, Sequence[Mapping[str, Any]]]


def tables(rows: Rows) -> dict[str, pa.Table]:
    return {name: pa.Table.from_pylist([dict(row) for row in listed], COLUMNS[name]) for name, listed in rows.items()}


def judged(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name in ("on_bad_row", "bad_rows_max")}


def as_foretold(foretold: og.PartsReport, load: Any) -> og.Receipt:
    """A check says what the load will say: whether it commits, how many rows leave, and why it is refused."""
    try:
        receipt = load()
    except (og.errors.DataInvalid, og.errors.KeyConflict) as error:
        assert not foretold.ok
        if not foretold.rejected:
            assert ([*foretold.violations], foretold.total) == (error.violations, error.total)
        raise
    if not receipt.replayed:
        assert foretold.ok and foretold.rejected == receipt.rejected.total
    return receipt


def stage(graph: og.Graph, given: Mapping[str, pa.Table], mode: str, cut: int, **options: Any) -> og.Receipt:
    """As executors do it, one after the other: every table in stretches of ``cut`` rows, every answer pickled."""
    set_aside = options.get("on_bad_row") == "quarantine"
    txn = graph.begin()
    task = pickle.loads(pickle.dumps(txn.task(mode, set_aside=set_aside, rows_per_file=cut)))
    parts: list[StagedPart] = []
    keys = sorted(given, key=lambda name: graph.catalog.type(name).table_key)
    for order, name in enumerate(keys):
        batches = given[name].to_batches(max_chunksize=cut) or [pa.RecordBatch.from_pylist([], given[name].schema)]
        for index, batch in enumerate(batches):
            split = Split(order, index)
            parts.append(pickle.loads(pickle.dumps(task.stage_table(name, [TableRows(split, [batch])], split.key))))
    txn.add_parts(parts)
    errors = [part.error for part in parts if part.error is not None]
    try:
        if errors:
            raise errors[0]
        foretold = og.check_parts(txn, parts, given, mode=mode, **judged(options))
        return as_foretold(foretold, lambda: txn.load_parts(list(reversed(parts)), given, mode=mode, **options))
    except og.errors.OmnigraphError:
        if not txn.sent:
            txn.abort()
        raise


def told(error: og.errors.OmnigraphError) -> tuple[Any, ...]:
    return type(error).__name__, _text([error.message, error.facts.get("violations"), error.facts.get("total")])


def _text(value: Any) -> str:
    """As text, because a NaN is not equal to itself; without ids that were made, which differ from load to load."""
    return re.sub(r"[0-7][0-9A-HJKMNP-TV-Z]{25}", "ID", json.dumps(value))


def outcome(load: Any) -> Any:
    """What the caller learns: counts and rejected rows, or the error with its violations."""
    try:
        receipt = load()
    except og.errors.OmnigraphError as error:
        return told(error)
    counts = {key: {**change.to_dict(), "version": 0} for key, change in receipt.tables.items()}
    return counts, _text(receipt.rejected.to_dict()), receipt.commit_id is None


def content(graph: og.Graph) -> list[Any]:
    """The export; ids that were made differ from load to load and are left out."""
    found = []
    for line in graph.snapshot().export().splitlines():
        record = json.loads(line)
        if len(record.get("data", {}).get("id", "")) == 26:
            del record["data"]["id"]
        found.append(json.dumps(record, sort_keys=True))
    return sorted(found)


def files(graph: og.Graph) -> set[str]:
    root = Path(graph.uri)
    return {str(p.relative_to(root)) for kind in ("nodes", "edges") for p in root.glob(f"{kind}/*/data/*")}


def test_parts_and_a_load_agree_on_a_batch_without_faults(tmp_path: Path) -> None:
    rows: Rows = {
        "Person": [{"name": f"p{n}", "age": n, "city": "oslo", "mail": f"m{n}"} for n in range(25)],
        "Note": [{"id": f"n{n}", "text": None, "spot": [n, 0.5]} for n in range(5)],
        "Knows": [{"id": f"k{n}", "from": f"p{n}", "to": f"p{n + 1}", "weight": n / 2} for n in range(20)],
        "Likes": [{"from": f"p{n}", "to": f"n{n % 5}"} for n in range(10)],
    }
    with og.init(tmp_path / "a", SCHEMA) as one, og.init(tmp_path / "b", SCHEMA) as other:
        for mode in ("append", "merge", "overwrite"):
            mine = outcome(lambda mode=mode: stage(one, tables(rows), mode, 7))
            assert mine == outcome(lambda mode=mode: other.load(tables(rows), mode=mode))
            assert content(one) == content(other)
        assert one.verify().ok
        assert list((tmp_path / "a" / "__staging").glob("*")) == []


NAMES = st.sampled_from([f"p{n}" for n in range(7)])
NOTES = st.sampled_from([f"n{n}" for n in range(4)])
ROWS = st.fixed_dictionaries(
    {},
    optional={
        "Person": st.lists(
            st.fixed_dictionaries(
                {
                    "name": NAMES | NAMES | NAMES | st.none(),
                    "age": st.integers(0, 99) | st.none() | st.sampled_from([-1, 2**40]),
                    "city": st.sampled_from(["oslo", "oslo", "rome", None, "bonn"]),
                    "mail": st.none() | st.none() | st.sampled_from(["a", "b", "c"]),
                }
            ),
            max_size=6,
        ),
        "Note": st.lists(
            st.fixed_dictionaries(
                {
                    "id": NOTES,
                    "text": st.none() | st.text("ab", max_size=2),
                    "spot": st.sampled_from([None, [1.0, 2.0], [1.0, 2.0], [1.0]]),
                }
            ),
            max_size=4,
        ),
        "Knows": st.lists(
            st.fixed_dictionaries(
                {
                    "id": st.sampled_from([None, "k1", "k2", "k3"]),
                    "from": NAMES,
                    "to": NAMES,
                    "weight": st.sampled_from([None, 0.5, -0.0, float("nan")]),
                }
            ),
            max_size=6,
        ),
        "Likes": st.lists(st.fixed_dictionaries({"from": NAMES, "to": NOTES}), max_size=4),
    },
)
LOADS = st.lists(
    st.tuples(
        ROWS, st.sampled_from(["append", "merge", "merge", "overwrite"]), st.sampled_from(["fail", "quarantine"])
    ),
    min_size=1,
    max_size=3,
)


# Without shrinking: an example costs tenths of a second, and the batches are small as they are.
@settings(deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(loads=LOADS, cut=st.integers(1, 4))
def test_random_batches_come_out_the_same_through_both_doors(loads: list[Any], cut: int) -> None:
    first: Rows = {
        "Person": [{"name": f"p{n}", "age": n, "city": None, "mail": "a" if n == 1 else None} for n in range(4)],
        "Note": [{"id": "n0", "text": "x", "spot": [1.0, 2.0]}],
        "Knows": [{"id": "k1", "from": "p0", "to": "p1", "weight": 0.5}],
        "Likes": [{"from": "p0", "to": "n0"}],
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        og.init(f"{folder}/a", SCHEMA) as one,
        og.init(f"{folder}/b", SCHEMA) as other,
    ):
        for graph in (one, other):
            graph.load(tables(first), mode="append")
        for rows, mode, on_bad_row in loads:
            if not rows:
                continue
            before = files(one)
            mine = outcome(lambda: stage(one, tables(rows), mode, cut, on_bad_row=on_bad_row))  # noqa: B023
            theirs = outcome(lambda: other.load(tables(rows), mode=mode, on_bad_row=on_bad_row))  # noqa: B023
            assert mine == theirs
            assert content(one) == content(other)
            if isinstance(mine[0], str):
                assert files(one) == before, "what was staged for a refused batch is taken away"
        assert one.verify(deep=True).ok
        assert not list(Path(folder, "a", "__staging").glob("*"))


def test_records_of_several_types_are_staged_in_one_pass(tmp_path: Path) -> None:
    records = [{"type": "Person", "data": {"name": f"p{n}", "age": n}} for n in range(6)]
    records += [{"edge": "Knows", "from": f"p{n}", "to": "p0", "data": {"id": f"k{n}"}} for n in range(6)]
    records.insert(3, {"type": "Person", "data": {"name": "bad", "age": "old"}})
    with og.init(tmp_path / "a", SCHEMA) as one, og.init(tmp_path / "b", SCHEMA) as other:
        txn = one.begin()
        task = txn.task("append", set_aside=True)
        parts = [
            task.stage_records([RecordRows(Split(0, i), [records[start : start + 5]])], i)
            for i, start in enumerate(range(0, len(records), 5))
        ]
        txn.add_parts(parts)
        mine = outcome(lambda: txn.load_parts(parts, [], mode="append", on_bad_row="quarantine"))
        assert mine == outcome(lambda: other.load(records, mode="append", on_bad_row="quarantine"))
        assert content(one) == content(other)


def test_a_graph_that_moved_while_a_batch_was_staged_is_looked_at_again(tmp_path: Path) -> None:
    with og.init(tmp_path / "a", SCHEMA) as graph, og.open(tmp_path / "a") as rival:
        txn = graph.begin()
        task = txn.task("merge")
        batch = tables({"Person": [{"name": "p1", "age": 1}, {"name": "p2", "age": 2}]})["Person"]
        parts = [task.stage_table("Person", [TableRows(Split(0, 0), batch.to_batches())], 0)]
        txn.add_parts(parts)
        rival.load([{"type": "Person", "data": {"name": "p1", "age": 1}}], mode="append")
        receipt = txn.load_parts(parts, ["Person"], mode="merge")
        assert (receipt.tables["node:Person"].inserted, receipt.tables["node:Person"].unchanged) == (1, 1)
        assert graph.snapshot().count("Person") == 2


def test_a_known_key_is_answered_and_what_was_staged_goes(tmp_path: Path) -> None:
    with og.init(tmp_path / "a", SCHEMA) as graph:
        batch = tables({"Person": [{"name": "p1", "age": 1}]})
        first = stage(graph, batch, "append", 5, idempotency_key="once")
        before = files(graph)
        again = stage(graph, batch, "append", 5, idempotency_key="once")
        assert again.replayed and again.commit_id == first.commit_id
        assert files(graph) == before


def test_a_missing_file_is_found_before_anything_is_armed(tmp_path: Path) -> None:
    with og.init(tmp_path / "a", SCHEMA) as graph:
        txn = graph.begin()
        batch = tables({"Person": [{"name": "p1", "age": 1}]})["Person"]
        parts = [txn.task("append").stage_table("Person", [TableRows(Split(0, 0), batch.to_batches())], 0)]
        txn.add_parts(parts)
        (name,) = files(graph)
        (tmp_path / "a" / name).unlink()
        with pytest.raises(og.errors.InvalidInput, match="is missing"):
            txn.load_parts(parts, ["Person"], mode="append")
        assert graph.snapshot().count("Person") == 0
