"""Ctrl-C at any moment of a call leaves as ``KeyboardInterrupt``, never as an error that a caller may catch and go on from."""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.core.interrupts import is_interrupt
from omnigraph.testing.children import Child

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

ROUNDS = 60
CALLS: dict[str, Callable[[og.Graph], object]] = {
    "recover": lambda graph: graph.recover(),
    "optimize": lambda graph: graph.optimize(),
    "to_arrow": lambda graph: graph.snapshot().to_arrow("Person"),
    "verify": lambda graph: graph.verify(deep=True),
    "compact_manifest": lambda graph: graph.compact_manifest(),
}


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _interrupted(say: Any, root: str) -> None:
    """Interrupt each call after a random while, in the main thread of a process of its own."""
    rng = random.Random(3)
    signal.signal(signal.SIGALRM, _interrupt)
    ended: Counter[str] = Counter()
    with og.open(root) as graph:
        for call in CALLS.values():
            call(graph)  # DuckDB cannot be imported again after an interrupt in its import
        for number in range(ROUNDS * len(CALLS)):
            name = list(CALLS)[number % len(CALLS)]
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.0002, 0.02))
                CALLS[name](graph)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                ended["interrupted"] += 1
            except Exception as error:
                ended[f"{name}: {type(error).__name__}: {str(error)[:160]}"] += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
    say(ended)


def test_an_interrupt_is_never_wrapped(tmp_path: Path) -> None:
    root = tmp_path / "graph"
    with og.init(root, "node Person { name: String @key  age: I32? }") as graph:
        names = [f"p{number}" for number in range(20_000)]
        graph.load({"Person": pa.table({"name": names, "age": pa.array([1] * len(names), pa.int32())})}, mode="append")
    with Child(_interrupted, str(root)) as child:
        (ended,) = child.hear_all(200)
    interrupted = ended.pop("interrupted")
    assert dict(ended) == {}
    assert interrupted > ROUNDS, "the interrupts were met while something ran"


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (KeyboardInterrupt(), True),
        (pa.ArrowInvalid("External error: KeyboardInterrupt: "), True),
        (RuntimeError("Query interrupted"), True),
        (ValueError("Detail: Python exception: Traceback\n  File x\nKeyboardInterrupt"), True),
        (ValueError("no column 'KeyboardInterrupt'"), False),
        (OSError("External error: disk"), False),
    ],
)
def test_what_is_an_interrupt_is_told_by_how_libraries_wrap_it(error: BaseException, is_one: bool) -> None:
    assert is_interrupt(error) is is_one
