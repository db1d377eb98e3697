"""Which indexes the schema asks for, and what is to be done so that a table has them. Pure.

Only one column at a time is indexed. A list and a blob have no index; a vector has one once there is a value to train it on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from omnigraph.schema import EdgeType, NodeType, Property, ScalarKind, TableType
from omnigraph.table.indices import BTREE, INVERTED, SEGMENTS_MAX, VECTOR, IndexSpec, IndexState

_BTREE_KINDS = frozenset(
    {ScalarKind.BOOL, ScalarKind.DATE, ScalarKind.DATETIME, *(kind for kind in ScalarKind if kind.is_numeric)}
)


class Need(Enum):
    """What an index needs."""

    NOTHING = "nothing"
    BUILD = "build"  # there is none, or another kind of one
    FOLD = "fold"  # fragments came that it does not cover
    REWRITE = "rewrite"  # it is in too many pieces


@dataclass(frozen=True)
class IndexWork:
    """One index to be written: over which fragments, and whether what is there goes."""

    spec: IndexSpec
    need: Need
    fragments: frozenset[int]
    replaces: bool


def wanted_indices(declared: TableType) -> tuple[IndexSpec, ...]:
    """What the schema asks of one table, by column."""
    found = {"id": IndexSpec("id", BTREE)}
    if isinstance(declared, EdgeType):
        found.update(src=IndexSpec("src", BTREE), dst=IndexSpec("dst", BTREE))
    asked = [names[0] for names in declared.indexes if len(names) == 1]
    if isinstance(declared, NodeType) and declared.key is not None and len(declared.key) == 1:
        asked.append(declared.key[0])
    for name in asked:
        kind = BTREE if name in ("src", "dst") else kind_of(declared.property(name))
        if kind is not None:
            found.setdefault(name, IndexSpec(name, kind))
    return tuple(found[name] for name in sorted(found))


def kind_of(declared: Property) -> str | None:
    """The kind of index that a property's values can have."""
    kind = declared.type
    if kind.is_list or kind.scalar is ScalarKind.BLOB:
        return None
    if kind.scalar is ScalarKind.VECTOR:
        return VECTOR
    if kind.enum is not None or kind.scalar in _BTREE_KINDS:
        return BTREE
    return INVERTED


def need_of(
    spec: IndexSpec, there: IndexState | None, fragments: frozenset[int], *, settles: bool = False
) -> IndexWork:
    """What one index needs on a table of these fragments. ``settles``: nothing of it may lie in the folder of another line."""
    if there is None or there.kind != spec.kind:
        return IndexWork(spec, Need.BUILD, fragments, replaces=there is not None)
    if settles and there.inherited:
        return IndexWork(spec, Need.REWRITE, fragments, replaces=True)
    uncovered = fragments - there.covered
    live = [segment for segment in there.segments if segment]
    if len(live) + bool(uncovered) > SEGMENTS_MAX:
        return IndexWork(spec, Need.REWRITE, fragments, replaces=True)
    if uncovered:
        return IndexWork(spec, Need.FOLD, uncovered, replaces=False)
    return IndexWork(spec, Need.NOTHING, frozenset(), replaces=False)


def needs_of(
    wanted: tuple[IndexSpec, ...],
    there: Mapping[str, IndexState],
    fragments: frozenset[int],
    *,
    settles: bool = False,
) -> tuple[IndexWork, ...]:
    """Everything to be done, by column. Nothing on a table without fragments."""
    if not fragments:
        return ()
    works = []
    for spec in wanted:
        named = _named(spec, there)
        works.append(need_of(named, there.get(named.name), fragments, settles=settles))
    return tuple(work for work in works if work.need is not Need.NOTHING)


def _named(spec: IndexSpec, there: Mapping[str, IndexState]) -> IndexSpec:
    """The index under the name that it has, or one that no index of another column has: names outlive renames of columns."""
    mine = sorted((one for one in there.values() if one.column == spec.column), key=lambda one: one.name != spec.name)
    found = next((one for one in mine if one.kind == spec.kind), mine[0] if mine else None)
    if found is not None:
        return replace(spec, called=found.name)
    number, name = 1, spec.name
    while name in there:
        number += 1
        name = f"{spec.name}_{number}"
    return replace(spec, called=name)
