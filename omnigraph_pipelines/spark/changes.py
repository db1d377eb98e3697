"""The change feed of a graph as rows of Spark: the data source ``omnigraph`` with the option ``changes_since``.

Which commits are read is decided once, while the query is planned; the two ids travel in the one partition. A cursor from which the
feed cannot go on is said then, and not by a task.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

import omnigraph as og
from omnigraph_pipelines.spark.inside import settle

OPTION: Final = "changes_since"
ROWS: Final = (
    "commit_id string, commit_ids array<string>, type string, key string, kind string, row string, before string"
)
_BATCH_ROWS: Final = 4096
_TEXT: Final = pa.utf8()
_SCHEMA: Final = pa.schema(
    [
        pa.field("commit_id", _TEXT),
        pa.field("commit_ids", pa.list_(pa.field("element", _TEXT))),
        *(pa.field(name, _TEXT) for name in ("type", "key", "kind", "row", "before")),
    ]
)


class _Commits(InputPartition):
    """What the task reads."""

    def __init__(self, since: str, until: str) -> None:
        super().__init__((since, until))
        self.since = since
        self.until = until


class ChangesReader(DataSourceReader):
    """``options``: ``uri``, ``changes_since``; ``changes_until``, ``type``, ``branch``, ``before``, each empty if left out."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)

    def partitions(self) -> Sequence[InputPartition]:
        with og.open(self._options["uri"], read_only=True) as graph:
            feed = self._feed(graph, self._options[OPTION], self._options["changes_until"] or None)
        return [_Commits(feed.since, feed.until)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, _Commits):
            return
        settle()
        with og.open(self._options["uri"], read_only=True) as graph:
            held: list[dict[str, Any]] = []
            for change in self._feed(graph, partition.since, partition.until):
                held.append(_row(change.to_dict()))
                if len(held) == _BATCH_ROWS:
                    yield pa.RecordBatch.from_pylist(held, schema=_SCHEMA)
                    held = []
            if held:
                yield pa.RecordBatch.from_pylist(held, schema=_SCHEMA)

    def _feed(self, graph: og.Graph, since: str, until: str | None) -> Any:
        types = [self._options["type"]] if self._options["type"] else None
        branch = self._options["branch"] or "main"
        return graph.changes(since, until, types, branch, self._options["before"].lower() == "true")


def _row(change: dict[str, Any]) -> dict[str, Any]:
    """Rows of different types differ, and those of one type do after a change of the schema: they travel as JSON."""
    texts = {
        name: None if change[name] is None else json.dumps(change[name], ensure_ascii=False)
        for name in ("row", "before")
    }
    return {**change, **texts}
