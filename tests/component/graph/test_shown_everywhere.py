"""Whatever a user can hold shows itself: briefly as text, as HTML in a notebook, and also when its graph is closed.

What there is to hold is found, not listed: every public class is read from the annotations, and every value is one that can be had
from a graph by calling what needs no arguments.
"""

from __future__ import annotations

import enum
import importlib
import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest

import omnigraph as og
from bench.house import names, source

SHORT_CHARS = 600
TYPES = 8
SCHEMA = "\n".join(
    f"node Person{n} {{ name: String @key {' '.join(f'p{i}: String?' for i in range(12))} }}" for n in range(TYPES)
)
# These end the life of what is looked at, or show rows, which are as long as they are.
LEFT_OUT = {"close", "abort", "sql", "to_spark", "to_networkx", "duckdb", "export"}
# Values of other packages, and what a program implements or fills in rather than holds.
ROLES = {"Clock", "Store", "Exchange", "Workers", "Meter", "Section"}


def held_classes() -> dict[str, type]:
    found = {}
    for module, name in sorted(names.public(source.read(), exports=("omnigraph",))):
        kind = getattr(importlib.import_module(module), name)
        if not issubclass(kind, BaseException | enum.Enum) and name not in ROLES:
            found[name] = kind
            # What a list of them holds is handed out, too: ``class RowHistory(list[RowChange])``.
            bases = [one for base in getattr(kind, "__orig_bases__", ()) for one in get_args(base)]
            found |= {one.__name__: one for one in bases if getattr(one, "__module__", "").startswith("omnigraph.")}
    return found


# Arguments of calls: a program makes them, none is handed out.
ARGUMENTS = {
    *("Batch", "CommitOptions", "CsvOptions", "LoadOptions", "TableFile", "Limits", "ObjectRows", "PartTask", "Piece"),
    *("RecordRows", "Split", "Stretch", "TableRows", "PieceKind", "Target", "TaskRows", "StagedPart", "KeyStream"),
    *("PartViolations", "DeleteFailure", "Entry", "TableRef", "StagedFile"),
}


def test_every_public_class_has_a_text_and_html_of_its_own() -> None:
    kinds = held_classes()
    assert len(kinds) > 80
    assert sorted(name for name, kind in kinds.items() if kind.__repr__ is object.__repr__) == []
    bare = {name for name, kind in kinds.items() if not hasattr(kind, "_repr_html_")}
    assert sorted(bare - ARGUMENTS) == []
    assert {"Catalog", "Branches", "Receipt", "RowChange", "Outcome"} <= kinds.keys() - bare


def values(graph: og.Graph, kinds: tuple[type, ...]) -> Iterator[Any]:
    """Everything that can be had without arguments, from a graph on, and from some calls with them."""
    row = graph.load([{"type": "Person0", "data": {"name": "a", "p0": "x" * 5000}}], mode="append")
    again = graph.load([{"type": "Person0", "data": {"name": "a", "p0": "y" * 5000}}], mode="patch")
    wider = SCHEMA.replace("p0: String?", "p0: String?\n  more: I32?")
    todo: list[Any] = [
        *(graph, row, again, graph.history("Person0", "a"), graph.outcome(str(row.commit_id)), og.errors.NotFound("x")),
        *(graph.outcome("01M7QBWRZF1TGD3HZ9J8VKY7RZ"), graph.schema.plan(wider), graph.changes(graph.commits()[-1].id)),
        *(
            graph.check([], mode="append"),
            graph.load([], mode="append", dry_run=True),
            graph.snapshot().head("Person0"),
        ),
        *(
            graph.snapshot().fragments("Person0"),
            graph.snapshot()["Person0"],
            graph.diff(graph.commits()[-1].id, stat=True),
        ),
        *(
            graph.begin().table("Person0"),
            graph.plan_cleanup(keep=1),
            graph.sql("select 1"),
            graph.catalog.node("Person0"),
        ),
        *(graph.checkpoints.create("here"), graph.branches.create("review"), og.lint("query", graph.catalog)),
    ]
    seen: set[int] = set()
    kept = []
    while todo:
        value = todo.pop(0)
        if id(value) in seen:
            continue
        seen.add(id(value))
        kept.append(value)  # an id is of one value only while it lives
        if isinstance(value, Mapping):
            todo += list(value.values())[:3]
        elif isinstance(value, list | tuple | set | frozenset):
            todo += list(value)[:3]
        if isinstance(value, kinds):
            yield value
            todo += reached(value)


def reached(value: Any) -> Iterator[Any]:
    for name, member in inspect.getmembers_static(type(value)):
        if name.startswith("_") or name in LEFT_OUT or isinstance(member, classmethod | staticmethod):
            continue
        try:
            found = getattr(value, name)
            if inspect.ismethod(found):
                inspect.signature(found).bind()
                found = found()
        except (og.errors.OmnigraphError, TypeError):
            continue
        yield found
    for name in getattr(value, "__dataclass_fields__", ()):
        if not name.startswith("_"):
            yield getattr(value, name)


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Any]]:
    with og.init(tmp_path_factory.mktemp("shown") / "graph", SCHEMA) as graph:
        yield list(values(graph, tuple(held_classes().values())))


def test_whatever_can_be_had_from_a_graph_is_short_as_text_and_is_html(held: list[Any]) -> None:
    assert len({type(one) for one in held}) > 40
    wrong = {}
    for one in held:
        text = repr(one)
        if " object at 0x" in text or (len(text) > SHORT_CHARS and not isinstance(one, list)):
            wrong[type(one).__name__] = text[:200]
        if type(one).__name__ not in ARGUMENTS:
            shown = one._repr_html_()
            assert shown.startswith("<") and ("<table" in shown or "<svg" in shown), type(one)
    assert wrong == {}


def test_a_closed_graph_and_what_reads_it_are_shown_without_an_error(tmp_path: Path) -> None:
    with og.init(tmp_path / "graph", SCHEMA) as graph:
        parts = [graph, graph.schema, graph.branches, graph.notes, graph.checkpoints]
    for one in parts:
        assert str(graph.uri) in repr(one)
        shown = one._repr_html_()
        assert shown.startswith("<") and "closed" in shown
