"""Digests of the rows of a manifest line's fragments. They lie in the schema metadata of every version. Pure.

Lance stores no checksum of rows, and each swap writes the current rows again: what was read wrongly once would be stored
for ever.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping, Sequence
from json.encoder import encode_basestring

import xxhash

from omnigraph.core.canonical_json import dumps, loads
from omnigraph.manifest import rows as r

_CANONICAL = "_canonical"
_HEX = frozenset(string.digits + "abcdef")


def digest(rows: Sequence[r.RawRow]) -> str:
    """Return the xxh3-128 over a canonical JSON array of the rows: each an object of all columns, null written."""
    # The tail is digested in every swap, so the bytes of a row are kept with it.
    fresh = [row for row in rows if _CANONICAL not in vars(row)]
    for row, text in zip(fresh, _texts(fresh), strict=True):
        vars(row)[_CANONICAL] = text.encode()
    return xxhash.xxh3_128_hexdigest(b"[%s]" % b",".join([vars(row)[_CANONICAL] for row in rows]))


def _texts(rows: Sequence[r.RawRow]) -> Iterable[str]:
    """The canonical JSON of each row, written out by columns: an open digests every row, and an encoder takes ten times as long."""
    return map(
        _ROW.__mod__,
        zip(
            _json(row.idempotency_key for row in rows),
            _json(row.location for row in rows),
            _json(row.metadata for row in rows),
            map(encode_basestring, [row.object_id for row in rows]),
            map(encode_basestring, [row.object_type for row in rows]),
            _numbers(row.row_count for row in rows),
            _numbers(row.seq for row in rows),
            _json(row.table_branch for row in rows),
            map(encode_basestring, [row.table_key for row in rows]),
            _numbers(row.table_version for row in rows),
            strict=True,
        ),
    )


_ROW = "{" + ",".join(f'"{name}":%s' for name in sorted(r.ARROW_SCHEMA.names)) + "}"


def _json(cells: Iterable[str | None]) -> Iterable[str]:
    return ["null" if cell is None else encode_basestring(cell) for cell in cells]


def _numbers(cells: Iterable[int | None]) -> Iterable[int | str]:
    return ["null" if cell is None else cell for cell in cells]


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
