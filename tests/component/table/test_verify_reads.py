"""Files that are compared with their checksums before their first use, where a graph is opened so."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

import omnigraph as og
from omnigraph.core.errors import Corruption, InvalidInput
from omnigraph.table.verified import VerifiedFiles
from omnigraph.testing import rot

CALLS: dict[str, Callable[[og.Graph], Any]] = {
    "read": lambda graph: graph.snapshot().to_arrow("Person"),
    "get": lambda graph: graph.snapshot().get("Person", "p7"),
    "sql": lambda graph: graph.snapshot().duckdb().sql("select count(*) from Person").fetchall(),
    "export": lambda graph: list(graph.snapshot().export()),
    "append": lambda graph: graph.load([{"type": "Person", "data": {"name": "new"}}], mode="append"),
    "merge": lambda graph: graph.load([{"type": "Person", "data": {"name": "p7", "age": 9}}], mode="merge"),
    "mutate": lambda graph: graph.mutate('query q() { delete Person where name = "p7" }'),
    "fill": lambda graph: graph.schema.apply(
        str(graph.schema.show()).replace("photo", "size: I32 photo"), fill={"Person.size": 1}
    ),
    "optimize": lambda graph: graph.optimize(),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("rot") / "graph"
    rot.make(root)
    return root


def data_file(root: Path) -> str:
    """The data file of the rows that were loaded last."""
    data = [path for path in rot.live(root) if path.startswith("nodes/") and "/data/" in path and path.count("/") == 3]
    return max(data, key=lambda path: (root / path).stat().st_mtime_ns)


@pytest.mark.parametrize("call", CALLS)
def test_nothing_is_made_of_a_damaged_file(call: str, sound: Path, tmp_path: Path) -> None:
    root = tmp_path / "graph"
    shutil.copytree(sound, root)
    path = data_file(root)
    rot.flip(root / path, at=40, bit=2)
    with og.open(root, verify_reads=True) as graph:
        before = [commit.id for commit in graph.commits()]
        try:
            said = str(CALLS[call](graph).to_dict()) if call == "optimize" else CALLS[call](graph)
        except (Corruption, duckdb.Error) as error:
            said = str(error)
        assert path in str(said)
        assert [commit.id for commit in graph.commits()] == before
        assert list(graph.intents()) == []


def test_each_file_is_compared_once(sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "graph"
    shutil.copytree(sound, root)
    compared: list[str] = []
    real = VerifiedFiles._check_file

    def counted(self: VerifiedFiles, place: Any, version: int, path: str) -> None:
        if path not in self._files:
            compared.append(path)
        real(self, place, version, path)

    monkeypatch.setattr(VerifiedFiles, "_check_file", counted)
    with og.open(root, verify_reads=True) as graph:
        graph.snapshot().to_arrow("Person")
        assert compared and len(compared) == len(set(compared))
        first = len(compared)
        graph.snapshot().to_arrow("Person")
        assert len(compared) == first
        graph.load([{"type": "Person", "data": {"name": "later"}}], mode="append")
        graph.snapshot().to_arrow("Person")
        later = compared[first:]
        assert later and len(later) <= 4, "only the files of the commit that was made meanwhile"


def test_the_environment_chooses_where_the_call_does_not(sound: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def compares(**options: Any) -> bool:
        with og.open(sound, read_only=True, **options) as graph:
            return graph._engine.tables._verified is not None

    assert not compares()
    monkeypatch.setenv("OMNIGRAPH_VERIFY_READS", "1")
    assert compares() and not compares(verify_reads=False)
    monkeypatch.setenv("OMNIGRAPH_VERIFY_READS", "yes")
    with pytest.raises(InvalidInput, match="OMNIGRAPH_VERIFY_READS"):
        og.open(sound, read_only=True)


def test_an_unchecked_read_does_not_know(sound: Path, tmp_path: Path) -> None:
    """What is promised without `verify_reads` is less: the same damage is not named as damage by its checksum."""
    root = tmp_path / "graph"
    shutil.copytree(sound, root)
    shutil.rmtree(root / "__checksums")
    rot.flip(root / data_file(root), at=40, bit=2)
    with og.open(root, read_only=True, verify_reads=True) as graph:
        graph.snapshot()  # a file without a line is not known, and is used


def test_a_short_row_of_flips_is_named_every_time(tmp_path: Path) -> None:
    report = rot.run(flips=8, seed=3, scratch=tmp_path)
    assert report.findings == () and report.flips == 8
    assert {"_versions", "_transactions", "staging record"} <= set(report.kinds)


def test_without_its_lines_a_flip_is_a_finding(tmp_path: Path) -> None:
    """The planted defect: what finds the flips is the lines."""
    report = rot.run(flips=2, seed=3, scratch=tmp_path, prepare=lambda root: shutil.rmtree(root / "__checksums"))
    assert report.findings
