"""What a person sees of a schema: its text, its digests, its pictures, as plain values."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from omnigraph.schema.canonical import canonical_text, schema_id
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.graphtext import to_dot, to_mermaid
from omnigraph.schema.plan import SchemaPlan
from omnigraph.schema.svg import to_svg


@dataclass(frozen=True)
class SchemaView:
    """An accepted schema. ``str()`` is the text as it was given."""

    catalog: Catalog

    @cached_property
    def schema_id(self) -> str:
        return schema_id(canonical_text(self.catalog))

    @property
    def hash(self) -> str:
        return self.catalog.hash

    def to_mermaid(self) -> str:
        return to_mermaid(self.catalog)

    def to_dot(self) -> str:
        return to_dot(self.catalog)

    def to_dict(self) -> dict[str, Any]:
        """The canonical document with both digests and the text."""
        document: dict[str, Any] = json.loads(canonical_text(self.catalog))
        return {"schema_id": self.schema_id, "hash": self.hash, "source": self.catalog.source, **document}

    def __str__(self) -> str:
        return self.catalog.source

    def __repr__(self) -> str:
        return f"<SchemaView {catalog_line(self.catalog)}>"

    def _repr_html_(self) -> str:
        return catalog_html(self.catalog)


def catalog_line(catalog: Catalog) -> str:
    counts = (
        (len(catalog.nodes), "node type"),
        (len(catalog.edges), "edge type"),
        (len(catalog.interfaces), "interface"),
    )
    return ", ".join(f"{count} {what}{'' if count == 1 else 's'}" for count, what in counts)


def catalog_html(catalog: Catalog) -> str:
    return f"<div><p>{catalog_line(catalog)}</p>{to_svg(catalog)}</div>"


def plan_html(plan: SchemaPlan) -> str:
    """The steps as a table, and what they change as a picture."""
    if plan.is_empty:
        return "<p>no change</p>"
    rows = "".join(f"<tr>{_cells(row)}</tr>" for row in _rows(plan))
    titles = "".join(f"<th>{title}</th>" for title in ("step", "of", "from", "to", "cost"))
    head = html.escape(str(plan).splitlines()[0])
    return f"<div><p>{head}</p><table><tr>{titles}</tr>{rows}</table>{to_svg(plan)}</div>"


def _rows(plan: SchemaPlan) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for step in plan.steps:
        cost = str(step.cost) + (", loses data" if step.loss else "")
        if step.reason is not None:
            cost = f"refused: {step.reason}; {step.hint}"
        found.append((step.kind.value, step.subject, step.before or "", step.after or "", cost))
    return found


def _cells(row: tuple[str, ...]) -> str:
    return "".join(f"<td>{html.escape(cell)}</td>" for cell in row)
