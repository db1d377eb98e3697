"""Staged parts, staged fragments and staging records: what is written is read back, and everything else is refused."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from omnigraph import distributed
from omnigraph.core import documents, errors
from omnigraph.distributed import staging_record
from omnigraph.distributed.fragments import StagedFragments, check_schema_fits
from omnigraph.distributed.staged_part import KeyStream, PartViolations, Split, StagedPart, Stretch, TaskRows
from omnigraph.write.base.rejects import Rejected
from omnigraph.write.base.staged_columns import LiveField
from omnigraph.write.base.violations import Violation

ULID = "01M7QC170BCQQBHXS8RD1NGPS4"
OTHER = "01M7QC16PEFQ1E7M1SDE7BBVN5"
FRAGMENT: dict[str, Any] = {
    "id": 0,
    "files": [{"path": "a.lance", "fields": [0, 1], "file_size_bytes": 10, "base_id": None}],
    "physical_rows": 3,
    "deletion_file": None,
}
FRAGMENTS: dict[str, Any] = {
    "format": 2,
    "staging_id": ULID,
    "table_key": "node:Person",
    "identity": OTHER,
    "ref": None,
    "base_pin": 2,
    "schema_id": "sha256:1",
    "fields": {"id": 0, "p1": 1},
    "kind": "append",
    "new": [FRAGMENT],
    "updated": [],
    "removed": [],
    "files": [{"path": "data/a.lance", "size": 10, "xxh3": None}],
    "rows": 3,
}


def fragments(**changes: Any) -> StagedFragments:
    return StagedFragments.from_dict({**FRAGMENTS, **changes})


def key_stream() -> KeyStream:
    sink = pa.BufferOutputStream()
    rows = pa.record_batch({"id": ["a", "b", "c"]})
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    return KeyStream("node:Person", ("id",), 3, sink.getvalue().to_pybytes())


def part(**changes: Any) -> StagedPart:
    split = Split(1, 2, "people.csv")
    reason = Violation("range", "too old", "node:Person", "Person", "age", 4, None, "x", "200", "0..150", split.key)
    values: dict[str, Any] = {
        "splits": ((split, 7),),
        "tables": (
            TaskRows(
                "node:Person",
                fragments(),
                (Stretch(split.key, 2, 1), Stretch(split.key, 1, 5, np.array([5]))),
                np.array([False, True, False]),
            ),
        ),
        "malformed": PartViolations((reason,), 3),
        "bad_values": PartViolations((), 0),
        "rejected": (Rejected({"name": "x", "at": float("nan"), "deep": _deep(60)}, (reason,), 4, None, split.key),),
        "error": errors.NotFound("no file", path="people.csv"),
        "keys": (key_stream(),),
    }
    return StagedPart(ULID, split.key, **{**values, **changes})


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


# --- what is written is read back ---------------------------------------------------------------------------------------


def test_a_part_is_its_document() -> None:
    made = part()
    read = StagedPart.from_json(made.to_json(), made.streams)
    assert read.to_json() == made.to_json()
    assert read.digest == made.digest and read.streams == made.streams
    assert (read.place, read.splits, read.records) == (made.place, made.splits, 7)
    (table,) = read.tables
    assert table.rows == 3 and table.staged == made.tables[0].staged
    assert list(np.asarray(table.minted)) == [False, True, False]
    assert table.stretches[1].numbers is not None and table.stretches[1].numbers.tolist() == [5]
    assert read.malformed == made.malformed
    (rejected,) = read.rejected
    assert (rejected.number, rejected.source_order, rejected.reasons) == (4, made.place, made.rejected[0].reasons)
    assert rejected.record["at"] == "nan"
    assert isinstance(read.error, errors.NotFound) and read.error.facts == {"path": "people.csv"}


def test_the_document_of_a_part_has_the_members_of_its_format() -> None:
    body = json.loads(part().to_json())
    assert set(body) == {
        "format", "staging_id", "place", "splits", "shares", "malformed", "bad_values", "rejected", "error", "keys",
    }  # fmt: skip
    assert body["format"] == 2
    assert set(body["shares"][0]) == {"table_key", "staged", "stretches", "minted"}
    assert body["shares"][0]["minted"] == [1]
    assert set(body["keys"][0]) == {"table_key", "columns", "rows", "sha256"}


def test_pickling_a_part_pickles_its_document() -> None:
    """No name of a module but that of the public package's reader, and nothing of how it is held in memory."""
    data = pickle.dumps(part())
    assert pickle.loads(data).to_json() == part().to_json()
    for name in (b"Stretch", b"TaskRows", b"Violation", b"numpy", b"Rejected", b"pydantic"):
        assert name not in data


@pytest.mark.parametrize("error", [None, errors.DataInvalid("bad", violations=[], total=2), errors.Corruption("x")])
def test_errors_travel_as_their_bodies(error: errors.OmnigraphError | None) -> None:
    read = StagedPart.from_json(part(error=error, keys=()).to_json()).error
    assert (read is None) == (error is None)
    if read is not None and error is not None:
        assert type(read) is type(error) and read.to_dict() == error.to_dict()


def test_fragments_are_canonical_json_and_named_by_it() -> None:
    staged = fragments()
    assert StagedFragments.from_json(staged.to_json()) == staged
    assert staged.digest == hashlib.sha256(staged.to_json().encode()).hexdigest()
    assert staged.to_json() == documents.canonical(json.loads(staged.to_json())).decode()


# --- refusals -----------------------------------------------------------------------------------------------------------

FRAGMENT_CHANGES: list[dict[str, Any]] = [
    {"ref": "main"},
    {"ref": "f-01"},
    {"identity": "01"},
    {"staging_id": ULID.lower()},
    {"base_pin": -1},
    {"rows": 1.5},
    {"kind": "merge"},
    {"surplus": 1},
    {"fields": {"id": 0, "p1": 0}},
    {"files": []},
    {"files": [{"path": "data/a.lance", "size": 10, "xxh3": None}] * 2},
    {"files": [{"path": "data/a.lance", "size": 10, "xxh3": "no"}]},
    {"files": [{"path": "../a.lance", "size": 10, "xxh3": None}]},
    {"files": [{"path": "/data/a.lance", "size": 10, "xxh3": None}]},
    {"files": [{"path": "data/../a.lance", "size": 10, "xxh3": None}]},
    {"files": [{"path": "data/..", "size": 10, "xxh3": None}]},
    {"files": [{"path": "data/a.lance", "size": 10}]},
    {"updated": [FRAGMENT]},
    {"removed": [1]},
    {"kind": "overwrite", "removed": [1]},
    {"new": [{**FRAGMENT, "deletion_file": {"id": 1}}]},
    {"new": [{**FRAGMENT, "files": None}]},
    {"new": [{**FRAGMENT, "files": [{"path": "b.lance", "base_id": None}]}]},
    {"new": [{**FRAGMENT, "files": [{"path": "a.lance", "base_id": 1}]}]},
    {"new": [{**FRAGMENT, "files": [{"path": "../../x.lance", "base_id": None}]}]},
]


@pytest.mark.parametrize("change", FRAGMENT_CHANGES, ids=lambda change: str(change)[:60])
def test_fragments_that_contradict_themselves_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidInput):
        fragments(**change)
    with pytest.raises(errors.InvalidInput):
        StagedFragments.from_json(json.dumps({**FRAGMENTS, **change}))


def test_an_update_may_name_what_it_updates_and_removes() -> None:
    assert fragments(kind="update", updated=[FRAGMENT], removed=[1]).removed == [1]


Break = Callable[[dict[str, Any]], Any]
PART_CHANGES: dict[str, Break] = {
    "a split twice": lambda body: body["splits"].append(body["splits"][0]),
    "rows of a split that it does not name": lambda body: body["splits"].clear(),
    "other rows than its fragments have": lambda body: body["shares"][0]["stretches"].pop(),
    "rows without fragments": lambda body: body["shares"][0].update(staged=None),
    "fragments of another staging": lambda body: body.update(staging_id=OTHER),
    "fragments of another table": lambda body: body["shares"][0].update(table_key="node:Note"),
    "too few numbers": lambda body: body["shares"][0]["stretches"][1].update(numbers=[]),
    "a negative number": lambda body: body["shares"][0]["stretches"][1].update(numbers=[-1]),
    "an id for a row beyond the end": lambda body: body["shares"][0].update(minted=[3]),
    "minted that is neither": lambda body: body["shares"][0].update(minted="all"),
    "a rejected row without reasons": lambda body: body["rejected"][0].update(reasons=[]),
    "a violation with another member": lambda body: body["malformed"]["shown"][0].update(more=1),
    "a violation without a member": lambda body: body["malformed"]["shown"][0].pop("value"),
    "an error that is none of ours": lambda body: body.update(error={"error": "x", "code": "no-such-code"}),
    "a stream too many": lambda body: body["keys"].clear(),
    "another digest of keys": lambda body: body["keys"][0].update(sha256="0" * 64),
    "other columns of keys": lambda body: body["keys"][0].update(columns=["id", "src"]),
    "other rows of keys": lambda body: body["keys"][0].update(rows=4),
    "bad fragments": lambda body: body["shares"][0]["staged"].update(removed=[1]),
}


@pytest.mark.parametrize("name", PART_CHANGES)
def test_a_part_that_contradicts_itself_is_refused(name: str) -> None:
    made = part()
    body = json.loads(made.to_json())
    PART_CHANGES[name](body)
    with pytest.raises(errors.InvalidInput):
        StagedPart.from_json(json.dumps(body), made.streams)


def test_a_stream_that_is_not_arrow_is_refused() -> None:
    body = json.loads(part().to_json())
    body["keys"][0]["sha256"] = hashlib.sha256(b"garbage").hexdigest()
    with pytest.raises(errors.InvalidInput, match="no Arrow IPC stream"):
        StagedPart.from_json(json.dumps(body), [b"garbage"])
    with pytest.raises(errors.InvalidInput, match="streams of keys"):
        StagedPart.from_json(part().to_json())


RECORD: dict[str, Any] = {
    "format": 2,
    "id": ULID,
    "graph": OTHER,
    "branch": {"name": "main", "identity": OTHER},
    "base": {"manifest_version": 3, "head": ULID, "mark": None, "schema_id": "sha256:1"},
    "actor": None,
    "created_at_us": 1,
    "tables": [{"key": "node:Person", "identity": OTHER, "path": f"nodes/Person-{OTHER}.lance", "ref": None, "pin": 2}],
    "staged": [FRAGMENTS],
}


def read_part(data: bytes) -> Any:
    return StagedPart.from_json(data, part().streams)


def read_record(data: bytes) -> Any:
    raw = None
    try:
        raw = documents.loads(data)
    except ValueError:
        pass
    return staging_record.decode(ULID, data if raw is None or "checksum" in raw else documents.seal(raw))


READERS: dict[str, tuple[Callable[[bytes], Any], Callable[[], dict[str, Any]], type[errors.OmnigraphError]]] = {
    "fragments": (StagedFragments.from_json, lambda: copy.deepcopy(FRAGMENTS), errors.InvalidInput),
    "part": (read_part, lambda: json.loads(part().to_json()), errors.InvalidInput),
    "record": (read_record, lambda: copy.deepcopy(RECORD), errors.Corruption),
}


@pytest.mark.parametrize("kind", READERS)
def test_what_every_reader_refuses(kind: str) -> None:
    read, make, refused = READERS[kind]
    text = json.dumps(make())
    read(text.encode())
    for member in make():
        with pytest.raises(refused):
            read(json.dumps({name: value for name, value in make().items() if name != member}).encode())
    broken = [
        json.dumps({**make(), "surplus": 1}),
        text[:-1] + ',"format":2}',
        text.replace('"format": 2', '"format": 2, "surplus": NaN'),
        text.replace('"format": 2', '"format": 1e400'),
        text.replace('"format": 2', f'"format": {"[" * 40}{"]" * 40}'),
        text.replace('"format": 2', '"format": 1'),
        text.replace('"format": 2', '"format": true'),
        "[]",
        "",
        "{",
    ]
    for one in broken:
        with pytest.raises(refused):
            read(one.encode())
    with pytest.raises(refused):
        read(b"\xff\xfe")
    with pytest.raises(errors.UnsupportedStorage):
        read(json.dumps({**make(), "format": 3, "surplus": 1}).encode())


@pytest.mark.parametrize("kind", READERS)
def test_a_document_over_its_bound_is_refused(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read, make, refused = READERS[kind]
    data = json.dumps(make()).encode()
    size = len(data) if kind != "record" else len(documents.seal(make()))
    for place in (
        "omnigraph.distributed.fragments.FRAGMENTS_BYTES_MAX",
        "omnigraph.distributed.part_document.PART_BYTES_MAX",
        "omnigraph.distributed.staging_record.RECORD_BYTES_MAX",
    ):
        monkeypatch.setattr(place, size)
    read(data)
    monkeypatch.undo()
    for place in (
        "omnigraph.distributed.fragments.FRAGMENTS_BYTES_MAX",
        "omnigraph.distributed.part_document.PART_BYTES_MAX",
        "omnigraph.distributed.staging_record.RECORD_BYTES_MAX",
    ):
        monkeypatch.setattr(place, size - 1)
    with pytest.raises(refused, match="bytes"):
        read(data)


RECORD_CHANGES: dict[str, Break] = {
    "another name": lambda body: body.update(id=OTHER),
    "another table's fragments": lambda body: body["staged"][0].update(table_key="node:Note"),
    "fragments of another staging": lambda body: body["staged"][0].update(staging_id=OTHER),
    "fragments of another identity": lambda body: body["staged"][0].update(identity=ULID),
    "fragments of another line": lambda body: body["staged"][0].update(ref=f"f-{ULID}"),
    "a table twice": lambda body: body["tables"].append(body["tables"][0]),
    "a path outside": lambda body: body["tables"][0].update(path="../nodes/x"),
    "a path that is no table's": lambda body: body["tables"][0].update(path="__manifest"),
    "a ref that is none of ours": lambda body: body["tables"][0].update(ref="main"),
    "a base without a member": lambda body: body["base"].pop("mark"),
    "a negative pin": lambda body: body["tables"][0].update(pin=-1),
    "bad fragments": lambda body: body["staged"][0].update(removed=[1]),
}


@pytest.mark.parametrize("name", RECORD_CHANGES)
def test_a_record_that_contradicts_itself_is_corruption(name: str) -> None:
    body = copy.deepcopy(RECORD)
    RECORD_CHANGES[name](body)
    with pytest.raises(errors.Corruption, match="__staging/"):
        staging_record.decode(ULID, documents.seal(body))


def test_a_record_with_another_checksum_is_corruption() -> None:
    data = documents.seal(RECORD)
    assert staging_record.decode(ULID, data).id == ULID
    assert staging_record.encode(staging_record.decode(ULID, data)) == data
    for broken in (data.replace(b'"actor":null', b'"actor":"x"'), documents.canonical(RECORD)):
        with pytest.raises(errors.Corruption, match="checksum"):
            staging_record.decode(ULID, broken)


# --- rows of another schema ---------------------------------------------------------------------------------------------

LIVE = {"id": LiveField(0, False), "p1": LiveField(1, False), "p2": LiveField(2, True)}


@pytest.mark.parametrize(
    ("schema_id", "live", "fits"),
    [
        ("sha256:1", {}, True),  # the same schema: nothing is compared
        ("sha256:2", LIVE, True),  # p2 was added, nullable
        ("sha256:2", {**LIVE, "p2": LiveField(2, True, filled=True)}, False),  # with a fill
        ("sha256:2", {**LIVE, "p2": LiveField(2, False)}, False),  # required
        ("sha256:2", {"id": LIVE["id"], "p2": LIVE["p2"]}, False),  # p1 was dropped
        ("sha256:2", {**LIVE, "p1": LiveField(3, True)}, False),  # p1 was dropped and added again
        ("sha256:2", {"id": LIVE["id"], "p3": LiveField(1, False)}, False),  # p1 was dropped, its number given to p3
        ("sha256:2", {"id": LIVE["id"], "p3": LiveField(1, False, also=("p1",))}, True),  # p3 is p1 since a merge
        ("sha256:2", {}, False),
    ],
)
def test_rows_of_another_schema_fit_if_every_field_lives_and_no_value_is_missing(
    schema_id: str, live: dict[str, LiveField], fits: bool
) -> None:
    if fits:
        check_schema_fits(fragments(), schema_id, live)
        return
    with pytest.raises(errors.SchemaChanged) as raised:
        check_schema_fits(fragments(), schema_id, live)
    assert raised.value.facts["expected"] == "sha256:1"


def test_the_public_package_has_what_programs_need() -> None:
    for name in distributed.__all__:
        assert getattr(distributed, name).__module__.startswith("omnigraph.distributed.")
