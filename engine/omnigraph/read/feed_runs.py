"""Runs of a change feed: swaps one after the other that did nothing but insert, read at once.

Reading them one by one would compare all fragments of a table for each. What a run gives is checked against the counts of its
commits; where they differ, or where a table was not only appended to, the swaps are compared one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from omnigraph.core.meter import Meter
from omnigraph.read.feed_walk import Pins, Swap, inserted_into, moved
from omnigraph.read.row_changes import explained
from omnigraph.read.states import Versioned
from omnigraph.table.appended import Appended, appended
from omnigraph.table.blob import blob_columns

RUN_ROWS_MAX: Final = 4096  # held at once
RUN_SWAPS_MIN: Final = 3


@dataclass(frozen=True)
class Run:
    """The rows that each swap of a run inserted. ``states``: the tables before the first of them and after each."""

    swaps: tuple[Swap, ...]
    states: tuple[Pins, ...]
    found: Mapping[str, Appended]

    def rows(self, at: int, identity: str) -> pa.Table:
        """What the swap at this place of the run inserted into a table."""
        before = self.states[at].get(identity)
        return self.found[identity].between(
            0 if before is None else before.version, self.states[at + 1][identity].version
        )

    @property
    def is_sound(self) -> bool:
        """Whether as many rows were found of each swap as its commits have counted."""
        return all(
            self.rows(at, identity).num_rows == inserted_into(swap, identity)
            for at, swap in enumerate(self.swaps)
            for identity in self.found
        )


def states_of(pins: Pins, swaps: Sequence[Swap]) -> tuple[Pins, ...] | None:
    """The tables before a run and after each of its swaps; None where commits do not say it."""
    states = [pins]
    for swap in swaps:
        after = moved(states[-1], swap)
        if after is None:
            return None
        states.append(after)
    return tuple(states)


def read_run(
    swaps: Sequence[Swap], states: tuple[Pins, ...], tables: Mapping[str, tuple[Versioned, Versioned]], meter: Meter
) -> Run | None:
    """Read what a run inserted into the tables asked for, each as it was before the run and after it. None: compare the swaps one
    by one."""
    found = {}
    for identity, (before, after) in tables.items():
        side, declared = after.side(), after.declared
        if side is None or declared is None or blob_columns(side.handle.schema):
            return None
        with explained(before, after):
            rows = appended(before.side(), side, declared.columns, meter)
        if rows is None:
            return None
        found[identity] = rows
    run = Run(tuple(swaps), states, found)
    return run if run.is_sound else None
