"""Which files a power cut may take, told from what a process did to them: the figure that ``bench durability`` prints of each neighbour."""

from __future__ import annotations

import pytest

from bench.durability_peers import TRACED_COMMITS, counted, unsynced
from omnigraph.testing.powercut.record import ALL, Event


@pytest.mark.parametrize(
    ("events", "left"),
    [
        ([Event("create", "a"), Event("write", "a")], {"a"}),
        ([Event("write", "a"), Event("sync", "a")], set()),
        ([Event("sync", "a"), Event("write", "a")], {"a"}),
        ([Event("write", "a"), Event("sync-all", ALL)], set()),
        ([Event("write", "t"), Event("rename", "t", "a")], {"a"}),
        ([Event("write", "t"), Event("sync", "t"), Event("rename", "t", "a")], set()),
        ([Event("write", "a"), Event("sync", "t"), Event("rename", "t", "a")], set()),
        ([Event("write", "t"), Event("link", "t", "a"), Event("unlink", "t")], {"a"}),
        ([Event("write", "a"), Event("unlink", "a")], set()),
        ([Event("write", "b"), Event("copy", "b", "a"), Event("sync", "b")], {"a"}),
    ],
)
def test_what_no_sync_has_covered_is_left(events: list[Event], left: set[str]) -> None:
    assert unsynced(events) == left


def test_only_what_happened_between_the_marks_counts() -> None:
    work = [Event("write", "a"), Event("sync", "a"), Event("write", "b")]
    mark = Event("mark", "here")
    assert counted([*work, mark, *work, mark, *work]) == {"syncs": 1 / TRACED_COMMITS, "left": 1 / TRACED_COMMITS}
