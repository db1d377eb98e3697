"""What the first keyed write of a process asks a store for, where history is long."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph as og
from bench import costs
from bench.graphs import upload
from omnigraph.manifest.swap import archive_files
from omnigraph.testing.emulator import S3Emulator, environment
from omnigraph.testing.faults import FaultProxy
from tests.component.manifest.archives import with_archive

FRAGMENTS = 1_000
SCHEMA = "node T { k: String @key }"


@pytest.fixture(scope="module")
def proxy(s3_emulator: S3Emulator) -> Iterator[FaultProxy]:
    with pytest.MonkeyPatch.context() as patch, FaultProxy(s3_emulator.endpoint) as proxy:
        for name, value in environment(proxy.endpoint).items():
            patch.setenv(name, value)
        yield proxy


def test_the_first_keyed_write_asks_each_fragment_of_a_long_history_once_and_a_merged_one_10_times(
    proxy: FaultProxy, s3_emulator: S3Emulator, tmp_path: Path
) -> None:
    with og.init(tmp_path / "g", SCHEMA) as graph:
        keys = with_archive(graph._engine, FRAGMENTS)
    s3_emulator.create_bucket(bucket := f"history-{os.getpid()}")
    upload(tmp_path / "g", uri := f"s3://{bucket}/graph", s3_emulator.endpoint)

    def load(name: str, key: str | None) -> og.Receipt:
        with og.open(uri) as graph:
            return graph.load([{"type": "T", "data": {"k": name}}], mode="append", idempotency_key=key)

    def cost(name: str, key: str | None) -> costs.Cost:
        with og.open(uri) as graph:
            row = {"type": "T", "data": {"k": name}}
            return costs.measured(proxy, lambda: graph.load([row], mode="append", idempotency_key=key).storage)

    plain, keyed = cost("plain", None), cost("keyed", "a new key")
    assert keyed.requests - plain.requests <= FRAGMENTS
    assert keyed.hops - plain.hops <= FRAGMENTS / 20, "side by side, not one after the other"
    assert load("other", keys[0]).replayed
    with og.open(uri) as graph:
        graph.compact_manifest()
        assert len(archive_files(graph._engine.latest("main"))) < 5
    assert cost("merged", "another key").requests - plain.requests <= 10
    assert load("other", keys[0]).replayed
