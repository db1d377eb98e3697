"""Ctrl-C at any moment of a call leaves as ``KeyboardInterrupt``, never as an error that a caller may catch and go on from."""

from __future__ import annotations

import contextlib
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.core.interrupts import is_interrupt
from omnigraph.store.opening import open_store
from omnigraph.table.dataset import Tables
from omnigraph.table.keys import KeyCache
from omnigraph.table.layout import Fragment, Layout
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


class _Interrupting:
    """Where a table lies, whose comparisons an interrupt may end."""

    left = 1 << 30

    def __init__(self, name: str) -> None:
        self.name = name

    def _count(self) -> None:
        _Interrupting.left -= 1
        if _Interrupting.left < 0:
            _Interrupting.left = 1 << 30
            raise KeyboardInterrupt

    def __hash__(self) -> int:
        self._count()
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        self._count()
        return isinstance(other, _Interrupting) and self.name == other.name


@pytest.mark.parametrize("after", range(12))
def test_tables_are_remembered_after_an_interrupt_at_any_comparison(tmp_path: Path, after: int) -> None:
    tables, handle = Tables(open_store(str(tmp_path))), cast(Any, SimpleNamespace(version=3))
    names = [cast(Any, _Interrupting(str(number))) for number in range(9)]
    for name in names:
        tables.remember(name, handle)
    _Interrupting.left = after
    with contextlib.suppress(KeyboardInterrupt):
        tables.remember(cast(Any, _Interrupting("4")), handle)
        tables.forget(cast(Any, _Interrupting("4")))
    _Interrupting.left = 1 << 30
    more = [cast(Any, _Interrupting(str(number))) for number in range(40)]
    for name in more:
        tables.remember(name, handle)
    assert all(tables.held(name, 3) for name in more)
    assert len(tables._handles) == 40 and len(list(reversed(tables._handles.values()))) == 40


@pytest.mark.parametrize("after", range(8))
def test_a_column_whose_merging_was_interrupted_is_asked_for_again(after: int) -> None:
    class Rows(list[str]):
        def __iter__(self) -> Iterator[str]:
            for number, value in enumerate(super().__iter__()):
                if number == after:
                    raise KeyboardInterrupt
                yield value

    cache, values = KeyCache(), [f"k{number}" for number in range(8)]
    fragment = Fragment(id=0, files="f", rows=8, deletion=None, deleted_rows=0)
    layout = Layout(2, {0: fragment}, {"f": (0,)}, {"id": 1}, pa.schema([]), {})
    other = Fragment(id=1, files="g", rows=1, deletion=None, deleted_rows=0)
    cache.put_column("t", other, 1, ["k0"])
    with pytest.raises(KeyboardInterrupt):
        cache.put_column("t", fragment, 1, Rows(values))
    assert cache.missing("t", "t", layout, 1) == [fragment], "a column that lacks places counts as absent"
    cache.put_column("t", fragment, 1, values)
    assert cache.missing("t", "t", layout, 1) == []
    assert cache.small_places("t", layout, 1, values) == [(number, number) for number in range(8)]


def test_a_wait_that_an_interrupt_ended_is_one() -> None:
    error = RuntimeError("cannot release un-acquired lock")
    assert not is_interrupt(error)
    error.__context__ = KeyboardInterrupt()
    assert is_interrupt(error)


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
