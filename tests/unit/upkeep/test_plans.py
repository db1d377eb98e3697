"""The pure decisions of upkeep, over all their cells."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.commit.maintain import Forward, fast_forward
from omnigraph.core.ids import new_ulid
from omnigraph.schema import parse_schema
from omnigraph.table.indices import BTREE, INVERTED, SEGMENTS_MAX, VECTOR, IndexSpec, IndexState
from omnigraph.upkeep.compact import plan_merges
from omnigraph.upkeep.garbage import Artefacts, unclaimed
from omnigraph.upkeep.index_plan import Need, need_of, needs_of, wanted_indices

# --- may a turn of upkeep move a pin? -------------------------------------------------------------------------------------


def test_a_fast_forward_publishes_only_what_is_all_its_own_and_never_moves_back() -> None:
    numbers = range(1, 7)
    for pin, achieved in itertools.product(numbers, numbers):
        for mine in itertools.chain.from_iterable(itertools.combinations(numbers, n) for n in range(len(numbers) + 1)):
            own = frozenset(mine)
            verdict = fast_forward(same_line=True, pin=pin, achieved=achieved, own=own, trusted=True)
            between = set(range(pin + 1, achieved + 1))
            if pin >= achieved:
                assert verdict is Forward.SUPERSEDED
            elif between <= own:
                assert verdict is Forward.PUBLISH
            else:
                assert verdict is Forward.UNDO


def test_as_many_versions_as_there_were_commits_is_not_enough() -> None:
    """Two commits of ours at 3 and 5, somebody else's at 4: a count would be satisfied."""
    verdict = fast_forward(same_line=True, pin=3, achieved=5, own=frozenset({3, 5}), trusted=True)
    assert verdict is Forward.UNDO


def test_files_staged_before_a_cleanup_are_not_published() -> None:
    assert fast_forward(same_line=True, pin=1, achieved=2, own=frozenset({2}), trusted=False) is Forward.UNDO


def test_a_table_that_was_replaced_is_left_alone() -> None:
    for pin, achieved in itertools.product(range(3), (None, 1, 2)):
        verdict = fast_forward(same_line=False, pin=pin, achieved=achieved, own=frozenset({1, 2}), trusted=True)
        assert verdict is Forward.GONE


def test_without_an_effect_there_is_nothing_to_publish() -> None:
    assert fast_forward(same_line=True, pin=1, achieved=None, own=frozenset(), trusted=True) is Forward.NOTHING


# --- indexes --------------------------------------------------------------------------------------------------------------

SCHEMA = """
node Thing {
  name: String @key
  state: enum(on, off) @index
  size: I64? @index
  price: F64? @index
  born: Date? @index
  seen: DateTime? @index
  ok: Bool? @index
  text: String? @index
  tags: [String]?
  body: Blob?
  place: Vector(3)? @index
  plain: I32?
  @index(size, price)
}
node Pair { a: I32 b: I32 @key(a, b) }
edge Has: Thing -> Pair { since: Date? @index note: String? }
"""


def wanted(key: str) -> dict[str, str]:
    catalog = parse_schema(SCHEMA, mint=new_ulid)
    return {spec.column: spec.kind for spec in wanted_indices(catalog.by_table_key(key))}


def test_the_schema_says_which_indexes_there_are() -> None:
    assert wanted("node:Thing") == {
        "id": BTREE,
        "name": INVERTED,
        "state": BTREE,
        "size": BTREE,
        "price": BTREE,
        "born": BTREE,
        "seen": BTREE,
        "ok": BTREE,
        "text": INVERTED,
        "place": VECTOR,
    }
    assert wanted("node:Pair") == {"id": BTREE}
    assert wanted("edge:Has") == {"id": BTREE, "src": BTREE, "dst": BTREE, "since": BTREE}


SPEC = IndexSpec("id", BTREE)


def state(*segments: set[int], kind: str = BTREE) -> IndexState:
    return IndexState("id_idx", "id", kind, tuple(frozenset(segment) for segment in segments))


@pytest.mark.parametrize(
    ("there", "fragments", "need", "over", "replaces"),
    [
        (None, {1, 2}, Need.BUILD, {1, 2}, False),
        (state({1, 2}), {1, 2}, Need.NOTHING, set(), False),
        (state({1}), {1, 2, 3}, Need.FOLD, {2, 3}, False),
        (state({1}, {2}), {1, 2}, Need.NOTHING, set(), False),
        (state({1}, kind=INVERTED), {1}, Need.BUILD, {1}, True),
        (state(*({n} for n in range(SEGMENTS_MAX))), set(range(SEGMENTS_MAX)), Need.NOTHING, set(), False),
        (
            state(*({n} for n in range(SEGMENTS_MAX))),
            set(range(SEGMENTS_MAX + 1)),
            Need.REWRITE,
            set(range(SEGMENTS_MAX + 1)),
            True,
        ),
        (state(*(set() for _ in range(20)), {1}), {1, 2}, Need.FOLD, {2}, False),
    ],
)
def test_what_an_index_needs(
    there: IndexState | None, fragments: set[int], need: Need, over: set[int], replaces: bool
) -> None:
    work = need_of(SPEC, there, frozenset(fragments))
    assert (work.need, set(work.fragments), work.replaces) == (need, over, replaces)


def test_a_table_without_fragments_needs_no_index() -> None:
    assert needs_of((SPEC,), {}, frozenset()) == ()


@given(
    st.lists(st.sets(st.integers(0, 12)), max_size=12),
    st.sets(st.integers(0, 12), min_size=1),
)
def test_doing_what_an_index_needs_leaves_nothing_to_do(segments: list[set[int]], fragments: set[int]) -> None:
    taken: set[int] = set()
    disjoint = []
    for segment in segments:
        disjoint.append((segment & fragments) - taken)
        taken |= segment
    before = state(*disjoint) if disjoint else None
    work = need_of(SPEC, before, frozenset(fragments))
    kept = () if work.replaces or before is None else before.segments
    after = IndexState("id_idx", "id", BTREE, (*kept, work.fragments))
    assert need_of(SPEC, after, frozenset(fragments)).need is Need.NOTHING


# --- the archive of the manifest ------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 100), max_size=30), st.integers(1, 200))
def test_merging_archives_keeps_their_order_and_ends(sizes: list[int], rows_max: int) -> None:
    runs = plan_merges(sizes, fragments_max=None, rows_max=rows_max)
    assert all(b - a > 1 and sum(sizes[a:b]) <= rows_max for a, b in runs)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(runs))
    merged: list[int] = []
    at = 0
    for a, b in runs:
        merged += [*sizes[at:a], sum(sizes[a:b])]
        at = b
    merged += sizes[at:]
    assert sum(merged) == sum(sizes)
    assert plan_merges(merged, fragments_max=None, rows_max=rows_max) == []


def test_archives_are_left_alone_up_to_the_bound() -> None:
    assert plan_merges([64] * 8, fragments_max=8) == []
    assert plan_merges([64] * 9, fragments_max=8) == [(0, 9)]
    assert plan_merges([], fragments_max=None) == plan_merges([64], fragments_max=None) == []


# --- garbage --------------------------------------------------------------------------------------------------------------


def test_what_no_state_names_is_garbage_and_a_fork_goes_with_its_dataset() -> None:
    artefacts = Artefacts(
        frozenset({"nodes/A", "nodes/B", "nodes/C"}), frozenset({("nodes/A", "f1"), ("nodes/B", "f2")})
    )
    named = frozenset({("nodes/A", None)})
    claimed = frozenset({("nodes/C", None)})
    assert unclaimed(artefacts, named, claimed) == (("nodes/A", "f1"), ("nodes/B", None))
    assert unclaimed(artefacts, named | {("nodes/B", None)}, claimed) == (("nodes/A", "f1"), ("nodes/B", "f2"))
    assert unclaimed(artefacts, frozenset(), frozenset()) == (("nodes/A", None), ("nodes/B", None), ("nodes/C", None))
