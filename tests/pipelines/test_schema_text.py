"""A schema text gets more properties where its author would have written them, and nothing else of it changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnigraph as og
from omnigraph_pipelines.schema_text import with_properties

TEXT = """\
// people, and "node Firm { }" in a comment
node Person implements Named {
    name: String @key  // the { that is none
    age: I32? @description("a } and \\" and // inside")
}
interface Named { name: String }
node Town { title: String @key } /* node Gone { */
edge Knows: Person -> Person
edge Lives: Person -> Town @card(0..1) // no body
edge Owns: Person -> Town { since: I32? @index @unique(src, dst) }"""


def added(text: str, wanted: dict[str, dict[str, str]]) -> dict[str, set[str]]:
    """What the types of the new text have that those of the old do not have."""
    old, new = og.parse_schema(text), og.parse_schema(with_properties(text, wanted))
    found = {}
    for declared in new.types():
        before = {str(prop) for prop in old.type(declared.name).properties}
        found[declared.name] = {prop.name for prop in declared.properties if str(prop) not in before}
    return found


@pytest.mark.parametrize("name", ["Person", "Town", "Knows", "Lives", "Owns"])
def test_a_type_gets_its_properties_and_no_other_type_does(name: str) -> None:
    found = added(TEXT, {name: {"more": "String?", "tags": "[String]?"}})
    assert found[name] >= {"more", "tags"}
    new = og.parse_schema(with_properties(TEXT, {name: {"more": "String?", "tags": "[String]?"}}))
    for declared in new.types():
        wanted = {"more", "tags"} if declared.name == name else set()
        assert {prop.name for prop in declared.properties} == wanted | {
            prop.name for prop in og.parse_schema(TEXT).type(declared.name).properties
        }


def test_the_rest_of_the_text_stays_as_it_was_written() -> None:
    new = with_properties(TEXT, {"Person": {"more": "String?"}})
    assert new.replace("    more: String?\n", "") == TEXT
    assert with_properties(TEXT, {}) == TEXT and with_properties(TEXT, {"Gone": {"more": "String?"}}) == TEXT


@given(
    st.lists(
        st.sampled_from(["node A { k: String @key", "// x {\n", "/* } */", "n: I32?", "}", "\n", "\t"]), max_size=9
    )
)
def test_whatever_the_blanks_and_comments_are_one_property_is_added(parts: list[str]) -> None:
    text = (
        "node A { k: String @key " + " ".join(one for one in parts if one.startswith(("//", "/*", "\n", "\t"))) + " }"
    )
    found = og.parse_schema(with_properties(text, {"A": {"more": "I64?"}}))
    assert {prop.name for prop in found.node("A").properties} == {"k", "more"}
