"""Compaction whose rewriting is done by executors. Owns nothing but the way there and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from omnigraph_pipelines.spark.workers import SparkWorkers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    import omnigraph as og


def compact(
    spark: SparkSession,
    graph: og.Graph,
    types: Iterable[str] | None = None,
    *,
    target_rows: int | None = None,
    memory_mb: int | None = None,
) -> Any:
    """Fewer, larger files. What another writer has changed meanwhile is left as it is, and the report says so."""
    plan = graph.plan_compaction(types=types, target_rows=target_rows, memory_mb=memory_mb)
    return graph.commit_compaction(SparkWorkers(spark).each(_run, plan.tasks))


def _run(task: Any) -> Any:
    return task.run()
