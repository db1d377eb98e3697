"""Random mutations: statements as values, and the same statements as a query text with parameters.

Owns a schema with every rule in it and the odds. Few names and small numbers, so that statements meet on the same rows.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

from omnigraph.schema.catalog import Catalog, EdgeType, NodeType, PropType, ScalarKind, TableType
from omnigraph.testing.mutation_reference import Delete, Insert, Statement, Update, Where

SCHEMA = """
node Person {
  name: String @key
  age: I32? @range(age, 0..9)
  mail: String? @unique
  mood: enum(glad, sad)?
  score: F64?
  ratio: F32?
  born: Date?
  seen: DateTime?
  big: U64?
  far: I64?
  small: U32?
  on: Bool?
  tags: [String]?
  marks: [I32]?
  spot: Vector(2)?
}
node Item { number: I64 @key  label: String? @check(label, "^[a-c]*$")  rank: I32?  @unique(label, rank) }
node Note { text: String  rank: I32? }
node Slot { place: String  number: I32  note: String?  @key(place, number) }
edge Knows: Person -> Person { since: Date?  weight: F64? }
edge Likes: Person -> Person { @unique(src, dst) }
edge Owns: Person -> Item @card(0..2) { share: F64? }
edge Wants: Item -> Item @card(1..2) { @unique(src, dst) }
edge Rates: Person -> Item @card(2..3) { stars: I32? }
edge In: Item -> Slot
"""

# What a history starts from; nodes without a key have ids here, so that edges could refer to them.
SEED = [
    {"type": "Person", "data": {"name": "ann", "age": 1, "mail": "a@x", "mood": "glad", "on": True}},
    {"type": "Person", "data": {"name": "bob", "score": 0.5, "tags": ["x", None], "seen": "2026-01-02T03:04:05Z"}},
    {"type": "Item", "data": {"number": 1, "label": "a", "rank": 1}},
    {"type": "Item", "data": {"number": 2, "label": "b"}},
    {"type": "Note", "data": {"id": "note 1", "text": "hello"}},
    {"type": "Slot", "data": {"place": "p", "number": 1}},
    {"edge": "Knows", "from": "ann", "to": "bob", "data": {"id": "k1", "weight": 1.5}},
    {"edge": "Wants", "from": "1", "to": "2", "data": {"id": "w1"}},
    {"edge": "Rates", "from": "ann", "to": "1", "data": {"id": "r1", "stars": 3}},
    {"edge": "Rates", "from": "ann", "to": "2", "data": {"id": "r2", "stars": 4}},
]

_NAMES = ("ann", "bob", "cid", "d'e", 'q"q', "Ünï\\", "")
_TEXTS = ("", "a", "x'; --", "é", "𝄞", 'say "no"', "a\nb\tc", "%_\\")
_DATES = (date(1970, 1, 1), date(1969, 12, 31), date(2026, 2, 28), date(1, 1, 1), date(9999, 12, 31))
_MOMENTS = (
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
)
_INTEGERS: dict[ScalarKind, tuple[int, ...]] = {
    ScalarKind.I32: (0, 1, 2, 3, 9, 10, -1, 2**31 - 1, -(2**31), 2**31),
    ScalarKind.I64: (0, 1, 2, 3, -1, 2**63 - 1, -(2**63)),
    ScalarKind.U32: (0, 1, 7, 2**32 - 1, -1, 2**32),
    ScalarKind.U64: (0, 1, 7, 2**63, 2**64 - 1, -1),
}
_FLOATS = (0.0, -0.0, 1.0, 0.5, 0.1, -2.25, 1e300, 5e-324, 2**53)
_F32S = (0.0, -0.0, 1.0, 0.5, 0.1, -2.25, 3.4e38)
_OPS = ("=", "!=", "<", "<=", ">", ">=")


@dataclass
class Query:
    statements: list[Statement]
    text: str
    params: dict[str, Any]


@dataclass
class Histories:
    """Queries from one source of randomness."""

    catalog: Catalog
    rng: random.Random
    statements_max: int = 6

    def query(self) -> Query:
        delete = self.rng.random() < 0.3
        count = self.rng.randint(1, self.statements_max)
        make = self._delete if delete else self._write
        statements = [make() for _ in range(count)]
        if self.rng.random() < 0.01:
            statements.append(self._write() if delete else self._delete())
        return as_query(self.catalog, self.rng, statements)

    # --- statements -------------------------------------------------------------------------------------------------

    def _write(self) -> Statement:
        names = list(self.catalog.nodes)
        if self.rng.random() < 0.4:
            return Update(name := self.rng.choice(names), self._values(name, update=True), self._where(name))
        edges = list(self.catalog.edges)
        name = self.rng.choice([*names, *names, *edges])
        if name in ("Wants", "Rates") and self.rng.random() < 0.8:
            name = "Knows"  # most of these break a rule
        return Insert(name, self._values(name, update=False))

    def _delete(self) -> Statement:
        name = self.rng.choice([*self.catalog.nodes, *self.catalog.edges])
        return Delete(name, self._where(name))

    def _values(self, name: str, *, update: bool) -> dict[str, Any]:
        declared = self.catalog.find_node(name) or self.catalog.edge(name)
        if isinstance(declared, EdgeType):
            ends = {"from": self._end(declared.src_type), "to": self._end(declared.dst_type)}
        else:
            ends = {}
        keys = set(declared.key or ()) if isinstance(declared, NodeType) else set()
        free = [prop for prop in declared.properties if prop.name not in keys or not update]
        needed = [prop for prop in free if not prop.type.nullable and not update]
        others = [prop for prop in free if prop not in needed]
        some = self.rng.sample(others, self.rng.randint(0, min(3, len(others))))
        if update and not some:
            some = [self.rng.choice(others)]
        chosen = [*needed, *some]
        self.rng.shuffle(chosen)
        return ends | {prop.name: self._value(declared, prop.name) for prop in chosen}

    def _where(self, name: str) -> Where:
        declared = self.catalog.find_node(name) or self.catalog.edge(name)
        comparable = [
            prop.name
            for prop in declared.properties
            if not prop.type.is_list and prop.type.scalar is not ScalarKind.VECTOR
        ]
        if isinstance(declared, EdgeType):
            comparable += ["from", "to", "from", "to"]
        elif declared.key is not None:
            comparable += declared.key * 4
        chosen = self.rng.choice(comparable)
        op = self.rng.choice(("=", "=", "=", *_OPS))
        if isinstance(declared, EdgeType) and chosen in ("from", "to"):
            return Where(chosen, op, self._end(declared.src_type if chosen == "from" else declared.dst_type))
        return Where(chosen, op, self._value(declared, chosen))

    # --- values -----------------------------------------------------------------------------------------------------

    def _end(self, node: str) -> str:
        match node:
            case "Person":
                return self.rng.choice(_NAMES[:4])
            case "Item":
                return str(self.rng.randint(1, 4))
            case "Slot":
                return json.dumps([self.rng.choice("pq"), str(self.rng.randint(1, 2))], separators=(",", ":"))
        return "note 1"

    def _value(self, declared: TableType, name: str) -> Any:
        kind = declared.property(name).type
        if kind.nullable and self.rng.random() < 0.08:
            return None
        match (declared.name, name):
            case ("Person", "name"):
                return self.rng.choice(_NAMES)
            case ("Person", "age"):
                return self.rng.choice((0, 1, 2, 3, 4, 9, *([10, -1] if self.rng.random() < 0.2 else [])))
            case ("Person", "mail"):
                return self.rng.choice(("a@x", "b@x", "c@x", "d@x", "e@x", "f@x", "g@x"))
            case ("Item", "number") | ("Slot", "number"):
                return self.rng.randint(1, 4)
            case ("Item", "label"):
                return self.rng.choice(("a", "b", "c", "ab", "bc", *(["d"] if self.rng.random() < 0.2 else [])))
            case ("Slot", "place"):
                return self.rng.choice(("p", "q"))
        return self._of(kind)

    def _of(self, kind: PropType) -> Any:
        if kind.is_list:
            element = PropType(kind.scalar, nullable=True)
            return [
                None if self.rng.random() < 0.2 else self._of(element) for _ in range(self.rng.choice((0, 1, 1, 2, 3)))
            ]
        if kind.scalar is ScalarKind.VECTOR:
            return [self.rng.choice(_F32S) for _ in range(kind.dim or 0)]
        if kind.enum is not None:
            return "wild" if self.rng.random() < 0.02 else self.rng.choice(kind.enum)
        if kind.scalar in _INTEGERS:
            fits = _INTEGERS[kind.scalar]
            return self.rng.choice(fits if self.rng.random() < 0.3 else fits[:3])
        choices: dict[ScalarKind, Callable[[], Any]] = {
            ScalarKind.STRING: lambda: self.rng.choice(_TEXTS),
            ScalarKind.BOOL: lambda: self.rng.random() < 0.5,
            ScalarKind.F64: lambda: self.rng.choice((*_FLOATS, 1, 2, -3)),
            ScalarKind.F32: lambda: self.rng.choice((*_F32S, 1, 1e39 if self.rng.random() < 0.1 else 2)),
            ScalarKind.DATE: lambda: self.rng.choice(_DATES),
            ScalarKind.DATETIME: lambda: self.rng.choice(_MOMENTS),
        }
        return choices[kind.scalar]()


def as_query(catalog: Catalog, rng: random.Random, statements: list[Statement]) -> Query:
    """The text of a query with these statements, and its parameters."""
    params = _Params(catalog, rng)
    body = " ".join(params.statement(statement) for statement in statements)
    declared = ", ".join(f"${name}: {kind}" for name, kind in params.declared.items())
    return Query(statements, f"query step({declared}) {{ {body} }}", params.values)


@dataclass
class _Params:
    """Writes statements, taking what has no literal, and some of what has one, as parameters."""

    catalog: Catalog
    rng: random.Random
    declared: dict[str, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)

    def statement(self, statement: Statement) -> str:
        declared = self.catalog.find_node(statement.type) or self.catalog.edge(statement.type)
        match statement:
            case Insert():
                return f"insert {statement.type} {{ {self._assigns(declared, statement.values)} }}"
            case Update():
                assigns, where = self._assigns(declared, statement.values), self._where(declared, statement.where)
                return f"update {statement.type} set {{ {assigns} }} where {where}"
            case Delete():
                return f"delete {statement.type} where {self._where(declared, statement.where)}"

    def _assigns(self, declared: TableType, values: dict[str, Any]) -> str:
        return ", ".join(f"{name}: {self._value(_kind(declared, name), value)}" for name, value in values.items())

    def _where(self, declared: TableType, where: Where) -> str:
        return f"{where.name} {where.op} {self._value(_kind(declared, where.name), where.value)}"

    def _value(self, kind: PropType, value: Any) -> str:
        literal = None if self.rng.random() < 0.4 else _literal(kind, value)
        if literal is not None:
            return literal
        name = f"p{len(self.declared)}"
        text = str(PropType(ScalarKind.STRING, nullable=True) if kind.enum is not None else kind)
        self.declared[name] = text if text.endswith("?") else f"{text}?"
        self.values[name] = _as_json(value)
        return f"${name}"


def _kind(declared: TableType, name: str) -> PropType:
    if isinstance(declared, EdgeType) and name in ("from", "to"):
        return PropType(ScalarKind.STRING)
    return declared.property(name).type


def _literal(kind: PropType, value: Any) -> str | None:
    """The value as the language writes it; nothing for nulls, negative numbers and numbers with an exponent."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value) if 0 <= value < 2**63 else None
        case float():
            text = repr(value)
            return text if "-" not in text and "e" not in text else None
        case str():
            # A text that is no member of an enum is a fault of the text; as a parameter one of its value.
            return _quoted(value) if kind.enum is None or value in kind.enum else None
        case datetime():
            return f'datetime("{value.isoformat()}")'
        case date():
            return f'date("{value.isoformat()}")'
        case list():
            element = PropType(ScalarKind.F32 if kind.scalar is ScalarKind.VECTOR else kind.scalar, nullable=True)
            texts = [None if one is None else _literal(element, one) for one in value]
            return None if None in texts else f"[{', '.join(text for text in texts if text is not None)}]"
    return None


def _quoted(text: str) -> str:
    for raw, written in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        text = text.replace(raw, written)
    return f'"{text}"'


def _as_json(value: Any) -> Any:
    match value:
        case datetime() | date():
            return value.isoformat()
        case list():
            return [_as_json(one) for one in value]
    return value
