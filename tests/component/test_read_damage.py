"""Files that are missing or damaged are named, never read around; the store's weather is not called damage."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.commit.engine import Engine
from omnigraph.core.errors import Corruption, StoreRefused, StoreUnavailable
from omnigraph.read.snapshot import Snapshot, snapshot_of_branch
from omnigraph.store import open_store
from omnigraph.testing.faults import FaultProxy, Match, Rule, fail
from tests.component.read_material import cold, new_graph, people, put


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
