"""``schema show``, ``plan`` and ``apply``: what a person gives and sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.graph_schema import GraphSchema
from tests.component.cli.material import SCHEMA, Run


def test_a_change_is_planned_then_applied_then_nothing(run: Run, folder: Path) -> None:
    fills = ["--fill", "Person.score=0.5", "--fill-from", "Person.years=age", "--fill-sql", "Person.label=upper(name)"]
    planned = run("schema", "plan", "social.omni", "--schema", "next.pg", *fills)
    assert "add_property Person.score" in planned.out and "a column file a fragment" in planned.out
    applied = run("schema", "apply", "social.omni", "--schema", "next.pg", *fills, "--json").result
    assert applied["plan"]["supported"] and not applied["plan"]["loss"]
    assert "label" in run("schema", "show", "social.omni").out
    assert (
        run("schema", "show", "social.omni", "--at", applied["commit_id"]).out
        == run("schema", "show", "social.omni").out
    )
    listed = run("commit", "list", "social.omni", "--json").result["commits"][0]
    assert (listed["kind"], listed["schema"]["steps"][0]["step"]) == ("schema", "add_property")
    shown = run("commit", "list", "social.omni", "--limit", "1").out
    assert (
        "add_property score: F64" in shown and "label" in run("commit", "show", "social.omni", applied["commit_id"]).out
    )
    again = run("schema", "apply", "social.omni", "--schema", "next.pg", *fills)
    assert "accepted already" in again.out
    rows = run(
        "query", "social.omni", "--sql", "select label, score, years from Person order by label", "--json"
    ).result
    assert [tuple(row.values()) for row in rows["rows"]] == [("ANN", 0.5, 30), ("BOB", 0.5, None)]


def test_what_loses_data_wants_to_be_confirmed(run: Run, folder: Path) -> None:
    (folder / "less.pg").write_text(SCHEMA.replace("age: I32?", ""))
    refused = run("schema", "apply", "social.omni", "--schema", "less.pg", "--json", code=None)
    assert (refused.code, refused.error["reason"]) == (4, "no-consent")
    assert "--confirm" in refused.error["hint"] and "age" in run("schema", "show", "social.omni").out
    assert run("schema", "apply", "social.omni", "--schema", "less.pg", "--confirm").code == 0
    assert "age" not in run("schema", "show", "social.omni").out


def test_a_change_that_is_not_supported_says_why(run: Run, folder: Path) -> None:
    (folder / "other.pg").write_text(SCHEMA.replace("age: I32?", "age: Bool?"))
    planned = run("schema", "plan", "social.omni", "--schema", "other.pg")
    assert "cannot be applied" in planned.out and "refused: I32? cannot become Bool?" in planned.out
    refused = run("schema", "apply", "social.omni", "--schema", "other.pg", "--json", code=None)
    assert (refused.code, refused.error["reason"]) == (4, "schema")


def test_diagrams_and_documents_of_the_schema(run: Run, folder: Path) -> None:
    assert "Follows" in run("schema", "show", "social.omni", "--format", "mermaid").out
    assert run("schema", "show", "social.omni", "--format", "dot").out.startswith("digraph")
    assert '"schema_id"' in run("schema", "show", "social.omni", "--format", "json").out
    assert run("schema", "show", "social.omni", "--format", "xml", code=None).code == 2
    given = ["schema", "plan", "social.omni", "--schema", "next.pg", "--fill", "Person.score=0.5"]
    given += ["--fill", "Person.years=1", "--fill", "Person.label=x", "--format"]
    assert "score" in run(*given, "mermaid").out and run(*given, "dot").out.startswith("digraph")
    assert '"add_property"' in run(*given, "json").out
    assert run(*given, "pg", code=None).code == 2


def test_a_fill_that_cannot_be_read_is_refused(run: Run, folder: Path) -> None:
    for wrong in (["--fill", "score"], ["--fill", "Person.score=1", "--fill-sql", "Person.score=2"]):
        assert run("schema", "plan", "social.omni", "--schema", "next.pg", *wrong, code=None).code == 2


def test_an_apply_is_what_its_plan_said_or_nothing(run: Run, folder: Path) -> None:
    """Between the plan that is looked at and the change another process adds a property: the same text would now drop it."""
    social = folder / "social.omni"
    wider = SCHEMA.replace("age: I32?", "age: I32? more: String?")
    planned = GraphSchema.plan

    def overtaken(self: GraphSchema, *given: Any, **options: Any) -> Any:
        found = planned(self, *given, **options)
        with og.open(social) as other:
            other.schema.apply(wider)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GraphSchema, "plan", overtaken)
        refused = run(
            "schema",
            "apply",
            "social.omni",
            "--schema",
            "next.pg",
            "--fill",
            "Person.score=0.5",
            "--fill",
            "Person.years=1",
            "--fill",
            "Person.label=x",
            "--json",
            code=None,
        )
    assert (refused.code, refused.error["code"]) == (4, "schema-changed")
    assert "plan it again" in refused.error["hint"] and run("schema", "show", "social.omni").out == wider
