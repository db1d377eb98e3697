"""Receipts from commit rows: a repeated key is answered from the row and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph.commit.builder import Planned
from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.recovery.outcome import Fate
from omnigraph.core.meter import Meter
from omnigraph.core.shown import time_text
from omnigraph.manifest.rows import CommitRow
from omnigraph.manifest.swap import Held
from omnigraph.wire.receipt import Outcome as Found
from omnigraph.wire.receipt import PlannedTable, Receipt, TableChange
from omnigraph.write.rules.left_out import LeftOut, rejected_rows

if TYPE_CHECKING:
    from omnigraph.commit.request import Outcome


def table_changes(row: CommitRow) -> dict[str, TableChange]:
    return {
        key: TableChange(counts.version, counts.inserted, counts.updated, counts.deleted, counts.unchanged)
        for key, counts in sorted(row.tables.items())
    }


def others_of(engine: Engine, held: Held, row: CommitRow) -> tuple[str, ...]:
    """The other commits of the swap of a commit, in order."""
    return tuple(one for one in engine.history.swap_of(held, row) if one != row.commit_id)


def replay_warnings(row: CommitRow) -> tuple[str, ...]:
    """What the receipt of a known key has to say: a key that is used again by mistake drops what it came with."""
    when = time_text(row.created_at_us)
    return (
        f"nothing was written: the idempotency key was used before, by commit {row.commit_id} of {when}; this is its receipt",
    )


def receipt_of(
    outcome: Outcome, branch: str, left: LeftOut, unchanged: Mapping[str, TableChange], meter: Meter
) -> Receipt:
    """``unchanged``: tables that were named and stay as they are; the commit does not know them. ``left``: what was left out of
    the input or made up for it."""
    tables = dict(unchanged)
    if outcome.row is not None:
        tables = table_changes(outcome.row) if outcome.replayed else {**tables, **table_changes(outcome.row)}
    return Receipt(
        None if outcome.row is None else outcome.row.commit_id,
        branch,
        dict(sorted(tables.items())),
        replayed=outcome.replayed,
        rejected=rejected_rows(left),
        storage=outcome.cost or meter.snapshot(),
        warnings=(*outcome.warnings, *(replay_warnings(outcome.row) if outcome.replayed and outcome.row else ())),
        grouped_with=outcome.grouped_with,
        stubs=left.made,
        dropped=left.dropped,
        kind="load" if outcome.row is None else outcome.row.kind,
    )


def with_warnings(receipt: Receipt, warnings: tuple[str, ...]) -> Receipt:
    """The receipt with what reading the input has to say. A replay has read nothing into the graph."""
    return replace(receipt, warnings=(*receipt.warnings, *warnings)) if warnings and not receipt.replayed else receipt


def outcome_of(fate: Fate, commit_id: str) -> Found:
    """What became of a write, as the caller of ``graph.outcome`` sees it."""
    receipt = None
    if isinstance(fate.row, CommitRow):
        receipt = Receipt(commit_id, fate.branch or MAIN, table_changes(fate.row), kind=fate.row.kind)
    return Found(fate.state, commit_id, receipt, fate.operation_id, fate.searched, fate.deleted)


def planned_tables(planned: Planned) -> dict[str, PlannedTable]:
    """What a plan does to each table, for people to look at before it is carried out."""
    found = {}
    for chain in planned.plan.chains:
        [counts] = planned.counts.get(chain.key) or (None,)
        kinds = tuple(effect.kind for effect in chain.effects)
        facts = dict.fromkeys(("inserted", "updated", "deleted", "unchanged")) if counts is None else counts.to_json()
        found[chain.key] = PlannedTable(kinds, chain.pin, chain.version, **facts)
    return found
