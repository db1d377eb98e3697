from __future__ import annotations

import os
import subprocess
import sys
import threading

import pyarrow as pa
import pytest
import ulid as independent

from omnigraph.core import ids
from omnigraph.core.clock import ManualClock
from omnigraph.core.errors import InvalidInput
from tests.steps import steps


def test_ulids_of_one_process_sort_in_creation_order() -> None:
    made = [ids.new_ulid() for _ in range(5_000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_ulids_keep_their_order_when_the_wall_clock_is_turned_back() -> None:
    clock = ManualClock()
    before = [ids.new_ulid(clock) for _ in range(3)]
    clock.set_wall(clock.now_us() - 3_600_000_000)
    after = [ids.new_ulid(clock) for _ in range(3)]
    assert before + after == sorted(before + after)


def test_two_clocks_do_not_disturb_each_other() -> None:
    late, early = ManualClock(2_000_000_000_000_000), ManualClock(1_000_000_000_000_000)
    ids.new_ulid(late)
    assert ids.ulid_time_us(ids.new_ulid(early)) == 1_000_000_000_000_000


def test_ulids_of_many_threads_are_unique_and_rise_within_each() -> None:
    made: list[list[str]] = [[] for _ in range(8)]
    threads = [
        threading.Thread(target=lambda mine=mine: mine.extend(ids.new_ulid() for _ in range(2_000))) for mine in made
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(mine == sorted(mine) for mine in made)
    assert len({one for mine in made for one in mine}) == 16_000


def test_an_independent_reader_finds_the_same_time() -> None:
    clock = ManualClock(1_723_456_789_123_456)
    made = ids.new_ulid(clock)
    assert ids.is_ulid(made)
    assert ids.ulid_time_us(made) == 1_723_456_789_123_000
    assert independent.ULID.from_str(made).milliseconds == 1_723_456_789_123
    assert str(independent.ULID.from_str(made)) == made


@pytest.mark.parametrize("text", ["", "0" * 25, "8" + "0" * 25, "0" * 25 + "I", "0" * 25 + "a", "../" + "0" * 23])
def test_what_is_no_ulid_is_told_apart(text: str) -> None:
    assert not ids.is_ulid(text)
    with pytest.raises(InvalidInput):
        ids.ulid_time_us(text)


def test_a_forked_child_does_not_mint_its_parents_ids() -> None:
    program = (
        "import os, sys\n"
        "from omnigraph.core import ids\n"
        "from omnigraph.core.clock import SystemClock\n"
        "ids.new_ulid()\n"
        "r, w = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    os.write(w, '\\n'.join(ids.new_ulid() for _ in range(200)).encode()); os._exit(0)\n"
        "mine = {ids.new_ulid() for _ in range(200)}\n"
        "os.wait(); os.close(w)\n"
        "theirs = set(os.fdopen(r).read().split())\n"
        "assert len(theirs) == 200 and not mine & theirs\n"
    )
    # A clock that stands still makes the collision certain if the child carries on where the parent stood.
    frozen = "import time; now = time.time_ns(); time.time_ns = lambda: now\n"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-W", "ignore", "-c", frozen + program], check=True, env=env, timeout=60)


@pytest.mark.parametrize("n", [0, 1, 2, 32_767, 32_768, 32_769, 100_001])
def test_bulk_ulids_are_rising_unique_and_well_formed(n: int) -> None:
    before = ids.new_ulid()
    made = ids.bulk_ulids(n)
    after = ids.new_ulid()
    made.validate(full=True)
    assert made.type == pa.string()
    texts = made.to_pylist()
    assert len(texts) == n
    assert texts == sorted(set(texts))
    assert all(ids.is_ulid(text) for text in texts)
    assert [before, *texts, after] == sorted([before, *texts, after])


def test_bulk_ulids_carry_over_every_character() -> None:
    first = (1 << 60) - 7  # twelve characters of `Z` turn over inside the array
    chars, skipped = ids._consecutive(first, 20)
    rows = [bytes(chars[i * 26 : i * 26 + 26]).decode() for i in range(skipped, skipped + 20)]
    assert rows == [ids._encode(first + i) for i in range(20)]


def test_two_bulk_calls_never_overlap() -> None:
    a, b = ids.bulk_ulids(50_000).to_pylist(), ids.bulk_ulids(50_000).to_pylist()
    assert a[-1] < b[0]


def test_more_ids_than_one_array_holds_are_refused() -> None:
    with pytest.raises(InvalidInput):
        ids.bulk_ulids(90_000_000)


def test_making_ids_in_bulk_takes_a_call_for_thousands_of_them() -> None:
    ids.bulk_ulids(1)  # imports
    assert steps(lambda: ids.bulk_ulids(1_000_000)) < 1_000


def test_uuids_are_random_and_lower_case() -> None:
    made = {ids.new_uuid() for _ in range(1_000)}
    assert len(made) == 1_000
    assert all(len(one) == 36 and one == one.lower() for one in made)


def test_the_ulid_that_follows_is_the_next_one_of_a_row() -> None:
    one, two, three = ids.ulid_row(3)
    assert (ids.following(one), ids.following(two)) == (two, three)
    assert ids.following("0" * 24 + "0Z") == "0" * 24 + "10"
    with pytest.raises(InvalidInput):
        ids.following("no ulid")
