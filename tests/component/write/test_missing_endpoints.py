"""Edges that name a node which does not exist: refused, set aside, dropped, or given a stub; and how many of them are allowed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.cli import main
from omnigraph.core import failpoints

SCHEMA = """
node Package @stub(virtual) { name: String @key  version: String?  virtual: Bool  @check(name, "^[a-z]") }
node Release @stub(assumed) { package: String  day: Date  note: String?  assumed: Bool?  @key(package, day) }
node Person { name: String @key }
edge Depends: Package -> Package @card(0..2)
edge Recommends: Package -> Package
edge Ships: Package -> Release
edge Owns: Person -> Package
"""


def package(name: str, **data: Any) -> dict[str, Any]:
    return {"type": "Package", "data": {"name": name, **data}}


def depends(src: str, dst: str, edge: str = "Depends") -> dict[str, Any]:
    return {"edge": edge, "from": src, "to": dst}


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "graph.omni", SCHEMA) as made:
        made.load([package("bash", version="5")], mode="append")
        yield made


def row(graph: og.Graph, type: str, id: str) -> dict[str, Any]:
    found = graph.snapshot().get(type, id)
    assert found is not None
    return dict(found)


@pytest.mark.parametrize("mode", ["append", "merge", "patch", "overwrite"])
def test_a_stub_has_its_key_and_its_mark_and_nothing_else(graph: og.Graph, mode: str) -> None:
    receipt = graph.load([depends("bash", "libc"), depends("libc", "bash")], mode=mode, on_missing_endpoint="stub")
    assert receipt.stubs == {"Package": 1} and receipt.dropped == {} and not receipt.rejected
    assert receipt.rejected.missing_ids == {"libc": 2}
    assert row(graph, "Package", "libc") == {"id": "libc", "name": "libc", "version": None, "virtual": True}
    assert receipt.tables["node:Package"].inserted == 1 and graph.snapshot().count("Depends") == 2
    assert graph.verify(deep=True).ok


@pytest.mark.parametrize("mode", ["merge", "patch"])
def test_the_real_row_takes_the_place_of_its_stub(graph: og.Graph, mode: str) -> None:
    graph.load([depends("bash", "libc")], mode="append", on_missing_endpoint="stub")
    change = graph.load([package("libc", version="2")], mode=mode).tables["node:Package"]
    assert (change.inserted, change.updated) == (0, 1)
    assert row(graph, "Package", "libc") == {"id": "libc", "name": "libc", "version": "2", "virtual": False}
    again = graph.load([depends("bash", "libc", "Recommends")], mode="append", on_missing_endpoint="stub")
    assert again.stubs == {} and row(graph, "Package", "libc")["virtual"] is False


def test_an_export_with_stubs_loads_again_as_it_was(graph: og.Graph, tmp_path: Path) -> None:
    graph.load([depends("bash", "libc")], mode="append", on_missing_endpoint="stub")
    text = graph.snapshot().export()
    with og.init(tmp_path / "other.omni", SCHEMA) as other:
        other.load(text, mode="append")
        assert sorted(other.snapshot().export().splitlines()) == sorted(text.splitlines())


def test_a_table_need_not_say_that_its_rows_are_no_stubs(graph: og.Graph) -> None:
    graph.load({"Package": pa.table({"name": ["zsh"], "virtual": pa.array([None], pa.bool_())})}, mode="append")
    graph.load({"Package": pa.table({"name": ["dash"]})}, mode="append")
    assert (row(graph, "Package", "zsh")["virtual"], row(graph, "Package", "dash")["virtual"]) == (False, False)


def test_a_stub_of_a_key_of_several_properties_has_their_values(graph: og.Graph) -> None:
    key = '["bash","2026-01-02"]'
    receipt = graph.load([depends("bash", key, "Ships")], mode="merge", on_missing_endpoint="stub")
    assert receipt.stubs == {"Release": 1}
    found = row(graph, "Release", key)
    assert (found["package"], str(found["day"]), found["assumed"]) == ("bash", "2026-01-02", True)
    with pytest.raises(og.errors.DataInvalid, match="is no Release"):
        graph.load([depends("bash", '["bash","tomorrow"]', "Ships")], mode="merge", on_missing_endpoint="stub")


def test_an_end_that_no_row_could_have_goes_as_bad_rows_do(graph: og.Graph) -> None:
    """A stub obeys the rules of its type."""
    edges = [depends("bash", "libc"), depends("bash", "9lives")]
    with pytest.raises(og.errors.DataInvalid, match='"9lives" is no Package'):
        graph.load(edges, mode="append", on_missing_endpoint="stub")
    receipt = graph.load(edges, mode="append", on_missing_endpoint="stub", on_bad_row="quarantine")
    assert (receipt.stubs, receipt.rejected.total, receipt.rejected.by_reason) == (
        {"Package": 1}, 1, {"missing-endpoint": 1},
    )  # fmt: skip


def test_dropped_edges_are_counted_and_nothing_else(graph: og.Graph, tmp_path: Path) -> None:
    edges = [depends("bash", "libc"), depends("bash", "bash"), depends("x", "y"), depends("bash", "x", "Recommends")]
    receipt = graph.load(
        edges,
        mode="merge",
        on_missing_endpoint={"Depends": "drop", "Recommends": "quarantine"},
        quarantine_to=tmp_path / "left.jsonl",
    )
    assert receipt.dropped == {"Depends": 2} and receipt.rejected.total == 1
    assert receipt.rejected.missing_ids == {"x": 2, "libc": 1, "y": 1}
    assert receipt.tables["edge:Depends"].inserted == 1
    [line] = (tmp_path / "left.jsonl").read_text().splitlines()
    assert json.loads(line)["record"]["to"] == "x"


def test_a_bad_value_still_fails_where_only_missing_ends_may_go(graph: og.Graph) -> None:
    rows = [package("9x"), depends("bash", "libc"), depends("bash", "nowhere")]
    with pytest.raises(og.errors.DataInvalid) as caught:
        graph.load(rows, mode="append", on_missing_endpoint={"Depends": "drop"})
    assert caught.value.facts["by_reason"] == {"check": 1} and caught.value.facts["total"] == 1
    assert graph.snapshot().count("Package") == 1


def test_an_edge_that_falls_for_another_reason_leaves_no_stub(graph: og.Graph) -> None:
    edges = [depends("bash", f"lib{n}") for n in range(3)]
    receipt = graph.load(edges, mode="append", on_missing_endpoint="stub", on_bad_row="quarantine")
    assert receipt.rejected.by_reason == {"card-max": 3} and receipt.stubs == {} and receipt.commit_id is None


def test_a_refusal_counts_reasons_and_names_what_is_missing_most(graph: og.Graph) -> None:
    edges = [depends("bash", "libc", "Recommends"), depends("libc", "perl", "Recommends"), depends("bash", "libc")]
    with pytest.raises(og.errors.DataInvalid) as caught:
        graph.load(edges, mode="append")
    assert caught.value.facts["by_reason"] == {"missing-endpoint": 4}
    assert list(caught.value.facts["missing_ids"].items()) == [("libc", 3), ("perl", 1)]


# --- bounds -------------------------------------------------------------------------------------------------------------


def test_each_check_has_its_own_bound(graph: og.Graph) -> None:
    rows = [package("a"), package("9b"), package("c"), package("c"), depends("a", "x"), depends("a", "bash")]
    options: dict[str, Any] = {"mode": "append", "on_bad_row": "quarantine"}
    allowed = {"values": 1, "duplicates": 2, "endpoints": 0.2, "cardinality": 0}
    assert graph.check(rows, **options, bounds=allowed).ok
    for check, bound in (("values", 0), ("duplicates", 0.3), ("endpoints", 0.1)):
        with pytest.raises(og.errors.DataInvalid, match=f"of 6 records fail the check '{check}'") as caught:
            graph.load(rows, **options, bounds={**allowed, check: bound})
        assert caught.value.facts["check"] == check and caught.value.facts["bound"] == bound
        assert not graph.check(rows, **options, bounds={**allowed, check: bound}).ok
    assert graph.load(rows, **options, bounds=allowed).rejected.total == 4


@pytest.mark.parametrize("action", ["stub", "drop", "quarantine"])
def test_the_bound_of_endpoints_counts_edges_whatever_becomes_of_them(graph: og.Graph, action: str) -> None:
    edges = [depends("bash", "libc"), depends("libc", "x")]
    with pytest.raises(og.errors.DataInvalid, match=r"2 of 2 records .* \(100.0 %\), more than the bound 1;"):
        graph.load(edges, mode="append", on_missing_endpoint=action, bounds={"endpoints": 1})
    assert graph.load(edges, mode="append", on_missing_endpoint=action, bounds={"endpoints": 1.0}).commit_id or True


BAD: list[tuple[dict[str, Any], str]] = [
    ({"on_missing_endpoint": "create"}, "on_missing_endpoint must be one of"),
    ({"on_missing_endpoint": {"Depends": "ignore"}}, "on_missing_endpoint of 'Depends' must be one of"),
    ({"on_missing_endpoint": {}}, "names no edge type"),
    ({"on_missing_endpoint": {"Likes": "drop"}}, "'Likes', which is no edge type"),
    ({"on_missing_endpoint": {"Package": "drop"}}, "'Package', which is no edge type"),
    ({"on_missing_endpoint": 3}, "on_missing_endpoint is a text or a mapping"),
    ({"bounds": {"nodes": 1}, "on_bad_row": "quarantine"}, "a check of bounds must be one of"),
    ({"bounds": {"values": 1.5}, "on_bad_row": "quarantine"}, "a share up to 1.0, not 1.5"),
    ({"bounds": {"values": -1}, "on_bad_row": "quarantine"}, "from 0 on"),
    ({"bounds": {"values": True}, "on_bad_row": "quarantine"}, "bounds is a mapping from a text to"),
    ({"bounds": {"values": float("nan")}, "on_bad_row": "quarantine"}, "from 0 on"),
    ({"bounds": {}, "on_bad_row": "quarantine"}, "bounds is a mapping"),
    ({"bounds": 0.5, "on_bad_row": "quarantine"}, "bounds is a mapping"),
    ({"bounds": {"values": 1}}, "bounds have no effect"),
    ({"quarantine_to": "f.jsonl", "on_missing_endpoint": "drop"}, "quarantine_to needs"),
]


@pytest.mark.parametrize(("options", "said"), BAD, ids=[said for _, said in BAD])
def test_what_makes_no_sense_is_refused_before_anything_is_read(
    graph: og.Graph, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(og.errors.InvalidInput, match=said):
        graph.load([depends("bash", "x")], mode="merge", **options)


def test_types_without_stub_get_none(tmp_path: Path) -> None:
    with og.init(tmp_path / "g.omni", "node P { name: String @key  age: I32 }\nedge K: P -> P") as graph:
        for policy in ("stub", {"K": "stub"}):
            with pytest.raises(og.errors.InvalidInput, match="P allow no stubs.*required property"):
                graph.load([{"edge": "K", "from": "a", "to": "b"}], mode="merge", on_missing_endpoint=policy)
        assert graph.load([{"type": "P", "data": {"name": "a", "age": 1}}], mode="merge", on_missing_endpoint="stub")


def test_a_missing_end_of_a_type_without_stub_goes_as_bad_rows_do(graph: og.Graph) -> None:
    edge = {"edge": "Owns", "from": "ann", "to": "libc"}
    with pytest.raises(og.errors.DataInvalid, match='"ann" is no Person'):
        graph.load([edge], mode="merge", on_missing_endpoint="stub")
    receipt = graph.load([edge], mode="merge", on_missing_endpoint="stub", on_bad_row="quarantine")
    assert receipt.rejected.total == 1 and receipt.stubs == {} and receipt.commit_id is None


# --- other doors --------------------------------------------------------------------------------------------------------


def test_a_check_and_a_plan_say_what_the_load_will_do(graph: og.Graph) -> None:
    edges = [depends("bash", "libc"), depends("bash", "9x", "Recommends"), depends("x", "bash", "Recommends")]
    policy: dict[str, Any] = {"on_missing_endpoint": {"Depends": "stub", "Recommends": "drop"}}
    before = graph.snapshot().commit_id
    report = graph.check(edges, mode="merge", **policy)
    plan = graph.load(edges, mode="merge", dry_run=True, **policy)
    assert report.ok and graph.snapshot().commit_id == before
    assert report.by_reason == {"missing-endpoint": 2} and plan.tables["node:Package"].inserted == 1
    receipt = graph.load(edges, mode="merge", **policy)
    for found in (report, plan):
        assert (found.stubs, found.dropped) == (receipt.stubs, receipt.dropped) == ({"Package": 1}, {"Recommends": 2})
    assert report.missing_ids == receipt.rejected.missing_ids


def test_a_key_remembers_what_became_of_missing_ends(graph: og.Graph) -> None:
    given: dict[str, Any] = {"mode": "merge", "idempotency_key": "k"}
    first = graph.load([depends("bash", "libc")], **given, on_missing_endpoint="stub")
    assert graph.load([depends("bash", "libc")], **given, on_missing_endpoint="stub").commit_id == first.commit_id
    with pytest.raises(og.errors.IdempotencyMismatch):
        graph.load([depends("bash", "libc")], **given, on_missing_endpoint="drop")


def test_a_node_that_appears_while_its_stub_is_on_its_way_stays_what_it_is(graph: og.Graph) -> None:
    """The stub was decided on an older state: the load is planned again."""
    came = []

    def rival(**_: Any) -> None:
        came.append(True)
        with og.open(graph.uri) as other:
            other.load([package("libc", version="2")], mode="append")

    with failpoints.armed("arm.before", rival):
        receipt = graph.load([depends("bash", "libc")], mode="merge", on_missing_endpoint="stub")
    assert came and receipt.stubs == {}
    assert row(graph, "Package", "libc")["version"] == "2"


def test_the_command_says_what_became_of_edges(graph: og.Graph, tmp_path: Path, capsys: Any) -> None:
    records = [depends("bash", "libc"), depends("bash", "x", "Recommends"), depends("y", "x", "Recommends")]
    data = tmp_path / "edges.jsonl"
    data.write_text("".join(json.dumps(one) + "\n" for one in records))
    given = ["load", graph.uri, "--mode", "merge", "--data", str(data)]
    policy = ["--on-missing-endpoint", "Depends=stub", "--on-missing-endpoint", "Recommends=drop"]
    assert main([*given, *policy, "--bound", "endpoints=2"]) == 3
    assert "3 of 3 records fail the check 'endpoints'" in capsys.readouterr().err
    assert main([*given, *policy, "--check"]) == 0
    assert "1 stub of Package made" in capsys.readouterr().out
    assert main([*given, *policy, "--bound", "endpoints=1.0"]) == 0
    out = capsys.readouterr().out
    assert "2 rows of Recommends dropped" in out and "most often missing: x (2x), libc (1x), y (1x)" in out
    assert main([*given, "--on-missing-endpoint", "drop", "--on-missing-endpoint", "Depends=stub"]) == 2
    assert main([*given, *policy, "--bound", "endpoints"]) == 2


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ([{"type": "Person", "data": {"name": "a", "age": "x"}}], "Person.age expects I32?"),
        ([{"type": "Person", "data": {"name": "a"}}] * 2, 'Person.id "a" is also the id of record'),
    ],
    ids=["value", "duplicate"],
)
def test_the_first_reason_shown_is_the_cause_and_not_what_follows_from_it(
    local_root: str, bad: list[dict[str, Any]], said: str
) -> None:
    """The edges come first in the input; their node is left out, so they miss it."""
    schema = "node Person { name: String @key  age: I32? } edge Knows: Person -> Person"
    edges = [{"edge": "Knows", "from": "a", "to": "b"}, {"edge": "Knows", "from": "b", "to": "a"}]
    with og.init(local_root, schema) as graph, pytest.raises(og.errors.DataInvalid) as caught:
        graph.load(
            [*edges, {"type": "Person", "data": {"name": "b"}}, *bad],
            mode="append",
            on_bad_row="quarantine",
            on_missing_endpoint="quarantine",
            bad_rows_max=0,
        )
    codes = [one["code"] for one in caught.value.facts["violations"]]
    assert "the first: record 4" in caught.value.message and said in caught.value.message
    assert codes[-2:] == ["missing-endpoint"] * 2 and "missing-endpoint" not in codes[:-2]
