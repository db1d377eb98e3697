"""A property graph on Lance tables, where any number of tables change in one atomic commit.

Owns the public names and nothing else. Names are resolved when first used, so that ``import omnigraph`` loads neither
lance nor duckdb nor pandas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.core.lazy import exports as _exports
from omnigraph.core.version import VERSION as _VERSION

if TYPE_CHECKING:
    # The same names for type checkers and editors, which do not run `__getattr__`. A test compares the two lists.
    from omnigraph.core import errors, logs, progress
    from omnigraph.core.progress import Progress, listen
    from omnigraph.distributed.fragments import StagedFragments
    from omnigraph.distributed.staged_load import check_staged
    from omnigraph.gq import lint
    from omnigraph.graph import Graph, init, open
    from omnigraph.options import CommitOptions, LoadOptions
    from omnigraph.read.snapshot import Snapshot
    from omnigraph.schema import parse_schema
    from omnigraph.upkeep.distribute import CompactionResult, CompactionTask
    from omnigraph.wire.receipt import CheckReport, LoadPlan, Receipt
    from omnigraph.write.sources.batch import Batch, CsvOptions, TableFile
    from omnigraph.write.sources.key_derivation import derive_keys

__version__: str = _VERSION
STORAGE_VERSION: int = 5

# Public name -> (module, attribute; None for the module itself).
_PUBLIC: dict[str, tuple[str, str | None]] = {
    "Batch": ("omnigraph.write.sources.batch", "Batch"),
    "CommitOptions": ("omnigraph.options", "CommitOptions"),
    "CompactionResult": ("omnigraph.upkeep.distribute", "CompactionResult"),
    "CompactionTask": ("omnigraph.upkeep.distribute", "CompactionTask"),
    "CsvOptions": ("omnigraph.write.sources.batch", "CsvOptions"),
    "Graph": ("omnigraph.graph", "Graph"),
    "LoadOptions": ("omnigraph.options", "LoadOptions"),
    "CheckReport": ("omnigraph.wire.receipt", "CheckReport"),
    "LoadPlan": ("omnigraph.wire.receipt", "LoadPlan"),
    "StagedFragments": ("omnigraph.distributed.fragments", "StagedFragments"),
    "TableFile": ("omnigraph.write.sources.batch", "TableFile"),
    "check_staged": ("omnigraph.distributed.staged_load", "check_staged"),
    "derive_keys": ("omnigraph.write.sources.key_derivation", "derive_keys"),
    "Receipt": ("omnigraph.wire.receipt", "Receipt"),
    "Snapshot": ("omnigraph.read.snapshot", "Snapshot"),
    "Progress": ("omnigraph.core.progress", "Progress"),
    "errors": ("omnigraph.core.errors", None),
    "init": ("omnigraph.graph", "init"),
    "lint": ("omnigraph.gq", "lint"),
    "listen": ("omnigraph.core.progress", "listen"),
    "logs": ("omnigraph.core.logs", None),
    "progress": ("omnigraph.core.progress", None),
    "open": ("omnigraph.graph", "open"),
    "parse_schema": ("omnigraph.schema", "parse_schema"),
}

__all__ = [
    "STORAGE_VERSION",
    "__version__",
    "Batch",
    "CheckReport",
    "CommitOptions",
    "CompactionResult",
    "CompactionTask",
    "CsvOptions",
    "Graph",
    "LoadOptions",
    "LoadPlan",
    "Progress",
    "Receipt",
    "Snapshot",
    "StagedFragments",
    "TableFile",
    "check_staged",
    "derive_keys",
    "errors",
    "init",
    "lint",
    "listen",
    "logs",
    "open",
    "parse_schema",
    "progress",
]


if not TYPE_CHECKING:
    # Hidden from type checkers: a module with `__getattr__` has every name there is, and no mistake would be found.
    __getattr__ = _exports(__name__, _PUBLIC)


def __dir__() -> list[str]:
    return sorted(__all__)
