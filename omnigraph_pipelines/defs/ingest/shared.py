"""Several batches of one source in one run: one step, one Spark session, one process; each batch its own partition and commit.

Owns the order within the run: by key, each batch staged, judged and committed before the next one is staged, because it may refer to
rows of those before it. A batch that is refused takes nothing from the others, except from later ones that must not overtake it.
"""

# No deferred annotations here: Dagster looks at the parameters as they are.

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

import omnigraph as og
from omnigraph_pipelines.defs.ingest import checks
from omnigraph_pipelines.defs.ingest.commit import Committing, described
from omnigraph_pipelines.defs.ingest.names import REFUSED_TAG, Names
from omnigraph_pipelines.defs.ingest.passed_on import condition_of
from omnigraph_pipelines.defs.ingest.staging import CONFIG, Staging, code_version, spec_of
from omnigraph_pipelines.defs.ingest.turns import wait_for_turn
from omnigraph_pipelines.failures import ERROR_TAG, in_short, is_transient, rows_metadata, told_to_dagster
from omnigraph_pipelines.graph_file import GraphFile
from omnigraph_pipelines.resources import Connections

_VERSION_TAG = "dagster/data_version"
_CODE_TAG = "dagster/code_version"


def shared_asset(names: Names, file: GraphFile, connections: Connections) -> dg.AssetsDefinition:
    """All assets of a source as one step, which takes a range of partitions."""
    source = names.source
    tables = {file.catalog.type(name).table_key: names.table(name) for name in file.types_of(source)}
    version = code_version(source)
    specs = [
        spec_of(names, file, key, asset, version).replace_attributes(skippable=True) for key, asset in tables.items()
    ]
    commit = dg.AssetSpec(
        names.commit,
        deps=list(tables.values()),
        skippable=True,
        code_version=version,
        automation_condition=condition_of(source),
        **described(names),
    )

    @dg.multi_asset(
        name=names.step,
        specs=[*specs, commit],
        check_specs=[checks.spec(names.commit)],
        partitions_def=names.partitions,
        backfill_policy=dg.BackfillPolicy.multi_run(source.batches_per_run),
        required_resource_keys=connections.graph.required_keys | connections.spark.required_keys,
        config_schema=CONFIG,
        pool=names.pool,
        description=f"Stages, judges and commits up to {source.batches_per_run} batches of {source.name}, one after the other.",
    )
    def ingest(context: dg.AssetExecutionContext) -> Iterator[Any]:
        with told_to_dagster(context):
            wait_for_turn(context, names)
            with connections.held(context.resources) as held:
                yield from Sharing(context, names, file, tables, held, version).run(sorted(context.partition_keys))

    return ingest


@dataclass
class Sharing:
    """One run of several batches. ``refused``: what each batch that was refused was refused for."""

    context: Any
    names: Names
    file: GraphFile
    tables: Mapping[str, dg.AssetKey]
    connections: Connections
    version: str
    refused: dict[str, og.errors.OmnigraphError] = field(default_factory=dict)
    fingerprints: dict[str, str] = field(default_factory=dict)
    failed: dg.AssetCheckEvaluation | None = None

    def run(self, batches: list[str]) -> Iterator[Any]:
        committed = 0
        try:
            for batch in batches:
                try:
                    yield from self._one(batch)
                    committed += 1
                except og.errors.OmnigraphError as error:
                    if is_transient(error):
                        raise  # the step is tried again, and finds what is committed already
                    self.context.log.error(f"batch {batch} is refused: {error.message}")
                    self.refused[batch] = error
                    if self._holds(error):
                        break
        finally:
            self._mark()
        left = batches[committed + len(self.refused) :]
        yield self._judged(committed, left)
        if self.refused:
            raise self._failure(committed, left)

    def _one(self, batch: str) -> Iterator[Any]:
        """Stage, judge and commit one batch. Its events are of its partition: the outputs of the step would be of all."""
        bounds = self.file.settings.checks_of(self.names.source)
        work = Staging(self.context, self.names, bounds, self.tables, self.file, batch)
        graph = self.connections.graph.opened(None)
        with graph as resource:
            try:
                done = yield from self._watched(work.run(resource.graph, self.connections))
            finally:
                if work.fingerprint is not None:
                    self.fingerprints[batch] = work.fingerprint
            committing = Committing(self.context, self.names, self.file, resource.graph, self.connections)
            commit = yield from self._watched(committing.run(done.what, done.staged))
        for result in (*work.results(done), commit):
            yield self._of_partition(batch, result)

    def _watched(self, work: Any) -> Any:
        """Run a generator for what it returns. The failed check that it yields stands in the result of the run as a whole."""
        while True:
            try:
                event = next(work)
            except StopIteration as ended:
                return ended.value
            self.failed = self.failed or event
            yield from ()

    def _of_partition(self, batch: str, result: dg.MaterializeResult[Any]) -> dg.AssetMaterialization:
        assert result.asset_key is not None and result.data_version is not None
        return dg.AssetMaterialization(
            asset_key=result.asset_key,
            partition=batch,
            metadata=dict(result.metadata or {}),
            tags={_VERSION_TAG: result.data_version.value, _CODE_TAG: self.version},
        )

    def _holds(self, error: og.errors.OmnigraphError) -> bool:
        """Return whether later batches wait for this one: it is offered again when the graph has changed, and what it holds is older."""
        source = self.names.source
        return source.order == "serial" and source.mode != "append" and "judged_at" in error.facts

    def _mark(self) -> None:
        """Leave on the run, for the sensor, what each batch was and why it was refused."""
        tags = self.names.shared_tags(self.fingerprints)
        if self.refused:
            said = {
                batch: {"because": in_short(error), "judged_at": error.facts.get("judged_at")}
                for batch, error in self.refused.items()
            }
            tags[REFUSED_TAG] = json.dumps(said, sort_keys=True)
            tags[ERROR_TAG] = next(iter(self.refused.values())).code
        self.context.instance.add_run_tags(self.context.run.run_id, tags)

    def _judged(self, committed: int, left: list[str]) -> dg.AssetCheckResult:
        described = {} if self.failed is None else dict(self.failed.metadata)
        return dg.AssetCheckResult(
            passed=not self.refused,
            asset_key=self.names.commit,
            check_name=checks.ACCEPTED,
            metadata={**described, **self._table(), "batches_committed": committed, "batches_left": len(left)},
            description=None if self.failed is None else self.failed.description,
        )

    def _table(self) -> dict[str, Any]:
        rows = [
            {"batch": batch, "code": error.code, "why": error.message, "hint": error.hint}
            for batch, error in self.refused.items()
        ]
        return {"refused": rows_metadata(rows)} if rows else {}

    def _failure(self, committed: int, left: list[str]) -> dg.Failure:
        batch, error = next(iter(self.refused.items()))
        waiting = f"; {len(left)} wait for it" if left else ""
        return dg.Failure(
            f"{len(self.refused)} of {committed + len(self.refused) + len(left)} batches are refused, {committed} are in the "
            f"graph{waiting}. {error.code}: {error.message}\nHint: {error.hint}",
            metadata={"code": error.code, "hint": error.hint, "batch": batch, **self._table()},
            allow_retries=False,
        )
