"""What a cleanup may delete: pure, from what was seen to what is doomed.

A version is doomed if no root holds it, its table is not being written, and it is older than the minimum age. Roots are
ranges: a branch keeps every version from the pin of its oldest retained commit on, so that whatever its states in between
name is there; a checkpoint or an intent keeps single versions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from omnigraph.core.errors import InvalidInput
from omnigraph.table.version_list import VersionFile
from omnigraph.wire.cleanup import DoomedVersions, Policy

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"([0-9]+)\s*([smhdw]?)")
_DURATION_S_MAX = 100 * 365 * 86_400
MIN_AGE = "1h"  # longer than any write takes: deadlines are minutes, and a staged batch has a record of its own


# --- the policy ---------------------------------------------------------------------------------------------------------


def make_policy(keep: object, older_than: object, min_age: object) -> Policy:
    """With one bound given the other is one commit, or the minimum age."""
    if keep is None and older_than is None:
        raise InvalidInput("a cleanup needs to be told what to keep", hint="pass keep=10, or older_than='7d', or both")
    if keep is not None and (not isinstance(keep, int) or isinstance(keep, bool) or keep < 1):
        raise InvalidInput(f"keep is a whole number of commits, 1 or more, not {keep!r}")
    min_age_s = seconds("min_age", min_age)
    older_than_s = min_age_s if older_than is None else seconds("older_than", older_than)
    return Policy(1 if keep is None else keep, older_than_s, min_age_s)


def seconds(name: str, value: object) -> int:
    """A duration: a number of seconds, ``"90s"``, ``"15m"``, ``"1h"``, ``"7d"``, ``"2w"``, or a timedelta."""
    total: float | None = None
    if isinstance(value, timedelta):
        total = value.total_seconds()
    elif isinstance(value, int) and not isinstance(value, bool):
        total = value
    elif isinstance(value, str):
        found = _DURATION.fullmatch(value.strip())
        total = int(found[1]) * _UNITS[found[2]] if found is not None and len(found[1]) < 12 else None
    if total is None or not 0 <= total <= _DURATION_S_MAX:
        raise InvalidInput(
            f"{name} is a duration such as '1h' or '7d', not {str(value)[:40]!r}",
            hint="a whole number with s, m, h, d or w; not negative",
        )
    return int(total)


# --- commits ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SeenCommit:
    """A commit as its version of the manifest shows it. ``modified_us``: by the store's clock; None where it is gone."""

    commit_id: str
    manifest_version: int
    modified_us: int | None


def oldest_retained(newest_first: Iterable[SeenCommit], policy: Policy, now_us: int) -> SeenCommit | None:
    """The oldest commit that the policy keeps and that is still there. None: not even the newest is.

    A commit counts as younger than the minimum age as long as it was the head within it: that is when a reader may have
    taken the snapshot that it still holds.
    """
    oldest: SeenCommit | None = None
    for index, commit in enumerate(newest_first):
        if commit.modified_us is None:
            break  # what is older was reclaimed with it
        replaced_us = now_us if oldest is None or oldest.modified_us is None else oldest.modified_us
        if not (
            index < policy.keep
            or now_us - commit.modified_us < policy.older_than_s * 1_000_000
            or now_us - replaced_us < policy.min_age_s * 1_000_000
        ):
            break
        oldest = commit
    return oldest


# --- versions -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Range:
    """Versions that are kept, both ends included; ``high`` None: and everything after."""

    low: int
    high: int | None
    why: str

    def holds(self, version: int) -> bool:
        return self.low <= version and (self.high is None or version <= self.high)


@dataclass(frozen=True)
class Line:
    """One version line as it was seen, and what keeps versions of it."""

    key: str
    location: str
    ref: str | None
    versions: tuple[VersionFile, ...]
    kept: tuple[Range, ...]
    exempt: str | None = None

    @property
    def place(self) -> tuple[str, str | None]:
        return (self.location, self.ref)


@dataclass(frozen=True)
class LinePlan:
    """What is to go from one line."""

    key: str
    location: str
    ref: str | None
    doomed: tuple[int, ...]
    doomed_bytes: int
    kept: int
    young: int
    exempt: str | None = None

    @property
    def place(self) -> tuple[str, str | None]:
        return (self.location, self.ref)


def doomed_versions(line: LinePlan, branch: str | None) -> DoomedVersions:
    """The plan of one line as its report says it, with the reason for what stays."""
    return DoomedVersions(
        line.key,
        branch,
        line.location,
        line.ref,
        ranges_text(line.doomed),
        len(line.doomed),
        line.doomed_bytes,
        line.kept,
        line.young,
        _reason(line),
    )


def _reason(line: LinePlan) -> str:
    if line.exempt is not None:
        return f"nothing: {line.exempt}"
    if not line.doomed:
        return "nothing: all of it is retained" if not line.young else "nothing: the rest is too young"
    return "older than what stays; no checkpoint and no pending write needs them"


def doom(line: Line, policy: Policy, now_us: int) -> LinePlan:
    """Judge every version of a line. The newest is never doomed, whatever the roots say."""
    doomed: list[VersionFile] = []
    kept = young = 0
    newest = line.versions[-1].version if line.versions else 0
    for file in line.versions:
        if line.exempt is not None or file.version == newest or any(r.holds(file.version) for r in line.kept):
            kept += 1
        elif now_us - file.modified_us < policy.min_age_s * 1_000_000:
            young += 1
        else:
            doomed.append(file)
    return LinePlan(
        line.key,
        line.location,
        line.ref,
        tuple(file.version for file in doomed),
        sum(file.bytes for file in doomed),
        kept,
        young,
        line.exempt,
    )


def spare(
    plan: Mapping[tuple[str, str | None], LinePlan], again: Iterable[LinePlan]
) -> dict[tuple[str, str | None], LinePlan]:
    """What is doomed in both of two looks. What became a root in between is spared; nothing is added."""
    found = {}
    for line in again:
        before = plan.get(line.place)
        if before is None:
            continue
        both = frozenset(before.doomed) & frozenset(line.doomed)
        found[line.place] = LinePlan(
            line.key,
            line.location,
            line.ref,
            tuple(version for version in before.doomed if version in both),
            before.doomed_bytes if len(both) == len(before.doomed) else line.doomed_bytes,
            line.kept,
            line.young,
            line.exempt,
        )
    return found


def comes_too_late(version: int, boundary: int, *, kept_by_another: bool) -> bool:
    """Whether a root that has just become durable at a version of the manifest protects nothing any more: a cleanup that
    began before it may not have seen it. Up to the boundary only what another root has kept all along is certain."""
    return version <= boundary and not kept_by_another


def ranges_text(versions: Sequence[int]) -> str:
    """``1-57, 59``."""
    runs: list[list[int]] = []
    for version in sorted(versions):
        if runs and runs[-1][1] == version - 1:
            runs[-1][1] = version
        else:
            runs.append([version, version])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
