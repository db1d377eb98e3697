"""The staging asset of one source: all tables of a batch, in one step and one Spark session. Publishes nothing.

Owns the order: wait for the turn, see that the batch is complete, name it by its contents, stage, judge, hand over. Whatever
fails takes back what was staged, and fails the check of the batch where the data is at fault.
"""

# No deferred annotations here: Dagster looks at the parameters as they are.

import hashlib
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import dagster as dg

import omnigraph as og
from omnigraph import distributed
from omnigraph_pipelines.batches import Batch, check_complete, find_batch, options_of
from omnigraph_pipelines.defs.ingest import checks, handover, metadata
from omnigraph_pipelines.defs.ingest.batch_schema import BatchSchema
from omnigraph_pipelines.defs.ingest.handover import HandOver
from omnigraph_pipelines.defs.ingest.names import FINGERPRINT_CHARS, Names
from omnigraph_pipelines.defs.ingest.passed_on import condition_of
from omnigraph_pipelines.defs.ingest.turns import wait_for_turn
from omnigraph_pipelines.defs.ingest.waiting import noting_refusal
from omnigraph_pipelines.failures import rows_metadata, told_to_dagster
from omnigraph_pipelines.graph_file import GraphFile
from omnigraph_pipelines.progress import told_in_log
from omnigraph_pipelines.resources import Connections
from omnigraph_pipelines.settings import CheckSettings, SourceSettings
from omnigraph_pipelines.settled import committed_as, idempotency_key

if TYPE_CHECKING:
    from omnigraph_pipelines.spark.staged_batch import StagedBatch

CONFIG: Final = {
    "force": dg.Field(
        bool,
        default_value=False,
        description="Commit the batch although the graph has it already: an append then adds its rows again.",
    )
}


def staging_asset(names: Names, file: GraphFile, connections: Connections) -> dg.AssetsDefinition:
    source = names.source
    tables = {file.catalog.type(name).table_key: names.table(name) for name in file.types_of(source)}
    partitions = names.partitions
    version = code_version(source)

    @dg.multi_asset(
        name=names.step,
        specs=[spec_of(names, file, key, asset, version) for key, asset in tables.items()],
        partitions_def=partitions,
        required_resource_keys=connections.graph.required_keys | connections.spark.required_keys,
        config_schema=CONFIG,
        pool=names.pool,
        description=f"Stages every table of a batch of {source.name} beside the graph, and judges them. Publishes nothing.",
    )
    def stage(context: dg.AssetExecutionContext) -> Iterator[Any]:
        with told_to_dagster(context):
            wait_for_turn(context, names)
            work = Staging(context, names, file.settings.checks_of(source), tables, file, context.partition_key)
            with connections.graph.opened(context.resources) as resource:
                done = yield from work.run(resource.graph, connections)
                yield from work.results(done if done.staged is None else done.handed_over(resource.graph, source.name))

    return stage


# Settings of a source that change nothing about what is staged.
_NOT_CODE: Final = {
    "interval_s",
    "owners",
    "description",
    "deps",
    "group_name",
    "tags",
    "freshness",
    "automation_condition",
    "after",
    "storage_options",
    "batches_per_run",
}


def code_version(source: SourceSettings) -> str:
    """Changes when the settings of a source do: tables staged before then show as made by other code."""
    return hashlib.sha256(source.model_dump_json(exclude=_NOT_CODE).encode()).hexdigest()[:12]


def spec_of(names: Names, file: GraphFile, table_key: str, asset: dg.AssetKey, version: str) -> dg.AssetSpec:
    declared = file.catalog.by_table_key(table_key)
    source = names.source
    said = f"Rows of `{declared.name}` from batches of `{source.name}`, staged to be committed together."
    return dg.AssetSpec(
        asset,
        deps=[dg.AssetKey(key.split("/")) for key in source.deps],
        description="\n\n".join(one for one in (source.description, metadata.described(declared), said) if one),
        group_name=names.group,
        kinds={"spark", "lance"},
        owners=list(source.owners),
        code_version=version,
        tags={
            **source.tags,
            "omnigraph/graph": names.graph.name,
            "omnigraph/table": table_key.partition(":")[0],
        },
        automation_condition=condition_of(source),
        metadata={"dagster/column_schema": metadata.column_schema(declared)},
    )


@dataclass(frozen=True)
class Staged:
    """A batch as its staging has left it. Without ``staged`` the graph had it already, as the receipt says."""

    what: HandOver
    staged: "StagedBatch | None" = None
    receipt: "og.Receipt | None" = None

    def handed_over(self, graph: "og.Graph", source: str) -> "Staged":
        """Leave it for a step that may run on another machine."""
        assert self.staged is not None
        digest = handover.leave(graph, source, self.what.batch, self.staged)
        return replace(self, what=replace(self.what, handed_over=digest))


@dataclass
class Staging:
    """One batch on its way into the store of the graph."""

    context: Any
    names: Names
    bounds: CheckSettings
    tables: Mapping[str, dg.AssetKey]
    file: GraphFile
    key: str
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.schema = BatchSchema(self.context.log, self.file, self.names.source)
        self.facts: dict[str, Any] = {}
        self.spark_ui: str | None = None
        self.fingerprint: str | None = None

    def run(self, graph: "og.Graph", connections: Connections) -> Generator[Any, None, Staged]:
        """Yield the failed check of a batch that is refused; return what was staged."""
        source, started = self.names.source, self.clock()
        batch = find_batch(source, self.key)
        check_complete(source, batch)
        self.fingerprint = fingerprint = batch.fingerprint()
        if not self.names.shares_runs:
            self.context.instance.add_run_tags(self.context.run.run_id, self.names.batch_tags(fingerprint))
        key = self._idempotency_key(batch, fingerprint)
        what = HandOver(batch.key, fingerprint, key, len(batch.files), batch.bytes, 0.0)
        known = committed_as(graph, self.names.graph.branch, key)
        if known is not None:
            return Staged(what, receipt=known)
        with noting_refusal(graph, self.names, self.file, batch.key, fingerprint):
            self.schema.bring_up(graph)
            given = self.schema.with_columns(graph, frames(source, batch))
            with connections.spark.opened(self.context.resources) as spark:
                staged = yield from self._stage(graph, spark, batch, given, key)
        if isinstance(staged, og.Receipt):  # another run was quicker
            return Staged(what, receipt=staged)
        seconds = round(self.clock() - started, 3)
        return Staged(replace(what, seconds=seconds, staging_id=staged.staging_id, spark_ui=self.spark_ui), staged)

    def _idempotency_key(self, batch: Batch, fingerprint: str) -> str:
        key = idempotency_key(self.names.source.name, batch.key, fingerprint)
        if not self.context.op_execution_context.op_config["force"]:
            return key
        # Retries of this run are still one commit.
        root = self.context.run.root_run_id or self.context.run.run_id
        return f"{key[:-32]}/{root[:8]}"

    # --- staging ----------------------------------------------------------------------------------------------------

    def _stage(
        self, graph: "og.Graph", spark: Any, batch: Batch, given: Any, key: str
    ) -> Generator[Any, None, "StagedBatch | og.Receipt"]:
        from omnigraph_pipelines.spark import exchange_of, stage

        source, bounds = self.names.source, self.bounds
        try:
            with told_in_log(self.context):
                staged = stage(
                    spark.spark_session,
                    graph,
                    given,
                    mode=source.mode,
                    branch=self.names.graph.branch,
                    idempotency_key=key,
                    on_bad_row=bounds.on_bad_row,
                )
        except (og.errors.DataInvalid, og.errors.KeyConflict) as error:
            found = checks.broken_by(error, self.tables)
            violations = (
                {"violations": rows_metadata(error.facts["violations"])} if error.facts.get("violations") else {}
            )
            yield checks.failed(self.names.commit, found, {**checks.told((), None, found), **violations})
            raise
        if isinstance(staged, og.Receipt):
            return staged
        self._note_facts(spark)
        txn = graph.begin(self.names.graph.branch, resume=staged.staging_id)
        try:
            self._check_still(batch)
            self._check_types(staged)
            with told_in_log(self.context):
                report = distributed.check_parts(
                    txn,
                    staged.parts,
                    staged.types,
                    mode=source.mode,
                    **self.file.rules_of(source),
                    memory_mb=bounds.memory_mb,
                    exchange=exchange_of(spark.spark_session, bounds.validate_in),
                    exchange_always=bounds.validate_in == "spark",
                )
            tables = judged_tables(self.names.source, self.bounds, self.tables, staged)
            found = checks.broken(tables, report)
            if found or not report.ok:
                yield checks.failed(self.names.commit, found, checks.told(tables, report, found))
                raise self._refusal(batch, report, found)
        except BaseException:
            txn.abort()
            raise
        return replace(staged, report=report)

    def _check_still(self, batch: Batch) -> None:
        now = find_batch(self.names.source, batch.key)
        if now.listing != batch.listing:
            raise og.errors.InvalidInput(
                f"batch {batch.key} of {self.names.source.name} is still being written: it changed while it was read",
                hint="write elsewhere and rename, or use a `ready` marker; what it becomes will be offered again",
                source=self.names.source.name,
                batch=batch.key,
            )

    def _check_types(self, staged: "StagedBatch") -> None:
        others = sorted(set(staged.rows) - set(self.tables))
        if others:
            raise og.errors.InvalidInput(
                f"the batch has rows of {others[0]}, which source {self.names.source.name} does not name",
                hint="add the type to `types`, or leave `types` out",
                source=self.names.source.name,
                table_key=others[0],
            )

    # --- judgement --------------------------------------------------------------------------------------------------

    def _refusal(
        self, batch: Batch, report: "distributed.PartsReport", found: list[checks.Broken]
    ) -> og.errors.OmnigraphError:
        names = checks.in_words(found)
        first = f": {report.refusal or report.violations[0]['message']}" if report.refusal or report.violations else ""
        counts = ", ".join(f"{count:,} {code}" for code, count in report.by_reason.items())
        frequent = ", ".join(f"{name} ({count:,}x)" for name, count in list(report.missing_ids.items())[:3])
        if frequent and "most often missing: " not in first:  # the engine says it of a bound for endpoints
            counts += f"; most often missing: {frequent}"
        told = f" ({counts})" if counts else ""
        error = og.errors.DataInvalid(
            f"batch {batch.key} of {self.names.source.name} is refused ({names or 'too many bad rows'}){first}{told}",
            hint="correct the batch, or loosen `checks` in the graph file; a changed batch is offered again",
            violations=[dict(one) for one in report.violations],
            total=report.total,
            rejected=report.rejected,
            records=report.records,
            batch=batch.key,
            by_reason=dict(report.by_reason),
            missing_ids=dict(report.missing_ids),
        )
        if report.rejected:
            error.facts["rejected_rows"] = metadata.rejected_rows(report.rejected_rows)
        return error

    # --- results ----------------------------------------------------------------------------------------------------

    def _note_facts(self, spark: Any) -> None:
        self.facts = dict(spark.facts()) if hasattr(spark, "facts") else {}
        if "spark_ui" in self.facts:
            self.spark_ui = self.facts["spark_ui"]
            self.facts["spark_ui"] = dg.MetadataValue.url(self.facts["spark_ui"])

    def results(self, done: Staged) -> Iterator[dg.MaterializeResult[Any]]:
        """Yield what people see of each staged table."""
        common: dict[str, Any] = {**done.what.to_metadata(), **self.facts, **self.schema.facts, **self._told(done)}
        for key, asset in self.tables.items():
            yield dg.MaterializeResult(
                asset_key=asset,
                metadata={**(metadata.staged_table(done.staged, key) if done.staged else {}), **common},
                data_version=dg.DataVersion(done.what.fingerprint[:FINGERPRINT_CHARS]),
            )

    def _told(self, done: Staged) -> dict[str, Any]:
        if done.receipt is not None:  # nothing was read
            said = "changes nothing in the graph" if done.receipt.commit_id is None else "is in the graph already"
            said += "" if done.receipt.commit_id is None else f", as commit {done.receipt.commit_id}"
            self.context.log.info(f"batch {done.what.batch} {said}")
            return {"commit_id": done.receipt.commit_id or "nothing changed", "replayed": True}
        report = done.staged.report if done.staged else None
        found: dict[str, Any] = {}
        if report is not None and report.rejected:
            found = {
                "rows_rejected": report.rejected,
                "rejected_rows": rows_metadata(metadata.rejected_rows(report.rejected_rows)),
            }
        if report is not None:
            found |= {"rows_dropped": sum(report.dropped.values())} if report.dropped else {}
            found |= {"stubs": sum(report.stubs.values())} if report.stubs else {}
        return found


def judged_tables(
    source: SourceSettings, bounds: CheckSettings, table_keys: Iterable[str], staged: "StagedBatch"
) -> list[checks.Table]:
    """The tables of a batch with the rows that each has and has to have. Those that a batch need not have may be empty; records
    of a graph only all together."""
    optional = {one.type for one in source.tables or () if one.optional}
    if source.tables is None and any(staged.rows.values()):
        bounds = bounds.model_copy(update={"rows_min": 0})
    return [
        checks.Table(key, staged.rows.get(key, 0), 0 if key.partition(":")[2] in optional else bounds.rows_min)
        for key in table_keys
    ]


def frames(source: SourceSettings, batch: Batch) -> Any:
    """The files of a batch as what ``omnigraph_pipelines.spark.stage`` takes."""
    from omnigraph_pipelines.spark import Files, Records

    options = options_of(source)
    if source.tables is None:
        return Records([one.path for one in batch.files], options)
    found: dict[str, Any] = {}
    for table in source.tables:
        files = batch.files if table.files is None else batch.matching(table.files)
        if files:
            found[table.type] = Files([one.path for one in files], table.format, table.renamed, options)
    return found
