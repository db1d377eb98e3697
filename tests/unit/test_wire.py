"""Receipts and reports: declared once, and what they say in Python, in JSON and in the published schema is one thing."""

from __future__ import annotations

import ast
import inspect
import json
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, date, datetime
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import jsonschema
import pytest

from omnigraph import wire
from omnigraph.cli.tree import COMMANDS
from omnigraph.core.errors import Conflict, all_errors, from_dict
from omnigraph.core.meter import StorageCost
from omnigraph.wire.documents import RESULTS, published_schema
from omnigraph.wire.jsonschema import Definitions, members_of
from omnigraph.wire.model import INSIDE, Count, Model, plain
from omnigraph.wire.program import ErrorBody
from omnigraph.wire.receipt import Receipt, TableChange

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "engine" / "omnigraph"


def models() -> dict[str, type[Model]]:
    modules = [import_module(f"omnigraph.wire.{one.name}") for one in pkgutil.iter_modules(wire.__path__)]
    found = [
        value
        for module in modules
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Model) and value.__module__ == module.__name__
    ]
    assert len({kind.__name__ for kind in found}) == len(found)
    return {kind.__name__: kind for kind in found if kind is not Model}


def value_of(hint: Any, *, full: bool) -> Any:
    """Some value of a hint: the emptiest that it allows, or one with everything in it."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return value_of(arguments[0], full=full)
    if origin is Literal:
        return arguments[-1 if full else 0]
    if origin in (Union, UnionType):
        return None if NoneType in arguments and not full else value_of(arguments[0], full=full)
    if hint in (str, int, float, bool):
        return {str: "ä\n" if full else "", int: 7 if full else 0, float: 0.5 if full else 0.0, bool: full}[hint]
    if hint is datetime:
        return datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"key": value_of(arguments[1], full=full)} if full else {}
    if origin is tuple and arguments[-1] is not Ellipsis:
        return tuple(value_of(one, full=full) for one in arguments)
    if isinstance(origin, type) and issubclass(origin, Sequence):
        shown = [value_of(arguments[0], full=full)] if full else []
        return tuple(shown) if origin is tuple else shown
    if isinstance(hint, type) and is_dataclass(hint):
        return instance(hint, full=full)
    return {"any": ["thing", b"\xff", float("nan"), date(2026, 1, 2)]} if full else None


def instance(kind: Any, *, full: bool) -> Any:
    hints = get_type_hints(kind, include_extras=True)
    given = {}
    for one in fields(kind):
        if one.metadata.get("wire") == INSIDE["wire"] and kind.__name__ != "ErrorCode":
            continue
        given[one.name] = value_of(hints[one.name], full=full)
    return kind(**given)


@pytest.mark.parametrize("full", [False, True], ids=["empty", "full"])
@pytest.mark.parametrize("name", sorted(models()))
def test_what_a_model_says_fits_the_schema_that_is_made_of_it(name: str, full: bool) -> None:
    kind = models()[name]
    made = instance(kind, full=full)
    text = json.dumps(made.to_dict(), allow_nan=False)
    kinds = Definitions()
    schema = {**kinds.ref(kind), "$defs": kinds.made}
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(json.loads(text))
    assert repr(made)
    if not full:  # rows of violations have members of their own, which are not made up here
        assert isinstance(getattr(made, "_repr_html_", lambda: "")(), str)


@pytest.mark.parametrize("name", sorted(models()))
def test_a_member_that_is_not_declared_or_is_missing_does_not_fit(name: str) -> None:
    kind = models()[name]
    kinds = Definitions()
    validator = jsonschema.Draft202012Validator({**kinds.ref(kind), "$defs": kinds.made})
    good = json.loads(json.dumps(instance(kind, full=True).to_dict()))
    assert validator.is_valid(good)
    assert validator.is_valid({**good, "undeclared": 1}) == (kind is ErrorBody)
    for member, _, required in members_of(kind):
        rest = {key: value for key, value in good.items() if key != member}
        assert validator.is_valid(rest) == (not required), member


def test_a_planted_difference_between_a_model_and_its_schema_is_found() -> None:
    @dataclass(frozen=True)
    class Wrong(Model):
        rows: Count
        name: str = field(default="x")

        def to_dict(self) -> dict[str, Any]:
            return {**super().to_dict(), "more": 1}

    kinds = Definitions()
    validator = jsonschema.Draft202012Validator({**kinds.ref(Wrong), "$defs": kinds.made})
    assert not validator.is_valid(Wrong(1).to_dict())
    assert validator.is_valid(Model.to_dict(Wrong(1))) and not validator.is_valid({"rows": -1, "name": "x"})


def test_two_models_of_one_name_cannot_be_published() -> None:
    @dataclass(frozen=True)
    class TableChange(Model):
        other: int

    kinds = Definitions()
    kinds.ref(Receipt)
    with pytest.raises(ValueError, match="two models have the name TableChange"):
        kinds.ref(TableChange)


def test_every_command_has_a_document_and_every_document_a_command() -> None:
    assert set(RESULTS) == {command.path for command in COMMANDS}


def test_members_of_version_1_of_the_documents_are_never_taken_away() -> None:
    kept = (ROOT / "tests" / "golden" / "json_members_1.txt").read_text(encoding="utf-8").splitlines()
    found = member_paths(published_schema())
    assert len(kept) > 400 and not [line for line in kept if line not in found]
    assert wire.SCHEMA_VERSION == 1


def test_a_member_that_was_taken_away_is_noticed() -> None:
    schema = published_schema()
    del schema["$defs"]["Receipt"]["properties"]["replayed"]
    assert "commit outcome: result.receipt.replayed" not in member_paths(schema)


def member_paths(schema: dict[str, Any]) -> set[str]:
    """``load: result.tables{}.version`` for every member that a command's document may have."""
    defs = schema["$defs"]
    found: set[str] = set()

    def walk(shape: Any, path: str) -> None:
        if "$ref" in shape:  # what stands beside a reference holds as well
            walk(defs[shape["$ref"].removeprefix("#/$defs/").replace("%20", " ")], path)
        for name, one in shape.get("properties", {}).items():
            found.add(f"{path}{name}")
            walk(one, f"{path}{name}.")
        for one in (*shape.get("anyOf", ()), *shape.get("oneOf", ())):
            walk(one, path)
        if "items" in shape:
            walk(shape["items"], f"{path.removesuffix('.')}[].")
        if isinstance(shape.get("additionalProperties"), dict):
            walk(shape["additionalProperties"], f"{path.removesuffix('.')}{{}}.")

    for command in RESULTS:
        walk(defs[f"command.{command}"], f"{command}: ")
    return found


# --- declared once ------------------------------------------------------------------------------------------------------

# What the façade hands out besides reports: it reads, or it acts.
FACADE = {
    "Graph": "graph.py", "Branches": "branch/branches.py", "GraphSchema": "graph_schema.py",
    "Checkpoints": "upkeep/checkpoints.py", "Notes": "upkeep/notes.py", "Snapshot": "read/snapshot.py",
    "StagingTxn": "distributed/staging_txn.py",
}  # fmt: skip
# Tables, rows and values of other libraries, and of the languages of Python.
VALUES = {
    "str", "int", "bytes", "bool", "dict", "tuple", "Any", "Mapping", "Iterator", "pa", "pandas", "polars", "duckdb", "networkx",
    "Rows",
}  # fmt: skip
# Values that belong to a room of their own: a view and a plan of a schema, what a task has staged and what it is given.
OF_THEIR_ROOM = {"SchemaView", "SchemaPlan", "StagedFragments", "StagingTable", "PartTask"}
ACTING = {
    "Branches",
    "Diff",
    "ChangeFeed",
    "GraphSchema",
    "Snapshot",
    "SqlResult",
    "StagingTxn",
    "Checkpoints",
    "Notes",
    "CompactionPlan",
    "Graph",
    "Catalog",
}
# Values with a to_dict of their own: rows and records, progress, documents of storage, plans of schemas, and what acts.
OTHERS = {
    "commit/recovery/audit.py", "core/errors.py", "core/limits.py", "core/meter.py",
    "core/progress.py", "distributed/fragments.py", "distributed/parts_report.py",
    "distributed/staged_part.py", "gq/diagnostics.py", "read/diff.py", "read/snapshot.py", "schema/plan.py", "schema/view.py", "upkeep/distribute.py", "write/base/rejects.py",
    "write/base/violations.py",
}  # fmt: skip


CONTAINERS = {
    "Commits",
    "PendingIntents",
    "RecoveryHistory",
    "RowHistory",
    "BranchList",
    "CheckpointList",
    "SchemaReceipt",
}


def returned_by(name: str, text: str) -> set[str]:
    """The names in what the public methods of a class say that they return."""
    found = next(node for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name == name)
    return {
        one.id
        for node in found.body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and node.returns
        for one in ast.walk(node.returns)
        if isinstance(one, ast.Name)
    }


def undeclared(name: str, text: str) -> set[str]:
    return returned_by(name, text) - ACTING - VALUES - OF_THEIR_ROOM - CONTAINERS - set(models())


@pytest.mark.parametrize("name", FACADE)
def test_what_the_facade_reports_is_declared_in_wire(name: str) -> None:
    text = (PACKAGE / FACADE[name]).read_text(encoding="utf-8")
    assert len(returned_by(name, text)) > 1
    assert undeclared(name, text) == set()


def test_every_part_of_the_facade_is_looked_at() -> None:
    parts = returned_by("Graph", (PACKAGE / "graph.py").read_text(encoding="utf-8"))
    assert parts & ACTING <= {*FACADE, "Catalog", "ChangeFeed", "CompactionPlan", "Diff", "SqlResult"}
    assert {"Receipt", "StatusReport", "CleanupPlan", "Commit"} <= parts


def test_a_report_that_is_declared_elsewhere_is_noticed() -> None:
    text = "class Notes:\n    def list(self) -> tuple[Leaflet, ...]: ...\n    def get(self) -> bytes | None: ..."
    assert undeclared("Notes", text) == {"Leaflet"}


@pytest.mark.parametrize("kind", sorted(all_errors()))
def test_the_body_of_every_error_fits_what_is_declared(kind: str) -> None:
    kinds = Definitions()
    validator = jsonschema.Draft202012Validator({**kinds.ref(ErrorBody), "$defs": kinds.made})
    moved = {"table_key": "node:A", "expected": 3, "actual": None}
    facts = {"reason": "drift", "object": "p", "branch": "main", "commit_id": "01J", "operation_id": "01J", "total": 2}
    for given in ({}, {**moved, **facts, "rows": [{"id": "a"}]}):
        body = from_dict({"error": "e", "code": kind, "hint": "h", **given}).to_dict()
        validator.validate(body)
        assert ("manifest_conflict" in body) == (bool(given) and issubclass(all_errors()[kind], Conflict))
    assert not validator.is_valid({**body, "manifest_conflict": {"table_key": "node:A"}})
    assert not validator.is_valid({**body, "operation_id": 7})


def test_no_module_beside_wire_writes_documents_by_hand() -> None:
    writing = set()
    for path in PACKAGE.rglob("*.py"):
        place = str(path.relative_to(PACKAGE))
        if place.startswith(("wire/", "testing/")):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name == "to_dict":
                writing.add(place)
    assert writing == OTHERS
    page = (ROOT / "docs" / "decisions" / "reports-are-dataclasses.md").read_text(encoding="utf-8")
    assert [place for place in sorted(OTHERS) if f"`{place}`" not in page] == [], "each has its reason on the page"


# --- values -------------------------------------------------------------------------------------------------------------


def test_a_receipt_as_a_document() -> None:
    receipt = Receipt("01J", "main", {"node:A": TableChange(2, inserted=3)}, storage=StorageCost(requests=1))
    assert receipt.to_dict() == {
        "commit_id": "01J",
        "branch": "main",
        "tables": {"node:A": {"version": 2, "inserted": 3, "updated": 0, "deleted": 0, "unchanged": 0}},
        "replayed": False,
        "rejected": {"rows": [], "total": 0, "by_reason": {}, "missing_ids": {}},
        "storage": {
            "requests": 1, "hops": 0, "bytes_read": 0, "bytes_written": 0, "by_class": {}, "exact": True, "shared_by": 1,
        },
        "warnings": [],
        "kind": "load",
        "grouped_with": [],
        "stubs": {},
        "dropped": {},
        "affected_nodes": 3,
        "affected_edges": 0,
    }  # fmt: skip


def test_values_that_json_has_no_words_for_become_texts() -> None:
    assert plain({1: (b"\x00", float("inf"), datetime(2026, 1, 2, tzinfo=UTC))}) == {
        "1": ["base64:AA==", "inf", "2026-01-02T00:00:00.000000Z"]
    }
