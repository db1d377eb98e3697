"""The error for violations of an input."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from omnigraph.core.errors import DataInvalid
from omnigraph.write.base import violations as v
from omnigraph.write.base.hints import hint_of


def data_invalid(
    shown: Iterable[v.Violation],
    total: int,
    *,
    by_reason: Mapping[str, int] | None = None,
    missing_ids: Mapping[str, int] | None = None,
) -> DataInvalid:
    """The error for violations: the first one in the message, all that are shown in the facts, with counts of all."""
    first = tuple(shown)
    message = first[0].line if first else "the input breaks the schema"
    if total > 1:
        message += f" (and {total - 1} more)"
    facts: dict[str, Any] = {"violations": [one.to_dict() for one in first], "total": total}
    if by_reason:
        facts["by_reason"] = dict(sorted(by_reason.items()))
    if missing_ids:
        facts["missing_ids"] = v.most_frequent(missing_ids)
    return DataInvalid(message, hint=hint_of(first), **facts)
