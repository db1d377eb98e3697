"""The difference of two schemas as a plan, and the schema that a plan leads to. Pure: nothing is read and nothing made.

This module owns which steps lead from one schema to another, which of them are supported, and what they lose. Types and
properties are matched by identity, older ones (``also``) included; ``carry`` gives a new text the identities of what it
continues. It must not know tables: what is checked against rows is named by the cost of a step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from omnigraph.core.errors import InvalidInput, Refused
from omnigraph.core.ids import new_ulid
from omnigraph.schema.carry import carry_identities
from omnigraph.schema.catalog import Catalog, EdgeType, InterfaceType, NodeType, Property, TableType
from omnigraph.schema.fill import read_fill
from omnigraph.schema.identity import identities
from omnigraph.schema.plan import Cost, Fill, SchemaPlan, SchemaStep, StepKind, in_order
from omnigraph.schema.printer import format_type
from omnigraph.schema.rules import interface_text
from omnigraph.schema.type_diff import TypeDiff

_Type = TypeVar("_Type", InterfaceType, NodeType, EdgeType)
_ADD_TYPE = Cost(requests=4)
# Names of types and properties (by kind, type, property) about which a refused rename has said all.
Quiet = frozenset[tuple[str, ...]]


def plan_change(
    old: Catalog,
    new: Catalog,
    *,
    fill: Mapping[str, object] | None = None,
    allow_data_loss: bool = False,
    mint: Callable[[], str] = new_ulid,
) -> SchemaPlan:
    """How ``old``, an accepted schema, becomes ``new``, a text that was parsed without identities.

    ``fill`` names where added properties get values: ``{"Person.score": 0.5}``, ``{"property": name}`` or
    ``{"sql": expression}``. ``allow_data_loss`` makes drops hard. ``mint`` makes an identity a call.
    """
    carried = carry_identities(old, new, _new_identities(old, mint))
    fills = _read_fills(fill or {}, old, carried.catalog)
    steps = _steps(old, carried.catalog, fills, frozenset(carried.quiet))
    return SchemaPlan(old, carried.catalog, in_order([*carried.refused, *steps]), hard=allow_data_loss, fill=fill)


def diff_catalogs(old: Catalog, new: Catalog) -> tuple[SchemaStep, ...]:
    """The steps between two accepted schemas, matched by identity. What was added is shown without its fill."""
    return in_order(_steps(old, new, {}, frozenset()))


def apply_plan(plan: SchemaPlan) -> Catalog:
    """The schema after the plan, with its identities; ``Refused`` if the plan is not supported."""
    for step in plan.refused:
        raise Refused(
            f"this change of the schema is not supported: {step.kind.value} {step.subject}: {step.reason}",
            hint=step.hint,
            reason="schema",
            steps=[refused.to_dict() for refused in plan.refused],
        )
    return plan.new


def _new_identities(old: Catalog, mint: Callable[[], str]) -> Callable[[], str]:
    """``mint``, refusing what exists: an identity that came back would make the bytes of one thing those of another."""
    known = set(identities(old))

    def fresh() -> str:
        made = mint()
        if made in known:
            raise ValueError(f"the identity {made!r} exists; mint makes a new one at each call")
        known.add(made)
        return made

    return fresh


def _steps(old: Catalog, new: Catalog, fills: Mapping[tuple[str, str], Fill], quiet: Quiet) -> list[SchemaStep]:
    nodes = _pairs(old.nodes, new.nodes)
    edges = _pairs(old.edges, new.edges)
    # What an edge joins, by the identity that its node type had in the old schema.
    same_type = {after.name: (before or after).type_id for before, after in nodes if after is not None}
    steps = _interface_steps(old, new)
    dropped: list[SchemaStep] = []
    for kind, pairs in (("node", nodes), ("edge", edges)):
        for before, after in pairs:
            if before is not None and after is not None:
                steps += TypeDiff(kind, before, after, fills, quiet).steps()
                steps += _endpoint_steps(old, before, after, same_type)
            elif after is not None and (kind, after.name) not in quiet:
                steps.append(_added(after))
            elif before is not None and after is None and (kind, before.name) not in quiet:
                dropped.append(_dropped(before, edges))
    if not new.nodes and not new.edges:
        # The part of `__manifest` that lists the tables would have no rows, which Lance does not store.
        reason, hint = "no type would be left", "keep one type, or init another graph"
        dropped = [replace(step, reason=reason, hint=hint) for step in dropped]
    # Edge types are dropped before the node types that they join.
    return steps + dropped[::-1]


def type_pairs(old: Catalog, new: Catalog) -> list[tuple[TableType | None, TableType | None]]:
    """The node types, then the edge types, each with what it is in the other catalog: None where it was added or dropped."""
    return [*_pairs(old.nodes, new.nodes), *_pairs(old.edges, new.edges)]


def _pairs(old: Mapping[str, _Type], new: Mapping[str, _Type]) -> list[tuple[_Type | None, _Type | None]]:
    """What is one type in both, by identity; then what is added; then what is dropped. In the order of names."""
    known = {i: declared for declared in old.values() for i in declared.ids}
    taken: set[str] = set()
    found: list[tuple[_Type | None, _Type | None]] = []
    for after in (new[name] for name in sorted(new)):
        matches = (known[i] for i in after.ids if i in known and known[i].name not in taken)
        before = next(matches, None)
        if before is not None:
            taken.add(before.name)
        found.append((before, after))
    return found + [(old[name], None) for name in sorted(old) if name not in taken]


def _added(after: TableType) -> SchemaStep:
    return SchemaStep(StepKind.ADD_TYPE, after.type_id, after.name, after=format_type(after), cost=_ADD_TYPE)


def _dropped(before: TableType, edges: list[tuple[EdgeType | None, EdgeType | None]]) -> SchemaStep:
    step = SchemaStep(StepKind.DROP_TYPE, before.type_id, before.name, before=format_type(before), loss=True)
    kept = [b.name for b, a in edges if b is not None and a is not None and before.name in (b.src_type, b.dst_type)]
    if isinstance(before, EdgeType) or not kept:
        return step
    return replace(
        step,
        reason=f"the edge type `{kept[0]}` joins it",
        hint=f'drop `{kept[0]}` as well, or write @rename_from("{before.name}") on the type that takes its place',
    )


def _endpoint_steps(
    old: Catalog, before: TableType, after: TableType, same_type: Mapping[str, str]
) -> list[SchemaStep]:
    """The ends of an edge type are node types, whatever they are called. They never change: its edges name rows of them."""
    if not isinstance(before, EdgeType) or not isinstance(after, EdgeType):
        return []
    ends = [(before.src_type, after.src_type), (before.dst_type, after.dst_type)]
    if all(old.nodes[a].type_id == same_type[b] for a, b in ends):
        return []
    return [
        SchemaStep(
            StepKind.ENDPOINTS,
            after.type_id,
            after.name,
            before=f"{before.src_type} -> {before.dst_type}",
            after=f"{after.src_type} -> {after.dst_type}",
            reason="the ends of an edge type cannot change",
            hint="add an edge type under another name and load its edges; for a node type with a new name write "
            "@rename_from on it",
        )
    ]


def _interface_steps(old: Catalog, new: Catalog) -> list[SchemaStep]:
    """An interface has no table: whatever happens to it is a rule. Its nodes have steps of their own."""
    steps = []
    for before, after in _pairs(old.interfaces, new.interfaces):
        texts = [None if i is None else f"interface {i.name} {interface_text(i)}" for i in (before, after)]
        if texts[0] != texts[1]:
            either = after or before
            assert either is not None  # a pair has at least one side
            steps.append(SchemaStep(StepKind.RULE, either.type_id, either.name, before=texts[0], after=texts[1]))
    return steps


def check_fill_names(fill: Mapping[str, object], new: Catalog) -> None:
    """Raise ``InvalidInput`` for a fill of something that the new schema does not have, whatever changes."""
    for name in fill:
        _filled(name, new)


def _filled(name: object, new: Catalog) -> tuple[TableType, Property]:
    owner, dot, prop_name = name.partition(".") if isinstance(name, str) else ("", "", "")
    after = new.nodes.get(owner) or new.edges.get(owner)
    prop = after.by_name.get(prop_name) if after is not None else None
    if not dot or after is None or prop is None:
        raise InvalidInput(
            f"fill of {str(name)[:260]!r}: the new schema has no such property",
            hint="write `Type.property` as the new schema names it",
            fill=str(name)[:260],
        )
    return after, prop


def _read_fills(fill: object, old: Catalog, new: Catalog) -> dict[tuple[str, str], Fill]:
    if not isinstance(fill, Mapping):
        raise InvalidInput("fill is a mapping from `Type.property` to a fill", hint='write {"Person.score": 0.5}')
    known = {i: declared for declared in old.types() for i in declared.ids}
    found: dict[tuple[str, str], Fill] = {}
    for name, given in fill.items():
        after, prop = _filled(name, new)
        before = next((known[i] for i in after.ids if i in known), None)
        if before is None or any(i in before.by_id for i in prop.ids):
            raise InvalidInput(
                f"fill of {name}: only a property that is added to a type with rows takes one",
                hint='leave this fill out; change values that exist by a load with mode="patch" or by a mutation',
                fill=name,
            )
        found[after.name, prop.name] = read_fill(name, given, prop.type, before)
    return found
