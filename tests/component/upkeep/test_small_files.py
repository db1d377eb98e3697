"""Boundaries, checkpoints and records of cleanups: what is written comes back, what does not read is named and left."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import omnigraph as og
from omnigraph.commit.engine import MAIN, Engine
from omnigraph.core import documents
from omnigraph.core.errors import Corruption, OmnigraphError, Refused, UnsupportedStorage
from omnigraph.core.ids import new_ulid
from omnigraph.core.meter import Meter
from omnigraph.manifest.boundary import ALL, Boundary, boundary_note
from omnigraph.manifest.checkpoints import list_checkpoints
from omnigraph.store import layout
from omnigraph.testing.operations import append, keys_of
from omnigraph.upkeep import checkpoints
from omnigraph.upkeep.cleanup import plan_cleanup, run_cleanup
from omnigraph.upkeep.cleanup_record import read_record
from omnigraph.upkeep.repair import repair

Change = Callable[[dict[str, Any]], object]
ULID = "01BX5ZZKBKACTAV9WEVGEMMVRZ"


@pytest.fixture
def engine(engines: Callable[..., Engine]) -> Engine:
    return engines()


def changed(engine: Engine, key: str, change: Change) -> None:
    """Change the document; a change that returns bytes says what the whole object is."""
    body = json.loads(engine.store.get(key) or b"")
    made = change(body)
    engine.store.replace(key, made if isinstance(made, bytes) else documents.canonical(body))


WRONG: dict[str, Change] = {
    "nothing": lambda body: b"",
    "torn": lambda body: documents.canonical(body)[:-1],
    "no object": lambda body: b"[1]",
    "a member more": lambda body: body.update(more=1),
    "a member twice": lambda body: documents.canonical(body)[:-1] + b',"format":1}',
    "no actor": lambda body: body.pop("actor"),
    "an actor that is a number": lambda body: body.update(actor=5),
    "no number": lambda body: documents.canonical(body).replace(b'"format":1', b'"format":NaN'),
    "an earlier format": lambda body: body.update(format=0),
    "a later format": lambda body: body.update(format=2),
    "nested": lambda body: body.update(actor=json.loads("[" * 40 + "]" * 40)),
}


# --- boundaries ---------------------------------------------------------------------------------------------------------


def test_a_boundary_counts_by_its_name_and_its_body_is_for_people(engine: Engine) -> None:
    boundary = Boundary(engine.store)
    run = new_ulid()
    boundary.raise_to(ULID, 7, boundary_note(run, None, 5, "policy", "oldest"))
    assert boundary.value(ULID) == 7
    assert boundary.note(ULID, 7) == {"run": run, "actor": None, "at_us": 5, "policy": "policy", "oldest": "oldest"}
    assert boundary.note(ULID, 8) == {}
    boundary.raise_to(ULID, ALL)
    assert boundary.value(ULID) == ALL
    assert boundary.note(ULID, 8) == {}


@pytest.mark.parametrize(
    "body", [b"", b"x", b"[]", b'{"run":1}', b'{"at_us":1e400}', boundary_note(ULID, None, 1 << 80, "p", "o")]
)
def test_a_body_that_does_not_read_says_nothing_and_stops_nothing(engine: Engine, body: bytes) -> None:
    boundary = Boundary(engine.store)
    engine.store.create(layout.boundary_key(ULID, 7), body)
    assert boundary.value(ULID) == 7
    assert boundary.note(ULID, 1) == {}


def test_a_boundary_below_what_the_head_repeats_is_loud(engine: Engine) -> None:
    boundary = Boundary(engine.store)
    boundary.raise_to(ULID, 7)
    assert boundary.value(ULID, repeated=7) == 7
    with pytest.raises(Corruption):
        boundary.value(ULID, repeated=8)


def test_another_name_among_the_boundaries_is_loud(engine: Engine) -> None:
    engine.store.create(f"__boundary/{ULID}/7", b"")
    with pytest.raises(Corruption):
        Boundary(engine.store).value(ULID)


# --- checkpoints --------------------------------------------------------------------------------------------------------


def pinned(engine: Engine) -> str:
    checkpoints.create(engine, "week", at=None, branch=MAIN, actor="ada")
    return layout.checkpoint_key("week")


def test_a_checkpoint_has_exactly_its_members_in_canonical_form(engine: Engine) -> None:
    data = engine.store.get(pinned(engine)) or b""
    body = json.loads(data)
    assert data == documents.canonical(body)
    assert set(body) == {
        "format", "name", "commit_id", "branch", "identity", "ref", "manifest_version", "actor", "created_at_us",
    }  # fmt: skip
    held = engine.latest(MAIN)
    assert (body["commit_id"], body["ref"], body["identity"]) == (
        held.state.head.commit_id, None, held.state.identity,
    )  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        *WRONG.values(),
        lambda body: body.update(name="month"),
        lambda body: body.update(commit_id="x"),
        lambda body: body.update(identity="main"),
        lambda body: body.update(ref="main"),
        lambda body: body.update(ref=f"f-{ULID}"),
        lambda body: body.update(ref=f"g-{ULID}"),
        lambda body: body.update(manifest_version=0),
    ],
)
def test_a_checkpoint_that_does_not_read_is_named_and_stops_every_cleanup(engine: Engine, change: Change) -> None:
    key = pinned(engine)
    changed(engine, key, change)
    with pytest.raises((Corruption, UnsupportedStorage)) as caught:
        list_checkpoints(engine.store)
    assert caught.value.facts["object"] == key
    with pytest.raises(Refused) as refused:
        plan_cleanup(engine, keep=1, min_age="0s")
    assert refused.value.facts["reason"] == "unreadable-checkpoint"
    assert engine.store.get(key) is not None


def test_a_checkpoint_that_names_another_commit_of_its_version_stops_every_cleanup(engine: Engine) -> None:
    key = pinned(engine)
    changed(engine, key, lambda body: body.update(commit_id=new_ulid()))
    with pytest.raises(Refused):
        plan_cleanup(engine, keep=1, min_age="0s")


# --- records of cleanups ------------------------------------------------------------------------------------------------


def cleaned(engine: Engine) -> str:
    for name in "abc":
        append(engine, keys_of(1), [name])
    report = run_cleanup(engine, plan_cleanup(engine, keep=1, min_age="0s"), actor="ada")
    assert report.run is not None and report.versions
    return layout.cleanup_key(report.run)


def test_the_record_of_a_cleanup_has_exactly_its_members(engine: Engine) -> None:
    key = cleaned(engine)
    body = read_record(engine, key, Meter())
    assert body is not None
    assert engine.store.get(key) == documents.canonical(body)
    assert set(body) == {
        "format", "run", "actor", "started_at_us", "policy", "state", "boundaries", "oldest", "tables", "orphans",
        "given_up_files", "ended_at_us", "deleted",
    }  # fmt: skip
    assert (body["state"], body["actor"]) == ("done", "ada")
    assert set(body["deleted"]) == {"versions", "bytes", "errors"}
    assert all(set(table) == {"table_key", "location", "ref", "versions"} for table in body["tables"])


@pytest.mark.parametrize(
    "change",
    [
        *WRONG.values(),
        lambda body: body.update(run=new_ulid()),
        lambda body: body.update(state="started"),
        lambda body: body.update(state=["done"]),
        lambda body: body.update(given_up_files=["__manifest/data/x.lance"]),
        lambda body: body.update(given_up_files=[f"nodes/A-{ULID}.lance/data/../../../x"]),
    ],
)
def test_a_record_that_does_not_read_is_named_and_decides_nothing(engine: Engine, change: Change) -> None:
    key = cleaned(engine)
    changed(engine, key, change)
    with pytest.raises((Corruption, UnsupportedStorage)) as caught:
        read_record(engine, key, Meter())
    assert caught.value.facts["object"] == key
    append(engine, keys_of(1), ["d"])
    append(engine, keys_of(1), ["e"])
    report = run_cleanup(engine, plan_cleanup(engine, keep=1, min_age="0s"))
    assert report.versions
    assert any(key in error for error in report.errors), "it is reported"
    assert engine.store.get(key) is not None, "and left"


# --- quarantine ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\x00", b'{"format":1}'])
def test_an_intent_that_does_not_read_is_moved_aside_with_its_bytes_unchanged(engine: Engine, data: bytes) -> None:
    op = new_ulid()
    engine.store.create(layout.intent_key(op), data)
    with pytest.raises(Refused):
        repair(engine, confirm=True)
    assert engine.store.get(layout.intent_key(op)) == data
    report = repair(engine, confirm=True, force=True)
    assert report.quarantined == (layout.quarantine_key(op),)
    assert engine.store.get(layout.quarantine_key(op)) == data
    assert engine.store.get(layout.intent_key(op)) is None
    assert engine.intents.names() == []


def test_what_lies_in_the_quarantine_already_is_not_written_over(engine: Engine) -> None:
    op = new_ulid()
    engine.store.create(layout.intent_key(op), b"{")
    engine.store.create(layout.quarantine_key(op), b"other")
    with pytest.raises(Refused) as refused:
        repair(engine, confirm=True, force=True)
    assert refused.value.facts["reason"] == "quarantine-taken"
    assert engine.store.get(layout.intent_key(op)) == b"{"
    assert engine.store.get(layout.quarantine_key(op)) == b"other"


# --- notes --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a", "_a/b-c/d.e/f", "x" * 128])
def test_a_note_has_one_to_four_parts(any_root: str, name: str) -> None:
    with og.init(any_root, "node A { n: String @key }\n") as graph:
        graph.notes.put(name, b"1")
        assert graph.notes.get(name) == b"1" and graph.notes.list() == (name,)


@pytest.mark.parametrize("name", ["", "a/b/c/d/e", ".a", "-a", "a/", "a//b", "../a", "x" * 129, "a b", "a%2e"])
def test_another_name_is_no_note(engine: Engine, name: str) -> None:
    from omnigraph.upkeep.notes import Notes

    with pytest.raises(OmnigraphError):
        Notes(engine).put(name, b"1")
