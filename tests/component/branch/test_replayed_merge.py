"""What a branch wrote is done again on the target, unless it wrote a row twice or the target has touched one of them; and the rows are
what comparing them gives."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.branch import merging, table_merge
from omnigraph.core.errors import MergeConflict, OmnigraphError
from omnigraph.graph import Graph
from omnigraph.read.states import Versioned
from omnigraph.table import stamps
from tests.component.branch.material import content, sound

SCHEMA = (
    "node P { name: String @key n: I32? city: String? @unique(city) }\nnode Q { name: String @key }\nedge E: P -> P"
)
ROWS = 40


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The types whose rows merges have compared."""
    found: list[str] = []
    compare = table_merge._compared
    monkeypatch.setattr(table_merge, "_compared", lambda one: [found.append(one.merged.name), compare(one)][1])
    return found


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with og.init(tmp_path / "g", SCHEMA, durability="relaxed") as made:
        made.load([p(f"k{at:02}", n=at) for at in range(ROWS)], mode="append")
        made.branches.create("b")
        yield made
        sound(made)


def p(name: str, **data: Any) -> dict[str, Any]:
    return {"type": "P", "data": {"name": name, **data}}


def patch(graph: Graph, *records: dict[str, Any], branch: str = "main") -> None:
    graph.load(list(records), mode="patch", branch=branch)


def delete(graph: Graph, *names: str, branch: str = "main") -> None:
    each = " ".join(f'delete P where name = "{name}"' for name in names)
    graph.mutate(f"query q() {{ {each} }}", branch=branch)


def counts(receipt: Any, key: str = "node:P") -> tuple[int, int, int]:
    found = receipt.tables[key]
    return found.inserted, found.updated, found.deleted


def by_name(graph: Graph, branch: str = "main") -> dict[str, Any]:
    return {one: (row["n"], row["city"]) for one, row in content(graph, branch=branch)["node:P"].items()}


def test_updates_and_inserts_are_done_again(graph: Graph, compared: list[str]) -> None:
    patch(graph, p("k03", n=-3), p("k30", city="x"), p("new", n=1), branch="b")
    wanted = by_name(graph, "b")
    receipt = graph.branches.merge("b")
    assert counts(receipt) == (1, 2, 0) and not compared
    assert by_name(graph) == wanted


def test_deletes_are_done_again(graph: Graph, compared: list[str]) -> None:
    delete(graph, "k05", "k06", branch="b")
    wanted = by_name(graph, "b")
    patch(graph, p("k20", n=20), p("new", n=1))
    assert counts(graph.branches.merge("b")) == (0, 0, 2) and not compared
    assert by_name(graph) == {**wanted, "new": (1, None)} and {"k05", "k06"}.isdisjoint(wanted)


def test_a_target_that_touched_other_rows_keeps_them(graph: Graph, compared: list[str]) -> None:
    patch(graph, p("k03", n=-3), p("k04", n=-4), p("new", n=1), branch="b")
    delete(graph, "k20")
    patch(graph, p("k21", n=-21), p("other", n=2))
    receipt = graph.branches.merge("b")
    assert counts(receipt) == (1, 2, 0) and not compared
    found = by_name(graph)
    assert [found[one][0] for one in ("k03", "k04", "k21", "new", "other")] == [
        -3,
        -4,
        -21,
        1,
        2,
    ] and "k20" not in found


def test_rows_that_the_target_has_moved_are_compared(graph: Graph, compared: list[str]) -> None:
    patch(graph, p("k03", n=-3), branch="b")
    patch(graph, p("k21", n=-21))
    graph.optimize()
    assert counts(graph.branches.merge("b")) == (0, 1, 0) and compared == ["P"]
    assert (by_name(graph)["k03"][0], by_name(graph)["k21"][0]) == (-3, -21)


def test_a_row_that_both_touched_is_compared(graph: Graph, compared: list[str]) -> None:
    patch(graph, p("k03", n=-3), p("k04", n=-4), branch="b")
    patch(graph, p("k03", city="y"))
    assert counts(graph.branches.merge("b")) == (0, 2, 0) and compared == ["P"]
    assert by_name(graph)["k03"] == (-3, "y")


@pytest.mark.parametrize("how", ["update", "delete", "insert"])
def test_what_the_target_did_to_the_same_row_is_in_the_way(graph: Graph, compared: list[str], how: str) -> None:
    patch(graph, p("k03", n=-3), p("new", n=1), branch="b")
    if how == "delete":
        delete(graph, "k03")
    else:
        patch(graph, p("k03", n=-4) if how == "update" else p("new", n=2))
    with pytest.raises(MergeConflict) as failed:
        graph.branches.merge("b")
    kinds = {"update": "divergent_update", "delete": "delete_vs_update", "insert": "divergent_insert"}
    assert kinds[how] in str(failed.value.to_dict()) and compared == ["P"]


def test_a_deleted_row_that_the_target_changed_is_in_the_way(graph: Graph, compared: list[str]) -> None:
    delete(graph, "k03", branch="b")
    patch(graph, p("k03", n=-4))
    with pytest.raises(MergeConflict):
        graph.branches.merge("b")
    assert compared == ["P"]


def test_the_same_row_added_on_both_sides_is_no_change(graph: Graph, compared: list[str]) -> None:
    patch(graph, p("new", n=1), branch="b")
    patch(graph, p("new", n=1))
    assert graph.branches.merge("b").tables == {} and compared == ["P"]


def test_commits_that_touched_different_rows_are_done_again(graph: Graph, compared: list[str]) -> None:
    patch(graph, p("k03", n=-3), p("new", n=1), branch="b")
    patch(graph, p("k04", n=-4), branch="b")
    patch(graph, p("k05", city="x"), branch="b")
    wanted = by_name(graph, "b")
    assert counts(graph.branches.merge("b")) == (1, 3, 0) and not compared
    assert by_name(graph) == wanted


@pytest.mark.parametrize("moved", [False, True])
def test_rows_that_are_compared_are_not_looked_up_in_a_target_that_has_them(
    graph: Graph, compared: list[str], monkeypatch: pytest.MonkeyPatch, moved: bool
) -> None:
    asked: list[str] = []
    locate = Versioned.located
    monkeypatch.setattr(Versioned, "located", lambda self, ids: [asked.extend(ids.to_pylist()), locate(self, ids)][1])
    patch(graph, p("k03", n=-3), branch="b")
    patch(graph, p("k03", n=-33), p("k04", n=-4), p("new", n=1), branch="b")
    if moved:
        patch(graph, p("k20", n=-20))
    assert counts(graph.branches.merge("b")) == (1, 2, 0) and compared == ["P"]
    assert asked == (["new"] if moved else [])
    found = by_name(graph)
    assert (found["k03"][0], found["k04"][0], found["new"][0], len(found)) == (-33, -4, 1, ROWS + 1)


def test_a_row_that_was_added_and_changed_is_compared(graph: Graph, compared: list[str]) -> None:
    patch(graph, p("new", n=1), branch="b")
    patch(graph, p("new", n=2), branch="b")
    assert counts(graph.branches.merge("b")) == (1, 0, 0) and compared == ["P"]
    assert by_name(graph)["new"] == (2, None)


def test_a_commit_that_was_taken_back_and_made_again_is_compared(graph: Graph, compared: list[str]) -> None:
    first = graph.load([p("k03", n=-3)], mode="patch", branch="b").commit_id
    graph.revert(str(first), branch="b")
    patch(graph, p("k04", n=-4), branch="b")
    assert counts(graph.branches.merge("b")) == (0, 1, 0) and set(compared) == {"P"}


def test_a_row_that_was_changed_back_is_no_change(graph: Graph, compared: list[str]) -> None:
    """A stamp that is younger than the fork does not say that it differs."""
    patch(graph, p("k03", n=-3), branch="b")
    patch(graph, p("k03", n=3), p("k04", n=-4), branch="b")
    assert counts(graph.branches.merge("b")) == (0, 1, 0) and compared == ["P"]


def test_rows_that_were_all_written_anew_are_compared(graph: Graph, compared: list[str]) -> None:
    anew = [p(f"k{at:02}", n=44 if at == 4 else at) for at in range(1, ROWS)]
    graph.load(anew, mode="overwrite", branch="b")
    patch(graph, p("k20", city="y"))
    assert counts(graph.branches.merge("b")) == (0, 1, 1) and compared == ["P"]
    assert (by_name(graph)["k04"], by_name(graph)["k20"], len(by_name(graph))) == ((44, None), (20, "y"), ROWS - 1)


def test_rules_are_kept_over_what_is_done_again(graph: Graph, compared: list[str]) -> None:
    patch(graph, p("k03", city="rome"), branch="b")
    patch(graph, p("k20", city="rome"))
    with pytest.raises(MergeConflict) as failed:
        graph.branches.merge("b")
    assert "unique_violation" in str(failed.value.to_dict()) and not compared


def test_a_property_that_one_side_has_added_is_compared(graph: Graph, compared: list[str]) -> None:
    patch(graph, p("k03", n=-3), branch="b")
    graph.schema.apply(SCHEMA.replace("n: I32?", "n: I32? more: String?"))
    graph.load([p("k03", more="z"), p("k20", more="y")], mode="patch")
    assert counts(graph.branches.merge("b")) == (0, 1, 0) and compared == ["P"]
    row = content(graph)["node:P"]["k03"]
    assert (row["n"], row["more"]) == (-3, "z")


@pytest.mark.parametrize("seed", range(4))
def test_what_is_done_again_is_what_comparing_gives(graph: Graph, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Random writes on both sides: where rows are not compared, comparing them gives the same."""
    found: list[tuple[Any, Any]] = []

    def both(one: table_merge.TableMerge) -> table_merge.MergedRows:
        again, wanted = table_merge._replayed(one), table_merge._compared(one)
        if again is not None:
            found.append((again, wanted))
        return wanted

    monkeypatch.setattr(merging, "merge_table", both)
    rnd = random.Random(seed)
    for number in range(8):
        branch = f"b{number}"
        graph.branches.create(branch)
        for side in rnd.choices(["main", branch, branch], k=rnd.randint(1, 3)):
            keys = rnd.sample(sorted(by_name(graph, side)), 3)
            if rnd.random() < 0.3:
                delete(graph, keys[0], branch=side)
            else:
                new = [p(f"n{rnd.randint(0, 30)}", n=0)] * rnd.randint(0, 1)
                patch(graph, *(p(key, n=rnd.randint(0, 3)) for key in keys), *new, branch=side)
        with contextlib.suppress(MergeConflict):
            graph.branches.merge(branch)
    assert found
    for again, wanted in found:
        assert plain(again) == plain(wanted)
        assert places(again).items() <= places(wanted).items()


def plain(one: table_merge.MergedRows) -> Any:
    if one.change is None:
        return None
    gone = [] if one.change.deleted_ids is None else sorted(one.change.deleted_ids.to_pylist())
    return sorted(one.change.rows.to_pylist(), key=lambda row: row["id"]), gone, one.inserted, one.clashes


def places(one: table_merge.MergedRows) -> dict[str, int]:
    rows = [] if one.located is None else one.located.to_pylist()
    return {row["id"]: row["_rowaddr"] for row in rows}


def test_rows_that_were_written_twice_count_as_changed(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a merge does not check whether one commit wrote a row that another commit had written."""
    monkeypatch.setattr(stamps, "is_written_once", lambda *given: True)
    patch(graph, p("k03", n=-3), branch="b")
    patch(graph, p("k03", n=3), p("k04", n=-4), branch="b")
    assert counts(graph.branches.merge("b")) == (0, 2, 0)


def test_a_target_that_is_not_looked_at_loses_what_it_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the rows are taken to be where they were."""
    monkeypatch.setattr(table_merge, "untouched_at", lambda before, other, columns, wanted, meter: wanted)
    with og.init(tmp_path / "g", SCHEMA, durability="relaxed") as graph:
        graph.load([p(f"k{at:02}", n=at) for at in range(ROWS)], mode="append")
        graph.branches.create("b")
        patch(graph, p("k03", n=-3), branch="b")
        patch(graph, p("k20", n=-20), p("k03", city="y"))
        try:
            graph.branches.merge("b")
        except OmnigraphError:
            return  # the row that would be replaced is no longer there
        assert by_name(graph)["k03"] != (-3, "y")
