"""Status: the figures are those of the manifest, the verdict follows from them, and the price does not grow."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import lance
import pytest

import omnigraph as og
from omnigraph.commit.engine import Engine
from omnigraph.core.ids import new_ulid
from omnigraph.core.meter import Meter
from omnigraph.store import layout, open_store
from omnigraph.upkeep.status import (
    BACKLOG_WARN,
    FRAGMENTS_WARN,
    FULL_FRAGMENT_ROWS,
    MANIFEST_FRAGMENTS_WARN,
    judge,
    status_report,
    time_text,
)
from omnigraph.wire.status import ManifestStatus, PendingWrite, TableStatus

SCHEMA = "node Person { name: String @key }\nedge Knows: Person -> Person\n"
PEOPLE = [
    {"type": "Person", "data": {"name": "Ann"}},
    {"type": "Person", "data": {"name": "Bob"}},
    {"edge": "Knows", "from": "Ann", "to": "Bob", "data": {}},
]


@pytest.fixture
def engine(any_root: str) -> Engine:
    with og.init(any_root, SCHEMA, actor="maker") as graph:
        graph.load(PEOPLE, mode="append", actor="loader")
    return Engine(open_store(any_root), read_only=True)


def test_the_figures_are_those_that_the_manifest_publishes(engine: Engine, any_root: str) -> None:
    report = status_report(engine)
    with og.open(any_root, read_only=True) as graph:
        snapshot = graph.snapshot()
        assert report.head.commit_id == snapshot.commit_id
        assert {t.table_key: (t.rows, t.version) for t in report.tables} == {
            key: (entry.rows, entry.version) for key, entry in snapshot.tables.items()
        }
        assert report.schema_hash == graph.catalog.hash
    assert (report.head.actor, report.head.kind) == ("loader", "load")
    assert report.head.age_s is not None and 0 <= report.head.age_s < 300
    assert (report.rows, report.pending_total, report.manifest.version) == (3, 0, 2)
    assert report.bytes > 0
    assert (report.fragments, report.boundary, report.durability) == (
        report.totals.fragments, report.manifest.boundary, None if "://" in any_root else engine.durable.mode.value,
    )  # fmt: skip
    assert report.intents is report.pending and (report.versions, report.drift) == (None, None)
    deep = status_report(engine, deep=True)
    assert deep.versions == sum(table.versions or 0 for table in deep.tables) > 0 and deep.drift == 0
    assert {"versions", "drift", "boundary", "durability"} <= deep.to_dict().keys()
    assert (report.verdict, report.verdict_line) == ("healthy", "healthy: nothing to do")


def test_status_shows_itself_to_programs_people_and_notebooks(engine: Engine) -> None:
    report = status_report(engine)
    assert json.loads(json.dumps(report.to_dict()))["totals"]["rows"] == 3
    assert "healthy" in repr(report) and "\n" not in repr(report)
    page = replace(report, uri="<script>")._repr_html_()
    assert "<script>" not in page and "node:Person" in page


def test_an_intent_that_nobody_ends_is_a_finding_and_a_young_one_is_a_note(engine: Engine, any_root: str) -> None:
    store = open_store(any_root)
    young = new_ulid(engine.clock)
    store.create(layout.intent_key(young), b"{}")
    report = status_report(engine, commands=["recover"])
    # The suite runs relaxed, which status says of a graph on a local disk and of no other.
    relaxed = (
        () if any_root.startswith("s3://") else ("durability relaxed: a power cut may take back what was acknowledged",)
    )
    assert (report.verdict, report.notes, report.pending_total) == ("healthy", (*relaxed, "1 write is in flight"), 1)
    old = "01ARZ3NDEKTSV4RRFFQ69G5FAV"  # of 2016
    store.create(layout.intent_key(old), b"{}")
    report = status_report(engine, commands=["recover"])
    assert report.verdict == "attention"
    assert report.pending[0].operation_id == old
    assert report.verdict_line.endswith(f"run `omnigraph recover {engine.uri}`")
    assert "omnigraph" not in status_report(engine).verdict_line.replace(engine.uri, "")


def test_a_version_that_nobody_published_shows_after_a_deep_look(engine: Engine) -> None:
    pin = engine.latest("main").state.tables["node:Person"]
    foreign = lance.dataset(engine.store.lance_uri(pin.location), storage_options=engine.store.lance_options())
    foreign.delete("name = 'Ann'")
    assert status_report(engine).verdict == "healthy"
    report = status_report(engine, deep=True, commands=["repair"])
    assert {table.table_key: table.drift for table in report.tables} == {"edge:Knows": 0, "node:Person": 1}
    assert [(finding.code, finding.command) for finding in report.findings] == [("drift", "repair")]


def test_a_table_costs_no_request_of_its_own(tmp_path: Path) -> None:
    prices = []
    for types in (2, 80):
        uri = tmp_path / f"g{types}"
        og.init(uri, "".join(f"node T{i} {{ name: String @key }}\n" for i in range(types))).close()
        meter = Meter()
        status_report(Engine(open_store(uri), read_only=True), meter=meter)
        prices.append(meter.snapshot().requests)
    # A longer manifest is read in a few more pieces; a request a table would be 78 more.
    # Two of them list the lines and the names of branches, beside the others.
    assert prices[0] <= 8
    assert prices[1] <= prices[0] + 4


# --- the verdict (pure) ---------------------------------------------------------------------------------------------------

TABLE = TableStatus("node:P", 10, 0, 1, 0, 100, 1)
MANIFEST = ManifestStatus(10, 1, 0, 10)


def codes(
    table: TableStatus = TABLE, manifest: ManifestStatus = MANIFEST, pending: tuple[PendingWrite, ...] = ()
) -> list[str]:
    return [finding.code for finding in judge([table], manifest, pending, grace_s=5, commands=frozenset())]


def test_each_bound_turns_the_verdict_and_one_below_does_not() -> None:
    assert codes() == []
    many = replace(TABLE, fragments=FRAGMENTS_WARN)
    assert codes(many) == ["fragments"]
    assert codes(replace(TABLE, fragments=FRAGMENTS_WARN - 1)) == []
    assert codes(replace(many, rows=FRAGMENTS_WARN * FULL_FRAGMENT_ROWS)) == [], "large is not crumbled"
    assert codes(manifest=replace(MANIFEST, fragments=MANIFEST_FRAGMENTS_WARN + 1)) == ["manifest-fragments"]
    assert codes(manifest=replace(MANIFEST, fragments=MANIFEST_FRAGMENTS_WARN)) == []
    assert codes(manifest=replace(MANIFEST, backlog=BACKLOG_WARN)) == ["version-backlog"]
    assert codes(manifest=replace(MANIFEST, backlog=BACKLOG_WARN - 1)) == []
    assert codes(pending=(PendingWrite("a", 5.0),)) == []
    assert codes(pending=(PendingWrite("a", 5.1),)) == ["pending-intents"]
    assert codes(pending=(PendingWrite("a", 0.1, owner_gone=True),)) == ["pending-intents"]


def test_drift_beside_a_write_in_flight_is_no_finding() -> None:
    drifting = replace(TABLE, latest_version=2)
    assert codes(drifting) == ["drift"]
    assert codes(drifting, pending=(PendingWrite("a", 0.1),)) == []


def test_what_is_most_urgent_comes_first() -> None:
    found = codes(
        replace(TABLE, fragments=FRAGMENTS_WARN), replace(MANIFEST, backlog=BACKLOG_WARN), (PendingWrite("a", 60),)
    )
    assert found == ["pending-intents", "fragments", "version-backlog"]


def test_times_keep_their_microseconds() -> None:
    assert time_text(1_700_000_000_123_457) == "2023-11-14T22:13:20.123457Z"


# --- upkeep and probes --------------------------------------------------------------------------------------------------


def test_status_says_when_upkeep_ran_and_what_is_left_to_read(local_root: str) -> None:
    with og.init(local_root, SCHEMA) as graph:
        for number in range(4):
            graph.load([{"type": "Person", "data": {"name": f"p{number}"}}], mode="append")
        before = graph.status().upkeep
        assert (before.optimized_at, before.cleaned_at, before.oldest_version) == (None, None, 1)
        graph.optimize()
        graph.cleanup(keep=2, min_age="0s", confirm=True, actor="janitor")
        after = graph.status()
        assert after.upkeep.optimized_at is not None and after.upkeep.cleaned_by == "janitor"
        assert after.upkeep.cleaned_at is not None and after.upkeep.cleaned_at.startswith("20")
        assert after.upkeep.oldest_commit == graph.commits()[1].id
        json.dumps(after.to_dict())


def test_a_deep_look_counts_the_versions_that_are_left(local_root: str) -> None:
    with og.init(local_root, SCHEMA) as graph:
        for number in range(4):
            graph.load([{"type": "Person", "data": {"name": f"p{number}"}}], mode="append")
        assert {table.versions for table in graph.status().tables} == {None}
        counted = {table.table_key: table.versions for table in graph.status(deep=True).tables}
        assert counted == {"edge:Knows": 1, "node:Person": 5}


def test_what_deleted_rows_take_is_reclaimable(local_root: str) -> None:
    with og.init(local_root, "node Person { name: String @key age: I32? }\n") as graph:
        for age in (1, 2):
            rows = [{"type": "Person", "data": {"name": f"p{number}", "age": age}} for number in range(100)]
            graph.load(rows, mode="merge")
        [table] = graph.status().tables
        assert (table.rows, table.deleted_rows) == (100, 0) or 0 < table.reclaimable_bytes < table.bytes
        graph.load([{"type": "Person", "data": {"name": "p1", "age": 9}}], mode="merge")
        [table] = graph.status().tables
        assert 0 < table.reclaimable_bytes < table.bytes


@pytest.mark.parametrize("name", ["manifest_fragments", "version_backlog", "pending_intents", "oldest_intent_s"])
def test_a_probe_is_a_number_in_at_most_two_requests(proxied_root: str, fault_proxy: object, name: str) -> None:
    with og.init(proxied_root, SCHEMA) as graph:
        for number in range(3):
            graph.load([{"type": "Person", "data": {"name": f"p{number}"}}], mode="append")
        for _ in range(2):
            fault_proxy.reset()  # type: ignore[attr-defined]
            value = graph.probe(name)
            assert len(fault_proxy.log) <= 2  # type: ignore[attr-defined]
            assert value == {"version_backlog": 4}.get(name, 0)


def test_probes_follow_what_others_do(local_root: str) -> None:
    with og.init(local_root, SCHEMA) as graph, og.open(local_root) as other:
        other.load([{"type": "Person", "data": {"name": "p"}}], mode="append")
        assert graph.probe("version_backlog") == 2
        other.cleanup(keep=1, min_age="0s", confirm=True)
        assert graph.probe("version_backlog") == 3  # the marks of the cleanup are versions as well
        with pytest.raises(og.errors.InvalidInput, match="no probe"):
            graph.probe("weather")
