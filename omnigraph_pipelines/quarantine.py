"""Rows that were left out of a batch: whole, with their reasons, beside the graph on every kind of store.

A file is ``<graph uri>.quarantine/<source>/<batch>.jsonl``. It is created and never replaced: other contents for the same batch
get ``.2``, ``.3`` before the suffix. Knows neither Dagster nor Spark.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

import omnigraph as og
from omnigraph_pipelines.spark.sources import Options, filesystem

TOP_MAX: Final = 10
_NUMBER: Final = re.compile(r"(?P<batch>.+?)(?:\.(?P<number>[0-9]+))?\.jsonl\Z")
_ENDS_IN_NUMBER: Final = re.compile(r"\.([0-9]+)\Z")
_TRIES_MAX: Final = 10_000


@dataclass(frozen=True)
class QuarantineFile:
    """One file of rows that were left out of a batch. ``number`` is 1 for the first of the batch."""

    source: str
    batch: str
    number: int
    path: str
    size: int

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class Summary:
    """What is wrong with the rows of a file: how many, by reason, and the ids that most of them miss."""

    rows: int
    reasons: Mapping[str, int]
    missing: Mapping[str, int]

    def to_dict(self) -> dict[str, Any]:
        return {"rows": self.rows, "reasons": dict(self.reasons), "missing": dict(self.missing)}


class Quarantine:
    """The folder beside one graph. ``storage_options`` are those of the graph."""

    def __init__(self, uri: str, storage_options: Options = ()) -> None:
        self.uri = f"{uri.rstrip('/')}.quarantine"
        self._store, self._root = filesystem(self.uri, storage_options)

    def keep(self, source: str, batch: str, rows: Path) -> QuarantineFile:
        """Keep the rows of a local file, unless the same rows of the batch are kept already."""
        return self.keep_bytes(source, batch, rows.read_bytes())

    def keep_bytes(self, source: str, batch: str, data: bytes) -> QuarantineFile:
        for number in range(1, _TRIES_MAX):
            entry = self._entry(source, batch, number, len(data))
            there = self._read(entry)
            if there is None:
                self._write(entry, data)
                return entry
            if there == data:
                return entry
        raise og.errors.LimitExceeded(f"{batch} of {source} has too many quarantine files", bound=_TRIES_MAX)

    def rest_place(self, digest: str) -> Path | None:
        """Return where a replay writes what is left before it commits; None where the graph is on an object store."""
        if "://" in self.uri:
            return None
        folder = Path(self._root, ".replay")
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{digest}.jsonl"

    def entries(self, source: str | None = None, batch: str | None = None) -> list[QuarantineFile]:
        """Return what is kept, by source, batch and number."""
        from pyarrow import fs

        found = []
        selector = fs.FileSelector(self._root, recursive=True, allow_not_found=True)
        for info in self._store.get_file_info(selector):
            parts = info.path[len(self._root) :].strip("/").split("/")
            named = _NUMBER.fullmatch(parts[-1])
            if info.type != fs.FileType.File or len(parts) != 2 or named is None or parts[0].startswith("."):
                continue
            number = int(named.group("number") or 1)
            entry = self._entry(parts[0], unquote(named.group("batch")), number, int(info.size))
            if source in (None, entry.source) and batch in (None, entry.batch):
                found.append(entry)
        return sorted(found, key=lambda one: (one.source, one.batch, one.number))

    def lines(self, entry: QuarantineFile) -> Iterator[bytes]:
        """Return the lines of a file with all their bytes, blank ones left out."""
        data = self._read(entry)
        if data is None:
            raise og.errors.NotFound(
                f"no such quarantine file: {entry.path}", hint="`omnigraph-pipelines quarantine list` has what is kept"
            )
        # Not `splitlines`: a carriage return is a byte of its row.
        yield from (line for line in data.split(b"\n") if line.strip())

    def _entry(self, source: str, batch: str, number: int, size: int) -> QuarantineFile:
        # Of a batch whose name ends like a number of ours, the dot is encoded as well.
        name = _ENDS_IN_NUMBER.sub(r"%2E\1", quote(batch, safe=""))
        suffix = f".{number}" if number > 1 else ""
        return QuarantineFile(source, batch, number, f"{self.uri}/{source}/{name}{suffix}.jsonl", size)

    def _within(self, entry: QuarantineFile) -> str:
        return f"{self._root}{entry.path[len(self.uri) :]}"

    def _read(self, entry: QuarantineFile) -> bytes | None:
        try:
            with self._store.open_input_stream(self._within(entry)) as stream:
                found: bytes = stream.read()
                return found
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unavailable(entry.path, error) from error

    def _write(self, entry: QuarantineFile, data: bytes) -> None:
        within = self._within(entry)
        try:
            if "://" not in self.uri:
                Path(within).parent.mkdir(parents=True, exist_ok=True)
                with open(within, "xb") as file:
                    file.write(data)
                return
            self._store.create_dir(within.rpartition("/")[0], recursive=True)
            with self._store.open_output_stream(within) as out:
                out.write(data)
        except OSError as error:
            raise _unavailable(entry.path, error) from error


def _unavailable(path: str, error: OSError) -> og.errors.StoreUnavailable:
    reason = " ".join(str(error).split())[:200]
    return og.errors.StoreUnavailable(f"{path}: the quarantine cannot be reached: {reason}", path=path)


def summary_of(lines: Iterable[bytes]) -> Summary:
    """Count reasons and missing ids. A line that does not read counts as one of reason ``unreadable``."""
    rows, reasons, missing = 0, Counter[str](), Counter[str]()
    for line in lines:
        rows += 1
        for one in _reasons(line):
            code = str(one.get("code", "unknown"))
            reasons[code] += 1
            if code == "missing-endpoint" and one.get("value") is not None:
                missing[_plain(str(one["value"]))] += 1
    return Summary(rows, dict(reasons.most_common()), dict(missing.most_common(TOP_MAX)))


def _plain(value: str) -> str:
    """An id as people write it: the file has values as JSON, long ones cut."""
    try:
        found = json.loads(value)
    except ValueError:
        return value
    return found if isinstance(found, str) else value


def _reasons(line: bytes) -> list[Mapping[str, Any]]:
    try:
        found = json.loads(line)["reasons"]
        return [one for one in found if isinstance(one, dict)]
    except (ValueError, TypeError, LookupError):
        return [{"code": "unreadable"}]
