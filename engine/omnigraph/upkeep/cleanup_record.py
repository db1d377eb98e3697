"""``__cleanup/{run}.json``: who deleted what, when and why. For people; a cleanup decides nothing by it.

Written before the first deletion and completed after the last. One thing is read back: the files of staged batches that an
earlier run gave up, which a later run deletes if no version names them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from omnigraph.commit.engine import Engine
from omnigraph.core import documents
from omnigraph.core.documents import Document, Ref, Ulid
from omnigraph.core.meter import Meter
from omnigraph.store import layout
from omnigraph.upkeep.cleanup_look import CLOCK_SKEW_S_MAX, clock_refusal
from omnigraph.upkeep.cleanup_plan import LinePlan, ranges_text
from omnigraph.wire.cleanup import Policy

FORMAT = 1
# As long as the lists of files in it may grow; a record is one object.
RECORD_BYTES_MAX = 256 * 1024 * 1024


class _Policy(Document):
    keep: int
    older_than_s: int
    min_age_s: int
    text: str


class _Table(Document):
    table_key: str
    location: str
    ref: Ref | None
    versions: str


class _Deleted(Document):
    versions: int
    bytes: int
    errors: tuple[str, ...]


class _Started(Document):
    """A record as far as its run has come; what a later state has besides is in the classes below."""

    format: int
    run: Ulid
    actor: str | None
    started_at_us: int
    policy: _Policy
    state: Literal["started", "deleting", "done"]


class _Deleting(_Started):
    boundaries: dict[str, int]
    oldest: dict[str, str]
    tables: tuple[_Table, ...]
    orphans: tuple[str, ...]
    given_up_files: tuple[str, ...]


class _Done(_Deleting):
    ended_at_us: int
    deleted: _Deleted


_STATES: dict[object, type[_Started]] = {"started": _Started, "deleting": _Deleting, "done": _Done}


def read_record(engine: Engine, key: str, meter: Meter) -> dict[str, Any] | None:
    """A record, or None where it is gone. Raises ``Corruption`` or ``UnsupportedStorage`` naming it."""
    data = engine.store.get(key, meter=meter)
    if data is None:
        return None
    with documents.refusals(key, "the record of a cleanup"):
        raw = documents.loads(data, bytes_max=RECORD_BYTES_MAX)
        documents.check_format(raw, FORMAT)
        state = raw.get("state")
        found = documents.fill(_STATES.get(state, _Started) if isinstance(state, str) else _Started, raw)
        if layout.cleanup_key(found.run) != key:
            raise ValueError(f"it names run {found.run}")
        if isinstance(found, _Deleting) and not all(map(layout.line_of_file, found.given_up_files)):
            raise ValueError("given_up_files: one is not a file of a table")
    return raw


def write_record(engine: Engine, body: Mapping[str, Any], meter: Meter) -> None:
    engine.store.replace(layout.cleanup_key(body["run"]), documents.canonical(body), meter=meter)


class CleanupRecord:
    """The record of a run that is under way."""

    def __init__(self, engine: Engine, run: str, actor: str | None, policy: Policy, meter: Meter) -> None:
        """Make it. That shows the store's clock, before anything is judged by it: ``ahead_us`` is how far it is ahead."""
        self._engine = engine
        self._meter = meter
        now_us = engine.clock.now_us()
        self._body: dict[str, Any] = {
            "format": FORMAT,
            "run": run,
            "actor": actor,
            "started_at_us": now_us,
            "policy": policy.to_dict(),
            "state": "started",
        }
        key = layout.cleanup_key(run)
        engine.store.create(key, documents.canonical(self._body), meter=meter)
        [entry] = engine.store.list(key, meter=meter)
        if abs(entry.modified_us - now_us) > CLOCK_SKEW_S_MAX * 1_000_000:
            engine.store.delete(key, meter=meter)
            raise clock_refusal(entry.modified_us, now_us)
        self.ahead_us = entry.modified_us - now_us

    def planned(
        self,
        doomed: Mapping[tuple[str, str | None], LinePlan],
        orphans: Sequence[str],
        boundaries: Mapping[str, int],
        oldest: Mapping[str, str],
        files: Sequence[str],
    ) -> None:
        """Note what will be deleted. ``orphans``: their prefixes; ``files``: those of staged batches that are given up."""
        self._body |= {
            "state": "deleting",
            "boundaries": dict(boundaries),
            "oldest": dict(oldest),
            "tables": [
                {
                    "table_key": line.key,
                    "location": line.location,
                    "ref": line.ref,
                    "versions": ranges_text(line.doomed),
                }
                for line in doomed.values()
                if line.doomed
            ],
            "orphans": list(orphans),
            "given_up_files": list(files),
        }
        write_record(self._engine, self._body, self._meter)

    def done(self, versions: int, bytes_: int, errors: Sequence[str]) -> None:
        self._body |= {
            "state": "done",
            "ended_at_us": self._engine.clock.now_us(),
            "deleted": {"versions": versions, "bytes": bytes_, "errors": list(errors)},
        }
        write_record(self._engine, self._body, self._meter)
