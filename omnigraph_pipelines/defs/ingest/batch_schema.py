"""The schema that a batch needs before it is staged: what the file is ahead, and columns that the schema does not know.

Owns what a run tells of it. What may be applied is decided in ``accepted_schema``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import omnigraph as og
from omnigraph_pipelines.accepted_schema import add_properties, bring_up
from omnigraph_pipelines.graph_file import GraphFile
from omnigraph_pipelines.settings import SourceSettings


class BatchSchema:
    """Brings the accepted schema up to a batch. ``facts``: what was changed, for the run."""

    def __init__(self, log: Any, file: GraphFile, source: SourceSettings) -> None:
        self._log = log
        self._file = file
        self._source = source
        self.facts: dict[str, Any] = {}

    def bring_up(self, graph: og.Graph) -> None:
        """Apply what the schema file is ahead, or refuse the batch."""
        receipt = bring_up(graph, self._file)
        if receipt is not None and receipt.commit_id is not None:
            self.facts["schema_commit"] = receipt.commit_id
            self._log.info(f"the schema file was ahead of the graph: applied as commit {receipt.commit_id}")

    def with_columns(self, graph: og.Graph, given: Any) -> Any:
        """The files of the batch with columns that the schema knows, as the settings of the source say."""
        how = self._source.unknown_columns
        if how == "fail" or not isinstance(given, Mapping):
            return given
        from omnigraph_pipelines.spark.unknown_columns import known_columns

        branch = self._file.settings.graph.branch
        if how == "add":
            self._add(graph, branch, given)
        catalog = graph.schema.show(branch).catalog
        return {
            name: replace(files, only=known_columns(catalog.type(name), files.columns)) for name, files in given.items()
        }

    def _add(self, graph: og.Graph, branch: str, given: Mapping[str, Any]) -> None:
        from omnigraph_pipelines.spark.unknown_columns import new_properties

        catalog = graph.schema.show(branch).catalog
        added: dict[str, dict[str, str]] = {}
        for name, files in given.items():
            declared = catalog.type(name)
            kinds, empty = new_properties(declared, files)
            if kinds:
                added[declared.name] = kinds
            if empty:
                self._log.warning(
                    f"{declared.name}: the columns {', '.join(empty)} have no value in this batch and are left out: nothing says what "
                    "kind they are"
                )
        if not added:
            return
        receipt = add_properties(graph, branch, added)
        if receipt is not None and receipt.commit_id is not None:
            said = ", ".join(f"{name}.{prop}: {kind}" for name, kinds in added.items() for prop, kind in kinds.items())
            self.facts |= {"columns_added": said, "columns_commit": receipt.commit_id}
            self._log.info(f"added {said} as commit {receipt.commit_id}; put them into the schema file as well")
