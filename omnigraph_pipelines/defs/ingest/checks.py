"""Blocking checks on staged tables: the engine's judgement, told by table and by kind of complaint.

Owns which complaint belongs to which check. The engine judged; nothing is judged here but whether there are rows at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import dagster as dg

import omnigraph as og
from omnigraph import distributed
from omnigraph_pipelines.failures import rows_metadata

ROWS: Final = "rows"
SCHEMA: Final = "schema"
KEYS: Final = "keys"
ENDPOINTS: Final = "endpoints"
BAD_ROWS: Final = "bad_rows"

_KIND: Final[Mapping[str, str]] = {
    "unknown-type": SCHEMA,
    "unknown-property": SCHEMA,
    "unknown-member": SCHEMA,
    "id-mismatch": KEYS,
    "id-too-long": KEYS,
    "duplicate-id": KEYS,
    "unique": KEYS,
    "key-conflict": KEYS,
    "endpoint-required": ENDPOINTS,
    "missing-endpoint": ENDPOINTS,
    "card-max": ENDPOINTS,
    "card-min": ENDPOINTS,
    "orphan": ENDPOINTS,
}
_SAID: Final[Mapping[str, str]] = {
    ROWS: "The batch has rows for this type.",
    SCHEMA: "Columns and members are those that the schema declares.",
    KEYS: "Ids and unique values occur once, in the batch and in the graph.",
    ENDPOINTS: "Both ends of every edge exist, and no node has more edges than the schema allows.",
    BAD_ROWS: "No more rows break a rule than the settings bear with.",
}


def names_of(table_key: str) -> list[str]:
    """The checks of a table: nodes have no ends."""
    every = [ROWS, SCHEMA, KEYS, ENDPOINTS, BAD_ROWS]
    return every if table_key.startswith("edge:") else [name for name in every if name != ENDPOINTS]


def specs(asset: dg.AssetKey, table_key: str) -> list[dg.AssetCheckSpec]:
    return [
        dg.AssetCheckSpec(name, asset=asset, blocking=True, description=_SAID[name]) for name in names_of(table_key)
    ]


def kind_of(code: str) -> str:
    """The check that a complaint of the engine belongs to; what a row shows by itself is a bad row."""
    return _KIND.get(code, BAD_ROWS)


def results(
    asset: dg.AssetKey,
    table_key: str,
    *,
    ok: bool,
    rows: int,
    rows_min: int,
    report: distributed.PartsReport,
) -> list[dg.AssetCheckResult]:
    """One result for each check of a table. ``ok``: the batch as a whole may be committed; then its complaints are rows
    that are left out, and no check fails."""
    rejected, records = report.rejected, report.records
    mine = [one for one in report.violations if _is_about(one, table_key)]
    found = []
    for name in names_of(table_key):
        about = [one for one in mine if kind_of(str(one.get("code", ""))) == name]
        metadata: dict[str, Any] = {}
        if about:
            metadata["violations"] = rows_metadata(about)
        passed = ok or not about
        if name == ROWS:
            passed = rows >= rows_min
            metadata |= {"rows": rows, "rows_min": rows_min}
        elif name == ENDPOINTS:
            metadata |= _ends(report)
            passed = passed and (ok or not (report.refusal and report.missing_ids))
        elif name == BAD_ROWS:
            metadata |= {"by_reason": rows_metadata(_counted(report.by_reason, "reason"))} if report.by_reason else {}
            metadata |= {"rejected": rejected, "records": records, "share": rejected / records if records else 0.0}
            passed = passed and (ok or not rejected)
        found.append(
            dg.AssetCheckResult(
                passed=passed,
                asset_key=asset,
                check_name=name,
                metadata=metadata,
                severity=dg.AssetCheckSeverity.ERROR,
                description=str(about[0].get("message", ""))[:500] if about else None,
            )
        )
    return found


def _ends(report: distributed.PartsReport) -> dict[str, Any]:
    """What becomes of edges that name a node which does not exist, and which nodes are missing most often."""
    found: dict[str, Any] = {}
    if report.missing_ids:
        found["missing_ids"] = rows_metadata(_counted(report.missing_ids, "missing id"))
    if report.stubs:
        found["stubs"] = sum(report.stubs.values())
    if report.dropped:
        found["dropped"] = sum(report.dropped.values())
    return found


def _counted(counts: Mapping[str, int], what: str) -> list[dict[str, Any]]:
    return [{what: name, "rows": count} for name, count in counts.items()]


def refused(assets: Mapping[str, dg.AssetKey], error: og.errors.OmnigraphError) -> Iterable[dg.AssetCheckResult]:
    """Failed checks for an error that ended staging. A complaint that names no table concerns the schema of each."""
    violations = [dict(one) for one in error.facts.get("violations") or ()]
    named = {str(one["table_key"]) for one in violations if "table_key" in one}
    for key, asset in assets.items():
        if named and key not in named:
            continue
        about = [one for one in violations if _is_about(one, key)] or violations
        codes = {kind_of(str(one.get("code", ""))) for one in about if named} or {SCHEMA}
        for name in sorted(codes & set(names_of(key))):
            yield dg.AssetCheckResult(
                passed=False,
                asset_key=asset,
                check_name=name,
                metadata={"violations": rows_metadata(about)} if about else {},
                description=error.message[:500],
            )


def _is_about(violation: Mapping[str, Any], table_key: str) -> bool:
    named = violation.get("table_key")
    if named is not None:
        return bool(named == table_key)
    return violation.get("type") in (None, table_key.partition(":")[2])
