"""Schemas that are refused, and the same as their hint says to write them."""

from __future__ import annotations

KEYED = "node P { k: String @key }\n"
# (place in the engine, a part of the hint, the wrong text, the right one)
SCHEMAS: tuple[tuple[str, str, str, str], ...] = (
    (
        "schema/constraints.py",
        "write the pattern in RE2 syntax",
        'node P { a: String? @check(a, "(?=x)") }',
        'node P { a: String? @check(a, "x") }',
    ),
    ("schema/constraints.py", "write its type without `?`: ", "node P { k: String? @key }", KEYED),
    (
        "schema/constraints.py",
        "name all key columns in one @key(…)",
        "node P { a: String @key  b: String @key }",
        "node P { a: String  b: String  @key(a, b) }",
    ),
    (
        "schema/constraints.py",
        "keep one of them",
        "node P @stub(s) @stub(s) { k: String @key  s: Bool? }",
        "node P @stub(s) { k: String @key  s: Bool? }",
    ),
    ("schema/constraints.py", "or leave @stub out", "node P @stub(s) { s: Bool? }", "node P { s: Bool? }"),
    (
        "schema/constraints.py",
        "declare a Bool property of its own",
        "node P @stub(k) { k: Bool @key }",
        "node P @stub(s) { k: Bool @key  s: Bool? }",
    ),
    (
        "schema/constraints.py",
        "write `{prop.name}: {prop.type}?`, or leave @stub out",
        "node P @stub(s) { k: String @key  s: Bool?  a: I32 }",
        "node P @stub(s) { k: String @key  s: Bool?  a: I32? }",
    ),
    (
        "schema/parser.py",
        "interfaces take no annotations",
        "interface I @stub(s) { s: Bool? }",
        "interface I { s: Bool? }",
    ),
    (
        "schema/parser.py",
        "an interface cannot extend another",
        "interface I implements J { a: I32? }",
        "interface I { a: I32? }",
    ),
    (
        "schema/parser.py",
        "annotations of a node stand before `implements`",
        "interface I { s: Bool? }\nnode P implements I @stub(s) { k: String @key }",
        "interface I { s: Bool? }\nnode P @stub(s) implements I { k: String @key }",
    ),
    (
        "schema/parser.py",
        "interfaces hold no constraints in their body",
        'interface I { a: String  @check(a, "x") }',
        "interface I { a: String }",
    ),
    (
        "schema/parser.py",
        "properties are not separated by commas",
        "node P { a: I32?, b: I32? }",
        "node P { a: I32? b: I32? }",
    ),
    ("schema/parser.py", "; not lists, enums, vectors", "node P { a: [Vector(2)]? }", "node P { a: [I32]? }"),
    ("schema/parser.py", ", Vector(n), enum(…), […]", "node P { a: Text? }", "node P { a: String? }"),
    (
        "schema/parser.py",
        "enum values are made of letters",
        'node P { a: enum("x", "y")? }',
        "node P { a: enum(x, y)? }",
    ),
    (
        "schema/parser.py",
        "constraints are @key, @unique",
        "node P { @primary(a)  a: I32? }",
        "node P { @unique(a)  a: I32? }",
    ),
    ("schema/resolve.py", "choose another property name", "node P { id: String? }", "node P { ident: String? }"),
    (
        "schema/resolve.py",
        "one namespace that ignores case",
        "node P { a: I32? }\nedge P: P -> P",
        "node P { a: I32? }\nedge Q: P -> P",
    ),
    (
        "schema/tokens.py",
        "the escapes are ",
        'node P { a: String? @check(a, "\\q") }',
        'node P { a: String? @check(a, "\\\\d") }',
    ),
)
