"""The names under which plans leave their mark in Lance transactions. Durable: a change needs a new storage version."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from omnigraph.core import canonical_json

OP = "omnigraph:op"
PLAN = "omnigraph:plan"
COMMIT = "omnigraph:commit"  # of a swap: the new head
ABORT = "omnigraph:abort"  # of a swap or a Restore: the plan that it gives up
COUNTS = "omnigraph:counts"


@dataclass(frozen=True)
class Counts:
    """What one request does to one table, row by row. Travels in the table transaction, so that recovery can report it."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0

    def to_json(self) -> Mapping[str, int]:
        return {
            "inserted": self.inserted,
            "updated": self.updated,
            "deleted": self.deleted,
            "unchanged": self.unchanged,
        }

    def plus(self, other: Counts) -> Counts:
        return Counts(
            self.inserted + other.inserted,
            self.updated + other.updated,
            self.deleted + other.deleted,
            self.unchanged + other.unchanged,
        )


def of_effect(op: str, plan: str, counts: Sequence[Counts]) -> dict[str, str]:
    """The properties of a table transaction. ``counts``: one for each request of the plan, in their order."""
    return {OP: op, PLAN: plan, COUNTS: encode_counts(counts)}


def of_restore(op: str, plan: str) -> dict[str, str]:
    """The properties of a Restore that gives a plan up."""
    return {OP: op, ABORT: plan}


def encode_counts(counts: Sequence[Counts]) -> str:
    return canonical_json.dumps([one.to_json() for one in counts])


def counts_in(properties: Mapping[str, str], requests: int) -> tuple[Counts, ...] | None:
    """The counts of each request, or None where the transaction does not tell them."""
    text = properties.get(COUNTS)
    if text is None:
        return None
    try:
        listed = json.loads(text)
        counts = tuple(Counts(**one) for one in listed)
    except (ValueError, TypeError):
        return None
    return counts if len(counts) == requests else None
