"""Files of tables compared with their checksums before this process first uses them, where a graph is opened so.

A version is checked when it is opened, each file once: what was written by another operation later brings only its own files.
A file without a line is *not known*, and is used.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from omnigraph.table import checksums, files
from omnigraph.table.checksums import Lines, Place
from omnigraph.table.names import TableRef

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lance import LanceDataset


class VerifiedFiles:
    """What has been compared so far. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._versions: set[tuple[TableRef, int]] = set()
        self._files: set[str] = set()
        self._lines: dict[str, Lines] = {}

    def check(self, ref: TableRef, handle: LanceDataset) -> None:
        """Raise ``Corruption`` if a file of this version is not what was written."""
        version = (ref, handle.version)
        with self._lock:
            if version in self._versions:
                return
        place = checksums.place_of(handle.uri)
        if place is not None:
            for path in _named(place, handle):
                self._check_file(place, handle.version, path)
        with self._lock:
            self._versions.add(version)

    def _check_file(self, place: Place, version: int, path: str) -> None:
        with self._lock:
            if path in self._files:
                return
            lines = self._lines.get(place.folder)
        if lines is None or path not in lines.known:
            lines = checksums.read_lines(place)  # of a file that was written since they were read
            with self._lock:
                self._lines[place.folder] = lines
        problem = checksums.mismatch(place, lines, path)
        if problem is not None:
            raise checksums.damaged(place.location, version, path, problem)
        with self._lock:
            self._files.add(path)


def _named(place: Place, handle: LanceDataset) -> Iterator[str]:
    """The files of a version below the graph's root: first those that say which the others are."""
    yield from map(place.path, files.version_files(handle))
    yield from map(place.path, files.files_of_fragments(handle))
    yield from (f"{place.location}/{path}" for path in files.inherited_files(handle))
    yield from map(place.path, files.index_files(handle))
