"""Repair of lines of the manifest whose newest version a power cut has torn, or whose pins it has.

What cannot be read is moved aside, never deleted, so that the newest whole version is the newest one again. The commits that
are given up are listed: in the default mode of durability they were never acknowledged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from omnigraph.commit.engine import MAIN, Branch, Engine
from omnigraph.commit.lines import list_folders
from omnigraph.commit.plan import BranchName
from omnigraph.commit.recovery.torn import move_aside, moving
from omnigraph.core.errors import (
    Corruption,
    NotFound,
    OmnigraphError,
    StoreRefused,
    StoreUnavailable,
    UnsupportedStorage,
)
from omnigraph.core.meter import Meter
from omnigraph.manifest.boundary import ALL
from omnigraph.manifest.checkpoints import list_checkpoints
from omnigraph.manifest.state import State
from omnigraph.store import layout
from omnigraph.table import new_file_checks
from omnigraph.table.dataset import TableRef
from omnigraph.table.errors import panics_raised
from omnigraph.table.torn import TornVersion, torn_version, torn_versions
from omnigraph.table.version_list import version_files, version_path
from omnigraph.wire.recovery import LineRepair, UnreadableVersion

_COMMIT = re.compile(
    rb"omnigraph:commit\x12\x1a([0-9A-HJKMNP-TV-Z]{26})"
)  # a property of a transaction, as Lance stores it
NEEDS_FORCE: Final = (
    "a file of it is damaged and not torn: restore it from a backup, or give the commits up with --force"
)


@dataclass(frozen=True)
class _Line:
    """What is wrong with one line. ``torn``: what has to be moved aside. ``damaged``: some of it is whole, and yet does not
    read."""

    ref: str | None
    torn: tuple[TornVersion, ...]
    left: State | None
    damaged: bool


def repair_lines(engine: Engine, *, confirm: bool, force: bool, meter: Meter) -> tuple[LineRepair, ...]:
    """What is torn of every line; with ``confirm``, move it aside. Nothing on an object store, where files are whole or absent."""
    if engine.store.is_remote:
        return ()
    refs = [None, *(folder for folder in list_folders(engine, meter) if layout.line_identity(folder) is not None)]
    lines = [_look(engine, ref, meter) for ref in refs]
    children = [line.left for line in lines if line.left is not None and line.left.head.closed is None]
    found = []
    for line in lines:
        if line.torn and confirm:
            with moving(engine, TableRef(layout.MANIFEST, line.ref)):
                now = _look(engine, line.ref, meter)  # another process may have moved it, and a writer gone on since
                found.append(_repair(engine, now, children, confirm=True, force=force, meter=meter))
        elif line.torn:
            found.append(_repair(engine, line, children, confirm=False, force=force, meter=meter))
    return tuple(found)


def _look(engine: Engine, ref: str | None, meter: Meter) -> _Line:
    where = TableRef(layout.MANIFEST, ref)
    listed = version_files(engine.store, where)
    bad: list[TornVersion] = []
    damaged = False
    left: State | None = None
    for one in reversed(listed):
        torn = torn_version(engine.store, where, one.version)
        if torn is None:
            left, why = _read(engine, ref, one.version, meter)
            if left is not None:
                break
            damaged = damaged or why is None
            torn = TornVersion(version_path(where, one.version), one.version, one.bytes, why or "it does not read")
        bad.append(torn)
    below = [one for one in torn_versions(engine.store, where) if left is not None and one.version < left.version]
    return _Line(ref, tuple(sorted((*bad, *below), key=lambda one: one.version)), left, damaged)


def _read(engine: Engine, ref: str | None, version: int, meter: Meter) -> tuple[State | None, str | None]:
    """The state of a version; else None and what is not whole, None where everything is and it still does not read."""
    try:
        with panics_raised():
            state = engine.manifest.open_at(ref, version, meter).state
    except (StoreUnavailable, StoreRefused, UnsupportedStorage):
        raise
    except Exception as error:  # noqa: BLE001 - a version file that has rotted may raise anything
        torn = isinstance(error, OmnigraphError) and error.facts.get("whole") is False
        return None, str(error) if torn else None
    if state.head.unsynced_since is None:
        return state, None  # what it names was synced before it was made
    for pin in state.tables.values():
        why = _torn_pin(engine, TableRef(pin.location, pin.ref), pin.version, meter)
        if why is not None:
            return None, f"{pin.key}: {why}"
    return state, None


def _torn_pin(engine: Engine, ref: TableRef, version: int, meter: Meter) -> str | None:
    torn = torn_version(engine.store, ref, version)
    if torn is not None:
        return f"{torn.path}: {torn.why}"
    try:
        handle = engine.tables.open(ref, version, meter)
    except (Corruption, NotFound) as error:
        return error.message
    return next(iter(new_file_checks.damaged(handle).values()), None)


def _repair(
    engine: Engine, line: _Line, children: Sequence[State], *, confirm: bool, force: bool, meter: Meter
) -> LineRepair:
    reason = _named_by(engine, line, children, meter)
    if reason is None and line.damaged and not force:
        reason = NEEDS_FORCE
    given_up = tuple(_commits(engine, line))
    newest = None if line.left is None else line.left.version
    done = confirm and reason is None
    if done and line.torn:
        move_aside(engine, line.torn, actor=None, line=line.ref, newest_left=newest, given_up=given_up, meter=meter)
        engine.tables.forget(TableRef(layout.MANIFEST, line.ref))
        engine.drop(_branch_of(line.ref))
    return LineRepair(
        line=line.ref,
        newest_left=newest,
        moved=tuple(UnreadableVersion(one.path, one.bytes, one.why) for one in line.torn),
        given_up=given_up,
        action="healed" if done else "refused" if confirm else "preview",
        reason=reason,
    )


def _branch_of(ref: str | None) -> Branch:
    identity = None if ref is None else layout.line_identity(ref)
    return MAIN if identity is None else BranchName("", identity)


def _named_by(engine: Engine, line: _Line, children: Sequence[State], meter: Meter) -> str | None:
    """A checkpoint, branch or boundary that rests on a version which would go. ``children``: the states of branches that are
    there."""
    versions = {one.version for one in line.torn}
    for child in children:
        parent = child.head.parent
        if parent is not None and parent.ref == line.ref and parent.manifest_version in versions:
            return f"branch {child.head.name!r} was made from version {parent.manifest_version}: restore the line from a backup"
    try:
        for checkpoint in list_checkpoints(engine.store, meter):
            if checkpoint.ref == line.ref and checkpoint.manifest_version in versions:
                return f"checkpoint {checkpoint.name!r} pins version {checkpoint.manifest_version}: delete it first"
        for entry in engine.names.all(meter):
            source = entry.source
            if source is not None and source.ref == line.ref and source.manifest_version in versions:
                return f"branch {entry.name!r} is being made from version {source.manifest_version}"
            if line.left is None and entry.state == "bound" and entry.ref == line.ref:
                return f"branch {entry.name!r} has no other version: restore the line from a backup"
    except OmnigraphError as error:
        return error.message
    if line.left is None:
        return None
    doomed = engine.boundary.value(line.left.identity, repeated=0, meter=meter)
    above = [version for version in versions if version > line.left.version]
    if doomed != ALL and any(version <= doomed for version in above):
        return f"a cleanup has doomed version {doomed} already: restore the line from a backup"
    return None


def _commits(engine: Engine, line: _Line) -> Iterator[str]:
    """The commits of versions that go, as far as their transactions still say."""
    folder = Path(engine.store.uri, TableRef(layout.MANIFEST, line.ref).relative, "_transactions")
    for one in line.torn:
        for path in sorted(folder.glob(f"{one.version - 1}-*.txn")):
            found = _COMMIT.search(path.read_bytes())
            if found is not None:
                yield found[1].decode()
