"""A staged batch whose writer died, taken up again: what a recovery has published is nobody's to delete."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.core import failpoints
from omnigraph.distributed.stage_task import TableRows
from omnigraph.distributed.staged_part import Split

SCHEMA = "node Person { name: String @key }"


@pytest.fixture
def graph(local_root: str) -> Iterator[og.Graph]:
    with og.init(local_root, SCHEMA) as made:
        yield made


def staged(graph: og.Graph) -> tuple[str, list[object]]:
    """A staging transaction with one part, as a task hands it over. Returns its id, and the parts."""
    txn = graph.begin()
    rows = pa.RecordBatch.from_pylist([{"name": "ada"}, {"name": "emmy"}])
    parts = [txn.task("append").stage_table("Person", [TableRows(Split(0, 0), [rows])], Split(0, 0).key)]
    txn.add_parts(parts)
    return txn.id, parts


def load(graph: og.Graph, staging_id: str, parts: list[object]) -> og.Receipt:
    txn = graph.begin(resume=staging_id)
    options = og.LoadOptions(mode="append", idempotency_key="once")
    return txn.load_parts(parts, ["Person"], options=options)  # type: ignore[arg-type]


def interrupt(graph: og.Graph, staging_id: str, parts: list[object], place: str) -> None:
    with failpoints.armed(place, "raise"), pytest.raises(og.errors.OutcomeUnknown):
        load(graph, staging_id, parts)


def names(graph: og.Graph) -> list[str]:
    return sorted(graph.snapshot().to_arrow("Person")["name"].to_pylist())


def test_a_batch_that_a_recovery_has_published_keeps_its_files_when_it_is_loaded_again(
    graph: og.Graph, local_root: str
) -> None:
    staging_id, parts = staged(graph)
    interrupt(graph, staging_id, parts, "publish.before_swap")
    graph.recover(grace_s=0)
    with og.open(local_root) as another:
        receipt = load(another, staging_id, parts)
        assert receipt.replayed
        assert names(another) == ["ada", "emmy"]
        assert another.verify(deep=True).clean


def test_an_abort_spares_what_a_recovery_has_published(graph: og.Graph, local_root: str) -> None:
    staging_id, parts = staged(graph)
    interrupt(graph, staging_id, parts, "publish.before_swap")
    graph.recover(grace_s=0)
    with og.open(local_root) as another:
        assert another.begin(resume=staging_id).abort() == 0
        assert names(another) == ["ada", "emmy"]


def test_an_abort_spares_what_a_write_that_is_still_pending_may_publish(graph: og.Graph, local_root: str) -> None:
    staging_id, parts = staged(graph)
    interrupt(graph, staging_id, parts, "publish.before_swap")
    with og.open(local_root, read_only=True) as reader:
        assert len(reader.intents()) == 1
    graph.begin(resume=staging_id).abort()
    graph.recover(grace_s=0)
    assert names(graph) == ["ada", "emmy"]


def test_a_batch_that_was_undone_is_loaded_from_the_files_it_has(graph: og.Graph, local_root: str) -> None:
    staging_id, parts = staged(graph)
    interrupt(graph, staging_id, parts, "apply.before_commit")
    graph.recover(grace_s=0)
    with og.open(local_root) as another:
        assert not load(another, staging_id, parts).replayed
        assert names(another) == ["ada", "emmy"]
