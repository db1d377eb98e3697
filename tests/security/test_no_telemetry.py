"""Nothing is sent to anybody: a process that works on a local graph opens no connection, and Dagster's own telemetry is off."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = """
import socket, sys

tried = []

def refused(self, address):
    tried.append(address)
    raise OSError("no network here")

socket.socket.connect = socket.socket.connect_ex = refused
socket.getaddrinfo = lambda *name: tried.append(name)
import omnigraph as og
from omnigraph.cli import main

with og.init("g", "node Person { name: String @key age: I32? @index }\\nedge Knows: Person -> Person") as graph:
    graph.load([{"type": "Person", "data": {"name": n}} for n in "ab"], mode="append")
    graph.load([{"edge": "Knows", "from": "a", "to": "b"}], mode="append")
    graph.mutate('query q() { update Person set { age: 1 } where name = "a" }')
    assert len(graph.sql("select * from Person").fetchall()) == 2
    graph.branches.create("side")
    graph.optimize()
    graph.verify(deep=True)
    graph.cleanup(keep=1, confirm=True)
for words in (["status", "g"], ["doctor", "g"], ["export", "g"], ["get", "g", "Person", "nobody"]):
    main(words)
EXTRA
print("tried", tried)
"""


def tried(folder: Path, extra: str = "") -> str:
    ended = subprocess.run(
        [sys.executable, "-c", WORK.replace("EXTRA", extra)], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()[-1]


def test_work_on_a_local_graph_opens_no_connection(tmp_path: Path) -> None:
    assert tried(tmp_path) == "tried []"


def test_a_connection_would_be_noticed(tmp_path: Path) -> None:
    """The planted defect: a program that reports where it runs."""
    report = "import urllib.request\ntry: urllib.request.urlopen('http://127.0.0.1:9/report')\nexcept Exception: pass"
    assert tried(tmp_path, report) != "tried []"


def test_the_telemetry_of_dagster_is_off_in_what_is_shipped() -> None:
    shipped = [path for path in ROOT.rglob("dagster.y*ml") if not {".venv", "node_modules"} & set(path.parts)]
    assert shipped
    for path in shipped:
        assert "telemetry:" in path.read_text() and "enabled: false" in path.read_text(), path
