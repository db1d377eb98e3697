"""What a power cut has torn is named with the command that puts it right, and moved aside without a byte lost."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph import errors
from omnigraph.commit.engine import MAIN
from omnigraph.commit.recovery import torn
from omnigraph.core import failpoints
from omnigraph.graph import Graph, open_for_repair
from omnigraph.store import layout
from omnigraph.table.dataset import TableRef
from omnigraph.table.torn import why_torn
from omnigraph.table.version_list import version_path
from omnigraph.upkeep import repair_lines
from tests.component.upkeep.material import engine_of, make, people, pin_of

DAMAGES = {
    "empty": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "without its end": lambda data: data[:-1],
    "zeros": lambda data: bytes(len(data)),
}


def manifest_file(root: str, version: int) -> Path:
    return Path(root, version_path(TableRef(layout.MANIFEST), version))


def tear(file: Path, damage: str = "half") -> bytes:
    data = file.read_bytes()
    file.write_bytes(DAMAGES[damage](data))
    return data


def names(graph: Graph) -> list[str]:
    return sorted(graph.snapshot().to_arrow("Person")["name"].to_pylist())


def made(root: str, *, commits: int = 3) -> tuple[int, str]:
    """A closed graph: the newest version of its manifest, and its head."""
    with make(root, commits) as graph:
        held = engine_of(graph).latest(MAIN)
        return held.version, held.state.head.commit_id


def everything(root: str) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(Path(root).rglob("*")) if path.is_file()}


def confirm(root: str, *, force: bool = False) -> og.RepairReport:
    with open_for_repair(root) as graph:
        return graph.repair(confirm=True, force=force)


def test_whatever_is_cut_off_a_version_file_is_noticed(local_root: str) -> None:
    version, _ = made(local_root, commits=1)
    file = manifest_file(local_root, version)
    whole = file.read_bytes()
    assert why_torn(str(file)) is None
    for size in range(len(whole)):
        file.write_bytes(whole[:size])
        assert why_torn(str(file)) is not None, size
    assert why_torn(str(file.with_name("absent"))) is None


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_torn_newest_version_is_named_and_repaired_and_no_byte_is_lost(local_root: str, damage: str) -> None:
    version, head = made(local_root)
    file = manifest_file(local_root, version)
    tear(file, damage)
    bad = file.read_bytes()
    for read_only in (False, True):
        with pytest.raises(errors.Corruption) as caught:
            og.open(local_root, read_only=read_only)
        assert file.name in caught.value.message and f"omnigraph repair {local_root} --confirm" in caught.value.hint
    before = everything(local_root)
    with open_for_repair(local_root) as graph:
        [preview] = graph.repair().lines
    assert everything(local_root) == before
    assert (preview.action, preview.newest_left, preview.given_up) == ("preview", version - 1, (head,))
    [line] = confirm(local_root).lines
    assert (line.action, line.given_up) == ("healed", (head,))
    aside = Path(local_root, layout.QUARANTINED_VERSIONS)
    [record] = aside.glob("*.json")
    body = json.loads(record.read_bytes())
    assert body["given_up"] == [head] and body["newest_left"] == version - 1
    assert (aside / record.stem / body["moved"][0]["path"]).read_bytes() == bad
    with og.open(local_root) as graph:
        assert names(graph) == ["p0", "p1"]
        assert graph.outcome(head).state == "absent"
        graph.load(people("next"), mode="append")
        assert names(graph) == ["next", "p0", "p1"]
        assert [one for one in graph.verify().problems if one.severity == "damage"] == []


def test_versions_of_tables_that_were_given_up_are_put_back(local_root: str) -> None:
    version, _ = made(local_root)
    tear(manifest_file(local_root, version))
    assert {table.action for table in confirm(local_root).tables} == {"healed"}


def test_a_torn_version_below_is_moved_aside_and_its_commit_is_reclaimed(local_root: str) -> None:
    with make(local_root) as graph:
        middle = graph.commits()[1]
        version = engine_of(graph).latest(MAIN).version
    tear(manifest_file(local_root, version - 1))
    [line] = confirm(local_root).lines
    assert (line.newest_left, line.given_up) == (version, (middle.id,))
    with og.open(local_root) as graph:
        assert names(graph) == ["p0", "p1", "p2"]
        with pytest.raises(errors.Reclaimed):
            graph.snapshot(at=middle.id)


def test_what_a_checkpoint_names_is_not_moved(local_root: str) -> None:
    with make(local_root) as graph:
        graph.checkpoints.create("good")
        version = engine_of(graph).latest(MAIN).version
    tear(manifest_file(local_root, version))
    before = everything(local_root)
    [line] = confirm(local_root).lines
    assert line.action == "refused" and line.reason is not None and "good" in line.reason
    assert everything(local_root) == before


def test_a_pin_that_names_a_torn_version_leads_back_where_nothing_was_synced(local_root: str) -> None:
    with og.init(local_root, "node Person { name: String @key age: I32? bio: String? }", durability="relaxed") as graph:
        graph.load(people("a"), mode="append")
        lost = graph.load(people("b"), mode="append").commit_id
        pin = pin_of(graph, "node:Person")
    tear(Path(local_root, version_path(TableRef(pin.location, pin.ref), pin.version)))
    [line] = confirm(local_root).lines
    assert line.given_up == (lost,) and "node:Person" in line.moved[0].why
    with og.open(local_root) as graph:
        assert names(graph) == ["a"]


@pytest.mark.parametrize("lost", ["data", "version"])
def test_what_a_commit_that_was_not_synced_has_lost_is_named_with_the_way_back(local_root: str, lost: str) -> None:
    with og.init(local_root, "node Person { name: String @key age: I32? bio: String? }", durability="relaxed") as graph:
        graph.load(people("a"), mode="append")
        graph.load(people("b"), mode="append")
        pin = pin_of(graph, "node:Person")
    table = Path(local_root, TableRef(pin.location, pin.ref).relative)
    if lost == "data":
        max((table / "data").iterdir(), key=lambda path: path.stat().st_mtime_ns).write_bytes(b"")
    else:
        Path(local_root, version_path(TableRef(pin.location, pin.ref), pin.version)).unlink()
    with og.open(local_root) as graph:
        with pytest.raises(errors.Corruption) as caught:
            names(graph)
        assert "node:Person" in caught.value.message and f"`omnigraph repair {local_root}`" in caught.value.hint
        if lost == "version":
            with pytest.raises(errors.Corruption) as caught:
                graph.load(people("c"), mode="append")
            assert (
                caught.value.facts["version"] == pin.version and f"`omnigraph repair {local_root}`" in caught.value.hint
            )
    confirm(local_root)
    with og.open(local_root) as graph:
        assert names(graph) == ["a"]
        graph.load(people("c"), mode="append")


def test_a_table_that_is_damaged_later_costs_no_commit(local_root: str) -> None:
    """In the default mode what a version names was synced before it: what is torn since is damage, and no power cut's."""
    with og.init(local_root, "node Person { name: String @key age: I32? bio: String? }", durability="commit") as graph:
        graph.load(people("a"), mode="append")
        pin = pin_of(graph, "node:Person")
    path = version_path(TableRef(pin.location, pin.ref), pin.version)
    tear(Path(local_root, path))
    before = everything(local_root)
    with open_for_repair(local_root) as graph, pytest.raises(errors.Corruption, match=path):
        graph.repair(confirm=True)
    assert everything(local_root) == before


def test_rows_of_the_manifest_that_rot_are_named_and_given_up_by_force_alone(local_root: str) -> None:
    version, head = made(local_root)
    with og.open(local_root, read_only=True) as graph:
        handle = engine_of(graph).latest(MAIN).handle
        file = Path(handle.uri, "data", handle.get_fragments()[-1].metadata.files[0].path)
    data = file.read_bytes()
    at = data.index(b"p2") if b"p2" in data else data.index(head.encode())
    file.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    with pytest.raises(errors.Corruption, match=file.name):
        og.open(local_root)
    [line] = confirm(local_root).lines
    assert line.action == "refused" and line.reason is not None and "--force" in line.reason
    [line] = confirm(local_root, force=True).lines
    assert (line.action, line.newest_left) == ("healed", version - 1)


def test_a_short_data_file_of_the_manifest_is_named(local_root: str) -> None:
    made(local_root)
    with og.open(local_root, read_only=True) as graph:
        handle = engine_of(graph).latest(MAIN).handle
        file = Path(handle.uri, "data", handle.get_fragments()[-1].metadata.files[0].path)
    tear(file, "empty")
    with pytest.raises(errors.Corruption, match=file.name):
        og.open(local_root)


def test_a_version_whose_data_and_transaction_are_both_cut_is_moved_aside(local_root: str) -> None:
    """Checksums name the transaction, which a reader does not need; the data, which it does, says that it was never written whole."""
    version, head = made(local_root)
    with og.open(local_root, read_only=True) as graph:
        handle = engine_of(graph).latest(MAIN).handle
        file = Path(handle.uri, "data", handle.get_fragments()[-1].metadata.files[0].path)
    [transaction] = Path(local_root, layout.MANIFEST, "_transactions").glob(f"{version - 1}-*.txn")
    tear(file, "empty")
    tear(transaction)
    with pytest.raises(errors.Corruption, match=transaction.name):
        og.open(local_root)
    [line] = confirm(local_root).lines
    assert (line.action, line.newest_left, line.given_up) == ("healed", version - 1, (head,))
    with og.open(local_root) as graph:
        assert names(graph) == ["p0", "p1"]


# --- tables ---------------------------------------------------------------------------------------------------------------


def interrupted(root: str) -> str:
    """A write that has landed on its table and is not published. Returns the table's torn version file."""
    with make(root, 2) as graph:
        pin = pin_of(graph, "node:Person")
        with failpoints.armed("publish.before_swap", "raise", at=1), pytest.raises(errors.OutcomeUnknown):
            graph.load(people("late"), mode="append")
    return version_path(TableRef(pin.location, pin.ref), pin.version + 1)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_torn_version_above_its_pin_is_moved_aside_by_the_next_open(local_root: str, damage: str) -> None:
    path = interrupted(local_root)
    tear(Path(local_root, path), damage)
    with og.open(local_root, read_only=True) as graph:
        assert names(graph) == ["p0", "p1"]
        [pending] = graph.intents()
        assert pending.decision != "publish"
    with og.open(local_root) as graph:
        assert list(graph.intents()) == [] and names(graph) == ["p0", "p1"]
        moved = [one for one in graph.recoveries() if one.how == "TornVersionMovedAside"]
        assert [list(one.tables) for one in moved] == [["node:Person"]]
        graph.load(people("late"), mode="append")
        assert names(graph) == ["late", "p0", "p1"]
    assert Path(local_root, layout.quarantined_version_key(moved[0].op, path)).exists()


def test_a_torn_version_that_no_intent_claims_is_healed(local_root: str) -> None:
    path = interrupted(local_root)
    for intent in Path(local_root, "__recovery").glob("*.json"):
        intent.unlink()
    tear(Path(local_root, path))
    with og.open(local_root) as graph:
        assert [one.state for one in graph.recover(grace_s=0).healed] == ["healed"]
        graph.load(people("late"), mode="append")


def test_a_table_that_never_came_to_be_does_not_stop_recovery(local_root: str) -> None:
    """The version file of a table that a change of the schema makes is torn."""
    with make(local_root, 1) as graph:
        text = str(graph.schema.show()) + "\nnode Thing { name: String @key }\n"
        with failpoints.armed("publish.before_swap", "raise", at=1), pytest.raises(errors.OutcomeUnknown):
            graph.schema.apply(text)
    [made_] = Path(local_root, "nodes").glob("Thing-*/_versions/*.manifest")
    tear(made_)
    with og.open(local_root) as graph:
        assert list(graph.intents()) == []
        graph.schema.apply(text)
        graph.load([{"type": "Thing", "data": {"name": "x"}}], mode="append")


# --- two at once ------------------------------------------------------------------------------------------------------------


def beside_a_slow_one(first: Callable[[], object], then: Callable[[], object]) -> bool:
    """Whether ``then`` came through while ``first`` had moved nothing yet, and went on after it."""
    moving, go = threading.Event(), threading.Event()

    def hold(**_: object) -> None:
        moving.set()
        assert go.wait(30)

    with ThreadPoolExecutor(1) as pool, failpoints.armed("torn.before_delete", hold):
        slow = pool.submit(first)
        assert moving.wait(30)
        try:
            then()
            done = True
        except (errors.Conflict, errors.Corruption):
            done = False
        go.set()
        slow.result(30)
    return done


def test_a_slow_repair_does_not_take_the_version_that_was_written_after_another_one(
    local_root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torn, "WAIT_S", 0.2)
    version, _ = made(local_root)
    tear(manifest_file(local_root, version))

    def repair_and_write() -> None:
        confirm(local_root)
        with og.open(local_root) as graph:
            graph.load(people("next"), mode="append")

    written = beside_a_slow_one(lambda: confirm(local_root), repair_and_write)
    assert manifest_file(local_root, version).exists()  # made anew by the heal that follows a repair
    with og.open(local_root) as graph:
        assert names(graph) == (["next", "p0", "p1"] if written else ["p0", "p1"])
        graph.load(people("last"), mode="append")


def test_a_slow_open_does_not_take_the_version_that_was_written_after_another_one(
    local_root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torn, "WAIT_S", 0.2)
    tear(Path(local_root, interrupted(local_root)))

    def open_and_write() -> None:
        with og.open(local_root) as graph:
            graph.load(people("next"), mode="append")

    written = beside_a_slow_one(lambda: og.open(local_root).close(), open_and_write)
    with og.open(local_root) as graph:
        assert names(graph) == (["next", "p0", "p1"] if written else ["p0", "p1"])
        graph.load(people("last"), mode="append")


def test_of_two_repairs_the_second_finds_nothing_to_do(local_root: str) -> None:
    version, _ = made(local_root)
    tear(manifest_file(local_root, version))
    moving, looked = threading.Event(), threading.Event()
    real = repair_lines._look

    def look(*args: Any) -> Any:
        found = real(*args)
        if threading.current_thread() is not threading.main_thread() and not looked.is_set():
            looked.set()
            assert moving.wait(30)
        return found

    with ThreadPoolExecutor(1) as pool, pytest.MonkeyPatch.context() as patch:
        patch.setattr(repair_lines, "_look", look)
        second = pool.submit(confirm, local_root)
        assert looked.wait(30)
        [line] = confirm(local_root).lines
        with og.open(local_root) as graph:
            graph.load(people("next"), mode="append")
        moving.set()
        [again] = second.result(30).lines
    assert (line.action, len(line.moved)) == (again.action, 1) == ("healed", 1) and again.moved == ()
    with og.open(local_root) as graph:
        assert names(graph) == ["next", "p0", "p1"]


# --- nothing that holds data is called absent -------------------------------------------------------------------------------


def test_data_without_a_manifest_is_damage_and_no_place_for_a_new_graph(local_root: str) -> None:
    made(local_root, commits=1)
    for file in Path(local_root, "__manifest", "_versions").iterdir():
        file.unlink()
    for call in (og.open, lambda root: og.init(root, "node Person { name: String @key }")):
        with pytest.raises(errors.Corruption, match="holds data"):
            call(local_root)


def test_what_an_interrupted_init_has_left_is_no_graph(local_root: str) -> None:
    og.init(local_root, "node Person { name: String @key }").close()
    for file in Path(local_root, "__manifest", "_versions").iterdir():
        file.unlink()
    with pytest.raises(errors.NotFound):
        og.open(local_root)


def test_a_torn_first_version_leaves_no_graph_and_init_makes_one(local_root: str) -> None:
    og.init(local_root, "node Person { name: String @key }").close()
    tear(manifest_file(local_root, 1))
    [line] = confirm(local_root).lines
    assert (line.action, line.newest_left) == ("healed", None)
    og.init(local_root, "node Person { name: String @key }").close()
