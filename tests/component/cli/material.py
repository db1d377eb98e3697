"""What the tests of the commands share: a graph, inputs, and ways to leave a graph in the middle of something."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pytest

import omnigraph as og
from omnigraph.commit.plan import Owner
from omnigraph.core import failpoints

SCHEMA = """
node Person {
  name: String @key
  age: I32?
}
edge Follows: Person -> Person {
  since: Date?
}
"""
NEXT = SCHEMA.replace("age: I32?", "age: I32?\n  score: F64\n  years: I64?\n  label: String")
PEOPLE = [
    {"type": "Person", "data": {"name": "Ann", "age": 30}},
    {"type": "Person", "data": {"name": "Bob", "age": None}},
    {"edge": "Follows", "from": "Ann", "to": "Bob", "data": {"since": "2024-01-01"}},
]
BAD = [
    {"type": "Person", "data": {"name": "Cid", "age": "old"}},
    {"type": "Person", "data": {"name": "Dan", "age": 4}},
]
QUERIES = "query people() { match { $p: Person } return { $p.name } }\n"


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The one document of standard output; it says how the command ended, as the exit code does."""
        document: dict[str, Any] = json.loads(self.out)
        assert document["schema_version"] == 1
        assert document["ok"] == (self.code == 0)
        assert set(document) == {"schema_version", "ok", "result" if document["ok"] else "error"}
        return document

    @property
    def result(self) -> Any:
        return self.document["result"]

    @property
    def error(self) -> Any:
        return self.document["error"]


Run = Callable[..., Ended]


def write_lines(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


ELSEWHERE = Owner("elsewhere", "another-boot", 1, 1)


def interrupt(uri: str | Path) -> str:
    """A write by somebody on another host that stops before it is published. Returns its operation id."""
    with og.open(uri) as graph:
        graph._engine.owner = ELSEWHERE
        with failpoints.armed("publish.before_swap", "raise"), pytest.raises(og.errors.OutcomeUnknown):
            graph.load([{"type": "Person", "data": {"name": "Late"}}], mode="append")
        [pending] = graph.intents()
        return pending.operation_id


def displace(uri: str | Path) -> None:
    """A version of a table that no commit published."""
    with og.open(uri, read_only=True) as graph:
        people = graph.snapshot().tables["node:Person"].uri
    lance.dataset(people).delete("name = 'Ann'")


def head_of(uri: str | Path) -> str:
    with og.open(uri, read_only=True) as graph:
        return graph.snapshot().commit_id
