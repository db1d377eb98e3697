"""Whether a run is alive is seen by its process: not before it has told its number, and not by the number alone."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.events import EngineEventData

from omnigraph_pipelines.launcher import LocalRunLauncher
from omnigraph_pipelines.processes import SLACK_S, is_alive, is_gone, me

ROOT = Path(__file__).parents[2]
LOCAL = {".dagster/grpc_info": json.dumps({"host": "localhost", "socket": "/some/where"})}


@dg.job
def nothing() -> None:
    pass


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    overrides = {"run_launcher": {"module": "omnigraph_pipelines.launcher", "class": "LocalRunLauncher"}}
    with dg.instance_for_test(overrides=overrides) as found:
        assert isinstance(found.run_launcher, LocalRunLauncher)
        yield found


def health(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str:
    word: str = instance.run_launcher.check_run_worker_health(run).status.value
    return word


def test_a_run_is_alive_as_long_as_its_process(instance: dg.DagsterInstance, worker: subprocess.Popen[bytes]) -> None:
    run = instance.create_run_for_job(nothing, tags=LOCAL)
    assert health(instance, run) == "RUNNING"  # it has not told its number yet
    instance.report_engine_event("Started process", run, EngineEventData.in_process(worker.pid))
    assert health(instance, run) == "RUNNING"
    worker.kill()
    worker.wait()
    assert health(instance, run) == "FAILED"


def test_a_run_that_was_started_twice_is_alive_as_long_as_one_of_its_processes(
    instance: dg.DagsterInstance, worker: subprocess.Popen[bytes]
) -> None:
    run = instance.create_run_for_job(nothing, tags=LOCAL)
    instance.report_engine_event("Started process", run, EngineEventData.in_process(worker.pid))
    with subprocess.Popen([sys.executable, "-c", ""]) as second:
        second.wait()
    instance.report_engine_event("Started process", run, EngineEventData.in_process(second.pid))
    instance.report_engine_event("Process for run exited", run, EngineEventData.in_process(second.pid))
    assert health(instance, run) == "RUNNING"
    worker.kill()
    worker.wait()
    assert health(instance, run) == "FAILED"


def test_a_process_that_ended_and_was_not_collected_is_not_alive(worker: subprocess.Popen[bytes]) -> None:
    assert is_alive(worker.pid, time.time())
    worker.kill()
    os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
    assert not is_alive(worker.pid, time.time())


def test_a_process_that_says_who_it_is_is_gone_when_it_has_ended(worker: subprocess.Popen[bytes]) -> None:
    assert not is_gone(me())
    theirs = json.dumps({**json.loads(me()), "pid": worker.pid, "told_s": time.time()})
    assert not is_gone(theirs)
    worker.kill()
    worker.wait()
    assert is_gone(theirs)
    assert not is_gone(json.dumps({**json.loads(theirs), "host": "elsewhere"}))
    assert not any(is_gone(told) for told in (None, "", "{}", "[]", "null", '{"host": 1, "pid": "x", "told_s": 0}'))


def test_another_process_under_the_same_number_is_not_the_run(worker: subprocess.Popen[bytes]) -> None:
    assert not is_alive(worker.pid, time.time() - 10 * SLACK_S)


def test_a_run_of_another_machine_is_left_to_it(instance: dg.DagsterInstance, worker: subprocess.Popen[bytes]) -> None:
    tags = {".dagster/grpc_info": json.dumps({"host": "elsewhere", "port": 4000})}
    run = instance.create_run_for_job(nothing, tags=tags)
    instance.report_engine_event("Started process", run, EngineEventData.in_process(worker.pid))
    worker.kill()
    worker.wait()
    assert health(instance, run) == "RUNNING"


CODE = "import dagster as dg\n@dg.asset\ndef one(): ...\ndefs = dg.Definitions(assets=[one])\n"


def test_a_code_server_in_another_container_is_asked_and_one_that_was_started_anew_knows_no_run(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    (tmp_path / "code_of_a_test.py").write_text(CODE)
    with socket.socket() as held:
        held.bind(("", 0))
        port = held.getsockname()[1]
    # Any name but those of this machine itself: the launcher takes it for another one.
    tags = {".dagster/grpc_info": json.dumps({"host": "127.0.0.2", "port": port})}
    run = instance.create_run_for_job(nothing, tags=tags)
    assert health(instance, run) == "RUNNING", "nothing answers: that says nothing about the run"
    command = [
        sys.executable,
        "-m",
        "dagster",
        "api",
        "grpc",
        "-m",
        "code_of_a_test",
        "-h",
        "127.0.0.2",
        "-p",
        str(port),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    with subprocess.Popen(command, cwd=tmp_path, env=environment) as server:
        try:
            deadline = time.monotonic() + 300
            while health(instance, run) == "RUNNING" and time.monotonic() < deadline:
                assert server.poll() is None, "the code server has ended"
            assert health(instance, run) == "FAILED"
        finally:
            server.kill()
