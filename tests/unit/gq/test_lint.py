"""Lint: every finding of a whole file, faults of form included, as values."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from omnigraph.core.limits import DEFAULT_LIMITS
from omnigraph.gq import CODES, Diagnostic, lint
from tests.unit.gq.material import catalog

FILE = """
query good($age: I32) { delete Person where age = $age }

query bad_form() {
  insert Person { name "x" }
}

query bad_sense($unused: String) {
  insert Person { age: "x" }
  delete Nobody where a = 1
}

query bad_string() { delete Person where name = "\\q" }

query good() { delete Person where age = 2 }

query bad_read() { match { $p: Person $p knows $q } return { $p.height } }

query never_closed() { delete Person where name = "x
"""


def found(text: str) -> list[tuple[str, int, str | None]]:
    return [(diagnostic.code, diagnostic.line, diagnostic.query) for diagnostic in lint(text, catalog())]


def test_every_query_of_a_file_is_reported_on() -> None:
    assert found(FILE) == [
        ("Q1", 5, "bad_form"),
        ("W1", 8, "bad_sense"),
        ("T12", 9, "bad_sense"),
        ("T3", 9, "bad_sense"),
        ("Q4", 10, "bad_sense"),
        ("T10", 10, "bad_sense"),
        ("Q1", 13, "bad_string"),
        ("W2", 15, "good"),
        ("W3", 17, "bad_read"),
        ("T2", 17, "bad_read"),
        ("Q1", 19, "never_closed"),
    ]


def test_a_finding_is_plain_data() -> None:
    (first, *_) = lint(FILE, catalog())
    assert first == Diagnostic("error", "Q1", "Q1: expected `:`, found string 'x'", 5, 24, "bad_form")
    assert first.to_dict() == {
        "severity": "error",
        "code": "Q1",
        "message": "Q1: expected `:`, found string 'x'",
        "line": 5,
        "column": 24,
        "query": "bad_form",
        "hint": None,
    }
    assert str(first) == "line 5, column 24: error: Q1: expected `:`, found string 'x'"
    for diagnostic in lint(FILE, catalog()):
        json.dumps(diagnostic.to_dict())
        assert diagnostic.code in CODES
        assert diagnostic.message.startswith(f"{diagnostic.code}: ")
        assert diagnostic.severity == ("warning" if diagnostic.code.startswith("W") else "error")


def test_a_clean_file_has_no_finding() -> None:
    assert lint("query q($x: I32) { delete Person where age = $x }", catalog()) == []


@pytest.mark.parametrize("text", ["", "   ", "// only a comment"])
def test_a_file_without_queries_is_a_warning(text: str) -> None:
    assert found(text) == [("W6", 1, None)]


def test_a_fault_before_the_first_query_does_not_hide_the_others() -> None:
    assert found("oops\nquery a() { delete Nobody where a = 1 }") == [("Q1", 1, None), ("T10", 2, "a")]


def test_a_query_in_a_string_is_not_read_because_of_a_fault_behind_it() -> None:
    text = 'query a() { delete Nobody where a = "query b() { delete Nobody where a = 1 }" } ; query c() { delete Nobody where a = 1 }'
    assert found(text) == [("T10", 1, "a"), ("Q1", 1, None), ("T10", 1, "c")]


def test_a_text_beyond_a_limit_is_a_finding() -> None:
    limits = replace(DEFAULT_LIMITS, source_text_bytes=10)
    (diagnostic,) = lint("query q() { delete Person where age = 1 }", catalog(), limits)
    assert (diagnostic.code, diagnostic.severity) == ("Q2", "error")
    nested = "query q() { insert Person { tags: " + "[" * 10_000 + " } } query b() { delete Nobody where a = 1 }"
    assert found(nested) == [("Q2", 1, "q"), ("T10", 1, "b")]


@pytest.mark.parametrize(
    "piece",
    ["query a(/*", "query a(//", 'query a("', 'query a("\\"', "query a() { insert P { a: [", "query "],
)
def test_a_hostile_file_of_megabytes_has_its_findings(piece: str) -> None:
    """A cost that grows with the square of the length would run into the time limit of every test."""
    assert lint(piece * (2_000_000 // len(piece)), catalog())


def test_a_file_of_faults_is_given_up_after_a_thousand() -> None:
    whole, broken = "query a() { delete Nobody where a = 1 }\n", "query a() { insert }\n"
    assert len(lint(whole * 2_000, catalog())) == 2_000 + 1_999  # what parses is checked to the end
    assert len(lint(broken * 1_000, catalog())) == 1_000
    found = lint(broken * 20_000, catalog())
    assert len(found) == 1_001
    assert (found[-1].code, found[-1].line) == ("Q2", 1_000)
    assert "more than 1000 declarations do not parse" in found[-1].message
