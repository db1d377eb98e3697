"""What upkeep is called in Dagster: keys, jobs, sensors, schedules, and the tags by which its runs are found again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import dagster as dg

from omnigraph_pipelines.settings import GraphSettings

OPTIMIZE: Final = "optimize"
COMPACTION: Final = "compaction"
CLEANUP: Final = "cleanup"
RECONCILE: Final = "reconcile"
SCRUB: Final = "scrub"
KINDS: Final = (OPTIMIZE, COMPACTION, CLEANUP, RECONCILE, SCRUB)
WHOLE_FILES: Final = "files"
"""The check of a scrub."""

GRAPH_TAG: Final = "omnigraph/graph"
UPKEEP_TAG: Final = "omnigraph/upkeep"
# The pages of the UI do not show tags with this prefix: they are for programs.
BRANCH_TAG: Final = ".dagster/omnigraph.branch"
NUMBERS_TAG: Final = ".dagster/omnigraph.because"
# Of runs that wait for the branch's pool: what was interrupted goes before what is new.
RECOVERY_PRIORITY: Final = "10"
# Of steps in one run. What optimize replaces is garbage for the cleanup of the same night.
_STEP_PRIORITY: Final = {RECONCILE: "10", OPTIMIZE: "4", COMPACTION: "3", CLEANUP: "2", SCRUB: "1"}


@dataclass(frozen=True)
class Names:
    """Names of one graph's upkeep. ``prefix`` tells two graphs in one code location apart; asset keys need none."""

    graph: GraphSettings
    prefix: str = ""

    def key(self, kind: str) -> dg.AssetKey:
        return dg.AssetKey([self.graph.name, "upkeep", kind])

    def job(self, kind: str) -> str:
        return f"{self.prefix}{kind}"

    @property
    def nightly(self) -> str:
        return f"{self.prefix}nightly_upkeep"

    @property
    def group(self) -> str:
        return f"{self.graph.name}_upkeep"

    @property
    def pool(self) -> str:
        return self.graph.pool

    @property
    def of_graph(self) -> Mapping[str, str]:
        return {GRAPH_TAG: self.graph.name, BRANCH_TAG: self.graph.branch}

    def tags(self, kind: str | None = None) -> dict[str, str]:
        """Return tags of a run; without a kind, of one that does several things."""
        found = dict(self.of_graph)
        if kind is not None:
            found[UPKEEP_TAG] = kind
        if kind == RECONCILE:
            found["dagster/priority"] = RECOVERY_PRIORITY
        return found

    def step_tags(self, kind: str) -> dict[str, str]:
        """Return tags of a step: an executor begins with the highest priority."""
        return {**self.tags(kind), "dagster/priority": _STEP_PRIORITY[kind]}
