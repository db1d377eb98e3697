"""What tests of the feed compare."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import omnigraph as og
from omnigraph.wire.changes import Change


def content(graph: og.Graph, branch: str = "main", at: str | None = None) -> dict[str, dict[str, Any]]:
    snap = graph.snapshot(branch, at)
    return {key: {row["id"]: row for row in snap.to_arrow(key).to_pylist()} for key in sorted(snap.tables)}


def kinds(changes: Iterable[Change]) -> list[tuple[str | None, str | None, str]]:
    return [(one.type, one.key, one.kind) for one in changes]
