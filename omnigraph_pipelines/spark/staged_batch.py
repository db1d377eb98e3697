"""A batch that executors have staged and that is not committed yet, as a document of its own."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

import omnigraph as og
from omnigraph import distributed

TARGET_ROWS: Final = 1 << 20
"""Rows of a fragment, more or less: large enough to scan well, small enough to held."""

FORMAT: Final = 2
_MEMBERS: Final = frozenset(
    {"format", "staging_id", "branch", "mode", "types", "parts", "set_aside", "target_rows", "report"}
)


@dataclass(frozen=True)
class StagedBatch:
    """A batch whose rows are in the graph's store and that no commit names yet, to be published anywhere. A document:
    ``to_json``, ``from_json``. ``report``: what a check of the whole batch has found, if there was one."""

    staging_id: str
    branch: str
    mode: str
    types: tuple[str, ...]
    parts: tuple[distributed.StagedPart, ...] = field(repr=False)
    set_aside: bool = False
    target_rows: int = TARGET_ROWS
    report: distributed.PartsReport | None = None

    def to_json(self) -> str:
        """Format 2. Parts are documents of their own; none of ours has a stream beside it."""
        body = {
            "format": FORMAT,
            "staging_id": self.staging_id,
            "branch": self.branch,
            "mode": self.mode,
            "types": list(self.types),
            "parts": [part.to_json() for part in self.parts],
            "set_aside": self.set_aside,
            "target_rows": self.target_rows,
            "report": None if self.report is None else self.report.to_json(),
        }
        return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> StagedBatch:
        """Read what ``to_json`` made. Raises ``InvalidInput`` for anything else."""
        try:
            body = json.loads(text)
            if not isinstance(body, dict) or body.get("format") != FORMAT or set(body) != _MEMBERS:
                raise ValueError(f"no staged batch of format {FORMAT}")
            report = body["report"]
            return cls(
                str(body["staging_id"]),
                str(body["branch"]),
                str(body["mode"]),
                tuple(str(name) for name in body["types"]),
                tuple(distributed.StagedPart.from_json(part) for part in body["parts"]),
                body["set_aside"] is True,
                int(body["target_rows"]),
                None if report is None else distributed.PartsReport.from_json(report),
            )
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise og.errors.InvalidInput(
                f"this is no staged batch: {str(error)[:200]}", hint="stage the batch again"
            ) from None

    def __reduce__(self) -> tuple[Any, ...]:
        return StagedBatch.from_json, (self.to_json(),)

    @property
    def records(self) -> int:
        return sum(part.records for part in self.parts)

    @property
    def rows(self) -> dict[str, int]:
        """Rows staged, by table key."""
        found: dict[str, int] = {}
        for part in self.parts:
            for held in part.tables:
                found[held.table_key] = found.get(held.table_key, 0) + held.rows
        return dict(sorted(found.items()))

    @property
    def fragments(self) -> int:
        return sum(len(held.staged.new) for part in self.parts for held in part.tables if held.staged is not None)

    def to_dict(self) -> dict[str, Any]:
        return {
            "staging_id": self.staging_id,
            "branch": self.branch,
            "mode": self.mode,
            "types": list(self.types),
            "records": self.records,
            "rows": self.rows,
            "fragments": self.fragments,
        }
