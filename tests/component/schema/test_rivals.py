"""A change of the schema beside loads, staged bytes, mutations and other changes: each ends as if they had come one after
the other, or says which of them has to be repeated."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lance.fragment import write_fragments

import omnigraph as og
from omnigraph.commit import decide
from omnigraph.core import failpoints
from omnigraph.distributed import StagedFragments
from omnigraph.graph import Graph
from omnigraph.schema import table_schema
from omnigraph.testing.content import faults_of, leftovers_of
from omnigraph.write import schema_apply

BASE = "node A { name: String @key n: I32? m: I32? }\nnode B { name: String @key }\nedge E: A -> B { w: I32? }\n"
MORE = BASE.replace("m: I32?", "m: I32? extra: String?")
FILLED = BASE.replace("m: I32?", "m: I32? extra: String")
LESS = BASE.replace(" m: I32?", "")
NEEDED = BASE.replace("m: I32?", "m: I32")


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with og.init(tmp_path / "g", BASE) as made:
        made.load([record("a", 1, 10), record("b", 2, 20)], mode="append")
        yield made
        failpoints.disarm()


@pytest.fixture
def other(graph: Graph) -> Iterator[Graph]:
    with og.open(graph.uri) as opened:
        yield opened


def record(name: str, n: int | None = None, m: int | None = None, **more: Any) -> dict[str, Any]:
    return {"type": "A", "data": {"name": name, "n": n, "m": m, **more}}


def rows(graph: Graph) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in graph.snapshot().to_arrow("A").to_pylist())


def sound(graph: Graph) -> None:
    assert faults_of(graph._engine) == []
    assert leftovers_of(graph._engine) == []


def beside(place: str, call: Callable[[], Any]) -> Any:
    """Run the call once, when the write under test comes to the place."""
    done: list[bool] = []

    def once(**_: Any) -> None:
        if not done:
            done.append(True)
            call()

    return failpoints.armed(place, once)


# Before a table commit the other write comes first. Before the swap the other one finds a complete plan, and publishes it.
EARLY = ["arm.before", "arm.after", "apply.before_commit"]
PLACES = [*EARLY, "publish.before_swap"]
NO_TABLE = ["arm.before", "arm.after", "publish.before_swap"]  # a change that moves no table commits to none
CHANGED: dict[str, tuple[str, dict[str, object] | None]] = {
    "added": (MORE, None), "filled": (FILLED, {"A.extra": "x"}), "rule": (BASE.replace("n: I32?", "n: I32? @unique"), None),
    "other type": (BASE.replace("node B { name: String @key }", "node B { name: String @key p: I32? }"), None),
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("change", ["added", "rule", "other type"])
def test_a_load_is_prepared_again_under_the_new_schema(graph: Graph, other: Graph, change: str, place: str) -> None:
    text, fill = CHANGED[change]
    with beside(place, lambda: other.schema.apply(text, fill=fill)):
        receipt = graph.load([record("c", 3, 30)], mode="merge")
    assert receipt.tables["node:A"].inserted == 1
    assert [row[0] for row in rows(graph)] == ["a", "b", "c"]
    assert graph.schema.show().catalog.source == text
    kinds = [commit.kind for commit in graph.commits(limit=2)]
    met = change == "added" and place not in EARLY  # the change moves the table that the load has written to
    assert kinds == (["schema", "load"] if met else ["load", "schema"])
    sound(graph)


def test_a_load_that_no_longer_conforms_says_so(graph: Graph, other: Graph) -> None:
    with beside("apply.before_commit", lambda: other.schema.apply(NEEDED)):
        with pytest.raises(og.errors.DataInvalid, match="A.m is required"):
            graph.load([record("c", 3)], mode="append")
    assert len(rows(graph)) == 2
    sound(graph)


def test_a_load_that_a_new_rule_refuses_says_so(graph: Graph, other: Graph) -> None:
    with beside("apply.before_commit", lambda: other.schema.apply(CHANGED["rule"][0])):
        with pytest.raises(og.errors.DataInvalid, match="unique"):
            graph.load([record("c", 1)], mode="append")
    assert len(rows(graph)) == 2
    sound(graph)


def test_a_load_names_a_property_that_another_process_has_just_added(graph: Graph, other: Graph) -> None:
    other.schema.apply(MORE)
    graph.load([record("c", 3, 30, extra="x")], mode="append")
    assert rows(graph)[-1] == ("c", "x", 30, 3, "c")


def test_an_input_that_is_read_once_is_refused_where_its_types_have_changed(graph: Graph, other: Graph) -> None:
    with beside("apply.before_commit", lambda: other.schema.apply(MORE)):
        with pytest.raises(og.errors.SchemaChanged) as caught:
            graph.load(iter([record("c", 3, 30)]), mode="append")
    assert caught.value.actual == graph.schema.show().schema_id
    assert len(rows(graph)) == 2
    with beside(
        "publish.before_swap",
        lambda: other.schema.apply(CHANGED["other type"][0].replace("m: I32?", "m: I32? extra: String?")),
    ):
        graph.load(iter([record("c", 3, 30)]), mode="append")
    assert len(rows(graph)) == 3
    sound(graph)


def test_a_change_that_a_load_overtakes_checks_its_rows_too(graph: Graph, other: Graph) -> None:
    unique = CHANGED["rule"][0]
    for place in NO_TABLE:
        with beside(place, lambda: other.load([record("c", 1)], mode="append")):
            with pytest.raises(
                og.errors.DataInvalid, match='the row "c": A \\(n\\) is unique: 1 is also in the row "a"'
            ):
                graph.schema.apply(unique)
        other.mutate('query q() { delete A where name = "c" }')
    sound(graph)


@pytest.mark.parametrize("place", EARLY)
def test_a_fill_reaches_rows_that_a_load_has_just_brought(graph: Graph, other: Graph, place: str) -> None:
    with beside(place, lambda: other.load([record("c", 3, 30)], mode="append")):
        graph.schema.apply(FILLED, fill={"A.extra": {"sql": "upper(name)"}})
    assert [row[1] for row in rows(graph)] == ["A", "B", "C"]
    sound(graph)


@pytest.mark.parametrize("place", NO_TABLE)
def test_a_rename_takes_along_what_a_load_has_just_brought(graph: Graph, other: Graph, place: str) -> None:
    text = BASE.replace("node A {", 'node Z @rename_from("A") {').replace("E: A", "E: Z")
    with beside(place, lambda: other.load([record("c", 3, 30)], mode="append")):
        graph.schema.apply(text)
    assert graph.snapshot().count("Z") == 3
    sound(graph)


@pytest.mark.parametrize("place", PLACES)
def test_two_changes_to_one_text_are_one_commit(graph: Graph, other: Graph, place: str) -> None:
    with beside(place, lambda: other.schema.apply(FILLED, fill={"A.extra": "x"})):
        receipt = graph.schema.apply(FILLED, fill={"A.extra": "x"})
    assert (receipt.commit_id is None) == (place in EARLY)
    assert sum(commit.kind == "schema" for commit in graph.commits()) == 1
    sound(graph)


def test_two_different_changes_come_one_after_the_other(graph: Graph, other: Graph) -> None:
    with beside("apply.before_commit", lambda: other.schema.apply(LESS)):
        graph.schema.apply(MORE)
    # The second text has `m` again: it is a new property, without values.
    assert rows(graph) == [("a", None, None, 1, "a"), ("b", None, None, 2, "b")]
    sound(graph)


def test_a_property_that_was_dropped_and_added_beside_a_load_gets_no_value_of_it(graph: Graph, other: Graph) -> None:
    def again() -> None:
        other.schema.apply(LESS)
        other.schema.apply(BASE)

    with beside("apply.before_commit", again):
        graph.load([record("c", 3, 30)], mode="append")
    assert rows(graph) == [("a", None, 1, "a"), ("b", None, 2, "b"), ("c", 30, 3, "c")]
    sound(graph)


def test_a_mutation_is_bound_again(graph: Graph, other: Graph) -> None:
    text = BASE.replace("n: I32?", "n: I64?")
    with beside("apply.before_commit", lambda: other.schema.apply(text)):
        graph.mutate('query q() { insert A { name: "c", n: 7 } }')
    assert rows(graph)[-1] == ("c", None, 7, "c")
    graph.mutate('query q() { update A set { n: 9999999999 } where name = "c" }')
    sound(graph)


def test_a_replay_is_answered_whatever_the_schema_has_become(graph: Graph, other: Graph) -> None:
    first = graph.load([record("c", 3, 30)], mode="append", idempotency_key="k")
    other.schema.apply(LESS)
    again = graph.load([record("c", 3, 30)], mode="append", idempotency_key="k")
    assert (again.commit_id, again.replayed) == (first.commit_id, True)


# --- readers that are staged as they are read ---------------------------------------------------------------------------


def people(tmp_path: Path, *names: str) -> Path:
    path = tmp_path / "a.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("name", "n", "m"), *((name, 5, 50) for name in names)])
    return path


def test_a_streamed_load_goes_on_where_a_column_was_added(graph: Graph, other: Graph, tmp_path: Path) -> None:
    with beside("apply.before_commit", lambda: other.schema.apply(MORE)):
        graph.load({"A": people(tmp_path, "c", "d")}, mode="append")
    assert rows(graph)[2:] == [("c", None, 50, 5, "c"), ("d", None, 50, 5, "d")]
    sound(graph)


def test_a_streamed_load_follows_a_rename_of_a_column(graph: Graph, other: Graph, tmp_path: Path) -> None:
    swapped = BASE.replace("n: I32? m: I32?", 'p: I32? @rename_from("n") m: I32? @unique(p)')
    with beside("apply.before_commit", lambda: other.schema.apply(swapped)):
        with pytest.raises(og.errors.DataInvalid, match="unique"):
            graph.load({"A": people(tmp_path, "c", "d")}, mode="append")
    graph.load([{"type": "A", "data": {"name": "e", "p": 5}}], mode="append")
    sound(graph)


@pytest.mark.parametrize("change", ["filled", "less"])
def test_a_streamed_load_that_does_not_fit_any_more_is_refused(
    graph: Graph, other: Graph, tmp_path: Path, change: str
) -> None:
    text, fill = CHANGED.get(change, (LESS, None))
    with beside("apply.before_commit", lambda: other.schema.apply(text, fill=fill)):
        with pytest.raises(og.errors.SchemaChanged):
            graph.load({"A": people(tmp_path, "c", "d")}, mode="append")
    assert len(rows(graph)) == 2
    sound(graph)


# --- bytes that others have staged --------------------------------------------------------------------------------------


def staged(graph: Graph, txn: Any, *names: str) -> StagedFragments:
    schema = table_schema(graph.catalog.node("A"))
    columns: dict[str, list[Any]] = {
        "id": list(names),
        "name": list(names),
        "n": [5] * len(names),
        "m": [50] * len(names),
    }
    table = txn.table("A")
    data = pa.table({name: columns[name] for name in schema.names}, schema=schema)
    found: StagedFragments = table.describe(write_fragments(data, table.uri), "append")
    txn.add(found)
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (MORE, ("c", None, 50, 5, "c")),
        (BASE.replace("n: I32?", 'p: I32? @rename_from("n")'), ("c", 50, "c", 5)),
        (BASE.replace("node B", "node C { k: String @key }\nnode B"), ("c", 50, 5, "c")),
    ],
)
def test_staged_bytes_are_taken_where_every_field_lives_and_no_value_is_missing(
    graph: Graph, text: str, expected: tuple[Any, ...]
) -> None:
    txn = graph.begin()
    found = staged(graph, txn, "c")
    graph.schema.apply(text)
    txn.load_staged({"A": found}, mode="append")
    assert rows(graph)[-1] == expected
    sound(graph)


@pytest.mark.parametrize("compacted", [False, True])
def test_staged_bytes_of_another_property_of_the_same_name_are_refused(graph: Graph, compacted: bool) -> None:
    """Once nothing names a dropped field, Lance gives its number to the next one."""
    txn = graph.begin()
    found = staged(graph, txn, "c")
    text = BASE.replace(" n: I32?", "")
    graph.schema.apply(text)
    if compacted:
        graph.load([{"type": "A", "data": {"name": "z"}}], mode="append")
        graph.optimize()
    graph.schema.apply(BASE)
    with pytest.raises(og.errors.SchemaChanged):
        txn.load_staged({"A": found}, mode="append")
    txn.abort()
    sound(graph)


@pytest.mark.parametrize("case", ["filled", "nullable, filled", "less", "widened", "type renamed", "type dropped"])
def test_staged_bytes_that_do_not_fit_are_refused(graph: Graph, case: str) -> None:
    text, fill = {
        "filled": (FILLED, {"A.extra": "x"}),
        "nullable, filled": (MORE, {"A.extra": "x"}),
        "less": (LESS, None),
        "widened": (BASE.replace("n: I32?", "n: I64?"), None),
        "type renamed": (BASE.replace("node A {", 'node Z @rename_from("A") {').replace("E: A", "E: Z"), None),
        "type dropped": ("node B { name: String @key }", None),
    }[case]
    txn = graph.begin()
    found = staged(graph, txn, "c")
    graph.schema.apply(text, fill=fill)
    with pytest.raises(og.errors.SchemaChanged):
        txn.load_staged({"A": found}, mode="append")
    txn.abort()
    sound(graph)


# --- what was planned is what is done ------------------------------------------------------------------------------------


def test_a_plan_is_carried_out_as_it_was_made(graph: Graph) -> None:
    plan = graph.schema.plan(FILLED, fill={"A.extra": {"sql": "upper(name)"}})
    receipt = graph.schema.apply(plan, idempotency_key="k")
    assert [row[1] for row in rows(graph)] == ["A", "B"]
    assert graph.schema.apply(plan).commit_id is None, "accepted already"
    again = graph.schema.apply(FILLED, fill={"A.extra": {"sql": "upper(name)"}}, idempotency_key="k")
    assert (again.commit_id, again.replayed) == (receipt.commit_id, True), "a plan asks for what its text asks for"
    with pytest.raises(og.errors.InvalidInput, match="a plan has its fills"):
        graph.schema.apply(plan, fill={"A.extra": "x"})
    sound(graph)


@pytest.mark.parametrize("place", [None, *EARLY])
def test_a_plan_that_another_change_has_overtaken_is_refused_and_drops_nothing(
    graph: Graph, other: Graph, place: str | None
) -> None:
    """Of the text alone the property that came meanwhile would be dropped, and no plan would have said so."""
    plan = graph.schema.plan(BASE.replace("w: I32?", "w: I32? x: I32?"))
    assert not plan.loss
    if place is None:
        other.schema.apply(MORE)
    with beside(place or "never", lambda: other.schema.apply(MORE)), pytest.raises(og.errors.SchemaChanged) as caught:
        graph.schema.apply(plan)
    assert caught.value.expected == plan.old_id and caught.value.actual == graph.schema.show().schema_id
    assert graph.schema.show().catalog.source == MORE and graph.commits(limit=1)[0].kind == "schema"
    sound(graph)


def test_a_plan_that_another_has_carried_out_already_changes_nothing(graph: Graph, other: Graph) -> None:
    plan = graph.schema.plan(MORE)
    other.schema.apply(MORE)
    assert graph.schema.apply(plan).commit_id is None
    sound(graph)


def test_planted_a_plan_that_is_planned_again_drops_what_it_did_not_name(
    graph: Graph, other: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_apply._Apply, "_check_planned", lambda self, txn: None)
    plan = graph.schema.plan(BASE.replace("w: I32?", "w: I32? x: I32?"))
    other.schema.apply(MORE)
    graph.schema.apply(plan)
    assert "extra" not in graph.catalog.node("A").by_name


# --- a writer that died --------------------------------------------------------------------------------------------------


UNTOUCHED = {
    "rule": CHANGED["rule"][0],
    "renamed": BASE.replace("node A {", 'node Z @rename_from("A") {').replace("E: A", "E: Z"),
    "dropped": BASE.replace("edge E: A -> B { w: I32? }\n", ""),
}


@pytest.mark.parametrize("change", UNTOUCHED)
def test_a_change_that_moves_no_table_is_finished_for_a_writer_that_died(graph: Graph, change: str) -> None:
    with failpoints.armed("publish.before_swap", "raise"), pytest.raises(og.errors.OutcomeUnknown):
        graph.schema.apply(UNTOUCHED[change])
    graph.recover(grace_s=0)
    assert graph.schema.show().catalog.source == UNTOUCHED[change]
    assert [one.how for one in graph.recoveries()] == ["RolledForward"]
    sound(graph)


@pytest.mark.parametrize("change", ["rule", "renamed"])
def test_what_a_load_has_brought_since_is_not_taken_for_checked(graph: Graph, other: Graph, change: str) -> None:
    """The rows that the dead writer checked are no longer those of the table."""
    with failpoints.armed("publish.before_swap", "raise"), pytest.raises(og.errors.OutcomeUnknown):
        graph.schema.apply(UNTOUCHED[change])
    other.load([record("c", 1)], mode="append")
    graph.recover(grace_s=0)
    source, names = graph.schema.show().catalog.source, [row[-1] for row in rows_of_either(graph)]
    assert names == ["a", "b", "c"]
    assert source == (BASE if change == "rule" else source)
    sound(graph)


def rows_of_either(graph: Graph) -> list[tuple[Any, ...]]:
    name = "Z" if "Z" in graph.catalog.nodes else "A"
    return sorted(tuple(row.values()) for row in graph.snapshot().to_arrow(name).to_pylist())


# --- planted defects: what the tests above would show ------------------------------------------------------------------


def test_planted_publishing_without_the_schema_check_lets_a_row_in_that_breaks_the_new_rule(
    graph: Graph, other: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = decide._check_base

    def blind(state: Any, plan: Any, **given: Any) -> Any:
        return honest(state, replace(plan, base=replace(plan.base, schema_id=state.schema.id)), **given)

    monkeypatch.setattr(decide, "_check_base", blind)
    with beside("apply.before_commit", lambda: other.schema.apply(CHANGED["rule"][0])):
        graph.load([record("c", 1)], mode="append")
    assert [row[2] for row in rows(graph)] == [1, 2, 1]


def test_planted_a_change_that_reads_nothing_misses_the_rows_of_a_load(
    graph: Graph, other: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = schema_apply._Apply.prepare
    monkeypatch.setattr(
        schema_apply._Apply,
        "prepare",
        lambda self, txn: replace(honest(self, txn), reads=frozenset()),  # type: ignore[type-var]
    )
    with beside("arm.after", lambda: other.load([record("c", 1)], mode="append")):
        graph.schema.apply(CHANGED["rule"][0])
    assert [row[2] for row in rows(graph)] == [1, 2, 1]


def test_planted_a_rename_that_reads_nothing_loses_the_rows_of_a_load(
    graph: Graph, other: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = schema_apply._Apply.prepare
    monkeypatch.setattr(
        schema_apply._Apply,
        "prepare",
        lambda self, txn: replace(honest(self, txn), reads=frozenset()),  # type: ignore[type-var]
    )
    text = BASE.replace("node A {", 'node Z @rename_from("A") {').replace("E: A", "E: Z")
    with beside("arm.after", lambda: other.load([record("c", 3, 30)], mode="append")):
        graph.schema.apply(text)
    assert graph.snapshot().count("Z") == 2


def test_planted_the_hash_of_the_shape_lets_bytes_of_a_dropped_property_in(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    from omnigraph.distributed import begin, fragments, staged_load, staging_txn

    for module in (begin, fragments, staged_load, staging_txn):
        monkeypatch.setattr(module, "schema_id_of", lambda state: state.schema.hash)
    txn = graph.begin()
    found = staged(graph, txn, "c")
    graph.schema.apply(LESS)
    graph.schema.apply(BASE)
    txn.load_staged({"A": found}, mode="append")
    assert len(rows(graph)) == 3, "refused where schemas are told by their ids"
