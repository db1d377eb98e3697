"""The intent file: what is written comes back, and anything else is refused by name and never guessed at."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.commit.intent import INTENT_BYTES_MAX, Intent, Ticket, decode, encode_plan, encode_ticket
from omnigraph.commit.plan import Base, BranchName, CommitInfo, Delta, PublishPlan, ReadPin, TablePlan
from omnigraph.core.errors import Corruption, LimitExceeded
from omnigraph.manifest.rows import SchemaRow, Tombstone
from omnigraph.store import layout
from tests.unit.commit_material import COMMIT, GRAPH, OP, OWNER, ULIDS, W, pin, plan

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
maybe_text = st.none() | texts
numbers = st.integers(0, 1 << 62)
refs = st.none() | st.sampled_from([f"g-{GRAPH}", f"f-{OP}"])
locations = st.sampled_from([f"nodes/A-{ULIDS[5]}.lance", f"edges/B-{ULIDS[6]}.lance"])
table_plans = st.builds(
    TablePlan, texts, texts, locations, refs, numbers, st.lists(texts, min_size=1, max_size=3).map(tuple), st.booleans()
)
registered = st.builds(
    lambda p, v: replace(p, version=v, rows=0, fragments=0, bytes=0, deleted_rows=0, unindexed_fragments=0),
    st.just(pin("node:New", n=44)),
    numbers,
)
plans = st.builds(
    PublishPlan,
    graph=texts,
    op=st.just(OP),
    kind=st.sampled_from(["load", "mutate", "merge", "schema", "maintenance"]),
    branch=st.builds(BranchName, texts, st.just(GRAPH)),
    base=st.builds(Base, numbers, texts, numbers, maybe_text, texts),
    tables=st.lists(table_plans, max_size=4, unique_by=lambda table: table.key).map(tuple),
    reads=st.lists(st.builds(ReadPin, texts, texts, refs, numbers), max_size=3).map(tuple),
    commit=st.builds(
        CommitInfo, st.just(COMMIT), st.lists(texts, max_size=2).map(tuple), maybe_text, maybe_text, maybe_text, numbers
    ),
    owner=st.builds(replace, st.just(OWNER), host=texts, pid=numbers),
    delta=st.builds(
        Delta,
        st.none() | st.builds(SchemaRow, texts, texts, texts, texts),
        st.lists(registered, max_size=1).map(tuple),
        st.lists(st.builds(Tombstone, texts, numbers, texts, numbers, st.none() | texts), max_size=2).map(tuple),
    ),
)


@given(plans)
def test_a_plan_comes_back_from_its_file_as_it_was(given_plan: PublishPlan) -> None:
    read = decode(OP, encode_plan(given_plan))
    assert read.plan == given_plan and read.ticket is None
    assert (read.branch, read.kind, read.owner) == (given_plan.branch, given_plan.kind, given_plan.owner)
    assert read.keys == given_plan.keys


def test_a_ticket_comes_back_as_it_was() -> None:
    ticket = Ticket(GRAPH, OP, "load", BranchName("main", GRAPH), ("edge:B", "node:A"), OWNER)
    read = decode(OP, encode_ticket(ticket))
    assert read.ticket == ticket and read.plan is None and read.keys == {"edge:B", "node:A"}


def test_a_ticket_that_becomes_a_plan_changes_its_stamp() -> None:
    ticket = Ticket(GRAPH, OP, "load", BranchName("main", GRAPH), (W.key,), OWNER)
    assert decode(OP, encode_ticket(ticket)).stamp != decode(OP, encode_plan(plan())).stamp


def test_no_credentials_and_no_staged_bytes_are_in_an_intent() -> None:
    body = json.loads(encode_plan(plan()))
    assert set(body) == {
        "format", "graph", "op", "kind", "state", "branch", "base", "tables", "reads", "delta", "commit", "owner",
        "checksum",
    }  # fmt: skip
    assert set(body["tables"][0]) == {"key", "identity", "path", "ref", "pin", "creates", "uuids"}


def test_a_plan_that_is_too_large_is_refused_before_it_is_written() -> None:
    wide = tuple(replace(table, key=f"node:{'x' * 100}{n}") for n in range(20_000) for table in plan().tables)
    with pytest.raises(LimitExceeded):
        encode_plan(plan(tables=wide))


# --- bad input ----------------------------------------------------------------------------------------------------------

GOOD = encode_plan(plan())


def sealed(change: Callable[[dict[str, Any]], None]) -> bytes:
    """A file whose checksum is right and whose content is not."""
    body = json.loads(GOOD)
    change(body)
    body.pop("checksum", None)
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    body["checksum"] = hashlib.sha256(canonical).hexdigest()
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def refused(data: bytes) -> Corruption:
    with pytest.raises(Corruption) as caught:
        decode(OP, data)
    assert caught.value.facts["object"] == layout.intent_key(OP), "the error names the file"
    assert "\n" not in str(caught.value)
    return caught.value


def test_a_file_sealed_again_by_the_test_is_read() -> None:
    assert isinstance(decode(OP, sealed(lambda body: None)), Intent)


@pytest.mark.parametrize("eighth", range(8))
def test_a_truncated_intent_is_refused(eighth: int) -> None:
    refused(GOOD[: len(GOOD) * eighth // 8])


def test_an_intent_with_any_byte_damaged_is_refused() -> None:
    for at in range(len(GOOD)):
        refused(GOOD[:at] + bytes([GOOD[at] ^ 1]) + GOOD[at + 1 :])


@given(st.integers(0, len(GOOD) - 1), st.integers(0, 7))
def test_an_intent_with_any_bit_flipped_is_refused(at: int, bit: int) -> None:
    refused(GOOD[:at] + bytes([GOOD[at] ^ (1 << bit)]) + GOOD[at + 1 :])


def put(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(body: dict[str, Any]) -> None:
        *way, last = path.split(".")
        place: Any = body
        for step in way:
            place = place[int(step)] if isinstance(place, list) else place[step]
        place[int(last) if isinstance(place, list) else last] = value

    return change


def forget(path: str) -> Callable[[dict[str, Any]], None]:
    return lambda body: body.pop(path)


BAD_CONTENT = {
    "a future format": put("format", 2),
    "format as text": put("format", "1"),
    "an unknown member": put("shiny", True),
    "an unknown member further down": put("owner.shiny", True),
    "a missing member": forget("reads"),
    "another operation": put("op", ULIDS[9]),
    "an unknown kind": put("kind", "party"),
    "an unknown state": put("state", "asleep"),
    "armed without a base": put("base", None),
    "armed without a commit": put("commit", None),
    "a commit id that is none": put("commit.id", "../../x"),
    "a number as text": put("tables.0.pin", "3"),
    "a number that is a float": put("tables.0.pin", 3.0),
    "true for a number": put("tables.0.pin", True),
    "a pin below zero": put("tables.0.pin", -1),
    "no transaction": put("tables.0.uuids", []),
    "a list for an object": put("branch", []),
    "a path above the root": put("tables.0.path", "../elsewhere"),
    "a path further up": put("tables.0.path", f"nodes/../../A-{ULIDS[5]}.lance"),
    "an absolute path": put("tables.0.path", "/etc"),
    "a path to another store": put("tables.0.path", "s3://other/place"),
    "an encoded path": put("tables.0.path", "nodes/%2e%2e/x"),
    "a path with a backslash": put("tables.0.path", "nodes\\..\\x"),
    "the manifest as a table": put("tables.0.path", "__manifest"),
    "the audit as a table": put("tables.0.path", "_graph_commit_recoveries.lance"),
    "an empty path": put("tables.0.path", ""),
    "a ref above its table": put("tables.0.ref", "../../x"),
    "a ref of somebody's making": put("tables.0.ref", "experiment"),
    "one table twice": lambda body: body["tables"].append(body["tables"][0]),
}  # fmt: skip


@pytest.mark.parametrize("change", BAD_CONTENT.values(), ids=BAD_CONTENT.keys())
def test_an_intent_with_a_right_checksum_and_wrong_content_is_refused(change: Callable[[dict[str, Any]], None]) -> None:
    refused(sealed(change))


def test_a_registration_that_points_elsewhere_is_refused() -> None:
    new = pin("node:New", n=44)
    body = encode_plan(plan(delta=Delta(register=(replace(new, location="../elsewhere"),))))
    refused(body)


BAD_BYTES = {
    "empty": b"",
    "blank": b"  \n",
    "zeros": bytes(4096),
    "not UTF-8": b'{"format": "\xff"}',
    "a byte order mark": b"\xef\xbb\xbf" + GOOD,
    "another JSON value": b"[1]",
    "null": b"null",
    "NaN": b'{"format": NaN}',
    "infinity": b'{"format": -Infinity}',
    "a lone surrogate": b'{"format": "\\ud800"}',
    "deep lists": b"[" * 10_000 + b"]" * 10_000,
    "deep objects": b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    "deep and never closed": b'{"a":' * 100_000,
    "a duplicate member": GOOD.replace(b'"format":1,', b'"format":1,"format":1,'),
    "a duplicate member further down": GOOD.replace(b'"pid":42,', b'"pid":42,"pid":42,'),
    "a number of a million digits": b'{"format":' + b"9" * 1_000_000 + b"}",
    "more after the end": GOOD + b"{}",
}  # fmt: skip


@pytest.mark.parametrize("data", BAD_BYTES.values(), ids=BAD_BYTES.keys())
def test_hostile_bytes_are_refused(data: bytes) -> None:
    refused(data)


def test_64_megabytes_are_refused_without_being_parsed() -> None:
    said = refused(b'{"a":"' + b"x" * (64 << 20) + b'"}')
    assert str(INTENT_BYTES_MAX) in str(said)
