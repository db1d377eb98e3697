"""Whether a process of this machine is still there.

Never says that one is gone without having looked: whatever cannot be seen from here counts as alive.
"""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Final

SLACK_S: Final = 60.0
"""By how much the wall clock may have been set between a process's start and what is recorded of it."""


def me() -> str:
    """This process, as a text that another one can hold against what it sees."""
    started_s = _started_s(os.getpid())
    told_s = float("inf") if started_s is None else started_s
    return json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "told_s": told_s})


def is_gone(told: str | None) -> bool:
    """Whether the process that said ``me`` has ended."""
    try:
        found = json.loads(told or "")
        host, pid, told_s = found["host"], int(found["pid"]), float(found["told_s"])
    except (ValueError, TypeError, KeyError):
        return False
    return bool(host == socket.gethostname() and pid > 0 and not is_alive(pid, told_s))


def is_alive(pid: int, told_s: float) -> bool:
    """Whether the process that said something at ``told_s`` is still there; another one may have got its number since."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # another user's process, so it exists; more cannot be known
    started_s = _started_s(pid)
    return started_s is None or started_s <= told_s + SLACK_S


def _started_s(pid: int) -> float | None:
    """Wall-clock time of a process's start; infinite for one that has ended and was not collected. None where nothing tells."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        lines = Path("/proc/stat").read_text().splitlines()
    except OSError:
        return None
    if fields[0] in ("Z", "X"):
        return float("inf")
    booted = next((float(line.split()[1]) for line in lines if line.startswith("btime ")), None)
    return None if booted is None else booted + int(fields[19]) / os.sysconf("SC_CLK_TCK")
