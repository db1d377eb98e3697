"""May an input be read again under a schema that has changed since, and does it have to be?"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph.core.errors import SchemaChanged
from omnigraph.schema import Catalog, canonical_text
from omnigraph.schema.canonical import schema_id
from omnigraph.schema.catalog import EdgeType, TableType
from omnigraph.write.sources.batch import Batch, TableFile


def same_types(keys: Iterable[str], before: Catalog, now: Catalog) -> bool:
    """Whether these types, and the nodes that their edges join, are declared as before, identities included."""
    old, new = ({one.table_key: one for one in catalog.types()} for catalog in (before, now))
    return all(new.get(key) == old.get(key) for key in _with_ends(keys, old))


def _with_ends(keys: Iterable[str], declared: Mapping[str, TableType]) -> set[str]:
    found = set(keys)
    for key in list(found):
        edge = declared.get(key)
        if isinstance(edge, EdgeType):
            found |= {f"node:{edge.src_type}", f"node:{edge.dst_type}"}
    return found


def is_read_once(source: Any) -> bool:
    """Whether what was read of it is gone: an iterator, a reader, a pipe."""
    if isinstance(source, Batch):
        return any(map(is_read_once, [*source.nodes.values(), *source.edges.values()]))
    if isinstance(source, Mapping):
        return any(map(is_read_once, source.values()))
    if isinstance(source, TableFile):
        return any(map(_is_pipe, [source.paths] if isinstance(source.paths, str | PathLike) else source.paths))
    if isinstance(source, str | PathLike):
        return _is_pipe(source)
    return isinstance(source, Iterator | pa.RecordBatchReader) or hasattr(source, "read")


def _is_pipe(source: str | PathLike[str]) -> bool:
    if isinstance(source, str) and (source.lstrip().startswith("{") or "://" in source):
        return False
    try:
        mode = Path(source).stat().st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def schema_changed(before: Catalog, now: Catalog) -> SchemaChanged:
    return SchemaChanged(
        "the schema has changed since this input was read, and it can be read only once",
        hint="repeat the load with the input from its beginning",
        expected=schema_id(canonical_text(before)),
        actual=schema_id(canonical_text(now)),
    )
