"""The reference model of branches, on histories whose result is plain."""

from __future__ import annotations

from typing import Any

import pytest

from omnigraph.testing.branching_model import Branching, Clash, Content, Shape, lifted, merged_shape, shown

AGE = {"age": ("age", "I32")}


def people(**rows: dict[str, Any]) -> Content:
    found = {name: {"id": name, "name": name, "mail": None, "age": None, **row} for name, row in rows.items()}
    return lifted({"Person": found}, Shape({**AGE, "p": ("p", "I32")}))


def shape(props: dict[str, tuple[str, str]], **types: str) -> Shape:
    return Shape({**AGE, **props}, types)


P = {"p": ("p", "I32")}


def history(base: Content, source: tuple[Content, Shape], target: tuple[Content, Shape]) -> Branching:
    """A base of both branches, and one commit of each."""
    model = Branching()
    model.commit("main", "0", base, shape(P))
    model.heads["b"] = "0"
    model.commit("b", "1", *source)
    model.commit("main", "2", *target)
    return model


def test_what_either_side_did_to_different_properties_is_joined() -> None:
    base = people(ann={"age": 1, "p": 1})
    model = history(base, (people(ann={"age": 2, "p": 1}), shape(P)), (people(ann={"age": 1, "p": 2}), shape(P)))
    content, _ = model.merge("b", "main")
    assert content["Person"]["ann"]["age"] == 2 and content["Person"]["ann"]["p"] == 2


def test_a_row_that_one_side_deleted_and_the_other_changed_clashes() -> None:
    model = history(people(ann={"age": 1}), (people(), shape(P)), (people(ann={"age": 2}), shape(P)))
    with pytest.raises(Clash):
        model.merge("b", "main")


def test_a_property_that_one_side_dropped_is_gone_unless_its_values_changed() -> None:
    base, without = people(ann={"p": 1}), shape({})
    dropped = lifted(base, without), without
    content, merged = history(base, dropped, (people(ann={"p": 1, "age": 3}), shape(P))).merge("b", "main")
    assert merged == without and content["Person"]["ann"] == {"id": "ann", "name": "ann", "mail": None, "age": 3}
    with pytest.raises(Clash):
        history(base, dropped, (people(ann={"p": 2}), shape(P))).merge("b", "main")
    with pytest.raises(Clash):  # a new row has a value of it
        history(base, dropped, (people(ann={"p": 1}, bob={"p": 5}), shape(P))).merge("b", "main")


def test_a_name_and_a_kind_are_merged_apart() -> None:
    renamed, wider = shape({"p": ("q", "I32")}), shape({"p": ("p", "I64")})
    assert merged_shape(shape(P), renamed, wider).props["p"] == ("q", "I64")
    with pytest.raises(Clash):
        merged_shape(shape(P), renamed, shape({"p": ("r", "I32")}))


def test_what_one_side_dropped_and_the_other_declared_anew_clashes() -> None:
    with pytest.raises(Clash):
        merged_shape(shape(P), shape({}), shape({"p": ("q", "I32")}))
    with pytest.raises(Clash):
        merged_shape(shape(P, x="X"), shape(P), shape(P, x="Y"))


def test_what_either_side_added_is_there() -> None:
    found = merged_shape(shape(P), shape({**P, "q": ("q", "I32")}), shape(P, x="X"))
    assert found == shape({**P, "q": ("q", "I32")}, x="X")


def test_rows_are_shown_under_the_names_of_the_schema() -> None:
    found = shown({**people(ann={"p": 4}), "x": {}}, shape({"p": ("q", "I32")}, x="Y"))
    assert found["Person"]["ann"]["q"] == 4 and "p" not in found["Person"]["ann"] and "Y" in found


def test_an_undo_keeps_what_came_after() -> None:
    model = Branching()
    for number, content in enumerate((people(ann={"age": 1}), people(ann={"age": 2}), people(ann={"age": 2, "p": 3}))):
        model.commit("main", str(number), content, shape(P))
    assert model.undo("1", "main") == people(ann={"age": 1, "p": 3})
    assert model.line("main") == ["2", "1", "0"]
    model.commit("main", "3", people(ann={"age": 9, "p": 3}))
    with pytest.raises(Clash):
        model.undo("1", "main")
