"""Runs of one source go in the order in which they were asked for; the order of a backfill is that of its keys."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

import omnigraph as og
from omnigraph_pipelines.cli.running import _wait_for_others
from omnigraph_pipelines.defs.ingest.names import PROCESS_TAG, Names
from omnigraph_pipelines.defs.ingest.turns import POLL_S, earlier, end_the_dead, unfinished, wait_for_turn
from omnigraph_pipelines.processes import me
from omnigraph_pipelines.settings import GraphSettings, SourceSettings
from omnigraph_pipelines.settled import idempotency_key

GRAPH = GraphSettings.model_validate({"name": "people", "uri": "people.omni", "schema": "people.pg"})


def names(source: str = "crm", order: str = "serial") -> Names:
    given = {"name": source, "batches": "landing/*.jsonl", "format": "graph", "mode": "append", "order": order}
    return Names(GRAPH, SourceSettings.model_validate(given))


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def a_run(instance: dg.DagsterInstance, of: Names, *, tagged: bool = True, ended: bool = False) -> str:
    """A run of the job of a source; or one that somebody started from its assets, as a backfill does."""
    run = dg.DagsterRun(
        job_name=of.job if tagged else "__ASSET_JOB",
        run_id=dg.DagsterRun(job_name="x").run_id,
        tags=of.tags() if tagged else {},
        asset_selection=None if tagged else {of.commit},
        status=dg.DagsterRunStatus.SUCCESS if ended else dg.DagsterRunStatus.STARTED,
    )
    instance.add_run(run)
    return run.run_id


def test_a_run_waits_for_those_of_its_source_that_were_asked_for_before(instance: dg.DagsterInstance) -> None:
    first, other = a_run(instance, names()), a_run(instance, names("feed"))
    ended, backfill = a_run(instance, names(), ended=True), a_run(instance, names(), tagged=False)
    mine, later = a_run(instance, names()), a_run(instance, names())
    assert [one.dagster_run.run_id for one in earlier(instance, names(), mine)] == [first, backfill]
    assert [one.dagster_run.run_id for one in unfinished(instance, names())] == [first, backfill, mine, later]
    assert other not in [one.dagster_run.run_id for one in unfinished(instance, names())] and ended


def test_a_run_that_died_with_its_process_is_in_nobodys_way(instance: dg.DagsterInstance) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        told = json.dumps({**json.loads(me()), "pid": process.pid, "told_s": time.time()})
        died, lives = a_run(instance, names()), a_run(instance, names())
        instance.add_run_tags(died, {PROCESS_TAG: told})
        instance.add_run_tags(lives, {PROCESS_TAG: me()})
        mine = a_run(instance, names())
        assert [one.dagster_run.run_id for one in earlier(instance, names(), mine)] == [died, lives]
        assert end_the_dead(instance, names()) == 0
        process.kill()
    assert [one.dagster_run.run_id for one in earlier(instance, names(), mine)] == [lives]
    assert end_the_dead(instance, names()) == 1
    run = instance.get_run_by_id(died)
    assert run is not None and run.status is dg.DagsterRunStatus.FAILURE


def test_an_ended_run_holds_no_place_though_no_daemon_runs(tmp_path: Path) -> None:
    instance = dg.DagsterInstance.local_temp(str(tmp_path))
    pool, storage = names().pool, instance.event_log_storage
    assert pool is not None and storage.supports_global_concurrency_limits
    storage.set_concurrency_slots(pool, 1)
    ended, mine = a_run(instance, names()), a_run(instance, names())
    assert storage.claim_concurrency_slot(pool, ended, "stage").is_claimed
    assert not storage.claim_concurrency_slot(pool, mine, "stage").is_claimed
    run = instance.get_run_by_id(ended)
    assert run is not None
    instance.report_run_failed(run)
    end_the_dead(instance, names())
    assert storage.claim_concurrency_slot(pool, mine, "stage").is_claimed


def test_a_command_says_whom_it_waits_for_and_gives_up(instance: dg.DagsterInstance) -> None:
    other = a_run(instance, names())
    told: list[str] = []
    with pytest.raises(og.errors.Overloaded) as given_up:
        _wait_for_others(instance, names(), told.append, wait=lambda _: None, wait_max_s=10)
    assert len(told) == 1 and other in told[0]
    assert other in given_up.value.message and given_up.value.hint

    def pause(_: float) -> None:
        instance.delete_run(other)

    _wait_for_others(instance, names(), told.append, wait=pause)
    assert len(told) == 2


def test_the_place_of_a_run_that_has_ended_is_free_where_no_daemon_sees_to_it(tmp_path: Path) -> None:
    with dg.instance_for_test(
        temp_dir=str(tmp_path), overrides={"concurrency": {"pools": {"default_limit": 1}}}
    ) as instance:
        pool, storage = names().pool or "", instance.event_log_storage
        ended, waited = a_run(instance, names(), ended=True), a_run(instance, names(), ended=True)
        storage.initialize_concurrency_limit_to_default(pool)
        assert storage.claim_concurrency_slot(pool, ended, "stage").is_claimed
        assert not storage.claim_concurrency_slot(pool, waited, "stage").is_claimed
        assert end_the_dead(instance, names()) == 0
        lives = a_run(instance, names())
        assert storage.claim_concurrency_slot(pool, lives, "stage").is_claimed
        end_the_dead(instance, names())
        assert storage.get_concurrency_info(pool).active_run_ids == {lives}


def context_of(instance: dg.DagsterInstance, run_id: str) -> Any:
    return SimpleNamespace(
        instance=instance, run=SimpleNamespace(run_id=run_id), log=SimpleNamespace(info=print, warning=print)
    )


def test_the_turn_comes_when_the_earlier_runs_have_ended(instance: dg.DagsterInstance) -> None:
    first = a_run(instance, names())
    mine = a_run(instance, names())
    looks: list[float] = []

    def pause(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 3:
            instance.delete_run(first)

    assert wait_for_turn(context_of(instance, mine), names(), wait=pause) == 3 * POLL_S
    assert wait_for_turn(context_of(instance, mine), names(), wait=pause) == 0


def test_waiting_has_a_bound_and_names_the_run_in_the_way(instance: dg.DagsterInstance) -> None:
    first = a_run(instance, names())
    mine = a_run(instance, names())
    with pytest.raises(dg.Failure) as given_up:
        wait_for_turn(context_of(instance, mine), names(), wait=lambda _: None, wait_max_s=10)
    assert first in str(given_up.value.description) and not given_up.value.allow_retries


def test_a_source_without_an_order_waits_for_nobody(instance: dg.DagsterInstance) -> None:
    a_run(instance, names())
    assert wait_for_turn(context_of(instance, a_run(instance, names())), names(order="any")) == 0
    assert names(order="any").pool is None


def test_a_backfill_asks_for_runs_in_the_order_of_keys_whenever_they_arrived(tmp_path: Path) -> None:
    from dagster._core.definitions.automation_tick_evaluation_context import build_run_requests_with_backfill_policies
    from dagster._core.definitions.events import AssetKeyPartitionKey

    from omnigraph_pipelines.definitions import build_definitions
    from omnigraph_pipelines.graph_file import load_graph_file

    (tmp_path / "people.pg").write_text("node Person { name: String @key }\n")
    (tmp_path / "graph.yaml").write_text(
        "graph: {name: people, uri: people.omni, schema: people.pg}\n"
        "sources: [{name: feed, batches: 'landing/*.jsonl', format: graph, mode: append}]\n"
    )
    graph = build_definitions(load_graph_file(tmp_path / "graph.yaml")).get_repository_def().asset_graph
    keys = [dg.AssetKey(["people", "feed", name]) for name in ("Person", "commit")]
    with dg.DagsterInstance.ephemeral() as instance:
        arrived = ["c", "a", "e", "b", "d"]
        instance.add_dynamic_partitions("people/feed", arrived)
        wanted = [AssetKeyPartitionKey(key, batch) for batch in arrived for key in keys]
        asked = build_run_requests_with_backfill_policies(wanted, graph, instance)
    assert [one.partition_key for one in asked] == ["a", "b", "c", "d", "e"]
    assert all(set(one.asset_selection or ()) == set(keys) for one in asked)


def test_the_key_of_a_commit_has_the_source_the_batch_and_its_contents() -> None:
    assert idempotency_key("crm", "2026-01-05", "f00") == "crm/2026-01-05/f00"
