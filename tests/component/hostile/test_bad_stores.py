"""Stores that say no, are full, or do not answer: a typed error, the graph as it was, and the next write works."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.testing.faults import CATALOGUE, FaultProxy, Match, Rule

SCHEMA = "node Person { name: String @key  note: String? }\nedge Knows: Person -> Person {}\n"
BIG = "z" * 60_000

Mount = Callable[..., Path]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    mounted: list[Path] = []

    def make(*options: str) -> Path:
        target = tmp_path / f"mount{len(mounted)}"
        target.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(target)]
        if os.geteuid() != 0 or subprocess.run(command, capture_output=True, timeout=30).returncode != 0:
            pytest.skip("not run: needs mount")
        mounted.append(target)
        return target

    yield make
    for target in mounted:
        subprocess.run(["umount", "-l", str(target)], check=True, timeout=30)


def person(name: str, note: str | None = None) -> dict[str, object]:
    return {"type": "Person", "data": {"name": name, "note": note}}


def test_a_full_disk_loses_nothing_that_was_acknowledged(mount: Mount) -> None:
    root = mount("size=1m")
    with og.init(root / "graph", SCHEMA) as graph:
        landed = 0
        with pytest.raises(og.errors.OmnigraphError) as refused:
            for number in range(100):
                graph.load([person(f"p{number}", BIG)], mode="append")
                landed += 1
        assert refused.value.code in ("store-unavailable", "outcome-unknown")
        assert landed > 0
        with og.open(root / "graph", read_only=True) as reader:
            found = reader.snapshot().count("Person")
        subprocess.run(["mount", "-o", "remount,size=8m", str(root)], check=True, timeout=30)
        graph.recover(grace_s=0)
        if refused.value.code == "outcome-unknown":
            assert graph.outcome(refused.value.commit_id).state in ("landed", "aborted", "absent")
        assert graph.snapshot().count("Person") in (landed, landed + 1)
        assert found in (landed, landed + 1)
        graph.load([person("after")], mode="append")
        assert graph.verify(deep=True).ok


def test_a_read_only_directory_refuses_writes_and_serves_reads(mount: Mount) -> None:
    root = mount("size=4m")
    with og.init(root / "graph", SCHEMA) as graph:
        graph.load([person("ann")], mode="append")
        subprocess.run(["mount", "-o", "remount,ro", str(root)], check=True, timeout=30)
        with pytest.raises(og.errors.StoreRefused):
            graph.load([person("bob")], mode="append")
        assert graph.snapshot().count("Person") == 1
        with og.open(root / "graph", read_only=True) as reader:
            assert reader.snapshot().count("Person") == 1
        with pytest.raises(og.errors.StoreRefused):
            og.init(root / "other", SCHEMA)
        subprocess.run(["mount", "-o", "remount,rw", str(root)], check=True, timeout=30)
        graph.load([person("bob")], mode="append")
        assert graph.snapshot().count("Person") == 2


def test_a_store_that_is_not_there_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(og.errors.StoreUnavailable):
        og.open("s3://bucket/graph")


def test_a_store_that_refuses_is_refused(fault_proxy: FaultProxy, proxied_root: str) -> None:
    with og.init(f"{proxied_root}/graph", SCHEMA) as graph:
        graph.load([person("ann")], mode="append")
        fault_proxy.rule(Rule(CATALOGUE["403 before"], Match(), at=1, times=None))
        with pytest.raises(og.errors.StoreRefused):
            graph.load([person("bob")], mode="append")
        fault_proxy.calm()
        assert graph.snapshot().count("Person") == 1
        graph.load([person("bob")], mode="append")
        assert graph.snapshot().count("Person") == 2
