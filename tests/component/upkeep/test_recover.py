"""Recovery and repair on request: what they end, what they leave alone, and what they never do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import lance
import pytest

import omnigraph as og
from omnigraph import errors
from omnigraph.commit.engine import MAIN
from omnigraph.commit.plan import Owner
from omnigraph.commit.recovery.drift import Drift, VersionAbove, classify_drift
from omnigraph.core import failpoints
from omnigraph.core.ids import new_ulid
from omnigraph.graph import Graph, open_for_repair
from omnigraph.store import layout
from tests.component.upkeep.material import displace, engine_of, leave_ticket, make, people, pin_of

ELSEWHERE = Owner("elsewhere", "another-boot", 1, 1)


@pytest.fixture
def graph(local_root: str) -> Iterator[Graph]:
    with make(local_root) as made:
        yield made


def interrupt(graph: Graph, place: str, *, owner: Owner | None = None, at: int = 1) -> str:
    """A write that stops at a failpoint and leaves its intent. Returns its commit id."""
    engine = engine_of(graph)
    mine = engine.owner
    engine.owner = owner or mine
    try:
        with failpoints.armed(place, "raise", at=at), pytest.raises(errors.OutcomeUnknown) as caught:
            graph.load(people("late"), mode="append")
    finally:
        engine.owner = mine
    commit_id: str = caught.value.commit_id
    return commit_id


def names(graph: Graph) -> list[str]:
    return sorted(graph.snapshot().to_arrow("Person")["name"].to_pylist())


# --- recover ------------------------------------------------------------------------------------------------------------


def test_with_nothing_pending_recovery_writes_nothing(graph: Graph) -> None:
    version = engine_of(graph).latest(MAIN).version
    report = graph.recover()
    assert (report.recovered, report.left, report.healed, report.clean) == ((), (), (), True)
    assert engine_of(graph).latest(MAIN).version == version


def test_a_complete_write_is_published_under_its_own_id(graph: Graph) -> None:
    commit_id = interrupt(graph, "publish.before_swap")
    report = graph.recover()
    assert [(one.decision, one.commit_id) for one in report.recovered] == [("roll-forward", commit_id)]
    assert graph.outcome(commit_id).state == "landed"
    assert "late" in names(graph)
    assert graph.verify(deep=True).clean


def test_a_write_that_reached_no_table_is_undone(graph: Graph) -> None:
    commit_id = interrupt(graph, "apply.before_commit")
    report = graph.recover()
    assert [one.decision for one in report.recovered] == ["roll-back"]
    assert graph.outcome(commit_id).state == "aborted"
    assert "late" not in names(graph)


def test_an_owner_that_may_be_alive_is_left_alone_until_it_was_watched(graph: Graph) -> None:
    commit_id = interrupt(graph, "apply.before_commit", owner=ELSEWHERE)
    [pending] = graph.intents()
    assert (pending.commit_id, pending.decision, pending.after_grace) == (commit_id, "wait", "roll-back")
    report = graph.recover(grace_s=0)
    assert [one.decision for one in report.recovered] == ["roll-back"]
    assert len(graph.intents()) == 0


def test_an_intent_that_changes_while_it_is_watched_is_left_alone(graph: Graph) -> None:
    op = leave_ticket(graph, "node:Person")
    engine = engine_of(graph)
    seen = 0

    def look_again(**_: object) -> None:
        nonlocal seen
        seen += 1
        if seen == 1:  # after the first look, before the second
            engine.intents.disarm(op)
            other = leave_ticket(graph, "node:Person", "node:Place")
            engine.store.replace(layout.intent_key(op), _renamed(engine.store.get(layout.intent_key(other)), other, op))
            engine.intents.disarm(other)

    with failpoints.armed("recover.before_look", look_again, at=None):
        report = graph.recover(grace_s=0)
    assert report.left == (op,)
    assert [pending.operation_id for pending in graph.intents()] == [op]


def _renamed(data: bytes | None, old: str, new: str) -> bytes:
    from omnigraph.core.documents import seal

    assert data is not None
    body = json.loads(data.replace(old.encode(), new.encode()))
    body.pop("checksum")
    return seal(body)


def test_drift_of_nobody_is_healed_and_nothing_else_moves(any_root: str) -> None:
    with make(any_root) as graph:
        engine = engine_of(graph)
        before = engine.latest(MAIN).state
        content = graph.snapshot().to_arrow("Person")
        displaced = displace(graph, "node:Person")
        report = graph.recover()
        after = engine.latest(MAIN).state
        assert [(one.key, one.state, one.published) for one in report.healed] == [
            ("node:Person", "healed", displaced + 1)
        ]
        assert after.version == before.version + 1
        assert after.head == before.head
        assert [key for key in after.tables if after.tables[key] != before.tables[key]] == ["node:Person"]
        assert graph.snapshot().to_arrow("Person").equals(content)
        assert graph.verify(deep=True).clean
        assert graph.recover().healed == ()


def test_drift_of_a_pending_write_is_not_touched(graph: Graph) -> None:
    interrupt(graph, "publish.before_swap", owner=ELSEWHERE)
    engine = engine_of(graph)
    version = engine.latest(MAIN).version
    report = graph.repair(confirm=True)
    assert [(table.action, table.classification) for table in report.tables] == [("refused", "busy")]
    assert "run recover" in str(report.tables[0].reason)
    assert engine.latest(MAIN).version == version


def test_a_healed_table_costs_the_next_write_nothing(graph: Graph) -> None:
    displace(graph, "node:Person")
    graph.recover()
    before = engine_of(graph).latest(MAIN).version
    graph.load(people("next"), mode="append")
    assert engine_of(graph).latest(MAIN).version == before + 1


def test_a_heal_that_meets_a_faster_writer_starts_over(graph: Graph) -> None:
    displace(graph, "node:Person")
    with og.open(graph.uri) as other:
        displace(graph, "node:Person", "again")  # opening has no part in it: only recover heals

        def overtake(**_: object) -> None:
            other.load(people("overtaking"), mode="append")

        with failpoints.armed("heal.before_swap", overtake):
            graph.recover()
    assert "overtaking" in names(graph)
    assert graph.verify(deep=True).clean


@pytest.mark.parametrize("place", ["heal.before_restore", "heal.after_restore", "heal.before_swap", "heal.after_swap"])
def test_a_heal_may_be_cut_anywhere(graph: Graph, place: str) -> None:
    displace(graph, "node:Person")
    content = graph.snapshot().to_arrow("Person")
    with failpoints.armed(place, "raise"), pytest.raises(failpoints.FailpointHit):
        graph.recover()
    assert graph.recover().clean
    assert graph.snapshot().to_arrow("Person").equals(content)
    assert graph.verify(deep=True).clean


@pytest.mark.parametrize("grace_s", [-1, float("nan"), "5", True, 1e9])
def test_a_grace_that_is_no_number_of_seconds_is_refused(graph: Graph, grace_s: object) -> None:
    with pytest.raises(errors.InvalidInput):
        graph.recover(grace_s=grace_s)  # type: ignore[arg-type]


def test_a_read_only_graph_does_not_recover(graph: Graph) -> None:
    with og.open(graph.uri, read_only=True) as reader:
        with pytest.raises(errors.InvalidInput, match="read-only"):
            reader.recover()
        with pytest.raises(errors.InvalidInput, match="read-only"):
            reader.repair(confirm=True)
        assert reader.repair().tables == ()


# --- intents in words ---------------------------------------------------------------------------------------------------


def test_pending_intents_say_what_stands_and_what_would_be_done(graph: Graph) -> None:
    commit_id = interrupt(graph, "publish.before_swap")
    [pending] = graph.intents()
    assert (pending.commit_id, pending.state, pending.owner_gone) == (commit_id, "armed", True)
    assert pending.tables == {"node:Person": f"written in full above version {pin_of(graph, 'node:Person').version}"}
    assert "publish it" in pending.explanation
    assert json.loads(json.dumps(graph.intents().to_dict()))["intents"][0]["decision"] == "roll-forward"
    assert "<table>" in graph.intents()._repr_html_()


def test_a_ticket_says_that_it_waits(graph: Graph) -> None:
    leave_ticket(graph, "node:Person")
    [pending] = graph.intents()
    assert (pending.state, pending.tables) == ("waiting", {"node:Person": "waits in the queue"})
    assert (pending.decision, pending.after_grace) == ("wait", "delete-ticket")


# --- repair -------------------------------------------------------------------------------------------------------------


def test_repair_without_confirm_only_looks(graph: Graph) -> None:
    displace(graph, "node:Person")
    version = engine_of(graph).latest(MAIN).version
    report = graph.repair()
    [table] = report.tables
    assert (table.action, table.classification, table.latest_version - table.manifest_version) == (
        "preview",
        "garbage",
        1,
    )
    assert [above.kind for above in table.versions] == ["append"]
    assert engine_of(graph).latest(MAIN).version == version


def test_repair_never_publishes_what_it_finds(graph: Graph) -> None:
    displace(graph, "node:Person", "stray")
    report = graph.repair(confirm=True)
    assert [table.action for table in report.tables] == ["healed"]
    assert "stray" not in graph.snapshot().to_arrow("Person")["id"].to_pylist()
    assert graph.verify(deep=True).clean


def test_force_without_confirm_is_refused(graph: Graph) -> None:
    with pytest.raises(errors.InvalidInput, match="needs confirm"):
        graph.repair(force=True)


def test_an_intent_that_does_not_read_blocks_repair_until_it_is_moved_aside(graph: Graph) -> None:
    displace(graph, "node:Person")
    op = new_ulid()
    store = engine_of(graph).store
    store.create(layout.intent_key(op), b"not json")
    with pytest.raises(errors.Refused) as caught:
        graph.repair(confirm=True)
    assert caught.value.reason == "unreadable-intent"
    with pytest.raises(errors.Corruption):
        og.open(graph.uri)
    with og.open(graph.uri, read_only=True) as reader:
        assert reader.snapshot().count("Person") == 3
    with open_for_repair(graph.uri) as opened:
        report = opened.repair(confirm=True, force=True)
    assert report.quarantined == (layout.quarantine_key(op),)
    assert store.get(layout.quarantine_key(op)) == b"not json"
    assert store.get(layout.intent_key(op)) is None
    assert [table.action for table in report.tables] == ["healed"]
    with og.open(graph.uri) as again:
        assert again.verify(deep=True).clean


@pytest.mark.parametrize("indexed", [False, True])
def test_repair_heals_a_compaction_that_another_program_made(graph: Graph, indexed: bool) -> None:
    if indexed:
        for number in range(3):
            graph.load(people(f"after{number}"), mode="append")
            graph.optimize(types=["Person"], target_rows=1)  # covered by the indexes, and left in its own fragment
    before = names(graph)
    dataset = lance.dataset(str(Path(graph.uri, pin_of(graph, "node:Person").location)))
    dataset.optimize.compact_files()  # a ReserveFragments and a Rewrite, which carry no properties
    report = graph.repair(confirm=True)
    assert [(table.action, table.classification) for table in report.tables] == [("healed", "garbage")]
    assert [above.kind for above in report.tables[0].versions][-1] == "rewrite"
    assert names(graph) == before and graph.verify(deep=True).clean
    assert graph.repair().tables == ()


def test_what_stands_above_a_pin_is_judged_by_every_version_of_it() -> None:
    def above(kind: str, pending: bool) -> VersionAbove:
        return VersionAbove(2, kind, None, pending)

    assert classify_drift([above("append", False), above("restore", False)]) is Drift.GARBAGE
    assert classify_drift([above("append", False), above("unreadable", False)]) is Drift.UNREADABLE
    for first in (True, False):
        assert classify_drift([above("unreadable", first), above("append", not first)]) is Drift.BUSY


def test_a_restore_that_nobody_published_does_not_keep_writers_out(graph: Graph) -> None:
    displace(graph, "node:Person")
    with failpoints.armed("heal.before_swap", "raise"), pytest.raises(failpoints.FailpointHit):
        graph.recover()
    graph.load(people("undeterred"), mode="append", deadline_s=20)
    assert "undeterred" in names(graph)
    assert graph.verify(deep=True).clean


# --- a file where a folder belongs --------------------------------------------------------------------------------------


def test_a_file_in_the_place_of_the_intents_is_loud(local_root: str) -> None:
    make(local_root).close()
    place = Path(local_root, "__recovery")
    if place.exists():
        place.rmdir()
    place.write_text("not a folder")
    with pytest.raises(errors.StoreRefused, match="a file is where a folder should be") as caught:
        og.open(local_root)
    assert "__recovery" in caught.value.message and "move it away" in str(caught.value.hint)
    with og.open(local_root, read_only=True) as graph:
        assert graph.snapshot().count("Person") == 3
        for ask in (graph.intents, graph.status, lambda: graph.plan_cleanup(keep=1)):
            with pytest.raises(errors.OmnigraphError, match="a file is where a folder should be"):
                ask()
    assert place.read_text() == "not a folder"
