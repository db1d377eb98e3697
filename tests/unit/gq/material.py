"""One schema that has every kind of property, for the tests of the query language."""

from __future__ import annotations

from functools import cache

from omnigraph.gq import BoundMutation, Diagnostic, bind_mutation, check_query, parse_queries, parse_query
from omnigraph.schema import Catalog, parse_schema

SCHEMA = """
interface Named { name: String }

node Person implements Named {
  name: String @key
  age: I32?
  bio: String?
  tags: [String]?
  scores: [I64]?
  joined: DateTime?
  born: Date?
  mood: enum(happy, sad)?
  vec: Vector(3)?
  photo: Blob?
  photos: [Blob]?
  active: Bool?
  big: I64?
  small: U32?
  huge: U64?
  ratio: F32?
  weight: F64?
  days: [Date]?
  rates: [F32]?
}

node Company { title: String  size: I32? }
node Doc { text: String  emb: Vector(2) @embed(text) }
node Slot { place: String  number: I32  note: String?  @key(number, place) }
node Item { number: I64 @key  label: String? }
node Day { day: Date @key }
node Flag { on: Bool  wide: U64  at: DateTime  level: F64  text: String  kind: enum(a, b) }

edge Knows: Person -> Person { since: Date?  weight: F64? }
edge WorksAt: Person -> Company { role: String  badge: Blob?  marks: [I32]? }
edge Holds: Person -> Item
edge On: Item -> Day
edge At: Person -> Slot
"""

# 2026-01-02T03:04:05.678901Z
NOW_US = 1_767_323_045_678_901


@cache
def catalog() -> Catalog:
    serial = iter(range(10_000))
    return parse_schema(SCHEMA, mint=lambda: f"id{next(serial):04}")


def mutation(body: str, params: str = "") -> str:
    return f"query q({params}) {{ {body} }}"


def findings(text: str) -> list[Diagnostic]:
    """What the checks say of every query of a text."""
    return [found for query in parse_queries(text).queries for found in check_query(query, catalog())]


def codes(text: str) -> list[str]:
    return [found.code for found in findings(text) if found.is_error]


def warnings(text: str) -> list[str]:
    return [found.code for found in findings(text) if not found.is_error]


def bind(body: str, declared: str = "", params: object = None) -> BoundMutation:
    return bind_mutation(parse_query(mutation(body, declared)), params, catalog(), NOW_US)
