"""The same questions to the same graph, as each neighbour is asked them. Every answer is the number of rows, which must agree."""

from __future__ import annotations

import abc
import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather as feather

from bench.peers.bulk_sides import SCHEMA

QUESTIONS = ("get", "1 hop", "2 hops", "3 hops", "sum", "scan")


class Reads(abc.ABC):
    def __init__(self, root: Path) -> None:
        self.root = root

    def prepare(self, inputs: str) -> None:
        nodes = feather.read_table(os.path.join(inputs, "nodes.arrow"), memory_map=False)
        edges = feather.read_table(os.path.join(inputs, "edges.arrow"), memory_map=False)
        self.make(nodes, edges)

    def ask(self, question: str, starts: list[str]) -> dict[str, Any]:
        """Milliseconds of each start (scans need none), and how many rows all of them gave."""
        took, rows = [], 0
        for start in starts:
            began = time.perf_counter()
            rows += self.answer(question, start)
            took.append(1000 * (time.perf_counter() - began))
        return {"ms": took, "rows": rows}

    def answer(self, question: str, start: str) -> int:
        match question:
            case "get":
                return self.get(start)
            case "sum":
                return self.sum()
            case "scan":
                return self.scan()
            case _:
                return self.hops(start, int(question[0]))

    @abc.abstractmethod
    def make(self, nodes: pa.Table, edges: pa.Table) -> None: ...

    @abc.abstractmethod
    def open(self) -> None: ...

    @abc.abstractmethod
    def get(self, start: str) -> int: ...

    @abc.abstractmethod
    def hops(self, start: str, depth: int) -> int:
        """The number of different nodes at the end of so many edges."""

    @abc.abstractmethod
    def sum(self) -> int: ...

    @abc.abstractmethod
    def scan(self) -> int: ...


class OmnigraphReads(Reads):
    def make(self, nodes: pa.Table, edges: pa.Table) -> None:
        import omnigraph as og

        with og.init(str(self.root / "graph"), SCHEMA) as graph:
            graph.load(og.Batch(nodes={"Person": nodes}, edges={"Knows": edges}), mode="append")
            graph.optimize()

    def open(self) -> None:
        import omnigraph as og

        self._snapshot = og.open(str(self.root / "graph"), read_only=True).snapshot()

    def get(self, start: str) -> int:
        return 0 if self._snapshot.get("Person", start) is None else 1

    def hops(self, start: str, depth: int) -> int:
        found: Any = pa.array([start])
        for _ in range(depth):
            ends = self._snapshot.to_arrow("Knows", ["dst"], pc.field("src").isin(found)).column("dst")
            found = pc.unique(ends)
        return len(found)

    def sum(self) -> int:
        self._snapshot.sql("SELECT sum(weight) FROM Knows").fetchall()
        return 1

    def scan(self) -> int:
        return sum(batch.num_rows for batch in self._snapshot.to_batches("Knows", ["src", "dst", "weight"]))


class LanceReads(Reads):
    def make(self, nodes: pa.Table, edges: pa.Table) -> None:
        import lance

        people = lance.write_dataset(nodes, str(self.root / "person.lance"))
        people.create_scalar_index("name", "BTREE")
        knows = lance.write_dataset(edges.rename_columns(["src", "dst", "weight"]), str(self.root / "knows.lance"))
        knows.create_scalar_index("src", "BTREE")

    def open(self) -> None:
        import lance

        self._person = lance.dataset(str(self.root / "person.lance"))
        self._knows = lance.dataset(str(self.root / "knows.lance"))

    def get(self, start: str) -> int:
        return self._person.to_table(filter=f"name = '{start}'").num_rows

    def hops(self, start: str, depth: int) -> int:
        found: list[Any] = [start]
        for _ in range(depth):
            if not found:  # a node without edges: there is no such list in SQL
                break
            asked = ", ".join(f"'{one}'" for one in found)
            ends = self._knows.to_table(columns=["dst"], filter=f"src IN ({asked})").column("dst")
            found = pc.unique(ends).to_pylist()
        return len(found)

    def sum(self) -> int:
        total = 0.0
        for batch in self._knows.to_batches(columns=["weight"]):
            total += pc.sum(batch.column("weight")).as_py()
        return 1

    def scan(self) -> int:
        return sum(batch.num_rows for batch in self._knows.to_batches(columns=["src", "dst", "weight"]))


class DuckReads(Reads):
    def make(self, nodes: pa.Table, edges: pa.Table) -> None:
        import duckdb

        with duckdb.connect(str(self.root / "graph.duckdb")) as connection:
            connection.register("nodes", nodes)
            connection.register("edges", edges)
            connection.execute("CREATE TABLE person (name VARCHAR PRIMARY KEY, age INTEGER, score DOUBLE)")
            connection.execute("INSERT INTO person SELECT * FROM nodes")
            connection.execute('CREATE TABLE knows AS SELECT "from" AS src, "to" AS dst, weight FROM edges')
            connection.execute("CREATE INDEX by_src ON knows (src)")

    def open(self) -> None:
        import duckdb

        self._connection = duckdb.connect(str(self.root / "graph.duckdb"), read_only=True)

    def get(self, start: str) -> int:
        return len(self._connection.execute("SELECT * FROM person WHERE name = ?", [start]).fetchall())

    def hops(self, start: str, depth: int) -> int:
        joins = "".join(f" JOIN knows k{n} ON k{n}.src = k{n - 1}.dst" for n in range(2, depth + 1))
        text = f"SELECT count(DISTINCT k{depth}.dst) FROM knows k1{joins} WHERE k1.src = ?"
        return int(self._connection.execute(text, [start]).fetchall()[0][0])

    def sum(self) -> int:
        return len(self._connection.execute("SELECT sum(weight) FROM knows").fetchall())

    def scan(self) -> int:
        reader = self._connection.sql("SELECT src, dst, weight FROM knows").to_arrow_reader(65_536)
        return sum(batch.num_rows for batch in reader)


class KuzuReads(Reads):
    def make(self, nodes: pa.Table, edges: pa.Table) -> None:
        from bench.peers.bulk_sides import KuzuBulk

        KuzuBulk(self.root).write(self.root, nodes, edges)

    def open(self) -> None:
        import kuzu

        self._database = kuzu.Database(str(self.root / "graph.kuzu"), read_only=True)
        self._connection = kuzu.Connection(self._database)

    def _rows(self, text: str, **values: Any) -> Any:
        return self._connection.execute(text, values)

    def get(self, start: str) -> int:
        return int(self._rows("MATCH (p:Person) WHERE p.name = $a RETURN p.*", a=start).get_num_tuples())

    def hops(self, start: str, depth: int) -> int:
        path = "".join("-[:Knows]->(:Person)" for _ in range(depth - 1)) + "-[:Knows]->(e:Person)"
        found = self._rows(f"MATCH (p:Person){path} WHERE p.name = $a RETURN count(DISTINCT e.name)", a=start)
        return int(found.get_next()[0])

    def sum(self) -> int:
        return int(self._rows("MATCH ()-[k:Knows]->() RETURN sum(k.weight)").get_num_tuples())

    def scan(self) -> int:
        found = self._rows("MATCH (a:Person)-[k:Knows]->(b:Person) RETURN a.name, b.name, k.weight")
        return int(found.get_as_arrow(65_536).num_rows)


KINDS = {
    "reads omnigraph": OmnigraphReads,
    "reads plain Lance": LanceReads,
    "reads DuckDB": DuckReads,
    "reads Kuzu": KuzuReads,
}
