"""What a graph file says of bad rows and of edges without a node is what the engine is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

import omnigraph as og
from omnigraph import distributed
from omnigraph_pipelines.bad_rows import replayed, sets_aside
from omnigraph_pipelines.defs.ingest import checks
from omnigraph_pipelines.defs.ingest.metadata import in_one_line, what_changed
from omnigraph_pipelines.graph_file import check_settings
from omnigraph_pipelines.quarantine import Quarantine
from omnigraph_pipelines.quarantine_replay import replay

SCHEMA = """\
node Package @stub(assumed) { name: String @key  version: String?  assumed: Bool? }
node Person { name: String @key }
edge Depends: Package -> Package
edge Suggests: Package -> Package
edge Owns: Person -> Person
"""


def rules(folder: Path, tables: list[dict[str, Any]] | None, **checked: Any) -> dict[str, Any]:
    (folder / "p.pg").write_text(SCHEMA)
    source: dict[str, Any] = {"name": "index", "batches": "in/*/", "mode": "merge"}
    source |= {"format": "graph", "batches": "in/*.jsonl"} if tables is None else {"tables": tables}
    values = {"graph": {"name": "g", "uri": "g.omni", "schema": "p.pg"}, "sources": [source], "checks": checked}
    file = check_settings(values, folder)
    return file.rules_of(file.settings.sources[0])


DEPENDS = {"edge": "Depends", "files": "d*.csv"}
SUGGESTS = {"edge": "Suggests", "files": "s*.csv"}


def test_a_table_says_what_becomes_of_its_edges_and_the_checks_of_the_others(tmp_path: Path) -> None:
    found = rules(tmp_path, [DEPENDS, SUGGESTS], on_bad_row="quarantine", bounds={"endpoints": 0.15, "values": 0})
    assert found == {
        "on_bad_row": "quarantine",
        "bad_rows_max": None,
        "bounds": {"endpoints": 0.15, "values": 0},
        "on_missing_endpoint": None,
    }
    assert rules(tmp_path, None, on_missing_endpoint="drop")["on_missing_endpoint"] == "drop"
    tables = [{**DEPENDS, "on_missing_endpoint": "stub"}, SUGGESTS]
    mixed = rules(tmp_path, tables, on_missing_endpoint="drop")
    assert mixed["on_missing_endpoint"] == {"Depends": "stub", "Suggests": "drop"}
    only = rules(tmp_path, tables)
    assert only["on_missing_endpoint"] == {"Depends": "stub"} and not sets_aside(only)
    assert sets_aside(rules(tmp_path, None, on_missing_endpoint={"Owns": "quarantine"}))
    assert replayed(mixed) == {"Depends": "stub"} and replayed(found) is None, "a replay drops nothing"


@pytest.mark.parametrize(
    ("tables", "checked", "said"),
    [
        (None, {"on_missing_endpoint": "create"}, "on_missing_endpoint"),
        (None, {"on_missing_endpoint": {"Depend": "drop"}}, "no edge type 'Depend'; did you mean 'Depends'?"),
        (None, {"on_missing_endpoint": {"Owns": "stub"}}, "Owns: no stubs can be made, Person has no @stub"),
        (None, {"on_bad_row": "quarantine", "bounds": {"endpoint": 1}}, "bounds"),
        (None, {"on_bad_row": "quarantine", "bounds": {"endpoints": 1.5}}, "a share up to 1.0"),
        (None, {"bounds": {"endpoints": 0.5}}, "bounds have no effect"),
        ([{"node": "Person", "files": "p.csv", "on_missing_endpoint": "drop"}], {}, "belongs to edges"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(tmp_path: Path, tables: Any, checked: Any, said: str) -> None:
    with pytest.raises(og.errors.InvalidInput, match=said) as caught:
        rules(tmp_path, tables, **checked)
    assert caught.value.facts["problems"][0]["path"].startswith(("checks", "sources[0]"))


def test_the_check_of_endpoints_names_what_is_missing(tmp_path: Path) -> None:
    report = distributed.PartsReport(
        False, 10, {"edge:Depends": 9}, missing_ids={"libc": 3}, stubs={"Package": 3}, refusal="too many"
    )
    tables = [checks.Table("edge:Depends", 9, 1)]
    found = checks.broken(tables, report)
    assert checks.in_words(found) == "endpoints of Depends"
    told = checks.failed(dg.AssetKey("d"), found, checks.told(tables, report, found)).metadata
    assert told["stubs"].value == 3
    assert told["missing_ids"].value.records[0].data == {"missing id": "libc", "rows": 3}


def test_a_commit_says_how_many_edges_were_dropped_and_stubs_made(tmp_path: Path) -> None:
    with og.init(tmp_path / "g.omni", SCHEMA) as graph:
        records = [{"type": "Package", "data": {"name": "bash"}}]
        records += [{"edge": "Depends", "from": "bash", "to": "libc"}, {"edge": "Suggests", "from": "bash", "to": "x"}]
        receipt = graph.load(records, mode="merge", on_missing_endpoint={"Depends": "stub", "Suggests": "drop"})
        assert in_one_line(receipt) == "3 inserted, 1 Suggests dropped, 1 stub of Package"
        page = what_changed(receipt, graph, "main", ["node:Package"], None)
        assert "| `libc` | 1 |" in page and "| `x` | 1 |" in page and "Spark" not in page
        linked = what_changed(receipt, graph, "main", ["node:Package"], None, "http://driver:4040")
        assert "[The page of the Spark that staged it](http://driver:4040)" in linked


def test_a_replay_makes_stubs_where_the_source_does(tmp_path: Path) -> None:
    root = str(tmp_path / "g.omni")
    og.init(root, SCHEMA).close()
    kept = Quarantine(root)
    with og.open(root) as graph:
        graph.load([{"type": "Package", "data": {"name": "bash"}}], mode="merge")
        edges = [{"edge": name, "from": "bash", "to": "libc"} for name in ("Depends", "Suggests")]
        graph.load(edges, mode="merge", on_missing_endpoint="quarantine", quarantine_to=tmp_path / "left.jsonl")
        entry = kept.keep("index", "b1", tmp_path / "left.jsonl")
        found = replay(graph, kept, entry, branch="main", mode="merge", on_missing_endpoint={"Depends": "stub"})
        assert (found.loaded, found.left) == (1, 1)
        assert graph.snapshot().get("Package", "libc") == {
            "id": "libc", "name": "libc", "version": None, "assumed": True,
        }  # fmt: skip
