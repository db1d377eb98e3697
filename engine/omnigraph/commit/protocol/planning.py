"""The plan of one request: built for a write that goes on, or to be shown. Nothing is staged, armed or committed here."""

from __future__ import annotations

from omnigraph.commit.builder import Minting, Planned, build_plan
from omnigraph.commit.plan import RequestInfo
from omnigraph.commit.request import Prepared, Request
from omnigraph.commit.txn import Txn
from omnigraph.core.ids import new_ulid, new_uuid


def plan_of(txn: Txn, request: Request, prepared: Prepared, op: str) -> Planned:
    """The plan of a prepared write on the state of its transaction."""
    engine = txn.engine
    info = RequestInfo(
        id=new_ulid(engine.clock),
        kind=request.kind,
        parents=(txn.state.head.commit_id, *(() if prepared.merge is None else (prepared.merge["commit"],))),
        actor=request.actor,
        idempotency_key=request.idempotency_key,
        expect_head=request.expect_head,
        request=request.request,
        content=request.content,
        created_at_us=engine.clock.now_us(),
    )
    return build_plan(
        txn.state,
        prepared,
        op=op,
        graph=engine.graph_id,
        branch=request.branch,
        kind=request.kind,
        requests=(info,),
        owner=engine.owner,
        mint=Minting(lambda: new_ulid(engine.clock), new_uuid),
    )
