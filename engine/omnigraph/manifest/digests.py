"""Digests of the rows of a manifest line's fragments. They lie in the schema metadata of every version. Pure.

Lance stores no checksum of rows, and each swap writes the current rows again: what was read wrongly once would be stored
for ever.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping, Sequence
from json.encoder import encode_basestring
from operator import attrgetter
from typing import Any

import xxhash

from omnigraph.core.canonical_json import dumps, loads
from omnigraph.manifest import rows as r

_CANONICAL = "_canonical"
_HEX = frozenset(string.digits + "abcdef")


def digest(rows: Sequence[r.RawRow]) -> str:
    """Return the xxh3-128 over a canonical JSON array of the rows: each an object of all columns, null written."""
    # The tail is digested in every swap, so the bytes of a row are kept with it.
    fresh = [row for row in rows if _CANONICAL not in vars(row)]
    if fresh:
        for row, text in zip(fresh, _texts(list(zip(*map(_CELLS, fresh), strict=True))), strict=True):
            vars(row)[_CANONICAL] = text.encode()
    return xxhash.xxh3_128_hexdigest(b"[%s]" % b",".join([vars(row)[_CANONICAL] for row in rows]))


def digest_of_columns(columns: Sequence[Sequence[Any]]) -> str:
    """The same for the columns of rows, in the order of the format: nothing is kept, which is right for what no swap writes
    again."""
    return xxhash.xxh3_128_hexdigest(f"[{','.join(_texts(columns))}]".encode())


def _texts(columns: Sequence[Sequence[Any]]) -> Iterable[str]:
    """The canonical JSON of each row, written out by columns: an open digests every row, and an encoder takes ten times as long.
    Half of the columns of a fragment say the same in each row, and are written into the pattern."""
    members, varying = [], []
    for place in _SORTED:
        cells = columns[place]
        same = cells.count(cells[0]) == len(cells) if cells else False
        text = str(next(iter(_json(cells[:1])))).replace("%", "%%") if same else "%s"
        members.append(f'"{r.ARROW_SCHEMA.names[place]}":{text}')
        if not same:
            varying.append(_json(cells))
    pattern = "{" + ",".join(members) + "}"
    if not varying:
        return [pattern % ()] * len(columns[0])
    return map(pattern.__mod__, zip(*varying, strict=True))


_CELLS = attrgetter(*r.ARROW_SCHEMA.names)
_SORTED = sorted(range(len(r.ARROW_SCHEMA.names)), key=r.ARROW_SCHEMA.names.__getitem__)


def _json(cells: Sequence[Any]) -> Iterable[str | int]:
    """The cells of one column, all of which are texts or all numbers, null apart."""
    if None not in cells:
        return map(encode_basestring, cells) if cells and isinstance(cells[0], str) else cells
    return ["null" if cell is None else encode_basestring(cell) if isinstance(cell, str) else cell for cell in cells]


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
