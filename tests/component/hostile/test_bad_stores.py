"""Stores that say no, are full, or do not answer: a typed error, the graph as it was, and the next write works."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.core.clock import SystemClock
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


DIES = """
import sys
import omnigraph as og
with og.open(sys.argv[1]) as graph:
    ann, bob = ({"type": "Person", "data": {"name": name}} for name in ("ann", "bob"))
    graph.load([ann, bob, {"edge": "Knows", "from": "ann", "to": "bob"}], mode="append")
"""


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long this process has slept between attempts; the sleep itself is left out."""
    slept: list[float] = []
    monkeypatch.setattr(SystemClock, "sleep", lambda _self, seconds: slept.append(seconds))
    return slept


@pytest.mark.timeout(50)
@pytest.mark.parametrize("place", ["apply.before_commit:2", "publish.before_swap"])
def test_on_a_full_disk_nothing_waits_for_room(mount: Mount, pauses: list[float], place: str) -> None:
    root = mount("size=4m")
    path = root / "graph"
    og.init(path, SCHEMA).close()
    env = {**os.environ, "OMNIGRAPH_FAILPOINTS": f"{place}=kill", "PYTHONPATH": os.pathsep.join(sys.path)}
    died = subprocess.run([sys.executable, "-c", DIES, str(path)], env=env, capture_output=True, timeout=40)
    assert died.returncode < 0, died.stderr
    with contextlib.suppress(OSError), (root / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(4096))
    with og.open(path) as graph:
        [pending] = graph.intents()
        report = graph.recover(grace_s=0)
        assert report.left == (pending.operation_id,)
        [why] = report.unresolved
        assert pending.operation_id in why and ("full" in why or "No space left" in why)
        with pytest.raises(og.errors.OmnigraphError):
            graph.load([person("eve")], mode="append", deadline_s=1)
        assert graph.snapshot().count("Person") == 0
        assert sum(pauses) < 1
        (root / "filler").unlink()
        assert graph.recover(grace_s=0).clean
        graph.load([person("eve")], mode="append")
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
