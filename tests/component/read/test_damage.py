"""Files that are missing or damaged are named, never read around; the store's weather is not called damage."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance.file import LanceFileReader, LanceFileWriter

import omnigraph as og
from omnigraph.commit.engine import Engine
from omnigraph.core.errors import Corruption, Refused, StoreRefused, StoreUnavailable
from omnigraph.read.snapshot import Snapshot, snapshot_of_branch
from omnigraph.store import open_store
from omnigraph.table import strict
from omnigraph.testing.faults import FaultProxy, Match, Rule, fail
from tests.component.read.material import cold, new_graph, people, put


def overwrite(path: Path, start: float, end: float) -> None:
    size = path.stat().st_size
    low, high = int(size * start), max(int(size * end), int(size * start) + 1)
    with path.open("r+b") as file:
        file.seek(low)
        file.write(b"\xa5" * (high - low))


DAMAGES: dict[str, Callable[[Path], None]] = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: os.truncate(path, 0),
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "overwritten": lambda path: overwrite(path, 0, 1),
    "overwritten at the end": lambda path: overwrite(path, 0.9, 1),
    "overwritten in the middle": lambda path: overwrite(path, 0.3, 0.7),
}


@pytest.fixture
def graph(local_root: str) -> Engine:
    engine = new_graph(local_root)
    put(engine, "Person", people(*(f"p{k}" for k in range(3000))))
    put(engine, "Person", people(*(f"q{k}" for k in range(3000))))
    put(engine, "Company", [{"id": "c", "name": "c"}])
    return engine


def data_files(snap: Snapshot) -> list[Path]:
    return [Path(snap.tables["node:Person"].uri, f.files[0]) for f in snap.fragments("Person")]


READS: dict[str, Callable[[Snapshot], Any]] = {
    "scan": lambda snap: snap.to_arrow("Person"),
    "stream": lambda snap: list(snap.to_batches("Person", ["name", "age", "id"])),
    "export": lambda snap: snap.export(),
    "frame": lambda snap: snap.to_pandas("Person"),
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_named_with_its_table_and_version(graph: Engine, damage: str, read: str) -> None:
    file = data_files(snapshot_of_branch(graph))[1]
    DAMAGES[damage](file)
    snap = snapshot_of_branch(cold(graph))
    with pytest.raises(Corruption) as caught:
        READS[read](snap)
    error = caught.value
    assert (error.table_key, error.version) == ("node:Person", snap.tables["node:Person"].version)
    assert error.file == f"data/{file.name}"
    assert file.name in str(error)
    assert snap.to_arrow("Company").num_rows == 1  # the others read on


@pytest.mark.parametrize("damage", ["missing", "empty", "overwritten"])
def test_a_table_version_that_is_gone_or_damaged_is_named(graph: Engine, damage: str) -> None:
    version = snapshot_of_branch(graph).tables["node:Person"].version
    name = f"{(1 << 64) - 1 - version:020d}.manifest"
    DAMAGES[damage](Path(snapshot_of_branch(graph).tables["node:Person"].uri, "_versions", name))
    snap = snapshot_of_branch(cold(graph))
    with pytest.raises(Corruption, match="_versions/") as caught:
        snap.to_arrow("Person")
    assert caught.value.version == version
    with pytest.raises(Corruption):
        snap.get("Person", "p1")
    with pytest.raises(Corruption):
        snap.fragments("Person")


def test_sql_over_a_damaged_table_fails(graph: Engine) -> None:
    data_files(snapshot_of_branch(graph))[0].unlink()
    connection = snapshot_of_branch(cold(graph)).duckdb()
    with pytest.raises(Exception, match="node:Person"):
        connection.execute("select sum(age) from Person").fetchall()


@pytest.mark.parametrize(
    ("status", "kind"), [(503, StoreUnavailable), (403, StoreRefused)], ids=["unavailable", "refused"]
)
def test_a_store_that_does_not_answer_is_not_called_damage(
    fault_proxy: FaultProxy, proxied_root: str, status: int, kind: type[Exception]
) -> None:
    engine = new_graph(proxied_root)
    put(engine, "Person", people("ada"))
    impatient = {"client_max_retries": "0"}
    snap = snapshot_of_branch(Engine(open_store(proxied_root, impatient)))
    rule = Rule(fail(status), Match(classes=("data",), methods=("GET",)), times=None)
    fault_proxy.rule(rule)
    with pytest.raises(kind):
        snap.to_arrow("Person")
    fault_proxy.calm()
    assert isinstance(snap.to_arrow("Person"), pa.Table)


# --- deletion files -----------------------------------------------------------------------------------------------------

CALLS: dict[str, Callable[[og.Graph], Any]] = {
    "to_arrow": lambda graph: graph.snapshot().to_arrow("Person"),
    "get": lambda graph: graph.snapshot().get("Person", "p2000"),
    "merge": lambda graph: graph.load([{"type": "Person", "data": {"name": "p2500"}}], mode="merge"),
    "append": lambda graph: graph.load([{"type": "Person", "data": {"name": "new"}}], mode="append"),
    "mutate": lambda graph: graph.mutate('query q() { delete Person where name = "p2600" }'),
}


def _with_deletions(root: str) -> Path:
    """A graph whose first rows are deleted, and its deletion file."""
    with og.init(root, "node Person { name: String @key  age: I32? }") as graph:
        rows = [{"type": "Person", "data": {"name": f"p{number}", "age": number}} for number in range(3000)]
        graph.load(rows, mode="append")
        graph.mutate("query q() { delete Person where age < 1000 }")
    (found,) = Path(root).glob("nodes/*/_deletions/*")
    return found


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("call", CALLS)
def test_a_damaged_deletion_file_is_named_whatever_reads_it(local_root: str, damage: str, call: str) -> None:
    path = _with_deletions(local_root)
    DAMAGES[damage](path)
    with og.open(local_root) as graph:
        try:
            CALLS[call](graph)
        except Corruption as error:
            assert error.file == f"_deletions/{path.name}"
            assert error.version == graph._engine.latest("main").state.tables["node:Person"].version
            assert path.parent.parent.name.partition("-")[0] in error.message
        else:
            # What does not read the deletions of the fragment answers; a read of all rows always does.
            assert damage.startswith("overwritten ") and call != "to_arrow"


def test_a_flipped_bit_in_a_deletion_file_is_no_fault_of_the_caller(local_root: str, tmp_path: Path) -> None:
    path = _with_deletions(local_root)
    whole, rng = path.read_bytes(), random.Random(2)
    for _ in range(40):
        bits = bytearray(whole)
        bits[rng.randrange(len(bits))] ^= 1 << rng.randrange(8)
        path.write_bytes(bits)
        with og.open(local_root, read_only=True) as graph:
            try:
                graph.snapshot().to_arrow("Person")
            except Corruption as error:
                assert error.file == f"_deletions/{path.name}"


# --- dates outside the calendar -----------------------------------------------------------------------------------------

PERSON_BOB = {"type": "Person", "data": {"name": "bob"}}
OUTSIDE: dict[str, Any] = {
    "born": pa.array([2**31 - 1, None], pa.int32()).cast(pa.date32()),
    "seen": pa.array([2**62, None], pa.int64()).cast(pa.timestamp("us", "UTC")),
    "days": pa.array([[1, -(2**31)], None], pa.list_(pa.int32())).cast(pa.list_(pa.date32())),
}
READERS: dict[str, Callable[[og.Graph, str], Any]] = {
    "to_arrow": lambda graph, _: graph.snapshot().to_arrow("Person"),
    "filtered": lambda graph, _: graph.snapshot().to_arrow("Person", filter=pc.field("name") == "ann"),
    "pandas": lambda graph, _: graph.snapshot().to_pandas("Person"),
    "export": lambda graph, _: graph.snapshot().export(),
    "get": lambda graph, _: graph.snapshot().get("Person", "ann"),
    "head": lambda graph, _: graph.snapshot().head("Person"),
    "history": lambda graph, _: graph.history("Person", "ann"),
    "changes": lambda graph, first: list(graph.changes(first)),
    "diff": lambda graph, first: list(graph.diff(first)),
}


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("column", OUTSIDE)
@pytest.mark.parametrize("known", [True, False], ids=["by its bytes", "by its rows"])
def test_a_date_outside_the_calendar_is_damage_of_its_file(
    local_root: str, column: str, read: str, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not known:  # as on an object store, where no file has a checksum
        monkeypatch.setattr("omnigraph.table.damage.damaged_file", lambda handle: None)
    schema = "node Person { name: String @key  born: Date? seen: DateTime? days: [Date]? }"
    with og.init(local_root, schema) as graph:
        first = str(graph.snapshot().commit_id)
        dates = {"born": "2020-01-01", "seen": "2020-01-01T00:00:00Z", "days": ["2020-01-01", "2020-01-02"]}
        graph.load([{"type": "Person", "data": {"name": "ann", **dates}}, PERSON_BOB], mode="append")
    (path,) = Path(local_root).glob("nodes/*/data/*")
    rows = LanceFileReader(str(path)).read_all().to_table()
    at, size = rows.schema.get_field_index(column), path.stat().st_size
    rows = rows.set_column(at, rows.schema.field(at), OUTSIDE[column].cast(rows.schema.field(at).type))
    path.unlink()
    with LanceFileWriter(str(path), rows.schema, version="2.2") as writer:
        writer.write_batch(rows)
    assert path.stat().st_size == size  # else the damage is another one
    with og.open(local_root) as graph, pytest.raises(Corruption) as caught:
        READERS[read](graph, first)
    error = caught.value
    assert (error.table_key, error.version) == ("node:Person", 2)
    assert error.file == f"data/{path.name}" and (known or "outside the calendar" in str(error.facts))


def test_dates_at_the_ends_of_the_calendar_are_read(local_root: str) -> None:
    ends = ("0001-01-01", "9999-12-31")
    with og.init(local_root, "node Person { name: String @key  born: Date? seen: DateTime? }") as graph:
        graph.load(
            [{"type": "Person", "data": {"name": day, "born": day, "seen": f"{day}T23:59:59.999999Z"}} for day in ends],
            mode="append",
        )
        assert [row["born"].isoformat() for row in graph.snapshot().head("Person")] == list(ends)


# --- data files of the manifest -----------------------------------------------------------------------------------------

MANIFEST_CALLS: dict[str, Callable[[og.Graph, str], Any]] = {
    "commits": lambda graph, _: list(graph.commits()),
    "outcome": lambda graph, first: graph.outcome(first),
    "at": lambda graph, first: graph.snapshot(at=first),
    "scan": lambda graph, _: graph.snapshot().to_arrow("Person"),
    "cleanup": lambda graph, _: graph.plan_cleanup(1),
}


def test_a_damaged_data_file_of_the_manifest_is_named_whatever_reads_it(
    local_root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.manifest.state.TAIL_ROLL", 8)
    monkeypatch.setattr("omnigraph.manifest.state.TAIL_KEEP", 4)
    with og.init(local_root, "node Person { name: String @key }") as graph:
        for number in range(20):
            graph.load([{"type": "Person", "data": {"name": f"p{number}"}}], mode="append")
        first = graph.commits()[-2].id
        live = [file.rpartition("/")[2] for file in strict.fragment_files(graph._engine.latest("main").handle)]
    rng, named = random.Random(4), 0
    for file in live:
        path = Path(local_root, "__manifest", "data", file)
        whole = path.read_bytes()
        for damage in (*DAMAGES, "flipped"):
            if damage == "flipped":
                bits = bytearray(whole)
                bits[rng.randrange(len(bits))] ^= 1 << rng.randrange(8)
                path.write_bytes(bits)
            else:
                DAMAGES[damage](path)
            for call in MANIFEST_CALLS:
                try:
                    with og.open(local_root, read_only=True) as graph:
                        MANIFEST_CALLS[call](graph, first)
                except Refused as error:
                    assert call == "cleanup" and file in error.message, (damage, error)
                except Corruption as error:
                    assert error.object == "__manifest" and error.version, (damage, call)
                    assert str(error.facts["file"]).rpartition("/")[2] == file, (damage, call, error)
                    named += 1
            path.write_bytes(whole)
    assert named > 30


# --- old versions of the manifest ---------------------------------------------------------------------------------------

OLD = 3  # of the commits below; what is damaged is what it alone left
OLD_CALLS: dict[str, Callable[[og.Graph, list[str]], Any]] = {
    "at": lambda graph, ids: graph.snapshot(at=ids[OLD]),
    "diff from": lambda graph, ids: list(graph.diff(ids[OLD])),
    "diff to": lambda graph, ids: list(graph.diff(ids[1], ids[OLD])),
    "changes": lambda graph, ids: list(graph.changes(ids[OLD])),
    "history": lambda graph, ids: graph.history("Person", "ann"),
    "restore": lambda graph, ids: graph.restore(ids[OLD]),
    "revert it": lambda graph, ids: graph.revert(ids[OLD]),
    "revert the next": lambda graph, ids: graph.revert(ids[OLD + 1]),
    "checkpoint": lambda graph, ids: graph.checkpoints.create("there", at=ids[OLD]),
    "branch": lambda graph, ids: graph.branches.create("there", at=ids[OLD]),
    "cleanup": lambda graph, ids: graph.plan_cleanup(4, min_age="0s"),  # OLD is the oldest that it keeps
}


@pytest.mark.parametrize("call", OLD_CALLS)
@pytest.mark.parametrize("which", ["version", "data"])
def test_an_old_version_of_the_manifest_that_is_damaged_is_named_with_its_file(
    local_root: str, which: str, call: str
) -> None:
    with og.init(local_root, "node Person { name: String @key  age: I32? }") as graph:
        ids = [str(graph.snapshot().commit_id)]
        for number in range(6):
            names = ("ann", f"p{number}") if number in (0, 4) else (f"p{number}",)
            graph.load([{"type": "Person", "data": {"name": name, "age": number}} for name in names], mode="merge")
            ids.append(str(graph.snapshot().commit_id))
        version = graph._engine.manifest.open_at(None, OLD + 1)
        assert version.state.head.commit_id == ids[OLD]
        data = strict.fragment_files(version.handle)[-1].rpartition("/")[2]
    name = {
        "version": f"__manifest/_versions/{(1 << 64) - 1 - version.version:020d}.manifest",
        "data": f"__manifest/data/{data}",
    }[which]
    rng = random.Random(7)
    for number, damage in enumerate((*DAMAGES, *(["flipped"] * 8))):
        root = f"{local_root}-{number}"
        shutil.copytree(local_root, root)
        path = Path(root, name)
        if damage == "flipped":
            bits = bytearray(path.read_bytes())
            bits[rng.randrange(len(bits))] ^= 1 << rng.randrange(8)
            path.write_bytes(bits)
        else:
            DAMAGES[damage](path)
        try:
            with og.open(root) as graph:
                OLD_CALLS[call](graph, ids)
        except (Corruption, Refused) as error:
            assert error.code == "corruption" or call == "cleanup", (damage, error)
            assert (error.object, error.version) == ("__manifest", version.version), (damage, error)
            assert str(error.facts["file"]).endswith(path.name) and path.name in error.message, (damage, error)
        else:
            # History is a list of what tables hold. A cleanup goes by what is there, and a bit may lie where nobody looks.
            assert call == "history" or damage == "flipped" or (call, which) == ("cleanup", "version")
