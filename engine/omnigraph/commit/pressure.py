"""Back-pressure: when upkeep lags, writes warn, then slow down, then fail, by configuration.

Owns the measure and the judgement, both from what a write holds anyway: its figures cost no request. What is measured is
what makes writes and look-ups slower for all until the command named is run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from omnigraph.core.errors import InvalidInput, Overloaded
from omnigraph.manifest.rows import Pin
from omnigraph.manifest.state import State

WARN = 500
# Fragments of so many rows are large, not many: what costs is a thousand fragments of a few rows each.
FULL_FRAGMENT_ROWS = 100_000
PAUSE_S_MAX = 1.0

FRAGMENTS, VERSIONS, INTENTS = "fragments", "versions", "intents"
_COMMANDS = {FRAGMENTS: "optimize", VERSIONS: "cleanup", INTENTS: "recover"}
_ARGUMENTS = {"cleanup": " --keep 10"}  # shows the plan first, and says how to go on


class Level(Enum):
    NONE = "none"
    WARN = "warn"
    SLOW = "slow"
    FAIL = "fail"


@dataclass(frozen=True)
class Bounds:
    """From which figure on writes warn, slow down and fail; None: never. The same for every metric."""

    warn: int | None = WARN
    slow: int | None = None
    fail: int | None = None


@dataclass(frozen=True)
class Pressure:
    """The worst of the figures. ``pause_s``: how long a write waits before it goes on."""

    level: Level
    metric: str = ""
    actual: int = 0
    bound: int = 0
    pause_s: float = 0.0
    where: str = ""

    @property
    def command(self) -> str:
        return _COMMANDS.get(self.metric, "")

    @property
    def typed(self) -> str:
        """The command with what it cannot do without."""
        return f"omnigraph {self.command}{_ARGUMENTS.get(self.command, '')}"

    @property
    def message(self) -> str:
        return f"{self.where}: upkeep is behind: {self.metric}={self.actual} {self.level.value}={self.bound}"

    def refusal(self) -> Overloaded:
        return Overloaded(
            f"{self.message}; nothing was written",
            hint=f"run `{self.typed}`, then repeat the write",
            metric=self.metric,
            bound=self.bound,
            actual=self.actual,
            command=self.command,
        )


def make_bounds(given: Mapping[str, int | None] | None) -> Bounds:
    """``{"warn": 500, "slow": 2000, "fail": 10000}``; what is left out is never done, but for the warning."""
    if given is None:
        return Bounds()
    unknown = sorted(set(given) - {"warn", "slow", "fail"})
    if unknown:
        raise InvalidInput(f"backpressure has no bound {str(unknown[0])[:40]!r}", hint="it takes warn, slow and fail")
    for name, value in given.items():
        _check_bound(name, value)
    others = [value for value in (given.get("slow"), given.get("fail")) if value is not None]
    bounds = Bounds(given.get("warn", min([WARN, *others])), given.get("slow"), given.get("fail"))
    order = [value for value in (bounds.warn, bounds.slow, bounds.fail) if value is not None]
    if order != sorted(order):
        raise InvalidInput("backpressure warns first, then slows down, then fails", hint="make the bounds rise")
    return bounds


def _check_bound(name: str, value: object) -> None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise InvalidInput(f"the bound {name} of backpressure is a whole number of 1 or more, not {value!r}")


def unmerged(pin: Pin) -> int:
    """Fragments that compaction would merge, as far as the pin can tell."""
    return max(0, pin.fragments - pin.rows // FULL_FRAGMENT_ROWS)


def is_mixed(pin: Pin) -> bool:
    """Whether the pin counts fragments of other lines as well."""
    return any(base.needed for base in pin.bases)


def weigh(
    state: State,
    keys: Iterable[str],
    intents: int,
    bounds: Bounds,
    own: Callable[[Pin], int] = lambda pin: pin.fragments,
) -> Pressure:
    """What a write to these tables meets. Pure but for ``own``, which counts the fragments of a pin that lie in its own folder.
    Those of other lines are not this branch's to merge, so they never count against it."""
    least = min((bound for bound in (bounds.warn, bounds.slow, bounds.fail) if bound is not None), default=math.inf)
    pins = [state.tables[key] for key in keys if key in state.tables and state.tables[key].owner == state.identity]
    counts = {pin.key: unmerged(pin) for pin in pins}
    # Only where it matters: counting opens the table.
    counts |= {pin.key: min(counts[pin.key], own(pin)) for pin in pins if is_mixed(pin) and counts[pin.key] >= least}
    worst = max(counts, key=counts.__getitem__, default="")
    figures = [
        (counts.get(worst, 0), FRAGMENTS, worst),
        (max(0, state.version - state.head.boundary), VERSIONS, "__manifest"),
        (intents, INTENTS, "__recovery"),
    ]
    actual, metric, where = max(figures, key=lambda figure: figure[0])
    if bounds.fail is not None and actual >= bounds.fail:
        return Pressure(Level.FAIL, metric, actual, bounds.fail, where=where)
    if bounds.slow is not None and actual >= bounds.slow:
        return Pressure(Level.SLOW, metric, actual, bounds.slow, _pause_s(actual, bounds.slow, bounds.fail), where)
    if bounds.warn is not None and actual >= bounds.warn:
        return Pressure(Level.WARN, metric, actual, bounds.warn, where=where)
    return Pressure(Level.NONE)


def _pause_s(actual: int, slow: int, fail: int | None) -> float:
    """Longer the closer to the end; where there is none, the longest after twice the bound."""
    span = (fail if fail is not None else 2 * slow) - slow
    return PAUSE_S_MAX * min(1.0, (actual - slow + 1) / max(1, span))
