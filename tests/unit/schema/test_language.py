"""What the schema language accepts, and what it means."""

from __future__ import annotations

import itertools
import subprocess
import sys
from dataclasses import replace

import pytest

from omnigraph.core.errors import LimitExceeded, NotFound, SchemaInvalid
from omnigraph.core.limits import DEFAULT_LIMITS
from omnigraph.schema import Catalog, parse_schema
from omnigraph.schema.catalog import Annotation, Cardinality, Check, Embed, PropType, Range, ScalarKind
from tests.steps import steps


def one(body: str) -> Catalog:
    return parse_schema("node N {" + body + "}")


# --- types ------------------------------------------------------------------------------------------------------------

TYPES = {
    "String": PropType(ScalarKind.STRING),
    "Blob?": PropType(ScalarKind.BLOB, nullable=True),
    "Bool": PropType(ScalarKind.BOOL),
    "I32": PropType(ScalarKind.I32),
    "I64": PropType(ScalarKind.I64),
    "U32": PropType(ScalarKind.U32),
    "U64": PropType(ScalarKind.U64),
    "F32": PropType(ScalarKind.F32),
    "F64": PropType(ScalarKind.F64),
    "DateTime": PropType(ScalarKind.DATETIME),
    "Date": PropType(ScalarKind.DATE),
    "[DateTime]?": PropType(ScalarKind.DATETIME, nullable=True, is_list=True),
    "[Blob]": PropType(ScalarKind.BLOB, is_list=True),
    "Vector(2147483647)": PropType(ScalarKind.VECTOR, dim=2**31 - 1),
    "Vector(1)?": PropType(ScalarKind.VECTOR, nullable=True, dim=1),
    "enum(-, 0, A-b_c)": PropType(ScalarKind.STRING, enum=("-", "0", "A-b_c")),
}


@pytest.mark.parametrize("text", TYPES)
def test_a_type_prints_as_it_is_written(text: str) -> None:
    found = one(f"p: {text}").node("N").property("p").type
    assert found == TYPES[text]
    assert str(found) == text


def test_blanks_and_comments_may_stand_between_any_two_tokens() -> None:
    spaced = one(
        "/* a */ p // b\n : /**/ [ \t I32 \r\n ] /* c * / */ ? @ foo ( x , k = 1 ) @ range ( q , 0 .. 1 ) q : I32 "
    )
    assert spaced.hash == one("p:[I32]?@foo(x,k=1)@range(q,0..1)q:I32").hash


def test_enum_values_are_sorted_and_distinct() -> None:
    assert one("p: enum(b, a, b)").node("N").property("p").type.enum == ("a", "b")


def test_keywords_are_not_reserved_and_need_no_blank() -> None:
    catalog = parse_schema(
        "nodeNode{node:I32 edge:I32 interface:I32 enum:enum(enum) key:String@key}edgeEdge:Node->Node"
    )
    assert [p.name for p in catalog.node("Node").properties] == ["edge", "enum", "interface", "key", "node"]
    assert catalog.node("Node").key == ("key",)
    assert catalog.edge("Edge").src_type == "Node"


def test_names_that_begin_with_true_or_false_are_names() -> None:
    assert one("trueish: I32 falsehood: I32 @unique(trueish, falsehood)").node("N").uniques == (
        ("falsehood", "trueish"),
    )


def test_a_byte_order_mark_in_front_says_nothing() -> None:
    assert parse_schema("\ufeffnode N {}").hash == parse_schema("node N {}").hash


def test_an_empty_text_declares_nothing() -> None:
    catalog = parse_schema(" // nothing\n")
    assert list(catalog.types()) == [] and catalog.hash.startswith("sha256:")


def test_reserved_names_are_free_where_they_collide_with_nothing() -> None:
    catalog = parse_schema(
        "node N { src: I32 dst: I32 from: I32 to: I32 type: I32 ids: I32 _r: I32 } interface I { src: I32 }"
    )
    assert len(catalog.node("N").properties) == 7


# --- annotations ------------------------------------------------------------------------------------------------------


def test_an_unquoted_argument_equals_the_quoted_one() -> None:
    bare = one("v: Vector(2) @embed(body, model=true) body: String @foo(1.50) @bar(true) @baz(x)")
    quoted = one('v: Vector(2) @embed("body", model="true") body: String @foo("1.50") @bar("true") @baz("x")')
    assert bare.hash == quoted.hash
    assert bare.node("N").embeds == (Embed("v", "body", "true"),)


def test_escapes_mean_what_they_say() -> None:
    catalog = one('p: I32 @foo("\\"\\\\\\n\\r\\t\né")')
    assert catalog.node("N").property("p").annotations == (Annotation("foo", '"\\\n\r\t\né'),)


def test_unknown_annotations_are_kept_in_order_of_name() -> None:
    catalog = parse_schema('node N @z @b(1, y=2, x="3") @b @rename_from("Old") { p: I32 @z @a @z }')
    assert catalog.node("N").annotations == (
        Annotation("b"),
        Annotation("b", "1", (("x", "3"), ("y", "2"))),
        Annotation("rename_from", "Old"),
        Annotation("z"),
    )
    assert [a.name for a in catalog.node("N").property("p").annotations] == ["a", "z", "z"]


# --- constraints ------------------------------------------------------------------------------------------------------


def test_annotations_of_a_property_are_constraints_of_the_type() -> None:
    assert one("a: String @key b: I32 @unique @index").hash == one("a: String b: I32 @index(b) @unique(b) @key(a)").hash


def test_key_columns_keep_their_declared_order() -> None:
    assert one("a: I32 b: I32 @key(b, a)").node("N").key == ("b", "a")
    assert one("a: I32 b: I32 @key(b, a)").hash != one("a: I32 b: I32 @key(a, b)").hash


def test_a_unique_over_the_key_says_nothing_new() -> None:
    assert one("a: I32 b: I32 @key(b, a) @unique(a, b) @unique(a)").node("N").uniques == (("a",),)


def test_columns_of_unique_and_index_have_no_order_and_repeat_nothing() -> None:
    node = one("a: I32 b: I32 @unique(b, a) @unique(a, b) @index(b, a) @index(a, b) @index(a)").node("N")
    assert node.uniques == (("a", "b"),)
    assert node.indexes == (("a",), ("a", "b"))


def test_a_constraint_behind_a_property_belongs_to_the_body() -> None:
    assert one("a: I32? @range(a, 0..120) b: I32").node("N").ranges == (Range("a", 0, 120),)


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("0..1", (0, 1)),
        ("..10", (None, 10)),
        ("-5..", (-5, None)),
        ("-1.5 .. -0.25", (-1.5, -0.25)),
        ("0..1.0", (0, 1.0)),
        ("-0.0..", (0.0, None)),
        ("-0..00012", (0, 12)),
        ("-9223372036854775808..18446744073709551615", (-(2**63), 2**64 - 1)),
        ("5..5", (5, 5)),
    ],
)
def test_bounds_are_inclusive_and_each_stays_on_its_side(text: str, bounds: tuple[float | None, float | None]) -> None:
    (found,) = one(f"a: F64 @range(a, {text})").node("N").ranges
    assert (found.min, found.max) == bounds
    assert [type(b) for b in (found.min, found.max)] == [type(b) for b in bounds]
    assert "-0" not in repr(found.min)[:2] or found.min != 0


def test_a_check_may_stand_on_an_enum_and_may_be_repeated() -> None:
    node = one('e: enum(x, y) s: String? @check(s, "b") @check(s, "a") @check(e, "x|y")').node("N")
    assert node.checks == (Check("e", "x|y"), Check("s", "a"), Check("s", "b"))


def test_an_index_may_stand_on_a_vector() -> None:
    assert one("v: Vector(2) @index").node("N").indexes == (("v",),)


@pytest.mark.parametrize(
    "prop_type", ["String", "enum(a)", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "DateTime", "Date"]
)
def test_every_scalar_kind_may_be_a_key(prop_type: str) -> None:
    assert one(f"a: {prop_type} @key").node("N").key == ("a",)


# --- edges ------------------------------------------------------------------------------------------------------------


def test_an_edge_may_have_cardinality_annotations_and_a_body_or_none() -> None:
    catalog = parse_schema(
        "node A {} edge E: A->A @card(1..) @foo { w: F64 @unique(src, w) @index(dst) } edge F: A -> A @card(0..0) edge G: A -> A {}"
    )
    edge = catalog.edge("E")
    assert edge.card == Cardinality(1, None) and edge.uniques == (("src", "w"),) and edge.indexes == (("dst",),)
    assert edge.columns == ("id", "src", "dst", "w")
    assert catalog.edge("F").card == Cardinality(0, 0)
    assert catalog.edge("G").card == Cardinality() and catalog.edge("G").card.is_unbounded


def test_a_declaration_may_come_after_its_use() -> None:
    assert parse_schema("edge E: A -> B node A implements I {} node B {} interface I { p: I32 }").node("A").columns == (
        "id",
        "p",
    )


# --- interfaces -------------------------------------------------------------------------------------------------------


def test_a_node_takes_over_what_it_does_not_declare() -> None:
    catalog = parse_schema(
        "interface Named { name: String @key @foo note: String? @index } node N implements Named, Named { note: String? }"
    )
    node = catalog.node("N")
    assert node.key == ("name",) and node.indexes == () and node.implements == ("Named",)
    assert node.property("name").annotations == (Annotation("foo"),)
    assert "interface:Named" not in [t.table_key for t in catalog.types()]


def test_constraints_of_all_interfaces_hold_whatever_their_order() -> None:
    interfaces = "interface A { p: String @index } interface B { p: String @key @index } "
    one_way = parse_schema(interfaces + "node N implements A, B {}")
    other_way = parse_schema(interfaces + "node N implements B, A {}")
    assert one_way.hash == other_way.hash
    assert one_way.node("N").key == ("p",) and one_way.node("N").indexes == (("p",),)


def test_an_inherited_embed_finds_its_text_on_the_node() -> None:
    catalog = parse_schema("interface I { v: Vector(2) @embed(body) } node N implements I { body: String }")
    assert catalog.node("N").embeds == (Embed("v", "body"),)


def test_an_inherited_property_may_be_constrained_in_the_body() -> None:
    assert parse_schema("interface I { p: I32 } node N implements I { @unique(p) }").node("N").uniques == (("p",),)


def test_an_interface_may_share_the_name_of_a_node() -> None:
    assert parse_schema("interface X { p: I32 } node X implements X {}").node("X").columns == ("id", "p")


# --- catalog ----------------------------------------------------------------------------------------------------------


def test_types_come_in_the_order_of_table_keys_and_are_found_by_name() -> None:
    catalog = parse_schema("node B {} node A {} edge Z: A -> B edge Knows: A -> B")
    assert [t.table_key for t in catalog.types()] == ["edge:Knows", "edge:Z", "node:A", "node:B"]
    assert catalog.edge("knows") is catalog.edge("KNOWS") is catalog.by_table_key("edge:Knows") is catalog.type("knowS")
    assert catalog.type("A") is catalog.node("A")


@pytest.mark.parametrize("name", ["a", "\u212anows", "", "../A", "Person\x00"])
def test_other_names_find_nothing(name: str) -> None:
    catalog = parse_schema("node A {} edge Knows: A -> A")
    for look_up in (catalog.node, catalog.edge, catalog.type, catalog.by_table_key, catalog.node("A").property):
        with pytest.raises(NotFound):
            look_up(name)


# --- stubs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "node N @stub(s) { k: String @key s: Bool }",
        'node N @stub("s") { k: String @key s: Bool? }',
        "node N @stub(s) { a: I32 b: Date s: Bool c: [String]? @key(b, a) @unique(c2) c2: I32? }",
        "interface I { s: Bool? } node N @stub(s) implements I { k: String @key }",
    ],
)
def test_a_node_may_allow_stubs(text: str) -> None:
    node = parse_schema(text).node("N")
    assert node.stub == "s"
    assert Annotation("stub", "s") in node.annotations


def test_a_node_without_the_annotation_has_no_stub() -> None:
    assert parse_schema("node N { k: String @key s: Bool? }").node("N").stub is None


# --- limits -----------------------------------------------------------------------------------------------------------


def limited(text: str, limit: str) -> LimitExceeded:
    with pytest.raises(LimitExceeded) as caught:
        parse_schema(text)
    assert caught.value.facts["limit"] == limit
    return caught.value


@pytest.mark.parametrize(
    "text",
    [
        "node A# {}",
        "interface A# {}",
        "node N { a#: I32 }",
        "node N @a# {}",
        "node N { @unique(a#) }",
        "node N {} edge A#: N -> N",
    ],
)
def test_a_name_has_at_most_128_characters(text: str) -> None:
    if "unique" not in text:
        parse_schema(text.replace("#", "b" * 127))
    error = limited(text.replace("#", "b" * 128), "name_chars")
    assert (error.facts["bound"], error.facts["actual"]) == (128, 129)
    assert (error.facts["line"], error.facts["column"]) == (1, text.index("#"))


def test_a_schema_has_at_most_2000_types() -> None:
    types = [f"node N{i} {{}}" for i in range(1000)] + [f"edge E{i}: N0 -> N{i}" for i in range(1000)]
    parse_schema("\n".join(types))
    error = limited("\n".join([*types, "node Last {}"]), "types")
    assert (error.facts["bound"], error.facts["actual"]) == (2000, 2001)
    assert (error.facts["line"], error.facts["column"]) == (2001, 6)


def test_a_text_has_at_most_ten_million_bytes() -> None:
    bound = DEFAULT_LIMITS.source_text_bytes
    text = "node N {}//"
    parse_schema(text + "x" * (bound - len(text)))
    limited(text + "x" * (bound - len(text) + 1), "source_text_bytes")
    limited(text + "é" * (bound // 2), "source_text_bytes")


def test_limits_can_be_set() -> None:
    with pytest.raises(LimitExceeded):
        parse_schema("node N {} node M {}", limits=replace(DEFAULT_LIMITS, types=1))


@pytest.mark.parametrize(
    "text",
    [
        "node N { a: " + "[" * 2_000_000,
        "/*" * 1_000_000,
        "node N { " + "a: I32 " * 50_000 + "}",
        '@"' * 1_000_000,
        'node N @a("' + "\\n" * 1_000_000,
        "node N @a(" + "(" * 2_000_000,
        "node N { a: enum(" + "x," * 150_000,
        "//\n" * 700_000 + "x",
        "/**/" * 500_000 + "/*",
    ],
    ids=["brackets", "comments", "properties", "quotes", "escapes", "parentheses", "enum", "lines", "closed comments"],
)
def test_megabytes_of_junk_are_refused(text: str) -> None:
    """A cost that grows with the square of the length would run into the time limit of every test."""
    with pytest.raises(SchemaInvalid):
        parse_schema(text)


def test_parsing_takes_steps_in_proportion_to_the_number_of_types() -> None:
    body = "name: String @key\n age: I32? @range(age, 0..120)\n" + "".join(f" p{j}: [F64]?\n" for j in range(8))
    ids = itertools.count(1)

    def work(count: int) -> None:
        text = "\n".join(f"node Type{i} {{ {body} }}\nedge Edge{i}: Type{i} -> Type0 @card(0..5)" for i in range(count))
        catalog = parse_schema(text, mint=lambda: f"id{next(ids)}")
        assert len(list(catalog.types())) == 2 * count

    work(1)  # imports and tables that are made once
    few, many = steps(lambda: work(50)), steps(lambda: work(200))
    assert many < 4.2 * few


def test_two_thousand_types_are_a_schema() -> None:
    text = "\n".join(f"node Type{i} {{ name: String @key }}\nedge Edge{i}: Type{i} -> Type0" for i in range(1000))
    assert len(list(parse_schema(text).types())) == 2000


def test_importing_the_language_loads_neither_arrow_nor_re2_nor_pydantic() -> None:
    code = (
        "import sys, omnigraph.schema as s; s.parse_schema('node N { a: I32 }'); "
        "print([m for m in ('pyarrow', 're2', 'pydantic', 'lance') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
