"""A local disk behind a cluster is warned of, and the three errors that come of it say so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph_pipelines.cli import main
from omnigraph_pipelines.cluster import HINT, explain, warnings_of
from omnigraph_pipelines.settings import Settings


def settings(spark: dict[str, Any], uri: Any = "/data/people.omni", batches: str = "/landing/*.jsonl") -> Settings:
    source = {"name": "feed", "batches": batches, "format": "graph", "mode": "merge"}
    graph = {"name": "people", "uri": uri, "schema": "people.pg"}
    return Settings.model_validate({"graph": graph, "sources": [source], "spark": spark})


@pytest.mark.parametrize(
    ("spark", "count"),
    [
        ({}, 0),
        ({"master": "local[4]"}, 0),
        ({"remote": "sc://localhost:15002"}, 0),
        ({"master": "spark://host:7077"}, 2),
        ({"master": "k8s://https://host"}, 2),
        ({"remote": "sc://spark.internal:15002"}, 2),
        ({"remote": {"env": "SPARK_REMOTE"}}, 2),
    ],
)
def test_local_places_with_a_cluster_are_warned_of(spark: dict[str, Any], count: int) -> None:
    assert len(warnings_of(settings(spark))) == count
    remote = settings(spark, "s3://bucket/people.omni", "s3://bucket/landing/*.jsonl")
    assert warnings_of(remote) == []


@pytest.mark.parametrize(
    "error",
    [
        og.errors.NotFound("open nodes/Person.lance at version 1 failed: Dataset at path x was not found"),
        og.errors.NotFound("no such file: people.csv"),
        og.errors.InvalidInput("the staged file nodes/Person.lance is missing; expected 1554 bytes"),
    ],
)
def test_the_three_errors_say_what_is_the_matter(error: og.errors.OmnigraphError) -> None:
    before = error.hint
    explain(error, settings({"master": "local[2]"}))
    assert error.hint == before
    explain(error, settings({"master": "spark://host:7077"}))
    assert error.hint == HINT and "the executors see another disk" in error.hint


def test_other_errors_keep_their_hint() -> None:
    error = og.errors.DataInvalid("x", hint="y")
    explain(error, settings({"master": "spark://host:7077"}))
    assert error.hint == "y"


def test_validate_and_doctor_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("people.pg").write_text("node Person { name: String @key }\n")
    Path("graph.yaml").write_text(
        "graph: {name: people, uri: people.omni, schema: people.pg}\n"
        "sources: [{name: feed, batches: 'landing/*.jsonl', format: graph, mode: merge}]\n"
        "spark: {remote: 'sc://spark.internal:15002'}\n"
    )
    assert main(["validate", "graph.yaml"]) == 0
    assert "warning: the graph is on a local disk" in capsys.readouterr().err
    assert main(["doctor", "graph.yaml"]) == 0
    said = capsys.readouterr().out
    assert "ok        graph: there is none yet" in said and "0 batches under" in said
    assert "warning   cluster: the landing place of feed is on a local disk" in said and HINT in said
    Path("landing").write_text("a file where a folder belongs")
    Path("people.omni").write_text("no graph")
    assert main(["doctor", "graph.yaml"]) == 3
    said = capsys.readouterr().out
    assert "problem   graph: " in said and "hint: " in said
