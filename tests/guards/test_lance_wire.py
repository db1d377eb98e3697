"""Facts of Lance on an object store: what a step costs, and what it makes of lost, late and refused requests.

The cost contract counts on the first half, the three-valued outcome on the second.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import lance
import pytest
from lance import LanceDataset
from lance.commit import CommitConflictError
from lance.file import LanceFileSession

from omnigraph.testing.faults import FaultProxy, Match, Rule, drop, duplicate, fail, hold
from tests.guards.substrate import append, commit, configure, filled, head, ids, overwrite, restore, rows

VERSION_PUT = Match(mutating=True, key=r"/_versions/")
TRANSACTION_PUT = Match(mutating=True, key=r"/_transactions/")
DATA_PUT = Match(mutating=True, key=r"/data/")


@pytest.fixture
def uri(proxied_root: str) -> str:
    return f"{proxied_root}/t.lance"


def manifest_name(version: int) -> str:
    return f"_versions/{(1 << 64) - 1 - version:020d}.manifest"


def cost(proxy: FaultProxy, work: Callable[[], Any]) -> dict[str, int]:
    proxy.reset()
    work()
    return proxy.operations()


# --- costs --------------------------------------------------------------------------------------------------------------


def test_staging_on_a_handle_costs_one_put(fault_proxy: FaultProxy, uri: str) -> None:
    base = filled(uri, ["a"])
    assert cost(fault_proxy, lambda: append(base, ["b"])) == {"data put": 1}


def test_a_swap_costs_two_puts_and_no_listing(fault_proxy: FaultProxy, uri: str) -> None:
    base = filled(uri, ["a"])
    staged = overwrite(base, ["b"])
    assert cost(fault_proxy, lambda: commit(base, staged)) == {"versions put": 2}


@pytest.mark.parametrize(
    "stage",
    [lambda base: append(base, ["b"]), lambda base: configure(base, {"k": "v"})],
    ids=["append", "update_config"],
)
def test_a_table_commit_costs_a_listing_and_two_puts(
    fault_proxy: FaultProxy, uri: str, stage: Callable[..., Any]
) -> None:
    base = filled(uri, ["a"])
    staged = stage(base)
    assert cost(fault_proxy, lambda: commit(base, staged)) == {"versions list": 1, "versions put": 2}


def test_a_restore_costs_a_table_commit_and_the_reading_of_what_it_restores(fault_proxy: FaultProxy, uri: str) -> None:
    base = filled(uri, ["a"])
    back = restore(base, base.version)
    seen = cost(fault_proxy, lambda: commit(base, back))
    assert seen == {"versions get": 1, "versions head": 1, "versions list": 1, "versions put": 2}


def test_a_commit_on_the_handle_of_the_last_one_costs_the_same(fault_proxy: FaultProxy, uri: str) -> None:
    base = filled(uri, ["a"])
    for _ in range(5):
        base = commit(base, append(base, ["b"]))
    staged = append(base, ["b"])
    assert cost(fault_proxy, lambda: commit(base, staged)) == {"versions list": 1, "versions put": 2}


@pytest.mark.parametrize("depth", [1, 12])
def test_opening_a_version_costs_a_head_and_a_get_whatever_the_history(
    fault_proxy: FaultProxy, uri: str, depth: int
) -> None:
    base = filled(uri, ["a"])
    for _ in range(depth):
        base = commit(base, append(base, ["b"]))
    assert cost(fault_proxy, lambda: lance.dataset(uri, version=2)) == {"versions get": 1, "versions head": 1}


def test_opening_the_newest_version_costs_a_listing_and_a_get(fault_proxy: FaultProxy, uri: str) -> None:
    filled(uri, ["a"], ["b"])
    assert cost(fault_proxy, lambda: head(uri)) == {"versions get": 1, "versions list": 1}


def test_asking_whether_a_version_exists_costs_one_head(fault_proxy: FaultProxy, uri: str) -> None:
    base = filled(uri, ["a"])
    files = LanceFileSession(uri)
    answers = []
    seen = cost(fault_proxy, lambda: answers.append(files.contains(manifest_name(base.version + 1))))
    assert seen == {"versions head": 1}
    commit(base, append(base, ["b"]))
    answers.append(files.contains(manifest_name(base.version + 1)))
    assert answers == [False, True]


def test_asking_for_the_newest_version_costs_one_listing(fault_proxy: FaultProxy, uri: str) -> None:
    base = filled(uri, ["a"])
    commit(base, append(base, ["b"]))
    answers = []
    assert cost(fault_proxy, lambda: answers.append(base.latest_version)) == {"versions list": 1}
    assert answers == [base.version + 1]


def test_reading_a_transaction_back_costs_one_get(fault_proxy: FaultProxy, uri: str) -> None:
    base = filled(uri, ["a"])
    landed = commit(base, append(base, ["b"]))
    assert cost(fault_proxy, lambda: base.read_transaction(landed.version))["versions get"] <= 2


def test_facts_of_a_handle_cost_nothing(fault_proxy: FaultProxy, uri: str) -> None:
    base = filled(uri, ["a"], ["b"])

    def ask() -> None:
        base.count_rows()
        base.describe_indices()
        base.config()
        for fragment in base.get_fragments():
            assert fragment.metadata.physical_rows == 1
            assert fragment.metadata.files[0].file_size_bytes

    assert cost(fault_proxy, ask) == {}


def test_the_counter_of_a_handle_agrees_with_the_wire(fault_proxy: FaultProxy, uri: str) -> None:
    """Receipts count with it."""
    base = filled(uri, ["a"])
    base.io_stats_incremental()
    fault_proxy.reset()
    commit(base, append(base, ["b"]))
    commit(base, append(base, ["c"]))
    seen = base.io_stats_incremental()
    assert seen.read_iops + seen.write_iops == fault_proxy.counts()["total"]
    assert seen.write_iops == fault_proxy.mutations


# --- lost, late and refused ---------------------------------------------------------------------------------------------


def test_a_lost_answer_to_the_version_put_is_recognised_as_our_own_success(fault_proxy: FaultProxy, uri: str) -> None:
    base = filled(uri, ["a"])
    staged = append(base, ["b"])
    armed = fault_proxy.rule(Rule(drop(after=True), VERSION_PUT))
    assert commit(base, staged).version == base.version + 1
    assert armed.fired == 1
    assert ids(head(uri)) == ["a", "b"]


def test_a_lost_answer_to_the_version_put_of_a_swap_is_recognised_as_our_own_success(
    fault_proxy: FaultProxy, uri: str
) -> None:
    base = filled(uri, ["a"])
    staged = overwrite(base, ["swap"])
    armed = fault_proxy.rule(Rule(drop(after=True), VERSION_PUT))
    assert commit(base, staged).version == base.version + 1
    assert armed.fired == 1
    assert head(uri).version == base.version + 1


def test_a_duplicated_version_put_is_recognised_as_our_own_success(fault_proxy: FaultProxy, uri: str) -> None:
    base = filled(uri, ["a"])
    staged = overwrite(base, ["swap"])
    fault_proxy.rule(Rule(duplicate(answer_second=True), VERSION_PUT))
    assert commit(base, staged).version == base.version + 1


@pytest.mark.parametrize("after", [False, True], ids=["request lost", "answer lost"])
def test_a_lost_transaction_file_surfaces_and_nothing_has_landed(
    fault_proxy: FaultProxy, uri: str, after: bool
) -> None:
    base = filled(uri, ["a"])
    staged = append(base, ["b"])
    fault_proxy.rule(Rule(drop(after=after), TRANSACTION_PUT, times=None))
    with pytest.raises(OSError) as caught:
        commit(base, staged)
    assert not isinstance(caught.value, CommitConflictError)
    fault_proxy.calm()
    assert head(uri).version == base.version


def test_a_lost_data_put_surfaces_as_an_os_error(fault_proxy: FaultProxy, uri: str) -> None:
    base = filled(uri, ["a"])
    fault_proxy.rule(Rule(drop(), DATA_PUT, times=None))
    with pytest.raises(OSError):
        append(base, ["b"])


@pytest.mark.parametrize("match", [DATA_PUT, TRANSACTION_PUT, VERSION_PUT], ids=["data", "transaction", "version"])
def test_one_503_is_retried_silently(fault_proxy: FaultProxy, uri: str, match: Match) -> None:
    base = filled(uri, ["a"])
    armed = fault_proxy.rule(Rule(fail(503), match))
    assert commit(base, append(base, ["b"])).version == base.version + 1
    assert armed.fired == 1
    assert ids(head(uri)) == ["a", "b"]


def test_a_commit_timeout_is_ambiguous_and_may_land_later(fault_proxy: FaultProxy, uri: str) -> None:
    base = filled(uri, ["a"])
    staged = append(base, ["b"])
    held = fault_proxy.rule(Rule(hold(), VERSION_PUT))
    with pytest.raises(TimeoutError):
        commit(base, staged, commit_timeout=timedelta(milliseconds=300))
    held.wait_fired()
    assert head(uri).version == base.version
    held.release()
    fault_proxy.drain()
    assert head(uri).version == base.version + 1


def test_a_refusal_for_want_of_rights_is_not_a_conflict(fault_proxy: FaultProxy, uri: str) -> None:
    base = filled(uri, ["a"])
    staged = append(base, ["b"])
    fault_proxy.rule(Rule(fail(403), Match(mutating=True), times=None))
    with pytest.raises(OSError, match="(?i)403|denied|permission") as caught:
        commit(base, staged)
    assert not isinstance(caught.value, CommitConflictError)


@pytest.mark.parametrize("strict", [True, False], ids=["swap", "append"])
def test_a_stalled_put_of_a_reclaimed_version_succeeds_and_is_lost(
    fault_proxy: FaultProxy, uri: str, strict: bool
) -> None:
    """Why the boundary is read after every swap."""
    base = filled(uri, ["a"])
    other = lance.dataset(uri, version=base.version)
    staged = overwrite(base, ["lost"]) if strict else append(base, ["lost"])
    held = fault_proxy.rule(Rule(hold(), VERSION_PUT))
    with ThreadPoolExecutor(1) as pool:
        stalled = pool.submit(commit, base, staged)
        held.wait_fired()
        reclaimed = other.version + 1
        for name in ("x", "y", "z"):
            other = commit(other, append(other, [name]))
        other.cleanup_old_versions(versions=[reclaimed])
        held.release()
        landed = stalled.result(30)
    assert landed.version == reclaimed
    assert head(uri).version == other.version
    assert "lost" not in ids(head(uri))


def test_a_stalled_put_of_a_version_that_still_exists_is_refused_or_rebased(fault_proxy: FaultProxy, uri: str) -> None:
    base = filled(uri, ["a"])
    other = lance.dataset(uri, version=base.version)
    staged = overwrite(base, ["late"])
    held = fault_proxy.rule(Rule(hold(), VERSION_PUT))
    with ThreadPoolExecutor(1) as pool:
        stalled = pool.submit(commit, base, staged)
        held.wait_fired()
        commit(other, append(other, ["x"]))
        held.release()
        with pytest.raises(CommitConflictError):
            stalled.result(30)
    assert ids(head(uri)) == ["a", "x"]


def test_a_failed_row_level_commit_says_too_many_concurrent_writers(uri: str) -> None:
    base = filled(uri, ["a"])
    stale = lance.dataset(uri, version=base.version)
    update = base.merge_insert("id").when_matched_update_all().conflict_retries(0)
    update.execute(rows(["a"], 1))
    with pytest.raises(OSError, match="Too many concurrent writers"):
        stale.merge_insert("id").when_matched_update_all().conflict_retries(0).execute(rows(["a"], 2))


def test_a_handle_passed_to_commit_spares_the_requests_of_a_uri(fault_proxy: FaultProxy, uri: str) -> None:
    base = filled(uri, ["a"])
    staged = append(base, ["b"])
    with_uri = cost(fault_proxy, lambda: LanceDataset.commit(uri, staged, max_retries=0))
    assert sum(with_uri.values()) > 3
