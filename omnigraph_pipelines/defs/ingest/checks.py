"""The blocking check of a batch: the engine's judgement, told by table and by rule.

One check for each batch, and not one for each rule of each table: a check leaves three events in the log of every run. Owns which
complaint belongs to which rule. The engine judged; nothing is judged here but whether there are rows at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import dagster as dg

import omnigraph as og
from omnigraph import distributed
from omnigraph_pipelines.failures import rows_metadata

ACCEPTED: Final = "accepted"
"""The name of the check. It stands on the commit asset of a source."""

ROWS: Final = "rows"
SCHEMA: Final = "schema"
KEYS: Final = "keys"
ENDPOINTS: Final = "endpoints"
BAD_ROWS: Final = "bad_rows"

_RULE_OF: Final[Mapping[str, str]] = {
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
_SAID: Final = (
    "Each table has its rows, and the columns that the schema declares; ids and unique values occur once, in the batch and in the "
    "graph; both ends of every edge exist, and no node has more edges than the schema allows; no more rows break a rule than the "
    "settings bear with."
)


@dataclass(frozen=True)
class Broken:
    """One rule that one table of a batch breaks. ``count``: complaints that the engine has sampled."""

    type: str
    rule: str
    count: int = 0
    message: str = ""

    def to_row(self) -> dict[str, Any]:
        return {"table": self.type, "rule": self.rule, "complaints": self.count, "first": self.message}


@dataclass(frozen=True)
class Table:
    """A table of a batch: how many rows it has, and has to have."""

    key: str
    rows: int
    rows_min: int

    @property
    def type(self) -> str:
        return self.key.partition(":")[2]


def spec(asset: dg.AssetKey) -> dg.AssetCheckSpec:
    return dg.AssetCheckSpec(ACCEPTED, asset=asset, blocking=True, description=_SAID)


def rules_of(table_key: str) -> list[str]:
    """The rules of a table: nodes have no ends."""
    every = [ROWS, SCHEMA, KEYS, ENDPOINTS, BAD_ROWS]
    return every if table_key.startswith("edge:") else [name for name in every if name != ENDPOINTS]


def rule_of(code: str) -> str:
    """The rule that a complaint of the engine belongs to; what a row shows by itself is a bad row."""
    return _RULE_OF.get(code, BAD_ROWS)


def broken(tables: Iterable[Table], report: distributed.PartsReport) -> list[Broken]:
    """Return what stands between a batch and its commit. Where the batch as a whole may be committed, its complaints are rows that
    are left out, and break nothing."""
    found = []
    for table in tables:
        mine = [one for one in report.violations if _is_about(one, table.key)]
        for rule in rules_of(table.key):
            about = [one for one in mine if rule_of(str(one.get("code", ""))) == rule]
            passed = report.ok or not about
            if rule == ROWS:
                passed = table.rows >= table.rows_min
            elif rule == ENDPOINTS:
                passed = passed and (report.ok or not (report.refusal and report.missing_ids))
            elif rule == BAD_ROWS:
                passed = passed and (report.ok or not report.rejected)
            if not passed:
                found.append(Broken(table.type, rule, len(about), str(about[0].get("message", "")) if about else ""))
    return found


def broken_by(error: og.errors.OmnigraphError, tables: Iterable[str]) -> list[Broken]:
    """The same for an error that ended staging or the commit. A complaint that names no table concerns the schema of each."""
    violations = [dict(one) for one in error.facts.get("violations") or ()]
    named = {str(one["table_key"]) for one in violations if "table_key" in one}
    found = []
    for key in tables:
        if named and key not in named:
            continue
        about = [one for one in violations if _is_about(one, key)] or violations
        rules = {rule_of(str(one.get("code", ""))) for one in about if named} or {SCHEMA}
        first = str(about[0].get("message", "")) if about else error.message
        found += [Broken(key.partition(":")[2], rule, len(about), first) for rule in sorted(rules & set(rules_of(key)))]
    return found


def told(
    tables: Sequence[Table], report: distributed.PartsReport | None, found: Sequence[Broken] = ()
) -> dict[str, Any]:
    """The metadata of the check: what is broken, what was judged, what was left out and why."""
    metadata: dict[str, Any] = {"broken": rows_metadata(one.to_row() for one in found)} if found else {}
    if tables:
        metadata["tables"] = rows_metadata(
            {"table": one.type, "rows": one.rows, "rows_min": one.rows_min} for one in tables
        )
    if report is None:
        return metadata
    if report.violations:
        metadata["violations"] = rows_metadata(report.violations)
    if report.by_reason:
        metadata["by_reason"] = rows_metadata(_counted(report.by_reason, "reason"))
    if report.missing_ids:
        metadata["missing_ids"] = rows_metadata(_counted(report.missing_ids, "missing id"))
    metadata |= {"stubs": sum(report.stubs.values())} if report.stubs else {}
    metadata |= {"dropped": sum(report.dropped.values())} if report.dropped else {}
    share = report.rejected / report.records if report.records else 0.0
    return {**metadata, "rejected": report.rejected, "records": report.records, "share": share}


def passed(asset: dg.AssetKey, metadata: Mapping[str, Any], description: str | None = None) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        passed=True, asset_key=asset, check_name=ACCEPTED, metadata=dict(metadata), description=description
    )


def failed(asset: dg.AssetKey, found: Sequence[Broken], metadata: Mapping[str, Any]) -> dg.AssetCheckEvaluation:
    """An evaluation and no result: the step that has found it says so, and need not be the one that the check belongs to."""
    first = next((one.message for one in found if one.message), "")
    return dg.AssetCheckEvaluation(
        asset_key=asset,
        check_name=ACCEPTED,
        passed=False,
        metadata=dict(metadata),
        description=f"{in_words(found)}: {first}"[:500] if first else in_words(found),
        blocking=True,
    )


def in_words(found: Iterable[Broken]) -> str:
    return ", ".join(f"{one.rule} of {one.type}" for one in found)


def _counted(counts: Mapping[str, int], what: str) -> list[dict[str, Any]]:
    return [{what: name, "rows": count} for name, count in counts.items()]


def _is_about(violation: Mapping[str, Any], table_key: str) -> bool:
    named = violation.get("table_key")
    if named is not None:
        return bool(named == table_key)
    return violation.get("type") in (None, table_key.partition(":")[2])
