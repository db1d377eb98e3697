"""Text to syntax tree: the whole grammar of ``.pg``, by hand, without a token list.

This module owns the grammar and nothing of its meaning: every text it accepts has the right form, ``resolve`` says
whether it makes sense. ``tokens`` reads the words. Nothing here recurses on the input, so no text can exhaust the stack.
"""

from __future__ import annotations

import re

from omnigraph.core.limits import Limits
from omnigraph.schema.catalog import PropType, ScalarKind
from omnigraph.schema.source import Source, quoted
from omnigraph.schema.syntax import (
    AnnotationSyntax,
    Arg,
    ArgKind,
    Body,
    CardSyntax,
    ConstraintSyntax,
    EdgeSyntax,
    FileSyntax,
    InterfaceSyntax,
    NodeSyntax,
    PropertySyntax,
    Word,
)
from omnigraph.schema.tokens import NAME, NUMBER, TokenReader

_ENUM_VALUE = re.compile(r"[A-Za-z0-9_-]+")
_CONSTRAINT = re.compile(r"(?:key|unique|index|range|check)\Z")

_BASES = {kind.value: kind for kind in ScalarKind if kind is not ScalarKind.VECTOR}

_DIM_MAX = 2**31 - 1
_CARD_MAX = 2**32 - 1


def parse(source: Source, limits: Limits) -> FileSyntax:
    """The syntax tree, or ``SchemaInvalid`` / ``LimitExceeded`` with line and column."""
    limits.check("source_text_bytes", len(source.text.encode("utf-8", "surrogatepass")), where="schema")
    source.require_text()
    return _Parser(source, limits.name_chars).file()


class _Parser(TokenReader):
    """The rules of the grammar, one method each."""

    # --- declarations -----------------------------------------------------------------------------------------------

    def file(self) -> FileSyntax:
        interfaces: list[InterfaceSyntax] = []
        nodes: list[NodeSyntax] = []
        edges: list[EdgeSyntax] = []
        while self.pos < len(self.text):
            if self.take("interface"):
                interfaces.append(self.interface())
            elif self.take("node"):
                nodes.append(self.node())
            elif self.take("edge"):
                edges.append(self.edge())
            else:
                self.fail("`interface`, `node` or `edge`")
        return FileSyntax(tuple(interfaces), tuple(nodes), tuple(edges))

    def interface(self) -> InterfaceSyntax:
        name = self.type_name("an interface name")
        if self.peek("@"):
            self.fail("`{`", hint="interfaces take no annotations; put them on the nodes")
        if self.peek("implements") or self.peek(":"):
            self.fail("`{`", hint="an interface cannot extend another; let the node implement both")
        return InterfaceSyntax(name.text, name.at, self.body("interface"))

    def node(self) -> NodeSyntax:
        name = self.type_name("a node type name")
        annotations = self.annotations("a node")
        implements: list[Word] = []
        if self.take("implements"):
            implements.append(self.type_name("an interface name"))
            while self.take(","):
                implements.append(self.type_name("an interface name"))
            if self.peek("@"):
                self.fail("`,` or `{`", hint="annotations of a node stand before `implements`")
        elif not self.peek("{"):
            self.fail("`@`, `implements` or `{`")
        return NodeSyntax(name.text, name.at, annotations, tuple(implements), self.body("node"))

    def edge(self) -> EdgeSyntax:
        name = self.type_name("an edge type name")
        self.expect(":")
        src = self.type_name("the source node type")
        self.expect("->")
        dst = self.type_name("the target node type")
        card = self.card()
        annotations = self.annotations("an edge")
        body = self.body("edge") if self.peek("{") else Body((), ())
        return EdgeSyntax(name.text, name.at, src, dst, card, annotations, body)

    def card(self) -> CardSyntax | None:
        at = self.pos
        if self.annotation_name() != "card":
            self.pos = at
            return None
        self.expect("(")
        low = self.whole_number("the minimum", _CARD_MAX)
        self.expect("..")
        high = None if self.peek(")") else self.whole_number("the maximum", _CARD_MAX, otherwise="a number or `)`")
        self.expect(")")
        return CardSyntax(at, low, high)

    def body(self, owner: str) -> Body:
        self.expect("{")
        properties: list[PropertySyntax] = []
        constraints: list[ConstraintSyntax] = []
        while not self.take("}"):
            if self.peek("@"):
                if owner == "interface":
                    self.fail(
                        "a property or `}`",
                        hint="interfaces hold no constraints in their body; use @key, @unique, @index",
                    )
                constraints.append(self.constraint())
            elif NAME.match(self.text, self.pos):
                properties.append(self.property())
            elif self.peek(","):
                self.fail("a property or `}`", hint="properties are not separated by commas; leave it out")
            else:
                self.fail("a property, a constraint or `}`" if owner != "interface" else "a property or `}`")
        return Body(tuple(properties), tuple(constraints))

    # --- properties -------------------------------------------------------------------------------------------------

    def property(self) -> PropertySyntax:
        name = self.name("a property name")
        self.expect(":")
        type_at = self.pos
        prop_type = self.type()
        return PropertySyntax(name.text, name.at, prop_type, type_at, self.annotations("a property"))

    def type(self) -> PropType:
        at = self.pos
        if self.take("["):
            inner = self.word("the type of the elements")
            if inner.text not in _BASES:
                raise self.source.unexpected(
                    "the type of the elements",
                    inner.at,
                    hint="lists hold " + ", ".join(_BASES) + "; not lists, enums, vectors",
                )
            self.expect("]")
            return PropType(_BASES[inner.text], self.take("?"), is_list=True)
        word = self.word("a type")
        if word.text == "enum":
            self.expect("(")
            values = [self.enum_value()]
            while self.take(","):
                values.append(self.enum_value())
            self.expect(")", "`,` or `)`")
            return PropType(ScalarKind.STRING, self.take("?"), enum=tuple(sorted(set(values))))
        if word.text == "Vector":
            self.expect("(")
            dim_at = self.pos
            dim = self.whole_number("the length of the vector", _DIM_MAX)
            if dim == 0:
                raise self.source.invalid("a vector has at least one element", dim_at)
            self.expect(")")
            return PropType(ScalarKind.VECTOR, self.take("?"), dim=dim)
        if word.text not in _BASES:
            raise self.source.invalid(
                f"unknown type {quoted(word.text)}",
                at,
                hint="the types are " + ", ".join(_BASES) + ", Vector(n), enum(…), […]",
            )
        return PropType(_BASES[word.text], self.take("?"))

    def enum_value(self) -> str:
        found = _ENUM_VALUE.match(self.text, self.pos)
        if found is None:
            self.fail("an enum value", hint="enum values are made of letters, digits, `_` and `-`, without quotes")
        self.advance(found.end())
        return found.group()

    # --- annotations and constraints --------------------------------------------------------------------------------

    def annotations(self, owner: str) -> tuple[AnnotationSyntax, ...]:
        """All that follow. A constraint word with arguments ends them: after a property it belongs to the body."""
        found: list[AnnotationSyntax] = []
        while self.peek("@"):
            at = self.pos
            name = self.annotation_name()
            if _CONSTRAINT.match(name) and self.peek("("):
                self.pos = at
                if owner != "a property":
                    raise self.source.invalid(f"@{name} with arguments stands in the body, not on {owner}", at)
                break
            found.append(self.annotation(name, at, owner))
        return tuple(found)

    def annotation(self, name: str, at: int, owner: str) -> AnnotationSyntax:
        if name == "card":
            raise self.source.invalid(f"@card stands directly after the target type of an edge, not on {owner}", at)
        value, value_at = None, at
        kwargs: list[tuple[Word, str]] = []
        if self.take("("):
            value_at = self.pos
            value = self.argument().text
            while self.take(","):
                key = self.name("a keyword")
                self.expect("=")
                if any(word.text == key.text for word, _ in kwargs):
                    raise self.source.invalid(f"@{name}: keyword `{key.text}` is given twice", key.at)
                kwargs.append((key, self.literal("a string, a number, `true` or `false`").text))
            self.expect(")", "`,` or `)`")
        return AnnotationSyntax(name, at, value, value_at, tuple(kwargs))

    def constraint(self) -> ConstraintSyntax:
        at = self.pos
        name = self.annotation_name()
        if name == "card":
            raise self.source.invalid("@card stands directly after the target type of an edge, not in the body", at)
        if not _CONSTRAINT.match(name):
            raise self.source.invalid(
                f"expected a property, a constraint or `}}`, found @{name[:40]}",
                at,
                hint="constraints are @key, @unique, @index, @range and @check; an annotation follows what it describes",
            )
        self.expect("(")
        args = [self.constraint_argument()]
        while self.take(","):
            args.append(self.constraint_argument())
        self.expect(")", "`,` or `)`")
        return ConstraintSyntax(name, at, tuple(args))

    def constraint_argument(self) -> Arg:
        at = self.pos
        if self.take(".."):
            return Arg(ArgKind.BOUND, at, hi=self.number())
        number = NUMBER.match(self.text, at)
        if number is not None:
            low = self.number()
            if self.take(".."):
                high = self.number() if NUMBER.match(self.text, self.pos) else None
                return Arg(ArgKind.BOUND, at, lo=low, hi=high)
            if number.group().startswith("-"):
                self.fail("`..`")
            return Arg(ArgKind.NUMBER, at, number.group())
        return self.argument()

    def argument(self) -> Arg:
        at = self.pos
        word = NAME.match(self.text, at)
        if word is not None and word.group() not in ("true", "false"):
            return Arg(ArgKind.NAME, at, self.name("a name").text)
        return self.literal("a name, a string, a number, `true` or `false`")

    def literal(self, expected: str) -> Arg:
        at = self.pos
        if self.peek('"'):
            return Arg(ArgKind.STRING, at, self.string())
        number = NUMBER.match(self.text, at)
        if number is not None and not self.peek("-"):
            self.advance(number.end())
            return Arg(ArgKind.NUMBER, at, number.group())
        word = NAME.match(self.text, at)
        if word is not None and word.group() in ("true", "false"):
            self.advance(word.end())
            return Arg(ArgKind.BOOL, at, word.group())
        self.fail(expected)
