"""What the processes of a run have done for each other, as the history of their graph tells it.

Each process writes under an actor of its own. A run in which none has helped another shows nothing of combining and offers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Self

from omnigraph.commit.engine import Engine
from omnigraph.manifest.rows import CommitRow
from omnigraph.testing.content import branches_of, commits_of


@dataclass(frozen=True)
class Sharing:
    """``shared``: swaps that carry commits of several processes. ``helped``: commits that the swap of another plan took along.
    ``carried``: commits that the plan of another process carried out."""

    commits: int = 0
    swaps: int = 0
    shared: int = 0
    helped: int = 0
    carried: int = 0

    @classmethod
    def of(cls, rows: Iterable[CommitRow]) -> Self:
        """``rows``: those of one line, oldest first. A swap writes its own plan first, and a plan its own requests first."""
        swaps = [list(swap) for _, swap in groupby(rows, attrgetter("version"))]
        carried = 0
        for swap in swaps:
            owners: dict[str, str | None] = {}
            for row in swap:
                carried += row.actor != owners.setdefault(row.plan, row.actor)
        return cls(
            commits=sum(map(len, swaps)),
            swaps=len(swaps),
            shared=sum(len({row.actor for row in swap}) > 1 for swap in swaps),
            helped=sum(row.plan != swap[0].plan for swap in swaps for row in swap),
            carried=carried,
        )

    def __add__(self, other: Sharing) -> Sharing:
        return Sharing(
            self.commits + other.commits,
            self.swaps + other.swaps,
            self.shared + other.shared,
            self.helped + other.helped,
            self.carried + other.carried,
        )

    def __str__(self) -> str:
        return f"{self.commits} commits in {self.swaps} swaps, {self.helped} helped, {self.carried} carried"


def sharing_of(engine: Engine) -> Sharing:
    """What was shared on main and on every branch."""
    found = Sharing.of(commits_of(engine))
    for held in branches_of(engine).values():
        own = [row for row in engine.history.rows(held) if isinstance(row, CommitRow) and row.ref == held.state.ref]
        found += Sharing.of(reversed(own))
    return found
