"""Writers that wait for the same tables and carry each other out: what a waiter offers, what the writer ahead commits, and what each caller gets."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.commit.deadline import Deadline
from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.intent import Intents
from omnigraph.commit.intent_format import encode_offer
from omnigraph.commit.queue.line import QueueLine
from omnigraph.commit.queue.offers import OwnOffer
from omnigraph.commit.queue.refusals import KEY_TAKEN, Refusal, read_refusal, write_refusal
from omnigraph.commit.recovery.outcome import ABORTED, LANDED, PENDING, find_outcome
from omnigraph.commit.recovery.recover import recover_all, recover_one
from omnigraph.core import failpoints
from omnigraph.core.clock import ManualClock
from omnigraph.core.errors import KeyConflict, OmnigraphError, OutcomeUnknown, StoreUnavailable
from omnigraph.core.ids import new_ulid
from omnigraph.core.meter import Meter
from omnigraph.graph import Graph
from omnigraph.manifest.durable import Durability
from omnigraph.manifest.rows import AbortRow, CommitRow
from omnigraph.manifest.swap import Manifest
from omnigraph.options import LoadOptions
from omnigraph.store import layout, open_store
from omnigraph.testing.content import faults_of
from omnigraph.testing.offering import adding, block, leave_offer, offering_engine, queued
from omnigraph.testing.operations import create, displace, keys_of
from omnigraph.write.group import carrying
from omnigraph.write.load import load
from tests.component.planted.scenes import rows

T1, T2 = keys_of(2)


@pytest.fixture
def three(tmp_path: Path) -> list[Engine]:
    """Engines of one graph that make offers; each stands for a process of its own."""
    create(str(tmp_path / "g"))
    return [offering_engine(str(tmp_path / "g")) for _ in range(3)]


def test_a_writer_carries_out_the_offers_of_those_behind_it(three: list[Engine]) -> None:
    before = three[0].latest(MAIN).version
    with queued(three[0], [T1]) as queue:
        for number, engine in enumerate(three):
            queue.start(adding(engine, f"row-{number}", actor=f"writer-{number}"))
        offers = queue.offers()
        assert [one.request.actor for one in offers if one.request is not None] == ["writer-0", "writer-1", "writer-2"]
    receipts = [one.value for one in queue.ended]
    assert [one.error for one in queue.ended] == [None] * 3
    state = three[0].latest(MAIN).state
    assert state.version == before + 1, "one swap for all"
    assert [one.commit_id for one in receipts] == [one.request.id for one in offers if one.request is not None]
    assert [len(one.grouped_with) for one in receipts] == [2, 2, 2]
    assert [one.tables[T1].inserted for one in receipts] == [1, 1, 1]
    assert sorted(rows(three[0], T1)) == ["row-0", "row-1", "row-2"]
    assert three[0].store.list("__recovery/") == []
    assert faults_of(three[0]) == []


def test_a_writer_that_comes_to_the_front_lands_what_it_has_offered_under_the_same_id(three: list[Engine]) -> None:
    owner, *_ = three
    with queued(owner, [T1]) as queue:
        ended = queue.start(adding(owner, "b", idempotency_key="k"))
        [intent] = queue.offers()
    assert intent.request is not None and ended.value.commit_id == intent.request.id
    assert adding(three[1], "b", idempotency_key="k")().replayed
    assert faults_of(owner) == []


def test_a_statement_that_inserts_is_offered_as_its_rows(three: list[Engine]) -> None:
    mine, other, _ = three
    query = 'query add() { insert T1 { name: "c", n: 7 } }'
    with queued(mine, [T1]) as queue:
        queue.start(adding(mine, "a"))
        inserted = queue.start(lambda: Graph(other).mutate(query, actor="ada"))
        replaced = queue.start(lambda: Graph(three[2]).mutate('query q() { update T1 set { n: 3 } where name = "a" }'))
        offers = queue.offers()
    assert len(offers) == 2, "a statement that selects rows stays with its process"
    assert offers[1].request is not None and inserted.value.commit_id == offers[1].request.id
    assert (inserted.value.matched, inserted.value.tables[T1].inserted) == ((1, 0), 1)
    assert replaced.error is None
    assert sorted(rows(mine, T1)) == ["a", "c"] and faults_of(mine) == []


def test_the_offer_of_a_dead_writer_is_still_a_request(three: list[Engine]) -> None:
    mine, other, _ = three
    with queued(mine, [T1]) as queue:
        queue.start(adding(mine, "a", mode="append"))
        _, made = leave_offer(other, T1, ["dead"], actor="ada", mode="append")
    fate = find_outcome(other, made, Meter())
    assert isinstance(fate.row, CommitRow) and fate.row.actor == "ada"
    assert sorted(rows(mine, T1)) == ["a", "dead"] and mine.store.list("__recovery/") == []
    assert faults_of(mine) == []


def test_a_key_that_is_taken_is_answered_with_the_commit_that_has_it(three: list[Engine]) -> None:
    mine, other, third = three
    first = adding(third, "a", mode="append", idempotency_key="k")()
    with queued(mine, [T1]) as queue:
        queue.start(adding(mine, "b", mode="append"))
        # It has not seen the first commit: a replay is usually answered before anything is offered.
        again = queue.start(adding(other, "a", mode="append", idempotency_key="k"))
        offers = queue.offers()
    assert len(offers) == 2 and offers[1].request is not None
    assert again.value.replayed and again.value.commit_id == first.commit_id
    row = find_outcome(third, offers[1].request.id, Meter()).row
    assert isinstance(row, AbortRow), "what was offered under another id cannot land any more"
    assert sorted(rows(mine, T1)) == ["a", "b"] and mine.store.list("__recovery/") == []
    assert faults_of(mine) == []


def test_a_deadline_that_passes_leaves_the_offer_and_says_so(three: list[Engine]) -> None:
    owner, other, _ = three
    with queued(other, [T1]) as queue:
        ended = queue.start(adding(owner, "late", mode="append", deadline_s=1.0))
        queue._threads[0].join()
        [intent] = queue.offers()
        assert isinstance(ended.error, OutcomeUnknown) and intent.request is not None
        assert ended.error.facts["commit_id"] == intent.request.id
        assert find_outcome(other, intent.request.id, Meter()).state == PENDING
    recover_all(other, meter=Meter())
    assert find_outcome(other, intent.request.id, Meter()).state == ABORTED
    assert rows(other, T1) == [] and faults_of(other) == []


@pytest.mark.parametrize(
    ("place", "told"), [("withdraw.before_swap", OutcomeUnknown), ("withdraw.after_swap", KeyConflict)]
)
def test_a_refusal_that_cannot_be_withdrawn_is_no_answer(
    three: list[Engine], place: str, told: type[OmnigraphError]
) -> None:
    mine, bad, third = three
    adding(Engine(open_store(mine.store.uri)), "there")()
    silent = StoreUnavailable("the store does not answer")
    with failpoints.armed(place, silent, at=None), queued(mine, [T1]) as queue:
        queue.start(adding(mine, "a", mode="append"))
        ended = queue.start(adding(bad, "there", mode="append"))
        intent = queue.offers()[1]
    assert type(ended.error) is told and intent.request is not None
    if told is OutcomeUnknown:
        assert ended.error.facts["commit_id"] == intent.request.id
    recover_all(third, meter=Meter())
    assert find_outcome(third, intent.request.id, Meter()).state == ABORTED
    assert third.store.list("__recovery/") == [] and faults_of(third) == []


# --- how quick it is, as requests and files tell it ---------------------------------------------------------------------


def test_the_first_plan_that_meets_another_writer_is_followed_by_an_offer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(str(tmp_path / "g"))
    engine = Engine(open_store(str(tmp_path / "g")), offers=True, durability=Durability.COMMIT)
    begun: list[str] = []
    monkeypatch.setattr(OwnOffer, "begin", _noting(OwnOffer.begin, lambda _, op, offer: begun.append(offer.info.id)))
    with failpoints.armed("arm.before", lambda **_: displace(engine, T1)):
        receipt = adding(engine, "a", mode="append")()
    assert begun == [receipt.commit_id]
    assert rows(engine, T1) == ["a"] and faults_of(engine) == []


def test_a_writer_that_has_met_others_asks_nothing_before_it_queues(
    three: list[Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, *_ = three
    asked: list[str] = []
    for name in ("moved", "open_latest"):
        monkeypatch.setattr(Manifest, name, _noting(getattr(Manifest, name), lambda *_, name=name: asked.append(name)))
    monkeypatch.setattr(Intents, "arm", _noting(Intents.arm, lambda *_: asked.append("ticket")))
    adding(mine, "a", mode="append")()
    assert asked[0] == "ticket"


def test_the_files_of_a_plan_and_of_what_it_carried_go_together(
    three: list[Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a waiter behind sees some of them without the others, and waits for one that has ended."""
    gone: list[list[str]] = []
    monkeypatch.setattr(Intents, "disarm_all", _noting(Intents.disarm_all, lambda _, ops, __: gone.append(list(ops))))
    with queued(three[0], [T1]) as queue:
        for number, engine in enumerate(three):
            queue.start(adding(engine, f"row-{number}", mode="append"))
        offers = [one.op for one in queue.offers()]
    (together,) = gone
    assert offers[0] < together[0] < offers[1], "the plan has the id that follows its ticket's"
    assert together[1:] == offers[1:]


def test_a_front_that_carries_looks_at_the_queue_once_for_offers_and_for_older_tickets(
    three: list[Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other, _ = three
    with queued(mine, [T1]) as queue:
        queue.start(adding(mine, "a", mode="append"))
        queue.start(adding(other, "b", mode="append"))
        offers = [one.op for one in queue.offers()]
        listed: list[int] = []
        carried: list[int] = []
        monkeypatch.setattr(mine.intents, "names", _noting(mine.intents.names, lambda *_: listed.append(1)))
        monkeypatch.setattr(Intents, "disarm_all", _noting(Intents.disarm_all, lambda *_: carried.append(len(listed))))
        monkeypatch.setattr(QueueLine, "read_offers", _noting(QueueLine.read_offers, lambda *_: listed.clear()))
    assert len(offers) == 2 and carried == [1]


def test_an_offer_that_changes_nothing_is_answered_by_the_front(
    three: list[Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, same, _ = three
    adding(Engine(open_store(mine.store.uri)), "there")()
    told: list[Any] = []
    monkeypatch.setattr(carrying, "write_refusal", _noting(write_refusal, lambda _, one, **__: told.append(one)))
    with queued(mine, [T1]) as queue:
        queue.start(adding(mine, "a"))
        ended = queue.start(adding(same, "there"))
        offers = queue.offers()
    assert [(one.op, one.error) for one in told] == [(offers[1].op, {"code": "unchanged"})]
    assert ended.error is None and ended.value.commit_id is None and ended.value.tables[T1].unchanged == 1
    assert offers[1].request is not None
    assert find_outcome(mine, offers[1].request.id, Meter()).state == ABORTED
    assert sorted(rows(mine, T1)) == ["a", "there"] and mine.store.list("__recovery/") == []
    assert faults_of(mine) == []


@pytest.mark.parametrize(("company", "pauses"), [(1, 0), (3, 1)], ids=["alone", "of three"])
def test_a_front_waits_once_for_those_that_were_answered_with_it(
    three: list[Engine], monkeypatch: pytest.MonkeyPatch, company: int, pauses: int
) -> None:
    mine, *_ = three
    slept: list[float] = []
    clock = ManualClock()
    monkeypatch.setattr(clock, "sleep", slept.append)
    mine.clock = clock
    mine.timing.note_company(company)
    line = QueueLine(mine, MAIN, frozenset([T1]), Deadline(clock, 60), Meter())
    line.read_offers(new_ulid())
    assert line.offers_behind(new_ulid()) == []
    assert slept == [mine.timing.linger_s] * pauses


def test_whoever_is_answered_by_a_plan_knows_how_many_requests_it_had(three: list[Engine]) -> None:
    with queued(three[0], [T1]) as queue:
        for number, engine in enumerate(three):
            queue.start(adding(engine, f"row-{number}", mode="append"))
    assert [engine.timing.company for engine in three] == [3, 3, 3]


def test_a_waiter_forgets_a_front_of_other_tables(three: list[Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    mine, other, _ = three
    elsewhere = block(other, [T2])
    glanced: list[str] = []
    monkeypatch.setattr(mine.intents, "glance", _noting(mine.intents.glance, lambda op, *_: glanced.append(op)))
    with queued(other, [T1]) as queue:
        ended = queue.start(adding(mine, "a", mode="append"))
        for _ in range(3000):
            if len(set(glanced)) > 1:
                break
            queue._threads[0].join(0.01)
    assert ended.error is None and glanced.count(elsewhere) == 1
    other.intents.disarm(elsewhere)


def _noting(real: Callable[..., Any], note: Callable[..., object]) -> Callable[..., Any]:
    def call(*given: Any, **named: Any) -> Any:
        note(*given, **named)
        return real(*given, **named)

    return call


# --- what is no offer, or not for us ------------------------------------------------------------------------------------


def torn(data: bytes) -> bytes:
    return data[: len(data) // 2]


def test_offers_that_do_not_fit_are_left_to_their_owners(three: list[Engine]) -> None:
    mine, other, _ = three
    with queued(mine, [T1]) as queue:
        queue.start(adding(mine, "a", mode="append"))
        strange = {
            "of another schema": leave_offer(other, T1, ["x"], mode="append", schema_id="sha256:0"),
            "of another table": leave_offer(other, T2, ["x"], mode="append"),
        }
        bad = {name: leave_offer(other, T1, [f"bad {name}"], mode="append") for name in BAD_BODIES}
        for name, spoil in BAD_BODIES.items():
            spoiled(other, bad[name][0], spoil)
        unreadable, _ = leave_offer(other, T1, ["torn"], mode="append")
        data = other.intents.glance(unreadable)
        assert data is not None
        other.intents.rewrite(unreadable, torn(data))
    left = {op for op, _ in other.intents.names()}
    assert left == {*(op for op, _ in strange.values()), *(op for op, _ in bad.values()), unreadable}
    assert rows(mine, T1) == ["a"] and rows(mine, T2) == []
    for _, made in (*strange.values(), *bad.values()):
        assert mine.history.find(mine.latest(MAIN), made) is None
    other.intents.disarm(unreadable)
    recover_all(other, meter=Meter(), beyond_grace=True)
    assert faults_of(mine) == []


def spoiled(engine: Engine, op: str, spoil: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Write the offer again with another body, as a writer with a defect would."""
    intent = engine.intents.read(op)
    assert intent is not None and intent.ticket is not None and intent.request is not None and intent.offer is not None
    engine.intents.rewrite(op, encode_offer(intent.ticket, intent.request, spoil(dict(intent.offer))))


def _rows_but(**changes: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda body: {**body, "rows": [{**one, **changes} for one in body["rows"]]}


def _facts_but(**changes: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda body: {**body, "options": {key: {**one, **changes} for key, one in body["options"].items()}}


def _without_id(body: dict[str, Any]) -> dict[str, Any]:
    [one] = body["rows"]
    with pa.ipc.open_stream(pa.py_buffer(base64.b64decode(one["ipc"]))) as stream:
        given = stream.read_all()
    sink = pa.BufferOutputStream()
    nameless = given.set_column(0, pa.field("id", pa.utf8()), pa.nulls(given.num_rows, pa.utf8()))
    with pa.ipc.new_stream(sink, nameless.schema) as written:
        written.write_table(nameless)
    text = base64.b64encode(sink.getvalue().to_pybytes()).decode()
    return {**body, "rows": [{**one, "ipc": text}]}


BAD_BODIES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "without its facts": lambda body: {**body, "options": {}},
    "with another count": _rows_but(rows=7),
    "that is no stream": _rows_but(ipc="AAAA"),
    "that is no base64": _rows_but(ipc="\u00e4"),
    "with a row without id": _without_id,
    "of an unknown mode": lambda body: {**body, "mode": "overwrite"},
    "with statements": lambda body: {**body, "query": "query q() {}"},
    "of a table twice": lambda body: {**body, "rows": [*body["rows"], *body["rows"]]},
    "whose mask is short": _facts_but(minted=""),
    "with a column that is not there": _facts_but(unnamed={"nothing": True}),
    "without places": _facts_but(parts=[]),
    "with places of no part": _facts_but(part_of=[5]),
}


def test_what_is_too_large_waits_with_a_ticket(three: list[Engine]) -> None:
    mine, *_ = three
    names = [f"{number:0200}" for number in range(2000)]
    with queued(mine, [T1]) as queue:
        ended = queue.start(adding(mine, *names, mode="append"))
        assert queue.offers() == []
        assert len(mine.intents.names()) == 2
    assert ended.error is None and len(rows(mine, T1)) == 2000


def test_a_request_that_expects_a_head_or_lies_in_a_file_makes_no_offer(three: list[Engine], tmp_path: Path) -> None:
    mine, other, _ = three
    file = tmp_path / "rows.jsonl"
    file.write_text('{"type": "T1", "data": {"name": "f"}}\n')
    head = mine.latest(MAIN).state.head.commit_id
    with queued(mine, [T1]) as queue:
        queue.start(adding(mine, "a", expect_head=head))
        queue.start(lambda: load(other, file, LoadOptions(mode="merge")))
        assert queue.offers() == []
        leave_offer(three[2], T1, ["dead"])
    assert [one.error for one in queue.ended] == [None, None]
    assert sorted(rows(mine, T1)) == ["a", "dead", "f"]


def test_a_plan_takes_no_more_than_64_requests(three: list[Engine]) -> None:
    mine, other, _ = three
    with queued(mine, [T1]) as queue:
        queue.start(adding(mine, "a", mode="append"))
        made = [leave_offer(other, T1, [f"x{number:02}"], mode="append")[1] for number in range(64)]
    landed = [one for one in made if mine.history.find(mine.latest(MAIN), one) is not None]
    assert landed == made[:63] and len(rows(mine, T1)) == 64
    recover_all(other, meter=Meter(), beyond_grace=True)
    assert faults_of(mine) == []


@pytest.mark.parametrize(
    "tidy",
    [
        lambda engine: recover_all(engine, meter=Meter()),
        lambda engine: Graph(engine).recover(),
        lambda engine: Graph(engine).cleanup(keep=1, min_age="0s", confirm=True),
    ],
    ids=["open", "recover", "cleanup"],
)
def test_a_refusal_without_its_offer_is_deleted(three: list[Engine], tidy: Callable[[Engine], object]) -> None:
    mine, *_ = three
    for name in ("a", "b"):  # a cleanup needs something to give up
        adding(Engine(open_store(mine.store.uri)), name)()
    head = mine.latest(MAIN).state.head.commit_id
    judged = {"manifest_version": 1, "head": head, "schema_id": "x"}
    refusal = Refusal(new_ulid(), new_ulid(), {"code": KEY_TAKEN, "commit_id": head}, judged)
    write_refusal(mine.store, refusal, refused_by=vars(mine.owner), now_us=1)
    assert read_refusal(mine.store, refusal.op) == refusal
    tidy(mine)
    assert mine.store.list("__recovery/") == []


@pytest.mark.parametrize("data", [b"", b"{}", b'{"format":1}', b"[" * 100])
def test_a_refusal_that_does_not_read_leaves_the_owner_to_find_out(three: list[Engine], data: bytes) -> None:
    mine, *_ = three
    with queued(mine, [T1]) as queue:
        ended = queue.start(adding(mine, "a", mode="append"))
        [intent] = queue.offers()
        mine.store.create(layout.refused_key(intent.op), data)
        for _ in range(3000):
            if mine.history.find(mine.latest(MAIN), str(intent.request and intent.request.id)) is not None:
                break
            queue._threads[0].join(0.01)
    assert ended.error is None and rows(mine, T1) == ["a"]
    assert mine.store.list("__recovery/") == [] and faults_of(mine) == []


def test_without_the_switch_offers_are_neither_made_nor_met(three: list[Engine]) -> None:
    mine, other, _ = three
    mine.offers = other.offers = False
    with queued(mine, [T1]) as queue:
        queue.start(adding(mine, "a", mode="append"))
        queue.start(adding(other, "b", mode="append"))
        assert queue.offers() == []
        _, made = leave_offer(three[2], T1, ["dead"], mode="append")
    assert mine.history.find(mine.latest(MAIN), made) is None
    assert sorted(rows(mine, T1)) == ["a", "b"]


def test_an_uncontended_write_makes_the_same_requests_with_the_switch(any_root: str) -> None:
    found = []
    og.init(any_root, "node T { name: String @key }", durability="commit").close()
    for offers in (False, True):
        with og.open(any_root, durability="commit", commit={"offers": offers}) as graph:
            graph.load([{"type": "T", "data": {"name": f"first-{offers}"}}], mode="append")
            receipt = graph.load([{"type": "T", "data": {"name": f"second-{offers}"}}], mode="append")
            found.append((receipt.storage.hops, receipt.storage.by_class))
    assert found[0] == found[1]


def test_a_commit_that_its_owner_cannot_make_durable_is_no_failure(three: list[Engine]) -> None:
    """Another process has landed it, and the owner's own sync fails: it must not be repeated."""
    mine, owner, _ = three

    def fail(record: int, newest: object) -> None:
        raise StoreUnavailable("the disk does not sync")

    with queued(mine, [T1]) as queue:
        queue.start(adding(mine, "a", mode="append"))
        ended = queue.start(adding(owner, "b", mode="append"))
        intent = queue.offers()[1]
        owner.durable.acknowledge = fail  # type: ignore[method-assign]
    assert isinstance(ended.error, OutcomeUnknown) and intent.request is not None
    assert ended.error.facts["commit_id"] == intent.request.id
    assert find_outcome(mine, intent.request.id, Meter()).state == LANDED
    assert sorted(rows(mine, T1)) == ["a", "b"]


@pytest.mark.parametrize("offers", [True, False])
def test_who_takes_a_waiter_for_dead_does_not_delete_its_plan(
    three: list[Engine], offers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request that deletes a ticket, or an offer, may be late: the owner has come to the front by then, and has armed its plan. What
    is deleted under it would be the only file that says so: its outcome would be *absent* while it can still land."""
    owner, stranger, third = three
    owner.offers = offers
    late: list[str] = []
    told: list[str] = []

    def deletes(**_: Any) -> None:
        [armed] = [one for one in map(third.intents.read, dict(third.intents.names())) if one is not None and one.plan]
        for op in late:
            owner.intents.disarm(op)
        assert armed.plan is not None
        told.append(find_outcome(third, armed.plan.head, Meter()).state)

    failpoints.arm("apply.before_commit", deletes)
    with queued(third, [T1]) as queue:
        ended = queue.start(adding(owner, "a", mode="append"))
        [waiting] = [op for op, _ in third.intents.names() if op != queue._blocker]
        intent = third.intents.read(waiting)
        assert intent is not None and (intent.offer is not None) is offers
        with monkeypatch.context() as patch:
            patch.setattr(stranger.intents, "disarm", lambda op, *_: late.append(op))
            recover_one(stranger, intent, gone=True, meter=Meter())
    assert late == [waiting] and told == [PENDING]
    assert ended.error is None and rows(third, T1) == ["a"]
    assert third.store.list("__recovery/") == [] and faults_of(third) == []
