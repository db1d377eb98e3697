"""Rules between edges and nodes: endpoints exist, sources have as many edges as they may, nothing is left dangling.

As in ``key_rules`` feeding is local and asking is apart. Presence of nodes is kept once a node table, however many edge
types point at it, so that one question serves them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from omnigraph.schema.catalog import EdgeType, NodeType
from omnigraph.table.arrays import flags, own_copy, positions
from omnigraph.table.key_set import KeySet
from omnigraph.write.base import violations as v
from omnigraph.write.base.blocks import Block
from omnigraph.write.base.changes import Mode, PinnedView, RowIndex
from omnigraph.write.base.committed_rows import committed_rows, distinct, without
from omnigraph.write.base.constants import ENDS
from omnigraph.write.base.rejects import Finding, Missing
from omnigraph.write.base.violations import Violation, show_value
from omnigraph.write.base.wording import NOWHERE, Wording
from omnigraph.write.rules.key_rules import Rewritten

pc: Any = pyarrow.compute


@dataclass(frozen=True, slots=True)
class Loose:
    """Violations that no row of the input is to blame for; ``describe`` words the i-th, in order of ids."""

    count: int
    describe: Any


@dataclass(frozen=True, slots=True)
class Unresolved:
    """Endpoints that are not among the staged nodes."""

    block: Block
    end: str  # "src" or "dst"
    rows: RowIndex  # of the whole change
    texts: pa.Array[Any]


class NodePresence:
    """Which nodes of one type exist after the change."""

    def __init__(self, node: NodeType, staged: KeySet | None, *, replaced_all: bool, deleted: KeySet | None) -> None:
        self.node = node
        self._staged = staged if staged is not None else KeySet()
        self._replaced_all = replaced_all
        self._deleted = deleted
        self._found = KeySet()  # committed ids that were asked for and are there
        self._found_ids: list[pa.Array[Any]] = []

    def not_staged(self, texts: pa.Array[Any]) -> RowIndex:
        if not len(self._staged):
            return np.arange(len(texts), dtype=np.int64)
        return np.flatnonzero(~self._staged.has(texts))

    def missing(self, view: PinnedView, arrays: Sequence[pa.Array[Any]]) -> list[RowIndex]:
        """For arrays of texts that are not staged, the positions of those that are not committed either."""
        if self._replaced_all:
            return [np.arange(len(texts), dtype=np.int64) for texts in arrays]
        unknown = []
        for texts in arrays:
            new = np.flatnonzero(~self._found.has(texts)) if len(self._found) else None
            unknown.append(texts if new is None else texts.take(positions(new)))
        asked = distinct(unknown, pa.utf8())
        if len(asked) and view.rows(self.node.table_key):
            there = view.contains(self.node.table_key, asked)
            present = asked.filter(there)
            if self._deleted is not None and len(self._deleted) and len(present):
                present = present.filter(flags(~self._deleted.has(present)))
            if len(present):
                self._found.add(present)
                self._found_ids.append(present)
        return [np.flatnonzero(~self._found.has(texts)) for texts in arrays]

    def exists(self, view: PinnedView, texts: pa.Array[Any]) -> np.ndarray[Any, np.dtype[np.bool_]]:
        here = np.ones(len(texts), dtype=np.bool_)
        outside = self.not_staged(texts)
        if len(outside):
            gone = self.missing(view, [texts.take(positions(outside))])[0]
            here[outside[gone]] = False
        return here

    def forget_beyond(self, ids: int) -> None:
        """Give up what was found, so as not to grow with the input: it can be asked for again."""
        if len(self._found) > ids:
            self._found = KeySet()
            self._found_ids = []

    def still_there(self, view: PinnedView) -> bool:
        """Whether everything that was found is in another view as well."""
        return all(pc.all(view.contains(self.node.table_key, ids), min_count=0).as_py() for ids in self._found_ids)

    def alike(self) -> NodePresence:
        """The same knowledge without what was found since: for use on another thread."""
        return NodePresence(self.node, self._staged, replaced_all=self._replaced_all, deleted=self._deleted)

    def check(self, view: PinnedView, unresolved: Sequence[Unresolved]) -> Iterator[tuple[Unresolved, Finding]]:
        """Endpoints that do not exist, with one question for all."""
        if not unresolved:
            return
        missing = self.missing(view, [one.texts for one in unresolved])
        for one, at in zip(unresolved, missing, strict=True):
            if len(at):
                yield one, self._finding(one, one.rows[at], one.texts.take(positions(at)))

    def _finding(self, one: Unresolved, rows: RowIndex, texts: pa.Array[Any]) -> Finding:
        def describe(row: int) -> Violation:
            block = one.block
            text = block.batch.column(one.end)[row - block.first_row].as_py()
            reason = f"{show_value(text)} is no {self.node.name}"
            return block.wording.row(
                row, v.ENDPOINT, reason, property=ENDS[one.end], value=text, expected=f"id of a {self.node.name}"
            )

        return Finding(rows, describe, property=ENDS[one.end], missing=Missing(self.node.name, texts))


def unresolved_ends(block: Block, end: str, presence: NodePresence) -> Unresolved | None:
    """Searches the staged nodes only; safe to run beside others."""
    column: pa.Array[Any] = block.batch.column(end)
    rows = presence.not_staged(column)
    if not len(rows):
        return None
    texts = column if len(rows) == len(column) else column.take(positions(rows))
    return Unresolved(block, end, rows + block.first_row, texts)


class CardinalityRule:
    """How many edges of one type a source has after the change, for the sources that the change touches."""

    def __init__(self, edge: EdgeType, mode: Mode, rewritten: Rewritten) -> None:
        self._edge = edge
        self._mode = mode
        self._rewritten = rewritten
        self._wording = Wording(edge, NOWHERE)
        # Every row has a source, so a row's position in the set is the row.
        self._sources = KeySet()
        self._arrays: list[pa.Array[Any]] = []
        self._starts: list[int] = []
        self._firsts: list[RowIndex] = []  # per row, the first row of the same source

    def feed(self, block: Block) -> None:
        self._wording = block.wording
        self._starts.append(block.first_row)
        self._arrays.append(own_copy(block.batch.column("src")))
        self._firsts.append(self._sources.add(self._arrays[-1]))

    def ask(self, view: PinnedView, presence: NodePresence) -> Iterator[Finding | Loose]:
        """``presence``: of the source's node type."""
        card = self._edge.card
        firsts = np.concatenate([np.empty(0, dtype=np.int64), *self._firsts])
        counts = np.bincount(firsts, minlength=len(firsts))
        if self._mode != "overwrite" and self._arrays:
            counts += self._committed(view, self._sources, distinct(self._arrays, pa.utf8()), len(counts))
        heads = np.flatnonzero(firsts == np.arange(len(firsts)))
        if card.max is not None:
            over = heads[counts[heads] > card.max]
            if len(over):
                yield self._beyond(v.CARD_MAX, f"more than {card.max}", over, firsts, counts)
        if card.min:
            under = heads[counts[heads] < card.min]
            if len(under):
                yield self._beyond(v.CARD_MIN, f"fewer than {card.min}", under, firsts, counts)
            yield from self._vacated(view, presence)

    def _committed(self, view: PinnedView, sources: KeySet, wanted: pa.Array[Any] | None, positions: int) -> RowIndex:
        """Committed edges that stay, counted at the position of their source in ``sources``."""
        counts = np.zeros(positions, dtype=np.int64)
        # An append leaves every committed edge as it is: which one it is does not matter then.
        stay = self._mode == "append" and self._rewritten.deleted is None
        for batch in committed_rows(view, self._edge.table_key, "src", wanted, ["src"] if stay else ["id", "src"]):
            if not stay:
                batch = without(batch, self._rewritten.sets())
            if batch.num_rows:
                at = sources.find(batch.column("src"))
                counts += np.bincount(at[at >= 0], minlength=positions)
        return counts

    def _beyond(self, code: str, bound: str, heads: RowIndex, firsts: RowIndex, counts: RowIndex) -> Finding:
        """One violation a source, at its first row; all its rows are concerned."""
        rows = np.flatnonzero(np.isin(firsts, heads))

        def describe(row: int) -> Violation:
            head = int(firsts[row])
            return self._bound(row, self._text(head), int(counts[head]), bound, code)

        return Finding(heads, describe, others=rows, property="from")

    def _text(self, row: int) -> str:
        part = int(np.searchsorted(np.array(self._starts), row, side="right")) - 1
        text: str = self._arrays[part][row - self._starts[part]].as_py()
        return text

    def _bound(self, row: int | None, source: str, count: int, bound: str, code: str) -> Violation:
        reason = f"{show_value(source)} would have {count} edges, {bound}"
        card = self._edge.card
        expected = f"{card.min}..{'' if card.max is None else card.max}"
        if row is None:
            return self._wording.committed(code, reason, property="from", value=source, expected=expected, id=source)
        return self._wording.row(row, code, reason, property="from", value=source, expected=expected)

    # --- sources that lose edges -----------------------------------------------------------------------------------

    def _vacated(self, view: PinnedView, presence: NodePresence) -> Iterator[Loose]:
        """Sources whose committed edges go or move away, and that the change gives no edge."""
        lost = self._lost(view)
        if len(lost) and len(self._sources):
            lost = lost.filter(pa.array(~self._sources.has(lost)))
        if len(lost):
            lost = lost.filter(pa.array(presence.exists(view, lost)))
        if not len(lost):
            return
        counts = np.zeros(len(lost), dtype=np.int64)
        if self._mode != "overwrite":
            left = KeySet()
            left.add(lost)
            counts = self._committed(view, left, lost, len(lost))
        under = sorted((lost[i].as_py(), int(counts[i])) for i in np.flatnonzero(counts < self._edge.card.min).tolist())
        if under:
            bound = f"fewer than {self._edge.card.min}"
            yield Loose(len(under), lambda i: self._bound(None, under[i][0], under[i][1], bound, v.CARD_MIN))

    def _lost(self, view: PinnedView) -> pa.Array[Any]:
        key = self._edge.table_key
        found: list[pa.Array[Any]] = []
        if self._mode == "overwrite":
            if view.rows(key):
                found = [batch.column("src") for batch in view.scan(key, ["src"])]
            return distinct(found, pa.utf8())
        for ids, known in self._rewritten.asked():
            for batch in committed_rows(view, key, "id", ids, ["id", "src"]):
                if batch.num_rows:
                    found.append(batch.filter(pa.array(known.has(batch.column("id")))).column("src"))
        return distinct(found, pa.utf8())


def orphans(
    view: PinnedView,
    edge: EdgeType,
    node: NodeType,
    gone: pa.Array[Any],
    rewritten: Rewritten,
) -> Iterator[Loose]:
    """Committed edges of a type that stay and refer to nodes that go."""
    if not len(gone) or not view.rows(edge.table_key):
        return
    lost = KeySet()
    lost.add(gone)
    wording = Wording(edge, NOWHERE)
    found: list[tuple[Any, str, Any]] = []
    for end in ENDS:
        if (edge.src_type if end == "src" else edge.dst_type) != node.name:
            continue
        for batch in committed_rows(view, edge.table_key, end, gone, ["id", end]):
            batch = without(batch, rewritten.sets())
            if not batch.num_rows:
                continue
            hit = batch.filter(pa.array(lost.has(batch.column(end))))
            ids: list[Any] = hit.column("id").to_pylist()
            found += zip(ids, [ENDS[end]] * hit.num_rows, hit.column(end).to_pylist(), strict=True)
    if not found:
        return
    found.sort()  # as violations are, so that those which are shown are the first of them

    def describe(i: int) -> Violation:
        edge_id, end, text = found[i]
        reason = f"{show_value(edge_id)} would lose its {end!r} node {node.name} {show_value(text)}"
        return wording.committed(v.ORPHAN, reason, value=text, id=edge_id, expected=f"id of a {node.name}")

    yield Loose(len(found), describe)
