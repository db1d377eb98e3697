"""Identities carried from an accepted schema to a new text: by name, and by ``@rename_from`` where a name changes.

This module owns which declaration of the new text continues which one of the old schema. A rename that cannot be meant
as it is written is a refused step, never a guess. It must not know what a change costs or whether its type fits.

The rules of ``@rename_from("Old")`` on a declaration ``New``:

- ``New`` exists already: the rename was done before, nothing happens. If ``Old`` exists too and the old declaration of
  ``New`` does not carry the same annotation, the rename is refused, because its name is taken. So two names cannot be
  swapped in one change.
- ``New`` does not exist: ``Old`` has to exist, to be declared no longer, and to be claimed once.
- A node that takes the annotation over from an interface follows it where it can; it is refused nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from omnigraph.schema.catalog import Annotation, Catalog, EdgeType, InterfaceType, NodeType, Property
from omnigraph.schema.plan import SchemaStep, StepKind

AnyType = InterfaceType | NodeType | EdgeType
_Type = TypeVar("_Type", InterfaceType, NodeType, EdgeType)
_Table = TypeVar("_Table", NodeType, EdgeType)
_Found = TypeVar("_Found", NodeType, EdgeType, Property)


@dataclass
class Carried:
    """``catalog`` has all identities. ``quiet``: names in refused renames, about which no other step is made."""

    catalog: Catalog
    refused: list[SchemaStep] = field(default_factory=list)
    quiet: set[tuple[str, ...]] = field(default_factory=set)


def carry_identities(old: Catalog, new: Catalog, mint: Callable[[], str]) -> Carried:
    """``new`` with the identities of ``old`` for what continues, and with minted ones for what is added."""
    carrier = _Carrier(old, new, mint)
    interfaces = {
        n: carrier.continued("interface", t, old.interfaces.get(n)) for n, t in sorted(new.interfaces.items())
    }
    nodes = {n: carrier.table("node", t, old.nodes, new.nodes) for n, t in sorted(new.nodes.items())}
    edges = {n: carrier.table("edge", t, old.edges, new.edges) for n, t in sorted(new.edges.items())}
    catalog = Catalog(interfaces, nodes, edges, new.source, new.hash)
    return Carried(catalog, carrier.refused, carrier.quiet)


def rename_hint(annotations: tuple[Annotation, ...]) -> str | None:
    return next((a.value for a in annotations if a.name == "rename_from"), None)


class _Carrier:
    def __init__(self, old: Catalog, new: Catalog, mint: Callable[[], str]) -> None:
        self.old = old
        self.new = new
        self.mint = mint
        self.refused: list[SchemaStep] = []
        self.quiet: set[tuple[str, ...]] = set()
        self.claimed: dict[tuple[str, ...], str] = {}

    def table(self, kind: str, declared: _Table, old: Mapping[str, _Table], new: Mapping[str, _Table]) -> _Table:
        """A node or edge type with its identities. Interfaces take no annotations, so they are never renamed."""
        hint = rename_hint(declared.annotations)
        found = old.get(declared.name)
        if hint is not None:
            problem = self.problem((kind,), declared.name, hint, old, new)
            if problem is None and found is None:
                found = old[hint]
            elif problem is not None:
                self.refuse(kind, declared.name, None, hint, problem)
        return self.continued(kind, declared, found)

    def continued(self, kind: str, declared: _Type, found: _Type | None) -> _Type:
        properties = tuple(self.property(kind, declared, p, found) for p in declared.properties)
        if found is None:
            return replace(declared, type_id=self.mint(), also=(), properties=properties)
        return replace(declared, type_id=found.type_id, also=found.also, properties=properties)

    def property(self, kind: str, owner: AnyType, prop: Property, old_owner: AnyType | None) -> Property:
        old = {p.name: p for p in old_owner.properties} if old_owner is not None else {}
        new = {p.name: p for p in owner.properties}
        hint = rename_hint(prop.annotations)
        found = old.get(prop.name)
        if hint is not None:
            problem = self.problem((kind, owner.name), prop.name, hint, old, new)
            if problem is None and found is None:
                found = old[hint]
            elif problem is not None and not self.is_excused(owner, prop, hint):
                self.refuse(kind, owner.name, prop.name, hint, problem)
        if found is None:
            return replace(prop, prop_id=self.mint(), also=())
        return replace(prop, prop_id=found.prop_id, also=found.also)

    def problem(
        self,
        scope: tuple[str, ...],
        name: str,
        hint: str,
        old: Mapping[str, _Found],
        new: Mapping[str, _Found],
    ) -> tuple[str, str] | None:
        """Return why the rename cannot be done and what to do, or None if it can be done or was done before."""
        present = old.get(name)
        if present is not None:
            if hint not in old or hint == name or rename_hint(present.annotations) == hint:
                return None
            return (
                f"the name `{name}` is taken",
                f"free `{name}` in one change and rename `{hint}` in the next, or leave @rename_from out",
            )
        if hint not in old:
            return f"there is no `{hint}`", f"leave @rename_from out to add `{name}`, or correct the old name"
        if hint in new:
            return (
                f"`{hint}` is still declared",
                f"leave `{hint}` out of the new text, or add `{name}` without a rename",
            )
        first = self.claimed.setdefault((*scope, hint), name)
        if first != name:
            return f"`{first}` is renamed from it, too", "let one of them carry @rename_from, and add the other"
        return None

    def is_excused(self, owner: AnyType, prop: Property, hint: str) -> bool:
        """Whether the annotation is one that an interface spreads over its nodes, and is meant for others."""
        if isinstance(owner, NodeType):
            wanted = (self.new.interfaces[name] for name in owner.implements)
            same = (p for interface in wanted for p in interface.properties if p.name == prop.name)
            return any(rename_hint(p.annotations) == hint for p in same)
        if isinstance(owner, InterfaceType):
            names = {prop.name, hint}
            members = (self.member_before(n) for n in self.new.nodes.values() if owner.name in n.implements)
            return any(names & {p.name for p in member.properties} for member in members if member is not None)
        return False

    def member_before(self, node: NodeType) -> NodeType | None:
        return self.old.nodes.get(node.name) or self.old.nodes.get(rename_hint(node.annotations) or "")

    def refuse(self, kind: str, owner: str, prop: str | None, hint: str, problem: tuple[str, str]) -> None:
        scope = (kind,) if prop is None else (kind, owner)
        name = owner if prop is None else prop
        self.quiet |= {(*scope, name), (*scope, hint)}
        self.refused.append(
            SchemaStep(
                StepKind.RENAME_TYPE if prop is None else StepKind.RENAME_PROPERTY,
                "",
                owner,
                prop=prop,
                before=hint,
                after=name,
                reason=problem[0],
                hint=problem[1],
            )
        )
