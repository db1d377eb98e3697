"""Branches are made from a head or a retained commit: whole, or not at all, and never over another one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import omnigraph as og
from omnigraph.branch import create as creating
from omnigraph.branch import names as branch_names
from omnigraph.branch.create import first_state
from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.plan import BranchName
from omnigraph.core import failpoints
from omnigraph.core.errors import (
    AlreadyExists,
    Conflict,
    InvalidInput,
    NotFound,
    OmnigraphError,
    OutcomeUnknown,
    PreconditionFailed,
    Reclaimed,
    StoreRefused,
    StoreUnavailable,
)  # fmt: skip
from omnigraph.core.ids import new_ulid
from omnigraph.core.meter import Meter
from omnigraph.manifest.consistency import contradictions
from omnigraph.manifest.refs import BranchSource, NameEntry
from omnigraph.manifest.rows import Head
from omnigraph.manifest.state import Foreign
from omnigraph.store import layout
from tests.component.commit.lines_material import claim
from tests.component.upkeep.material import engine_of, make, people

KEY = "node:Person"


@pytest.fixture
def graph(any_root: str) -> og.Graph:
    return make(any_root, 2)


def names_of(graph: og.Graph) -> list[str]:
    return [one.name for one in graph.branches.list()]


# --- what a branch is ---------------------------------------------------------------------------------------------------


def test_a_branch_begins_with_the_head_of_its_source_and_goes_its_own_way(graph: og.Graph) -> None:
    head = graph.snapshot().commit_id
    made = graph.branches.create("feature", actor="ann")
    assert (made.name, made.head) == ("feature", head)
    assert made.parent is not None and (made.parent.branch, made.parent.commit_id) == ("main", head)
    graph.load(people("ann"), mode="append", branch="feature")
    graph.load(people("bob"), mode="append")
    assert graph.snapshot("feature").get("Person", "ann") and graph.snapshot("feature").get("Person", "bob") is None
    assert graph.snapshot().get("Person", "bob") and graph.snapshot().get("Person", "ann") is None
    assert graph.verify(deep=True).ok


def test_the_first_version_of_a_line_holds_the_state_of_its_source_and_no_history(graph: og.Graph) -> None:
    engine = engine_of(graph)
    main = engine.latest(MAIN).state
    made = graph.branches.create("feature")
    state = og_engine(graph).latest("feature").state
    assert (state.version, state.ref, state.tail) == (1, layout.branch_ref(made.identity), ())
    assert state.tables == main.tables, "pins stand there word for word, owners included"
    assert (state.schema, state.tombstones) == (main.schema, main.tombstones)
    assert [pin.owner for pin in state.tables.values()] == [main.identity] * len(state.tables)


def og_engine(graph: og.Graph) -> Engine:
    """Another process."""
    return engine_of(og.open(graph.uri))


def test_a_new_line_takes_the_mark_of_its_source_and_not_its_boundary_epoch_or_owner(local_root: str) -> None:
    graph = make(local_root, 1)
    source = engine_of(graph).latest(MAIN).state
    head = replace(source.head, epoch=7, owner="host/b/1/1", mark=new_ulid(), boundary=1, unsynced_since=1)
    entry = NameEntry(
        0, "making", "feature", new_ulid(), BranchSource(source.identity, None, 1, head.commit_id), None, 1
    )
    made = first_state(replace(source, head=head, foreign=Foreign()), entry)
    assert (made.head.mark, made.head.commit_id, made.head.name) == (head.mark, head.commit_id, "feature")
    plain = Head("", "")
    for name in ("epoch", "owner", "boundary", "closed", "unsynced_since"):
        assert getattr(made.head, name) == getattr(plain, name), name
    assert list(contradictions(made)) == []


def test_a_branch_of_a_branch_has_the_history_of_both(graph: og.Graph) -> None:
    before = [one.id for one in graph.commits()]
    graph.branches.create("a")
    first = graph.load(people("ann"), mode="append", branch="a").commit_id
    graph.branches.create("a/b", from_="a")
    graph.load(people("gone"), mode="append", branch="a")
    second = graph.load(people("bob"), mode="append", branch="a/b").commit_id
    fresh = og.open(graph.uri, read_only=True)
    assert [one.id for one in fresh.commits("a/b")] == [second, first, *before]
    assert [one.branch for one in fresh.commits("a/b", limit=3)] == ["a/b", "a", "main"]
    assert [one.id for one in fresh.commits("a/b", limit=1)] == [second]
    assert fresh.commit(str(second)).branch == "a/b" and fresh.commit(str(first)).branch == "a"
    assert fresh.snapshot("a/b", at=str(first)).get("Person", "ann")
    assert fresh.snapshot("a/b", at=before[-1]).count("Person") == 0
    with pytest.raises(NotFound):
        fresh.snapshot("a", at=str(second)[:25])
    assert fresh.snapshot("a", at=str(second)).branch == "a/b", "a whole id is found on every line"
    assert {one.name: one.parent and one.parent.branch for one in fresh.branches.list(heads=True)} == {
        "main": None, "a": "main", "a/b": "a",
    }  # fmt: skip


def test_a_branch_is_made_from_a_commit_of_the_past(graph: og.Graph) -> None:
    first = graph.commits()[-1].id
    assert graph.branches.create("old", at=first).head == first
    assert graph.snapshot("old").count("Person") == 0
    graph.load(people("ann"), mode="append", branch="old")
    assert graph.snapshot("old").count("Person") == 1
    with pytest.raises(NotFound):
        graph.branches.create("x", at=new_ulid())
    assert names_of(graph) == ["main", "old"]
    assert graph.verify(deep=True).ok


def test_main_comes_first_and_heads_are_opened_only_when_asked_for(graph: og.Graph) -> None:
    graph.branches.create("b")
    graph.branches.create("A")
    assert names_of(graph) == ["main", "A", "b"]
    assert {one.head for one in graph.branches.list()} == {None}
    assert {one.head for one in graph.branches.list(heads=True)} == {graph.snapshot().commit_id}
    assert "made from main" in repr(graph.branches.list(heads=True)) and "<table" in graph.branches.list()._repr_html_()


# --- refusals -----------------------------------------------------------------------------------------------------------

NO_NAMES = ["", " ", "main", "Main", ".", "..", "a//b", "/a", "a/", "a/../b", "-a", "a/-b", ".a", "a" * 129, "fеature", "a b", "a+b", "ä", "a\n"]  # fmt: skip


@pytest.mark.parametrize("name", [*NO_NAMES, 7, None])
def test_what_is_no_name_is_refused_before_anything_is_durable(local_root: str, name: Any) -> None:
    graph = make(local_root, 1)
    for call in (graph.branches.create, graph.branches.delete):
        with pytest.raises(InvalidInput):
            call(name)
    assert engine_of(graph).store.list(layout.BRANCHES) == []
    assert graph.branches.create("a" * 128).name == "a" * 128


def test_a_name_that_is_taken_is_refused_whatever_its_case(graph: og.Graph) -> None:
    graph.branches.create("Feature/x")
    for taken in ("Feature/x", "feature/X"):
        with pytest.raises(AlreadyExists, match="Feature/x"):
            graph.branches.create(taken)
    graph.branches.create("Feature")
    with pytest.raises(NotFound) as caught:
        og.open(graph.uri, read_only=True).snapshot("feature/x")
    assert "'Feature/x'" in caught.value.hint


def test_a_source_that_is_not_there_leaves_no_name(graph: og.Graph) -> None:
    with pytest.raises(NotFound):
        graph.branches.create("feature", from_="nothing")
    with pytest.raises(PreconditionFailed):
        graph.branches.create("feature", expect_head=new_ulid())
    assert engine_of(graph).store.list(layout.BRANCHES) == []
    graph.branches.create("feature", expect_head=graph.snapshot().commit_id)


def test_a_source_that_was_deleted_is_refused(graph: og.Graph) -> None:
    graph.branches.create("a")
    other = og.open(graph.uri)
    other.snapshot("a")
    graph.branches.delete("a")
    with pytest.raises(NotFound):
        other.branches.create("b", from_="a")


# --- a name that is being made ------------------------------------------------------------------------------------------


class Waiting:
    """A clock that a test moves."""

    def __init__(self, real: Any) -> None:
        self.real, self.offset, self.shift = real, 0.0, 0.0

    def now_us(self) -> int:
        return int(self.real.now_us() + self.shift * 1_000_000)

    def monotonic(self) -> float:
        return float(self.real.monotonic() + self.offset)

    def sleep(self, seconds: float) -> None:
        self.real.sleep(seconds)


def test_a_name_that_is_being_made_is_taken_over_after_the_grace_on_our_own_clock(graph: og.Graph) -> None:
    engine = engine_of(graph)
    claim(engine, "feature", new_ulid())
    engine.clock = clock = Waiting(engine.clock)
    with pytest.raises(AlreadyExists) as caught:
        graph.branches.create("feature")
    assert 0 < caught.value.facts["grace_left_s"] <= engine.timing.grace_s
    with pytest.raises(NotFound, match="being made"):
        graph.snapshot("feature")
    clock.offset = engine.timing.grace_s + 1
    graph.branches.create("feature")
    assert names_of(graph) == ["main", "feature"]
    assert [entry.state for entry in log(engine)] == ["making", "free", "making", "bound"]


def test_a_name_whose_maker_died_long_ago_is_taken_over_by_a_process_that_has_just_come(graph: og.Graph) -> None:
    """A command is a new process each time: it has never waited itself."""
    engine = engine_of(graph)
    claim(engine, "feature", new_ulid())
    with og.open(graph.uri) as other, pytest.raises(AlreadyExists) as caught:
        other.branches.create("feature")
    wait = re.search(r"after (\d+) s", caught.value.hint)
    assert wait is not None
    for left, taken in ((2, False), (-1, True)):
        with og.open(graph.uri) as other:
            engine_of(other).clock = clock = Waiting(engine.clock)
            clock.shift = int(wait[1]) - left
            if taken:
                other.branches.create("feature")
            else:
                with pytest.raises(AlreadyExists):
                    other.branches.create("feature")
    assert names_of(graph) == ["main", "feature"]


def log(engine: Engine, name_key: str = "feature") -> list[NameEntry]:
    entries = engine.store.list(layout.branch_names_prefix(name_key))
    found = [engine.names._read(*layout.name_entry(one.key), None) for one in entries]
    return [one for one in found if one is not None]


def test_a_creator_that_slept_until_its_name_was_taken_over_reports_no_branch(graph: og.Graph) -> None:
    """Paused between ``making`` and ``bound``."""
    engine, other = engine_of(graph), og.open(graph.uri)
    theirs = engine_of(other)

    def take_over(**_: Any) -> None:
        failpoints.disarm()
        with pytest.raises(AlreadyExists):
            other.branches.create("feature")
        theirs.clock = Waiting(theirs.clock)
        theirs.clock.offset = theirs.timing.grace_s + 1
        other.branches.create("feature", actor="other")

    with failpoints.armed("branch.before_bind", take_over), pytest.raises(AlreadyExists):
        graph.branches.create("feature")
    [_, _, _, last] = log(engine)
    assert (last.state, last.actor) == ("bound", "other")
    assert graph.snapshot("feature").commit_id


def test_a_creator_whose_name_was_only_freed_says_so(graph: og.Graph) -> None:
    engine = engine_of(graph)

    def free(**_: Any) -> None:
        failpoints.disarm()
        [making] = log(engine)
        branch_names.give_up(engine, making, Meter())

    with failpoints.armed("branch.before_bind", free), pytest.raises(Conflict):
        graph.branches.create("feature")
    assert names_of(graph) == ["main"]
    graph.branches.create("feature")


# --- answers that do not come ---------------------------------------------------------------------------------------------


def lose(engine: Engine, monkeypatch: pytest.MonkeyPatch, states: dict[str, str]) -> None:
    """No answer to the entries of these states: the entry is written ("late") or it is not ("never")."""
    write = engine.store.create

    def create(key: str, data: bytes, **given: Any) -> None:
        how = next((how for state, how in states.items() if f'"state":"{state}"'.encode() in data), None)
        if how == "late":
            write(key, data, **given)
        if how is not None:
            raise StoreUnavailable("no answer")
        write(key, data, **given)

    monkeypatch.setattr(engine.store, "create", create)


def test_an_answer_to_the_claim_or_the_binding_that_was_lost_is_found_by_reading(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        lose(engine_of(graph), patch, {"making": "late", "bound": "late"})
        graph.branches.create("feature")
    assert names_of(graph) == ["main", "feature"]


def test_a_binding_that_did_not_arrive_is_shut_out_before_the_failure_is_told(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of(graph)
    with monkeypatch.context() as patch, pytest.raises(StoreUnavailable):
        lose(engine, patch, {"bound": "never"})
        graph.branches.create("feature")
    assert [entry.state for entry in log(engine)] == ["making", "free"]
    assert graph.branches.create("feature").head


def test_a_binding_of_which_nothing_is_known_is_an_unknown_outcome(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(engine_of(graph), monkeypatch, {"bound": "never", "free": "never"})
    with pytest.raises(OutcomeUnknown, match="feature"):
        graph.branches.create("feature")


@pytest.mark.parametrize("failure", [StoreUnavailable, StoreRefused])
def test_a_look_that_fails_after_the_binding_is_an_unknown_outcome_and_the_branch_is_there(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, failure: type[OmnigraphError]
) -> None:
    names = engine_of(graph).names
    with monkeypatch.context() as patch:

        def bound(**_: Any) -> None:
            def refused(*_: object) -> None:
                raise failure("no answer")

            patch.setattr(names, "highest", refused)

        with failpoints.armed("branch.before_bind", bound), pytest.raises(OutcomeUnknown, match="feature"):
            graph.branches.create("feature")
    assert names_of(graph) == ["main", "feature"]


def test_a_line_whose_answer_was_lost_is_found(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of(graph)
    make_line = engine.manifest.create

    def silent(*args: Any, **given: Any) -> Any:
        make_line(*args, **given)
        raise creating.SwapUnknown("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(engine.manifest, "create", silent)
        graph.branches.create("feature")
    graph.load(people("ann"), mode="append", branch="feature")
    assert graph.verify(deep=True).ok


# --- beside a cleanup ---------------------------------------------------------------------------------------------------


def doom(engine: Engine) -> Callable[..., None]:
    def act(**_: Any) -> None:
        failpoints.disarm()
        main = engine.latest(MAIN)
        engine.boundary.raise_to(main.state.identity, main.version)

    return act


def test_a_commit_that_a_cleanup_dooms_while_a_branch_is_made_from_it_is_reclaimed(local_root: str) -> None:
    """The boundary is read after the claim: whichever of the two comes second sees the other."""
    graph = make(local_root, 3)
    engine = engine_of(graph)
    old = graph.commits()[1].id
    with failpoints.armed("branch.claimed", doom(engine)), pytest.raises(Reclaimed):
        graph.branches.create("feature", at=old)
    assert [entry.state for entry in log(engine)] == ["making", "free"]
    assert names_of(graph) == ["main"]


def test_the_same_commit_is_served_where_a_checkpoint_has_kept_it_all_along(local_root: str) -> None:
    graph = make(local_root, 3)
    old = graph.commits()[1].id
    graph.checkpoints.create("kept", at=old)
    with failpoints.armed("branch.claimed", doom(engine_of(graph))):
        graph.branches.create("feature", at=old)
    assert graph.snapshot("feature").commit_id == old


def test_the_same_commit_is_served_where_another_branch_was_made_from_it(local_root: str) -> None:
    graph = make(local_root, 3)
    old = graph.commits()[1].id
    graph.branches.create("first", at=old)
    with failpoints.armed("branch.claimed", doom(engine_of(graph))):
        graph.branches.create("second", at=old)
    assert graph.snapshot("second").commit_id == old


def test_without_the_look_at_the_boundary_a_branch_stands_on_what_is_being_deleted(
    local_root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted defect: the law above turns red."""
    graph = make(local_root, 3)
    monkeypatch.setattr(creating, "swap_stands", lambda *_: True)
    with failpoints.armed("branch.claimed", doom(engine_of(graph))):
        graph.branches.create("feature", at=graph.commits()[1].id)
    assert names_of(graph) == ["main", "feature"]


def test_a_head_that_was_cleaned_up_under_a_handle_is_looked_at_again(local_root: str) -> None:
    """The next version was there and is reclaimed: the look at it says nothing."""
    graph, other = make(local_root, 2), og.open(local_root)
    for name in ("x", "y", "z"):
        other.load(people(name), mode="append")
    stale = engine_of(graph).known(MAIN)
    assert stale is not None
    report = other.cleanup(keep=1, min_age="0s", confirm=True)
    assert report
    made = graph.branches.create("feature")
    assert made.head == other.snapshot().commit_id


# --- law ------------------------------------------------------------------------------------------------------------------


def test_a_line_is_made_only_after_a_durable_record_names_it(local_root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = make(local_root, 1)
    engine = engine_of(graph)
    make_line, seen = engine.manifest.create, []

    def create(state: Any, **given: Any) -> Any:
        highest = og_engine(graph).names.highest("feature")
        seen.append(highest is not None and highest.state == "making" and highest.identity == state.identity)
        return make_line(state, **given)

    monkeypatch.setattr(engine.manifest, "create", create)
    graph.branches.create("feature")
    assert seen == [True]


def test_nothing_is_ever_swapped_onto_the_line_of_another_branch_by_its_name(graph: og.Graph) -> None:
    """A handle that has resolved a name stays with that branch; it never moves to a namesake in the middle of a write."""
    engine = engine_of(graph)
    first = graph.branches.create("feature").identity
    line = engine.line_of("feature")
    assert line == BranchName("feature", first)
    other = og.open(graph.uri)
    other.branches.delete("feature")
    second = other.branches.create("feature").identity
    assert engine.latest(line).state.identity == first != second
    with pytest.raises(NotFound) as caught:
        graph.load(people("ann"), mode="append", branch="feature")
    assert (caught.value.identity, caught.value.bound_to) == (first, second)
    graph.load(people("ann"), mode="append", branch="feature")
    assert other.snapshot("feature").get("Person", "ann")
