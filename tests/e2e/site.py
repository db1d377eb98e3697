"""A graph that is looked after by a real web server and daemon: files to drop, a process to start, stop and kill, GraphQL.

Nothing here knows what a test wants to see. Waiting is asking again until it is so, up to a limit that a busy machine keeps.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

import omnigraph as og

ROOT = Path(__file__).parents[2]
LOCATION = "omnigraph_pipelines"
# What a batch of the source ``crm`` materializes.
CRM = (("social", "crm", "commit"), ("social", "crm", "Person"), ("social", "crm", "Follows"))
# Limits, not waits: on a machine that is busy with other things everything takes ten times as long.
START_S = 600.0
WAIT_S = 600.0

SCHEMA = """
node Person { name: String @key  age: I32?  @range(age, 0..150) }
edge Follows: Person -> Person { since: I32? }
"""

# A project's own notifier: it writes what it is told into a file beside it.
HOOK = """
import json, pathlib

def tell(alert):
    with open(pathlib.Path(__file__).with_name("alerts.jsonl"), "a") as out:
        print(json.dumps(alert), file=out)
"""

SETTINGS: dict[str, Any] = {
    "graph": {"name": "social", "uri": "data/social.omni", "schema": "social.pg"},
    "sources": [
        {
            "name": "crm",
            "batches": "landing/crm/*/",
            "ready": "_SUCCESS",
            "mode": "merge",
            "interval_s": 5,
            "tables": [
                {"node": "Person", "files": "people*.csv", "columns": {"name": "full_name"}},
                {"edge": "Follows", "files": "follows*.csv", "from": "src", "to": "dst", "optional": True},
            ],
        },
        {
            "name": "feed",
            "batches": "landing/feed/*.jsonl",
            "format": "graph",
            "mode": "merge",
            "interval_s": 5,
            "checks": {"on_bad_row": "quarantine", "bad_rows_max": 0.5},
        },
    ],
    "upkeep": {
        "compaction": {"fragments_max": 4, "fragments_low": 1, "interval_s": 5},
        "cleanup": {
            "keep": 5,
            "older_than": None,
            "min_age": "0s",
            "versions_max": 12,
            "versions_low": 9,
            "interval_s": 5,
        },
        "reconcile": {"grace_s": 5, "interval_s": 5},
    },
    "alerts": {"hook": "hook_of_the_site:tell"},
}


def free_port() -> int:
    """One that was free a moment ago."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


class Site:
    """``folder`` holds everything: the graph file, the landing place, the graph, Dagster's history and logs."""

    def __init__(self, folder: Path, *, spark: Mapping[str, Any], storage: Mapping[str, Any] | None = None) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        (folder / "social.pg").write_text(SCHEMA)
        (folder / "hook_of_the_site.py").write_text(HOOK)
        (folder / "graph.yaml").write_text(yaml.safe_dump({**SETTINGS, "spark": dict(spark)}))
        (self.home / "dagster.yaml").write_text(yaml.safe_dump(self._instance(storage)))
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0

    def _instance(self, storage: Mapping[str, Any] | None) -> dict[str, Any]:
        """The repository's own instance file, with its folders here and a place in a pool given back sooner."""
        found: dict[str, Any] = yaml.safe_load((ROOT / "dagster.yaml").read_text())
        history = self.folder / "history"
        found["storage"] = dict(storage or {"sqlite": {"base_dir": str(history / "storage")}})
        found["local_artifact_storage"]["config"]["base_dir"] = str(history / "artifacts")
        found["compute_logs"]["config"]["base_dir"] = str(history / "logs")
        found["run_monitoring"] |= {"free_slots_after_run_end_seconds": 3, "poll_interval_seconds": 3}
        return found

    # --- the graph and what is dropped --------------------------------------------------------------------------------

    @property
    def uri(self) -> str:
        return str(self.folder / "data" / "social.omni")

    def open(self) -> og.Graph:
        return og.open(self.uri, read_only=True)

    def names(self) -> set[str]:
        with self.open() as graph:
            return set(graph.snapshot().to_arrow("Person")["name"].to_pylist())

    def commits(self) -> list[Any]:
        """Loads, oldest first."""
        with self.open() as graph:
            return [one for one in reversed(graph.commits()) if one.idempotency_key]

    def drop_crm(self, batch: str, *people: tuple[str, Any], follows: Sequence[tuple[str, str]] = ()) -> None:
        """A folder that is complete when its marker is there."""
        folder = self.folder / "landing" / "crm" / batch
        folder.mkdir(parents=True)
        rows = "".join(f"{name},{age}\n" for name, age in people)
        (folder / "people.csv").write_text(f"full_name,age\n{rows}")
        if follows:
            (folder / "follows.csv").write_text("src,dst\n" + "".join(f"{src},{dst}\n" for src, dst in follows))
        (folder / "_SUCCESS").touch()

    def drop_feed(self, batch: str, *records: Mapping[str, Any]) -> None:
        landing = self.folder / "landing" / "feed"
        landing.mkdir(parents=True, exist_ok=True)
        (landing / f".{batch}").write_text("".join(json.dumps(record) + "\n" for record in records))
        (landing / f".{batch}").rename(landing / f"{batch}.jsonl")

    def alerts(self) -> list[dict[str, Any]]:
        file = self.folder / "alerts.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    # --- the processes ------------------------------------------------------------------------------------------------

    def start(self, **environment: str) -> None:
        """``./run ui``, as somebody at a terminal would, and return when everything is up."""
        assert self._process is None
        self.port = free_port()
        self._starts += 1
        log = (self.folder / f"ui-{self._starts}.log").open("wb")
        env = {name: value for name, value in os.environ.items() if not name.startswith(("DAGSTER", "OMNIGRAPH"))}
        env |= {
            "DAGSTER_HOME": str(self.home),
            "OMNIGRAPH_GRAPH_FILE": str(self.folder / "graph.yaml"),
            "PYTHONPATH": str(self.folder),
            **environment,
        }
        self._process = subprocess.Popen(
            ["./run", "ui", "-h", "127.0.0.1", "-p", str(self.port)],
            cwd=ROOT,
            env=env,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=can_be_interrupted,
        )
        log.close()
        self.until(self._is_up, START_S, "web server and daemon are up")

    def _is_up(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log()
        try:
            found = self.ask(
                "{ locationStatusesOrError { ... on WorkspaceLocationStatusEntries { entries { name loadStatus } } }"
                "  instance { daemonHealth { allDaemonStatuses { daemonType required healthy } } } }"
            )
        except OSError:
            return False
        entries = found["locationStatusesOrError"]["entries"]
        daemons = found["instance"]["daemonHealth"]["allDaemonStatuses"]
        return (
            [one["loadStatus"] for one in entries] == ["LOADED"]
            and bool(daemons)
            and all(one["healthy"] for one in daemons if one["required"])
        )

    def log(self) -> str:
        return (self.folder / f"ui-{self._starts}.log").read_text(errors="replace")[-4000:]

    def stop(self) -> int:
        """Interrupt it, as at a terminal, and return its exit code when all of it has gone by itself."""
        process = self._process
        assert process is not None
        process.send_signal(signal.SIGINT)
        try:
            code = process.wait(WAIT_S)
            self.until(lambda: not self.processes(process.pid), 60, "its children have gone")
        finally:
            self.kill()
        return code

    def kill(self) -> None:
        """All of it at once: web server, daemon, code servers and the workers of runs."""
        process, self._process = self._process, None
        if process is not None:
            for pid in self.processes(process.pid):
                _kill(pid)
            process.wait(WAIT_S)

    def processes(self, session: int) -> list[int]:
        """Processes of the session that was started, the leader first."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                if int(fields[3]) == session and fields[0] != "Z":
                    found.append(int(entry.name))
        return sorted(found)

    # --- GraphQL ------------------------------------------------------------------------------------------------------

    def ask(self, query: str, **variables: Any) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/graphql",
            data=json.dumps({"query": query, "variables": variables}).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                found = json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode(errors="replace")) from error
        assert "errors" not in found, found["errors"]
        return found["data"]

    def until(self, holds: Callable[[], Any], limit_s: float = WAIT_S, what: str = "") -> Any:
        """What ``holds`` returns once it is true."""
        pause = threading.Event()
        deadline = time.monotonic() + limit_s
        while True:
            found = holds()
            if found:
                return found
            if time.monotonic() > deadline:
                raise AssertionError(f"not so after {limit_s:.0f} s: {what}\n{self.told()}")
            pause.wait(0.5)

    def told(self) -> str:
        """For whoever reads a failure: the runs, and the end of the log."""
        try:
            runs = "\n".join(f"{run['status']} {run['jobName']} {run['tags']}" for run in self.runs())
        except (OSError, AssertionError) as error:
            runs = repr(error)
        return f"{runs}\n{self.log()}"

    def runs(self, **tags: str) -> list[dict[str, Any]]:
        """Newest first; ``tags`` by their last word, as in ``upkeep="cleanup"``."""
        found = self.ask(
            "query($f: RunsFilter) { runsOrError(filter: $f, limit: 200) { ... on Runs { results {"
            " runId status jobName tags { key value } } } } }",
            f={"tags": [{"key": f"omnigraph/{name}", "value": value} for name, value in tags.items()]},
        )["runsOrError"]["results"]
        for run in found:
            run["tags"] = {tag["key"]: tag["value"] for tag in run["tags"]}
        return list(found)

    def ended(self, status: str, **tags: str) -> list[dict[str, Any]]:
        return [run for run in self.runs(**tags) if run["status"] == status]

    def launch(self, job: str, config: Mapping[str, Any] | None = None) -> str:
        """Start a job by hand; returns the run's id."""
        found = self.ask(
            "mutation($p: ExecutionParams!) { launchPipelineExecution(executionParams: $p) { __typename"
            " ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }",
            p={"selector": {**_repository(), "pipelineName": job}, "runConfigData": dict(config or {})},
        )["launchPipelineExecution"]
        assert found["__typename"] == "LaunchRunSuccess", found
        run_id: str = found["run"]["runId"]
        return run_id

    def outcome(self, run_id: str) -> str:
        """Status of a run once it has ended."""

        def ended() -> str | None:
            found = self.ask("query($r: ID!) { runOrError(runId: $r) { ... on Run { status } } }", r=run_id)[
                "runOrError"
            ]["status"]
            return str(found) if found in ("SUCCESS", "FAILURE", "CANCELED") else None

        found: str = self.until(ended, what=f"run {run_id} has ended")
        return found

    def materializations(self, *key: str) -> list[dict[str, Any]]:
        """Metadata of each, newest first."""
        found = self.ask(
            "query($k: AssetKeyInput!) { assetOrError(assetKey: $k) { ... on Asset { assetMaterializations(limit: 50) {"
            " partition runId metadataEntries { label __typename ... on IntMetadataEntry { intValue }"
            " ... on FloatMetadataEntry { floatValue } ... on TextMetadataEntry { text } ... on PathMetadataEntry { path }"
            " ... on BoolMetadataEntry { boolValue } ... on TableMetadataEntry { table { records } } } } } } }",
            k={"path": list(key)},
        )["assetOrError"]
        return [
            {
                "partition": one["partition"],
                "run_id": one["runId"],
                **{
                    entry["label"]: next((v for k, v in entry.items() if k not in ("label", "__typename")), None)
                    for entry in one["metadataEntries"]
                },
            }
            for one in found.get("assetMaterializations", [])
        ]

    def ticks(self, sensor: str) -> list[dict[str, Any]]:
        found = self.ask(
            "query($s: SensorSelector!) { sensorOrError(sensorSelector: $s) { ... on Sensor { sensorState {"
            " status ticks(limit: 50) { status skipReason runIds error { message } } } } } }",
            s={**_repository(), "sensorName": sensor},
        )["sensorOrError"]["sensorState"]
        return list(found["ticks"])

    def stop_sensor(self, sensor: str) -> None:
        found = self.ask(
            "query($s: SensorSelector!) { sensorOrError(sensorSelector: $s) { ... on Sensor { id sensorState { id } } } }",
            s={**_repository(), "sensorName": sensor},
        )["sensorOrError"]
        self.ask("mutation($i: String!) { stopSensor(id: $i) { __typename } }", i=found["id"])

    def start_sensor(self, sensor: str) -> None:
        self.ask(
            "mutation($s: SensorSelector!) { startSensor(sensorSelector: $s) { __typename } }",
            s={**_repository(), "sensorName": sensor},
        )

    def backfill(self, partitions: list[str], *keys: tuple[str, ...]) -> str:
        found = self.ask(
            "mutation($p: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $p) { __typename"
            " ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }",
            p={"partitionNames": partitions, "assetSelection": [{"path": list(key)} for key in keys]},
        )["launchPartitionBackfill"]
        assert found["__typename"] == "LaunchBackfillSuccess", found
        backfill_id: str = found["backfillId"]
        return backfill_id

    def backfill_status(self, backfill_id: str) -> str:
        found: str = self.ask(
            "query($b: String!) { partitionBackfillOrError(backfillId: $b) { ... on PartitionBackfill { status } } }",
            b=backfill_id,
        )["partitionBackfillOrError"]["status"]
        return found

    def add_partition(self, definition: str, partition: str) -> None:
        self.ask(
            "mutation($r: RepositorySelector!, $d: String!, $p: String!) { addDynamicPartition(repositorySelector: $r,"
            " partitionsDefName: $d, partitionKey: $p) { __typename } }",
            r=_repository(),
            d=definition,
            p=partition,
        )

    def slots_taken(self) -> int:
        found = self.ask("{ instance { concurrencyLimits { concurrencyKey activeSlotCount } } }")
        return sum(one["activeSlotCount"] for one in found["instance"]["concurrencyLimits"])

    def failure_text(self, run_id: str) -> str:
        """Everything that the event log says of a run's failures, as one text."""
        found = self.ask(
            "query($r: ID!) { logsForRun(runId: $r) { ... on EventConnection { events { __typename"
            " ... on MessageEvent { message } ... on ExecutionStepFailureEvent { error { message }"
            "   failureMetadata { metadataEntries { label ... on TextMetadataEntry { text } } } }"
            " ... on AssetCheckEvaluationEvent { evaluation { success checkName description metadataEntries { label"
            "   ... on TextMetadataEntry { text } ... on TableMetadataEntry { table { records } } } } } } } } }",
            r=run_id,
        )
        return json.dumps(found)


def _repository() -> dict[str, str]:
    return {"repositoryLocationName": LOCATION, "repositoryName": "__repository__"}


def can_be_interrupted() -> None:
    """Whoever starts tests in the background leaves interrupts ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


class SparkServer:
    """A Connect server of its own, so that no run starts Java."""

    def __init__(self, folder: Path) -> None:
        self.remote = f"sc://127.0.0.1:{free_port()}"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.spark_server", self.remote.rpartition(":")[2]],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'engine'}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(folder / "spark.log").open("wb"),
        )
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        assert said == b"ready\n", (folder / "spark.log").read_text()[-4000:]

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
