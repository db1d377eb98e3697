"""What recovery leaves on record, and what it does when one of its own requests fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import omnigraph as og
from omnigraph.commit.decide import Decision
from omnigraph.commit.effects import Effect
from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.intent import encode_plan
from omnigraph.commit.plan import PublishPlan
from omnigraph.commit.protocol import compensate
from omnigraph.commit.recovery import audit
from omnigraph.commit.recovery import drift as heal
from omnigraph.commit.recovery.recover import recover_all
from omnigraph.core import failpoints
from omnigraph.core.errors import Corruption, OutcomeUnknown, StoreUnavailable
from omnigraph.core.ids import new_ulid
from omnigraph.core.meter import Meter
from omnigraph.manifest.boundary import ALL
from omnigraph.manifest.rows import AbortRow, CommitRow
from omnigraph.read.commits import list_commits
from omnigraph.store import layout
from omnigraph.table import dataset
from omnigraph.testing.content import content_of, faults_of, history_of
from omnigraph.testing.operations import append, keys_of

ONE, TWO = keys_of(1), keys_of(2)
SILENT = StoreUnavailable("the store does not answer")


@pytest.fixture
def engine(engines: Callable[..., Engine]) -> Engine:
    return engines()


def interrupted(engine: Engine, place: str) -> PublishPlan:
    """A write that ended in the middle; its intent is there. Places: ``armed``, ``half`` applied, ``complete``."""

    def stop(**facts: Any) -> None:
        if place != "half" or facts["table_key"] == TWO[1]:
            raise failpoints.FailpointHit(place)

    name = "publish.before_swap" if place == "complete" else "apply.before_commit"
    with failpoints.armed(name, stop, at=None), pytest.raises(OutcomeUnknown):
        append(engine, TWO, ["a"], actor="ada")
    [(op, _)] = engine.intents.names()
    intent = engine.intents.read(op)
    assert intent is not None and intent.plan is not None
    return intent.plan


def recovered(engine: Engine) -> None:
    recover_all(engine, meter=Meter(), beyond_grace=True)


# --- on record ----------------------------------------------------------------------------------------------------------


def test_a_write_rolled_forward_keeps_its_id_and_actor_and_leaves_one_row(engine: Engine) -> None:
    plan = interrupted(engine, "complete")
    recovered(engine)
    newest = history_of(engine)[-1]
    assert isinstance(newest, CommitRow) and (newest.commit_id, newest.actor) == (plan.head, "ada")
    [row] = audit.read(engine)
    assert (row.how, row.op, row.plan, row.commit_ids, row.members, row.original_actor) == (
        "RolledForward", plan.op, plan.head, (plan.head,), 1, "ada",
    )  # fmt: skip
    assert row.branch == {"name": "main", "identity": plan.branch.identity}
    [commit] = list_commits(engine, limit=1)
    assert row.recovered_by == engine.owner.token and commit.recovered_by == "omnigraph:recovery"
    assert [one.recovered_by for one in list_commits(engine)[1:]] == [None] * (len(history_of(engine)) - 1)
    assert row.tables == {key: {"from": 1, "to": 2} for key in TWO}
    assert faults_of(engine) == []


def test_a_write_rolled_back_leaves_an_abort_by_recovery_and_one_row(engine: Engine) -> None:
    plan = interrupted(engine, "half")
    recovered(engine)
    newest = history_of(engine)[-1]
    assert isinstance(newest, AbortRow) and (newest.id, newest.actor) == (plan.head, audit.RECOVERY_ACTOR)
    [row] = audit.read(engine)
    assert (row.how, row.op, row.original_actor) == ("RolledBack", plan.op, "ada")
    pins = engine.latest(MAIN).state.tables
    assert row.tables == {TWO[0]: {"from": 2, "to": 1}}, (
        "the version whose content is back, not the one that brought it"
    )
    assert (pins[TWO[0]].version, pins[TWO[1]].version) == (3, 1)
    assert faults_of(engine) == []


def test_only_tables_that_moved_are_put_back(engine: Engine) -> None:
    interrupted(engine, "armed")
    before = engine.latest(MAIN).state.tables
    recovered(engine)
    assert engine.latest(MAIN).state.tables == before, "no table was touched, so no pin moves"


def test_a_table_that_was_put_back_with_other_files_is_not_published(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Lance read while it restored was not what is stored: its new version names a file that nobody has."""
    before = content_of(engine)
    plan = interrupted(engine, "half")
    judged = dataset.same_files
    with monkeypatch.context() as patch:
        for module in (dataset, compensate, heal):
            patch.setattr(module, "same_files", lambda one, other: False)
        with pytest.raises(Corruption, match="names other files"):
            recovered(engine)
        assert [op for op, _ in engine.intents.names()] == [plan.op], "kept for whoever comes"
        assert content_of(engine) == before
        # The Restore that stands is not trusted for what it says of itself either.
        with pytest.raises(Corruption, match="names other files"):
            recovered(engine)
    assert dataset.same_files is judged
    recovered(engine)
    assert isinstance(history_of(engine)[-1], AbortRow)
    assert content_of(engine) == before and faults_of(engine) == []


def test_drift_that_was_healed_with_other_files_is_not_published(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = content_of(engine)
    plan = interrupted(engine, "half")
    engine.intents.disarm(plan.op)
    version = engine.latest(MAIN).version
    with monkeypatch.context() as patch:
        for module in (dataset, heal):
            patch.setattr(module, "same_files", lambda one, other: False)
        for _ in range(2):  # the second finds the Restore of the first, and does not trust it
            with pytest.raises(Corruption, match="names other files"):
                heal.heal(engine, MAIN, meter=Meter())
    assert engine.latest(MAIN).version == version
    heal.heal(engine, MAIN, meter=Meter())
    assert content_of(engine) == before and faults_of(engine) == []


def test_versions_are_the_same_by_their_files(engine: Engine) -> None:
    append(engine, ONE, ["a"])
    pin = engine.latest(MAIN).state.tables[ONE[0]]
    ref = dataset.TableRef(pin.location, pin.ref)
    now, earlier = (engine.tables.open(ref, version) for version in (pin.version, pin.version - 1))
    assert dataset.same_files(now, now) and not dataset.same_files(now, earlier)
    with pytest.raises(Corruption, match="names other files"):
        engine.tables.check_restored(earlier, now)


def of_another_branch(engine: Engine, plan: PublishPlan) -> str:
    """The plan as if it were of a branch whose line is not there. Returns that branch's identity."""
    identity = new_ulid()
    engine.intents.rewrite(plan.op, encode_plan(replace(plan, branch=replace(plan.branch, identity=identity))))
    return identity


def test_an_intent_whose_branch_cannot_be_resolved_is_left_and_reported(engine: Engine) -> None:
    plan = interrupted(engine, "armed")
    of_another_branch(engine, plan)
    [left] = recover_all(engine, meter=Meter(), beyond_grace=True)
    assert not left.ended and left.decision is Decision.LEAVE and "cannot be resolved" in str(left.reason)
    assert [op for op, _ in engine.intents.names()] == [plan.op] and audit.read(engine) == []


def test_an_intent_of_a_branch_that_was_deleted_is_discarded_with_one_row(engine: Engine) -> None:
    plan = interrupted(engine, "armed")
    engine.boundary.raise_to(of_another_branch(engine, plan), ALL)
    with failpoints.armed("store.delete", SILENT):
        recovered(engine)
    recovered(engine)
    assert [row.how for row in audit.read(engine)] == ["OrphanedBranchDiscarded"]
    assert faults_of(engine) == []


def test_many_intents_are_ended_in_one_pass(engines: Callable[..., Engine]) -> None:
    engine = engines()
    for number in range(5):
        with failpoints.armed("publish.before_swap", "raise"), pytest.raises(OutcomeUnknown):
            append(engines(), keys_of(4)[number % 4 : number % 4 + 1], [f"r{number}"])
    assert len(engine.intents.names()) == 5
    recovered(engine)
    assert faults_of(engine) == [] and len({row.op for row in audit.read(engine)}) == 5


def test_the_intent_goes_last(engine: Engine) -> None:
    interrupted(engine, "complete")
    with failpoints.recording() as passed:
        recovered(engine)
    places = [
        name for name, facts in passed if "intent" in name or name in ("publish.after_swap", "audit.before_write")
    ]
    deleted = [n for n, (name, facts) in enumerate(passed) if name == "store.delete" and "__recovery/" in facts["key"]]
    audited = [n for n, (name, _) in enumerate(passed) if name == "audit.before_write"]
    assert places and audited and deleted and max(audited) < min(deleted)


# --- when a request of recovery fails -----------------------------------------------------------------------------------


def test_an_audit_that_fails_keeps_the_intent_and_the_next_recovery_writes_one_row(engine: Engine) -> None:
    plan = interrupted(engine, "complete")
    with failpoints.armed("audit.before_write", SILENT), pytest.raises(StoreUnavailable):
        recovered(engine)
    assert [op for op, _ in engine.intents.names()] == [plan.op] and audit.read(engine) == []
    recovered(engine)
    recovered(engine)
    assert [row.how for row in audit.read(engine)] == ["RolledForward"]
    assert faults_of(engine) == []


@pytest.mark.parametrize("place", ["complete", "half"])
def test_an_audit_whose_answer_is_lost_is_not_written_twice(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    interrupted(engine, place)
    write = audit.write

    def unheard(*args: Any) -> bool:
        write(*args)
        monkeypatch.setattr(audit, "write", write)
        raise SILENT

    monkeypatch.setattr(audit, "write", unheard)
    with pytest.raises(StoreUnavailable):
        recovered(engine)
    recovered(engine)
    assert len(audit.read(engine)) == 1 and faults_of(engine) == []


@pytest.mark.parametrize("place", ["complete", "half", "armed"])
def test_an_intent_that_recovery_cannot_delete_is_finished_by_the_next_without_a_second_row(
    engine: Engine, place: str
) -> None:
    interrupted(engine, place)
    with failpoints.armed("store.delete", SILENT):
        recovered(engine)
    ends = len(history_of(engine))
    recovered(engine)
    assert len(history_of(engine)) == ends, "a plan ends once"
    assert len(audit.read(engine)) == 1 and faults_of(engine) == []


def test_intents_that_cannot_be_listed_stop_whoever_lists_and_nobody_else(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, local_root: str
) -> None:
    def silent(*_: Any, **__: Any) -> Any:
        raise SILENT

    monkeypatch.setattr("omnigraph.commit.intent.Intents.names", silent)
    with pytest.raises(StoreUnavailable):
        recovered(engine)
    with pytest.raises(StoreUnavailable):
        og.open(local_root)
    with og.open(local_root, read_only=True) as reader:
        assert reader.snapshot().count("T1") == 0
    append(engine, ONE, ["a"])  # met nobody, so it lists nothing
    engine.timing.note_contention()
    with pytest.raises(StoreUnavailable):
        append(engine, ONE, ["b"])


# --- intents that are not ours to act on --------------------------------------------------------------------------------


def sealed_again(plan: PublishPlan, change: Callable[[PublishPlan], PublishPlan]) -> bytes:
    return encode_plan(change(plan))


def elsewhere(plan: PublishPlan) -> PublishPlan:
    first, second = plan.effects
    return replace(plan, effects=(moved_to(first, second), moved_to(second, first)))


def moved_to(effect: Effect, other: Effect) -> Effect:
    """The effect as if its table stood where the other one's stands."""
    assert effect.base is not None and effect.target is not None and other.target is not None
    path = other.target.path
    return replace(effect, base=replace(effect.base, path=path), target=replace(effect.target, path=path))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda plan: replace(plan, graph=new_ulid()), id="another graph"),
        pytest.param(elsewhere, id="paths"),
    ],
)
def test_an_intent_of_elsewhere_is_refused_and_kept_and_readers_do_not_mind(
    engine: Engine, local_root: str, change: Callable[[PublishPlan], PublishPlan]
) -> None:
    plan = interrupted(engine, "armed")
    data = sealed_again(plan, change)
    engine.intents.rewrite(plan.op, data)
    before = content_of(engine)
    with pytest.raises(Corruption) as caught:
        recovered(engine)
    assert caught.value.facts["object"] == layout.intent_key(plan.op) and "__recovery/" in (caught.value.hint or "")
    with pytest.raises(Corruption):
        og.open(local_root)
    with og.open(local_root, read_only=True) as reader:
        assert reader.snapshot().count("T1") == 0
    assert engine.store.get(layout.intent_key(plan.op)) == data and content_of(engine) == before


@pytest.mark.parametrize("data", [b"", b"{", b"[" * 10_000, json.dumps({"format": 99}).encode()])
def test_an_intent_that_does_not_read_names_the_way_out(engine: Engine, local_root: str, data: bytes) -> None:
    engine.store.create(layout.intent_key(new_ulid()), data)
    with pytest.raises(Corruption) as caught:
        og.open(local_root)
    assert "omnigraph repair --confirm --force" in (caught.value.hint or "")
    with og.open(local_root, read_only=True) as reader:
        assert reader.snapshot().count("T1") == 0
