"""An export in Parquet is one file a type, comes back through a load, and is there whole or not at all."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.core.errors import AlreadyExists, InvalidInput, NotFound
from omnigraph.read import export_parquet as exporting
from omnigraph.read.snapshot import Snapshot, snapshot_of_branch
from omnigraph.read.tables import TableReader
from tests.component.read.material import EVERY_KIND, SOCIAL, knows, new_graph, people, put


@pytest.fixture
def snap(local_root: str) -> Snapshot:
    engine = new_graph(local_root)
    put(engine, "Person", people("zoë", "Bob", "ada"))
    put(engine, "Company", [{"id": "x", "name": "x"}])
    put(engine, "Knows", [knows("e2", "ada", "Bob") | {"since": dt.date(2020, 2, 29)}, knows("e1", "zoë", "ada")])
    return snapshot_of_branch(engine)


def files(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_an_export_is_one_file_a_type(snap: Snapshot, tmp_path: Path) -> None:
    out = tmp_path / "out"
    report = snap.export(out, format="parquet")
    assert files(out) == ["Company.parquet", "Knows.parquet", "Person.parquet"]
    assert report.to_dict() == {
        "path": str(out),
        "rows": {"edge:Knows": 2, "node:Company": 1, "node:Person": 3},
        "total": 6,
        "bytes": sum(path.stat().st_size for path in out.iterdir()),
    }
    assert sorted(duckdb.sql(f"select src, dst from '{out}/Knows.parquet'").fetchall()) == [
        ("ada", "Bob"),
        ("zoë", "ada"),
    ]
    assert pq.read_schema(out / "Person.parquet") == snap.schema("Person")


def test_an_export_comes_back_through_a_load(snap: Snapshot, tmp_path: Path) -> None:
    out = tmp_path / "out"
    snap.export(out, format="parquet")
    with og.init(tmp_path / "copy", SOCIAL) as copy:
        copy.load({name: out / f"{name}.parquet" for name in ("Person", "Company", "Knows")}, mode="append")
        assert copy.snapshot().export() == snap.export()


def test_values_of_every_kind_come_back(local_root: str, tmp_path: Path) -> None:
    engine = new_graph(local_root, EVERY_KIND)
    noon = dt.datetime(2024, 5, 6, 12, 0, 0, 123456, tzinfo=dt.UTC)
    full = {
        "id": "t", "name": "t", "at": noon, "ats": [noon, None], "b": b"\x00", "bs": [True], "d": 0.1 + 0.2, "f": 0.5,
        "fs": [0.1], "i": -1, "kind": "b", "l": 2**53 + 1, "ns": [2**63 - 1], "on": dt.date(9999, 12, 31),
        "ons": [dt.date(1, 1, 1)], "s": True, "tags": ["\n"], "u": 1, "ul": 2**64 - 1, "v": [0.1, 3e38, -0.0],
    }  # fmt: skip
    put(engine, "Thing", [full, {"id": "n", "name": "n"}])
    first = snapshot_of_branch(engine)
    first.export(tmp_path / "out", format="parquet")
    with og.init(tmp_path / "copy", EVERY_KIND) as copy:
        copy.load({"Thing": tmp_path / "out" / "Thing.parquet"}, mode="append")
        assert copy.snapshot().export() == first.export()


def test_a_type_without_rows_has_a_file_too(local_root: str, tmp_path: Path) -> None:
    snapshot_of_branch(new_graph(local_root)).export(tmp_path / "out", format="parquet")
    assert pq.read_metadata(tmp_path / "out" / "Person.parquet").num_rows == 0


def test_rows_are_written_batch_by_batch(snap: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TableReader, "batch_rows", 1)
    snap.export(tmp_path / "out", ["Person"], format="parquet")
    assert pq.read_metadata(tmp_path / "out" / "Person.parquet").num_row_groups == 3


def test_types_choose_files(snap: Snapshot, tmp_path: Path) -> None:
    snap.export(tmp_path / "out", types=["knows"], format="parquet")
    assert files(tmp_path / "out") == ["Knows.parquet"]


def test_an_empty_folder_is_taken_and_another_is_refused(
    snap: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    monkeypatch.chdir(out)
    snap.export(".", format="parquet")
    assert len(files(out)) == 3
    with pytest.raises(AlreadyExists, match="empty"):
        snap.export(out, format="parquet")
    assert len(files(out)) == 3


@pytest.mark.parametrize("there", [True, False])
def test_a_failed_export_leaves_nothing(
    snap: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    out = tmp_path / "out"
    if there:
        out.mkdir()
    write = exporting._write

    def broken(reader: TableReader, path: Path, limit: int | None) -> int:
        if reader.declared.name == "Person":
            raise RuntimeError("at the last type")
        return write(reader, path, limit)

    monkeypatch.setattr(exporting, "_write", broken)
    with pytest.raises(RuntimeError):
        snap.export(out, format="parquet")
    assert out.exists() == there
    assert not there or files(out) == []


@pytest.mark.parametrize(
    ("dest", "kind"),
    [
        ("no/such/folder", NotFound),
        ("a-file", InvalidInput),
        ("s3://bucket/x", InvalidInput),
        ("", InvalidInput),
        (None, InvalidInput),
        (7, InvalidInput),
    ],
)
def test_a_destination_that_cannot_be_is_refused(
    snap: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dest: Any, kind: type[Exception]
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "a-file").write_text("kept")
    monkeypatch.chdir(folder)
    with pytest.raises(kind):
        snap.export(dest, format="parquet")
    assert files(folder) == ["a-file"]


def test_another_format_is_refused(snap: Snapshot, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="format is one of"):
        snap.export(tmp_path / "out", format="csv")  # type: ignore[call-overload]
