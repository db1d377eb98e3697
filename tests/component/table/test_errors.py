"""What Lance raises, raised for real, and what it is taken to mean."""

from __future__ import annotations

import errno
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from lance.commit import CommitConflictError
from lance.fragment import write_fragments

from omnigraph.core.errors import (
    Conflict,
    Corruption,
    InvalidInput,
    NotFound,
    OmnigraphError,
    RecoveryPending,
    StoreRefused,
    StoreUnavailable,
)
from omnigraph.table.dataset import translated
from omnigraph.table.errors import Fate, brief, classify, is_full, translate
from omnigraph.table.reading import reading

SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("n", pa.int64())])
ROWS = pa.table({"id": ["a", "b"], "n": [1, 2]}, schema=SCHEMA)


@pytest.fixture
def handle(tmp_path: Path) -> LanceDataset:
    return lance.write_dataset(ROWS, str(tmp_path / "t.lance"), enable_stable_row_ids=True)


def fate(call: object, *args: object, **options: object) -> Fate:
    with pytest.raises(Exception) as raised:
        call(*args, **options)  # type: ignore[operator]
    return classify(raised.value)


def test_a_lost_strict_swap_did_not_land(handle: LanceDataset) -> None:
    first, second = (write_fragments(ROWS, handle, mode="overwrite", return_transaction=True) for _ in range(2))
    LanceDataset.commit(handle, first, max_retries=0)
    assert fate(LanceDataset.commit, handle, second, max_retries=0) is Fate.NOT_LANDED_RETRYABLE


def test_a_write_over_an_overwrite_can_never_land(handle: LanceDataset) -> None:
    late = write_fragments(ROWS, handle, return_transaction=True)
    LanceDataset.commit(handle, LanceOperation.Overwrite(handle.lance_schema, []), read_version=1)
    assert fate(LanceDataset.commit, handle, late) is Fate.NOT_LANDED_INCOMPATIBLE


def test_two_deletes_of_one_fragment_conflict_retryably(handle: LanceDataset) -> None:
    late = Transaction(1, LanceOperation.Delete([handle.get_fragments()[0].delete_rows([0])], [], "x"))
    lance.dataset(handle.uri).delete("id = 'b'")
    assert fate(LanceDataset.commit, handle, late) is Fate.NOT_LANDED_RETRYABLE


def test_a_lost_merge_is_known_by_its_text(tmp_path: Path) -> None:
    keyed = SCHEMA.set(0, SCHEMA.field("id").with_metadata({"lance-schema:unenforced-primary-key": "true"}))
    handle = lance.write_dataset(ROWS.cast(keyed), str(tmp_path / "keyed.lance"))
    rival = lance.dataset(handle.uri)

    def merge(target: LanceDataset) -> None:
        builder = target.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        builder.conflict_retries(0).execute(ROWS.cast(keyed))

    merge(rival)
    assert fate(merge, handle) is Fate.NOT_LANDED_RETRYABLE


def test_a_compaction_that_lost_its_fragments_did_not_land(handle: LanceDataset) -> None:
    from lance.optimize import Compaction

    LanceDataset.commit(handle, write_fragments(ROWS, handle, return_transaction=True))
    ours = lance.dataset(handle.uri)
    results = [task.execute(ours) for task in Compaction.plan(ours, {}).tasks]
    lance.dataset(handle.uri).delete("id = 'a'")
    assert fate(Compaction.commit, ours, results) is Fate.NOT_LANDED_RETRYABLE


def test_what_does_not_exist_is_missing(handle: LanceDataset, tmp_path: Path) -> None:
    assert fate(lance.dataset, str(tmp_path / "nothing.lance")) is Fate.MISSING_VERSION
    assert fate(lance.dataset, handle.uri, version=99) is Fate.MISSING_VERSION
    assert fate(handle.checkout_version, 77) is Fate.MISSING_VERSION
    assert fate(handle.checkout_version, ("nobranch", None)) is Fate.MISSING_VERSION
    assert fate(handle.read_transaction, 55) is Fate.MISSING_VERSION
    late = Transaction(50, LanceOperation.Append(write_fragments(ROWS, handle)))
    assert fate(LanceDataset.commit, handle, late) is Fate.MISSING_VERSION


def test_a_lost_or_damaged_file_is_corruption(handle: LanceDataset) -> None:
    file = next((Path(handle.uri) / "data").iterdir())
    moved = file.with_suffix(".gone")
    file.rename(moved)
    assert fate(lance.dataset(handle.uri).to_table) is Fate.MISSING_FILE
    for junk in (b"", b"short", b"x" * 5000):
        file.write_bytes(junk)
        assert fate(lance.dataset(handle.uri).to_table) is Fate.MISSING_FILE
    manifest = next((Path(handle.uri) / "_versions").glob("*.manifest"))
    for junk in (b"", b"short", b"x" * 5000):
        manifest.write_bytes(junk)
        assert fate(lance.dataset, handle.uri, version=1) is Fate.MISSING_FILE


def test_a_wrong_call_is_invalid(handle: LanceDataset) -> None:
    assert fate(handle.to_table, filter="nope = 1") is Fate.INVALID
    assert fate(handle.to_table, columns=["nope"]) is Fate.INVALID


def test_what_nobody_knows_is_unknown_and_never_retryable() -> None:
    for exc in (
        TimeoutError("commit timed out"),
        OSError("something new"),
        OSError("LanceError(IO): Generic S3 error: who knows"),
        ValueError("?"),
        RuntimeError("panicked"),
        KeyError("x"),
        MemoryError(),
    ):
        assert classify(exc) is Fate.UNKNOWN
        assert not classify(exc).surely_not_landed


def test_type_goes_before_text() -> None:
    misleading = "Incompatible transaction: Permission denied (os error 13) max_retries: 3"
    assert classify(CommitConflictError(misleading, retryable=True)) is Fate.NOT_LANDED_RETRYABLE
    assert classify(CommitConflictError("Retryable commit conflict", retryable=False)) is Fate.NOT_LANDED_INCOMPATIBLE
    assert classify(TimeoutError("Too many concurrent writers")) is Fate.UNKNOWN


@pytest.mark.parametrize("retries", [0, 20])
def test_a_spent_budget_of_commits_did_not_land(retries: int) -> None:
    for text in (
        f"Too many concurrent writers. Attempted {retries} retries.",
        "Too many concurrent writers. Gave up, retry_timeout of 30s exceeded",
        f"Commit conflict for version 3: Failed to commit the transaction after {retries} retries.",
    ):
        assert classify(OSError(text)).surely_not_landed


def test_only_conflicts_are_surely_not_landed() -> None:
    assert {one for one in Fate if one.surely_not_landed} == {
        Fate.NOT_LANDED_RETRYABLE,
        Fate.NOT_LANDED_INCOMPATIBLE,
    }


class _Answers(http.server.BaseHTTPRequestHandler):
    status, body = 403, b""
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        body = b"" if self.command == "HEAD" else self.body
        self.send_response(self.status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_HEAD = do_POST = _answer

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def refusing_store() -> Iterator[dict[str, str]]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield {
        "aws_endpoint": f"http://127.0.0.1:{server.server_port}",
        "allow_http": "true",
        "client_max_retries": "1",
        "aws_access_key_id": "key",
        "aws_secret_access_key": "CANARY-secret",
        "aws_region": "us-east-1",
    }
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (403, b"<Error><Code>AccessDenied</Code></Error>", Fate.REFUSED),
        (401, b"", Fate.REFUSED),
        (400, b"<Error><Code>ExpiredToken</Code></Error>", Fate.REFUSED),
        (404, b"<Error><Code>NoSuchBucket</Code></Error>", Fate.REFUSED),
        (500, b"", Fate.UNAVAILABLE),
        (503, b"<Error><Code>SlowDown</Code></Error>", Fate.UNAVAILABLE),
    ],
)
def test_what_a_store_answers_decides(
    monkeypatch: pytest.MonkeyPatch, refusing_store: dict[str, str], status: int, body: bytes, expected: Fate
) -> None:
    monkeypatch.setattr(_Answers, "status", status)
    monkeypatch.setattr(_Answers, "body", body)
    with pytest.raises((ValueError, OSError)) as raised:
        lance.dataset("s3://bucket/x.lance", storage_options=refusing_store)
    assert classify(raised.value) is expected
    error = translate(raised.value, "open node:Person")
    assert isinstance(error, StoreRefused if expected is Fate.REFUSED else StoreUnavailable)
    assert "CANARY" not in str(error) + repr(error.to_dict())


def test_a_store_that_is_not_there_is_unavailable() -> None:
    options = {"aws_endpoint": "http://127.0.0.1:9", "allow_http": "true", "client_max_retries": "0"}
    options |= {"aws_access_key_id": "x", "aws_secret_access_key": "y", "aws_region": "us-east-1"}
    assert fate(lance.dataset, "s3://bucket/x.lance", storage_options=options) is Fate.UNAVAILABLE


@pytest.mark.parametrize(
    ("number", "text", "kind"),
    [
        (errno.ENOSPC, "No space left on device (os error 28)", StoreUnavailable),
        (errno.EROFS, "Read-only file system (os error 30)", StoreRefused),
        (errno.EACCES, "Permission denied (os error 13)", StoreRefused),
    ],
)
def test_disks_that_refuse_or_are_full_are_told_apart(number: int, text: str, kind: type[OmnigraphError]) -> None:
    assert isinstance(translate(OSError(f"LanceError(IO): {text}, /x/rust/y.rs:1:2"), "write"), kind)
    assert isinstance(translate(OSError(number, "x"), "write"), kind)


def test_each_fate_becomes_the_error_its_caller_can_act_on() -> None:
    assert isinstance(translate(CommitConflictError("x"), "commit"), Conflict)
    assert isinstance(translate(ValueError("Not found: a/_versions"), "open"), NotFound)
    assert isinstance(translate(OSError("Not found: a/data/x.lance"), "read"), Corruption)
    assert isinstance(translate(OSError("Not found: a/_indices/f00/page.lance, b.rs:1"), "read"), Corruption)
    assert isinstance(translate(ValueError("Invalid user input: x"), "read"), InvalidInput)
    assert isinstance(translate(OSError("?"), "read"), StoreUnavailable)
    assert type(translate(RuntimeError("?"), "read")) is OmnigraphError
    ours = RecoveryPending("wait")
    assert translate(ours, "read") is ours


def test_messages_are_one_short_line_without_source_positions(handle: LanceDataset) -> None:
    with pytest.raises(ValueError, match="nope") as raised:
        handle.to_table(filter="nope = 1")
    text = str(translate(raised.value, "scan node:Person"))
    assert text.startswith("scan node:Person failed: ")
    assert ".rs:" not in text
    assert "\n" not in brief(OSError("a\nb\n" + "x" * 5000))
    assert len(brief(OSError("a\nb\n" + "x" * 5000))) <= 300


@pytest.mark.parametrize("folder", ["data", "staging", "_indices"])
def test_a_missing_table_is_not_found_whatever_the_folders_above_are_called(tmp_path: Path, folder: str) -> None:
    with pytest.raises(ValueError, match="was not found") as missing:
        lance.dataset(str(tmp_path / folder / "some.graph" / "__manifest"))
    assert isinstance(translate(missing.value, "open"), NotFound)


def test_what_stands_in_the_way_of_a_first_connection_is_said_plainly() -> None:
    """As Lance 14 words it, without its wrappers and the dump of the exchange."""
    nested = (
        "LanceError(IO): Generic N/A error: LanceError(IO): Failed to get AWS credentials: ProviderError(x { raw: y })"
    )
    refused = translate(OSError(nested), "open __manifest")
    assert isinstance(refused, StoreRefused) and "AWS_PROFILE" in refused.hint
    assert refused.message == "open __manifest failed: Failed to get AWS credentials"
    region = translate(ValueError("Generic S3 error: Failed to resolve region for bucket 'b'"), "open __manifest")
    assert isinstance(region, StoreUnavailable) and "aws_region" in region.hint
    assert region.message == "open __manifest failed: Failed to resolve region for bucket 'b'"


def test_a_bucket_that_does_not_exist_is_named_as_what_is_missing() -> None:
    answer = "LanceError(IO): status code: 404 Not Found: <?xml version='1.0'?><Error><Code>NoSuchBucket</Code></Error>"
    error = translate(OSError(answer), "open __manifest")
    assert isinstance(error, StoreRefused)  # not NotFound: there a graph could be made
    assert error.message == "open __manifest failed: the bucket does not exist"
    assert "create the bucket" in error.hint and "credentials" not in error.hint


@pytest.mark.parametrize("door", ["translated", "reading"])
def test_an_error_of_ours_passes_each_door_as_it_is_and_is_not_its_own_cause(door: str, handle: LanceDataset) -> None:
    mine = StoreUnavailable("a new file was not written whole")
    doors = {"translated": translated("write"), "reading": reading(handle, None, "data", "read")}
    with pytest.raises(StoreUnavailable) as raised, doors[door]:
        raise mine
    assert raised.value is mine and mine.__cause__ is None


@pytest.mark.timeout(10)
def test_whether_a_disk_is_full_is_asked_once_of_each_error_behind_another() -> None:
    one, other = StoreUnavailable("not written whole"), StoreUnavailable("the same again")
    one.__cause__, other.__cause__ = other, one
    assert not is_full(one)
    other.__cause__ = OSError(errno.ENOSPC, "No space left on device")
    assert is_full(one)
