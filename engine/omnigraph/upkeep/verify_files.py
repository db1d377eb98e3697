"""Whether files on a local disk still consist of the bytes that were written. Reads every one of them, at a rate if asked to.

Writers, optimize and cleanup may run beside it for all the hours that it takes. So a file that does not fit is compared
once more, with the lines and the versions as they are then: its version may have been deleted since, or its name used again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from omnigraph.commit.engine import Engine
from omnigraph.core import progress
from omnigraph.core.pace import Pace
from omnigraph.manifest.rows import Pin
from omnigraph.manifest.swap import Held
from omnigraph.table.checksums import Lines, Place, line_place, mismatch, place_of, read_lines
from omnigraph.table.collect import retained_files
from omnigraph.table.dataset import TableRef
from omnigraph.wire.verify import DAMAGE, GARBAGE, Problem


@dataclass
class FileCheck:
    """Compares files with their checksums. ``files``: how many so far; the pace counts their bytes."""

    engine: Engine
    pace: Pace = field(default_factory=Pace)
    files: int = 0

    def table(self, pin: Pin) -> Iterator[Problem]:
        """Compare every file of every version of a table that exists with its line, where it has one."""
        ref = TableRef(pin.location, pin.ref)
        place = place_of(self.engine.tables.uri(ref))
        if place is None:
            return
        lines = read_lines(place)
        for name in lines.unreadable:
            what = f"{name}: a line of the checksums of {pin.key} does not read; what it named is not checked"
            yield Problem(GARBAGE, "checksum-lines", what, pin.key)
        versions = retained_files(self.engine.tables, ref)
        named = [path for path in sorted(lines.known.keys() | lines.contradicting) if _version(place, versions, path)]
        suspects = [path for path in named if self._differs(place, lines, path, pin.key)]
        if not suspects:
            return
        lines, versions = read_lines(place), retained_files(self.engine.tables, ref)
        for path in suspects:
            version, problem = _version(place, versions, path), mismatch(place, lines, path, self.pace)
            if problem is not None and version is not None:
                what = f"{path} of {pin.key}, version {version}: {problem}"
                yield Problem(DAMAGE, "checksum", what, pin.key)

    def line(self, held: Held) -> Iterator[Problem]:
        """Compare the version files and transactions of one line of the manifest."""
        relative = self.engine.manifest.ref(held.state.ref).relative
        place = line_place(self.engine.store, relative, held.state.identity)
        if place is None:
            return
        lines = read_lines(place)
        named = [path for path in sorted(lines.known) if path.startswith(f"{relative}/") and _is_there(place, path)]
        suspects = [path for path in named if self._differs(place, lines, path, "__manifest")]
        lines = read_lines(place) if suspects else lines
        for path in suspects:
            problem = mismatch(place, lines, path, self.pace)
            if problem is not None and _is_there(place, path):
                yield Problem(DAMAGE, "checksum", f"{path} of __manifest: {problem}")

    def _differs(self, place: Place, lines: Lines, path: str, subject: str) -> bool:
        self.files += 1
        problem = mismatch(place, lines, path, self.pace)
        progress.advance(subject=subject)
        return problem is not None


def _is_there(place: Place, path: str) -> bool:
    return os.path.lexists(os.path.join(place.root, path))


def _version(place: Place, versions: dict[str, int] | None, path: str) -> int | str | None:
    """The newest version that names a file. Where Lance cannot read its versions, every file that is there is live."""
    if versions is None:
        return "unknown" if _is_there(place, path) else None
    file = path.removeprefix(f"{place.relative}/")
    folder, _, name = file.rpartition("/")
    # A blob in a file of its own lies in a folder that is named after its data file.
    return versions.get(file, versions.get(f"{folder}.lance") if name else None)
