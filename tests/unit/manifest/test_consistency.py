"""A state that no swap could have written is noticed before anything is based on it; what stands only once is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from omnigraph.manifest import rows as r
from omnigraph.manifest.consistency import between, contradictions
from omnigraph.manifest.state import Change, State, fold
from tests.unit.manifest.material import (
    BRANCH,
    MAIN,
    SOURCE,
    Line,
    abort,
    branch_line,
    change_of,
    commit,
    main_line,
    merged,
    pin,
    reread,
    schema,
    ulid,
)


def grown(first: State, swaps: int = 150) -> State:
    """A line of two tables after commits, groups, aborts, merges and swaps that leave no record; its tail has been rolled."""
    line = Line(first)
    for number in range(swaps):
        old = line.state.tables["node:T1" if number % 3 else "node:T0"]
        moved = replace(old, version=old.version + 1, rows=number, fragments=1)
        done = {moved.key: change_of(moved)}
        rows: tuple[r.HistoryRow, ...] = (commit(line.new_id(), tables=done),)
        if number % 7 == 1:
            rows = (abort(line.new_id()),)
        elif number % 13 == 4:
            rows = (merged(line.new_id()), *rows, commit(line.new_id(), tables=done))
        elif number % 11 == 1:
            rows = ()
        line.swap(pins={moved.key: moved}, history=rows)
    return line.state


MAIN_STATE, BRANCH_STATE = grown(main_line(2)), grown(branch_line(2))
PIN = MAIN_STATE.tables["node:T0"]
COMMIT_AT = next(n for n in range(len(MAIN_STATE.tail) - 2, 0, -1) if isinstance(MAIN_STATE.tail[n], r.CommitRow))
MERGED_AT = next(n for n, row in enumerate(MAIN_STATE.tail) if isinstance(row, r.MergedRow))
ABORT_AT = next(n for n, row in enumerate(MAIN_STATE.tail) if isinstance(row, r.AbortRow))


def test_whatever_swaps_write_is_sound() -> None:
    for first in (main_line(2), branch_line(2)):
        for swaps in (0, 1, 2, 63, 64, 127, 128, 150, 300):
            assert list(contradictions(grown(first, swaps))) == []


def flipped(text: str, at: int) -> str:
    return text[:at] + chr(ord(text[at]) ^ 1) + text[at + 1 :]


def with_row(at: int, change: Callable[[Any], r.HistoryRow], state: State = MAIN_STATE) -> State:
    tail = list(state.tail)
    tail[at] = change(tail[at])
    return replace(state, tail=tuple(tail))


def with_pin(**facts: Any) -> State:
    return replace(MAIN_STATE, tables={**MAIN_STATE.tables, PIN.key: replace(PIN, **facts)})


def with_head(state: State = MAIN_STATE, **facts: Any) -> State:
    return replace(state, head=replace(state.head, **facts))


def with_schema(**facts: Any) -> State:
    return replace(MAIN_STATE, schema=replace(MAIN_STATE.schema, **facts))


def bases(*versions: int) -> tuple[r.BaseVersion, ...]:
    return tuple(r.BaseVersion(f"f-{ulid(number)}", version, True) for number, version in enumerate(versions))


TAIL = MAIN_STATE.tail
PARENT = BRANCH_STATE.head.parent
assert PARENT is not None
DAMAGED = {
    "head": with_head(commit_id=flipped(MAIN_STATE.head.commit_id, 20)),
    "identity": with_head(identity="?" + MAIN[1:]),
    "mark": with_head(mark="now"),
    "boundary above the version": with_head(boundary=MAIN_STATE.version + 1),
    "unsynced since a version to come": with_head(unsynced_since=MAIN_STATE.version + 1),
    "unsynced since version 0": with_head(unsynced_since=0),
    "main with a parent": with_head(parent=PARENT),
    "a branch without a parent": with_head(BRANCH_STATE, parent=None),
    "a branch on the line of another": with_head(BRANCH_STATE, identity=SOURCE),
    "a branch that is its own parent": with_head(BRANCH_STATE, parent=replace(PARENT, identity=BRANCH)),
    "a parent at no version": with_head(BRANCH_STATE, parent=replace(PARENT, manifest_version=0)),
    "a parent on the line of another": with_head(BRANCH_STATE, parent=replace(PARENT, ref=f"g-{SOURCE}")),
    "a parent commit that is no id": with_head(BRANCH_STATE, parent=replace(PARENT, commit="x")),
    "a head that is not the parent's commit": with_head(branch_line(), commit_id=ulid(29)),
    "main without a commit": replace(main_line(), tail=()),
    "first parent of a line": with_row(0, lambda row: replace(row, parents=(ulid(9),)), grown(branch_line(2), 1)),
    "first commit of main with a parent": with_row(0, lambda row: replace(row, parents=(ulid(9),)), main_line()),
    "schema hash": with_schema(hash=schema("B").hash),
    "schema id": with_schema(id=schema("B").id),
    "canonical form": with_schema(canonical="{"),
    "parent": with_row(COMMIT_AT, lambda row: replace(row, parents=(flipped(row.parents[0], 12),))),
    "second parent": with_row(COMMIT_AT, lambda row: replace(row, parents=(*row.parents, "x"))),
    "commit id": with_row(COMMIT_AT, lambda row: replace(row, commit_id=flipped(row.commit_id, 12))),
    "commit id that is none": with_row(MERGED_AT, lambda row: replace(row, row=replace(row.row, commit_id="x"))),
    "plan of a commit": with_row(COMMIT_AT, lambda row: replace(row, plan="x")),
    "plan of an abort": with_row(ABORT_AT, lambda row: replace(row, plan="x")),
    "number": with_row(COMMIT_AT, lambda row: replace(row, seq=row.seq ^ 1)),
    "a version that falls": with_row(COMMIT_AT, lambda row: replace(row, version=row.version - 20)),
    "a version to come": with_row(-1, lambda row: replace(row, version=MAIN_STATE.version + 1)),
    "version and metadata differ": with_row(COMMIT_AT, lambda row: replace(row, manifest_version=row.version - 1)),
    "a commit of another line": with_row(COMMIT_AT, lambda row: replace(row, ref=f"g-{SOURCE}")),
    "an abort of another line": with_row(ABORT_AT, lambda row: replace(row, ref=f"g-{SOURCE}")),
    "a merged commit of main": with_row(MERGED_AT, lambda row: replace(row, row=replace(row.row, ref=None))),
    "a merged commit of this line": replace(
        BRANCH_STATE, tail=(replace(merged(ulid(7)), row=commit(ulid(7), ref=f"g-{BRANCH}"), seq=1, version=1),)
    ),
    "a record less": replace(MAIN_STATE, tail=(*TAIL[:5], *TAIL[6:])),
    "a record twice": replace(MAIN_STATE, tail=(*TAIL[:5], TAIL[4], *TAIL[5:])),
    "an id twice": with_row(ABORT_AT, lambda row: replace(row, id=MAIN_STATE.head.commit_id)),
    "a plan partly committed": with_row(ABORT_AT, lambda row: replace(row, plan=MAIN_STATE.head.commit_id)),
    "location": with_pin(location=PIN.location.replace("nodes", "nodds")),
    "location elsewhere": with_pin(location="nodes/../../A.lance"),
    "table identity": with_pin(identity=PIN.identity[:-1] + "u"),
    "owner": with_pin(owner="main"),
    "an older pin": with_pin(version=PIN.version - 1),
    "no pin": with_pin(version=0),
    "no incarnation": with_pin(incarnation=0),
    "bases that rise": with_pin(bases=bases(3, 4)),
    "a base above the pin": with_pin(bases=bases(PIN.version + 1)),
    "a base at no version": with_pin(bases=bases(3, 0)),
    "17 bases": with_pin(bases=bases(*[3] * 17)),
    "alive and dropped": replace(MAIN_STATE, tombstones=(r.Tombstone(PIN.key, 1, ulid(5), 3),)),
    "a dropped table of no identity": replace(MAIN_STATE, tombstones=(r.Tombstone("node:X", 1, "x", 3),)),
}


@pytest.mark.parametrize("state", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_fact_that_stands_twice_or_has_a_shape_is_held_against_it(state: State) -> None:
    found = list(contradictions(state))
    assert found
    assert list(contradictions(state)) == found, "it is found again when the same values are looked at again"


@pytest.mark.parametrize(
    "fact",
    [{"location": "x"}, {"identity": "x"}, {"owner": "x"}, {"version": 0}, {"incarnation": 0}, {"bases": bases(1, 3)}],
    ids=str,
)
def test_a_pin_is_looked_at_although_the_one_before_was_sound(fact: dict[str, Any]) -> None:
    first, last = MAIN_STATE.tables["node:T0"], MAIN_STATE.tables["node:T1"]
    sound, other = replace(first), replace(last, **fact)
    assert list(contradictions(replace(MAIN_STATE, tables={"node:T0": sound, "node:T1": other})))


def test_a_parent_with_any_bit_flipped_is_found() -> None:
    for at in range(26):
        for bit in range(7):

            def damaged(row: r.CommitRow, at: int = at, bit: int = bit) -> r.CommitRow:
                text = row.parents[0]
                return replace(row, parents=(text[:at] + chr(ord(text[at]) ^ 1 << bit) + text[at + 1 :],))

            assert list(contradictions(with_row(COMMIT_AT, damaged))), (at, bit)


def test_a_dropped_table_made_again_may_begin_at_version_1() -> None:
    again = replace(PIN, identity=ulid(77), incarnation=2, version=1)
    gone = r.Tombstone(PIN.key, 1, PIN.identity, PIN.version)
    after, _ = fold(MAIN_STATE, Change(tombstones=(gone,), pins={PIN.key: again}))
    assert list(contradictions(after)) == []


def test_bases_up_to_sixteen_that_fall_are_sound() -> None:
    assert list(contradictions(with_pin(bases=bases(*range(20, 4, -1))))) == []


def test_a_tail_may_begin_with_commits_that_a_merge_carried() -> None:
    state = replace(MAIN_STATE, tail=TAIL[MERGED_AT:])
    assert state.tail[0].seq > 1 and isinstance(state.tail[0], r.MergedRow)
    assert list(contradictions(state)) == [] and reread(state) == state


def test_a_tail_without_a_commit_says_nothing_of_the_head_while_older_rows_are_archived() -> None:
    rows = tuple(abort(ulid(50 + n), version=20, seq=70 + n) for n in range(3))
    state = replace(main_line(), tail=rows, version=20)
    assert list(contradictions(state)) == []


@pytest.mark.parametrize(
    "state",
    [
        with_pin(rows=PIN.rows ^ 1),
        with_pin(version=PIN.version + 1),
        with_row(COMMIT_AT, lambda row: replace(row, actor="mf")),
    ],
    ids=["row count", "a later pin", "actor"],
)
def test_a_fact_that_stands_only_once_is_left_to_the_digests(state: State) -> None:
    assert list(contradictions(reread(state))) == []


# --- several lines ------------------------------------------------------------------------------------------------------


def two_lines(one: r.Pin, other: r.Pin) -> list[State]:
    return [replace(main_line(0), tables={"node:T0": one}), replace(branch_line(0), tables={"node:T0": other})]


def test_one_line_of_a_table_has_one_owner() -> None:
    assert list(between(two_lines(pin(0), pin(0, version=9)))) == []
    assert list(between(two_lines(pin(0), pin(0, owner=BRANCH))))
    assert list(between(two_lines(pin(0), pin(0, owner=BRANCH, ref=f"f-{ulid(4)}")))) == []


def test_a_contradiction_of_two_lines_names_both_versions() -> None:
    one, other = two_lines(pin(0), pin(0, owner=BRANCH))
    [found] = between([one, replace(other, version=7)])
    assert found.table_key == "node:T0"
    assert f"manifest version {one.version} of branch {one.head.name} and manifest version 7" in found.message
    assert one.tables["node:T0"].owner in found.message and BRANCH in found.message


def test_the_bases_of_one_line_are_of_one_chain() -> None:
    chain = bases(9, 5, 3)
    unneeded = tuple(replace(base, needed=False) for base in chain)
    assert list(between(two_lines(pin(0, bases=chain), pin(0, bases=unneeded[:2])))) == []
    assert list(between(two_lines(pin(0, bases=chain), pin(0, bases=(chain[0], chain[2])))))
