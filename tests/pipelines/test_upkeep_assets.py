"""Upkeep as runs: each asset against a real graph, by hand, dry, paused, and where the engine refuses."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

import omnigraph as og
from omnigraph.commit.plan import Owner
from omnigraph.core import failpoints
from omnigraph.manifest import state
from omnigraph.testing import rot
from omnigraph.upkeep import verify as verifying
from tests.component.upkeep.material import displace, engine_of, leave_ticket, make, people, pin_of
from tests.pipelines.upkeep_location import Location, failure, location, observed, told

KINDS = ("optimize", "compaction", "cleanup", "reconcile")
SCRUB = dg.AssetKey(["people", "upkeep", "scrub"])
SOON = {"cleanup": {"keep": 1, "older_than": None, "min_age": "0s"}, "reconcile": {"grace_s": 0}}


@pytest.fixture
def graph(local_root: str) -> Iterator[og.Graph]:
    with make(local_root, commits=4) as made:
        yield made


@pytest.fixture
def here(tmp_path: Path, local_root: str) -> Iterator[Location]:
    with location(tmp_path / "location", local_root, upkeep=SOON) as found:
        yield found


def interrupt(graph: og.Graph, place: str, owner: Owner | None = None) -> str:
    """A write of a process elsewhere that stopped at a failpoint. Returns its commit id."""
    engine = engine_of(graph)
    mine, engine.owner = engine.owner, owner or Owner("elsewhere", "another-boot", 1, 1)
    try:
        with failpoints.armed(place, "raise"), pytest.raises(og.errors.OutcomeUnknown) as caught:
            graph.load(people("late"), mode="append")
    finally:
        engine.owner = mine
    commit_id: str = caught.value.commit_id
    return commit_id


# --- definitions --------------------------------------------------------------------------------------------------------


def test_the_definitions_load_and_have_their_fixed_names(here: Location) -> None:
    dg.Definitions.validate_loadable(here.defs)
    repository = here.defs.get_repository_def()
    keys = {key.to_user_string() for key in repository.asset_graph.get_all_asset_keys()}
    assert keys >= {f"people/upkeep/{kind}" for kind in KINDS}
    assert {"nightly_upkeep", "compaction", "cleanup", "reconcile", "scrub"} <= {
        job.name for job in repository.get_all_jobs()
    }
    sensors = {sensor.name: sensor.default_status for sensor in repository.sensor_defs}
    assert sensors == dict.fromkeys(
        ("manifest_fragments", "version_backlog", "pending_intents", "run_failures"), dg.DefaultSensorStatus.RUNNING
    )
    schedules = {one.name: (one.cron_schedule, one.default_status) for one in repository.schedule_defs}
    assert schedules == {
        "nightly_optimize": ("0 2 * * *", dg.DefaultScheduleStatus.RUNNING),
        "nightly_cleanup": ("30 2 * * *", dg.DefaultScheduleStatus.RUNNING),
        "weekly_scrub": ("0 4 * * 0", dg.DefaultScheduleStatus.RUNNING),
    }


def test_every_upkeep_asset_takes_the_pool_of_the_branch(here: Location) -> None:
    graph = here.repository.asset_graph
    for kind in KINDS:
        assert graph.get(dg.AssetKey(["people", "upkeep", kind])).pools == {"graph_people_main"}


@pytest.mark.parametrize("kind", KINDS)
def test_upkeep_of_a_graph_that_is_not_there_yet_makes_it_and_finds_nothing_to_do(here: Location, kind: str) -> None:
    assert here.materialize(kind).success


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_without_config_is_a_run(graph: og.Graph, here: Location, kind: str) -> None:
    result = here.materialize(kind)
    assert result.success
    assert told(result)["head"] == graph.snapshot().commit_id


# --- what each does -----------------------------------------------------------------------------------------------------


def test_optimize_tells_fragments_before_and_after(graph: og.Graph, here: Location) -> None:
    before = graph.snapshot().to_arrow("Person").sort_by("id")
    found = told(here.materialize("optimize"))
    assert found["fragments_before"] > found["fragments"]
    assert found["tables_changed"] >= 1
    assert graph.snapshot().to_arrow("Person").sort_by("id").equals(before)
    again = told(here.materialize("optimize"))
    assert (again["tables_changed"], again["fragments"]) == (0, found["fragments"])


def test_a_run_that_changes_nothing_keeps_the_data_version(graph: og.Graph, here: Location) -> None:
    versions = []
    for _ in range(3):
        [event] = here.materialize("optimize").get_asset_materialization_events()
        versions.append(event.materialization.tags["dagster/data_version"])
    assert versions[1] == versions[2] == graph.snapshot().commit_id


def test_compaction_merges_the_archive(here: Location, local_root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "TAIL_ROLL", 2)
    monkeypatch.setattr(state, "TAIL_KEEP", 1)
    with make(local_root, commits=6) as graph:
        assert graph.probe("manifest_fragments") > 1
        ids = [one.id for one in graph.commits()]
        found = told(here.materialize("compaction", {"fragments_max": 1}))
        assert found["changed"] is True
        assert found["fragments"] == graph.probe("manifest_fragments") == 1
        assert [one.id for one in graph.commits()] == ids


def test_cleanup_deletes_what_the_graph_file_lets_go(graph: og.Graph, here: Location) -> None:
    found = told(here.materialize("cleanup"))
    assert found["versions_deleted"] > 0
    assert found["backlog"] < found["backlog_before"]
    assert found["boundary"] > 0
    assert graph.verify(deep=True).clean


def test_cleanup_can_be_told_to_keep_more(graph: og.Graph, here: Location) -> None:
    assert told(here.materialize("cleanup", {"keep": 50}))["versions_deleted"] == 0


def test_reconcile_rolls_a_complete_write_forward(graph: og.Graph, here: Location) -> None:
    commit_id = interrupt(graph, "publish.before_swap")
    found = told(here.materialize("reconcile"))
    assert (found["pending_before"], found["rolled_forward"], found["rolled_back"]) == (1, 1, 0)
    assert graph.outcome(commit_id).landed


def test_reconcile_rolls_an_incomplete_write_back(graph: og.Graph, here: Location) -> None:
    commit_id = interrupt(graph, "apply.before_commit")
    found = told(here.materialize("reconcile"))
    assert (found["pending_before"], found["rolled_forward"], found["rolled_back"]) == (1, 0, 1)
    assert graph.outcome(commit_id).aborted
    assert graph.intents() == ()


def test_reconcile_puts_tables_back_that_have_versions_of_nobody(graph: og.Graph, here: Location) -> None:
    displace(graph, "node:Person")
    assert told(here.materialize("reconcile"))["tables_healed"] == 1
    assert graph.verify(deep=True).clean


# --- dry, paused, refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_dry_run_changes_nothing_and_materialises_nothing(
    graph: og.Graph, here: Location, local_root: str, kind: str
) -> None:
    leave_ticket(graph, "node:Person")

    def files() -> set[str]:
        return {str(path.relative_to(local_root)) for path in Path(local_root).rglob("*") if path.is_file()}

    before = files()
    result = here.materialize(kind, {"dry_run": True})
    assert result.success
    assert files() == before
    assert result.get_asset_materialization_events() == []
    assert observed(result)["dry_run"] is True


@pytest.mark.parametrize("kind", KINDS)
def test_paused_upkeep_refuses_unless_it_is_forced(graph: og.Graph, tmp_path: Path, local_root: str, kind: str) -> None:
    with location(tmp_path / "paused", local_root, upkeep={**SOON, "paused": True}) as here:
        refused = here.materialize(kind)
        assert not refused.success
        assert "paused" in failure(refused).description
        assert failure(refused).metadata["code"].value == "refused"
        assert here.materialize(kind, {"force": True}).success


def test_cleanup_refuses_where_a_boundary_mark_is_missing(graph: og.Graph, here: Location, local_root: str) -> None:
    here.materialize("cleanup")
    graph.load(people("more"), mode="append")
    graph.load(people("and", "more of them"), mode="append")
    shutil.rmtree(Path(local_root) / "__boundary")
    versions = sorted(Path(local_root).rglob("*.manifest"))
    result = here.materialize("cleanup")
    assert not result.success
    assert failure(result).metadata["code"].value == "corruption"
    assert "boundary mark" in failure(result).description
    assert sorted(Path(local_root).rglob("*.manifest")) == versions
    tick = here.tick("version_backlog")
    assert tick.run_requests == []
    assert "boundary mark" in tick.skip_message


def test_two_runs_beside_each_other_that_know_no_pool_leave_a_sound_graph(
    graph: og.Graph, tmp_path: Path, local_root: str
) -> None:
    """Pools are traffic control: here none is enforced, and writers go on."""

    def run(kind: str, number: int) -> bool:
        with location(tmp_path / f"location{number}", local_root, upkeep=SOON) as here:
            succeeded: bool = here.materialize(kind).success
            return succeeded

    with ThreadPoolExecutor(4) as threads:
        kinds = ("optimize", "cleanup", "optimize", "reconcile")
        runs = [threads.submit(run, kind, number) for number, kind in enumerate(kinds)]
        for number in range(6):
            graph.load(people(f"beside{number}"), mode="append")
        assert [one.result() for one in runs] == [True] * 4
    names = set(graph.snapshot().to_arrow("Person")["name"].to_pylist())
    assert names == {f"p{number}" for number in range(4)} | {f"beside{number}" for number in range(6)}
    assert graph.verify(deep=True).clean


def test_the_steps_of_a_night_go_in_its_order(tmp_path: Path, local_root: str) -> None:
    with location(tmp_path / "location", local_root) as here, make(local_root, commits=2):
        run = here.run("nightly_upkeep")
        assert run.success
        made = [event.asset_key.path[-1] for event in run.get_asset_materialization_events()]
        assert made == ["reconcile", "optimize", "compaction", "cleanup"]


# --- scrub --------------------------------------------------------------------------------------------------------------


def rotten(graph: og.Graph) -> Path:
    data = Path(graph.uri, pin_of(graph, "node:Person").location, "data")
    return max(data.glob("*.lance"))


def check_of(result: Any) -> Any:
    [found] = result.get_asset_check_evaluations()
    return found


def test_a_scrub_reads_every_file_and_finds_a_sound_graph_sound(graph: og.Graph, here: Location) -> None:
    before = og.open(graph.uri, read_only=True).verify(deep=True)
    result = here.run("scrub")
    found = told(result)
    assert (found["files"], found["bytes"], found["damaged"]) == (before.files, before.bytes, 0)
    assert check_of(result).passed
    assert found["head"] == graph.snapshot().commit_id


def test_a_scrub_that_finds_rot_fails_a_check_with_the_name_of_the_file(graph: og.Graph, here: Location) -> None:
    file = rotten(graph)
    rot.flip(file, at=9, bit=3)
    result = here.run("scrub")
    assert not result.success
    failed = check_of(result)
    assert not failed.passed
    [row] = failed.metadata["damage"].records
    assert str(file.relative_to(graph.uri)) in row.data["what"]
    assert told(result)["damaged"] == 1  # the plot has its number
    assert failure(result).description == f"1 problems, the first: {row.data['what']}"


def test_a_scrub_waits_for_nobody_and_keeps_nobody_waiting(here: Location) -> None:
    assert here.repository.asset_graph.get(SCRUB).pools == set()


def test_a_scrub_of_a_graph_that_is_not_there_yet_makes_none(here: Location, local_root: str) -> None:
    result = here.run("scrub")
    assert result.success and check_of(result).passed
    assert result.get_asset_materialization_events() == []
    assert not Path(local_root).exists()


def test_a_scrub_reads_at_the_rate_of_the_graph_file(
    graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates: list[Any] = []
    whole = verifying.verify_files
    monkeypatch.setattr(
        verifying, "verify_files", lambda engine, **given: rates.append(given["bytes_per_s"]) or whole(engine, **given)
    )
    settings = {"scrub": {"cron": "0 5 * * 6", "bytes_per_s": 900_000}}
    with location(tmp_path / "another", graph.uri, upkeep=settings) as here:
        assert here.run("scrub").success
        assert here.run("scrub", {"bytes_per_s": 800_000}).success
        assert here.repository.get_schedule_def("weekly_scrub").cron_schedule == "0 5 * * 6"
    assert rates == [900_000, 800_000]


@pytest.mark.parametrize(
    ("uri", "enabled", "is_on"),
    [
        ("people.omni", None, True),
        ("s3://bucket/people", None, False),
        ("s3://bucket/people", True, True),
        ("people.omni", False, False),
        ({"env": "SCRUBBED"}, None, False),
    ],
)
def test_the_weekly_scrub_is_off_on_an_object_store_unless_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: Any, enabled: bool | None, is_on: bool
) -> None:
    monkeypatch.setenv("SCRUBBED", "s3://bucket/of/a/variable")
    with location(tmp_path / "another", uri, upkeep={"scrub": {"enabled": enabled}}) as here:
        status = here.repository.get_schedule_def("weekly_scrub").default_status
    assert (status is dg.DefaultScheduleStatus.RUNNING) == is_on


def test_paused_upkeep_scrubs_only_when_forced(graph: og.Graph, tmp_path: Path) -> None:
    with location(tmp_path / "another", graph.uri, upkeep={"paused": True}) as here:
        assert not here.run("scrub").success
        assert here.run("scrub", {"force": True}).success
