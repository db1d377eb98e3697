"""How long a plan that is applied waits to be taken along, and when a process expects to lose a swap."""

from __future__ import annotations

import itertools

import pytest

from omnigraph.commit.queue.timing import (
    CONTENDED_MIN_S,
    RANK_FIRST,
    RANK_STEPS,
    RANKS_MAX,
    SWAP_MAX_S,
    ContentionTiming,
    rank_pause_s,
)
from omnigraph.core.clock import ManualClock

SWAPS = (0.0, 0.001, 0.2, SWAP_MAX_S, 30.0)


@pytest.mark.parametrize("swap_s", SWAPS)
def test_the_oldest_plan_in_flight_never_pauses(swap_s: float) -> None:
    assert rank_pause_s(swap_s, 0) == 0.0


@pytest.mark.parametrize("swap_s", SWAPS)
def test_no_pause_is_shorter_at_a_higher_rank_and_none_is_longer_than_its_bound(swap_s: float) -> None:
    pauses = [rank_pause_s(swap_s, rank) for rank in range(10 * RANKS_MAX)]
    assert all(one <= two for one, two in itertools.pairwise(pauses))
    assert max(pauses) == min(swap_s, SWAP_MAX_S) * (RANK_FIRST + RANK_STEPS * (RANKS_MAX - 1))
    assert len(set(pauses)) == (RANKS_MAX + 1 if swap_s else 1)  # up to there no two ranks wake together


@pytest.mark.parametrize("rank", (1, 3, RANKS_MAX))
def test_the_pause_follows_how_long_a_swap_takes_now(rank: int) -> None:
    assert rank_pause_s(0.4, rank) == pytest.approx(2 * rank_pause_s(0.2, rank))
    timing = ContentionTiming(ManualClock())
    assert timing.pause_at_rank_s(rank) == 0.0  # nothing was measured yet
    timing.note_swap(0.1)
    for _ in range(100):
        assert 0.9 <= timing.pause_at_rank_s(rank) / rank_pause_s(0.1, rank) <= 1.1
    for _ in range(60):
        timing.note_swap(0.3)
    assert timing.pause_at_rank_s(rank) / rank_pause_s(0.3, rank) == pytest.approx(1.0, abs=0.11)


def test_a_process_is_crowded_for_a_while_after_it_has_met_others_or_until_it_meets_none() -> None:
    clock = ManualClock()
    timing = ContentionTiming(clock)
    assert not timing.crowded
    timing.note_crowd()
    clock.advance(CONTENDED_MIN_S / 2)
    assert timing.crowded and not timing.contended  # other writers were met at the swap, not at its tables
    clock.advance(CONTENDED_MIN_S)
    assert not timing.crowded
    timing.note_crowd()
    timing.note_quiet()
    assert not timing.crowded
