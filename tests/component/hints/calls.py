"""Calls that are refused, and the same as their hint says to make them."""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import omnigraph as og

Call = Callable[[og.Graph], Any]
SCHEMA = (
    "node Person { name: String @key  age: I32? }\nnode City { name: String @key }\nedge Knows: Person -> Person\n"
    "node Slot { room: String  hour: I64  @key(room, hour) }\n"
)
ROW = {"type": "Person", "data": {"name": "new"}}
TABLE = pa.table({"name": ["new"]})
WIDER = SCHEMA.replace("age: I32?", "age: I32?  score: F64")


def load(*source: Any, **options: Any) -> Call:
    return lambda g: g.load(*source, **{"mode": "append", **options})


def mutate(text: str, **options: Any) -> Call:
    return lambda g: g.mutate(text, **options)


def plan(fill: Any, schema: str = WIDER) -> Call:
    return lambda g: g.schema.plan(schema, fill=fill)


def opened_with_group(value: str) -> Call:
    def call(g: og.Graph) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OMNIGRAPH_GROUP", value)
            og.open(g.uri, read_only=True).close()

    return call


def beside(g: og.Graph, name: str) -> str:
    return f"{g.uri}-{name}"


AGE = 'query q($age: I32?) { update Person set { age: $age } where name = "a" }'

BORN = 'query q($born: Date) { delete Person where name = "a" }'
HOLDING_ITSELF: list[Any] = []
HOLDING_ITSELF.append(HOLDING_ITSELF)


class Untold(dt.date):
    """A day that has no text."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")


# (place in the engine, a part of the hint, the wrong call, the right one)
CALLS: tuple[tuple[str, str, Call, Call], ...] = (
    (
        "options.py",
        "leave {name} out, or give it a value",
        load([ROW], idempotency_key=" "),
        load([ROW], idempotency_key="k"),
    ),
    (
        "options.py",
        "pass {name} as a str",
        lambda g: og.LoadOptions(mode="append", idempotency_key=7),
        lambda g: og.LoadOptions(mode="append", idempotency_key="7"),
    ),
    (
        "options.py",
        "pass actor as a str",
        lambda g: og.LoadOptions(mode="append", actor=5),
        lambda g: og.LoadOptions(mode="append", actor="5"),
    ),
    (
        "options.py",
        "pass a number above 0",
        lambda g: og.LoadOptions(mode="append", deadline_s="x"),
        lambda g: og.LoadOptions(mode="append", deadline_s=5),
    ),
    ("options.py", "pass a number of seconds", load([ROW], deadline_s=float("inf")), load([ROW], deadline_s=5)),
    ("options.py", "decode the text as UTF-8", load([ROW], actor="\ud800"), load([ROW], actor="x")),
    ("options.py", "set it to 1, or unset it", opened_with_group("maybe"), opened_with_group("1")),
    (
        "options.py",
        "leave bad_rows_max out",
        load([ROW], bad_rows_max=1),
        load([ROW], bad_rows_max=1, on_bad_row="quarantine"),
    ),
    (
        "options.py",
        "leave bounds out",
        load([ROW], bounds={"endpoints": 1}),
        load([ROW], bounds={"endpoints": 1}, on_bad_row="quarantine"),
    ),
    (
        "options.py",
        'for example {"endpoints": 0.1}',
        lambda g: og.LoadOptions(mode="append", bounds=3, on_bad_row="quarantine"),
        load([ROW], bounds={"endpoints": 0.1}, on_bad_row="quarantine"),
    ),
    (
        "options.py",
        "write rows as a whole number",
        load([ROW], bounds={"endpoints": 1.5}, on_bad_row="quarantine"),
        load([ROW], bounds={"endpoints": 2}, on_bad_row="quarantine"),
    ),
    (
        "options.py",
        'or write {"Knows": "drop"}',
        lambda g: og.LoadOptions(mode="append", on_missing_endpoint={}),
        load([ROW], on_missing_endpoint={"Knows": "drop"}),
    ),
    (
        "options.py",
        "50000000 is 50 MB",
        lambda g: g.verify(True, bytes_per_s=0),
        lambda g: g.verify(True, bytes_per_s=50_000_000),
    ),
    ("options.py", "or leave bytes_per_s out", lambda g: g.verify(bytes_per_s=1), lambda g: g.verify()),
    (
        "core/kinds.py",
        "pass {name} as {kind.what}",
        lambda g: og.open(g.uri, verify_reads="yes"),
        lambda g: og.open(g.uri, verify_reads=True),
    ),
    (
        "write/rules/endpoint_policy.py",
        "edge types: ",
        load([ROW], on_missing_endpoint={"Likes": "drop"}),
        load([ROW], on_missing_endpoint={"Knows": "drop"}),
    ),
    (
        "write/rules/endpoint_policy.py",
        "or choose drop, quarantine or fail",
        load({"Knows": pa.table({"from": ["a"], "to": ["x"]})}, on_missing_endpoint={"Knows": "stub"}),
        load({"Knows": pa.table({"from": ["a"], "to": ["x"]})}, on_missing_endpoint={"Knows": "drop"}),
    ),
    (
        "write/rules/quarantine_file.py",
        "choose a path beside the graph",
        lambda g: g.load([ROW], mode="append", on_bad_row="quarantine", quarantine_to=f"{g.uri}/q.jsonl"),
        lambda g: g.load([ROW], mode="append", on_bad_row="quarantine", quarantine_to=beside(g, "q.jsonl")),
    ),
    (
        "write/rules/quarantine_file.py",
        "make the folder first",
        lambda g: g.load([ROW], mode="append", on_bad_row="quarantine", quarantine_to=beside(g, "f/q.jsonl")),
        lambda g: (
            Path(beside(g, "f")).mkdir(),
            g.load([ROW], mode="append", on_bad_row="quarantine", quarantine_to=beside(g, "f/q.jsonl")),
        ),
    ),
    ("write/sources/opening.py", 'pass {"TYPE": table}', load(TABLE), load({"Person": TABLE})),
    ("write/sources/opening.py", "pass a Path, dicts", load(7), load([ROW])),
    (
        "write/sources/batch.py",
        "for example og.Batch(",
        lambda g: og.Batch(nodes=[TABLE]),
        lambda g: og.Batch(nodes={"Person": TABLE}),
    ),
    (
        "write/sources/batch.py",
        "for example utf-8, latin-1",
        lambda g: og.CsvOptions(encoding="klingon"),
        lambda g: og.CsvOptions(encoding="latin-1"),
    ),
    (
        "write/sources/batch.py",
        'for example nulls=["NA"',
        lambda g: og.CsvOptions(nulls="NA"),
        lambda g: og.CsvOptions(nulls=["NA"]),
    ),
    (
        "write/sources/batch.py",
        'for example formats={"born"',
        lambda g: og.CsvOptions(formats="%d"),
        lambda g: og.CsvOptions(formats={"born": "%d.%m.%Y"}),
    ),
    (
        "write/sources/batch.py",
        'for example ";"',
        lambda g: og.CsvOptions(delimiter=";;"),
        lambda g: og.CsvOptions(delimiter=";"),
    ),
    (
        "write/sources/batch.py",
        'for example columns={"name"',
        lambda g: og.TableFile("x.csv", columns=["a"]),
        lambda g: og.TableFile("x.csv", columns={"name": "full_name"}),
    ),
    (
        "write/sources/batch.py",
        'for example skip=["comment"]',
        lambda g: og.TableFile("x.csv", skip="comment"),
        lambda g: og.TableFile("x.csv", skip=["comment"]),
    ),
    (
        "write/sources/batch.py",
        "pass og.CsvOptions(…)",
        lambda g: og.TableFile("x.csv", csv={"delimiter": ";"}),
        lambda g: og.TableFile("x.csv", csv=og.CsvOptions(delimiter=";")),
    ),
    (
        "write/sources/files.py",
        "check the path; a relative one starts at",
        lambda g: g.load(Path(beside(g, "x.jsonl")), mode="append"),
        lambda g: (
            Path(beside(g, "x.jsonl")).write_text('{"type": "Person", "data": {"name": "new"}}\n'),
            g.load(Path(beside(g, "x.jsonl")), mode="append"),
        ),
    ),
    (
        "core/kinds.py",
        "pass {name} as {kind.what}",
        lambda g: g.snapshot().to_arrow("Person", columns="age"),
        lambda g: g.snapshot().to_arrow("Person", columns=["age"]),
    ),
    (
        "core/kinds.py",
        "pass {name} as {kind.what}",
        lambda g: g.snapshot().to_arrow("Person", filter="age > 3"),
        lambda g: g.snapshot().to_arrow("Person", filter=pc.field("age") > 3),
    ),
    (
        "read/tables.py",
        "its columns are ",
        lambda g: g.snapshot().to_arrow("Person", filter=pc.field("agee") > 3),
        lambda g: g.snapshot().to_arrow("Person", filter=pc.field("age") > 3),
    ),
    (
        "core/kinds.py",
        "pass {name} as {kind.what}",
        lambda g: g.snapshot().export(format="xml"),
        lambda g: g.snapshot().export(format="ndjson"),
    ),
    (
        "core/kinds.py",
        "pass {name} as {kind.what}",
        lambda g: g.snapshot().export(types="Person"),
        lambda g: g.snapshot().export(types=["Person"]),
    ),
    (
        "read/snapshot.py",
        "leave it out to export all",
        lambda g: g.snapshot().export(types=[]),
        lambda g: g.snapshot().export(),
    ),
    (
        "read/export_parquet.py",
        "give the path of a folder",
        lambda g: g.snapshot().export(format="parquet"),
        lambda g: g.snapshot().export(beside(g, "out"), format="parquet"),
    ),
    (
        "read/export_places.py",
        "export to a local path and copy it",
        lambda g: g.snapshot().export("s3://b/x"),
        lambda g: g.snapshot().export(beside(g, "x")),
    ),
    (
        "core/kinds.py",
        "pass {name} as {kind.what}",
        lambda g: g.snapshot()["Person"].filter("age"),
        lambda g: g.snapshot()["Person"].filter(pc.field("age") > 40),
    ),
    (
        "core/kinds.py",
        "pass {name} as {kind.what}",
        lambda g: g.snapshot()["Person"].select("age"),
        lambda g: g.snapshot()["Person"].select(["id", "age"]),
    ),
    (
        "core/kinds.py",
        "pass {name} as {kind.what}",
        lambda g: g.sql("select 1", params="x"),
        lambda g: g.sql("select $name", params={"name": "ada"}),
    ),
    (
        "read/sql.py",
        "pass texts, numbers, times and flat lists",
        lambda g: g.sql("select ?", [HOLDING_ITSELF]),
        lambda g: g.sql("select ?", [[1, 2]]),
    ),
    (
        "read/tables.py",
        "or the values of the key: one, or a tuple",
        lambda g: g.snapshot().get("Slot", '["x", 1]'),
        lambda g: [g.snapshot().get("Slot", one) for one in ('["x","1"]', ("x", 1))],
    ),
    (
        "write/mutate.py",
        "give parameters of plain kinds",
        mutate(BORN, params={"born": Untold(2026, 1, 2)}),
        mutate(BORN, params={"born": dt.date(2026, 1, 2)}),
    ),
    ("read/sql.py", "give the statement as UTF-8", lambda g: g.sql("select '\ud800'"), lambda g: g.sql("select 'x'")),
    (
        "core/kinds.py",
        "pass {name} as {kind.what}",
        lambda g: g.diff(g.commits()[-1].id, types="Person"),
        lambda g: g.diff(g.commits()[-1].id, types=["Person"]),
    ),
    (
        "read/diff.py",
        "leave it out to compare all",
        lambda g: g.diff(g.commits()[-1].id, types=[]),
        lambda g: g.diff(g.commits()[-1].id),
    ),
    (
        "read/diff.py",
        "there is ",
        lambda g: g.diff(g.commits()[-1].id, types=["Persn"]),
        lambda g: g.diff(g.commits()[-1].id, types=["Person"]),
    ),
    (
        "core/kinds.py",
        "pass {name} as {kind.what}",
        lambda g: g.changes(g.commits()[-1].id, types="Person"),
        lambda g: g.changes(g.commits()[-1].id, types=["Person"]),
    ),
    (
        "read/changes.py",
        "leave it out to get all",
        lambda g: g.changes(g.commits()[-1].id, types=[]),
        lambda g: g.changes(g.commits()[-1].id),
    ),
    (
        "read/place_names.py",
        "write it as 2026-11-18T12:00Z or as 2h ago",
        lambda g: g.snapshot(at="time:soon"),
        lambda g: g.snapshot(at="time:2099-11-18T12:00Z"),
    ),
    (
        "read/place_names.py",
        "write checkpoint:{name.value} or branch:",
        lambda g: (
            g.branches.list(),
            g.checkpoints.create("both") if not len(g.checkpoints.list()) else None,
            g.branches.create("both") if len(g.branches.list()) < 2 else None,
            g.snapshot(at="both"),
        ),
        lambda g: g.snapshot(at="branch:both"),
    ),
    (
        "graph.py",
        "pass either a plan, or keep and older_than",
        lambda g: g.cleanup(g.plan_cleanup(1), keep=1),
        lambda g: g.cleanup(g.plan_cleanup(1)),
    ),
    ("core/kinds.py", "pass {name} as {kind.what}", lambda g: g.schema.plan(7), lambda g: g.schema.plan(SCHEMA)),
    (
        "graph_schema.py",
        "pass pathlib.Path(…), or the text",
        lambda g: g.schema.plan("social.pg"),
        lambda g: g.schema.plan(SCHEMA),
    ),
    (
        "graph_schema.py",
        "give them to schema.plan(…)",
        lambda g: g.schema.apply(g.schema.plan(WIDER, fill={"Person.score": 0.5}), fill={"Person.score": 0.5}),
        lambda g: g.schema.apply(g.schema.plan(WIDER, fill={"Person.score": 0.5})),
    ),
    ("core/kinds.py", "pass {name} as {kind.what}", plan(0.5), plan({"Person.score": 0.5})),
    (
        "schema/diff.py",
        "write `Type.property` as the new schema names it",
        plan({"score": 0.5}),
        plan({"Person.score": 0.5}),
    ),
    (
        "schema/diff.py",
        "leave this fill out; change values",
        plan({"Person.score": 0.5, "Person.age": 3}),
        plan({"Person.score": 0.5}),
    ),
    (
        "schema/fill.py",
        "leave the fill out: a nullable",
        plan({"Person.score": None}, WIDER.replace("F64", "F64?")),
        plan({}, WIDER.replace("F64", "F64?")),
    ),
    ("schema/fill.py", "give a value of {wanted}", plan({"Person.score": "x"}), plan({"Person.score": 0.5})),
    (
        "schema/fill.py",
        "give a list",
        plan({"Person.score": 3}, WIDER.replace("F64", "[F64]")),
        plan({"Person.score": [0.5]}, WIDER.replace("F64", "[F64]")),
    ),
    (
        "schema/fill.py",
        "give {wanted.dim} numbers",
        plan({"Person.score": [1.0]}, WIDER.replace("F64", "Vector(2)")),
        plan({"Person.score": [1.0, 2.0]}, WIDER.replace("F64", "Vector(2)")),
    ),
    (
        "schema/fill.py",
        "give one of its values",
        plan({"Person.score": "c"}, WIDER.replace("F64", "enum(a, b)")),
        plan({"Person.score": "a"}, WIDER.replace("F64", "enum(a, b)")),
    ),
    (
        "schema/fill.py",
        "name one of ",
        plan({"Person.score": {"property": "agee"}}),
        plan({"Person.score": {"property": "age"}}, WIDER.replace("F64", "I32?")),
    ),
    (
        "schema/fill.py",
        "give exactly one of them, as text",
        plan({"Person.score": {"property": "age", "sql": "1"}}),
        plan({"Person.score": {"sql": "1.0"}}),
    ),
    (
        "gq/lower.py",
        "choose a query that writes",
        mutate("query q() { match { $p: Person } return { $p.name } }"),
        mutate('query q() { delete Person where name = "a" }'),
    ),
    ("core/kinds.py", "pass {name} as {kind.what}", mutate(AGE, params=[1]), mutate(AGE, params={"age": 1})),
    (
        "gq/parameters.py",
        "or declare it in the query",
        mutate(AGE, params={"age": 1, "zzz": 2}),
        mutate(AGE, params={"age": 1}),
    ),
    (
        "gq/parameters.py",
        "give the parameter a value of its declared type",
        mutate(AGE, params={"age": "x"}),
        mutate(AGE, params={"age": 1}),
    ),
    ("gq/check.py", "declare one: query name(…)", mutate("// nothing"), mutate(AGE, params={"age": 1})),
    (
        "gq/check.py",
        "name one of the queries",
        mutate(AGE + AGE.replace("q(", "r(")),
        mutate(AGE + AGE.replace("q(", "r("), name="r", params={"age": 1}),
    ),
    ("store/opening.py", "write s3:// instead", lambda g: og.open("s3a://bucket/x"), lambda g: og.open(g.uri)),
    (
        "store/opening.py",
        "write file:///absolute/path",
        lambda g: og.open("file://host/x"),
        lambda g: og.open(f"file://{g.uri}"),
    ),
    (
        "store/opening.py",
        "use storage_options or the environment",
        lambda g: og.open("s3://key:secret@bucket/x"),
        lambda g: og.open(g.uri),
    ),
    ("store/opening.py", "write s3://bucket/prefix", lambda g: og.open("s3://B/x"), lambda g: og.open(g.uri)),
    ("store/opening.py", "rename the prefix", lambda g: og.open("s3://bucket/a?b"), lambda g: og.open(g.uri)),
    (
        "store/layout.py",
        "in parts with slashes between them that begin",
        lambda g: g.branches.create("a b"),
        lambda g: g.branches.create("a/b"),
    ),
    ("store/layout.py", "use another name", lambda g: g.branches.create("Main"), lambda g: g.branches.create("other")),
    (
        "store/layout.py",
        "a letter or digit first, 128 at most",
        lambda g: g.checkpoints.create("a b"),
        lambda g: g.checkpoints.create("a-b"),
    ),
    ("store/layout.py", "no dot or dash first", lambda g: g.notes.put(".x", b""), lambda g: g.notes.put("x", b"")),
    (
        "branch/delete.py",
        "delete another branch",
        lambda g: g.branches.delete("main"),
        lambda g: (g.branches.create("x"), g.branches.delete("x")),
    ),
    (
        "branch/names.py",
        "use another name, or delete that branch first",
        lambda g: (g.branches.create("x") if len(g.branches.list()) < 2 else None, g.branches.create("x")),
        lambda g: (g.branches.delete("x"), g.branches.create("x")),
    ),
    (
        "commit/genesis.py",
        "open it, or choose another place",
        lambda g: og.init(g.uri, SCHEMA),
        lambda g: og.open(g.uri),
    ),
    (
        "commit/durable.py",
        "'relaxed' survives the end of the process",
        lambda g: og.open(g.uri, durability="yes"),
        lambda g: og.open(g.uri, durability="relaxed"),
    ),
    ("commit/lines.py", "leave it out for all, or name one", lambda g: g.verify(branches=[]), lambda g: g.verify()),
    ("commit/lines.py", "there is ", lambda g: g.verify(branches=["mian"]), lambda g: g.verify(branches=["main"])),
    (
        "commit/pressure.py",
        "it takes warn, slow and fail",
        lambda g: og.open(g.uri, backpressure={"stop": 3}),
        lambda g: og.open(g.uri, backpressure={"fail": 300}),
    ),
    (
        "commit/pressure.py",
        "make the bounds rise",
        lambda g: og.open(g.uri, backpressure={"warn": 9, "fail": 3}),
        lambda g: og.open(g.uri, backpressure={"warn": 3, "fail": 9}),
    ),
    (
        "commit/engine.py",
        "names of branches are exact in their case",
        lambda g: (g.branches.create("x") if len(g.branches.list()) < 2 else None, g.snapshot("X")),
        lambda g: g.snapshot("x"),
    ),
    (
        "commit/gate.py",
        "open it with read_only=False",
        lambda g: og.open(g.uri, read_only=True).load([ROW], mode="append"),
        lambda g: og.open(g.uri, read_only=False).load([ROW], mode="append"),
    ),
    (
        "core/kinds.py",
        "pass {name} as {kind.what}",
        lambda g: g.optimize(types="Person"),
        lambda g: g.optimize(types=["Person"]),
    ),
    (
        "core/kinds.py",
        "pass {name} as {kind.what}",
        lambda g: g.optimize(branches="main"),
        lambda g: g.optimize(branches=["main"]),
    ),
    (
        "upkeep/cleanup_plan.py",
        "pass keep=10, or older_than",
        lambda g: g.plan_cleanup(),
        lambda g: g.plan_cleanup(keep=10),
    ),
    (
        "upkeep/cleanup_plan.py",
        "a whole number with s, m, h, d or w",
        lambda g: g.plan_cleanup(older_than="-1h"),
        lambda g: g.plan_cleanup(older_than="1h"),
    ),
    (
        "upkeep/repair.py",
        "pass confirm=True as well",
        lambda g: g.repair(force=True),
        lambda g: g.repair(force=True, confirm=True),
    ),
    ("upkeep/recover.py", "0 recovers at once", lambda g: g.recover(grace_s=-1), lambda g: g.recover(grace_s=0)),
    (
        "upkeep/checkpoints.py",
        "delete it first, or choose another name",
        lambda g: (g.checkpoints.create("x") if not len(g.checkpoints.list()) else None, g.checkpoints.create("x")),
        lambda g: g.checkpoints.create("y"),
    ),
    (
        "core/kinds.py",
        "pass {name} as {kind.what}",
        lambda g: g.begin(tables="Person"),
        lambda g: g.begin(tables=["Person"]),
    ),
    ("distributed/begin.py", "it has ", lambda g: g.begin(tables=["Persn"]), lambda g: g.begin(tables=["Person"])),
    ("distributed/begin.py", "leave it out, or name the tables", lambda g: g.begin(tables=[]), lambda g: g.begin()),
    (
        "options.py",
        'pass commit={"combine": True}',
        lambda g: og.open(g.uri, commit={"all": True}),
        lambda g: og.open(g.uri, commit={"combine": True}),
    ),
    (
        "schema/fill.py",
        "declare the same type, or convert it",
        plan({"Person.score": {"property": "name"}}),
        plan({"Person.score": {"sql": "1.5"}}),
    ),
    ("graph.py", "call omnigraph.open(", lambda g: pickle.dumps(g), lambda g: pickle.dumps(g.snapshot())),
    (
        "read/changes.py",
        "there is ",
        lambda g: g.changes(g.commits()[-1].id, types=["Persn"]),
        lambda g: g.changes(g.commits()[-1].id, types=["Person"]),
    ),
)
