"""The instruments themselves: a scene that the engine passes, and defects planted in the engine that the scene must notice.

Each defect is one that somebody could write in good faith. Those of the pure decisions are in ``tests/model``.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from omnigraph.commit import advance, builder, decide, exclusive
from omnigraph.commit.decide import Check, Decision, PublishCheck, Undo
from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.intent import Intents, encode_plan
from omnigraph.commit.properties import Counts
from omnigraph.commit.protocol import admission, compensate, publish, run
from omnigraph.commit.protocol.apply import Applied, Landing, Sending
from omnigraph.commit.recovery import audit, evidence, recover
from omnigraph.commit.recovery import drift as healing
from omnigraph.commit.recovery.outcome import LANDED, find_outcome
from omnigraph.commit.recovery.recover import recover_all
from omnigraph.commit.request import Prepared, Request
from omnigraph.commit.steps import AppendRows
from omnigraph.core import failpoints
from omnigraph.core.errors import (
    IdempotencyMismatch,
    OmnigraphError,
    OutcomeUnknown,
    PreconditionFailed,
    StoreUnavailable,
    WriterFenced,
)
from omnigraph.core.ids import new_ulid, new_uuid
from omnigraph.core.meter import Meter
from omnigraph.manifest import codec, reading
from omnigraph.manifest import swap as swapping
from omnigraph.manifest.state import Change
from omnigraph.manifest.swap import Held, Manifest, SwapLost
from omnigraph.store import layout, open_store
from omnigraph.store.local import LocalStore
from omnigraph.table import fresh, strict
from omnigraph.table.dataset import TableRef
from omnigraph.testing.content import commits_of, content_of, faults_of
from omnigraph.testing.effect_operations import give_away
from omnigraph.testing.operations import append, create, displace, keys_of, rows_for

ONE, TWO = keys_of(1), keys_of(2)
SILENT = StoreUnavailable("the store does not answer")
Engines = Callable[[], Engine]
Scene = Callable[[Engines], list[str]]
Plant = Callable[[pytest.MonkeyPatch], None]


@pytest.fixture
def engines(local_root: str) -> Iterator[Engines]:
    create(local_root)
    made: list[Engine] = []

    def make() -> Engine:
        made.append(Engine(open_store(local_root)))
        made[-1].latest(MAIN)
        return made[-1]

    yield make
    failpoints.disarm()
    for engine in made:
        engine.close()


# --- pieces of scenes ---------------------------------------------------------------------------------------------------


def rows(engine: Engine, key: str) -> list[str]:
    content = content_of(engine)
    return [] if content is None else [str(dict(row)["name"]) for row in content.tables[key]]


def wrong(engine: Engine, expected: dict[str, list[str]] | None = None) -> list[str]:
    """Whatever contradicts the promises, or the rows that must be there."""
    found = faults_of(engine)
    for key, names in (expected or {}).items():
        there = rows(engine, key)
        if sorted(there) != sorted(names):
            found.append(f"{key} holds {there}, not {names}")
    return found


def cut(engine: Engine, place: str) -> None:
    """A write that dies: ``armed``, ``half`` applied, or ``complete`` and not published."""

    def stop(**facts: Any) -> None:
        if place != "half" or facts["table_key"] == TWO[1]:
            raise failpoints.FailpointHit(place)

    name = "publish.before_swap" if place == "complete" else "apply.before_commit"
    with failpoints.armed(name, stop, at=None), contextlib.suppress(OutcomeUnknown):
        append(engine, TWO, ["a"], actor="ada")


def recovered(engine: Engine) -> None:
    recover_all(engine, meter=Meter(), beyond_grace=True)


# --- scenes -------------------------------------------------------------------------------------------------------------


def half_applied(engines: Engines) -> list[str]:
    cut(engines(), "half")
    recovered(engines())
    return wrong(engines(), {TWO[0]: [], TWO[1]: []})


def complete(engines: Engines) -> list[str]:
    cut(engines(), "complete")
    engine = engines()
    ops = [op for op, _ in engine.intents.names()]
    intent = engine.intents.read(ops[0])
    assert intent is not None and intent.plan is not None
    recovered(engine)
    found = wrong(engines(), {TWO[0]: ["a"], TWO[1]: ["a"]})
    newest = commits_of(engine)[-1]
    if (newest.commit_id, newest.actor) != (intent.plan.head, "ada"):
        found.append(f"the newest commit is {newest.commit_id} of {newest.actor}")
    if [row.op for row in audit.read(engine)] != ops:
        found.append("the recovery is not on record")
    return found


def audit_fails(engines: Engines) -> list[str]:
    cut(engines(), "complete")
    engine = engines()
    with failpoints.armed("audit.before_write", SILENT), contextlib.suppress(StoreUnavailable):
        recovered(engine)
    recovered(engine)
    return wrong(engine) + ([] if len(audit.read(engine)) == 1 else ["the recovery is not on record once"])


def intent_stays(engines: Engines) -> list[str]:
    cut(engines(), "complete")
    engine = engines()
    with failpoints.armed("store.delete", SILENT):
        recovered(engine)
    [first] = audit.read(engine)
    recovered(engine)
    return wrong(engine) + ([] if audit.read(engine) == [first] else ["the record was written again"])


def records_are_collected(engines: Engines) -> list[str]:
    cut(engines(), "complete")
    engine = engines()
    recovered(engine)
    before = audit.read(engine)
    with failpoints.armed("audit.folded", SILENT), contextlib.suppress(StoreUnavailable):
        audit.fold(engine)
    audit.fold(engine)
    found = [] if audit.read(engine) == before else ["collecting changed the records"]
    return wrong(engine) + found


def the_disk_becomes_full(engines: Engines) -> list[str]:
    """The last write to a data file fails, and Lance says that the file is there."""
    engine = engines()
    append(engine, ONE, ["a"])
    write = fresh.write_fragments

    def cut_short(rows: Any, handle: Any, **options: Any) -> Any:
        fragments = write(rows, handle, **options)
        for file in fragments[-1].files:
            os.truncate(Path(handle.uri, "data", file.path), file.file_size_bytes - 1)
        return fragments

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fresh, "write_fragments", cut_short)
        with contextlib.suppress(StoreUnavailable):
            append(engine, ONE, ["b"])
    return wrong(engines(), {ONE[0]: ["a"]})


def foreign_rows_at_its_place(engines: Engines) -> list[str]:
    cut(engines(), "armed")
    for key in TWO:
        displace(engines(), key)
    recovered(engines())
    return wrong(engines(), {TWO[0]: [], TWO[1]: []})


def displaced(engines: Engines) -> list[str]:
    engine = engines()
    with failpoints.armed("arm.before", lambda **_: displace(engine, ONE[0])):
        append(engine, TWO, ["a"])
    return wrong(engines(), {TWO[0]: ["a"], TWO[1]: ["a"]})


def plain(engines: Engines) -> list[str]:
    append(engines(), TWO, ["a"])
    return wrong(engines(), {TWO[0]: ["a"], TWO[1]: ["a"]})


def published_by_a_helper(engines: Engines) -> list[str]:
    engine, helper = engines(), engines()
    with failpoints.armed("publish.before_swap", lambda **_: recovered(helper)):
        append(engine, TWO, ["a"])
    return wrong(engines(), {TWO[0]: ["a"], TWO[1]: ["a"]})


def one_key_twice(engines: Engines) -> list[str]:
    engine, rival = engines(), engines()

    def overtake(**_: Any) -> None:
        append(rival, [TWO[1]], ["rival"], idempotency_key="k")

    with failpoints.armed("publish.before_swap", overtake):
        append(engine, [TWO[0]], ["late"], idempotency_key="k")
    return wrong(engines(), {TWO[0]: [], TWO[1]: ["rival"]})


def head_moved(engines: Engines) -> list[str]:
    engine, rival = engines(), engines()
    expected = engine.latest(MAIN).state.head.commit_id
    with failpoints.armed("publish.before_swap", lambda **_: append(rival, [TWO[1]], ["rival"]).row and None):
        with contextlib.suppress(PreconditionFailed):
            append(engine, [TWO[0]], ["late"], expect_head=expected)
    return wrong(engines(), {TWO[0]: [], TWO[1]: ["rival"]})


def read_moved(engines: Engines) -> list[str]:
    engine, rival = engines(), engines()

    def prepare(txn: Any) -> Prepared:
        table = rows_for(txn, TWO[0], [f"saw {txn.rows(TWO[1])}"])
        return Prepared((AppendRows(TWO[0], (Counts(inserted=1),), table),), reads=frozenset([TWO[1]]))

    with failpoints.armed("publish.before_swap", lambda **_: append(rival, [TWO[1]], ["rival"]).row and None):
        run.run(engine, Request("load", MAIN, frozenset(TWO)), prepare, Meter())
    return wrong(engines(), {TWO[0]: ["saw 1"], TWO[1]: ["rival"]})


def fenced(engines: Engines) -> list[str]:
    engine, owner = engines(), engines()
    owner.owner = replace(owner.owner, pid=1)
    with failpoints.armed("publish.before_swap", lambda **_: exclusive.claim(owner, Meter()) and None):
        with contextlib.suppress(WriterFenced):
            append(engine, TWO, ["a"])
    return wrong(engines(), {TWO[0]: [], TWO[1]: []})


def cleanup_began(engines: Engines) -> list[str]:
    """Files that were staged before a cleanup's mark may be gone, so they are staged again."""
    engine, cleaner = engines(), engines()

    def mark(**_: Any) -> None:
        held = cleaner.latest(MAIN)
        change = Change(head=replace(held.state.head, mark=new_ulid()))
        cleaner.manifest.swap(held, cleaner.manifest.write(held, change), uuid=new_uuid())

    with failpoints.recording() as passed, failpoints.armed("publish.before_swap", mark):
        append(engine, TWO, ["a"])
    found = wrong(engines(), {TWO[0]: ["a"], TWO[1]: ["a"]})
    sent = sum(name == "apply.before_commit" for name, _ in passed)
    return found if sent == 2 * len(TWO) else [*found, f"{sent} table commits were sent"]


def ghost(engines: Engines) -> list[str]:
    """The version that was published is one that cleanup had freed: nobody will ever see it."""
    engine, cleaner = engines(), engines()

    def forget(**_: Any) -> None:
        held = cleaner.latest(MAIN)
        name = f"{(1 << 64) - 1 - held.version:020d}.manifest"
        (Path(cleaner.store.uri) / layout.MANIFEST / "_versions" / name).unlink()
        cleaner.boundary.raise_to(held.state.identity, held.version)

    with failpoints.armed("publish.after_swap", forget):
        row = append(engine, TWO, ["a"]).row
    found = wrong(engines(), {TWO[0]: ["a"], TWO[1]: ["a"]})
    if row is None or find_outcome(engines(), row.commit_id, Meter()).state != LANDED:
        found.append("what was acknowledged has not landed")
    return found


def rival_on_another_table(engines: Engines) -> list[str]:
    engine, rival = engines(), engines()
    with failpoints.armed("publish.before_swap", lambda **_: append(rival, [TWO[1]], ["rival"]).row and None):
        append(engine, [TWO[0]], ["a"])
    return wrong(engines(), {TWO[0]: ["a"], TWO[1]: ["rival"]})


def interrupted_after_its_swap(engines: Engines) -> list[str]:
    told: list[Exception] = []
    with failpoints.armed("publish.after_swap", RuntimeError("no memory")):
        try:
            append(engines(), TWO, ["a"])
        except (OmnigraphError, RuntimeError) as error:
            told.append(error)
    recovered(engines())
    landed = rows(engines(), TWO[0]) == ["a"]
    found = wrong(engines())
    return found if landed and isinstance(told[0], OutcomeUnknown) else [*found, f"it landed, and was told {told[0]!r}"]


def drift_of_nobody(engines: Engines) -> list[str]:
    displace(engines(), ONE[0])
    healing.heal(engines(), MAIN, meter=Meter())
    return wrong(engines(), {ONE[0]: []})


def pin_moves_under_a_restore(engines: Engines) -> list[str]:
    """Somebody publishes what was complete while another, who gives nobody the right of way, is giving up behind it."""
    dead, engine, helper = engines(), engines(), engines()
    cut(dead, "complete")
    patient = decide.undo_table

    def impatient(**facts: Any) -> Undo:
        return patient(**{**facts, "other_pending": False})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compensate, "undo_table", impatient)
        with failpoints.armed("abort.before_swap", lambda **_: recovered(helper)):
            append(engine, TWO, ["b"], deadline_s=20)
    return wrong(engines(), {TWO[0]: ["a", "b"], TWO[1]: ["a", "b"]})


def a_parent_flips_on_the_way(engines: Engines) -> list[str]:
    return _flip(engines, '"parents":["01', '"parents":["00')


def an_actor_flips_on_the_way(engines: Engines) -> list[str]:
    """Nothing else repeats an actor, so that only a digest can tell."""
    return _flip(engines, '"actor":"ada"', '"actor":"adb"')


def _flip(engines: Engines, old: str, new: str) -> list[str]:
    append(engines(), ONE, ["first"], actor="ada")
    before = [(row.parents, row.actor) for row in commits_of(engines())]
    read = strict.read_fragments

    def flipping(*args: Any) -> pa.Table:
        table = read(*args)
        texts = [text and text.replace(old, new) for text in table["metadata"].to_pylist()]
        return table.set_column(table.schema.get_field_index("metadata"), "metadata", pa.array(texts, pa.string()))

    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(OmnigraphError):
        patch.setattr(strict, "read_fragments", flipping)
        append(engines(), ONE, ["second"])
    now = [(row.parents, row.actor) for row in commits_of(engines())][: len(before)]
    return [*wrong(engines()), *([] if now == before else [f"history says {now}, it said {before}"])]


def believing(patch: pytest.MonkeyPatch) -> None:
    """Rows are held against nothing: not against their digests, and not against each other."""
    reading_anything(patch)
    patch.setattr(swapping, "contradictions", lambda _: iter(()))


def reading_anything(patch: pytest.MonkeyPatch) -> None:
    def unchecked(handle: Any, first: int, end: int, meter: Meter | None = None) -> list[Any]:
        parts = [strict.read_fragments(handle, at, at + 1, meter) for at in range(first, end)]
        return [codec.from_arrow(part) for part in parts]

    patch.setattr(reading, "read", unchecked)


def line_of_another_branch(engines: Engines) -> list[str]:
    """A write to a table whose line another branch owns: that branch may be about to commit there."""
    engine = engines()
    append(engine, ONE, ["before"])
    give_away(engine, ONE)
    pin = engine.latest(MAIN).state.tables[ONE[0]]
    append(engine, ONE, ["a"])
    handle = engine.tables.open(TableRef(pin.location, pin.ref), pin.version)
    found = wrong(engines(), {ONE[0]: ["before", "a"]})
    if engine.tables.head_version(handle) != pin.version:
        found.append("the line of the other branch has a version of ours")
    return found


def a_claim_fails(engines: Engines) -> list[str]:
    """The store stops answering after exclusive use was claimed."""
    engine = engines()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine.timing, "jitter_s", lambda attempt: 0.0)
        left = iter(range(exclusive.ATTEMPTS_MAX))
        newest = engine.manifest.open_latest

        def silent(*args: Any, **facts: Any) -> Held:
            if next(left, None) is not None:
                raise SILENT
            return newest(*args, **facts)

        def stop_answering(**_: Any) -> None:
            patch.setattr(engine.manifest, "open_latest", silent)
            raise SILENT

        with failpoints.armed("advance.after_swap", stop_answering), contextlib.suppress(OmnigraphError):
            exclusive.claim(engine, Meter())
    if engine.exclusive_token is not None:
        return []
    append(engines(), ONE, ["a"])
    return wrong(engines(), {ONE[0]: ["a"]})


def branch_cannot_be_resolved(engines: Engines) -> list[str]:
    """An intent of a branch that is not there: what it stands for is not known, so it is left."""
    cut(engines(), "complete")
    engine = engines()
    [(op, _)] = engine.intents.names()
    intent = engine.intents.read(op)
    assert intent is not None and intent.plan is not None
    other = replace(intent.plan, branch=replace(intent.plan.branch, identity=new_ulid()))
    engine.intents.rewrite(op, encode_plan(other))
    recovered(engine)
    return [] if engine.intents.read(op) is not None else ["the intent of a branch that cannot be resolved is gone"]


def another_key_holder(engines: Engines) -> list[str]:
    """The same key for another request."""
    engine = engines()

    def send(digest: str) -> bool:
        def prepare(txn: Any) -> Prepared:
            return Prepared((AppendRows(ONE[0], (Counts(inserted=1),), rows_for(txn, ONE[0], [digest])),))

        request = Request("load", MAIN, frozenset(ONE), idempotency_key="k", request=digest)
        return run.run(engine, request, prepare, Meter()).replayed

    send("one")
    try:
        return ["another request was answered with the first one's receipt"] if send("two") else []
    except IdempotencyMismatch:
        return []


# --- defects ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Defect:
    scene: Scene
    plant: Plant


def setting(target: Any, name: str, value: Any) -> Plant:
    return lambda patch: patch.setattr(target, name, value)


def passing(check: Check) -> Plant:
    def lenient(*args: Any, **facts: Any) -> PublishCheck:
        verdict = decide.check_publish(*args, **facts)
        return PublishCheck(Check.GO) if verdict.check is check else verdict

    return setting(publish, "check_publish", lenient)


def disarming_early(patch: pytest.MonkeyPatch) -> None:
    later = run.apply

    def early(sending: Sending, *rest: Any, **facts: Any) -> Any:
        sending.engine.intents.disarm(sending.plan.op)
        return later(sending, *rest, **facts)

    patch.setattr(run, "apply", early)


def some_suffice(patch: pytest.MonkeyPatch) -> None:
    def lax(seen: Any, **facts: Any) -> Decision:
        if seen.end is decide.End.OPEN and any(table.exact for table in seen.tables.values()):
            return Decision.ROLL_FORWARD
        return decide.decide(seen, **facts)

    patch.setattr(recover, "decide", lax)


def landing_anywhere(patch: pytest.MonkeyPatch) -> None:
    strictly = run.apply

    def close_enough(*args: Any, **facts: Any) -> Any:
        return {
            key: replace(one, landing=Landing.EXACT) if one.landing is Landing.OFF else one
            for key, one in strictly(*args, **facts).items()
        }

    patch.setattr(run, "apply", close_enough)


def publishing_first(patch: pytest.MonkeyPatch) -> None:
    def nothing(engine: Engine, plan: Any, staged: Any, handles: Any, **_: Any) -> dict[str, Applied]:
        return {t.key: Applied(t.key, Landing.EXACT, t.target, handles[t.key]) for t in plan.tables}

    patch.setattr(run, "apply", nothing)


def by_arithmetic(patch: pytest.MonkeyPatch) -> None:
    exactly = evidence._look_at_table

    def counted(engine: Engine, held: Any, plan: Any, chain: Any, landed: dict[str, Any], meter: Meter) -> Any:
        seen = exactly(engine, held, plan, chain, landed, meter)
        if seen.head is None or seen.head < chain.version:
            return seen
        landed[chain.key] = engine.tables.open(TableRef(chain.path, chain.ref), chain.version, meter)
        return replace(seen, exact=True)

    patch.setattr(evidence, "_look_at_table", counted)


def forgetting_itself(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(publish, "read_lineage", lambda *_: decide.Lineage())


def forgetting_the_key(patch: pytest.MonkeyPatch) -> None:
    found = publish.read_lineage
    patch.setattr(publish, "read_lineage", lambda *args: replace(found(*args), keyed={}))


def publishing_with(**facts: Any) -> Plant:
    made = publish.publish_change

    def changed(plan: Any, *rest: Any) -> Change:
        [info] = plan.requests
        other = replace(info, **{name: value() for name, value in facts.items()})
        return made(replace(plan, requests=(other,)), *rest)

    return setting(recover, "publish_change", changed)


def auditing_last(patch: pytest.MonkeyPatch) -> None:
    write = recover._record

    def late(engine: Engine, intent: Any, *rest: Any) -> None:
        engine.intents.disarm(intent.op)
        write(engine, intent, *rest)

    patch.setattr(recover, "_record", late)


def auditing_over(patch: pytest.MonkeyPatch) -> None:
    """The record is written without asking whether there is one."""
    create = LocalStore.create

    def over(self: Any, key: str, data: bytes, **facts: Any) -> None:
        (self.replace if key.startswith(layout.RECOVERIES) else functools.partial(create, self))(key, data, **facts)

    patch.setattr(LocalStore, "create", over)


def forgetting_first(patch: pytest.MonkeyPatch) -> None:
    """The files of records are deleted although their rows were not written."""
    patch.setattr(audit.journal, "insert_once", lambda *_: False)


def collecting_blindly(patch: pytest.MonkeyPatch) -> None:
    def always(tables: Any, ref: TableRef, schema: pa.Schema, column: str, table: pa.Table) -> bool:
        lance.write_dataset(table, tables.uri(ref), mode="append")
        return True

    patch.setattr(audit.journal, "insert_once", always)


def swapping_blindly(patch: pytest.MonkeyPatch) -> None:
    strictly = Manifest.swap

    def last_one_wins(self: Manifest, held: Held, written: Any, **facts: Any) -> Held:
        try:
            return strictly(self, held, written, **facts)
        except SwapLost:
            newest = self.open_latest(held.state.ref)
            return strictly(self, newest, replace(written, base=newest.version), **{**facts, "uuid": new_uuid()})

    patch.setattr(Manifest, "swap", last_one_wins)


def healing_forward(patch: pytest.MonkeyPatch) -> None:
    def newest(engine: Engine, pin: Any, drift: Any, op: str, meter: Meter) -> Any:
        return engine.tables.open(TableRef(pin.location, pin.ref), drift.head, meter)

    patch.setattr(healing, "_restore_pin", newest)


class _AnyPin(int):
    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


def restoring_over_whatever(patch: pytest.MonkeyPatch) -> None:
    made = compensate._Restored

    class Whatever(made):  # type: ignore[misc, valid-type]
        def __init__(self, pin: int, *rest: Any) -> None:
            super().__init__(_AnyPin(pin), *rest)

    patch.setattr(compensate, "_Restored", Whatever)


def aborting_without_pins(patch: pytest.MonkeyPatch) -> None:
    made = compensate.abort_change
    patch.setattr(compensate, "abort_change", lambda *args: replace(made(*args), pins={}))


def rolling_back_nothing(patch: pytest.MonkeyPatch) -> None:
    end = recover.end_by_abort
    patch.setattr(recover, "end_by_abort", lambda engine, plan, _touched, **facts: end(engine, plan, {}, **facts))


def owning_every_line(patch: pytest.MonkeyPatch) -> None:
    """A plan commits to the line that the pin names, whichever branch owns it."""
    patch.setattr(builder, "_with_forks", lambda state, steps: steps)
    patch.setattr(decide, "not_owned", lambda *_: ())


def keeping_the_claim(patch: pytest.MonkeyPatch) -> None:
    edit = exclusive._edit
    patch.setattr(exclusive, "_edit", lambda e, f, what, m: None if "taken back" in what else edit(e, f, what, m))


def discarding_what_is_unresolved(patch: pytest.MonkeyPatch) -> None:
    real = recover.decide

    def careless(found: Any, **facts: Any) -> Decision:
        verdict = real(found, **facts)
        return Decision.DISCARD if verdict is Decision.LEAVE else verdict

    patch.setattr(recover, "decide", careless)


DEFECTS = {
    "the line of another branch is committed to": Defect(line_of_another_branch, owning_every_line),
    "a claim that failed stays": Defect(a_claim_fails, keeping_the_claim),
    "an intent without a branch is discarded": Defect(branch_cannot_be_resolved, discarding_what_is_unresolved),
    "a key answers whatever is asked": Defect(another_key_holder, setting(admission, "same_request", lambda *_: True)),
    "no intent": Defect(half_applied, setting(Intents, "arm", lambda *_: None)),
    "the intent goes before the commits": Defect(half_applied, disarming_early),
    "rolling back without restoring": Defect(half_applied, rolling_back_nothing),
    "an abort that does not publish the restores": Defect(half_applied, aborting_without_pins),
    "one table is enough to roll forward": Defect(half_applied, some_suffice),
    "rolling forward under another id": Defect(complete, publishing_with(id=new_ulid)),
    "rolling forward in recovery's own name": Defect(complete, publishing_with(actor=lambda: audit.RECOVERY_ACTOR)),
    "recovery off the record": Defect(complete, setting(recover, "_record", lambda *_: None)),
    "the intent goes before the audit": Defect(audit_fails, auditing_last),
    "a record for every attempt": Defect(intent_stays, auditing_over),
    "records are collected twice": Defect(records_are_collected, collecting_blindly),
    "the files go before their rows are there": Defect(records_are_collected, forgetting_first),
    "effects known by counting": Defect(foreign_rows_at_its_place, by_arithmetic),
    "landing close enough": Defect(displaced, landing_anywhere),
    "published before it is applied": Defect(plain, publishing_first),
    "not looking for itself": Defect(published_by_a_helper, forgetting_itself),
    "the key is not looked for at the publish": Defect(one_key_twice, forgetting_the_key),
    "the expected head is not checked": Defect(head_moved, passing(Check.HEAD_MOVED)),
    "what was read may move": Defect(read_moved, passing(Check.READ_MOVED)),
    "an owner fences nobody": Defect(fenced, setting(decide, "is_fenced", lambda *_: False)),
    "a cleanup's mark is not checked": Defect(cleanup_began, passing(Check.MARK_MOVED)),
    "the boundary is not looked at": Defect(ghost, setting(advance, "swap_stands", lambda *_: True)),
    "the last swap wins": Defect(rival_on_another_table, swapping_blindly),
    "an unknown outcome is called a failure": Defect(
        interrupted_after_its_swap, setting(run, "_unknown", lambda *_: StoreUnavailable("nothing was written"))
    ),
    "drift is published": Defect(drift_of_nobody, healing_forward),
    "a restore is published over a moved pin": Defect(pin_moves_under_a_restore, restoring_over_whatever),
    "new files are not looked at": Defect(the_disk_becomes_full, setting(fresh, "check_fragments", lambda *_: None)),
    "what the manifest says is believed": Defect(a_parent_flips_on_the_way, believing),
    "rows are not held against their digests": Defect(an_actor_flips_on_the_way, reading_anything),
}
SCENES = {defect.scene.__name__: defect.scene for defect in DEFECTS.values()}


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES.keys())
def test_the_engine_passes_the_scene(engines: Engines, scene: Scene) -> None:
    assert scene(engines) == []


@pytest.mark.parametrize("defect", DEFECTS.values(), ids=DEFECTS.keys())
def test_a_planted_defect_is_noticed(engines: Engines, monkeypatch: pytest.MonkeyPatch, defect: Defect) -> None:
    defect.plant(monkeypatch)
    try:
        found = defect.scene(engines)
    except (OmnigraphError, KeyError, AssertionError) as error:
        found = [repr(error)]
    assert found, "nobody noticed"


def test_there_are_as_many_defects_as_are_owed() -> None:
    assert len(DEFECTS) >= 20
