"""The sensor of one source: what arrived, as runs to ask for.

Reads the landing places and Dagster's records. Opens the graph only while a batch waits for it to change.
"""

# No deferred annotations here: Dagster looks at the parameters as they are.

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import dagster as dg

import omnigraph as og
from omnigraph_pipelines.batches import Batch, find_batches
from omnigraph_pipelines.defs.ingest import arrivals
from omnigraph_pipelines.defs.ingest.arrivals import Memory, Seen, Tick
from omnigraph_pipelines.defs.ingest.names import RANGE_END_TAG, RANGE_START_TAG, Names
from omnigraph_pipelines.defs.ingest.records import recorded
from omnigraph_pipelines.defs.ingest.upstream import Standing, Upstream, standing_of
from omnigraph_pipelines.graph_file import GraphFile
from omnigraph_pipelines.resources import Connections

Now = Callable[[], float]
PARTITIONS_MAX: Final = 1000  # added or retired in one tick


def new_batches(
    names: Names,
    job: Any,
    file: GraphFile,
    connections: Connections,
    *,
    now_s: Now = lambda: time.time_ns() / 1e9,
) -> dg.SensorDefinition:
    source = names.source

    @dg.sensor(
        name=names.sensor,
        job=job,
        minimum_interval_seconds=source.interval_s,
        default_status=dg.DefaultSensorStatus.RUNNING,
        required_resource_keys=set(connections.graph.required_keys),
        description=f"Asks for a run for each complete batch under {source.batches}.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> Any:
        def head() -> str:
            with connections.graph.opened(context.resources) as resource, resource.open(read_only=True) as graph:
                found: str = graph.snapshot(names.graph.branch).commit_id
                return found

        try:
            tick, before = look(context.instance, names, file, arrivals.from_cursor(context.cursor), now_s())
            decision = arrivals.decide(tick, Batch.fingerprint, head)
        except og.errors.OmnigraphError as error:
            return dg.SkipReason(f"{error.code}: {error.message}. Hint: {error.hint}")
        return _result(context, names, decision, before)

    return sensor


def look(
    instance: dg.DagsterInstance, names: Names, file: GraphFile, memory: Memory, now_s: float
) -> tuple[Tick, Mapping[str, Mapping[str, Seen]]]:
    """Return what a decision about a source rests on, and what to remember of the sources before it."""
    source = names.source
    found = find_batches(source)
    known = recorded(instance, names, staged_of(names, file), now_s)
    standings = {
        one.name: _standing(instance, Names(names.graph, one, names.prefix), file, memory, now_s)
        for one in file.settings.sources
        if one.name in source.after
    }
    partitions = instance.get_dynamic_partitions(names.partitions.name or "")
    tick = Tick(
        batches=found,
        partitions=partitions,
        missed=memory.missed,
        seen=memory.seen,
        now_s=now_s,
        under_way=known.under_way,
        last=known.last,
        is_serial=source.order == "serial",
        has_marker=source.ready is not None,
        done=known.done,
        held_up="; ".join(one.waits_for for one in standings.values() if one.waits_for),
        # Rows that are appended do not undo one another; a merge of older values would undo a newer one.
        waits_in_line=source.mode != "append",
        per_run=source.batches_per_run,
    )
    return tick, {name: one.seen for name, one in standings.items()}


def _standing(instance: dg.DagsterInstance, names: Names, file: GraphFile, memory: Memory, now_s: float) -> Standing:
    known = recorded(instance, names, staged_of(names, file), now_s)
    source = Upstream(
        names.source.name,
        find_batches(names.source),
        memory.before.get(names.source.name, {}),
        now_s,
        known.under_way,
        known.last,
        known.done,
        names.source.ready is not None,
    )
    return standing_of(source, Batch.fingerprint)


def staged_of(names: Names, file: GraphFile) -> dg.AssetKey:
    """Return the staged table that tells of a source's batches: all of a batch say the same."""
    return names.table(next(iter(file.types_of(names.source))))


def _result(
    context: dg.SensorEvaluationContext,
    names: Names,
    decision: arrivals.Decision,
    before: Mapping[str, Mapping[str, Seen]],
) -> dg.SensorResult:
    known = set(context.instance.get_dynamic_partitions(names.partitions.name or ""))
    fresh = [key for key in decision.complete if key not in known][:PARTITIONS_MAX]
    gone = sorted(known & decision.gone)[:PARTITIONS_MAX]
    changes: list[Any] = [names.partitions.build_add_request(fresh)] if fresh else []
    changes += [names.partitions.build_delete_request(gone)] if gone else []
    return dg.SensorResult(
        run_requests=[_request(names, run) for run in decision.runs],
        dynamic_partitions_requests=changes,
        cursor=arrivals.to_cursor(Memory(decision.seen, before, decision.missed)),
        skip_reason=None if decision.runs else decision.said,
    )


def _request(names: Names, offers: Sequence[arrivals.Offer]) -> dg.RunRequest:
    key = arrivals.run_key(offers)
    first, last = offers[0], offers[-1]
    if first is last:
        return dg.RunRequest(run_key=key, partition_key=first.batch, tags=names.batch_tags(first.fingerprint))
    tags = names.shared_tags({offer.batch: offer.fingerprint for offer in offers})
    return dg.RunRequest(run_key=key, tags={**tags, RANGE_START_TAG: first.batch, RANGE_END_TAG: last.batch})
