"""What recovery did is kept once an operation, costs the same whatever the number, and stops nothing where it is damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.recovery import audit
from omnigraph.commit.recovery.recover import recover_all, recover_one
from omnigraph.core import documents, failpoints, progress
from omnigraph.core.errors import InvalidInput, StoreUnavailable
from omnigraph.core.ids import new_ulid
from omnigraph.core.meter import Meter
from omnigraph.store import layout
from omnigraph.testing.dead import leave_dead
from omnigraph.upkeep.cleanup import plan_cleanup, run_cleanup
from omnigraph.upkeep.optimize import optimize
from omnigraph.upkeep.recoveries import list_recoveries

DAY_S = 86_400


@pytest.fixture
def engine(engines: Callable[..., Engine]) -> Engine:
    return engines()


def record(n: int = 0, **facts: Any) -> audit.Recovery:
    return replace(
        audit.Recovery(
            op=new_ulid(),
            plan=new_ulid(),
            how="RolledBack",
            commit_ids=(new_ulid(),),
            members=1,
            branch={"name": "main", "identity": new_ulid()},
            original_actor=None,
            recovered_by="h/b/1/2",
            recovered_at_us=1_700_000_000_000_000 + n,
            tables={"node:A": {"from": 2, "to": 1}},
        ),
        **facts,
    )


def files(engine: Engine) -> list[str]:
    return [entry.key for entry in engine.store.list(layout.RECOVERIES)]


def test_a_record_comes_back_as_it_was_from_its_file_and_from_the_dataset(engine: Engine) -> None:
    one = record(original_actor="ada", plan=None, commit_ids=(), members=0, tables={})
    assert audit.write(engine, one)
    assert audit.read(engine) == [one]
    assert audit.fold(engine) == 1
    assert files(engine) == []
    assert audit.read(engine) == [one] == audit.collected(engine)


def test_the_first_record_of_an_operation_stands(engine: Engine) -> None:
    one = record()
    assert audit.write(engine, one)
    assert not audit.write(engine, replace(one, how="RolledForward", recovered_at_us=2_000_000_000_000_000))
    assert audit.read(engine) == [one]


def test_a_record_that_was_collected_and_written_again_is_there_once(engine: Engine) -> None:
    one = record()
    audit.write(engine, one)
    audit.fold(engine)
    audit.write(engine, replace(one, how="RolledForward"))
    assert audit.read(engine) == [one], "the row was there first"
    audit.fold(engine)
    assert audit.collected(engine) == [one] and files(engine) == []


def test_collecting_that_stops_in_the_middle_loses_nothing(engine: Engine) -> None:
    all_of_them = [record(n) for n in range(5)]
    for one in all_of_them:
        audit.write(engine, one)
    with failpoints.armed("audit.folded", "raise"), pytest.raises(failpoints.FailpointHit):
        audit.fold(engine)
    assert len(files(engine)) == 5 and audit.read(engine) == all_of_them
    assert audit.fold(engine) == 5
    assert files(engine) == [] and audit.read(engine) == all_of_them


@pytest.mark.parametrize(
    "change",
    [
        lambda body: b"",
        lambda body: b"[]",
        lambda body: documents.canonical({**body, "op": new_ulid()}),
        lambda body: documents.canonical({**body, "how": "Guessed"}),
        lambda body: documents.canonical({**body, "more": 1}),
        lambda body: documents.canonical({**body, "format": 2}),
        lambda body: documents.canonical({**body, "plan": "x"}),
        lambda body: documents.canonical({**body, "commit_ids": ["x"]}),
        lambda body: documents.canonical({**body, "recovered_at_us": 1 << 70}),
        lambda body: documents.canonical({**body, "tables": {"a": {"from": 1}}}),
        lambda body: documents.canonical({name: value for name, value in body.items() if name != "members"}),
    ],
)
def test_a_record_that_does_not_read_is_listed_as_such_and_stops_nothing(
    engine: Engine, change: Callable[[dict[str, Any]], bytes]
) -> None:
    good, bad = record(), record(1)
    audit.write(engine, good)
    key = layout.recovery_key(bad.op)
    audit.write(engine, bad)
    body = json.loads(engine.store.get(key) or b"")
    engine.store.replace(key, change(body))
    for _ in range(2):
        listed = list_recoveries(engine)
        assert [one.op for one in listed] == [good.op]
        assert [one.place for one in listed.unreadable] == [key]
        optimize(engine)
        assert files(engine) == [key], "it stays where it is"
    leave_dead(engine, 2)
    assert len(recover_all(engine, meter=Meter(), beyond_grace=True)) == 2


def test_a_file_with_another_name_is_listed_and_left(engine: Engine) -> None:
    engine.store.create("__recoveries/x.txt", b"")
    assert [one.place for one in list_recoveries(engine).unreadable] == ["__recoveries/x.txt"]
    audit.fold(engine)
    assert files(engine) == ["__recoveries/x.txt"]


def test_a_dataset_of_records_that_does_not_read_stops_nothing(engine: Engine) -> None:
    audit.write(engine, record())
    audit.fold(engine)
    for entry in engine.store.list(layout.AUDIT):
        engine.store.replace(entry.key, b"rot")
    audit.write(engine, record(1))
    listed = list_recoveries(engine)
    assert len(listed) == 1 and [one.place for one in listed.unreadable] == [layout.AUDIT]
    optimize(engine)
    assert len(files(engine)) == 1, "its row could not be written, so the file stays"
    leave_dead(engine, 1)
    assert len(recover_all(engine, meter=Meter(), beyond_grace=True)) == 1


def test_optimize_collects_and_the_newest_come_first(engine: Engine) -> None:
    for n in range(3):
        audit.write(engine, record(n))
    optimize(engine)
    assert files(engine) == []
    listed = list_recoveries(engine, limit=2)
    assert [one.recovered_at for one in listed] == ["2023-11-14T22:13:20.000002Z", "2023-11-14T22:13:20.000001Z"]
    assert len(list_recoveries(engine)) == 3
    for wrong in (-1, "3", True, 1.5):
        with pytest.raises(InvalidInput):
            list_recoveries(engine, limit=wrong)


@pytest.mark.parametrize(("older_than", "days"), [("1d", 30), ("60d", 60)])
def test_cleanup_expires_records_after_its_retention_and_a_month(engine: Engine, older_than: str, days: int) -> None:
    now = engine.clock.now_us()
    young, old = now - (days * DAY_S - 60) * 1_000_000, now - (days * DAY_S + 60) * 1_000_000
    kept = record(recovered_at_us=young)
    for one in (kept, record(recovered_at_us=old), record(recovered_at_us=old + 1)):
        audit.write(engine, one)
    audit.fold(engine)
    run_cleanup(engine, plan_cleanup(engine, older_than=older_than))
    assert audit.read(engine) == [kept]


def test_many_collections_stay_few_files(engine: Engine) -> None:
    for n in range(20):
        audit.write(engine, record(n, recovered_at_us=engine.clock.now_us()))
        audit.fold(engine)

    def data() -> int:
        return len(engine.tables.open_latest(audit.TableRef(layout.AUDIT)).get_fragments())

    assert data() == 20
    run_cleanup(engine, plan_cleanup(engine, keep=1))
    assert data() < 5 and len(audit.read(engine)) == 20


def test_a_recovery_costs_the_same_requests_whatever_the_number_before(engine: Engine) -> None:
    """Counted on the intents of one plan: the first costs what the last costs."""
    leave_dead(engine, 12)
    costs = []
    for op, _ in engine.intents.names():
        intent = engine.intents.read(op)
        assert intent is not None
        meter = Meter()
        with failpoints.recording() as passed:
            recover_one(engine, intent, gone=True, meter=meter)
        costs.append(sum(name.startswith("store.") for name, _ in passed))
    assert len(set(costs[1:])) == 1, costs
    assert len(audit.read(engine)) == 12


def test_an_open_begins_with_no_recovery_after_its_time_and_says_how_far_it_came(engine: Engine) -> None:
    leave_dead(engine, 4)
    seen: list[progress.Progress] = []
    with progress.listen(seen.append):
        assert recover_all(engine, meter=Meter(), beyond_grace=True, within_s=0) == []
        assert len(engine.intents.names()) == 4
        assert len(recover_all(engine, meter=Meter(), beyond_grace=True, within_s=60)) == 4
    assert engine.latest(MAIN)
    last = [event for event in seen if event.phase == "recovering"][-1]
    assert (last.done, last.total, last.unit) == (4, 4, "writes")


def test_a_record_that_cannot_be_written_keeps_the_intent(engine: Engine) -> None:
    leave_dead(engine, 1)
    with failpoints.armed("audit.before_write", StoreUnavailable("full")), pytest.raises(StoreUnavailable):
        recover_all(engine, meter=Meter(), beyond_grace=True)
    assert len(engine.intents.names()) == 1
