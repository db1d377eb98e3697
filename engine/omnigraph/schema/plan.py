"""What changes between two schemas, as data: steps with their cost, and the plan that holds them.

This module owns the shapes, how they are printed, and the form in which a commit keeps them. It must not decide which
steps a change needs or whether one is supported: ``diff`` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

from omnigraph.core.shown import Shown, list_text
from omnigraph.schema.canonical import canonical_text, schema_id
from omnigraph.schema.catalog import Catalog
from omnigraph.wire.schema import SchemaPlanReport, SchemaStepCost, SchemaStepReport


class StepKind(Enum):
    """The first ten are kept in the history of a graph. The last three exist in plans only: they are never supported."""

    ADD_TYPE = "add_type"
    DROP_TYPE = "drop_type"
    RENAME_TYPE = "rename_type"
    ADD_PROPERTY = "add_property"
    DROP_PROPERTY = "drop_property"
    RENAME_PROPERTY = "rename_property"
    NULLABLE = "nullable"
    REQUIRED = "required"
    WIDEN = "widen"
    RULE = "rule"
    KEY = "key"
    ENDPOINTS = "endpoints"
    RETYPE = "retype"


@dataclass(frozen=True, slots=True)
class Cost(Shown):
    """What a step asks of the store, apart from the one swap of the commit."""

    requests: int = 0
    requests_a_fragment: int = 0  # a data file is written for each fragment
    scans: tuple[str, ...] = ()  # columns that are read whole, to check the rows

    def __str__(self) -> str:
        parts = [f"{self.requests} requests"] if self.requests else []
        if self.requests_a_fragment:
            parts.append(f"{self.requests_a_fragment} requests and one column file a fragment")
        if self.scans:
            parts.append(f"a scan of {', '.join(self.scans)}")
        return " + ".join(parts) or "free"


FREE = Cost()


@dataclass(frozen=True, slots=True)
class Fill(Shown):
    """Where the values of an added property come from: a constant, another property, or an expression over the row."""

    kind: str  # "value", "property" or "sql"
    given: Any  # the constant as a JSON value, the identity of the property, or the text of the expression

    def to_stored(self) -> dict[str, Any]:
        return {self.kind: self.given}


@dataclass(frozen=True, slots=True)
class SchemaStep(Shown):
    """One change. ``before`` and ``after`` are texts of the language or names; None where there is nothing."""

    kind: StepKind
    type_id: str  # of an interface for rules of interfaces; empty where a refused step has none
    type: str  # its name in the new schema, in the old one where the type is dropped
    prop_id: str | None = None
    prop: str | None = None  # the name of the property, as of the type
    before: str | None = None
    after: str | None = None
    fill: Fill | None = None
    cost: Cost = FREE
    loss: bool = False
    reason: str | None = None  # why the step is not supported; None if it is
    hint: str | None = None  # what to do instead; set with the reason

    @property
    def supported(self) -> bool:
        return self.reason is None

    @property
    def subject(self) -> str:
        return self.type if self.prop is None else f"{self.type}.{self.prop}"

    def __str__(self) -> str:
        text = f"{self.kind.value} {self.subject}"
        if self.before is not None and self.after is not None:
            text += f": {_line(self.before)} -> {_line(self.after)}"
        elif self.before is not None:
            text += f": drops {_line(self.before)}"
        elif self.after is not None:
            text += f": {_line(self.after)}"
        if self.fill is not None:
            text += f" filled from {self.fill.kind} {self.fill.given!r}"
        if self.reason is not None:
            return f"{text} [refused: {self.reason}; {self.hint}]"
        return f"{text} [{self.cost}{', loses data' if self.loss else ''}]"

    def to_stored(self) -> dict[str, Any]:
        """The step as the history row of its commit keeps it."""
        return {
            "step": self.kind.value,
            "type": self.type_id,
            "property": self.prop_id,
            "from": self.before,
            "to": self.after,
            "fill": None if self.fill is None else self.fill.to_stored(),
            "lost": None,
        }

    def report(self) -> SchemaStepReport:
        """The step as documents have it."""
        return SchemaStepReport(
            kind=self.kind.value,
            type=self.type,
            type_id=self.type_id,
            property=self.prop,
            property_id=self.prop_id,
            before=self.before,
            after=self.after,
            fill=None if self.fill is None else self.fill.to_stored(),
            supported=self.supported,
            loss=self.loss,
            cost=SchemaStepCost(self.cost.requests, self.cost.requests_a_fragment, self.cost.scans),
            reason=self.reason,
            hint=self.hint,
        )

    def to_dict(self) -> dict[str, Any]:
        return self.report().to_dict()


@dataclass(frozen=True, repr=False)
class SchemaPlan:
    """How one schema becomes another. ``new`` has its identities: what stays keeps them, what is added has new ones."""

    old: Catalog = field(repr=False)
    new: Catalog = field(repr=False)
    steps: tuple[SchemaStep, ...] = ()
    hard: bool = False  # whether drops also take the bytes away, by rewriting what holds them
    fill: Mapping[str, object] | None = field(default=None, repr=False)  # as it was given

    def __repr__(self) -> str:
        found = "" if self.supported else "not supported, "
        found += "with loss" if self.loss else "no loss"
        steps = list_text([f"{step.kind.value} {step.subject}" for step in self.steps], 4)
        return f"<SchemaPlan {found}: {steps or 'nothing to do'}>"

    @property
    def supported(self) -> bool:
        return all(step.supported for step in self.steps)

    @property
    def loss(self) -> bool:
        """Whether a type or property is dropped, or what a property may hold gets less."""
        return any(step.loss for step in self.steps)

    @property
    def drops(self) -> tuple[SchemaStep, ...]:
        """The steps that drop a type or a property."""
        return tuple(step for step in self.steps if step.kind in (StepKind.DROP_TYPE, StepKind.DROP_PROPERTY))

    @property
    def is_empty(self) -> bool:
        return not self.steps

    @property
    def refused(self) -> tuple[SchemaStep, ...]:
        return tuple(step for step in self.steps if not step.supported)

    @cached_property
    def old_id(self) -> str:
        return schema_id(canonical_text(self.old))

    @cached_property
    def new_id(self) -> str:
        return schema_id(canonical_text(self.new))

    def to_stored(self) -> dict[str, Any]:
        """The member ``schema`` of the commit's history row."""
        return {"from": self.old_id, "to": self.new_id, "steps": [step.to_stored() for step in self.steps]}

    def report(self) -> SchemaPlanReport:
        """The plan as documents have it."""
        return SchemaPlanReport(self.supported, self.loss, self.hard, tuple(step.report() for step in self.steps))

    def to_dict(self) -> dict[str, Any]:
        return self.report().to_dict()

    def __str__(self) -> str:
        if self.is_empty:
            return "no change"
        head = "supported" if self.supported else "not supported"
        return "\n".join([f"{head}, {'loses data' if self.loss else 'loses nothing'}", *(f"  {s}" for s in self.steps)])

    def to_mermaid(self) -> str:
        """The new schema as a picture, with what is added, changed and dropped."""
        from omnigraph.schema.graphtext import to_mermaid

        return to_mermaid(self)

    def to_dot(self) -> str:
        """As ``to_mermaid``, for Graphviz."""
        from omnigraph.schema.graphtext import to_dot

        return to_dot(self)

    def _repr_html_(self) -> str:
        from omnigraph.schema.view import plan_html

        return plan_html(self)


# Renames first, so that later steps find the new names; rules go before what they name and come after it.
_PHASES = {
    StepKind.RENAME_TYPE: 0,
    StepKind.RENAME_PROPERTY: 1,
    StepKind.DROP_PROPERTY: 3,
    StepKind.NULLABLE: 4,
    StepKind.WIDEN: 5,
    StepKind.REQUIRED: 6,
    StepKind.ADD_PROPERTY: 7,
    StepKind.ADD_TYPE: 8,
    StepKind.KEY: 9,
    StepKind.ENDPOINTS: 9,
    StepKind.RETYPE: 9,
    StepKind.RULE: 10,
    StepKind.DROP_TYPE: 11,
}
_RULE_DROPPED = 2


def in_order(steps: Iterable[SchemaStep]) -> tuple[SchemaStep, ...]:
    """The steps in the order in which they can be applied one by one. Equal phases keep the order given."""

    def phase(step: SchemaStep) -> int:
        if step.kind is StepKind.RULE and step.after is None:
            return _RULE_DROPPED
        if step.kind is StepKind.RULE and step.loss:  # an enum that narrows is a change of type
            return _PHASES[StepKind.WIDEN]
        return _PHASES[step.kind]

    return tuple(sorted(steps, key=phase))


def _line(text: str) -> str:
    return " ".join(text.split())
