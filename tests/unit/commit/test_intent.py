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

from omnigraph.commit.effects import Effect, Target
from omnigraph.commit.intent import INTENT_BYTES_MAX, Intent, Ticket, decode, encode_plan, encode_ticket
from omnigraph.commit.intent_format import encode_offer
from omnigraph.commit.plan import (
    BranchName,
    Delta,
    PublishPlan,
    ReadPin,
    Registration,
    Rename,
    RequestInfo,
    Source,
    SourceTable,
)
from omnigraph.core.errors import Corruption, LimitExceeded
from omnigraph.manifest.rows import BaseVersion, Recent, SchemaRow, Tombstone
from omnigraph.store import layout
from tests.unit.commit.material import (
    COMMIT,
    GRAPH,
    OP,
    OTHER_COMMIT,
    OWNER,
    SCHEMA,
    ULIDS,
    R,
    V,
    W,
    adopt,
    base,
    create,
    effect,
    fork,
    pin,
    plan,
    request,
)

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
maybe_text = st.none() | texts
numbers = st.integers(0, 1 << 62)
ulids = st.sampled_from(ULIDS)
registrations = st.builds(Registration, texts, ulids, st.integers(1, 9), texts, st.just(W.location))
bases = st.lists(st.tuples(st.none() | st.just(f"g-{GRAPH}"), st.integers(1, 9), st.booleans()), max_size=2).map(tuple)
sources = st.builds(
    Source,
    ulids,
    st.none() | st.just(f"g-{GRAPH}"),
    st.integers(1, 1 << 40),
    ulids,
    st.lists(st.builds(SourceTable, st.just(R.location), st.none(), st.integers(1, 9), bases), max_size=2).map(tuple),
)
merges = st.none() | st.just(
    {"identity": ULIDS[7], "ref": f"g-{ULIDS[7]}", "manifest_version": 4, "commit": ULIDS[8], "bases": [ULIDS[9]]}
)


@st.composite
def chains(draw: st.DrawFn) -> tuple[Effect, ...]:
    """Effects on one to three tables, as a builder places them."""
    found: list[Effect] = []
    for which in draw(st.lists(st.sampled_from([W, V, R]), min_size=1, max_size=3, unique_by=lambda p: p.key)):
        kind = draw(st.sampled_from(["commits", "create", "fork", "adopt", "drop", "rewrite"]))
        if kind == "commits":
            count = draw(st.integers(1, 3))
            kinds = draw(st.lists(st.sampled_from(COMMITS), min_size=count, max_size=count))
            found += [
                effect(which, one, version=which.version + 1 + n, uuid=f"{which.key}-{n}")
                for n, one in enumerate(kinds)
            ]
        elif kind == "fork":
            first = fork(which)
            second = Target(which.location, f"f-{OP}", which.version + 1, "second")
            found += [first, replace(first, kind="append", target=second)]
        elif kind == "drop":
            found.append(Effect("drop", which.key, which.identity, base(which), None))
        elif kind == "rewrite":
            found.append(
                Effect("rewrite", which.key, which.identity, base(which), Target(which.location, None, None, None))
            )
        else:
            found.append({"create": create, "adopt": adopt}[kind](which))
    return tuple(found)


COMMITS = ["append", "rows", "overwrite", "columns", "project", "restore"]


@st.composite
def plans(draw: st.DrawFn) -> PublishPlan:
    count = draw(st.integers(1, 3))
    ids = ULIDS[40 : 40 + count]
    parents = [OTHER_COMMIT, *ids]
    owned = [True, *(draw(st.booleans()) for _ in range(count - 1))]
    requests = tuple(
        RequestInfo(
            one,
            draw(st.sampled_from(["load", "mutate"])),
            (parents[n],),
            draw(maybe_text),
            draw(maybe_text),
            draw(st.none() | ulids),
            draw(numbers),
            draw(maybe_text),
            draw(maybe_text),
            owned[n],
        )
        for n, one in enumerate(ids)
    )
    effects = draw(chains())
    needs = any(one.rule.needs_source for one in effects)
    return plan(
        id=ids[0] if count == 1 else ULIDS[60],
        effects=effects,
        requests=requests,
        reads=draw(st.lists(st.builds(ReadPin, texts, ulids, st.none(), numbers), max_size=3).map(tuple)),
        owner=replace(OWNER, host=draw(texts), pid=draw(numbers)),
        sources=draw(st.lists(sources, min_size=1 if needs else 0, max_size=2).map(tuple)),
        merge=draw(merges),
        reverts=draw(st.none() | st.lists(ulids, max_size=2).map(tuple)),
        delta=Delta(
            draw(st.none() | st.builds(SchemaRow, texts, texts, texts, texts)),
            (),
            draw(st.lists(registrations, max_size=1).map(tuple)),
            draw(
                st.lists(st.builds(Tombstone, texts, st.integers(1, 9), ulids, numbers, maybe_text), max_size=2).map(
                    tuple
                )
            ),
            draw(st.lists(st.builds(Rename, ulids, texts, texts, st.integers(1, 9)), max_size=1).map(tuple)),
        ),
    )


@given(plans())
def test_a_plan_comes_back_from_its_file_as_it_was(given_plan: PublishPlan) -> None:
    read = decode(OP, encode_plan(given_plan))
    assert read.plan == given_plan and read.ticket is None and read.state == "armed"
    assert (read.branch, read.kind, read.owner) == (given_plan.branch, given_plan.kind, given_plan.owner)
    assert read.keys == given_plan.keys


def test_an_applied_plan_comes_back_with_the_pins_that_it_reached() -> None:
    reached = replace(
        W, version=W.version + 1, bases=(BaseVersion(None, 2, True),), recent=Recent((4,), bytes(range(8)))
    )
    read = decode(OP, encode_plan(plan(), applied=[reached]))
    assert (read.state, read.durable, read.applied) == ("applied", True, (reached,))


def test_a_ticket_comes_back_as_it_was() -> None:
    ticket = Ticket(GRAPH, OP, "load", BranchName("main", GRAPH), (("edge:B", ""), ("node:A", ULIDS[4])), OWNER)
    read = decode(OP, encode_ticket(ticket))
    assert read.ticket == ticket and read.plan is None and read.keys == {"edge:B", "node:A"}


OFFER: dict[str, Any] = {
    "schema_id": SCHEMA.id, "mode": None, "options": {}, "query": "insert", "params": {"n": 1},
    "rows": [{"key": W.key, "rows": 1, "ipc": "AAAA"}], "deadline_at_us": 9,
}  # fmt: skip


def offered(**changes: Any) -> bytes:
    ticket = Ticket(GRAPH, OP, "mutate", BranchName("main", GRAPH), ((W.key, W.identity),), OWNER)
    return encode_offer(ticket, request(parents=()), {**OFFER, **changes})


def test_an_offer_comes_back_with_its_request_and_its_input() -> None:
    read = decode(OP, offered())
    assert (read.state, read.plan, read.request) == ("offered", None, request(parents=()))
    assert read.offer == OFFER and read.keys == {W.key}


def test_a_ticket_that_becomes_a_plan_changes_its_stamp() -> None:
    ticket = Ticket(GRAPH, OP, "load", BranchName("main", GRAPH), ((W.key, W.identity),), OWNER)
    assert decode(OP, encode_ticket(ticket)).stamp != decode(OP, encode_plan(plan())).stamp


MEMBERS = {
    "format", "graph", "op", "plan", "kind", "state", "branch", "base", "effects", "reads", "delta", "sources", "merge",
    "reverts", "requests", "applied", "offer", "durable", "owner", "checksum",
}  # fmt: skip


def test_every_state_has_all_members_and_no_credentials() -> None:
    ticket = Ticket(GRAPH, OP, "load", BranchName("main", GRAPH), ((W.key, W.identity),), OWNER)
    reached = replace(W, version=W.version + 1)
    for data in (encode_ticket(ticket), offered(), encode_plan(plan()), encode_plan(plan(), applied=[reached])):
        assert set(json.loads(data)) == MEMBERS


def test_a_plan_that_is_too_large_is_refused_before_it_is_written() -> None:
    wide = tuple(replace(effect(W), key=f"node:{'x' * 100}{n}") for n in range(20_000))
    with pytest.raises(LimitExceeded):
        encode_plan(plan(effects=wide))


# --- files of a later release ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "value"),
    [("format", 3), ("state", "asleep"), ("kind", "party"), ("effects.0.kind", "levitate")],
)
def test_what_a_later_release_has_written_is_kept_and_claims_its_tables(path: str, value: Any) -> None:
    read = decode(OP, sealed(put(path, value)))
    assert read.state == "unknown" and read.why_unknown and read.keys == {W.key}
    assert read.plan is None and read.ticket is None


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


def again(body: dict[str, Any]) -> None:
    body["effects"].append(body["effects"][0])


def two_requests(**changes: Any) -> Callable[[dict[str, Any]], None]:
    """A second request, which follows the first unless told otherwise, under a plan id of its own."""

    def change(body: dict[str, Any]) -> None:
        first = body["requests"][0]
        body["requests"].append({**first, "id": ULIDS[8], "parents": [first["id"]], **changes})
        body["plan"] = changes.get("plan", ULIDS[9])
        body["requests"][1].pop("plan", None)

    return change


def many_requests(count: int) -> Callable[[dict[str, Any]], None]:
    """``count`` requests in a line, under a plan id of its own."""

    def change(body: dict[str, Any]) -> None:
        line = body["requests"][:1]
        for number in range(count - 1):
            line.append({**line[0], "id": f"01K0{number:022d}", "parents": [line[-1]["id"]]})
        body["requests"] = line
        body["plan"] = ULIDS[9]

    return change


BAD_CONTENT = {
    "format 1": put("format", 1),
    "format as text": put("format", "2"),
    "an unknown member": put("shiny", True),
    "an unknown member further down": put("owner.shiny", True),
    "a missing member": forget("reads"),
    "another operation": put("op", ULIDS[9]),
    "armed without a base": put("base", None),
    "armed without a plan id": put("plan", None),
    "armed without effects": put("effects", []),
    "armed without requests": put("requests", []),
    "armed and durable": put("durable", True),
    "armed with applied pins": put("applied", []),
    "applied without pins": put("state", "applied"),
    "a ticket with a plan": put("state", "waiting"),
    "an offer without input": put("state", "offered"),
    "a commit id that is none": put("requests.0.id", "../../x"),
    "a plan id that is not its request's": put("plan", ULIDS[9]),
    "a request that does not follow the base": put("requests.0.parents", [ULIDS[9]]),
    "one request twice": two_requests(id=COMMIT),
    "a second request that follows nothing": two_requests(parents=[OTHER_COMMIT]),
    "requests that it only carries": put("requests.0.owned", False),
    "two requests under the id of one": two_requests(plan=ULIDS[8], owned=False, id=ULIDS[8]),
    "a number as text": put("effects.0.base.pin", "3"),
    "a number that is a float": put("effects.0.base.pin", 3.5),
    "true for a number": put("effects.0.base.pin", True),
    "a pin of zero": put("effects.0.base.pin", 0),
    "no transaction": put("effects.0.target", None),
    "a transaction without a name": put("effects.0.target.uuid", None),
    "a version with a gap": put("effects.0.target.version", 5),
    "a target on another line": put("effects.0.target.ref", f"f-{OP}"),
    "an append with a pin of its own": put("effects.0.pin_row", {}),
    "an append that restores nothing named": put("effects.0.kind", "restore"),
    "an append that forks": put("effects.0.kind", "fork"),
    "an append that creates": put("effects.0.kind", "create"),
    "a list for an object": put("branch", []),
    "a path above the root": put("effects.0.base.path", "../elsewhere"),
    "a path further up": put("effects.0.target.path", f"nodes/../../A-{ULIDS[5]}.lance"),
    "an absolute path": put("effects.0.target.path", "/etc"),
    "a path to another store": put("effects.0.base.path", "s3://other/place"),
    "an encoded path": put("effects.0.base.path", "nodes/%2e%2e/x"),
    "a path with a backslash": put("effects.0.base.path", "nodes\\..\\x"),
    "the manifest as a table": put("effects.0.target.path", "__manifest"),
    "the record of recoveries as a table": put("effects.0.target.path", "_graph_commit_recoveries.lance"),
    "an empty path": put("effects.0.base.path", ""),
    "a ref above its table": put("effects.0.base.ref", "../../x"),
    "a ref that this engine does not make": put("effects.0.target.ref", "experiment"),
    "one version twice": again,
}  # fmt: skip


@pytest.mark.parametrize("change", BAD_CONTENT.values(), ids=BAD_CONTENT.keys())
def test_an_intent_with_a_right_checksum_and_wrong_content_is_refused(change: Callable[[dict[str, Any]], None]) -> None:
    refused(sealed(change))


def test_a_plan_holds_64_requests_and_no_more() -> None:
    assert isinstance(decode(OP, sealed(many_requests(64))), Intent)
    assert "65 requests" in str(refused(sealed(many_requests(65))))


def test_a_registration_that_points_elsewhere_is_refused() -> None:
    new = pin("node:New", n=44)
    made = Registration(new.key, new.identity, 1, new.type_id, "../elsewhere")
    body = encode_plan(plan(delta=Delta(register=(made,))))
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
    "a duplicate member": GOOD.replace(b'"format":2,', b'"format":2,"format":2,'),
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
