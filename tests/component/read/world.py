"""A graph with branches to which anything happens: loads, deletions, upkeep, restores, merges and changes of the schema."""

from __future__ import annotations

import contextlib
import random
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import omnigraph as og
from omnigraph.core.errors import MergeConflict, Refused

KINDS = (
    "merge",
    "merge",
    "append",
    "delete",
    "delete",
    "optimize",
    "restore",
    "fork",
    "join",
    "type",
    "rename",
    "fill",
    "drop",
)


@dataclass
class Declared:
    """The schema of a branch, as text is made from it."""

    type: str = "P"
    props: dict[str, str] = field(default_factory=lambda: {"a": "I32?", "b": "String?"})

    def text(self, renamed_type: str | None = None, renamed: tuple[str, str] | None = None) -> str:
        of = f' @rename_from("{renamed_type}")' if renamed_type else ""
        lines = [
            f"{name}: {kind}{f' @rename_from({chr(34)}{renamed[0]}{chr(34)})' if renamed and renamed[1] == name else ''}"
            for name, kind in self.props.items()
        ]
        return f"node {self.type}{of} {{ name: String @key\n" + "\n".join(lines) + "\n}"


class World:
    """One graph with branches, and the states that it went through. ``fills``: by property, what it was filled with."""

    def __init__(self, root: Path) -> None:
        self.graph = og.init(root, Declared().text(), durability="relaxed")
        self.declared = {"main": Declared()}
        self.fills: dict[str, Any] = {}
        self.places: list[tuple[str, str]] = []
        self.numbers = count()
        self.done: list[str] = []
        self.ever: dict[str, frozenset[str]] = {"main": frozenset()}
        self.ever_at: dict[str, frozenset[str]] = {}
        self.write("main", [self.record("main", f"k{at}", random.Random(at)) for at in range(6)])

    def record(self, branch: str, key: str, rnd: random.Random) -> dict[str, Any]:
        data: dict[str, Any] = {"name": key}
        for name, kind in self.declared[branch].props.items():
            if rnd.random() < 0.8:
                data[name] = rnd.randint(0, 2) if kind.startswith("I") else rnd.choice("pq")
        return {"type": self.declared[branch].type, "data": data}

    def write(self, branch: str, records: list[dict[str, Any]], mode: str = "merge") -> None:
        self.note(branch, self.graph.load(records, mode=mode, branch=branch).commit_id)

    def note(self, branch: str, commit_id: str | None) -> None:
        if commit_id is not None:
            catalog = self.graph.schema.show(branch).catalog
            self.ever[branch] |= {prop.prop_id for one in catalog.types() for prop in one.properties}
            self.ever_at[commit_id] = self.ever[branch]
            self.done.append(self.graph.commit(commit_id).kind)
            self.places.append((branch, commit_id))

    def ids(self, branch: str) -> list[str]:
        found: list[str] = (
            self.graph.snapshot(branch).to_arrow(self.declared[branch].type, ["id"]).column("id").to_pylist()
        )
        return found

    def step(self, kind: str, number: int) -> None:
        rnd = random.Random(number)
        branch = rnd.choice(sorted(self.declared))
        declared, ids = self.declared[branch], self.ids(branch)
        if kind == "merge":
            self.write(branch, [self.record(branch, f"k{at}", rnd) for at in rnd.sample(range(12), 3)])
        elif kind == "append":
            fresh = [one for one in (f"k{at}" for at in range(20)) if one not in ids]
            self.write(branch, [self.record(branch, one, rnd) for one in fresh[:2]], "append")
        elif kind == "delete" and len(ids) > 3:
            gone = f'query q() {{ delete {declared.type} where name = "{rnd.choice(ids)}" }}'
            self.note(branch, self.graph.mutate(gone, branch=branch).commit_id)
        elif kind == "optimize":
            self.graph.optimize(branches=[branch])
        elif kind == "restore":
            self.restore(branch, rnd)
        elif kind == "fork" and len(self.declared) < 4:
            made = f"b{next(self.numbers)}"
            self.graph.branches.create(made, branch)
            self.declared[made] = Declared(declared.type, dict(declared.props))
            self.ever[made] = self.ever[branch]
        elif kind == "join" and branch != "main":
            self.join(branch)
        elif kind in ("type", "rename", "fill", "drop"):
            self.change_schema(branch, kind, rnd)

    def restore(self, branch: str, rnd: random.Random) -> None:
        own = [commit for line, commit in self.places if line == branch]
        try:
            if own:
                self.note(branch, self.graph.restore(rnd.choice(own), branch).commit_id)
        except Refused as error:
            assert error.facts["reason"] == "schema-differs"

    def join(self, branch: str) -> None:
        with contextlib.suppress(MergeConflict):
            self.note("main", self.graph.branches.merge(branch).commit_id)
            [found] = self.graph.schema.show("main").catalog.types()
            self.declared["main"] = Declared(
                found.name, {p.name: str(p.type) for p in found.properties if p.name != "name"}
            )

    def change_schema(self, branch: str, kind: str, rnd: random.Random) -> None:
        declared = self.declared[branch]
        number = next(self.numbers)
        extra = [name for name in declared.props if name.startswith("x")]
        fill = None
        if kind == "type":
            old, declared.type = declared.type, f"P{number}"
            text = declared.text(renamed_type=old)
        elif kind == "fill":
            declared.props[f"x{number}"] = "String?"
            text, fill = declared.text(), {f"{declared.type}.x{number}": "p"}
        elif not extra:
            return
        elif kind == "drop":
            del declared.props[rnd.choice(extra)]
            text = declared.text()
        else:
            old = rnd.choice(extra)
            declared.props = {(f"x{number}" if name == old else name): of for name, of in declared.props.items()}
            text = declared.text(renamed=(old, f"x{number}"))
        self.note(branch, self.graph.schema.apply(text, branch=branch, fill=fill).commit_id)
        if kind == "fill":
            catalog = self.graph.schema.show(branch).catalog
            self.fills[catalog.node(declared.type).property(f"x{number}").prop_id] = "p"

    # --- comparing ------------------------------------------------------------------------------------------------------

    def by_reading(self, a: og.Snapshot, b: og.Snapshot) -> dict[tuple[str, str], Any]:
        """Every row of both states compared, column by column. What a state dropped is null there."""
        [old], [new] = list(a.catalog.types()), list(b.catalog.types())
        mine, theirs = (
            {row["id"]: row for row in snap.to_arrow(kind.name).to_pylist()} for snap, kind in ((a, old), (b, new))
        )
        found: dict[tuple[str, str], Any] = {}
        for key in mine.keys() | theirs.keys():
            was, row = mine.get(key), theirs.get(key)
            if was is None or row is None:
                found["insert" if was is None else "delete", key] = ((), row, was)
                continue
            changed = set()
            for prop in new.properties:
                known = old.by_id.get(prop.prop_id)
                fill = None if prop.prop_id in self.ever_at[a.commit_id] else self.fills.get(prop.prop_id)
                before = fill if known is None else was[known.name]
                if before != row[prop.name]:
                    changed.add(prop.name)
            if changed:
                found["update", key] = (tuple(sorted(changed)), row, was)
        return found

    def wrong(self, a: tuple[str, str], b: tuple[str, str]) -> str | None:
        """How the difference of two states is another than what reading them says; None if it is not."""
        left, right = (self.graph.snapshot(branch, commit) for branch, commit in (a, b))
        wanted = self.by_reading(left, right)
        diff = self.graph.diff(a[1], b[1])
        found: dict[tuple[str, str], Any] = {}
        for kind, _, key, changed, row, before in diff:
            assert (kind, key) not in found
            found[kind, key] = (tuple(sorted(changed)), row, before)
        return None if found == wanted else f"{a} → {b}: {found} instead of {wanted}"
