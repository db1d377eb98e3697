"""A known key with another request, or another input, is no replay."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.core.errors import IdempotencyMismatch

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


@pytest.mark.parametrize("fresh", [False, True], ids=["known here", "in a fresh handle"])
def test_a_replay_warns_and_names_the_commit_that_it_comes_from(graph: og.Graph, fresh: bool) -> None:
    writes = [
        lambda g: g.load([ADA], mode="merge", idempotency_key="load"),
        lambda g: g.mutate(QUERY, params={"n": 1}, idempotency_key="mutate"),
        lambda g: g.schema.apply(SCHEMA + "node More { name: String @key }\n", idempotency_key="schema"),
    ]
    for write in writes:
        first = write(graph)
        with og.open(graph.uri) if fresh else graph.snapshot() and contextlib.nullcontext(graph) as handle:
            again = write(handle)
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


def test_a_mutation_with_other_parameters_under_a_known_key_is_refused(graph: og.Graph) -> None:
    graph.load([ADA], mode="merge")
    first = graph.mutate(QUERY, params={"n": 1}, idempotency_key="k")
    assert graph.mutate(QUERY, params={"n": 1}, idempotency_key="k").commit_id == first.commit_id
    with pytest.raises(IdempotencyMismatch):
        graph.mutate(QUERY, params={"n": 2}, idempotency_key="k")
    with pytest.raises(IdempotencyMismatch):
        graph.load([ADA], mode="merge", idempotency_key="k")
