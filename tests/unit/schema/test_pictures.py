"""Pictures of a schema and of a plan: complete, well formed, nothing from outside, nothing that a name can break."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.schema import Catalog, SchemaPlan, SchemaView, canonical_text, parse_schema, plan_change, schema_id
from omnigraph.schema.diagram import diagram_of
from omnigraph.schema.graphtext import to_dot, to_mermaid
from omnigraph.schema.svg import border, place, to_svg
from tests.unit.schema.material import accepted, counter
from tests.unit.schema.test_diff_pairs import TEXTS

OLD = """
interface Named { name: String }
node Person implements Named { email: String @key  mood: enum(sad, happy)?  tags: [String]?  face: Vector(3)? }
node City { name: String @key  gone: I32? }
node Old {}
edge LivesIn: Person -> City @card(0..1) { since: Date? }
edge Knows: Person -> Person
edge Likes: Person -> Person
"""
NEW = (
    OLD.replace("tags: [String]?", "tags: [String]? score: F64?")
    .replace("gone: I32?", "")
    .replace("node Old {}", "node Club {}")
    .replace("enum(sad, happy)", "enum(sad, happy, calm)")
    .replace("edge Likes: Person -> Person", "edge Joins: Person -> Club")
)


def plan(old: str = OLD, new: str = NEW) -> SchemaPlan:
    return plan_change(accepted(old), parse_schema(new), mint=counter("new"))


def svg_of(shown: Catalog | SchemaPlan) -> ET.Element:
    return ET.fromstring(to_svg(shown))


def texts(root: ET.Element) -> list[str]:
    return [element.text or "" for element in root.iter() if element.tag.endswith("}text")]


EXPECTED_LINES = {
    "Person": ["email: String @key", "face: Vector(3)?", "mood: enum(happy, sad)?", "name: String", "tags: [String]?"],
    "City": ["gone: I32?", "name: String @key"],
    "interface Named": ["name: String"],
    "Old": [],
}


def test_a_diagram_has_every_type_property_and_edge() -> None:
    diagram = diagram_of(accepted(OLD))
    assert {box.title: [str(line) for line in box.lines] for box in diagram.boxes} == EXPECTED_LINES
    ends = [(a.title, diagram.boxes[a.source].name, diagram.boxes[a.target].name) for a in diagram.arrows]
    assert ends == [
        ("implements", "Person", "Named"),
        ("Knows", "Person", "Person"),
        ("Likes", "Person", "Person"),
        ("LivesIn 0..1", "Person", "City"),
    ]
    assert [str(line) for line in diagram.arrows[3].lines] == ["since: Date?"]


def test_a_diagram_of_a_plan_says_what_is_added_changed_and_dropped() -> None:
    diagram = diagram_of(plan())
    boxes = {box.name: box for box in diagram.boxes}
    assert {name: box.mark for name, box in boxes.items()} == {
        "Named": "same",
        "City": "changed",
        "Club": "added",
        "Person": "changed",
        "Old": "dropped",
    }
    assert [str(line) for line in boxes["City"].lines] == ["name: String @key", "- gone: I32?"]
    assert {"+ score: F64?", "~ mood: enum(calm, happy, sad)?", "tags: [String]?"} <= set(
        map(str, boxes["Person"].lines)
    )
    marks = {arrow.label: arrow.mark for arrow in diagram.arrows}
    assert marks == {
        "implements": "same",
        "Joins": "added",
        "Knows": "same",
        "LivesIn 0..1": "same",
        "Likes": "dropped",
    }


def test_a_renamed_type_is_one_box_and_its_edges_stay_at_it() -> None:
    made = plan("node Na {} edge Ea: Na -> Na", 'node Nb @rename_from("Na") {} edge Ea: Nb -> Nb')
    diagram = diagram_of(made)
    assert [(box.name, box.mark) for box in diagram.boxes] == [("Nb", "changed")]
    assert [(a.source, a.target, a.mark) for a in diagram.arrows] == [(0, 0, "same")]


def test_a_schema_without_identities_can_be_drawn() -> None:
    assert diagram_of(parse_schema(OLD)) == diagram_of(accepted(OLD))


# --- Mermaid and Graphviz -----------------------------------------------------------------------------------------------

MERMAID = re.compile(
    r'flowchart LR|    n\d+\["[^"\[\]{}|<>]*(?:(?:<b>|</b>|<br/>)[^"\[\]{}|<>]*)*"\]'
    r'|    n\d+ (?:-->|-\.->)\|"[^"\[\]{}|<>]*(?:<br/>[^"\[\]{}|<>]*)*"\| n\d+'
    r"|    classDef (?:added|changed|dropped) stroke:#[0-9a-f]{6},stroke-width:2px"
    r"|    class n\d+(?:,n\d+)* (?:added|changed|dropped)"
)


def plain(mermaid: str) -> str:
    return re.sub(r"#(\d+);", lambda found: chr(int(found.group(1))), mermaid)


def test_mermaid_has_a_line_for_every_box_and_arrow() -> None:
    text = to_mermaid(accepted(OLD))
    assert all(MERMAID.fullmatch(line) for line in text.splitlines()), text
    shown = plain(text)
    assert 'n0["<b>interface Named</b><br/>name: String"]' in shown
    assert 'n3 -->|"LivesIn 0..1<br/>since: Date?"| n1' in shown
    assert 'n3 -.->|"implements"| n0' in shown and "classDef" not in shown


def test_mermaid_of_a_plan_marks_boxes() -> None:
    text = to_mermaid(plan())
    assert all(MERMAID.fullmatch(line) for line in text.splitlines()), text
    assert "class n2 added" in text and "class n4 dropped" in text and "class n1,n3 changed" in text
    assert "+ Joins" in plain(text) and "- Likes" in plain(text)


def dot_labels(text: str) -> list[str]:
    labels = re.findall(r"label=<(<table.*</table>)>", text)
    return ["|".join(ET.fromstring(label).itertext()) for label in labels]


def test_dot_has_a_table_for_every_box_and_a_label_for_every_arrow() -> None:
    text = to_dot(plan())
    lines = text.splitlines()
    assert lines[0] == "digraph schema {" and lines[-1] == "}"
    assert all(line.endswith((";", "{", "}")) for line in lines)
    labels = dot_labels(text)
    assert "~ City|name: String @key|- gone: I32?" in labels
    assert "LivesIn 0..1|since: Date?" in labels and "- Likes" in labels
    assert len(labels) == len(diagram_of(plan()).boxes) + len(diagram_of(plan()).arrows)


# --- SVG ----------------------------------------------------------------------------------------------------------------


def test_an_svg_needs_nothing_from_outside() -> None:
    text = to_svg(plan())
    assert re.findall(r"https?://[^\"]*", text) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"<(?:script|image|use|foreignObject|style|a )|href|url\(|@import|on\w+=", text)


def test_an_svg_shows_every_line() -> None:
    found = texts(svg_of(accepted(OLD)))
    for title, lines in EXPECTED_LINES.items():
        assert title in found and set(lines) <= set(found)
    assert {"Knows", "Likes", "LivesIn 0..1", "implements"} <= set(found)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 60, 61, 100])
def test_boxes_lie_apart_inside_the_picture(count: int) -> None:
    catalog = accepted(" ".join(f"node N{i} {{ {'a' * (i % 9 + 1)}: I32? }}" for i in range(count)))
    placed = place(diagram_of(catalog))
    assert len(placed) == min(count, 60)
    for one, other in combinations(placed, 2):
        apart_x = one.x + one.width < other.x or other.x + other.width < one.x
        apart_y = one.y + one.height < other.y or other.y + other.height < one.y
        assert apart_x or apart_y
    root = svg_of(catalog)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    assert all(p.x >= 0 and p.y >= 0 and p.x + p.width <= width and p.y + p.height <= height for p in placed)
    assert (f"and {count - 60} more" in texts(root)) == (count > 60)


@pytest.mark.parametrize("text", [OLD, "node N {} edge " + "L" * 100 + ": N -> N", "", "node N {} edge Ea: N -> N"])
def test_every_text_lies_inside_the_picture(text: str) -> None:
    root = svg_of(accepted(text))
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for element in root.iter():
        if element.tag.endswith("}text"):
            x, y = float(element.attrib["x"]), float(element.attrib["y"])
            assert 0 <= x and x + 7.3 * len(element.text or "") <= width and 0 < y < height


def test_an_arrow_begins_and_ends_at_the_border_of_its_boxes() -> None:
    diagram = diagram_of(accepted(OLD))
    placed = place(diagram)
    for one, other in combinations(placed, 2):
        x, y = border(one, other.middle)
        on_side = min(abs(x - one.x), abs(x - one.x - one.width)) < 1e-6
        on_top = min(abs(y - one.y), abs(y - one.y - one.height)) < 1e-6
        assert on_side or on_top
        assert one.x - 1e-6 <= x <= one.x + one.width + 1e-6 and one.y - 1e-6 <= y <= one.y + one.height + 1e-6


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(TEXTS), st.sampled_from(TEXTS))
def test_every_plan_can_be_drawn(old: str, new: str) -> None:
    made = plan(old, new)
    for shown in (made.old, made.new, made):
        assert svg_of(shown).tag.endswith("svg")
        assert all(MERMAID.fullmatch(line) for line in to_mermaid(shown).splitlines())
        assert len(dot_labels(to_dot(shown))) == len(diagram_of(shown).boxes) + len(diagram_of(shown).arrows)
    ET.fromstring(made._repr_html_())


# --- the view -----------------------------------------------------------------------------------------------------------


def test_a_view_is_the_text_with_its_digests() -> None:
    catalog = accepted(OLD)
    view = SchemaView(catalog)
    assert str(view) == OLD and view.catalog is catalog
    assert (view.schema_id, view.hash) == (schema_id(canonical_text(catalog)), catalog.hash)
    body = view.to_dict()
    assert json.loads(json.dumps(body)) == body
    assert body["source"] == OLD and body["ir_version"] == 2 and body["nodes"][0]["type_id"]
    assert repr(view) == "<SchemaView 3 node types, 3 edge types, 1 interface>"
    assert view.to_mermaid() == to_mermaid(catalog) and view.to_dot() == to_dot(catalog)
    assert view._repr_html_() == catalog._repr_html_() and "<svg" in view._repr_html_()


def test_a_plan_shows_its_steps_as_a_table() -> None:
    made = plan(new=NEW.replace("face: Vector(3)?", "face: Vector(4)?"))
    shown = made._repr_html_()
    cells = [cell.text for cell in ET.fromstring(shown).iter("td")]
    assert "City.gone" in cells and any("loses data" in (c or "") for c in cells)
    assert any((c or "").startswith("refused: Vector(3)? cannot become Vector(4)?") for c in cells)
    assert made.to_mermaid() == to_mermaid(made) and made.to_dot() == to_dot(made)
    assert plan(OLD, OLD)._repr_html_() == "<p>no change</p>"
