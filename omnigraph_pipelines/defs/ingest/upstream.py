"""Decide whether a source that comes before another one is done: which of its batches are due, waiting or under way. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from omnigraph_pipelines.batches import Batch, is_key
from omnigraph_pipelines.defs.ingest.arrivals import ATTEMPTS_MAX, LastRun, Seen

FINGERPRINTS_MAX: Final = 100  # of one tick; a batch whose contents are not known yet counts as due
UNFINISHED_S_MAX: Final = 3600.0
"""A folder that has not become complete in this time is taken for left behind, and holds no other source up."""
_CHARS: Final = 16
_NAMED_MAX: Final = 3


@dataclass(frozen=True)
class Upstream:
    """One source that has to be done first, as it is now. ``done``: fingerprints that were committed, by batch."""

    name: str
    batches: Sequence[Batch]
    seen: Mapping[str, Seen]
    now_s: float
    under_way: Sequence[str] = ()
    last: Mapping[str, LastRun] = field(default_factory=dict)
    done: Mapping[str, str] = field(default_factory=dict)
    has_marker: bool = False


@dataclass(frozen=True)
class Standing:
    """``waits_for``: why the other source waits, with numbers; empty if it need not. ``seen``: for the next tick."""

    waits_for: str
    seen: Mapping[str, Seen]


def standing_of(source: Upstream, fingerprint: Callable[[Batch], str]) -> Standing:
    """Return what of a source is not done. Refused, canceled and given-up batches hold nothing up: they need a person."""
    left = FINGERPRINTS_MAX
    seen: dict[str, Seen] = {}
    open_: dict[str, list[str]] = {}
    for batch in source.batches:
        key = batch.key
        if not is_key(key):
            continue
        known = source.seen.get(key)
        if known is None or known.listing != batch.listing:
            known = Seen(batch.listing, source.now_s)
        last, done = source.last.get(key), source.done.get(key)
        if (
            key not in source.under_way
            and (last is not None or done is not None)
            and known.fingerprint is None
            and left
        ):
            left -= 1
            known = replace(known, fingerprint=fingerprint(batch)[:_CHARS])
        seen[key] = known
        why = _why_open(source, batch, known)
        if why:
            open_.setdefault(why, []).append(key)
    parts = [
        f"{len(keys)} {why} ({', '.join(keys[:_NAMED_MAX])}{', …' if len(keys) > _NAMED_MAX else ''})"
        for why, keys in open_.items()
    ]
    return Standing(f"waits for {source.name}: {', '.join(parts)}" if parts else "", seen)


def _why_open(source: Upstream, batch: Batch, known: Seen) -> str:
    """Return why a batch is not done, or nothing if it is, or if only a person can bring it on."""
    key, last = batch.key, source.last.get(batch.key)
    if key in source.under_way:
        return "under way"
    if not batch.files or (source.has_marker and not batch.is_ready):
        return "incomplete" if source.now_s - known.since_s < UNFINISHED_S_MAX else ""
    if known.fingerprint is None or last is None or last.fingerprint != known.fingerprint:
        return "" if known.fingerprint is not None and source.done.get(key) == known.fingerprint else "due"
    if source.done.get(key) == known.fingerprint:
        return ""
    standing = last.standing(source.now_s)
    if standing in ("refused", "canceled", "given up") or (standing == "ended" and last.attempts >= ATTEMPTS_MAX):
        return ""
    return {"waiting": "waiting for what they refer to", "failed": "to be tried again"}.get(standing, "due")
