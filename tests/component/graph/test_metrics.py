"""Figures and log records of an operation: they are the receipt's, and the receipt's are those on the wire."""

from __future__ import annotations

import gc
import io
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

import omnigraph as og
from bench import costs
from omnigraph.cli import main
from omnigraph.core import metrics, traces
from omnigraph.testing.emulator import S3Emulator
from omnigraph.testing.faults import FaultProxy
from tests.conftest import reach

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person { }\n"

_serial = itertools.count(1)


class Recorder:
    """Stands in for an SDK: every measurement, as (instrument, value, attributes)."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, float, dict[str, Any]]] = []

    def make(self, name: str, unit: str = "", description: str = "") -> Any:
        assert unit and description
        seen = self.seen

        class Instrument:
            def record(self, value: float, attributes: dict[str, Any] | None = None) -> None:
                seen.append((name, value, dict(attributes or {})))

            add = set = record

        return Instrument()

    create_histogram = create_counter = create_gauge = make

    def of(self, name: str, **about: Any) -> list[float]:
        return [value for seen, value, more in self.seen if seen == name and about.items() <= more.items()]


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    found = Recorder()
    monkeypatch.setattr("opentelemetry.metrics.get_meter", lambda *_: found)
    metrics._instruments.cache_clear()
    yield found
    metrics._instruments.cache_clear()


@pytest.fixture
def proxy(s3_emulator: S3Emulator, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultProxy]:
    with FaultProxy(s3_emulator.endpoint) as proxy:
        reach(proxy.endpoint, monkeypatch)
        yield proxy


def test_the_figure_of_a_write_is_the_receipt_s_and_that_on_the_wire(
    s3_emulator: S3Emulator, proxy: FaultProxy, recorder: Recorder
) -> None:
    bucket = f"metrics-{os.getpid()}-{next(_serial)}"
    s3_emulator.create_bucket(bucket)
    with og.init(f"s3://{bucket}/graph", SCHEMA) as graph:
        graph.load([{"type": "Person", "data": {"name": "a"}}], mode="append")
        for n in range(3):
            recorder.seen.clear()
            record = [{"type": "Person", "data": {"name": f"b{n}"}}]
            cost = costs.measured(proxy, lambda: graph.load(record, mode="append").storage)  # noqa: B023
            assert cost.receipt is not None
            assert recorder.of("storage.ops", operation="load", outcome="ok", exact=True) == [cost.by_class["total"]]
            assert recorder.of("storage.stages", operation="load") == [cost.receipt.hops]
            by_class = {more["class"]: n for name, n, more in recorder.seen if name == "storage.requests"}
            assert by_class == cost.receipt.by_class
            assert sum(by_class.values()) == cost.receipt.requests
            assert recorder.of("storage.bytes_written") == [cost.receipt.bytes_written]
            assert recorder.of("omnigraph.publish.attempts") == [1]
            assert recorder.of("omnigraph.conflicts") == []


def test_the_figure_of_a_read_is_what_goes_over_the_wire(
    s3_emulator: S3Emulator, proxy: FaultProxy, recorder: Recorder, tmp_path: Path
) -> None:
    bucket = f"metrics-{os.getpid()}-{next(_serial)}"
    s3_emulator.create_bucket(bucket)
    uri = f"s3://{bucket}/graph"
    with og.init(uri, SCHEMA) as graph:
        graph.load([{"type": "Person", "data": {"name": f"p{n}", "age": n}} for n in range(50)], mode="append")
        graph.load([{"edge": "Knows", "from": "p1", "to": "p2"}], mode="append")
    above = pc.field("age") > 30

    def wire(operation: str, read: Callable[[og.Snapshot], Any]) -> int:
        """Requests of one read of a snapshot just opened; the figure of the operation is the same."""
        with og.open(uri, read_only=True) as graph:
            snapshot = graph.snapshot()
            recorder.seen.clear()
            sent = costs.measured(proxy, lambda: read(snapshot)).by_class["total"]
        assert recorder.of("storage.ops", operation=operation, outcome="ok", exact=True) == [sent]
        assert sum(recorder.of("storage.requests")) == sent > 0
        assert {more["operation"] for _, _, more in recorder.seen} == {operation}
        return sent

    whole = wire("read", lambda snapshot: snapshot.to_arrow("Person"))
    assert wire("read", lambda snapshot: snapshot.to_pandas("Person")) == whole
    assert wire("read", lambda snapshot: snapshot.to_batches("Person").read_all()) == whole
    wire("read", lambda snapshot: snapshot.count("Person", above))
    wire("read", lambda snapshot: snapshot.head("Person", 3))
    wire("read", lambda snapshot: snapshot.duckdb().execute("SELECT sum(age) FROM Person").fetchall())
    wire("get", lambda snapshot: snapshot.get("Person", "p7"))
    wire("fragments", lambda snapshot: snapshot.fragments("Person"))
    both = wire("export", lambda snapshot: snapshot.export(tmp_path / "out.jsonl"))
    assert both > whole

    # A join scans two types at once: one operation, counted once.
    recorder.seen.clear()
    joined = "SELECT count(*) FROM Person p JOIN Knows k ON k.src = p.id"
    sent = costs.measured(proxy, lambda: main(["query", uri, "--sql", joined, "--json"])).by_class["total"]
    told = {more["operation"]: value for name, value, more in recorder.seen if name == "storage.ops"}
    assert set(told) == {"open", "snapshot", "query"} and sum(told.values()) == sent
    assert recorder.of("storage.ops", operation="query", outcome="ok", exact=True) == [told["query"]]


def test_a_read_that_needs_no_request_is_none_and_one_left_early_is_told_once(
    tmp_path: Path, recorder: Recorder
) -> None:
    with og.init(tmp_path / "g.omni", SCHEMA) as graph:
        graph.load([{"type": "Person", "data": {"name": f"p{n}"}} for n in range(50)], mode="append")
        snapshot = graph.snapshot()
        recorder.seen.clear()
        assert snapshot.count("Person") == 50 and snapshot.to_arrow("Knows").num_rows == 0
        assert recorder.seen == []
        stream = snapshot.to_batches("Person", batch_size=10)
        stream.read_next_batch()
        assert recorder.seen == []  # it goes on
        # Whatever runs beside it cannot be told apart from it for certain, and says so.
        graph.load([{"type": "Person", "data": {"name": "beside"}}], mode="append")
        assert len(recorder.of("storage.ops", operation="load", exact=False)) == 1
        stream.close()
        del stream
        gc.collect()
        assert len(recorder.of("storage.ops", operation="read", outcome="ok", exact=False)) == 1


def test_a_refused_write_is_counted_under_its_code(tmp_path: Path, recorder: Recorder) -> None:
    with og.init(tmp_path / "g.omni", SCHEMA) as graph, pytest.raises(og.errors.DataInvalid):
        graph.load([{"type": "Person", "data": {}}], mode="append")
    assert len(recorder.of("omnigraph.operation.duration", operation="load", outcome="data-invalid")) == 1


def test_a_status_sets_the_levels(tmp_path: Path, recorder: Recorder) -> None:
    with og.init(tmp_path / "g.omni", SCHEMA) as graph:
        for n in range(3):
            graph.load([{"type": "Person", "data": {"name": f"b{n}"}}], mode="append")
        graph.status(deep=True)
    assert recorder.of("omnigraph.fragments") == [3]
    assert recorder.of("omnigraph.versions") == [4]
    assert recorder.of("omnigraph.intents") == [0]


def test_no_attribute_grows_with_the_data(tmp_path: Path, recorder: Recorder) -> None:
    with og.init(tmp_path / "g.omni", SCHEMA) as graph:
        graph.load([{"type": "Person", "data": {"name": "b"}}], mode="append")
        graph.snapshot().export(tmp_path / "out.jsonl")
    known = {one.name: set(one.attributes) for one in metrics.INSTRUMENTS}
    assert all(set(more) == known[name] for name, _, more in recorder.seen)
    assert {more["operation"] for _, _, more in recorder.seen} == {"init", "load", "snapshot", "export"}


def test_without_opentelemetry_nothing_is_missed(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        f"import omnigraph as og; g = og.init({str(tmp_path / 'g.omni')!r}, {SCHEMA!r})\n"
        "print(g.load([{'type': 'Person', 'data': {'name': 'a'}}], mode='append').tables['node:Person'].inserted)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "1\n"


# --- logs ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    handler = og.logs.to_stream(stream, level="debug")
    yield stream
    og.logs.take_off(handler)


def records(lines: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines.getvalue().splitlines()]


def test_an_operation_is_one_record_with_what_the_receipt_says(tmp_path: Path, lines: io.StringIO) -> None:
    with og.init(tmp_path / "g.omni", SCHEMA) as graph:
        receipt = graph.load([{"type": "Person", "data": {"name": "b"}}], mode="append")
        graph.cleanup(keep=1, min_age="0s", confirm=True)
    init, load, cleanup = records(lines)
    assert [one["operation"] for one in (init, load, cleanup)] == ["init", "load", "cleanup"]
    assert (load["level"], load["outcome"], load["commit_id"]) == ("info", "ok", receipt.commit_id)
    assert (load["storage.ops"], load["storage.stages"]) == (receipt.storage.requests, receipt.storage.hops)
    assert load["graph"].endswith("g.omni") and load["publish_attempts"] == 1


def test_reads_are_told_at_debug_and_failures_as_warnings(tmp_path: Path, lines: io.StringIO) -> None:
    with og.init(tmp_path / "g.omni", SCHEMA) as graph:
        graph.snapshot()
        with pytest.raises(og.errors.NotFound):
            graph.snapshot("nowhere")
    found = [(one["operation"], one["level"], one["outcome"]) for one in records(lines)]
    assert found == [("init", "info", "ok"), ("snapshot", "debug", "ok"), ("snapshot", "warning", "not-found")]


def test_no_value_of_a_record_is_logged(tmp_path: Path, lines: io.StringIO) -> None:
    with og.init(tmp_path / "g.omni", SCHEMA) as graph:
        graph.load([{"type": "Person", "data": {"name": "a-private-name"}}], mode="append")
        with pytest.raises(og.errors.DataInvalid):
            graph.load([{"type": "Person", "data": {"name": "x", "age": "a-private-value"}}], mode="append")
    assert "a-private" not in lines.getvalue()


def test_the_command_line_logs_where_the_environment_asks(tmp_path: Path) -> None:
    og.init(tmp_path / "g.omni", SCHEMA).close()
    command = [
        sys.executable,
        "-m",
        "omnigraph.cli",
        "load",
        str(tmp_path / "g.omni"),
        "--data",
        "-",
        "--mode",
        "merge",
    ]
    done = subprocess.run(
        [*command, "--quiet", "--json"],
        input='{"type":"Person","data":{"name":"a"}}',
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMNIGRAPH_LOG": "info"},
    )
    [record] = [json.loads(line) for line in done.stderr.splitlines()]
    assert (record["operation"], record["commit_id"]) == ("load", json.loads(done.stdout)["result"]["commit_id"])
    wrong = subprocess.run(
        [*command], capture_output=True, text=True, check=False, env={**os.environ, "OMNIGRAPH_LOG": "loud"}
    )
    assert wrong.returncode == 2 and "OMNIGRAPH_LOG is one of debug, info, warning, error" in wrong.stderr


# --- traces -------------------------------------------------------------------------------------------------------------


class Spans:
    """Stands in for a tracer: each span that has ended, as plain values."""

    def __init__(self) -> None:
        self.ended: list[dict[str, Any]] = []

    def start_span(self, name: str, *, start_time: int, attributes: dict[str, Any]) -> Any:
        said: dict[str, Any] = {"name": name, "start": start_time, "status": None, **attributes}
        ended = self.ended

        class Span:
            def set_status(self, status: Any) -> None:
                said["status"] = (status.status_code.name, status.description)

            def end(self, *, end_time: int) -> None:
                ended.append({**said, "end": end_time})

        return Span()


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    found = Spans()
    monkeypatch.setattr("opentelemetry.trace.get_tracer", lambda *_: found)
    traces._tracer.cache_clear()
    yield found
    traces._tracer.cache_clear()


def test_an_operation_is_one_span_with_the_times_and_figures_of_its_receipt(tmp_path: Path, spans: Spans) -> None:
    with og.init(tmp_path / "graph", SCHEMA) as graph:
        spans.ended.clear()
        before = time.time_ns()
        receipt = graph.load([{"type": "Person", "data": {"name": "a"}}], mode="append")
        [span] = spans.ended
    assert (span["name"], span["outcome"], span["status"]) == ("omnigraph.load", "ok", None)
    assert before - 1_000_000 <= span["start"] <= span["end"] <= time.time_ns()
    assert receipt.storage is not None and span["storage.ops"] == receipt.storage.requests


def test_the_span_of_a_refused_write_is_an_error_with_its_code_and_no_value_of_a_record(
    tmp_path: Path, spans: Spans
) -> None:
    with og.init(tmp_path / "graph", SCHEMA) as graph, pytest.raises(og.errors.DataInvalid):
        graph.load([{"type": "Person", "data": {"name": 7_123_456}}], mode="append")
    span = next(one for one in spans.ended if one["name"] == "omnigraph.load")
    assert span["status"] == ("ERROR", "data-invalid") and "7123456" not in str(spans.ended)


def test_without_the_extra_there_are_no_spans_and_nothing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    traces._tracer.cache_clear()
    with og.init(tmp_path / "graph", SCHEMA) as graph:
        assert graph.load([{"type": "Person", "data": {"name": "a"}}], mode="append").commit_id
    traces._tracer.cache_clear()
