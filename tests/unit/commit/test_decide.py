"""Every cell of the protocol's decisions: the expected answer is written down here a second time, as a table."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache

import pytest

from omnigraph.commit.conflicts import after_refusal
from omnigraph.commit.decide import (
    Above,
    Check,
    Decision,
    End,
    Evidence,
    Line,
    Lineage,
    Moved,
    PublishCheck,
    TableEvidence,
    Undo,
    check_publish,
    decide,
    how_ended,
    look_holds,
    moved_reads,
    moved_writes,
    not_owned,
    swap_stands,
    undo_table,
)
from omnigraph.commit.plan import BranchName, PublishPlan
from omnigraph.commit.protocol.publish import NotPublished
from omnigraph.core.errors import (
    Conflict,
    NotFound,
    OmnigraphError,
    PreconditionFailed,
    ReadSetChanged,
    WriterFenced,
)
from omnigraph.manifest.rows import Closed, HistoryRow, MergedRow, Pin, Tombstone
from omnigraph.manifest.state import State
from omnigraph.manifest.swap import Held
from tests.unit.commit.material import (
    COMMIT,
    GRAPH,
    OTHER_COMMIT,
    OWNER,
    RIVAL,
    SCHEMA,
    THIRD_COMMIT,
    ULIDS,
    R,
    V,
    W,
    abort_row,
    adopt,
    commit_row,
    create,
    effect,
    fork,
    plan,
    request,
    state,
)

OWN: dict[str, HistoryRow | None] = {"none": None, "commit": commit_row(), "abort": abort_row()}
KEYED = {"none": None, "own": commit_row(idempotency_key="k"), "other": commit_row(OTHER_COMMIT, idempotency_key="k")}
HEAD = {"none": None, "holds": OTHER_COMMIT, "moved": THIRD_COMMIT}
FENCE = {"none": None, "own": OWNER.token, "other": RIVAL.token}
PINS: dict[str, dict[str, Pin | None]] = {
    which.key: {
        "same": which,
        "version": replace(which, version=which.version + 1),
        "identity": replace(which, identity=ULIDS[60]),
        "ref": replace(which, ref=f"g-{GRAPH}"),
        "absent": None,
    }
    for which in (W, R)
}

# In the order in which they win.
EXPECTED = [
    (lambda c: not c["branch"], Check.BRANCH_GONE),
    (lambda c: c["own"] == "commit", Check.PUBLISHED),
    (lambda c: c["own"] == "abort", Check.ABORTED),
    (lambda c: c["closed"], Check.CLOSED),
    (lambda c: c["keyed"] == "other", Check.KEY_TAKEN),
    (lambda c: c["head"] == "moved", Check.HEAD_MOVED),
    (lambda c: c["fence"] == "other", Check.FENCED),
    (lambda c: c["sources"], Check.SOURCE_GONE),
    (lambda c: not c["mark"], Check.MARK_MOVED),
    (lambda c: not c["schema"], Check.SCHEMA_MOVED),
    (lambda c: c["write"] != "same", Check.PIN_MOVED),
    (lambda c: not c["owned"], Check.NOT_OWNED),
    (lambda c: c["read"] != "same", Check.READ_MOVED),
    (lambda c: True, Check.GO),
]


def lineage(own: HistoryRow | None = None, keyed: object = None) -> Lineage:
    return Lineage({} if own is None else {COMMIT: own}, {} if keyed is None else {COMMIT: keyed})  # type: ignore[dict-item]


def situation(c: dict[str, object]) -> tuple[State, PublishCheck]:
    now = newest(*(c[name] for name in ("write", "read", "owned", "closed", "fence", "mark", "schema")))
    found = lineage(OWN[str(c["own"])], KEYED[str(c["keyed"])])
    return now, check_publish(now, asked_plan(c["branch"], c["head"]), found, sources_gone=bool(c["sources"]))


@cache
def newest(write: str, read: str, owned: bool, closed: bool, fence: str, mark: bool, schema: bool) -> State:
    pins = [p for p in (PINS[W.key][write], PINS[R.key][read]) if p is not None]
    if not owned:
        pins = [replace(p, owner=ULIDS[62]) if p.key == W.key else p for p in pins]
    now = state(V, *pins)
    head = replace(
        now.head, owner=FENCE[fence], mark=None if mark else "newer", closed=Closed(1, None) if closed else None
    )
    return replace(now, head=head, schema=SCHEMA if schema else replace(SCHEMA, id="sha256:2"))


@cache
def asked_plan(branch: bool, head: str) -> PublishPlan:
    asked = request(expect_head=HEAD[head], idempotency_key="k")
    return plan(branch=BranchName("main", GRAPH if branch else ULIDS[61]), requests=(asked,))


def test_every_cell_of_the_publish_checks() -> None:
    flags = (True, False)
    axes = {
        "branch": flags,
        "own": tuple(OWN),
        "closed": flags,
        "keyed": tuple(KEYED),
        "head": ("none", "moved"),
        "fence": tuple(FENCE),
        "sources": flags,
        "mark": flags,
        "schema": flags,
        "write": tuple(PINS[W.key]),
        "owned": flags,
        "read": ("same", "version", "absent"),
    }
    for values in itertools.product(*axes.values()):
        cell = dict(zip(axes, values, strict=True))
        expected = next(check for holds, check in EXPECTED if holds(cell))
        _, got = situation(cell)
        assert got.check is expected, cell


def test_a_head_that_is_expected_and_there_is_no_refusal() -> None:
    given = plan(requests=(request(expect_head=OTHER_COMMIT),))
    assert check_publish(state(), given, Lineage()).check is Check.GO


# --- how a plan has ended -----------------------------------------------------------------------------------------------

PLAN_ID, FIRST, SECOND, CARRIED = ULIDS[50:54]


def group(*, carried: bool) -> object:
    """A plan of two requests that it owns, and perhaps one that it only carries."""
    requests = [request(FIRST), request(SECOND, parents=(FIRST,))]
    if carried:
        requests.append(request(CARRIED, parents=(SECOND,), owned=False))
    return plan(id=PLAN_ID, requests=tuple(requests))


def expected_end(rows: dict[str, HistoryRow], members: list[str]) -> End:
    owned = [one for one in members if one != CARRIED]
    aborted = any(isinstance(rows.get(one), type(abort_row())) for one in (PLAN_ID, *owned))
    landed = [one for one in members if isinstance(rows.get(one), type(commit_row()))]
    by_this = any(rows[one].plan == PLAN_ID for one in landed if one in owned)
    if aborted:
        return End.MIXED if by_this else End.ABORTED
    if any(one in landed for one in owned):
        versions = {rows[one].version for one in landed}
        if len(landed) == len(members) and len(versions) == 1:
            return End.PUBLISHED
        return End.MIXED if by_this else End.CARRIED
    return End.CARRIED if any(one in rows for one in members) else End.OPEN


@pytest.mark.parametrize("carried", [False, True])
def test_every_way_in_which_the_records_of_a_group_can_lie(carried: bool) -> None:
    members = [FIRST, SECOND, *([CARRIED] if carried else [])]
    given = group(carried=carried)
    choices = ("none", "commit", "later commit", "commit of another plan", "abort")
    for choice in itertools.product(choices, repeat=len(members) + 1):
        rows: dict[str, HistoryRow] = {}
        for one, what in zip((PLAN_ID, *members), choice, strict=True):
            if what == "abort":
                rows[one] = abort_row(one, plan=PLAN_ID)
            elif what != "none" and one != PLAN_ID:
                by = OTHER_COMMIT if what == "commit of another plan" else PLAN_ID
                rows[one] = commit_row(one, version=3 if what == "later commit" else 2, plan=by)
        assert how_ended(given, Lineage(rows)) is expected_end(rows, members), choice  # type: ignore[arg-type]


def test_a_commit_that_came_along_with_a_merge_ends_its_plan() -> None:
    assert how_ended(plan(), Lineage({COMMIT: MergedRow(commit_row(), version=7, seq=9)})) is End.PUBLISHED


def test_an_abort_leaves_a_request_that_the_plan_only_carries() -> None:
    given = group(carried=True)
    assert given.ends == (PLAN_ID, FIRST, SECOND)  # type: ignore[attr-defined]


def test_records_of_both_kinds_are_a_contradiction_and_no_answer() -> None:
    rows: dict[str, HistoryRow] = {FIRST: commit_row(FIRST, plan=PLAN_ID), PLAN_ID: abort_row(PLAN_ID)}
    with pytest.raises(ValueError, match="different ways"):
        check_publish(state(), group(carried=False), Lineage(rows))  # type: ignore[arg-type]


# --- pins ---------------------------------------------------------------------------------------------------------------


def test_a_refusal_names_table_expected_and_actual_version() -> None:
    now = state(replace(W, version=7), V, replace(R, version=9))
    assert moved_writes(now, plan()) == (Moved(W.key, 3, 7),)
    assert moved_reads(now, plan()) == (Moved(R.key, 3, 9),)
    assert check_publish(now, plan(), Lineage()).moved == (Moved(W.key, 3, 7),)


def test_a_dropped_table_is_a_moved_pin_at_its_tombstone() -> None:
    now = state(V, R, tombstones=(Tombstone(W.key, 1, W.identity, 5),))
    assert moved_writes(now, plan()) == (Moved(W.key, 3, 5),)


def test_absent_is_a_pin_too() -> None:
    created = plan(effects=(create(W),), reads=())
    assert moved_writes(state(V, R), created) == ()
    assert moved_writes(state(W, V, R), created) == (Moved(W.key, 0, 3),)


def test_a_line_of_another_branch_is_forked_or_adopted_and_never_committed_to() -> None:
    inherited = replace(W, owner=ULIDS[62])
    now = state(inherited, V, R)
    assert not_owned(now, plan()) == (Moved(W.key, 3, 3),)
    assert not_owned(now, plan(effects=(fork(W), replace(effect(W), target=replace(fork(W).target, version=4))))) == ()  # type: ignore[arg-type, type-var]
    assert not_owned(now, plan(effects=(adopt(W),))) == ()


def test_every_kind_of_effect_replaces_the_pin_that_it_was_planned_on() -> None:
    moved = state(replace(W, version=7), V, R)
    for one in (effect(W), effect(W, "overwrite"), fork(W), adopt(W)):
        assert moved_writes(moved, plan(effects=(one,))) == (Moved(W.key, 3, 7),), one.kind
        assert moved_writes(state(), plan(effects=(one,))) == (), one.kind


def test_the_epoch_and_the_parent_of_a_plan_are_no_conditions() -> None:
    """A recovery or an exclusive use that came and went fences nobody."""
    now = state(W, V, R)
    moved_on = replace(now, head=replace(now.head, epoch=9, commit_id=THIRD_COMMIT))
    assert check_publish(moved_on, plan(), Lineage()).check is Check.GO


# --- giving a table back ------------------------------------------------------------------------------------------------

MINE = frozenset({"mine"})
ABOVE = {
    "nobody": None,
    "unreadable": Above(None, None),
    "mine": Above("mine", "op-mine"),
    "restore of the pin": Above("r", "op-x", restore_of=5),
    "restore of something older": Above("r", "op-x", restore_of=4),
    "stranger": Above("s", "op-x"),
    "stranger without a name": Above("s", None),
}


def test_every_cell_of_giving_a_table_back() -> None:
    for head, (name, above), unknown, pending in itertools.product(
        (4, 5, 6, 9), ABOVE.items(), (False, True), (False, True)
    ):
        got = undo_table(pin=5, head=head, above=above, own_uuids=MINE, unknown=unknown, other_pending=pending)
        if head <= 5:
            expected = Undo.RESTORE if unknown else Undo.NOTHING
        elif name == "restore of the pin":
            expected = Undo.PUBLISH_RESTORE
        elif name in ("nobody", "mine"):
            expected = Undo.RESTORE
        else:
            expected = Undo.YIELD if pending else Undo.RESTORE
        assert got is expected, (head, name, unknown, pending)


# --- what durable state says about an intent ----------------------------------------------------------------------------

TABLES = {
    "untouched": TableEvidence("t", 3, 3, exact=False, landed=False),
    "exact": TableEvidence("t", 3, 4, exact=True, landed=True),
    "exact below others": TableEvidence("t", 3, 9, exact=True, landed=True),
    "off its place": TableEvidence("t", 3, 5, exact=False, landed=True),
    "taken": TableEvidence("t", 3, 4, exact=False, landed=False),
    "pin moved on": TableEvidence("t", 6, 6, exact=False, landed=False),
    "not here": TableEvidence("t", None, None, exact=False, landed=False),
    "head behind pin": TableEvidence("t", 4, 3, exact=False, landed=False),
}
EXACT = ("exact", "exact below others")


def evidence(tables: tuple[str, ...], **changes: object) -> Evidence:
    base = Evidence(Line.OPEN, tables={str(n): TABLES[name] for n, name in enumerate(tables)})
    return replace(base, **changes)  # type: ignore[arg-type]


def expected_decision(names: tuple[str, ...], e: Evidence, forward_only: bool) -> Decision:
    """In the order of the table in ``docs/explanation/protocol.md``."""
    gone, closed = e.owner_gone, e.line is Line.CLOSED
    if not e.known or e.line is Line.UNRESOLVED:
        return Decision.LEAVE
    if e.ticket:
        return Decision.DELETE_TICKET if gone or closed else Decision.WAIT
    if e.end is End.MIXED:
        return Decision.STOP
    if e.end in (End.PUBLISHED, End.ABORTED):
        return Decision.FINISH if gone or closed else Decision.WAIT
    if closed:
        return Decision.DISCARD
    if e.offered:
        return Decision.WITHDRAW if gone else Decision.WAIT
    if "head behind pin" in names:
        return Decision.STOP
    if e.maintenance:
        return Decision.UNDO_MAINTENANCE if gone else Decision.WAIT
    if all(name in EXACT for name in names) and e.end is End.OPEN and not e.rebooted:
        return Decision.ROLL_FORWARD
    return Decision.ROLL_BACK if gone and not forward_only else Decision.WAIT


def test_every_cell_of_the_recovery_decision_for_up_to_three_tables() -> None:
    flags = (False, True)
    kinds = ({}, {"ticket": True}, {"offered": True}, {"maintenance": True}, {"known": False})
    for width in range(4):
        for names in itertools.combinations_with_replacement(TABLES, width):
            for kind, line, end, gone, rebooted, forward_only in itertools.product(
                kinds, Line, End, flags, flags, flags
            ):
                found = evidence(names, line=line, end=end, owner_gone=gone, rebooted=rebooted, **kind)
                expected = expected_decision(names, found, forward_only)
                assert decide(found, forward_only=forward_only) is expected, (names, found)


def test_one_untouched_table_rolls_the_finished_ones_back() -> None:
    assert decide(evidence(("exact", "exact", "untouched"), owner_gone=True)) is Decision.ROLL_BACK


def test_a_complete_plan_is_rolled_forward_beside_a_living_owner() -> None:
    assert decide(evidence(("exact", "exact below others"))) is Decision.ROLL_FORWARD


def test_a_complete_plan_of_an_earlier_boot_is_rolled_back_because_its_files_may_be_torn() -> None:
    assert decide(evidence(("exact", "exact"), rebooted=True, owner_gone=True)) is Decision.ROLL_BACK


def test_a_commit_on_a_closed_line_is_finished_and_not_discarded() -> None:
    assert decide(evidence((), line=Line.CLOSED, end=End.PUBLISHED)) is Decision.FINISH


def test_an_intent_whose_branch_cannot_be_resolved_is_never_discarded() -> None:
    for end, gone in itertools.product(End, (False, True)):
        assert decide(evidence(("exact",), line=Line.UNRESOLVED, end=end, owner_gone=gone)) is Decision.LEAVE


def test_a_plan_that_moves_no_table_is_complete_from_the_start() -> None:
    """A rename of a type, a rule: nothing of it could be missing. Its reads and its schema are checked where it is published."""
    assert decide(evidence((), owner_gone=True)) is Decision.ROLL_FORWARD
    assert decide(evidence((), owner_gone=True, rebooted=True)) is Decision.ROLL_BACK


# --- refusals as errors -------------------------------------------------------------------------------------------------

REFUSALS: list[tuple[Check, type[OmnigraphError]]] = [
    (Check.HEAD_MOVED, PreconditionFailed),
    (Check.FENCED, WriterFenced),
    (Check.BRANCH_GONE, NotFound),
    (Check.CLOSED, NotFound),
    (Check.PIN_MOVED, ReadSetChanged),
    (Check.READ_MOVED, ReadSetChanged),
    (Check.MARK_MOVED, Conflict),
    (Check.SCHEMA_MOVED, Conflict),
    (Check.ABORTED, Conflict),
]


@pytest.mark.parametrize(("check", "kind"), REFUSALS, ids=[check.value for check, _ in REFUSALS])
def test_each_refusal_is_an_error_that_says_what_to_do(check: Check, kind: type[OmnigraphError]) -> None:
    moved = (Moved(W.key, 3, 7),) if check in (Check.PIN_MOVED, Check.READ_MOVED) else ()
    now = state(W, V, R, tail=(commit_row(OTHER_COMMIT, actor="eve", tables={W.key: commit_row().tables}),))
    error = after_refusal(plan(), NotPublished(None, PublishCheck(check, moved)), Held(now, None))
    assert type(error) is kind
    assert error.hint and "\n" not in str(error)
    if moved:
        assert error.to_dict()["manifest_conflict"] == {"table_key": W.key, "expected": 3, "actual": 7}
        assert (error.facts["commit_id"], error.facts["actor"]) == (COMMIT, "ada")
        assert (error.facts["other_commit_id"], error.facts["other_actor"]) == (OTHER_COMMIT, "eve")
        assert "eve" in str(error) and OTHER_COMMIT in str(error)


def test_a_plan_that_only_ran_out_of_attempts_names_the_moved_pin_if_there_is_one() -> None:
    lost = after_refusal(plan(), None, Held(state(replace(W, version=8), V, R), None))
    assert isinstance(lost, ReadSetChanged) and lost.facts["actual"] == 8
    assert type(after_refusal(plan(), None, Held(state(), None))) is Conflict


@pytest.mark.parametrize(("version", "boundary"), [(v, b) for v in range(1, 5) for b in range(6)])
def test_what_a_version_proves_beside_the_boundary(version: int, boundary: int) -> None:
    assert swap_stands(version, boundary) == (version not in range(boundary + 1)), "at the boundary is not enough"
    assert look_holds(version, boundary) == (boundary not in range(version + 1, 6)), "the next may be gone"
