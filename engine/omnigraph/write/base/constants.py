"""What several layers of ``write`` agree on."""

from __future__ import annotations

from typing import Final

# Column of an edge table -> what records and messages call it.
ENDS: Final = {"src": "from", "dst": "to"}

PIECE_ROWS: Final = 1 << 17
"""Rows of one piece: enough to be fast, and few enough that a stream of pieces needs little memory."""
