"""What an acknowledgement promises on a local disk: chosen when a graph is opened, told by ``status``, kept by every swap."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.commit import engine as engines
from omnigraph.commit.durable import Durable
from omnigraph.commit.engine import MAIN, Engine
from omnigraph.core import failpoints
from omnigraph.core.errors import InvalidInput, OutcomeUnknown, StoreUnavailable
from omnigraph.manifest.durable import Durability
from omnigraph.store import durability as syncing
from omnigraph.store import open_store
from omnigraph.store.durability import SyncFailed
from omnigraph.testing.content import faults_of
from omnigraph.testing.operations import append, create, keys_of

SCHEMA = "node Person { name: String @key }\n"
ADA = {"type": "Person", "data": {"name": "ada"}}
ONE = keys_of(1)


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was synced, in order: ``everything``, or the name of a folder or file."""
    found: list[str] = []
    everything, one = syncing.sync_everything, syncing.sync_one

    def all_of(root: str) -> None:
        found.append("everything")
        everything(root)

    def single(path: str) -> None:
        found.append(path)
        one(path)

    monkeypatch.setattr("omnigraph.commit.durable.sync_everything", all_of)
    monkeypatch.setattr(syncing, "sync_one", single)
    return found


def engine_of(root: str, mode: Durability) -> Engine:
    engine = Engine(open_store(root), durability=mode)
    engine.latest(MAIN)
    return engine


def unsynced(root: str) -> int | None:
    engine = engine_of(root, Durability.COMMIT)
    try:
        return engine.latest(MAIN).state.head.unsynced_since
    finally:
        engine.close()


def test_a_commit_is_synced_before_and_after_its_swap(tmp_path: Path, synced: list[str]) -> None:
    with og.init(tmp_path / "g.omni", SCHEMA, durability="commit") as graph:
        synced.clear()
        order: list[str] = []
        with failpoints.armed("publish.after_swap", lambda **_: order.extend(synced)):
            graph.load([ADA], mode="append")
    assert order == ["everything"]
    assert any("__manifest/_versions" in path for path in synced[1:])


def test_relaxed_syncs_nothing_and_says_since_when(tmp_path: Path, synced: list[str]) -> None:
    with og.init(tmp_path / "g.omni", SCHEMA, durability="relaxed") as graph:
        synced.clear()
        graph.load([ADA], mode="append")
        assert "everything" not in synced and not [path for path in synced if "__manifest" in path]
        assert any("relaxed" in note for note in graph.status().notes)
    assert unsynced(str(tmp_path / "g.omni")) == 1


def test_the_first_commit_after_relaxed_ones_syncs_everything_and_clears_the_note(
    tmp_path: Path, synced: list[str]
) -> None:
    with og.init(tmp_path / "g.omni", SCHEMA, durability="relaxed") as graph:
        graph.load([ADA], mode="append")
    synced.clear()
    with og.open(tmp_path / "g.omni", durability="commit") as graph:
        graph.load([{"type": "Person", "data": {"name": "bob"}}], mode="append")
        assert "everything" in synced
        assert not [note for note in graph.status().notes if "relaxed" in note]
    assert unsynced(str(tmp_path / "g.omni")) is None


def test_the_environment_chooses_where_the_call_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_DURABILITY", "relaxed")
    with og.init(tmp_path / "g.omni", SCHEMA) as graph:
        assert any("relaxed" in note for note in graph.status().notes)
    with og.open(tmp_path / "g.omni", durability="commit") as graph:
        assert not any(note.startswith("durability relaxed") for note in graph.status().notes)
    monkeypatch.delenv("OMNIGRAPH_DURABILITY")
    with og.open(tmp_path / "g.omni") as graph:
        assert not any(note.startswith("durability relaxed") for note in graph.status().notes)


@pytest.mark.parametrize("value", ["sometimes", "", 5])
def test_another_durability_is_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(InvalidInput, match="durability"):
        og.init(tmp_path / "g.omni", SCHEMA, durability=value)
    assert not (tmp_path / "g.omni").exists()


def failing(monkeypatch: pytest.MonkeyPatch, name: str, times: int = 1) -> None:
    real, left = getattr(Durable, name), iter(range(times))

    def fail(self: Durable, *args: Any, **facts: Any) -> Any:
        if next(left, None) is not None:
            self.failed = SyncFailed("the disk does not answer", path="/x", outcome="unknown")
            raise self.failed
        return real(self, *args, **facts)

    monkeypatch.setattr(Durable, name, fail)


def test_a_sync_that_fails_before_the_swap_ends_the_write_by_an_abort(
    local_root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(local_root)
    engine = engine_of(local_root, Durability.COMMIT)
    failing(monkeypatch, "before_swap")
    with pytest.raises((StoreUnavailable, OutcomeUnknown)):
        append(engine, ONE, ["a"], deadline_s=5)
    with pytest.raises(StoreUnavailable, match="nothing more is written"):
        append(engine, ONE, ["b"])
    engine.close()
    with og.open(local_root) as fresh:
        assert fresh.snapshot().count("T1") == 0 and faults_of(fresh._engine) == []


def test_a_sync_that_fails_after_the_swap_leaves_the_outcome_unknown(
    local_root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(local_root)
    engine = engine_of(local_root, Durability.COMMIT)
    failing(monkeypatch, "after_swap")
    failing(monkeypatch, "acknowledge")
    with pytest.raises(OutcomeUnknown):
        append(engine, ONE, ["a"], deadline_s=5)
    assert len(engine.intents.names()) == 1, "the intent stays for recovery"
    engine.close()
    monkeypatch.undo()
    with og.open(local_root) as fresh:
        fresh.recover(grace_s=0)
        assert fresh.snapshot().count("T1") == 1 and faults_of(fresh._engine) == []


def test_a_checkpoint_rests_on_what_is_on_disk(tmp_path: Path, synced: list[str]) -> None:
    with og.init(tmp_path / "g.omni", SCHEMA, durability="relaxed") as graph:
        graph.load([ADA], mode="append")
        synced.clear()
        graph.checkpoints.create("before")
        assert synced[0] == "everything"


def test_a_cleanup_syncs_what_stays_before_it_deletes(tmp_path: Path, synced: list[str]) -> None:
    with og.init(tmp_path / "g.omni", SCHEMA, durability="relaxed") as graph:
        for number in range(3):
            graph.load([{"type": "Person", "data": {"name": str(number)}}], mode="append")
        synced.clear()
        graph.cleanup(keep=1, min_age="0s", confirm=True)
        assert "everything" in synced


# --- every sync of a write fails once -------------------------------------------------------------------------------------


class Disk:
    """Counts the syncs of this process, and refuses one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen = 0
        self.bad: int | None = None
        one, everything = os.fsync, syncing._syncfs()
        assert everything is not None, "Linux has it"

        def fsync(descriptor: int) -> None:
            self._call()
            one(descriptor)

        def syncfs(descriptor: int) -> int:
            self._call()
            return everything(descriptor)

        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(syncing, "_syncfs", lambda: syncfs)

    def _call(self) -> None:
        self.seen += 1
        if self.seen == self.bad:
            raise OSError(errno.EIO, "Input/output error")


def test_whichever_sync_of_a_write_fails_it_ends_as_far_as_it_had_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the intent is armed: a failure, and nothing of it is there. Armed: the abort needs the same disk, so it may be
    unknown as well. Swapped: unknown, the intent stays. A fresh open and a recovery say which."""
    start = tmp_path / "start"
    create(str(start), 1)
    disk = Disk(monkeypatch)
    endings: list[str] = []
    for number in range(1, 40):
        root = str(tmp_path / f"g{number}")
        shutil.copytree(start, root)
        engine = engine_of(root, Durability.COMMIT)
        disk.seen, disk.bad = 0, number
        told: StoreUnavailable | OutcomeUnknown | None = None
        try:
            append(engine, ONE, ["a"], deadline_s=10)
        except (StoreUnavailable, OutcomeUnknown) as error:
            told = error
        reached, disk.bad = disk.seen >= number, None
        kept = len(engine.intents.names())
        engine.close()
        if not reached:
            break
        syncing.forget_failures(root)
        with og.open(root, durability="commit") as fresh:
            fresh.recover(grace_s=0)
            rows = fresh.snapshot().count("T1")
            assert (faults_of(fresh._engine), list(fresh.intents())) == ([], []), number
        if isinstance(told, OutcomeUnknown):
            endings.append("unknown")
            assert kept == 1, number
        else:
            endings.append("failed" if told is not None else "landed")
            assert rows == (told is None), f"sync {number}: told {told}, and {rows} rows are there"
    # The first syncs are the intent's; then come the plan's files, the version, and the deletion of the intent.
    assert (endings[0], endings[-1]) == ("failed", "landed") and "unknown" in endings, endings


def test_recovery_publishes_no_plan_of_which_nothing_says_that_it_is_synced(
    tmp_path: Path, synced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in the relaxed mode: only an intent that says ``applied`` and ``durable`` was synced by its owner."""
    root = str(tmp_path / "g")
    create(root, 1)
    engine = engine_of(root, Durability.RELAXED)
    with failpoints.armed("publish.before_swap", "raise"), pytest.raises(OutcomeUnknown):
        append(engine, ONE, ["a"])
    engine.close()
    synced.clear()
    with og.open(root, durability="relaxed") as fresh:
        assert fresh.snapshot().count("T1") == 1
    assert synced.count("everything") == 1


def test_a_write_that_was_armed_before_a_restart_is_rolled_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its version files look exact; what they name may be torn."""
    root = str(tmp_path / "g")
    create(root, 1)
    with monkeypatch.context() as before:
        before.setattr(engines, "_boot_id", lambda: "00000000-0000-4000-8000-000000000000")
        engine = engine_of(root, Durability.COMMIT)
        with failpoints.armed("publish.before_swap", "raise"), pytest.raises(OutcomeUnknown):
            append(engine, ONE, ["a"])
        engine.close()
    with og.open(root) as fresh:
        assert [one.how for one in fresh.recoveries()] == ["RolledBack"]
        assert fresh.snapshot().count("T1") == 0
