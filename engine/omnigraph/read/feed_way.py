"""The way of a feed: from a cursor to the swaps after it, on the line of a branch and on those that it was made from.

A cursor is the id of a commit of the branch. One that is not found, and a state that a cleanup took, are errors that say from where
to begin anew: a reader that went on would have a hole and not know it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from omnigraph.commit import parents
from omnigraph.commit.engine import Engine
from omnigraph.commit.lines import read_lines
from omnigraph.commit.txn import read_current
from omnigraph.core.errors import InvalidInput, Reclaimed
from omnigraph.core.meter import Meter
from omnigraph.manifest.ancestry import Place
from omnigraph.manifest.rows import CommitRow
from omnigraph.manifest.swap import Held
from omnigraph.read.at import find_row, open_place
from omnigraph.read.feed_walk import Swap, after, entries_of, swaps_of
from omnigraph.read.place_names import At, read_place
from omnigraph.read.places import find_place


@dataclass(frozen=True)
class FeedWay:
    """``swaps``: oldest first. ``start``: the state before the first of them; None where nothing is reported."""

    branch: str
    since: str
    until: str
    swaps: tuple[Swap, ...]
    start: Held | None = field(repr=False)


def find_way(engine: Engine, since: At, until: At | None, branch: str, meter: Meter) -> FeedWay:
    """The swaps between two commits of a branch. Raises an error where a reader that goes on would miss something."""
    newest = read_current(engine, branch, meter=meter)
    end = newest if until is None else _end(engine, until, branch, newest, meter)
    name = read_place(since, engine.clock.now_us())
    cursor = name.value if name.is_commit_id else find_place(engine, since, branch=branch, meter=meter).commit_id
    row = _cursor_row(engine, cursor, end, newest, meter)
    found: list[Swap] = []
    for line in parents.lineage(engine, end, meter):
        ref = line.state.ref
        for swap in swaps_of(engine.history.rows(line, meter), ref, line.version):
            if ref == row.ref and swap.version <= row.version:
                left = after(swap, row.commit_id) if swap.version == row.version else None
                found += [] if left is None else [left]
                break
            found.append(swap)
        if ref == row.ref:
            break
    swaps = tuple(found[::-1])
    first = next((at for at, swap in enumerate(swaps) if entries_of(swap)), None)
    last = end.state.head.commit_id
    if first is None:
        return FeedWay(branch, cursor, last, (), None)
    return FeedWay(branch, cursor, last, swaps[first:], _before(engine, swaps[first], end, newest, meter))


def _before(engine: Engine, swap: Swap, end: Held, newest: Held, meter: Meter) -> Held:
    """The state that a swap was made on. Where a cleanup took that version, the one of the commit before serves as well: what lies
    between the two, such as the mark of a cleanup, has changed no row."""
    parent = swap.members[0].parents[0]
    try:
        return open_place(engine, Place(swap.ref, swap.version - 1, parent), newest, meter)
    except Reclaimed as error:
        found = parents.find(engine, end, parent, meter)
        row = None if found is None else found.row
        try:
            if isinstance(row, CommitRow) and (row.ref, row.version) != (swap.ref, swap.version - 1):
                return open_place(engine, Place(row.ref, row.version, parent), newest, meter)
        except Reclaimed:
            pass
        raise gap_of(engine, newest.state.head.name, error, meter) from error


def _end(engine: Engine, until: At, branch: str, newest: Held, meter: Meter) -> Held:
    end = find_place(engine, until, branch=branch, meter=meter).held
    for line in parents.lineage(engine, newest, meter):
        if line.state.ref == end.state.ref and end.version <= line.version:
            return end
    raise InvalidInput(
        f"commit {end.state.head.commit_id} is not on the way to the head of {branch}",
        hint="name a commit of the branch as `until`; `omnigraph commit list` shows them",
        commit_id=end.state.head.commit_id,
        branch=branch,
    )


def _cursor_row(engine: Engine, cursor: str, end: Held, newest: Held, meter: Meter) -> CommitRow:
    """The commit that a feed goes on from."""
    found = parents.find(engine, end, cursor, meter)
    if found is not None and isinstance(found.row, CommitRow):
        return found.row
    branch = newest.state.head.name
    if found is not None and found.commit is not None:
        raise InvalidInput(
            f"commit {cursor} came to {branch} with a merge: it is no cursor of this branch",
            hint="go on from the commit of the merge, or from one before it",
            commit_id=cursor,
            branch=branch,
        )
    if find_row(engine, newest, cursor, meter) is not None:
        raise InvalidInput(
            f"commit {cursor} comes after {end.state.head.commit_id}: there is nothing between them",
            hint="`since` is the older one of the two",
            commit_id=cursor,
        )
    for line in read_lines(engine, meter).lines:
        if engine.history.find(line.held, cursor, meter=meter) is not None:
            raise InvalidInput(
                f"commit {cursor} is of branch {line.label}: it is no cursor of {branch}",
                hint=f"follow {line.label}, or begin with a snapshot of {branch}",
                commit_id=cursor,
                branch=branch,
            )
    raise Reclaimed(
        f"the cursor {cursor} is in the history of no branch: the commit was cleaned up, or a power cut took it back",
        hint=_begin_anew(branch),
        reason="cursor",
        commit_id=cursor,
        oldest=None,
        start=newest.state.head.commit_id,
    )


def gap_of(engine: Engine, branch: str, error: Reclaimed, meter: Meter) -> Reclaimed:
    """A state on the way is gone: what happened there cannot be reported any more."""
    head = read_current(engine, branch, meter=meter).state.head.commit_id
    facts = {"reason": "state", **error.facts, "start": head}
    return Reclaimed(f"the feed has a gap: {error.message}", hint=_begin_anew(branch), **facts)


def _begin_anew(branch: str) -> str:
    return f"begin anew: read a snapshot of {branch}, then go on from its commit_id"
