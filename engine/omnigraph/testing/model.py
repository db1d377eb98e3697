"""The reference model: what a graph should hold after each operation, in plain Python and without any cleverness.

Knows one small schema, the modes of a load and the rules that decide whether a load stands. A test runs the same operations
on a real graph and on this, and compares after each.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

SCHEMA = """
node Person { name: String @key  age: I32? @range(age, 0..100)  mail: String? @unique }
node Place { title: String }
edge Knows: Person -> Person { weight: F64? }
edge At: Person -> Place @card(0..1)
"""

NODES = {"Person": "name", "Place": None}
EDGES = {"Knows": ("Person", "Person"), "At": ("Person", "Place")}

Record = Mapping[str, Any]
Rows = dict[str, dict[str, Any]]


class Refused(Exception):
    """The model says that this load must not stand."""


@dataclass
class Model:
    """Rows by type and id. Ids of edges and of unkeyed nodes have to be given, so that both sides know them."""

    types: dict[str, Rows] = field(default_factory=lambda: {name: {} for name in (*NODES, *EDGES)})

    def load(self, records: Iterable[Record], mode: str) -> bool:
        """Apply a load, or raise ``Refused`` and stay as it was. False: nothing had to change."""
        given = _sorted_out(records)
        after = copy.deepcopy(self.types)
        for name, rows in given.items():
            if mode == "overwrite":
                after[name] = {}
            for key, row in rows:
                if mode == "append" and key in self.types[name]:
                    raise Refused(f"{name} {key} exists")
                after[name][key] = row
        for name, rows in given.items():
            if len({key for key, _ in rows}) != len(rows):
                raise Refused(f"{name}: an id is given twice")
        _judge(after)
        if mode == "overwrite":
            changed = any(self.types[name] or after[name] for name in given)
        else:
            changed = after != self.types
        self.types = after
        return changed

    def dump(self) -> dict[str, Rows]:
        return copy.deepcopy(self.types)


def _sorted_out(records: Iterable[Record]) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    given: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for record in records:
        data = dict(record.get("data", {}))
        if "type" in record:
            name = record["type"]
            key = NODES[name]
            row_id = data[key] if key else data["id"]
            full = {"Person": ("age", "mail", "name"), "Place": ("title",)}[name]
            row = {"id": row_id, **{prop: data.get(prop) for prop in full}}
        else:
            name = record["edge"]
            full = ("weight",) if name == "Knows" else ()
            row_id = data["id"]
            row = {
                "id": row_id,
                "src": record["from"],
                "dst": record["to"],
                **{prop: data.get(prop) for prop in full},
            }
        given.setdefault(name, []).append((row_id, row))
    return given


def _judge(types: Mapping[str, Rows]) -> None:
    for row in types["Person"].values():
        if row["age"] is not None and not 0 <= row["age"] <= 100:
            raise Refused("age")
    mails = [row["mail"] for row in types["Person"].values() if row["mail"] is not None]
    if len(mails) != len(set(mails)):
        raise Refused("mail")
    for name, (source, target) in EDGES.items():
        for row in types[name].values():
            if row["src"] not in types[source] or row["dst"] not in types[target]:
                raise Refused(f"{name} {row['id']} dangles")
    sources = [row["src"] for row in types["At"].values()]
    if len(sources) != len(set(sources)):
        raise Refused("more than one At")


def dump_snapshot(snapshot: Any) -> dict[str, Rows]:
    """A real graph's content in the model's form."""
    found: dict[str, Rows] = {}
    for name in (*NODES, *EDGES):
        found[name] = {row["id"]: row for row in snapshot.to_arrow(name).to_pylist()}
    return found
