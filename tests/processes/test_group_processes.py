"""Processes that share plans and swaps, beside a killer, a compactor and a cleaner: every acknowledged commit is there once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from omnigraph.commit.queue.offers import OwnOffer
from omnigraph.manifest.rows import CommitRow, TableChange
from omnigraph.testing import group_workload as work
from omnigraph.testing.group_workload import EDGE, HUB, OWN, PERSON
from omnigraph.testing.shared_swaps import ShareCounts
from omnigraph.testing.sharing import Sharing

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]


@pytest.fixture
def switched_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Combining and offers, in all processes; with syncs, because without them no plan is called applied."""
    for name in ("OMNIGRAPH_COMMIT_COMBINE", "OMNIGRAPH_COMMIT_OFFERS"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("OMNIGRAPH_DURABILITY", "commit")


def check(root: str, told: work.Heard) -> None:
    assert work.findings(root, told) == []
    assert told.kills > 0 and told.of("kept up")
    assert any(line[4] for line in told.of("wrote")), "no two requests have shared a swap"


def test_processes_that_group_beside_a_killer_a_compactor_and_a_cleaner(local_root: str) -> None:
    work.start(local_root)
    check(local_root, work.run_grouped(local_root, 4, 4, 11, kill_every_s=0.8, limit_s=240))


@pytest.mark.usefixtures("switched_on")
def test_processes_that_carry_out_and_take_along_each_others_commits_beside_a_killer(local_root: str) -> None:
    work.start(local_root)
    kinds = (*work.KINDS, "edge", "person", "edge", "insert", "edge")  # more of what waits for the same table
    told = work.run_grouped(local_root, 4, 2, len(kinds), kill_every_s=1.5, limit_s=240, kinds=kinds)
    check(local_root, told)
    assert told.of("applied") and told.sharing.carried > 0, told.sharing


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_12_processes_that_group_beside_a_killer_a_compactor_and_a_cleaner(any_root: str) -> None:
    work.start(any_root)
    check(any_root, work.run_grouped(any_root, 12, 8, 66, kill_every_s=1.5, limit_s=3000))


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("switched_on")
def test_12_processes_that_carry_out_and_take_along_each_others_commits(any_root: str) -> None:
    work.start(any_root)
    told = work.run_grouped(any_root, 12, 4, 66, kill_every_s=1.5, limit_s=3000)
    check(any_root, told)
    assert told.sharing.helped > 0 and told.sharing.carried > 0 and told.of("refused"), told.sharing


# --- the judge ----------------------------------------------------------------------------------------------------------


def not_looking(self: OwnOffer, held: object) -> None:
    self.close()


def repeat_what_was_carried_out() -> None:
    """The owner of an offer whose file is gone writes its rows once more, without asking what became of them."""
    setattr(OwnOffer, "look", not_looking)  # noqa: B010 - in a child of its own
    setattr(OwnOffer, "withdraw", OwnOffer.close)  # noqa: B010


@pytest.mark.usefixtures("switched_on")
def test_planted_an_owner_that_repeats_what_was_carried_out_is_found(local_root: str) -> None:
    work.start(local_root)
    told = work.run_grouped(
        local_root, 4, 2, 11, kill_every_s=60, limit_s=240, kinds=("edge",), plant=repeat_what_was_carried_out
    )
    assert work.findings(local_root, told)


def commit(commit_id: str, name: str, *tables: str, plan: str = "", version: int = 1) -> CommitRow:
    tables_of = {key: TableChange("i", None, 1, inserted=1) for key in tables}
    return CommitRow(commit_id, plan or commit_id, (), name, 0, None, version, "load", tables_of, version=version)


def told_of(*said: tuple[Any, ...]) -> work.Heard:
    return work.Heard(list(said))


BEGAN = (
    ("began", "w0", "a", "person", 0, False),
    ("wrote", "w0", "a", "C1", 1),
    ("began", "w0", "b", "person", 11, False),
    ("wrote", "w0", "b", "C2", 1),
    ("began", "w0", "c", "both", 4, False),
    ("began", "w1", "d", "refused-end", 9, False),
    ("failed", "w1", "d", "data-invalid", "no such end"),
    ("began", "w1", "e", "own", 1, True),
    ("unknown", "w1", "e", "C5"),
)
ROWS = (commit("C1", "w0", PERSON), commit("C2", "w0", PERSON), commit("C0", "init", PERSON))


def left(people: dict[str, int], edges: dict[str, int] | None = None, own: dict[str, int] | None = None) -> Any:
    return {PERSON: Counter({HUB: 1} | people), EDGE: Counter(edges or {}), OWN: Counter(own or {})}


def test_what_a_run_of_groups_may_not_leave_behind_is_found() -> None:
    told = told_of(*BEGAN)
    whole = {"a": 1, "b": 1}
    assert work._compared(told, work.Left(ROWS, left(whole))) == []
    landed = (*ROWS, commit("C5", "w1", "node:Own1"))
    assert work._compared(told, work.Left(landed, left(whole, own={"e": 1}))) == []
    wrong: dict[str, work.Left] = {
        "a commit lost": work.Left(ROWS[:1] + ROWS[2:], left(whole)),
        "a row lost": work.Left(ROWS, left({"a": 1})),
        "a row twice": work.Left(ROWS, left({"a": 2, "b": 1})),
        "a commit twice": work.Left((*ROWS, ROWS[0]), left(whole)),
        "half of an unanswered call": work.Left((*ROWS, commit("C3", "w0", PERSON)), left(whole | {"c": 1})),
        "of nobody": work.Left((*ROWS, commit("C3", "w0", PERSON)), left(whole | {"x": 1})),
        "a refused row": work.Left((*ROWS, commit("C3", "w1", PERSON)), left(whole | {"d": 1})),
        "an unknown call that has a commit and no row": work.Left(landed, left(whole)),
        "an unknown call that has a row and no commit": work.Left(ROWS, left(whole, own={"e": 1})),
        "a commit that says something else": work.Left((replace(ROWS[0], tables={}), *ROWS[1:]), left(whole)),
    }
    assert [name for name, found in wrong.items() if not work._compared(told, found)] == []


def test_answers_that_a_run_of_groups_may_not_give_are_found() -> None:
    one = ("began", "w0", "a", "shared", 3, False)
    two = told_of(one, ("wrote", "w0", "a", "C1", 0), ("wrote", "w0", "a", "C2", 0))
    assert work._compared(two, work.Left(ROWS, left({"a": 1})))
    same = told_of(*BEGAN[:3], ("wrote", "w0", "b", "C1", 1))
    assert work._compared(same, work.Left((ROWS[0], ROWS[2]), left({"a": 1, "b": 1})))
    good = told_of(("began", "w0", "a", "refused-twice", 8, False), ("wrote", "w0", "a", "C1", 0))
    assert work._compared(good, work.Left((ROWS[0], ROWS[2]), left({"a": 1})))
    failed = told_of(("began", "w0", "a", "person", 0, False), ("failed", "w0", "a", "store-unavailable", "late"))
    assert work._compared(failed, work.Left((ROWS[2],), left({})))


def test_what_processes_have_done_for_each_other_is_counted_from_the_history() -> None:
    rows = [
        commit("C1", "w0", version=1),
        commit("C2", "w0", plan="P", version=2),
        commit("C3", "w1", plan="P", version=2),
        commit("C4", "w2", plan="Q", version=2),
        commit("C5", "w2", plan="Q", version=2),
    ]
    assert Sharing.of(rows) == Sharing(commits=5, swaps=2, shared=1, helped=2, carried=1)
    assert Sharing.of(rows[:1]) + Sharing.of(rows[1:]) == Sharing.of(rows)


def test_rounds_in_which_no_process_has_helped_another_are_no_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    line = ShareCounts()
    for name in ("OMNIGRAPH_COMMIT_COMBINE", "OMNIGRAPH_COMMIT_OFFERS"):
        monkeypatch.setenv(name, "1")
    assert len(list(line.idle())) == 3
    line.add(work.Heard(said=[("refused", "w0", "key-taken")], sharing=Sharing(3, 2, 1, 1, 1)), 1.0, [])
    assert list(line.idle()) == []
    monkeypatch.setenv("OMNIGRAPH_COMMIT_OFFERS", "0")
    assert len(list(ShareCounts().idle())) == 1
