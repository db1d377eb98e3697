"""What a load is asked for, what a check of one reports, and the receipt of an earlier load with the same key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from omnigraph.commit.engine import Engine
from omnigraph.commit.request import Request
from omnigraph.commit.steps import StagedFiles
from omnigraph.core.errors import InvalidInput, NotFound
from omnigraph.core.meter import Meter
from omnigraph.core.shown import count_text, html_table
from omnigraph.write.base.changes import MODES, InputMode, Mode
from omnigraph.write.receipt import Receipt, table_changes
from omnigraph.write.rules.quarantine import BadRowsMax


@dataclass(frozen=True)
class LoadOptions:
    """What ``graph.load`` was asked for."""

    mode: str
    branch: str = "main"
    from_branch: str | None = None
    actor: str | None = None
    idempotency_key: str | None = None
    on_bad_row: str = "fail"
    bad_rows_max: int | float | None = None
    quarantine_to: str | Path | None = None
    expect_head: str | None = None
    deadline_s: float = 60

    def check(self, modes: tuple[InputMode, ...] = MODES) -> None:
        if self.mode not in modes:
            raise InvalidInput(f"mode must be one of {', '.join(modes)}, not {self.mode!r}")
        if self.on_bad_row not in ("fail", "quarantine"):
            raise InvalidInput(f"on_bad_row must be 'fail' or 'quarantine', not {self.on_bad_row!r}")
        if self.quarantine_to is not None and self.on_bad_row != "quarantine":
            raise InvalidInput("quarantine_to needs on_bad_row='quarantine'")
        BadRowsMax(self.bad_rows_max)
        if self.from_branch is not None:
            raise NotFound(f"no branch {self.from_branch!r}", branch=self.from_branch)

    @property
    def sets_aside(self) -> bool:
        """Whether bad rows leave, instead of failing the load."""
        return self.on_bad_row == "quarantine"

    @property
    def input_mode(self) -> InputMode:
        return cast(InputMode, self.mode)

    @property
    def checked_mode(self) -> Mode:
        """The mode by whose rules rows are checked."""
        return "merge" if self.mode == "patch" else cast(Mode, self.mode)


@dataclass(frozen=True)
class CheckReport:
    """What ``graph.check`` found. Nothing was written."""

    ok: bool
    records: int
    rows: Mapping[str, int]
    violations: tuple[Mapping[str, Any], ...]
    total: int
    reads: tuple[str, ...] = ()
    pins: Mapping[str, tuple[str, str | None, int]] = field(default_factory=dict)  # what the answer rests on
    digest: str | None = None  # of the staged fragments that were judged

    def to_dict(self) -> dict[str, Any]:
        return {
            "pins": {key: list(triple) for key, triple in sorted(self.pins.items())},
            "digest": self.digest,
            "ok": self.ok,
            "records": self.records,
            "rows": dict(self.rows),
            "violations": [dict(one) for one in self.violations],
            "total": self.total,
            "reads": list(self.reads),
        }

    def __repr__(self) -> str:
        rows = ", ".join(f"{key}: {count}" for key, count in sorted(self.rows.items()))
        return f"<CheckReport {'ok' if self.ok else f'{self.total} violations'}; {self.records} records; {rows}>"

    def _repr_html_(self) -> str:
        names = ("source", "record", "id", "reason")
        rows = [(one.get("source"), one.get("record"), one.get("id"), one["message"]) for one in self.violations]
        title = f"{count_text(self.records, 'record')} checked, {count_text(self.total, 'violation')}"
        return html_table(names, rows, title, empty="ok")


def load_request(options: LoadOptions, keys: Iterable[str], files: StagedFiles | None = None) -> Request:
    """A load of these tables, as the commit protocol takes it. ``files``: those that it has staged already."""
    return Request(
        kind="load",
        branch=options.branch,
        keys=frozenset(keys),
        actor=options.actor,
        idempotency_key=options.idempotency_key,
        expect_head=options.expect_head,
        deadline_s=options.deadline_s,
        files=files or StagedFiles(),
    )


def replay(engine: Engine, options: LoadOptions, meter: Meter) -> Receipt | None:
    """Return the receipt of an earlier load with this key, or None. Asked before the source is opened: it may be gone by now."""
    if options.idempotency_key is None:
        return None
    engine.limits.check("idempotency_key_bytes", len(options.idempotency_key.encode()))
    held = engine.known(options.branch)
    if held is None:
        return None
    row = engine.history.find_key(held, options.idempotency_key, meter=meter)
    if row is None:
        return None
    return Receipt(row.commit_id, options.branch, table_changes(row), replayed=True, storage=meter.snapshot())
