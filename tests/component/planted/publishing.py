"""Writes beside other writers: what is checked before a swap, at it and after it."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from omnigraph.commit import advance, decide, exclusive
from omnigraph.commit.decide import Check
from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.properties import Counts
from omnigraph.commit.protocol import admission, publish, run
from omnigraph.commit.protocol.apply import Applied, Landing
from omnigraph.commit.recovery.outcome import LANDED, find_outcome
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
from omnigraph.manifest.state import Change
from omnigraph.manifest.swap import Held, Manifest, SwapLost
from omnigraph.store import layout
from omnigraph.testing.operations import append, displace, rows_for
from tests.component.planted.scenes import (
    ONE,
    SILENT,
    TWO,
    Defect,
    Engines,
    passing,
    recovered,
    rows,
    setting,
    wrong,
)


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


def a_claim_fails(engines: Engines) -> list[str]:
    """The store stops answering after exclusive use was claimed."""
    engine = engines()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine.timing, "jitter_s", lambda attempt: 0.0)
        left = iter(range(advance.ONE_ROW.attempts))
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
    """The version that was published is one that cleanup had freed, so no reader will ever see it."""
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
    raised: list[Exception] = []
    with failpoints.armed("publish.after_swap", RuntimeError("no memory")):
        try:
            append(engines(), TWO, ["a"])
        except (OmnigraphError, RuntimeError) as error:
            raised.append(error)
    recovered(engines())
    landed = rows(engines(), TWO[0]) == ["a"]
    found = wrong(engines())
    return (
        found
        if landed and isinstance(raised[0], OutcomeUnknown)
        else [*found, f"it landed, and the caller got {raised[0]!r}"]
    )


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


def forgetting_itself(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(publish, "read_lineage", lambda *_: decide.Lineage())


def forgetting_the_key(patch: pytest.MonkeyPatch) -> None:
    found = publish.read_lineage
    patch.setattr(publish, "read_lineage", lambda *args: replace(found(*args), keyed={}))


def swapping_blindly(patch: pytest.MonkeyPatch) -> None:
    strictly = Manifest.swap

    def last_one_wins(self: Manifest, held: Held, written: Any, **facts: Any) -> Held:
        try:
            return strictly(self, held, written, **facts)
        except SwapLost:
            newest = self.open_latest(held.state.ref)
            return strictly(self, newest, replace(written, base=newest.version), **{**facts, "uuid": new_uuid()})

    patch.setattr(Manifest, "swap", last_one_wins)


def keeping_the_claim(patch: pytest.MonkeyPatch) -> None:
    edit = exclusive._edit
    patch.setattr(exclusive, "_edit", lambda e, f, what, m: None if "taken back" in what else edit(e, f, what, m))


DEFECTS = {
    "a claim that failed stays": Defect(a_claim_fails, keeping_the_claim),
    "a key answers whatever is asked": Defect(another_key_holder, setting(admission, "same_request", lambda *_: True)),
    "landing close enough": Defect(displaced, landing_anywhere),
    "published before it is applied": Defect(plain, publishing_first),
    "not looking for itself": Defect(published_by_a_helper, forgetting_itself),
    "the key is not looked for at the publish": Defect(one_key_twice, forgetting_the_key),
    "the expected head is not checked": Defect(head_moved, passing(Check.HEAD_MOVED)),
    "what was read may move": Defect(read_moved, passing(Check.READ_MOVED)),
    "an owner fences no other writer": Defect(fenced, setting(decide, "is_fenced", lambda *_: False)),
    "a cleanup's mark is not checked": Defect(cleanup_began, passing(Check.MARK_MOVED)),
    "the boundary is not looked at": Defect(ghost, setting(advance, "swap_stands", lambda *_: True)),
    "the last swap wins": Defect(rival_on_another_table, swapping_blindly),
    "an unknown outcome is called a failure": Defect(
        interrupted_after_its_swap, setting(run, "_unknown", lambda *_: StoreUnavailable("nothing was written"))
    ),
}
