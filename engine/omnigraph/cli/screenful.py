"""One screen for any number of things: those that need attention, and a line about the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from omnigraph.cli.render import count_text

SHOWN_MAX = 20

T = TypeVar("T")


def worth_showing(
    items: Sequence[T], urgency: Callable[[T], object], *, all_: bool = False, shown_max: int = SHOWN_MAX
) -> Sequence[T]:
    """All of them if they fit on a screen or are asked for, else the most urgent, in their own order. Higher is more
    urgent."""
    if all_ or len(items) <= shown_max:
        return items
    chosen = sorted(range(len(items)), key=lambda index: urgency(items[index]), reverse=True)[:shown_max]  # type: ignore[arg-type, return-value]
    return [items[index] for index in sorted(chosen)]


def rest_text(total: int, shown: int, one: str = "table", many: str | None = None, *, all_: bool = False) -> str:
    """``all_``: whether the command has the option."""
    return (
        f"… and {count_text(total - shown, one, many)} more; {'--all shows them' if all_ else '--json has all of them'}"
    )
