"""Which rules the rows of one table must keep that they did not have to keep before. Pure.

The answer is a type with nothing but these rules and the properties that they read: the one evaluator of rules then checks
rows against it as it checks a load.
"""

from __future__ import annotations

from dataclasses import replace

from omnigraph.schema.catalog import Cardinality, Check, EdgeType, Property, Range, TableType
from omnigraph.schema.plan import SchemaPlan, SchemaStep, StepKind
from omnigraph.schema.printer import format_rule
from omnigraph.write.rules.key_rules import unique_groups
from omnigraph.write.schema_change.columns import ColumnChange


def rules_to_check(plan: SchemaPlan, change: ColumnChange) -> TableType | None:
    """The type with the rules that rows may break after the change, or None if there is none."""
    after = change.after
    mine = [step for step in plan.steps if step.type_id == after.type_id]
    texts = {step.after for step in mine if step.kind is StepKind.RULE and step.cost.scans}
    filled = {one.prop.name for one in change.valued if one.fill is not None}
    uniques = tuple(
        group for group in unique_groups(after) if format_rule("unique", group) in texts or filled.intersection(group)
    )
    if isinstance(after, EdgeType):
        card = after.card if _card_text(after.card) in texts else Cardinality()
        properties = _properties(mine, change, set().union(*uniques))
        if not properties and not uniques and card.is_unbounded:
            return None
        return replace(after, properties=properties, uniques=uniques, card=card, indexes=())
    ranges = tuple(r for r in after.ranges if format_rule("range", r) in texts or r.property in filled)
    checks = tuple(c for c in after.checks if format_rule("check", c) in texts or c.property in filled)
    properties = _properties(mine, change, _read(uniques, ranges, checks))
    if not properties:
        return None
    return replace(
        after, properties=properties, key=None, uniques=uniques, indexes=(), ranges=ranges, checks=checks, embeds=()
    )


def _read(uniques: tuple[tuple[str, ...], ...], ranges: tuple[Range, ...], checks: tuple[Check, ...]) -> set[str]:
    bounded = {bounds.property for bounds in ranges} | {check.property for check in checks}
    return bounded.union(*uniques)


def _properties(steps: list[SchemaStep], change: ColumnChange, read: set[str]) -> tuple[Property, ...]:
    """The properties that some rule reads, or whose own type is a rule now: required, or with fewer values."""
    required = {step.prop_id for step in steps if step.kind is StepKind.REQUIRED}
    narrowed = {step.prop_id for step in steps if step.kind is StepKind.RULE and step.loss}
    # What an expression gives is known only when it is evaluated; other fills were held against the type by the plan.
    computed = {one.prop.prop_id for one in change.valued if one.fill is not None and one.fill.kind == "sql"}
    found = []
    for prop in change.after.properties:
        if prop.name not in read and prop.prop_id not in required | narrowed | computed:
            continue
        kind = replace(
            prop.type,
            nullable=prop.type.nullable or prop.prop_id not in required | computed,
            enum=prop.type.enum if prop.prop_id in narrowed | computed else None,
        )
        found.append(replace(prop, type=kind))
    return tuple(found)


def _card_text(card: Cardinality) -> str:
    return f"@card({card.min}..{'' if card.max is None else card.max})"
