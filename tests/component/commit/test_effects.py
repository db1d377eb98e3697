"""Plans that make a table, commit to one table several times, or fork it: built, published, interrupted and recovered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.recovery.recover import recover_all
from omnigraph.core import failpoints
from omnigraph.core.errors import Corruption, StoreUnavailable
from omnigraph.core.meter import Meter
from omnigraph.manifest.rows import BaseVersion
from omnigraph.table.dataset import TableRef
from omnigraph.testing.content import commits_of, content_of, faults_of
from omnigraph.testing.effect_operations import MADE, OTHER_BRANCH, chained, creating, forking, give_away
from omnigraph.testing.operations import append, keys_of

TWO = keys_of(2)
SILENT = StoreUnavailable("the store does not answer")
Writing = Callable[[Engine, list[str]], Any]


@pytest.fixture
def engine(engines: Callable[..., Engine]) -> Engine:
    return engines()


def inherited(engine: Engine) -> None:
    append(engine, TWO, ["before"])
    give_away(engine, TWO)


PREPARE: dict[str, Callable[[Engine], None]] = {
    "chain": lambda engine: None,
    "create": lambda engine: None,
    "fork": inherited,
}
WRITING: dict[str, Writing] = {"chain": chained, "create": creating, "fork": forking}


def test_two_commits_to_one_table_are_published_together(engine: Engine) -> None:
    before = engine.latest(MAIN).state.tables[TWO[0]].version
    outcome = chained(engine, TWO)
    after = engine.latest(MAIN).state.tables[TWO[0]]
    assert (after.version, after.rows) == (before + 2, 2)
    change = outcome.row.tables[TWO[0]]
    assert (change.version, change.inserted) == (after.version, 2)
    assert faults_of(engine) == []


def test_a_table_is_registered_by_the_swap_that_publishes_its_first_rows(engine: Engine) -> None:
    outcome = creating(engine, TWO)
    state = engine.latest(MAIN).state
    assert (state.tables[MADE].version, state.tables[MADE].rows, state.tables[MADE].owner) == (2, 1, state.identity)
    assert outcome.row.tables[MADE].inserted == 1
    assert faults_of(engine) == []


def test_a_write_to_a_line_of_another_branch_forks_it_first(engine: Engine) -> None:
    inherited(engine)
    before = engine.latest(MAIN).state.tables[TWO[0]]
    forking(engine, TWO)
    after = engine.latest(MAIN).state.tables[TWO[0]]
    assert after.owner == engine.latest(MAIN).state.identity and after.ref is not None
    assert (after.version, after.rows) == (before.version + 1, before.rows + 2)
    assert after.bases == (BaseVersion(None, before.version, True),)
    handle = engine.tables.open(TableRef(before.location, None), before.version)
    assert engine.tables.head_version(handle) == before.version, "nothing was committed to the other branch's line"
    append(engine, TWO, ["again"])
    assert engine.latest(MAIN).state.tables[TWO[0]].ref == after.ref, "the second write stays on the fork"
    assert faults_of(engine) == []


PLACES = [
    "arm.before", "arm.after", "apply.before_commit", "apply.after_commit", "apply.before_stage", "publish.before_swap",
    "publish.after_swap", "disarm.before",
]  # fmt: skip


@pytest.mark.parametrize("kind", WRITING)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("hit", [1, 2, 3])
def test_an_interrupted_plan_is_published_whole_or_given_up_whole(
    engine: Engine, engines: Callable[..., Engine], kind: str, place: str, hit: int
) -> None:
    PREPARE[kind](engine)
    before = content_of(engine)
    met = 0

    def interrupt(**_: Any) -> None:
        nonlocal met
        met += 1
        if met == hit:
            raise KeyboardInterrupt

    with failpoints.armed(place, interrupt):
        try:
            WRITING[kind](engine, TWO)
        except KeyboardInterrupt:
            pass
    fresh = engines()
    recover_all(fresh, meter=Meter(), beyond_grace=True)
    after = content_of(fresh)
    assert after == before or len(commits_of(fresh)) > 1
    assert faults_of(fresh) == []
    WRITING[kind](fresh, TWO) if after == before else append(fresh, TWO, ["on"])
    assert faults_of(fresh) == []


@pytest.mark.parametrize("kind", WRITING)
def test_a_complete_plan_is_published_by_recovery_with_its_counts(
    engine: Engine, engines: Callable[..., Engine], kind: str
) -> None:
    PREPARE[kind](engine)
    with failpoints.armed("publish.before_swap", KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        WRITING[kind](engine, TWO)
    fresh = engines()
    [done] = recover_all(fresh, meter=Meter(), beyond_grace=True)
    assert done.decision.value == "roll-forward"
    row = commits_of(fresh)[-1]
    assert row.actor == "writer" and row.recovered_by is not None and row.recovered_at_us is not None
    assert {key: change.inserted for key, change in row.tables.items()} == {
        "chain": dict.fromkeys(TWO, 2),
        "create": {MADE: 1, **dict.fromkeys(TWO, 1)},
        "fork": dict.fromkeys(TWO, 2),
    }[kind]
    assert faults_of(fresh) == []


@pytest.mark.parametrize("kind", WRITING)
def test_an_answer_that_is_lost_after_the_effect_is_found_by_reading(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    from omnigraph.table import lines
    from omnigraph.table.dataset import CommitUnknown

    PREPARE[kind](engine)

    def silent(call: Any) -> Any:
        def called(*args: Any, **kwargs: Any) -> Any:
            call(*args, **kwargs)
            raise CommitUnknown("no answer")

        return called

    monkeypatch.setattr(lines, "_commit", silent(lines._commit))
    monkeypatch.setattr(engine.tables, "commit", silent(engine.tables.commit))
    outcome = WRITING[kind](engine, TWO)
    monkeypatch.undo()
    assert outcome.row is not None and faults_of(engine) == []


def test_a_change_staged_on_one_line_is_never_committed_to_another(engine: Engine) -> None:
    append(engine, TWO, ["a"])
    pin, other = (engine.latest(MAIN).state.tables[key] for key in TWO)
    handle = engine.tables.open(TableRef(pin.location, pin.ref), pin.version)
    engine.tables.check_line(TableRef(pin.location, pin.ref), handle)
    with pytest.raises(Corruption, match="was to be committed to"):
        engine.tables.check_line(TableRef(other.location, other.ref), handle)


def test_a_fork_of_a_plan_that_was_given_up_is_left_alone(engine: Engine, engines: Callable[..., Engine]) -> None:
    inherited(engine)
    with failpoints.armed("apply.before_stage", KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        forking(engine, TWO)
    fresh = engines()
    before = fresh.latest(MAIN).state.tables
    recover_all(fresh, meter=Meter(), beyond_grace=True)
    assert fresh.latest(MAIN).state.tables == before and before[TWO[0]].owner == OTHER_BRANCH
    assert any("/tree/f-" in entry.key for entry in fresh.store.list("nodes/"))


def test_a_staging_that_fails_between_two_commits_costs_one_plan(engine: Engine) -> None:
    failures = iter([SILENT])

    def fail_once(**_: Any) -> None:
        error = next(failures, None)
        if error is not None:
            raise error

    with failpoints.armed("apply.before_stage", fail_once):
        chained(engine, TWO)
    assert [len(rows) for rows in content_of(engine).tables.values()][:2] == [2, 2]  # type: ignore[union-attr]
    assert faults_of(engine) == []
