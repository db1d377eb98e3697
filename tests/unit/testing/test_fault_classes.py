"""What a request is about is told from its method and key alone."""

from __future__ import annotations

import pytest

from omnigraph.testing.faults import CLASSES, Exchange, classify_key, counts, hops, parse_target, serial_service_s
from omnigraph.testing.faults.rules import CATALOGUE, Match, Rule

ROOT = "any/root"


@pytest.mark.parametrize(
    ("key", "cls"),
    [
        ("__manifest/_versions/1.manifest", "manifest"),
        ("__manifest/_transactions/0-a.txn", "manifest"),
        ("__manifest/data/a.lance", "manifest"),
        ("__manifest/tree/g-01/_versions/1.manifest", "manifest"),
        ("__recovery/01.json", "intent"),
        ("__recovery/quarantine/01.json", "intent"),
        ("__recovery/", "intent"),
        ("__boundary/main/00000000000000000001", "boundary"),
        ("__staging/01.json", "other"),
        ("_graph_commit_recoveries.lance/_versions/1.manifest", "other"),
        ("nodes/Person-01.lance/data/a.lance", "data"),
        ("nodes/Person-01.lance/_deletions/0-1-2.arrow", "data"),
        ("nodes/Person-01.lance/_versions/1.manifest", "versions"),
        ("nodes/Person-01.lance/_versions/", "versions"),
        ("nodes/Person-01.lance/_transactions/0-a.txn", "versions"),
        ("edges/Knows-01.lance/tree/f-01/_versions/2.manifest", "versions"),
        ("edges/Knows-01.lance/_refs/branches/f-01.json", "versions"),
        ("edges/Knows-01.lance/_indices/u/page_data.lance", "index"),
    ],
)
@pytest.mark.parametrize("root", [ROOT, "data/_versions", ""])
def test_class_follows_the_place_in_the_graph_whatever_the_root_is_called(root: str, key: str, cls: str) -> None:
    assert classify_key(f"{root}/{key}" if root else key) == cls


def test_what_is_in_no_known_place_is_other() -> None:
    assert [classify_key(key) for key in ("", "g/", "g/notes.txt")] == ["other"] * 3


@pytest.mark.parametrize(
    ("method", "path", "operation", "key", "mutating"),
    [
        ("GET", "/b/r/nodes/P.lance/data/a%20b.lance", "get", "r/nodes/P.lance/data/a b.lance", False),
        ("HEAD", "/b/r/x", "head", "r/x", False),
        ("GET", "/b?list-type=2&prefix=r%2F__recovery%2F", "list", "r/__recovery/", False),
        ("PUT", "/b/r/x", "put", "r/x", True),
        ("PUT", "/b/r/x?partNumber=1&uploadId=u", "multipart", "r/x", True),
        ("POST", "/b/r/x?uploads", "multipart", "r/x", True),
        ("POST", "/b?delete", "delete-many", "", True),
        ("DELETE", "/b/r/x", "delete", "r/x", True),
        ("PUT", "/b", "create-bucket", "", True),
    ],
)
def test_operation_and_key_are_read_from_a_path_style_address(
    method: str, path: str, operation: str, key: str, mutating: bool
) -> None:
    target = parse_target(method, path)
    assert (target.operation, target.bucket, target.key, target.mutating) == (operation, "b", key, mutating)


def line(started_s: float, ended_s: float, *, cls: str = "data", upstream_s: float = 0.0) -> Exchange:
    return Exchange(1, "GET", "get", "b", "k", cls, False, 0, 0, 0, 200, started_s, ended_s, upstream_s, "")


def test_classes_add_up_to_the_total() -> None:
    seen = counts([line(0, 1, cls=cls) for cls in (*CLASSES, "data")])
    assert sum(seen[cls] for cls in CLASSES) == seen["total"] == len(CLASSES) + 1


def test_hops_count_the_longest_chain_and_not_the_requests_beside_it() -> None:
    beside = [line(0, 10), line(0, 4), line(5, 9)]
    assert hops(beside) == 2
    assert hops([*beside, line(10, 11)]) == 3
    assert hops([]) == 0


def test_service_time_of_overlapping_requests_counts_once() -> None:
    log = [line(0, 3, upstream_s=2), line(0, 4, upstream_s=2), line(9, 10, upstream_s=1)]
    assert serial_service_s(log) == pytest.approx(3 + 1)


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_a_rule_crosses_a_process_border_unchanged(name: str) -> None:
    rule = Rule(
        CATALOGUE[name], Match(mutating=True, methods=("PUT",), classes=("manifest",), key=r"\.txn$"), at=3, times=None
    )
    assert Rule.from_dict(rule.to_dict()) == rule


def test_the_catalogue_has_the_fault_kinds_that_a_sweep_owes() -> None:
    assert len(CATALOGUE) >= 15
    assert len(set(CATALOGUE.values())) == len(CATALOGUE)
