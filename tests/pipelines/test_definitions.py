"""What a code location holds, under which names; that it loads fast, light, and whatever is unreachable."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

import omnigraph as og
from omnigraph_pipelines import failures
from omnigraph_pipelines.definitions import build_definitions
from omnigraph_pipelines.defs.ingest.handover import HandOver, told
from omnigraph_pipelines.graph_file import load_graph_file
from omnigraph_pipelines.resources import OmniGraphResource

SCHEMA = "node Person { name: String @key }\nedge Follows: Person -> Person { since: Date? }\n"
FILE = """\
graph: {{name: social, uri: "{uri}", schema: social.pg}}
sources:
  - name: crm
    batches: landing/crm/*/
    batches_per_run: {per_run}
    mode: merge
    tables:
      - {{node: Person, files: people*.csv}}
      - {{edge: Follows, files: follows*.csv}}
  - {{name: feed, batches: "landing/feed/*.jsonl", format: graph, mode: append, order: any}}
"""


def location(folder: Path, uri: str = "social.omni", per_run: int = 1) -> dg.Definitions:
    (folder / "social.pg").write_text(SCHEMA)
    (folder / "graph.yaml").write_text(FILE.format(uri=uri, per_run=per_run))
    return build_definitions(load_graph_file(folder / "graph.yaml"))


def test_names_are_those_that_people_have_written_down(tmp_path: Path) -> None:
    """Changing a key loses somebody's history."""
    defs = location(tmp_path)
    dg.Definitions.validate_loadable(defs)
    repository = defs.get_repository_def()
    graph = repository.asset_graph
    assert sorted("/".join(key.path) for key in graph.get_all_asset_keys()) == [
        "social/crm/Follows",
        "social/crm/Person",
        "social/crm/commit",
        "social/crm/quarantine",
        "social/feed/Follows",
        "social/feed/Person",
        "social/feed/commit",
        "social/feed/quarantine",
        "social/schema",
        "social/upkeep/cleanup",
        "social/upkeep/compaction",
        "social/upkeep/optimize",
        "social/upkeep/reconcile",
        "social/upkeep/scrub",
    ]
    assert sorted(job.name for job in repository.get_all_jobs() if not job.name.startswith("__")) == [
        "apply_schema",
        "cleanup",
        "compaction",
        "ingest_crm",
        "ingest_feed",
        "nightly_upkeep",
        "reconcile",
        "replay_quarantine_crm",
        "replay_quarantine_feed",
        "scrub",
    ]
    assert sorted(sensor.name for sensor in repository.sensor_defs) == [
        "manifest_fragments",
        "new_batches_crm",
        "new_batches_feed",
        "pending_intents",
        "run_failures",
        "version_backlog",
    ]
    assert sorted(schedule.name for schedule in repository.schedule_defs) == [
        "nightly_cleanup",
        "nightly_optimize",
        "weekly_scrub",
    ]
    assert sorted(defs.resources or {}) == ["graph", "spark"]
    running = dg.DefaultSensorStatus.RUNNING
    assert {sensor.default_status for sensor in repository.sensor_defs} == {running}
    commit, person = dg.AssetKey(["social", "crm", "commit"]), dg.AssetKey(["social", "crm", "Person"])
    assert graph.get(commit).parent_keys == {person, dg.AssetKey(["social", "crm", "Follows"])}
    assert graph.get(commit).pools == {"graph_social_main"}
    assert graph.get(person).pools == {"source_social_crm"}
    assert graph.get(dg.AssetKey(["social", "feed", "Person"])).pools == set()
    # One run for each partition of a backfill, in the order of keys: a policy would go by the order of arrival.
    assert {graph.get(key).backfill_policy for key in (commit, person)} == {None}
    checks = {key.name for key in graph.asset_check_keys if key.asset_key == commit}
    assert checks == {"accepted"}


def test_a_staged_table_is_described_as_its_type_and_its_columns_are(tmp_path: Path) -> None:
    location(tmp_path)
    described = 'node Person @description("Who buys") { name: String @key @description("As on the card")  age: I32? }\n'
    (tmp_path / "social.pg").write_text(described + SCHEMA.splitlines()[1])
    graph = build_definitions(load_graph_file(tmp_path / "graph.yaml")).get_repository_def().asset_graph
    person = graph.get(dg.AssetKey(["social", "crm", "Person"]))
    columns = {one.name: one.description for one in person.metadata["dagster/column_schema"].columns}
    assert columns == {"name": "As on the card", "age": None} and "Who buys\n\nRows of `Person`" in str(
        person.description
    )


def test_what_a_staging_step_says_of_itself_is_read_by_the_commit_step(tmp_path: Path) -> None:
    said = HandOver("b1", "f" * 64, "crm/b1/f", 3, 120, 0.5, staging_id="s", spark_ui="http://driver:4040")
    asset = dg.AssetKey(["social", "crm", "Person"])
    with dg.DagsterInstance.ephemeral() as instance:
        made = dg.AssetMaterialization(asset, metadata=said.to_metadata(), partition="b1")
        instance.report_runless_asset_event(made)
        assert told(instance, asset, "b1") == replace(said, run_id="")


def test_the_code_location_loads_light(tmp_path: Path) -> None:
    location(tmp_path)
    child = (
        "import sys\nimport omnigraph_pipelines.definitions as d\nd.defs().get_repository_def().load_all_definitions()\n"
        "print([m for m in ('pyspark', 'lance', 'duckdb', 'pandas', 'pyarrow') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", child],
        env={
            **os.environ,
            "OMNIGRAPH_GRAPH_FILE": str(tmp_path / "graph.yaml"),
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_store_that_is_away_costs_runs_and_not_the_location(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    defs = location(tmp_path, "s3://bucket/social")
    dg.Definitions.validate_loadable(defs)
    resource = OmniGraphResource.from_settings(load_graph_file(tmp_path / "graph.yaml").settings)
    with pytest.raises(og.errors.StoreUnavailable) as away:
        resource.open(read_only=True)
    assert failures.is_transient(away.value)


def test_a_schema_that_the_graph_does_not_have_makes_no_graph_for_readers(tmp_path: Path) -> None:
    location(tmp_path)
    resource = OmniGraphResource.from_settings(load_graph_file(tmp_path / "graph.yaml").settings)
    with pytest.raises(og.errors.NotFound):
        resource.snapshot()
    assert not (tmp_path / "social.omni").exists()
    try:
        assert resource.graph.snapshot().count("Person") == 0
        assert resource.snapshot().count("Follows") == 0
    finally:
        resource.close()


# --- errors ---------------------------------------------------------------------------------------------------------------


def asset_that_fails(errors: list[og.errors.OmnigraphError]) -> Any:
    @dg.asset
    def failing(context):  # Dagster looks at the annotation as it is
        with failures.told_to_dagster(context, first_delay_s=0.001):
            if errors:
                raise errors.pop(0)

    return failing


def attempts(errors: list[og.errors.OmnigraphError]) -> tuple[bool, int, dict[str, str]]:
    """Whether a run succeeded, how often it retried, and its tags."""
    with dg.DagsterInstance.ephemeral() as instance:
        run = dg.materialize([asset_that_fails(errors)], instance=instance, raise_on_error=False)
        record = instance.get_run_by_id(run.run_id)
        assert record is not None
        return run.success, len([one for one in run.all_events if one.is_step_up_for_retry]), dict(record.tags)


def test_what_may_pass_is_tried_again_and_what_may_not_is_not() -> None:
    away = og.errors.StoreUnavailable("away")
    assert attempts([away, away])[:2] == (True, 2)
    success, retries, tags = attempts([og.errors.DataInvalid("bad", violations=[], total=1)])
    assert (success, retries, tags["omnigraph/error"]) == (False, 0, "data-invalid")
    success, retries, tags = attempts([away] * 9)
    assert (success, retries, tags[failures.PERMANENT_TAG]) == (False, failures.RETRIES_MAX, "false")


TRANSIENT = {
    "expected-version-mismatch",
    "outcome-unknown",
    "overloaded",
    "read-set-changed",
    "recovery-pending",
    "store-unavailable",
    "writer-fenced",
}


@pytest.mark.parametrize("code", sorted(og.errors.all_errors()))
def test_every_error_is_either_transient_or_permanent(code: str) -> None:
    facts = {"table_key": "node:Person", "ids": ["a"], "rows": [{"a": 1}, {"b": None}]}
    error = og.errors.from_dict({"error": "x", "code": code, **facts})
    assert failures.is_transient(error) == (code in TRANSIENT)
    told = failures.error_metadata(error)
    assert told["code"].value == code and told["hint"].value
    assert isinstance(told["rows"], dg.TableMetadataValue)


def test_a_changed_schema_is_not_waited_for() -> None:
    assert not failures.is_transient(og.errors.SchemaChanged("x", expected="a", actual="b"))


def test_pauses_double_up_to_a_bound_and_differ_between_runs() -> None:
    pauses = [failures.backoff(attempt, "run") for attempt in range(9)]
    assert all(3.75 * 2**n <= one <= 6.25 * 2**n for n, one in enumerate(pauses[:6]))
    assert max(pauses) <= failures.DELAY_MAX_S * 1.25
    assert failures.backoff(0, "run") != failures.backoff(0, "other")


def test_a_source_whose_batches_share_runs_has_the_same_assets_in_one_step(tmp_path: Path) -> None:
    alone = location(tmp_path).get_repository_def().asset_graph
    shared = location(tmp_path, per_run=5).get_repository_def().asset_graph
    crm = [dg.AssetKey(["social", "crm", name]) for name in ("Person", "Follows", "commit")]
    assert shared.get_all_asset_keys() == alone.get_all_asset_keys()
    for key in crm:
        assert shared.get(key).backfill_policy == dg.BackfillPolicy.multi_run(5)
        assert shared.get(key).parent_keys == alone.get(key).parent_keys
        assert (
            shared.get(key).metadata == alone.get(key).metadata
            and shared.get(key).group_name == alone.get(key).group_name
        )
        assert shared.get(key).pools == {"source_social_crm"}
    assert shared.asset_check_keys == alone.asset_check_keys
