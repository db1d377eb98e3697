"""The ways in which a load treats rows that are there already."""

from __future__ import annotations

from typing import Final, Literal, get_args

Mode = Literal["append", "merge", "overwrite"]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)

# What an input may ask for besides: ``patch`` is a merge of rows of which the input names some properties only.
InputMode = Literal["append", "merge", "overwrite", "patch"]
INPUT_MODES: Final[tuple[InputMode, ...]] = get_args(InputMode)
