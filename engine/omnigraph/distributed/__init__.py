"""Batches that many tasks stage: tasks write files, one process checks the whole and commits it.

Owns the public names for programs that divide the work: what a task is given, what it hands back, and how equal keys are brought
together. What tasks hand back is a versioned document. Names are resolved when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.core.lazy import exports as _exports
from omnigraph.core.lazy import inside as _inside

if TYPE_CHECKING:
    from omnigraph.distributed.check import check_parts as check_parts
    from omnigraph.distributed.fragments import StagedFragments as StagedFragments
    from omnigraph.distributed.parts_report import PartsReport as PartsReport
    from omnigraph.distributed.shuffle import Exchange as Exchange
    from omnigraph.distributed.shuffle import Passes as Passes
    from omnigraph.distributed.shuffle import Piece as Piece
    from omnigraph.distributed.stage_task import ObjectRows as ObjectRows
    from omnigraph.distributed.stage_task import PartTask as PartTask
    from omnigraph.distributed.stage_task import RecordRows as RecordRows
    from omnigraph.distributed.stage_task import TableRows as TableRows
    from omnigraph.distributed.staged_part import KeyStream as KeyStream
    from omnigraph.distributed.staged_part import Split as Split
    from omnigraph.distributed.staged_part import StagedPart as StagedPart
    from omnigraph.distributed.staged_part import Threads as Threads
    from omnigraph.distributed.staged_part import Workers as Workers

# Public name -> module of this package.
_PUBLIC: dict[str, str] = {
    "Exchange": "shuffle",
    "KeyStream": "staged_part",
    "ObjectRows": "stage_task",
    "PartTask": "stage_task",
    "PartsReport": "parts_report",
    "Passes": "shuffle",
    "Piece": "shuffle",
    "RecordRows": "stage_task",
    "Split": "staged_part",
    "StagedFragments": "fragments",
    "StagedPart": "staged_part",
    "TableRows": "stage_task",
    "Threads": "staged_part",
    "Workers": "staged_part",
    "check_parts": "check",
}

__all__ = [
    "Exchange",
    "KeyStream",
    "ObjectRows",
    "PartTask",
    "PartsReport",
    "Passes",
    "Piece",
    "RecordRows",
    "Split",
    "StagedFragments",
    "StagedPart",
    "TableRows",
    "Threads",
    "Workers",
    "check_parts",
]


if not TYPE_CHECKING:
    # Hidden from type checkers: a module with `__getattr__` has every name there is, and no mistake would be found.
    __getattr__ = _exports(__name__, _inside(__name__, _PUBLIC))


def __dir__() -> list[str]:
    return sorted(__all__)
