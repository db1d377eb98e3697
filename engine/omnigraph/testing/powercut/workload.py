"""The program that is recorded: one operation of the crash matrix, or a row of commits. Writes a line for each thing that
it has acknowledged to a file of its own.

    python -m omnigraph.testing.powercut.workload MARKS OPERATION WIDTH ROOT HOW
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from omnigraph.commit.durable import ENVIRONMENT
from omnigraph.core import failpoints
from omnigraph.core.errors import OmnigraphError
from omnigraph.store.durability import sync_everything
from omnigraph.testing.all_operations import OPERATIONS
from omnigraph.testing.operations import append, commit_id, keys_of, opened
from omnigraph.testing.powercut.beside import PAIRS, Say, name_of, of_another_boot

COMMITS = "commits"
COMMITS_MADE = 5

AS_IT_IS, RELAXED, SYNCED_AROUND = HOWS = ("default", "relaxed", "synced-around")
"""The engine as it promises by default; told to sync nothing; the same with everything synced at each of its failpoints, which shows
that the judge finds nothing where all is synced in time."""


def environment(how: str) -> dict[str, str]:
    return {ENVIRONMENT: "commit" if how == AS_IT_IS else "relaxed"}


def commits(root: str, width: int, say: Say) -> None:
    """A row of commits, each acknowledged before the next begins."""
    with opened(root) as engine:
        for number in range(COMMITS_MADE):
            say(("begun", number))
            outcome = append(engine, keys_of(width), [name_of(number)])
            say(("acknowledged", number, commit_id(outcome)))


ROWS: dict[str, Callable[[str, int, Say], None]] = {COMMITS: commits, **PAIRS}
"""Programs that commit rows by number, and say which were acknowledged."""


def run(name: str, width: int, root: str, how: str, say: Say) -> None:
    if how == SYNCED_AROUND:
        failpoints.arm("*", lambda **_: _sync_all(root), at=None)
    if name in ROWS:
        ROWS[name](root, width, say)
        return
    try:
        done = OPERATIONS[name].act(root, width)
    except OmnigraphError as error:
        say(("error", error.code, error.facts.get("commit_id")))
    else:
        if how == SYNCED_AROUND:
            _sync_all(root)
        say(("done", done))


_here = threading.local()


def _sync_all(root: str) -> None:
    if getattr(_here, "syncing", False) or not os.path.isdir(root):
        return
    _here.syncing = True  # it passes a failpoint itself
    try:
        sync_everything(root)
    finally:
        _here.syncing = False


def main(marks: str, name: str, width: str, root: str, how: str) -> None:
    of_another_boot()
    with open(marks, "ab", buffering=0) as file:

        def say(said: Any) -> None:
            file.write(json.dumps(said).encode() + b"\n")

        run(name, int(width), root, how, say)


if __name__ == "__main__":
    main(*sys.argv[1:])
