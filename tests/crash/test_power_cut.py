"""The power goes at any call of a real run; only what was synced is left. The long form is ``./run powercut``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from omnigraph.testing.content import Content
from omnigraph.testing.powercut.beside import PAIRS
from omnigraph.testing.powercut.cells import Cell, PowerCuts
from omnigraph.testing.powercut.disk import MIXED, NAMES, SYNCED, TORN
from omnigraph.testing.powercut.judge import Sides
from omnigraph.testing.powercut.record import unavailable
from omnigraph.testing.powercut.workload import AS_IT_IS, COMMITS, RELAXED, SYNCED_AROUND

pytestmark = [pytest.mark.crash, pytest.mark.system, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cuts() -> Iterator[PowerCuts]:
    if unavailable() is not None:
        pytest.skip(f"not run: {unavailable()}")
    with PowerCuts() as made:
        yield made


def test_without_syncs_acknowledged_commits_are_lost_and_the_judge_says_so(cuts: PowerCuts) -> None:
    """The planted defect: most files were never synced, and what was acknowledged is gone."""
    result = cuts.run(Cell(COMMITS, 1, RELAXED, SYNCED), every=20)
    assert result.never_synced > result.files // 2
    assert any("acknowledged commit has not landed" in finding for finding in result.findings)


@pytest.mark.parametrize("name", ["append", "load-merge", "mutate-delete"])
def test_where_all_is_synced_around_the_swap_nothing_is_found(cuts: PowerCuts, name: str) -> None:
    result = cuts.run(Cell(name, 1, SYNCED_AROUND, SYNCED))
    assert (dict(result.findings), result.never_synced) == ({}, 0)
    assert result.cuts > 30 and result.judged > 3


@pytest.mark.parametrize(("name", "every"), [("append", 1), (COMMITS, 5)])
def test_what_was_acknowledged_is_in_what_was_synced(cuts: PowerCuts, name: str, every: int) -> None:
    result = cuts.run(Cell(name, 1, AS_IT_IS, SYNCED), every=every)
    assert dict(result.findings) == {}
    assert result.cuts > 30 and result.judged > 3


@pytest.mark.parametrize("image", [NAMES, TORN, MIXED])
def test_a_file_that_has_a_name_and_not_its_bytes_is_moved_aside(cuts: PowerCuts, image: str) -> None:
    """A version file that is not whole stops an open with the command that moves it aside, or recovery moves it."""
    result = cuts.run(Cell("append", 1, AS_IT_IS, image), every=4)
    assert dict(result.findings) == {}
    assert result.cuts > 10 and result.judged > 3


@pytest.mark.parametrize("image", [SYNCED, TORN])
def test_a_graph_that_was_acknowledged_is_there(cuts: PowerCuts, image: str) -> None:
    assert dict(cuts.run(Cell("init", 1, AS_IT_IS, image), every=6).findings) == {}


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("image", [SYNCED, MIXED])
def test_beside_another_process_what_was_acknowledged_is_there(cuts: PowerCuts, pair: str, image: str) -> None:
    """Also what another process has swapped and not synced, where this one has acknowledged above it, or has said that it
    landed."""
    result = cuts.run(Cell(pair, 1, AS_IT_IS, image), every=25)
    assert dict(result.findings) == {}
    assert result.cuts > 3


@pytest.mark.parametrize("name", ["combine-helps", "combine-helped", "offer-carried", "offer-refused"])
def test_what_processes_do_for_each_other_survives_as_if_each_had_done_it(cuts: PowerCuts, name: str) -> None:
    """A plan that another swap took along, the swap that takes it, a request that another plan carries, and one that is withdrawn."""
    result = cuts.run(Cell(name, 1, AS_IT_IS, SYNCED), every=12)
    assert dict(result.findings) == {}
    assert result.cuts > 3 and result.judged > 3


def test_a_write_of_a_rival_that_is_taken_back_is_found() -> None:
    before, between, after = (Content({"node:T1": ((("name", name),),)}) for name in "abc")
    sides = Sides(before, after, between)
    assert [sides.name_of(one) for one in (before, between, after)] == ["before", "before", "after"]
    assert sides.name_of(Content({})).startswith("neither") and Sides(before, before).name_of(before) == "same"
    assert list(sides.lost(between, before)) and not list(sides.lost(before, between))


@pytest.mark.parametrize("name", ["schema-filled", "schema-types", "schema-rule"])
@pytest.mark.parametrize("image", [SYNCED, MIXED])
def test_a_change_of_the_schema_that_was_acknowledged_is_there(cuts: PowerCuts, name: str, image: str) -> None:
    """Columns that were written for it, tables that it made, the schema itself."""
    result = cuts.run(Cell(name, 1, AS_IT_IS, image), every=8)
    assert dict(result.findings) == {}
    assert result.cuts > 3 and result.judged > 1


@pytest.mark.parametrize("name", ["branch-first-write", "branch-settle", "merge-rows"])
def test_what_a_branch_was_told_is_there_with_the_files_that_its_forks_read(cuts: PowerCuts, name: str) -> None:
    """Images of a graph with forks are judged where the graph was made: elsewhere they would read its files, and not their own."""
    result = cuts.run(Cell(name, 1, AS_IT_IS, SYNCED), every=8)
    assert dict(result.findings) == {}
    assert result.cuts > 3 and result.judged > 3
