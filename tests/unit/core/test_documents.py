"""Documents of a graph: what is written comes back, and whatever else stands there is refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.core import documents
from omnigraph.core.documents import Document, Malformed, NewerFormat, Ref, Ulid
from omnigraph.core.errors import Corruption, InvalidInput, LimitExceeded, UnsupportedStorage

ID = "01BX5ZZKBKACTAV9WEVGEMMVRZ"

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
bodies = st.dictionaries(texts, values, max_size=4)


class Thing(Document):
    format: int
    name: str
    count: int
    ref: Ref | None
    identity: Ulid
    parts: tuple[str, ...]


GOOD: dict[str, Any] = {
    "format": 1,
    "name": "a",
    "count": 3,
    "ref": f"g-{ID}",
    "identity": ID,
    "parts": ["x", "y"],
}


def read(data: bytes, **options: Any) -> Thing:
    return documents.read(Thing, data, **{"format": 1, "named": {"name": "a"}, **options})


@given(bodies)
def test_a_document_comes_back_as_it_was_written(body: dict[str, Any]) -> None:
    assert documents.loads(documents.canonical(body)) == body
    body.pop("checksum", None)
    assert documents.unseal(documents.loads(documents.seal(body))) == body


def test_canonical_json_sorts_and_has_no_blanks_and_escapes_nothing_it_need_not() -> None:
    assert documents.canonical({"b": [1, 2.5], "ä": "ö\n", "a": None}) == '{"a":null,"b":[1,2.5],"ä":"ö\\n"}'.encode()


def test_lists_of_a_document_are_tuples_where_the_model_says_so() -> None:
    assert read(documents.canonical(GOOD)).parts == ("x", "y")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"null",
        b"\xff\xfe{}",
        b"\xef\xbb\xbf{}",
        b'{"a":1',
        b'{"a":1} {}',
        b'{"a":1,"a":1}',
        b'{"a":{"b":1,"b":2}}',
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":-Infinity}',
        b'{"a":1e999}',
        b'{"a":-1e999}',
        b'{"a":"\\ud800"}',
        b'{"\\udfff":1}',
        b'{"a":' + b"[" * 32 + b"]" * 32 + b"}",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"a":' + b"9" * 5000 + b"}",
    ],
)
def test_what_is_no_document_is_refused(data: bytes) -> None:
    with pytest.raises(Malformed):
        documents.loads(data)


def test_nesting_is_allowed_up_to_its_bound_and_brackets_in_texts_do_not_count() -> None:
    assert documents.loads(b'{"a":' + b"[" * 31 + b"]" * 31 + b"}")
    assert documents.loads(documents.canonical({"a": "[" * 200 + '\\"' + "{" * 200}))


def test_a_document_is_read_up_to_its_bound() -> None:
    data = documents.canonical({"a": "x" * 90})
    assert documents.loads(data, bytes_max=len(data))
    with pytest.raises(Malformed, match="larger than"):
        documents.loads(data, bytes_max=len(data) - 1)
    assert documents.check_size(data, "this", "some", len(data)) == data
    with pytest.raises(LimitExceeded):
        documents.check_size(data, "this", "some", len(data) - 1)


@pytest.mark.parametrize("member", sorted(GOOD))
def test_a_missing_member_is_refused(member: str) -> None:
    with pytest.raises(Malformed):
        read(documents.canonical({key: value for key, value in GOOD.items() if key != member}))


@pytest.mark.parametrize(
    "wrong",
    [
        {"more": 1},
        {"name": "b"},
        {"name": None},
        {"count": "3"},
        {"count": 3.0},
        {"count": True},
        {"count": None},
        {"ref": ID},
        {"ref": f"h-{ID}"},
        {"ref": f"g-{ID}/.."},
        {"ref": f"g-{ID.lower()}"},
        {"ref": ""},
        {"identity": ID.lower()},
        {"identity": "x"},
        {"parts": "xy"},
        {"parts": [1]},
        {"format": 0},
        {"format": "1"},
        {"format": True},
        {"format": None},
        {"format": 1.0},
    ],
)
def test_a_wrong_member_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        read(documents.canonical({**GOOD, **wrong}))


def test_a_ref_may_be_null_or_of_a_branch_or_of_a_fork() -> None:
    for ref in (None, f"g-{ID}", f"f-{ID}"):
        assert read(documents.canonical({**GOOD, "ref": ref})).ref == ref


def test_a_later_format_is_told_apart_whatever_its_members_are() -> None:
    with pytest.raises(NewerFormat):
        read(documents.canonical({"format": 2, "anything": []}))


def test_any_bit_of_a_sealed_document_is_guarded() -> None:
    data = documents.seal(GOOD)
    assert read(data, sealed=True).count == 3
    for at in range(len(data)):
        for bit in range(8):
            with pytest.raises(Malformed):
                read(data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :], sealed=True)


def test_a_sealed_document_needs_its_checksum() -> None:
    for data in (documents.canonical(GOOD), documents.canonical({**GOOD, "checksum": None})):
        with pytest.raises(Malformed):
            read(data, sealed=True)


def test_a_refusal_names_the_object_and_says_who_gave_it() -> None:
    def refused(data: bytes, *, given: bool = False) -> Exception:
        with pytest.raises(Exception) as caught, documents.refusals("__x/a.json", "the thing", given=given):
            read(data)
        return caught.value

    broken = refused(b"{")
    assert isinstance(broken, Corruption)
    assert broken.facts["object"] == "__x/a.json"
    assert "\n" not in str(broken)
    assert isinstance(refused(b"{", given=True), InvalidInput)
    later = refused(json.dumps({**GOOD, "format": 2}).encode())
    assert isinstance(later, UnsupportedStorage)
    assert later.facts["found"] == 2
    assert "newer release" in later.hint
