"""Indexes of one table: which there are, what they cover, and staging of new ones and of what they do not cover yet.

Nothing is built inline: an index is written beside the table, and one transaction adds any number of them. Reads are right
without any of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lance import LanceOperation, Transaction
from lance.dataset import Index as LanceIndex

from omnigraph.core.meter import INDEX, Meter
from omnigraph.table.checksums import CheckedFiles
from omnigraph.table.dataset import metered, own_handle, translated
from omnigraph.table.new_file_checks import check_index

if TYPE_CHECKING:
    from lance import LanceDataset

BTREE, INVERTED, VECTOR = "BTREE", "INVERTED", "IVF_FLAT"
SEGMENTS_MAX = 8  # a look-up asks every segment; above this, an index is written anew as one
Index = Any  # Lance's own; its stub wants bitmaps where any set will do
_Index: Any = LanceIndex

AUTO_CLEANUP = "lance.auto_cleanup."


@dataclass(frozen=True)
class IndexSpec:
    """An index that the schema asks for. ``called``: its name where that is not made of the column's: an index keeps its name
    when its column is renamed."""

    column: str
    kind: str
    called: str | None = None

    @property
    def name(self) -> str:
        return self.called or f"{self.column}_idx"


@dataclass(frozen=True)
class IndexState:
    """An index as it is: per segment, the fragments that it covers (of those that exist). ``inherited``: files of it lie in the
    folder of another line."""

    name: str
    column: str
    kind: str
    segments: tuple[frozenset[int], ...]
    inherited: bool = False

    @property
    def covered(self) -> frozenset[int]:
        return frozenset().union(*self.segments)


def indices_of(handle: LanceDataset) -> dict[str, IndexState]:
    """Indexes over one column, by name. No request."""
    there = {fragment.fragment_id for fragment in handle.get_fragments()}
    found = {}
    for index in handle.describe_indices():
        if len(index.field_names) == 1:
            segments = tuple(frozenset(segment.fragment_ids) & there for segment in index.segments)
            inherited = any(segment.base_id is not None for segment in index.segments)
            kind = index.index_type.upper()
            found[index.name] = IndexState(index.name, index.field_names[0], kind, segments, inherited)
    return found


def inherited_indices(handle: LanceDataset) -> frozenset[str]:
    """Indexes of which files lie in the folder of another line. A compaction would write what it makes of them into the folder
    of this line, and leave them named as if they lay in the other's: nothing could be looked up any more."""
    return frozenset(
        index.name
        for index in handle.describe_indices()
        if any(segment.base_id is not None for segment in index.segments)
    )


def fragment_ids(handle: LanceDataset) -> frozenset[int]:
    return frozenset(fragment.fragment_id for fragment in handle.get_fragments())


def has_values(handle: LanceDataset, column: str, meter: Meter | None = None) -> bool:
    """Whether a column holds anything but nulls: a vector index cannot be trained on nothing."""
    with translated(f"look at column {column}"), metered(handle, meter, INDEX):
        scanner = handle.scanner(columns=[column], filter=f"`{column}` is not null", limit=1)
        return bool(scanner.to_table().num_rows)


def stage_segment(
    handle: LanceDataset,
    spec: IndexSpec,
    fragments: Sequence[int],
    meter: Meter | None = None,
    *,
    inputs: CheckedFiles | None = None,
) -> Index:
    """Write an index over these fragments, whose files are compared with their checksums first. No version names it yet.
    ``inputs``: what was compared already for another index."""
    (inputs or CheckedFiles(handle)).check_fragments(fragments)
    extra: dict[str, Any] = {"num_partitions": 1, "metric": "L2"} if spec.kind == VECTOR else {}
    with translated(f"build the {spec.kind} index on {spec.column}"), metered(handle, meter, INDEX):
        own = own_handle(handle)  # Lance changes the handle that it builds on, for as long as it builds
        segment: Index = own.create_index_uncommitted(
            spec.column, spec.kind, name=spec.name, fragment_ids=sorted(fragments), replace=True, **extra
        )
        if spec.kind == INVERTED:
            # What it stages is parts; only merged are they an index.
            segment = own.merge_existing_index_segments([segment])
        check_index(handle.uri, segment)
    return segment


def segments_of(handle: LanceDataset, name: str) -> list[Index]:
    """The committed segments of an index, in the form in which a transaction removes them."""
    return [
        _Index(
            uuid=str(segment.uuid),
            name=name,
            fields=list(index.fields),
            dataset_version=segment.dataset_version_at_last_update,
            fragment_ids=set(segment.fragment_ids),
            index_version=segment.index_version,
        )
        for index in handle.describe_indices()
        if index.name == name
        for segment in index.segments
    ]


def index_transaction(
    handle: LanceDataset,
    added: Sequence[Index],
    removed: Sequence[Index],
    *,
    uuid: str,
    properties: Mapping[str, str],
) -> Transaction:
    transaction = Transaction(handle.version, LanceOperation.CreateIndex(list(added), list(removed)))
    transaction.uuid = uuid
    transaction.transaction_properties = dict(properties)
    return transaction


def auto_cleanup_keys(handle: LanceDataset) -> tuple[str, ...]:
    """Settings that would make Lance delete versions by itself. None of ours sets them."""
    return tuple(sorted(key for key in handle.config() if key.startswith(AUTO_CLEANUP)))


def strip_transaction(
    handle: LanceDataset, keys: Sequence[str], *, uuid: str, properties: Mapping[str, str]
) -> Transaction:
    updates = LanceOperation.UpdateMap(dict.fromkeys(keys))
    transaction = Transaction(handle.version, LanceOperation.UpdateConfig(config_updates=updates))
    transaction.uuid = uuid
    transaction.transaction_properties = dict(properties)
    return transaction
