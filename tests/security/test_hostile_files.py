"""Damaged, mutilated and swollen input: it is refused with an error of ours, and costs no more than its size."""

from __future__ import annotations

import gzip
import io
import json
import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.commit.intent import decode, encode_plan
from omnigraph.core.errors import Corruption, OmnigraphError
from omnigraph.core.ids import new_ulid
from omnigraph.schema import parse_schema
from omnigraph.store.layout import is_table_path
from omnigraph.write.sources.input import read_source
from tests.unit.commit.material import OP, plan

SCHEMA = "node Person { name: String @key  age: I32?  born: Date?  score: F64? }\nedge Knows: Person -> Person { }\n"
CATALOG = parse_schema(SCHEMA, mint=new_ulid)
DAMAGED = 150  # of each kind
INTENTS = 4_000
BOMB_BYTES = 128 << 20
MEMORY_MAX_BYTES = 1 << 30  # an interpreter with Lance and Arrow takes a third of it


def good(kind: str) -> bytes:
    rows = [{"name": f"p{n}", "age": n, "score": n / 3} for n in range(30)]
    lines = "".join(json.dumps({"type": "Person", "data": row}) + "\n" for row in rows).encode()
    if kind == "jsonl":
        return lines
    if kind == "jsonl.gz":
        return gzip.compress(lines, mtime=0)
    if kind == "csv":
        return ("name,age,score\n" + "".join(f"{r['name']},{r['age']},{r['score']}\n" for r in rows)).encode()
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), out)
    return out.getvalue()


def damaged(data: bytes, draw: random.Random) -> bytes:
    spoiled = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(spoiled))
        how = draw.randrange(5)
        if how == 0:
            spoiled[at] ^= 1 << draw.randrange(8)
        elif how == 1:
            del spoiled[at : at + draw.randint(1, 200)]
        elif how == 2:
            spoiled[at:at] = draw.randbytes(draw.randint(1, 40))
        elif how == 3:
            spoiled[at:at] = spoiled[: draw.randint(1, 100)]
        else:
            spoiled = spoiled[: max(1, at)]
        if not spoiled:
            spoiled = bytearray(b"\0")
    return bytes(spoiled)


@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz", "csv", "parquet"])
def test_a_damaged_file_is_read_as_far_as_it_makes_sense_or_refused(kind: str, tmp_path: Path) -> None:
    draw = random.Random(kind)
    path, data, refused = tmp_path / f"people.{kind}", good(kind), 0
    for _ in range(DAMAGED):
        path.write_bytes(damaged(data, draw))
        source = path if kind.startswith("jsonl") else {"Person": path}
        try:
            given = read_source(source, CATALOG)
        except OmnigraphError as error:
            assert error.hint and "\n" not in error.message
            refused += 1
            continue
        refused += bool(given.malformed)
        for violation in given.malformed.shown:
            assert violation.message and len(violation.message) < 1_000
    assert refused > DAMAGED // 4


@pytest.mark.parametrize("what", ["one line", "json depth"])
def test_a_bomb_is_refused_within_bounded_memory(what: str, tmp_path: Path) -> None:
    """Some kilobytes that would become hundreds of megabytes."""
    path = tmp_path / "bomb.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        if what == "one line":
            file.write(b'{"type":"Person","data":{"name":"')
            for _ in range(BOMB_BYTES >> 20):
                file.write(b"a" * (1 << 20))
        else:
            file.write(b'{"type":"Person","data":{"name":' + b"[" * 5_000_000)
    assert path.stat().st_size < 3 << 20
    code = (
        "import resource, sys, omnigraph as og\n"
        f"resource.setrlimit(resource.RLIMIT_DATA, ({4 * MEMORY_MAX_BYTES}, {4 * MEMORY_MAX_BYTES}))\n"
        f"graph = og.init({str(tmp_path / 'g.omni')!r}, {SCHEMA!r})\n"
        "try:\n"
        f"    graph.load({str(path)!r}, mode='append')\n"
        "except og.errors.InvalidInput as error:\n"
        "    print(error.code, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100)
    code_, peak = done.stdout.split()
    assert code_ in ("limit-exceeded", "data-invalid")
    assert int(peak) < MEMORY_MAX_BYTES


def test_a_table_of_very_many_columns_is_refused(tmp_path: Path) -> None:
    names = [f"c{n}" for n in range(5_000)]
    pq.write_table(pa.table({name: [1] for name in names}), tmp_path / "wide.parquet")
    (tmp_path / "wide.csv").write_text(",".join(names) + "\n" + ",".join("1" for _ in names) + "\n")
    for name in ("wide.parquet", "wide.csv"):
        with pytest.raises(og.errors.DataInvalid):
            read_source({"Person": tmp_path / name}, CATALOG)


@pytest.mark.parametrize(
    "value", ["NaN", "Infinity", "-Infinity", "1e400", "9223372036854775808", '"\\ud800"', "[1]", "{}"]
)
def test_a_number_that_is_none_is_refused_with_its_place(value: str, tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text('{"type":"Person","data":{"name":"a","age":%s}}\n' % value)  # noqa: UP031 - it has braces
    given = read_source(path, CATALOG)
    assert given.malformed.total == 1 and given.malformed.shown[0].record == 1


def test_a_member_that_is_written_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text('{"type":"Person","data":{"name":"a","name":"b"}}\n')
    assert read_source(path, CATALOG).malformed.total == 1


# --- control objects ----------------------------------------------------------------------------------------------------


def test_a_damaged_intent_is_corruption_and_nothing_else() -> None:
    data, draw, same = encode_plan(plan()), random.Random(7), 0
    for _ in range(INTENTS):
        spoiled = damaged(data, draw)
        try:
            found = decode(OP, spoiled)
        except Corruption:
            continue
        same += 1
        assert json.loads(spoiled) == json.loads(data)  # only white space was hit
        assert found.plan is not None and all(is_table_path(chain.path) for chain in found.plan.landing)
    assert same < INTENTS // 20


@pytest.mark.parametrize(
    "spoil",
    [
        lambda b: b["effects"][0]["target"].update(path="../../etc/x.lance"),
        lambda b: b["effects"][0]["base"].update(path="/etc/nodes/A.lance"),
        lambda b: b.update(op="01ARZ3NDEKTSV4RRFFQ69G5FAV"),
        lambda b: b.update(format=1),
        lambda b: b.update(more=1),
        lambda b: b["effects"][0]["base"].update(pin=-1),
        lambda b: b["effects"][0]["base"].update(pin=0.5),
        lambda b: b["effects"][0]["target"].update(ref="../main"),
        lambda b: b["requests"][0].update(id="x"),
    ],
)
def test_an_intent_that_was_forged_with_a_right_checksum_is_refused(spoil: object) -> None:
    from omnigraph.core.documents import seal

    body = json.loads(encode_plan(plan()))
    spoil(body)  # type: ignore[operator]
    body.pop("checksum")
    with pytest.raises(Corruption):
        decode(OP, seal(body))


@pytest.mark.parametrize("place", ["__recovery", "__staging", "__checkpoints", "__boundary"])
@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"null", b"\xff\xfe", b"{" * 100_000, b'{"format":99}'])
def test_a_foreign_control_object_stops_what_needs_it_and_no_reader(place: str, content: bytes, tmp_path: Path) -> None:
    root = tmp_path / "g.omni"
    with og.init(root, SCHEMA) as graph:
        graph.load([{"type": "Person", "data": {"name": "a"}}], mode="append")
    folder = root / place
    folder.mkdir(exist_ok=True)
    name = f"{new_ulid()}.json"
    if place == "__boundary":
        folder = next(iter(folder.iterdir()), folder / "x")
        folder.mkdir(exist_ok=True)
        name = "not-a-mark"
    (folder / name).write_bytes(content)
    with og.open(root, read_only=True) as graph:
        assert graph.snapshot().count("Person") == 1
    for act in ("load", "plan_cleanup", "verify"):
        try:
            with og.open(root) as graph:
                if act == "load":
                    graph.load([{"type": "Person", "data": {"name": "b"}}], mode="merge")
                elif act == "verify":
                    graph.verify()
                else:
                    graph.plan_cleanup(keep=1, min_age="0s")
        except OmnigraphError as error:
            assert error.code != "internal"
    assert (folder / name).read_bytes() == content  # nobody has guessed, nobody has tidied it away
