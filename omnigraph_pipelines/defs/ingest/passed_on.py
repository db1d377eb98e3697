"""Settings of a source that are Dagster's own: when it materializes by itself, how fresh a source has to be."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

import dagster as dg

from omnigraph_pipelines.settings import SourceSettings

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def condition_of(source: SourceSettings) -> dg.AutomationCondition | None:  # type: ignore[type-arg]  # of any entity
    """Return the automation condition of the source's assets; one that a template made is taken as it is."""
    given = source.automation_condition
    if isinstance(given, dict):
        return dg.AutomationCondition.on_cron(given["on_cron"])
    if isinstance(given, str):
        return {"eager": dg.AutomationCondition.eager, "on_missing": dg.AutomationCondition.on_missing}[given]()
    found: dg.AutomationCondition | None = given  # type: ignore[type-arg]
    return found


def freshness_of(source: SourceSettings) -> dg.FreshnessPolicy | None:
    given = source.freshness
    if given is None:
        return None
    warn = None if given.warn_after is None else _timedelta(given.warn_after)
    return dg.FreshnessPolicy.time_window(fail_window=_timedelta(given.fail_after), warn_window=warn)


def _timedelta(text: str) -> timedelta:
    found = re.fullmatch(r"(\d+)\s*([smhdw])", text)
    assert found is not None, "the settings have checked it"
    return timedelta(seconds=int(found.group(1)) * _SECONDS[found.group(2)])
