"""Every text that the schema language refuses, with the place it names: `¶` stands where the error must point."""

from __future__ import annotations

import pickle

import pytest

from omnigraph.core.errors import SchemaInvalid
from omnigraph.schema import parse_schema

N = "node N { name: String @key age: I32? }\n"

GRAMMAR = {
    "a stray word": ("¶table T {}", "`interface`, `node` or `edge`"),
    "keywords are lower case": ("¶Node N {}", "found `Node`"),
    "a type name in lower case": ("node ¶person {}", "a node type name"),
    "an interface name in lower case": ("interface ¶named {}", "an interface name"),
    "an edge name in lower case": (N + "edge ¶knows: N -> N", "an edge type name"),
    "a node without a body": ("node N¶", "found the end of the text"),
    "a body that is not closed": ("node N { a: I32 ¶", "a property, a constraint or `}`"),
    "a comma between properties": ("node N { a: I32¶, b: I32 }", "a property or `}`, found `,`"),
    "a property name in upper case": ("node N { ¶Age: I32 }", "a property, a constraint or `}`"),
    "a property without a type": ("node N { a: ¶}", "a type"),
    "a property without a colon": ("node N { a ¶I32 }", "`:`"),
    "an unknown type": ("node N { a: ¶Int }", "unknown type `Int`"),
    "a type in lower case": ("node N { a: ¶string }", "unknown type `string`"),
    "a type that goes on": ("node N { a: ¶Strings }", "unknown type `Strings`"),
    "a list of lists": ("node N { a: [¶[I32]] }", "the type of the elements"),
    "a list of enums": ("node N { a: [¶enum(x)] }", "the type of the elements"),
    "a list of vectors": ("node N { a: [¶Vector(3)] }", "the type of the elements"),
    "a nullable element": ("node N { a: [I32¶?] }", "`]`"),
    "an empty list type": ("node N { a: [¶] }", "the type of the elements"),
    "an empty enum": ("node N { a: enum(¶) }", "an enum value"),
    "an enum with quotes": ('node N { a: enum(¶"x") }', "an enum value"),
    "an enum that is not closed": ("node N { a: enum(x ¶y) }", "`,` or `)`"),
    "a vector without a length": ("node N { a: Vector ¶}", "`(`"),
    "a vector of no elements": ("node N { a: Vector(¶0) }", "at least one element"),
    "a vector beyond 32 bits": ("node N { a: Vector(¶2147483648) }", "at most 2147483647"),
    "a vector of negative length": ("node N { a: Vector(¶-3) }", "the length of the vector"),
    "a vector with many digits": ("node N { a: Vector(¶" + "9" * 6000 + ") }", "out of range"),
    "a doubled question mark": ("node N { a: I32?¶? }", "a property, a constraint or `}`"),
    "a default": ("node N { a: I32 ¶= 3 }", "a property, a constraint or `}`"),
    "an unclosed string": ('node N @description(¶"abc) {}', "not closed"),
    "an unclosed string after a backslash": ('node N @description(¶"abc\\', "not closed"),
    "an unsupported escape": ('node N @description("a¶\\x41") {}', "unsupported escape `\\x`"),
    "a unicode escape": ('node N @description("¶\\u0041") {}', "unsupported escape"),
    "an unclosed comment": ("node N {} ¶/* never", "comment is not closed"),
    "nested comments": ("/* a /* b */ ¶c */ node N {}", "`interface`, `node` or `edge`"),
    "a signed literal": ("node N @foo(¶-1) {}", "a name, a string, a number"),
    "a keyword before a positional argument": ('node N @foo(model¶="m") {}', "`,` or `)`"),
    "a keyword without a value": ("node N @foo(x, model¶) {}", "`=`"),
    "a keyword with a bare name": ("node N @foo(x, model=¶y) {}", "a string, a number"),
    "a keyword twice": ("node N @foo(x, k=1, ¶k=2) {}", "given twice"),
    "an annotation without a name": ("node N @¶(x) {}", "the name of an annotation"),
    "an annotation without arguments": ("node N @foo(¶) {}", "a name, a string, a number"),
    "annotations after implements": (
        "interface I {} node N implements I ¶@foo {}",
        "`,` or `{`",
    ),
    "implements without a name": ("node N implements ¶{}", "an interface name"),
    "something else before the body": ("node N ¶extends I {}", "`@`, `implements` or `{`"),
    "an interface with an annotation": ("interface I ¶@foo {}", "`{`"),
    "an interface that extends": ("interface I {} interface J ¶implements I {}", "`{`"),
    "a body constraint in an interface": ("interface I { a: String ¶@key(a) }", "a property or `}`"),
    "a range in an interface": ("interface I { a: I32 ¶@range(a, 0..1) }", "a property or `}`"),
    "a comma in an interface": ("interface I { a: I32¶, }", "a property or `}`"),
    "an edge without a target": (N + "edge E: N ¶", "`->`"),
    "an edge with one type": (N + "edge E ¶{}", "`:`"),
    "an edge of lower case types": (N + "edge E: ¶n -> N", "the source node type"),
    "card without arguments": (N + "edge E: N -> N @card¶", "`(`"),
    "card without bounds": (N + "edge E: N -> N @card(¶)", "the minimum"),
    "card with one number": (N + "edge E: N -> N @card(1¶)", "`..`"),
    "card without a minimum": (N + "edge E: N -> N @card(¶..1)", "the minimum"),
    "card with a negative minimum": (N + "edge E: N -> N @card(¶-1..1)", "the minimum"),
    "card beyond 32 bits": (N + "edge E: N -> N @card(0..¶4294967296)", "at most 4294967295"),
    "card with a name": (N + "edge E: N -> N @card(0..¶n)", "a number or `)`"),
    "card after an annotation": (N + "edge E: N -> N @foo ¶@card(0..1)", "directly after the target type"),
    "card twice": (N + "edge E: N -> N @card(0..1) ¶@card(0..1)", "directly after the target type"),
    "card in a body": (N + "edge E: N -> N { ¶@card(0..1) }", "directly after the target type"),
    "card behind a property": (N + "edge E: N -> N { a: I32 ¶@card(0..1) }", "directly after the target type"),
    "card on a node": ("node N ¶@card(0..1) {}", "directly after the target type"),
    "an annotation in a body": ('node N { ¶@description("x") a: I32 }', "found @description"),
    "a constraint without arguments": ("node N { a: I32 @key(¶) }", "a name, a string, a number"),
    "a constraint on its own without parentheses": ("node N { @key ¶}", "`(`"),
    "a constraint on a type": ("node N ¶@key(a) { a: I32 }", "stands in the body"),
    "a constraint on an edge type": (N + "edge E: N -> N ¶@unique(src)", "stands in the body"),
    "a constraint that is not closed": ("node N { a: I32 @unique(a ¶}", "`,` or `)`"),
    "a negative number that is no bound": ("node N { a: I32 @range(a, -5¶) }", "`..`"),
    "a bound of nothing": ("node N { a: I32 @range(a, ..¶) }", "a number"),
    "a bound with an exponent": ("node N { a: F64 @range(a, 0..1¶e5) }", "`,` or `)`"),
    "a bound beyond every integer": ("node N { a: U64 @range(a, ..¶18446744073709551616) }", "out of the range"),
    "a bound below every integer": ("node N { a: I64 @range(a, ¶-9223372036854775809..) }", "out of the range"),
    "a bound with many digits": ("node N { a: I64 @range(a, ¶" + "9" * 6000 + "..) }", "out of the range"),
    "a bound with a long fraction": ("node N { a: F64 @range(a, ¶0." + "9" * 6000 + "..) }", "too long"),
    "a bound beyond every float": ("node N { a: F64 @range(a, ¶" + "9" * 400 + ".0..) }", "too large"),
}

HOSTILE = {
    "a path as a type name": ("node ¶../x {}", "found `.`"),
    "a path inside a type name": ("node A¶/b {}", "found `/`"),
    "a path as a property name": ("node N { ¶../x: I32 }", "found `.`"),
    "a quoted type name": ('node ¶"N" {}', 'found `"`'),
    "a quote inside a type name": ("node N¶'; {}", "found `'`"),
    "a backtick inside a property name": ("node N { a¶`: I32 }", "`:`"),
    "NUL as a name": ("node ¶\x00 {}", "found U+0000"),
    "NUL inside a type name": ("node N¶\x00 {}", "found U+0000"),
    "NUL inside a property name": ("node N { a¶\x00b: I32 }", "found U+0000"),
    "a Cyrillic look-alike at the start": ("node ¶\u0420erson {}", "(U+0420)"),
    "a Cyrillic look-alike inside": ("node Pers¶\u043en {}", "(U+043E)"),
    "a full-width look-alike": ("node N { ¶\uff41ge: I32 }", "(U+FF41)"),
    "a zero-width joiner": ("node N { a¶\u200db: I32 }", "U+200D"),
    "a combining mark": ("node N { e¶\u0301: I32 }", "U+0301"),
    "a digit of another script": ("node N { a: Vector(¶\u0663) }", "(U+0663)"),
    "a no-break space": ("node¶\u00a0N {}", "U+00A0"),
    "a line separator": ("node¶\u2028N {}", "U+2028"),
    "a right-to-left override": ("node N { ¶\u202ea: I32 }", "U+202E"),
    "a form feed": ("node¶\x0cN {}", "U+000C"),
    "half a surrogate pair in a name": ("node N¶\ud800 {}", "not valid text"),
    "half a surrogate pair in a string": ('node N @description("¶\udc00") {}', "not valid text"),
    "a dash in a name": ("node N¶-1 {}", "found `-1`"),
    "a colon in a type name": ("node N¶:M {}", "found `:`"),
    "a byte order mark in the middle": ("node N {}¶\ufeff", "U+FEFF"),
    "deep brackets": ("node N { a: [¶" + "[" * 100_000, "the type of the elements"),
    "deep braces": ("node N {¶" + "{" * 100_000, "a property"),
    "deep parentheses": ("node N @foo(¶" + "(" * 100_000, "a name"),
}

MEANING = {
    "a node twice": ("node N {}\nnode ¶N {}", "taken by node `N` (line 1, column 6)"),
    "a node twice but for case": ("node Person {}\nnode ¶PERSON {}", "taken by node `Person`"),
    "an edge twice": (N + "edge E: N -> N\nedge ¶E: N -> N", "taken by edge `E`"),
    "an edge twice but for case": (N + "edge Knows: N -> N\nedge ¶KnowS: N -> N", "taken by edge `Knows`"),
    "an edge named as a node": (N + "edge ¶N: N -> N", "taken by node `N`"),
    "an edge named as a later node": ("edge E: N -> N\nnode ¶E {}\n" + N, "taken by edge `E`"),
    "an interface twice": ("interface I {}\ninterface ¶I {}", "declared twice, first at line 1, column 11"),
    "a property twice": ("node N { a: I32\n¶a: I64 }", "declared twice"),
    "a property twice on an edge": (N + "edge E: N -> N { a: I32 ¶a: I32 }", "declared twice"),
    "a property twice in an interface": ("interface I { a: I32 ¶a: I32 }", "declared twice"),
    "id on a node": ("node N { ¶id: String }", "`id` is reserved"),
    "id on an edge": (N + "edge E: N -> N { ¶id: String }", "`id` is reserved"),
    "id in an interface": ("interface I { ¶id: String }", "`id` is reserved"),
    "_rowid": ("node N { ¶_rowid: I64 }", "`_rowid` is reserved"),
    "_rowaddr on an edge": (N + "edge E: N -> N { ¶_rowaddr: I64 }", "reserved"),
    "any _row name": ("node N { ¶_rows_of_mine: I64 }", "reserved"),
    "src on an edge": (N + "edge E: N -> N { ¶src: String }", "`src` is reserved"),
    "dst on an edge": (N + "edge E: N -> N { ¶dst: String }", "`dst` is reserved"),
    "from on an edge": (N + "edge E: N -> N { ¶from: String }", "`from` is reserved"),
    "to on an edge": (N + "edge E: N -> N { ¶to: String }", "`to` is reserved"),
    "an edge from nowhere": (N + "edge E: ¶M -> N", "the source `M` is not a node type"),
    "an edge to nowhere": (N + "edge E: N -> ¶M", "the target `M` is not a node type"),
    "an edge to a type in another case": ("node Person {} edge E: Person -> ¶PERSON", "not a node type"),
    "an edge to an interface": ("interface I {} " + N + "edge E: N -> ¶I", "the target `I` is not a node type"),
    "an edge to an edge": (N + "edge E: N -> N edge F: N -> ¶E", "not a node type"),
    "a missing interface": ("node N implements ¶I {}", "node `N`: no interface `I`"),
    "an interface of another type": (
        "interface I { a: I32 } node N implements I { ¶a: I64 }",
        "`a` is I64, interface `I` wants I32",
    ),
    "an interface of other nullability": (
        "interface I { a: I32 } node N implements I { ¶a: I32? }",
        "`a` is I32?, interface `I` wants I32",
    ),
    "an interface of a list": (
        "interface I { a: [I32] } node N implements I { ¶a: I32 }",
        "`a` is I32, interface `I` wants [I32]",
    ),
    "an interface of another enum": (
        "interface I { a: enum(x, y) } node N implements I { ¶a: enum(x) }",
        "`a` is enum(x), interface `I` wants enum(x, y)",
    ),
    "an interface of another vector": (
        "interface I { a: Vector(3) } node N implements I { ¶a: Vector(4)? }",
        "`a` is Vector(4)?, interface `I` wants Vector(3)",
    ),
    "two interfaces that disagree": (
        "interface I { a: I32 } interface J { a: I64 } node N implements ¶I, J {}",
        "`a` is I32, interface `J` wants I64",
    ),
    "an inherited key that is nullable": ("interface I { a: I32? ¶@key } node N implements I {}", "is nullable"),
    "a key of an unknown property": ("node N { @key(¶a) }", "no property `a`"),
    "a nullable key": ("node N { a: I32? ¶@key }", "the key `a` is nullable"),
    "a nullable key in the body": ("node N { a: I32? @key(¶a) }", "the key `a` is nullable"),
    "a list key": ("node N { a: [I32] ¶@key }", "@key cannot stand on `a`, a [I32]"),
    "a list key in the body": ("node N { a: [I32] @key(¶a) }", "@key cannot cover `a`"),
    "a vector key": ("node N { a: Vector(2) ¶@key }", "@key cannot cover `a`, a Vector(2)"),
    "a vector key in the body": ("node N { a: Vector(2) @key(¶a) }", "@key cannot cover `a`"),
    "a blob key": ("node N { a: Blob ¶@key }", "@key cannot stand on `a`, a Blob"),
    "a blob key in the body": ("node N { a: Blob @key(¶a) }", "@key cannot cover `a`"),
    "two keys": ("node N { a: I32 @key b: I32 ¶@key }", "a second key"),
    "two keys, one in the body": ("node N { a: I32 ¶@key b: I32 @key(b) }", "a second key; the first is (b)"),
    "two keys in the body": ("node N { a: I32 b: I32 @key(a) ¶@key(b) }", "a second key; the first is (a)"),
    "a key column twice": ("node N { a: I32 @key(a, ¶a) }", "@key names `a` twice"),
    "a key of a literal": ('node N { a: I32 @key(¶"a") }', "the name of a property"),
    "a key of a bound": ("node N { a: I32 @key(¶0..1) }", "the name of a property"),
    "a key on an edge": (N + "edge E: N -> N { a: I32 ¶@key }", "edges take no @key"),
    "a key in an edge body": (N + "edge E: N -> N { a: I32 ¶@key(a) }", "edges take no @key"),
    "unique of an unknown property": ("node N { @unique(¶a) }", "no property `a`"),
    "unique of src on a node": ("node N { a: I32 @unique(¶src) }", "no property `src`"),
    "unique of id": (N + "edge E: N -> N { @unique(¶id) }", "no property `id`"),
    "unique on a list": ("node N { a: [I32] ¶@unique }", "@unique cannot stand on `a`"),
    "unique on a list in the body": ("node N { a: [I32] @unique(¶a) }", "@unique cannot cover `a`, a [I32]"),
    "unique on a vector": ("node N { a: Vector(2) ¶@unique }", "@unique cannot cover `a`"),
    "unique on a vector in the body": ("node N { a: Vector(2) @unique(¶a) }", "@unique cannot cover `a`"),
    "unique on a blob": ("node N { a: Blob ¶@unique }", "@unique cannot stand on `a`"),
    "unique on a blob in an edge body": (N + "edge E: N -> N { a: Blob @unique(src, ¶a) }", "cannot cover `a`"),
    "unique twice on a property": ("node N { a: I32 @unique ¶@unique }", "@unique stands twice"),
    "index twice on a property": ("node N { a: I32 @index ¶@index }", "@index stands twice"),
    "key twice on a property": ("node N { a: I32 @key ¶@key }", "@key stands twice"),
    "index on a list": ("node N { a: [I32] ¶@index }", "@index cannot stand on `a`"),
    "index on a blob": ("node N { a: Blob ¶@index }", "@index cannot stand on `a`"),
    "index on a blob in the body": ("node N { a: Blob @index(¶a) }", "@index cannot cover `a`"),
    "index of an unknown property": ("node N { @index(¶a) }", "no property `a`"),
    "a range on a String": ("node N { a: String @range(¶a, 0..1) }", "@range needs a number, `a` is String"),
    "a range on a Date": ("node N { a: Date @range(¶a, 0..1) }", "@range needs a number"),
    "a range on a list": ("node N { a: [I32] @range(¶a, 0..1) }", "@range needs a number, `a` is [I32]"),
    "a range on a vector": ("node N { a: Vector(2) @range(¶a, 0..1) }", "@range needs a number"),
    "a range of an unknown property": ("node N { @range(¶a, 0..1) }", "no property `a`"),
    "a range without a bound": ("node N { a: I32 ¶@range(a) }", "takes two arguments"),
    "a range with a number": ("node N { a: I32 @range(a, ¶5) }", "expected a bound"),
    "a range with two bounds": ("node N { a: I32 @range(a, 0..1, ¶2..3) }", "takes two arguments"),
    "a range that begins with its bound": ("node N { a: I32 @range(¶0..1, a) }", "the name of a property"),
    "an empty range": ("node N { a: I32 @range(a, ¶10..1) }", "the lower bound 10 exceeds the upper 1"),
    "a range on an edge": (N + "edge E: N -> N { a: I32 ¶@range(a, 0..1) }", "edges take no @range"),
    "a range without parentheses": ("node N { a: I32 ¶@range }", "@range needs arguments"),
    "a check on a number": ('node N { a: I32 @check(¶a, "x") }', "@check needs a String, `a` is I32"),
    "a check on a list": ('node N { a: [String] @check(¶a, "x") }', "@check needs a String"),
    "a check of an unknown property": ('node N { @check(¶a, "x") }', "no property `a`"),
    "a check without a pattern": ("node N { a: String ¶@check(a) }", "takes two arguments"),
    "a check with a bare name": ("node N { a: String @check(a, ¶x) }", "a regular expression in quotes"),
    "a check with two patterns": ('node N { a: String @check(a, "x", ¶"y") }', "takes two arguments"),
    "a check on an edge": (N + 'edge E: N -> N { a: String ¶@check(a, "x") }', "edges take no @check"),
    "a check without parentheses": ("node N { a: String ¶@check }", "@check needs arguments"),
    "a bad pattern": ('node N { a: String @check(a, ¶"(") }', "not a regular expression"),
    "a pattern with look-ahead": ('node N { a: String @check(a, ¶"(?=x)") }', "not a regular expression"),
    "a pattern with a back-reference": ('node N { a: String @check(a, ¶"(a)\\\\1") }', "not a regular expression"),
    "a pattern that repeats too often": ('node N { a: String @check(a, ¶"a{100000}") }', "not a regular expression"),
    "card upside down": (N + "edge E: N -> N ¶@card(3..2)", "the minimum 3 exceeds the maximum 2"),
    "embed on a String": ('node N { a: String ¶@embed("a") }', "@embed needs a Vector"),
    "embed on a list": ('node N { a: [F32] ¶@embed("a") }', "@embed cannot stand on `a`"),
    "embed on a blob": ('node N { a: Blob ¶@embed("a") }', "@embed cannot stand on `a`"),
    "embed of an unknown property": ("node N { a: Vector(2) @embed(¶b) }", "`b`, which is not declared"),
    "embed of a number": ("node N { b: I32 a: Vector(2) @embed(¶b) }", "`b` is I32"),
    "embed of a list": ("node N { b: [String] a: Vector(2) @embed(¶b) }", "`b` is [String]"),
    "embed without a source": ("node N { a: Vector(2) ¶@embed }", "needs the property to embed"),
    "embed with another keyword": ("node N { b: String a: Vector(2) @embed(b, ¶size=3) }", "no keyword `size`"),
    "embed twice": ("node N { b: String a: Vector(2) @embed(b) ¶@embed(b) }", "@embed stands twice"),
    "embed on an edge": (N + "edge E: N -> N { b: String a: Vector(2) ¶@embed(b) }", "edges take no @embed"),
    "embed of an unknown property by an interface": (
        "interface I { a: Vector(2) @embed(¶b) } node N implements I {}",
        "`b`, which is not declared",
    ),
    "key on a type": ("node N ¶@key { a: I32 }", "belongs on a property or in the body"),
    "unique on a type": ("node N ¶@unique { a: I32 }", "belongs on a property or in the body"),
    "index on an edge type": (N + "edge E: N -> N ¶@index", "belongs on a property or in the body"),
    "embed on a type": ("node N ¶@embed(a) { a: I32 }", "belongs on a property or in the body"),
    "instruction on a property": ('node N { a: I32 ¶@instruction("x") }', "not on a property"),
    "description twice on a type": ('node N @description("a") ¶@description("b") {}', "@description stands twice"),
    "instruction twice on a type": ('node N @instruction("a") ¶@instruction("b") {}', "@instruction stands twice"),
    "description twice on an edge": (N + 'edge E: N -> N @description("a") ¶@description("b")', "stands twice"),
    "description twice on a property": ('node N { a: I32 @description("a") ¶@description("b") }', "stands twice"),
    "an empty description": ('node N ¶@description("") {}', "@description is empty"),
    "a blank description": ('node N ¶@description("  ") {}', "@description is empty"),
    "a description without a value": ("node N ¶@description {}", "@description is empty"),
    "an empty instruction": ('node N ¶@instruction("") {}', "@instruction is empty"),
    "an empty description of a property": ('node N { a: I32 ¶@description("") }', "@description is empty"),
    "an empty description in an interface": ('interface I { a: I32 ¶@description("") }', "@description is empty"),
    "a rename from nothing": ("node N { a: I32 ¶@rename_from }", "@rename_from is empty"),
    "stub on an edge": (N + "edge E: N -> N ¶@stub(a) { a: Bool }", "edges take no @stub"),
    "stub on a property": ("node N { k: String @key a: Bool ¶@stub(a) }", "belongs on a type"),
    "stub without a property": ("node N ¶@stub { k: String @key a: Bool }", "takes the name of one property"),
    "stub of an empty name": ('node N ¶@stub("") { k: String @key a: Bool }', "takes the name of one property"),
    "stub with a keyword": ("node N ¶@stub(a, b=1) { k: String @key a: Bool }", "takes the name of one property"),
    "stub twice": ("node N @stub(a) ¶@stub(a) { k: String @key a: Bool }", "@stub stands twice"),
    "stub of an unknown property": ("node N @stub(¶b) { k: String @key a: Bool }", "`b`, which is not declared"),
    "stub of a text": ("node N @stub(¶b) { k: String @key b: String }", "`b` is String"),
    "stub of a list": ("node N @stub(¶b) { k: String @key b: [Bool]? }", "`b` is [Bool]?"),
    "stub without a key": ("node N ¶@stub(a) { a: Bool b: I32? }", "needs a @key"),
    "stub that is the key": ("node N @stub(¶a) { a: Bool @key }", "a part of the key"),
    "stub beside a required property": (
        "node N @stub(a) { k: String @key a: Bool c: I32? ¶b: I32 }",
        "needs `b` to be nullable",
    ),
    "stub beside a required property of an interface": (
        "interface I { b: I32 } node N @stub(a) implements ¶I { k: String @key a: Bool }",
        "needs `b` to be nullable",
    ),
    "two renames": ('node N @rename_from("A") ¶@rename_from("B") {}', "stands twice"),
}

ALL = {
    f"{group}: {name}": case
    for group, cases in (("grammar", GRAMMAR), ("hostile", HOSTILE), ("meaning", MEANING))
    for name, case in cases.items()
}


@pytest.mark.parametrize("case", ALL.values(), ids=ALL.keys())
def test_a_refused_text_names_its_place(case: tuple[str, str]) -> None:
    marked, said = case
    before, mark, after = marked.partition("¶")
    assert mark, "the case marks no place"
    line = before.count("\n") + 1
    column = len(before.rpartition("\n")[2]) + 1
    with pytest.raises(SchemaInvalid) as caught:
        parse_schema(before + after)
    error = caught.value
    assert (error.line, error.column) == (line, column), error.message
    assert said in error.message
    assert error.message.endswith(f"(line {line}, column {column})")
    assert "\n" not in error.message and len(error.message) < 300
    assert error.message.isprintable()


def test_places_count_lines_and_characters_from_one() -> None:
    with pytest.raises(SchemaInvalid) as caught:
        parse_schema('node A {}\r\n\r\n/* ü\n */ node B @description("é") { x: Nope }')
    assert (caught.value.line, caught.value.column) == (4, 35)


def test_an_error_crosses_a_process_border_with_its_place() -> None:
    with pytest.raises(SchemaInvalid) as caught:
        parse_schema("node n {}")
    error = pickle.loads(pickle.dumps(caught.value))
    assert error.to_dict()["line"] == 1 and error.to_dict()["column"] == 6
    assert error.hint == caught.value.hint and error.hint


def test_the_first_contradiction_is_reported_whatever_the_order_of_the_source() -> None:
    """Interfaces before nodes before edges, each by name: the answer does not move when declarations do."""
    messages = set()
    for text in (
        "node B { a: I32? @key } node A { a: [I32] @key }",
        "node A { a: [I32] @key } node B { a: I32? @key }",
    ):
        with pytest.raises(SchemaInvalid) as caught:
            parse_schema(text)
        messages.add(caught.value.message.rpartition(" (")[0])
    assert len(messages) == 1
