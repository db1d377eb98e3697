"""Many threads on one handle, with every public method mixed in, beside optimize and index building."""

from __future__ import annotations

import io
import random
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.core.errors import Conflict, OmnigraphError, Overloaded, Reclaimed
from omnigraph.testing.content import faults_of

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

SCHEMA = """
node Person { name: String @key  age: I32? @index  bio: String? }
node Note { text: String }
edge Knows: Person -> Person
"""
THREADS, EACH = 64, 6
READ, WRITE, UPKEEP = "read", "write", "upkeep"
# What a call may answer beside others. Everything else, above all an error that is not ours, is a finding.
ANSWERS = (Conflict, Overloaded, Reclaimed)

Call = Callable[[og.Graph, str], object]


def _export(graph: og.Graph, _: str) -> object:
    return graph.snapshot().export(io.StringIO())


def _merge(graph: og.Graph, name: str) -> object:
    rows = [{"type": "Person", "data": {"name": name, "age": 1}}, {"type": "Person", "data": {"name": "hub", "age": 2}}]
    return graph.load(rows, mode="merge")


def _append(graph: og.Graph, name: str) -> object:
    return graph.load([{"type": "Note", "data": {"text": name}}], mode="append")


def _insert(graph: og.Graph, name: str) -> object:
    body = 'insert Person { name: $n } insert Knows { from: "hub", to: $n }'
    return graph.mutate(f"query q($n: String) {{ {body} }}", params={"n": name + "-m"})


def _delete(graph: og.Graph, _: str) -> object:
    return graph.mutate('query q() { delete Person where name = "no one" }')


def _duckdb(graph: og.Graph, _: str) -> object:
    connection = graph.snapshot().duckdb()
    try:
        return connection.execute("select count(*) from Person").fetchall()
    finally:
        connection.close()


CALLS: dict[str, tuple[str, Call]] = {
    "to_arrow": (READ, lambda g, _: g.snapshot().to_arrow("Person")),
    "to_batches": (READ, lambda g, _: list(g.snapshot().to_batches("Knows"))),
    "get": (READ, lambda g, _: g.snapshot().get("Person", "hub")),
    "head": (READ, lambda g, _: g.snapshot().head("Note", 5)),
    "count": (READ, lambda g, _: g.snapshot().count("Person")),
    "fragments": (READ, lambda g, _: g.snapshot().fragments("Person")),
    "export": (READ, _export),
    "duckdb": (READ, _duckdb),
    "sql": (READ, lambda g, _: g.sql("SELECT count(*) FROM Person").fetchall()),
    "commits": (READ, lambda g, _: g.commits(limit=5)),
    "commit": (READ, lambda g, _: g.commit(g.commits(limit=1)[0].id)),
    "changes": (READ, lambda g, _: list(g.changes(g.commits(limit=2)[-1].id))),
    "diff": (READ, lambda g, _: list(g.diff(g.commits(limit=2)[-1].id))),
    "history": (READ, lambda g, _: g.history("Person", "p0")),
    "outcome": (READ, lambda g, _: g.outcome(g.commits(limit=1)[0].id)),
    "recoveries": (READ, lambda g, _: g.recoveries()),
    "status": (READ, lambda g, _: g.status(deep=True)),
    "probe": (READ, lambda g, _: g.probe("pending_intents")),
    "intents": (READ, lambda g, _: g.intents()),
    "verify": (READ, lambda g, _: g.verify()),
    "check": (READ, lambda g, n: g.check([{"type": "Note", "data": {"text": n}}], mode="append")),
    "plan_cleanup": (READ, lambda g, _: g.plan_cleanup(keep=1000)),
    "plan_compaction": (READ, lambda g, _: g.plan_compaction()),
    "merge": (WRITE, _merge),
    "append": (WRITE, _append),
    "insert": (WRITE, _insert),
    "delete": (WRITE, _delete),
    "optimize": (UPKEEP, lambda g, _: g.optimize()),
    "ensure_indices": (UPKEEP, lambda g, _: g.ensure_indices()),
    "compact_manifest": (UPKEEP, lambda g, _: g.compact_manifest()),
    "recover": (UPKEEP, lambda g, _: g.recover()),
}
UPKEEP_THREADS = 4


def _drawn(rng: random.Random, thread: int) -> str:
    kinds = (UPKEEP,) if thread < UPKEEP_THREADS else (READ, READ, READ, WRITE)
    kind = rng.choice(kinds)
    return rng.choice([name for name, (of, _) in CALLS.items() if of == kind])


def test_sixty_four_threads_share_one_handle_while_anything_runs(tmp_path: Path) -> None:
    found: Counter[str] = Counter()
    acknowledged: list[str] = []
    guard = threading.Lock()
    with og.init(tmp_path / "graph", SCHEMA) as graph:
        graph.load([{"type": "Person", "data": {"name": "hub", "age": 0}}], mode="append")

        def work(thread: int) -> None:
            rng = random.Random(thread)
            for number in range(EACH):
                name = _drawn(rng, thread)
                row = f"t{thread}-{number}"
                try:
                    CALLS[name][1](graph, row)
                except ANSWERS:
                    continue
                except OmnigraphError as error:
                    with guard:
                        found[f"{name}: {error.code}: {error.message[:160]}"] += 1
                except Exception as error:
                    with guard:
                        found[f"{name}: raw {type(error).__name__}: {str(error)[:160]}"] += 1
                else:
                    if name == "append":
                        with guard:
                            acknowledged.append(row)

        with ThreadPoolExecutor(THREADS) as pool:
            for done in [pool.submit(work, thread) for thread in range(THREADS)]:
                done.result()
        assert dict(found) == {}
        assert sorted(graph.snapshot().to_arrow("Note")["text"].to_pylist()) == sorted(acknowledged)
        assert faults_of(graph._engine) == []
        assert graph.verify(deep=True).clean


def test_every_public_method_is_in_the_mix() -> None:
    """A method that is added to the façade is drawn here as well, or said not to be."""
    elsewhere: dict[str, str] = {
        "close": "ends the handle",
        "begin": "a transaction of its own",
        "repair": "needs a graph that nobody else writes",
        "cleanup": "carries out a plan",
        "commit_compaction": "carries out a plan",
        "snapshot": "every reading call takes one",
        "load": "append, merge",
        "mutate": "insert, delete",
        "uri": "a value",
        "storage_version": "a value",
        "catalog": "a value",
        "checkpoints": "an object of its own",
        "notes": "an object of its own",
        "schema": "an object of its own",
        "branches": "an object of its own",
        "revert": "takes back what another thread looks for",
        "restore": "takes back what another thread looks for",
    }
    public: set[str] = {name for name in vars(og.Graph) if not name.startswith("_")}
    assert public - CALLS.keys() - elsewhere.keys() == set()
