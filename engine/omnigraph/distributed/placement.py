"""Where a staged batch is judged, and which rows leave it: here with its keys held, here in passes, or by an exchange.

Owns that choice. Whatever is chosen, the rules and what they say are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from omnigraph.commit.txn import Txn
from omnigraph.distributed.batch_rows import ROW, PartInput
from omnigraph.distributed.driver import RowRef, SharedJudging
from omnigraph.distributed.key_checks import Judgement, adopt_in_passes, held_changes, judge_parts
from omnigraph.distributed.merge import Replacing, located, located_changes
from omnigraph.distributed.pass_rules import Room
from omnigraph.distributed.shuffle import Exchange, Passes
from omnigraph.distributed.stage_task import PartTask, at_pins
from omnigraph.write.base.changes import Mode, RecordingView, TypeChange
from omnigraph.write.base.rejects import Rejected
from omnigraph.write.rules.quarantine import sift
from omnigraph.write.rules.validate import Verdict


@dataclass(frozen=True)
class Sorted:
    """The rows that leave (``RowRef`` in the place of their records), the verdict on the others, and for a merge what these
    replace."""

    rejected: tuple[Rejected, ...]
    verdict: Verdict
    replacing: Callable[[str], Replacing]


@dataclass(frozen=True)
class Judges:
    """``exchange`` is used where comparing the keys of a table here would take more than ``room``, or ``always``."""

    room: Room = field(default_factory=lambda: Room.of(None))
    exchange: Exchange | None = None
    always: bool = False

    def judge(self, given: PartInput, txn: Txn, task: PartTask, mode: Mode) -> Judgement:
        exchange = self._chosen(given)
        if exchange is None:
            return judge_parts(given, txn, mode, self.room)
        shared = self._shared(given, txn, task, mode, exchange)
        answer = shared.judge()
        return Judgement(answer.verdict, adopted=dict(shared.adopted), addresses=answer.addresses)

    def sort(self, given: PartInput, txn: Txn, task: PartTask, mode: Mode) -> Sorted:
        """Set bad rows aside until the rest stands."""
        exchange = self._chosen(given)
        if exchange is None:
            judgement = judge_parts(given, txn, mode, self.room)
            if judgement.verdict.ok:
                return Sorted((), judgement.verdict, partial(located, txn, given, judgement))
            if all(self.room.is_plain(given.rows(key)) for key in given.shares):
                return _sort_held(given, txn, mode)
        shared = self._shared(given, txn, task, mode, exchange or Passes())
        answer = shared.sift()
        judgement = Judgement(answer.verdict, adopted=dict(shared.adopted), addresses=answer.addresses)
        return Sorted(answer.rejected, answer.verdict, partial(located, txn, given, judgement))

    def _chosen(self, given: PartInput) -> Exchange | None:
        beyond = any(given.rows(key) > self.room.rows for key in given.shares)
        return self.exchange if self.always or beyond else None

    def _shared(self, given: PartInput, txn: Txn, task: PartTask, mode: Mode, exchange: Exchange) -> SharedJudging:
        view = RecordingView(txn)
        adopted = {} if given.malformed else adopt_in_passes(given, txn, mode, self.room, view)
        task = at_pins(task, txn, txn.state.tables)
        memory_mb = self.room.memory_mb
        return SharedJudging(given, txn, task, mode, exchange, memory_mb, adopted, frozenset(view.reads))


def _sort_held(given: PartInput, txn: Txn, mode: Mode) -> Sorted:
    changes = held_changes(given, txn, mode)
    sifted = sift(changes, given.catalog, txn, limits=txn.engine.limits, record=_row_ref, values=False)
    kept = {change.table_key: change for change in sifted.changes}
    return Sorted(sifted.rejected, sifted.verdict, partial(located_changes, txn, given, kept))


def _row_ref(change: TypeChange, row: int) -> RowRef:
    return RowRef(change.table_key, int(change.rows.column(ROW)[row].as_py()))
