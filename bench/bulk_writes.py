"""One bulk load under the engine of any tree: it uses nothing but the public names.

``python bulk_writes.py ROOT INPUTS CASE`` prints one line of JSON. What to import comes from ``PYTHONPATH``.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.feather as feather

import omnigraph as og

SCHEMA = """\
node Person { name: String @key age: I32? score: F64? }
edge Knows: Person -> Person { weight: F64? }
"""
MERGED = 10_000


def main() -> None:
    root, inputs, case = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    people = feather.read_table(str(inputs / "nodes.arrow"))
    batch: Any
    mode = "append"
    with og.init(f"{root}-first", SCHEMA) as first:  # what a first write loads is no part of a bulk
        first.load([{"type": "Person", "data": {"name": "first"}}], mode="append")
    with og.init(root, SCHEMA) as graph:
        if case == "tables":
            edges = feather.read_table(str(inputs / "edges.arrow"))
            batch = og.Batch(nodes={"Person": people}, edges={"Knows": edges})
        elif case == "records":
            batch = inputs / "people.jsonl"
            if not batch.exists():
                with batch.open("w") as file:
                    for row in people.to_pylist():
                        file.write(json.dumps({"type": "Person", "data": row}) + "\n")
        else:
            graph.load(og.Batch(nodes={"Person": people}), mode="append")
            step = max(people.num_rows // MERGED, 1)
            changed = people.take(list(range(0, people.num_rows, step)))
            batch = og.Batch(nodes={"Person": changed.set_column(1, "age", changed["age"].fill_null(0))})
            mode = "merge"
        wall, cores = time.perf_counter(), time.process_time()
        graph.load(batch, mode=mode)
        print(json.dumps({"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cores}))


if __name__ == "__main__":
    main()
