"""End an offer by an abort under its own commit id. Deleting its file alone is no end: a writer that has read it may still carry it
out, and then finds the abort, as the withdrawal would find the commit.
"""

from __future__ import annotations

from omnigraph.commit.advance import RECOVERY, Answer, Answered, GaveUp, Spots, Swap, Terms, advance
from omnigraph.commit.engine import Branch, Engine
from omnigraph.commit.properties import ABORT, OP, PLAN
from omnigraph.core.errors import OutcomeUnknown
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import AbortRow, HistoryRow
from omnigraph.manifest.state import Change
from omnigraph.manifest.swap import Held


def withdraw(
    engine: Engine, branch: Branch, op: str, commit_id: str, *, actor: str | None, meter: Meter
) -> tuple[HistoryRow | None, Held | None]:
    """Return the record that the offered request has already, and the state that has it; (None, None) where the abort was written
    now, or the line is closed, so that nothing lands on it any more.

    Raises ``OutcomeUnknown`` where neither can be brought about; the file has to stay then."""

    def propose(held: Held) -> Swap | Answer[HistoryRow | None]:
        # Over the whole line: an offer has no base, so it may have landed at any time since it was made.
        row = engine.history.find(held, commit_id, meter=meter)
        if row is not None or held.state.head.closed is not None:
            return Answer(row)
        now_us = engine.clock.now_us()
        abort = AbortRow(id=commit_id, plan=commit_id, actor=actor, base=held.version, created_at_us=now_us)
        return Swap(Change(history=(abort,)), {OP: op, PLAN: commit_id, ABORT: commit_id})

    terms = Terms(RECOVERY, spots=Spots("withdraw.before_swap", "withdraw.after_swap"))
    ended = advance(engine, branch, propose, terms, meter=meter)
    if isinstance(ended, GaveUp):
        raise OutcomeUnknown(
            f"the offer {op} could not be withdrawn; it is kept",
            hint=f"ask with `omnigraph commit outcome {commit_id}`, then recover again",
            commit_id=commit_id,
            operation_id=op,
        )
    if isinstance(ended, Answered) and ended.value is not None:
        engine.durable.acknowledge(ended.held.version, ended.held)
        return ended.value, ended.held
    return None, None
