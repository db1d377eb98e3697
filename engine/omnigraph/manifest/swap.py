"""A manifest line on storage: read a branch's state, and the one door that makes a new one visible.

Owns requests and their order; what the new state holds is ``state.fold``'s business, and whether it may be published is
decided in ``commit/``. No other module swaps.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from omnigraph.core.collector import collector_paused
from omnigraph.core.errors import Corruption, OmnigraphError, StoreRefused, StoreUnavailable, UnsupportedStorage
from omnigraph.core.meter import Meter
from omnigraph.manifest import codec, damage, digests, fragments, reading
from omnigraph.manifest import rows as r
from omnigraph.manifest.consistency import contradictions
from omnigraph.manifest.state import Change, State, fold, schema_moved
from omnigraph.store import layout
from omnigraph.store.durability import SyncFailed
from omnigraph.table import checksums, strict
from omnigraph.table.dataset import TableRef, Tables
from omnigraph.table.errors import Fate, classify, panics_raised
from omnigraph.table.strict import Fragments, SwapLost, SwapUnknown

__all__ = ["Held", "Manifest", "Merged", "SwapLost", "SwapUnknown", "Written"]


@dataclass(frozen=True)
class Held:
    """A state together with the handle it was read from: the base of a swap."""

    state: State
    handle: Any  # a Lance handle; only table/ looks inside

    @cached_property
    def version(self) -> int:
        return self.state.version


@dataclass(frozen=True)
class Part:
    """A fragment written ahead, and the digest of its rows."""

    fragments: Fragments
    digest: str
    rows: list[r.RawRow] = field(repr=False, compare=False)


@dataclass(frozen=True)
class Written:
    """Files that hold the state after ``change``, on one base. Good for one swap on exactly that base.

    ``archive``, ``schema`` and ``base`` are None where the swap lists the fragments that are there again.
    """

    base: int
    change: Change
    after: State
    archive: Part | None
    schema: Part | None
    base_pins: Part | None
    current: Part


@dataclass(frozen=True)
class Merged:
    """Archive fragments that have been merged into fewer: what they replace, and the new ones in their places."""

    replaces: tuple[str, ...]  # the files of every archive fragment that was there, oldest first
    parts: tuple[tuple[int, int, Part | None], ...]  # (first, end, merged); None keeps what is there

    def fits(self, held: Held) -> bool:
        """Whether the archive still begins with what was merged: it only ever grows at its end."""
        return tuple(archive_files(held)[: len(self.replaces)]) == self.replaces


def archive_files(held: Held) -> list[str]:
    """The data files of the archive fragments, oldest first. No request."""
    files = strict.fragment_files(held.handle)
    return files[: fragments.archives(len(files))]


class Manifest:
    """The manifest lines of one graph."""

    def __init__(self, tables: Tables, uri: str) -> None:
        self._tables = tables
        self._uri = uri
        self._known = reading.Known()

    def ref(self, ref: str | None) -> TableRef:
        return TableRef(layout.MANIFEST, ref)

    # --- reading ----------------------------------------------------------------------------------------------------

    def open_latest(self, ref: str | None = None, meter: Meter | None = None) -> Held:
        """The newest state of a branch: five requests, however long its history; three while one fragment holds it."""
        try:
            handle = self._tables.open_latest(self.ref(ref), meter, "manifest")
        except OmnigraphError as error:
            found = damage.explained(self._tables.store, self.ref(ref), error)
            if found is error:  # nothing is its own cause
                raise
            raise found from error
        try:
            with panics_raised():
                return self._held(ref, handle, meter)
        except (StoreUnavailable, StoreRefused):
            raise
        except Exception as error:
            found = damage.unreadable(self._tables.store, self.ref(ref), error)
            if found is error:  # nothing is its own cause
                raise
            raise found from error

    def open_at(self, ref: str | None, version: int, meter: Meter | None = None) -> Held:
        """The state at a version. One that is there and does not read is ``Corruption`` with its file."""
        try:
            with panics_raised():
                return self._held(ref, self._tables.open(self.ref(ref), version, meter, "manifest"), meter)
        except (StoreUnavailable, StoreRefused):
            raise
        except Exception as error:
            found = damage.of_version(self._tables.store, self.ref(ref), version, error)
            if found is error:  # nothing is its own cause
                raise
            raise found from error

    def moved(self, held: Held, meter: Meter | None = None) -> bool:
        """Whether a next version exists: one HEAD. Says nothing once that version may have been reclaimed."""
        return self._tables.exists(self.ref(held.state.ref), held.version + 1, meter, "manifest")

    def _held(self, ref: str | None, handle: Any, meter: Meter | None) -> Held:
        check_storage_version(handle.schema.metadata or {}, self._uri)
        count = strict.fragment_count(handle)
        if count not in (0, 2) and handle.schema.remove_metadata().equals(r.ARROW_SCHEMA):
            parts = self._state_rows(handle, count, meter)
        else:
            raise Corruption(
                f"__manifest has {count} fragments with the columns {', '.join(handle.schema.names)[:200]}",
                hint="keep the files and run `omnigraph verify`",
                object="__manifest",
                version=handle.version,
            )
        with collector_paused():
            state = fragments.join(parts, version=handle.version, ref=ref)
            wrong = next(contradictions(state), None)
        if wrong is not None:
            raise Corruption(
                f"the current state in __manifest contradicts itself: {wrong}",
                hint="read again; if it stays so, keep the files and run `omnigraph verify`",
                object="__manifest",
                version=state.version,
            )
        return Held(state, handle)

    def _state_rows(self, handle: Any, count: int, meter: Meter | None) -> list[list[r.RawRow]]:
        return self._known.state(handle, fragments.archives(count), meter)

    # --- writing ----------------------------------------------------------------------------------------------------

    def write(self, held: Held, change: Change, meter: Meter | None = None) -> Written:
        """Write the files of the state after ``change``, side by side; nothing names them until ``swap``."""
        before = held.state
        after, archived = fold(before, change)
        listed: list[list[r.RawRow] | None] = [
            codec.history_rows(archived) or None,
            fragments.schema_rows(after) if before.base is None or schema_moved(before, after) else None,
            fragments.base_rows(after) if after.base is not before.base else None,
        ]
        current = fragments.current_rows(after)
        written = iter(self._write_parts(held, [rows for rows in (*listed, current) if rows is not None], meter))
        archive, schema, base = (None if rows is None else next(written) for rows in listed)
        return Written(held.version, change, after, archive, schema, base, next(written))

    def _write_parts(self, held: Held, parts: Sequence[list[r.RawRow]], meter: Meter | None) -> list[Part]:
        if len(parts) == 1:
            return [self._write_part(held, parts[0], meter)]
        with ThreadPoolExecutor(len(parts)) as pool:
            calls = [pool.submit(contextvars.copy_context().run, self._write_part, held, rows, meter) for rows in parts]
            return [call.result() for call in calls]

    def _write_part(self, held: Held, rows: list[r.RawRow], meter: Meter | None) -> Part:
        return Part(strict.write_ahead(held.handle, codec.to_arrow(rows), meter), digests.digest(rows), rows)

    def swap(
        self,
        held: Held,
        written: Written,
        *,
        uuid: str,
        properties: Mapping[str, str] | None = None,
        meter: Meter | None = None,
    ) -> Held:
        """Make ``written`` the next version, or raise ``SwapLost`` or ``SwapUnknown``."""
        if written.base != held.version:
            raise ValueError("files written for another base")
        count = strict.fragment_count(held.handle)
        archives = fragments.archives(count)
        new: list[Part | Fragments] = [strict.kept(held.handle, 0, archives)]
        if written.archive is not None:
            new.append(written.archive)
        for place, part in enumerate((written.schema, written.base_pins), archives):
            new.append(part or strict.kept(held.handle, place, place + 1))
        new.append(written.current)
        after = self._swap(held, new, written.after, uuid, properties or {}, meter)
        for part in (written.schema, written.base_pins):
            if part is not None:
                self._known.remember(part.fragments.files[0], part.rows)
        return after

    def _swap(
        self,
        held: Held,
        parts: Sequence[Part | Fragments],
        after: State,
        uuid: str,
        properties: Mapping[str, str],
        meter: Meter | None,
    ) -> Held:
        known = reading.digests_of(held.handle)
        named: dict[str, str] = {}
        listed: list[Fragments] = []
        for part in parts:
            kept = part.fragments if isinstance(part, Part) else part
            listed.append(kept)
            named |= {file: part.digest if isinstance(part, Part) else known[file] for file in kept.files}
        ref = self.ref(held.state.ref)
        columns = codec.schema_for(codec.history_rows(after.tail))
        handle = strict.swap(
            self._tables,
            ref,
            held.handle,
            schema=columns.with_metadata(digests.metadata(named)),
            fragments=listed,
            uuid=uuid,
            properties=properties,
            meter=meter,
        )
        self._tables.release(ref, held.version)
        self._note(ref, held.state.identity, properties.get("omnigraph:op"), handle, uuid)
        return Held(after, handle)

    def _note(self, ref: TableRef, identity: str, op: str | None, handle: Any, uuid: str) -> None:
        """Checksums of the version file and its transaction, on a local disk."""
        place = checksums.line_place(self._tables.store, ref.relative, identity)
        if place is not None:
            checksums.note_line(place, op or uuid, handle, uuid)

    # --- the archive --------------------------------------------------------------------------------------------------

    def archive_sizes(self, held: Held) -> list[int]:
        """Rows of each archive fragment, oldest first. No request."""
        return strict.fragment_rows(held.handle)[: len(archive_files(held))]

    def merge_archives(self, held: Held, runs: Sequence[tuple[int, int]], meter: Meter | None = None) -> Merged:
        """Write runs of neighbouring archive fragments as one fragment each; nothing names them until the swap."""
        files = archive_files(held)
        parts: list[tuple[int, int, Part | None]] = []
        done = 0
        for first, end in runs:
            if first > done:
                parts.append((done, first, None))
            read = reading.read(held.handle, first, end, meter)
            for rows in read:
                fragments.archived(rows)  # what takes the place of the archive has to be history
            parts.append((first, end, self._write_part(held, [row for rows in read for row in rows], meter)))
            done = end
        if done < len(files):
            parts.append((done, len(files), None))
        return Merged(tuple(files), tuple(parts))

    def swap_archives(self, held: Held, merged: Merged, *, uuid: str, meter: Meter | None = None) -> Held:
        """Make the same state the next version, over the merged archive. Raises ``SwapLost`` or ``SwapUnknown``."""
        if not merged.fits(held):
            raise ValueError("an archive merged from another one")
        parts: list[Part | Fragments] = [
            part or strict.kept(held.handle, first, end) for first, end, part in merged.parts
        ]
        parts.append(strict.kept(held.handle, len(merged.replaces), strict.fragment_count(held.handle)))
        return self._swap(held, parts, replace(held.state, version=held.version + 1), uuid, {}, meter)

    # --- the first version --------------------------------------------------------------------------------------------

    def create(
        self, state: State, *, uuid: str, written: Callable[[], None] = lambda: None, meter: Meter | None = None
    ) -> Held:
        """Commit a line's first state. ``written`` is called once its data file is there, before anything names it. Raises
        ``SwapLost`` where a line exists, ``SwapUnknown`` without an answer."""
        rows = fragments.single_rows(state)

        def described(file: str) -> Mapping[str, str]:
            written()
            return digests.metadata({file: digests.digest(rows)})

        try:
            handle = strict.create(
                self._tables,
                self.ref(state.ref),
                codec.to_arrow(rows, codec.schema_for(rows)),
                described,
                uuid=uuid,
                properties={"omnigraph:commit": state.head.commit_id},
                meter=meter,
            )
        except SyncFailed:
            raise
        except Exception as error:
            fate = classify(error)
            if fate in (Fate.NOT_LANDED_RETRYABLE, Fate.NOT_LANDED_INCOMPATIBLE):
                raise SwapLost(str(error)) from error
            raise SwapUnknown(str(error)) from error
        self._note(self.ref(state.ref), state.identity, None, handle, uuid)
        return Held(state, handle)


def check_storage_version(metadata: Mapping[bytes, bytes], uri: str) -> None:
    """Exactly one storage version is served. Older and newer are refused before anything else is read."""
    stamp = metadata.get(r.VERSION_KEY.encode())
    text = stamp.decode(errors="replace") if stamp is not None else None
    if text == str(r.STORAGE_VERSION):
        return
    if text is not None and text.isdigit() and int(text) > r.STORAGE_VERSION:
        hint = "install a newer release of omnigraph-pipelines to open this graph"
    else:
        hint = "export with the release that wrote the graph, then init and load with this one"
    raise UnsupportedStorage(
        f"{uri} is stored as version {text or 'unknown'}; this release serves version {r.STORAGE_VERSION} only",
        hint=hint,
        found=text,
        served=r.STORAGE_VERSION,
    )
