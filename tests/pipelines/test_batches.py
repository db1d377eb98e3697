"""A batch is known by its contents, whenever they came; what is incomplete is told from what is complete."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import boto3
import pytest

import omnigraph as og
from omnigraph.testing.emulator import S3Emulator
from omnigraph.testing.faults import FaultProxy, Match, Rule, fail
from omnigraph_pipelines.batches import (
    Batch,
    _unlisted,
    check_complete,
    find_batch,
    find_batches,
    is_key,
    matches,
    options_of,
)
from omnigraph_pipelines.defs.ingest.arrivals import Seen, Tick, decide
from omnigraph_pipelines.failures import is_transient
from omnigraph_pipelines.settings import SourceSettings
from omnigraph_pipelines.spark.sources import filesystem

TABLES = [{"node": "Person", "files": "people*.csv"}, {"edge": "Follows", "files": "edges/*.csv", "optional": True}]


def folders(at: Any, **given: Any) -> SourceSettings:
    return SourceSettings.model_validate(
        {"name": "crm", "batches": f"{at}/landing/*/", "mode": "merge", "tables": TABLES, **given}
    )


def files(at: Any) -> SourceSettings:
    return SourceSettings.model_validate(
        {"name": "feed", "batches": f"{at}/landing/*.jsonl", "mode": "append", "format": "graph"}
    )


def put(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_batches_come_oldest_key_first_and_hidden_ones_are_nobodys(tmp_path: Path) -> None:
    for name in ("b", "a", "_tmp", ".b"):
        put(tmp_path / "landing" / name / "people.csv")
    put(tmp_path / "landing" / "c.csv")
    assert [batch.key for batch in find_batches(folders(tmp_path))] == ["a", "b"]
    for name in ("2.jsonl", "1.jsonl", "_3.jsonl", "4.csv"):
        put(tmp_path / "landing" / name)
    assert [batch.key for batch in find_batches(files(tmp_path))] == ["1.jsonl", "2.jsonl"]


def test_a_landing_place_that_is_not_there_yet_holds_nothing(tmp_path: Path) -> None:
    assert find_batches(folders(tmp_path)) == []
    with pytest.raises(og.errors.NotFound, match="no batch 'x'"):
        find_batch(folders(tmp_path), "x")


def test_a_batch_may_lie_below_several_wildcards(tmp_path: Path) -> None:
    put(tmp_path / "in" / "eu" / "crm" / "1" / "people.csv")
    put(tmp_path / "in" / "us" / "crm" / "1" / "people.csv")
    source = folders(tmp_path).model_copy(update={"batches": f"{tmp_path}/in/*/crm/*/"})
    assert [batch.key for batch in find_batches(source)] == ["eu/crm/1", "us/crm/1"]
    assert find_batch(source, "us/crm/1").matching("people*.csv")[0].path.endswith("in/us/crm/1/people.csv")
    with pytest.raises(og.errors.NotFound):
        find_batch(source, "../eu")


def test_only_files_that_a_table_reads_make_a_batch(tmp_path: Path) -> None:
    batch = tmp_path / "landing" / "b"
    put(batch / "people1.csv")
    put(batch / "edges" / "e.csv")
    before = find_batch(folders(tmp_path), "b")
    for name in ("README", "_SUCCESS", "edges/deeper/e.csv", ".people.csv", "people.csv.tmp"):
        put(batch / name)
    after = find_batch(folders(tmp_path), "b")
    assert [one.name for one in after.files] == ["edges/e.csv", "people1.csv"]
    assert after.fingerprint() == before.fingerprint() and after.listing == before.listing


def test_a_fingerprint_is_made_of_names_and_contents_and_of_no_times(tmp_path: Path) -> None:
    path = put(tmp_path / "landing" / "b" / "people.csv", "name\nAda\n")
    first = find_batch(folders(tmp_path), "b")
    contents = first.fingerprint()
    os.utime(path, ns=(1, 1))
    touched = find_batch(folders(tmp_path), "b")
    assert touched.listing != first.listing
    assert touched.fingerprint() == contents
    path.write_text("name\nEve\n")  # as long as before
    assert find_batch(folders(tmp_path), "b").fingerprint() != contents
    path.write_text("name\nAda\n")
    assert find_batch(folders(tmp_path), "b").fingerprint() == contents
    path.rename(path.with_name("people2.csv"))
    assert find_batch(folders(tmp_path), "b").fingerprint() != contents


def test_a_batch_without_its_marker_or_its_files_is_incomplete(tmp_path: Path) -> None:
    marked = folders(tmp_path, ready="_SUCCESS")
    put(tmp_path / "landing" / "b" / "people.csv")
    with pytest.raises(og.errors.InvalidInput, match="still being written: it has no _SUCCESS"):
        check_complete(marked, find_batch(marked, "b"))
    put(tmp_path / "landing" / "b" / "_SUCCESS")
    check_complete(marked, find_batch(marked, "b"))
    put(tmp_path / "landing" / "c" / "edges" / "e.csv")
    with pytest.raises(og.errors.InvalidInput, match=r"no file people\*.csv for Person"):
        check_complete(folders(tmp_path), find_batch(folders(tmp_path), "c"))


@pytest.mark.parametrize("key", ["", "a...b", "a\nb", "x" * 200, "\u202e"])
def test_names_that_cannot_be_partitions_are_known(key: str) -> None:
    assert not is_key(key)
    assert is_key("2026-01-05 é.jsonl")


def test_a_star_does_not_cross_a_slash() -> None:
    assert matches("a/b.csv", "*/*.csv") and not matches("a/b.csv", "*.csv") and not matches("a/b/c.csv", "a/*.csv")


# --- on an object store -----------------------------------------------------------------------------------------------------


@pytest.fixture
def landing(s3_root: str) -> Any:
    """A client that puts objects below a prefix, and the prefix."""
    bucket, _, prefix = s3_root.removeprefix("s3://").partition("/")
    client = boto3.client("s3")

    def write(name: str, text: str) -> None:
        client.put_object(Bucket=bucket, Key=f"{prefix}/{name}", Body=text.encode())

    return s3_root, write


def test_batches_on_a_store_are_found_and_known_by_tags_of_the_store(landing: Any) -> None:
    root, write = landing
    source = folders(root, ready="_SUCCESS")
    assert find_batches(source) == []
    write("landing/b/people1.csv", "name\nAda\n")
    write("landing/b/edges/e.csv", "from,to\n")
    write("landing/_tmp/people1.csv", "name\n")
    write("landing/a.jsonl", "{}")
    (batch,) = find_batches(source)
    assert (batch.key, batch.is_ready, [one.name for one in batch.files]) == (
        "b",
        False,
        ["edges/e.csv", "people1.csv"],
    )
    assert batch.files[1].path == f"{root}/landing/b/people1.csv"
    first = batch.fingerprint()
    write("landing/b/_SUCCESS", "")
    write("landing/b/people1.csv", "name\nAda\n")
    again = find_batch(source, "b")
    assert again.is_ready and again.fingerprint() == first
    write("landing/b/people1.csv", "name\nEve\n")
    assert find_batch(source, "b").fingerprint() != first
    assert [one.key for one in find_batches(files(root))] == ["a.jsonl"]
    assert find_batch(files(root), "a.jsonl").bytes == 2


def test_a_store_that_does_not_answer_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    with pytest.raises(og.errors.StoreUnavailable, match="cannot be listed"):
        find_batches(folders("s3://bucket"))


def test_a_batch_tells_its_size() -> None:
    assert Batch("b", "b", ()).bytes == 0


def test_the_landing_place_has_a_connection_of_its_own(
    s3_emulator: S3Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    from omnigraph_pipelines.spark import reading
    from omnigraph_pipelines.spark.sources import _s3, cut, find

    s3_emulator.create_bucket("landing-of-another-account")
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("LANDING_SECRET", "not-shown-anywhere")
    given = {
        "endpoint": s3_emulator.endpoint,
        "aws_access_key_id": "landing",
        "aws_secret_access_key": {"env": "LANDING_SECRET"},
        "region": "us-east-1",
    }
    source = SourceSettings.model_validate(
        {
            "name": "crm",
            "batches": "s3://landing-of-another-account/crm/*/",
            "mode": "merge",
            "tables": [{"node": "Person", "files": "people.csv"}],
            "storage_options": given,
        }
    )
    options = options_of(source)
    store, _ = filesystem("s3://landing-of-another-account/crm", options)
    with store.open_output_stream("landing-of-another-account/crm/b1/people.csv") as out:
        out.write(b"name\nAda\n")
    (batch,) = find_batches(source)
    assert batch.key == "b1" and len(batch.fingerprint()) == 64
    (place,) = find([one.path for one in batch.files], None, options)
    rows = [row for part in cut(place) for one in reading.batches(part) for row in one.to_pylist()]
    assert rows == [{"name": "Ada"}]
    assert "not-shown" not in repr((batch, place)) and dict(options)["aws_secret_access_key"] == "not-shown-anywhere"
    assert _s3(dict(options))["access_key"] == "landing"


@pytest.mark.timeout(60)
def test_a_folder_with_pipes_links_and_strange_names_is_refused_and_never_waited_for(tmp_path: Path) -> None:
    source = folders(tmp_path)
    landing = tmp_path / "landing"
    for name in ("pipe", "link", "loop", "strange", "good"):
        (landing / name).mkdir(parents=True)
        (landing / name / "people.csv").write_text("name\nAda\n")
    os.mkfifo(landing / "pipe" / "people-2.csv")
    (landing / "link" / "people-2.csv").symlink_to("/")
    (landing / "loop" / "edges").symlink_to(landing / "loop")
    with open(os.fsencode(landing / "strange") + b"/people-\xff.csv", "wb") as file:
        file.write(b"name\nGrace\n")
    os.mkdir(os.fsencode(landing) + b"/\xff")
    found = {batch.key: batch for batch in find_batches(source)}
    assert all(len(batch.fingerprint()) == 64 for batch in found.values())
    check_complete(source, found["good"])
    check_complete(source, found["loop"])
    for name, said in (
        ("pipe", "is no file"),
        ("strange", "not UTF-8"),
        ("link", "people-2.csv is a link that leads out"),
    ):
        with pytest.raises(og.errors.InvalidInput, match=said) as refused:
            check_complete(source, found[name])
        refused.value.message.encode()
    assert not is_key("\udcff")
    decision = decide(Tick([*found.values()], {}, 0.0), Batch.fingerprint)
    decision.said.encode()
    assert "cannot be a partition" in decision.said


def test_a_folder_of_a_hundred_thousand_files_is_a_batch_like_others(tmp_path: Path) -> None:
    """Only the few that a table reads are opened; the others make it neither another batch nor a larger one."""
    source = folders(tmp_path)
    folder = tmp_path / "landing" / "full"
    (folder / "more").mkdir(parents=True)
    (folder / "people.csv").write_text("name\nAda\n")
    (before,) = find_batches(source)
    for number in range(100_000):
        os.mknod(folder / "more" / f"{number}.csv")
    (found,) = find_batches(source)
    assert found == before and found.fingerprint() == before.fingerprint()
    (settled,) = decide(Tick([found], {found.key: Seen(found.listing, 0.0)}, 20.0), Batch.fingerprint).offers
    assert settled.batch == "full"


def test_wrong_credentials_of_the_landing_place_name_its_own_settings() -> None:
    source = folders("s3://bucket")
    error = _unlisted("s3://bucket/", "AWS Error ACCESS_DENIED during ListObjectsV2 operation", source)
    assert isinstance(error, og.errors.StoreRefused) and "`storage_options` of source crm" in error.hint
    assert isinstance(_unlisted("s3://bucket/", "curlCode: 7", source), og.errors.StoreUnavailable)


def test_credentials_that_may_list_and_not_read_are_refused_with_a_hint_at_the_landing_place(
    s3_emulator: S3Emulator, emulated_root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket, _, prefix = emulated_root.removeprefix("s3://").partition("/")
    boto3.client("s3").put_object(Bucket=bucket, Key=f"{prefix}/landing/b1/people.csv", Body=b"name\nAda\n")
    with FaultProxy(s3_emulator.endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        proxy.rule(Rule(fail(403), Match(operations=("get", "head"), key="people.csv"), times=None))
        (batch,) = find_batches(folders(emulated_root))
        with pytest.raises(og.errors.StoreRefused) as refused:
            batch.fingerprint()
        assert "people.csv cannot be read: " in refused.value.message
        assert "`storage_options` of the source that reads it" in refused.value.hint
        assert not is_transient(refused.value), "it is not tried again: somebody has to give the right"
        proxy.calm()
        proxy.rule(Rule(fail(503), Match(key="people.csv"), times=None))
        with pytest.raises(og.errors.StoreUnavailable):
            batch.fingerprint()


def _refused(source: SourceSettings, key: str) -> str:
    with pytest.raises(og.errors.InvalidInput) as caught:
        check_complete(source, find_batch(source, key))
    return caught.value.message


def test_links_out_of_the_landing_folder_stop_their_own_batch_and_no_other(tmp_path: Path) -> None:
    landing, outside = tmp_path / "landing", tmp_path / "outside"
    secret = put(outside / "people.csv", "secret")
    put(landing / "good" / "people.csv")
    put(landing / "file" / "people-1.csv")
    (landing / "file" / "people-2.csv").symlink_to(secret)
    put(landing / "below" / "people.csv")
    (landing / "below" / "edges").symlink_to(outside)
    put(landing / "deeper" / "edges" / "e.csv")
    put(landing / "deeper" / "people.csv")
    (landing / "deeper" / "edges" / "more").symlink_to("/")
    put(landing / "hidden" / "people.csv")
    (landing / "hidden" / "_tmp").symlink_to(outside)
    (landing / "folder").symlink_to(outside)
    (landing / "all").symlink_to("/")
    (landing / "within").symlink_to(landing / "good")
    (landing / "gone").symlink_to(landing / "nothing")
    source = folders(tmp_path)
    assert [batch.key for batch in find_batches(source)] == [
        "all", "below", "deeper", "file", "folder", "good", "hidden", "within",
    ]  # fmt: skip
    for key, named in (("below", "edges"), ("deeper", "edges/more")):
        assert f"{key} of crm: {named} is a link that leads out" in _refused(source, key)
    for key in ("file", "folder", "all"):
        assert "leads out of the landing folder" in _refused(source, key)
    for key in ("good", "hidden", "within"):
        check_complete(source, find_batch(source, key))
    assert "secret" not in find_batch(source, "file").fingerprint()


def test_links_among_files_that_are_batches_are_held_to_the_same(tmp_path: Path) -> None:
    secret = put(tmp_path / "secret.jsonl")
    put(tmp_path / "landing" / "a.jsonl")
    (tmp_path / "landing" / "b.jsonl").symlink_to(secret)
    (tmp_path / "landing" / "c.jsonl").symlink_to(tmp_path / "nothing")
    (tmp_path / "landing" / "d.jsonl").symlink_to(tmp_path / "landing" / "d.jsonl")
    source = files(tmp_path)
    assert "a.jsonl" in [batch.key for batch in find_batches(source)]
    assert "leads out" in _refused(source, "b.jsonl")


def test_the_landing_folder_itself_is_no_batch(tmp_path: Path) -> None:
    put(tmp_path / "landing" / "b1" / "people.csv")
    for key in ("", ".", ".."):
        with pytest.raises(og.errors.NotFound):
            find_batch(folders(tmp_path), key)


def test_a_folder_that_cannot_be_listed_stops_its_own_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    landing = tmp_path / "landing"
    put(landing / "bad" / "sub" / "people.csv")
    put(landing / "bad" / "people.csv")
    put(landing / "good" / "people.csv")
    scandir = os.scandir

    def refuse(path: Any) -> Any:
        if str(path).endswith("sub"):  # the tests may run as root, to whom nothing is forbidden
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    source = folders(tmp_path)
    assert [batch.key for batch in find_batches(source)] == ["bad", "good"]
    assert "cannot be listed" in _refused(source, "bad")
    check_complete(source, find_batch(source, "good"))
