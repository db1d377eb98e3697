"""The commit asset of one source: one staged batch becomes one commit of the graph, under the pool of its branch.

Owns publishing and what is told of it. The pool is traffic control; that a batch is in the graph once is the work of the
idempotency key, whatever is killed, retried or run twice.
"""

# No deferred annotations here: Dagster looks at the parameters as they are.

import time
from typing import Any, Final

import dagster as dg

import omnigraph as og
from omnigraph_pipelines.batches import find_batch
from omnigraph_pipelines.defs.ingest import handover, metadata
from omnigraph_pipelines.defs.ingest.handover import HandOver
from omnigraph_pipelines.defs.ingest.names import Names, idempotency_key
from omnigraph_pipelines.defs.ingest.staging import committed_as
from omnigraph_pipelines.failures import is_transient, rows_metadata, told_to_dagster
from omnigraph_pipelines.graph_file import GraphFile
from omnigraph_pipelines.resources import Connections
from omnigraph_pipelines.settings import CheckSettings

COMMIT_S: Final = 3600.0
SPARK_FROM_ROWS: Final = 2_000_000
"""From so many staged rows on Spark's tasks rewrite what has to be written again; below, this process is quicker."""


def commit_asset(names: Names, file: GraphFile, connections: Connections) -> dg.AssetsDefinition:
    source = names.source
    keys = [file.catalog.type(name).table_key for name in file.types_of(source)]
    bounds = file.settings.checks_of(source)

    @dg.asset(
        key=names.commit,
        deps=[names.table(name) for name in file.types_of(source)],
        partitions_def=names.partitions,
        group_name=names.group,
        kinds={"graph", "lance"},
        owners=list(source.owners),
        pool=names.graph.pool,
        required_resource_keys=connections.graph.required_keys | connections.spark.required_keys,
        tags={"omnigraph/graph": names.graph.name, "omnigraph/branch": names.graph.branch},
        description=(
            f"One commit of `{names.graph.name}` for each batch of `{source.name}`, over all of its types at once. "
            "A batch that the graph has already changes nothing."
        ),
    )
    def commit(context: dg.AssetExecutionContext) -> dg.MaterializeResult[Any]:
        started = time.monotonic()
        resources = context.resources
        with told_to_dagster(context), connections.graph.opened(resources) as resource:
            graph: og.Graph = resource.graph
            what = _handed_over(context, graph, names)
            if what.receipt is not None:
                receipt = what.receipt
            else:
                with connections.spark.opened(resources) as spark:
                    receipt = publish(context, graph, what, names, bounds, spark)
            found = metadata.committed(receipt, graph.snapshot(names.graph.branch), keys)
        handover.forget(context.instance, names.graph.name, source.name, what.batch)
        for warning in receipt.warnings:
            context.log.warning(warning)
        return dg.MaterializeResult(
            metadata={
                **found,
                **_told_of_batch(context, names, what, receipt),
                "seconds": round(time.monotonic() - started, 3),
                "dagster/uri": graph.uri,
            },
            data_version=dg.DataVersion(receipt.commit_id or str(found["dagster/row_count"])),
        )

    return commit


def _handed_over(context: Any, graph: "og.Graph", names: Names) -> HandOver:
    """What the staging step left; or the receipt of a batch that is in the graph, for whoever runs this step alone."""
    source = names.source
    found = handover.take(context.instance, names.graph.name, source.name, context.partition_key)
    if found is not None:
        return found
    batch = find_batch(source, context.partition_key)
    fingerprint = batch.fingerprint()
    key = idempotency_key(source.name, batch.key, fingerprint)
    receipt = committed_as(graph, names.graph.branch, key)
    if receipt is None:
        raise og.errors.InvalidInput(
            f"nothing is staged for batch {batch.key} of {source.name}",
            hint="materialize the staged tables and the commit together",
            source=source.name,
            batch=batch.key,
        )
    return HandOver(batch.key, fingerprint, key, len(batch.files), batch.bytes, 0.0, receipt=receipt)


def publish(
    context: Any, graph: "og.Graph", what: HandOver, names: Names, bounds: CheckSettings, spark: Any
) -> "og.Receipt":
    """Commit what was staged. Unlike a call that ends with its process, a failure that may pass keeps the staged files for
    the next try of the step."""
    batch = what.staged
    assert batch is not None
    branch = names.graph.branch
    try:
        txn = graph.begin(branch, resume=batch.staging_id)
    except og.errors.NotFound:
        # The record goes when the commit is made: an earlier try got as far as that, or a cleanup came in between.
        receipt = committed_as(graph, branch, what.idempotency_key)
        if receipt is None:
            handover.forget(context.instance, names.graph.name, names.source.name, what.batch)
            raise og.errors.InvalidInput(
                f"what was staged for batch {what.batch} is gone",
                hint="materialize the staged tables and the commit together",
                batch=what.batch,
            ) from None
        return receipt
    try:
        return txn.load_parts(
            batch.parts,
            batch.types,
            mode=batch.mode,
            workers=_workers(batch, spark),
            idempotency_key=what.idempotency_key,
            on_bad_row=bounds.on_bad_row,
            bad_rows_max=bounds.bad_rows_max,
            quarantine_to=_quarantine(context, names, what) if bounds.on_bad_row == "quarantine" else None,
            deadline_s=COMMIT_S,
            rows_per_file=batch.target_rows,
        )
    except og.errors.OmnigraphError as error:
        if not is_transient(error) and not txn.sent:
            txn.abort()
            handover.forget(context.instance, names.graph.name, names.source.name, what.batch)
        raise


def _workers(batch: Any, spark: Any) -> Any:
    if sum(batch.rows.values()) < SPARK_FROM_ROWS:
        return None
    from omnigraph_pipelines.spark import SparkWorkers

    return SparkWorkers(spark.spark_session)


def _quarantine(context: Any, names: Names, what: HandOver) -> Any:
    folder = handover.folder(context.instance, names.graph.name, names.source.name, "quarantine")
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{what.fingerprint[:16]}.jsonl"


def _told_of_batch(context: Any, names: Names, what: HandOver, receipt: "og.Receipt") -> dict[str, Any]:
    found: dict[str, Any] = {
        "batch": what.batch,
        "fingerprint": what.fingerprint,
        "idempotency_key": what.idempotency_key,
        "files": what.files,
        "source_bytes": what.bytes,
        "staging_seconds": round(what.seconds, 3),
    }
    if what.staged is not None:
        found["fragments"] = what.staged.fragments
    if receipt.rejected:
        found["rejected_rows"] = rows_metadata(metadata.rejected_rows(receipt.rejected.to_dict()["rows"]))
        found["quarantine"] = dg.MetadataValue.path(str(_quarantine(context, names, what)))
    return found
