"""What an annotation accepts, and what a call with a wrong kind is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from omnigraph.core.errors import InvalidInput
from omnigraph.core.kinds import kind_of, kinds_checked
from omnigraph.core.similar import nearest


@pytest.mark.parametrize(
    ("annotation", "right", "wrong"),
    [
        ("str", ["", "x"], [None, 5, b"x", ["x"]]),
        ("int | None", [None, 0, np.int64(3)], [True, 1.0, "1", float("nan")]),
        ("float", [0, 1.5, np.float32(1)], [True, "1", None, 1j]),
        ("bool", [True, False], [0, "yes", None]),
        ("str | Path", ["x", Path("x")], [None, b"x", 5]),
        ("Mapping[str, str] | None", [None, {}, {"a": "b"}], [["a"], {"a": 5}, {1: "a"}, "a"]),
        ("Sequence[str]", [[], ("a",)], ["a", b"a", {"a"}, [1], iter(["a"])]),
        ("Iterable[str]", [[], {"a"}, iter([1])], ["a", {1: 1}, [1], {1}]),
        ("Literal[False]", [False], [True, "x"]),
        ("Literal['a', 'b']", ["a"], ["c", None, []]),
        ("pc.Expression | None", [None], ["x", 5]),
        ("Listener | None", [None, print], [5, "print"]),
    ],
)
def test_an_annotation_accepts_its_kinds_and_no_others(annotation: str, right: list[Any], wrong: list[Any]) -> None:
    kind = kind_of(annotation)
    assert kind is not None
    assert [value for value in right if not kind.accepts(value)] == []
    assert [value for value in wrong if kind.accepts(value)] == []


def test_an_annotation_of_anything_accepts_anything() -> None:
    assert kind_of("Any") is None
    assert kind_of("str | object") is None


@kinds_checked
def call(name: str, items: Iterable[str] = (), *, by: Mapping[str, str] | None = None, n: Literal[1] = 1) -> list[str]:
    return [name, *items]


def test_a_wrong_kind_names_the_parameter() -> None:
    with pytest.raises(InvalidInput, match="name is a text, not None"):
        call(None)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="a mapping"):
        call("x", by=["x"])  # type: ignore[arg-type]
    assert call("x", ["y"]) == ["x", "y"]


def test_an_iterator_is_checked_as_it_is_read() -> None:
    assert call("x", iter("yz")) == ["x", "y", "z"]
    with pytest.raises(InvalidInput, match="an item of items is a text, not 5"):
        call("x", iter(["y", 5]))  # type: ignore[list-item]


def test_a_value_that_may_be_a_secret_is_not_shown() -> None:
    with pytest.raises(InvalidInput) as caught:
        call("x", by={"secret": b"hunter2"})  # type: ignore[dict-item]
    assert "hunter2" not in str(caught.value.to_dict())


def test_the_nearest_name() -> None:
    assert nearest("Persn", ["City", "Person"]) == "Person"
    assert nearest("person", ["Person"]) == "Person"
    assert nearest("x", ["Person"]) is None


def test_sequences_are_not_texts() -> None:
    kind = kind_of("Sequence[str]")
    assert kind is not None and not kind.accepts("letters")
    assert isinstance("letters", Sequence)
