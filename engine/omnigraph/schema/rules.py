"""The rules of a type as comparable values: what stays the same rule while names change, and which rules are looser.

This module owns when two rules are one (by the identities of what they name) and when the rows that keep one keep the
other. It must not know where the types come from or what is done about a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

from omnigraph.schema.catalog import Annotation, Cardinality, EdgeType, InterfaceType, NodeType, Property, Range
from omnigraph.schema.printer import format_annotation, format_property, format_rule

# Of these a type or property has one: two of them are one rule that changed.
ONCE = ("description", "instruction", "rename_from", "stub")
# From the name of a property, or "src" and "dst", to what is the same in both schemas.
Ids = Callable[[str], str]


@dataclass(frozen=True)
class Rule:
    text: str
    holds: Hashable  # equal: the rule has not changed
    columns: tuple[str, ...] = ()  # names of what is read to check the rows; empty if rows cannot break the rule
    property: str | None = None  # the name of the one property that it is about
    bounds: Range | Cardinality | None = None


Rules = Mapping[Hashable, Rule]


def rules_of(declared: NodeType | EdgeType, same: Ids) -> Rules:
    """By a key that two schemas share: what has one key is one rule, changed or not."""
    found: dict[Hashable, Rule] = {}
    for columns in declared.uniques:
        found["unique", frozenset(map(same, columns))] = Rule(format_rule("unique", columns), 0, columns)
    for columns in declared.indexes:
        found["index", frozenset(map(same, columns))] = Rule(format_rule("index", columns), 0)
    if isinstance(declared, EdgeType):
        if not declared.card.is_unbounded:
            card = declared.card
            found["card"] = Rule(f"@card({card.min}..{_text(card.max)})", card, ("src",), bounds=card)
    else:
        found.update(_node_rules(declared, same))
    for annotation in declared.annotations:
        _add_annotation(found, annotation, None, same)
    for prop in declared.properties:
        for annotation in prop.annotations:
            _add_annotation(found, annotation, prop, same)
    return found


def _node_rules(declared: NodeType, same: Ids) -> dict[Hashable, Rule]:
    found: dict[Hashable, Rule] = {}
    for bounds in declared.ranges:
        # Several ranges of one property are identified by their bounds; a single one is a rule that may change.
        alone = sum(r.property == bounds.property for r in declared.ranges) == 1
        key = (bounds.min, isinstance(bounds.min, float), bounds.max, isinstance(bounds.max, float))
        found["range", same(bounds.property), None if alone else key] = Rule(
            format_rule("range", bounds), key, (bounds.property,), bounds.property, bounds
        )
    for check in declared.checks:
        found["check", same(check.property), check.pattern] = Rule(
            format_rule("check", check), 0, (check.property,), check.property
        )
    for embed in declared.embeds:
        found["embed", same(embed.property)] = Rule(
            format_rule("embed", embed), (same(embed.source), embed.model), property=embed.property
        )
    if declared.implements:
        found["implements"] = Rule(f"implements {', '.join(declared.implements)}", declared.implements)
    return found


def _add_annotation(found: dict[Hashable, Rule], annotation: Annotation, prop: Property | None, same: Ids) -> None:
    owner = None if prop is None else same(prop.name)
    name = None if prop is None else prop.name
    text = format_annotation(annotation)
    if annotation.name in ONCE:
        is_stub = annotation.name == "stub" and prop is None and annotation.value is not None
        value = same(annotation.value or "") if is_stub else annotation.value
        found["once", owner, annotation.name] = Rule(text, (value, annotation.kwargs), property=name)
        return
    # The same annotation may stand several times.
    count = 0
    while ("annotation", owner, annotation, count) in found:
        count += 1
    found["annotation", owner, annotation, count] = Rule(text, 0, property=name)


def interface_text(declared: InterfaceType) -> str:
    """What an interface asks for, in one line, without its name."""
    return "{ " + " ".join(map(format_property, declared.properties)) + " }"


def is_looser(before: Rule, after: Rule) -> bool:
    """Whether every row that keeps ``before`` keeps ``after``."""
    if not after.columns:
        return True
    old, new = before.bounds, after.bounds
    if old is None or new is None:
        return False
    old_min, new_min = (None if low == 0 and isinstance(old, Cardinality) else low for low in (old.min, new.min))
    lower = new_min is None or (old_min is not None and new_min <= old_min)
    upper = new.max is None or (old.max is not None and new.max >= old.max)
    return lower and upper


def _text(bound: int | None) -> str:
    return "" if bound is None else str(bound)
