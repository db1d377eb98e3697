"""A report on staged parts is trusted by the commit of the same parts while nothing has moved, and only then."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import distributed
from omnigraph.distributed import parts_report
from omnigraph.distributed.driver import PartitionedCheck
from omnigraph.write.rules.validate import Evaluation
from tests.component.distributed.test_parts_shared import Wire

SCHEMA = """
node Person { name: String @key  mail: String? @unique }
edge Knows: Person -> Person { since: Date?  @unique(src, dst) }
"""


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "graph", SCHEMA) as made:
        made.load([{"type": "Person", "data": {"name": "ann", "mail": "a"}}], mode="append")
        made.load([{"edge": "Knows", "from": "ann", "to": "ann", "data": {"id": "k1"}}], mode="append")
        yield made


@pytest.fixture
def entered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every entry into an evaluator of the rules."""
    found: list[str] = []
    for kind, name in ((Evaluation, "__init__"), (PartitionedCheck, "round")):
        plain = getattr(kind, name)

        def noted(*args: Any, kind: type = kind, plain: Any = plain, **options: Any) -> Any:
            found.append(kind.__name__)
            return plain(*args, **options)

        monkeypatch.setattr(kind, name, noted)
    return found


def parts(graph: og.Graph, txn: Any, mode: str, people: list[str], mails: list[str | None] | None = None) -> Any:
    task = txn.task(mode)
    split, other = distributed.Split(0, 0), distributed.Split(1, 0)
    rows = pa.table({"name": people, "mail": pa.array(mails or [None] * len(people), pa.utf8())})
    edges = pa.table({"from": people, "to": people})
    staged = [
        task.stage_table("Knows", [distributed.TableRows(split, edges.to_batches())], split.key),
        task.stage_table("Person", [distributed.TableRows(other, rows.to_batches())], other.key),
    ]
    txn.add_parts(staged)
    return staged


TYPES = ["Person", "Knows"]
REFUSED = (og.errors.DataInvalid, og.errors.KeyConflict)


@pytest.mark.parametrize("exchange", [False, True])
@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_a_batch_that_was_checked_enters_an_evaluator_once(
    graph: og.Graph, entered: list[str], mode: str, exchange: bool
) -> None:
    txn = graph.begin()
    people = ["ann", "bob"] if mode != "append" else ["bob", "cat"]
    staged = parts(graph, txn, mode, people, ["b", None])
    options: dict[str, Any] = {"exchange": Wire(), "exchange_always": True} if exchange else {}
    entered.clear()
    report = distributed.check_parts(txn, staged, TYPES, mode=mode, **options)
    assert report.ok and entered
    once = list(entered)
    if not exchange:
        assert len(once) == 1
    report = distributed.PartsReport.from_json(report.to_json())  # made in another process
    receipt = txn.load_parts(staged, TYPES, options=og.LoadOptions(mode=mode), checks=report, **options)
    assert entered == once, "the commit checks nothing again"
    expected = {"append": (2, 0), "merge": (1, 1), "overwrite": (2, 0)}[mode]
    change = receipt.tables["node:Person"]
    assert (change.inserted, change.updated) == expected
    if mode == "merge":
        assert receipt.tables["edge:Knows"].inserted == 1, "the edge of ann keeps the id that it has"
        assert "k1" in graph.snapshot().to_arrow("Knows")["id"].to_pylist()
    assert graph.verify(deep=True).ok


def test_a_trusted_load_is_the_load(graph: og.Graph, tmp_path: Path) -> None:
    """What is committed does not depend on whether the report was given."""
    with og.init(tmp_path / "other", SCHEMA) as other:
        for one in ([{"type": "Person", "data": {"name": "ann", "mail": "a"}}],):
            other.load(one, mode="append")
        other.load([{"edge": "Knows", "from": "ann", "to": "ann", "data": {"id": "k1"}}], mode="append")
        found = []
        for target, trusts in ((graph, True), (other, False)):
            txn = target.begin()
            staged = parts(target, txn, "merge", ["ann", "bob"], ["x", None])
            report = distributed.check_parts(txn, staged, TYPES, mode="merge") if trusts else None
            receipt = txn.load_parts(staged, TYPES, options=og.LoadOptions(mode="merge"), checks=report)
            counts = {key: (one.inserted, one.updated, one.unchanged) for key, one in receipt.tables.items()}
            rows = target.snapshot().to_arrow("Person").select(["id", "mail"]).to_pylist()
            found.append((counts, sorted(rows, key=str), receipt.rejected.total))
        assert found[0] == found[1]


def test_pins_that_have_moved_are_checked_again(graph: og.Graph, entered: list[str]) -> None:
    txn, staged, report = _checked(graph)
    graph.load([{"type": "Person", "data": {"name": "bob"}}], mode="append")
    entered.clear()
    with pytest.raises(og.errors.KeyConflict):
        txn.load_parts(staged, TYPES, options=og.LoadOptions(mode="append"), checks=report)
    assert entered


def test_other_parts_are_checked(graph: og.Graph, entered: list[str]) -> None:
    _, _, report = _checked(graph)
    other = graph.begin()
    staged = parts(graph, other, "append", ["ann"])
    with pytest.raises(REFUSED):
        other.load_parts(staged, TYPES, options=og.LoadOptions(mode="append"), checks=report)


@pytest.mark.parametrize("options", [{"mode": "merge"}, {"mode": "append", "on_bad_row": "quarantine"}])
def test_the_same_parts_in_another_way_are_checked(
    graph: og.Graph, entered: list[str], options: dict[str, Any]
) -> None:
    txn, staged, report = _checked(graph)
    entered.clear()
    txn.load_parts(staged, TYPES, options=og.LoadOptions(**options), checks=report)
    assert entered


def test_a_report_that_refuses_is_not_trusted(graph: og.Graph, entered: list[str]) -> None:
    txn = graph.begin()
    staged = parts(graph, txn, "append", ["ann"])
    report = distributed.check_parts(txn, staged, TYPES, mode="append")
    assert not report.ok
    with pytest.raises(REFUSED):
        txn.load_parts(staged, TYPES, options=og.LoadOptions(mode="append"), checks=report)


def test_a_batch_of_which_rows_leave_is_checked_again(graph: og.Graph, entered: list[str]) -> None:
    """The report counts rows that leave because of others; which ones they are it does not hold."""
    txn = graph.begin()
    staged = parts(graph, txn, "append", ["ann", "bob"])
    report = distributed.check_parts(txn, staged, TYPES, mode="append", on_bad_row="quarantine")
    assert report.ok and report.left
    receipt = txn.load_parts(
        staged, TYPES, options=og.LoadOptions(mode="append", on_bad_row="quarantine"), checks=report
    )
    assert receipt.rejected.total == report.rejected
    assert graph.snapshot().count("Person") == 2
    assert graph.verify(deep=True).ok


# --- planted defects ----------------------------------------------------------------------------------------------------


def test_planted_trusting_moved_pins_is_found(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts_report, "pins_hold", lambda *_: True)
    with pytest.raises(pytest.fail.Exception):
        test_pins_that_have_moved_are_checked_again(graph, [])


def test_planted_trusting_a_report_on_other_parts_is_found(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts_report, "parts_digest", lambda *_, **__: "the same")
    monkeypatch.setattr("omnigraph.distributed.check.parts_digest", lambda *_, **__: "the same")
    with pytest.raises(pytest.fail.Exception):
        test_other_parts_are_checked(graph, [])


def _checked(graph: og.Graph) -> tuple[Any, Any, distributed.PartsReport]:
    txn = graph.begin()
    staged = parts(graph, txn, "append", ["bob"])
    report = distributed.check_parts(txn, staged, TYPES, mode="append")
    assert report.ok
    return txn, staged, report
