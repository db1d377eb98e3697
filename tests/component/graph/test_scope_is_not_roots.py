"""Whoever deletes something, or says that something cannot happen any more, looks at every line of the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import lance
import pytest

import omnigraph as og
from omnigraph.commit import lines as graph_lines
from omnigraph.commit.deadline import Deadline
from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.intent import encode_plan
from omnigraph.commit.recovery.outcome import find_outcome
from omnigraph.core.errors import Corruption, InvalidInput, NotFound, Refused
from omnigraph.core.ids import new_ulid
from omnigraph.core.meter import Meter
from omnigraph.graph import Graph
from omnigraph.manifest.boundary import ALL
from omnigraph.manifest.rows import BaseVersion, Head, Pin, SchemaRow
from omnigraph.manifest.state import State
from omnigraph.store import layout
from omnigraph.table.dataset import TableRef
from omnigraph.testing.content import content_of
from omnigraph.testing.dead import leave_dead
from omnigraph.upkeep import cleanup_look, cleanup_roots, verify
from omnigraph.upkeep.cleanup_roots import branch_ranges
from tests.component.commit.lines_material import bind, claim, fork, make_line, release
from tests.component.upkeep.material import engine_of, make, people, pin_of

KEY = "node:Person"


@pytest.fixture
def graph(local_root: str) -> Graph:
    return make(local_root, 5)


@pytest.fixture
def engine(graph: Graph) -> Engine:
    return engine_of(graph)


def everything(engine: Engine) -> dict[str, bytes | None]:
    return {entry.key: engine.store.get(entry.key) for entry in engine.store.list("")}


def clean(graph: Graph, **options: object) -> object:
    given = {"keep": 1, "min_age": "0s", **options}
    return graph.cleanup(graph.plan_cleanup(**given))  # type: ignore[arg-type]


def opens(engine: Engine, location: str, ref: str | None, version: int) -> bool:
    try:
        lance.dataset(engine.tables.uri(TableRef(location, ref)), version=version).to_table()
    except (OSError, ValueError):
        return False
    return True


def grow(graph: Graph, commits: int = 4) -> None:
    for n in range(commits):
        graph.load(people(f"more-{n}-{new_ulid()}"), mode="append")


# --- forks of other lines -----------------------------------------------------------------------------------------------

Named = Callable[[Engine, str], object]
NAMINGS: dict[str, Named] = {
    "bound": lambda engine, identity: bind(engine, "feature", identity),
    "being made": lambda engine, identity: claim(engine, "feature", identity),
}


@pytest.mark.parametrize("naming", NAMINGS.values(), ids=NAMINGS.keys())
@pytest.mark.parametrize("branches", [None, ["main"]])
def test_a_fork_of_another_line_is_never_garbage(
    graph: Graph, engine: Engine, naming: Named, branches: list[str] | None
) -> None:
    pin = fork(engine, pin_of(graph, KEY))
    naming(engine, make_line(engine, pin))
    grow(graph)
    assert graph.plan_cleanup(keep=1, min_age="0s", branches=branches).orphans == ()
    clean(graph, branches=branches)
    assert opens(engine, pin.location, pin.ref, pin.version)
    assert [problem.code for problem in graph.verify().problems if problem.code.startswith("orphan")] == []


def test_a_fork_that_no_line_names_is_garbage(graph: Graph, engine: Engine) -> None:
    """The other side of the law: the instrument can tell the two apart."""
    pin = fork(engine, pin_of(graph, KEY))
    bind(engine, "feature", make_line(engine))
    assert [(one.path, one.ref) for one in graph.plan_cleanup(keep=1, min_age="0s").orphans] == [
        (pin.location, pin.ref)
    ]
    assert "orphan-fork" in [problem.code for problem in graph.verify().problems]
    clean(graph)
    assert not opens(engine, pin.location, pin.ref, pin.version)


@pytest.mark.parametrize("naming", NAMINGS.values(), ids=NAMINGS.keys())
@pytest.mark.parametrize("branches", [None, ["main"]])
def test_a_version_that_another_line_has_inherited_is_kept(
    graph: Graph, engine: Engine, naming: Named, branches: list[str] | None
) -> None:
    pin = pin_of(graph, KEY)
    naming(engine, make_line(engine))
    grow(graph)
    doomed = {line.key: line.doomed for line in graph.plan_cleanup(keep=1, min_age="0s", branches=branches).lines}
    assert doomed[KEY], "main's line is cleaned up around it"
    assert pin.version not in doomed[KEY]
    clean(graph, branches=branches)
    assert opens(engine, pin.location, pin.ref, pin.version)
    assert not opens(engine, pin.location, pin.ref, pin.version + 1)


def test_the_base_that_a_fork_needs_is_kept_and_one_that_it_does_not_need_goes(graph: Graph, engine: Engine) -> None:
    """A fork reads files of the version that it was made from, wherever that lies, until it needs none of them."""
    first = fork(engine, pin_of(graph, KEY))
    second = fork(engine, first)  # a fork of a fork: its chain names both
    identity = make_line(engine, second)
    bind(engine, "feature", identity)
    grow(graph)
    place = (first.location, first.ref)
    plan = graph.plan_cleanup(keep=1, min_age="0s")
    assert plan.orphans == (), "the first fork has no pin; the second needs its files"
    doomed = {(line.location, line.ref): line.doomed for line in plan.lines}
    assert first.version not in doomed.get(place, ()) and first.version not in doomed[(first.location, None)]
    clean(graph)
    assert opens(engine, second.location, second.ref, second.version)
    assert [base.needed for base in engine.latest_of(identity).state.tables[KEY].bases] == [True, True]


def test_a_fork_that_no_pin_needs_any_more_is_garbage(graph: Graph, engine: Engine) -> None:
    first = fork(engine, pin_of(graph, KEY))
    settled = replace(fork(engine, first), bases=tuple(replace(b, needed=False) for b in fork(engine, first).bases))
    then, now = branch_states(settled)
    kept = {place for place, _ in branch_ranges(then, now, "feature")}
    assert (first.location, first.ref) not in kept


def branch_states(pin: Pin) -> tuple[State, State]:
    identity = new_ulid()
    state = State(
        version=1,
        ref=layout.branch_ref(identity),
        head=Head(identity, new_ulid()),
        schema=SchemaRow("", "", "", ""),
        tables={pin.key: replace(pin, owner=identity)},
    )
    return state, replace(state, version=2)


def test_a_line_that_began_between_two_retained_commits_keeps_all_its_bases(graph: Graph, engine: Engine) -> None:
    """Its earlier states may have needed what its newest does not: only the newest is looked at."""
    first = fork(engine, pin_of(graph, KEY))
    pin = replace(fork(engine, first), bases=(BaseVersion(first.ref, first.version, needed=False),))
    then, now = branch_states(pin)
    kept = {place for place, _ in branch_ranges(replace(then, tables={}), now, "feature")}
    assert (first.location, first.ref) in kept


def test_the_state_that_a_branch_was_made_from_is_kept(graph: Graph, engine: Engine) -> None:
    """Merges begin there, also when nothing of the branch names a table of it any more."""
    identity = make_line(engine)
    bind(engine, "feature", identity)
    parent = engine.latest_of(identity).state.head.parent
    assert parent is not None
    grow(graph)
    clean(graph)
    grow(graph)
    clean(graph)
    state = engine.manifest.open_at(parent.ref, parent.manifest_version).state
    assert state.head.commit_id == parent.commit
    assert all(opens(engine, pin.location, pin.ref, pin.version) for pin in state.tables.values())


def test_a_version_that_a_branch_is_being_made_from_is_kept(graph: Graph, engine: Engine) -> None:
    """Its line is not there yet: the claim of its name says what it needs."""
    pin = pin_of(graph, KEY)
    source = claim(engine, "feature", new_ulid()).source
    assert source is not None
    grow(graph)
    clean(graph)
    assert opens(engine, pin.location, pin.ref, pin.version)
    assert engine.manifest.open_at(source.ref, source.manifest_version).state.head.commit_id == source.commit


def test_a_source_that_is_gone_stands_in_nobodys_way(graph: Graph, engine: Engine) -> None:
    grow(graph)
    clean(graph)
    claim(engine, "feature", new_ulid(), version=1)
    grow(graph)
    assert graph.plan_cleanup(keep=1, min_age="0s").versions > 0


def test_a_line_that_is_not_acted_upon_loses_nothing(graph: Graph, engine: Engine) -> None:
    identity = make_line(engine)
    bind(engine, "feature", identity)
    grow(graph)
    plan = graph.plan_cleanup(keep=1, min_age="0s", branches=["main"])
    assert plan.branches == ("main",)
    [line] = [line for line in plan.lines if line.ref == layout.branch_ref(identity)]
    assert line.doomed == () and line.exempt == "its branch was not named"
    assert graph.plan_cleanup(keep=1, min_age="0s").branches == ("main", "feature")
    with pytest.raises(NotFound):
        graph.plan_cleanup(keep=1, branches=["other"])


def test_entries_below_the_highest_of_a_name_go_with_a_cleanup(graph: Graph, engine: Engine) -> None:
    entry = bind(engine, "feature", make_line(engine))
    grow(graph)
    clean(graph)
    assert [one.key for one in engine.store.list(layout.BRANCHES)] == [entry.key]


# --- what is not known refuses ------------------------------------------------------------------------------------------


def lance_branch(engine: Engine) -> None:
    lance.dataset(engine.tables.uri(TableRef(layout.MANIFEST))).create_branch("feature")


def folder(engine: Engine) -> None:
    engine.store.create(f"{layout.MANIFEST_LINES}f-{new_ulid()}/x", b"")


def torn_line(engine: Engine) -> None:
    identity = make_line(engine)
    for entry in engine.store.list(f"{layout.MANIFEST_LINES}{layout.branch_ref(identity)}/_versions/"):
        engine.store.replace(entry.key, b"")


def bound_without_line(engine: Engine) -> None:
    bind(engine, "feature", new_ulid())


def foreign_line(engine: Engine) -> None:
    """A line that says that it is another branch's."""
    identity = make_line(engine)
    for entry in engine.store.list(f"{layout.MANIFEST_LINES}{layout.branch_ref(identity)}/"):
        place = entry.key.replace(identity, "01BX5ZZKBKACTAV9WEVGEMMVRZ")
        engine.store.create(place, engine.store.get(entry.key) or b"")


def unreadable_name(engine: Engine) -> None:
    engine.store.create(layout.name_entry_key("feature", 0), b"{}")


def later_name(engine: Engine) -> None:
    entry = bind(engine, "feature", make_line(engine))
    data = (engine.store.get(entry.key) or b"").replace(b'"format":1', b'"format":2')
    engine.store.replace(entry.key, data)


STRANGE = {
    lance_branch: "unknown-ref",
    folder: "unknown-ref",
    torn_line: "unreadable-branch",
    bound_without_line: "unreadable-branch",
    foreign_line: "unreadable-branch",
    unreadable_name: "unreadable-branch",
    later_name: "unreadable-branch",
}


@pytest.mark.parametrize("strange", STRANGE, ids=lambda one: one.__name__)
@pytest.mark.parametrize("branches", [None, ["main"]])
def test_what_this_release_cannot_read_refuses_every_cleanup_and_is_left(
    graph: Graph, engine: Engine, strange: Callable[[Engine], None], branches: list[str] | None
) -> None:
    grow(graph)
    plan = graph.plan_cleanup(keep=1, min_age="0s", branches=branches)
    assert plan.versions
    strange(engine)
    before = everything(engine)
    for act in (
        lambda: graph.plan_cleanup(keep=1, min_age="0s", branches=branches),
        lambda: graph.cleanup(plan),
    ):
        with pytest.raises(Refused) as refused:
            act()
        assert refused.value.facts["reason"] == STRANGE[strange]
    assert everything(engine) == before, "nothing was deleted, nothing was written"
    assert STRANGE[strange] in [problem.code for problem in graph.verify().problems]
    assert STRANGE[strange] in [finding.code for finding in graph.status().findings]
    report = graph.recover(grace_s=0)
    assert not report.clean and report.unresolved
    with pytest.raises(Corruption):
        find_outcome(engine, new_ulid(), Meter())


def test_a_line_whose_creation_was_interrupted_stands_in_nobodys_way(graph: Graph, engine: Engine) -> None:
    """Its folder has a data file and no version."""
    engine.store.create(f"{layout.MANIFEST_LINES}{layout.branch_ref(new_ulid())}/data/x.lance", b"x")
    grow(graph)
    clean(graph)
    assert graph.status().verdict == "healthy"


def test_a_graph_without_other_lines_pays_two_listings(graph: Graph, engine: Engine) -> None:
    meter = Meter()
    graph_lines.read_lines(engine, meter, main=engine.latest(MAIN))
    assert meter.snapshot().requests == 2


# --- intents of branches that are not there -----------------------------------------------------------------------------


def stray_intent(engine: Engine, identity: str) -> str:
    """The intent of a write on main, as if it were of another branch."""
    [op] = leave_dead(engine, 1)
    intent = engine.intents.read(op)
    assert intent is not None and intent.plan is not None
    engine.intents.rewrite(op, encode_plan(replace(intent.plan, branch=replace(intent.plan.branch, identity=identity))))
    return op


@pytest.fixture
def small(engines: Callable[..., Engine]) -> Engine:
    return engines()


def test_an_intent_of_a_branch_that_cannot_be_resolved_is_left_and_reported_and_refuses_cleanup(small: Engine) -> None:
    op = stray_intent(small, new_ulid())
    data = small.intents.glance(op)
    graph = Graph(small)
    before = everything(small)
    with pytest.raises(Refused) as refused:
        graph.plan_cleanup(keep=1, min_age="0s")
    assert refused.value.facts["reason"] == "unresolved-branch"
    assert before.keys() <= everything(small).keys(), "nothing was deleted"
    report = graph.recover(grace_s=0)
    assert report.left == (op,) and len(report.unresolved) == 1 and report.recovered == ()
    assert "unresolved-branch" in [problem.code for problem in graph.verify().problems]
    assert "unresolved-branch" in [finding.code for finding in graph.status().findings]
    assert small.intents.glance(op) == data, "it is as it was"


def test_an_intent_of_a_branch_that_was_deleted_is_ended(small: Engine) -> None:
    identity = new_ulid()
    small.boundary.raise_to(identity, ALL)
    op = stray_intent(small, identity)
    report = Graph(small).recover(grace_s=0)
    assert [one.operation_id for one in report.recovered] == [op] and report.clean


def test_recover_of_one_branch_leaves_the_intents_of_others(small: Engine) -> None:
    identity = make_line(small)
    bind(small, "feature", identity)
    op = stray_intent(small, identity)
    report = Graph(small).recover(grace_s=0, branches=["main"])
    assert report.recovered == () and report.unresolved == ()
    assert small.intents.glance(op) is not None


# --- outcomes -----------------------------------------------------------------------------------------------------------


def test_absent_says_what_was_searched(graph: Graph, engine: Engine) -> None:
    assert graph.outcome(new_ulid()).searched == ("main",)
    unnamed = make_line(engine)
    bind(engine, "feature", make_line(engine))
    found = graph.outcome(new_ulid())
    assert found.absent
    assert found.searched == ("main", "feature", f"without a name ({unnamed})")
    landed = graph.outcome(graph.commits()[0].id)
    assert landed.landed and landed.searched == ()


@pytest.mark.parametrize("text", ["", "x", "01BX5ZZKBKACTAV9WEVGEMMVR", "01bx5zzkbkactav9wevgemmvrz", " " + "0" * 26])
def test_what_is_no_commit_id_is_never_absent(graph: Graph, text: str) -> None:
    with pytest.raises(InvalidInput):
        graph.outcome(text)


# --- upkeep acts on what a branch commits to ----------------------------------------------------------------------------


def test_upkeep_of_a_branch_leaves_tables_that_it_has_inherited(graph: Graph, engine: Engine) -> None:
    """Main goes on after the branch was made: above the branch's pin lie main's commits, and they are no drift."""
    bind(engine, "feature", make_line(engine))
    grow(graph)
    before = content_of(engine)
    assert graph.recover(grace_s=0).healed == ()
    assert graph.repair(confirm=True).tables == ()
    clean(graph)
    assert content_of(engine) == before
    assert graph.verify().ok


def test_drift_of_a_fork_is_healed_on_the_line_of_its_branch(graph: Graph, engine: Engine) -> None:
    pin = fork(engine, pin_of(graph, KEY))
    identity = make_line(engine, pin)
    bind(engine, "feature", identity)
    place = engine.tables.uri(TableRef(pin.location, pin.ref))
    rows = lance.dataset(place, version=pin.version).to_table().slice(0, 1)
    lance.write_dataset(rows, place, mode="append")  # nobody published it
    main = engine.latest(MAIN).version
    assert [(one.key, one.pin) for one in graph.recover(grace_s=0).healed] == [(KEY, pin.version)]
    assert engine.latest(MAIN).version == main, "main's line is not touched"
    feature = engine.latest("feature").state
    assert (feature.identity, feature.tables[KEY].ref, feature.tables[KEY].version) == (
        identity, pin.ref, pin.version + 2,
    )  # fmt: skip
    assert graph.verify().ok


def test_the_caches_know_a_branch_by_its_identity(graph: Graph, engine: Engine) -> None:
    first, second = make_line(engine), make_line(engine)
    entry = bind(engine, "feature", first)
    assert engine.latest("feature").state.identity == first
    release(engine, entry)
    bind(engine, "feature", second)
    assert engine.latest("feature").state.identity == first, "what was resolved once stays that branch"
    engine.drop("feature")
    assert engine.known("feature") is None
    assert engine.latest("feature").state.identity == second
    with (
        engine.locks.holding("feature", [KEY], og_deadline(engine)),
        engine.locks.holding("main", [KEY], og_deadline(engine)),
    ):
        pass  # one lock a line: neither waits for the other


def og_deadline(engine: Engine) -> object:

    return Deadline(engine.clock, 0.1)


# --- planted defects ----------------------------------------------------------------------------------------------------


def test_scope_taken_for_roots_is_noticed(graph: Graph, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """With only the named branches as roots, a fork of another line is garbage: the law above turns red."""
    pin = fork(engine, pin_of(graph, KEY))
    bind(engine, "feature", make_line(engine, pin))
    read = graph_lines.read_lines

    def only_main(*args: object, **facts: object) -> graph_lines.GraphLines:
        found = read(*args, **facts)  # type: ignore[arg-type]
        return replace(found, lines=found.lines[:1])

    monkeypatch.setattr(cleanup_look, "read_lines", only_main)
    assert [one.ref for one in graph.plan_cleanup(keep=1, min_age="0s").orphans] == [pin.ref]


def test_a_base_that_is_no_root_is_noticed(graph: Graph, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the closure under bases the first fork is garbage, and the second, which reads its files, is lost."""
    first = fork(engine, pin_of(graph, KEY))
    make_line(engine, fork(engine, first))
    grow(graph)
    monkeypatch.setattr(cleanup_roots, "_bases", lambda *_, **__: iter(()))
    monkeypatch.setattr(cleanup_look, "lines_named", lambda states: named_without_bases(states))
    assert first.ref in [one.ref for one in graph.plan_cleanup(keep=1, min_age="0s").orphans]


def named_without_bases(states: Iterable[State]) -> frozenset[tuple[str, str | None]]:
    return frozenset(
        place
        for state in states
        for pin in state.tables.values()
        for place in ((pin.location, pin.ref), (pin.location, None))
    )


def test_inherited_tables_taken_for_own_are_noticed(
    graph: Graph, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    bind(engine, "feature", make_line(engine))
    grow(graph)
    monkeypatch.setattr(verify, "owned_keys", lambda state: tuple(state.tables))
    assert "drift" in [problem.code for problem in graph.verify().problems], "main's commits would be put back"


def test_public_names_reach_every_branch(graph: Graph) -> None:
    assert isinstance(graph.verify(branches=["main"]).ok, bool)
    assert og.open(graph.uri, read_only=True).verify(branches=["main"]).ok


# --- what two lines say about one table -----------------------------------------------------------------------------------


@pytest.mark.parametrize("branches", [None, ["main"]])
def test_verify_names_both_versions_where_two_lines_disagree_on_a_table(
    graph: Graph, engine: Engine, branches: list[str] | None
) -> None:
    mine = fork(engine, pin_of(graph, KEY))
    other = replace(mine, bases=(BaseVersion(f"f-{new_ulid()}", 1, needed=False),))
    make_line(engine, mine), make_line(engine, other)  # each owned by its own line, as make_line says
    found = [problem for problem in graph.verify(branches=branches).problems if problem.code == "lines-disagree"]
    assert [(problem.severity, problem.table_key) for problem in found] == [("damage", KEY)] * 2
    assert ["its owner is" in found[0].message, "its bases are" in found[1].message] == [True, True]
    assert all(problem.message.count("manifest version 1 of branch feature") == 2 for problem in found)


def test_lines_that_agree_are_sound(graph: Graph, engine: Engine) -> None:
    bind(engine, "feature", make_line(engine, fork(engine, pin_of(graph, KEY))))
    assert "lines-disagree" not in {problem.code for problem in graph.verify().problems}
