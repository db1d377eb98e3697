"""Small schemas for the tests of schema changes, and what a plan's steps make of a schema, worked out without the product's diff."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from omnigraph.schema import Catalog, parse_schema
from omnigraph.schema.catalog import EdgeType, NodeType
from omnigraph.schema.plan import SchemaStep, StepKind
from omnigraph.schema.printer import format_annotation, format_rule


def counter(prefix: str = "id") -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"{prefix}-{next(numbers)}"


def accepted(text: str, mint: Callable[[], str] | None = None) -> Catalog:
    return parse_schema(text, mint=mint or counter())


# --- a replay of steps: types as plain texts, by identity ---------------------------------------------------------------


@dataclass
class Table:
    name: str
    head: str  # "node", or the identities of what an edge joins
    names: dict[str, str] = field(default_factory=dict)  # of properties, by identity
    types: dict[str, str] = field(default_factory=dict)
    rules: Counter[str] = field(default_factory=Counter)  # texts in which identities stand for names
    old_names: dict[str, str] = field(default_factory=dict, compare=False)


Replay = dict[str, Table]


def by_ids(text: str, names: dict[str, str]) -> str:
    """A rule with identities for the names of properties. Names of the material never are words of the language."""
    for known, name in names.items():
        text = re.sub(rf'(?<![@\w"-]){re.escape(name)}(?![\w-])', f"<{known}>", text)
    if text.startswith(("@unique", "@index")):
        inside = sorted(part.strip() for part in text[text.index("(") + 1 : -1].split(","))
        text = f"{text[: text.index('(')]}({', '.join(inside)})"
    return text


def as_replay(catalog: Catalog) -> Replay:
    return {t.type_id: as_table(t, {n.name: n.type_id for n in catalog.nodes.values()}) for t in catalog.types()}


def as_table(declared: NodeType | EdgeType, node_ids: dict[str, str], ids: dict[str, str] | None = None) -> Table:
    """``ids``: identities of properties by name, where the type has none."""
    known = {p.name: (ids or {}).get(p.name) or p.prop_id for p in declared.properties}
    names = {i: n for n, i in known.items()}
    texts = [format_rule("unique", u) for u in declared.uniques] + [format_rule("index", i) for i in declared.indexes]
    texts += [format_annotation(a) for a in declared.annotations if a.name != "rename_from"]
    if isinstance(declared, EdgeType):
        head = f"{node_ids[declared.src_type]}>{node_ids[declared.dst_type]}"
        if not declared.card.is_unbounded:
            texts.append(f"@card({declared.card.min}..{'' if declared.card.max is None else declared.card.max})")
    else:
        head = "node"
        texts += [format_rule("range", r) for r in declared.ranges] + [format_rule("check", c) for c in declared.checks]
        texts += [f"{e.property}:{format_rule('embed', e)}" for e in declared.embeds]
        texts += [f"implements {', '.join(declared.implements)}"] * bool(declared.implements)
        texts += [format_rule("key", declared.key)] if declared.key else []
    for prop in declared.properties:
        texts += [f"{prop.name}:{format_annotation(a)}" for a in prop.annotations if a.name != "rename_from"]
    types = {known[p.name]: str(p.type) for p in declared.properties}
    return Table(declared.name, head, names, types, Counter(by_ids(text, names) for text in texts), names.copy())


def replay(old: Catalog, new: Catalog, steps: tuple[SchemaStep, ...]) -> Replay:
    """What the steps make of ``old``, one after the other. Each has to find what it says it changes.

    ``new`` only gives the identities of the properties of an added type, which its step does not carry.
    """
    tables = as_replay(old)
    interfaces = {i.type_id for c in (old, new) for i in c.interfaces.values()}
    text = "\n".join(f"interface {i.name} {{ }}" for i in new.interfaces.values())
    for step in steps:
        if step.type_id in interfaces:
            continue
        if step.kind is StepKind.ADD_TYPE:
            assert step.after is not None and step.type_id not in tables
            nodes = "".join(f"node {n} {{}}\n" for n in new.nodes if n != step.type)
            added = parse_schema(f"{text}\n{nodes}{step.after}").type(step.type)
            ids = {p.name: p.prop_id for p in new.type(step.type).properties}
            tables[step.type_id] = as_table(added, {n.name: n.type_id for n in new.nodes.values()}, ids)
        elif step.kind is StepKind.DROP_TYPE:
            del tables[step.type_id]
        else:
            _replay_one(tables[step.type_id], step)
    return tables


def _replay_one(table: Table, step: SchemaStep) -> None:
    if step.kind is StepKind.RENAME_TYPE:
        assert (table.name, step.before) == (step.before, table.name)
        table.name = step.after or ""
        return
    if step.kind is StepKind.RULE and (step.before or step.after or "")[0] in "@i":
        for text, count in ((step.before, -1), (step.after, 1)):
            if text is None or text.startswith("@rename_from"):
                continue
            # A rule that goes is written with the names before the change, one that comes with those after it.
            names = table.old_names if count < 0 else table.names
            if step.prop_id is not None and not text.startswith(("@range", "@check")):
                text = f"{names[step.prop_id]}:{text}"
            table.rules[by_ids(text, names)] += count
            assert table.rules[by_ids(text, names)] >= 0, (table, step)
        table.rules = +table.rules
        return
    known = step.prop_id
    assert known is not None
    if step.kind is StepKind.ADD_PROPERTY:
        assert step.after is not None and known not in table.names
        prop = parse_schema(f"node N {{ {step.after} }}").node("N").properties[0]
        table.names[known], table.types[known] = prop.name, str(prop.type)
        for annotation in prop.annotations:
            if annotation.name != "rename_from":
                table.rules[by_ids(f"{prop.name}:{format_annotation(annotation)}", table.names)] += 1
    elif step.kind is StepKind.DROP_PROPERTY:
        name = table.names.pop(known)
        del table.types[known]
        assert (step.before or "").startswith(f"{name}: ")
        table.rules = Counter({r: n for r, n in table.rules.items() if not r.startswith(f"<{known}>:")})
    elif step.kind is StepKind.RENAME_PROPERTY:
        assert table.names[known] == step.before
        table.names[known] = step.after or ""
    else:
        assert table.types[known] == step.before, (table, step)
        table.types[known] = step.after or ""
