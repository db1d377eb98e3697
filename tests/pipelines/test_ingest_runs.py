"""A batch is one commit: staged by Spark, judged, published once under its key, and seen by people."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

import omnigraph as og
from omnigraph_pipelines import failures
from omnigraph_pipelines.defs.ingest.arrivals import RETIRED_S
from omnigraph_pipelines.quarantine import Quarantine
from tests.pipelines import ingest_location
from tests.pipelines.ingest_location import Location, broken, checks, failure, materialized

pytestmark = pytest.mark.timeout(600)  # on a busy machine Java alone may take most of the usual time to start


@pytest.fixture(scope="session")
def empty_instance(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an instance without history. Making the tables takes longer than most tests."""
    folder = tmp_path_factory.mktemp("instance")
    with dg.DagsterInstance.local_temp(str(folder)) as made:
        made.add_dynamic_partitions("x", ["x"])
    return folder


@pytest.fixture
def instance(tmp_path: Path, empty_instance: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    monkeypatch.setenv("DAGSTER_DISABLE_TELEMETRY", "1")
    monkeypatch.setattr(failures, "FIRST_DELAY_S", 0.01)
    shutil.copytree(empty_instance, tmp_path / "dagster")
    with dg.DagsterInstance.local_temp(str(tmp_path / "dagster")) as made:
        yield made


@pytest.fixture
def location(tmp_path: Path, instance: dg.DagsterInstance, spark: Any) -> Location:
    from dagster_pyspark import LazyPySparkResource

    return Location(tmp_path, instance, spark=LazyPySparkResource(spark_config={}))


def staging_left(location: Location) -> list[str]:
    return [path.name for path in (location.folder / "people.omni" / "__staging").glob("*")]


def test_a_batch_is_one_commit_over_all_its_tables_and_shows_its_numbers(location: Location) -> None:
    location.land("b1", people="Ada,36 Grace,85", companies="Navy", jobs="Grace,Navy,admiral")
    run = location.run("crm", "b1")
    assert run.success
    found = materialized(run)
    assert sorted(found) == [f"people/crm/{name}" for name in ("Company", "Person", "WorksAt", "commit")]
    person, commit = found["people/crm/Person"], found["people/crm/commit"]
    assert (person["dagster/partition_row_count"], person["fragments"], person["files"]) == (2, "1", "3")
    assert person["bytes"] > 0 and person["seconds"] > 0
    assert next(iter(commit)) == "summary" and commit["summary"] == "4 inserted"
    assert (commit["rows_inserted"], commit["dagster/partition_row_count"]) == (4, 4)
    assert "| Person | 2 | 0 | 0 | 0 | 2 |" in commit["what_changed"] and commit["commit_id"] in commit["what_changed"]
    (cost,) = commit["cost"].records
    assert cost.data["requests"] > 0 and cost.data["written"] > 0 and commit["fragments"] == "3"
    plotted = {name for name, value in commit.items() if isinstance(value, int | float) and not isinstance(value, bool)}
    assert not any("of " in name or name == "dagster/row_count" for name in plotted), (
        "totals depend on what came before"
    )
    constant = {"files", "fragments", "hops", "requests"}
    assert not constant & plotted and not [
        name for name in constant & person.keys() if not isinstance(person[name], str)
    ]
    tags = location.instance.get_run_by_id(run.run_id)
    assert tags is not None
    shown = {name: value for name, value in tags.tags.items() if not name.startswith((".dagster/", "dagster/"))}
    assert len(shown) <= 4 and all(len(value) <= 20 for value in shown.values()), shown
    assert {record.data["table"] for record in commit["versions"].records} == {
        "node:Person",
        "node:Company",
        "edge:WorksAt",
    }
    assert checks(run) == {"commit.accepted": True}
    [judged] = run.get_asset_check_evaluations()
    assert {row.data["table"]: row.data["rows"] for row in judged.metadata["tables"].records} == {
        "Person": 2,
        "Company": 1,
        "WorksAt": 1,
    }
    with location.graph as graph:
        (commit_row,) = [one for one in graph.commits() if one.kind == "load"]
        assert commit_row.id == commit["commit_id"] and commit_row.actor == "dagster"
        assert commit_row.idempotency_key == f"crm/b1/{commit['fingerprint']}"
        assert graph.snapshot().get("Person", "Ada")["age"] == 36
    commands = commit["what_changed"].partition("```sh\n")[2].partition("\n```")[0].splitlines()
    assert [command.split()[:2] for command in commands] == [["omnigraph", "commit"], ["omnigraph", "diff"]]
    for command in commands:  # as they are copied
        program = command.replace("omnigraph", f"{sys.executable} -m omnigraph.cli", 1)
        done = subprocess.run(program, shell=True, capture_output=True, text=True, check=False)
        assert done.returncode == 0 and "Person" in done.stdout, done.stderr
    assert "The page of the Spark" not in commit["what_changed"], "it has none here"
    version = location.instance.get_latest_materialization_event(dg.AssetKey(["people", "crm", "commit"]))
    assert version is not None and version.asset_materialization is not None
    assert (version.asset_materialization.tags or {})["dagster/data_version"] == commit["commit_id"]
    assert staging_left(location) == []


def test_the_same_batch_again_changes_nothing_and_a_changed_one_is_a_new_commit(location: Location) -> None:
    folder = location.land("b1", people="Ada,36")
    assert [run.success for run in location.arrive("crm")] == [True]
    assert location.arrive("crm") == []
    again = location.run("crm", "b1")
    told = materialized(again)["people/crm/commit"]
    assert again.success and told["replayed"] and len(location.commits()) == 1
    assert not any(name.startswith(("rows_", "dagster/partition")) for name in told), "a replay repeats no counts"
    assert told["summary"].startswith("the graph had this batch already")
    (folder / "people.csv").write_text("full_name,age\nAda,37\n")
    (changed,) = location.arrive("crm")
    assert changed.success and materialized(changed)["people/crm/commit"]["rows_updated"] == 1
    assert len(location.commits()) == 2
    assert location.arrive("crm") == []


def test_batches_that_wait_are_committed_oldest_first_and_forced_ones_again(location: Location) -> None:
    for name in ("c", "a", "b"):
        location.land(name, people=f"{name},1")
    while location.arrive("crm"):
        pass
    assert [key.split("/")[1] for key in location.commits()] == ["a", "b", "c"]
    location.feed("1.jsonl", '{"type": "Person", "data": {"name": "Eve"}}\n')
    assert location.arrive("feed") == []
    location.now_s = 10
    assert [run.success for run in location.arrive("feed")] == [True]
    forced = location.run("feed", "1.jsonl", force=True)
    assert (not forced.success and "key-conflict" in failure(forced).description.lower()) or "exists" in str(
        failure(forced).description
    )


def test_a_bad_batch_fails_its_checks_before_anything_is_published(location: Location) -> None:
    location.land("b1", people="Ada,1 Ada,2 Old,200 Grace,1", companies="Navy", jobs="Ada,Nowhere,x")
    run = location.run("crm", "b1")
    assert not run.success
    assert checks(run) == {"commit.accepted": False} and broken(run) == {
        "keys of Person",
        "bad_rows of Person",
        "endpoints of WorksAt",
    }
    told = failure(run)
    assert "refused (keys of Person, bad_rows of Person, endpoints of WorksAt)" in told.description
    assert "Hint: correct the batch" in told.description
    assert told.metadata["code"].value == "data-invalid" and told.metadata["total"].value == 3
    assert {record.data["code"] for record in told.metadata["violations"].value.records} == {
        "duplicate-id",
        "missing-endpoint",
        "range",
    }
    marked = location.instance.get_run_by_id(run.run_id)
    assert marked is not None and marked.tags[failures.PERMANENT_TAG] == "true"
    assert marked.tags["omnigraph/error"] == "data-invalid"
    assert len([name for name in marked.tags if not name.startswith((".dagster/", "dagster/"))]) <= 4
    assert materialized(run) == {} and location.commits() == [] and staging_left(location) == []


def test_a_batch_without_rows_is_refused(location: Location) -> None:
    location.land("b1", people="", companies="Navy")
    run = location.run("crm", "b1")
    assert not run.success and "refused (rows of Person)" in failure(run).description
    assert location.commits() == []


def test_columns_that_do_not_fit_fail_the_schema_check(location: Location) -> None:
    folder = location.land("b1")
    (folder / "people.csv").write_text("full_name,shoe\nAda,36\n")
    run = location.run("crm", "b1")
    assert not run.success and broken(run) == {"schema of Person"}
    assert "shoe" in failure(run).description


def test_bad_rows_within_the_bound_are_set_aside_and_shown(
    tmp_path: Path, instance: dg.DagsterInstance, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dagster_pyspark import PySparkResource

    from omnigraph_pipelines.spark import SparkExchange

    on_executors: list[int] = []
    run_ = SparkExchange.run
    monkeypatch.setattr(SparkExchange, "run", lambda *args: on_executors.append(1) or run_(*args))
    bounds = {"on_bad_row": "quarantine", "bad_rows_max": 1, "validate_in": "spark"}
    location = Location(tmp_path, instance, spark=PySparkResource(spark_config={}), checks=bounds)
    location.land("b1", people="Ada,36 Old,200", jobs="Ada,Ghost,x")
    refused = location.run("crm", "b1")
    assert not refused.success and failure(refused).metadata["rejected"].value == 2
    assert on_executors, "the edge that refers to nobody was found there"
    on_executors.clear()
    assert "rejected_rows" in failure(refused).metadata
    assert (
        "2 of 3 records are bad" in failure(refused).description
        and "1 missing-endpoint, 1 range" in failure(refused).description
    )
    assert "most often missing: Ghost (1x)" in failure(refused).description
    location.land("b1", people="Ada,36 Old,200", jobs="")
    run = location.run("crm", "b1")
    assert run.success and checks(run)["commit.accepted"] and len(on_executors) >= 2
    told = materialized(run)["people/crm/commit"]
    assert (told["rows_inserted"], told["rows_rejected"]) == (1, 1)
    (shown,) = told["rejected_rows"].records
    assert shown.data["code"] == "range" and "Old" in str(shown.data["record"])
    assert told["quarantine"] == str(tmp_path / "people.omni.quarantine" / "crm" / "b1.jsonl")
    assert "**1 row left out**" in told["what_changed"] and "| range | 1 |" in told["what_changed"]
    (line,) = Path(told["quarantine"]).read_text().splitlines()
    assert json.loads(line)["record"]["data"]["name"] == "Old"


def test_a_batch_that_is_still_being_written_is_refused_and_offered_when_it_has_settled(
    tmp_path: Path, instance: dg.DagsterInstance, spark: Any
) -> None:
    class Meddling(dg.ConfigurableResource):  # type: ignore[type-arg]
        """Somebody writes on while Spark is about to read."""

        folder: str

        @property
        def spark_session(self) -> Any:
            with (Path(self.folder) / "landing" / "crm" / "b1" / "people.csv").open("a") as file:
                file.write("Late,1\n")
            return spark

    location = Location(tmp_path, instance, spark=Meddling(folder=str(tmp_path)))
    location.land("b1", ready=False, people="Ada,36")
    unmarked = location.run("crm", "b1")
    assert not unmarked.success and "has no _SUCCESS" in failure(unmarked).description
    location.land("b1", people="Ada,36")
    (run,) = location.arrive("crm")
    assert not run.success and "changed while it was read" in failure(run).description
    with location.graph as graph:
        assert graph.snapshot().count("Person") == 0
    assert staging_left(location) == []
    asked = location.tick("new_batches_crm").run_requests
    assert [one.partition_key for one in asked] == ["b1"]


def test_a_type_that_a_source_does_not_name_is_refused(location: Location) -> None:
    location.feed("1.jsonl", '{"type": "Company", "data": {"name": "Navy"}}\n')
    run = location.run("feed", "1.jsonl")
    assert not run.success and "does not name" in failure(run).description
    assert staging_left(location) == []


COMMIT = dg.AssetKey(["people", "crm", "commit"])
TABLES = [dg.AssetKey(["people", "crm", name]) for name in ("Person", "Company", "WorksAt")]


def notes(location: Location, under: str = "") -> dict[str, bytes]:
    with location.graph as graph:
        return {name: graph.notes.get(name) or b"" for name in graph.notes.list(under)}


def put_back(location: Location, kept: dict[str, bytes]) -> None:
    with og.open(location.uri) as graph:
        for name, data in kept.items():
            graph.notes.put(name, data)


def test_the_commit_alone_takes_up_what_was_staged_and_says_what_is_missing(location: Location) -> None:
    location.land("b1", people="Ada,36")
    nothing = location.run("crm", "b1", only=[COMMIT])
    assert not nothing.success and "nothing is staged" in failure(nothing).description
    assert location.run("crm", "b1", only=TABLES).success and location.commits() == []
    kept = notes(location, "handed-over")
    assert len(kept) == 1
    first = location.run("crm", "b1", only=[COMMIT])
    assert first.success and len(location.commits()) == 1 and notes(location) == {}
    # A worker that died between the commit and its record finds its own commit.
    put_back(location, kept)
    again = location.run("crm", "b1", only=[COMMIT])
    assert again.success and materialized(again)["people/crm/commit"]["replayed"] and len(location.commits()) == 1
    once_more = location.run("crm", "b1", only=[COMMIT])
    assert once_more.success and len(location.commits()) == 1
    assert TABLES[0] not in [event.asset_key for event in again.get_asset_materialization_events()]
    # Nothing is staged of what the files have become since.
    location.land("b1", people="Ada,37")
    other = location.run("crm", "b1", only=[COMMIT])
    assert not other.success and "nothing is staged" in failure(other).description


class Evil:
    def __reduce__(self) -> Any:
        return Path.touch, (Path("evil"),)


def test_bytes_that_no_staging_step_has_left_are_not_unpickled(
    location: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pickle

    monkeypatch.chdir(tmp_path)
    location.land("b1", people="Ada,36")
    assert location.run("crm", "b1", only=TABLES).success
    (name,) = notes(location, "handed-over")
    put_back(location, {name: pickle.dumps(Evil())})
    run = location.run("crm", "b1", only=[COMMIT])
    assert not run.success and "nothing is staged" in failure(run).description
    assert not Path("evil").exists() and location.commits() == []


def test_two_runs_of_one_batch_at_once_are_one_commit(location: Location) -> None:
    location.land("b1", people="Ada,36")
    assert location.run("crm", "b1", only=TABLES).success
    held = notes(location, "handed-over")
    assert location.run("crm", "b1").success  # the rival: stages and commits beside it
    put_back(location, held)
    late = location.run("crm", "b1", only=[COMMIT])
    assert late.success and len(location.commits()) == 1 and notes(location) == {}
    with location.graph as graph:
        assert graph.snapshot().count("Person") == 1


def test_a_batch_that_changes_nothing_is_done_and_stays_so(location: Location) -> None:
    from omnigraph_pipelines.planning import plan_ingest

    def states() -> dict[str, str]:
        return {one.batch: one.state for one in plan_ingest(location.file, location.file.settings.sources)}

    location.land("b1", people="Ada,36")
    location.land("b2", people="Ada,36")
    location.land("b3", people="Ada,37")
    assert location.run("crm", "b1").success
    same = location.run("crm", "b2")
    told = materialized(same)["people/crm/commit"]
    assert (told["commit_id"], told["rows_unchanged"]) == ("nothing changed", 1)
    assert states() == {"b1": "committed", "b2": "committed", "b3": "new"}
    assert location.run("crm", "b3").success
    # Taken up once more, by a sensor that has lost its memory, it must not bring the old value back.
    again = location.run("crm", "b2")
    assert again.success and materialized(again)["people/crm/commit"]["replayed"]
    with location.graph as graph:
        assert graph.snapshot().get("Person", "Ada")["age"] == 37
    assert len(location.commits()) == 2 and set(states().values()) == {"committed"}
    location.land("b2", people="Ada,38")
    assert states()["b2"] == "changed"


def test_batches_go_from_an_object_store_into_a_graph_on_one(
    tmp_path: Path, instance: dg.DagsterInstance, spark: Any, s3_root: str
) -> None:
    """The steps of a batch on two machines: nothing passes between them but Dagster's records and the graph's store."""
    from dagster_pyspark import LazyPySparkResource

    from omnigraph_pipelines.planning import plan_ingest
    from omnigraph_pipelines.spark.sources import filesystem
    from tests.pipelines.ingest_location import CRM

    landing = f"{s3_root}-landing"
    store, below = filesystem(landing)

    def land(batch: str, rows: str) -> None:
        for name, text in (("people.csv", f"full_name,age\n{rows}\n"), ("_SUCCESS", "")):
            with store.open_output_stream(f"{below}/{batch}/{name}") as out:
                out.write(text.encode())

    location = Location(
        tmp_path,
        instance,
        spark=LazyPySparkResource(spark_config={}),
        uri=s3_root,
        sources=[{**CRM, "batches": f"{landing}/*/"}],
        checks={"on_bad_row": "quarantine", "bad_rows_max": 1},
    )
    land("b1", "Ada,36\nOld,200")
    asked = location.tick("new_batches_crm").run_requests
    assert [one.partition_key for one in asked] == ["b1"]
    assert location.run("crm", "b1", only=TABLES).success
    shutil.rmtree(Path(instance.storage_directory()), ignore_errors=True)
    run = location.run("crm", "b1", only=[COMMIT])
    told = materialized(run)["people/crm/commit"]
    assert (told["rows_inserted"], told["rows_rejected"], told["replayed"]) == (1, 1, False)
    [aside] = Quarantine(s3_root).entries()
    assert told["dagster/uri"] == s3_root and told["quarantine"] == f"{s3_root}.quarantine/crm/b1.jsonl" == aside.path
    assert json.loads(next(Quarantine(s3_root).lines(aside)))["record"]["data"]["name"] == "Old"
    again = location.run("crm", "b1")
    assert again.success and materialized(again)["people/crm/commit"]["replayed"]
    assert [one.state for one in plan_ingest(location.file, location.file.settings.sources)] == ["committed"]
    with location.graph as graph:
        assert graph.verify(deep=True).clean and graph.snapshot().get("Person", "Ada")["age"] == 36


def test_a_session_that_runs_is_joined_with_a_warning_and_left_running(
    spark: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    import logging

    from omnigraph_pipelines import SparkSessionResource

    monkeypatch.setattr(logging.getLogger("dagster"), "propagate", True)
    resource = SparkSessionResource(master="local[7]", conf={"spark.sql.shuffle.partitions": "3"})
    with caplog.at_level(logging.WARNING), resource.process_config_and_initialize_cm() as ready:
        assert not ready.is_started and ready.facts() == {}
        assert ready.spark_session.sparkContext is spark.sparkContext
        assert ready.facts()["spark_application"] == spark.sparkContext.applicationId
        assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    assert "spark.master is 'local[2,3]', not 'local[7]'" in caplog.text
    assert spark.range(3).count() == 3
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    both = SparkSessionResource(master="local", remote="sc://x")
    with pytest.raises(og.errors.InvalidInput, match="exclude each other"):
        _ = both.spark_session


OWN = """
from omnigraph_pipelines import SparkSessionResource
for ui in (False, True):
    with SparkSessionResource(master="local[1]", ui=ui).process_config_and_initialize_cm() as ready:
        session = ready.spark_session
        assert session.range(3).count() == 3 and ("spark_ui" in ready.facts()) == ui
    assert session.sparkContext._jsc is None, "still running"
print("stopped")
"""


@pytest.mark.long
def test_a_session_that_the_resource_started_ends_with_it() -> None:
    done = subprocess.run([sys.executable, "-c", OWN], capture_output=True, text=True, check=False)
    assert done.stdout.endswith("stopped\n"), done.stderr


def test_a_batch_is_checked_once(location: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    """The staging step checks it as a whole; the commit step trusts that as long as the graph has not moved."""
    from omnigraph.write.rules.validate import Evaluation

    entered: list[str] = []
    plain = Evaluation.__init__

    def noted(*args: Any, **options: Any) -> None:
        entered.append("evaluated")
        plain(*args, **options)

    monkeypatch.setattr(Evaluation, "__init__", noted)
    location.land("b1", people="Ada,36")
    assert location.run("crm", "b1").success and len(location.commits()) == 1
    assert len(entered) == 1
    # Between the steps of the next batch the graph moves: it is checked again.
    location.land("b2", people="Bob,40")
    assert location.run("crm", "b2", only=TABLES).success
    with location.graph as reader, og.open(reader.uri) as graph:
        graph.load([{"type": "Person", "data": {"name": "Cid"}}], mode="merge")
    entered.clear()
    assert location.run("crm", "b2", only=[COMMIT]).success
    assert len(entered) == 1


ORDERED: list[dict[str, Any]] = [
    {
        "name": "jobs",
        "batches": "landing/jobs/*.csv",
        "mode": "merge",
        "after": ["staff"],
        "tables": [{"edge": "WorksAt", "from": "person", "to": "company"}],
    },
    {
        "name": "staff",
        "batches": "landing/staff/*/",
        "ready": "_SUCCESS",
        "mode": "merge",
        "tables": [{"node": "Person", "files": "p.csv"}, {"node": "Company", "files": "c.csv"}],
    },
]


def land_staff(location: Location, batch: str, person: str, company: str) -> None:
    folder = location.folder / "landing" / "staff" / batch
    folder.mkdir(parents=True)
    (folder / "p.csv").write_text(f"name\n{person}\n")
    (folder / "c.csv").write_text(f"name\n{company}\n")
    (folder / "_SUCCESS").touch()


def land_job(location: Location, batch: str, person: str, company: str) -> None:
    path = location.folder / "landing" / "jobs" / f"{batch}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"person,company\n{person},{company}\n")


def said(location: Location, sensor: str) -> str:
    return str(location.tick(sensor).skip_message)


def sources(after: bool) -> list[dict[str, Any]]:
    return [{name: value for name, value in one.items() if after or name != "after"} for one in ORDERED]


def test_batches_are_partitions_from_when_they_are_seen_until_they_are_gone(location: Location) -> None:
    def partitions() -> list[str]:
        return sorted(location.instance.get_dynamic_partitions("people/crm"))

    for name in ("a", "b", "c"):
        location.land(name, people=f"{name},1")
    location.land("half", ready=False, people="x,1")
    location.tick("new_batches_crm")
    assert partitions() == ["a", "b", "c"], "the ones that wait, and none that is still being written"
    shutil.rmtree(location.folder / "landing" / "crm" / "b")
    location.now_s = 10
    location.tick("new_batches_crm")
    assert partitions() == ["a", "b", "c"]
    location.now_s = 10 + RETIRED_S
    location.tick("new_batches_crm")
    assert partitions() == ["a", "c"]
    (location.folder / "landing").rename(location.folder / "away")
    for seconds in (1, 2):
        location.now_s += seconds * RETIRED_S
        location.tick("new_batches_crm")
    assert partitions() == ["a", "c"], "a landing place that is not mounted retires nothing"


def test_the_job_loads_what_was_left_out_again(tmp_path: Path, instance: dg.DagsterInstance, lazy_spark: Any) -> None:
    bounds = {"on_bad_row": "quarantine", "bad_rows_max": 5}
    location = Location(tmp_path, instance, spark=lazy_spark, checks=bounds)
    location.land("b1", people="Ada,36", jobs="Ada,Navy,x Ada,Lost,y")
    told = materialized(location.run("crm", "b1"))["people/crm/commit"]
    assert told["rows_rejected"] == 2 and "| `Navy` | 1 |" in told["what_changed"]
    location.land("b2", people="Grace,85", companies="Navy")
    assert location.run("crm", "b2").success
    job = location.defs.resolve_job_def("replay_quarantine_crm")
    for summary in ("1 row of 1 file loaded, 1 left", "0 rows of 1 file loaded, 1 left"):
        run = job.execute_in_process(instance=location.instance)
        assert materialized(run)["people/crm/quarantine"]["summary"] == summary
    with location.graph as graph:
        assert graph.snapshot().count("WorksAt") == 1


def test_a_file_that_is_refused_fails_the_replay_of_its_source_after_the_others(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    location = Location(tmp_path, instance)
    og.init(location.uri, ingest_location.SCHEMA).close()
    kept, rows = Quarantine(location.uri), tmp_path / "rows.jsonl"
    for batch, name in (("b1", "Nobody"), ("b2", "Person")):
        rows.write_text(json.dumps({"record": {"type": name, "data": {"name": "Ada"}}, "reasons": []}) + "\n")
        kept.keep("feed", batch, rows)
    job = location.defs.resolve_job_def("replay_quarantine_feed")  # appends: all rows of a file or none
    run = job.execute_in_process(instance=location.instance, raise_on_error=False)
    with location.graph as graph:
        assert not run.success and graph.snapshot().count("Person") == 1
    [failed] = [event for event in run.all_events if event.is_step_failure]
    found = failed.step_failure_data.user_failure_data
    assert found is not None and "1 of 2 quarantine files cannot be loaded again: " in str(found.description)
    assert "/feed/b1.jsonl record 1: " in str(found.description) and {"problems", "replayed"} <= found.metadata.keys()


@pytest.fixture
def lazy_spark(spark: Any) -> Any:
    from dagster_pyspark import LazyPySparkResource

    return LazyPySparkResource(spark_config={})


def test_dropped_at_once_edges_wait_for_the_source_of_their_nodes(
    tmp_path: Path, instance: dg.DagsterInstance, lazy_spark: Any
) -> None:
    from omnigraph_pipelines.planning import plan_ingest

    location = Location(tmp_path, instance, spark=lazy_spark, sources=sources(after=True))
    land_staff(location, "s1", "Ada", "Navy")
    land_staff(location, "s2", "Grace", "Army")
    land_job(location, "j1", "Grace", "Army")
    planned = plan_ingest(location.file, location.file.settings.sources)
    assert [(one.source, one.batch, one.after) for one in planned] == [
        ("staff", "s1", ()),
        ("staff", "s2", ()),
        ("jobs", "j1.csv", ("staff",)),
    ]
    location.tick("new_batches_jobs")
    location.now_s = 10
    assert "waits for staff: 2 due (s1, s2)" in said(location, "new_batches_jobs")
    assert [run.success for run in location.arrive("staff")] == [True]
    assert "waits for staff: 1 due (s2)" in said(location, "new_batches_jobs")
    assert [run.success for run in location.arrive("staff")] == [True]
    assert [run.success for run in location.arrive("jobs")] == [True]
    assert said(location, "new_batches_jobs") == "1 batch, 1 done"
    assert said(location, "new_batches_staff") == "2 batches, 2 done"


def test_without_an_order_what_came_too_early_is_offered_again_when_the_graph_has_changed(
    tmp_path: Path, instance: dg.DagsterInstance, lazy_spark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    from omnigraph_pipelines.cli import main

    def status() -> str:
        capsys.readouterr()
        assert main(["status", str(tmp_path / "graph.yaml")]) == 0
        return capsys.readouterr().out

    location = Location(tmp_path, instance, spark=lazy_spark, sources=sources(after=False))
    land_job(location, "j1", "Ada", "Navy")
    land_job(location, "j2", "Ada", "Old\nAda,")  # the second row has no company: that is no question of order
    location.tick("new_batches_jobs")
    start = time.time()
    location.now_s = start
    [early] = location.arrive("jobs")
    assert "\nHint: nothing, where what it refers to is still to come: it waits, " in failure(early).description
    location.now_s = start + 3600
    waiting = said(location, "new_batches_jobs")
    assert "0 done; 1 waiting for what they refer to (j1.csv: 2 missing-endpoint); 1 waiting (j2.csv)" in waiting
    assert "waiting     j1.csv  2 missing-endpoint" in status()
    land_staff(location, "s1", "Ada", "Navy")
    assert [run.success for run in location.arrive("staff")] == [True]
    assert [run.success for run in location.arrive("jobs")] == [True]
    assert [run.success for run in location.arrive("jobs")] == [False]
    refused = said(location, "new_batches_jobs")
    assert "2 batches, 1 done; 1 refused (j2.csv: " in refused and "endpoint-required" in refused
    shown = status()
    assert "jobs: 1 done, 1 refused" in shown and "refused     j2.csv" in shown and "staff: 1 done" in shown


def test_a_small_batch_of_five_tables_leaves_few_events(
    tmp_path: Path, instance: dg.DagsterInstance, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon and a launcher add six or seven of their own."""
    monkeypatch.setattr(
        ingest_location,
        "SCHEMA",
        "node A { name: String @key }\nnode B { name: String @key }\nnode C { name: String @key }\n"
        "edge AB: A -> B\nedge BC: B -> C\n",
    )
    tables = [{"node": name, "files": f"{name}.csv"} for name in "ABC"]
    tables += [{"edge": name, "files": f"{name}.csv"} for name in ("AB", "BC")]
    source = {"name": "five", "batches": "landing/five/*/", "mode": "merge", "tables": tables}
    from dagster_pyspark import LazyPySparkResource

    location = Location(tmp_path, instance, spark=LazyPySparkResource(spark_config={}), sources=[source])
    folder = tmp_path / "landing" / "five" / "b1"
    folder.mkdir(parents=True)
    for name in "ABC":
        (folder / f"{name}.csv").write_text("name\n" + "".join(f"{name}{n}\n" for n in range(25)))
    for src, dst in ("AB", "BC"):
        (folder / f"{src}{dst}.csv").write_text("from,to\n" + "".join(f"{src}{n},{dst}{n}\n" for n in range(24)))
    run = location.run("five", "b1")
    assert run.success and materialized(run)["people/five/commit"]["rows_inserted"] == 123
    assert len(instance.all_logs(run.run_id)) <= 33
