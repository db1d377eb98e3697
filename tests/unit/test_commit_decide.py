"""Every cell of the protocol's decisions: the expected answer is written down here a second time, as a table."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from omnigraph.commit.conflicts import after_refusal
from omnigraph.commit.decide import (
    Above,
    Check,
    Decision,
    Moved,
    PublishCheck,
    TableWitness,
    Undo,
    Witness,
    check_publish,
    decide,
    look_holds,
    moved_reads,
    moved_writes,
    swap_stands,
    undo_table,
)
from omnigraph.commit.plan import BranchName
from omnigraph.commit.publish import NotPublished
from omnigraph.core.errors import (
    Conflict,
    NotFound,
    OmnigraphError,
    PreconditionFailed,
    ReadSetChanged,
    WriterFenced,
)
from omnigraph.manifest.rows import AbortRow, Pin, Tombstone
from omnigraph.manifest.state import State
from omnigraph.manifest.swap import Held
from tests.unit.commit_material import (
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
    commit_row,
    plan,
    state,
    table_plan,
)

OWN = {"none": None, "commit": commit_row(), "abort": AbortRow(COMMIT, COMMIT, None, 1, 0)}
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
    (lambda c: c["keyed"] == "other", Check.KEY_TAKEN),
    (lambda c: c["head"] == "moved", Check.HEAD_MOVED),
    (lambda c: c["fence"] == "other", Check.FENCED),
    (lambda c: not c["mark"], Check.MARK_MOVED),
    (lambda c: not c["schema"], Check.SCHEMA_MOVED),
    (lambda c: c["write"] != "same", Check.PIN_MOVED),
    (lambda c: c["read"] != "same", Check.READ_MOVED),
    (lambda c: True, Check.GO),
]


def situation(c: dict[str, object]) -> tuple[State, PublishCheck]:
    pins = [p for p in (PINS[W.key][str(c["write"])], PINS[R.key][str(c["read"])]) if p is not None]
    now = state(V, *pins)
    head = replace(now.head, owner=FENCE[str(c["fence"])], mark=None if c["mark"] else "newer")
    now = replace(now, head=head, schema=SCHEMA if c["schema"] else replace(SCHEMA, hash="hash-2"))
    branch = BranchName("main", GRAPH if c["branch"] else ULIDS[61])
    expect = HEAD[str(c["head"])]
    given = plan(branch=branch, commit=replace(plan().commit, expect_head=expect, idempotency_key="k"))
    return now, check_publish(now, given, own=OWN[str(c["own"])], keyed=KEYED[str(c["keyed"])])


def test_every_cell_of_the_publish_checks() -> None:
    axes = {
        "branch": (True, False),
        "own": tuple(OWN),
        "keyed": tuple(KEYED),
        "head": tuple(HEAD),
        "fence": tuple(FENCE),
        "mark": (True, False),
        "schema": (True, False),
        "write": tuple(PINS[W.key]),
        "read": tuple(PINS[R.key]),
    }
    cells = 0
    for values in itertools.product(*axes.values()):
        cell = dict(zip(axes, values, strict=True))
        expected = next(check for holds, check in EXPECTED if holds(cell))
        _, got = situation(cell)
        assert got.check is expected, cell
        cells += 1
    assert cells == 2 * 3 * 3 * 3 * 3 * 2 * 2 * 5 * 5


def test_a_refusal_names_table_expected_and_actual_version() -> None:
    now = state(replace(W, version=7), V, replace(R, version=9))
    assert moved_writes(now, plan()) == (Moved(W.key, 3, 7),)
    assert moved_reads(now, plan()) == (Moved(R.key, 3, 9),)
    assert check_publish(now, plan(), own=None, keyed=None).moved == (Moved(W.key, 3, 7),)


def test_a_dropped_table_is_a_moved_pin_at_its_tombstone() -> None:
    now = state(V, R, tombstones=(Tombstone(W.key, 1, W.identity, 5),))
    assert moved_writes(now, plan()) == (Moved(W.key, 3, 5),)


def test_absent_is_a_pin_too() -> None:
    created = plan(tables=(replace(table_plan(W), creates=True, pin=0),), reads=())
    assert moved_writes(state(V, R), created) == ()
    assert moved_writes(state(W, V, R), created) == (Moved(W.key, 0, 3),)


def test_the_epoch_and_the_parent_of_a_plan_are_no_conditions() -> None:
    """A recovery or an exclusive use that came and went fences nobody."""
    now = state(W, V, R)
    moved_on = replace(now, head=replace(now.head, epoch=9, commit_id=THIRD_COMMIT))
    assert check_publish(moved_on, plan(), own=None, keyed=None).check is Check.GO


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
    "untouched": TableWitness("t", 3, 3, exact=False, landed=False),
    "exact": TableWitness("t", 3, 4, exact=True, landed=True),
    "exact below others": TableWitness("t", 3, 9, exact=True, landed=True),
    "off its place": TableWitness("t", 3, 5, exact=False, landed=True),
    "taken": TableWitness("t", 3, 4, exact=False, landed=False),
    "pin moved on": TableWitness("t", 6, 6, exact=False, landed=False),
    "not here": TableWitness("t", None, None, exact=False, landed=False),
    "head behind pin": TableWitness("t", 4, 3, exact=False, landed=False),
}
EXACT = ("exact", "exact below others")


def witness(tables: tuple[str, ...], **changes: object) -> Witness:
    base = Witness(
        ticket=False,
        maintenance=False,
        branch_exists=True,
        own=None,
        owner_gone=False,
        tables={str(n): TABLES[name] for n, name in enumerate(tables)},
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def expected_decision(
    names: tuple[str, ...], ticket: bool, maintenance: bool, branch: bool, own: str, gone: bool, forward_only: bool
) -> Decision:
    if not branch:
        return Decision.DISCARD
    if ticket:
        return Decision.DELETE_TICKET if gone else Decision.WAIT
    if own != "none":
        return Decision.FINISH if gone else Decision.WAIT
    if "head behind pin" in names:
        return Decision.STOP
    if maintenance:
        return Decision.UNDO_MAINTENANCE if gone else Decision.WAIT
    if names and all(name in EXACT for name in names):
        return Decision.ROLL_FORWARD
    return Decision.ROLL_BACK if gone and not forward_only else Decision.WAIT


def test_every_cell_of_the_recovery_decision_for_up_to_three_tables() -> None:
    cells = 0
    flags = (False, True)
    for width in range(4):
        for names in itertools.combinations_with_replacement(TABLES, width):
            for ticket, maintenance, branch, own, gone, forward_only in itertools.product(
                flags, flags, flags, OWN, flags, flags
            ):
                seen = witness(
                    names, ticket=ticket, maintenance=maintenance, branch_exists=branch, own=OWN[own], owner_gone=gone
                )
                expected = expected_decision(names, ticket, maintenance, branch, own, gone, forward_only)
                assert decide(seen, forward_only=forward_only) is expected, (names, seen)
                cells += 1
    assert cells == (1 + 8 + 36 + 120) * 96


def test_one_untouched_table_rolls_the_finished_ones_back() -> None:
    assert decide(witness(("exact", "exact", "untouched"), owner_gone=True)) is Decision.ROLL_BACK


def test_a_complete_plan_is_rolled_forward_beside_a_living_owner() -> None:
    assert decide(witness(("exact", "exact below others"))) is Decision.ROLL_FORWARD


def test_a_plan_of_no_tables_is_never_rolled_forward() -> None:
    assert decide(witness((), owner_gone=True)) is Decision.ROLL_BACK


# --- refusals as errors -------------------------------------------------------------------------------------------------

REFUSALS: list[tuple[Check, type[OmnigraphError]]] = [
    (Check.HEAD_MOVED, PreconditionFailed),
    (Check.FENCED, WriterFenced),
    (Check.BRANCH_GONE, NotFound),
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
