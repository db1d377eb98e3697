"""What a text or a time can mean that names a state of the graph. Pure; ``places`` says what exists.

The order decides where a text could mean several things: a full commit id, a checkpoint, a branch, the beginning of a commit id,
a time. A name that is a checkpoint and a branch is refused, because either would be a guess.
"""

from __future__ import annotations

import datetime as dt
import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from omnigraph.core.errors import InvalidInput
from omnigraph.core.ids import ULID_CHARS, is_ulid, is_ulid_prefix
from omnigraph.core.shown import value_shown

At = str | dt.datetime
PlaceKind = Literal["commit", "checkpoint", "branch", "time"]
PLACE_KINDS: Final[tuple[PlaceKind, ...]] = get_args(PlaceKind)

PREFIX_CHARS_MIN: Final = 10  # the part of a commit id that is its time; less fits all commits of a while

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].*)?", re.ASCII)
_AGO = re.compile(r"([0-9]{1,9})\s*([smhdw])\s+ago", re.ASCII)
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_KINDS_HINT = "commit:…, checkpoint:…, branch:… and time:… say which is meant"


@dataclass(frozen=True)
class PlaceName:
    """``kind``: what alone it can mean; None where what exists decides. ``value``: without its kind. ``time_us``: the time that
    it says, if it says one."""

    text: str
    value: str
    kind: PlaceKind | None
    time_us: int | None = None

    @property
    def is_commit_id(self) -> bool:
        return is_ulid(self.value)

    @property
    def is_prefix(self) -> bool:
        return PREFIX_CHARS_MIN <= len(self.value) < ULID_CHARS and is_ulid_prefix(self.value)


def place_text(at: object) -> str:
    """The same place as a text, which a plan or a digest can hold. Raises ``InvalidInput`` for what can name no place."""
    if isinstance(at, dt.datetime):
        return f"time:{(_EPOCH + dt.timedelta(microseconds=_microseconds(at))).isoformat()}"
    if not isinstance(at, str):
        raise InvalidInput(
            f"a place is a text or a datetime, not {value_shown(at)}",
            hint="name a commit id, a checkpoint, a branch or a time",
        )
    read_place(at, 0)
    return at


def read_place(at: object, now_us: int) -> PlaceName:
    """What a place can mean. ``now_us``: what ``2h ago`` counts from."""
    text = place_text(at) if not isinstance(at, str) else at
    if not text.strip():
        raise InvalidInput("a place is empty", hint="name a commit id, a checkpoint, a branch or a time")
    if is_ulid(text):
        return PlaceName(text, text, "commit")
    prefix, colon, rest = text.partition(":")
    kind = next((one for one in PLACE_KINDS if colon and one == prefix), None)
    value = rest if kind is not None else text
    name = PlaceName(text, value, kind, _time_us(value, now_us))
    if kind == "commit" and not (name.is_commit_id or name.is_prefix):
        raise InvalidInput(
            f"{text[:80]!r} names no commit",
            hint=f"write the id of a commit, {ULID_CHARS} letters and digits in upper case, or at least its first "
            f"{PREFIX_CHARS_MIN}",
        )
    if kind == "time" and name.time_us is None:
        raise InvalidInput(f"{text[:80]!r} names no time", hint="write it as 2026-11-18T12:00Z or as 2h ago")
    return name


def read_commit_name(given: object) -> PlaceName:
    """The id of a commit or the beginning of one; nothing else will do."""
    name = read_place(given, 0)
    if name.kind == "commit" or (name.kind is None and name.is_prefix):
        return name
    raise InvalidInput(
        f"{name.text[:80]!r} is not the id of a commit",
        hint=f"write the id, or at least its first {PREFIX_CHARS_MIN} characters; `omnigraph commit list` shows them",
    )


def meaning(name: PlaceName, *, checkpoint: bool, branch: bool) -> PlaceKind | None:
    """What a name means where such a checkpoint and such a branch exist. None: nothing that exists, and no time."""
    if name.kind is not None:
        return name.kind
    if checkpoint and branch:
        raise InvalidInput(
            f"{name.value!r} is a checkpoint and a branch",
            hint=f"write checkpoint:{name.value} or branch:{name.value}",
            place=name.value,
        )
    if checkpoint:
        return "checkpoint"
    if branch:
        return "branch"
    if name.is_prefix:
        return "commit"
    return None if name.time_us is None else "time"


def the_one(name: PlaceName, found: Sequence[str], branch: str) -> str | None:
    """The only commit of a branch whose id begins so; None where there is none."""
    if len(found) > 1:
        raise InvalidInput(
            f"{len(found)} commits of {branch} begin with {name.value!r}",
            hint=f"write more of the id: {', '.join(found[:4])}{', …' if len(found) > 4 else ''}",
            commits=list(found[:100]),
        )
    return found[0] if found else None


def hint_for(name: PlaceName, checkpoints: Iterable[str], branches: Iterable[str]) -> str:
    """What to write in place of a name that means nothing."""
    by_case = {one.lower(): f"branch {one!r}" for one in branches}
    by_case |= {one.lower(): f"checkpoint {one!r}" for one in checkpoints}
    near = difflib.get_close_matches(name.value.lower(), by_case, n=1)
    if near:
        return f"did you mean {by_case[near[0]]}?"
    if is_ulid(name.value.upper()):
        return "the ids of commits are written in upper case; `omnigraph commit list` shows them"
    shown = ", ".join(list(by_case.values())[:10]) or "none"
    return f"there is {shown}; `omnigraph commit list` shows the commits; {_KINDS_HINT}"


def _time_us(text: str, now_us: int) -> int | None:
    ago = _AGO.fullmatch(text.strip())
    if ago is not None:
        return now_us - int(ago[1]) * _UNITS_S[ago[2]] * 1_000_000
    if _TIME.fullmatch(text) is None:
        return None
    try:
        return _microseconds(dt.datetime.fromisoformat(text))
    except ValueError:
        return None


def _microseconds(time: dt.datetime) -> int:
    """Without a zone it is UTC."""
    try:
        zoned = time if time.tzinfo is not None else time.replace(tzinfo=dt.UTC)
        return int((zoned.astimezone(dt.UTC) - _EPOCH) // _MICROSECOND)
    except (ValueError, OverflowError, TypeError) as error:  # what pandas calls no time at all is a datetime as well
        raise InvalidInput(f"not a time: {str(time)[:80]!r}", hint="write it as 2026-11-18T12:00Z") from error
