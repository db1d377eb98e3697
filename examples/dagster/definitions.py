"""A Dagster code location: ``dagster dev -f definitions.py`` shows one asset a type and the commits of every batch."""

import json
import os
from pathlib import Path
from typing import Any

import dagster as dg

import omnigraph as og
from omnigraph_pipelines import OmniGraphResource, build_definitions, load_graph_file

HERE = Path(__file__).parent
INDEX = HERE / "city_index.json"


@dg.asset(deps=[dg.AssetKey(["social", "crm", "commit"])])
def city_index(context: dg.AssetExecutionContext, graph: OmniGraphResource) -> dg.MaterializeResult[Any]:
    """Who lives where, in a file. A run applies what is new since the last one that ended: its cursor is in the metadata.

    A run that is killed leaves the old cursor, and the next one applies the same changes again. They are applied by key, so
    that changes nothing.
    """
    last = context.instance.get_latest_materialization_event(context.asset_key)
    found = None if last is None or last.asset_materialization is None else last.asset_materialization.metadata
    cursor = None if found is None else str(found["cursor"].value)
    index, changed = None, 0
    if cursor is not None and INDEX.exists():
        try:
            index = json.loads(INDEX.read_text(encoding="utf-8"))
            feed = graph.changes(cursor, types=["Person"])
            for change in feed:
                changed += 1
                if change.kind == "delete":
                    index.pop(change.key, None)
                elif change.kind != "schema":
                    index[change.key] = change.row["city"]
            cursor = feed.cursor
        except og.errors.Reclaimed as gap:  # a cleanup was quicker than this asset
            context.log.warning(f"{gap}: the index is made anew")
            index = None
    if index is None:
        snapshot = graph.snapshot()
        index = {row["id"]: row["city"] for row in snapshot.to_arrow("Person").to_pylist()}
        cursor, changed = snapshot.commit_id, len(index)
    written = INDEX.with_suffix(".new")
    written.write_text(json.dumps(index, indent=1, sort_keys=True), encoding="utf-8")
    os.replace(written, INDEX)
    return dg.MaterializeResult(metadata={"cursor": cursor, "changed": changed, "people": len(index)})


defs = dg.Definitions.merge(
    build_definitions(load_graph_file(HERE / "graph.yaml")),
    dg.Definitions(assets=[city_index]),
)
