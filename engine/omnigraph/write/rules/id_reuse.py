"""Ids for edges that a merge gives without one: an edge that is committed already keeps the id it has.

Only where the type declares a unique tuple over both endpoints at least: then the tuple says which edge is meant, and
loading the same edges twice changes nothing. Owns that look-up; whether the tuples are unique is the validator's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from omnigraph.schema.catalog import EdgeType
from omnigraph.table.arrays import one_array, positions
from omnigraph.table.key_set import KeySet
from omnigraph.write.base.changes import PinnedView, TypeChange
from omnigraph.write.base.committed_rows import committed_rows, distinct

pc: Any = pyarrow.compute


def identifying_group(edge: EdgeType) -> tuple[str, ...] | None:
    """The first declared tuple that holds both endpoints and can be compared."""
    for group in edge.uniques:
        if {"src", "dst"} <= set(group):
            others = [edge.property(name).type for name in group if name not in ("src", "dst")]
            if all(kind.is_keyable for kind in others):
                return group
    return None


def adopt_ids(change: TypeChange, view: PinnedView) -> TypeChange:
    """The change with committed ids in the place of made ones where the edge is there already.

    Of rows that are equal in the tuple only the first takes the id: that they are two is said by the rule of the tuple,
    not by an id that the input never had.
    """
    edge = change.type
    if not isinstance(edge, EdgeType) or change.mode != "merge" or change.minted is False:
        return change
    group = identifying_group(edge)
    if group is None:
        return change
    fresh = np.flatnonzero(change.minted_rows())
    table = change.rows.select(list(group)).take(positions(fresh))
    full = np.flatnonzero(_all_valid(table))
    if not len(full):
        return change
    fresh, table = fresh[full], table.take(positions(full))
    keys = KeySet(len(group), len(fresh))
    firsts = keys.add(*[one_array(table.column(name), table.schema.field(name).type) for name in group])
    found: dict[int, str] = {}
    sources = distinct(table.column("src").chunks, pa.utf8())
    for batch in committed_rows(view, edge.table_key, "src", sources, list(dict.fromkeys(("id", *group)))):
        batch = batch.drop_null()
        if not batch.num_rows:
            continue
        at = keys.find(*[batch.column(name) for name in group])
        ids: list[Any] = batch.column("id").to_pylist()
        for i in np.flatnonzero(at >= 0).tolist():
            position = int(firsts[at[i]])
            found[position] = min(ids[i], found.get(position, ids[i]))
    return _with_ids(change, {int(fresh[position]): text for position, text in found.items()}) if found else change


def _all_valid(table: pa.Table) -> Any:
    valid = np.ones(table.num_rows, dtype=np.bool_)
    for column in table.columns:
        if column.null_count:
            valid &= np.asarray(pc.is_valid(column))
    return valid


def _with_ids(change: TypeChange, found: dict[int, str]) -> TypeChange:
    rows = np.array(sorted(found), dtype=np.int64)
    mask = np.zeros(change.rows.num_rows, dtype=np.bool_)
    mask[rows] = True
    ids = pc.replace_with_mask(
        one_array(change.rows.column("id"), pa.utf8()),
        pa.array(mask),
        pa.array([found[row] for row in rows.tolist()], pa.utf8()),
    )
    minted = change.minted_rows() & ~mask
    return replace(
        change,
        rows=change.rows.set_column(0, change.rows.schema.field("id"), ids),
        minted=minted if minted.any() else False,
        adopted=mask,
    )
