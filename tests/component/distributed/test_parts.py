"""A batch that many tasks stage is the batch that one load reads: the same rows, the same complaints, the same rest."""

from __future__ import annotations

import json
import pickle
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph import distributed
from omnigraph.distributed import pass_rules as part_checks
from omnigraph.distributed.stage_task import RecordRows, TableRows
from omnigraph.distributed.staged_part import Split, StagedPart
from omnigraph.write.base import committed_rows as committed
from tests.corpus.replay import print_example, replaying

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


JUDGED = ("on_bad_row", "bad_rows_max", "bounds", "on_missing_endpoint")


def judged(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name in JUDGED}


def as_foretold(foretold: distributed.PartsReport, load: Any) -> og.Receipt:
    """A check says what the load will say: whether it commits, how many rows leave, and why it is refused."""
    try:
        receipt = load()
    except (og.errors.DataInvalid, og.errors.KeyConflict) as error:
        assert not foretold.ok
        if not (foretold.rejected or foretold.dropped or foretold.stubs or foretold.refusal):
            assert ([*foretold.violations], foretold.total) == (error.violations, error.total)
        raise
    if not receipt.replayed:
        assert foretold.ok and foretold.rejected == receipt.rejected.total
        assert (foretold.stubs, foretold.dropped) == (receipt.stubs, receipt.dropped)
        assert foretold.missing_ids == receipt.rejected.missing_ids
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
        foretold = distributed.check_parts(txn, parts, given, mode=mode, **judged(options))
        asked = og.LoadOptions(mode=mode, **options)
        return as_foretold(foretold, lambda: txn.load_parts(list(reversed(parts)), given, options=asked))
    except og.errors.OmnigraphError:
        if not txn.sent:
            txn.abort()
        raise


def told(error: og.errors.OmnigraphError) -> tuple[Any, ...]:
    return type(error).__name__, _text([error.message, error.facts.get("violations"), error.facts.get("total")])


def _text(value: Any) -> str:
    """As text, because a NaN is not equal to itself; without ids that were made, which differ from load to load. The members
    of a record may come in another order: a staged part is canonical JSON."""
    return re.sub(r"[0-7][0-9A-HJKMNP-TV-Z]{25}", "ID", json.dumps(value, sort_keys=True))


def outcome(load: Any) -> Any:
    """What the caller learns: counts and rejected rows, or the error with its violations."""
    try:
        receipt = load()
    except og.errors.OmnigraphError as error:
        return told(error)
    counts = {key: {**change.to_dict(), "version": 0} for key, change in receipt.tables.items()}
    return counts, _text(receipt.rejected.to_dict()), receipt.commit_id is None, receipt.stubs, receipt.dropped


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
@replaying("staged_batches", lambda entry: {"loads": entry["loads"], "cut": entry["cut"]})
def test_random_batches_come_out_the_same_through_both_doors(loads: list[Any], cut: int) -> None:
    same_through_both_doors(SCHEMA, loads, cut)


def same_through_both_doors(schema: str, loads: list[Any], cut: int) -> None:
    print_example(why="", schema="tight" if "1..2" in schema else "loose", cut=cut, loads=loads)
    first: Rows = {
        "Person": [{"name": f"p{n}", "age": n, "city": None, "mail": "a" if n == 1 else None} for n in range(4)],
        "Note": [{"id": "n0", "text": "x", "spot": [1.0, 2.0]}],
        "Knows": [{"id": "k1", "from": "p0", "to": "p1", "weight": 0.5}],
        "Likes": [{"from": "p0", "to": "n0"}],
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        og.init(f"{folder}/a", schema) as one,
        og.init(f"{folder}/b", schema) as other,
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


def knows(*rows: tuple[str, str, str]) -> list[dict[str, Any]]:
    return [{"id": id, "from": src, "to": dst, "weight": None} for id, src, dst in rows]


def mails(**rows: str | None) -> list[dict[str, Any]]:
    return [{"name": name, "mail": mail} for name, mail in rows.items()]


# Every rule about several rows, broken and kept, one load after the other: (mode, rows, what is said).
STEPS: list[tuple[str, Rows, str | None]] = [
    ("append", {"Person": mails(p0="a", p1="b", p2="a", p3="c", p4="b", p5=None)}, "unique"),
    ("append", {"Person": mails(p0="a", p1="b", p2="c", p3=None, p4=None)}, None),
    ("append", {"Person": mails(q0="b", q1="x", q2="a", p3="y")}, "unique"),
    ("append", {"Person": mails(p3=None, p9=None)}, "key-conflict"),
    ("merge", {"Person": mails(p0="b", p1="a", p2="c", q0="d")}, None),  # two change places
    ("merge", {"Person": mails(p0="c", p1="a", q1="e")}, "unique"),
    ("merge", {"Person": mails(p0="z", p1="y", p0_="z")}, "unique"),
    ("append", {"Knows": knows(("k1", "p0", "p1"), ("k2", "p0", "p2"), ("k3", "p0", "p3"))}, "card-max"),
    ("append", {"Knows": knows(("k1", "p0", "p1"), ("k2", "p0", "p2"), ("k3", "p1", "p3"), ("k4", "p2", "p3"))}, None),
    ("merge", {"Knows": knows(("k5", "p0", "p4"), ("k6", "p3", "p4"))}, "card-max"),
    ("merge", {"Knows": knows(("k1", "p0", "p4"), ("k2", "p0", "p1"))}, None),
    ("merge", {"Knows": knows(("k3", "p4", "p1"), ("k1", "p2", "p1"))}, "card-min"),
    ("merge", {"Knows": knows(("k3", "p4", "p1"), ("k9", "p1", "p0"))}, None),
    ("merge", {"Knows": knows(("k3", "p4", "p1"), ("k7", "p1", "nobody"))}, "missing-endpoint"),
    ("merge", {"Knows": knows(("k4", "p2", "p1"), ("k8", "p3", "p0"), ("k4", "p2", "p0"))}, "duplicate-id"),
    ("append", {"Note": [{"id": "n0"}, {"id": "n1"}], "Likes": [{"from": "p0", "to": "n0"}, {"from": "p0", "to": "n0"}]},
     "unique"),
    ("append", {"Note": [{"id": "n0"}, {"id": "n1"}], "Likes": [{"from": f"p{n}", "to": "n0"} for n in range(5)]}, None),
    ("merge", {"Likes": [{"from": f"p{n % 5}", "to": f"n{n // 5}"} for n in range(10)]}, None),  # five are there already
    ("append", {"Likes": [{"from": "p1", "to": "n1"}]}, "unique"),
    ("overwrite", {"Person": mails(p0="a", p1="b")}, "orphan"),
    ("overwrite", {"Knows": knows(("k1", "p0", "p1"), ("k2", "p1", "p0"))}, "card-min"),
    ("overwrite", {"Knows": knows(("k1", "p0", "p1")), "Likes": [], "Person": mails(p0="b", p1="a")}, "card-min"),
    ("overwrite", {"Knows": [], "Likes": [], "Person": mails(p0="b", p1="a", p2="b")}, "unique"),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "scans"), [(1, True), (3, False)])
def test_batches_beyond_memory_come_out_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, scans: bool
) -> None:
    """Every rule in passes of a row or three, and the graph read whole where it would be looked up."""
    schema = SCHEMA.replace("@card(0..3)", "@card(1..2)")
    monkeypatch.setattr(part_checks, "PLAIN_ROWS", 0)
    monkeypatch.setattr(part_checks, "ROW_BYTES", (part_checks.MEMORY_MB << 20) // rows)
    if scans:
        monkeypatch.setattr(committed, "_VALUES_FEW", 0)
    with og.init(tmp_path / "a", schema) as one, og.init(tmp_path / "b", schema) as other:
        for mode, given, said in STEPS:
            mine = outcome(lambda: stage(one, tables(given), mode, 2))  # noqa: B023
            assert mine == outcome(lambda: other.load(tables(given), mode=mode))  # noqa: B023
            assert (said in mine[1]) if said else not isinstance(mine[0], str), mine
            assert content(one) == content(other)
        assert one.verify(deep=True).ok


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
        asked = og.LoadOptions(mode="append", on_bad_row="quarantine")
        mine = outcome(lambda: txn.load_parts(parts, [], options=asked))
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
        receipt = txn.load_parts(parts, ["Person"], options=og.LoadOptions(mode="merge"))
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
            txn.load_parts(parts, ["Person"], options=og.LoadOptions(mode="append"))
        assert graph.snapshot().count("Person") == 0


def test_what_a_task_that_gave_up_left_unread_is_not_missing_without_a_word(tmp_path: Path) -> None:
    with og.init(tmp_path / "a", SCHEMA) as graph:
        txn = graph.begin()
        task = txn.task("append")
        splits = [(Split(0, n), tables({"Person": [{"name": f"p{n}", "age": n}]})["Person"]) for n in range(2)]
        parts = [
            task.stage_table("Person", [TableRows(split, rows.to_batches())], n)
            for n, (split, rows) in enumerate(splits)
        ]
        txn.add_parts(parts)
        parts[1] = replace(parts[1], tables=(), error=og.errors.NotFound("the store did not show the table"))
        with pytest.raises(og.errors.NotFound, match="did not show"):
            distributed.check_parts(txn, parts, ["Person"], mode="append")
        with pytest.raises(og.errors.NotFound, match="did not show"):
            txn.load_parts(parts, ["Person"], options=og.LoadOptions(mode="append"))
        assert not txn.sent
        txn.abort()
        assert graph.snapshot().count("Person") == 0
