"""The one gate: what may change storage enters through it, and nothing passes it that should not.

``VERBS`` names every public method that reaches storage. A new method that is in no list fails here.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lance.fragment import write_fragments

import omnigraph as og
from omnigraph import distributed
from omnigraph.branch.branches import Branches
from omnigraph.commit import gate
from omnigraph.core.operation import Operation, operating
from omnigraph.distributed.staging_txn import StagingTxn
from omnigraph.graph_schema import GraphSchema
from omnigraph.schema import table_schema
from omnigraph.upkeep.checkpoints import Checkpoints
from omnigraph.upkeep.notes import Notes

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = "node Person { name: String @key }\nedge Knows: Person -> Person\n"
MORE = SCHEMA + "node Town { name: String @key }\n"
ANN = [{"type": "Person", "data": {"name": "ann"}}]
BOB = [{"type": "Person", "data": {"name": "bob"}}]
MUTATION = 'query q() { insert Person { name: "cat" } }'


@dataclass
class Given:
    """One handle on a graph with something of everything in it."""

    graph: og.Graph
    txn: StagingTxn
    staged: Any
    commit_id: str
    plan: Any

    def staging(self) -> StagingTxn:
        """The transaction as this handle has it."""
        return StagingTxn(self.graph._engine, self.txn._record)


READS: dict[str, Callable[[Given], object]] = {
    "Graph.snapshot": lambda g: g.graph.snapshot().count("Person"),
    "Graph.sql": lambda g: g.graph.sql("select count(*) from Person").fetchall(),
    "Graph.commits": lambda g: g.graph.commits(),
    "Graph.commit": lambda g: g.graph.commit(g.commit_id),
    "Graph.diff": lambda g: list(g.graph.diff(g.commit_id)),
    "Graph.history": lambda g: g.graph.history("Person", "ann"),
    "Graph.changes": lambda g: list(g.graph.changes("main")),
    "Graph.outcome": lambda g: g.graph.outcome(g.commit_id),
    "Graph.check": lambda g: g.graph.check(BOB, mode="append"),
    "Graph.status": lambda g: g.graph.status(deep=True),
    "Graph.probe": lambda g: g.graph.probe("pending_intents"),
    "Graph.verify": lambda g: g.graph.verify(deep=True),
    "Graph.intents": lambda g: g.graph.intents(),
    "Graph.recoveries": lambda g: g.graph.recoveries(),
    "Graph.plan_compaction": lambda g: g.graph.plan_compaction(),
    "Graph.plan_cleanup": lambda g: g.graph.plan_cleanup(keep=1, min_age=0),
    "Graph.repair (preview)": lambda g: g.graph.repair(),
    "Graph.cleanup (plan)": lambda g: g.graph.cleanup(keep=1, min_age=0),
    "Graph.revert (plan)": lambda g: g.graph.revert(g.commit_id, dry_run=True),
    "Graph.restore (plan)": lambda g: g.graph.restore(g.commit_id, dry_run=True),
    "GraphSchema.show": lambda g: g.graph.schema.show(),
    "GraphSchema.plan": lambda g: g.graph.schema.plan(MORE),
    "Branches.merge (plan)": lambda g: g.graph.branches.merge("kept", dry_run=True),
    "Branches.list": lambda g: g.graph.branches.list(heads=True),
    "Checkpoints.list": lambda g: g.graph.checkpoints.list(),
    "Notes.get": lambda g: g.graph.notes.get("kept"),
    "Notes.list": lambda g: g.graph.notes.list(),
    "StagingTxn.table": lambda g: g.staging().table("Person"),
    "StagingTxn.task": lambda g: g.staging().task("append"),
    "StagingTxn.replay": lambda g: g.staging().replay("some key"),
    "og.check_staged": lambda g: og.check_staged(g.staging(), g.staged),
    "og.check_parts": lambda g: distributed.check_parts(g.staging(), [], [], mode="append"),
}

# The verb → the operation that a refusal names, and the call.
WRITES: dict[str, tuple[str, Callable[[Given], object]]] = {
    "Graph.load": ("load", lambda g: g.graph.load(BOB, mode="append")),
    "Graph.mutate": ("mutate", lambda g: g.graph.mutate(MUTATION)),
    "Graph.begin": ("begin", lambda g: g.graph.begin()),
    "Graph.begin (resume)": ("begin", lambda g: g.graph.begin(resume=g.txn.id)),
    "Graph.recover": ("recover", lambda g: g.graph.recover(grace_s=0)),
    "Graph.repair": ("repair", lambda g: g.graph.repair(confirm=True)),
    "Graph.optimize": ("optimize", lambda g: g.graph.optimize()),
    "Graph.ensure_indices": ("ensure_indices", lambda g: g.graph.ensure_indices()),
    "Graph.compact_manifest": ("compact_manifest", lambda g: g.graph.compact_manifest()),
    "Graph.commit_compaction": ("commit_compaction", lambda g: g.graph.commit_compaction([])),
    "Graph.cleanup": ("cleanup", lambda g: g.graph.cleanup(g.plan)),
    "Graph.cleanup (confirm)": ("cleanup", lambda g: g.graph.cleanup(keep=1, min_age=0, confirm=True)),
    "Graph.revert": ("revert", lambda g: g.graph.revert(g.commit_id)),
    "Graph.restore": ("restore", lambda g: g.graph.restore(g.commit_id)),
    "GraphSchema.apply": ("schema.apply", lambda g: g.graph.schema.apply(MORE)),
    "Branches.create": ("branches.create", lambda g: g.graph.branches.create("new")),
    "Branches.merge": ("branches.merge", lambda g: g.graph.branches.merge("kept")),
    "Branches.delete": ("branches.delete", lambda g: g.graph.branches.delete("kept")),
    "Checkpoints.create": ("checkpoints.create", lambda g: g.graph.checkpoints.create("new")),
    "Checkpoints.delete": ("checkpoints.delete", lambda g: g.graph.checkpoints.delete("kept")),
    "Notes.put": ("notes.put", lambda g: g.graph.notes.put("new", b"bytes")),
    "Notes.delete": ("notes.delete", lambda g: g.graph.notes.delete("kept")),
    "StagingTxn.add": ("add", lambda g: g.staging().add(g.staged)),
    "StagingTxn.add_parts": ("add", lambda g: g.staging().add_parts([])),
    "StagingTxn.abort": ("abort", lambda g: g.staging().abort()),
    "StagingTxn.load_staged": ("load", lambda g: g.staging().load_staged({"Person": g.staged})),
    "StagingTxn.load_parts": (
        "load",
        lambda g: g.staging().load_parts([], [], options=og.LoadOptions(mode="append")),
    ),
}


# These ask nothing of storage, or end the handle.
NEITHER = {
    "Graph.catalog", "Graph.uri", "Graph.storage_version", "Graph.close", "Graph.branches",
    "Graph.checkpoints", "Graph.notes", "Graph.schema",
    "StagingTxn.id", "StagingTxn.base", "StagingTxn.branch", "StagingTxn.staged",
    "StagingTxn.sent",
}  # fmt: skip

HANDLES = (og.Graph, GraphSchema, Branches, Checkpoints, Notes, StagingTxn)


def test_every_public_method_is_in_a_list() -> None:
    there = {
        f"{kind.__name__}.{name}"
        for kind in HANDLES
        for name, _ in inspect.getmembers(kind)
        if not name.startswith("_")
    }
    listed = {name.partition(" ")[0] for name in (*READS, *WRITES, *NEITHER) if not name.startswith("og.")}
    assert there == listed


# --- the law ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "graph"


@pytest.fixture
def made(root: Path) -> Iterator[Given]:
    """A graph with something to find, to end and to delete, opened for writing."""
    with og.init(root, SCHEMA) as graph:
        first = graph.load(ANN, mode="append").commit_id
        for name in ("b", "c", "d"):
            graph.load([{"type": "Person", "data": {"name": name}}], mode="append")
        graph.notes.put("kept", b"bytes")
        graph.checkpoints.create("kept")
        graph.branches.create("kept")
        txn = graph.begin()
        table = txn.table("Person")
        declared = table_schema(graph.catalog.node("Person"))
        rows = pa.table({name: ["eve"] for name in declared.names}, schema=declared)
        staged = table.describe(write_fragments(rows, table.uri))
        plan = graph.plan_cleanup(keep=1, min_age=0)
        yield Given(graph, txn, staged, str(first), plan)


@pytest.fixture
def reader(made: Given, root: Path) -> Iterator[Given]:
    with og.open(root, read_only=True) as graph:
        yield Given(graph, made.txn, made.staged, made.commit_id, made.plan)


def content(root: Path) -> dict[str, str]:
    """Every file below the root by the hash of its bytes, and every folder."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in sorted(root.rglob("*"))
    }


def changes_something(root: Path, call: Callable[[], object]) -> bool:
    before = content(root)
    with contextlib.suppress(og.errors.OmnigraphError):
        call()
    return content(root) != before


@pytest.mark.parametrize("verb", READS)
def test_a_read_only_handle_can_be_read_and_changes_no_byte(verb: str, reader: Given, root: Path) -> None:
    before = content(root)
    READS[verb](reader)
    assert content(root) == before


@pytest.mark.parametrize("verb", WRITES)
def test_a_read_only_handle_refuses_to_write_and_changes_no_byte(verb: str, reader: Given, root: Path) -> None:
    operation, call = WRITES[verb]
    before = content(root)
    with pytest.raises(og.errors.InvalidInput, match="read-only") as caught:
        call(reader)
    assert content(root) == before
    assert caught.value.operation == operation and "read_only=False" in caught.value.hint


@contextlib.contextmanager
def careless(engine: Any, name: str, *, writes: bool = False, listener: Any = None) -> Iterator[Operation]:
    """The planted defect: a gate that does not ask whether the handle may write."""
    with operating(name, engine.uri, writes=writes, listener=listener, clock=engine.clock) as operation:
        yield operation


@pytest.mark.parametrize(
    "verb",
    [
        "Graph.begin",
        "Branches.create",
        "Branches.delete",
        "Checkpoints.create",
        "Notes.put",
        "Notes.delete",
        "StagingTxn.abort",
    ],
)
def test_without_the_check_the_law_finds_what_was_written(
    verb: str, reader: Given, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("graph", "branch.branches", "upkeep.checkpoints", "upkeep.notes", "distributed.staging_txn"):
        monkeypatch.setattr(f"omnigraph.{module}.entering", careless)
    assert changes_something(root, lambda: WRITES[verb][1](reader))


@pytest.mark.parametrize("verb", [*READS, *WRITES])
def test_a_closed_handle_refuses_everything(verb: str, reader: Given, root: Path) -> None:
    reader.graph.close()
    before = content(root)
    with pytest.raises(og.errors.InvalidInput, match="closed"):
        (READS.get(verb) or WRITES[verb][1])(reader)
    assert content(root) == before


def test_no_module_above_the_gate_checks_for_itself() -> None:
    package = ROOT / "engine" / "omnigraph"
    asking = set()
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.If) and any(
                isinstance(each, ast.Attribute) and each.attr == "read_only" for each in ast.walk(node.test)
            ):
                asking.add(str(path.relative_to(package)))
    assert {name for name in asking if not name.startswith(("commit/", "testing/"))} <= {"write/mutate.py"}
    assert "commit/gate.py" in asking and inspect.isgeneratorfunction(gate.entering.__wrapped__)


# --- a forked process ----------------------------------------------------------------------------------------------------

FORKED = """
import os, sys
sys.path.insert(0, sys.argv[2])
import omnigraph as og
from tests.component.graph.test_write_gate import ANN, READS, WRITES, Given

graph = og.open(sys.argv[1], exclusive=True)
given = Given(graph, graph.begin(), [], graph.snapshot().commit_id, graph.plan_cleanup(keep=1))
child = os.fork()
if child == 0:
    code = 1
    try:
        for verb in (*READS, *WRITES):
            try:
                (READS.get(verb) or WRITES[verb][1])(given)
            except og.errors.Refused as error:
                if error.reason == "forked-process" and "spawn" in error.hint:
                    continue
            print("not refused:", verb, flush=True)
            os._exit(2)
        graph.close()
        code = 0
    finally:
        os._exit(code)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
graph.load([{"type": "Person", "data": {"name": "after"}}], mode="append")  # the exclusive use is still the parent's
graph.close()
print("ok")
"""


def test_a_forked_process_is_refused_and_leaves_the_handle_of_its_parent_alone(root: Path) -> None:
    og.init(root, SCHEMA).close()
    done = subprocess.run(
        [sys.executable, "-c", FORKED, str(root), str(ROOT)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.strip() == "ok", done.stdout + done.stderr
