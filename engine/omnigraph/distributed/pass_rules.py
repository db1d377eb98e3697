"""The rules about several rows, for batches whose keys are more than memory has budget for.

Owns how such a rule is divided over passes: a pass looks at the rows whose key falls to it by a hash, so that equal keys
meet in the same one. What a rule says is that of the rule it derives from; here no text is held, and the few that a message
shows are read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.schema.catalog import EdgeType, TableType
from omnigraph.table.arrays import positions
from omnigraph.table.key_set import digest_words, encode_words
from omnigraph.write.base import violations as v
from omnigraph.write.base.blocks import Block
from omnigraph.write.base.changes import Mode, PinnedView, RowIndex
from omnigraph.write.base.committed_rows import distinct
from omnigraph.write.base.rejects import Finding
from omnigraph.write.base.violations import Violation
from omnigraph.write.rules.edge_rules import CardinalityRule, Loose, NodePresence
from omnigraph.write.rules.key_rules import KeyedRows, Rewritten, UniqueRule

MEMORY_MB: Final = 512
"""For the keys of one pass, unless the caller says otherwise."""

ROW_BYTES: Final = 96
"""What a row costs the rule that looks at it, all in all."""

PLAIN_ROWS: Final = 1 << 20
"""Up to here a rule holds what it compares, and looks it up where the graph is much larger."""

_LATER: Final = np.uint64(40)  # slots are chosen by other bits of the same digest

ReadAgain = Callable[[int, Sequence[str]], list[Any]]


@dataclass(frozen=True)
class Budget:
    """How many rows a rule may hold at once."""

    rows: int

    @classmethod
    def of(cls, memory_mb: float | None) -> Budget:
        return cls(max(1, int((memory_mb or MEMORY_MB) * (1 << 20)) // ROW_BYTES))

    @property
    def memory_mb(self) -> float:
        return self.rows * ROW_BYTES / (1 << 20)

    def is_plain(self, rows: int) -> bool:
        return rows <= min(self.rows, PLAIN_ROWS)

    def passes(self, rows: int) -> list[Pass]:
        """One a pass_. A batch that fits is looked at as any other."""
        if self.is_plain(rows):
            return [Pass(0, 0)]
        count = ceil(rows / self.rows)
        return [Pass(number, count) for number in range(count)]


@dataclass(frozen=True)
class Pass:
    """The ``number``-th of ``count`` passes; a ``count`` of 0 is for rules that hold what they compare."""

    number: int
    count: int

    @property
    def is_plain(self) -> bool:
        return self.count == 0

    def mine(self, columns: Sequence[pa.Array[Any]]) -> npt.NDArray[np.bool_] | None:
        """Which of the keys fall to this pass; ``None`` means all."""
        if self.count <= 1:
            return None
        digest = digest_words([encode_words(column) for column in columns])[1]
        found: npt.NDArray[np.bool_] = (digest >> _LATER) % np.uint64(self.count) == np.uint64(self.number)
        return found


class PassUnique(UniqueRule):
    """One ``@unique`` tuple in one pass."""

    def __init__(
        self, declared: TableType, group: tuple[str, ...], mode: Mode, pass_: Pass, rows: int, again: ReadAgain
    ) -> None:
        super().__init__(declared, group, mode)
        self._keyed = KeyedRows(len(group), rows // pass_.count + 1, digest=True)
        self._pass = pass_
        self._again = again

    def _taking_part(self, columns: Sequence[pa.Array[Any]]) -> RowIndex | None:
        rows = super()._taking_part(columns)
        mine = self._pass.mine(columns if rows is None else [column.take(positions(rows)) for column in columns])
        if mine is None:
            return rows
        return np.flatnonzero(mine) if rows is None else rows[mine]

    def _keep(self, start: int, columns: Sequence[pa.Array[Any]]) -> None:
        """Nothing: texts are read again."""

    def _values(self, position: int) -> list[Any]:
        row = self._keyed.rows_at(np.array([position], dtype=np.int64))[0]
        return self._again(int(row), self._group)

    def _leading(self) -> pa.Array[Any] | None:
        return None


class PassCardinality(CardinalityRule):
    """The number of edges a source in one pass."""

    def __init__(
        self, edge: EdgeType, mode: Mode, rewritten: Rewritten, pass_: Pass, rows: int, again: ReadAgain
    ) -> None:
        super().__init__(edge, mode, rewritten)
        self._keyed = KeyedRows(1, rows // pass_.count + 1, digest=True)
        self._sources = self._keyed.keys
        self._pass = pass_
        self._again = again
        self._counts: npt.NDArray[np.int64] = np.zeros(rows // pass_.count + 1, dtype=np.int64)

    def feed(self, block: Block) -> None:
        self._wording = block.wording
        sources = block.batch.column("src")
        mine = self._pass.mine([sources])
        rows = None if mine is None else np.flatnonzero(mine)
        if rows is not None:
            sources = sources.take(positions(rows))
        if not len(sources):
            return
        self._keyed.add(block, rows, [sources])
        if len(self._sources) > len(self._counts):
            self._counts = np.concatenate([self._counts, np.zeros_like(self._counts), np.zeros(len(sources), np.int64)])
        # Rows of the same source are counted at the first of them.
        np.add.at(self._counts, self._sources.find(sources), 1)

    def ask(self, view: PinnedView, presence: NodePresence) -> Iterator[Finding | Loose]:
        card = self._edge.card
        counts = self._counts[: len(self._sources)]
        heads = np.flatnonzero(counts)
        if self._mode != "overwrite" and len(heads):
            counts = counts + self._committed(view, self._sources, None, len(counts))
        if card.max is not None:
            over = heads[counts[heads] > card.max]
            if len(over):
                yield self._exceeding(v.CARD_MAX, f"more than {card.max}", over, counts)
        if card.min:
            under = heads[counts[heads] < card.min]
            if len(under):
                yield self._exceeding(v.CARD_MIN, f"fewer than {card.min}", under, counts)
            yield from self._vacated(view, presence)

    def _exceeding(self, code: str, bound: str, heads: RowIndex, counts: RowIndex) -> Finding:
        rows = self._keyed.rows_at(heads)
        by_row = dict(zip(rows.tolist(), counts[heads].tolist(), strict=True))

        def describe(row: int) -> Violation:
            return self._bound(row, self._again(row, ["src"])[0], by_row[row], bound, code)

        return Finding(rows, describe, property="from")

    def _lost(self, view: PinnedView) -> pa.Array[Any]:
        """Sources of committed edges that the input gives again, or replaces all of."""
        key = self._edge.table_key
        if not view.rows(key):
            return pa.array([], pa.utf8())
        found: list[pa.Array[Any]] = []
        given = self._rewritten.given
        for batch in view.scan(key, ["src"] if self._mode == "overwrite" else ["id", "src"]):
            if self._mode != "overwrite":
                batch = batch.filter(pa.array(given.has(batch.column("id"))))
            sources = batch.column("src")
            mine = self._pass.mine([sources]) if len(sources) else None
            found.append(sources if mine is None else sources.filter(pa.array(mine)))
        return distinct(found, pa.utf8())


def forget_texts(rewritten: Rewritten, rows: int, *, keeps_ids: bool) -> None:
    """Let the ids of a table take as little as they can: 28 bytes or so a row, whatever their length."""
    rewritten.given_rows = KeyedRows(1, rows, digest=True)
    if not keeps_ids:
        rewritten.given_ids = _Forgetful()


class _Forgetful(list[Any]):
    """A list that keeps nothing: for ids that no rule looks up again."""

    def append(self, _: Any) -> None:
        return
