"""Batches that outgrow one machine: executors stage, the driver's engine checks and publishes once.

Owns the public names of this part. Nothing here loads pyspark or lance before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph_pipelines.lazy import exports as _exports

if TYPE_CHECKING:
    # The same names for type checkers and editors, which do not run `__getattr__`. A test compares the two lists.
    from omnigraph_pipelines.spark.compaction import compact
    from omnigraph_pipelines.spark.java import find_java
    from omnigraph_pipelines.spark.scan import read
    from omnigraph_pipelines.spark.session import spark_session
    from omnigraph_pipelines.spark.source import register
    from omnigraph_pipelines.spark.sources import Files, Frame, Records
    from omnigraph_pipelines.spark.staged_batch import StagedBatch
    from omnigraph_pipelines.spark.staging import exchange_of, load, publish, stage
    from omnigraph_pipelines.spark.workers import SparkExchange, SparkWorkers

# Public name -> module of this package.
_PUBLIC: dict[str, str] = {
    "Files": "sources",
    "Frame": "sources",
    "Records": "sources",
    "SparkExchange": "workers",
    "SparkWorkers": "workers",
    "StagedBatch": "staged_batch",
    "compact": "compaction",
    "exchange_of": "staging",
    "find_java": "java",
    "load": "staging",
    "publish": "staging",
    "read": "scan",
    "register": "source",
    "spark_session": "session",
    "stage": "staging",
}

__all__ = [
    "Files",
    "Frame",
    "Records",
    "SparkExchange",
    "SparkWorkers",
    "StagedBatch",
    "compact",
    "exchange_of",
    "find_java",
    "load",
    "publish",
    "read",
    "register",
    "spark_session",
    "stage",
]


if not TYPE_CHECKING:
    # Hidden from type checkers: a module with `__getattr__` has every name there is, and no mistake would be found.
    __getattr__ = _exports(__name__, {name: (f"{__name__}.{home}", name) for name, home in _PUBLIC.items()})


def __dir__() -> list[str]:
    return sorted(__all__)
