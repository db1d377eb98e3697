"""Readers of a change feed: none may miss a change and not know it."""

from __future__ import annotations

from typing import Any

import pytest

from omnigraph.commit.engine import MAIN, Engine
from omnigraph.core.errors import InvalidInput, Reclaimed
from omnigraph.core.ids import new_ulid
from omnigraph.options import LoadOptions
from omnigraph.read import changes, feed_walk, feed_way
from omnigraph.read.changes import changes_of
from omnigraph.testing.grouping import together
from omnigraph.testing.operations import append
from omnigraph.write.load import load
from tests.component.planted.scenes import ONE, Defect, Engines, setting


def _head(engine: Engine) -> str:
    return engine.latest(MAIN).state.head.commit_id


def _read(engine: Engine, since: str) -> list[tuple[tuple[str, ...], str | None]]:
    feed = changes_of(engine, since, None, None, branch=MAIN, before=False)
    return [(change.commit_ids, change.key) for change in feed]


def lost_cursor(engines: Engines) -> list[str]:
    """A power cut took back the commit that a reader has stored: to go on from anywhere else would be a silent hole."""
    engine = engines()
    append(engine, ONE, ["a"])
    try:
        _read(engine, new_ulid())
    except Reclaimed as error:
        return [] if error.reason == "cursor" else [f"the reason is {error.reason}"]
    except InvalidInput as error:
        return [f"a cursor that was lost is called {error.code}"]
    return ["the feed went on from somewhere else"]


def _from_the_beginning(engine: Engine, cursor: str, end: Any, newest: Any, meter: Any) -> Any:
    return list(engine.history.rows(newest, meter))[-1]


def cursor_within_a_swap(engines: Engines) -> list[str]:
    """A reader stopped between two commits of one swap: the second one is still to come."""
    engine = engines()
    batches = [[{"type": name, "data": {"name": name, "n": 1}}] for name in ("T1", "T2")]
    calls = [lambda rows=rows: load(engine, rows, LoadOptions(mode="append")) for rows in batches]
    ended = together(engine, calls)
    if any(one.error is not None for one in ended):
        return [f"the writes ended with {ended}"]
    held = engine.latest(MAIN)
    first, second = [row.commit_id for row in held.state.tail if row.version == held.version]
    found = [ids for ids, _ in _read(engine, first)]
    return [] if found == [(second,)] else [f"after {first} came {found}, not {second}"]


def commit_of_two_members(engines: Engines) -> list[str]:
    """Two commits of one swap wrote to one table: neither has a state of its own, and the reader has to know it."""
    engine = engines()
    batches = [[{"type": "T1", "data": {"name": name, "n": 1}}] for name in ("a", "b")]
    before = _head(engine)
    ended = together(engine, [lambda rows=rows: load(engine, rows, LoadOptions(mode="merge")) for rows in batches])
    if any(one.error is not None for one in ended):
        return [f"the writes ended with {ended}"]
    found = _read(engine, before)
    right = {key for _, key in found} == {"a", "b"} and len(found) == 2 and all(len(ids) == 2 for ids, _ in found)
    return [] if right else [f"the feed says {found}"]


def gap_of_a_cleanup(engines: Engines) -> list[str]:
    """A cleanup took the state that a feed begins with: its changes cannot be known any more."""
    from omnigraph.upkeep.cleanup import plan_cleanup, run_cleanup

    engine = engines()
    before = _head(engine)
    for name in "abc":
        append(engine, ONE, [name])
    run_cleanup(engine, plan_cleanup(engine, keep=1, min_age="0s"), actor=None)
    try:
        found = _read(engines(), before)
    except Reclaimed:
        return []
    return [f"the feed says {found} and nothing of a gap"]


def _newest(engine: Engine, place: Any, current: Any, meter: Any) -> Any:
    return current


def _each_alone(swap: Any) -> Any:
    return tuple(feed_walk.FeedEntry((one,)) for one in swap.members)


def going_on_without_the_state(patch: pytest.MonkeyPatch) -> None:
    """Where a state is gone, take the one that is there."""
    for module in (feed_way, changes):
        patch.setattr(module, "open_place", _newest)


DEFECTS = {
    "a lost cursor begins anew in silence": Defect(lost_cursor, setting(feed_way, "_cursor_row", _from_the_beginning)),
    "a cursor within a swap is moved to its end": Defect(
        cursor_within_a_swap, setting(feed_way, "after", lambda swap, since: None)
    ),
    "commits that share a table are reported apart": Defect(
        commit_of_two_members, setting(changes, "entries_of", _each_alone)
    ),
    "a gap is passed over": Defect(gap_of_a_cleanup, going_on_without_the_state),
}
