"""Text to syntax tree: the whole grammar of ``.pg``, by hand, without a token list.

This module owns the grammar and nothing of its meaning: every text it accepts has the right form, ``resolve`` says
whether it makes sense. Words are read at the place where they are expected, so no keyword is reserved and a keyword
needs no blank after it. Nothing here recurses on the input, so no text can exhaust the stack.
"""

from __future__ import annotations

import math
import re
from typing import NoReturn

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

# Possessive, so that a long run of blanks and comments is never tried a second time.
_BLANK = re.compile(r"(?:[ \t\r\n]++|//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/)*+")
_TYPE_NAME = re.compile(r"[A-Z][A-Za-z0-9_]*")
_NAME = re.compile(r"[a-z_][A-Za-z0-9_]*")
_WORD = re.compile(r"[A-Za-z0-9_]+")
_ENUM_VALUE = re.compile(r"[A-Za-z0-9_-]+")
_DIGITS = re.compile(r"[0-9]+")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_STRING_PART = re.compile(r'[^"\\]+')
_CONSTRAINT = re.compile(r"(?:key|unique|index|range|check)\Z")

_BASES = {kind.value: kind for kind in ScalarKind if kind is not ScalarKind.VECTOR}
_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}

_DIM_MAX = 2**31 - 1
_CARD_MAX = 2**32 - 1
_INTEGER_MIN, _INTEGER_MAX = -(2**63), 2**64 - 1  # everything that an integer property can hold
_DIGITS_MAX = 20  # of the largest integer; longer ones are refused before they are converted
_NUMBER_CHARS_MAX = 1_000  # of a number with a fraction; more than the largest and the finest float need


def parse(source: Source, limits: Limits) -> FileSyntax:
    """The syntax tree, or ``SchemaInvalid`` / ``LimitExceeded`` with line and column."""
    limits.check("source_text_bytes", len(source.text.encode("utf-8", "surrogatepass")), where="schema")
    source.require_text()
    return _Parser(source, limits.name_chars).file()


class _Parser:
    """``pos`` always stands on the next token: whatever is taken, the blanks behind it go too."""

    def __init__(self, source: Source, name_chars: int) -> None:
        self.source = source
        self.text = source.text
        self.name_chars = name_chars
        self.pos = 1 if self.text.startswith("\ufeff") else 0  # a byte order mark says nothing
        self.skip()

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
            elif _NAME.match(self.text, self.pos):
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
        number = _NUMBER.match(self.text, at)
        if number is not None:
            low = self.number()
            if self.take(".."):
                high = self.number() if _NUMBER.match(self.text, self.pos) else None
                return Arg(ArgKind.BOUND, at, lo=low, hi=high)
            if number.group().startswith("-"):
                self.fail("`..`")
            return Arg(ArgKind.NUMBER, at, number.group())
        return self.argument()

    def argument(self) -> Arg:
        at = self.pos
        word = _NAME.match(self.text, at)
        if word is not None and word.group() not in ("true", "false"):
            return Arg(ArgKind.NAME, at, self.name("a name").text)
        return self.literal("a name, a string, a number, `true` or `false`")

    def literal(self, expected: str) -> Arg:
        at = self.pos
        if self.peek('"'):
            return Arg(ArgKind.STRING, at, self.string())
        number = _NUMBER.match(self.text, at)
        if number is not None and not self.peek("-"):
            self.advance(number.end())
            return Arg(ArgKind.NUMBER, at, number.group())
        word = _NAME.match(self.text, at)
        if word is not None and word.group() in ("true", "false"):
            self.advance(word.end())
            return Arg(ArgKind.BOOL, at, word.group())
        self.fail(expected)

    # --- tokens -----------------------------------------------------------------------------------------------------

    def annotation_name(self) -> str:
        """The name after ``@``, or nothing where no ``@`` stands."""
        return self.name("the name of an annotation").text if self.take("@") else ""

    def type_name(self, expected: str) -> Word:
        return self._named(_TYPE_NAME, expected, "it begins with a capital letter A-Z; then letters, digits and `_`")

    def name(self, expected: str) -> Word:
        return self._named(_NAME, expected, "it begins with a small letter a-z or `_`; then letters, digits and `_`")

    def _named(self, pattern: re.Pattern[str], expected: str, hint: str) -> Word:
        at = self.pos
        found = pattern.match(self.text, at)
        if found is None:
            self.fail(expected, hint=hint)
        length = found.end() - at
        if length > self.name_chars:
            raise self.source.over_limit(
                f"{expected} is too long", at, limit="name_chars", bound=self.name_chars, actual=length
            )
        self.advance(found.end())
        return Word(found.group(), at)

    def word(self, expected: str) -> Word:
        at = self.pos
        found = _WORD.match(self.text, at)
        if found is None:
            self.fail(expected)
        self.advance(found.end())
        return Word(found.group(), at)

    def string(self) -> str:
        start = at = self.pos
        parts: list[str] = []
        at += 1
        while True:
            plain = _STRING_PART.match(self.text, at)
            if plain is not None:
                parts.append(plain.group())
                at = plain.end()
            sign = self.text[at : at + 1]
            if sign == '"':
                self.advance(at + 1)
                return "".join(parts)
            escape = self.text[at + 1 : at + 2]
            if not sign or not escape:
                raise self.source.invalid("this string is not closed", start)
            if escape not in _ESCAPES:
                raise self.source.invalid(
                    f"unsupported escape {quoted(sign + escape)}", at, hint=r"the escapes are \" \\ \n \r \t"
                )
            parts.append(_ESCAPES[escape])
            at += 2

    def whole_number(self, what: str, bound: int, *, otherwise: str | None = None) -> int:
        at = self.pos
        found = _DIGITS.match(self.text, at)
        if found is None:
            self.fail(otherwise or what)
        digits = found.group().lstrip("0") or "0"
        if len(digits) > _DIGITS_MAX or int(digits) > bound:
            raise self.source.invalid(f"{what} is out of range: at most {bound}", at)
        self.advance(found.end())
        return int(digits)

    def number(self) -> int | float:
        """A bound: an integer as far as an integer property reaches, else a finite float."""
        at = self.pos
        found = _NUMBER.match(self.text, at)
        if found is None:
            self.fail("a number")
        self.advance(found.end())
        text = found.group()
        if "." in text:
            value = float(text) if len(text) <= _NUMBER_CHARS_MAX else math.inf
            if not math.isfinite(value):
                raise self.source.invalid("this number is too large or too long", at)
            return value + 0.0  # -0.0 becomes 0.0
        digits = text.lstrip("-0") or "0"
        value = int(digits) if len(digits) <= _DIGITS_MAX else _INTEGER_MAX + 1
        value = -value if text.startswith("-") else value
        if not _INTEGER_MIN <= value <= _INTEGER_MAX:
            raise self.source.invalid("this number is out of the range of every integer type", at)
        return value

    def peek(self, sign: str) -> bool:
        return self.text.startswith(sign, self.pos)

    def take(self, sign: str) -> bool:
        if not self.text.startswith(sign, self.pos):
            return False
        self.advance(self.pos + len(sign))
        return True

    def expect(self, sign: str, expected: str | None = None) -> None:
        if not self.take(sign):
            self.fail(expected or f"`{sign}`")

    def advance(self, pos: int) -> None:
        self.pos = pos
        self.skip()

    def skip(self) -> None:
        blank = _BLANK.match(self.text, self.pos)
        if blank is not None:
            self.pos = blank.end()
        if self.text.startswith("/*", self.pos):
            raise self.source.invalid("this comment is not closed", self.pos)

    def fail(self, expected: str, *, hint: str | None = None) -> NoReturn:
        raise self.source.unexpected(expected, self.pos, hint=hint)
