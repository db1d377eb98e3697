"""The state of a branch as a value: what is kept in memory after a swap is what a cold open reads back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.core.errors import LimitExceeded, NotFound
from omnigraph.manifest import recent
from omnigraph.manifest import rows as r
from omnigraph.manifest.consistency import contradictions
from omnigraph.manifest.state import MERGED_ROWS_MAX, PINS_MAX, TAIL_KEEP, TAIL_ROLL, Change, cut_of, fold, reaches
from tests.unit.manifest.material import (
    BRANCH,
    MAIN,
    Line,
    Step,
    abort,
    branch_line,
    change_of,
    commit,
    main_line,
    merged,
    pin,
    reread,
    schema,
    swaps,
    ulid,
)

# Of the kept examples.
NO_TABLES_LEFT = [
    Step("drop", (), 0, 0, 80, None, 0, None),
    Step("drop", (), 0, 0, 0, None, 0, None),
    Step("drop", (), 64, 0, 1, None, 0, None),
]


@given(swaps(), st.booleans())
def test_a_state_kept_in_memory_equals_the_one_read_back(steps: Sequence[Step], on_a_branch: bool) -> None:
    line = Line(branch_line() if on_a_branch else main_line())
    for step in steps:
        now = step.run(line)
        assert reread(now) == now
        assert list(contradictions(now)) == []
    assert [row.seq for row in line.history] == list(range(1, len(line.history) + 1))


def test_the_first_state_of_a_line_reads_back_from_one_fragment() -> None:
    for first in (main_line(), branch_line(), main_line(0)):
        assert first.base is None and reread(first) == first
        assert list(contradictions(first)) == []


# --- history ------------------------------------------------------------------------------------------------------------


def grown(length: int) -> tuple[Line, list[int]]:
    """A line with commits and aborts, a swap without history now and then; and the length of its tail after each."""
    line = Line(main_line())
    lengths = []
    for number in range(length):
        if number % 7 == 0:
            line.swap(head=replace(line.state.head, epoch=number))
        row: r.HistoryRow = abort(line.new_id()) if number % 5 == 0 else commit(line.new_id())
        lengths.append(len(line.swap(history=(row,)).tail))
    return line, lengths


def test_the_tail_rolls_at_128_and_keeps_the_newest_64() -> None:
    line, lengths = grown(400)
    assert max(lengths) == TAIL_ROLL - 1 and min(lengths[TAIL_ROLL:]) == TAIL_KEEP
    assert [row.seq for row in line.history] == list(range(1, 402))


def test_a_group_is_numbered_in_one_version_and_its_last_member_is_the_head() -> None:
    first, second, third = (commit(ulid(n)) for n in (31, 32, 33))
    after, _ = fold(main_line(), Change(history=(first, second, third)))
    assert [(row.seq, row.version) for row in after.tail] == [(1, 1), (2, 2), (3, 2), (4, 2)]
    assert [row.parents for row in after.tail[1:] if isinstance(row, r.CommitRow)] == [
        (ulid(20),),
        (ulid(31),),
        (ulid(32),),
    ]
    assert after.head.commit_id == ulid(33)
    assert after.commits_of_version() == {ulid(31), ulid(32), ulid(33)}


def test_further_parents_of_a_commit_stay_what_they_were() -> None:
    after, _ = fold(main_line(), Change(history=(commit(ulid(31), parents=(ulid(9), ulid(8))),)))
    [_, row] = after.tail
    assert isinstance(row, r.CommitRow) and row.parents == (ulid(20), ulid(8))


def test_a_commit_moves_the_head_and_an_abort_does_not() -> None:
    after, _ = fold(main_line(), Change(history=(abort(ulid(31)), abort(ulid(32), plan=ulid(31)))))
    assert after.head.commit_id == ulid(20)
    assert [(row.object_id, row.version) for row in after.tail[1:]] == [(ulid(31), 2), (ulid(32), 2)]


def test_the_columns_of_a_merged_commit_are_this_lines_and_its_row_stays() -> None:
    carried = merged(ulid(31), idempotency_key="k")
    after, _ = fold(main_line(), Change(history=(carried, commit(ulid(32), kind="merge"))))
    row = after.tail[1]
    assert isinstance(row, r.MergedRow) and (row.version, row.seq, row.row) == (2, 2, carried.row)
    assert after.head.commit_id == ulid(32) and after.commits_of_version() == {ulid(32)}


@pytest.mark.parametrize("ref", [None, f"g-{BRANCH}"], ids=["main's", "this line's"])
def test_a_commit_of_this_line_or_of_main_is_never_carried_along(ref: str | None) -> None:
    row = r.MergedRow(commit(ulid(31), ref=ref))
    with pytest.raises(ValueError):
        fold(branch_line(), Change(history=(row, commit(ulid(32)))))


def test_merged_commits_come_before_the_merge() -> None:
    with pytest.raises(ValueError):
        fold(main_line(), Change(history=(commit(ulid(32)), merged(ulid(31)))))


def test_a_merge_carries_no_more_commits_than_allowed() -> None:
    with pytest.raises(LimitExceeded) as caught:
        fold(main_line(), Change(history=(merged(ulid(31)),) * (MERGED_ROWS_MAX + 1)))
    assert caught.value.facts["bound"] == MERGED_ROWS_MAX
    after, rolled = fold(main_line(), Change(history=(merged(ulid(31)),) * MERGED_ROWS_MAX))
    assert (len(after.tail), len(rolled)) == (TAIL_KEEP, MERGED_ROWS_MAX + 1 - TAIL_KEEP)


# --- the cut ------------------------------------------------------------------------------------------------------------


def tail_of(*versions: tuple[int, int], carried: bool = False) -> list[r.HistoryRow]:
    """So many rows of each version, own ones or carried ones."""
    found: list[r.HistoryRow] = []
    for version, rows in versions:
        for _ in range(rows):
            seq = len(found) + 1
            if carried:
                found.append(replace(merged(ulid(seq)), version=version, seq=seq))
            else:
                found.append(commit(ulid(seq), version=version, seq=seq))
    return found


def test_a_cut_divides_the_own_records_of_no_version() -> None:
    assert cut_of(tail_of((1, 60), (2, 10), (3, 60))) == 60
    assert cut_of(tail_of((1, 1), (2, 64), (3, 64))) == 65
    assert cut_of(tail_of((1, 40), (2, 64), (3, 64))) == 40 + 64


def test_a_cut_may_divide_rows_that_a_merge_carried_from_it() -> None:
    rows = [*tail_of((1, 1)), *(replace(row, seq=row.seq + 1) for row in tail_of((2, 200), carried=True))]
    rows.append(commit(ulid(900), version=2, seq=202))
    assert cut_of(rows) == 202 - TAIL_KEEP


def test_nothing_is_cut_from_a_short_tail_or_from_one_version() -> None:
    assert cut_of(tail_of((1, 127))) == 0
    assert cut_of(tail_of((1, 200))) == 0


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 64)), min_size=1, max_size=12))
def test_after_every_swap_the_tail_holds_whole_versions_and_at_most_so_many_rows(
    swaps: list[tuple[int, int]],
) -> None:
    line = Line(main_line())
    for carried, own in swaps:
        rows = [merged(line.new_id()) for _ in range(carried)] + [commit(line.new_id()) for _ in range(own)]
        before = len(line.archive)
        now = line.swap(history=tuple(rows))
        if len(line.archive) > before:
            assert TAIL_KEEP <= len(now.tail) <= TAIL_ROLL
        archived = {row.version for row in line.archive if not isinstance(row, r.MergedRow)}
        assert archived.isdisjoint(row.version for row in now.tail if not isinstance(row, r.MergedRow))
        for version in range(1, now.version + 1):
            if now.tail_reaches(version):
                assert all(row.version <= version for row in line.archive)
            if now.tail_reaches_own(version):
                own_rows = (row for row in line.archive if not isinstance(row, r.MergedRow))
                assert all(row.version <= version for row in own_rows)
    assert now.tail_reaches(now.version)


def test_reach_reads_the_column_and_not_the_version_on_another_line() -> None:
    tail = (replace(merged(ulid(31)), version=9, seq=70), commit(ulid(32), version=9, seq=71))
    state = replace(main_line(), tail=tail, version=9)
    assert state.tail_reaches(9) and not state.tail_reaches(8)
    assert state.tail_reaches_own(8) and not state.tail_reaches_own(7)
    assert reaches((), 0) and reaches((commit(ulid(1), seq=1, version=1),), 0)


def test_a_record_of_this_line_is_found_before_a_merged_one_of_the_same_id() -> None:
    own, carried = commit(ulid(31), seq=2, version=2), replace(merged(ulid(31)), seq=3, version=3)
    state = replace(main_line(), tail=(own, carried))
    assert state.in_tail(ulid(31)) is own
    assert replace(state, tail=(carried,)).in_tail(ulid(31)) is carried


# --- base and current ---------------------------------------------------------------------------------------------------


def moved(line: Line, number: int, by: int = 1) -> r.Pin:
    old = line.state.tables[f"node:T{number}"]
    return replace(old, version=old.version + by)


def test_the_first_swap_of_a_line_writes_a_base_with_every_pin() -> None:
    line = Line(branch_line(2))
    first = moved(line, 0)
    line.swap(pins={first.key: first})
    assert line.state.base == {one.identity: one for one in line.state.tables.values()}
    assert line.state.moved == ()


def test_current_holds_up_to_64_pins_that_differ_from_base() -> None:
    line = Line(main_line(100))
    line.swap()
    for number in range(PINS_MAX):
        one = moved(line, number)
        base = line.state.base
        line.swap(pins={one.key: one})
        assert line.state.base is base and len(line.state.moved) == number + 1
    one = moved(line, PINS_MAX)
    line.swap(pins={one.key: one})
    assert line.state.moved == () and line.state.base is not base


def test_a_pin_that_is_what_base_says_again_is_no_pin_that_differs() -> None:
    line = Line(main_line())
    line.swap()
    one = moved(line, 1)
    before = line.state.tables[one.key]
    line.swap(pins={one.key: one})
    assert line.state.moved == (one,)
    line.swap(pins={one.key: before})
    assert line.state.moved == ()


def test_a_tail_that_rolls_writes_base_again() -> None:
    line, _ = grown(10)
    one = moved(line, 0)
    line.swap(pins={one.key: one})
    assert line.state.moved == (one,)
    while not line.archive:
        line.swap(history=(commit(line.new_id()),))
    assert line.state.moved == () and line.state.base == {p.identity: p for p in line.state.tables.values()}


@pytest.mark.parametrize("what", ["schema", "create", "drop", "rename"])
def test_a_change_of_schema_or_registrations_writes_base_again(what: str) -> None:
    line = Line(main_line())
    line.swap()
    old = line.state.tables["node:T1"]
    changes = {
        "schema": Change(schema=schema("B")),
        "create": Change(pins={"node:T9": pin(9)}),
        "drop": Change(tombstones=(r.Tombstone(old.key, 1, old.identity, 1),)),
        "rename": Change(
            pins={"node:New": replace(old, key="node:New")},
            tombstones=(r.Tombstone(old.key, 1, old.identity, 1, "node:New"),),
        ),
    }
    line.swap(pins={"node:T0": moved(line, 0)})
    after, _ = fold(line.state, changes[what])
    assert after.moved == () and after.base == {one.identity: one for one in after.tables.values()}
    assert reread(after) == after


def test_recent_keys_of_current_keep_within_their_limit_and_the_longest_go() -> None:
    line = Line(main_line(8))
    line.swap()
    sizes = [1_024, 1_024, 1_024, 600, 10]
    pins = {}
    for number, size in enumerate(sizes):
        keys = b"".join(key.to_bytes(8, "little") for key in range(size))
        pins[f"node:T{number}"] = replace(moved(line, number), recent=r.Recent((1,), keys))
    now = line.swap(pins=pins)
    kept = [now.tables[f"node:T{number}"].recent is not None for number in range(len(sizes))]
    assert kept == [False, True, True, True, True]
    assert sum(p.recent.text_bytes for p in now.moved if p.recent) <= recent.TEXT_BYTES_MAX
    assert reread(now) == now


# --- the rest -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        Change(),
        Change(history=(commit(ulid(31)),)),
        Change(history=(abort(ulid(31)),)),
        Change(head=r.Head(MAIN, ulid(20), mark=ulid(3))),
    ],
    ids=["heal", "publish", "abort", "mark"],
)
def test_nothing_is_folded_onto_a_closed_state(change: Change) -> None:
    closing = replace(main_line().head, closed=r.Closed(5, None))
    closed, _ = fold(main_line(), Change(head=closing))
    with pytest.raises(NotFound) as caught:
        fold(closed, change)
    assert caught.value.facts["identity"] == MAIN


def test_a_head_row_of_another_branch_is_refused() -> None:
    with pytest.raises(ValueError):
        fold(main_line(), Change(head=r.Head(BRANCH, ulid(20))))


def test_a_head_row_that_is_swapped_keeps_the_head_commit() -> None:
    line = Line(main_line())
    old = line.state.head
    line.swap(history=(commit(ulid(31)),))
    assert line.swap(head=replace(old, epoch=4)).head == replace(old, epoch=4, commit_id=ulid(31))


def test_a_dropped_table_reports_the_version_of_its_tombstone() -> None:
    gone = (r.Tombstone("node:T0", 1, ulid(100), 3), r.Tombstone("node:Gone", 2, ulid(1), 8))
    after, _ = fold(main_line(), Change(tombstones=gone))
    assert "node:T0" not in after.tables
    versions = [after.actual_version(key) for key in ("node:T0", "node:Gone", "node:Never", "node:T1")]
    assert versions == [3, 8, 0, 1]


def test_a_table_made_again_under_its_key_replaces_the_tombstoned_one() -> None:
    again = pin(0, identity=ulid(999), incarnation=2)
    gone = r.Tombstone("node:T0", 1, ulid(100), 3)
    after, _ = fold(main_line(), Change(tombstones=(gone,), pins={"node:T0": again}))
    assert after.tables["node:T0"] == again and reread(after) == after


def test_the_first_commit_of_a_graph_names_its_tables_and_no_parent() -> None:
    [row] = main_line(2).tail
    assert isinstance(row, r.CommitRow) and row.parents == () and row.kind == "init" and row.plan == row.commit_id
    assert row.tables == {f"node:T{n}": change_of(pin(n), via="schema", inserted=0) for n in range(2)}
