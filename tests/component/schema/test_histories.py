"""Random changes of the schema with loads, mutations and upkeep between them end equal to a graph that was made with the last
schema and given the same records."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.graph import Graph
from omnigraph.testing.content import faults_of, leftovers_of

WIDER = {"I32": "I64", "U32": "U64", "F32": "F64"}
KINDS = ("I32", "U32", "F32", "String", "Bool", "[I64]")


@dataclass
class Column:
    kind: str
    nullable: bool
    index: bool = False

    def declared(self, name: str, old: str | None) -> str:
        rename = f' @rename_from("{old}")' if old else ""
        return f"{name}: {self.kind}{'?' if self.nullable else ''}{rename}{' @index' if self.index else ''}"


@dataclass
class Model:
    """What the graph should hold: the columns of each type, and its rows by key."""

    rng: random.Random
    types: dict[str, dict[str, Column]] = field(default_factory=dict)
    rows: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    count: int = 0

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def text(self, renamed: dict[tuple[str, ...], str] | None = None) -> str:
        renamed = renamed or {}
        parts = []
        for type_, columns in self.types.items():
            old = renamed.get((type_,))
            head = f"node {type_}" + (f' @rename_from("{old}")' if old else "")
            body = " ".join(column.declared(name, renamed.get((type_, name))) for name, column in columns.items())
            parts.append(f"{head} {{ k: String @key {body} }}")
        return "\n".join(parts)

    def value(self, kind: str) -> Any:
        number = self.rng.randrange(1, 100)
        return {"String": f"v{number}", "Bool": number % 2 == 0, "[I64]": [number, None]}.get(kind, number)

    def row(self, type_: str) -> dict[str, Any]:
        columns = self.types[type_].items()
        return {n: None if c.nullable and self.rng.random() < 0.3 else self.value(c.kind) for n, c in columns}

    def contents(self) -> dict[str, list[dict[str, Any]]]:
        return {
            type_: sorted(({"k": key, **row} for key, row in rows.items()), key=lambda one: one["k"])
            for type_, rows in self.rows.items()
        }


def contents_of(graph: Graph) -> dict[str, list[dict[str, Any]]]:
    snapshot = graph.snapshot()
    found = {}
    for type_ in snapshot.catalog.nodes:
        names = [name for name in snapshot.schema(type_).names if name != "id"]
        found[type_] = sorted(snapshot.to_arrow(type_, names).to_pylist(), key=lambda one: str(one["k"]))
    return found


# --- what may happen ----------------------------------------------------------------------------------------------------


def add_type(model: Model, graph: Graph) -> None:
    name = model.name("T")
    model.types[name], model.rows[name] = {}, {}
    graph.schema.apply(model.text())


def drop_type(model: Model, graph: Graph) -> None:
    if len(model.types) > 1:
        name = model.rng.choice(list(model.types))
        del model.types[name], model.rows[name]
        graph.schema.apply(model.text())


def rename_type(model: Model, graph: Graph) -> None:
    old, new = model.rng.choice(list(model.types)), model.name("T")
    for held in (model.types, model.rows):
        held[new] = held.pop(old)  # type: ignore[attr-defined]
    graph.schema.apply(model.text({(new,): old}))


def add_columns(model: Model, graph: Graph) -> None:
    """One to three of them, null, of one value, from another column or computed; perhaps with an old name."""
    type_ = model.rng.choice(list(model.types))
    before = dict(model.types[type_])
    fill: dict[str, object] = {}
    for _ in range(model.rng.randrange(1, 4)):
        name = model.rng.choice([model.name("p"), "again"])
        if name in model.types[type_]:
            continue
        how = model.rng.choice(["null", "value", "property", "sql"])
        source = model.rng.choice(list(before)) if before else None
        if how == "property" and source is not None:
            kind, nullable = before[source].kind, before[source].nullable
            fill[f"{type_}.{name}"] = {"property": source}
            values = {key: row[source] for key, row in model.rows[type_].items()}
        elif how == "sql":
            kind, nullable = "String", False
            fill[f"{type_}.{name}"] = {"sql": "'#' || k"}
            values = {key: f"#{key}" for key in model.rows[type_]}
        elif how == "value":
            kind, nullable = model.rng.choice(KINDS), model.rng.random() < 0.5
            given = model.value(kind)
            fill[f"{type_}.{name}"] = given
            values = dict.fromkeys(model.rows[type_], given)
        else:
            kind, nullable = model.rng.choice(KINDS), True
            values = dict.fromkeys(model.rows[type_])
        model.types[type_][name] = Column(kind, nullable)
        for key, row in model.rows[type_].items():
            row[name] = values[key]
    graph.schema.apply(model.text(), fill=fill)


def change_columns(model: Model, graph: Graph) -> None:
    """In one change: some are dropped, renamed, widened, and become nullable or required."""
    type_ = model.rng.choice(list(model.types))
    columns, rows = model.types[type_], model.rows[type_]
    renamed: dict[tuple[str, ...], str] = {}
    for name in list(columns):
        column = columns[name]
        match model.rng.randrange(6):
            case 0:
                del columns[name]
                for row in rows.values():
                    del row[name]
            case 1:
                new = model.name("p")
                columns[new] = columns.pop(name)
                renamed[(type_, new)] = name
                for row in rows.values():
                    row[new] = row.pop(name)
            case 2:
                column.kind = WIDER.get(column.kind, column.kind)
            case 3:
                column.nullable = not column.nullable or any(row[name] is None for row in rows.values())
            case 4:
                column.index = not column.index and not column.kind.startswith("[")
    graph.schema.apply(model.text(renamed))


def load(model: Model, graph: Graph) -> None:
    records = []
    for type_, rows in model.rows.items():
        for _ in range(model.rng.randrange(3)):
            key = model.name("k")
            rows[key] = model.row(type_)
            records.append({"type": type_, "data": {"k": key, **rows[key]}})
    graph.load(records, mode="append")


def merge(model: Model, graph: Graph) -> None:
    type_ = model.rng.choice(list(model.types))
    records = []
    for key in model.rng.sample(sorted(model.rows[type_]), k=min(2, len(model.rows[type_]))):
        model.rows[type_][key] = model.row(type_)
        records.append({"type": type_, "data": {"k": key, **model.rows[type_][key]}})
    graph.load(records, mode="merge")


def delete(model: Model, graph: Graph) -> None:
    type_ = model.rng.choice(list(model.types))
    if model.rows[type_]:
        key = model.rng.choice(sorted(model.rows[type_]))
        del model.rows[type_][key]
        graph.mutate(f'query q() {{ delete {type_} where k = "{key}" }}')


def upkeep(model: Model, graph: Graph) -> None:
    graph.optimize()
    if model.rng.random() < 0.5:
        graph.cleanup(keep=2, min_age="0s", confirm=True)


MOVES: tuple[Callable[[Model, Graph], None], ...] = (
    add_type, drop_type, rename_type, add_columns, add_columns, change_columns, change_columns, load, load, merge, delete, upkeep,
)  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_a_history_of_changes_ends_equal_to_a_graph_of_its_last_schema(tmp_path: Path, seed: int) -> None:
    model = Model(random.Random(seed), {"T0": {"p0": Column("I32", True)}}, {"T0": {}})
    with og.init(tmp_path / "g", model.text()) as graph:
        load(model, graph)
        kept: list[tuple[str, dict[str, list[dict[str, Any]]]]] = []
        for _ in range(14):
            move = model.rng.choice(MOVES)
            move(model, graph)
            assert contents_of(graph) == model.contents(), move.__name__
            if move is upkeep:
                kept.clear()
            kept.append((graph.snapshot().commit_id, contents_of(graph)))
        for commit_id, expected in kept:
            snapshot = graph.snapshot(at=commit_id)
            for type_, rows in expected.items():
                assert snapshot.count(type_) == len(rows)
        assert faults_of(graph._engine) == [] and leftovers_of(graph._engine) == []
        assert graph.verify(deep=True).ok
        graph.snapshot().export(tmp_path / "out.jsonl")
        with og.init(tmp_path / "fresh", model.text()) as fresh:
            fresh.load(tmp_path / "out.jsonl", mode="append")
            assert contents_of(fresh) == contents_of(graph)
            assert fresh.catalog.hash == graph.catalog.hash or "@rename_from" in graph.catalog.source
