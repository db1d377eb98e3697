"""What ingest is called in Dagster: keys, jobs, sensors, partitions, pools, tags."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import dagster as dg

from omnigraph_pipelines.settings import GraphSettings, SourceSettings

GRAPH_TAG: Final = "omnigraph/graph"
SOURCE_TAG: Final = "omnigraph/source"
# The pages of the UI do not show tags with this prefix: they are for programs.
BRANCH_TAG: Final = ".dagster/omnigraph.branch"
FINGERPRINT_TAG: Final = ".dagster/omnigraph.fingerprint"
BATCHES_TAG: Final = ".dagster/omnigraph.batches"  # of a run of several: the fingerprint of each
REFUSED_TAG: Final = ".dagster/omnigraph.refused"  # of a run of several: why a batch was refused, for each that was
# Dagster's own, of a run of several partitions.
RANGE_START_TAG: Final = "dagster/asset_partition_range_start"
RANGE_END_TAG: Final = "dagster/asset_partition_range_end"
FINGERPRINT_CHARS: Final = 16
PROCESS_TAG: Final = ".dagster/omnigraph.process"  # of runs in a process of their own, which no launcher watches


@dataclass(frozen=True)
class Names:
    """Names of one source. ``prefix`` tells two graphs in one code location apart; asset keys need none."""

    graph: GraphSettings
    source: SourceSettings
    prefix: str = ""

    def table(self, type_name: str) -> dg.AssetKey:
        return dg.AssetKey([self.graph.name, self.source.name, type_name])

    @property
    def commit(self) -> dg.AssetKey:
        return dg.AssetKey([self.graph.name, self.source.name, "commit"])

    @property
    def quarantine(self) -> dg.AssetKey:
        return dg.AssetKey([self.graph.name, self.source.name, "quarantine"])

    @property
    def replay_job(self) -> str:
        return f"{self.prefix}replay_quarantine_{self.source.name}"

    @property
    def op(self) -> str:
        return f"{self.graph.name}__{self.source.name}"

    @property
    def shares_runs(self) -> bool:
        return self.source.batches_per_run > 1

    @property
    def step(self) -> str:
        """The op that stages a batch; of a source whose batches share runs, the one that does everything."""
        return f"{self.op}__{'ingest' if self.shares_runs else 'stage'}"

    @property
    def job(self) -> str:
        return f"{self.prefix}ingest_{self.source.name}"

    @property
    def sensor(self) -> str:
        return f"{self.prefix}new_batches_{self.source.name}"

    @property
    def group(self) -> str:
        return self.source.group_name or f"{self.graph.name}_{self.source.name}"

    @property
    def partitions(self) -> dg.DynamicPartitionsDefinition:
        """One for each source: a shared one would show every batch as missing everywhere else."""
        return dg.DynamicPartitionsDefinition(name=f"{self.graph.name}/{self.source.name}")

    @property
    def pool(self) -> str | None:
        """Of the staging step. The run queue holds back runs whose first step finds its pool full, so that a backfill does
        not occupy every worker with runs that wait for their turn."""
        return f"source_{self.graph.name}_{self.source.name}" if self.source.order == "serial" else None

    def tags(self) -> dict[str, str]:
        """Tags of every run of the source."""
        return {GRAPH_TAG: self.graph.name, SOURCE_TAG: self.source.name, BRANCH_TAG: self.graph.branch}

    def batch_tags(self, fingerprint: str) -> dict[str, str]:
        """Tags of the run of one batch. Dagster's own tag of the partition has the batch's name."""
        return {**self.tags(), FINGERPRINT_TAG: fingerprint[:FINGERPRINT_CHARS]}

    def shared_tags(self, fingerprints: Mapping[str, str]) -> dict[str, str]:
        """Tags of a run of several batches."""
        said = {batch: fingerprint[:FINGERPRINT_CHARS] for batch, fingerprint in fingerprints.items()}
        return {**self.tags(), BATCHES_TAG: json.dumps(said, sort_keys=True)}
