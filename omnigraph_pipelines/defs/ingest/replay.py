"""The job that loads the quarantine of a source again: every file that was not loaded yet, each as one commit."""

# No deferred annotations here: Dagster reads the config class from the parameters as they are.

from typing import Any

import dagster as dg
from pydantic import Field

from omnigraph_pipelines.bad_rows import replayed
from omnigraph_pipelines.defs.ingest.names import Names
from omnigraph_pipelines.failures import rows_metadata, told_to_dagster
from omnigraph_pipelines.graph_file import GraphFile
from omnigraph_pipelines.quarantine import Quarantine, QuarantineFile
from omnigraph_pipelines.quarantine_replay import Replay, failure_of, open_entries, replay, replay_each
from omnigraph_pipelines.resources import Bound
from omnigraph_pipelines.settings import text_of
from omnigraph_pipelines.wording import counted


class ReplayConfig(dg.Config):
    """What a replay can be told."""

    batch: str | None = Field(default=None, description="Only the rows of this batch; all of the source if left out.")


def replay_asset(names: Names, file: GraphFile, graph: Bound) -> dg.AssetsDefinition:
    source = names.source
    actions = replayed(file.rules_of(source))

    @dg.asset(
        key=names.quarantine,
        deps=[names.commit],
        group_name=f"{names.graph.name}_quarantine",  # not beside the batches: "materialize all" there means batches
        kinds={"lance"},
        owners=list(source.owners),
        pool=names.graph.pool,
        tags={"omnigraph/graph": names.graph.name, "omnigraph/branch": names.graph.branch},
        required_resource_keys=graph.required_keys,
        description=f"Loads rows that were left out of batches of `{source.name}` again; what still does not fit stays.",
    )
    def quarantine(context: dg.AssetExecutionContext, config: ReplayConfig) -> dg.MaterializeResult[Any]:
        with told_to_dagster(context), graph.opened(context.resources) as resource:
            opened = resource.graph
            options = {name: text_of(value) for name, value in names.graph.storage_options.items()}
            kept = Quarantine(opened.uri, tuple(options.items()))

            def load(entry: QuarantineFile) -> Replay:
                return replay(
                    opened, kept, entry, branch=names.graph.branch, mode=source.mode, on_missing_endpoint=actions
                )

            found, failures = replay_each(open_entries(opened, kept, source.name, config.batch), load)
            failure = failure_of(found, failures)
            if failure is not None:
                raise failure
            head = opened.snapshot(names.graph.branch).commit_id
        loaded, left = sum(one.loaded for one in found), sum(one.left for one in found)
        rows = [
            {"file": one.entry.path, "loaded": one.loaded, "left": one.left, "commit": one.commit_id or ""}
            for one in found
        ]
        return dg.MaterializeResult(
            metadata={
                "summary": f"{counted(loaded, 'row')} of {counted(len(found), 'file')} loaded, {left:,} left",
                "rows_loaded": loaded,
                "rows_left": left,
                **({"files": rows_metadata(rows)} if rows else {}),
            },
            data_version=dg.DataVersion(head),
        )

    return quarantine
