"""Which bases a merge has: every small history of two or three branches with one row, against the truth by causality."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from omnigraph.branch.rowmerge import Clash, merge_row
from omnigraph.manifest.ancestry import (
    BASES_MAX,
    Base,
    Fold,
    Join,
    LineHistory,
    Place,
    contains,
    maximal_common,
    merge_bases,
    places_of,
    reach,
    virtual_base,
)


@dataclass(frozen=True)
class Commit:
    place: Place
    parents: tuple[int, ...]
    value: int
    merged: Place | None = None


@dataclass
class History:
    """Commits by number. ``heads``: by branch. Line 0 is main; the others were made from its first commit."""

    commits: list[Commit]
    ancestors: list[frozenset[int]]
    heads: tuple[int, ...]
    superseded: dict[int, frozenset[int]] = field(default_factory=dict)

    def lines(self, ref: str | None) -> LineHistory:
        joins = tuple(Join(c.place.version, c.merged) for c in self.commits if c.place.ref == ref and c.merged)
        return LineHistory(None if ref is None else self.commits[0].place, joins)

    def number(self, place: Place) -> int:
        return next(at for at, commit in enumerate(self.commits) if commit.place == place)

    def maximal_common(self, one: int, other: int) -> set[int]:
        common = (self.ancestors[one] | {one}) & (self.ancestors[other] | {other})
        return {c for c in common if not any(c in self.ancestors[d] for d in common)}

    def then(
        self, branch: int, value: int, superseded: frozenset[int] | None = None, merged: int | None = None
    ) -> History:
        head = self.heads[branch]
        parents = (head,) if merged is None else (head, merged)
        ref = None if branch == 0 else f"g-{branch}"
        newest = self.commits[head].place
        version = newest.version + 1 if newest.ref == ref else 2  # the first version of a line has no commit of its own
        place = Place(ref, version, f"c{len(self.commits)}")
        commit = Commit(place, parents, value, None if merged is None else self.commits[merged].place)
        ancestors = frozenset().union(*(self.ancestors[p] | {p} for p in parents))
        heads = (*self.heads[:branch], len(self.commits), *self.heads[branch + 1 :])
        known = self.superseded if superseded is None else {**self.superseded, value: superseded}
        return History([*self.commits, commit], [*self.ancestors, ancestors], heads, known)

    def truth(self, source: int, target: int) -> int | None:
        """The value that the merge has to give; None: neither side knew the other's."""
        one, other = self.commits[source].value, self.commits[target].value
        if one == other or one in self.superseded[other]:
            return other
        return one if other in self.superseded[one] else None


def beginning(branches: int) -> History:
    return History([Commit(Place(None, 1, "c0"), (), 0)], [frozenset()], (0,) * branches, {0: frozenset()})


Rule = Callable[[History, int, int], int | None]


def single(history: History, base: int, source: int, target: int) -> int | None:
    found = merge_row(*({"v": history.commits[c].value} for c in (base, source, target)))
    return None if isinstance(found, Clash) or found is None else found["v"]


def by_virtual_base(history: History, source: int, target: int) -> int | None:
    places = [history.commits[c].place for c in (source, target)]
    bases = merge_bases(*places, history.lines)
    assert {history.number(place) for place in bases} == history.maximal_common(source, target)

    def value(base: Base | None) -> int | None:
        if base is None or isinstance(base, Place):
            return None if base is None else history.commits[history.number(base)].value
        first, second = value(base.first), value(base.second)
        if first == second or first is None or second is None:
            return first if first == second else None
        over = value(base.over)
        found = Clash("divergent_update") if over is None else merge_row({"v": over}, {"v": first}, {"v": second})
        return None if isinstance(found, Clash) or found is None else found["v"]

    one, other = (history.commits[c].value for c in (source, target))
    base = value(virtual_base(bases, history.lines))
    if one == other:
        return one
    found = None if base is None else merge_row({"v": base}, {"v": one}, {"v": other})
    return None if isinstance(found, Clash) or found is None else found["v"]


def by_nearest(history: History, source: int, target: int) -> int | None:
    def distances(start: int) -> dict[int, int]:
        found, queue = {start: 0}, [start]
        for commit in queue:
            for parent in history.commits[commit].parents:
                if parent not in found:
                    found[parent] = found[commit] + 1
                    queue.append(parent)
        return found

    one, other = distances(source), distances(target)
    base = min((c for c in one if c in other), key=lambda c: (one[c] + other[c], -c))
    return single(history, base, source, target)


def by_newest(history: History, source: int, target: int) -> int | None:
    return single(history, max(history.maximal_common(source, target)), source, target)


def explore(branches: int, operations: int, rule: Rule, behind: int = 0) -> Counter[str]:
    """How often the rule errs, over all histories. ``behind``: sources up to so many commits behind their heads."""
    found: Counter[str] = Counter()
    seen = set()

    def go(history: History, left: int) -> None:
        key = (tuple((c.place, c.parents, c.value) for c in history.commits), history.heads)
        if key in seen:
            return
        seen.add(key)
        if not left:
            return
        for branch in range(branches):
            value = history.commits[history.heads[branch]].value
            fresh = len(history.superseded)
            go(history.then(branch, fresh, history.superseded[value] | {value}), left - 1)
            go(history.then(branch, value), left - 1)
        for s, t in itertools.permutations(range(branches), 2):
            source, target = history.heads[s], history.heads[t]
            for _ in range(behind + 1):
                if source != target and source not in history.ancestors[target]:
                    truth, got = history.truth(source, target), rule(history, source, target)
                    found["merges"] += 1
                    found["wrong"] += got is not None and got != truth
                    found["spurious"] += got is None and truth is not None
                    if truth is not None:  # go on behind the truth, so that one error does not hide another
                        go(history.then(t, truth, merged=source), left - 1)
                if not history.commits[source].parents:
                    break
                source = history.commits[source].parents[0]

    go(beginning(branches), operations)
    return found


@pytest.mark.parametrize(("branches", "operations", "behind"), [(2, 5, 1), (3, 4, 0), (2, 6, 0)])
def test_the_virtual_base_keeps_no_superseded_value_and_finds_no_conflict_that_is_none(
    branches: int, operations: int, behind: int
) -> None:
    found = explore(branches, operations, by_virtual_base, behind)
    assert found["merges"] > 400
    assert found["wrong"] == found["spurious"] == 0


@pytest.mark.parametrize("rule", [by_nearest, by_newest])
def test_a_single_base_would_be_found_out(rule: Rule) -> None:
    assert explore(2, 6, rule, behind=1)["spurious"]


# --- shapes -------------------------------------------------------------------------------------------------------------


def lines_of(**joins: tuple[Join, ...]) -> Callable[[str | None], LineHistory]:
    fork = Place(None, 1, "c0")
    return lambda ref: LineHistory(None if ref is None else fork, joins.get(ref or "main", ()))


def test_swaps_without_a_commit_are_no_progress() -> None:
    lines = lines_of()
    older, newer = Place(None, 8, "c"), Place(None, 12, "c")
    assert contains(reach([older], lines), newer)
    assert merge_bases(newer, older, lines) in ((older,), (newer,))


def test_an_ancestor_of_the_target_is_its_own_base() -> None:
    source = Place("g-a", 3, "s")
    lines = lines_of(main=(Join(5, Place("g-a", 4, "s2")),))
    assert merge_bases(source, Place(None, 6, "t"), lines) == (source,)
    assert contains(reach([Place(None, 6, "t")], lines), source)
    assert not contains(reach([Place(None, 4, "before")], lines), source)


def crossed(levels: int) -> tuple[Callable[[str | None], LineHistory], list[tuple[Place, Place]]]:
    """Two branches that merge each other's last commit, over and over: each level has two bases."""
    pairs = [(Place("g-a", 2, "a2"), Place("g-b", 2, "b2"))]
    joins: dict[str, list[Join]] = {"g-a": [], "g-b": []}
    for at in range(3, 3 + levels):
        a, b = pairs[-1]
        joins["g-a"].append(Join(at, b))
        joins["g-b"].append(Join(at, a))
        pairs.append((Place("g-a", at, f"a{at}"), Place("g-b", at, f"b{at}")))
    return lines_of(**{ref: tuple(found) for ref, found in joins.items()}), pairs


def test_a_base_that_recurses_too_deep_is_not_followed() -> None:
    def depth(base: Base | None) -> int:
        return 0 if not isinstance(base, Fold) else 1 + depth(base.over)

    def is_cut(base: Base | None) -> bool:
        return isinstance(base, Fold) and (base.over is None or is_cut(base.over))

    for levels, cut in ((2, False), (4, False), (6, True)):
        lines, pairs = crossed(levels)
        bases = merge_bases(*pairs[-1], lines)
        assert len(bases) == 2
        made = virtual_base(bases, lines)
        assert is_cut(made) == cut, levels
        assert depth(made) == min(levels, 4)
        assert set(bases) <= set(places_of(made))


def test_too_many_bases_are_not_followed() -> None:
    lines = lines_of()
    places = [Place(f"g-{at}", 2, f"c{at}") for at in range(BASES_MAX + 1)]
    assert virtual_base(places, lines) is None
    assert virtual_base(places[:BASES_MAX], lines) is not None
    one = reach(places, lines)
    assert len(maximal_common(one, one, lines)) == BASES_MAX + 1
