"""Which swaps lie on the way of a feed, and what of each is reported, without any graph."""

from __future__ import annotations

from omnigraph.manifest.rows import AbortRow, CommitRow, MergedRow, Pin, TableChange
from omnigraph.read.feed_walk import Swap, after, changed, entries_of, moved, swaps_of


def commit(name: str, version: int, *tables: str, kind: str = "load", **more: object) -> CommitRow:
    changes = {f"node:{one}": TableChange(one, None, version, inserted=1) for one in tables}
    return CommitRow(name, name, (), None, 0, None, version, kind, changes, version=version, **more)  # type: ignore[arg-type]


def pin(identity: str, version: int = 1, rows: int = 0, ref: str | None = None) -> Pin:
    return Pin(f"node:{identity}", identity, 1, identity, f"nodes/{identity}", ref, version, rows, owner="o")


def told(swap: Swap) -> list[tuple[str, ...]]:
    return [entry.commit_ids for entry in entries_of(swap)]


def test_a_line_is_walked_swap_by_swap_newest_first() -> None:
    rows = [
        commit("e", 5, "A"),
        AbortRow("x", "x", None, 3, 0, version=4),
        MergedRow(commit("other", 9, "A"), version=3),
        commit("d", 3, "B"),
        commit("c", 3, "A"),
        commit("a", 1),
    ]
    assert [(swap.version, swap.last_id, len(swap.members)) for swap in swaps_of(rows, None, 9)] == [
        (5, "e", 1), (3, "d", 2), (1, "a", 1),
    ]  # fmt: skip
    assert [swap.version for swap in swaps_of(rows, None, 4)] == [3, 1]
    [swap] = [one for one in swaps_of(rows, None, 9) if one.version == 3]
    assert [one.commit_id for one in swap.members] == ["c", "d"], "in the order in which they were made"


def test_members_with_tables_of_their_own_are_reported_apart() -> None:
    swap = Swap(None, 7, (commit("a", 7, "A"), commit("b", 7, "B", "C"), commit("c", 7, "D")))
    assert told(swap) == [("a",), ("b",), ("c",)]


def test_members_that_share_a_table_are_reported_together_under_all_their_ids() -> None:
    swap = Swap(None, 7, (commit("a", 7, "A"), commit("b", 7, "B"), commit("c", 7, "A"), commit("d", 7, "C")))
    assert told(swap) == [("b",), ("a", "c"), ("d",)], "an entry is whole with its last commit"
    bridged = Swap(None, 7, (commit("a", 7, "A"), commit("b", 7, "B"), commit("c", 7, "A", "B")))
    assert told(bridged) == [("a", "b", "c")]


def test_upkeep_is_never_reported() -> None:
    assert told(Swap(None, 7, (commit("a", 7, "A", kind="maintenance"),))) == []


def test_a_reader_that_stopped_within_a_swap_misses_nothing() -> None:
    swap = Swap(None, 7, (commit("a", 7, "A"), commit("b", 7, "B"), commit("c", 7, "A"), commit("d", 7, "C")))
    rest = {one: after(swap, one) for one in "abcd"}
    assert told(rest["a"]) == [("b",), ("a", "c"), ("d",)]  # type: ignore[arg-type]
    assert told(rest["b"]) == [("a", "c"), ("d",)]  # type: ignore[arg-type]
    assert told(rest["c"]) == [("d",)]  # type: ignore[arg-type]
    assert rest["d"] is None


def test_the_tables_after_a_swap_are_reported_from_its_commits() -> None:
    pins = {"A": pin("A", 3, 10), "B": pin("B", 2)}
    now = moved(pins, Swap(None, 7, (commit("a", 7, "A"),)))
    assert now is not None
    assert (now["A"].version, now["A"].rows, now["B"]) == (7, 11, pins["B"])
    assert pins["A"].version == 3, "what was is left alone"


def test_where_commits_do_not_say_enough_the_state_is_read() -> None:
    pins = {"A": pin("A", 3)}
    assert moved(pins, Swap(None, 7, (commit("a", 7, "New"),))) is None
    assert moved({"A": pin("A", 3, ref="f-x")}, Swap(None, 7, (commit("a", 7, "A"),))) is None
    assert moved({"A": pin("A", 9)}, Swap(None, 7, (commit("a", 7, "A"),))) is None
    assert moved(pins, Swap(None, 7, (commit("a", 7, "A", schema={"steps": []}),))) is None
    assert moved(pins, Swap(None, 7, (commit("a", 7, "A", merge={"commit": "x"}),))) is None


def test_rows_that_nobody_counted_are_looked_at() -> None:
    row = commit("a", 7)
    unknown = {"node:A": TableChange("A", None, 7, inserted=None, updated=None, deleted=None)}
    now = moved({"A": pin("A", 3, 0)}, Swap(None, 7, (CommitRow(**{**vars(row), "tables": unknown}),)))
    assert now is not None and now["A"].rows == 1


def test_only_tables_that_moved_are_compared() -> None:
    swap = Swap(None, 7, (commit("a", 7, "A"), commit("b", 7, "B")))
    before = {"A": pin("A", 3), "B": pin("B", 7)}
    now = {"A": pin("A", 7), "B": pin("B", 7)}
    one, other = entries_of(swap)
    assert [(old and old.version, new.version) for old, new in changed(one, before, now)] == [(3, 7)]
    assert changed(other, before, now) == []
    assert [old for old, _ in changed(one, {}, now)] == [None]
