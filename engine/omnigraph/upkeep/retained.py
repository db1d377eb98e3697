"""What still holds the bytes of types and properties that were dropped: retained commits, checkpoints, starting points of branches.

Pure, from what a cleanup keeps. Something counts as dropped on a line where a kept state of that line has it and the newest does
not, or where a retained commit dropped it. Identities decide: what was added again under its name is another property.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from omnigraph.manifest.rows import SchemaRow
from omnigraph.manifest.state import State
from omnigraph.schema import Catalog
from omnigraph.upkeep.cleanup_roots import BranchView
from omnigraph.wire.cleanup import RetainedProperty

CatalogOf = Callable[[SchemaRow], Catalog]


@dataclass(frozen=True)
class _Element:
    """A type, or a property of one. ``identity`` is its own, ``type_id`` its type's."""

    identity: str
    type_id: str
    type: str
    property: str | None


def retained_bytes(
    views: Iterable[BranchView], pinned: Mapping[str, State], catalog_of: CatalogOf
) -> tuple[RetainedProperty, ...]:
    """By branch, type and property. ``pinned``: states that are kept, by the reason."""
    found = []
    for view in views:
        kept: dict[_Element, list[str]] = {}
        now = {one.identity for one in _elements(catalog_of(view.held.state.schema))}
        for element, why in _had(view, pinned, catalog_of):
            # The properties of a dropped type go with it.
            if element.identity in now or (element.property is not None and element.type_id not in now):
                continue
            reasons = kept.setdefault(element, [])
            if why not in reasons:
                reasons.append(why)
        found += [RetainedProperty(view.branch, one.type, one.property, tuple(why)) for one, why in kept.items()]
    return tuple(sorted(found, key=lambda one: (one.branch, one.type, one.prop or "")))


def _had(view: BranchView, pinned: Mapping[str, State], catalog_of: CatalogOf) -> Iterator[tuple[_Element, str]]:
    """Everything that kept states of the branch's own line have, or had before a retained commit dropped it, and why it is kept."""
    commits = f"commits from {view.oldest.commit_id} on"
    own = {why: state for why, state in pinned.items() if state.identity == view.held.state.identity}
    names: dict[str, str] = {}
    for why, state in [(commits, view.then), (commits, view.held.state), *own.items()]:
        for element in _elements(catalog_of(state.schema)):
            names.setdefault(element.type_id, element.type)
            yield element, why
    for step in view.dropped:
        text = str(step["from"] or "")
        type_id, prop_id = step["type"], step["property"]
        if prop_id is None:
            yield _Element(type_id, type_id, _name_of_type(text) or type_id, None), commits
        else:
            yield _Element(prop_id, type_id, names.get(type_id, type_id), text.partition(":")[0]), commits


def _elements(catalog: Catalog) -> Iterator[_Element]:
    """Types and properties, each by all of its identities: older ones mean the same since a merge."""
    for declared in catalog.types():
        for one in declared.ids:
            yield _Element(one, declared.type_id, declared.name, None)
        for prop in declared.properties:
            for one in prop.ids:
                yield _Element(one, declared.type_id, declared.name, prop.name)


def _name_of_type(text: str) -> str | None:
    """The name in ``node Person …`` or ``edge Knows: …``."""
    words = text.replace(":", " ").replace("{", " ").split()
    return words[1] if len(words) > 1 else None
