"""Whether the files of a table on a local disk still consist of the bytes that were written. Reads every one of them."""

from __future__ import annotations

import os
from collections.abc import Iterator

from omnigraph.commit.engine import Engine
from omnigraph.core import progress
from omnigraph.manifest.rows import Pin
from omnigraph.manifest.swap import Held
from omnigraph.table.checksums import Place, line_place, mismatch, place_of, read_lines
from omnigraph.table.collect import retained_files
from omnigraph.table.dataset import TableRef
from omnigraph.wire.verify import DAMAGE, GARBAGE, Problem


def checksum_problems(engine: Engine, pin: Pin) -> Iterator[Problem]:
    """Compare every file of every version of a table that exists with its line, where it has one."""
    ref = TableRef(pin.location, pin.ref)
    place = place_of(engine.tables.uri(ref))
    if place is None:
        return
    lines = read_lines(place)
    for name in lines.unreadable:
        what = f"{name}: a line of the checksums of {pin.key} does not read; what it named is not checked"
        yield Problem(GARBAGE, "checksum-lines", what, pin.key)
    versions = retained_files(engine.tables, ref)
    for path in sorted(lines.known.keys() | lines.contradicting):
        version = _version(place, versions, path)
        if version is None:
            continue
        problem = mismatch(place, lines, path)
        progress.advance(subject=pin.key)
        if problem is not None:
            what = f"{path} of {pin.key}, version {version}: {problem}"
            yield Problem(DAMAGE, "checksum", what, pin.key)


def line_problems(engine: Engine, held: Held) -> Iterator[Problem]:
    """The same for the version files and transactions of one line of the manifest."""
    relative = engine.manifest.ref(held.state.ref).relative
    place = line_place(engine.store, relative, held.state.identity)
    if place is None:
        return
    lines = read_lines(place)
    for path in sorted(lines.known):
        if path.startswith(f"{relative}/") and os.path.lexists(os.path.join(place.root, path)):
            problem = mismatch(place, lines, path)
            if problem is not None:
                yield Problem(DAMAGE, "checksum", f"{path} of __manifest: {problem}")


def _version(place: Place, versions: dict[str, int] | None, path: str) -> int | str | None:
    """The newest version that names a file. Where Lance cannot read its versions, every file that is there is live."""
    if versions is None:
        return "unknown" if os.path.lexists(os.path.join(place.root, path)) else None
    file = path.removeprefix(f"{place.relative}/")
    folder, _, name = file.rpartition("/")
    # A blob in a file of its own lies in a folder that is named after its data file.
    return versions.get(file, versions.get(f"{folder}.lance") if name else None)
