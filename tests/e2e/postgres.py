"""A PostgreSQL server for tests: an empty cluster in a folder of its own, on a free port, for this machine only."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.e2e.site import free_port

START_S = 120


def find_binaries() -> Path | None:
    """Where Debian and others put the server's programs; they are seldom on PATH."""
    on_path = shutil.which("initdb")
    found = [Path(on_path).parent] if on_path else []
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in found if (folder / "initdb").exists() and (folder / "pg_ctl").exists()), None)


class Postgres:
    """Started by the constructor. The server refuses to run as root, so it runs as the user of its package there."""

    def __init__(self, binaries: Path) -> None:
        self._binaries = binaries
        self._user = "postgres" if os.geteuid() == 0 else None
        self._folder = Path(tempfile.mkdtemp(prefix="postgres-"))
        if self._user is not None:
            owner = pwd.getpwnam(self._user)
            os.chown(self._folder, owner.pw_uid, owner.pw_gid)
        self._data = self._folder / "data"
        port = free_port()
        self.url = f"postgresql+psycopg2://tester@127.0.0.1:{port}/postgres"
        self._call("initdb", "-D", self._data, "-U", "tester", "-A", "trust", "--no-sync", "-E", "UTF8")
        options = f"-p {port} -k {self._folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        log = self._folder / "log"
        self._call("pg_ctl", "-D", self._data, "-w", "-t", START_S, "-l", log, "-o", options, "start")

    def _call(self, program: str, *arguments: object) -> None:
        subprocess.run(
            [str(self._binaries / program), *map(str, arguments)],
            check=True,
            user=self._user,
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            timeout=2 * START_S,
        )

    def stop(self) -> None:
        self._call("pg_ctl", "-D", self._data, "-m", "immediate", "stop")
        shutil.rmtree(self._folder)
