"""``__manifest`` on storage: read a branch's state, and the one door that makes a new one visible.

Owns requests and their order; what the new state holds is ``state.fold``'s business, and whether it may be published is
decided in ``commit/``. No other module swaps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from omnigraph.core.errors import Corruption, NotFound, UnsupportedStorage
from omnigraph.core.meter import Meter
from omnigraph.manifest import rows as r
from omnigraph.manifest.sound import contradictions
from omnigraph.manifest.state import Change, State, fold, from_rows, to_rows
from omnigraph.store import layout
from omnigraph.table import strict
from omnigraph.table.dataset import TableRef, Tables
from omnigraph.table.errors import Fate, classify
from omnigraph.table.strict import Fragments, SwapLost, SwapUnknown

__all__ = ["Held", "Manifest", "Merged", "SwapLost", "SwapUnknown", "Written"]


@dataclass(frozen=True)
class Held:
    """A state together with the handle it was read from: the base of a swap."""

    state: State
    handle: Any  # a Lance handle; only table/ looks inside

    @property
    def version(self) -> int:
        return self.state.version


@dataclass(frozen=True)
class Written:
    """Files that hold the state after ``change``, on one base. Good for one swap on exactly that base."""

    base: int
    change: Change
    after: State
    fragments: tuple[Fragments, ...]


@dataclass(frozen=True)
class Merged:
    """Archive fragments that have been merged into fewer: what they replace, and the new ones in their places."""

    replaces: tuple[str, ...]  # the files of every archive fragment that was there, oldest first
    parts: tuple[tuple[int, int, Fragments | None], ...]  # (first, end, merged); None keeps what is there

    def fits(self, held: Held) -> bool:
        """Whether the archive still begins with what was merged: it only ever grows at its end."""
        files = strict.fragment_files(held.handle)[:-1]
        return tuple(files[: len(self.replaces)]) == self.replaces


class Manifest:
    """The manifest dataset of one graph."""

    def __init__(self, tables: Tables, uri: str) -> None:
        self._tables = tables
        self._uri = uri

    def ref(self, ref: str | None) -> TableRef:
        return TableRef(layout.MANIFEST, ref)

    # --- reading ----------------------------------------------------------------------------------------------------

    def open_latest(self, ref: str | None = None, meter: Meter | None = None) -> Held:
        """The newest state of a branch: three requests, however long its history."""
        try:
            handle = self._tables.open_latest(self.ref(ref), meter, "manifest")
        except NotFound as error:
            raise NotFound(
                f"no graph at {self._uri}", hint=f"create one with `omnigraph init {self._uri} --schema FILE`"
            ) from error
        return self._held(ref, handle, meter)

    def open_at(self, ref: str | None, version: int, meter: Meter | None = None) -> Held:
        return self._held(ref, self._tables.open(self.ref(ref), version, meter, "manifest"), meter)

    def moved(self, held: Held, meter: Meter | None = None) -> bool:
        """Whether a next version exists: one HEAD. Says nothing once that version may have been reclaimed."""
        return self._tables.exists(self.ref(held.state.ref), held.version + 1, meter, "manifest")

    def _held(self, ref: str | None, handle: Any, meter: Meter | None) -> Held:
        check_storage_version(handle.schema.metadata or {}, self._uri)
        rows = r.from_arrow(strict.read_fragment(handle, -1, meter))
        state = from_rows(rows, version=handle.version, ref=ref)
        wrong = next(contradictions(state), None)
        if wrong is not None:
            raise Corruption(
                f"the current state in __manifest contradicts itself: {wrong}",
                hint="read again; if it stays so, keep the files and run `omnigraph verify`",
                object="__manifest",
                version=state.version,
            )
        return Held(state, handle)

    # --- writing ----------------------------------------------------------------------------------------------------

    def write(self, held: Held, change: Change, meter: Meter | None = None) -> Written:
        """Write the files of the state after ``change``; nothing names them until ``swap``."""
        after, archived = fold(held.state, change)
        files = []
        if archived:
            files.append(strict.write_ahead(held.handle, r.to_arrow(map(r.history_row, archived)), meter))
        files.append(strict.write_ahead(held.handle, r.to_arrow(to_rows(after)), meter))
        return Written(held.version, change, after, tuple(files))

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
        handle = strict.swap(
            self._tables,
            self.ref(held.state.ref),
            held.handle,
            keep=strict.fragment_count(held.handle) - 1,
            new=list(written.fragments),
            uuid=uuid,
            properties=properties or {},
            meter=meter,
        )
        self._tables.release(self.ref(held.state.ref), held.version)
        return Held(written.after, handle)

    # --- the archive --------------------------------------------------------------------------------------------------

    def archive_sizes(self, held: Held) -> list[int]:
        """Rows of each archive fragment, oldest first. No request."""
        return strict.fragment_rows(held.handle)[:-1]

    def merge_archives(self, held: Held, runs: Sequence[tuple[int, int]], meter: Meter | None = None) -> Merged:
        """Write runs of neighbouring archive fragments as one fragment each; nothing names them until the swap."""
        files = strict.fragment_files(held.handle)[:-1]
        parts: list[tuple[int, int, Fragments | None]] = []
        done = 0
        for first, end in runs:
            if first > done:
                parts.append((done, first, None))
            rows = strict.read_fragments(held.handle, first, end, meter)
            # What was read takes the place of what is there, so it has to read the same again.
            if not strict.read_fragments(held.handle, first, end, meter).equals(rows):
                raise Corruption(
                    "the archive of __manifest read differently the second time; nothing was changed",
                    hint="repeat; if it stays so, look at the store, and run `omnigraph verify --deep`",
                    object="__manifest",
                )
            parts.append((first, end, strict.write_ahead(held.handle, rows, meter)))
            done = end
        if done < len(files):
            parts.append((done, len(files), None))
        return Merged(tuple(files), tuple(parts))

    def swap_archives(self, held: Held, merged: Merged, *, uuid: str, meter: Meter | None = None) -> Held:
        """Make the same state the next version, over the merged archive. Raises ``SwapLost`` or ``SwapUnknown``."""
        if not merged.fits(held):
            raise ValueError("an archive merged from another one")
        parts = [part or strict.kept(held.handle, first, end) for first, end, part in merged.parts]
        rest = strict.kept(held.handle, len(merged.replaces), strict.fragment_count(held.handle))
        handle = strict.swap(
            self._tables,
            self.ref(held.state.ref),
            held.handle,
            keep=0,
            new=[*parts, rest],
            uuid=uuid,
            properties={},
            meter=meter,
        )
        self._tables.release(self.ref(held.state.ref), held.version)
        return Held(replace(held.state, version=handle.version), handle)

    def create(self, state: State, *, uuid: str) -> Held:
        """Commit a graph's first state. Raises ``SwapLost`` where a graph exists, ``SwapUnknown`` without an answer."""
        try:
            handle = strict.create(
                self._tables,
                self.ref(None),
                r.ARROW_SCHEMA,
                r.to_arrow(to_rows(state)),
                uuid=uuid,
                properties={"omnigraph:commit": state.head.commit_id},
            )
        except Exception as error:
            fate = classify(error)
            if fate in (Fate.NOT_LANDED_RETRYABLE, Fate.NOT_LANDED_INCOMPATIBLE):
                raise SwapLost(str(error)) from error
            raise SwapUnknown(str(error)) from error
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
