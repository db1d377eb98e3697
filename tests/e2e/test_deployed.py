"""Every process of deploy/, started with the arguments that the files give it, answers its own probe. Without Docker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import dagster as dg
import pytest
import yaml

import omnigraph as og
from tests.e2e.site import ROOT, START_S, can_be_interrupted, free_port
from tests.pipelines.test_deploy import COMPOSE, DEPLOY, MODULES, of_kind

pytestmark = [pytest.mark.system, pytest.mark.timeout(3000)]

PARTS = ("code", "daemon", "web")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The instance file of the deployment with its history here: there may be no PostgreSQL."""
    instance = yaml.safe_load((DEPLOY / "dagster.yaml").read_text())
    del instance["compute_logs"]
    instance["storage"] = {"sqlite": {"base_dir": str(tmp_path / "history")}}
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(instance))
    with dg.DagsterInstance.from_config(str(tmp_path)):
        pass  # its tables are made by one process
    return tmp_path


def line_of(command: list[str], replaced: Mapping[str, str]) -> list[str]:
    """A command of the files, as a process here: other ports, since those may be taken, and the workspace file of the test."""
    program, *arguments = [replaced.get(one, one) for one in command]
    return [sys.executable, "-m", MODULES[program], *arguments]


@contextmanager
def process(line: list[str], environment: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        found = subprocess.Popen(
            line,
            env=dict(environment),
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
            preexec_fn=can_be_interrupted,
        )
    try:
        yield found
    finally:
        found.send_signal(signal.SIGTERM)
        found.wait(START_S)


def until(holds: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    pause, deadline = threading.Event(), time.monotonic() + START_S
    while not holds():
        assert process.poll() is None and time.monotonic() < deadline, log.read_text(errors="replace")[-3000:]
        pause.wait(0.5)


def answers(port: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/server_info", timeout=30) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def passes(probe: list[str], environment: Mapping[str, str]) -> Callable[[], bool]:
    return lambda: subprocess.run(probe, env=dict(environment), capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("file", ["compose", "kubernetes"])
def test_every_process_starts_with_its_arguments_and_answers_its_probe(home: Path, local_root: str, file: str) -> None:
    og.init(local_root, DEPLOY / "social.pg").close()
    if file == "compose":
        commands = {name: COMPOSE["services"][name]["command"] for name in PARTS}
        probes = {name: COMPOSE["services"][name]["healthcheck"]["test"][1:] for name in PARTS if name != "web"}
    else:
        containers = {name: of_kind("Deployment")[name]["spec"]["template"]["spec"]["containers"][0] for name in PARTS}
        commands = {name: one["args"] for name, one in containers.items()}
        probes = {name: one["livenessProbe"]["exec"]["command"] for name, one in containers.items() if name != "web"}
    ports = {"4000": str(free_port()), "3000": str(free_port())}
    workspace = home / "workspace.yaml"
    text = (DEPLOY / "workspace.yaml").read_text()
    workspace.write_text(text.replace("host: code", "host: 127.0.0.1").replace("4000", ports["4000"]))
    graph = yaml.safe_load((DEPLOY / "graph.yaml").read_text())
    graph["graph"] |= {"uri": local_root, "schema": str(DEPLOY / "social.pg")}
    (home / "graph.yaml").write_text(yaml.safe_dump(graph))
    replaced = {**ports, "/opt/omnigraph/workspace.yaml": str(workspace), "0.0.0.0": "127.0.0.1"}
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("DAGSTER", "OMNIGRAPH"))},
        "DAGSTER_HOME": str(home),
        "OMNIGRAPH_GRAPH_FILE": str(home / "graph.yaml"),
        "SPARK_REMOTE": "sc://127.0.0.1:15002",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "engine")]),
    }
    with ExitStack() as stack:
        for name in PARTS:
            log = home / f"{name}.log"
            part = stack.enter_context(process(line_of(commands[name], replaced), environment, log))
            if name == "web":
                until(lambda: answers(ports["3000"]), part, log)
                continue
            until(passes(line_of(probes[name], replaced), environment), part, log)
