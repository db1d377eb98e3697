"""The schema file and the graph: what a plan shows, when a batch waits, who applies a change, and what becomes of columns that nobody
declared."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph_pipelines import accepted_schema, failures
from omnigraph_pipelines.cli.app import run as command
from omnigraph_pipelines.defs.schema.names import CHECK
from omnigraph_pipelines.graph_file import load_graph_file
from tests.pipelines.ingest_location import CRM, SCHEMA, Location, broken, checks, failure, materialized

pytestmark = pytest.mark.timeout(600)  # on a busy machine Java alone may take most of the usual time to start

MORE = SCHEMA.replace("age: I32? ", "age: I32?  city: String? ")
LESS = SCHEMA.replace("age: I32?  @range(age, 0..150) ", "")
NEEDED = SCHEMA.replace("age: I32? ", "age: I32?  rank: I32 ")


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    monkeypatch.setenv("DAGSTER_DISABLE_TELEMETRY", "1")
    monkeypatch.setattr(failures, "FIRST_DELAY_S", 0.01)
    (tmp_path / "dagster").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "dagster")) as made:
        yield made


class Evolving(Location):
    """A location whose graph was made from ``SCHEMA``, with one batch in it, and whose schema file may be another."""

    def __init__(self, folder: Path, instance: dg.DagsterInstance, spark: Any, **settings: Any) -> None:
        source = {**CRM, **settings.pop("source", {})}
        super().__init__(folder, instance, spark=spark, sources=[source], **settings)
        self.settings, self.spark = {**settings, "sources": [source]}, spark
        with og.init(folder / "people.omni", SCHEMA) as graph:
            graph.load([{"type": "Person", "data": {"name": "Ada", "age": 36}}], mode="append")

    def declare(self, text: str) -> Evolving:
        """The same with another schema file, as a code location that was loaded again."""
        found = Evolving.__new__(Evolving)
        Location.__init__(found, self.folder, self.instance, spark=self.spark, **self.settings)
        (self.folder / "people.pg").write_text(text)
        found.file = load_graph_file(self.folder / "graph.yaml")
        from omnigraph_pipelines.definitions import build_definitions

        found.defs = build_definitions(found.file, spark=self.spark)
        found.settings, found.spark = self.settings, self.spark
        return found

    def apply(self, **config: Any) -> dg.ExecuteInProcessResult:
        job = self.defs.resolve_job_def("apply_schema")
        return job.execute_in_process(
            instance=self.instance, run_config={"ops": {"people__schema": {"config": config}}}, raise_on_error=False
        )

    @property
    def kinds(self) -> list[str]:
        with self.graph as graph:
            return [commit.kind for commit in graph.commits()][::-1]

    def person(self, name: str) -> dict[str, Any]:
        with self.graph as graph:
            found = graph.snapshot().get("Person", name)
            assert found is not None
            return dict(found)


@pytest.fixture
def location(tmp_path: Path, instance: dg.DagsterInstance, spark: Any) -> Evolving:
    from dagster_pyspark import LazyPySparkResource

    return Evolving(tmp_path, instance, LazyPySparkResource(spark_config={}))


@pytest.fixture
def growing(tmp_path: Path, instance: dg.DagsterInstance, spark: Any) -> Evolving:
    from dagster_pyspark import LazyPySparkResource

    return Evolving(tmp_path, instance, LazyPySparkResource(spark_config={}), source={"unknown_columns": "add"})


# --- the asset, its check, the job ----------------------------------------------------------------------------------------


def test_the_job_applies_the_schema_file_and_the_check_says_whether_they_are_one(location: Evolving) -> None:
    ahead = location.declare(MORE)
    run = ahead.apply()
    assert run.success
    found = materialized(run)["people/schema"]
    assert found["types"] == 3 and "city: String?" in found["schema"]
    assert [row.data["of"] for row in found["steps"].records] == ["Person.city"]
    assert checks(run) == {"schema.accepted_schema_is_file": True}
    again = materialized(ahead.apply())["people/schema"]
    assert again["commit_id"] == "nothing changed" and ahead.kinds == ["init", "load", "schema"]


def test_the_check_fails_where_they_differ_and_says_by_what(location: Evolving) -> None:
    ahead = location.declare(MORE)
    (check,) = ahead.defs.resolve_asset_graph().asset_check_keys & {
        dg.AssetCheckKey(dg.AssetKey(["people", "schema"]), CHECK)
    }
    run = (
        dg.define_asset_job("only_the_check", selection=dg.AssetSelection.checks(check))
        .resolve(asset_graph=ahead.defs.resolve_asset_graph())
        .execute_in_process(instance=ahead.instance, resources=ahead.defs.resources)
    )
    (result,) = run.get_asset_check_evaluations()
    assert not result.passed and [row.data["of"] for row in result.metadata["steps"].value.records] == ["Person.city"]
    assert location.kinds == ["init", "load"]


def test_what_loses_data_wants_allow_data_loss_and_is_hard_then(location: Evolving) -> None:
    less = location.declare(LESS)
    refused = less.apply()
    assert not refused.success and failure(refused).metadata["reason"].value == "no-consent"
    assert less.kinds == ["init", "load"]
    done = less.apply(allow_data_loss=True)
    assert done.success and less.kinds == ["init", "load", "schema", "maintenance"]
    assert "age" not in less.person("Ada")


def test_the_job_takes_fills_for_what_is_required(location: Evolving) -> None:
    needed = location.declare(NEEDED)
    refused = needed.apply()
    assert not refused.success and "give fill" in failure(refused).description
    assert needed.apply(fill={"Person.rank": {"sql": "age + 1"}}).success
    assert needed.person("Ada")["rank"] == 37


# --- batches ------------------------------------------------------------------------------------------------------------


def test_a_batch_waits_while_the_file_is_ahead_and_is_offered_again_once_it_is_applied(location: Evolving) -> None:
    ahead = location.declare(MORE)
    ahead.land("b1", people="Grace,85")
    (run,) = ahead.arrive("crm")
    said = failure(run)
    assert not run.success and "the schema file is ahead of the graph" in said.description
    assert "apply_schema" in said.description and said.metadata["reason"].value == "schema-ahead"
    ahead.now_s = time.time() + 600
    assert ahead.arrive("crm") == [], "nothing has changed"
    assert ahead.apply().success
    (again,) = ahead.arrive("crm")
    assert again.success and ahead.person("Grace") == {"id": "Grace", "name": "Grace", "age": 85, "city": None}
    assert ahead.kinds == ["init", "load", "schema", "load"]


def test_a_batch_that_the_graph_has_is_answered_whatever_the_file_says(location: Evolving) -> None:
    location.land("b1", people="Grace,85")
    assert location.run("crm", "b1").success
    assert location.declare(MORE).run("crm", "b1").success
    assert location.kinds == ["init", "load", "load"]


def test_auto_applies_what_loses_nothing_before_the_batch(location: Evolving) -> None:
    location.settings["schema_changes"] = "auto"
    auto = location.declare(MORE)
    auto.land("b1", people="Grace,85")
    run = auto.run("crm", "b1")
    assert run.success and auto.kinds == ["init", "load", "schema", "load"]
    told = materialized(run)["people/crm/Person"]
    with auto.graph as graph:
        assert told["schema_commit"] == graph.commits()[1].id


@pytest.mark.parametrize("text", [LESS, NEEDED])
def test_auto_never_drops_and_never_guesses_a_value(location: Evolving, text: str) -> None:
    location.settings["schema_changes"] = "auto"
    auto = location.declare(text)
    auto.land("b1", people="Grace,85")
    run = auto.run("crm", "b1")
    assert not run.success and "is ahead of the graph" in failure(run).description
    assert auto.kinds == ["init", "load"] and auto.person("Ada")["age"] == 36


def test_planted_a_batch_that_does_not_look_at_the_file_is_loaded_under_the_old_schema(
    location: Evolving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accepted_schema, "steps_ahead", lambda plan, file: [])
    ahead = location.declare(MORE)
    ahead.land("b1", people="Grace,85")
    assert ahead.run("crm", "b1").success and ahead.kinds == ["init", "load", "load"]


# --- columns that the schema does not know --------------------------------------------------------------------------------


def write(location: Evolving, batch: str, text: str, name: str = "people.csv") -> None:
    folder = location.land(batch)
    (folder / name).write_text(text)


NEW = "full_name,age,joined,score,note,empty\nGrace,85,2026-01-02,1.5,hi,\nLinus,56,2026-02-03,2,,\n"


def test_an_unknown_column_fails_the_batch_by_itself(location: Evolving) -> None:
    write(location, "b1", NEW)
    run = location.run("crm", "b1")
    assert not run.success and broken(run) == {"schema of Person"}
    assert location.kinds == ["init", "load"]


def test_unknown_columns_that_are_ignored_are_left_out(location: Evolving, spark: Any) -> None:
    location.settings["sources"][0]["unknown_columns"] = "ignore"
    ignoring = location.declare(SCHEMA)
    write(ignoring, "b1", NEW)
    assert ignoring.run("crm", "b1").success
    assert ignoring.person("Grace") == {"id": "Grace", "name": "Grace", "age": 85}
    assert ignoring.kinds == ["init", "load", "load"]


def test_unknown_columns_become_properties_by_a_commit_before_the_batch_that_the_run_names(growing: Evolving) -> None:
    write(growing, "b1", NEW)
    run = growing.run("crm", "b1")
    assert run.success and growing.kinds == ["init", "load", "schema", "load"]
    grace = growing.person("Grace")
    assert (str(grace["joined"]), grace["score"], grace["note"]) == ("2026-01-02", 1.5, "hi") and "empty" not in grace
    assert growing.person("Ada")["note"] is None
    told = materialized(run)["people/crm/Person"]
    assert told["columns_added"] == "Person.joined: Date?, Person.note: String?, Person.score: F64?"
    with growing.graph as graph:
        assert told["columns_commit"] == graph.commits()[1].id
        assert SCHEMA.splitlines()[1] in str(graph.schema.show()), "the author's text stays as it was written"


def test_a_graph_that_has_grown_is_not_behind_and_the_check_says_what_the_file_lacks(growing: Evolving) -> None:
    write(growing, "b1", NEW)
    assert growing.run("crm", "b1").success
    write(growing, "b2", NEW.replace("Grace", "Ken"))
    assert growing.run("crm", "b2").success
    assert growing.kinds == ["init", "load", "schema", "load", "load"]
    refused = growing.apply()
    assert not refused.success and "drops or narrows" in failure(refused).description
    with growing.graph as graph:
        whole = growing.declare(str(graph.schema.show()))
    run = whole.apply()
    assert checks(run) == {"schema.accepted_schema_is_file": True} and whole.kinds == growing.kinds


def test_columns_of_other_formats_have_the_kinds_that_the_files_say(growing: Evolving) -> None:
    growing.settings["sources"][0]["tables"] = [
        {"node": "Person", "files": "people*"},
        {"edge": "WorksAt", "files": "jobs*", "optional": True, "from": "person", "to": "company"},
        {"node": "Company", "files": "companies*", "optional": True},
    ]
    there = growing.declare(SCHEMA)
    folder = there.land("b1")
    rows = pa.table(
        {
            "name": ["Grace"],
            "small": pa.array([1], pa.int16()),
            "tags": pa.array([["a", None]], pa.list_(pa.string())),
            "seen": pa.array([0], pa.timestamp("us", "UTC")),
        }
    )
    pq.write_table(rows, folder / "people.parquet")
    (folder / "companies.ndjson").write_text(
        '{"name": "Navy", "size": 3}\n{"name": "Army", "size": 4.5, "old": true}\n'
    )
    (folder / "jobs.csv").write_text("person,company,share\nGrace,Navy,0.5\n")
    run = there.run("crm", "b1")
    assert run.success
    added = materialized(run)["people/crm/Person"]["columns_added"]
    assert set(added.split(", ")) == {
        "Person.seen: DateTime?", "Person.small: I32?", "Person.tags: [String]?", "Company.old: Bool?", "Company.size: F64?",
        "WorksAt.share: F64?",
    }  # fmt: skip
    assert there.kinds == ["init", "load", "schema", "load"]
    with there.graph as graph:
        assert graph.snapshot().to_arrow("WorksAt", ["share"]).to_pylist() == [{"share": 0.5}]


@pytest.mark.parametrize(
    ("head", "said"), [("Full Address", "no property can be called so"), ("id_", None), ("_row_x", "no property")]
)
def test_a_column_whose_name_is_none_for_a_property_is_refused_with_a_way_out(
    growing: Evolving, head: str, said: str | None
) -> None:
    write(growing, "b1", f"full_name,age,{head}\nGrace,85,x\n")
    run = growing.run("crm", "b1")
    assert run.success == (said is None)
    if said is not None:
        assert said in failure(run).description and "ignore" in failure(run).description
        assert growing.kinds == ["init", "load"]


def test_two_runs_that_add_columns_keep_both(growing: Evolving, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at the schema and the change another run adds a column of its own."""
    honest: Any = accepted_schema.with_properties  # type: ignore[attr-defined]  # where it is used
    done: list[bool] = []

    def overtaken(text: str, added: Any) -> str:
        if not done:
            done.append(True)
            with og.open(growing.uri) as other:
                accepted_schema.add_properties(other, "main", {"Person": {"other": "I64?"}})
        return honest(text, added)

    monkeypatch.setattr(accepted_schema, "with_properties", overtaken)
    write(growing, "b1", NEW)
    assert growing.run("crm", "b1").success
    assert {"other", "note", "score", "joined"} <= set(growing.person("Grace"))


# --- the command ----------------------------------------------------------------------------------------------------------


def test_the_plan_command_shows_what_the_file_would_change(
    location: Evolving, capsys: pytest.CaptureFixture[str]
) -> None:
    location.declare(MORE)
    assert command(["plan", str(location.folder / "graph.yaml")]) == 0
    assert "schema      add_property Person.city: city: String? [3 requests]" in capsys.readouterr().out
    assert command(["plan", str(location.folder / "graph.yaml"), "--json"]) == 0
    steps = json.loads(capsys.readouterr().out)["result"]["schema"]["steps"]
    assert [(step["kind"], step["type"], step["property"]) for step in steps] == [("add_property", "Person", "city")]
    assert location.kinds == ["init", "load"]


def test_settings_that_make_no_sense_are_refused(location: Evolving) -> None:
    feed = {"name": "feed", "batches": "landing/*.jsonl", "format": "graph", "mode": "append", "unknown_columns": "add"}
    location.settings["sources"] = [feed]
    with pytest.raises(og.errors.InvalidInput, match="belongs to 'tables'"):
        location.declare(SCHEMA)
