"""Several batches in one run: each its own partition and commit, in order, whatever becomes of the others."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

import omnigraph as og
from omnigraph_pipelines import failures
from omnigraph_pipelines.defs.ingest import shared
from omnigraph_pipelines.defs.ingest.names import BATCHES_TAG, RANGE_END_TAG, RANGE_START_TAG, REFUSED_TAG
from omnigraph_pipelines.defs.ingest.records import batches_of
from tests.pipelines.ingest_location import CRM, Location

pytestmark = pytest.mark.timeout(600)
SHARED = {**CRM, "batches_per_run": 3}
COMMIT = dg.AssetKey(["people", "crm", "commit"])


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    monkeypatch.setenv("DAGSTER_DISABLE_TELEMETRY", "1")
    monkeypatch.setattr(failures, "FIRST_DELAY_S", 0.01)
    (tmp_path / "dagster").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "dagster")) as made:
        yield made


@pytest.fixture
def location(tmp_path: Path, instance: dg.DagsterInstance, spark: Any) -> Location:
    from dagster_pyspark import LazyPySparkResource

    return Location(tmp_path, instance, spark=LazyPySparkResource(spark_config={}), sources=[SHARED])


def committed(location: Location) -> list[str]:
    return [key.split("/")[1] for key in location.commits() if key]


def partitions(location: Location, key: dg.AssetKey = COMMIT) -> set[str]:
    return set(location.instance.get_materialized_partitions(key))


def told(location: Location, batch: str, key: dg.AssetKey = COMMIT) -> dict[str, Any]:
    wanted = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[batch])
    [record] = location.instance.fetch_materializations(wanted, limit=1).records
    assert record.asset_materialization is not None
    return {name: one.value for name, one in record.asset_materialization.metadata.items()}


def tags_of(location: Location, run: Any) -> dict[str, str]:
    found = location.instance.get_run_by_id(run.run_id)
    assert found is not None
    return dict(found.tags)


def test_batches_that_wait_share_a_run_and_each_is_a_partition_and_a_commit(location: Location) -> None:
    for name in ("d", "a", "c", "b"):
        location.land(name, people=f"{name}1,1 {name}2,2", companies="Navy")
    (run,) = location.arrive("crm")
    assert run.success and committed(location) == ["a", "b", "c"]
    assert partitions(location) == partitions(location, dg.AssetKey(["people", "crm", "Person"])) == {"a", "b", "c"}
    first, second = told(location, "a"), told(location, "b")
    assert (first["summary"], second["summary"]) == ("3 inserted", "2 inserted, 1 unchanged")
    assert first["commit_id"] != second["commit_id"] and first["batch"] == "a"
    assert told(location, "c", dg.AssetKey(["people", "crm", "Person"]))["dagster/partition_row_count"] == 2
    with location.graph as graph:
        assert len(graph.commits()) == 4  # with that of the init
        assert graph.snapshot().count("Person") == 6
    (last,) = location.arrive("crm")
    assert committed(location) == ["a", "b", "c", "d"] and tags_of(location, last)["dagster/partition"] == "d"
    assert location.arrive("crm") == []
    assert location.tick("new_batches_crm").skip_message == "4 batches, 4 done"


def test_a_batch_may_refer_to_what_one_before_it_in_the_same_run_brings(location: Location) -> None:
    location.land("a", people="Ada,1", companies="Navy")
    location.land("b", people="Bob,2", jobs="Ada,Navy,engineer Bob,Navy,clerk")
    (run,) = location.arrive("crm")
    assert run.success and committed(location) == ["a", "b"]


def test_a_batch_that_is_refused_takes_nothing_from_the_others(location: Location) -> None:
    location.land("a", people="Ada,1")
    location.land("b", people="Old,200")
    location.land("c", people="Cleo,3")
    (run,) = location.arrive("crm")
    assert not run.success and committed(location) == ["a", "c"] and partitions(location) == {"a", "c"}
    tags = tags_of(location, run)
    assert set(json.loads(tags[BATCHES_TAG])) == {"a", "b", "c"}
    assert set(json.loads(tags[REFUSED_TAG])) == {"b"} and tags["omnigraph/error"] == "data-invalid"
    [check] = run.get_asset_check_evaluations()
    assert not check.passed and check.metadata["batches_committed"].value == 2
    assert [row.data["batch"] for row in check.metadata["refused"].records] == ["b"]
    (event,) = [one for one in run.all_events if one.is_step_failure]
    assert event.step_failure_data.user_failure_data.description.startswith(
        "1 of 3 batches are refused, 2 are in the graph. "
    )
    assert location.arrive("crm") == []
    assert location.tick("new_batches_crm").skip_message == "3 batches, 2 done; 1 refused (b: 1 range)"
    location.land("b", people="Old,20")
    (again,) = location.arrive("crm")
    assert again.success and committed(location) == ["a", "c", "b"]


def test_batches_behind_one_that_waits_for_nodes_do_not_overtake_it(location: Location) -> None:
    location.land("a", people="Ada,1")
    location.land("b", people="Bob,2", jobs="Bob,Navy,clerk")
    location.land("c", people="Bob,3")
    (run,) = location.arrive("crm")
    assert not run.success and committed(location) == ["a"]
    said = location.tick("new_batches_crm").skip_message
    assert said == "3 batches, 1 done; 1 waiting for what they refer to (b: 1 missing-endpoint); 1 waiting (c)"
    with og.open(location.uri) as graph:
        graph.load([{"type": "Company", "data": {"name": "Navy"}}], mode="merge")
    location.now_s = time.time() + 120
    (again,) = location.arrive("crm")
    assert again.success and committed(location) == ["a", "b", "c"]
    with location.graph as graph:
        row = graph.snapshot().get("Person", "Bob")
        assert row is not None and row["age"] == 3


def test_a_run_that_died_between_two_batches_goes_on_where_it_was(
    location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        location.land(name, people=f"{name},1")
    one, tried = shared.Sharing._one, []

    def dying(self: Any, batch: str) -> Any:
        tried.append(batch)
        if tried == ["a", "b"]:
            raise og.errors.StoreUnavailable("the store is away")
        yield from one(self, batch)

    monkeypatch.setattr(shared.Sharing, "_one", dying)
    (run,) = location.arrive("crm")
    assert run.success and tried == ["a", "b", "a", "b", "c"]
    assert committed(location) == ["a", "b", "c"] and partitions(location) == {"a", "b", "c"}


def test_a_backfill_takes_several_partitions_a_run(location: Location) -> None:
    from dagster._core.definitions.automation_tick_evaluation_context import build_run_requests_with_backfill_policies
    from dagster._core.definitions.events import AssetKeyPartitionKey
    from dagster._core.definitions.partitions.context import partition_loading_context

    keys = [COMMIT, *(dg.AssetKey(["people", "crm", name]) for name in ("Person", "Company", "WorksAt"))]
    for name in "abcd":
        location.land(name, people=f"{name},1")
    location.instance.add_dynamic_partitions("people/crm", list("abcd"))
    wanted = [AssetKeyPartitionKey(key, batch) for batch in "abcd" for key in keys]
    graph = location.defs.get_repository_def().asset_graph
    with partition_loading_context(dynamic_partitions_store=location.instance):
        asked = build_run_requests_with_backfill_policies(wanted, graph, location.instance)
    assert [(one.tags[RANGE_START_TAG], one.tags[RANGE_END_TAG]) for one in asked] == [("a", "c"), ("d", "d")]
    runs = [location.run_several("crm", one.tags) for one in asked]
    assert all(run.success for run in runs) and committed(location) == list("abcd")
    assert partitions(location) == set("abcd")
    while found := location.arrive("crm"):  # what the sensor has not seen it asks for once
        assert all(run.success for run in found)
    assert committed(location) == list("abcd")
    assert location.tick("new_batches_crm").skip_message == "4 batches, 4 done"


def test_what_a_run_is_of_is_known_before_it_begins(location: Location) -> None:
    order = ["c", "a", "b", "d"]
    of_range = dg.DagsterRun(job_name="x", tags={RANGE_START_TAG: "a", RANGE_END_TAG: "d"})
    assert batches_of(of_range, order) == ["a", "b", "d"]
    assert batches_of(dg.DagsterRun(job_name="x", tags={"dagster/partition": "a"}), order) == ["a"]
    assert batches_of(dg.DagsterRun(job_name="x", tags={BATCHES_TAG: '{"b": "f"}'}), order) == ["b"]
    for edited in ("{", "[]", "1"):
        assert batches_of(dg.DagsterRun(job_name="x", tags={BATCHES_TAG: edited}), order) == []


def test_each_batch_of_a_shared_run_leaves_few_events(location: Location) -> None:
    for name in "abc":
        location.land(name, people=f"{name},1", companies="Navy", jobs=f"{name},Navy,x")
    (run,) = location.arrive("crm")
    assert run.success and len(location.instance.all_logs(run.run_id)) <= 3 * 2 * 4 + 20
