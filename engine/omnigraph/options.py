"""What a write is asked for besides its data, spelt once: options of every commit, and of a load.

Owns names, defaults and validation. An options object that exists is valid: whoever is handed one checks nothing again.
Everything wrong is ``InvalidInput``, whatever kind of value was given.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, Literal, Self, cast, get_args

from omnigraph.core.actor import resolve_actor
from omnigraph.core.errors import InvalidInput
from omnigraph.core.limits import DEFAULT_LIMITS
from omnigraph.core.modes import INPUT_MODES, InputMode, Mode
from omnigraph.core.modes import MODES as MODES

OnBadRow = Literal["fail", "quarantine"]

ON_BAD_ROW: Final[tuple[OnBadRow, ...]] = get_args(OnBadRow)

DEADLINE_S: Final = 60.0
_DEADLINE_S_MAX: Final = 1e9  # beyond it a lock cannot be told how long to wait; thirty years are as good as no end


@dataclass(frozen=True)
class BadRowsMax:
    """``None`` any number, an integer that many rows, a float below 1 that share of all records."""

    bound: int | float | None = None

    def __post_init__(self) -> None:
        bound = self.bound
        if bound is None:
            return
        if isinstance(bound, bool) or not isinstance(bound, int | float):
            raise InvalidInput(f"bad_rows_max is a number of rows or a share below 1, got {_shown(bound)}")
        if bound < 0 or (isinstance(bound, float) and not bound < 1):
            raise InvalidInput(f"bad_rows_max is a number of rows from 0 on or a share below 1, got {bound!r}")

    def allows(self, bad: int, records: int) -> bool:
        if self.bound is None:
            return True
        return bad <= (self.bound * records if isinstance(self.bound, float) else self.bound)


@dataclass(frozen=True, kw_only=True)
class CommitOptions:
    """Options of everything that makes one commit."""

    branch: str = "main"
    actor: str | None = None
    idempotency_key: str | None = None
    expect_head: str | None = None
    deadline_s: float = DEADLINE_S

    def __post_init__(self) -> None:
        check_text("branch", self.branch)
        check_actor(self.actor)
        for name in ("idempotency_key", "expect_head"):
            value = getattr(self, name)
            if value is not None:
                check_text(name, value)
        if self.idempotency_key is not None:
            DEFAULT_LIMITS.check("idempotency_key_bytes", len(self.idempotency_key.encode()))
        object.__setattr__(self, "deadline_s", check_deadline(self.deadline_s))

    def but(self, **changes: Any) -> Self:
        """The same options with some of them replaced."""
        same = {one.name: getattr(self, one.name) for one in fields(self)}
        return type(self)(**{**same, **changes})


@dataclass(frozen=True, kw_only=True)
class LoadOptions(CommitOptions):
    """Options of a load, wherever its rows come from. ``bad_rows_max``: None no bound, a whole number so many rows, a
    float below 1 that share of all records."""

    mode: str
    from_branch: str | None = None
    on_bad_row: str = "fail"
    bad_rows_max: int | float | None = None
    quarantine_to: str | Path | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_choice("mode", self.mode, INPUT_MODES)
        _check_choice("on_bad_row", self.on_bad_row, ON_BAD_ROW)
        BadRowsMax(self.bad_rows_max)
        if self.quarantine_to is not None:
            _check_path("quarantine_to", self.quarantine_to)
            if self.on_bad_row != "quarantine":
                raise InvalidInput("quarantine_to needs on_bad_row='quarantine'")
        if self.from_branch is not None:
            check_text("from_branch", self.from_branch)

    def check_mode(self, modes: tuple[str, ...] = MODES) -> None:
        """Refuse a mode that this way of loading does not have."""
        _check_choice("mode", self.mode, modes)

    @property
    def sets_aside(self) -> bool:
        """Whether bad rows are left out, instead of failing the load."""
        return self.on_bad_row == "quarantine"

    @property
    def input_mode(self) -> InputMode:
        return cast(InputMode, self.mode)

    @property
    def checked_mode(self) -> Mode:
        """The mode by whose rules rows are checked."""
        return "merge" if self.mode == "patch" else cast(Mode, self.mode)


# --- one value ----------------------------------------------------------------------------------------------------------


def check_text(name: str, value: object) -> str:
    """Return ``value`` if it is text that is not blank and can be stored."""
    if not isinstance(value, str):
        raise InvalidInput(f"{name} is a text, not {_kind(value)}", hint=f"pass {name} as a str")
    if not value.strip():
        raise InvalidInput(f"{name} is blank", hint=f"leave {name} out, or give it a value")
    return _check_unicode(name, value)


def check_actor(value: object, default: str | None = None) -> str | None:
    """Return the actor to record: ``value``, else ``default``, else the one of the environment, else None."""
    given = value if value is not None else default
    if given is not None and not isinstance(given, str):
        raise InvalidInput(f"actor is a text, not {_kind(given)}", hint="pass actor as a str")
    actor = resolve_actor(given)
    if actor is not None:
        DEFAULT_LIMITS.check("actor_bytes", len(_check_unicode("actor", actor).encode()))
    return actor


def check_deadline(value: object) -> float:
    """Return ``deadline_s`` in seconds, at most what a lock can wait."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f"deadline_s is a number of seconds, not {_kind(value)}", hint="pass a number above 0")
    if not value > 0 or value == math.inf:
        raise InvalidInput(
            f"deadline_s must be a finite number above 0, not {value!r}", hint="pass a number of seconds"
        )
    return float(min(value, _DEADLINE_S_MAX))


def _check_unicode(name: str, value: str) -> str:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"{name} is not valid Unicode: a surrogate stands alone at position {error.start}",
            hint="decode the text as UTF-8 before passing it",
        ) from error
    return value


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in choices:
        raise InvalidInput(f"{name} must be one of {', '.join(choices)}, not {_shown(value)}")


def _check_path(name: str, value: object) -> None:
    if isinstance(value, Path):
        return
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"{name} is a path, not {_kind(value)}", hint=f"pass {name} as a str or pathlib.Path")
    if "\0" in value:
        raise InvalidInput(f"{name} holds a NUL character", hint="pass the path of a file")


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__


def _shown(value: object) -> str:
    """A wrong value, short and on one line."""
    return repr(value)[:80]
