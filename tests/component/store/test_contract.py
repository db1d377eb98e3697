"""The contract of a store, the same on a local disk and on S3."""

from __future__ import annotations

import os
import pickle
import threading

import pytest

from omnigraph.core import failpoints
from omnigraph.core.errors import InvalidInput, OmnigraphError
from omnigraph.core.meter import Meter
from omnigraph.store import KeyExists, Store, layout, open_store

BRANCH, OTHER = "01BX5ZZKBKACTAV9WEVGEMMVRZ", "01BX5ZZKBKACTAV9WEVGEMMVS0"

BYTES = b"\x00\x01\xffbytes\n" * 100


@pytest.fixture
def store(any_root: str) -> Store:
    return open_store(any_root)


def _keys(store: Store, prefix: str, start_after: str | None = None) -> list[str]:
    return [entry.key for entry in store.list(prefix, start_after=start_after)]


def test_an_empty_root_holds_nothing(store: Store) -> None:
    assert store.get("a/b") is None
    assert store.size("a/b") is None
    assert not store.exists("a/b")
    assert store.list("") == store.list("a/") == []
    store.delete("a/b")
    assert store.delete_many(["a/b", "c"]) == ()
    store.prune("")


def test_what_was_created_is_read_back(store: Store) -> None:
    for key, data in {"a": b"", "b/c/d": BYTES, "b/ü x": b"1", "b/c#x": b"2"}.items():
        store.create(key, data)
        assert store.get(key) == data
        assert store.size(key) == len(data)
        assert store.exists(key)


@pytest.mark.parametrize("size", [0, 10, 11 * 1024 * 1024])
def test_a_copy_holds_what_was_copied(store: Store, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it takes several requests."""
    monkeypatch.setattr("omnigraph.store.s3._COPY_BYTES_MAX", 5 * 1024 * 1024)
    data = os.urandom(size)
    store.create("a/b.lance", data)
    store.create("a/c/d.lance", b"before")
    store.copy("a/b.lance", "a/c/d.lance")
    assert store.get("a/c/d.lance") == store.get("a/b.lance") == data
    with pytest.raises(OmnigraphError):
        store.copy("a/nothing", "a/c/d.lance")
    assert store.get("a/c/d.lance") == data


def test_a_create_never_overwrites(store: Store) -> None:
    store.create("k", b"first")
    with pytest.raises(KeyExists) as caught:
        store.create("k", b"second")
    assert caught.value.key == "k"
    assert store.get("k") == b"first"


def test_a_create_of_the_same_bytes_is_a_success(store: Store) -> None:
    store.create("k", b"same")
    store.create("k", b"same")
    assert store.get("k") == b"same"


def test_exactly_one_of_many_rivals_creates(any_root: str) -> None:
    rivals = 6
    for round_ in range(5):
        start = threading.Barrier(rivals)
        winners: list[int] = []

        def work(i: int, start: threading.Barrier = start, winners: list[int] = winners, round_: int = round_) -> None:
            mine = open_store(any_root)
            mine.check_conditional_create()
            start.wait()
            try:
                mine.create(f"race/{round_}", b"rival %d" % i)
                winners.append(i)
            except KeyExists:
                pass

        threads = [threading.Thread(target=work, args=(i,)) for i in range(rivals)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(winners) == 1
        assert open_store(any_root).get(f"race/{round_}") == b"rival %d" % winners[0]


def test_a_replace_overwrites_whatever_was_there(store: Store) -> None:
    store.replace("k", b"first")
    store.replace("k", b"2")
    assert store.get("k") == b"2"
    assert _keys(store, "k") == ["k"]


def test_what_was_deleted_is_gone_and_may_be_created_again(store: Store) -> None:
    store.create("a/k", b"1")
    assert store.delete("a/k") is True
    assert store.get("a/k") is None
    store.delete("a/k")
    store.create("a/k", b"2")
    assert store.get("a/k") == b"2"


def test_deleting_many_leaves_the_others(store: Store) -> None:
    for i in range(5):
        store.create(f"d/{i}", b"x")
    assert store.delete_many(f"d/{i}" for i in (0, 2, 4, 9)) == ()
    assert _keys(store, "d/") == ["d/1", "d/3"]
    with pytest.raises(InvalidInput):
        store.delete_many(["d/1", "../x"])
    assert store.exists("d/1")


def test_a_listing_is_complete_sorted_and_by_prefix_of_the_text(store: Store) -> None:
    keys = ["a.", "a-b", "a/1", "a/10", "a/2", "a/b/c", "ab/1", "b", "Z", "ä/1"]
    for key in reversed(keys):
        store.create(key, key.encode())
    ordered = sorted(keys)
    assert [k for k in _keys(store, "") if k != layout.PROBE] == ordered
    assert _keys(store, "a/") == ["a/1", "a/10", "a/2", "a/b/c"]
    assert _keys(store, "a/1") == ["a/1", "a/10"]
    assert _keys(store, "a") == [k for k in ordered if k.startswith("a")]
    assert _keys(store, "a/", "a/10") == ["a/2", "a/b/c"]
    assert _keys(store, "a/", "a/1zzz") == ["a/2", "a/b/c"]
    assert _keys(store, "none/") == []
    sizes = {entry.key: entry.size for entry in store.list("")}
    assert all(sizes[key] == len(key.encode()) for key in keys)


def test_a_listing_knows_when_an_object_was_written(store: Store) -> None:
    store.create("a", b"")
    store.create("b", b"")
    times = [entry.modified_us for entry in store.list("")]
    assert all(time > 1_600_000_000_000_000 for time in times)
    assert max(times) - min(times) < 60_000_000


def test_the_highest_boundary_is_the_last_of_the_listing_wherever_it_starts(store: Store) -> None:
    for version in (3, 20, 7):
        store.create(layout.boundary_key(BRANCH, version), b"")
    store.create(layout.boundary_key(OTHER, 99), b"")
    prefix = layout.boundary_prefix(BRANCH)
    assert [layout.boundary_version(key) for key in _keys(store, prefix)] == [3, 7, 20]
    assert [layout.boundary_version(key) for key in _keys(store, prefix, layout.boundary_key(BRANCH, 7))] == [20]
    store.create(layout.boundary_key(BRANCH, None), b"")
    assert layout.boundary_version(_keys(store, prefix)[-1]) is None


@pytest.mark.parametrize("key", ["", "/x", "../x", "a/../b", "a//b", "a\\b", "a\x00", "k#1", "a/k#12345"])
def test_no_operation_takes_a_key_that_is_none(store: Store, key: str) -> None:
    operations = [
        lambda: store.get(key),
        lambda: store.size(key),
        lambda: store.exists(key),
        lambda: store.create(key, b""),
        lambda: store.replace(key, b""),
        lambda: store.delete(key),
        lambda: store.delete_many([key]),
        lambda: store.lance_uri(key),
    ]
    for operation in operations:
        with pytest.raises(InvalidInput):
            operation()
    if key:
        with pytest.raises(InvalidInput):
            store.list(key + "/x")


def test_every_request_is_counted_in_its_class(store: Store) -> None:
    key = layout.boundary_key(BRANCH, 1)
    meter = Meter()
    store.create(key, b"1234", meter=meter)
    first = meter.snapshot()
    assert first.by_class == {"boundary": 1, "other": 2}  # the probe of a fresh root: made, then refused
    assert first.bytes_written == 4

    meter = Meter()
    again = open_store(store.uri)
    again.create(layout.boundary_key(BRANCH, 2), b"12", meter=meter)
    assert meter.snapshot().by_class == {"boundary": 1, "other": 1}

    meter = Meter()
    assert again.get(key, meter=meter) == b"1234"
    again.list(layout.boundary_prefix(BRANCH), meter=meter)
    again.size(key, meter=meter)
    again.replace(key, b"1", meter=meter)
    again.delete(key, meter=meter)
    cost = meter.snapshot()
    assert cost.by_class == {"boundary": 5}
    assert (cost.bytes_read, cost.bytes_written) == (4, 1)


def test_the_probe_is_made_once_for_a_store(store: Store) -> None:
    store.check_conditional_create()
    meter = Meter()
    store.check_conditional_create(meter=meter)
    store.replace("k", b"", meter=meter)
    assert meter.snapshot().requests == 1


def test_a_store_can_be_used_by_many_threads(store: Store) -> None:
    def work(i: int) -> None:
        for j in range(10):
            store.create(f"t/{i}/{j}", b"%d" % j)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.list("t/")) == 60


def test_a_store_works_on_the_other_side_of_a_pickle(store: Store) -> None:
    store.create("k", b"1")
    there = pickle.loads(pickle.dumps(store))
    assert (there.uri, there.get("k")) == (store.uri, b"1")


def test_lance_reads_and_writes_where_the_store_says(store: Store) -> None:
    import lance
    import pyarrow as pa

    uri, options = store.lance_uri("nodes/X-1.lance"), store.lance_options()
    lance.write_dataset(pa.table({"id": ["a", "b"]}), uri, storage_options=options)
    assert lance.dataset(uri, storage_options=options).count_rows() == 2
    listed = _keys(store, "nodes/X-1.lance/")
    assert any("/_versions/" in key for key in listed)
    assert any(key.endswith(".lance") and "/data/" in key for key in listed)
    assert store.delete_many(listed) == ()
    store.prune("nodes/X-1.lance/")
    assert store.list("nodes/") == []
    if not store.is_remote:
        assert not os.path.exists(uri)


def test_the_places_where_a_write_can_die_have_names(store: Store) -> None:
    with failpoints.recording() as seen:
        store.create("k", b"1")
        store.replace("k", b"2")
        store.delete("k")
    assert [name for name, facts in seen if facts == {"key": "k"}] == [
        "store.create",
        "store.created",
        "store.replace",
        "store.replaced",
        "store.delete",
    ]


def test_folders_are_the_names_one_level_down(store: Store) -> None:
    for key in ("a/x/1", "a/x/2", "a/y/deep/er/3", "a/file", "ab/z/4"):
        store.create(key, b"-")
    assert store.folders("a/") == ("x", "y")
    assert store.folders("a/y/") == ("deep",)
    assert store.folders("") == ("a", "ab")
    assert store.folders("nothing/") == ()
