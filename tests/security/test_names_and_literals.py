"""Whatever a name or a text holds, it leads nowhere but where it belongs: 100,000 of each, and the known tricks."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.core.errors import Corruption, InvalidInput, OmnigraphError, SchemaInvalid
from omnigraph.core.ids import new_ulid
from omnigraph.schema import parse_schema
from omnigraph.store import layout, open_store
from omnigraph.table.predicate import among

NAMES = 100_000
LITERALS = 100_000
SCHEMAS = 3_000
CHUNK = 2_000

# Pieces that have meant something to some file system, shell, query language or terminal.
PIECES = [
    *("..", ".", "/", "\\", "//", "~", "%2e%2e", "%2f", "%00", "\0", "CON", "nul", "AUX.txt", ":", "::$DATA", "a" * 40),
    *("'", "''", '"', "`", "$(x)", "${x}", "{{x}}", ";", "--", "/*", "*/", "#", "\\'", "' OR '1'='1", "') OR ('1'='1"),
    *("\n", "\r", "\t", "\x1b[2J", "\u202e", "\u200b", "\ufeff", "\ufb01", "e\u0301", "é", "ＡＢＣ", "İ", "ß", "🏔"),
    *("node", "edge", "Person", "_rowid", "__manifest", "nodes", "edges", "id", "src", "NULL", "true", "-0", "1e999"),
    *(
        " ",
        "  ",
        "-",
        "_",
        "A",
        "z",
        "9",
        ".json",
        ".lance",
        "file://",
        "s3://",
        "http://169.254.169.254",
        "{",
        "}",
        "@",
    ),
]


def texts(seed: int, count: int) -> Iterator[str]:
    draw = random.Random(seed)
    for _ in range(count):
        parts = draw.choices(PIECES, k=draw.randint(1, 6))
        if draw.random() < 0.3:
            parts.insert(draw.randrange(len(parts)), chr(draw.randrange(0xD800)))
        yield "".join(parts)


# --- names --------------------------------------------------------------------------------------------------------------


def test_no_name_makes_a_path_outside_its_folder(tmp_path: Path) -> None:
    root, ulid = str(tmp_path / "graph"), new_ulid()
    makers = {
        "nodes": lambda name: layout.table_path(f"node:{name}", ulid),
        "edges": lambda name: layout.table_path(f"edge:{name}", ulid),
        "__checkpoints": layout.checkpoint_key,
        "__recovery": layout.intent_key,
        "__staging": layout.staging_key,
        "__recoveries": layout.recovery_key,
        "__branches": lambda name: layout.branch_names_prefix(layout.branch_name_key(name)).removesuffix("/"),
    }
    taken = 0
    for name in texts(1, NAMES):
        for folder, make in makers.items():
            try:
                path = make(name)
            except InvalidInput:
                continue
            taken += 1
            inside = os.path.normpath(os.path.join(root, path))
            assert os.path.dirname(inside) == os.path.join(root, folder), (name, path)
            assert path.isascii() and path.isprintable() and "%" not in path
    assert taken > 1_000  # the generator makes good names too


def test_no_note_lies_outside_its_folder(tmp_path: Path) -> None:
    root = str(tmp_path / "graph")
    taken = 0
    for name in texts(1, NAMES):
        try:
            path = layout.note_key(name)
        except InvalidInput:
            continue
        taken += 1
        inside = os.path.normpath(os.path.join(root, path))
        assert inside == os.path.join(root, "__notes", *name.split("/")), (name, path)
        assert path.isascii() and path.isprintable() and "%" not in path
    assert taken > 100


def test_no_path_read_from_storage_leaves_the_root(tmp_path: Path) -> None:
    root = str(tmp_path / "graph")
    taken = 0
    for path in texts(2, NAMES):
        try:
            layout.check_under_root(path)
        except Corruption:
            continue
        taken += 1
        assert os.path.normpath(os.path.join(root, path)).startswith(root + os.sep), path
    assert taken > 1_000


def test_a_schema_takes_a_name_or_refuses_it_with_its_place() -> None:
    taken = 0
    for name in texts(3, SCHEMAS):
        try:
            catalog = parse_schema(f"node {name} {{ name: String @key }}", mint=new_ulid)
        except SchemaInvalid as refused:
            assert refused.line >= 1
            continue
        taken += 1
        for declared in catalog.types():
            assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", declared.name)
    assert taken > 20


@pytest.mark.parametrize(
    "name",
    [
        "..",
        "../evil",
        "/etc/passwd",
        "a/../../b",
        "C:\\x",
        "%2e%2e",
        "CON/..",
        "a\0b",
        "a" * 300,
        "a.",
        "A ",
        "ﬁ",
        "\u202ea",
    ],
)
def test_a_hostile_name_is_refused_by_every_door_that_takes_one(name: str, tmp_path: Path) -> None:
    with og.init(tmp_path / "g.omni", "node Person { name: String @key }") as graph:
        before = sorted(path for path in tmp_path.rglob("*"))
        doors = [
            lambda: graph.snapshot(name),
            lambda: graph.snapshot(at=name),
            lambda: graph.commit(name),
            lambda: graph.begin(resume=name),
            lambda: graph.snapshot().count(name),
            lambda: graph.optimize([name]),
            lambda: graph.probe(name),
            lambda: graph.load({name: [{"name": "x"}]}, mode="append"),
            lambda: graph.load([{"type": name, "data": {"name": "x"}}], mode="append"),
        ]
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", name):
            doors.append(lambda: graph.checkpoints.create(name))
        for door in doors:
            with pytest.raises(OmnigraphError):
                door()
        assert sorted(path for path in tmp_path.rglob("*")) == before


@pytest.mark.parametrize("uri", ["http://169.254.169.254/latest", "ftp://x/y", "gopher://x", "data:x//y"])
def test_only_disks_and_s3_are_read_or_written(uri: str, tmp_path: Path) -> None:
    if "://" in uri:
        with pytest.raises(InvalidInput):
            open_store(uri)
    with og.init(tmp_path / "g.omni", "node Person { name: String @key }") as graph, pytest.raises(OmnigraphError):
        graph.load(f"{uri}/people.jsonl", mode="append")


def test_a_table_s_folder_that_is_a_link_to_elsewhere_is_not_written_through(tmp_path: Path) -> None:
    """A name of a type never becomes a path by itself: the folder has an id that nobody can guess beforehand."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    root = tmp_path / "g.omni" / "nodes"
    root.mkdir(parents=True)
    (root / "Person.lance").symlink_to(elsewhere)
    with og.init(tmp_path / "g.omni", "node Person { name: String @key }") as graph:
        graph.load([{"type": "Person", "data": {"name": "x"}}], mode="append")
        assert graph.verify(deep=True).ok
    assert not list(elsewhere.iterdir())


# --- literals -----------------------------------------------------------------------------------------------------------


def test_no_literal_becomes_syntax(tmp_path: Path) -> None:
    """Every text selects its own row: a text that broke out would select another, none, or fail to parse."""
    values = list(dict.fromkeys(texts(4, int(LITERALS * 1.2))))
    values = [f"{text}#{n}" for n, text in enumerate(values)] + values
    values = list(dict.fromkeys(values))[:LITERALS]
    assert len(values) == LITERALS
    rows = pa.table({"text": values, "place": range(LITERALS)})
    handle = lance.write_dataset(rows, str(tmp_path / "t.lance"))
    for start in range(0, LITERALS, CHUNK):
        asked = pa.array(values[start : start + CHUNK])
        found = handle.to_table(columns=["place"], filter=among("text", asked))["place"].to_pylist()
        assert sorted(found) == list(range(start, min(start + CHUNK, LITERALS)))


def test_a_hostile_key_is_found_updated_and_deleted_alone(tmp_path: Path) -> None:
    keys = [text for text in dict.fromkeys(texts(5, 400)) if "\0" not in text][:200]
    with og.init(tmp_path / "g.omni", "node Person { name: String @key  age: I32? }") as graph:
        graph.load([{"type": "Person", "data": {"name": key, "age": 1}} for key in keys], mode="append")
        snapshot = graph.snapshot()
        assert [snapshot.get("Person", key) for key in keys] == [{"id": k, "age": 1, "name": k} for k in keys]
        victim = keys[7]
        where = {"n": victim}
        graph.mutate("query q($n: String) { update Person set { age: 2 } where name = $n }", params=where)
        assert graph.snapshot().to_arrow("Person", ["age"])["age"].to_pylist().count(2) == 1
        graph.mutate("query q($n: String) { delete Person where name = $n }", params=where)
        assert graph.snapshot().count("Person") == len(keys) - 1
        assert graph.snapshot().get("Person", victim) is None
