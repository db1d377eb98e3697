"""The difference of one type that exists before and after: its name, its properties, its rules, its key.

This module owns what may become of a property and of a rule, and what that costs. It must not look at other types.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace

from omnigraph.schema.catalog import NodeType, Property, ScalarKind, TableType
from omnigraph.schema.fill import widens
from omnigraph.schema.plan import FREE, Cost, Fill, SchemaStep, StepKind
from omnigraph.schema.printer import format_property, format_rule
from omnigraph.schema.rules import Rule, is_looser, rules_of

_METADATA = Cost(requests=3)
_COLUMN = Cost(requests=3, requests_a_fragment=3)
_OTHER_TABLE = (
    "add a property with the new type under another name and fill it, or export, init a new graph and load; "
    "of an empty table drop the type in one change and add it in the next"
)


class TypeDiff:
    """``before`` and ``after`` are one type; ``kind`` is "node" or "edge"."""

    def __init__(
        self,
        kind: str,
        before: TableType,
        after: TableType,
        fills: Mapping[tuple[str, str], Fill],
        quiet: frozenset[tuple[str, ...]],
    ) -> None:
        self.kind = kind
        self.before = before
        self.after = after
        self.fills = fills
        self.quiet = quiet
        self.pairs = _pairs(before, after)
        self.kept = {a.name: b for b, a in self.pairs if b is not None and a is not None}
        # What is one property in both, by its identity in the old type; src and dst are their own.
        self.same_before = {p.name: p.prop_id for p in before.properties} | {"src": "src", "dst": "dst"}
        self.same_after = {
            p.name: self.kept[p.name].prop_id if p.name in self.kept else p.prop_id for p in after.properties
        } | {"src": "src", "dst": "dst"}

    def steps(self) -> list[SchemaStep]:
        found: list[SchemaStep] = []
        if self.before.name != self.after.name:
            found.append(self.step(StepKind.RENAME_TYPE, before=self.before.name, after=self.after.name))
        for before, after in self.pairs:
            if before is None and after is not None:
                found += self.added(after)
            elif after is None and before is not None:
                found += self.dropped(before)
            elif before is not None and after is not None:
                found += self.changed(before, after)
        return found + self.key_steps() + self.rule_steps()

    def step(
        self, kind: StepKind, prop: Property | None = None, *, before: str | None = None, after: str | None = None
    ) -> SchemaStep:
        return SchemaStep(
            kind,
            self.after.type_id,
            self.after.name,
            None if prop is None else prop.prop_id,
            None if prop is None else prop.name,
            before,
            after,
        )

    # --- properties -------------------------------------------------------------------------------------------------

    def added(self, prop: Property) -> list[SchemaStep]:
        if (self.kind, self.after.name, prop.name) in self.quiet:
            return []
        step = self.step(StepKind.ADD_PROPERTY, prop, after=format_property(prop))
        fill = self.fills.get((self.after.name, prop.name))
        if fill is not None:
            return [replace(step, fill=fill, cost=_COLUMN)]
        if prop.type.nullable:
            return [replace(step, cost=_METADATA)]
        if prop.type.scalar is ScalarKind.BLOB:
            hint = f"declare it nullable: `{prop.name}: {prop.type}?`; a Blob cannot be filled"
        else:
            hint = f"give fill={{'{self.after.name}.{prop.name}': …}}, or declare it nullable: `{prop.type}?`"
        return [replace(step, reason="rows that exist would have no value for it", hint=hint)]

    def dropped(self, prop: Property) -> list[SchemaStep]:
        if (self.kind, self.after.name, prop.name) in self.quiet:
            return []
        step = self.step(StepKind.DROP_PROPERTY, prop, before=format_property(prop))
        return [replace(step, cost=_METADATA, loss=True)]

    def changed(self, before: Property, after: Property) -> list[SchemaStep]:
        found: list[SchemaStep] = []
        if before.name != after.name:
            step = self.step(StepKind.RENAME_PROPERTY, after, before=before.name, after=after.name)
            found.append(replace(step, cost=_METADATA))
        if before.type == after.type:
            return found
        # In the order in which the steps are applied: nullable, wider, required.
        old = str(replace(before.type, nullable=before.type.nullable or after.type.nullable))
        new = str(replace(after.type, nullable=before.type.nullable or after.type.nullable))
        if old != str(before.type):
            step = self.step(StepKind.NULLABLE, after, before=str(before.type), after=old)
            found.append(replace(step, cost=_METADATA))
        if old != new:
            found.append(self.retyped(before, after, old, new))
        if new != str(after.type):
            step = self.step(StepKind.REQUIRED, after, before=new, after=str(after.type))
            found.append(replace(step, cost=replace(_METADATA, scans=(f"{self.after.name}.{after.name}",))))
        return found

    def retyped(self, before: Property, after: Property, old: str, new: str) -> SchemaStep:
        step = self.step(StepKind.WIDEN, after, before=old, after=new)
        if before.type.enum is not None and after.type.enum is not None:
            if set(before.type.enum) <= set(after.type.enum):
                return step
            scan = Cost(scans=(f"{self.after.name}.{after.name}",))
            return replace(step, kind=StepKind.RULE, cost=scan, loss=True)
        if not widens(before.type, after.type):
            reason = f"{old} cannot become {new}"
            return replace(step, kind=StepKind.RETYPE, reason=reason, hint=_OTHER_TABLE)
        is_key = isinstance(self.after, NodeType) and after.name in (self.after.key or ())
        if is_key and after.type.scalar is ScalarKind.F64:
            # Ids are texts of the key: 0.1 of single precision has another text in double precision.
            reason = "a key of F32 cannot become F64, because the ids made of it would change"
            return replace(step, reason=reason, hint=_OTHER_TABLE)
        return replace(step, cost=_COLUMN)

    # --- key and rules ----------------------------------------------------------------------------------------------

    def key_steps(self) -> list[SchemaStep]:
        before, after = self.before, self.after
        if not isinstance(before, NodeType) or not isinstance(after, NodeType):
            return []
        old = None if before.key is None else [self.same_before[name] for name in before.key]
        new = None if after.key is None else [self.same_after[name] for name in after.key]
        if old == new:
            return []
        step = self.step(
            StepKind.KEY,
            before=None if before.key is None else format_rule("key", before.key),
            after=None if after.key is None else format_rule("key", after.key),
        )
        return [replace(step, reason="the key of a type cannot change, because ids are made of it", hint=_KEY_HINT)]

    def rule_steps(self) -> list[SchemaStep]:
        before = rules_of(self.before, lambda name: self.same_before.get(name, name))
        after = rules_of(self.after, lambda name: self.same_after.get(name, name))
        found: list[SchemaStep] = []
        for key in sorted(before.keys() | after.keys(), key=lambda k: self.rule_order(before, after, k)):
            old, new = before.get(key), after.get(key)
            if old is not None and new is not None and old.holds == new.holds:
                continue
            if not self.has_another_step(key, new):
                found.append(self.rule_step(old, new))
        return found

    def rule_order(self, before: Mapping[Hashable, Rule], after: Mapping[Hashable, Rule], key: Hashable) -> str:
        rule = after.get(key) or before[key]
        return f"{rule.property or ''} {rule.text}"

    def rule_step(self, old: Rule | None, new: Rule | None) -> SchemaStep:
        rule = new or old
        assert rule is not None  # the key came from one of them
        owner = self.after if new is not None else self.before
        prop = None if rule.property is None else owner.by_name[rule.property]
        step = self.step(
            StepKind.RULE, prop, before=None if old is None else old.text, after=None if new is None else new.text
        )
        is_checked = new is not None and new.columns and (old is None or not is_looser(old, new))
        scans = tuple(f"{self.after.name}.{c}" for c in new.columns) if new is not None and is_checked else ()
        return replace(step, cost=Cost(scans=scans) if scans else FREE)

    def has_another_step(self, key: Hashable, new: Rule | None) -> bool:
        """Whether another step covers it: annotations of what is added or dropped, and that of a rename."""
        if not isinstance(key, tuple) or key[0] not in ("once", "annotation"):
            return False
        if key[1] is not None and key[1] not in {kept.prop_id for kept in self.kept.values()}:
            return True
        if new is None or key[0] != "once" or key[2] != "rename_from":
            return False
        if key[1] is None:
            return self.before.name != self.after.name and new.holds == (self.before.name, ())
        old = self.before.by_id.get(key[1])
        return old is not None and old.name != new.property and new.holds == (old.name, ())


_KEY_HINT = (
    "export, init a new graph with the new schema and load; of an empty table drop the type in one change and add it in "
    "the next"
)


def _pairs(before: TableType, after: TableType) -> list[tuple[Property | None, Property | None]]:
    """What is one property in both, by identity; then what is dropped. In the order of names."""
    taken: set[str] = set()
    found: list[tuple[Property | None, Property | None]] = []
    for prop in after.properties:
        matches = (before.by_id[i] for i in prop.ids if i in before.by_id and before.by_id[i].name not in taken)
        match = next(matches, None)
        if match is not None:
            taken.add(match.name)
        found.append((match, prop))
    return found + [(prop, None) for prop in before.properties if prop.name not in taken]
