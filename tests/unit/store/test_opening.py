"""Which URIs are served, and their one normal form."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from omnigraph.core.errors import InvalidInput
from omnigraph.store import open_store


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("/data/graph", "/data/graph"),
        ("/data/graph/", "/data/graph"),
        ("/data//x/../graph/.", "/data/graph"),
        ("file:///data/graph/", "/data/graph"),
        ("file://localhost/data/a%20b%23c", "/data/a b#c"),
        ("FILE:///data", "/data"),
        ("/data/a b/ü#x%20", "/data/a b/ü#x%20"),
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("s3://bucket/a/b/", "s3://bucket/a/b"),
        ("S3://bucket//a///b//", "s3://bucket/a/b"),
    ],
)
def test_a_uri_has_one_normal_form(uri: str, expected: str) -> None:
    assert open_store(uri).uri == expected
    assert open_store(expected).uri == expected


def test_a_relative_path_means_the_folder_of_this_process() -> None:
    assert open_store("graph").uri == os.path.join(os.getcwd(), "graph")
    assert open_store(Path("graph")).uri == os.path.join(os.getcwd(), "graph")
    assert open_store("~/graph").uri == os.path.join(os.path.expanduser("~"), "graph")


@pytest.mark.parametrize(
    "uri",
    [
        "", "  ", "a\x00b", "a\nb", "http://host/x", "https://host/x", "gs://b/x", "az://b/x", "s3a://b/x", "memory://x",
        "file:/x", "s3:/bucket/x", "s3:bucket", "file://host/x", "file://", "file:///x?y", "file:///x#y", "file:///a%00b",
        "s3://", "s3:///x", "s3://b/x", "s3://-bad-/x", "s3://bucket/../x", "s3://bucket/./x", "s3://bucket/a\\b",
        "s3://bucket/a%2e", "s3://bucket/a?b", "s3://bucket/a#b", "s3://key:secret@bucket/x",
    ],
)  # fmt: skip
def test_a_uri_that_is_not_served_is_refused(uri: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        open_store(uri)
    assert "secret" not in str(caught.value).replace("secret@", "")


def test_a_refusal_does_not_repeat_credentials() -> None:
    for uri in ("s3://AKIAIOSFODNN7EXAMPLE:hunter2hunter2@bucket/x", "https://me:hunter2hunter2@host/x"):
        with pytest.raises(InvalidInput) as caught:
            open_store(uri)
        assert "hunter2" not in str(caught.value) + repr(caught.value) + str(caught.value.to_dict())


def test_opening_a_store_touches_nothing(tmp_path: Path) -> None:
    open_store(tmp_path / "graph")
    assert list(tmp_path.iterdir()) == []


def test_lance_is_told_the_same_place(tmp_path: Path) -> None:
    local, remote = open_store(tmp_path), open_store("s3://bucket/a")
    assert (local.is_remote, remote.is_remote) == (False, True)
    assert local.lance_uri("nodes/X.lance") == str(tmp_path / "nodes" / "X.lance")
    assert local.lance_options() is None
    assert remote.lance_uri("nodes/X.lance") == "s3://bucket/a/nodes/X.lance"
    assert open_store("s3://bucket").lance_uri("x") == "s3://bucket/x"
    for store in (local, remote):
        with pytest.raises(InvalidInput):
            store.lance_uri("../x")


def test_a_store_survives_pickling(tmp_path: Path) -> None:
    for uri in (str(tmp_path), "s3://bucket/a", "s3://bucket"):
        assert pickle.loads(pickle.dumps(open_store(uri))).uri == uri
