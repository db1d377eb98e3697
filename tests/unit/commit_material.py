"""Plans and states made by hand for the tests of the commit protocol."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from omnigraph.commit.plan import Base, BranchName, CommitInfo, Delta, Owner, PublishPlan, ReadPin, TablePlan
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


def table_plan(p: r.Pin, *uuids: str, creates: bool = False) -> TablePlan:
    return TablePlan(p.key, p.identity, p.location, p.ref, p.version, uuids or (f"uuid-{p.key}",), creates)


def plan(**changes: Any) -> PublishPlan:
    base = PublishPlan(
        graph=GRAPH,
        op=OP,
        kind="load",
        branch=BranchName("main", GRAPH),
        base=Base(1, OTHER_COMMIT, 0, None, SCHEMA.hash),
        tables=(table_plan(W),),
        reads=(ReadPin(R.key, R.identity, R.ref, R.version),),
        commit=CommitInfo(COMMIT, (OTHER_COMMIT,), "ada", None, None, 99),
        owner=OWNER,
        delta=Delta(),
    )
    return replace(base, **changes)


def commit_row(commit_id: str = COMMIT, **changes: Any) -> r.CommitRow:
    return replace(r.CommitRow(commit_id, commit_id, (OTHER_COMMIT,), "ada", 99, None, 2, "load"), **changes)
