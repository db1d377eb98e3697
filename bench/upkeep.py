"""What upkeep costs and what it saves, against Lance's own compaction in the same run; each case in a child of its own.

Local disk: what is measured is the work, not the wire. Requests are those of the receipts, which a test compares with a proxy.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.results import Table, table

SCHEMA = (
    "node Person { name: String @key age: I32? @index score: F64? city: String? }\n"
    "edge Knows: Person -> Person { n: I32? }\n"
)
MIB = 2**20


def run(*, quick: bool = False) -> tuple[list[Table], dict[str, Any]]:
    scale = 10 if quick else 1
    sizes = {"optimize": 1000, "memory": 1000, "wide": 1000, "archive": 1000, "cleanup": 5000, "edges": 1000}
    with _folder() as folder:
        found = {name: _child(name, folder, size // scale) for name, size in sizes.items()}
    return [_compaction(found), _cleanup(found), _edges(found)], found


def _compaction(found: dict[str, dict[str, Any]]) -> Table:
    o, archived, wide_ = found["optimize"], found["archive"], found["wide"]

    def against(what: str, ours: float, theirs: float | None, bar: str) -> list[Any]:
        return [what, ours, theirs, None if theirs is None else ours / theirs, bar]

    rows = [
        against(f"optimize, {o['fragments']:,} fragments, indexed before", o["ours_s"], o["lance_s"], "≤ 1.30"),
        against("the same, indexes built by it", o["fresh_s"], o["lance_fresh_s"], "none"),
        against("optimize again: nothing to do", o["again_s"], None, "none"),
        against(f"compact_manifest, {archived['fragments']:,} archive fragments", archived["seconds"], None, "< 2 s"),
        against(f"status, {wide_['tables']:,} tables", wide_["status_s"], None, "< 2 s"),
    ]
    peak = found["memory"]
    return table(
        "Optimize, internal compaction, status",
        ["what", "seconds", "Lance's own", "ratio", "bar"],
        rows,
        [
            f"{o['rows']:,} rows in all. Lance's own is compact_files, and compact_files with the same indexes created. Peak memory "
            f"of optimize above the start of the process: {peak['budget_mib']:,.0f} MiB with memory_mb=64, "
            f"{peak['free_mib']:,.0f} MiB without a budget."
        ],
    )


def _cleanup(found: dict[str, dict[str, Any]]) -> Table:
    c = found["cleanup"]
    rows = [
        ["plan", c["plan_s"], None, None],
        [f"cleanup of {c['versions']:,} versions", c["seconds"], c["peak_mib"], "≤ 200 MiB"],
    ]
    return table("Cleanup", ["what", "seconds", "peak MiB above start", "bar"], rows)


def _edges(found: dict[str, dict[str, Any]]) -> Table:
    e = found["edges"]
    rows = [
        [f"commit {depth}", *(e[how][str(depth)][kind] for how in ("on", "off") for kind in ("warm", "cold"))]
        for depth in e["depths"]
    ]
    return table(
        "Requests of one edge, upkeep on (every 100 commits) and off",
        ["at", "on, warm", "on, cold", "off, warm", "off, cold"],
        rows,
        ["Warm: a handle that has written before. Cold: the first write of a new handle, opening not counted."],
    )


# --- children -------------------------------------------------------------------------------------------------------------


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _child(case: str, folder: Path, size: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.upkeep", case, str(folder), str(size)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise RuntimeError(f"{case}: {ended.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


def _timed(act: Callable[[], Any]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def _peak_of(act: Callable[[], Any]) -> float:
    """MiB above what was resident before."""
    base = _resident()
    stop, peak = threading.Event(), [base]

    def watch() -> None:
        while not stop.wait(0.002):
            peak[0] = max(peak[0], _resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        act()
    finally:
        stop.set()
        watcher.join()
    return (peak[0] - base) / MIB


def _people(count: int) -> pa.Table:
    return pa.table(
        {
            "name": [f"person-{n:08d}" for n in range(count)],
            "age": pa.array([n % 90 for n in range(count)], pa.int32()),
            "score": [n / 7 for n in range(count)],
            "city": [f"city {n % 100}" for n in range(count)],
        }
    )


def _crumbled(root: Path, fragments: int, rows: int) -> Any:
    """A graph whose one node table lies in so many fragments, made by one commit."""
    import omnigraph as og
    from omnigraph.commit.engine import MAIN
    from omnigraph.commit.plan import Counts
    from omnigraph.commit.run import Action, Prepared, Request, run
    from omnigraph.core.meter import Meter

    graph = og.init(root, SCHEMA)
    engine = graph._engine

    def prepare(txn: Any) -> Prepared:
        schema = txn.handle("node:Person").schema
        people = _people(fragments * rows)
        physical = people.append_column("id", people["name"]).select(schema.names).cast(schema)

        def stage(handle: Any, meter: Meter) -> Any:
            return engine.tables.stage_append(handle, physical, meter, max_rows_per_file=rows)

        return Prepared((Action("node:Person", stage, Counts(inserted=physical.num_rows)),))

    run(engine, Request("load", MAIN, frozenset({"node:Person"})), prepare, Meter())
    return graph


ROWS = 1000  # of a small fragment


def optimize(folder: Path, fragments: int) -> dict[str, Any]:
    import lance

    found: dict[str, Any] = {"fragments": fragments, "rows": fragments * ROWS}

    def copy_of(graph: Any, name: str) -> Any:
        shutil.copytree(graph.snapshot().tables["node:Person"].uri, folder / name)
        return lance.dataset(str(folder / name))

    with _crumbled(folder / "indexed", fragments, ROWS) as graph:
        graph.ensure_indices()
        theirs = copy_of(graph, "theirs")
        found["lance_s"] = _timed(lambda: theirs.optimize.compact_files())
        found["ours_s"] = _timed(graph.optimize)
        found["again_s"] = _timed(graph.optimize)
    with _crumbled(folder / "fresh", fragments, ROWS) as graph:
        theirs = copy_of(graph, "theirs-fresh")

        def all_of_it() -> None:
            theirs.optimize.compact_files()
            theirs.create_scalar_index("id", "BTREE")
            theirs.create_scalar_index("age", "BTREE")
            theirs.create_scalar_index("name", "INVERTED")

        found["lance_fresh_s"] = _timed(all_of_it)
        found["fresh_s"] = _timed(graph.optimize)
    return found


def memory(folder: Path, fragments: int) -> dict[str, Any]:
    found = {}
    for name, budget in (("budget_mib", 64), ("free_mib", None)):
        with _crumbled(folder / name, fragments, ROWS) as graph:
            graph.ensure_indices()
            found[name] = _peak_of(lambda graph=graph, budget=budget: graph.optimize(memory_mb=budget))
    return found


def wide(folder: Path, tables: int) -> dict[str, Any]:
    import omnigraph as og

    text = "".join(f"node T{n} {{ name: String @key }}\n" for n in range(tables))
    og.init(folder / "wide", text).close()
    with og.open(folder / "wide") as graph:
        return {"tables": tables, "status_s": _timed(graph.status)}


def archive(folder: Path, fragments: int) -> dict[str, Any]:
    """So many archive fragments of 64 commits each, put there by one swap."""
    import omnigraph as og
    from omnigraph.commit.engine import MAIN
    from omnigraph.core.ids import new_ulid, new_uuid
    from omnigraph.manifest import rows as r
    from omnigraph.table import strict

    counts = {"node:Person": r.TableCounts(1, 1)}
    with og.init(folder / "archive", SCHEMA) as graph:
        engine = graph._engine
        held = engine.latest(MAIN)
        made = []
        for block in range(fragments):
            history = [
                r.history_row(r.CommitRow(new_ulid(), (new_ulid(),), "a", 1, None, 1, "load", counts, seq=n))
                for n in range(block * 64 + 1, block * 64 + 65)
            ]
            made.append(strict.write_ahead(held.handle, r.to_arrow(history)))
        strict.swap(
            engine.tables,
            engine.manifest.ref(None),
            held.handle,
            keep=0,
            new=[*made, strict.kept(held.handle, 0, 1)],
            uuid=new_uuid(),
            properties={},
        )
    with og.open(folder / "archive") as graph:
        seconds = _timed(graph.compact_manifest)
        return {"fragments": fragments, "seconds": seconds, "after": graph.probe("manifest_fragments")}


def cleanup(folder: Path, commits: int) -> dict[str, Any]:
    """Two versions a commit: one of the table, one of the manifest."""
    import omnigraph as og

    with og.init(folder / "old", SCHEMA) as graph:
        for n in range(commits):
            graph.load([{"type": "Person", "data": {"name": "one", "age": n}}], mode="merge")
    with og.open(folder / "old") as graph:
        found: dict[str, Any] = {}
        plans = []
        found["plan_s"] = _timed(lambda: plans.append(graph.plan_cleanup(keep=1, min_age="0s")))
        started = time.perf_counter()
        found["peak_mib"] = _peak_of(lambda: graph.cleanup(plans[0]))
        found["seconds"] = time.perf_counter() - started
        found["versions"] = plans[0].versions
        return found


def edges(folder: Path, commits: int) -> dict[str, Any]:
    import omnigraph as og

    depths = sorted({10, commits // 10, commits})
    found: dict[str, Any] = {"depths": depths, "on": {}, "off": {}}

    def one(opened: Any, n: int) -> int:
        record = {"edge": "Knows", "from": f"person-{n % 2000:08d}", "to": "person-00000001", "data": {"n": n}}
        requests: int = opened.load([record], mode="append").storage.requests
        return requests

    for how in ("on", "off"):
        root = folder / f"edges-{how}"
        with og.init(root, SCHEMA) as graph:
            graph.load(og.Batch(nodes={"Person": _people(2000)}, edges={}), mode="append")
            for n in range(1, commits + 1):
                warm = one(graph, n)
                if how == "on" and n % 100 == 0:
                    graph.optimize()
                    graph.cleanup(keep=10, min_age="0s", confirm=True)
                if n in depths:
                    with og.open(root) as cold:
                        found[how][str(n)] = {"warm": min(warm, one(graph, n)), "cold": one(cold, n)}
    return found


CASES = {
    "optimize": optimize,
    "memory": memory,
    "wide": wide,
    "archive": archive,
    "cleanup": cleanup,
    "edges": edges,
}

if __name__ == "__main__":
    print(json.dumps(CASES[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))))
