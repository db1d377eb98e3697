"""Names that Lance gives to files of a dataset, as far as anything here looks for one by name."""

from __future__ import annotations

from typing import Final

V2_MANIFEST_MAX: Final = (1 << 64) - 1
"""A version file is called by what is left of this number, so that the newest is listed first."""
