"""The commit asset of one source: one staged batch becomes one commit of the graph, under the pool of its branch.

Owns publishing and what is reported of it. The pool is traffic control; that a batch is in the graph once is the work of the
idempotency key, whatever is killed, retried or run twice.
"""

# No deferred annotations here: Dagster looks at the parameters as they are.

import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import dagster as dg

import omnigraph as og
from omnigraph_pipelines.bad_rows import sets_aside
from omnigraph_pipelines.batches import find_batch
from omnigraph_pipelines.defs.ingest import checks, handover, metadata
from omnigraph_pipelines.defs.ingest.handover import HandOver
from omnigraph_pipelines.defs.ingest.names import Names
from omnigraph_pipelines.defs.ingest.passed_on import condition_of, freshness_of
from omnigraph_pipelines.defs.ingest.staging import judged_tables
from omnigraph_pipelines.defs.ingest.waiting import noting_refusal
from omnigraph_pipelines.failures import is_transient, rows_metadata, told_to_dagster
from omnigraph_pipelines.graph_file import GraphFile
from omnigraph_pipelines.progress import told_in_log
from omnigraph_pipelines.quarantine import Quarantine, summary_of
from omnigraph_pipelines.refusals import forget_refusals
from omnigraph_pipelines.resources import Connections
from omnigraph_pipelines.settings import CheckSettings, text_of
from omnigraph_pipelines.settled import committed_as, idempotency_key, note_nothing_changed

COMMIT_S: Final = 3600.0
SPARK_FROM_ROWS: Final = 2_000_000
"""From so many staged rows on Spark's tasks rewrite what has to be written again; below, this process is quicker."""


def commit_asset(names: Names, file: GraphFile, connections: Connections) -> dg.AssetsDefinition:
    source = names.source
    staged_as = names.table(next(iter(file.types_of(source))))  # all tables of a batch tell the same of it

    @dg.asset(
        key=names.commit,
        deps=[names.table(name) for name in file.types_of(source)],
        check_specs=[checks.spec(names.commit)],
        partitions_def=names.partitions,
        pool=names.graph.pool,
        required_resource_keys=connections.graph.required_keys | connections.spark.required_keys,
        automation_condition=condition_of(source),
        **described(names),
    )  # type: ignore[untyped-decorator]
    def commit(context: dg.AssetExecutionContext) -> Iterator[Any]:
        with told_to_dagster(context), connections.graph.opened(context.resources) as resource:
            graph: og.Graph = resource.graph
            what, staged = _handed_over(context, graph, names, staged_as)
            done = yield from Committing(context, names, file, graph, connections).run(what, staged)
        yield done

    made: dg.AssetsDefinition = commit
    return made


def described(names: Names) -> dict[str, Any]:
    """What people see of the commit asset of a source, whichever step makes it."""
    source = names.source
    return {
        "group_name": names.group,
        "kinds": {"graph", "lance"},
        "owners": list(source.owners),
        "tags": {**source.tags, "omnigraph/graph": names.graph.name, "omnigraph/branch": names.graph.branch},
        "freshness_policy": freshness_of(source),
        "description": (
            f"One commit of `{names.graph.name}` for each batch of `{source.name}`, over all of its types at once. "
            "A batch that the graph has already changes nothing."
        ),
    }


@dataclass
class Committing:
    """One staged batch on its way into the graph."""

    context: Any
    names: Names
    file: GraphFile
    graph: "og.Graph"
    connections: Connections

    def run(self, what: HandOver, staged: Any) -> Generator[Any, None, dg.MaterializeResult[Any]]:
        """Yield the failed check of a batch that is refused; return what people see of its commit."""
        context, names, graph, started = self.context, self.names, self.graph, time.monotonic()
        bounds = self.file.settings.checks_of(names.source)
        keys = [self.file.catalog.type(name).table_key for name in self.file.types_of(names.source)]
        try:
            receipt = _known(graph, names, what) if staged is None else self._publish(what, staged, bounds)
        except (og.errors.DataInvalid, og.errors.KeyConflict) as error:
            broken = checks.broken_by(error, keys)
            yield checks.failed(names.commit, broken, checks.told((), None, broken))
            raise
        if receipt.commit_id is None and not receipt.replayed and what.idempotency_key.endswith(what.fingerprint):
            note_nothing_changed(graph, what.idempotency_key, receipt)
        handover.forget(graph, names.source.name, what.batch)
        forget_refusals(graph, names.source.name, what.batch)
        kept = _kept(context, graph, names, what)
        found = metadata.committed(receipt, graph.snapshot(names.graph.branch), keys)
        changed = metadata.what_changed(receipt, graph, names.graph.branch, keys, kept, what.spark_ui)
        for warning in receipt.warnings:
            context.log.warning(warning)
        return dg.MaterializeResult(
            asset_key=names.commit,
            metadata={
                "summary": found.pop("summary"),
                "what_changed": dg.MetadataValue.md(changed),
                **found,
                **_told_of_batch(what, staged, receipt),
                **({} if kept is None else {"quarantine": dg.MetadataValue.path(kept.entry.path)}),
                "seconds": round(time.monotonic() - started, 3),
                "dagster/uri": graph.uri,
            },
            data_version=dg.DataVersion(receipt.commit_id or "nothing changed"),
            check_results=[_accepted(names, bounds, keys, staged)],
        )

    def _publish(self, what: HandOver, staged: Any, bounds: CheckSettings) -> "og.Receipt":
        names = self.names
        with (
            noting_refusal(self.graph, names, self.file, what.batch, what.fingerprint),
            self.connections.spark.opened(self.context.resources) as spark,
            told_in_log(self.context),
        ):
            rules = self.file.rules_of(names.source)
            return publish(self.context, self.graph, what, staged, names, bounds, rules, spark)


def _accepted(names: Names, bounds: CheckSettings, keys: list[str], staged: Any) -> dg.AssetCheckResult:
    if staged is None:
        return checks.passed(names.commit, {}, "the graph had the batch already")
    tables = judged_tables(names.source, bounds, keys, staged)
    return checks.passed(names.commit, checks.told(tables, staged.report))


def _handed_over(context: Any, graph: "og.Graph", names: Names, asset: dg.AssetKey) -> tuple[HandOver, Any]:
    """What was staged of the batch. Where nothing is, the batch as its staging step of this run saw it, or as it lies there
    now: this step is run alone."""
    what = handover.told(context.instance, asset, context.partition_key)
    staged = None if what is None else handover.take(graph, names.source.name, what)
    mine = (context.run.run_id, context.run.parent_run_id, context.run.root_run_id)
    if what is not None and (staged is not None or what.run_id in mine):
        return what, staged
    batch = find_batch(names.source, context.partition_key)
    fingerprint = batch.fingerprint()
    key = idempotency_key(names.source.name, batch.key, fingerprint)
    return HandOver(batch.key, fingerprint, key, len(batch.files), batch.bytes, 0.0), None


def _known(graph: "og.Graph", names: Names, what: HandOver) -> "og.Receipt":
    """What came of a batch of which nothing is staged (any more): the graph has it, or it has to be staged."""
    receipt = committed_as(graph, names.graph.branch, what.idempotency_key)
    if receipt is None:
        raise og.errors.InvalidInput(
            f"nothing is staged for batch {what.batch} of {names.source.name}",
            hint="materialize the staged tables and the commit together",
            source=names.source.name,
            batch=what.batch,
        )
    return receipt


def publish(
    context: Any,
    graph: "og.Graph",
    what: HandOver,
    batch: Any,
    names: Names,
    bounds: CheckSettings,
    rules: dict[str, Any],
    spark: Any,
) -> "og.Receipt":
    """Commit what was staged. Unlike a call that ends with its process, a failure that may pass keeps the staged files for
    the next try of the step."""
    try:
        txn = graph.begin(names.graph.branch, resume=batch.staging_id)
    except og.errors.NotFound:
        # The record goes when the commit is made: an earlier try got as far as that, or a cleanup came in between.
        return _known(graph, names, what)
    options = og.LoadOptions(
        mode=batch.mode,
        branch=names.graph.branch,
        idempotency_key=what.idempotency_key,
        **rules,
        quarantine_to=_quarantine(context, names, what) if sets_aside(rules) else None,
        deadline_s=COMMIT_S,
    )
    try:
        return txn.load_parts(
            batch.parts,
            batch.types,
            options=options,
            workers=_workers(batch, spark),
            rows_per_file=batch.target_rows,
            memory_mb=bounds.memory_mb,
            exchange=_exchange(batch, bounds, spark),
            exchange_always=bounds.validate_in == "spark",
            checks=batch.report,
        )
    except og.errors.OmnigraphError as error:
        if not is_transient(error) and not txn.sent:
            txn.abort()
            handover.forget(graph, names.source.name, what.batch)
        raise


def _workers(batch: Any, spark: Any) -> Any:
    if sum(batch.rows.values()) < SPARK_FROM_ROWS:
        return None
    from omnigraph_pipelines.spark import SparkWorkers

    return SparkWorkers(spark.spark_session)


def _exchange(batch: Any, bounds: CheckSettings, spark: Any) -> Any:
    """A batch that is small is judged here, without waiting for Spark to start."""
    if bounds.validate_in == "auto" and sum(batch.rows.values()) < SPARK_FROM_ROWS:
        return None
    from omnigraph_pipelines.spark import exchange_of

    return exchange_of(spark.spark_session, bounds.validate_in) if bounds.validate_in != "driver" else None


def _quarantine(context: Any, names: Names, what: HandOver) -> Path:
    """Return the file on this machine that the engine writes before it commits."""
    folder = handover.folder(context.instance, names.graph.name, names.source.name, "quarantine")
    folder.mkdir(parents=True, exist_ok=True)
    return Path(folder) / f"{what.fingerprint[:16]}.jsonl"


def _kept(context: Any, graph: "og.Graph", names: Names, what: HandOver) -> metadata.Kept | None:
    """Move the rows that were left out beside the graph, under the batch's name: the machine of this step may be gone tomorrow.
    A try that died after its commit has left the file, so the next one moves it."""
    file = _quarantine(context, names, what)
    if not file.exists():
        return None
    options = {name: text_of(value) for name, value in names.graph.storage_options.items()}
    entry = Quarantine(graph.uri, tuple(options.items())).keep(names.source.name, what.batch, file)
    summary = summary_of(file.read_bytes().splitlines())
    file.unlink()
    return metadata.Kept(entry, summary)


def _told_of_batch(what: HandOver, staged: Any, receipt: "og.Receipt") -> dict[str, Any]:
    found: dict[str, Any] = {
        "batch": what.batch,
        "fingerprint": what.fingerprint,
        "idempotency_key": what.idempotency_key,
        "files": str(what.files),  # texts: the pages plot numbers, and these hardly change
        "source_bytes": what.source_bytes,
        "staging_seconds": round(what.seconds, 3),
    }
    if staged is not None:
        found["fragments"] = str(staged.fragments)
    if receipt.rejected:
        found["rejected_rows"] = rows_metadata(metadata.rejected_rows(receipt.rejected.to_dict()["rows"]))
    return found
