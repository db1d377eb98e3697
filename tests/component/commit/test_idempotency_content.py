"""A known key with another request, or another input, is no replay."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lance.fragment import write_fragments

import omnigraph as og
from omnigraph.core.errors import IdempotencyMismatch, QueryInvalid
from omnigraph.core.meter import Meter
from omnigraph.distributed import Split, TableRows
from omnigraph.gq import parse_query
from omnigraph.manifest.rows import CommitRow
from omnigraph.schema import table_schema
from omnigraph.write.mutate import request_digest

SCHEMA = "node Person { name: String @key age: I32? }\n"
ADA, BOB = ({"type": "Person", "data": {"name": name}} for name in ("ada", "bob"))
QUERY = 'query q($n: I32) { update Person set { age: $n } where name = "ada" }'


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "g.omni", SCHEMA)


def lines(path: Path, *records: object) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_the_same_load_again_is_a_replay(graph: og.Graph) -> None:
    first = graph.load([ADA], mode="merge", idempotency_key="k")
    again = graph.load([dict(reversed(ADA.items()))], mode="merge", idempotency_key="k")
    assert (again.commit_id, again.replayed) == (first.commit_id, True)


def _staged(graph: og.Graph) -> og.Receipt:
    txn = graph.begin()
    table = txn.table("Person")
    rows = pa.table({"id": ["cy"], "name": ["cy"], "age": [1]}, schema=table_schema(graph.catalog.node("Person")))
    staged = table.describe(write_fragments(rows, table.uri), "append")
    txn.add(staged)
    return txn.load_staged({"Person": staged}, mode="append", idempotency_key="staged")


def _parts(graph: og.Graph) -> og.Receipt:
    txn = graph.begin()
    rows = pa.table({"name": ["dot"], "age": pa.array([1], pa.int32())}).to_batches()
    parts = [txn.task("append").stage_table("Person", [TableRows(Split(0, 0), rows)], 0)]
    txn.add_parts(parts)
    return txn.load_parts(parts, ["Person"], options=og.LoadOptions(mode="append", idempotency_key="parts"))


def _on_a_branch(graph: og.Graph) -> None:
    graph.load([BOB], mode="merge", branch="dev", from_branch="main")


# What is done first, and the write that is done twice.
WRITES: dict[str, tuple[Callable[[og.Graph], object], Callable[[og.Graph], Any]]] = {
    "load": (lambda g: None, lambda g: g.load([ADA], mode="merge", idempotency_key="load")),
    "mutate": (
        lambda g: g.load([ADA], mode="merge"),
        lambda g: g.mutate(QUERY, params={"n": 1}, idempotency_key="mutate"),
    ),
    "schema.apply": (
        lambda g: None,
        lambda g: g.schema.apply(SCHEMA + "node More { name: String @key }\n", idempotency_key="schema"),
    ),
    "load_staged": (lambda g: None, _staged),
    "load_parts": (lambda g: None, _parts),
    "merge": (_on_a_branch, lambda g: g.branches.merge("dev", idempotency_key="merge")),
    "revert": (
        lambda g: g.load([ADA], mode="merge"),
        lambda g: g.revert([one.id for one in g.commits() if one.kind == "load"][-1], idempotency_key="revert"),
    ),
    "restore": (
        lambda g: g.load([ADA], mode="merge"),
        lambda g: g.restore(g.commits()[-1].id, idempotency_key="restore"),
    ),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("fresh", [False, True], ids=["known here", "in a fresh handle"])
def test_a_replay_warns_and_names_the_commit_that_it_comes_from(graph: og.Graph, fresh: bool, write: str) -> None:
    before, act = WRITES[write]
    before(graph)
    first = act(graph)
    with og.open(graph.uri) if fresh else graph.snapshot() and contextlib.nullcontext(graph) as handle:
        again = act(handle)
    assert again.replayed and not first.warnings
    [warning] = again.to_dict()["warnings"]
    assert "nothing was written" in warning and str(first.commit_id) in warning


@pytest.mark.parametrize("fresh", [False, True], ids=["known here", "in a fresh handle"])
def test_another_input_under_a_known_key_is_refused_and_names_the_first_commit(graph: og.Graph, fresh: bool) -> None:
    first = graph.load([ADA], mode="merge", idempotency_key="k")
    with og.open(graph.uri) if fresh else graph as handle, pytest.raises(IdempotencyMismatch) as caught:
        handle.load([BOB], mode="merge", idempotency_key="k")
    assert caught.value.facts["commit_id"] == first.commit_id


def test_another_mode_under_a_known_key_is_refused(graph: og.Graph) -> None:
    graph.load([ADA], mode="merge", idempotency_key="k")
    with pytest.raises(IdempotencyMismatch):
        graph.load([ADA], mode="append", idempotency_key="k")


def test_where_a_file_lies_does_not_count_and_what_is_in_it_does(graph: og.Graph, tmp_path: Path) -> None:
    first = graph.load(lines(tmp_path / "a.jsonl", ADA), mode="merge", idempotency_key="k")
    assert graph.load(lines(tmp_path / "b.jsonl", ADA), mode="merge", idempotency_key="k").commit_id == first.commit_id
    with pytest.raises(IdempotencyMismatch):
        graph.load(lines(tmp_path / "b.jsonl", BOB), mode="merge", idempotency_key="k")


def test_a_file_that_is_read_in_another_way_is_another_input(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("name\nNA\n")
    graph.load({"Person": og.TableFile(tmp_path / "p.csv")}, mode="merge", idempotency_key="k")
    other = og.TableFile(tmp_path / "p.csv", csv=og.CsvOptions(header=False), columns={"name": "1"})
    with pytest.raises(IdempotencyMismatch):
        graph.load({"Person": other}, mode="merge", idempotency_key="k")
    nulls = og.TableFile(tmp_path / "p.csv", csv=og.CsvOptions(nulls=["x"]))
    with pytest.raises(IdempotencyMismatch):
        graph.load({"Person": nulls}, mode="merge", idempotency_key="k")


def test_an_input_that_cannot_be_read_any_more_is_a_replay(graph: og.Graph, tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", ADA)
    first = graph.load(path, mode="merge", idempotency_key="k")
    path.unlink()
    assert graph.load(path, mode="merge", idempotency_key="k").commit_id == first.commit_id


def test_an_input_that_can_be_read_once_is_compared_by_its_key_alone(graph: og.Graph) -> None:
    first = graph.load(iter([ADA]), mode="merge", idempotency_key="k")
    assert graph.load(iter([BOB]), mode="merge", idempotency_key="k").commit_id == first.commit_id


# Durable beside every key that was ever used: another digest for the same request would make a mismatch of a replay.
PINNED = 'query q($n: I32?) { update Person set { age: $n } where name = "ada" }'
DIGESTS = {
    "ff15ec09f5e7cbab6d7d7dc4397f47e277b9b516fd7c5bbf4247f58e8a91846c": None,
    "ac6e58eeff7c474038d98b1210e6e5108b2372a1acda8e9eff74b64fb94756f8": {},
    "824e7cc12daaa8c8fbd66d621f36e0011fd91e8b8627bfb3b2eceb2dad7d9b94": {"n": 1},
    "576fdb9c5d2ce9db56ab7d510c1bf3a5698bf5337e0e775762f1c097119ac721": {"n": "Zoë"},
    "b089cc194c6588e6c568d3392bd4b21fd9244faf51611e08ea9418fe356eeb56": {"n": 1e22},
    "57cef7bf59e36cae5b8bbed177941d4c7259cc41bb6b9f0d78145080ebaaa908": {"n": (1, 2.5, None)},
    "8ebdb62c20ca81961cff9fc9d0d8a94b2066b8a8295baa1e746b9bb6615dfa77": {"n": dt.date(2026, 1, 2)},
    "981489cb1e4c3cc98adf674adab3051b046c774066f576b94f204bc1b2f2bc21": {"n": dt.datetime(2026, 1, 2, tzinfo=dt.UTC)},
    "8fd873cd49bbad127f62e63a6a4768e3b6c8f349ce952cf22994cd9eccc7026e": {"n": b"\xff"},
}


@pytest.mark.parametrize("expected", DIGESTS)
def test_the_digest_of_a_mutation_never_changes(expected: str) -> None:
    assert request_digest(parse_query(PINNED), PINNED, None, DIGESTS[expected]) == expected


def test_a_replay_finds_the_digest_that_the_commit_has(graph: og.Graph) -> None:
    graph.load([ADA], mode="merge")
    made = graph.mutate(PINNED, params={"n": 1}, idempotency_key="k")
    engine = graph._engine
    row = engine.history.find(engine.latest("main"), str(made.commit_id), meter=Meter())
    assert isinstance(row, CommitRow) and DIGESTS[str(row.request)] == {"n": 1}


class Untold(dt.date):
    """A day that every type takes, and that has no text."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")


def test_parameters_that_have_no_text_are_refused_even_if_their_types_take_them(graph: og.Graph) -> None:
    with pytest.raises(QueryInvalid, match="no JSON form: RuntimeError"):
        graph.mutate('query q($d: Date) { delete Person where name = "x" }', params={"d": Untold(2026, 1, 2)})


def test_a_mutation_with_other_parameters_under_a_known_key_is_refused(graph: og.Graph) -> None:
    graph.load([ADA], mode="merge")
    first = graph.mutate(QUERY, params={"n": 1}, idempotency_key="k")
    assert graph.mutate(QUERY, params={"n": 1}, idempotency_key="k").commit_id == first.commit_id
    with pytest.raises(IdempotencyMismatch):
        graph.mutate(QUERY, params={"n": 2}, idempotency_key="k")
    with pytest.raises(IdempotencyMismatch):
        graph.load([ADA], mode="merge", idempotency_key="k")
