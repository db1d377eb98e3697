from __future__ import annotations

import dataclasses
import pickle

import pytest

from omnigraph.core.errors import LimitExceeded
from omnigraph.core.limits import DEFAULT_LIMITS, Limits

DOCUMENTED = {
    "record_bytes": 32 * 1024 * 1024,
    "id_bytes": 1_024,
    "name_chars": 128,
    "types": 2_000,
    "tables_per_commit": 256,
    "merge_rows": 20_000_000,
    "overwrite_rows": 20_000_000,
    "source_text_bytes": 10_000_000,
    "nesting": 200,
    "intent_bytes": 4 * 1024 * 1024,
    "note_bytes": 64 * 1024 * 1024,
    "settled_bytes": 256 * 1024 * 1024,
    "actor_bytes": 256,
    "idempotency_key_bytes": 256,
}


def test_the_defaults_are_the_documented_ones() -> None:
    assert DEFAULT_LIMITS.to_dict() == DOCUMENTED


@pytest.mark.parametrize("name", sorted(DOCUMENTED))
def test_a_bound_may_be_reached_and_not_passed(name: str) -> None:
    bound = DOCUMENTED[name]
    DEFAULT_LIMITS.check(name, bound)
    with pytest.raises(LimitExceeded) as caught:
        DEFAULT_LIMITS.check(name, bound + 1, where="line 7")
    assert caught.value.facts == {"limit": name, "bound": bound, "actual": bound + 1}
    assert str(caught.value).startswith("line 7: ")
    assert pickle.loads(pickle.dumps(caught.value)).facts == caught.value.facts


def test_a_limit_that_does_not_exist_is_a_mistake_in_the_code() -> None:
    with pytest.raises(AttributeError):
        DEFAULT_LIMITS.check("no_such_limit", 1)


def test_limits_are_configurable_and_frozen() -> None:
    small = dataclasses.replace(Limits(), types=1)
    with pytest.raises(LimitExceeded):
        small.check("types", 2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        small.types = 5  # type: ignore[misc]
