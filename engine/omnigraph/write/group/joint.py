"""Rows of several requests as one change set a table, and which requests may be judged together. Pure but for look-ups.

The union of all rows is validated once. That says the same as judging one request after the other, as long as no request
leans on a later one, fills a lower bound that another has opened, names an id that another names, or gives way to another by
changing rows that are there: a request that might waits for the next group.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.schema.catalog import Catalog, EdgeType, TableType
from omnigraph.table.arrays import one_array, positions
from omnigraph.write.base.changes import Origin, PinnedView, RowIndex, TypeChange
from omnigraph.write.base.constants import ENDS
from omnigraph.write.group.member import Member
from omnigraph.write.rules.key_rules import unique_groups


@dataclass(frozen=True, eq=False)
class Candidate:
    """A member and its rows, by table key."""

    member: Member
    changes: Mapping[str, TypeChange]

    @cached_property
    def ids(self) -> Mapping[str, frozenset[str]]:
        """By table, the ids that it names: not those that were made for its rows."""
        return {key: _named(change) for key, change in self.changes.items()}

    @cached_property
    def leans_on(self) -> Mapping[str, frozenset[str]]:
        """By node table, the nodes that its edges refer to and that it does not bring itself."""
        found: dict[str, set[str]] = {}
        for change in self.changes.values():
            if isinstance(change.type, EdgeType):
                for end in ENDS:
                    node = change.type.src_type if end == "src" else change.type.dst_type
                    found.setdefault(f"node:{node}", set()).update(_texts(change.rows.column(end)))
        return {key: frozenset(ids - self.ids.get(key, frozenset())) for key, ids in found.items()}


@dataclass(frozen=True)
class Union:
    """The rows of several members in one table. ``owners``: for each row, the position of its member."""

    change: TypeChange
    owners: RowIndex


def _texts(column: Any) -> Iterator[str]:
    """Values that are there: a row without one is refused by its rule."""
    return (text for text in column.to_pylist() if text is not None)


def _named(change: TypeChange) -> frozenset[str]:
    if change.minted is True:
        return frozenset()
    ids = one_array(change.rows.column("id"), pa.utf8())
    return frozenset(_texts(ids.take(positions(np.flatnonzero(~change.minted_rows())))))


def union_of(candidates: Sequence[Candidate]) -> dict[str, Union]:
    """By table, in key order."""
    found: dict[str, Union] = {}
    for key in sorted({key for one in candidates for key in one.changes}):
        parts = [(at, one.changes[key]) for at, one in enumerate(candidates) if key in one.changes]
        owners = np.concatenate([np.full(change.rows.num_rows, at, dtype=np.int64) for at, change in parts])
        found[key] = Union(_joined([change for _, change in parts]), owners)
    return found


def _joined(changes: Sequence[TypeChange]) -> TypeChange:
    first = changes[0]
    if len(changes) == 1:
        return first
    adopted = None
    if any(change.adopted is not None for change in changes):
        adopted = np.concatenate([_mask(change.adopted, change.rows.num_rows) for change in changes])
    minted: Any = changes[0].minted
    if not all(change.minted is minted and isinstance(minted, bool) for change in changes):
        minted = np.concatenate([change.minted_rows() for change in changes])
    return replace(
        first,
        rows=pa.concat_tables([change.rows for change in changes]).combine_chunks(),
        minted=minted,
        origin=Origin(),
        kept=frozenset.intersection(*(change.kept for change in changes)),
        adopted=adopted,
        unnamed=None,
        completed=True,
    )


def _mask(mask: Any, rows: int) -> Any:
    return np.zeros(rows, dtype=np.bool_) if mask is None else mask


# --- who may be judged together -----------------------------------------------------------------------------------------


def separate(
    candidates: Sequence[Candidate], catalog: Catalog, view: PinnedView
) -> tuple[list[Candidate], list[Candidate]]:
    """Those whose union may be judged at once, and those that wait for the next group. Each keeps its order."""
    updated = _updated(candidates, view)
    together = _Together(catalog)
    waiting: set[int] = set()
    for one in candidates:
        if together.excludes(one, updated):
            waiting.add(id(one))
            continue
        early = together.leaning_on(one, view)
        if early:  # they are judged once the nodes that they need are there
            waiting.update(id(before) for before in early)
            together = _Together(catalog)
            for kept in candidates[: candidates.index(one)]:
                if id(kept) not in waiting:
                    together.add(kept, updated)
        together.add(one, updated)
    return (
        [one for one in candidates if id(one) not in waiting],
        [one for one in candidates if id(one) in waiting],
    )


@dataclass
class _Together:
    """What the members that are judged together do to each table."""

    catalog: Catalog
    modes: dict[str, str] = field(default_factory=dict)
    ids: dict[str, set[str]] = field(default_factory=dict)
    leaning: dict[str, dict[str, list[Candidate]]] = field(default_factory=dict)  # by node table and id
    updated: set[str] = field(default_factory=set)  # tables of which a member changes rows that may exclude others

    def excludes(self, one: Candidate, updated: Mapping[str, frozenset[str]]) -> bool:
        """Whether this member could be judged otherwise together with these than one after the other."""
        for key, change in one.changes.items():
            if key in self.modes and (
                self.modes[key] != change.mode
                or self.ids[key] & one.ids[key]
                or key in self.updated
                or _updates(one, key, updated)
            ):
                return True
            if self._opens(key, change.type):
                return True
        return False

    def _opens(self, key: str, declared: TableType) -> bool:
        """Whether a lower bound of edges is open between this table and those of the others."""
        if isinstance(declared, EdgeType):
            source = self.catalog.node(declared.src_type).table_key
            return bool(declared.card.min) and (key in self.modes or source in self.modes)
        return any(
            edge.card.min and edge.src_type == declared.name and edge.table_key in self.modes
            for edge in self.catalog.edges.values()
        )

    def leaning_on(self, one: Candidate, view: PinnedView) -> list[Candidate]:
        """Members before this one that need a node which only this one inserts."""
        found: dict[int, Candidate] = {}
        for key, ids in one.ids.items():
            by_id = self.leaning.get(key, {})
            needed = [each for each in ids if each in by_id]
            there = _committed(key, needed, view)
            for each in needed:
                if each not in there:
                    found.update((id(before), before) for before in by_id[each])
        return list(found.values())

    def add(self, one: Candidate, updated: Mapping[str, frozenset[str]]) -> None:
        for key, change in one.changes.items():
            self.modes[key] = change.mode
            self.ids.setdefault(key, set()).update(one.ids[key])
            if _updates(one, key, updated):
                self.updated.add(key)
        for key, ids in one.leans_on.items():
            by_id = self.leaning.setdefault(key, {})
            for each in ids:
                by_id.setdefault(each, []).append(one)


def _updated(candidates: Sequence[Candidate], view: PinnedView) -> dict[str, frozenset[str]]:
    """The committed ids that members name, in tables whose rows may exclude each other: what one row gives up, another could
    take. One look-up a table, and only where several members write it."""
    named: dict[str, list[frozenset[str]]] = {}
    for one in candidates:
        for key, change in one.changes.items():
            if change.mode != "append" and _is_bounded(change.type):
                named.setdefault(key, []).append(one.ids[key])
    return {key: _committed(key, frozenset().union(*listed), view) for key, listed in named.items() if len(listed) > 1}


def _updates(one: Candidate, key: str, updated: Mapping[str, frozenset[str]]) -> bool:
    adopted = one.changes[key].adopted
    if adopted is not None and adopted.any() and _is_bounded(one.changes[key].type):
        return True
    return bool(updated.get(key, frozenset()) & one.ids[key])


def _is_bounded(declared: TableType) -> bool:
    """Whether rows of the table may exclude each other by more than their ids."""
    return bool(unique_groups(declared)) or (isinstance(declared, EdgeType) and not declared.card.is_unbounded)


def _committed(key: str, ids: Collection[str], view: PinnedView) -> frozenset[str]:
    if not ids or not view.rows(key):
        return frozenset()
    asked = pa.array(sorted(ids), pa.utf8())
    return frozenset(_texts(asked.filter(view.contains(key, asked))))
