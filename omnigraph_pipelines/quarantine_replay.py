"""Rows that were left out of a batch, loaded again: file by file, each as one commit, and what still does not fit kept again.

Owns how a file is cut into rows, so that each of them is one record of the engine and is kept again with the bytes that it had.
Knows neither Dagster nor Spark.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import omnigraph as og
from omnigraph_pipelines.quarantine import Quarantine, QuarantineFile, Summary, summary_of
from omnigraph_pipelines.settled import batch_name
from omnigraph_pipelines.wording import counted

UNDER: Final = "replayed"
_DECODER: Final = json.JSONDecoder()
_WHITE: Final = " \t\r\n"
_BOM: Final = b"\xef\xbb\xbf"
_NAMED_MAX: Final = 10


@dataclass(frozen=True)
class Replay:
    """What came of loading a file again. ``left``: rows that still do not fit, kept as ``kept_as``."""

    entry: QuarantineFile
    commit_id: str | None
    loaded: int
    left: int = 0
    kept_as: str | None = None
    summary: Summary | None = None

    def to_dict(self) -> dict[str, Any]:
        found = {**vars(self), "entry": self.entry.to_dict()}
        return {**found, "summary": None if self.summary is None else self.summary.to_dict()}


@dataclass(frozen=True)
class ReplayFailure:
    """A file that could not be loaded again, and why. Nothing of it entered the graph."""

    entry: QuarantineFile
    error: og.errors.OmnigraphError


def open_entries(
    graph: og.Graph, quarantine: Quarantine, source: str, batch: str | None = None
) -> list[QuarantineFile]:
    """Return the files of a source whose present contents were not loaded again yet."""
    done = {name.rpartition("/")[2] for name in graph.notes.list(f"{UNDER}/{source}")}
    return [one for one in quarantine.entries(source, batch) if _digest(quarantine.lines(one)) not in done]


def replay_each(
    entries: Iterable[QuarantineFile], load: Callable[[QuarantineFile], Replay]
) -> tuple[list[Replay], list[ReplayFailure]]:
    """Load every file again. One that is refused does not keep the others back."""
    done: list[Replay] = []
    failures: list[ReplayFailure] = []
    for entry in entries:
        try:
            done.append(load(entry))
        except og.errors.OmnigraphError as error:
            failures.append(ReplayFailure(entry, error))
    return done, failures


def failure_of(done: Sequence[Replay], failures: Sequence[ReplayFailure]) -> og.errors.OmnigraphError | None:
    """Return one error for all files that failed: of the class of the worst, with what each file says and what was loaded beside."""
    if not failures:
        return None
    worst = max((one.error for one in failures), key=lambda error: error.exit_code)
    problems = [
        {"code": one.error.code, "message": one.error.message, "file": one.entry.path, "hint": one.error.hint}
        for one in failures
    ]
    of = counted(len(done) + len(failures), "quarantine file")
    body = {
        "error": f"{len(failures)} of {of} cannot be loaded again: {'; '.join(one.error.message for one in failures)}",
        "code": worst.code,
        "hint": worst.hint,
        "problems": problems,
        "replayed": [one.to_dict() for one in done],
    }
    return og.errors.from_dict(body)


def replay(
    graph: og.Graph,
    quarantine: Quarantine,
    entry: QuarantineFile,
    *,
    branch: str,
    mode: str,
    on_missing_endpoint: str | Mapping[str, str] | None = None,
) -> Replay:
    """Load a file of left-out rows again, as one commit under a key: a repeated replay adds no row twice.

    Rows are merged, or patched where ``mode`` is patch, and what still does not fit is kept as a new file. Rows of a source that
    appends are loaded all or none.
    """
    lines = list(quarantine.lines(entry))
    digest = _digest(lines)
    key = f"{entry.source}/{batch_name(entry.batch)}.quarantine/{digest}"
    rows = _rows(b"\n".join(lines))
    records = [row for row in rows if row.record is not None]
    rejected: list[Mapping[str, Any]] = []
    rest: list[bytes] = []
    kept: QuarantineFile | None = None
    with TemporaryDirectory(prefix="omnigraph-replay-") as folder:
        file = Path(folder, f"{digest}.jsonl")
        file.write_bytes(b"".join(row.on_one_line() for row in records))
        try:
            if mode == "append":
                _check_all_read(entry, rows)
                receipt = graph.load(
                    file, mode=mode, branch=branch, on_missing_endpoint=on_missing_endpoint, idempotency_key=key
                )
            else:
                place = quarantine.rest_place(digest) or Path(folder, "rest.jsonl")
                receipt = graph.load(
                    file,
                    mode="patch" if mode == "patch" else "merge",
                    branch=branch,
                    on_bad_row="quarantine",
                    on_missing_endpoint=on_missing_endpoint,
                    quarantine_to=place,
                    idempotency_key=key,
                )
                rejected = _rejected(receipt, place, entry)
                rest = _rest(entry, rows, rejected)
                # What is there already is kept as it is, where nothing of it fitted.
                if rest and len(rest) < len(rows):
                    kept = quarantine.keep_bytes(entry.source, entry.batch, b"".join(line + b"\n" for line in rest))
                place.unlink(missing_ok=True)
        except og.errors.InvalidInput as error:
            raise _of_the_file(error, file.name, entry) from error
    # Of a repeated request the receipt says what was committed, and not what was left out.
    out = len(rejected) if receipt.replayed else receipt.rejected.total + sum(receipt.dropped.values())
    loaded = len(records) - out
    if loaded or not rows:
        said = {"file": entry.path, "commit_id": receipt.commit_id, "left": len(rest)}
        graph.notes.put(f"{UNDER}/{entry.source}/{batch_name(entry.batch)}/{digest}", json.dumps(said).encode())
    summary = summary_of(rest) if rest else None
    return Replay(entry, receipt.commit_id, loaded, len(rest), None if kept is None else kept.path, summary)


# --- the rows of a file ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Row:
    """The bytes of one row. ``record``: those of its record; None for a line that is no JSON object, which the engine never sees.

    The engine joins broken lines to one malformed record, so with them its numbers would not be those of the file.
    """

    raw: bytes
    record: bytes | None = None
    reasons: tuple[Mapping[str, Any], ...] = ()

    def on_one_line(self) -> bytes:
        # Inside a JSON value an end of a line can only be white space.
        return self.raw.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n"


def _rows(data: bytes) -> list[_Row]:
    """Cut a file into its objects, also those that an editor has spread over lines, and the lines that are none."""
    # Bytes that are no UTF-8 become lone surrogates here, and the same bytes again when they are written.
    text = data.removeprefix(_BOM).decode("utf-8", "surrogateescape")
    rows: list[_Row] = []
    at = _skip(text, 0)
    while at < len(text):
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            value, end = None, 0
        if isinstance(value, dict):
            rows.append(_row(text[at:end], value))
        else:
            end = line_end if (line_end := text.find("\n", at)) >= 0 else len(text)
            rows.append(_Row(_bytes(text[at:end])))
        at = _skip(text, end)
    return rows


def _row(text: str, value: Mapping[str, Any]) -> _Row:
    if value.keys() != {"record", "reasons"}:
        return _Row(_bytes(text), _bytes(text))
    given = value["reasons"]
    reasons = tuple(one for one in given if isinstance(one, dict)) if isinstance(given, list) else ()
    return _Row(_bytes(text), _bytes(_member(text, "record")), reasons)


def _member(text: str, wanted: str) -> str:
    """Return a member of an object as it is written: reading and writing it again would change numbers and half surrogates."""
    found, at = "", _skip(text, 1)
    while text[at] != "}":
        name, end = _DECODER.raw_decode(text, at)
        start = _skip(text, _skip(text, end) + 1)
        _, end = _DECODER.raw_decode(text, start)
        found = text[start:end] if name == wanted else found
        at = _skip(text, end)
        at = _skip(text, at + 1) if text[at] == "," else at
    return found


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _WHITE:
        at += 1
    return at


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


# --- what does not fit ----------------------------------------------------------------------------------------------------


def _check_all_read(entry: QuarantineFile, rows: Sequence[_Row]) -> None:
    bad = [number for number, row in enumerate(rows, 1) if row.record is None]
    if bad:
        named = ", ".join(map(str, bad[:_NAMED_MAX])) + (", …" if len(bad) > _NAMED_MAX else "")
        raise og.errors.DataInvalid(
            f"{entry.path}: no JSON object in row {named}; of a source that appends, all rows of a file are loaded or none",
            violations=[{"code": "malformed-record", "record": one, "source": entry.path} for one in bad[:_NAMED_MAX]],
            total=len(bad),
        )


def _rejected(receipt: og.Receipt, place: Path, entry: QuarantineFile) -> list[Mapping[str, Any]]:
    """Return what the engine has left out. A replay that died after its commit may have left it where the graph is on a disk."""
    if place.exists():
        return [json.loads(line) for line in place.read_bytes().splitlines()]
    if not receipt.replayed:
        return []
    raise og.errors.InvalidInput(
        f"{entry.path} was loaded by commit {receipt.commit_id}, and the process died before it kept the rows that did not fit",
        hint="compare the file with that commit, put the rows that are missing into a new file and load it",
        commit=receipt.commit_id,
    )


def _rest(entry: QuarantineFile, rows: Sequence[_Row], rejected: Sequence[Mapping[str, Any]]) -> list[bytes]:
    """Return the rows that still do not fit, in the order of the file, each with the bytes that it had there."""
    why = {int(one["reasons"][0]["record"]): one["reasons"] for one in rejected}
    rest: list[bytes] = []
    at = 0
    for number, row in enumerate(rows, 1):
        if row.record is None:
            rest.append(row.raw)
            continue
        at += 1  # the engine counts the rows that it was given
        if at in why:
            reasons = [{**one, **_place(row, entry, number)} for one in why[at]]
            said = json.dumps(reasons, ensure_ascii=False, separators=(",", ":"))
            rest.append(b'{"record":' + row.record + b',"reasons":' + said.encode() + b"}")
    return rest


def _place(row: _Row, entry: QuarantineFile, number: int) -> dict[str, Any]:
    """Return where a row comes from: what it said of itself, which is a file of its batch, else the quarantine file."""
    for one in row.reasons:
        if isinstance(one.get("source"), str) and isinstance(one.get("record"), int):
            return {"source": one["source"], "record": one["record"]}
    return {"source": entry.path, "record": number}


def _of_the_file(error: og.errors.InvalidInput, name: str, entry: QuarantineFile) -> og.errors.OmnigraphError:
    """The same error about the quarantine file in place of the copy that the engine has read."""

    def named(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace(name, entry.path)
        if isinstance(value, Mapping):
            return {key: named(one) for key, one in value.items()}
        return [named(one) for one in value] if isinstance(value, list | tuple) else value

    body = named(error.to_dict())
    if isinstance(error, og.errors.DataInvalid):
        body["hint"] = (
            "load what the rows refer to, or correct them in that file; then `omnigraph-pipelines quarantine replay`"
        )
    return og.errors.from_dict(body)


def _digest(lines: Iterable[bytes]) -> str:
    found = hashlib.sha256()
    for line in lines:
        found.update(line + b"\n")
    return found.hexdigest()[:32]
