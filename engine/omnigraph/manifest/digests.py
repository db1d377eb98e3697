"""Digests of the rows of a manifest line's fragments. They lie in the schema metadata of every version. Pure.

Lance stores no checksum of rows, and each swap writes the current rows again: what was read wrongly once would be stored
for ever.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping
from json.encoder import encode_basestring

import xxhash

from omnigraph.core.canonical_json import dumps, loads
from omnigraph.manifest import rows as r

_CANONICAL = "_canonical"
_HEX = frozenset(string.digits + "abcdef")


def digest(rows: Iterable[r.RawRow]) -> str:
    """Return the xxh3-128 over a canonical JSON array of the rows: each an object of all columns, null written."""
    return xxhash.xxh3_128_hexdigest(b"[%s]" % b",".join(map(_canonical, rows)))


def _canonical(row: r.RawRow) -> bytes:
    """The tail is digested in every swap, so the bytes of a row are kept with it."""
    found: bytes | None = vars(row).get(_CANONICAL)
    if found is None:
        found = _text(row).encode()
        vars(row)[_CANONICAL] = found
    return found


def _text(row: r.RawRow) -> str:
    """The canonical JSON of a row, written out: an encoder takes four times as long, and an open digests every row."""
    return (
        f'{{"idempotency_key":{_json(row.idempotency_key)},"location":{_json(row.location)},'
        f'"metadata":{_json(row.metadata)},"object_id":{_json(row.object_id)},"object_type":{_json(row.object_type)},'
        f'"row_count":{_number(row.row_count)},"seq":{_number(row.seq)},"table_branch":{_json(row.table_branch)},'
        f'"table_key":{_json(row.table_key)},"table_version":{_number(row.table_version)}}}'
    )


def _json(text: str | None) -> str:
    return "null" if text is None else encode_basestring(text)


def _number(value: int | None) -> str:
    return "null" if value is None else str(value)


def metadata(digests: Mapping[str, str]) -> dict[str, str]:
    """The schema metadata of a version whose data files have these digests."""
    return {r.VERSION_KEY: str(r.STORAGE_VERSION), r.DIGESTS_KEY: dumps(dict(digests))}


def parse(found: Mapping[bytes, bytes], files: Iterable[str]) -> dict[str, str]:
    """Return the digest of each data file of a version. Raise ``ValueError`` unless it names exactly these files."""
    text = found.get(r.DIGESTS_KEY.encode(), b"").decode()
    digests = loads(text) if text else None
    if not isinstance(digests, dict) or dumps(digests) != text:
        raise ValueError(f"{r.DIGESTS_KEY} is no object in canonical form")
    if digests.keys() != set(files):
        raise ValueError(f"{r.DIGESTS_KEY} names other files than the version has")
    for one in digests.values():
        if not isinstance(one, str) or len(one) != 32 or not _HEX.issuperset(one):
            raise ValueError(f"{r.DIGESTS_KEY} holds {str(one)[:80]!r}, which is no xxh3-128")
    return digests
