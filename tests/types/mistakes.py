"""A program of a user with a mistake on every line that says so. Read by type checkers, never run."""

from __future__ import annotations

import omnigraph as og
import omnigraph.distributed as distributed
import omnigraph_pipelines as pipelines
from omnigraph_pipelines import spark

graph = og.open("g.omni")
snapshot = graph.snapshot()
receipt = graph.load([], mode="append")

og.opne("g.omni")  # mistake
og.open(7)  # mistake
og.open("g.omni", readonly=True)  # mistake
og.init("g.omni")  # mistake
og.Receit  # mistake
og.errors.NoSuchError  # mistake
graph.lod([], mode="append")  # mistake
graph.load([])  # mistake
graph.commits(limit="3")  # mistake
graph.mutate(1)  # mistake
frame: int = snapshot.to_pandas("A")  # mistake
rows: str = snapshot.count("A")  # mistake
landed: str = graph.outcome("01M7QBWRZF1TGD3HZ9J8VKY7RZ").landed  # mistake
snapshot.tables["node:A"].row  # mistake
receipt.commit  # mistake
distributed.Exchang  # mistake
pipelines.load_graphfile  # mistake
spark.stages  # mistake
