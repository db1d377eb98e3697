"""Bad files: each has a message of its own, in one line, that names the file, the record, the row's key and the property."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og

SCHEMA = """
node Person {
  email: String @key
  name: String
  age: I32?
  level: U32?
  born: Date?
  at: DateTime?
  score: F64?
  active: Bool?
  tags: [String]?
  place: Vector(3)?
  photo: Blob?
  nick: String?
  mood: enum(happy, sad)?
  @range(age, 0..150)
  @check(nick, "[a-z]+")
  @unique(nick)
}
node City { name: String @key }
edge Knows: Person -> Person { since: Date?  @unique(src, dst) }
edge LivesIn: Person -> City @card(0..1) { }
"""
COMMITTED = [
    {"type": "Person", "data": {"email": "ann@x", "name": "Ann", "nick": "ann"}},
    {"type": "City", "data": {"name": "Rome"}},
    {"edge": "LivesIn", "from": "ann@x", "to": "Rome"},
]
FIRST = {"type": "Person", "data": {"email": "ok@x", "name": "Ok"}}


def person(**more: Any) -> dict[str, Any]:
    return {"type": "Person", "data": {"email": "bob@x", "name": "Bob", **more}}


def text(values: str) -> str:
    return '{"type":"Person","data":{"email":"bob@x","name":"Bob",%s}}' % values  # noqa: UP031 - it has braces


# Name: the second record of the file (or more), and what the message says beside the file and the record.
RECORDS: dict[str, tuple[list[Any], list[str]]] = {
    "text-for-integer": ([person(age="old")], ["bob@x", "Person.age", "I32", '"old"']),
    "fraction": ([person(age=1.5)], ["bob@x", "Person.age", "1.5"]),
    "overflow": ([person(age=2**40)], ["bob@x", "Person.age", "outside"]),
    "negative": ([person(level=-1)], ["bob@x", "Person.level", "-1"]),
    "range": ([person(age=200)], ["bob@x", "Person.age", "max 150"]),
    "date": ([person(born="1815-13-01")], ["bob@x", "Person.born", "1815-13-01"]),
    "moment": ([person(at="yesterday")], ["bob@x", "Person.at", "yesterday"]),
    "not-a-number": ([text('"score":NaN')], ["bob@x", "Person.score", "NaN"]),
    "boolean": ([person(active="yes")], ["bob@x", "Person.active", "true or false"]),
    "no-list": ([person(tags="a")], ["bob@x", "Person.tags", "array"]),
    "kind-in-list": ([person(tags=["a", 1])], ["bob@x", "Person.tags", "string is needed"]),
    "vector-length": ([person(place=[1, 2])], ["bob@x", "Person.place", "3 numbers"]),
    "vector-value": ([text('"place":[1,2,NaN]')], ["bob@x", "Person.place", "NaN"]),
    "blob": ([person(photo="http://x")], ["bob@x", "Person.photo", "base64"]),
    "enum": ([person(mood="angry")], ["bob@x", "Person.mood", "happy, sad"]),
    "pattern": ([person(nick="BOB1")], ["bob@x", "Person.nick", "[a-z]+"]),
    "taken": ([person(nick="ann")], ["Person (nick)", "ann@x"]),
    "missing": ([{"type": "Person", "data": {"email": "bob@x"}}], ["bob@x", "Person.name", "required"]),
    "boolean-for-integer": ([person(age=True)], ["bob@x", "Person.age", "got true"]),
    "no-key": ([{"type": "Person", "data": {"name": "Bob"}}], ["Person.email", "required"]),
    "property": ([person(ags=3)], ["bob@x", 'no property "ags"']),
    "node-type": ([{"type": "Persn", "data": {}}], ['no such node type: "Persn"']),
    "edge-type": ([{"edge": "Know", "from": "ok@x", "to": "ann@x"}], ['no such edge type: "Know"']),
    "edge-as-node": ([{"type": "Knows", "data": {}}], ['no such node type: "Knows"']),
    "member": ([{"type": "Person", "dat": {}}], ['no member "dat"', "type, data"]),
    "neither": ([{"data": {"email": "bob@x"}}], ["'type' (node) or an 'edge'"]),
    "array": (["[1,2]"], ["a record is a JSON object"]),
    "cut-off": (['{"type":"Person","data":{"email":"bob@x",'], ["not JSON"]),
    "twice": ([text('"name":"C"')], ['"name" is written twice']),
    "id": ([{"type": "Person", "data": {"id": "zed", "email": "bob@x", "name": "B"}}], ["Person.id", "zed", "bob@x"]),
    "surrogate": ([text('"nick":"\\ud800"')], ["bob@x", "Person.nick", "UTF-8"]),
    "data": ([{"type": "Person", "data": "bob"}], ["Person.data", '"bob"']),
    "exists": ([person(email="ann@x")], ["Person.id", "ann@x", "exists already"]),
    "long-key": ([person(email="x" * 2000)], ["Person.id", "1024", "2000"]),
    "endpoint": ([{"edge": "Knows", "from": "ok@x", "to": "nobody@x"}], ["Knows.to", "nobody@x", "no Person"]),
    "no-endpoint": ([{"edge": "Knows", "from": "ok@x"}], ["Knows needs 'to'"]),
    "endpoint-kind": ([{"edge": "Knows", "from": 1.5, "to": "ann@x"}], ["Knows.from", "1.5"]),
    "cardinality": ([{"edge": "LivesIn", "from": "ann@x", "to": "Rome"}], ["LivesIn.from", "ann@x", "more than 1"]),
}
LATER: dict[str, tuple[list[Any], list[str]]] = {
    "same-key": ([person(), person()], ["Person.id", "bob@x", "record 2"]),
    "same-pair": (
        [{"edge": "Knows", "from": "ok@x", "to": "ann@x"}] * 2,
        ["Knows (to, from)", "ok@x", "record 2"],
    ),
}
TABLES: dict[str, tuple[str, list[str]]] = {
    "kind.csv": ("email,name,age\nok@x,Ok,1\nbob@x,Bob,old\n", ["record 2", "bob@x", "Person.age", "old"]),
    "date.csv": ("email,name,born\nok@x,Ok,\nbob@x,Bob,1815-13-01\n", ["record 2", "bob@x", "Person.born"]),
    "column.csv": ("email,age\nbob@x,3\n", ["Person.name", "no column"]),
    "extra.csv": ("email,name,ags\nbob@x,B,3\n", ['no property "ags"']),
    "ragged.csv": ("email,name\nok@x,Ok\nbob@x\n", ["record 2", "a row of 1 cells", "2 columns"]),
    "twice.csv": ("email,name,name\nb,c,d\n", ["two columns", "name"]),
    "empty.csv": ("", ["no header"]),
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[og.Graph]:
    with og.init(tmp_path_factory.mktemp("bad") / "g.omni", SCHEMA) as graph:
        graph.load(COMMITTED, mode="append")
        yield graph


def message(graph: og.Graph, source: Any) -> str:
    """What a refused load says; nothing of it is committed."""
    before = graph.snapshot().commit_id
    with pytest.raises(og.errors.OmnigraphError) as caught:
        graph.load(source, mode="append")
    assert graph.snapshot().commit_id == before
    assert caught.value.code in ("data-invalid", "key-conflict", "limit-exceeded", "not-found")
    assert caught.value.hint and "\n" not in caught.value.message and len(caught.value.message) < 500
    return caught.value.message


def written(path: Path, records: list[Any]) -> Path:
    lines = [record if isinstance(record, str) else json.dumps(record) for record in (FIRST, *records)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("name", [*RECORDS, *LATER])
def test_a_bad_record_is_named_by_file_record_key_and_property(name: str, graph: og.Graph, tmp_path: Path) -> None:
    records, wanted = {**RECORDS, **LATER}[name]
    said = message(graph, written(tmp_path / f"{name}.jsonl", records))
    number = 3 if name in LATER else 2
    assert said.startswith(f"{name}.jsonl record {number}"), said
    assert not [one for one in wanted if one not in said], said


@pytest.mark.parametrize("name", TABLES)
def test_a_bad_table_is_named_as_far_as_it_could_be_read(name: str, graph: og.Graph, tmp_path: Path) -> None:
    content, wanted = TABLES[name]
    (tmp_path / name).write_text(content)
    said = message(graph, {"Person": tmp_path / name})
    assert said.partition(":")[0].partition(" record")[0].endswith(name), said
    assert not [one for one in wanted if one not in said], said


def test_names_that_are_not_those_of_the_schema_are_answered_with_those_that_are(
    graph: og.Graph, tmp_path: Path
) -> None:
    (tmp_path / "p.csv").write_text("email,nme\na,b\n")
    for source, said, hint in (
        ({"Persn": tmp_path / "p.csv"}, "there are Knows, LivesIn, City, Person", "did you mean Person?"),
        ({"Person": tmp_path / "p.csv"}, '"nme"', "TYPE=FILE:property=column"),
    ):
        with pytest.raises(og.errors.DataInvalid) as caught:
            graph.load(source, mode="append")
        assert said in caught.value.message and hint in caught.value.hint
    with pytest.raises(og.errors.DataInvalid) as caught:
        graph.load([person(age="old")], mode="append")
    assert "correct the records" in caught.value.hint


def test_what_is_given_in_the_wrong_form_is_told_the_right_one(graph: og.Graph, tmp_path: Path) -> None:
    table = pa.table({"email": ["a"], "name": ["A"]})
    for source, said in ((table, '{"TYPE": table}'), (table.to_pandas(), '{"TYPE": table}'), (5, "og.Batch")):
        with pytest.raises(og.errors.InvalidInput) as caught:
            graph.load(source, mode="append")
        assert said in caught.value.hint
    with pytest.raises(og.errors.InvalidInput) as caught:
        og.init(tmp_path / "g.omni", "social.pg")
    assert "pathlib.Path" in caught.value.hint and not (tmp_path / "g.omni").exists()


def test_a_file_that_cannot_be_read_at_all_is_named(graph: og.Graph, tmp_path: Path) -> None:
    out = io.BytesIO()
    pq.write_table(pa.table({"email": ["b"], "name": [1]}), out)
    files: dict[str, tuple[bytes, str]] = {
        "kind.parquet": (out.getvalue(), "Person.name expects String"),
        "cut.parquet": (out.getvalue()[:60], "cannot be read"),
        "no.parquet": (b"hello", "cannot be read"),
        "cut.jsonl.gz": (gzip.compress(json.dumps(FIRST).encode() * 9)[:40], "cannot be read"),
        "latin.jsonl": (json.dumps(person(name="é"), ensure_ascii=False).encode("latin-1"), "UTF-8"),
    }
    for name, (content, wanted) in files.items():
        (tmp_path / name).write_bytes(content)
        said = message(graph, {"Person": tmp_path / name} if name.endswith("parquet") else tmp_path / name)
        assert name in said.partition(":")[0] and wanted in said, said
    assert "none.jsonl" in message(graph, tmp_path / "none.jsonl")


def test_forty_bad_files_have_forty_messages(graph: og.Graph, tmp_path: Path) -> None:
    said = {
        message(graph, written(tmp_path / "in.jsonl", records)) for records, _ in [*RECORDS.values(), *LATER.values()]
    }
    assert len(said) == len(RECORDS) + len(LATER) == 40
