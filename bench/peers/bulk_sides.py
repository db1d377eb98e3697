"""A million nodes and five million edges into nothing, as each neighbour loads tables that are in memory."""

from __future__ import annotations

import abc
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather as feather

from bench.peers.sides import timed

SCHEMA = "node Person { name: String @key age: I32? score: F64? }\nedge Knows: Person -> Person { weight: F64? }\n"


class Bulk(abc.ABC):
    """``inputs``: the folder with ``nodes.arrow`` (name, age, score) and ``edges.arrow`` (from, to, weight)."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def load(self, inputs: str, number: int) -> dict[str, Any]:
        nodes = feather.read_table(os.path.join(inputs, "nodes.arrow"), memory_map=False)
        edges = feather.read_table(os.path.join(inputs, "edges.arrow"), memory_map=False)
        warm, place = self.root / "warm", self.root / str(number)
        warm.mkdir()
        place.mkdir()
        self.write(warm, nodes.slice(0, 1_000), _among(edges, 1_000))  # imports, and what a process does once
        return timed(lambda: self.write(place, nodes, edges))

    @abc.abstractmethod
    def write(self, place: Path, nodes: pa.Table, edges: pa.Table) -> None: ...


def _among(edges: pa.Table, nodes: int) -> pa.Table:
    """As many edges between the first nodes."""
    ends = pa.array([f"person-{i:07d}" for i in range(nodes)])
    return pa.table({"from": ends, "to": ends, "weight": edges.column("weight").slice(0, nodes)})


class OmnigraphBulk(Bulk):
    def write(self, place: Path, nodes: pa.Table, edges: pa.Table) -> None:
        import omnigraph as og

        with og.init(str(place / "graph"), SCHEMA) as graph:
            graph.load(og.Batch(nodes={"Person": nodes}, edges={"Knows": edges}), mode="append")


class LanceBulk(Bulk):
    def write(self, place: Path, nodes: pa.Table, edges: pa.Table) -> None:
        import lance

        lance.write_dataset(nodes, str(place / "person.lance"))
        lance.write_dataset(edges, str(place / "knows.lance"))


class DeltaBulk(Bulk):
    def write(self, place: Path, nodes: pa.Table, edges: pa.Table) -> None:
        from deltalake import write_deltalake

        write_deltalake(str(place / "person"), nodes)
        write_deltalake(str(place / "knows"), edges)


class DuckBulk(Bulk):
    def write(self, place: Path, nodes: pa.Table, edges: pa.Table) -> None:
        import duckdb

        with duckdb.connect(str(place / "graph.duckdb")) as connection:
            connection.execute("CREATE TABLE person (name VARCHAR PRIMARY KEY, age INTEGER, score DOUBLE)")
            connection.execute(
                "CREATE TABLE knows (src VARCHAR REFERENCES person(name), dst VARCHAR REFERENCES person(name), weight DOUBLE)"
            )
            connection.register("nodes", nodes)
            connection.register("edges", edges)
            connection.execute("INSERT INTO person SELECT * FROM nodes")
            connection.execute("INSERT INTO knows SELECT * FROM edges")


class KuzuBulk(Bulk):
    def write(self, place: Path, nodes: pa.Table, edges: pa.Table) -> None:
        import kuzu

        database = kuzu.Database(str(place / "graph.kuzu"))
        connection = kuzu.Connection(database)
        connection.execute("CREATE NODE TABLE Person(name STRING, age INT32, score DOUBLE, PRIMARY KEY(name))")
        connection.execute("CREATE REL TABLE Knows(FROM Person TO Person, weight DOUBLE)")
        connection.execute("COPY Person FROM $rows", {"rows": nodes})
        connection.execute("COPY Knows FROM $rows", {"rows": edges})
        connection.close()
        database.close()


KINDS = {
    "bulk omnigraph": OmnigraphBulk,
    "bulk plain Lance": LanceBulk,
    "bulk deltalake": DeltaBulk,
    "bulk DuckDB": DuckBulk,
    "bulk Kuzu": KuzuBulk,
}
