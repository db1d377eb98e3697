"""Inputs and calls that a reader of the manual would not try, and that a first hour does: each ends as an error of ours, or says what it is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph_pipelines.graph_file import load_graph_file

SCHEMA = "node Person { name: String @key  zip: String?  age: I32? }\n"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    made = og.init(tmp_path / "graph", SCHEMA)
    made.load([{"type": "Person", "data": {"name": "a"}}], mode="append")
    return made


def texts_that_point_outside() -> pa.Array:
    """As a broken producer of Arrow sends them: the ends are right, what lies between is not."""
    offsets = b"".join(number.to_bytes(4, "little") for number in (0, 0x70, 1, 3))
    return pa.Array.from_buffers(pa.string(), 3, [None, pa.py_buffer(offsets), pa.py_buffer(b"abc")])


CALLS: dict[str, Callable[[og.Graph], Any]] = {
    "texts that point outside": lambda g: g.load(
        {"Person": pa.table({"name": texts_that_point_outside()})}, mode="append"
    ),
    "a file that fails when it is read": lambda g: g.load(Path("/proc/self/mem"), mode="append"),
    "a deadline without end": lambda g: g.load([], mode="append", deadline_s=float("inf")),
    "a root that is not UTF-8": lambda g: og.init(os.fsdecode(b"root\xff"), SCHEMA),
    "a graph in a pickle": lambda g: __import__("pickle").dumps(g),
}


@pytest.mark.parametrize("call", CALLS)
def test_it_ends_as_an_error_of_ours(graph: og.Graph, call: str) -> None:
    with pytest.raises(og.errors.InvalidInput) as caught:
        CALLS[call](graph)
    assert caught.value.hint
    assert graph.snapshot().count("Person") == 1


def test_a_number_of_rows_beyond_all_is_all_of_them(graph: og.Graph) -> None:
    assert [row["id"] for row in graph.snapshot().head("Person", 10**30)] == ["a"]


def test_no_message_about_a_file_can_drive_a_terminal(graph: og.Graph) -> None:
    with pytest.raises(og.errors.NotFound) as caught:
        graph.load(Path("\x1b]0;own\x07é"), mode="append")
    assert str(caught.value) == r"no such file: \x1b]0;own\x07é"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("graph: " + "[" * 5000 + "]" * 5000, "nested too deeply"),
        ("graph: {name: a, uri: g, schema: s.pg, x: " + "9" * 5000 + "}", "not a plain value"),
        ("graph: {name: a, uri: g, schema: s.pg, x: 2024-13-45}", "not a plain value"),
    ],
    ids=["deep", "a number of 5,000 digits", "a date that is none"],
)
def test_a_graph_file_that_python_cannot_hold_is_refused_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "graph.yaml").write_text(text)
    with pytest.raises(og.errors.InvalidInput, match=said):
        load_graph_file(tmp_path / "graph.yaml")


def test_a_graph_says_that_it_is_closed(graph: og.Graph) -> None:
    assert "(read-write)" in repr(graph)
    graph.close()
    assert "(closed)" in repr(graph)


def test_only_public_names_are_offered() -> None:
    assert not {"Any", "annotations", "import_module", "TYPE_CHECKING"} & set(dir(og))
    assert {"open", "init", "Graph", "errors"} <= set(dir(og))


def test_a_graph_made_among_other_files_says_so_and_never_calls_them_garbage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from omnigraph.cli import main

    mine = tmp_path / "full" / "nodes" / "mine"
    mine.mkdir(parents=True)
    (mine / "letter.txt").write_text("mine")
    (tmp_path / "s.pg").write_text(SCHEMA)
    assert main(["init", str(tmp_path / "full"), "--schema", str(tmp_path / "s.pg")]) == 0
    assert "the folder has other files" in capsys.readouterr().err
    for deep in (False, True):
        with og.open(tmp_path / "full") as graph:
            report = graph.verify(deep)
            assert report.problems == () and any("nodes/mine is no table of a graph" in note for note in report.notes)
            graph.cleanup(keep=1, min_age="0s", confirm=True)
    assert (mine / "letter.txt").read_text() == "mine"
