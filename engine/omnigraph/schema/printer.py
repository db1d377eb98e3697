"""A catalog as ``.pg`` text that declares the same: parsed again it has the same shape and hash.

Nodes are printed with all their properties, those of interfaces included, and with their constraints in the body.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from omnigraph.schema.catalog import (
    Annotation,
    Catalog,
    Check,
    EdgeType,
    Embed,
    InterfaceType,
    NodeType,
    Property,
    Range,
    TableType,
)

_ESCAPES = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def format_schema(catalog: Catalog) -> str:
    declarations = [_interface(catalog.interfaces[name]) for name in sorted(catalog.interfaces)]
    declarations += [_node(catalog.nodes[name]) for name in sorted(catalog.nodes)]
    declarations += [_edge(catalog.edges[name]) for name in sorted(catalog.edges)]
    return "\n".join(declarations)


def format_type(declared: TableType) -> str:
    """One node or edge type with all it declares."""
    return _node(declared) if isinstance(declared, NodeType) else _edge(declared)


def _interface(declared: InterfaceType) -> str:
    return _block(f"interface {declared.name}", [format_property(p) for p in declared.properties])


def _node(declared: NodeType) -> str:
    head = f"node {declared.name}" + _annotations(declared.annotations)
    if declared.implements:
        head += " implements " + ", ".join(declared.implements)
    embeds = {embed.property: embed for embed in declared.embeds}
    lines = [format_property(p, embeds.get(p.name)) for p in declared.properties]
    if declared.key is not None:
        lines.append(format_rule("key", declared.key))
    lines += [format_rule("unique", columns) for columns in declared.uniques]
    lines += [format_rule("index", columns) for columns in declared.indexes]
    lines += [format_rule("range", r) for r in declared.ranges]
    lines += [format_rule("check", c) for c in declared.checks]
    return _block(head, lines)


def _edge(declared: EdgeType) -> str:
    head = f"edge {declared.name}: {declared.src_type} -> {declared.dst_type}"
    if not declared.card.is_unbounded:
        head += f" @card({declared.card.min}..{'' if declared.card.max is None else declared.card.max})"
    head += _annotations(declared.annotations)
    lines = [format_property(p) for p in declared.properties]
    lines += [format_rule("unique", columns) for columns in declared.uniques]
    lines += [format_rule("index", columns) for columns in declared.indexes]
    return _block(head, lines) if lines else head + "\n"


def _block(head: str, lines: Iterable[str]) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"{head} {{\n{body}}}\n" if body else f"{head} {{}}\n"


def format_property(prop: Property, embed: Embed | None = None) -> str:
    """One property with its annotations, without the rules that a body states."""
    text = f"{prop.name}: {prop.type}"
    if embed is not None:
        text += " " + format_rule("embed", embed)
    return text + _annotations(prop.annotations)


def format_rule(kind: str, rule: tuple[str, ...] | Range | Check | Embed) -> str:
    """One rule: as it stands in a body; @embed as it stands on its property."""
    if isinstance(rule, Range):
        return f"@range({rule.property}, {_bounds(rule)})"
    if isinstance(rule, Check):
        return f"@check({rule.property}, {_string(rule.pattern)})"
    if isinstance(rule, Embed):
        model = () if rule.model is None else (("model", rule.model),)
        return format_annotation(Annotation("embed", rule.source, model))
    return f"@{kind}({', '.join(rule)})"


def format_annotation(annotation: Annotation) -> str:
    return f"@{annotation.name}{_arguments(annotation)}"


def _annotations(annotations: Iterable[Annotation]) -> str:
    return "".join(f" {format_annotation(a)}" for a in annotations)


def _arguments(annotation: Annotation) -> str:
    if annotation.value is None:
        return ""
    keywords = "".join(f", {name}={_string(value)}" for name, value in annotation.kwargs)
    return f"({_string(annotation.value)}{keywords})"


def _bounds(bounds: Range) -> str:
    return f"{_number(bounds.min)}..{_number(bounds.max)}"


def _number(value: int | float | None) -> str:
    if value is None:
        return ""
    # The language has no exponents: every digit is written, as many as it takes to read the same number back.
    return str(value) if isinstance(value, int) else _decimal(value)


def _decimal(value: float) -> str:
    text = format(Decimal(repr(value)), "f")
    return text if "." in text else text + ".0"


def _string(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'
