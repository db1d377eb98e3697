"""Plans and states made by hand for the tests of the commit protocol."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from omnigraph.commit.effects import BasePin, Effect, Target
from omnigraph.commit.plan import Base, BranchName, Delta, Owner, PublishPlan, ReadPin, RequestInfo
from omnigraph.manifest import rows as r
from omnigraph.manifest.schema_id import schema_id, shape_hash
from omnigraph.manifest.state import State, genesis

ULIDS = [f"01ARZ3NDEKTSV4RRFFQ69G5F{a}{b}" for a in "ABCDEFGH" for b in "0123456789"]
GRAPH, OP, COMMIT, OTHER_COMMIT, THIRD_COMMIT = ULIDS[:5]
OWNER = Owner("host", "boot", 42, 7)
RIVAL = Owner("elsewhere", "boot", 43, 8)
CANONICAL = '{"ir_version":1,"interfaces":[],"nodes":[],"edges":[]}'
SCHEMA = r.SchemaRow("node A { x: I32 }", CANONICAL, shape_hash(CANONICAL), schema_id(CANONICAL))


def pin(key: str, version: int = 3, *, n: int = 10, ref: str | None = None) -> r.Pin:
    kind, name = key.split(":")
    return r.Pin(
        key=key,
        identity=ULIDS[n],
        incarnation=1,
        type_id=ULIDS[n + 1],
        location=f"{kind}s/{name}-{ULIDS[n + 2]}.lance",
        ref=ref,
        version=version,
        rows=5,
        fragments=2,
        bytes=900,
        deleted_rows=1,
        unindexed_fragments=2,
        owner=GRAPH,
    )


W, V, R = pin("node:Written", n=10), pin("node:AlsoWritten", n=20), pin("node:Read", n=30)


def state(*pins: r.Pin, **changes: Any) -> State:
    first = genesis(
        identity=GRAPH, commit_id=OTHER_COMMIT, actor="x", created_at_us=1, schema=SCHEMA, pins=pins or (W, V, R)
    )
    return replace(first, **changes)


def effect(p: r.Pin, kind: str = "append", *, version: int | None = None, uuid: str | None = None) -> Effect:
    """A commit on top of this pin."""
    target = Target(p.location, p.ref, p.version + 1 if version is None else version, uuid or f"uuid-{p.key}")
    return Effect(kind, p.key, p.identity, base(p), target)


def base(p: r.Pin) -> BasePin:
    return BasePin(p.location, p.ref, p.version)


def create(p: r.Pin) -> Effect:
    return Effect("create", p.key, p.identity, None, Target(p.location, None, 1, f"uuid-{p.key}"))


def fork(p: r.Pin) -> Effect:
    return Effect("fork", p.key, p.identity, base(p), Target(p.location, f"f-{OP}", p.version, f"fork-{p.key}"))


def adopt(p: r.Pin, taken: r.Pin | None = None) -> Effect:
    return Effect("adopt", p.key, p.identity, base(p), None, taken or replace(p, version=p.version + 4))


def request(commit_id: str = COMMIT, **changes: Any) -> RequestInfo:
    return replace(RequestInfo(commit_id, "load", (OTHER_COMMIT,), "ada", None, None, 99), **changes)


def plan(**changes: Any) -> PublishPlan:
    found = PublishPlan(
        graph=GRAPH,
        op=OP,
        id=COMMIT,
        kind="load",
        branch=BranchName("main", GRAPH),
        base=Base(1, OTHER_COMMIT, 0, None, SCHEMA.id),
        effects=(effect(W),),
        reads=(ReadPin(R.key, R.identity, R.ref, R.version),),
        requests=(request(),),
        owner=OWNER,
        delta=Delta(),
    )
    return replace(found, **changes)


def commit_row(commit_id: str = COMMIT, **changes: Any) -> r.CommitRow:
    row = r.CommitRow(commit_id, commit_id, (OTHER_COMMIT,), "ada", 99, None, 2, "load", version=2)
    return replace(row, **changes)


def abort_row(commit_id: str = COMMIT, **changes: Any) -> r.AbortRow:
    return replace(r.AbortRow(commit_id, commit_id, None, 1, 5, version=2), **changes)
