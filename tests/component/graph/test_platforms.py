"""What only Linux has is asked for and not relied upon: without it a graph is made, written, recovered and read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import builtins, ctypes, io, os, pathlib, sys

def missing(path):
    return os.fspath(path).startswith("/proc") if isinstance(path, (str, os.PathLike)) else False

real_open, real_stat = io.open, os.stat

def guarded_open(path, *args, **more):
    if missing(path):
        raise FileNotFoundError(2, "No such file or directory", os.fspath(path))
    return real_open(path, *args, **more)

def guarded_stat(path, *args, **more):
    if missing(path):
        raise FileNotFoundError(2, "No such file or directory", os.fspath(path))
    return real_stat(path, *args, **more)

def no_library(name=None, *args, **more):
    asked.append(name)
    raise {error}("no C library by that name")

asked = []
import omnigraph as og
import lance, duckdb, pyarrow.dataset  # they look for libraries of their own
io.open = builtins.open = guarded_open
os.stat = guarded_stat
ctypes.CDLL = no_library

with og.init(sys.argv[1], "node Person {{ name: String @key }}") as graph:
    graph.load([{{"type": "Person", "data": {{"name": "ann"}}}}], mode="append")
with og.open(sys.argv[1]) as graph:
    graph.load([{{"type": "Person", "data": {{"name": "bob"}}}}], mode="append")
    graph.optimize()
    graph.recover(grace_s=0)
    graph.checkpoints.create("now")
    txn = graph.begin()
    txn.abort()
    assert graph.verify(deep=True).ok
    assert graph.status().verdict == "healthy"
    print(graph.sql("select name from Person order by name").fetchall(), bool(asked))
"""


@pytest.mark.parametrize(
    "error", ["OSError", "TypeError"]
)  # macOS has no such function, Windows no library without a name
def test_a_graph_needs_no_proc_and_no_function_of_the_c_library(tmp_path: Path, error: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(error=error), str(tmp_path / "g")],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "[('ann',), ('bob',)] True"
