"""The state of a branch as a value: what is kept in memory after a swap is what a cold open reads back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.core.errors import Corruption
from omnigraph.manifest import rows as r
from omnigraph.manifest.state import TAIL_KEEP, TAIL_ROLL, Change, State, fold, from_rows, to_rows
from tests.unit.commit_material import GRAPH, OTHER_COMMIT, SCHEMA, R, V, W, pin, state

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
maybe_text = st.none() | texts
counts = st.builds(r.TableCounts, *[st.integers(0, 1 << 60)] * 5)
pins = st.builds(
    replace,
    st.sampled_from([W, V, R, pin("edge:E", n=40), pin("node:N", n=50)]),
    version=st.integers(1, 1 << 40),
    ref=st.none() | st.just(f"g-{GRAPH}"),
    rows=st.integers(0, 1 << 40),
    bytes=st.integers(0, 1 << 50),
)
histories = st.builds(
    r.CommitRow,
    commit_id=st.uuids().map(str),
    parents=st.lists(texts, max_size=2).map(tuple),
    actor=maybe_text,
    created_at_us=st.integers(0, 1 << 60),
    ref=st.none() | st.just(f"g-{GRAPH}"),
    manifest_version=st.just(0),
    kind=st.sampled_from(["load", "mutate"]),
    tables=st.dictionaries(texts, counts, max_size=3),
    idempotency_key=maybe_text,
) | st.builds(
    r.AbortRow, commit_id=st.uuids().map(str), actor=maybe_text, base=st.integers(1, 99), created_at_us=st.integers(0)
)
changes = st.builds(
    Change,
    pins=st.lists(pins, max_size=3).map(lambda many: {p.key: p for p in many}),
    tombstones=st.just(()) | st.just((r.Tombstone("node:Read", 1, 3),)),
    schema=st.none() | st.builds(r.SchemaRow, texts, texts, texts),
    history=st.none() | histories,
    head=st.none() | st.builds(r.Head, st.just(GRAPH), texts, st.integers(0, 99), maybe_text, maybe_text),
)


def reread(given: State) -> State:
    """What a cold open makes of the rows that a swap wrote."""
    return from_rows(r.from_arrow(r.to_arrow(to_rows(given))), version=given.version, ref=given.ref)


@given(st.lists(changes, min_size=1, max_size=8))
def test_a_state_kept_in_memory_equals_the_one_read_back(steps: list[Change]) -> None:
    now = state()
    for step in steps:
        now, _ = fold(now, step)
        assert reread(now) == now


def long_history(length: int) -> tuple[State, list[r.HistoryRow], list[State]]:
    now = state()
    archived: list[r.HistoryRow] = []
    passed = [now]
    for number in range(length):
        row: r.HistoryRow = (
            r.AbortRow(f"a{number}", None, 1, number)
            if number % 5 == 0
            else r.CommitRow(f"c{number}", (), None, number, None, 0, "load")
        )
        if number % 7 == 0:
            now, _ = fold(now, Change(head=replace(now.head, epoch=number)))  # a swap without history
        now, rolled = fold(now, Change(history=row))
        archived.extend(rolled)
        passed.append(now)
    return now, archived, passed


def test_the_tail_rolls_at_128_and_keeps_the_newest_64() -> None:
    now, archived, passed = long_history(400)
    assert max(len(each.tail) for each in passed) == TAIL_ROLL - 1
    assert min(len(each.tail) for each in passed[TAIL_ROLL:]) == TAIL_KEEP
    numbers = [row.seq for row in (*archived, *now.tail)]
    assert numbers == list(range(1, 402)), "archived rows and the tail together are the whole history, in order"


def test_a_swap_moves_at_most_64_rows_to_the_archive_and_none_is_lost_between() -> None:
    now = state()
    for number in range(TAIL_ROLL - 2):
        now, rolled = fold(now, Change(history=r.CommitRow(f"c{number}", (), None, 0, None, 0, "load")))
        assert rolled == ()
    now, rolled = fold(now, Change(history=r.CommitRow("last", (), None, 0, None, 0, "load")))
    assert len(rolled) == TAIL_ROLL - TAIL_KEEP and len(now.tail) == TAIL_KEEP
    assert rolled[-1].seq + 1 == now.tail[0].seq


def test_a_tail_that_reaches_a_version_misses_no_row_written_after_it() -> None:
    now, archived, _ = long_history(300)
    for version in range(1, now.version + 1):
        if now.tail_reaches(version):
            assert all(row.manifest_version <= version for row in archived)
    assert now.tail_reaches(now.version) and not now.tail_reaches(1)


def test_a_short_history_is_wholly_in_the_tail() -> None:
    now, _, _ = long_history(50)
    assert now.tail_reaches(1) and now.tail_reaches(0)


def test_rows_of_unknown_kinds_survive_every_swap() -> None:
    strange = r.RawRow("x", "of_the_future", "node:Written", "here", 7, "b", 8, 9, '{"a": 1}')
    now = from_rows([*to_rows(state()), strange], version=1, ref=None)
    for _ in range(3):
        now, _rolled = fold(now, Change(pins={"node:Written": replace(W, version=9)}))
        now = reread(now)
    assert now.foreign == (strange,)


def test_a_commit_moves_the_head_and_an_abort_does_not() -> None:
    published, _ = fold(state(), Change(history=r.CommitRow("new", (), None, 0, None, 0, "load")))
    aborted, _ = fold(state(), Change(history=r.AbortRow("new", None, 1, 0)))
    assert published.head.commit_id == "new"
    assert aborted.head.commit_id == OTHER_COMMIT


def test_the_history_row_names_the_version_that_the_swap_makes() -> None:
    after, _ = fold(state(), Change(history=r.CommitRow("new", (), None, 0, None, 4711, "load")))
    assert after.version == 2 and after.tail[-1].manifest_version == 2


def test_a_dropped_table_reports_the_version_of_its_tombstone() -> None:
    after, _ = fold(state(), Change(tombstones=(r.Tombstone(W.key, 1, 3), r.Tombstone("node:Gone", 2, 8))))
    assert W.key not in after.tables
    assert (after.actual_version(W.key), after.actual_version("node:Gone"), after.actual_version("node:Never")) == (
        3,
        8,
        0,
    )


def test_a_table_made_again_under_its_key_replaces_the_tombstoned_one() -> None:
    again = replace(W, incarnation=2, identity=R.identity, version=1)
    after, _ = fold(state(), Change(tombstones=(r.Tombstone(W.key, 1, 3),), pins={W.key: again}))
    assert after.tables[W.key] == again and reread(after) == after


def rows_with(change: object, *, drop: str = "") -> list[r.RawRow]:
    kept = [row for row in to_rows(state()) if row.object_type != drop]
    return [*kept, *([change] if isinstance(change, r.RawRow) else [])]


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(rows_with(None, drop=r.GRAPH_HEAD), id="no head"),
        pytest.param(rows_with(None, drop=r.SCHEMA), id="no schema"),
        pytest.param(rows_with(None, drop=r.TABLE_VERSION), id="registered without a pin"),
        pytest.param(rows_with(None, drop=r.TABLE), id="pinned without being registered"),
        pytest.param(rows_with(r.head_row(r.Head("other", "c"))), id="two heads"),
        pytest.param(rows_with(r.schema_row(SCHEMA)), id="two schemas"),
        pytest.param(rows_with(r.pin_rows(replace(W, version=99))[1]), id="two pins of one table"),
        pytest.param(rows_with(r.pin_rows(replace(W, location="nodes/Else"))[0]), id="one table registered twice"),
        pytest.param(
            rows_with(r.RawRow("t", r.TABLE_TOMBSTONE, "node:X", metadata="{}")), id="tombstone without version"
        ),
        pytest.param(rows_with(r.RawRow("c", r.GRAPH_COMMIT, metadata="{")), id="metadata that is no JSON"),
        pytest.param(rows_with(r.RawRow("c", r.GRAPH_COMMIT, metadata="[]")), id="metadata that is no object"),
        pytest.param(rows_with(r.RawRow("c", r.PLAN_ABORT, metadata=None)), id="abort without facts"),
        pytest.param([], id="nothing at all"),
    ],
)
def test_a_current_state_that_contradicts_itself_is_corruption(rows: list[r.RawRow]) -> None:
    with pytest.raises(Corruption) as caught:
        from_rows(rows, version=7, ref=None)
    assert caught.value.facts["version"] == 7
