"""A state that no swap could have written is noticed before anything is based on it; what stands only once is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from omnigraph.core.ids import new_ulid
from omnigraph.manifest import rows as r
from omnigraph.manifest.sound import contradictions
from omnigraph.manifest.state import Change, State, fold, from_rows, genesis, to_rows


def grown(swaps: int = 150) -> State:
    """A graph of two tables after commits, aborts and swaps that leave no record; its tail has been rolled."""
    tables = [
        r.Pin(f"node:{name}", new_ulid(), 1, new_ulid(), f"nodes/{name}-{new_ulid()}.lance", None, 1)
        for name in ("A", "B")
    ]
    state = genesis(
        identity=new_ulid(),
        commit_id=new_ulid(),
        actor=None,
        created_at_us=1,
        schema=r.SchemaRow("node A", "{}", "0"),
        pins=tables,
    )
    for number in range(swaps):
        pin = state.tables["node:B" if number % 3 else "node:A"]
        moved = replace(pin, version=pin.version + 1, rows=number, fragments=1)
        history: r.HistoryRow | None = r.CommitRow(
            new_ulid(), (state.head.commit_id,), "me", 1, None, 0, "load", {pin.key: r.TableCounts(moved.version)}
        )
        if number % 7 == 1:
            history = r.AbortRow(new_ulid(), None, state.version, 1)
        if number % 11 == 1:
            history = None
        state, _ = fold(state, Change(pins={pin.key: moved}, history=history))
    return state


STATE = grown()


def test_whatever_swaps_write_is_sound() -> None:
    for swaps in (0, 1, 2, 63, 64, 127, 128, 150, 300):
        assert list(contradictions(grown(swaps))) == []


def flipped(text: str, at: int) -> str:
    return text[:at] + chr(ord(text[at]) ^ 1) + text[at + 1 :]


def with_tail(change: Callable[[r.HistoryRow], r.HistoryRow], at: int = -3) -> State:
    tail = list(STATE.tail)
    tail[at] = change(tail[at])
    return replace(STATE, tail=tuple(tail))


def with_pin(**facts: object) -> State:
    pin = replace(STATE.tables["node:A"], **facts)  # type: ignore[arg-type]
    return replace(STATE, tables={**STATE.tables, "node:A": pin})


PIN = STATE.tables["node:A"]
DAMAGED = {
    "head": replace(STATE, head=replace(STATE.head, commit_id=flipped(STATE.head.commit_id, 20))),
    "identity": replace(STATE, head=replace(STATE.head, identity="?" + STATE.head.identity[1:])),
    "boundary above the newest version": replace(STATE, head=replace(STATE.head, boundary=1 << 40)),
    "parent": with_tail(lambda row: replace(row, parents=(flipped(row.parents[0], 12),))),  # type: ignore[call-arg, union-attr]
    "commit id": with_tail(lambda row: replace(row, commit_id=flipped(row.commit_id, 12))),
    "number": with_tail(lambda row: replace(row, seq=row.seq ^ 1)),
    "manifest version": with_tail(lambda row: replace(row, manifest_version=row.manifest_version ^ 64)),
    "a record less": replace(STATE, tail=(*STATE.tail[:5], *STATE.tail[6:])),
    "a record twice": replace(STATE, tail=(*STATE.tail[:5], STATE.tail[4], *STATE.tail[5:])),
    "location": with_pin(location=PIN.location.replace("nodes", "nodds")),
    "location elsewhere": with_pin(location="nodes/../../A.lance"),
    "table identity": with_pin(identity=PIN.identity[:-1] + "u"),
    "ref": with_pin(ref="h-" + new_ulid()),
    "an older pin": with_pin(version=PIN.version - 1),
    "no pin": with_pin(version=0),
}


@pytest.mark.parametrize("state", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_fact_that_stands_twice_or_has_a_shape_is_held_against_it(state: State) -> None:
    assert list(contradictions(state))


def test_a_parent_with_any_bit_flipped_is_found() -> None:
    for at in range(26):
        for bit in range(7):
            damaged = with_tail(
                lambda row, at=at, bit=bit: replace(  # type: ignore[misc]
                    row,
                    parents=(row.parents[0][:at] + chr(ord(row.parents[0][at]) ^ 1 << bit) + row.parents[0][at + 1 :],),
                )
            )
            assert list(contradictions(damaged)), (at, bit)


def test_a_dropped_table_made_again_may_begin_at_version_1() -> None:
    pin = STATE.tables["node:A"]
    again = replace(pin, identity=new_ulid(), incarnation=2, version=1)
    after, _ = fold(STATE, Change(tombstones=(r.Tombstone("node:A", 1, pin.version),), pins={"node:A": again}))
    assert list(contradictions(after)) == []


@pytest.mark.parametrize(
    "state",
    [
        with_pin(rows=PIN.rows ^ 1),
        with_pin(version=PIN.version + 1),
        with_tail(lambda row: replace(row, actor="mf")),
    ],
    ids=["row count", "a later pin", "actor"],
)
def test_a_fact_that_stands_only_once_is_taken_as_it_reads(state: State) -> None:
    """What is not promised: verify finds the first, opening the table the second, nobody the third."""
    assert list(contradictions(from_rows(to_rows(state), version=state.version, ref=None))) == []
