"""What a pin says about the ids of its newest rows: wrong, it would hide a row from whoever asks whether an id is taken."""

from __future__ import annotations

import omnigraph as og
from omnigraph.commit.protocol import newest_rows, run
from omnigraph.manifest.recent import Recent
from tests.component.planted.scenes import ONE as KEYS
from tests.component.planted.scenes import Defect, Engines, setting, wrong

TYPE = KEYS[0].partition(":")[2]
GONE = f"query gone($n: String) {{\n  delete {TYPE} where name = $n\n}}\n"


def _merged(uri: str, name: str, n: int) -> None:
    with og.open(uri) as graph:
        graph.load([{"type": TYPE, "data": {"name": name, "n": n}}], mode="merge")


def after_the_last_fragment_was_deleted(engines: Engines) -> list[str]:
    """A version without its last fragment goes on numbering from a higher number than it tells."""
    engine = engines()
    for n, name in enumerate(("a", "b", "c")):
        _merged(engine.uri, name, n)
    with og.open(engine.uri) as graph:
        graph.mutate(GONE, params={"n": "c"})
    for n in (7, 8):
        _merged(engine.uri, "d", n)
    return wrong(engines(), {KEYS[0]: ["a", "b", "d"]})


def one_after_the_other(engines: Engines) -> list[str]:
    """Every process asks whether an id is there that another one has brought."""
    engine = engines()
    for n, name in enumerate(("a", "b", "a", "c", "b", "c")):
        _merged(engine.uri, name, n)
    return wrong(engines(), {KEYS[0]: ["a", "b", "c"]})


def without_new_ids(recent: Recent | None, staged: dict[int, list[str]]) -> Recent | None:
    """The fragment is listed, and its ids are forgotten."""
    fragments = {*(recent.fragments if recent is not None else ()), *staged}
    return Recent(tuple(sorted(fragments)), recent.keys if recent is not None else b"")


DEFECTS = {
    "the number of a new fragment is taken for granted": Defect(
        after_the_last_fragment_was_deleted,
        setting(run, "confirm", lambda pins, written, *_: (pins, written)),
    ),
    "a fragment is said to be known and its ids are not": Defect(
        one_after_the_other, setting(newest_rows.recent, "extended", without_new_ids)
    ),
}
