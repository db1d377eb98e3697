"""What may be constrained, and how: annotations of properties and constraints of bodies become rules of a type.

This module owns every rule about @key, @unique, @index, @range, @check, @embed and the annotations of documentation.
It must not know names of other types. Each refusal carries the place of what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from omnigraph.schema.catalog import Annotation, Check, Embed, PropType, Range, ScalarKind
from omnigraph.schema.pattern import PatternInvalid, compile_pattern
from omnigraph.schema.source import Source, quoted
from omnigraph.schema.syntax import AnnotationSyntax, Arg, ArgKind, ConstraintSyntax, PropertySyntax

_COLUMN_RULES = ("key", "unique", "index")
_PROPERTY_RULES = (*_COLUMN_RULES, "embed")


@dataclass(slots=True)
class Rules:
    """Of one type, while it is put together. ``tables`` freeze it."""

    key: tuple[str, ...] | None = None
    uniques: set[tuple[str, ...]] = field(default_factory=set)
    indexes: set[tuple[str, ...]] = field(default_factory=set)
    ranges: set[Range] = field(default_factory=set)
    checks: set[Check] = field(default_factory=set)
    embeds: set[Embed] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Declared:
    """A property of a node or edge, its own or taken over from an interface (then ``at`` is where it is taken over)."""

    name: str
    type: PropType
    at: int
    annotations: tuple[AnnotationSyntax, ...]


class RuleReader:
    """Reads the rules of one type. ``owner`` is how messages name it; ``is_edge`` adds src and dst, takes away keys."""

    def __init__(self, source: Source, owner: str, properties: Mapping[str, Declared], *, is_edge: bool) -> None:
        self.source = source
        self.owner = owner
        self.properties = properties
        self.is_edge = is_edge
        self.rules = Rules()

    # --- constraints of the body ------------------------------------------------------------------------------------

    def read_constraint(self, constraint: ConstraintSyntax) -> None:
        kind, at = constraint.kind, constraint.at
        if self.is_edge and kind in ("key", "range", "check"):
            raise self.source.invalid(f"{self.owner}: edges take no @{kind}", at)
        if kind == "range":
            self._read_range(constraint)
        elif kind == "check":
            self._read_check(constraint)
        else:
            columns: list[str] = []
            for arg in constraint.args:
                if arg.kind is not ArgKind.NAME:
                    raise self.source.unexpected("the name of a property", arg.at)
                if arg.text in columns:
                    raise self.source.invalid(f"{self.owner}: @{kind} names `{arg.text}` twice", arg.at)
                self._check_column(kind, arg.text, arg.at)
                columns.append(arg.text)
            self._add_columns(kind, tuple(columns), at)

    def _read_range(self, constraint: ConstraintSyntax) -> None:
        name, bound = self._two_arguments(constraint, ArgKind.BOUND, "a bound: `lo..hi`, `lo..` or `..hi`")
        if not name.type.is_numeric:
            raise self.source.invalid(
                f"{self.owner}: @range needs a number, `{name.name}` is {name.type}", constraint.args[0].at
            )
        if bound.lo is not None and bound.hi is not None and bound.lo > bound.hi:
            raise self.source.invalid(
                f"{self.owner}: the lower bound {bound.lo} exceeds the upper {bound.hi}", bound.at
            )
        self.rules.ranges.add(Range(name.name, bound.lo, bound.hi))

    def _read_check(self, constraint: ConstraintSyntax) -> None:
        name, pattern = self._two_arguments(constraint, ArgKind.STRING, "a regular expression in quotes")
        if name.type.scalar is not ScalarKind.STRING or name.type.is_list:
            raise self.source.invalid(
                f"{self.owner}: @check needs a String, `{name.name}` is {name.type}", constraint.args[0].at
            )
        try:
            compile_pattern(pattern.text)
        except PatternInvalid as error:
            raise self.source.invalid(
                f"{self.owner}: not a regular expression: {error}",
                pattern.at,
                hint="write the pattern in RE2 syntax, without look-around and back-references",
            ) from error
        self.rules.checks.add(Check(name.name, pattern.text))

    def _two_arguments(self, constraint: ConstraintSyntax, kind: ArgKind, expected: str) -> tuple[Declared, Arg]:
        first = constraint.args[0]
        if first.kind is not ArgKind.NAME:
            raise self.source.unexpected("the name of a property", first.at)
        if len(constraint.args) != 2:
            at = constraint.args[2].at if len(constraint.args) > 2 else constraint.at
            raise self.source.invalid(f"@{constraint.kind} takes two arguments: a property and {expected}", at)
        second = constraint.args[1]
        if second.kind is not kind:
            raise self.source.unexpected(expected, second.at)
        return self._declared(first.text, first.at), second

    # --- annotations of properties ----------------------------------------------------------------------------------

    def read_annotations(self, declared: Declared) -> tuple[Annotation, ...]:
        """Turns @key, @unique, @index and @embed into rules; the others are kept."""
        kept: list[Annotation] = []
        for annotation in declared.annotations:
            if annotation.name in _COLUMN_RULES:
                self._check_column(annotation.name, declared.name, annotation.at)
                self._add_columns(annotation.name, (declared.name,), annotation.at)
            elif annotation.name == "embed":
                self._add_embed(declared, annotation)
            else:
                kept.append(as_annotation(annotation))
        return sort_annotations(kept)

    def _add_embed(self, declared: Declared, annotation: AnnotationSyntax) -> None:
        if self.is_edge:
            raise self.source.invalid(f"{self.owner}: edges take no @embed", annotation.at)
        assert annotation.value is not None  # check_property has seen to it
        target = self.properties.get(annotation.value)
        if target is None:
            raise self.source.invalid(
                f"{self.owner}: @embed names {quoted(annotation.value)}, which is not declared", annotation.value_at
            )
        if target.type.scalar is not ScalarKind.STRING or target.type.is_list:
            raise self.source.invalid(
                f"{self.owner}: @embed needs a String to embed, `{target.name}` is {target.type}", annotation.value_at
            )
        model = next((value for _, value in annotation.kwargs), None)
        self.rules.embeds.add(Embed(declared.name, target.name, model))

    # --- columns ----------------------------------------------------------------------------------------------------

    def _declared(self, name: str, at: int) -> Declared:
        found = self.properties.get(name)
        if found is None:
            raise self.source.invalid(f"{self.owner}: no property `{name}` is declared", at)
        return found

    def _check_column(self, kind: str, name: str, at: int) -> None:
        if self.is_edge and kind == "key":
            raise self.source.invalid(f"{self.owner}: edges take no @key", at)
        if self.is_edge and name in ("src", "dst"):
            return
        prop_type = self._declared(name, at).type
        if kind == "index":
            if prop_type.scalar is ScalarKind.BLOB:
                raise self.source.invalid(f"{self.owner}: @index cannot cover `{name}`, a {prop_type}", at)
        elif not prop_type.is_keyable:
            raise self.source.invalid(f"{self.owner}: @{kind} cannot cover `{name}`, a {prop_type}", at)
        elif kind == "key" and prop_type.nullable:
            raise self.source.invalid(
                f"{self.owner}: the key `{name}` is nullable",
                at,
                hint=f"write its type without `?`: {str(prop_type)[:-1]}",
            )

    def _add_columns(self, kind: str, columns: tuple[str, ...], at: int) -> None:
        if kind == "key":
            if self.rules.key is not None:
                raise self.source.invalid(
                    f"{self.owner}: a second key; the first is ({', '.join(self.rules.key)})",
                    at,
                    hint="name all key columns in one @key(…), or write @unique for the others",
                )
            self.rules.key = columns
        elif kind == "unique":
            self.rules.uniques.add(tuple(sorted(columns)))
        else:
            self.rules.indexes.add(tuple(sorted(columns)))


def check_property(source: Source, owner: str, prop: PropertySyntax, *, is_edge: bool) -> None:
    """The rules that a property and its annotations must keep by themselves, also in an interface."""
    seen: set[str] = set()
    for annotation in prop.annotations:
        name, at = annotation.name, annotation.at
        if name in ("range", "check"):
            raise source.invalid(f"{owner}: @{name} needs arguments: @{name}({prop.name}, …)", at)
        if name in ("instruction", "stub"):
            raise source.invalid(f"{owner}: @{name} belongs on a type, not on a property", at)
        if name in (*_PROPERTY_RULES, "description", "rename_from"):
            if name in seen:
                raise source.invalid(f"{owner}: @{name} stands twice on `{prop.name}`", at)
            seen.add(name)
        if name in ("description", "rename_from"):
            _require_value(source, owner, annotation)
        if name not in _PROPERTY_RULES:
            continue
        if is_edge and name in ("key", "embed"):
            raise source.invalid(f"{owner}: edges take no @{name}", at)
        if prop.type.is_list or prop.type.scalar is ScalarKind.BLOB:
            raise source.invalid(f"{owner}: @{name} cannot stand on `{prop.name}`, a {prop.type}", at)
        if name == "embed":
            _check_embed(source, owner, prop, annotation)
        elif annotation.value is not None:
            raise source.invalid(f"{owner}: @{name} on a property takes no value", annotation.value_at)


def check_type_annotations(source: Source, owner: str, annotations: tuple[AnnotationSyntax, ...]) -> None:
    seen: set[str] = set()
    for annotation in annotations:
        name, at = annotation.name, annotation.at
        if name in (*_PROPERTY_RULES, "range", "check"):
            raise source.invalid(f"{owner}: @{name} belongs on a property or in the body, not on the type", at)
        if name in ("description", "instruction", "rename_from"):
            if name in seen:
                raise source.invalid(f"{owner}: @{name} stands twice", at)
            seen.add(name)
            _require_value(source, owner, annotation)


def check_stub(
    source: Source,
    owner: str,
    annotations: tuple[AnnotationSyntax, ...],
    properties: Mapping[str, Declared],
    key: tuple[str, ...] | None,
) -> None:
    """``@stub(p)`` on a node: a row of its key and ``p`` alone must be one that the type allows."""
    stubs = [annotation for annotation in annotations if annotation.name == "stub"]
    if not stubs:
        return
    if len(stubs) > 1:
        raise source.invalid(f"{owner}: @stub stands twice", stubs[1].at, hint="keep one of them")
    stub = stubs[0]
    example = "write @stub(p), where p is a Bool property of the node"
    if not stub.value or stub.kwargs:
        raise source.invalid(f"{owner}: @stub takes the name of one property", stub.at, hint=example)
    marker = properties.get(stub.value)
    if marker is None:
        raise source.invalid(f"{owner}: @stub names {quoted(stub.value)}, which is not declared", stub.value_at)
    if marker.type.scalar is not ScalarKind.BOOL or marker.type.is_list:
        raise source.invalid(
            f"{owner}: @stub needs a Bool, `{marker.name}` is {marker.type}", stub.value_at, hint=example
        )
    if key is None:
        raise source.invalid(
            f"{owner}: @stub needs a @key: a stub is made of its key alone",
            stub.at,
            hint="declare which properties identify a row with @key, or leave @stub out",
        )
    if marker.name in key:
        raise source.invalid(
            f"{owner}: @stub cannot name `{marker.name}`, a part of the key",
            stub.value_at,
            hint="declare a Bool property of its own for it",
        )
    for prop in sorted(properties.values(), key=lambda p: p.name):
        if not prop.type.nullable and prop.name not in (*key, marker.name):
            raise source.invalid(
                f"{owner}: @stub needs `{prop.name}` to be nullable, as a stub has no value for it",
                prop.at,
                hint=f"write `{prop.name}: {prop.type}?`, or leave @stub out",
            )


def as_annotation(annotation: AnnotationSyntax) -> Annotation:
    kwargs = tuple(sorted((word.text, value) for word, value in annotation.kwargs))
    return Annotation(annotation.name, annotation.value, kwargs)


def sort_annotations(annotations: list[Annotation]) -> tuple[Annotation, ...]:
    return tuple(sorted(annotations, key=lambda a: (a.name, a.value or "", a.value is not None, a.kwargs)))


def _check_embed(source: Source, owner: str, prop: PropertySyntax, annotation: AnnotationSyntax) -> None:
    if prop.type.scalar is not ScalarKind.VECTOR:
        raise source.invalid(f"{owner}: @embed needs a Vector, `{prop.name}` is {prop.type}", annotation.at)
    if not annotation.value:
        raise source.invalid(f'{owner}: @embed needs the property to embed: @embed("…")', annotation.at)
    for word, _ in annotation.kwargs:
        if word.text != "model":
            raise source.invalid(f"{owner}: @embed knows no keyword `{word.text}`, only `model`", word.at)


def _require_value(source: Source, owner: str, annotation: AnnotationSyntax) -> None:
    if not (annotation.value or "").strip():
        raise source.invalid(f"{owner}: @{annotation.name} is empty", annotation.at)
