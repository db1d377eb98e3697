"""What an input consists of, as one digest: by it a repeated idempotency key is compared with its first use.

Told for what can be read again: local files, texts, and records that are held. An iterator, a frame, a reader or a remote file
has none, and is compared by its key alone.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from os import PathLike
from typing import Any, Final

from omnigraph.core import documents
from omnigraph.write.sources.batch import Batch, TableFile

_PIECE: Final = 1 << 20


def content_of(source: Any) -> str | None:
    """The digest of an input, or None where it has none."""
    try:
        parts = sorted(_parts(source))
    except (_NoContent, OSError, ValueError, TypeError):
        return None
    return documents.digest([list(part) for part in parts])


class _NoContent(Exception):
    """Something of the input cannot be read again."""


def _parts(source: Any) -> Iterator[tuple[str, str]]:
    """(name, sha256 of the stored bytes). Where an input lies does not count."""
    if isinstance(source, Batch):
        for kind, tables in (("node", source.nodes), ("edge", source.edges)):
            for name, table in tables.items():
                yield f"{kind}:{name}", _table(table)
    elif isinstance(source, Mapping):
        for name, table in source.items():
            yield str(name), _table(table)
    elif isinstance(source, str) and source.lstrip().startswith("{"):
        yield "", hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()
    elif isinstance(source, str | PathLike):
        yield "", _file(os.fspath(source))
    else:
        yield "", _records(source)


def _table(table: Any) -> str:
    if isinstance(table, TableFile):
        paths = [table.paths] if isinstance(table.paths, str | PathLike) else list(table.paths)
        how = (
            [sorted(table.skip), asdict(table.csv), table.decimals]
            if table != TableFile(table.paths, table.columns)
            else []
        )
        return documents.digest([dict(table.columns), [_file(os.fspath(path)) for path in paths], *how])
    if isinstance(table, str | PathLike):
        return _file(os.fspath(table))
    return _records(table)


def _records(records: Any) -> str:
    if not isinstance(records, list | tuple):
        raise _NoContent
    digest = hashlib.sha256()
    for record in records:
        digest.update(documents.canonical(record) + b"\n")
    return digest.hexdigest()


def _file(path: Any) -> str:
    text = os.fsdecode(path)
    if "://" in text:
        raise _NoContent
    digest = hashlib.sha256()
    with open(text, "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise _NoContent
        while piece := stream.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()
