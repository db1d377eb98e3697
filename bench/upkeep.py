"""What upkeep costs and what it saves, against Lance's own compaction in the same run; each case in a child of its own.

Local disk: what is measured is the work, not the wire. Requests are those of the receipts, which a test compares with a proxy.
"""

from __future__ import annotations

import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.memory import peak_of
from bench.results import Table, load_average, table

SCHEMA = (
    "node Person { name: String @key age: I32? @index score: F64? city: String? }\n"
    "edge Knows: Person -> Person { n: I32? }\n"
)
MIB = 2**20
ROWS = 1000  # of a small fragment
TEXT = 1000  # characters of a row where memory is measured
BUDGETS = (128, 256, None)
COMPANY = ("nobody", "upkeep of another graph", "optimize", "optimize and cleanup")
COMPANY_ROUNDS = 3


def run(*, quick: bool = False) -> tuple[list[Table], dict[str, Any]]:
    scale = 10 if quick else 1
    sizes = {
        "optimize": 1000,
        "memory": 600,
        "wide": 1000,
        "archive": 1000,
        "cleanup": 5000,
        "edges": 1000,
        "beside": 90,
    }
    with _folder() as folder:
        found = {name: _child(name, folder, size // scale) for name, size in sizes.items()}
    return [_compaction(found), _memory(found), _cleanup(found), _beside(found), _edges(found)], found


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
    return table(
        "Optimize, internal compaction, status",
        ["what", "seconds", "Lance's own", "ratio", "bar"],
        rows,
        [
            f"{o['rows']:,} rows in all. Lance's own is compact_files, and compact_files with the same indexes created. "
            f"Each archive fragment holds 64 commits."
        ],
    )


def _memory(found: dict[str, dict[str, Any]]) -> Table:
    m = found["memory"]
    rows = [
        ["none" if budget is None else f"memory_mb={budget}", m[str(budget)]["peak_mib"], budget] for budget in BUDGETS
    ]
    return table(
        "Memory of optimize",
        ["budget", "peak MiB above start", "bar"],
        rows,
        [
            f"{m['fragments']:,} fragments of {ROWS:,} rows with a text of {TEXT:,} characters each, {m['mib']:,.0f} MiB on disk; "
            "each in a process of its own, measured from the open graph on."
        ],
    )


def _cleanup(found: dict[str, dict[str, Any]]) -> Table:
    c = found["cleanup"]
    rows = [
        ["plan", c["plan_s"], None, None],
        [f"cleanup of {c['versions']:,} versions", c["seconds"], c["peak_mib"], "≤ 200 MiB"],
    ]
    return table("Cleanup", ["what", "seconds", "peak MiB above start", "bar"], rows)


def _beside(found: dict[str, dict[str, Any]]) -> Table:
    b = found["beside"]
    rows = [
        [name, one["writes_s"], one["median_ms"], one["p95_ms"], one["slowest_ms"], one["commits"], one["deleted"]]
        for name, one in ((name, b[name]) for name in COMPANY)
    ]
    return table(
        "Two writers in processes of their own, and upkeep beside them",
        ["beside", "writes/s", "median ms", "95 % ms", "slowest ms", "commits of upkeep", "versions deleted"],
        rows,
        [
            f"One row a write to one table, for {b['seconds']:.0f} s each, in {COMPANY_ROUNDS} rounds; load average at the end "
            f"{b['load_average']}. Upkeep is a third process that never pauses: the worst case. On another graph it takes its share of "
            "the machine and is in nobody's way, so the difference to that line is the time for which its turns hold the table. "
            "A turn commits what was rewritten before, ends within a second, and whoever waits by then goes before the next one."
        ],
    )


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
        [
            "Receipts of a local disk, which count one request more of each log than a store does. Warm: a handle that has written "
            "before. Cold: the first write of a new handle, opening not counted: with its look-ups, which read indexes or the files "
            "that none covers. Bar: with upkeep the same at every depth, one more or less; without it bounded."
        ],
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


def _people(count: int) -> pa.Table:
    return pa.table(
        {
            "name": [f"person-{n:08d}" for n in range(count)],
            "age": pa.array([n % 90 for n in range(count)], pa.int32()),
            "score": [n / 7 for n in range(count)],
            "city": [f"city {n % 100}" for n in range(count)],
        }
    )


def _texts(count: int) -> pa.Table:
    """Text that no encoding makes small."""
    source = random.Random(1)
    texts = [source.randbytes(TEXT // 2).hex() for _ in range(count)]
    return _people(count).set_column(3, "city", pa.array(texts))


def _crumbled(root: Path, fragments: int, rows: int, people: Callable[[int], pa.Table] = _people) -> Any:
    """A graph whose one node table lies in so many fragments, made by one commit."""
    import omnigraph as og
    from omnigraph.commit.engine import MAIN
    from omnigraph.commit.properties import Counts
    from omnigraph.commit.protocol.run import run
    from omnigraph.commit.request import Prepared, Request
    from omnigraph.commit.steps import AppendFiles
    from omnigraph.core.meter import Meter

    graph = og.init(root, SCHEMA)
    engine = graph._engine

    def prepare(txn: Any) -> Prepared:
        schema = txn.handle("node:Person").schema
        made = people(fragments * rows)
        physical = made.append_column("id", made["name"]).select(schema.names).cast(schema)

        staged = engine.tables.stage_append(txn.handle("node:Person"), physical, txn.meter, max_rows_per_file=rows)
        new = tuple(staged.operation.fragments)
        return Prepared((AppendFiles("node:Person", (Counts(inserted=physical.num_rows),), new),))

    run(engine, Request("load", MAIN, frozenset({"node:Person"})), prepare, Meter())
    return graph


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
    found: dict[str, Any] = {"fragments": fragments}
    with _crumbled(folder / "texts", fragments, ROWS, _texts) as graph:
        graph.ensure_indices()
        found["mib"] = graph.status().bytes / MIB
    for budget in BUDGETS:
        shutil.copytree(folder / "texts", folder / "squeezed")
        found[str(budget)] = _child("squeeze", folder / "squeezed", budget or 0)
        shutil.rmtree(folder / "squeezed")
    return found


def squeeze(root: Path, budget: int) -> dict[str, Any]:
    """Optimize in a process that has done nothing else."""
    import omnigraph as og

    with og.open(root) as graph:
        started = time.perf_counter()
        peak = peak_of(lambda: graph.optimize(memory_mb=budget or None)) / MIB
        assert graph.status().tables[1].fragments == 1
        return {"peak_mib": peak, "seconds": time.perf_counter() - started}


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
    from omnigraph.manifest import codec, digests, reading
    from omnigraph.manifest import rows as r
    from omnigraph.manifest.state import Change
    from omnigraph.table import strict

    with og.init(folder / "archive", SCHEMA) as graph:
        engine = graph._engine
        held = engine.latest(MAIN)
        # The first swap of a line makes the three fragments that stand behind the archive.
        held = engine.manifest.swap(held, engine.manifest.write(held, Change()), uuid=new_uuid())
        one = held.state.tables["node:Person"]
        counts = {one.key: r.TableChange(one.identity, one.ref, one.version, inserted=1)}
        made, named = [], reading.digests_of(held.handle)
        for block in range(fragments):
            ids = [(n, new_ulid()) for n in range(block * 64 + 1, block * 64 + 65)]
            history = [
                codec.history_row(r.CommitRow(id, id, (new_ulid(),), "a", 1, None, 1, "load", counts, seq=n, version=1))
                for n, id in ids
            ]
            made.append(strict.write_ahead(held.handle, codec.to_arrow(history)))
            named[made[-1].files[0]] = digests.digest(history)
        strict.swap(
            engine.tables,
            engine.manifest.ref(None),
            held.handle,
            schema=r.ARROW_SCHEMA.with_metadata(digests.metadata(named)),
            fragments=[*made, strict.kept(held.handle, 0, 3)],
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
        found["peak_mib"] = peak_of(lambda: graph.cleanup(plans[0])) / MIB
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
                    warm = min(warm, *(one(graph, n) for _ in range(2)))
                    with og.open(root) as cold:
                        found[how][str(n)] = {"warm": warm, "cold": one(cold, n)}
    return found


def beside(folder: Path, seconds: int) -> dict[str, Any]:
    import omnigraph as og

    share = seconds / len(COMPANY) / COMPANY_ROUNDS
    took: dict[str, list[float]] = {name: [] for name in COMPANY}
    kept = {name: {"commits": 0, "deleted": 0} for name in COMPANY[1:]}
    for number in range(COMPANY_ROUNDS):  # in turns: what else the machine does falls on all of them
        for name in COMPANY:
            mine, other = (folder / f"beside-{number}-{COMPANY.index(name)}-{which}" for which in ("mine", "other"))
            for root in (mine, other):
                og.init(root, SCHEMA).close()
            children = [_start("writer", mine, share, "ann"), _start("writer", mine, share, "bob")]
            if name in kept:
                case = "optimizer" if name == COMPANY[2] else "keeper"
                children.append(_start(case, other if name == COMPANY[1] else mine, share, other))
            said = [json.loads(child.communicate()[0].splitlines()[-1]) for child in children]
            took[name] += [ms for one in said[:2] for ms in one["ms"]]
            for what in kept.get(name, ()):
                kept[name][what] += said[2][what]
    found: dict[str, Any] = {"seconds": share * COMPANY_ROUNDS, "load_average": load_average()}
    for name, all_ms in took.items():
        ms = sorted(all_ms)
        found[name] = {
            "writes_s": len(ms) / share / COMPANY_ROUNDS,
            "median_ms": statistics.median(ms),
            "p95_ms": ms[int(len(ms) * 0.95)],
            "slowest_ms": ms[-1],
            **kept.get(name, {"commits": None, "deleted": None}),
        }
    return found


def _start(case: str, root: Path, seconds: float, extra: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench.upkeep", case, str(root), str(seconds), str(extra)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def writer(root: Path, seconds: float, name: str) -> dict[str, Any]:
    import omnigraph as og

    took: list[float] = []
    with og.open(root, actor=name) as graph:
        ends = time.perf_counter() + seconds
        while time.perf_counter() < ends:
            people = [{"type": "Person", "data": {"name": f"{name}-{len(took)}", "age": len(took)}}]
            took.append(1000 * _timed(lambda: graph.load(people, mode="append")))  # noqa: B023  # called at once
    return {"ms": took}


def optimizer(root: Path, seconds: float, other: str) -> dict[str, Any]:
    return keeper(root, seconds, other, clean=False)


def keeper(root: Path, seconds: float, other: str, *, clean: bool = True) -> dict[str, Any]:
    """Upkeep of a graph, and a few writes to the other, so that all lines of the table do the same work."""
    import omnigraph as og

    commits = deleted = round_ = 0
    with og.open(root, actor="keeper") as graph, og.open(other, actor="keeper") as spare:
        ends = time.perf_counter() + seconds
        while time.perf_counter() < ends:
            round_ += 1
            for n in range(4):
                spare.load([{"type": "Person", "data": {"name": f"{round_}-{n}"}}], mode="append")
            commits += len(graph.optimize().commits)
            if clean:
                deleted += graph.cleanup(keep=10, min_age="2s", confirm=True).versions
    return {"commits": commits, "deleted": deleted}


CASES: dict[str, Callable[[Path, int], dict[str, Any]]] = {
    "optimize": optimize,
    "memory": memory,
    "squeeze": squeeze,
    "wide": wide,
    "archive": archive,
    "cleanup": cleanup,
    "edges": edges,
    "beside": beside,
}
SIDE: dict[str, Callable[[Path, float, str], dict[str, Any]]] = {
    "writer": writer,
    "optimizer": optimizer,
    "keeper": keeper,
}

if __name__ == "__main__":
    case, place, *rest = sys.argv[1:]
    if case in SIDE:
        print(json.dumps(SIDE[case](Path(place), float(rest[0]), rest[1])))
    else:
        print(json.dumps(CASES[case](Path(place), int(rest[0]))))
