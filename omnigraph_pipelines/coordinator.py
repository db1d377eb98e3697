"""The run queue of Dagster, with backfills that wait for a code location that cannot be reached.

A code server that is restarted, as each release does, makes its assets disappear for a while. Dagster then ends a backfill of
them and cancels its runs, unless two variables are set in the environment of the daemon. Every process that reads the instance
file imports this module before its daemons start, so the variables are set where the file names it.
"""

from __future__ import annotations

import os
from typing import Final

# This module and the launcher need names which Dagster does not export.
from dagster._core.run_coordinator import QueuedRunCoordinator

WAITS_FOR_CODE: Final = {
    "DAGSTER_BACKFILL_RETRY_DEFINITION_CHANGED_ERROR": "1",
    "DAGSTER_MAX_BACKFILL_RETRIES": "10000",
}

for _name, _value in WAITS_FOR_CODE.items():
    os.environ.setdefault(_name, _value)


class PatientRunCoordinator(QueuedRunCoordinator):
    """``run_coordinator`` of an instance file: ``module: omnigraph_pipelines.coordinator``, ``class: PatientRunCoordinator``.

    Takes the config of ``QueuedRunCoordinator``.
    """
