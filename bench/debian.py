"""Debian's package index through Dagster and Spark, both sources dropped at once, workers killed, and held against the lists themselves.

A Connect server, a web server and a daemon are started, and run without a person. Edges to packages that are not in the lists get
stubs (dependencies) or are set aside (recommendations). At the end every package and every edge is looked for, by code that knows nothing of the pipelines.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.results import Table, table

KILLS, QUICK_KILLS = 6, 2
QUICK_BATCHES = 4
LIMIT_S = 3600.0
PER_RUN = 8
SCHEMA = """
node Package @stub(virtual) { name: String @key  version: String?  size: I64?  virtual: Bool? }
node Section { name: String @key }
node Maintainer { name: String @key }
edge InSection: Package -> Section
edge MaintainedBy: Package -> Maintainer
edge Depends: Package -> Package { @unique(src, dst) }
edge Recommends: Package -> Package { @unique(src, dst) }
"""
SETTINGS: dict[str, Any] = {
    "graph": {"name": "debian", "uri": "data/social.omni", "schema": "debian.pg"},
    "sources": [
        {
            "name": "index",
            "batches": "landing/index/*/",
            "ready": "_SUCCESS",
            "mode": "merge",
            "interval_s": 5,
            "batches_per_run": PER_RUN,
            "tables": [
                {"node": "Package", "files": "packages.parquet"},
                {"node": "Section", "files": "sections.csv"},
                {"node": "Maintainer", "files": "maintainers.ndjson"},
                {"edge": "InSection", "files": "in_section.csv"},
                {"edge": "MaintainedBy", "files": "maintained_by.parquet"},
            ],
        },
        {
            "name": "relations",
            "batches": "landing/relations/*/",
            "ready": "_SUCCESS",
            "after": ["index"],
            "mode": "merge",
            "interval_s": 5,
            "batches_per_run": PER_RUN,
            "checks": {
                "on_bad_row": "quarantine",
                "bounds": {"endpoints": 0.9, "values": 0},
                "on_missing_endpoint": {"Depends": "stub", "Recommends": "quarantine"},
                "rows_min": 0,
            },
            "tables": [
                {"edge": "Depends", "files": "depends.ndjson"},
                {"edge": "Recommends", "files": "recommends.parquet", "optional": True},
            ],
        },
    ],
}


@dataclass
class Index:
    """What the lists say. Edges are pairs of names."""

    packages: dict[str, tuple[str, int, str, str]] = field(default_factory=dict)  # version, size, section, maintainer
    depends: set[tuple[str, str]] = field(default_factory=set)
    recommends: set[tuple[str, str]] = field(default_factory=set)


def run(*, quick: bool = False) -> tuple[list[Table], dict[str, Any]]:
    heads = ["what", "in the lists", "in the graph", "differ"]
    title = "Debian's package index, dropped at once, workers killed at random"
    missing = _needs()
    if missing:
        return [table(title, heads, [], [f"**not run**: needs {missing}"])], {"not_run": missing}
    sys.path.insert(0, str(Path(__file__).parents[1]))
    index = _quick(read_lists()) if quick else read_lists()
    with tempfile.TemporaryDirectory() as folder:
        found = _through(Path(folder), index, QUICK_KILLS if quick else KILLS)
    rows = [[what, *counts] for what, counts in found["rows"].items()]
    notes = [
        f"{found['batches']} batches in three formats went in as {found['commits']} commits of {found['runs']} runs in "
        f"{found['seconds']:.0f} s; {found['kills']} workers were killed, {found['failed']} runs failed on the way, and no person helped. "
        f"{found['rows']['stubs'][1]:,} names without a package became stubs, {found['set_aside']:,} recommendations without one were "
        f"set aside. `omnigraph verify --deep`: {found['verdict']}."
    ]
    return [table(title, heads, rows, notes)], found


def _needs() -> str | None:
    if shutil.which("apt-cache") is None:
        return "a Debian machine (apt-cache)"
    if not next(_stanzas(), None):
        return "the package lists of a Debian machine (`apt-get update`)"
    return None if shutil.which("java") else "Java"


# --- the lists ----------------------------------------------------------------------------------------------------------


def _stanzas() -> Iterator[dict[str, str]]:
    """Every package that apt knows, as it is in the lists."""
    process = subprocess.Popen(
        ["apt-cache", "dumpavail"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace"
    )
    assert process.stdout is not None
    fields: dict[str, str] = {}
    try:
        for line in process.stdout:
            if line == "\n":
                if fields:
                    yield fields
                fields = {}
            elif not line.startswith(" "):
                name, _, value = line.rstrip("\n").partition(": ")
                fields[name] = value
        if fields:
            yield fields
    finally:
        process.kill()
        process.wait()


def read_lists() -> Index:
    """The first stanza of each name counts. Of alternatives each is a dependency."""
    index = Index()
    for one in _stanzas():
        name = one.get("Package", "")
        if not name or name in index.packages:
            continue
        said = (one.get("Version", ""), int(one.get("Size") or 0), one.get("Section", ""), one.get("Maintainer", ""))
        index.packages[name] = said
        for found, text in ((index.depends, one.get("Depends")), (index.recommends, one.get("Recommends"))):
            found.update((name, other) for other in _names(text or ""))
    return index


def _names(relation: str) -> set[str]:
    """``a (>= 1) | b:any, c`` as a, b and c."""
    parts = (part.strip() for part in re.split(r"[,|]", relation))
    return {re.split(r"[\s(:\[]", part)[0] for part in parts if part}


def _letter(name: str) -> str:
    """The batch of a package, as Debian's own pool has it: libfoo is in libf."""
    return name[:4] if name.startswith("lib") and len(name) > 3 else name[0]


def _quick(index: Index) -> Index:
    sizes: dict[str, int] = {}
    for name in index.packages:
        sizes[_letter(name)] = sizes.get(_letter(name), 0) + 1
    by_size = sorted(sizes, key=lambda letter: (sizes[letter], letter))
    kept = set(by_size[len(by_size) // 2 :][:QUICK_BATCHES])
    return Index(
        {name: said for name, said in index.packages.items() if _letter(name) in kept},
        {pair for pair in index.depends if _letter(pair[0]) in kept},
        {pair for pair in index.recommends if _letter(pair[0]) in kept},
    )


# --- the landing places -------------------------------------------------------------------------------------------------


def drop(landing: Path, index: Index) -> int:
    """Write every batch of both sources, then every marker. Returns how many batches."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    letters = sorted({_letter(name) for name in index.packages})
    folders = []
    for letter in letters:
        mine = {name: said for name, said in index.packages.items() if _letter(name) == letter}
        folder, other = landing / "index" / letter, landing / "relations" / letter
        folder.mkdir(parents=True)
        other.mkdir(parents=True)
        folders += [folder, other]
        columns = {
            "name": list(mine),
            "version": [said[0] for said in mine.values()],
            "size": [said[1] for said in mine.values()],
        }
        pq.write_table(pa.table(columns), folder / "packages.parquet")
        _csv(folder / "sections.csv", ["name"], [[one] for one in sorted({said[2] for said in mine.values()})])
        _ndjson(folder / "maintainers.ndjson", [{"name": one} for one in sorted({said[3] for said in mine.values()})])
        _csv(folder / "in_section.csv", ["from", "to"], [[name, said[2]] for name, said in mine.items()])
        ends = {"from": list(mine), "to": [said[3] for said in mine.values()]}
        pq.write_table(pa.table(ends), folder / "maintained_by.parquet")
        depends = sorted(pair for pair in index.depends if pair[0] in mine)
        _ndjson(other / "depends.ndjson", [{"from": src, "to": dst} for src, dst in depends])
        wishes = sorted(pair for pair in index.recommends if pair[0] in mine)
        ends = {"from": [src for src, _ in wishes], "to": [dst for _, dst in wishes]}
        pq.write_table(
            pa.table(ends, schema=pa.schema({"from": pa.string(), "to": pa.string()})), other / "recommends.parquet"
        )
    for folder in folders:
        (folder / "_SUCCESS").touch()
    return len(folders)


def _csv(path: Path, head: list[str], rows: list[list[str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(head)
        writer.writerows(rows)


def _ndjson(path: Path, rows: list[dict[str, str]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


# --- through Dagster ----------------------------------------------------------------------------------------------------


def _through(folder: Path, index: Index, kills: int) -> dict[str, Any]:
    import yaml

    from tests.e2e.site import Site, SparkServer

    spark = SparkServer(folder)
    site = Site(folder / "site", spark={"remote": spark.remote})
    (site.folder / "debian.pg").write_text(SCHEMA)
    (site.folder / "graph.yaml").write_text(yaml.safe_dump({**SETTINGS, "spark": {"remote": spark.remote}}))
    batches = drop(site.folder / "landing", index)
    started = time.monotonic()
    try:
        site.start()
        killed = _until_done(site, batches, kills)
        seconds = time.monotonic() - started
        runs = [run for run in site.runs() if run["jobName"].startswith("ingest_")]
    finally:
        site.kill()
        spark.stop()
    found = _compared(site, index)
    return {
        **found,
        "batches": batches,
        "runs": len(runs),
        "failed": sum(run["status"] == "FAILURE" for run in runs),
        "kills": killed,
        "seconds": seconds,
    }


def _until_done(site: Any, batches: int, kills: int) -> int:
    """Wait until each batch has its commit, killing workers of runs on the way. Returns how many were killed.

    A batch loses its worker once: one that loses it time and again is left to a person after five times, and rightly so."""
    dice, pause = random.Random(7), threading.Event()
    hit: set[str] = set()
    deadline = time.monotonic() + LIMIT_S
    while _done(site) < batches:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{_done(site)} of {batches} batches after {LIMIT_S:.0f} s\n{site.told()}")
        pause.wait(1)
        for batch, worker in _workers(site).items():
            if batch in hit or len(hit) == kills:
                continue
            pause.wait(dice.uniform(0, 4))  # somewhere in its life
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
                hit.add(batch)
    return len(hit)


def _done(site: Any) -> int:
    import omnigraph as og

    try:
        with site.open() as graph:
            keys = {one.idempotency_key for one in graph.commits() if one.idempotency_key}
    except og.errors.NotFound:
        return 0
    return len({key.rpartition("/")[0] for key in keys if key.count("/") == 2})


def _workers(site: Any) -> dict[str, int]:
    """Processes that work on a run of a source, by the source and the first batch of the run."""
    from tests.e2e.split_site import SplitSite

    found = {}
    for run in site.ended("STARTED"):
        tags = run["tags"]
        first = tags.get("dagster/asset_partition_range_start") or tags.get("dagster/partition")
        worker = SplitSite.worker_of(site, run["runId"]) if first and run["jobName"].startswith("ingest_") else None
        if worker is not None:
            found[f"{run['jobName']}/{first}"] = worker
    return found


# --- held against the lists -----------------------------------------------------------------------------------------------


def _compared(site: Any, index: Index) -> dict[str, Any]:
    with site.open() as graph:
        snapshot = graph.snapshot()
        packages = snapshot.to_arrow("Package", columns=["name", "version", "size", "virtual"]).to_pylist()
        edges = {name: _pairs(snapshot, name) for name in ("InSection", "MaintainedBy", "Depends", "Recommends")}
        commits = len([one for one in graph.commits() if one.idempotency_key])
        verdict = graph.verify(deep=True).verdict
    real = {(one["name"], one["version"], one["size"]) for one in packages if not one["virtual"]}
    stubs = {one["name"] for one in packages if one["virtual"]}
    set_aside = _set_aside(site)
    named = {dst for _, dst in index.depends}
    wanted: dict[str, tuple[Any, Any]] = {
        "packages": ({(name, said[0], said[1]) for name, said in index.packages.items()}, real),
        "stubs": (named - index.packages.keys(), stubs),
        "in a section": ({(name, said[2]) for name, said in index.packages.items()}, edges["InSection"]),
        "maintained by": ({(name, said[3]) for name, said in index.packages.items()}, edges["MaintainedBy"]),
        "depends": (index.depends, edges["Depends"]),
        # One whose end became a stub before it came is in the graph, any other one is set aside: each is in one place.
        "recommends": (index.recommends, edges["Recommends"] | set_aside),
        "recommends in both places": (set(), edges["Recommends"] & set_aside),
        "recommends of packages set aside": (set(), {pair for pair in set_aside if pair[1] in index.packages}),
    }
    rows = {what: (len(said), len(there), len(said ^ there)) for what, (said, there) in wanted.items()}
    doubled = len(packages) - len({one["name"] for one in packages})
    rows["packages that stand twice"] = (0, doubled, doubled)
    wrong = {what: counts for what, counts in rows.items() if counts[2]}
    if wrong:
        raise RuntimeError(f"the graph is not what the lists say: {wrong}")
    return {"rows": rows, "commits": commits, "verdict": verdict, "set_aside": len(set_aside)}


def _pairs(snapshot: Any, name: str) -> set[tuple[str, str]]:
    found = snapshot.to_arrow(name, columns=["src", "dst"])
    return set(zip(found["src"].to_pylist(), found["dst"].to_pylist(), strict=True))


def _set_aside(site: Any) -> set[tuple[str, str]]:
    found = set()
    for path in Path(f"{site.uri}.quarantine").rglob("*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)["record"]
            found.add((record["from"], record["to"]))
    return found
