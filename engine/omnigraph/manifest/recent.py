"""Which ids the newest rows of a table may have: hashes that spare the reading of fragments no index covers yet.

Pure. Nothing but speed rests on a ``Recent``; none at all is always right.
"""

from __future__ import annotations

import base64
import binascii
import sys
from array import array
from bisect import bisect_left, insort
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import xxhash

FRAGMENT_ROWS_MAX: Final = 64
KEYS_MAX: Final = 1_024
TEXT_BYTES_MAX: Final = 32 * 1024  # of all values in one current fragment, as stored
_KEY_BYTES: Final = 8


@dataclass(frozen=True)
class Recent:
    """Hashes of the ids of all rows of ``fragments``, deleted ones included: xxh3-64, sorted, eight bytes each,
    little-endian. More hashes than these rows have are allowed, fewer are not."""

    fragments: tuple[int, ...]
    keys: bytes

    def may_hold(self, row_id: str) -> bool:
        """Return whether a row of these fragments may have this id. False is certain."""
        wanted, keys = _hash(row_id), self.keys
        low, high = 0, len(keys) // _KEY_BYTES
        while low < high:
            middle = (low + high) // 2
            found = _key_at(keys, middle)
            if found == wanted:
                return True
            if found < wanted:
                low = middle + 1
            else:
                high = middle
        return False

    @property
    def text_bytes(self) -> int:
        """The length of ``keys`` as stored."""
        return (len(self.keys) + 2) // 3 * 4


def extended(recent: Recent | None, staged: Mapping[int, Collection[str]]) -> Recent | None:
    """Return ``recent`` with new fragments and the ids of their rows.

    A fragment with more than 64 rows, and one beyond 1,024 keys, is left out: it has to be read.
    """
    fragments = set(recent.fragments) if recent is not None else set()
    hashes = _hashes(recent.keys if recent is not None else b"")
    for fragment in sorted(staged):
        ids = staged[fragment]
        added = {found for one in ids if not _holds(hashes, found := _hash(one))}
        if len(ids) <= FRAGMENT_ROWS_MAX and len(hashes) + len(added) <= KEYS_MAX:
            fragments.add(fragment)
            for one in added:
                insort(hashes, one)  # in its place: most keys were there before
    return Recent(tuple(sorted(fragments)), _little(hashes).tobytes()) if fragments else None


def _holds(hashes: array[int], wanted: int) -> bool:
    at = bisect_left(hashes, wanted)
    return at < len(hashes) and hashes[at] == wanted


def without(recent: Recent | None, indexed: Collection[int]) -> Recent | None:
    """Return ``recent`` without the fragments that an index covers; None if no other is left.

    Which hashes belong to which fragment is not stored, so those of a covered fragment stay until all are covered.
    """
    if recent is None or not indexed:
        return recent
    left = tuple(one for one in recent.fragments if one not in indexed)
    return Recent(left, recent.keys) if left else None


def over_limit(values: Mapping[str, Recent | None], limit: int = TEXT_BYTES_MAX) -> frozenset[str]:
    """Return the names whose value has to become null, so that all together keep within the limit: the longest first."""
    sizes = {name: one.text_bytes for name, one in values.items() if one is not None}
    total, dropped = sum(sizes.values()), set()
    for name in sorted(sizes, key=lambda one: (-sizes[one], one)):
        if total <= limit:
            break
        total -= sizes[name]
        dropped.add(name)
    return frozenset(dropped)


def to_json(recent: Recent | None) -> dict[str, object] | None:
    if recent is None:
        return None
    return {"fragments": list(recent.fragments), "keys": base64.b64encode(recent.keys).decode()}


def from_json(body: object) -> Recent | None:
    """Raise ``ValueError`` for anything that this module does not write."""
    if body is None:
        return None
    if not isinstance(body, dict) or body.keys() != {"fragments", "keys"}:
        raise ValueError("recent has other members than fragments and keys")
    fragments, text = body["fragments"], body["keys"]
    if not isinstance(fragments, list) or not all(type(one) is int and one >= 0 for one in fragments):
        raise ValueError("recent names fragments that are no numbers")
    try:
        keys = base64.b64decode(text, validate=True) if isinstance(text, str) else b"?"
    except binascii.Error as error:
        raise ValueError("the keys of recent are no base64") from error
    found = Recent(tuple(fragments), keys)
    if not fragments or any(a >= b for a, b in pairwise(fragments)):
        raise ValueError("the fragments of recent do not rise")
    if len(keys) % _KEY_BYTES or len(keys) > KEYS_MAX * _KEY_BYTES:
        raise ValueError(f"recent holds {len(keys)} bytes of keys")
    hashes = _hashes(found.keys)
    if any(a >= b for a, b in pairwise(hashes)):
        raise ValueError("the keys of recent do not rise")
    return found


def _hash(row_id: str) -> int:
    return xxhash.xxh3_64_intdigest(row_id.encode())


def _key_at(keys: bytes, index: int) -> int:
    return int.from_bytes(keys[index * _KEY_BYTES : (index + 1) * _KEY_BYTES], "little")


def _hashes(keys: bytes) -> array[int]:
    found = array("Q")
    found.frombytes(keys)
    return _little(found)


def _little(numbers: array[int]) -> array[int]:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
