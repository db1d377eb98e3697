"""Names of branches in every interleaving, beside writers: with the rules nothing is lost, without any one of them something is."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

import pytest

from omnigraph.commit.lines import GraphLines
from omnigraph.manifest.refs import NameEntry, NameState, next_number
from omnigraph.testing.explorer import explore
from omnigraph.testing.names_model import Log, Rules, Scope, _entry, check, start, steps

SCOPES = {
    "two creators, one deleter": Scope(),
    "two creators, one deleter, a repeat": Scope(repeats=1),
    "no branch at first, three creators": Scope(creators=3, deleters=0, bound_at_first=False),
    "one creator, two deleters, two repeats": Scope(creators=1, deleters=2, trims=2, repeats=2),
    "two creators, one deleter, a cleanup": Scope(cleanups=1, trims=0),
    "one creator, one deleter, two cleanups": Scope(creators=1, cleanups=2, trims=0),
    "two writers, one deleter, a cleanup": Scope(creators=0, trims=0, cleanups=1, writers=2),
    "one writer, one creator, one deleter, a cleanup": Scope(creators=1, trims=0, cleanups=1, writers=1),
}


@pytest.mark.parametrize("scope", SCOPES.values(), ids=SCOPES.keys())
def test_no_acknowledged_branch_loses_its_name(scope: Scope) -> None:
    rules = Rules()
    found = explore(start(scope), steps(rules), check(rules))
    assert found.exhausted and found.error is None, (found.error, found.trace)
    assert found.states > 100


def folded(log: Log) -> NameEntry | None:
    """All entries in their order, as an earlier design had it."""
    now: NameEntry | None = None
    for said in sorted(log):
        entry = _entry(said)
        if next_number(now, entry.state, entry.identity) is not None:
            now = entry
    return None if now is None else replace(now, n=max(log)[0])


def any_step(highest: NameEntry | None, state: NameState, identity: str) -> int | None:
    """Written at the next number whatever the name says."""
    return 0 if highest is None else highest.n + 1


def freeing_whoever(highest: NameEntry | None, state: NameState, identity: str) -> int | None:
    """A ``free`` follows everything, also the entry of another branch."""
    return any_step(highest, state, identity) if state == "free" else next_number(highest, state, identity)


def without_a_name(lines: GraphLines) -> Set[str]:
    """A name that is being made counts as one whose branch was deleted."""
    return {line.identity for line in lines.lines if line.name is None and line.claimed}


# What the design refuses: the rule that is replaced, and a scope in which it loses a branch.
REFUSED = {
    "the highest entry is deleted too": (
        Rules(trimmable=lambda numbers: tuple(sorted(numbers))),
        Scope(creators=1, deleters=1, repeats=1),
    ),
    "all entries are folded": (Rules(meaning=folded), Scope(creators=3, deleters=1, bound_at_first=False)),
    "a name is reported without a look": (Rules(stands=lambda entry, highest: True), Scope(creators=2, trims=1)),
    "the next number is tried without a look": (Rules(look_again=False), Scope()),
    "any entry follows any": (Rules(next_number=any_step), Scope()),
    "a free follows the entry of another branch": (Rules(next_number=freeing_whoever), Scope()),
    "a line whose name is not bound at the look is taken for closed": (
        Rules(closed=without_a_name), Scope(creators=1, deleters=0, trims=0, cleanups=1, bound_at_first=False),
    ),
    "a line whose name is not bound at the look is taken for dead": (
        Rules(dead=lambda line: line.name is None), Scope(creators=1, deleters=0, trims=0, cleanups=1, bound_at_first=False),
    ),
    "names are read before the lines are listed": (
        Rules(lines_first=False), Scope(creators=1, deleters=0, trims=0, cleanups=1, bound_at_first=False),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("rules", "scope"), REFUSED.values(), ids=REFUSED.keys())
def test_without_one_of_the_rules_a_branch_loses_its_name(rules: Rules, scope: Scope) -> None:
    found = explore(start(scope), steps(rules), check(rules))
    assert found.error is not None, f"no counter-example in {found}"
    assert found.error.startswith("lost branch") and found.trace


WRITING = Scope(creators=0, trims=0, cleanups=1, writers=1)
# What a writer on the branch is told wrongly without a rule.
TOLD = {
    "a deleter does not close the line": (Rules(closes=False), WRITING, "lost commit"),
    "a cleaner does not raise the boundary to all": (Rules(bounds=False), WRITING, "lost commit"),
    "a swap stands beside any boundary": (Rules(swap_stands=lambda version, boundary: True), WRITING, "lost commit"),
    "a writer does not look for its commit": (Rules(looks_for_own=False), WRITING, "false failure"),
}


@pytest.mark.parametrize(("rules", "scope", "harm"), TOLD.values(), ids=TOLD.keys())
def test_without_one_of_the_rules_a_writer_is_told_what_is_not_so(rules: Rules, scope: Scope, harm: str) -> None:
    found = explore(start(scope), steps(rules), check(rules))
    assert found.error is not None, f"no counter-example in {found}"
    assert found.error.startswith(harm) and found.trace
