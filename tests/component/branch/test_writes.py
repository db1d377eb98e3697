"""Reads and writes of a branch: everything that takes ``branch=``, on tables that are inherited and on tables of its own."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.commit.builder import Minting, Work, build_plan
from omnigraph.commit.deadline import Deadline
from omnigraph.commit.engine import MAIN
from omnigraph.commit.properties import Counts
from omnigraph.commit.steps import AppendFiles
from omnigraph.core import failpoints
from omnigraph.core.errors import DataInvalid, IdempotencyMismatch, NotFound, ReadSetChanged
from omnigraph.core.ids import new_ulid, new_uuid
from omnigraph.manifest.rows import BaseVersion
from tests.component.upkeep.material import engine_of, knows, make, people

PERSON, KNOWS = "node:Person", "edge:Knows"


@pytest.fixture
def graph(any_root: str) -> og.Graph:
    graph = make(any_root, 2)
    graph.branches.create("feature")
    return graph


def pins(graph: og.Graph, branch: str = "feature") -> Any:
    return engine_of(graph).latest(branch).state.tables


def test_the_first_write_to_a_table_forks_it_and_the_second_stays_there(graph: og.Graph) -> None:
    before, identity = pins(graph), engine_of(graph).latest("feature").state.identity
    graph.load([*people("ann"), *knows(("ann", "p0"))], mode="append", branch="feature")
    first = pins(graph)
    for key in (PERSON, KNOWS):
        assert first[key].owner == identity and first[key].version == before[key].version + 1
        assert first[key].bases == (BaseVersion(None, before[key].version, True),)
    assert first["node:Place"] == before["node:Place"], "what is not written is not forked"
    graph.load(people("bob"), mode="append", branch="feature")
    assert (pins(graph)[PERSON].ref, pins(graph)[PERSON].version) == (first[PERSON].ref, first[PERSON].version + 1)
    assert pins(graph, MAIN) == before
    assert graph.verify(deep=True).ok


def test_a_fork_of_a_fork_reads_through_the_chain(graph: og.Graph) -> None:
    graph.load(people("ann"), mode="append", branch="feature")
    graph.branches.create("b", from_="feature")
    graph.load(people("bob"), mode="append", branch="b")
    assert [base.ref for base in pins(graph, "b")[PERSON].bases] == [pins(graph)[PERSON].ref, None]
    names = sorted(og.open(graph.uri).snapshot("b").to_arrow("Person")["name"].to_pylist())
    assert names == ["ann", "bob", "p0", "p1"]
    assert graph.verify(deep=True).ok


def test_every_mode_of_a_load_and_a_mutation_work_on_inherited_rows(graph: og.Graph) -> None:
    graph.load(people("p0", age=7), mode="merge", branch="feature")
    graph.mutate('query q() { update Person set { age: 9 } where name = "p1" }', branch="feature")
    graph.load(people("p2"), mode="patch", branch="feature")
    graph.mutate('query q() { delete Knows where from = "p0" }', branch="feature")
    read = graph.snapshot("feature")
    ages = [read.get("Person", name)["age"] for name in ("p0", "p1", "p2")]  # type: ignore[index]
    assert (ages, read.count("Knows")) == ([7, 9, 1], 0)
    main = graph.snapshot()
    assert ([main.get("Person", name)["age"] for name in ("p0", "p1")], main.count("Knows")) == ([1, 1], 1)  # type: ignore[index]
    assert graph.verify(deep=True).ok


def test_rules_hold_on_the_branch_and_not_across(graph: og.Graph) -> None:
    graph.load(people("ann"), mode="append", branch="feature")
    graph.load(people("ann"), mode="append")
    with pytest.raises(og.errors.Conflict):
        graph.load(people("p0"), mode="append", branch="feature")
    with pytest.raises(DataInvalid):
        graph.load(knows(("ann", "nobody")), mode="append", branch="feature")
    assert not graph.check(knows(("ann", "nobody")), mode="append", branch="feature").ok
    assert graph.check(knows(("ann", "p1")), mode="append", branch="feature").ok
    plan = graph.load(people("bob"), mode="append", branch="feature", dry_run=True)
    assert plan.branch == "feature"


def test_an_overwrite_of_an_inherited_table_needs_no_base(graph: og.Graph) -> None:
    graph.load([{"type": "Place", "data": {"title": "x"}}], mode="append")
    graph.branches.create("b")
    graph.load([{"type": "Place", "data": {"title": "y"}}], mode="overwrite", branch="b")
    assert [base.needed for base in pins(graph, "b")["node:Place"].bases] == [False]
    assert graph.snapshot("b").to_arrow("Place")["title"].to_pylist() == ["y"]


def test_the_schema_of_a_branch_is_its_own(graph: og.Graph) -> None:
    text = str(graph.schema.show("feature"))
    more = text.replace("age: I32? @index", "age: I32? @index height: F64?") + "node Town { name: String @key }\n"
    assert graph.schema.plan(more, branch="feature").steps
    graph.schema.apply(more, branch="feature", fill={"Person.height": 1.5})
    assert "Town" in str(graph.schema.show("feature")) and "Town" not in str(graph.schema.show())
    assert graph.snapshot("feature").get("Person", "p0")["height"] == 1.5  # type: ignore[index]
    assert pins(graph)[PERSON].owner == pins(graph)["node:Town"].owner != pins(graph, MAIN)[PERSON].owner
    graph.load([{"type": "Town", "data": {"name": "x"}}], mode="append", branch="feature")
    with pytest.raises(og.errors.OmnigraphError):
        graph.load([{"type": "Town", "data": {"name": "x"}}], mode="append")
    assert graph.verify(deep=True).ok


def test_indices_of_a_branch_are_built_on_its_own_tables_alone(graph: og.Graph) -> None:
    before = pins(graph, MAIN)
    graph.ensure_indices("feature")
    assert pins(graph) == before, "its tables are all inherited"
    graph.load(people("ann"), mode="append", branch="feature")
    graph.ensure_indices("feature")
    assert pins(graph, MAIN) == before
    assert graph.snapshot("feature").get("Person", "ann") and graph.verify(deep=True).ok


def test_a_checkpoint_of_a_branch(graph: og.Graph) -> None:
    commit = graph.load(people("ann"), mode="append", branch="feature").commit_id
    made = graph.checkpoints.create("kept", branch="feature")
    assert (made.commit_id, made.branch) == (commit, "feature")


# --- keys -----------------------------------------------------------------------------------------------------------------


def test_a_key_below_the_fork_is_a_replay_and_one_above_it_is_not(any_root: str) -> None:
    graph = make(any_root, 1)
    first = graph.load(people("ann"), mode="append", idempotency_key="one").commit_id
    graph.branches.create("feature")
    graph.load(people("bob"), mode="append", idempotency_key="two")
    for handle in (og.open(graph.uri), graph):
        again = handle.load(people("ann"), mode="append", branch="feature", idempotency_key="one")
        assert again.replayed and again.commit_id == first
    with pytest.raises(IdempotencyMismatch):
        graph.load(people("other"), mode="append", branch="feature", idempotency_key="one")
    fresh = graph.load(people("bob"), mode="append", branch="feature", idempotency_key="two")
    assert not fresh.replayed and graph.snapshot("feature").get("Person", "bob")
    mutation = 'query q() { insert Person { name: "eve" } }'
    made = graph.mutate(mutation, idempotency_key="three")
    graph.branches.create("b")
    assert graph.mutate(mutation, branch="b", idempotency_key="three").commit_id == made.commit_id


def test_an_outcome_is_looked_for_on_every_line(graph: og.Graph) -> None:
    commit = graph.load(people("ann"), mode="append", branch="feature").commit_id
    found = og.open(graph.uri).outcome(str(commit))
    assert found.state == "landed" and found.receipt is not None and found.receipt.branch == "feature"
    absent = graph.outcome(new_ulid())
    assert absent.state == "absent" and set(absent.searched) == {"main", "feature"}
    assert absent.deleted == () and "may be repeated" in absent.hint and found.hint == ""


# --- two writers --------------------------------------------------------------------------------------------------------


def test_of_two_first_writers_one_forks_and_the_other_writes_on_its_fork(graph: og.Graph) -> None:
    other = og.open(graph.uri)

    def rival(**_: Any) -> None:
        failpoints.disarm()
        other.load(people("bob"), mode="append", branch="feature")

    with failpoints.armed("apply.before_commit", rival):
        graph.load(people("ann"), mode="append", branch="feature")
    read = og.open(graph.uri).snapshot("feature")
    assert read.get("Person", "ann") and read.get("Person", "bob")
    bases = pins(graph)[PERSON].bases
    assert len(bases) == 1, "the second plan committed on the fork of the first"
    assert graph.verify(deep=True).problems == () or [p.code for p in graph.verify().problems] == ["orphan-fork"]


def test_writers_of_two_branches_do_not_wait_for_each_other(graph: og.Graph) -> None:
    """Locks and queues go by the line of the branch."""
    engine = engine_of(graph)
    graph.load(people("ann"), mode="append", branch="feature")
    with engine.locks.holding("feature", [PERSON], Deadline(engine.clock, 5)):
        graph.load(people("bob"), mode="append", deadline_s=5)


# --- load(from_branch=) ---------------------------------------------------------------------------------------------------


def test_a_load_makes_the_branch_where_it_is_absent(graph: og.Graph) -> None:
    graph.load(people("ann"), mode="append", branch="feature")
    graph.load(people("bob"), mode="append", branch="new", from_branch="feature")
    assert graph.snapshot("new").count("Person") == 4
    graph.load(people("eve"), mode="append", branch="new", from_branch="main")
    assert graph.snapshot("new").count("Person") == 5, "it is there: an ordinary load"
    graph.load(people("fay"), mode="append", from_branch="feature")
    assert graph.snapshot().get("Person", "fay")


def test_a_refused_load_leaves_the_branch_and_says_so(graph: og.Graph) -> None:
    with pytest.raises(DataInvalid) as caught:
        graph.load(knows(("x", "y")), mode="append", branch="new", from_branch="feature")
    assert caught.value.branch_created == "new" and "'new'" in caught.value.hint
    assert graph.snapshot("new").commit_id
    with pytest.raises(DataInvalid) as caught:
        graph.load(knows(("x", "y")), mode="append", branch="new", from_branch="feature")
    assert "branch_created" not in caught.value.facts


def test_a_dry_run_makes_no_branch(graph: og.Graph) -> None:
    plan = graph.load(people("ann"), mode="append", branch="new", from_branch="feature", dry_run=True)
    assert plan.branch == "new" and plan.base_commit == graph.snapshot("feature").commit_id
    with pytest.raises(NotFound):
        graph.snapshot("new")
    with pytest.raises(NotFound):
        graph.load(people("ann"), mode="append", branch="new", from_branch="nothing")
    with pytest.raises(og.errors.InvalidInput):
        graph.load(people("ann"), mode="append", branch="a//b", from_branch="main")


# --- what stages before it is announced -----------------------------------------------------------------------------------


def stream(*names: str) -> Any:
    batch = pa.table({"name": list(names), "age": pa.array([1] * len(names), pa.int32()), "bio": ["x"] * len(names)})
    return {"Person": batch.to_reader()}


def test_a_stream_into_an_inherited_table_forks_it_before_it_stages(graph: og.Graph) -> None:
    """Its files lie in the folder of the fork. Staged in the parent's they would be named by a version that cannot be read."""
    before = engine_of(graph).latest("feature").version
    graph.load(stream("ann", "bob"), mode="append", branch="feature")
    assert og.open(graph.uri).snapshot("feature").count("Person") == 4
    assert engine_of(graph).latest("feature").version == before + 2, (
        "the forks are published by a swap without a commit"
    )
    assert [one.kind for one in graph.commits("feature", limit=1)] == ["load"]
    graph.load(stream("eve"), mode="append", branch="feature")
    assert engine_of(graph).latest("feature").version == before + 3
    assert graph.verify(deep=True).ok


def test_a_large_load_forks_before_it_stages(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.write.load.STAGE_FIRST_BYTES", 1)
    graph.load([*people("ann"), *knows(("ann", "p0"))], mode="append", branch="feature")
    graph.load(people("p0", age=5), mode="merge", branch="feature")
    assert og.open(graph.uri).snapshot("feature").get("Person", "p0")["age"] == 5  # type: ignore[index]
    assert graph.verify(deep=True).ok


def test_files_that_were_staged_on_another_line_are_refused_before_lance_sees_them(graph: og.Graph) -> None:
    state = engine_of(graph).latest("feature").state
    work = Work((AppendFiles(PERSON, (Counts(inserted=1),), ({"id": 0},)),))
    with pytest.raises(ReadSetChanged, match="belongs to another branch"):
        build_plan(
            state, work, op=new_ulid(), graph=new_ulid(), branch="feature", kind="load", requests=(),
            owner=engine_of(graph).owner, mint=Minting(new_ulid, new_uuid),
        )  # fmt: skip


def test_two_writers_that_make_lines_for_one_table_end_on_one_of_them(graph: og.Graph) -> None:
    other = og.open(graph.uri)

    def rival(**_: Any) -> None:
        failpoints.disarm()
        other.load(people("bob"), mode="append", branch="feature")

    with failpoints.armed("own_lines.before_swap", rival):
        graph.load(stream("ann"), mode="append", branch="feature")
    read = og.open(graph.uri).snapshot("feature")
    assert read.get("Person", "ann") and read.get("Person", "bob")
    assert list(graph.intents()) == [] and [p.code for p in graph.verify().problems] == ["orphan-fork"]


PLACES = ["own_lines.before_arm", "own_lines.armed", "apply.after_commit", "own_lines.before_swap", "own_lines.after_swap", "own_lines.disarmed"]  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_a_writer_that_dies_while_it_makes_lines_leaves_garbage_or_owned_lines(local_root: str, place: str) -> None:
    graph = make(local_root, 2)
    graph.branches.create("feature")
    content = graph.snapshot("feature").export()
    with failpoints.armed(place, KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        graph.load(stream("ann"), mode="append", branch="feature")
    fresh = og.open(local_root)
    fresh.recover(grace_s=0)
    assert list(fresh.intents()) == []
    assert fresh.snapshot("feature").export() == content
    assert {p.code for p in fresh.verify(deep=True).problems} <= {"orphan-fork", "unreferenced-file"}
    again = fresh.recover(grace_s=0)
    assert again.recovered == ()
    fresh.load(stream("ann"), mode="append", branch="feature")
    assert fresh.snapshot("feature").count("Person") == 3
