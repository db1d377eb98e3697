"""A dataset used as a list of immutable fragments and one current fragment, swapped strictly.

This is the substrate of ``__manifest``. Owns the one call that Lance offers as a compare-and-swap: an Overwrite that
lands at exactly base + 1 or not at all, costs two PUTs, and is harmless to repeat.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from lance import LanceDataset, LanceOperation, Transaction
from lance.file import LanceFileWriter
from lance.fragment import DataFile, FragmentMetadata

from omnigraph.core.errors import Corruption, OmnigraphError
from omnigraph.core.meter import Meter
from omnigraph.table.dataset import COMMIT_TIMEOUT, DATA_STORAGE_VERSION, TableRef, Tables, translated
from omnigraph.table.errors import Fate, classify, panics_raised
from omnigraph.table.files import data_file_name, name_plainly
from omnigraph.table.new_file_checks import write_files
from omnigraph.table.predicate import Compare, to_filter
from omnigraph.table.reading import metered

CREATE_REQUESTS = 4  # beside the data file: two listings, the transaction and the version
SINGLE_PUT_BYTES = 4 * 1024 * 1024  # Lance sends what is smaller than a part of a multipart upload in one request
_SIDE_BY_SIDE = 64  # archive fragments that are read at the same time


class SwapLost(Exception):
    """Another writer made the next version. Nothing of this swap landed."""


class SwapUnknown(Exception):
    """No answer that says either. Only the newest version can tell."""


class Fragments:
    """Fragments for a swap, as Lance wants them back: written ahead, or kept from the base."""

    __slots__ = ("metadata",)

    def __init__(self, metadata: list[FragmentMetadata]) -> None:
        self.metadata = metadata

    @property
    def files(self) -> list[str]:
        """Their data files, one each."""
        return [data_file_name(fragment.files[0]) for fragment in self.metadata]


def fragment_count(handle: LanceDataset) -> int:
    return len(handle.get_fragments())


def fragment_files(handle: LanceDataset) -> list[str]:
    """The data file of each fragment, oldest first. A file never changes, so its name can key a cache."""
    return [data_file_name(fragment.metadata.files[0]) for fragment in handle.get_fragments()]


def write_ahead(handle: LanceDataset, table: pa.Table, meter: Meter | None = None) -> Fragments:
    """Write rows as one file that no version names yet: one PUT."""
    small = table.nbytes < SINGLE_PUT_BYTES
    with translated("write __manifest data"), metered(handle, meter, "manifest", exactly=1 if small else None):
        return Fragments(_single(write_files(table, handle)))


def fragment_rows(handle: LanceDataset) -> list[int]:
    """Rows of each fragment, oldest first. No request."""
    return [fragment.metadata.physical_rows for fragment in handle.get_fragments()]


def _chosen(handle: LanceDataset, indices: Sequence[int]) -> list[Any]:
    fragments = handle.get_fragments()
    return [fragments[index] for index in indices]


@contextlib.contextmanager
def _reading(handle: LanceDataset, fragments: Sequence[Any], meter: Meter | None) -> Iterator[None]:
    """Around a read of these fragments: where it fails and one of their files is damaged, the error names it."""
    try:
        with translated("read __manifest"), metered(handle, meter, "manifest"):
            yield
    except OmnigraphError as error:
        from omnigraph.table.manifest_damage import with_file  # it is needed where something is wrong only

        found = with_file(handle, fragments, error)
        if found is error:  # nothing is its own cause
            raise
        raise found from error


def read_fragments(handle: LanceDataset, first: int, end: int, meter: Meter | None = None) -> pa.Table:
    """The rows of neighbouring fragments, in order, fetched side by side."""
    fragments = handle.get_fragments()[first:end]
    with _reading(handle, fragments, meter):
        return handle.scanner(fragments=fragments, scan_in_order=True).to_table()


def matching(
    handle: LanceDataset, indices: Sequence[int], column: str, value: str | int, meter: Meter | None = None
) -> pa.Table:
    """The rows of these fragments with this value in a column. Lance reads the column, and of the others what matches."""
    wanted = to_filter(Compare(column, "==", pa.scalar(value, pa.string() if isinstance(value, str) else pa.uint64())))
    chosen = _chosen(handle, indices)
    with _reading(handle, chosen, meter):
        return handle.scanner(fragments=chosen, filter=wanted, scan_in_order=True).to_table()


def selected(handle: LanceDataset, indices: Sequence[int], condition: str, meter: Meter | None = None) -> pa.Table:
    """The rows of these fragments that a condition selects."""
    chosen = _chosen(handle, indices)
    with _reading(handle, chosen, meter):
        return handle.scanner(fragments=chosen, filter=condition, scan_in_order=True).to_table()


def columns_of(
    handle: LanceDataset, indices: Sequence[int], columns: Sequence[str], meter: Meter | None = None
) -> pa.Table:
    """Some columns of these fragments, in their order, fetched side by side."""
    chosen = _chosen(handle, indices)
    with _reading(handle, chosen, meter):
        scanner = handle.scanner(
            fragments=chosen,
            columns=list(columns),
            scan_in_order=True,
            fragment_readahead=_SIDE_BY_SIDE,
            batch_readahead=_SIDE_BY_SIDE,
        )
        return scanner.to_table()


def kept(handle: LanceDataset, first: int, end: int) -> Fragments:
    """Neighbouring fragments as they are, for a swap that keeps them."""
    return Fragments([fragment.metadata for fragment in handle.get_fragments()[first:end]])


def swap(
    tables: Tables,
    ref: TableRef,
    handle: LanceDataset,
    *,
    schema: pa.Schema,
    fragments: list[Fragments],
    uuid: str,
    properties: Mapping[str, str],
    meter: Meter | None = None,
) -> LanceDataset:
    """Make version base + 1 of these fragments, in this order. The schema has the base's columns; its metadata may differ."""
    listed = [fragment for part in fragments for fragment in part.metadata]
    name_plainly(listed)
    transaction = Transaction(handle.version, LanceOperation.Overwrite(schema, listed))
    transaction.uuid = uuid
    transaction.transaction_properties = dict(properties)
    with metered(handle, meter, "manifest"):
        try:
            with panics_raised():
                landed = LanceDataset.commit(handle, transaction, max_retries=0, commit_timeout=COMMIT_TIMEOUT)
        except Exception as error:
            if classify(error) in (Fate.NOT_LANDED_RETRYABLE, Fate.NOT_LANDED_INCOMPATIBLE):
                raise SwapLost(str(error)) from error
            raise SwapUnknown(str(error)) from error
    if landed.version != handle.version + 1:
        raise Corruption(
            "a strict swap of __manifest landed off its place", expected=handle.version + 1, actual=landed.version
        )
    return tables.remember(ref, landed)


def create(
    tables: Tables,
    ref: TableRef,
    table: pa.Table,
    metadata: Callable[[str], Mapping[str, str]],
    *,
    uuid: str,
    properties: Mapping[str, str],
    meter: Meter | None = None,
) -> LanceDataset:
    """Version 1, strictly: refused where a dataset exists. ``metadata``: of the schema, from the name of the data file.
    Raises what Lance raises. Five requests: Lance's own way to write the first file of a dataset lists it once more."""
    fragment = _first_file(tables, ref, table, f"{uuid}.lance", meter)
    schema = table.schema.with_metadata(dict(metadata(fragment.files[0].path)))
    transaction = Transaction(0, LanceOperation.Overwrite(schema, [fragment]))
    transaction.uuid = uuid
    transaction.transaction_properties = dict(properties)
    if meter is not None:
        meter.count("manifest", CREATE_REQUESTS)
    with panics_raised():
        handle = LanceDataset.commit(
            tables.uri(ref),
            transaction,
            max_retries=0,
            storage_options=tables.options,
            enable_v2_manifest_paths=True,
            commit_timeout=COMMIT_TIMEOUT,
        )
    return tables.remember(ref, handle)


def _first_file(tables: Tables, ref: TableRef, table: pa.Table, name: str, meter: Meter | None) -> FragmentMetadata:
    """Write the only data file of a dataset that is not there yet. Its size stands in the fragment: a reader that opens the version
    need not ask for it."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name)
        with LanceFileWriter(path, schema=table.schema.remove_metadata(), version=DATA_STORAGE_VERSION) as writer:
            writer.write_batch(table)
        with open(path, "rb") as file:
            data = file.read()
    tables.put_new(f"{ref.relative}/data/{name}", data, meter)
    fields = list(range(len(table.schema)))
    major, minor = (int(part) for part in DATA_STORAGE_VERSION.split("."))
    return FragmentMetadata(0, [DataFile(name, fields, fields, major, minor, len(data))], table.num_rows)


def _single(fragments: list[FragmentMetadata]) -> list[FragmentMetadata]:
    """Each part of a swap is one fragment with one file: positions and digests rest on it."""
    if len(fragments) != 1 or len(fragments[0].files) != 1:
        raise Corruption(f"Lance wrote {len(fragments)} fragments where one was asked for", object="__manifest")
    return fragments
