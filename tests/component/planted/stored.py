"""Bytes that are not what was written, and rows that no swap writes."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.commit.engine import MAIN
from omnigraph.core.clock import ManualClock
from omnigraph.core.errors import (
    OmnigraphError,
    StoreUnavailable,
)
from omnigraph.core.meter import Meter
from omnigraph.manifest import codec, reading
from omnigraph.manifest import swap as swapping
from omnigraph.table import new_file_checks, strict
from omnigraph.testing import rot
from omnigraph.testing.content import commits_of
from omnigraph.testing.operations import append
from omnigraph.upkeep import verify, verify_files
from tests.component.planted.scenes import (
    ONE,
    Defect,
    Engines,
    setting,
    wrong,
)


def the_disk_becomes_full(engines: Engines) -> list[str]:
    """The last write to a data file fails, and Lance says that the file is there."""
    engine = engines()
    append(engine, ONE, ["a"])
    write = new_file_checks.write_fragments

    def cut_short(rows: Any, handle: Any, **options: Any) -> Any:
        fragments = write(rows, handle, **options)
        for file in fragments[-1].files:
            os.truncate(Path(handle.uri, "data", file.path), file.file_size_bytes - 1)
        return fragments

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(new_file_checks, "write_fragments", cut_short)
        with contextlib.suppress(StoreUnavailable):
            append(engine, ONE, ["b"])
    return wrong(engines(), {ONE[0]: ["a"]})


def a_parent_flips_on_the_way(engines: Engines) -> list[str]:
    return _flip(engines, '"parents":["01', '"parents":["00')


def an_actor_flips_on_the_way(engines: Engines) -> list[str]:
    """Nothing else repeats an actor, so that only a digest can tell."""
    return _flip(engines, '"actor":"ada"', '"actor":"adb"')


def _flip(engines: Engines, old: str, new: str) -> list[str]:
    append(engines(), ONE, ["first"], actor="ada")
    before = [(row.parents, row.actor) for row in commits_of(engines())]
    read = strict.read_fragments

    def flipping(*args: Any) -> pa.Table:
        table = read(*args)
        texts = [text and text.replace(old, new) for text in table["metadata"].to_pylist()]
        return table.set_column(table.schema.get_field_index("metadata"), "metadata", pa.array(texts, pa.string()))

    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(OmnigraphError):
        patch.setattr(strict, "read_fragments", flipping)
        append(engines(), ONE, ["second"])
    now = [(row.parents, row.actor) for row in commits_of(engines())][: len(before)]
    return [*wrong(engines()), *([] if now == before else [f"history says {now}, it said {before}"])]


def a_file_rots(engines: Engines) -> list[str]:
    """A look at a rate has to name it."""
    engine = engines()
    append(engine, ONE, ["a"])
    pin = engine.latest(MAIN).state.tables[ONE[0]]
    rotten = max(Path(engine.store.uri, pin.location, "_transactions").iterdir(), key=lambda path: path.name)
    rot.flip(rotten, at=3, bit=1)
    problems = verify.verify_files(engine, bytes_per_s=1_000_000, clock=ManualClock()).problems
    return [] if any(rotten.name in one.message for one in problems) else [f"{rotten.name} is not named"]


def believing(patch: pytest.MonkeyPatch) -> None:
    """Rows are held against nothing: not against their digests, and not against each other."""
    reading_anything(patch)
    patch.setattr(swapping, "contradictions", lambda _: iter(()))


def reading_anything(patch: pytest.MonkeyPatch) -> None:
    def unchecked(handle: Any, first: int, end: int, meter: Meter | None = None) -> list[Any]:
        parts = [strict.read_fragments(handle, at, at + 1, meter) for at in range(first, end)]
        return [codec.from_arrow(part) for part in parts]

    patch.setattr(reading, "read", unchecked)


DEFECTS = {
    "new files are not looked at": Defect(
        the_disk_becomes_full, setting(new_file_checks, "check_fragments", lambda *_: None)
    ),
    "a scrub takes files as they are": Defect(a_file_rots, setting(verify_files, "mismatch", lambda *_: None)),
    "what the manifest says is believed": Defect(a_parent_flips_on_the_way, believing),
    "rows are not held against their digests": Defect(an_actor_flips_on_the_way, reading_anything),
}
