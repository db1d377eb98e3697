"""Read what Dagster recorded of the batches of a source, as the plain values that decisions rest on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import dagster as dg

from omnigraph_pipelines.defs.ingest.arrivals import LastRun
from omnigraph_pipelines.defs.ingest.names import FINGERPRINT_TAG, Names
from omnigraph_pipelines.defs.ingest.turns import unfinished
from omnigraph_pipelines.failures import BECAUSE_TAG, JUDGED_AT_TAG, PERMANENT_TAG

RUNS_SEEN_MAX: Final = 300
_PARTITION_TAG: Final = "dagster/partition"
_VERSION_TAG: Final = "dagster/data_version"
_WILL_RETRY_TAG: Final = "dagster/will_retry"
_RETRY_GRACE_S: Final = 120.0  # the daemon launches a promised retry well within


@dataclass(frozen=True)
class Recorded:
    """Runs that have not ended, the newest ended run, and the committed contents, each by batch."""

    under_way: Sequence[str]
    last: Mapping[str, LastRun]
    done: Mapping[str, str]


def recorded(instance: dg.DagsterInstance, names: Names, staged: dg.AssetKey, now_s: float) -> Recorded:
    """Return what is on record of a source. ``staged``: one of its staged tables."""
    running = [one.dagster_run.tags.get(_PARTITION_TAG, "") for one in unfinished(instance, names)]
    ended = list(instance.get_run_records(dg.RunsFilter(tags=names.tags()), limit=RUNS_SEEN_MAX))
    # After the runs: a commit is on record before its run ends.
    done = _committed(instance, names, staged)
    return Recorded([*running, *_about_to_be_retried(ended, now_s)], last_runs(ended), done)


def _committed(instance: dg.DagsterInstance, names: Names, staged: dg.AssetKey) -> dict[str, str]:
    """Return the contents of each batch that were staged last, where a commit followed."""
    made, storage = dg.DagsterEventType.ASSET_MATERIALIZATION, instance.event_log_storage
    commits = storage.get_latest_storage_id_by_partition(names.commit, made)
    if not commits:
        return {}
    stagings = storage.get_latest_storage_id_by_partition(staged, made)
    versions = storage.get_latest_tags_by_partition(staged, made, [_VERSION_TAG])
    return {
        batch: versions[batch][_VERSION_TAG]
        for batch, at in stagings.items()
        if commits.get(batch, -1) > at and batch in versions
    }


def last_runs(ended: Sequence[dg.RunRecord]) -> dict[str, LastRun]:
    """Return how the newest run of each batch ended; ``ended``: runs of the source, newest first."""
    found: dict[str, LastRun] = {}
    for record in ended:
        run = record.dagster_run
        key, fingerprint = run.tags.get(_PARTITION_TAG), run.tags.get(FINGERPRINT_TAG)
        if key is None or fingerprint is None or not run.is_finished:
            continue
        before = found.get(key)
        if before is None:
            found[key] = LastRun(
                fingerprint,
                failed=run.status is dg.DagsterRunStatus.FAILURE,
                permanent=run.tags.get(PERMANENT_TAG) == "true",
                attempts=1,
                ended_s=_end(record),
                first_s=_end(record),
                judged_at=run.tags.get(JUDGED_AT_TAG),
                reason=run.tags.get(BECAUSE_TAG, ""),
                canceled=run.status is dg.DagsterRunStatus.CANCELED,
            )
        elif before.fingerprint == fingerprint:
            found[key] = replace(before, attempts=before.attempts + 1, first_s=_end(record))
    return found


def _about_to_be_retried(ended: Sequence[dg.RunRecord], now_s: float) -> list[str]:
    """Return batches whose run died and which the daemon has promised to run again."""
    return [
        record.dagster_run.tags.get(_PARTITION_TAG, "")
        for record in ended
        if record.dagster_run.tags.get(_WILL_RETRY_TAG) == "true"
        and record.dagster_run.status is dg.DagsterRunStatus.FAILURE
        and now_s - _end(record) < _RETRY_GRACE_S
        and "dagster/auto_retry_run_id" not in record.dagster_run.tags
    ]


def _end(record: dg.RunRecord) -> float:
    return record.end_time if record.end_time is not None else record.update_timestamp.timestamp()
