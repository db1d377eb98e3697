"""Two processes that write to one graph while the power may go: one that syncs and one that does not, and one that
acknowledges above a version that another process has swapped and not yet synced."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Final

from omnigraph.commit import engine as engines
from omnigraph.commit.durable import ENVIRONMENT
from omnigraph.commit.recovery.outcome import LANDED, find_outcome
from omnigraph.core import failpoints
from omnigraph.core.meter import Meter
from omnigraph.testing.operations import append, commit_id, keys_of, opened

Say = Callable[[Any], None]

RELAXED_FIRST: Final = "beside-relaxed"
UNSYNCED_BELOW: Final = "above-unsynced"
UNSYNCED_ANSWERED: Final = "answers-unsynced"
COMMIT, RELAXED = "commit", "relaxed"
_RUN_S = 120.0


BOOT = "00000000-0000-4000-8000-000000000000"


def of_another_boot() -> None:
    """Name a boot of this host that has ended: what is left is judged after the power came back."""
    engines._boot_id = lambda: BOOT  # type: ignore[assignment]


def name_of(number: int) -> str:
    return f"row{number}"


def one_commit(root: str, width: int, number: int) -> str | None:
    """Commit one row to each table, by a handle of its own."""
    with opened(root) as engine:
        return commit_id(append(engine, keys_of(width), [name_of(number)]))


def beside_relaxed(root: str, width: int, say: Say) -> None:
    """Relaxed and synced commits in turn. A synced one acknowledges what lies below it."""
    for number, mode in enumerate((RELAXED, COMMIT, RELAXED, RELAXED, COMMIT)):
        say(("begun", number))
        made = _elsewhere(root, width, number, mode)
        if mode == COMMIT:
            say(("acknowledged", number, made))


def above_unsynced(root: str, width: int, say: Say) -> None:
    """The first process has swapped and is about to sync; the second one commits above it and acknowledges."""

    def second(**_: object) -> None:
        say(("begun", 1))
        say(("acknowledged", 1, _elsewhere(root, width, 1, COMMIT)))

    say(("begun", 0))
    with failpoints.armed("publish.after_swap", second):
        say(("acknowledged", 0, one_commit(root, width, 0)))


def answers_unsynced(root: str, width: int, say: Say) -> None:
    """The first process has swapped and is about to sync; the second one is asked what became of that write."""

    def second(**facts: Any) -> None:
        with opened(root) as other:
            head = other.latest("main").state.head.commit_id
            if find_outcome(other, head, Meter()).state == LANDED:
                say(("acknowledged", 0, head))

    say(("begun", 0))
    with failpoints.armed("publish.after_swap", second):
        one_commit(root, width, 0)


PAIRS: Final = {
    RELAXED_FIRST: beside_relaxed,
    UNSYNCED_BELOW: above_unsynced,
    UNSYNCED_ANSWERED: answers_unsynced,
}


def _elsewhere(root: str, width: int, number: int, mode: str) -> str:
    """One commit of another process, in a mode of durability."""
    ran = subprocess.run(
        [sys.executable, "-m", __name__, root, str(width), str(number), mode],
        capture_output=True,
        check=True,
        timeout=_RUN_S,
    )
    made: str = json.loads(ran.stdout)
    return made


def main(root: str, width: str, number: str, mode: str) -> None:
    of_another_boot()
    os.environ[ENVIRONMENT] = mode
    sys.stdout.write(json.dumps(one_commit(root, int(width), int(number))))


if __name__ == "__main__":
    main(*sys.argv[1:])
