"""What the highest entry of a name's log says of the branches that had the name before."""

from __future__ import annotations

import pytest

from omnigraph.manifest.refs import NameEntry, NameState, branches_deleted

ULID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
LIVES: list[tuple[int, NameState, int]] = [
    (0, "making", 0),
    (1, "bound", 0),
    (2, "free", 1),
    (1, "free", 0),  # a creation that was given up never had a commit
    (3, "making", 1),
    (4, "bound", 1),
    (5, "free", 2),
    (30, "making", 10),
]


@pytest.mark.parametrize(("n", "state", "lives"), LIVES)
def test_the_number_of_an_entry_tells_how_many_branches_of_the_name_are_gone(
    n: int, state: NameState, lives: int
) -> None:
    assert branches_deleted(NameEntry(n, state, "b", ULID, None, None, 0)) == lives
