"""What upkeep does in a run: five assets, so that its history, its plots and its config come with Dagster.

Each opens the graph, does one thing that the engine offers, and tells what came of it. The engine decides what is safe; a
run started by hand, by a sensor and by a schedule is the same run. A dry run changes nothing and leaves an observation.
"""

# No deferred annotations here: Dagster reads the config classes from the parameters as they are.
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import dagster as dg
from pydantic import Field

import omnigraph as og
from omnigraph_pipelines.defs.upkeep import reports
from omnigraph_pipelines.defs.upkeep.names import (
    CLEANUP,
    COMPACTION,
    OPTIMIZE,
    RECONCILE,
    SCRUB,
    WHOLE_FILES,
    Names,
)
from omnigraph_pipelines.failures import told_to_dagster
from omnigraph_pipelines.progress import told_in_log
from omnigraph_pipelines.resources import Bound
from omnigraph_pipelines.settings import UpkeepSettings
from omnigraph_pipelines.wording import counted

Results = Iterator[dg.MaterializeResult[Any] | dg.AssetCheckResult]


class UpkeepConfig(dg.Config):
    """What every run of upkeep can be told."""

    dry_run: bool = Field(default=False, description="Say what would be done, and change nothing.")
    force: bool = Field(default=False, description="Run although upkeep is paused in the graph file.")


class OptimizeConfig(UpkeepConfig):
    types: list[str] | None = Field(default=None, description="Only these types; all of them if left out.")
    target_rows: int | None = Field(default=None, description="Rows of a full fragment; the graph file's if left out.")
    memory_mb: int | None = Field(default=None, description="Memory for rewriting; the graph file's if left out.")


class CompactionConfig(UpkeepConfig):
    fragments_max: int | None = Field(
        default=None, description="Merge where there are more archive fragments than this; the low mark if left out."
    )


class CleanupConfig(UpkeepConfig):
    keep: int | None = Field(
        default=None, description="How many of the newest commits stay; the graph file's if left out."
    )
    older_than: str | None = Field(
        default=None, description="Commits younger than this stay, such as 7d; the graph file's if left out."
    )
    min_age: str | None = Field(
        default=None, description="Nothing younger than this is deleted; the graph file's if left out."
    )


class ReconcileConfig(UpkeepConfig):
    grace_s: float | None = Field(
        default=None, description="How long a write whose owner may live is watched; the graph file's if left out."
    )


class ScrubConfig(dg.Config):
    force: bool = Field(default=False, description="Run although upkeep is paused in the graph file.")
    bytes_per_s: int | None = Field(
        default=None, description="How many bytes are read a second at most; the graph file's if left out."
    )


def upkeep_assets(names: Names, settings: UpkeepSettings, graph: Bound) -> list[dg.AssetsDefinition]:
    return [
        _optimize(names, settings, graph),
        _compaction(names, settings, graph),
        _cleanup(names, settings, graph),
        _reconcile(names, settings, graph),
        _scrub(names, settings, graph),
    ]


def _optimize(names: Names, settings: UpkeepSettings, graph: Bound) -> dg.AssetsDefinition:
    @_asset(
        names,
        OPTIMIZE,
        graph,
        "Fewer and larger files in every table, indexes that cover them, a short history. Content does not "
        "change, and writers are not held up.",
    )
    def optimize(context: dg.AssetExecutionContext, config: OptimizeConfig) -> Results:
        with told_to_dagster(context), graph.opened(context.resources) as resource:
            _refuse_if_paused(settings, config)
            if config.dry_run:
                with resource.open(read_only=True) as reader:
                    _observe(
                        context, names.key(OPTIMIZE), reports.planned_rewrites(reader.plan_compaction(config.types))
                    )
                return
            with told_in_log(context):
                report = resource.graph.optimize(
                    types=config.types,
                    target_rows=config.target_rows or settings.optimize.target_rows,
                    memory_mb=config.memory_mb or settings.optimize.memory_mb,
                    branches=[names.graph.branch],
                )
            yield _result(context, reports.optimized(report), resource, names)

    return optimize


def _compaction(names: Names, settings: UpkeepSettings, graph: Bound) -> dg.AssetsDefinition:
    @_asset(
        names,
        COMPACTION,
        graph,
        "Merges the archive of the graph's own history, so that looking an old commit up stays cheap. Adds no commit.",
    )
    def compaction(context: dg.AssetExecutionContext, config: CompactionConfig) -> Results:
        with told_to_dagster(context), graph.opened(context.resources) as resource:
            _refuse_if_paused(settings, config)
            if config.dry_run:
                with resource.open(read_only=True) as reader:
                    fragments = reader.probe("manifest_fragments")
                _observe(context, names.key(COMPACTION), {"dry_run": True, "fragments_before": fragments})
                return
            most = config.fragments_max or max(1, settings.compaction.low)
            with told_in_log(context):
                done = resource.graph.compact_manifest(most)
            yield _result(context, reports.compacted(done), resource, names)

    return compaction


def _cleanup(names: Names, settings: UpkeepSettings, graph: Bound) -> dg.AssetsDefinition:
    @_asset(
        names,
        CLEANUP,
        graph,
        "Deletes versions that no retained commit, checkpoint or pending write needs. Refuses where it cannot "
        "be sure, a missing boundary mark included.",
    )
    def cleanup(context: dg.AssetExecutionContext, config: CleanupConfig) -> Results:
        policy = settings.cleanup
        with told_to_dagster(context), graph.opened(context.resources) as resource:
            _refuse_if_paused(settings, config)
            with resource.open(read_only=config.dry_run) as opened:
                # Hours may have passed in a queue since a sensor looked: the boundary is looked at again, here and by the plan.
                backlog = opened.probe("version_backlog")
                with told_in_log(context):
                    plan = opened.plan_cleanup(
                        keep=config.keep or policy.keep,
                        older_than=config.older_than or policy.older_than,
                        min_age=config.min_age or policy.min_age,
                        branches=[names.graph.branch],
                    )
                if config.dry_run:
                    _observe(context, names.key(CLEANUP), reports.planned_cleanup(plan, backlog))
                    return
                with told_in_log(context):
                    report = opened.cleanup(plan)
                told = reports.cleaned(report, backlog, opened.probe("version_backlog"))
            yield _result(context, told, resource, names)
            if report.errors:
                raise dg.Failure(
                    f"{counted(len(report.errors), 'deletion')} failed, the first: {report.errors[0]}",
                    metadata={"errors": dg.MetadataValue.json(list(report.errors[:50]))},
                )

    return cleanup


def _reconcile(names: Names, settings: UpkeepSettings, graph: Bound) -> dg.AssetsDefinition:
    @_asset(
        names,
        RECONCILE,
        graph,
        "Ends writes that were left behind, each forward or back by what is durable, and puts tables back that "
        "have versions that no operation claims. A write whose owner may live is watched first.",
    )
    def reconcile(context: dg.AssetExecutionContext, config: ReconcileConfig) -> Results:
        grace_s = settings.reconcile.grace_s if config.grace_s is None else config.grace_s
        with told_to_dagster(context), graph.opened(context.resources) as resource:
            _refuse_if_paused(settings, config)
            # Opening for writing ends what it can at once, so what there was is read before.
            pending = _pending(resource)
            if config.dry_run:
                _observe(context, names.key(RECONCILE), reports.pending(pending))
                return
            with resource.open() as opened:
                with told_in_log(context):
                    report = opened.recover(grace_s=grace_s)
                told = reports.reconciled(pending, report, _outcomes(opened, pending))
                told["oldest_left_s"] = opened.probe("oldest_intent_s")
                told["archive_fragments"] = opened.probe("manifest_fragments")
            yield _result(context, told, resource, names)

    return reconcile


def _scrub(names: Names, settings: UpkeepSettings, graph: Bound) -> dg.AssetsDefinition:
    key = names.key(SCRUB)

    @_asset(
        names,
        SCRUB,
        graph,
        "Compares every file on a local disk with the checksum that was taken when it was written, at a bounded rate beside "
        "writers. Changes nothing. On an object store there is nothing to compare: it checks its bytes itself.",
        pool=None,  # it lasts for hours, and takes nothing from a commit but a little of the disk
        check_specs=[
            dg.AssetCheckSpec(WHOLE_FILES, asset=key, description="Every file consists of the bytes that were written.")
        ],
    )
    def scrub(context: dg.AssetExecutionContext, config: ScrubConfig) -> Results:
        started = time.monotonic()
        with told_to_dagster(context), graph.opened(context.resources) as resource:
            _refuse_if_paused(settings, config)
            try:
                with resource.open(read_only=True) as reader, told_in_log(context):
                    report = reader.verify(deep=True, bytes_per_s=config.bytes_per_s or settings.scrub.bytes_per_s)
            except og.errors.NotFound:
                yield dg.AssetCheckResult(
                    passed=True, asset_key=key, check_name=WHOLE_FILES, description="there is no graph yet"
                )
                return
            yield _result(context, reports.scrubbed(report, time.monotonic() - started), resource, names)
        damage = reports.damaged(report)
        yield dg.AssetCheckResult(
            passed=not damage,
            asset_key=key,
            check_name=WHOLE_FILES,
            metadata={"files": report.files, **({"damage": reports.damage_table(report)} if damage else {})},
            description=damage[0].message[:500] if damage else None,
        )
        if damage:  # the run fails as well, because alerts are of runs
            raise dg.Failure(
                f"{len(damage)} problems, the first: {damage[0].message}",
                metadata={
                    "hint": "keep the files and restore these from a backup; `omnigraph verify --deep` names what else is wrong",
                    "damage": reports.damage_table(report),
                },
                allow_retries=False,
            )

    return scrub


def _pending(resource: Any) -> Sequence[Any]:
    try:
        with resource.open(read_only=True) as reader:
            found: Sequence[Any] = reader.intents()
            return found
    except og.errors.NotFound:
        return ()  # no graph yet, so nothing was left behind in it


def _outcomes(graph: "og.Graph", pending: Sequence[Any]) -> dict[str, str]:
    """What became of each write that had a plan: landed, aborted, pending or absent."""
    return {one.operation_id: graph.outcome(one.commit_id).state for one in pending if one.commit_id is not None}


# --- shared -------------------------------------------------------------------------------------------------------------


def _asset(
    names: Names, kind: str, graph: Bound, description: str, **more: Any
) -> Callable[[Callable[..., Results]], dg.AssetsDefinition]:
    def made(work: Callable[..., Results]) -> dg.AssetsDefinition:
        found: dg.AssetsDefinition = dg.asset(
            work,
            key=names.key(kind),
            description=description,
            group_name=names.group,
            kinds={"lance"},
            tags={"omnigraph/graph": names.graph.name, "omnigraph/branch": names.graph.branch},
            op_tags=names.step_tags(kind),
            required_resource_keys=graph.required_keys,
            output_required=False,  # a dry run materialises nothing
            **{"pool": names.pool, **more},
        )
        return found

    return made


def _refuse_if_paused(settings: UpkeepSettings, config: UpkeepConfig | ScrubConfig) -> None:
    if settings.paused and not (config.force or (isinstance(config, UpkeepConfig) and config.dry_run)):
        raise og.errors.Refused(
            "upkeep is paused in the graph file",
            hint="set upkeep.paused to false, or run it with force: true",
            reason="paused",
        )


def _observe(context: dg.AssetExecutionContext, key: dg.AssetKey, told: dict[str, Any]) -> None:
    context.log_event(dg.AssetObservation(asset_key=key, metadata=told))


def _result(
    context: dg.AssetExecutionContext, told: dict[str, Any], resource: Any, names: Names
) -> dg.MaterializeResult[Any]:
    """The commit that the graph is at afterwards is the data version: a run that changed nothing leaves it as it was."""
    head = resource.snapshot().commit_id
    context.log.info(str(told.get("summary", "")))
    return dg.MaterializeResult(
        metadata={**told, "head": head, "branch": names.graph.branch}, data_version=dg.DataVersion(head)
    )
