"""The reference model of branches: commits with their contents, and merges computed from all of them, without any cleverness.

A commit is the whole content of a branch, and its parents. What two commits have in common is found by walking all ancestors; a
merge and an undo are the same rule for each row of three states.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from omnigraph.testing.model import Rows

Content = dict[str, Rows]  # by type and id
AMBIGUOUS: dict[str, Any] = {"": "several values, and nothing says which"}


class Clash(Exception):
    """What one side did to a row cannot be joined with what the other did."""


@dataclass(frozen=True)
class Node:
    """One commit. ``added``: the properties of a person that the schema has beside the first ones."""

    id: str
    parents: tuple[str, ...]
    content: Content
    added: frozenset[str]
    branch: str


@dataclass
class Branching:
    """Every commit, and the newest of each branch."""

    nodes: dict[str, Node] = field(default_factory=dict)
    heads: dict[str, str] = field(default_factory=dict)

    def head(self, branch: str) -> Node:
        return self.nodes[self.heads[branch]]

    def commit(
        self, branch: str, commit_id: str, content: Content, added: frozenset[str] | None = None, *others: str
    ) -> None:
        before = self.heads.get(branch)
        parents = (*(() if before is None else (before,)), *others)
        kept = added if added is not None else self.nodes[before].added if before is not None else frozenset()
        self.nodes[commit_id] = Node(commit_id, parents, copy.deepcopy(content), kept, branch)
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

    def base_content(self, bases: list[str]) -> Content:
        """What a merge compares with: the bases themselves merged, over what these have in common."""
        made, reached = self.nodes[bases[0]].content, self.ancestors(bases[0])
        for base in bases[1:]:
            common = self.maximal(reached & self.ancestors(base))
            made = merged(self.base_content(common), made, self.nodes[base].content, is_base=True)
            reached |= self.ancestors(base)
        return made

    def merge(self, source: str, into: str) -> Content:
        """The content that the branch ``into`` has after the merge. Raises ``Clash``."""
        bases = self.bases(self.heads[source], self.heads[into])
        return merged(self.base_content(bases), self.head(source).content, self.head(into).content)

    def undo(self, commit_id: str, branch: str) -> Content:
        """The content without what a commit did. Raises ``Clash``."""
        node = self.nodes[commit_id]
        return merged(node.content, self.nodes[node.parents[0]].content, self.head(branch).content)


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


def with_properties(content: Mapping[str, Rows], added: Iterable[str]) -> Content:
    """Rows of persons have every property, null where nothing was said."""
    found = {name: {id_: dict(row) for id_, row in rows.items()} for name, rows in content.items()}
    for row in found["Person"].values():
        for name in added:
            row.setdefault(name, None)
    return found
