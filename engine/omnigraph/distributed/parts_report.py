"""The report of a check of staged parts, and when the commit of the same parts need not check again.

Owns the document of the report. It rests on the pins of the tables that were asked, on the schema, and on the parts themselves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from omnigraph.core import documents
from omnigraph.core.documents import Document
from omnigraph.core.shown import Shown
from omnigraph.distributed.fragments import schema_id_of
from omnigraph.distributed.staged_load import pins_hold
from omnigraph.distributed.staged_part import StagedPart
from omnigraph.manifest.state import State

FORMAT: Final = 1

Triple = tuple[str, str | None, int]


class _Report(Document):
    format: Literal[1]
    ok: bool
    records: int
    rows: dict[str, int]
    violations: list[dict[str, Any]]
    total: int
    rejected: int
    rejected_rows: list[dict[str, Any]]
    left: int
    reads: list[str]
    pins: dict[str, tuple[str, str | None, int]]
    schema_id: str
    digest: str
    by_reason: Annotated[dict[str, int], Field(default_factory=dict)]
    missing_ids: Annotated[dict[str, int], Field(default_factory=dict)]
    stubs: Annotated[dict[str, int], Field(default_factory=dict)]
    dropped: Annotated[dict[str, int], Field(default_factory=dict)]
    refusal: str | None = None


@dataclass(frozen=True)
class PartsReport(Shown):
    """What a load of staged parts would find now. ``ok``: it would commit. ``violations``: the first of ``total``, those of
    rows that would be left out included; ``rejected`` counts these rows, with the first of them and their reasons. ``left``
    of them were not found by the tasks, but when the batch was checked as a whole, edges that refer to stubs included.

    ``by_reason`` counts violations by code and ``missing_ids`` how often edges name a node that does not exist. ``stubs`` and
    ``dropped`` are rows by type that would be made or left out. ``refusal``: which bound is exceeded.

    ``reads`` are the tables that were asked, ``pins`` where these and the tables of the batch stood, ``digest`` names the
    parts and the options: the commit of the same parts trusts the report as long as nothing of that has changed."""

    ok: bool
    records: int
    rows: Mapping[str, int]
    violations: tuple[Mapping[str, Any], ...] = ()
    total: int = 0
    rejected: int = 0
    rejected_rows: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    left: int = 0
    reads: tuple[str, ...] = ()
    pins: Mapping[str, Triple] = field(default_factory=dict, repr=False)
    schema_id: str = ""
    digest: str = ""
    by_reason: Mapping[str, int] = field(default_factory=dict)
    missing_ids: Mapping[str, int] = field(default_factory=dict)
    stubs: Mapping[str, int] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    refusal: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "ok": self.ok,
            "records": self.records,
            "rows": dict(self.rows),
            "violations": [dict(one) for one in self.violations],
            "total": self.total,
            "rejected": self.rejected,
            "rejected_rows": [dict(one) for one in self.rejected_rows],
            "left": self.left,
            "reads": list(self.reads),
            "pins": {key: list(triple) for key, triple in sorted(self.pins.items())},
            "schema_id": self.schema_id,
            "digest": self.digest,
            "by_reason": dict(self.by_reason),
            "missing_ids": dict(self.missing_ids),
            "stubs": dict(self.stubs),
            "dropped": dict(self.dropped),
            "refusal": self.refusal,
        }

    def to_json(self) -> str:
        return documents.canonical(self.to_dict()).decode()

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> PartsReport:
        with documents.refusals("that was given", "the report on staged parts", given=True):
            documents.check_format(value, FORMAT)
            return cls._of(documents.fill(_Report, value))

    @classmethod
    def from_json(cls, text: str | bytes) -> PartsReport:
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        with documents.refusals("that was given", "the report on staged parts", given=True):
            return cls._of(documents.read(_Report, data, format=FORMAT))

    @classmethod
    def _of(cls, found: _Report) -> PartsReport:
        return cls(
            found.ok,
            found.records,
            found.rows,
            tuple(found.violations),
            found.total,
            found.rejected,
            tuple(found.rejected_rows),
            found.left,
            tuple(found.reads),
            found.pins,
            found.schema_id,
            found.digest,
            found.by_reason,
            found.missing_ids,
            found.stubs,
            found.dropped,
            found.refusal,
        )


def is_trusted(report: PartsReport, state: State, keys: Iterable[str]) -> bool:
    """Whether the report answers for a commit on this state. Which parts it is about is compared by ``parts_digest``.

    Where rows have to leave because of other rows the batch is checked again: the report counts them and does not hold them.
    """
    return (
        report.ok
        and not report.left
        and report.schema_id == schema_id_of(state)
        and pins_hold(state, report.pins, keys)
    )


def parts_digest(parts: Sequence[StagedPart], keys: Iterable[str], mode: str, *, sets_aside: bool) -> str:
    """Names these very parts, the tables that the batch names, and how they are to be loaded."""
    named = {
        "parts": sorted(part.digest for part in parts),
        "keys": sorted({*keys, *(held.table_key for part in parts for held in part.tables)}),
        "mode": mode,
        "sets_aside": sets_aside,
    }
    return hashlib.sha256(documents.canonical(named)).hexdigest()
