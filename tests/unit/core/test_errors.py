"""The tree of errors: stable codes, bodies that any wire can carry, closed lists that are used."""

from __future__ import annotations

import ast
import json
import math
import pickle
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omnigraph.commit import lines
from omnigraph.core import errors
from omnigraph.core.errors import CONFLICT_KINDS, NOT_RAISED_YET, REASONS, REASONS_NOT_GIVEN_YET, all_errors

ROOT = Path(__file__).resolve().parents[3]

# Programs decide by these: a change here is a change of the interface.
TREE = {
    "already-exists": ("AlreadyExists", 3, 409),
    "conflict": ("Conflict", 4, 409),
    "corruption": ("Corruption", 9, 500),
    "data-invalid": ("DataInvalid", 3, 400),
    "expected-version-mismatch": ("ExpectedVersionMismatch", 4, 409),
    "idempotency-mismatch": ("IdempotencyMismatch", 4, 409),
    "internal": ("OmnigraphError", 1, 500),
    "invalid-input": ("InvalidInput", 3, 400),
    "key-conflict": ("KeyConflict", 4, 409),
    "limit-exceeded": ("LimitExceeded", 3, 413),
    "merge-conflict": ("MergeConflict", 4, 409),
    "missing-extra": ("MissingExtra", 2, 500),
    "not-found": ("NotFound", 3, 404),
    "outcome-unknown": ("OutcomeUnknown", 5, 503),
    "overloaded": ("Overloaded", 7, 429),
    "precondition-failed": ("PreconditionFailed", 4, 412),
    "query-invalid": ("QueryInvalid", 3, 400),
    "read-set-changed": ("ReadSetChanged", 4, 409),
    "reclaimed": ("Reclaimed", 3, 410),
    "recovery-pending": ("RecoveryPending", 6, 503),
    "refused": ("Refused", 4, 409),
    "schema-changed": ("SchemaChanged", 4, 409),
    "schema-invalid": ("SchemaInvalid", 3, 400),
    "store-refused": ("StoreRefused", 8, 502),
    "store-unavailable": ("StoreUnavailable", 7, 503),
    "unsupported-storage": ("UnsupportedStorage", 9, 500),
    "writer-fenced": ("WriterFenced", 4, 409),
}


class Colour(Enum):
    RED = "red"


NASTY: dict[str, Any] = {
    "nan": math.nan,
    "inf": math.inf,
    "half": "\ud800",
    "when": datetime(2026, 1, 2, tzinfo=UTC),
    "where": Path("a/b"),
    "bytes": b"\xff",
    "rows": ({"a": np.int64(7), 1: {2, 3}},),
    "colour": Colour.RED,
    "ratio": np.float32(0.5),
}


def make(code: str, **facts: Any) -> errors.OmnigraphError:
    return errors.from_dict({"error": "what happened", "code": code, "hint": "what to do", **facts})


def test_codes_classes_and_statuses_stay_as_they_are() -> None:
    assert {code: (k.__name__, k.exit_code, k.http_status) for code, k in all_errors().items()} == TREE
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", code) for code in TREE)


@pytest.mark.parametrize("code", TREE)
def test_an_error_survives_a_process_border(code: str) -> None:
    error = make(code, reason="drift", table_key="node:Person", total=3)
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is type(error) is all_errors()[code]
    assert (back.message, back.hint, back.facts) == (error.message, error.hint, error.facts)


@pytest.mark.parametrize("code", TREE)
def test_an_error_survives_a_wire(code: str) -> None:
    error = make(code, reason="drift", table_key="node:Person", expected=1, actual=2)
    body = json.loads(json.dumps(error.to_dict(), allow_nan=False))
    back = errors.from_dict(body)
    assert type(back) is type(error) and back.to_dict() == error.to_dict()


@pytest.mark.parametrize("code", TREE)
def test_whatever_the_facts_are_the_body_is_strict_json_in_utf_8(code: str) -> None:
    body = make(code, **NASTY).to_dict()
    text = json.dumps(body, allow_nan=False, ensure_ascii=False).encode("utf-8")
    assert json.loads(text) == body
    assert body["nan"] == "nan" and body["rows"] == [{"a": 7, "1": [2, 3]}] and body["colour"] == "red"


@pytest.mark.parametrize("code", TREE)
def test_an_error_can_be_printed_whatever_name_it_repeats(code: str) -> None:
    error = make(code)
    given = type(error).__new__(type(error))
    errors.OmnigraphError.__init__(given, "no \ud800, but Zoë", hint="did you mean \udfff?")
    assert (str(given), given.hint) == ("no \\ud800, but Zoë", "did you mean \\udfff?")
    assert str(given).encode() and given.to_dict()["error"] == str(given)


def test_a_code_of_another_release_gives_the_base_class() -> None:
    error = errors.from_dict({"error": "x", "code": "from-the-future", "hint": "y", "reason": "new"})
    assert type(error) is errors.OmnigraphError and error.facts == {"reason": "new"}


def test_a_refusal_gives_its_reason() -> None:
    error = errors.Refused("no", reason="drift", table_key="node:Person")
    assert error.reason == "drift" and not isinstance(error, errors.Conflict)
    with pytest.raises(TypeError):
        errors.Refused("no")  # type: ignore[call-arg]


# --- what is declared is used, or says that it is not -------------------------------------------------------------------


def calls() -> Iterator[ast.Call]:
    for folder in ("engine/omnigraph", "omnigraph_pipelines"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call):
                    yield node


def name_of(node: ast.expr) -> str | None:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None


@pytest.fixture(scope="module")
def made() -> list[ast.Call]:
    classes = {kind.__name__ for kind in all_errors().values()}
    return [call for call in calls() if name_of(call.func) in classes]


def test_every_class_is_raised_somewhere_or_says_that_it_is_not(made: list[ast.Call]) -> None:
    raised = {name_of(call.func) for call in made}
    for code, kind in all_errors().items():
        assert (kind.__name__ in raised) != (code in NOT_RAISED_YET), code


def test_every_reason_is_given_somewhere_or_says_that_it_is_not(made: list[ast.Call]) -> None:
    given = {
        word.value.value
        for call in made
        if name_of(call.func) == "Refused"
        for word in call.keywords
        if word.arg == "reason" and isinstance(word.value, ast.Constant)
    }
    given |= {
        lines.UNKNOWN_INTENT,
        lines.UNKNOWN_REF,
        lines.UNREADABLE_BRANCH,
        lines.UNRESOLVED_BRANCH,
    }  # passed on by cleanup_look
    assert given == set(REASONS) - REASONS_NOT_GIVEN_YET


def test_kinds_of_a_merge_conflict_are_the_published_ones() -> None:
    assert len(CONFLICT_KINDS) == len(set(CONFLICT_KINDS)) == 9
