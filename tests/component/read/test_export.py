"""An export is load input, has the same bytes for the same state, and is there whole or not at all."""

from __future__ import annotations

import datetime as dt
import gzip
import io
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from omnigraph.commit.engine import Engine
from omnigraph.core.errors import InvalidInput, NotFound
from omnigraph.read import export as exporting
from omnigraph.read.ordered import ordered_lines
from omnigraph.read.snapshot import Snapshot, snapshot_of_branch
from tests.component.read.material import EVERY_KIND, cold, knows, new_graph, people, put

WIDE = """
node Person { name: String @key  age: I32?  at: DateTime?  tags: [String]? }
node Company { name: String @key  size: F64? }
edge WorksAt: Person -> Company { since: Date? }
edge Knows: Person -> Person
"""


@pytest.fixture
def social(local_root: str) -> Engine:
    engine = new_graph(local_root, WIDE)
    noon = dt.datetime(2024, 5, 6, 12, tzinfo=dt.UTC)
    put(
        engine,
        "Person",
        [{"id": "zoë", "name": "zoë", "at": noon, "tags": ["b", "a"]}, {"id": "Bob", "name": "Bob", "age": 7}],
    )
    put(engine, "Person", [{"id": "ada", "name": "ada", "at": noon.replace(microsecond=1500)}])
    put(engine, "Company", [{"id": "x", "name": "x", "size": 3.0}])
    put(engine, "Knows", [knows("e2", "ada", "Bob"), knows("e1", "zoë", "ada")])
    put(engine, "WorksAt", [{"id": "w", "src": "ada", "dst": "x", "since": dt.date(2020, 2, 29)}])
    return engine


@pytest.fixture
def snap(social: Engine) -> Snapshot:
    return snapshot_of_branch(social)


def test_the_bytes_of_an_export_are_these(snap: Snapshot) -> None:
    assert snap.export() == (
        '{"edge":"Knows","from":"zoë","to":"ada","data":{"id":"e1"}}\n'
        '{"edge":"Knows","from":"ada","to":"Bob","data":{"id":"e2"}}\n'
        '{"edge":"WorksAt","from":"ada","to":"x","data":{"id":"w","since":"2020-02-29"}}\n'
        '{"type":"Company","data":{"id":"x","name":"x","size":3.0}}\n'
        '{"type":"Person","data":{"id":"Bob","age":7,"at":null,"name":"Bob","tags":null}}\n'
        '{"type":"Person","data":{"id":"ada","age":null,"at":"2024-05-06T12:00:00.001500Z","name":"ada","tags":null}}\n'
        '{"type":"Person","data":{"id":"zoë","age":null,"at":"2024-05-06T12:00:00.000Z","name":"zoë","tags":["b","a"]}}\n'
    )


def test_types_choose_tables_in_any_order_and_once(snap: Snapshot) -> None:
    some = snap.export(types=["Person", "node:Company", "knows", "edge:Knows"])
    assert some == "".join(line for line in snap.export().splitlines(keepends=True) if "WorksAt" not in line)


def test_an_empty_graph_exports_nothing(local_root: str) -> None:
    assert snapshot_of_branch(new_graph(local_root)).export() == ""


def test_the_order_of_writing_does_not_show(tmp_path: Path) -> None:
    rng = random.Random(5)
    rows = people(*(f"p{k}" for k in range(300)))
    texts = set()
    for attempt in range(2):
        engine = new_graph(str(tmp_path / f"g{attempt}"))
        rng.shuffle(rows)
        for start in range(0, 300, 100):
            put(engine, "Person", rows[start : start + 100])
        texts.add(snapshot_of_branch(engine).export())
    [text] = texts
    ids = [json.loads(line)["data"]["id"] for line in text.splitlines()]
    assert ids == sorted(f"p{k}" for k in range(300))


def test_a_table_too_large_for_memory_exports_the_same_bytes(local_root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = new_graph(local_root)
    names = [f"p{k:05d}" for k in range(20_000)]
    put(engine, "Person", people(*names))  # lies in order
    put(engine, "Company", [{"id": name, "name": name} for name in reversed(names)])
    snap = snapshot_of_branch(engine)
    held = snap.export()

    def small(batches: Any) -> Any:
        return ordered_lines(batches, held_bytes_max=100_000)

    monkeypatch.setattr(exporting, "_LARGE_BYTES", 0)
    monkeypatch.setattr(exporting, "ordered_lines", small)
    assert snap.export() == held


def test_every_destination_gets_the_same_bytes(snap: Snapshot, tmp_path: Path) -> None:
    text = snap.export()
    path = tmp_path / "out.jsonl"
    report = snap.export(path)
    assert path.read_bytes() == text.encode()
    assert report.to_dict() == {
        "path": str(path),
        "rows": {"edge:Knows": 2, "edge:WorksAt": 1, "node:Company": 1, "node:Person": 3},
        "total": 7,
        "bytes": len(text.encode()),
    }
    assert "7 records" in repr(report)
    packed = tmp_path / "out.jsonl.gz"
    snap.export(str(packed))
    assert gzip.decompress(packed.read_bytes()) == text.encode()
    again = tmp_path / "again.jsonl.gz"
    snap.export(again)
    assert again.read_bytes() == packed.read_bytes()
    as_bytes, as_text = io.BytesIO(), io.StringIO()
    assert snap.export(as_bytes).path is None
    snap.export(as_text)
    assert as_bytes.getvalue().decode() == as_text.getvalue() == text


def test_a_failed_export_leaves_the_old_file_and_nothing_else(
    snap: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    path = folder / "out.jsonl"
    path.write_text("old")

    def broken(*_: Any) -> Any:
        raise RuntimeError("in the middle")

    monkeypatch.setattr(exporting, "json_text", broken)
    with pytest.raises(RuntimeError):
        snap.export(path)
    assert path.read_text() == "old"
    assert os.listdir(folder) == ["out.jsonl"]


def test_an_export_replaces_what_was_there(snap: Snapshot, tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text("old" * 10_000)
    snap.export(path)
    assert path.read_text() == snap.export()


@pytest.mark.parametrize(
    ("dest", "kind"),
    [
        ("no/such/folder/x.jsonl", NotFound),
        ("", InvalidInput),
        ("a\0b", InvalidInput),
        ("s3://bucket/x.jsonl", InvalidInput),
        (7, InvalidInput),
        (".", InvalidInput),
    ],
)
def test_a_destination_that_cannot_be_is_refused(
    snap: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dest: Any, kind: type[Exception]
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    monkeypatch.chdir(folder)
    with pytest.raises(kind):
        snap.export(dest)
    assert os.listdir(folder) == []


def test_a_line_holds_one_record_whatever_the_text(local_root: str) -> None:
    engine = new_graph(local_root)
    names = ["a\nb", 'q"q', "\\", "\u2028", "\x01", "é" * 400]
    put(engine, "Person", people(*names))
    text = snapshot_of_branch(cold(engine)).export()
    assert [json.loads(line)["data"]["name"] for line in text.encode().split(b"\n")[:-1]] == sorted(names)


def test_values_of_every_kind_survive_load_and_export(local_root: str) -> None:
    """The loader's own reading of an exported line gives the values that were stored."""
    from omnigraph.write.values.cells import convert

    engine = new_graph(local_root, EVERY_KIND)
    noon = dt.datetime(2024, 5, 6, 12, 0, 0, 123456, tzinfo=dt.UTC)
    row = {
        "id": "t", "name": "t", "at": noon, "ats": [noon, None], "b": b"\x00", "bs": [True], "d": 0.1 + 0.2, "f": 0.5,
        "fs": [0.1], "i": -1, "kind": "b", "l": 2**53 + 1, "ns": [2**63 - 1], "on": dt.date(9999, 12, 31),
        "ons": [dt.date(1, 1, 1)], "s": True, "tags": ["\n"], "u": 1, "ul": 2**64 - 1, "v": [0.1, 3e38, -0.0],
    }  # fmt: skip
    put(engine, "Thing", [row])
    snap = snapshot_of_branch(engine)
    stored = snap.get("Thing", "t")
    assert stored is not None
    record = json.loads(snap.export())["data"]
    declared = snap.catalog.node("Thing")
    for name, value in record.items():
        if name != "id":
            assert convert(declared.property(name).type, value) == stored[name], name


def test_an_export_is_load_input_and_comes_back_byte_for_byte(social: Engine, tmp_path: Path) -> None:
    og = pytest.importorskip("omnigraph.graph")
    pytest.importorskip("omnigraph.write.load")
    first = snapshot_of_branch(social).export()
    path = tmp_path / "all.jsonl"
    path.write_text(first)
    with og.init(tmp_path / "copy", WIDE) as copy:
        copy.load(path, mode="append")
        assert copy.snapshot().export() == first
    with og.init(tmp_path / "copy2", WIDE) as copy:
        copy.load(first, mode="merge")
        assert copy.snapshot().export() == first
