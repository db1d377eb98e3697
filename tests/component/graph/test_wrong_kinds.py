"""Every parameter of everything public, fed with values of wrong kinds: what is raised is ours, and nothing is written."""

from __future__ import annotations

import inspect
import io
import math
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.branch.branches import Branches
from omnigraph.core.kinds import parameters_of
from omnigraph.distributed.staging_txn import StagingTxn
from omnigraph.graph_schema import GraphSchema
from omnigraph.read.relation import Relation
from omnigraph.upkeep.checkpoints import Checkpoints
from omnigraph.upkeep.notes import Notes

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person
"""
QUERY = "query q($n: String) { update Person set { age: 2 } where name = $n }"


class Speechless:
    """A value whose class is in a bad way."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")


def _holding_itself(value: Any) -> object:
    if isinstance(value, dict):
        value["n"] = value
    else:
        value.append(value)
    return value


def _deep(levels: int) -> object:
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


WRONG: dict[str, Callable[[], object]] = {
    "a number": lambda: 5,
    "nought": lambda: 0,
    "a negative number": lambda: -1,
    "a fraction": lambda: 0.5,
    "a huge number": lambda: 10**30,
    "a number of 2**63": lambda: 2**63,
    "infinity": lambda: math.inf,
    "not a number": lambda: math.nan,
    "true": lambda: True,
    "false": lambda: False,
    "nothing": lambda: None,
    "a word": lambda: "x",
    "an empty text": lambda: "",
    "a blank text": lambda: "  ",
    "a lone surrogate": lambda: "\ud800",
    "a NUL": lambda: "a\0b",
    "a long text": lambda: "x" * 5_000,
    "bytes": lambda: b"\xff\xfe",
    "an object": object,
    "a class": lambda: dict,
    "an empty list": list,
    "an empty tuple": tuple,
    "a list of numbers": lambda: [5],
    "a list of nothing": lambda: [None],
    "a list of words": lambda: ["x"],
    "an empty mapping": dict,
    "a mapping of numbers": lambda: {1: 2},
    "a mapping of words": lambda: {"x": "y"},
    "a mapping of nothing": lambda: {"x": None},
    "a lone surrogate in a mapping": lambda: {"n": "\ud800"},
    "a lone surrogate as a name": lambda: {"\ud800": 1},
    "a lone surrogate in a list": lambda: ["\ud800"],
    "a lone surrogate in a tuple": lambda: ("\ud800",),
    "an infinity in a mapping": lambda: {"n": math.inf},
    "not a number in a mapping": lambda: {"n": math.nan},
    "an infinity in a list": lambda: [-math.inf],
    "a huge number in a mapping": lambda: {"n": 10**5_000},
    "a mapping that holds itself": lambda: _holding_itself({}),
    "a list that holds itself": lambda: _holding_itself([]),
    "a mapping of a list that holds itself": lambda: {"n": _holding_itself([])},
    "a deep mapping": lambda: {"n": _deep(100_000)},
    "a value that has no text": lambda: {"n": Speechless()},
    "a set": lambda: {1},
    "an iterator": lambda: iter([5]),
    "a failing iterator": lambda: (1 // zero for zero in [0]),
    "a table": lambda: pa.table({"x": [1]}),
    "an open file": lambda: io.BytesIO(b"\xff"),
    "a path of nothing": lambda: Path("/no/such/thing"),
    "a folder": lambda: Path("/proc/self"),
    "a file that does not read": lambda: Path("/proc/self/mem"),
}


@dataclass
class Case:
    """A call that works. ``given``: its arguments by name."""

    call: Callable[..., Any]
    given: dict[str, Any] = field(default_factory=dict)


def cases(graph: og.Graph, root: Path) -> dict[str, Case]:
    """One call of every public method that takes an argument, by its name."""
    snapshot = graph.snapshot()
    head = snapshot.commit_id
    uri, other = str(root), str(root.parent / "other")
    bob = [{"type": "Person", "data": {"name": "bob"}}]
    txn = graph.begin()
    found = {
        "og.init": Case(og.init, {"uri": other, "schema": SCHEMA}),
        "og.open": Case(og.open, {"uri": uri, "read_only": True}),
        "og.lint": Case(og.lint, {"text": QUERY, "catalog": graph.catalog}),
        "og.parse_schema": Case(og.parse_schema, {"text": SCHEMA}),
        "og.derive_keys": Case(
            og.derive_keys,
            {"catalog": graph.catalog, "type": "Person", "batch": pa.table({"name": ["eve"]})},
        ),
        "og.check_staged": Case(og.check_staged, {"txn": txn, "staged": []}),
        "Graph.load": Case(graph.load, {"source": bob, "mode": "merge"}),
        "Graph.check": Case(graph.check, {"source": bob, "mode": "merge"}),
        "Graph.mutate": Case(graph.mutate, {"query": QUERY, "params": {"n": "ann"}}),
        "Graph.revert": Case(graph.revert, {"commit_id": head, "dry_run": True}),
        "Graph.restore": Case(graph.restore, {"at": head}),
        "Graph.commit": Case(graph.commit, {"commit_id": head}),
        "Graph.outcome": Case(graph.outcome, {"commit_id": head}),
        "Graph.probe": Case(graph.probe, {"name": "pending_intents"}),
        "Graph.commit_compaction": Case(graph.commit_compaction, {"results": []}),
        "Graph.sql": Case(graph.sql, {"text": "select 1"}),
        "Graph.recover": Case(graph.recover, {"grace_s": 0}),
        "Snapshot.sql": Case(snapshot.sql, {"text": "select 1"}),
        "Snapshot.to_spark": Case(snapshot.to_spark, {"spark": None, "type": "Person"}),
        "Snapshot.get": Case(snapshot.get, {"type": "Person", "id": "ann"}),
        "Snapshot.__getitem__": Case(snapshot.__getitem__, {"type": "Person"}),
        "Relation.filter": Case(snapshot["Person"].filter, {"condition": pa.compute.field("age") > 1}),
        "Relation.select": Case(snapshot["Person"].select, {"columns": ["name"]}),
        "Relation.limit": Case(snapshot["Person"].limit, {"n": 1}),
        "GraphSchema.plan": Case(graph.schema.plan, {"new": SCHEMA}),
        "GraphSchema.apply": Case(graph.schema.apply, {"new": SCHEMA}),
        "Branches.create": Case(graph.branches.create, {"name": "b2"}),
        "Branches.delete": Case(graph.branches.delete, {"name": "kept"}),
        "Branches.merge": Case(graph.branches.merge, {"source": "kept", "dry_run": True}),
        "Checkpoints.create": Case(graph.checkpoints.create, {"name": "c2"}),
        "Checkpoints.delete": Case(graph.checkpoints.delete, {"name": "kept"}),
        "Notes.put": Case(graph.notes.put, {"name": "n2", "data": b"x"}),
        "Notes.get": Case(graph.notes.get, {"name": "kept"}),
        "Notes.delete": Case(graph.notes.delete, {"name": "kept"}),
        "StagingTxn.table": Case(txn.table, {"name": "Person"}),
        "StagingTxn.task": Case(txn.task, {"mode": "append"}),
        "StagingTxn.add": Case(txn.add, {"staged": []}),
        "StagingTxn.add_parts": Case(txn.add_parts, {"parts": []}),
        "StagingTxn.replay": Case(txn.replay, {"idempotency_key": "k"}),
        "StagingTxn.load_staged": Case(txn.load_staged, {"staged": {}}),
        "StagingTxn.load_parts": Case(
            txn.load_parts, {"parts": [], "types": [], "options": og.LoadOptions(mode="append")}
        ),
        "og.CommitOptions": Case(og.CommitOptions),
        "og.LoadOptions": Case(og.LoadOptions, {"mode": "append"}),
        "og.CsvOptions": Case(og.CsvOptions),
        "og.TableFile": Case(lambda **given: _loaded(graph, og.TableFile(**given)), {"paths": "/no/such/file.csv"}),
        "og.Batch": Case(lambda **given: graph.load(og.Batch(**given), mode="merge")),
        "StagedFragments.from_dict": Case(og.StagedFragments.from_dict, {"value": {}}),
        "StagedFragments.from_json": Case(og.StagedFragments.from_json, {"text": "{}"}),
    }
    for name, member in public_methods().items():
        kind, _, short = name.partition(".")
        owner = {"Graph": graph, "Snapshot": snapshot, "GraphSchema": graph.schema, "Branches": graph.branches}
        owner |= {"Checkpoints": graph.checkpoints, "Notes": graph.notes, "Relation": snapshot["Person"]}
        if name not in found and len(inspect.signature(member).parameters) > 1 and kind in owner:
            call = getattr(owner[kind], short)
            every = inspect.signature(call).parameters.values()
            needed = {one.name: "x" for one in every if one.default is one.empty and one.kind is not one.VAR_KEYWORD}
            if "type" in needed:
                needed["type"] = "Person"
            found[name] = Case(call, needed)
    return found


CLASSES = (og.Graph, og.Snapshot, GraphSchema, Branches, Checkpoints, Notes, StagingTxn, Relation)


def public_methods() -> dict[str, Callable[..., Any]]:
    return {
        f"{kind.__name__}.{name}": member
        for kind in CLASSES
        for name, member in vars(kind).items()
        if inspect.isfunction(member) and (not name.startswith("_") or name == "__getitem__")
    }


def _loaded(graph: og.Graph, file: og.TableFile) -> object:
    return graph.check({"Person": file}, mode="merge")


PARAMETERS = {
    "og.TableFile": list(inspect.signature(og.TableFile).parameters),
    "og.Batch": list(inspect.signature(og.Batch).parameters),
}


def parameters(name: str, case: Case) -> list[str]:
    return PARAMETERS.get(name) or [one for one in inspect.signature(case.call).parameters if one != "self"]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph on the disk, closed. Tests work on copies of it: making one costs many times more than copying it."""
    root = tmp_path_factory.mktemp("prepared") / "graph"
    with og.init(root, SCHEMA) as graph:
        graph.load([{"type": "Person", "data": {"name": "ann", "age": 1}}], mode="append")
        graph.notes.put("kept", b"bytes")
        graph.checkpoints.create("kept")
        graph.branches.create("kept")
    return root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "graph"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A word may be the path of an export."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.fixture
def graph(prepared: Path, root: Path) -> Iterator[og.Graph]:
    shutil.copytree(prepared, root)
    with og.open(root) as graph:
        yield graph


def _content(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file() and "__sync" not in path.name
    }


def _run(found: object) -> None:
    """What is lazy does its work."""
    if isinstance(found, Relation):
        found.to_arrow()
    elif isinstance(found, pa.RecordBatchReader):
        found.read_all()
    elif isinstance(found, og.Graph):
        found.close()


def test_every_public_method_with_an_argument_is_fed(graph: og.Graph, root: Path) -> None:
    fed = set(cases(graph, root))
    for name, member in public_methods().items():
        if len(inspect.signature(member).parameters) > 1:
            assert name in fed, name


def test_every_public_method_checks_the_kinds_of_its_arguments() -> None:
    for name, member in {**public_methods(), "og.open": og.open, "og.init": og.init}.items():
        if len(inspect.signature(member).parameters) > 1:
            assert hasattr(member, "__wrapped__"), name


NAMES = sorted(
    {name for name, member in public_methods().items() if len(inspect.signature(member).parameters) > 1}
    | {"og.init", "og.open", "og.lint", "og.parse_schema", "og.derive_keys", "og.check_staged", "og.CommitOptions"}
    | {"og.LoadOptions", "og.CsvOptions", "og.TableFile", "og.Batch"}
    | {"StagedFragments.from_dict", "StagedFragments.from_json"}
)


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_kind_of_any_argument_is_an_error_of_ours_and_writes_nothing(
    name: str, graph: og.Graph, root: Path
) -> None:
    case = cases(graph, root)[name]
    wrong = []
    before = _content(root)
    for parameter in parameters(name, case):
        for what, make in WRONG.items():
            refused = False
            try:
                _run(case.call(**{**case.given, parameter: make()}))
            except og.errors.OmnigraphError as error:
                refused = True
                if error.code == "internal":
                    wrong.append(f"{parameter} = {what}: internal: {error}")
            except ImportError:
                pass
            except Exception as error:
                refused = True
                # What the caller's own iterator raises is for the caller.
                if what != "a failing iterator" or not isinstance(error, ZeroDivisionError):
                    wrong.append(f"{parameter} = {what}: {type(error).__name__}: {str(error)[:100]}")
            now = _content(root)
            if refused and now != before:
                wrong.append(f"{parameter} = {what}: refused and written")
            before = now
    assert not wrong, "\n".join(wrong)


def test_a_wrong_value_that_may_be_a_secret_is_not_shown(root: Path) -> None:
    with pytest.raises(og.errors.InvalidInput) as caught:
        og.open(root, storage_options={"aws_secret_access_key": b"hunter2"})  # type: ignore[dict-item]
    assert "hunter2" not in str(caught.value.to_dict())


def test_what_annotations_name_is_known() -> None:
    """A class that no value has by name would refuse everything."""
    accepts_nothing = {"Mode", "Decimals", "InputMode"}
    for member in public_methods().values():
        for kind in parameters_of(member).values():
            assert kind is None or not any(name in kind.what for name in accepts_nothing)
