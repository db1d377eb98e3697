"""Every path below a root, and the check that none leaves it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.core import meter
from omnigraph.core.errors import Corruption, InvalidInput
from omnigraph.core.ids import new_ulid
from omnigraph.store import layout
from omnigraph.store.keys import KEY_BYTES_MAX, SEGMENT_BYTES_MAX, check_key, check_prefix
from omnigraph.testing.faults import classify_key

ULID = "01J5ZK3QG7W8X9Y0A1B2C3D4E5"

HOSTILE = [
    "", "/", "/etc/passwd", "..", "../x", "a/../../b", "a/..", "./a", "a/.", "a//b", "a/", "\\x", "a\\..\\b",
    "a\x00b", "a\nb", "\x7f", "nodes/X.lance#12", "a#1/b", "\ud800", "é" * 111, "/".join(["abc"] * 300),
]  # fmt: skip


@pytest.mark.parametrize("path", HOSTILE)
def test_a_path_that_could_leave_the_root_is_refused(path: str) -> None:
    with pytest.raises(InvalidInput):
        check_key(path)
    with pytest.raises(Corruption):
        layout.check_under_root(path)


@pytest.mark.parametrize("path", ["%2e%2e/x", "nodes/%2fetc", "C:/x", "s3://other/bucket", "file:///etc"])
def test_a_stored_path_that_somebody_may_decode_is_refused(path: str) -> None:
    with pytest.raises(Corruption):
        layout.check_under_root(path)


@given(st.text(max_size=60))
def test_what_is_accepted_stays_below_any_root(path: str) -> None:
    import os

    try:
        check_key(path)
    except InvalidInput:
        return
    assert os.path.normpath(os.path.join("/root", path)) == "/root/" + path
    assert not re.search(r"#[0-9]+$", path)


def test_keys_may_reach_their_bounds() -> None:
    check_key("a" * SEGMENT_BYTES_MAX)
    long = "/".join(["a" * 199] * 4)
    assert len(long) < KEY_BYTES_MAX
    check_key(long)
    with pytest.raises(InvalidInput):
        check_key("a" * (SEGMENT_BYTES_MAX + 1))


def test_a_prefix_may_end_in_a_slash_or_be_empty() -> None:
    assert [check_prefix(p) for p in ("", "a/", "a/b")] == ["", "a/", "a/b"]
    for bad in ("../", "/", "a//"):
        with pytest.raises(InvalidInput):
            check_prefix(bad)


def test_every_path_that_is_minted_is_below_the_root() -> None:
    made = [
        layout.MANIFEST,
        layout.AUDIT,
        layout.PROBE,
        layout.intent_key(ULID),
        layout.quarantine_key(ULID),
        layout.staging_key(ULID),
        layout.boundary_key(ULID, 7),
        layout.boundary_key(ULID, None),
        layout.node_table_path("Person", ULID),
        layout.edge_table_path("Knows", ULID),
    ]
    assert [layout.check_under_root(path) for path in made] == made
    assert made == [
        "__manifest",
        "_graph_commit_recoveries.lance",
        "__probe",
        f"__recovery/{ULID}.json",
        f"__recovery/quarantine/{ULID}.json",
        f"__staging/{ULID}.json",
        f"__boundary/{ULID}/00000000000000000007",
        f"__boundary/{ULID}/all",
        f"nodes/Person-{ULID}.lance",
        f"edges/Knows-{ULID}.lance",
    ]
    assert layout.table_path("node:Person", ULID) == made[-2]
    assert layout.table_path("edge:Knows", ULID) == made[-1]


@pytest.mark.parametrize("name", ["", "../evil", "a/b", "a b", "Ä", "1x", "x" * 129, "a\x00", "a-b", "%2e", "a.lance"])
def test_a_table_path_is_never_made_from_a_name_that_is_none(name: str) -> None:
    for make in (layout.node_table_path, layout.edge_table_path):
        with pytest.raises(InvalidInput):
            make(name, ULID)
    with pytest.raises(InvalidInput):
        layout.table_path("node:" + name, ULID)


@pytest.mark.parametrize("ulid", ["", "../" + "0" * 23, ULID.lower(), ULID + "0"])
def test_a_record_key_is_never_made_from_what_is_no_ulid(ulid: str) -> None:
    for make in (layout.intent_key, layout.quarantine_key, layout.staging_key):
        with pytest.raises(InvalidInput):
            make(ulid)


@pytest.mark.parametrize("key", ["Person", "nodes:Person", ":Person", "node"])
def test_a_table_key_says_node_or_edge(key: str) -> None:
    with pytest.raises(InvalidInput):
        layout.table_path(key, ULID)


def test_a_table_path_is_recognised_and_gives_its_ulid_back() -> None:
    ulid = new_ulid()
    path = layout.node_table_path("Person", ulid)
    assert layout.is_table_path(path)
    assert layout.table_ulid(path) == ulid
    for other in (path + "/data", "x/" + path, path[:-1], "nodes/Person.lance", f"nodes/../Person-{ulid}.lance"):
        assert not layout.is_table_path(other)
        with pytest.raises(InvalidInput):
            layout.table_ulid(other)


def test_a_record_key_gives_its_ulid_back_and_quarantined_ones_do_not() -> None:
    assert layout.record_ulid(layout.intent_key(ULID)) == ULID
    assert layout.record_ulid(layout.staging_key(ULID)) == ULID
    for other in (layout.quarantine_key(ULID), "__recovery/x.json", f"__recovery/{ULID}", f"{ULID}.json", "__manifest"):
        assert layout.record_ulid(other) is None


def test_boundary_marks_sort_like_their_versions_and_everything_sorts_last() -> None:
    versions = [0, 1, 9, 10, 99, 2**32, 2**63, layout.VERSION_MAX]
    keys = [layout.boundary_key(ULID, version) for version in versions]
    keys.append(layout.boundary_key(ULID, None))
    assert keys == sorted(keys)
    assert [layout.boundary_version(key) for key in keys] == [*versions, None]
    assert all(key.startswith(layout.boundary_prefix(ULID)) for key in keys)


@pytest.mark.parametrize("version", [-1, 2**64])
def test_a_mark_of_an_impossible_version_is_not_made(version: int) -> None:
    with pytest.raises(InvalidInput):
        layout.boundary_key(ULID, version)


@pytest.mark.parametrize("ref", ["", "a/b", "..", "main", "a b", "é", ULID.lower(), f"{ULID}/"])
def test_a_boundary_belongs_to_the_identity_of_a_branch(ref: str) -> None:
    with pytest.raises(InvalidInput):
        layout.boundary_prefix(ref)


@pytest.mark.parametrize("name", ["7", "x" * 20, "0000000000000000000x", "ALL", "", "9" * 20])
def test_a_foreign_object_among_the_marks_is_loud(name: str) -> None:
    with pytest.raises(Corruption):
        layout.boundary_version(f"__boundary/{ULID}/" + name)
    with pytest.raises(Corruption):
        layout.boundary_version(f"__boundary/main/{7:020d}")


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("a", "a"),
        ("Feature/X", "feature+x"),
        ("a.b-c_d/1", "a.b-c_d+1"),
        ("v1..2", "v1..2"),
        ("x" * 128, "x" * 128),
        ("main/a", "main+a"),
    ],
)
def test_a_branch_name_has_a_folder_in_lower_case(name: str, key: str) -> None:
    assert layout.branch_name_key(name) == key
    assert layout.name_entry(layout.name_entry_key(key, 7)) == (key, 7)
    assert layout.is_ours(layout.name_entry_key(key, 7))


@pytest.mark.parametrize(
    "name",
    ["", "main", "MAIN", ".", "..", "a/", "/a", "a//b", "a/.b", "-a", "a/-b", "a b", "a+b", "é", "x" * 129, "a\n"],
)
def test_what_is_no_branch_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        layout.branch_name_key(name)


@pytest.mark.parametrize(
    "rest",
    ["", "a", "a/", "a/7", "a/000000007", "a/0000000x", "A/00000007", "a/b/00000007", "main/00000007", "+/00000007"],
)
def test_a_foreign_object_among_the_names_is_loud(rest: str) -> None:
    with pytest.raises(Corruption):
        layout.name_entry(f"__branches/{rest}")


def test_an_entry_has_a_number_of_eight_digits() -> None:
    assert layout.name_entry_key("a", layout.NAME_NUMBER_MAX) == "__branches/a/99999999"
    for number in (-1, layout.NAME_NUMBER_MAX + 1):
        with pytest.raises(InvalidInput):
            layout.name_entry_key("a", number)


@pytest.mark.parametrize(
    ("folder", "identity"),
    [(f"g-{ULID}", ULID), (f"f-{ULID}", None), (ULID, None), (f"g-{ULID.lower()}", None), ("x", None)],
)
def test_a_line_of_the_manifest_is_told_by_its_folder(folder: str, identity: str | None) -> None:
    assert layout.line_identity(folder) == identity


@pytest.mark.parametrize(
    ("key", "line"),
    [
        (f"nodes/A-{ULID}.lance/data/x.lance", (f"nodes/A-{ULID}.lance", None)),
        (f"edges/A-{ULID}.lance/tree/f-{ULID}/data/x.lance", (f"edges/A-{ULID}.lance", f"f-{ULID}")),
        (f"edges/A-{ULID}.lance/tree/main/data/x.lance", None),
        (f"edges/A-{ULID}.lance/tree/f-{ULID}", None),
        (f"nodes/A-{ULID}.lance", None),
        (f"nodes/A-{ULID}.lance/", None),
        (f"nodes/A-{ULID}.lance/data/../../x", None),
        ("nodes/A.lance/data/x.lance", None),
        ("__manifest/data/x.lance", None),
        ("", None),
    ],
)
def test_a_file_of_a_table_says_on_which_line_it_lies(key: str, line: tuple[str, str | None] | None) -> None:
    assert layout.line_of_file(key) == line


def test_the_places_of_recovery_are_told_apart() -> None:
    assert layout.recovery_op(layout.recovery_key(ULID)) == ULID
    assert [layout.recovery_op(key) for key in (layout.intent_key(ULID), "__recoveries/x.json", f"__recoveries/{ULID}")] == [
        None, None, None,
    ]  # fmt: skip
    assert layout.refused_key(ULID) == f"__recovery/refused/{ULID}.json"
    assert layout.quarantined_versions_key(ULID) == f"__recovery/quarantine/versions/{ULID}.json"
    moved = layout.quarantined_version_key(ULID, "__manifest/_versions/1.manifest")
    assert moved == f"__recovery/quarantine/versions/{ULID}/__manifest/_versions/1.manifest"
    assert all(layout.record_ulid(key) is None for key in (moved, layout.refused_key(ULID)))
    with pytest.raises(Corruption):
        layout.quarantined_version_key(ULID, "../x")


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("__manifest/_versions/1.manifest", meter.MANIFEST),
        ("__manifest/data/x.lance", meter.MANIFEST),
        ("__manifest", meter.MANIFEST),
        ("__recovery/", meter.INTENT),
        (f"__recovery/{ULID}.json", meter.INTENT),
        (f"__recovery/quarantine/{ULID}.json", meter.INTENT),
        (f"__boundary/{ULID}/", meter.BOUNDARY),
        (f"__staging/{ULID}.json", meter.OTHER),
        ("__probe", meter.OTHER),
        ("_graph_commit_recoveries.lance/data/x.lance", meter.OTHER),
        (f"nodes/A-{ULID}.lance/data/x.lance", meter.DATA),
        (f"nodes/A-{ULID}.lance/_deletions/x.arrow", meter.DATA),
        (f"edges/A-{ULID}.lance/_versions/x.manifest", meter.VERSIONS),
        (f"edges/A-{ULID}.lance/_transactions/x.txn", meter.VERSIONS),
        (f"edges/A-{ULID}.lance/tree/f-{ULID}/_versions/x.manifest", meter.VERSIONS),
        (f"edges/A-{ULID}.lance/tree/f-{ULID}/data/x.lance", meter.DATA),
        (f"edges/A-{ULID}.lance/_refs/branches/x.json", meter.VERSIONS),
        (f"edges/A-{ULID}.lance/_indices/u/page_data.lance", meter.INDEX),
        ("elsewhere", meter.OTHER),
    ],
)
def test_a_request_is_counted_where_the_wire_counts_it(key: str, expected: str) -> None:
    assert layout.request_class(key) == expected
    assert classify_key("graph/" + key) == expected
