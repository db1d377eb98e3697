"""Wrong inputs as people type them who see the program for the first time, each with what its answer has to say."""

from __future__ import annotations

import datetime as dt
import gzip
import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

from tests.component.cli.bad_inputs import (
    GRAPH,
    Case,
    edge,
    mutation,
    parquet,
    person,
    query,
    records,
    schema,
    table,
    taken,
    typed,
)

NAMES = pa.array(["Pia"])
LOAD = ("load", GRAPH, "--mode", "append")


def raw(member: str) -> str:
    return '{"type":"Person","data":{"email":"c@x","name":"Cy",' + member + "}}"


def made(text: str, file: str) -> object:
    return lambda: Path(file).write_text(text, encoding="utf-8")


def loading(file: str, text: str, code: int, *place: str, remedy: tuple[str, ...], more: tuple[str, ...] = ()) -> Case:
    """A load of a file whose name matters."""
    return typed(
        [*LOAD, *more], code, *place, remedy=remedy, make=lambda: Path(file).write_text(text, encoding="utf-8")
    )


RECORDS = [
    records(
        "trailing comma", '{"type":"Person","data":{"email":"c@x","name":"Cy",}}', "record 1", "not JSON", "column"
    ),
    records("array file", f"[{person()}]", "record 1", remedy=("one", "line")),
    records("member twice", raw('"name":"D"'), "record 1", '"name" is written twice'),
    taken("windows line ends", person() + "\r\n" + person(email="d@x") + "\r\n"),
    taken("byte order mark", "\ufeff" + person(email="e@x")),
    taken("empty lines", "\n\n" + person(email="f@x") + "\n\n"),
    records("latin-1", person(email="\udce9@x").encode("ascii").replace(b"\\udce9", b"\xe9"), "record 1", "UTF-8"),
    taken("empty file", ""),
    records("enum in another case", person(mood="Calm"), "record 1", "c@x", "Person.mood", "calm, cross"),
    records("out of range", person(height=12), "record 1", "Person.height", "min 30"),
    records("fraction", person(height=180.5), "Person.height", "I32?", "180.5"),
    records("number as text", person(height="180"), "Person.height", '"180"', "an integer is needed"),
    records("NaN", raw('"weight":NaN'), "record 1", "NaN"),
    records("american date", person(born="12/31/1999"), "Person.born", "12/31/1999", "not an ISO date"),
    taken("moment without zone", person(email="g@x", seen="2026-01-01T10:00:00")),
    records("required missing", '{"type":"Person","data":{"email":"c@x"}}', "Person.name is required"),
    records("property misspelled", raw('"heigth":170'), 'no property "heigth"', remedy=("did you mean height",)),
    records("type misspelled", '{"type":"Persn","data":{}}', '"Persn"', remedy=("did you mean Person",)),
    records("type in lower case", '{"type":"person","data":{}}', '"person"', remedy=("did you mean Person",)),
    records("neither type nor edge", '{"data":{"email":"c@x"}}', "record 1", "'type' (node) or an 'edge'"),
    records("end missing", edge("Knows", "a@x", "nobody@x"), "record 1", "Knows.to", "nobody@x"),
    records("end of wrong type", edge("LivesIn", "b@x", "a@x"), "record 1", "LivesIn.to", "no City"),
    records("cardinality", edge("LivesIn", "a@x", "Rome"), "LivesIn.from", "a@x", "more than 1"),
    records("huge id", person(email="x" * 5000), "record 1", "1024", "5000", remedy=("shorten",)),
    records("integer of 20 digits", raw('"height":12345678901234567890'), "Person.height", "outside"),
    records("NUL in a key", person(email="a\0b"), "NUL", remedy=("NUL",), code=0),
    records("lone surrogate", raw('"tags":["\\ud800"]'), "record 1", "UTF-8"),
    records("decomposed letters", "\n".join([person(email="é@x"), person(email="e\u0301@x")]), code=0),
    records("edge twice", "\n".join([edge("Knows", "a@x", "b@x")] * 2), "Knows", "unique", "record 1"),
    records("number as key", person(email=7), "Person.email", "got 7"),
    records(
        "ids that exist",
        person(email="a@x"),
        "Person.id",
        "a@x",
        "exists already",
        remedy=("--mode merge",),
        code=4,
    ),
    records("list as text", person(tags="a,b"), "Person.tags", "an array is needed"),
    records("deep nesting", raw('"tags":' + "[" * 5000 + "]" * 5000), "record 1", "nested too deeply"),
    typed(
        [*LOAD, "--data", "cut.jsonl.gz"],
        3,
        "cut.jsonl.gz",
        remedy=("copy", "again"),
        make=lambda: Path("cut.jsonl.gz").write_bytes(gzip.compress(person().encode() * 99)[:-30]),
    ),
    taken("gz that is none", person(email="h@x")),
    # --- forty more
    taken("concatenated objects", person(email="s@x") + person(email="t@x")),
    taken("pretty printed", json.dumps(json.loads(person(email="u@x")), indent=2)),
    records("data missing", '{"type":"Person"}', "record 1", "Person", "required"),
    records("both type and edge", '{"type":"Person","edge":"Knows","data":{}}', "record 1", "type", "edge"),
    records(
        "src instead of from", '{"edge":"Knows","src":"a@x","dst":"b@x"}', "record 1", "Knows", remedy=("from", "to")
    ),
    records("null for a key", person(email=None), "record 1", "Person.email"),
    records("empty key", person(email=""), "empty", remedy=("empty",), code=0),
    records("boolean for a text", person(name=True), "record 1", "Person.name", "true"),
    records("object for a text", person(name={"first": "A"}), "record 1", "Person.name"),
    records("day that is none", person(born="2026-02-30"), "record 1", "Person.born", "2026-02-30"),
    records("hour that is none", person(seen="2026-02-03T25:00:00Z"), "record 1", "Person.seen"),
    records("infinity", raw('"weight":1e999'), "record 1", "Person.weight"),
    records("null in a list is taken", person(email="i@x", tags=["a", None]), code=0),
    records("type without data object", '{"type":"Person","data":[1]}', "record 1", "Person.data"),
    records("an edge as a node", '{"type":"Knows","data":{}}', "record 1", '"Knows"', remedy=("edge",)),
    records("a node as an edge", '{"edge":"Person","from":"a","to":"b"}', "record 1", '"Person"', remedy=("type",)),
    records("same key twice", person() + "\n" + person(), "record 2", "c@x", "record 1"),
    records("text", "email,name\nc@x,Cy\n", "record 1", remedy=("--node TYPE=",)),
]

TABLES = [
    table("quotes", 'email,name\nj@x,"A, ""B"""\n', code=0),
    table("semicolons", "email;name\nq@x;Ann\n", "email;name", remedy=("--delimiter",)),
    table("short row", "email,name,height\nq1@x,Ann\n", "record 1", "2 cells", "3 columns"),
    table("unit in a number", "email,name,height\nq1@x,Ann,1.80m\n", "record 1", "Person.height", "1.80m"),
    table("column too many", "email,name,shoe\nq1@x,Ann,42\n", '"shoe"', remedy=("-shoe",)),
    table("empty cells", "email,name,height\nk@x,Ann,\n", code=0),
    table("decimal comma", 'email,name,weight\nq1@x,Ann,"72,5"\n', "Person.weight", "72,5", "a number is needed"),
    table("byte order mark", "\ufeffemail,name\nl@x,Ann\n", code=0),
    table("column twice", "email,name,name\nq@x,A,B\n", "name", remedy=("column",)),
    Case(
        "CSV given to --data",
        (*LOAD, "--data", "q.csv"),
        2,
        ("q.csv",),
        ("--node TYPE=",),
        lambda: Path("q.csv").write_text("email,name\nc@x,C\n"),
    ),
    # --- more
    table("tabs", "email\tname\nq@x\tAnn\n", remedy=("--delimiter",)),
    table("no header", "m@x,Ann\n", "m@x", remedy=("--no-header",)),
    table("latin-1", "email,name\nq@x,Andr\xe9\n".encode("latin-1"), "latin-1.csv", remedy=("--encoding",)),
    table("text for null", "email,name,height\nq@x,Ann,NULL\n", "record 1", "Person.height", "NULL"),
    table("german date", "email,name,born\nq@x,Ann,31.12.1999\n", "record 1", "31.12.1999", remedy=("--format-of",)),
    table("open quote", 'email,name\nq@x,"Ann\n', "open-quote.csv", remedy=("copy it again",)),
    table("empty file", "", "empty-file.csv", "no header", remedy=("copy it again",)),
    table("key column missing", "mail,name\nq@x,Ann\n", "email", remedy=("property=column",)),
    table(
        "column of --format-of misspelled",
        "email,name,born\nn@x,Ann,1999-01-01\n",
        '"bron"',
        remedy=("born",),
        more=("--format-of", "bron=%d.%m.%Y"),
    ),
    table(
        "delimiter of two characters", "email;;name\nq@x;;A\n", "delimiter", remedy=("one",), more=("--delimiter", ";;")
    ),
    parquet("struct", {"name": pa.array([{"a": 1}])}, "Person.name", "struct", remedy=("column",)),
    parquet(
        "decimal of too many digits",
        {"weight": pa.array([Decimal("1.2345678901234567890123")])},
        "Person.weight",
        remedy=("round",),
    ),
    parquet("integer too large", {"height": pa.array([2**40])}, "record 1", "Person.height", "outside"),
    parquet(
        "moment for a day",
        {"born": pa.array([dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)])},
        "Person.born",
        remedy=("column",),
    ),
    parquet("null key", {"email": pa.array([None], pa.string())}, "record 1", "Person.email"),
    Case(
        "text named .parquet",
        (*LOAD, "--node", "Person=t.parquet"),
        3,
        ("t.parquet",),
        ("Parquet",),
        lambda: Path("t.parquet").write_text("hello"),
    ),
]

LINES = [
    typed(f"load {GRAPH} --mode append --node Persn=s.pg", 3, "Persn", "City, Person", remedy=("Person",)),
    typed(f"load {GRAPH} --mode append --node Knows=s.pg", 3, '"Knows"', remedy=("--edge",)),
    typed(f"load {GRAPH} --mode append --edge Person=s.pg", 3, '"Person"', remedy=("--node",)),
    typed(f"load {GRAPH} --mode append --node q.csv", 2, "q.csv", remedy=("TYPE=FILE", "for example")),
    typed(
        [*LOAD, "--node", "Person=map.csv:name=fullname"],
        3,
        '"fullname"',
        remedy=("property=column",),
        make=lambda: Path("map.csv").write_text("email,label\nq@x,A\n"),
    ),
    typed(f"load {GRAPH} --mode append --data none.jsonl", 3, "none.jsonl", remedy=("starts at",)),
    typed(f"load {GRAPH} --mode append --data .", 3, "directory", remedy=("file",)),
    typed(f"load {GRAPH} --data s.pg", 2, "--mode", remedy=("append",)),
    typed(f"load {GRAPH} --mode upsert --data s.pg", 2, "upsert", remedy=("merge",)),
    typed(f"load {GRAPH} --mode append", 2, remedy=("--data",)),
    typed("status none.omni", 3, "none.omni", remedy=("omnigraph init",)),
    typed("status", 2, "which graph", remedy=("OMNIGRAPH_URI",)),
    typed(f"status {GRAPH} --depp", 2, "--depp", remedy=("--deep",)),
    typed(f"query {GRAPH} --branch dev --sql select", 3, "'dev'", remedy=("branch list",)),
    records("empty idempotency key", person(), "idempotency_key", remedy=("leave",), more=("--key", "")),
    typed([*LOAD, "--data", "s.pg", "--bad-rows-max", "3"], 3, "bad_rows_max", remedy=("on-bad-row quarantine",)),
    schema("type Text", "node P { a: Text @key }", "Text", remedy=("String",)),
    schema("lower case", "node person { a: String @key }", "person", remedy=("letter",)),
    schema(
        "unknown target", "node P { a: String @key }\nedge E: P -> Q", "Q", "line 2", remedy=("correct the schema",)
    ),
    schema("nullable key", "node P { a: String? @key }", "a", remedy=("?",)),
    schema("empty", "", "empty.pg", remedy=("schema apply",), code=0),
    schema("SQL", "CREATE TABLE p (a TEXT)", "CREATE", remedy=("node",)),
    schema("property twice", "node P { a: String @key  a: I32? }", "a"),
    schema("type twice", "node P { a: String @key }\nnode P { b: String @key }", "P"),
    schema("brace left open", "node P { a: String @key", "line 1"),
    schema("constraint misspelled", "node P { a: String @key\n @rnage(a, 0..1) }", "line 2"),
    typed(f"init {GRAPH} --schema s.pg", 3, GRAPH, remedy=("another",)),
    typed(
        "init full --schema s.pg",
        0,
        "full",
        remedy=("empty",),
        make=lambda: (Path("full").mkdir(), Path("full/x.txt").write_text("x")),
    ),
    typed("init new.omni --schema none.pg", 3, "none.pg", remedy=("path",)),
    typed("init new.omni", 2, "--schema", remedy=("--help",)),
    query("selct 1", 3, "selct"),
    query("select * from Persn", 3, "Persn"),
    query("select nme from Person", 3, "nme"),
    query("delete from Person", 3, "delete", remedy=("select",)),
    query("select * from read_csv('/etc/passwd')", 3, "disabled"),
    query("MATCH (p:Person) RETURN p", 3, "MATCH", remedy=("SQL",)),
    query("", 2, "empty", remedy=("--sql",)),
    mutation('update Person where email = "a@x"', "line 1", remedy=("set",)),
    mutation("UPDATE Person SET name = 'x' WHERE email = 'a@x'", "line 1", remedy=("update Person set",)),
    mutation("query q($e: String) { delete Person where email = $e }", "$e", remedy=("params",)),
    mutation("delete Person where height > 1 and height < 9", "and", remedy=("condition",)),
    mutation('update Person set { height: -5 } where email = "a@x"', code=3, remedy=("parameters",)),
    mutation('update Person set { email: "z@x" } where email = "a@x"', "Person.email", "@key", remedy=("where",)),
    mutation("query q() { match { $p: Person } return { $p.name } }", "q", remedy=("omnigraph query",)),
    mutation(
        'query q($h: I32?) { update Person set { height: $h } where email = "a@x" }',
        "hh",
        remedy=("h",),
        params='{"hh": 3}',
    ),
    mutation('delete Person where emial = "a@x"', "emial", remedy=("schema show",)),
    mutation('delete Persn where email = "a@x"', "Persn", remedy=("schema show",)),
    mutation("delete Person where height = 1", code=3, params="{x", remedy=("JSON",)),
    typed(f"snapshot {GRAPH} --at HEAD~1", 3, "HEAD~1", remedy=("commit list",)),
    typed(
        f"snapshot {GRAPH} --at 01JZX5W9GZ0000000000000000", 3, "01JZX5W9GZ0000000000000000", remedy=("commit list",)
    ),
    typed(f"commit outcome {GRAPH} junk", 3, "junk", remedy=("26",)),
    typed(f"commit outcome {GRAPH} 01jzx5w9gz0000000000000000", 3, "01jzx5w9gz", remedy=("capital",)),
    typed(f"checkpoint create {GRAPH} good", 3, "good", remedy=("another name",)),
    typed(f"checkpoint delete {GRAPH} bad", 3, "bad", remedy=("checkpoint list",)),
    typed(f"checkpoint create {GRAPH} ../x", 3, "../x", remedy=("letters",)),
    typed("status ftp://x/g", 3, "ftp", remedy=("s3://",)),
    typed("status gs://x/g", 3, "gs", remedy=("s3://",)),
    typed(f"status {GRAPH} --storage-option region", 2, "--storage-option", remedy=("KEY=VALUE",)),
    typed("status s3://bucket/g --storage-option aws_regoin=x", 3, "aws_regoin", remedy=("aws_region",)),
    typed(f"get {GRAPH} Person nobody", 3, "nobody", remedy=("exactly",)),
    typed(f"get {GRAPH} Persn a@x", 3, "Persn", "Person", remedy=("names",)),
    typed(f"head {GRAPH} Person --limit -1", 2, "--limit", remedy=("--help",)),
    typed(f"export {GRAPH} --type Persn", 3, "Persn", "Person", remedy=("names",)),
    typed(f"export {GRAPH} --format parquet", 2, "parquet", remedy=("--output",)),
    typed(f"export {GRAPH} --format csv", 2, "csv", remedy=("--help",)),
    typed(f"export {GRAPH} --output s.pg", 3, "s.pg", remedy=("--force",)),
    typed(f"export {GRAPH} --output no/such/x.jsonl", 3, "no/such/x.jsonl", remedy=("folder",)),
    typed(f"statsu {GRAPH}", 2, "statsu", remedy=("status",)),
    typed(f"commit {GRAPH}", 2, remedy=("--help",)),
    typed(f"status {GRAPH}", 2, "OMNIGRAPH_LOG", remedy=("info",), environment=(("OMNIGRAPH_LOG", "loud"),)),
    typed(f"cleanup {GRAPH}", 2, "keep", remedy=("--keep",)),
    typed(f"cleanup {GRAPH} --older-than week", 3, "week", remedy=("7d",)),
    typed(f"recover {GRAPH} --grace soon", 2, "--grace", remedy=("--help",)),
    typed("explain nonsense", 3, "nonsense", remedy=("omnigraph explain",)),
]

CASES: list[Case] = [*RECORDS, *TABLES, *LINES]
