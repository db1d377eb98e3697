"""The plan of prepared requests: built for a write that goes on, or to be shown. Nothing is staged, armed or committed here."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.commit.builder import Minting, Planned, build_plan
from omnigraph.commit.plan import RequestInfo
from omnigraph.commit.request import Prepared, Request
from omnigraph.commit.txn import Txn
from omnigraph.core.ids import new_ulid, new_uuid


def plan_of(txn: Txn, request: Request, prepared: Prepared, op: str) -> Planned:
    """The plan of a prepared write on the state of its transaction."""
    engine = txn.engine
    parent = txn.state.head.commit_id
    merged = () if prepared.merge is None else (prepared.merge["commit"],)
    infos: list[RequestInfo] = []
    for one in prepared.requests or (request,):
        infos.append(_info(one, (parent, *merged), new_ulid(engine.clock), engine.clock.now_us()))
        parent = infos[-1].id
    return build_plan(
        txn.state,
        prepared,
        op=op,
        graph=engine.graph_id,
        branch=request.branch,
        kind=infos[0].kind,
        requests=tuple(infos),
        owner=engine.owner,
        mint=Minting(lambda: new_ulid(engine.clock), new_uuid),
    )


def _info(request: Request, parents: tuple[str, ...], commit_id: str, now_us: int) -> RequestInfo:
    if request.carried is not None:
        return replace(request.carried, parents=parents, owned=False)
    if request.offering is not None and request.offering.info is not None:
        # Another writer may have read the offer, and may still carry it out: it is the same commit, in either plan.
        return replace(request.offering.info, parents=parents)
    return RequestInfo(
        id=commit_id,
        kind=request.kind,
        parents=parents,
        actor=request.actor,
        idempotency_key=request.idempotency_key,
        expect_head=request.expect_head,
        request=request.request,
        content=request.content,
        created_at_us=now_us,
    )
