"""The two names of a stored schema, from its canonical text. Pure.

The id tells schemas apart, identities included: a property that was dropped and added again is another one. The hash is of
the shape alone.
"""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from typing import Any

from omnigraph.schema.canonical import schema_id as schema_id

_IDENTITIES = ("type_id", "prop_id", "also")


@lru_cache(maxsize=16)
def shape_hash(canonical: str) -> str:
    """``sha256:`` and the digest of the canonical text without identities. Raises ``ValueError`` where it is no JSON."""
    shape = json.dumps(_without_identities(json.loads(canonical)), ensure_ascii=False, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(shape.encode()).hexdigest()


def _without_identities(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_identities(one) for one in value]
    if isinstance(value, dict):
        return {name: _without_identities(one) for name, one in value.items() if name not in _IDENTITIES}
    return value
