"""The key set gives the answers of a Python dictionary, whatever the keys."""

from __future__ import annotations

import datetime as dt
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.table import key_set as keyset
from omnigraph.table.key_set import KeySet, encode_words

TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(["", "\0", "\0\0", "a", "a\0", "a\0\0", "12345678", "123456789", "x" * 63, "x" * 64, "x" * 65]),
    st.integers(0, 5).map(lambda i: "y" * 64 + str(i)),
    st.integers(0, 5).map(lambda i: "long" * 40 + str(i)),
)


def firsts_of(batches: list[list]) -> list[int]:
    seen: dict = {}
    found = []
    for batch in batches:
        for key in batch:
            found.append(seen.setdefault(key, len(found)))
    return found


@given(st.lists(st.lists(TEXTS, max_size=30), max_size=5), st.lists(TEXTS, max_size=30))
def test_texts_are_found_exactly(batches: list[list[str]], asked: list[str]) -> None:
    keys = KeySet()
    got: list[int] = []
    for batch in batches:
        got += keys.add(pa.array(batch, pa.utf8())).tolist()
    assert got == firsts_of(batches)
    known = {key: i for i, key in reversed(list(enumerate(k for batch in batches for k in batch)))}
    assert keys.find(pa.array(asked, pa.utf8())).tolist() == [known.get(key, -1) for key in asked]
    assert keys.has(pa.array(asked, pa.utf8())).tolist() == [key in known for key in asked]
    assert len(keys) == len(got)


@given(
    st.lists(st.tuples(TEXTS, st.integers(-(2**63), 2**63 - 1), st.booleans(), st.dates()), max_size=40),
    st.integers(0, 40),
)
def test_tuples_of_several_kinds_are_found_exactly(rows: list[tuple], cut: int) -> None:
    def columns(part: list[tuple]) -> list[pa.Array]:
        texts, numbers, flags, days = zip(*part, strict=True) if part else ((), (), (), ())
        return [
            pa.array(texts, pa.utf8()),
            pa.array(numbers, pa.int64()),
            pa.array(flags, pa.bool_()),
            pa.array(days, pa.date32()),
        ]

    keys = KeySet(4)
    got = [*keys.add(*columns(rows[:cut])).tolist(), *keys.add(*columns(rows[cut:])).tolist()]
    assert got == firsts_of([rows])
    assert keys.find(*columns(rows)).tolist() == firsts_of([rows])


def test_a_text_is_not_the_texts_it_begins_with() -> None:
    keys = KeySet()
    keys.add(pa.array(["abcdefgh", "abcdefghi"]))
    assert keys.find(pa.array(["abcdefg", "abcdefgh", "abcdefghi", "abcdefghij", ""])).tolist() == [-1, 0, 1, -1, -1]


def test_slices_and_other_layouts_are_the_same_keys() -> None:
    keys = KeySet()
    keys.add(pa.array(["x", "a", "b", "c"]).slice(1, 2))
    assert keys.find(pa.array(["z", "b", "a"], pa.large_utf8()).slice(1)).tolist() == [1, 0]
    assert keys.find(pa.array(["b", "q", "b"]).dictionary_encode()).tolist() == [1, -1, 1]


def test_zero_has_one_sign_and_moments_one_zone() -> None:
    floats = KeySet()
    floats.add(pa.array([0.0, 1.5]))
    assert floats.find(pa.array([-0.0, 1.5, 2.0])).tolist() == [0, 1, -1]
    moments = KeySet()
    moments.add(pa.array([dt.datetime(2020, 1, 1, tzinfo=dt.UTC)], pa.timestamp("us", "UTC")))
    assert moments.find(pa.array(["2020-01-01T00:00:00"]).cast(pa.timestamp("us"))).tolist() == [0]


def test_the_largest_unsigned_number_is_a_key_like_any_other() -> None:
    keys = KeySet()
    keys.add(pa.array([2**64 - 1, 0, 2**63], pa.uint64()))
    assert keys.find(pa.array([0, 2**63, 2**64 - 1, 1], pa.uint64())).tolist() == [1, 2, 0, -1]


def test_it_grows_by_parts_and_forgets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyset, "_STEP_ROWS", 97)
    keys = KeySet()
    texts = [f"k{i * 7919 % 5000}" for i in range(20_000)]
    for start in range(0, len(texts), 1500):
        keys.add(pa.array(texts[start : start + 1500]))
    first: dict[str, int] = {}
    for i, text in enumerate(texts):
        first.setdefault(text, i)
    assert keys.find(pa.array(texts)).tolist() == [first[text] for text in texts]
    assert not keys.has(pa.array([f"n{i}" for i in range(5000)])).any()


def test_an_empty_set_finds_nothing_and_empty_questions_have_empty_answers() -> None:
    assert KeySet().find(pa.array(["a"])).tolist() == [-1]
    keys = KeySet()
    keys.add(pa.array([], pa.utf8()))
    keys.add(pa.array(["a"]))
    assert keys.find(pa.array([], pa.utf8())).tolist() == []
    assert keys.find(pa.array(["a"])).dtype == np.int64


@pytest.mark.parametrize("columns", [1, 2, 6])
def test_digests_tell_keys_apart_as_the_keys_themselves_do(columns: int) -> None:
    chance = random.Random(columns)
    pieces = ["", "a", "b", "ab", "abcdefgh", "abcdefghi", "\u00ff" * 9, "x" * 70, "x" * 71, "abcdefgh" * 3]
    rows = [[chance.choice(pieces) for _ in range(columns)] for _ in range(3000)]
    exact, digest = KeySet(columns), KeySet(columns, digest=True)
    for start in range(0, 3000, 700):  # neighbours of other widths change nothing
        part = [pa.array([row[c] for row in rows[start : start + 700]]) for c in range(columns)]
        assert exact.add(*part).tolist() == digest.add(*part).tolist()
    asked = [pa.array([row[c][::-1] for row in rows]) for c in range(columns)]
    assert exact.find(*asked).tolist() == digest.find(*asked).tolist()
    assert digest.nbytes <= exact.nbytes


@pytest.mark.parametrize("length", range(1, 67))
def test_texts_of_one_length_have_the_words_that_they_have_among_others(length: int) -> None:
    rng = np.random.default_rng(length)
    even = ["".join(chr(97 + c) for c in rng.integers(0, 26, length)) for _ in range(50)]
    array = pa.array(["before", *even, "x" * (length + 1)])
    alone = encode_words(array.slice(1, 50))
    among = encode_words(array.slice(1))
    pad = np.uint64(0xFFFFFFFFFFFFFFFF)
    for i in range(max(len(alone), len(among))):
        mine = alone[i] if i < len(alone) else np.full(50, pad)
        theirs = among[i][:50] if i < len(among) else np.full(50, pad)
        if length <= 64:
            assert np.array_equal(mine, theirs), i
