"""Graphs to measure on: a schema of any width, a history of any depth, written to a local disk and copied to a store.

Owns the shapes and the copying. A history is made once, on disk, and copied at each depth that is asked for: a thousand
commits through an emulator would take longer than everything that is measured on them.
"""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import omnigraph as og
from omnigraph.commit.engine import MAIN, Engine
from omnigraph.commit.maintain import UpkeepWork, run_turn
from omnigraph.commit.upkeep_steps import AddIndices
from omnigraph.core.meter import Meter
from omnigraph.table import indices
from omnigraph.table.dataset import TableRef

PEOPLE = 100_000  # enough for an index to be worth asking, and for its pages to be many; one data file
ORGS = 200

# Two node types, two edge types, and as many others as the width asks for. The last two edge types carry a constraint.
CORE = """\
node Person { name: String @key age: I32? }
node Org { name: String @key }
edge Knows: Person -> Person { weight: F64? }
edge Works: Person -> Org { since: I32? }
"""
CONSTRAINED = """\
edge Follows: Person -> Person { weight: F64? @unique(src, dst) }
edge Reports: Person -> Person @card(0..20) { since: I32? }
"""

Row = Mapping[str, Any]


def schema(tables: int, *, constrained: bool = False) -> str:
    text = CORE + (CONSTRAINED if constrained else "")
    others = tables - (6 if constrained else 4)
    if others < 0:
        raise ValueError(f"at least {tables - others} tables")
    return text + "".join(f"node Other{i} {{ name: String @key }}\n" for i in range(others))


# --- records -------------------------------------------------------------------------------------------------------------


def node(type_name: str, name: str, **values: Any) -> Row:
    return {"type": type_name, "data": {"name": name, **values}}


def edge(type_name: str, source: str, target: str, **values: Any) -> Row:
    return {"edge": type_name, "from": source, "to": target, "data": values}


def person(i: int) -> str:
    return f"person-{i * 7_919 % PEOPLE:06d}"  # far apart, so that questions seldom share a page of an index


def org(i: int) -> str:
    return f"org-{i % ORGS:03d}"


def base_rows(*, people: int = PEOPLE, constrained: bool) -> og.Batch:
    everybody = range(max(people, PEOPLE))
    names = pa.array([f"person-{i:06d}" for i in everybody])
    edges = {}
    if constrained:
        # From each to those 17, 34 and 51 further on: no node is close to a bound, no pair occurs twice.
        ends = {
            "from": pa.concat_arrays([names, names, names]),
            "to": pa.concat_arrays([part for by in (17, 34, 51) for part in (names[by:], names[:by])]),
        }
        edges = {"Follows": pa.table(ends), "Reports": pa.table(ends)}
    return og.Batch(
        nodes={
            "Person": pa.table({"name": names, "age": pa.array([i % 90 for i in everybody], pa.int32())}),
            "Org": pa.table({"name": [f"org-{i:03d}" for i in range(ORGS)]}),
        },
        edges=edges,
    )


def history_row(i: int, *, constrained: bool) -> Row:
    """What the i-th commit of a history adds: in turns a node and an edge of each type."""
    kinds = 6 if constrained else 4
    match i % kinds:
        case 0:
            return edge("Knows", person(i), person(i + 1), weight=0.5)
        case 1:
            return node("Person", f"later-{i:06d}", age=i % 90)
        case 2:
            return edge("Works", person(i), org(i), since=2000)
        case 3:
            return node("Org", f"later-{i:06d}")
        case 4:
            return edge("Follows", person(i), person(i + 3), weight=0.5)
        case _:
            return edge("Reports", person(i), person(i + 5), since=2001)


# --- making ------------------------------------------------------------------------------------------------------------


class History:
    """A graph on a local disk that grows to the depths asked for, in order."""

    def __init__(
        self, root: Path, *, tables: int, people: int = PEOPLE, constrained: bool = False, indexed: bool = True
    ) -> None:
        self.root = root
        self.tables = tables
        self._constrained = constrained
        self._graph = og.init(str(root), schema(tables, constrained=constrained))
        self.commit_ids = [self._load(base_rows(people=people, constrained=constrained))]
        if indexed:
            self.index()

    @property
    def depth(self) -> int:
        """Commits after the genesis."""
        return len(self.commit_ids)

    def grow_to(self, depth: int) -> History:
        while self.depth < depth:
            self.commit_ids.append(self._load([history_row(self.depth, constrained=self._constrained)]))
        return self

    def index(self) -> None:
        """Cover everything there is so far."""
        engine = self._graph._engine
        columns = {"node:Person": ["id"], "node:Org": ["id"]}
        if self._constrained:
            columns |= {"edge:Follows": ["src"], "edge:Reports": ["src"]}
        for key, names in columns.items():
            for name in names:
                commit_id = publish_index(engine, key, name)
                if commit_id is not None:
                    self.commit_ids.append(commit_id)

    def close(self) -> None:
        self._graph.close()

    def _load(self, source: Any) -> str:
        receipt = self._graph.load(source, mode="append")
        commit_id: str | None = receipt.commit_id
        assert commit_id is not None
        return commit_id


def publish_index(engine: Engine, key: str, column: str) -> str | None:
    """A BTREE over all rows of a table at its pin, published as upkeep does."""
    held = engine.latest(MAIN)
    pin = held.state.tables[key]
    if pin.rows == 0:
        return None
    handle = engine.tables.open(TableRef(pin.location, pin.ref), pin.version)
    segment = indices.stage_segment(
        handle, indices.IndexSpec(column, indices.BTREE), sorted(indices.fragment_ids(handle))
    )
    work = UpkeepWork(key, pin, held.state.head.mark, (AddIndices(handle, (segment,), ()),))
    return run_turn(engine, MAIN, [work], actor=None, deadline_s=60.0, meter=Meter()).commit_id


# --- copying to a store ----------------------------------------------------------------------------------------------------


def upload(root: Path, uri: str, endpoint: str) -> int:
    """Copy a local graph to ``s3://bucket/prefix`` of an emulator. Returns the number of objects."""
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")

    def put(path: Path) -> None:
        key = f"{bucket}/{prefix}/{path.relative_to(root).as_posix()}"
        # Without a type of its own the body would be taken for a form.
        kind = {"Content-Type": "application/octet-stream"}
        request = urllib.request.Request(f"{endpoint}/{key}", data=path.read_bytes(), headers=kind, method="PUT")
        with urllib.request.urlopen(request, timeout=60):
            pass

    files = list(_objects(root))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(put, files))
    return len(files)


def _objects(root: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            # Lance keeps this hint on local disks only.
            if name != "latest_version_hint.json":
                yield Path(folder) / name


@dataclass(frozen=True)
class World:
    """One graph on a store, and what there is to know about it."""

    uri: str
    depth: int
    tables: int
    commit_ids: tuple[str, ...]
    objects: int
