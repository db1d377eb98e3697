"""The canonical form: one document for every text that declares the same, and the catalog back from it."""

from __future__ import annotations

import hashlib
import itertools
import json
import pickle
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from omnigraph.core.errors import Corruption
from omnigraph.schema import (
    Catalog,
    canonical_text,
    catalog_from_canonical,
    mint_identities,
    parse_schema,
    schema_id,
    shape_text,
    with_identities,
)

TEXT = """
interface Named { name: String @key }
node Person @description("a human") implements Named {
    age: I32? @range(age, ..120)
    mood: enum(sad, happy) @check(mood, "^[a-z]")
    born: Date  seen: DateTime?  tags: [String]?
    bio: String?  face: Vector(3)? @embed(bio, model="m")
    @unique(mood, born) @index(born)
}
edge Knows: Person -> Person @card(0..5) @weight(1.5, unit="kg") { since: Date? @unique(src, dst) }
"""

SHUFFLED = """// the same, told differently
edge Knows: Person->Person@card(0..5)@weight("1.5",unit="kg"){@unique(dst,src) since:Date?}
node Person @description("a human") implements Named, Named {
    @index(born) @unique(born, mood) @check(mood, "^[a-z]") @range(age, ..120)
    face: Vector(3)? @embed("bio", model="m") bio: String? /* … */ tags: [String]? seen: DateTime? born: Date
    mood: enum(happy, sad, happy) age: I32?
}
interface Named { name: String @key }
"""


def counter() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"id-{next(numbers)}"


def test_order_comments_and_spelling_of_the_source_change_nothing() -> None:
    one, other = parse_schema(TEXT), parse_schema(SHUFFLED)
    assert shape_text(one) == shape_text(other)
    assert one.hash == other.hash
    assert canonical_text(mint_identities(one, counter())) == canonical_text(mint_identities(other, counter()))
    assert replace(one, source="") == replace(other, source="")


CHANGES = [
    ("age: I32?", "age: I64?"),
    ("age: I32?", "age: I32"),
    ("tags: [String]?", "tags: String?"),
    ("..120", "..121"),
    ("..120", "120.."),
    ("..120", "..120.0"),
    ("^[a-z]", "^[a-y]"),
    ("sad, happy", "sad, happy, calm"),
    ("@unique(mood, born)", "@unique(mood)"),
    ("@index(born)", ""),
    ("Vector(3)", "Vector(4)"),
    ('model="m"', 'model="n"'),
    ("a human", "a Human"),
    ("0..5", "0..6"),
    ("0..5", "1..5"),
    ("Person -> Person", "Person -> Person2"),
    ("@weight(1.5", "@weight(1.50"),
    ("since: Date?", "begun: Date?"),
    ("@unique(src, dst)", ""),
    ("name: String @key", "name: String"),
    (" implements Named", ""),
]


@pytest.mark.parametrize(("old", "new"), CHANGES, ids=[f"{old} to {new}" for old, new in CHANGES])
def test_every_change_of_meaning_changes_the_hash(old: str, new: str) -> None:
    assert old in TEXT
    base = TEXT + "node Person2 {}"
    assert parse_schema(base.replace(old, new)).hash != parse_schema(base).hash


def test_the_hash_does_not_see_identities() -> None:
    bare = parse_schema(TEXT)
    minted = parse_schema(TEXT, mint=counter())
    assert bare.hash == minted.hash and shape_text(bare) == shape_text(minted)


def test_identities_are_minted_in_the_order_of_names_and_once_each() -> None:
    catalog = parse_schema(SHUFFLED, mint=counter())
    found: list[str] = []
    for group in (catalog.interfaces, catalog.nodes, catalog.edges):
        for declared in group.values():
            found += [declared.type_id, *(p.prop_id for p in declared.properties)]
    assert found == [f"id-{n}" for n in range(1, len(found) + 1)]


def test_identities_can_be_carried_over() -> None:
    before = parse_schema("node A { x: I32 y: I32 }", mint=counter())
    after = parse_schema("node A { x: I32 z: I32 }")
    old = before.node("A")
    kept = with_identities(
        after,
        lambda kind, name: old.type_id,
        lambda kind, name, prop: old.property(prop).prop_id if prop in old.by_name else "new",
    )
    assert kept.node("A").type_id == old.type_id
    assert [p.prop_id for p in kept.node("A").properties] == [old.property("x").prop_id, "new"]
    assert kept.hash == after.hash


def test_a_catalog_without_identities_has_no_canonical_text() -> None:
    with pytest.raises(ValueError, match="no identity"):
        canonical_text(parse_schema(TEXT))


def test_the_catalog_comes_back_exactly() -> None:
    catalog = parse_schema(TEXT, mint=counter())
    again = catalog_from_canonical(TEXT, canonical_text(catalog))
    assert again == catalog
    assert again.hash == catalog.hash
    assert canonical_text(again) == canonical_text(catalog)
    assert [t.table_key for t in again.types()] == [t.table_key for t in catalog.types()]


def test_a_catalog_crosses_a_process_border() -> None:
    catalog = parse_schema(TEXT, mint=counter())
    catalog.edge("knows").by_name  # noqa: B018  fill the caches
    again: Catalog = pickle.loads(pickle.dumps(catalog))
    assert again == catalog and again.edge("KNOWS") == catalog.edge("Knows")


def test_the_stored_form_never_changes() -> None:
    """Graphs hold this text and this hash: whoever changes them needs a new storage version."""
    catalog = parse_schema(
        "interface I { n: F64? } edge E: B -> B @card(1..) { w: F32 @unique(src, w) } "
        'node B @x("é\\"", k=1) implements I { b: U64 a: String v: Vector(2)? @embed(a) e: enum(q, p)? '
        '@key(b, a) @range(b, 0..18446744073709551615) @range(n, ..0.1) @check(a, "\\\\d") @index(a) }',
        mint=counter(),
    )
    assert canonical_text(catalog) == (
        '{"ir_version":2,"interfaces":[{"name":"I","type_id":"id-1","also":[],"properties":[{"name":"n","prop_id":"id-2'
        '","also":[],"prop_type":{"scalar":"F64","nullable":true,"list":false,"enum_values":null},"annotations":[]}]}],'
        '"nodes":[{"name":"B","type_id":"id-3","also":[],"annotations":[{"name":"x","value":"é\\"","kwargs":{"k":"1"}}]'
        ',"implements":["I"],"properties":[{"name":"a","prop_id":"id-4","also":[],"prop_type":{"scalar":"String","nulla'
        'ble":false,"list":false,"enum_values":null},"annotations":[]},{"name":"b","prop_id":"id-5","also":[],"prop_typ'
        'e":{"scalar":"U64","nullable":false,"list":false,"enum_values":null},"annotations":[]},{"name":"e","prop_id":"'
        'id-6","also":[],"prop_type":{"scalar":"String","nullable":true,"list":false,"enum_values":["p","q"]},"annotati'
        'ons":[]},{"name":"n","prop_id":"id-7","also":[],"prop_type":{"scalar":"F64","nullable":true,"list":false,"enum'
        '_values":null},"annotations":[]},{"name":"v","prop_id":"id-8","also":[],"prop_type":{"scalar":{"Vector":2},"nu'
        'llable":true,"list":false,"enum_values":null},"annotations":[]}],"constraints":[{"Check":{"property":"a","patt'
        'ern":"\\\\d"}},{"Embed":{"property":"v","source":"a","model":null}},{"Index":["a"]},{"Key":["b","a"]},{"Range"'
        ':{"property":"b","min":{"Integer":0},"max":{"Integer":18446744073709551615}}},{"Range":{"property":"n","min":n'
        'ull,"max":{"Float":0.1}}}]}],"edges":[{"name":"E","type_id":"id-9","also":[],"from_type":"B","to_type":"B","ca'
        'rdinality":{"min":1,"max":null},"annotations":[],"properties":[{"name":"w","prop_id":"id-10","also":[],"prop_t'
        'ype":{"scalar":"F32","nullable":false,"list":false,"enum_values":null},"annotations":[]}],"constraints":[{"Uni'
        'que":["src","w"]}]}]}'
    )
    shape = re.sub(r'"(type|prop)_id":"[^"]*","also":\[\],', "", canonical_text(catalog))
    assert shape == shape_text(catalog)
    assert catalog.hash == "sha256:" + hashlib.sha256(shape.encode()).hexdigest()
    assert catalog.hash == "sha256:6de59af031ec9ef77e86c07a3535feade050b738f07c31a60f6728af91198f23"
    assert (
        schema_id(canonical_text(catalog)) == "sha256:b31b879690d99eb20284795623f3f672c9d23c83361af47657b25d4417f9fc14"
    )


def test_a_document_that_is_not_ours_is_corruption() -> None:
    catalog = parse_schema(TEXT, mint=counter())
    good = canonical_text(catalog)
    document = json.loads(good)

    def changed(**members: object) -> str:
        return json.dumps({**document, **members}, ensure_ascii=False, separators=(",", ":"))

    assert changed() == good
    bad = {
        "not JSON": "{",
        "empty": "",
        "not an object": "[]",
        "blanks": good.replace(":", ": ", 1),
        "newer version": changed(ir_version=3),
        "older version": changed(ir_version=1),
        "unknown member": changed(future=1),
        "missing member": changed().replace('"edges":', '"edge":'),
        "number as text": good.replace('"min":0', '"min":"0"'),
        "unknown scalar": good.replace('"Date"', '"Time"', 1),
        "unknown constraint": good.replace('"Unique"', '"Only"', 1),
        "no identity": good.replace('"type_id":"id-1"', '"type_id":""', 1),
        "identity of a type twice": good.replace('"type_id":"id-3"', '"type_id":"id-1"'),
        "identity of a property twice": good.replace('"prop_id":"id-4"', '"prop_id":"id-5"'),
        "identity of a type and a property": good.replace('"prop_id":"id-4"', '"prop_id":"id-1"'),
        "older identity of another": good.replace('"also":[]', '"also":["id-4"]', 1),
        "older identity of itself": good.replace('"also":[]', '"also":["id-1"]', 1),
        "older identity twice": good.replace('"also":[]', '"also":["x","x"]', 1),
        "older identities unsorted": good.replace('"also":[]', '"also":["y","x"]', 1),
        "older identity that is empty": good.replace('"also":[]', '"also":[""]', 1),
        "no older identities": good.replace('"also":[],', "", 1),
        "older identities before the own one": good.replace('"type_id":"id-1","also":[]', '"also":[],"type_id":"id-1"'),
        "same type twice": changed(nodes=document["nodes"] * 2),
        "unsorted": changed(nodes=[{**document["nodes"][0], "name": "Z"}, *document["nodes"]]),
        "deep": "[" * 100_000,
    }
    for what, text in bad.items():
        with pytest.raises(Corruption) as caught:
            catalog_from_canonical(TEXT, text)
        assert "\n" not in caught.value.message, what


def with_older(catalog: Catalog) -> Catalog:
    """The catalog as a merge leaves it: a type and a property that two branches added alike."""
    knows = catalog.edge("Knows")
    since = replace(knows.property("since"), also=("a-2", "a-3"))
    return replace(catalog, edges={"Knows": replace(knows, also=("a-1",), properties=(since,))})


def test_older_identities_mean_the_same_and_change_no_hash() -> None:
    before = parse_schema(TEXT, mint=counter())
    after = with_older(before)
    assert after.hash == before.hash and shape_text(after) == shape_text(before)
    assert schema_id(canonical_text(after)) != schema_id(canonical_text(before))
    again = catalog_from_canonical(TEXT, canonical_text(after))
    assert again == after
    knows = again.edge("Knows")
    assert again.by_id["a-1"] is knows is again.by_id[knows.type_id]
    assert knows.by_id["a-3"] is knows.property("since") is knows.by_id[knows.property("since").prop_id]
    assert "a-3" not in again.by_id and "a-1" not in knows.by_id


def test_a_schema_id_is_the_digest_of_the_canonical_text() -> None:
    canonical = canonical_text(parse_schema(TEXT, mint=counter()))
    assert schema_id(canonical) == "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


def test_a_property_dropped_and_added_again_has_the_same_hash_and_another_schema_id() -> None:
    numbers = counter()
    before = parse_schema("node A { x: I32? }", mint=numbers)
    again = with_identities(before, lambda kind, name: before.node("A").type_id, lambda kind, name, prop: numbers())
    assert again.hash == before.hash
    assert schema_id(canonical_text(again)) != schema_id(canonical_text(before))


def test_the_order_of_key_columns_is_part_of_the_schema() -> None:
    one = parse_schema("node A { x: I32 y: I32 @key(x, y) }", mint=counter())
    other = parse_schema("node A { x: I32 y: I32 @key(y, x) }", mint=counter())
    assert one.hash != other.hash
    assert schema_id(canonical_text(one)) != schema_id(canonical_text(other))
    for catalog in (one, other):
        assert catalog_from_canonical("", canonical_text(catalog)).node("A").key == catalog.node("A").key


def test_what_has_one_identity_for_two_things_is_not_written() -> None:
    with pytest.raises(ValueError, match="stands for two things"):
        canonical_text(parse_schema("node A { x: I32 }", mint=lambda: "same"))
