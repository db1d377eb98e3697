"""What a write is asked for besides its data, spelt once: options of every commit, and of a load.

Owns names, defaults and validation. An options object that exists is valid: it need not be checked again.
Everything wrong is ``InvalidInput``, whatever kind of value was given.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, Literal, Self, cast, get_args

from omnigraph.core.actor import resolve_actor
from omnigraph.core.errors import InvalidInput
from omnigraph.core.limits import DEFAULT_LIMITS
from omnigraph.core.modes import INPUT_MODES, InputMode, Mode
from omnigraph.core.modes import MODES as MODES
from omnigraph.core.shown import value_shown

OnBadRow = Literal["fail", "quarantine"]
OnMissingEndpoint = Literal["fail", "quarantine", "drop", "stub"]
Check = Literal["values", "duplicates", "endpoints", "cardinality"]

ON_BAD_ROW: Final[tuple[OnBadRow, ...]] = get_args(OnBadRow)
ON_MISSING_ENDPOINT: Final[tuple[OnMissingEndpoint, ...]] = get_args(OnMissingEndpoint)
CHECKS: Final[tuple[Check, ...]] = get_args(Check)

COMBINE: Final = "OMNIGRAPH_COMMIT_COMBINE"
OFFERS: Final = "OMNIGRAPH_COMMIT_OFFERS"
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
            raise InvalidInput(f"bad_rows_max is a number of rows or a share below 1, got {value_shown(bound)}")
        if bound < 0 or (isinstance(bound, float) and not bound < 1):
            raise InvalidInput(f"bad_rows_max is a number of rows from 0 on or a share below 1, got {bound!r}")

    def allows(self, bad: int, records: int) -> bool:
        return is_within(self.bound, bad, records)


def is_within(bound: int | float | None, bad: int, records: int) -> bool:
    """Whether so many bad rows are allowed: None allows any, an integer so many, a float that share of all records."""
    if bound is None:
        return True
    return bad <= (bound * records if isinstance(bound, float) else bound)


@dataclass(frozen=True, kw_only=True)
class CommitOptions:
    """Options of everything that makes one commit. ``group``: whether it may share its swap with others of its handle; None
    as the handle says."""

    branch: str = "main"
    actor: str | None = None
    idempotency_key: str | None = None
    expect_head: str | None = None
    deadline_s: float = DEADLINE_S
    group: bool | None = None

    def __post_init__(self) -> None:
        check_text("branch", self.branch)
        if self.group is not None and not isinstance(self.group, bool):
            raise InvalidInput(f"group is True, False or None, not {value_shown(self.group)}")
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
    float below 1 that share of all records; ``bounds``: the same for each check, shares up to 1. ``on_missing_endpoint``: what
    becomes of edges with an end that does not exist, for all edge types or by edge type; None as ``on_bad_row`` says."""

    mode: str
    from_branch: str | None = None
    on_bad_row: str = "fail"
    bad_rows_max: int | float | None = None
    bounds: Mapping[str, int | float] | None = None
    on_missing_endpoint: str | Mapping[str, str] | None = None
    quarantine_to: str | Path | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_choice("mode", self.mode, INPUT_MODES)
        _check_choice("on_bad_row", self.on_bad_row, ON_BAD_ROW)
        BadRowsMax(self.bad_rows_max)
        object.__setattr__(self, "on_missing_endpoint", check_on_missing_endpoint(self.on_missing_endpoint))
        if self.bad_rows_max is not None and not self.lets_rows_go:
            raise InvalidInput(
                "bad_rows_max has no effect: a bad row fails the load",
                hint='leave bad_rows_max out, or load with on_bad_row="quarantine"',
            )
        object.__setattr__(self, "bounds", check_bounds(self.bounds))
        if self.bounds is not None and not self.lets_rows_go:
            raise InvalidInput(
                "bounds have no effect: a bad row fails the load",
                hint="leave bounds out, or say with on_bad_row or on_missing_endpoint which rows may be bad",
            )
        if self.quarantine_to is not None:
            _check_path("quarantine_to", self.quarantine_to)
            if not self.sets_aside and "quarantine" not in self._endpoint_actions:
                raise InvalidInput("quarantine_to needs on_bad_row='quarantine' or on_missing_endpoint='quarantine'")
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
    def _endpoint_actions(self) -> frozenset[str]:
        given = self.on_missing_endpoint
        return frozenset(() if given is None else (given,) if isinstance(given, str) else given.values())

    @property
    def lets_rows_go(self) -> bool:
        """Whether a load may stand although some of its rows are bad: these are left out, or get what they lack."""
        return self.sets_aside or bool(self._endpoint_actions - {"fail"})

    @property
    def input_mode(self) -> InputMode:
        return cast(InputMode, self.mode)

    @property
    def checked_mode(self) -> Mode:
        """The mode by whose rules rows are checked."""
        return "merge" if self.mode == "patch" else cast(Mode, self.mode)


def check_bounds(value: object) -> dict[str, int | float] | None:
    """Return how many rows each check may find bad: by check a number of rows, or a share up to 1."""
    if value is None:
        return None
    if not isinstance(value, Mapping) or not value:
        raise InvalidInput(
            f"bounds is a mapping from checks to bounds, not {value_shown(value)}",
            hint='for example {"endpoints": 0.1}',
        )
    found: dict[str, int | float] = {}
    for name, bound in value.items():
        _check_choice("a check of bounds", name, CHECKS)
        if isinstance(bound, bool) or not isinstance(bound, int | float):
            raise InvalidInput(f"the bound of {name} is a number of rows or a share, not {value_shown(bound)}")
        if not bound >= 0 or (isinstance(bound, float) and not bound <= 1):
            raise InvalidInput(
                f"the bound of {name} must be a number of rows from 0 on or a share up to 1.0, not {bound!r}",
                hint="write rows as a whole number (20) and a share as a fraction (0.2)",
            )
        found[name] = bound
    return found


def check_on_missing_endpoint(value: object) -> str | dict[str, str] | None:
    """Return what becomes of edges with an end that does not exist. Whether the types exist is for a catalog to say."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        _check_choice("on_missing_endpoint", value, ON_MISSING_ENDPOINT)
        return cast(str, value)
    if not value:
        raise InvalidInput(
            "on_missing_endpoint names no edge type",
            hint='leave it out, or write {"Knows": "drop"} or one word for all',
        )
    for name, action in value.items():
        if not isinstance(name, str):
            raise InvalidInput(f"on_missing_endpoint is by the names of edge types, not by {_kind(name)}")
        _check_choice(f"on_missing_endpoint of {name[:80]!r}", action, ON_MISSING_ENDPOINT)
    return dict(value)


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


def check_switch(
    name: str, value: object, variable: str, *, default: bool, environment: Mapping[str, str] = os.environ
) -> bool:
    """Return ``value``, else what a variable of the environment says (``0`` or ``1``), else the default."""
    if isinstance(value, bool):
        return value
    if value is not None:
        raise InvalidInput(f"{name} is True, False or None, not {value_shown(value)}")
    text = environment.get(variable, "")
    if text not in ("", "0", "1"):
        raise InvalidInput(
            f"{variable} is 0 or 1, not {value_shown(text)}", hint=f"set {variable}=0, set it to 1, or unset it"
        )
    return default if not text else text == "1"


@dataclass(frozen=True)
class CommitSharing:
    """What writes share with those of other processes. ``combine``: a swap, where they write different tables; ``offers``: a plan, where
    they wait for the same ones."""

    combine: bool = True
    offers: bool = True


def check_commit(value: object, environment: Mapping[str, str] = os.environ) -> CommitSharing:
    """Return what writes share with those of other processes, by ``commit={"combine": …, "offers": …}`` or the environment."""
    hint = 'pass commit={"combine": False} or commit={"offers": False}'
    if value is not None and not isinstance(value, Mapping):
        raise InvalidInput(f"commit is a mapping or None, not {value_shown(value)}", hint=hint)
    given = {} if value is None else dict(value)
    unknown = sorted(str(name) for name in given if name not in ("combine", "offers"))
    if unknown:
        raise InvalidInput(f"commit has no member {value_shown(unknown[0])}", hint=hint)

    def switch(name: str, variable: str) -> bool:
        return check_switch(f"commit[{name!r}]", given.get(name), variable, default=True, environment=environment)

    return CommitSharing(switch("combine", COMBINE), switch("offers", OFFERS))


def check_flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} is True or False, not {value_shown(value)}", hint=f"pass {name} as a bool")
    return value


def check_rate(value: object, deep: object) -> int | None:
    """Return the bytes that a deep verification reads a second; None for as many as there are."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidInput(
            f"bytes_per_s is a whole number of bytes above 0, not {value_shown(value)}",
            hint="50000000 is 50 MB a second",
        )
    if deep is not True:
        raise InvalidInput("bytes_per_s has no effect without deep", hint="pass deep=True, or leave bytes_per_s out")
    return value


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
        raise InvalidInput(f"{name} must be one of {', '.join(choices)}, not {value_shown(value)}")


def _check_path(name: str, value: object) -> None:
    if isinstance(value, Path):
        return
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"{name} is a path, not {_kind(value)}", hint=f"pass {name} as a str or pathlib.Path")
    if "\0" in value:
        raise InvalidInput(f"{name} holds a NUL character", hint="pass the path of a file")


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__
