"""A site as in production: web server, daemon and code server as processes of their own, each killed and started alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import dagster as dg
import yaml

from tests.e2e.site import LOCATION, START_S, WAIT_S, Site, free_port

PARTS = ("code", "web", "daemon")


class SplitSite(Site):
    """``parts``: the process of each part that runs."""

    def __init__(self, folder: Path, **given: Any) -> None:
        super().__init__(folder, **given)
        self.parts: dict[str, subprocess.Popen[bytes]] = {}
        self.code_port = free_port()
        self.port = free_port()
        server = {"host": "127.0.0.1", "port": self.code_port, "location_name": LOCATION}
        self.workspace = folder / "workspace.yaml"
        self.workspace.write_text(yaml.safe_dump({"load_from": [{"grpc_server": server}]}))

    def start(self, **environment: str) -> None:
        # The tables of the history are made by one process: two at once disturb each other, on SQLite.
        with dg.DagsterInstance.from_config(str(self.home)):
            pass
        for part in PARTS:
            self.start_part(part, **environment)
        self.until(self._is_up, START_S, "web server, daemon and code server are up")

    def start_part(self, part: str, **environment: str) -> None:
        """Start one process, as a supervisor would."""
        python, module = sys.executable, "omnigraph_pipelines.definitions"
        here, workspace = ["-h", "127.0.0.1", "-p"], ["-w", str(self.workspace)]
        commands = {
            "code": [python, "-m", "dagster", "api", "grpc", "-m", module, *here, str(self.code_port)],
            "web": [python, "-m", "dagster_webserver", *here, str(self.port), *workspace],
            "daemon": [python, "-m", "dagster._daemon", "run", *workspace],
        }
        env = {name: value for name, value in os.environ.items() if not name.startswith(("DAGSTER", "OMNIGRAPH"))}
        env |= {
            "DAGSTER_HOME": str(self.home),
            "OMNIGRAPH_GRAPH_FILE": str(self.folder / "graph.yaml"),
            "PYTHONPATH": os.pathsep.join([str(self.folder), os.environ.get("PYTHONPATH", "")]),
            **environment,
        }
        with (self.folder / f"{part}.log").open("ab") as log:
            self.parts[part] = subprocess.Popen(
                commands[part], cwd=self.folder, env=env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )

    def _is_up(self) -> bool:
        for part, process in self.parts.items():
            assert process.poll() is None, f"{part} has ended: {self.log()}"
        try:
            found = self.ask(
                "{ locationStatusesOrError { ... on WorkspaceLocationStatusEntries { entries { name loadStatus } } }"
                "  workspaceOrError { ... on Workspace { locationEntries { locationOrLoadError { __typename } } } }"
                "  instance { daemonHealth { allDaemonStatuses { daemonType required healthy } } } }"
            )
        except OSError:
            return False
        entries = found["workspaceOrError"]["locationEntries"]
        daemons = found["instance"]["daemonHealth"]["allDaemonStatuses"]
        return (
            [one["locationOrLoadError"]["__typename"] for one in entries] == ["RepositoryLocation"]
            and bool(daemons)
            and all(one["healthy"] for one in daemons if one["required"])
        )

    def kill_part(self, part: str) -> None:
        """This one process by its pid; what it has started lives on."""
        process = self.parts.pop(part)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(WAIT_S)

    def kill(self) -> None:
        for part in list(self.parts):
            session = self.parts[part].pid
            self.kill_part(part)
            for pid in self.processes(session):
                os.kill(pid, signal.SIGKILL)

    def log(self) -> str:
        files = [self.folder / f"{part}.log" for part in PARTS]
        return "\n".join(
            f"== {file.name}\n{file.read_text(errors='replace')[-3000:]}" for file in files if file.exists()
        )

    def worker_of(self, run_id: str) -> int | None:
        """The process that works on a run; None if none has said so yet."""
        found = self.ask(
            "query($r: ID!) { logsForRun(runId: $r) { ... on EventConnection { events { __typename"
            " ... on EngineEvent { metadataEntries { label ... on TextMetadataEntry { text } } } } } } }",
            r=run_id,
        )["logsForRun"]["events"]
        pids = [
            int(entry["text"])
            for event in found
            for entry in event.get("metadataEntries") or ()
            if entry["label"] == "pid" and str(entry.get("text", "")).isdigit()
        ]
        return pids[-1] if pids else None
