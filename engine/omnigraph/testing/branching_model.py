"""The reference model of branches: commits with their contents, and merges computed from all of them, without any cleverness.

A commit is the whole content of a branch, its schema, and its parents. What two commits have in common is found by walking all
ancestors; a merge and an undo are the same rule for each row of three states. Properties and types have an identity that they keep
through renames: the content goes by it, and ``shown`` gives the names that a schema has for it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from omnigraph.testing.model import EDGES, NODES, Rows

Content = dict[str, Rows]  # by the identity of the type, and id
FIXED = (*NODES, *EDGES)
AMBIGUOUS: dict[str, Any] = {"": "several values, and nothing says which"}


class Clash(Exception):
    """What one side did to a row cannot be joined with what the other did."""


@dataclass(frozen=True)
class Shape:
    """What a schema has that may change: properties of a person, by identity, with name and kind; node types beside the first ones,
    by identity, with their name."""

    props: Mapping[str, tuple[str, str]] = field(default_factory=lambda: {"age": ("age", "I32")})
    types: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Node:
    """One commit. ``schema_id``: the engine's own name for its schema."""

    id: str
    parents: tuple[str, ...]
    content: Content
    shape: Shape
    branch: str
    schema_id: str | None = None


@dataclass
class Branching:
    """Every commit, and the newest of each branch."""

    nodes: dict[str, Node] = field(default_factory=dict)
    heads: dict[str, str] = field(default_factory=dict)

    def head(self, branch: str) -> Node:
        return self.nodes[self.heads[branch]]

    def commit(
        self,
        branch: str,
        commit_id: str,
        content: Content,
        shape: Shape | None = None,
        *others: str,
        schema_id: str | None = None,
    ) -> None:
        before = self.heads.get(branch)
        parents = (*(() if before is None else (before,)), *others)
        kept = shape if shape is not None else self.nodes[before].shape if before is not None else Shape()
        self.nodes[commit_id] = Node(commit_id, parents, copy.deepcopy(content), kept, branch, schema_id)
        self.heads[branch] = commit_id

    def ancestors(self, *commit_ids: str) -> set[str]:
        """These commits and all before them."""
        found: set[str] = set()
        todo = list(commit_ids)
        while todo:
            one = todo.pop()
            if one not in found:
                found.add(one)
                todo += self.nodes[one].parents
        return found

    def maximal(self, commit_ids: Iterable[str]) -> list[str]:
        """Those that are no ancestor of another one."""
        given = set(commit_ids)
        return sorted(one for one in given if not any(one in self.ancestors(other) for other in given - {one}))

    def bases(self, one: str, other: str) -> list[str]:
        return self.maximal(self.ancestors(one) & self.ancestors(other))

    def base_content(self, bases: list[str], shape: Shape) -> Content:
        """What a merge compares with: the bases themselves merged, over what these have in common."""
        made, reached = lifted(self.nodes[bases[0]].content, shape), self.ancestors(bases[0])
        for base in bases[1:]:
            common = self.maximal(reached & self.ancestors(base))
            other = lifted(self.nodes[base].content, shape)
            made = merged(self.base_content(common, shape), made, other, is_base=True)
            reached |= self.ancestors(base)
        return made

    def base_shape(self, bases: list[str]) -> Shape | None:
        """The schema of the bases; None where they differ."""
        shapes = [self.nodes[one].shape for one in bases]
        return shapes[0] if all(one == shapes[0] for one in shapes) else None

    def merge(self, source: str, into: str) -> tuple[Content, Shape]:
        """The content and the schema that the branch ``into`` has after the merge. Raises ``Clash``."""
        bases = self.bases(self.heads[source], self.heads[into])
        known = self.base_shape(bases)
        assert known is not None
        theirs, mine = self.head(source), self.head(into)
        shape = merged_shape(known, theirs.shape, mine.shape)
        for base in bases:
            for side in (theirs, mine):
                refuse_losses(self.nodes[base], side, shape)
        three = self.base_content(bases, shape), lifted(theirs.content, shape), lifted(mine.content, shape)
        return merged(*three), shape

    def undo(self, commit_id: str, branch: str) -> Content:
        """The content without what a commit did. Raises ``Clash``."""
        node, head = self.nodes[commit_id], self.head(branch)
        before = self.nodes[node.parents[0]]
        for side in (before, head):
            refuse_losses(node, side, head.shape)
        return merged(*(lifted(one.content, head.shape) for one in (node, before, head)))

    def line(self, branch: str) -> list[str]:
        """The commits of a branch and of those that it was made from, newest first."""
        found = [self.heads[branch]]
        while self.nodes[found[-1]].parents:
            found.append(self.nodes[found[-1]].parents[0])
        return found


# --- schemas ------------------------------------------------------------------------------------------------------------


def merged_shape(base: Shape, source: Shape, target: Shape) -> Shape:
    """Three schemas merged, each element on its own. Raises ``Clash``."""
    if source in (base, target):
        return target
    if target == base:
        return source
    props = {
        known: tuple(_chosen(*parts) for parts in zip(*three, strict=True)) if len(three) == 3 else three[0]
        for known, three in _kept(base.props, source.props, target.props)
    }
    types = {
        known: _chosen(*three) if len(three) == 3 else three[0]
        for known, three in _kept(base.types, source.types, target.types)
    }
    return Shape(props, types)


def _kept(base: Mapping[str, Any], source: Mapping[str, Any], target: Mapping[str, Any]) -> Any:
    """The elements that stay: with the three that they are merged from, or the one that was added."""
    for known in sorted({*base, *source, *target}):
        was, one, other = base.get(known), source.get(known), target.get(known)
        if was is None:
            yield known, (other if other is not None else one,)
        elif one is not None and other is not None:
            yield known, (was, one, other)
        else:
            left = one if one is not None else other
            if left is not None and left != was:
                raise Clash("dropped on one side, changed on the other")


def _chosen(base: Any, source: Any, target: Any) -> Any:
    if source in (base, target):
        return target
    if target == base:
        return source
    raise Clash("an element of the schema")


def refuse_losses(base: Node, side: Node, shape: Shape) -> None:
    """Raise ``Clash`` where a side has changed what the merged schema does not have any more."""
    for known in base.shape.types.keys() & side.shape.types.keys() - shape.types.keys():
        if base.content[known] != side.content[known]:
            raise Clash("rows of a type that was dropped")
    for known in base.shape.props.keys() & side.shape.props.keys() - shape.props.keys():
        for id_, row in side.content["Person"].items():
            was = base.content["Person"].get(id_)
            if row[known] != (None if was is None else was[known]):
                raise Clash("values of a property that was dropped")


def lifted(content: Mapping[str, Rows], shape: Shape) -> Content:
    """Rows of another schema as this one has them: what it has besides is null, what it lacks is left out."""
    found = {name: {id_: dict(row) for id_, row in content.get(name, {}).items()} for name in (*FIXED, *shape.types)}
    fixed = ("id", "name", "mail")
    for id_, row in found["Person"].items():
        found["Person"][id_] = {name: row.get(name) for name in (*fixed, *shape.props)}
    return found


def shown(content: Mapping[str, Rows], shape: Shape) -> Content:
    """The same under the names of the schema."""
    found = {shape.types.get(known, known): rows for known, rows in content.items()}
    names = {known: name for known, (name, _) in shape.props.items()}
    found["Person"] = {
        id_: {names.get(known, known): value for known, value in row.items()} for id_, row in content["Person"].items()
    }
    return found


# --- rows ---------------------------------------------------------------------------------------------------------------


def merged(base: Content, source: Content, target: Content, *, is_base: bool = False) -> Content:
    """``is_base``: rows that clash become ambiguous instead of ending the merge."""
    found: Content = {name: {} for name in target}
    for name, rows in found.items():
        for id_ in sorted({*base[name], *source[name], *target[name]}):
            try:
                row = merged_row(base[name].get(id_), source[name].get(id_), target[name].get(id_))
            except Clash:
                if not is_base:
                    raise
                row = AMBIGUOUS
            if row is not None:
                rows[id_] = row
    return found


def merged_row(*rows: Any) -> dict[str, Any] | None:
    """Of base, source and target. A property that a row does not have is null: it was added later."""
    names = sorted({name for row in rows if row is not None and row != AMBIGUOUS for name in row})
    base, source, target = (
        row if row is None or row == AMBIGUOUS else {name: row.get(name) for name in names} for row in rows
    )
    if source == target:
        kept: dict[str, Any] | None = target
        return kept
    if AMBIGUOUS in (base, source, target):
        raise Clash("ambiguous")
    if source == base or target == base:
        one: dict[str, Any] | None = target if source == base else source
        return one
    if base is None or source is None or target is None:
        raise Clash("a row that one side does not have")
    return {name: _value(base[name], source[name], target[name]) for name in names}


def _value(base: Any, source: Any, target: Any) -> Any:
    if source == target or source == base:
        return target
    if target == base:
        return source
    raise Clash("a property")
