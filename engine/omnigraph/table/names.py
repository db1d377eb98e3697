"""Where a dataset lies, and the names that Lance gives to its files, as far as anything here looks for one by name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

V2_MANIFEST_MAX: Final = (1 << 64) - 1
"""A version file is called by what is left of this number, so that the newest is listed first."""


@dataclass(frozen=True)
class TableRef:
    """Where a version line lives: a path under the root, and the Lance ref on it (None is the dataset's main line)."""

    location: str
    ref: str | None = None

    @cached_property
    def relative(self) -> str:
        return self.location if self.ref is None else f"{self.location}/tree/{self.ref}"
