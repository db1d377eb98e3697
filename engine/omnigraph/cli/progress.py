"""How far a command has come, on standard error: a bar on a terminal, a line every few seconds elsewhere.

Owns the two looks. ``core.progress`` decides what is counted, and how often it is reported. Nothing is shown of a command that is
done before anybody would look.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, Final

from omnigraph.cli.render import Screen, bytes_text, clean, duration_text, is_terminal
from omnigraph.core.progress import Listener, Progress

LINE_EVERY_S: Final = 5.0


class Lines:
    """For logs: one line when a phase has lasted so long, and then one each time as much again has passed."""

    def __init__(self, screen: Screen, every_s: float = LINE_EVERY_S) -> None:
        self._screen = screen
        self._every_s = every_s
        self._phase: tuple[str, str] | None = None
        self._told_s = 0.0

    def __call__(self, event: Progress) -> None:
        phase = (event.operation, event.phase)
        if phase != self._phase or event.elapsed_s < self._told_s:
            self._phase, self._told_s = phase, 0.0
        if event.elapsed_s - self._told_s >= self._every_s:
            self._told_s = event.elapsed_s
            self._screen.note(line(event))


def line(event: Progress) -> str:
    """``load: reading 1,200,000 rows, 34.2 MiB of 80.0 MiB (42 %), 240,000 rows/s, 12 s left``."""
    parts = [f"{event.operation}: {event.phase} {_count(event.done, event.total)} {event.unit}"]
    if event.bytes_total is not None:
        parts.append(f"{bytes_text(event.bytes)} of {bytes_text(event.bytes_total)}")
    elif event.bytes:
        parts.append(bytes_text(event.bytes))
    if event.fraction is not None:
        parts[-1] += f" ({event.fraction:.0%})"
    if event.rate >= 1:
        parts.append(f"{event.rate:,.0f} {event.unit}/s")
    if event.state == "running" and event.remaining_s is not None:
        parts.append(f"{duration_text(event.remaining_s)} left")
    if event.state != "running":
        parts.append(f"{event.state} after {duration_text(event.elapsed_s)}")
    if event.subject is not None and event.state == "running":
        parts.append(f"at {event.subject}")
    return ", ".join(parts)


def _count(done: int, total: int | None) -> str:
    return f"{done:,}" if total is None else f"{done:,} of {total:,}"


class Bars:
    """For a terminal: a bar for the phase under way, taken away when the command is done."""

    def __init__(self, stream: IO[str]) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, SpinnerColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self._bars: Any = RichProgress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[figures]}", markup=False),
            console=Console(file=stream, highlight=False, markup=False, emoji=False),
            transient=True,
        )
        self._task: Any = None
        self._phase: tuple[str, str] | None = None

    def __enter__(self) -> Bars:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def begin(self, text: str) -> None:
        """Something moves from the first moment, whether or not anything can be counted."""
        self._task = self._bars.add_task(clean(text), total=None, figures="")

    def __call__(self, event: Progress) -> None:
        phase = (event.operation, event.phase)
        if phase != self._phase and self._task is not None:
            self._bars.remove_task(self._task)
            self._task = None
        if self._task is None:
            self._phase = phase
            self._task = self._bars.add_task(f"{event.operation}: {event.phase}", total=None, figures="")
        part = event.fraction
        figures = line(event).partition(f"{event.phase} ")[2]
        self._bars.update(
            self._task, total=None if part is None else 1.0, completed=part or 0.0, figures=clean(figures)
        )


@contextmanager
def shown(screen: Screen, text: str) -> Iterator[Listener | None]:
    """A listener for the length of a command; None with --quiet. ``text`` says what is going on until
    the first phase begins."""
    if screen.quiet:
        yield None
    elif not is_terminal(sys.stderr):
        yield Lines(screen)
    else:
        with Bars(sys.stderr) as bars:
            bars.begin(text)
            yield bars
