"""What became of a write, as the caller of ``graph.outcome`` sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from omnigraph.commit.engine import MAIN
from omnigraph.commit.recovery.outcome import Fate
from omnigraph.manifest.rows import CommitRow
from omnigraph.write.receipt import Receipt, table_changes


@dataclass(frozen=True)
class Outcome:
    """``state`` is landed, aborted, pending or absent; landed carries the receipt, pending the operation, absent the branches
    that were ``searched``: on a branch that was deleted since, the commit may have landed."""

    state: str
    commit_id: str
    receipt: Receipt | None = None
    operation_id: str | None = None
    searched: tuple[str, ...] = ()

    @property
    def landed(self) -> bool:
        return self.state == "landed"

    @property
    def aborted(self) -> bool:
        return self.state == "aborted"

    @property
    def pending(self) -> bool:
        return self.state == "pending"

    @property
    def absent(self) -> bool:
        return self.state == "absent"

    def to_dict(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "commit_id": self.commit_id,
            "receipt": None if self.receipt is None else self.receipt.to_dict(),
            "operation_id": self.operation_id,
            "searched": list(self.searched),
        }

    def __str__(self) -> str:
        return self.state


def outcome_of(fate: Fate, commit_id: str) -> Outcome:
    receipt = None
    if isinstance(fate.row, CommitRow):
        receipt = Receipt(commit_id, fate.branch or MAIN, table_changes(fate.row))
    return Outcome(fate.state, commit_id, receipt, fate.operation_id, fate.searched)
