"""The bytes of an intent file, format 2: a plan, a ticket that waits for its tables, or a ticket with its input.

Owns the values and how they are written. ``intent_reading`` reads them back and refuses what no writer makes.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph.commit import plan as p
from omnigraph.commit.effects import Effect
from omnigraph.core import documents
from omnigraph.manifest.rows import Pin

FORMAT = 2
INTENT_BYTES_MAX = 4 * 1024 * 1024
WAITING, OFFERED, ARMED, APPLIED, UNKNOWN = "waiting", "offered", "armed", "applied", "unknown"
STATES = (WAITING, OFFERED, ARMED, APPLIED)
OFFER_BYTES_MAX = 256 * 1024


# --- values -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ticket:
    """A queue entry: which tables a write will change, and the process that waits. There is no plan yet."""

    graph: str
    op: str
    kind: str
    branch: p.BranchName
    tables: tuple[tuple[str, str], ...]  # (key, identity)
    owner: p.Owner


@dataclass(frozen=True)
class Intent:
    """One file as read. ``plan`` where it is armed or applied, ``ticket`` where it waits or offers its input."""

    op: str
    state: str
    graph: str
    kind: str
    branch: p.BranchName
    owner: p.Owner
    keys: frozenset[str]
    stamp: str
    ticket: Ticket | None = None
    plan: p.PublishPlan | None = None
    applied: tuple[Pin, ...] | None = None
    durable: bool = False
    request: p.RequestInfo | None = None
    offer: Mapping[str, Any] | None = None
    why_unknown: str | None = None  # of a file that a later release has written


# --- writing ------------------------------------------------------------------------------------------------------------


def encode_plan(plan: p.PublishPlan, *, applied: Sequence[Pin] | None = None) -> bytes:
    """The file of an armed plan, or of an applied one. Raises ``LimitExceeded`` before anything is durable."""
    body = {
        **_common(plan.graph, plan.op, plan.kind, plan.branch, plan.owner),
        "plan": plan.id,
        "state": ARMED if applied is None else APPLIED,
        "base": _members(plan.base),
        "effects": [_effect(effect) for effect in plan.effects],
        "reads": [_members(read) for read in plan.reads],
        "delta": _delta(plan.delta),
        "sources": [
            {**vars(source), "tables": [{**vars(t), "bases": _bases(t.bases)} for t in source.tables]}
            for source in plan.sources
        ],
        "merge": None if plan.merge is None else dict(plan.merge),
        "reverts": None if plan.reverts is None else list(plan.reverts),
        "requests": [_request(request) for request in plan.requests],
        "applied": None if applied is None else [pin_row(pin) for pin in applied],
        "durable": applied is not None,
    }
    return _sealed(body)


def encode_ticket(ticket: Ticket) -> bytes:
    return _sealed(_waiting(ticket))


def encode_offer(ticket: Ticket, request: p.RequestInfo, offer: Mapping[str, Any]) -> bytes:
    """A ticket that carries its input, so that the writer ahead of it may carry it out."""
    from omnigraph.commit.intent_models import OfferModel  # of pydantic, which most commands never need for an intent

    return _sealed(
        {
            **_waiting(ticket),
            "state": OFFERED,
            "requests": [_request(request)],
            "offer": OfferModel(**offer).model_dump(),
        }
    )


def _waiting(ticket: Ticket) -> dict[str, Any]:
    effects = [
        {"kind": "rows", "key": key, "identity": identity, "base": None, "target": None, "pin_row": None}
        for key, identity in ticket.tables
    ]
    return {
        **_common(ticket.graph, ticket.op, ticket.kind, ticket.branch, ticket.owner),
        "state": WAITING,
        "effects": effects,
    }


def _common(graph: str, op: str, kind: str, branch: p.BranchName, owner: p.Owner) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "graph": graph,
        "op": op,
        "plan": None,
        "kind": kind,
        "branch": _members(branch),
        "base": None,
        "reads": [],
        "delta": _delta(p.Delta()),
        "sources": [],
        "merge": None,
        "reverts": None,
        "requests": [],
        "applied": None,
        "offer": None,
        "durable": False,
        "owner": _members(owner),
    }


def _members(value: Any) -> dict[str, Any]:
    """The members of a flat value. Not ``asdict``, which copies every one of them deeply."""
    return dict(vars(value))


def _effect(effect: Effect) -> dict[str, Any]:
    return {
        "kind": effect.kind,
        "key": effect.key,
        "identity": effect.identity,
        "base": None if effect.base is None else _members(effect.base),
        "target": None if effect.target is None else _members(effect.target),
        "pin_row": None if effect.pin_row is None else pin_row(effect.pin_row),
    }


def pin_row(pin: Pin) -> dict[str, Any]:
    """A pin with everything that its two rows in the manifest say."""
    recent = pin.recent
    return {
        "key": pin.key,
        "identity": pin.identity,
        "incarnation": pin.incarnation,
        "type_id": pin.type_id,
        "location": pin.location,
        "ref": pin.ref,
        "version": pin.version,
        "rows": pin.rows,
        "fragments": pin.fragments,
        "bytes": pin.bytes,
        "deleted_rows": pin.deleted_rows,
        "unindexed_fragments": pin.unindexed_fragments,
        "owner": pin.owner,
        "bases": [[base.ref, base.version, base.needed] for base in pin.bases],
        "recent": None
        if recent is None
        else {"fragments": list(recent.fragments), "keys": base64.b64encode(recent.keys).decode()},
    }


def _bases(bases: Sequence[tuple[str | None, int, bool]]) -> list[list[Any]]:
    return [list(base) for base in bases]


def _delta(delta: p.Delta) -> dict[str, Any]:
    schema = delta.schema
    return {
        "schema": None
        if schema is None
        else {
            "source": schema.source,
            "canonical": schema.canonical,
            "hash": schema.hash,
            "id": schema.id,
            "steps": [dict(step) for step in delta.steps],
        },
        "register": [_members(registration) for registration in delta.register],
        "tombstone": [_members(tombstone) for tombstone in delta.tombstone],
        "rename": [
            {"identity": one.identity, "from": one.from_key, "to": one.to_key, "incarnation": one.incarnation}
            for one in delta.rename
        ],
    }


def _request(request: p.RequestInfo) -> dict[str, Any]:
    return {**vars(request), "parents": list(request.parents)}


def _sealed(body: Mapping[str, Any]) -> bytes:
    return documents.check_size(documents.seal(body), "the plan of this write", "intent_bytes", INTENT_BYTES_MAX)
