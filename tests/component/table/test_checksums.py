"""Checksums: lines that are written with the files, read again, and found to differ after any change of a bit."""

from __future__ import annotations

import json
import os
import random
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.core.errors import Corruption
from omnigraph.core.ids import new_ulid
from omnigraph.store import layout, open_store
from omnigraph.table import checksums
from omnigraph.table.checksums import Digest, Place, decode, digest_of, encode, fold, mismatch, place_of, read_lines
from omnigraph.table.dataset import TableRef
from omnigraph.table.files import live_files

SCHEMA = """
node Person { name: String @key  age: I32? @index  photo: Blob? }
edge Knows: Person -> Person
"""
LOCATION = layout.node_table_path("Person", new_ulid())
ONE = Digest(5, "a" * 32)


def _cleanup(graph: og.Graph) -> None:
    graph.cleanup(graph.plan_cleanup(keep=1, min_age=0))


# --- lines --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["nodes/a.lance/data/1.lance", 'x/"quoted"\\', "ä/☃"])
def test_a_line_comes_back_as_it_was(path: str) -> None:
    line = encode(path, ONE)
    assert list(decode(line)) == [(path, ONE)]
    assert set(json.loads(line)) == {"path", "bytes", "xxh3", "c"}


def test_every_flipped_bit_of_a_line_is_seen() -> None:
    line = encode("data/1", ONE)
    for bit in range((len(line) - 1) * 8):
        damaged = bytearray(line)
        damaged[bit // 8] ^= 1 << bit % 8
        assert [found for found in decode(bytes(damaged)) if found is not None] == []


def test_a_last_line_without_its_end_is_left_out() -> None:
    whole = encode("data/1", ONE)
    for cut in range(len(whole)):
        assert list(decode(whole + encode("data/2", ONE)[:cut])) == [("data/1", ONE)]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    folder = tmp_path / LOCATION / "data"
    folder.mkdir(parents=True)
    for name in ("1", "2"):
        (folder / name).write_bytes(name.encode() * 1000)
    found = place_of(str(tmp_path / LOCATION))
    assert found is not None and found.root == str(tmp_path) and found.relative == LOCATION
    return found


def test_lines_after_a_torn_one_are_read(place: Place) -> None:
    first, second = place.path("data/1"), place.path("data/2")
    (path,) = checksums.append_lines(place, "op", [first])
    with open(path, "ab") as file:
        file.write(encode("torn", ONE)[:20])
    checksums.append_lines(place, "op", [second])
    lines = read_lines(place)
    assert lines.known.keys() == {first, second}
    assert lines.unreadable == ("op.ndjson",)


def test_lines_that_contradict_each_other_are_a_mismatch(place: Place) -> None:
    path = place.path("data/1")
    checksums.append_lines(place, "one", [path])
    Path(place.root, path).write_bytes(b"else")
    assert mismatch(place, read_lines(place), path) == "it has 4 bytes, and had 1000"
    checksums.append_lines(place, "two", [path])
    assert read_lines(place).contradicting == {path}
    assert mismatch(place, read_lines(place), path) == "two checksums of it contradict each other"


def test_a_file_without_a_line_is_not_known(place: Place) -> None:
    assert mismatch(place, read_lines(place), place.path("data/1")) is None


def test_a_checksum_is_taken_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with open(path, "wb") as file:
        file.truncate(64 << 20)
    digest_of(str(path))
    tracemalloc.start()
    assert digest_of(str(path)).bytes == 64 << 20
    assert tracemalloc.get_traced_memory()[1] < 4 * checksums.BUFFER_BYTES
    tracemalloc.stop()


@pytest.mark.parametrize("uri", ["s3://bucket/nodes/x", "/graph/__manifest", "/graph/nodes/x.lance", "relative"])
def test_other_datasets_have_no_checksums(uri: str) -> None:
    assert place_of(uri) is None


def test_a_fork_has_the_checksums_of_its_table() -> None:
    assert place_of(f"/g/{LOCATION}/tree/b") == Place("/g", LOCATION, f"{LOCATION}/tree/b", layout.table_ulid(LOCATION))


def test_folding_keeps_the_lines_of_files_and_of_pending_operations(place: Place) -> None:
    first, second = place.path("data/1"), place.path("data/2")
    checksums.append_lines(place, "one", [first])
    checksums.append_lines(place, "two", [second])
    checksums.append_lines(place, "three", [first])
    checksums.append_lines(place, "busy", [first])
    os.unlink(os.path.join(place.root, second))
    store, identity = open_store(place.root), layout.table_ulid(LOCATION)
    assert fold(store, identity, "run", lambda: {"busy"}) == 3
    assert sorted(os.listdir(place.folder)) == ["busy.ndjson", "run.ndjson"]
    assert read_lines(place).known.keys() == {first}
    assert fold(store, identity, "run2", lambda: {"busy", "run"}) == 0


@pytest.mark.parametrize("act", [lambda graph: graph.optimize(), _cleanup])
def test_upkeep_folds_the_lines_and_loses_none(tmp_path: Path, act: Callable[[og.Graph], Any]) -> None:
    root = tmp_path / "graph"
    with og.init(root, SCHEMA) as graph:
        for number in range(20):
            graph.load([{"type": "Person", "data": {"name": f"p{number}"}}], mode="append")
        act(graph)
    live = _live(root)
    place = place_of(
        str(root / next(path for path in live if path.startswith("nodes/")).split("/data/")[0].split("/_")[0])
    )
    assert place is not None
    assert len(os.listdir(place.folder)) < 5
    assert {path for path in live if path.startswith("nodes/")} <= read_lines(place).known.keys()


# --- a graph ------------------------------------------------------------------------------------------------------------


def _graph(root: Path) -> None:
    """Every kind of file: data, blobs inside and outside of them, deletions, indexes, several versions."""
    blobs = [bytes([number]) * size for number, size in enumerate((10, 80_000, 5_000_000))]
    rows: list[Any] = [
        {"type": "Person", "data": {"name": f"p{n}", "age": n, "photo": blobs[n] if n < 3 else None}} for n in range(60)
    ]
    rows += [{"edge": "Knows", "from": f"p{n}", "to": f"p{n + 1}"} for n in range(20)]
    with og.init(root, SCHEMA) as graph:
        graph.load(rows, mode="append")
        graph.optimize()
        graph.load([{"type": "Person", "data": {"name": "p5", "age": 7}}], mode="merge")
        graph.mutate('query q() { delete Person where name = "p50" }')


@pytest.fixture(scope="module")
def graph_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("checksums") / "graph"
    _graph(root)
    return root


def _live(root: Path) -> list[str]:
    """Every file that the newest state names, of every table, below the root."""
    with og.open(root, read_only=True) as graph:
        engine = graph._engine
        found = []
        for pin in engine.latest("main").state.tables.values():
            handle = engine.tables.open(TableRef(pin.location, pin.ref), pin.version)
            found += [f"{pin.location}/{path}" for path in live_files(handle)]
        return sorted(found)


def test_every_file_of_a_graph_has_its_line(graph_root: Path) -> None:
    live = _live(graph_root)
    kinds = {path.split("/")[2] for path in live}
    assert kinds == {"data", "_deletions", "_indices", "_versions", "_transactions"}
    assert any(path.split("/")[2] == "data" and len(path.split("/")) > 4 for path in live), "a blob of its own"
    known: set[str] = set()
    for location in {"/".join(path.split("/")[:2]) for path in live}:
        place = place_of(str(graph_root / location))
        assert place is not None
        known |= read_lines(place).known.keys()
    assert set(live) <= known


def test_what_a_version_names_is_what_is_there(graph_root: Path) -> None:
    for path in _live(graph_root):
        assert (graph_root / path).is_file()


def test_a_sound_graph_has_no_damage_and_reading_it_deeply_changes_nothing(graph_root: Path) -> None:
    with og.open(graph_root, read_only=True) as graph:
        assert graph.verify(deep=True).ok


def flip(path: Path, rng: random.Random) -> Callable[[], None]:
    """Flip one bit of a file. Returns what puts it back."""
    at, bit = rng.randrange(path.stat().st_size), 1 << rng.randrange(8)

    def once() -> None:
        with open(path, "r+b") as file:
            file.seek(at)
            (byte,) = file.read(1)
            file.seek(at)
            file.write(bytes([byte ^ bit]))

    once()
    return once


def _damage_named(root: Path, path: str) -> bool:
    with og.open(root, read_only=True) as graph:
        report = graph.verify(deep=True)
    named = [problem for problem in report.problems if problem.code == "checksum" and path in problem.message]
    return len(named) == 1 and not report.ok and "version" in named[0].message and named[0].table_key is not None


def test_deep_verification_names_the_file_of_every_flipped_bit(graph_root: Path, tmp_path: Path) -> None:
    root = tmp_path / "graph"
    shutil.copytree(graph_root, root)
    rng = random.Random(5)
    by_kind: dict[str, list[str]] = {}
    for path in _live(root):
        by_kind.setdefault(path.split("/")[2], []).append(path)
    for files in by_kind.values():
        for path in rng.choices(files, k=3):
            back = flip(root / path, rng)
            assert _damage_named(root, path), path
            back()
    with og.open(root, read_only=True) as graph:
        assert graph.verify(deep=True).ok


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_thousand_flipped_bits_are_named(graph_root: Path, tmp_path: Path) -> None:
    root = tmp_path / "graph"
    shutil.copytree(graph_root, root)
    rng = random.Random(6)
    files = _live(root)
    for _ in range(1000):
        path = rng.choice(files)
        back = flip(root / path, rng)
        assert _damage_named(root, path), path
        back()


def test_without_its_line_a_flipped_bit_is_not_named(graph_root: Path, tmp_path: Path) -> None:
    """What the tests above find, they find by the lines: without them the same damage goes by another name or none."""
    root = tmp_path / "graph"
    shutil.copytree(graph_root, root)
    shutil.rmtree(root / "__checksums")
    path = next(path for path in _live(root) if path.endswith("page_data.lance"))
    flip(root / path, random.Random(1))
    assert not _damage_named(root, path)


def test_optimize_publishes_nothing_that_it_read_from_a_damaged_file(graph_root: Path, tmp_path: Path) -> None:
    root = tmp_path / "graph"
    shutil.copytree(graph_root, root)
    with og.open(root) as graph:
        graph.load([{"type": "Person", "data": {"name": f"new{n}"}} for n in range(3)], mode="append")
    data = [path for path in _live(root) if path.startswith("nodes/") and "/data/" in path and path.count("/") == 3]
    path = max(data, key=lambda path: (root / path).stat().st_mtime_ns)
    flip(root / path, random.Random(1))
    _upkeep_stops(root, path, lambda graph: graph.optimize())


def test_no_index_is_built_from_a_damaged_file(tmp_path: Path) -> None:
    root = tmp_path / "graph"
    with og.init(root, SCHEMA) as graph:
        graph.load([{"type": "Person", "data": {"name": f"new{n}"}} for n in range(3)], mode="append")
    (path,) = (path for path in _live(root) if path.startswith("nodes/") and "/data/" in path)
    flip(root / path, random.Random(1))
    _upkeep_stops(root, path, lambda graph: graph.ensure_indices())


def _upkeep_stops(root: Path, path: str, act: Callable[[og.Graph], Any]) -> None:
    """Upkeep names the file, and what is published stays as it was."""
    with og.open(root) as graph:
        before = graph._engine.latest("main").state.tables["node:Person"]
        try:
            said = json.dumps(act(graph).to_dict())
        except Corruption as error:
            said = error.message
        assert path in said
        after = graph._engine.latest("main").state.tables["node:Person"]
        assert after.version == before.version
        assert graph._engine.pending() == []
