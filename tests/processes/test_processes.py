"""Real processes beside each other on one graph: nothing lost, nothing twice, one line of history.

Short forms; the long ones have the marker ``long``.
"""

from __future__ import annotations

import pytest

from omnigraph.commit.engine import MAIN
from omnigraph.testing.content import commits_of, faults_of
from omnigraph.testing.histories import (
    FAIL,
    OK,
    UNKNOWN,
    check_bank,
    check_bank_end,
    check_list_append,
    check_ring,
    check_set,
)
from omnigraph.testing.operations import create, keys_of, opened, recover
from omnigraph.testing.workloads import (
    ACCOUNT_START,
    ACCOUNTS,
    LIST_KEYS,
    Job,
    Told,
    balances_of,
    open_accounts,
    open_ring,
    read_as,
    run_together,
)

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]
ONE = (LIST_KEYS[0],)


def jobs(count: int, job: Job) -> dict[str, Job]:
    return {f"p{number}": job for number in range(count)}


def settled(root: str, told: Told) -> None:
    """After the run: nobody was cut off, every acknowledged commit is in one line, nothing is left to do."""
    assert told.unfinished == []
    recover(root)
    with opened(root) as engine:
        assert faults_of(engine) == []
        lineage = {row.commit_id for row in commits_of(engine)}
    acknowledged = [event.value for event in told.events if event.kind == OK and event.what != "read"]
    assert {one for one in acknowledged if one is not None} <= lineage


def check_rows(root: str, told: Told, keys: tuple[str, ...]) -> None:
    """Every acknowledged row stands once in each of its tables; what failed does not stand."""
    with opened(root) as engine:
        lists = read_as("list-append", engine, engine.latest(MAIN), keys)
    asked = {(e.process, e.serial): e.value for e in told.events if e.kind == "invoke" and e.what == "append"}
    for end in told.events:
        if end.what != "append" or end.kind not in (OK, FAIL):
            continue
        name, where = asked[(end.process, end.serial)]
        for key in where:
            assert lists[key].count(name) == (1 if end.kind == OK else 0), (name, key, end)


@pytest.mark.parametrize("rounds", [pytest.param(25, id="local")])
def test_8_processes_write_25_rows_each_into_one_table_and_all_land(local_root: str, rounds: int) -> None:
    create(local_root)
    told = run_together(local_root, jobs(8, Job("rows", rounds, ONE, reads=0.0)))
    assert len(told.of(OK, "append")) == 8 * rounds
    settled(local_root, told)
    check_rows(local_root, told, ONE)


@pytest.mark.parametrize("rounds", [4, pytest.param(25, marks=pytest.mark.long)])
def test_8_processes_write_rows_through_a_store_and_all_land(s3_root: str, rounds: int) -> None:
    create(s3_root)
    told = run_together(s3_root, jobs(8, Job("rows", rounds, ONE, reads=0.0)), limit_s=250)
    assert len(told.of(OK, "append")) == 8 * rounds
    settled(s3_root, told)
    check_rows(s3_root, told, ONE)


@pytest.mark.parametrize("rounds", [8, pytest.param(50, marks=pytest.mark.long)])
def test_processes_on_different_tables_do_not_refuse_each_other(any_root: str, rounds: int) -> None:
    create(any_root)
    apart = {key: Job("rows", rounds, (key,), reads=0.0) for key in LIST_KEYS}
    told = run_together(any_root, apart)
    assert len(told.of(OK, "append")) == 2 * rounds
    settled(any_root, told)
    check_rows(any_root, told, LIST_KEYS)


@pytest.mark.parametrize("rounds", [10, pytest.param(60, marks=pytest.mark.long)])
def test_processes_with_tables_of_their_own_share_swaps_beside_a_killer(any_root: str, rounds: int) -> None:
    """Six with a table each, two that share one, all killed now and then."""
    create(any_root, 8)
    own = {key: Job("rows", rounds, (key,), reads=0.2, combine=True) for key in keys_of(6)}
    shared = {f"p{number}": Job("rows", rounds, keys_of(7)[-1:], reads=0.2, combine=True) for number in range(2)}
    told = run_together(any_root, own | shared, kill_every_s=0.4, limit_s=250)
    assert told.kills > 0 and told.of(FAIL, "append") == []
    settled(any_root, told)
    check_rows(any_root, told, tuple(keys_of(8)))


@pytest.mark.parametrize("rounds", [5, pytest.param(60, marks=pytest.mark.long)])
def test_processes_that_carry_each_other_out_land_each_row_once_beside_a_killer(local_root: str, rounds: int) -> None:
    """Twelve on one table; one of them killed now and then, and a recovery that goes on beside all of them."""
    create(local_root, 2)
    told = run_together(
        local_root,
        {
            **jobs(12, Job("rows", rounds, keys_of(1), reads=0.0, offers=True)),
            "recoverer": Job("recover", 4 * rounds, keys_of(1), reads=0.0),
        },
        kill_every_s=0.5,
        limit_s=280,
    )
    assert told.kills > 0 and told.of(FAIL, "append") == []
    settled(local_root, told)
    check_rows(local_root, told, tuple(keys_of(1)))
    with opened(local_root) as engine:
        shared = [row for row in commits_of(engine) if row.plan != row.commit_id]
    assert shared, "some commits came by a plan of several"


@pytest.mark.parametrize("rounds", [12, pytest.param(100, marks=pytest.mark.long)])
def test_processes_that_are_killed_every_second_lose_and_double_nothing(local_root: str, rounds: int) -> None:
    create(local_root)
    told = run_together(local_root, jobs(6, Job("list-append", rounds)), kill_every_s=0.5, limit_s=250)
    assert told.kills > 0 and told.of(FAIL, "append") == []
    settled(local_root, told)
    assert check_list_append(told.events) == []
    check_rows(local_root, told, LIST_KEYS)


@pytest.mark.parametrize("rounds", [4, pytest.param(60, marks=pytest.mark.long)])
def test_processes_that_are_stopped_and_go_on_do_no_harm(local_root: str, rounds: int) -> None:
    create(local_root)
    told = run_together(
        local_root, jobs(4, Job("list-append", rounds)), stop_every_s=0.2, stop_for_s=0.3, kill_every_s=1.1, limit_s=250
    )
    assert told.stops > 0
    settled(local_root, told)
    assert check_list_append(told.events) == []


@pytest.mark.parametrize("rounds", [6, pytest.param(50, marks=pytest.mark.long)])
def test_a_set_holds_what_was_acknowledged_whoever_is_killed(local_root: str, rounds: int) -> None:
    create(local_root)
    told = run_together(local_root, jobs(4, Job("set", rounds, reads=0.5)), kill_every_s=0.7)
    settled(local_root, told)
    assert check_set(told.events) == []


@pytest.mark.parametrize("rounds", [8, pytest.param(60, marks=pytest.mark.long)])
def test_money_that_moves_between_two_tables_is_never_made_nor_lost(local_root: str, rounds: int) -> None:
    create(local_root)
    with opened(local_root) as engine:
        open_accounts(engine)
    told = run_together(local_root, jobs(4, Job("bank", rounds, reads=0.5)), kill_every_s=1.5)
    settled(local_root, told)
    start = dict.fromkeys(ACCOUNTS, ACCOUNT_START)
    assert check_bank(told.events, total=ACCOUNT_START * len(ACCOUNTS), accounts=len(ACCOUNTS)) == []
    with opened(local_root) as engine:
        end = balances_of(engine, engine.latest(MAIN))
    assert sum(end.values()) == ACCOUNT_START * len(ACCOUNTS)
    assert check_bank_end(told.events, start=start, end=end) == []


@pytest.mark.parametrize("rounds", [6, pytest.param(40, marks=pytest.mark.long)])
def test_a_ring_stays_one_ring(local_root: str, rounds: int) -> None:
    create(local_root)
    with opened(local_root) as engine:
        open_ring(engine)
    told = run_together(local_root, jobs(4, Job("ring", rounds, reads=0.5)), kill_every_s=1.5)
    settled(local_root, told)
    assert check_ring(told.events) == []


def test_no_answer_is_unknown_where_nobody_dies(local_root: str) -> None:
    create(local_root)
    told = run_together(local_root, jobs(4, Job("list-append", 6)))
    assert [event for event in told.events if event.kind in (FAIL, UNKNOWN)] == []
    settled(local_root, told)
