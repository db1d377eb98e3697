"""Batches that outgrow one machine: executors stage, the driver's engine checks and publishes once.

Owns the public names of this part. Nothing here loads pyspark or lance before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

# Public name -> module of this package.
_PUBLIC: dict[str, str] = {
    "Files": "sources",
    "Frame": "sources",
    "Records": "sources",
    "SparkExchange": "workers",
    "SparkWorkers": "workers",
    "StagedBatch": "staging",
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

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    try:
        home = _PUBLIC[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
