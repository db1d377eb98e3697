"""Processes whose threads share plans, beside a killer, a compactor and a cleaner: every acknowledged commit is there once."""

from __future__ import annotations

from collections import Counter

import pytest

from omnigraph.testing import group_workload as work

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]


def check(root: str, told: work.Heard) -> None:
    assert work.findings(root, told) == []
    assert told.kills > 0 and told.of("kept up")
    assert any(line[4] for line in told.of("wrote")), "no two requests have shared a swap"


def test_processes_that_group_beside_a_killer_a_compactor_and_a_cleaner(local_root: str) -> None:
    work.start(local_root)
    check(local_root, work.run_grouped(local_root, 4, 4, 6, kill_every_s=0.8, limit_s=240))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_12_processes_that_group_beside_a_killer_a_compactor_and_a_cleaner(any_root: str) -> None:
    work.start(any_root)
    check(any_root, work.run_grouped(any_root, 12, 8, 60, kill_every_s=1.5, limit_s=3000))


def test_what_a_run_of_groups_may_not_leave_behind_is_found() -> None:
    told = work.Heard(
        [
            ("began", "w0", "a", 0),
            ("wrote", "w0", "a", "C1", 1),
            ("began", "w0", "b", 0),
            ("wrote", "w0", "b", "C2", 1),
            ("began", "w0", "c", 1),
        ]
    )
    clean = [Counter(C1=1, C2=1), [Counter(hub=1, a=1, b=1), Counter()]]
    assert work._compared(told, *clean) == []
    wrong = {
        "lost": [Counter(C1=1), [Counter(a=1), Counter()]],
        "a row lost": [Counter(C1=1, C2=1), [Counter(a=1), Counter()]],
        "twice": [Counter(C1=1, C2=1), [Counter(a=2, b=1), Counter()]],
        "a commit twice": [Counter(C1=2, C2=1), [Counter(a=1, b=1), Counter()]],
        "half of an unanswered call": [Counter(C1=1, C2=1), [Counter(a=1, b=1, c=1), Counter()]],
        "of nobody": [Counter(C1=1, C2=1), [Counter(a=1, b=1, x=1), Counter()]],
    }
    assert [name for name, facts in wrong.items() if not work._compared(told, *facts)] == []
    shared = work.Heard([("began", "w0", "a", 3), ("wrote", "w0", "a", "C1", 0), ("wrote", "w0", "a", "C2", 0)])
    assert work._compared(shared, Counter(C1=1, C2=1), [Counter(a=1), Counter()])
    one_commit = work.Heard([*told.said[:3], ("wrote", "w0", "b", "C1", 1)])
    assert work._compared(one_commit, Counter(C1=1), [Counter(a=1, b=1), Counter()])
