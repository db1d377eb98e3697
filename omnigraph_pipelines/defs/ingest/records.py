"""Read what Dagster recorded of the batches of a source, as the plain values that decisions rest on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import dagster as dg

from omnigraph_pipelines.defs.ingest.arrivals import LastRun
from omnigraph_pipelines.defs.ingest.names import (
    BATCHES_TAG,
    FINGERPRINT_TAG,
    RANGE_END_TAG,
    RANGE_START_TAG,
    REFUSED_TAG,
    Names,
)
from omnigraph_pipelines.defs.ingest.turns import unfinished
from omnigraph_pipelines.failures import BECAUSE_TAG, JUDGED_AT_TAG, PERMANENT_TAG

RUNS_SEEN_MAX: Final = 300
_PARTITION_TAG: Final = "dagster/partition"
_RANGE_TAGS: Final = (RANGE_START_TAG, RANGE_END_TAG)
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
    order = instance.get_dynamic_partitions(names.partitions.name or "")
    running = [batch for one in unfinished(instance, names) for batch in batches_of(one.dagster_run, order)]
    ended = list(instance.get_run_records(dg.RunsFilter(tags=names.tags()), limit=RUNS_SEEN_MAX))
    # After the runs: a commit is on record before its run ends.
    done = _committed(instance, names, staged)
    return Recorded([*running, *_about_to_be_retried(ended, now_s, order)], last_runs(ended), done)


def batches_of(run: dg.DagsterRun, order: Sequence[str]) -> list[str]:
    """Return the batches of a run: one, those that it was asked for with, or those of a range. ``order``: of all partitions."""
    if _PARTITION_TAG in run.tags:
        return [run.tags[_PARTITION_TAG]]
    told = _told(run, BATCHES_TAG)
    if told:
        return list(told)
    first, last = (run.tags.get(tag) for tag in _RANGE_TAGS)
    if first in order and last in order:
        return list(order[order.index(first) : order.index(last) + 1])
    return []


def _told(run: dg.DagsterRun, tag: str) -> dict[str, Any]:
    """Return a tag of ours that holds something for each batch; nothing where an edit has spoilt it."""
    try:
        found = json.loads(run.tags.get(tag, "{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


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
        if not record.dagster_run.is_finished:
            continue
        for batch, fingerprint in _fingerprints(record.dagster_run).items():
            before = found.get(batch)
            if before is None:
                found[batch] = _last(record, batch, fingerprint)
            elif before.fingerprint == fingerprint:
                found[batch] = replace(before, attempts=before.attempts + 1, first_s=_end(record))
    return found


def _fingerprints(run: dg.DagsterRun) -> dict[str, str]:
    told = _told(run, BATCHES_TAG)
    if told:
        return {str(batch): str(fingerprint) for batch, fingerprint in told.items()}
    key, fingerprint = run.tags.get(_PARTITION_TAG), run.tags.get(FINGERPRINT_TAG)
    return {} if key is None or fingerprint is None else {key: fingerprint}


def _last(record: dg.RunRecord, batch: str, fingerprint: str) -> LastRun:
    """Return how a run ended for one of its batches. A run of several says for each whether it was refused; one that it did not get
    to has failed with it."""
    run = record.dagster_run
    refused = _told(run, REFUSED_TAG).get(batch)
    if isinstance(refused, dict):
        permanent, judged_at, reason = True, refused.get("judged_at"), str(refused.get("because", ""))
    elif REFUSED_TAG in run.tags:
        permanent, judged_at, reason = False, None, ""
    else:
        permanent = run.tags.get(PERMANENT_TAG) == "true"
        judged_at, reason = run.tags.get(JUDGED_AT_TAG), run.tags.get(BECAUSE_TAG, "")
    return LastRun(
        fingerprint,
        failed=run.status is dg.DagsterRunStatus.FAILURE,
        permanent=permanent,
        attempts=1,
        ended_s=_end(record),
        first_s=_end(record),
        judged_at=judged_at,
        reason=reason,
        canceled=run.status is dg.DagsterRunStatus.CANCELED,
    )


def _about_to_be_retried(ended: Sequence[dg.RunRecord], now_s: float, order: Sequence[str]) -> list[str]:
    """Return batches whose run died and which the daemon has promised to run again."""
    return [
        batch
        for record in ended
        for batch in batches_of(record.dagster_run, order)
        if record.dagster_run.tags.get(_WILL_RETRY_TAG) == "true"
        and record.dagster_run.status is dg.DagsterRunStatus.FAILURE
        and now_s - _end(record) < _RETRY_GRACE_S
        and "dagster/auto_retry_run_id" not in record.dagster_run.tags
    ]


def _end(record: dg.RunRecord) -> float:
    return record.end_time if record.end_time is not None else record.update_timestamp.timestamp()
