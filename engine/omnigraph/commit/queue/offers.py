"""Offers: a queue entry that holds the input of its write, so that a writer ahead may commit it together with its own.

Owned here is one offer from its file to its end. Its commit id is in the file, so any writer that has read it may land it: until a record
under that id stands, the request is neither repeated under another id nor called refused, and its file alone says nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.commit.offering import Offer, Offering
from omnigraph.commit.protocol.withdraw import withdraw
from omnigraph.commit.queue.refusals import Refusal, delete_refusal, read_refusal
from omnigraph.commit.request import CarriedOut, Outcome
from omnigraph.core.errors import OutcomeUnknown
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import AbortRow, CommitRow, HistoryRow, MergedRow
from omnigraph.manifest.swap import Held

if TYPE_CHECKING:
    from omnigraph.commit.engine import Branch, Engine
    from omnigraph.commit.plan import RequestInfo
    from omnigraph.commit.txn import Txn


class OwnOffer:
    """The offer of one write, if it makes one."""

    def __init__(self, engine: Engine, branch: Branch, offering: Offering | None, meter: Meter) -> None:
        self._engine = engine
        self._branch = branch
        self._offering = offering
        self._meter = meter

    @property
    def info(self) -> RequestInfo | None:
        return None if self._offering is None else self._offering.info

    @property
    def is_open(self) -> bool:
        """Whether another writer may land the request, as far as this one has seen."""
        return self.info is not None

    def encoded(self, txn: Txn) -> Offer | None:
        """What to offer in this state; None where the write may not share, or another handle uses the graph exclusively."""
        offering = self._offering
        if offering is None or offering.encode is None or txn.state.head.owner is not None:
            return None
        return offering.encode(txn)

    def begin(self, op: str, offer: Offer) -> None:
        """Called before the file is written: the answer to that may be lost."""
        assert self._offering is not None
        self._offering.op, self._offering.info = op, offer.info

    def close(self) -> None:
        """The request has ended, or the plan that its file holds now says how it ends."""
        if self._offering is not None:
            self._offering.info = None

    # --- its end --------------------------------------------------------------------------------------------------------

    def look(self, held: Held) -> None:
        """Raise ``CarriedOut`` where the request has landed. Where it was given up, the next plan gets a new id."""
        if self.info is not None:
            self._judge(self._engine.history.find(held, self.info.id, meter=self._meter), held)

    def withdraw(self) -> None:
        """End it by an abort, and clear away its files. Raises ``CarriedOut`` where it has landed instead."""
        info, offering = self.info, self._offering
        if info is None or offering is None:
            return
        engine, op = self._engine, offering.op
        row, held = withdraw(engine, self._branch, op, info.id, actor=info.actor, meter=self._meter)
        engine.intents.disarm(op, self._meter)
        delete_refusal(engine.store, op, self._meter)
        if row is not None and held is not None:
            self._judge(row, held)
        self.close()

    def _judge(self, row: HistoryRow | None, held: Held) -> None:
        if row is None:
            return
        if isinstance(row, AbortRow):
            self.close()
            return
        commit = row.row if isinstance(row, MergedRow) else row
        assert isinstance(commit, CommitRow)
        self._engine.durable.acknowledge(commit.version or held.version, held)
        swap = self._engine.history.swap_of(held, commit, self._meter)
        rows = (one for one in held.state.tail if isinstance(one, CommitRow))
        self._engine.timing.note_company(sum(one.plan == commit.plan for one in rows))
        self.close()  # not before: an error until here says nothing of the write
        raise CarriedOut(Outcome(commit, rows=(commit,), swap=swap))

    def refusal(self) -> Refusal | None:
        """Why a writer ahead did not carry it out, if that can be read and is about this request."""
        info, offering = self.info, self._offering
        if info is None or offering is None:
            return None
        found = read_refusal(self._engine.store, offering.op, self._meter)
        return found if found is not None and found.commit_id == info.id else None

    def unknown(self, why: str) -> OutcomeUnknown:
        info, offering = self.info, self._offering
        assert info is not None and offering is not None
        return OutcomeUnknown(
            f"write {info.id} has no known outcome: {why}; another writer may still carry it out",
            hint=f"ask with `omnigraph commit outcome {info.id}`; do not repeat the write blindly",
            commit_id=info.id,
            operation_id=offering.op,
        )
