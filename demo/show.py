"""The demo behind ``./run demo``: batches through Spark and Dagster, a look at the graph, a write that dies, upkeep.

Owns the story, not the work: every step is a command that can be typed, and is shown as it is run. Everything it makes lies in
``build/demo`` and is made anew each time. What the tools say besides their results goes to ``build/demo/demo.log``.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "demo" / "mathematicians"
WORK = Path("build/demo")  # below the root, and shown as it is typed there
GRAPH = WORK / "data" / "mathematicians.omni"
FILE = WORK / "graph.yaml"
LOG = WORK / "demo.log"
LATE = WORK / "late.jsonl"

HERE = "$PWD"  # as it is typed

WIDTH = 96
KILLED = -signal.SIGKILL
STOP_S = 5.0

STUDENTS = """
SELECT teacher.name AS teacher, teacher.born, count(*) AS students, min(d.year) AS first, max(d.year) AS last
FROM LearnedFrom l JOIN Person teacher ON teacher.id = l.dst LEFT JOIN Degree d ON d.src = l.src
GROUP BY ALL ORDER BY students DESC, teacher.born LIMIT 5
"""
LINEAGE = """
WITH RECURSIVE edge AS MATERIALIZED (SELECT src, dst FROM LearnedFrom),
line AS (
  SELECT 'Alan Turing' AS name, 0 AS generation
  UNION
  SELECT edge.dst, line.generation + 1 FROM line JOIN edge ON edge.src = line.name
)
SELECT generation, string_agg(DISTINCT name, ', ' ORDER BY name) AS teachers FROM line GROUP BY 1 ORDER BY 1
"""
NEWEST = "SELECT p.name, l.dst AS learned_from FROM Person p JOIN LearnedFrom l ON l.src = p.id WHERE p.born > 1950 ORDER BY 1"
CORRECTIONS = (
    'update Person set { died: 2025 } where name = "Peter Lax"',
    'update School set { city: "Cambridge (MA)" } where name = "Harvard University"',
    'insert School { name: "New York City College", city: "New York" }',
    'delete School where name = "New York City College"',
    'insert Person { name: "Adi Shamir", born: 1952 }',
    'insert Person { name: "Ron Rivest", born: 1947 }',
)


class Failed(Exception):
    """A command did not do what the story says."""


def main() -> int:
    os.chdir(ROOT)
    started = time.monotonic()
    try:
        prepare()
        ingest()
        look()
        die_and_recover()
        upkeep()
    except KeyboardInterrupt:
        print("\nstopped. Nothing half-written is visible; ./run demo begins anew.", flush=True)
        return 130
    except Failed as failed:
        print(f"\ndemo: {failed}\nwhat the tools said is in {LOG}", file=sys.stderr)
        return 1
    finish(time.monotonic() - started)
    return 0


# --- the story ----------------------------------------------------------------------------------------------------------


def prepare() -> None:
    shutil.rmtree(WORK, ignore_errors=True)
    shutil.copytree(DATA, WORK)
    LOG.write_text("")


def ingest() -> None:
    title(
        "1. Four batches arrive, and go through Spark and Dagster into one graph: each is one commit over four tables"
    )
    say(
        "A hundred mathematicians, where they took their degree, and whom they learned from. Spark takes a moment to start."
    )
    # Where ./run ui keeps its history, so that it shows these runs afterwards.
    home = {} if os.environ.get("DAGSTER_HOME") else {"DAGSTER_HOME": HERE}
    run("omnigraph-pipelines", "run", str(FILE), **home)
    say(
        "One row names a teacher who never lived. It was set aside with its reason; the rest of its batch was committed."
    )


def look() -> None:
    title("2. What is in it")
    run("omnigraph", "status", str(GRAPH))
    say("Who taught most?")
    run("omnigraph", "query", str(GRAPH), "--sql", STUDENTS)
    say("From Alan Turing back, teacher by teacher:")
    run("omnigraph", "query", str(GRAPH), "--sql", LINEAGE)


def die_and_recover() -> None:
    title("3. A write dies half-way: its tables are written, nothing is published, and the process is killed")
    load = ("omnigraph", "load", str(GRAPH), "--data", str(LATE), "--mode", "append", "--as", "demo", "--quiet")
    run(*load, wanted=KILLED, OMNIGRAPH_FAILPOINTS="publish.before_swap=kill")
    say("Killed. No reader sees any of it:")
    run("omnigraph", "query", str(GRAPH), "--sql", NEWEST)
    say("It is not lost either. What would a recovery do?")
    run("omnigraph", "intent", "list", str(GRAPH))
    run("omnigraph", "recover", str(GRAPH), "--quiet")
    run("omnigraph", "query", str(GRAPH), "--sql", NEWEST)


def upkeep() -> None:
    title("4. Small changes leave many small files and versions; upkeep makes few of them, and changes no content")
    for change in CORRECTIONS:
        run("omnigraph", "mutate", str(GRAPH), "-e", f"query q() {{ {change} }}", "--quiet", hide=99)
    before = figures()
    run("omnigraph", "optimize", str(GRAPH), "--quiet")
    run("omnigraph", "cleanup", str(GRAPH), "--keep", "2", "--min-age", "0s", "--confirm", "--quiet", hide=99)
    after = figures()
    print()
    for name, one, other in zip(("data fragments", "table versions", "rows"), before, after, strict=True):
        print(f"    {name:<16} {one:>4} → {other}")
    if not (after[0] < before[0] and after[1] < before[1] and after[2] == before[2]):
        raise Failed("upkeep did not shrink what it should, or changed content")
    run("omnigraph", "verify", str(GRAPH))


def figures() -> tuple[int, int, int]:
    """Fragments, versions and rows of all tables."""
    status = json.loads(output("omnigraph", "status", str(GRAPH), "--deep", "--json"))["result"]
    tables: list[dict[str, Any]] = status["tables"]
    return (
        sum(table["fragments"] for table in tables),
        sum(table["versions"] or 0 for table in tables),
        sum(table["rows"] for table in tables),
    )


def finish(took_s: float) -> None:
    title(f"Done in {took_s:.0f} s")
    print(f"""
    the graph          {GRAPH}
    look around        . .venv/bin/activate; omnigraph status {GRAPH}
    see it in Dagster  OMNIGRAPH_GRAPH_FILE={FILE} ./run ui    (the runs above are its history)
    learn it           docs/tutorial/first-graph.md
""")


# --- telling and running ------------------------------------------------------------------------------------------------


def title(text: str) -> None:
    print(f"\n{bold(text)}\n", flush=True)


def say(text: str) -> None:
    print(f"  {text}", flush=True)


def bold(text: str) -> str:
    plain = not sys.stdout.isatty() or bool(os.environ.get("NO_COLOR"))
    return text if plain else f"\x1b[1m{text}\x1b[0m"


def run(*command: str, wanted: int = 0, hide: int = 0, **environment: str) -> None:
    """Show a command, run it, and show what it printed, less the first ``hide`` lines of it."""
    words = [word if "\n" not in word else "…" for word in command]
    typed = " ".join(
        [*(f"{name}={value}" for name, value in environment.items()), shlex.join(words).replace("'…'", "'…'")]
    )
    print(f"  $ {typed}", flush=True)
    code, printed = done(command, environment)
    for line in printed.splitlines()[hide:]:
        print(f"    {line}", flush=True)
    if code != wanted:
        raise Failed(f"{command[0]} {command[1]} ended with {code}, not {wanted}")


def output(*command: str) -> str:
    code, printed = done(command, {})
    if code:
        raise Failed(f"{command[0]} {command[1]} ended with {code}")
    return printed


def done(command: tuple[str, ...], environment: dict[str, str]) -> tuple[int, str]:
    env = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "PYTHONWARNINGS": "ignore",
        "COLUMNS": str(WIDTH),
        **{name: str(ROOT) if value == HERE else value for name, value in environment.items()},
    }
    for name in ("OMNIGRAPH_URI", "OMNIGRAPH_FAILPOINTS"):
        if name not in environment:
            env.pop(name, None)
    with LOG.open("a", encoding="utf-8") as log:
        log.write(f"$ {shlex.join(command)}\n")
        log.flush()
        # In a session of its own, so that all of it can be ended: Spark's Java does not listen to Ctrl-C.
        with interrupt_deferred():
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, env=env, start_new_session=True
            )
        try:
            raise_deferred()
            printed, _ = process.communicate()
        except KeyboardInterrupt:
            _stop(process)
            raise
    return process.returncode, printed


_asked: list[int] = []


@contextlib.contextmanager
def interrupt_deferred() -> Iterator[None]:
    """A Ctrl-C in here waits: a process that was just started would be left running."""
    before = signal.signal(signal.SIGINT, lambda number, _: _asked.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def raise_deferred() -> None:
    if _asked:
        _asked.clear()
        raise KeyboardInterrupt


def _stop(process: subprocess.Popen[str]) -> None:
    """Ask the command to end, then kill whatever is left of it. A second Ctrl-C does not wait."""
    with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt, ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
        process.wait(timeout=STOP_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


if __name__ == "__main__":
    sys.exit(main())
