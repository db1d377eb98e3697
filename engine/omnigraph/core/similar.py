"""The name that was probably meant, for hints."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like ``name``, or None if none is like it. Another case alone is always like it."""
    by_lower = {one.lower(): one for one in known}
    near = difflib.get_close_matches(name.lower()[:200], by_lower, n=1, cutoff=0.6)
    return by_lower[near[0]] if near else None


def did_you_mean(name: object, known: Iterable[str]) -> str | None:
    """The hint that names it, or None."""
    near = nearest(str(name), known)
    return f"did you mean {near}?" if near else None
