"""Identities: every type and property has one, minted once, that survives renames.

This module owns the order in which they are minted, how a catalog gets them, and that no two things share one. It must not make them: the caller says
where new ones come from and which old ones are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from omnigraph.schema.catalog import Catalog, EdgeType, InterfaceType, NodeType

# (kind, type) and (kind, type, property) to an identity; kind is "interface", "node" or "edge".
TypeIdentity = Callable[[str, str], str]
PropertyIdentity = Callable[[str, str, str], str]

_Type = TypeVar("_Type", InterfaceType, NodeType, EdgeType)


def identities(catalog: Catalog) -> Iterator[str]:
    """Every identity of the catalog, older ones that mean the same (``also``) included, in the order of names."""
    for group in (catalog.interfaces, catalog.nodes, catalog.edges):
        for declared in group.values():
            yield from declared.ids
            for prop in declared.properties:
                yield from prop.ids


def repeated_identity(catalog: Catalog) -> str | None:
    """Return an identity that the catalog has twice, or None if all differ."""
    seen: set[str] = set()
    for known in identities(catalog):
        if known in seen:
            return known
        seen.add(known)
    return None


def mint_identities(catalog: Catalog, mint: Callable[[], str]) -> Catalog:
    """The same catalog with a new identity everywhere: interfaces, nodes, edges, each in the order of names."""
    return with_identities(catalog, lambda kind, name: mint(), lambda kind, name, prop: mint())


def with_identities(catalog: Catalog, of_type: TypeIdentity, of_property: PropertyIdentity) -> Catalog:
    """The same catalog with the identities that the functions say; asked in the order of names, a type before its own."""

    def named(kind: str, declared: _Type) -> _Type:
        type_id = of_type(kind, declared.name)
        properties = tuple(
            replace(prop, prop_id=of_property(kind, declared.name, prop.name)) for prop in declared.properties
        )
        return replace(declared, type_id=type_id, properties=properties)

    return Catalog(
        interfaces={name: named("interface", found) for name, found in sorted(catalog.interfaces.items())},
        nodes={name: named("node", found) for name, found in sorted(catalog.nodes.items())},
        edges={name: named("edge", found) for name, found in sorted(catalog.edges.items())},
        source=catalog.source,
        hash=catalog.hash,
    )
