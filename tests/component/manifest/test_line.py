"""A manifest line on storage: fragments, digests, requests, history in the archive. Lines made by hand, without tables."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from omnigraph.core.errors import Corruption, OmnigraphError, UnsupportedStorage
from omnigraph.core.ids import new_uuid
from omnigraph.manifest import codec, digests, fragments, history, reading
from omnigraph.manifest import rows as r
from omnigraph.manifest.history import History
from omnigraph.manifest.state import Change, State, fold
from omnigraph.manifest.swap import Held, Manifest, SwapLost, SwapUnknown, archive_files
from omnigraph.store import open_store
from omnigraph.table import strict
from omnigraph.table.dataset import Tables
from omnigraph.testing.faults import FaultProxy, hops
from tests.unit.manifest.material import (
    BRANCH,
    Line,
    Step,
    abort,
    branch_line,
    change_of,
    commit,
    main_line,
    merged,
    pin,
    schema,
    swaps,
    ulid,
)


def manifest_at(root: str) -> Manifest:
    """The manifest as another process finds it: nothing is remembered."""
    return Manifest(Tables(open_store(root)), root)


class Grown:
    """A line on storage that grows by swaps."""

    def __init__(self, root: str, first: State) -> None:
        self.root = root
        self.manifest = manifest_at(root)
        self.held = self.manifest.create(first, uuid=new_uuid())
        self.written: list[r.HistoryRow] = [*first.tail]
        self._next = 1_000

    def swap(self, **facts: Any) -> Held:
        change = Change(**facts)
        after, rolled = fold(self.held.state, change)
        written = self.manifest.write(self.held, change)
        self.held = self.manifest.swap(self.held, written, uuid=new_uuid())
        rows = (*rolled, *after.tail)
        self.written.extend(rows[len(rows) - len(change.history) :])
        return self.held

    def swap_rows(self, rows: int, carried: int = 0) -> Held:
        own = [commit(self.new_id(), idempotency_key=f"key {self._next}") for _ in range(rows)]
        taken = [merged(self.new_id(), idempotency_key=f"key {self._next}") for _ in range(carried)]
        return self.swap(history=(*taken, *own))

    def new_id(self) -> str:
        self._next += 1
        return ulid(self._next)

    def cold(self) -> Held:
        return manifest_at(self.root).open_latest(self.held.state.ref)


# --- what is there ------------------------------------------------------------------------------------------------------


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=swaps(4))
def test_what_a_swap_leaves_in_memory_is_what_a_cold_open_reads(
    tmp_path_factory: pytest.TempPathFactory, steps: Sequence[Step]
) -> None:
    grown = Grown(str(tmp_path_factory.mktemp("line")), main_line())
    line = Line(grown.held.state)
    for step in steps:
        before = line.state
        after = step.run(line)
        change = Change(
            pins={key: p for key, p in after.tables.items() if before.tables.get(key) != p},
            tombstones=tuple(t for t in after.tombstones if t not in before.tombstones),
            schema=after.schema,
            history=tuple(row for row in line.history if row.version == after.version),
            head=after.head,
        )
        grown.swap(**vars(change))
        assert grown.held.state == after
        assert grown.cold().state == after
        assert list(History().rows(grown.cold())) == list(line.history)[::-1]


def test_a_line_is_what_the_format_says(local_root: str) -> None:
    grown = Grown(local_root, main_line())
    for _ in range(3):
        grown.swap_rows(1)
    found = lance.dataset(f"{local_root}/__manifest")
    assert found.schema.remove_metadata() == r.ARROW_SCHEMA and found.data_storage_version == "2.2"
    assert found.config() == {} and not found.has_stable_row_ids
    assert [set(one.to_table()["object_type"].to_pylist()) for one in found.get_fragments()] == [
        {"schema", "table"},
        {"table_version"},
        {"graph_head", "graph_commit"},
    ]
    stamped = digests.parse(found.schema.metadata, strict.fragment_files(found))
    for fragment in found.get_fragments():
        rows = codec.from_arrow(fragment.to_table())
        assert stamped[fragment.metadata.files[0].path] == digests.digest(rows)


def test_fragments_that_did_not_change_are_listed_again(local_root: str) -> None:
    grown = Grown(local_root, main_line(70))
    files = [strict.fragment_files(grown.swap_rows(1).handle)]

    def move(count: int) -> list[str]:
        tables = list(grown.held.state.tables.values())[:count]
        grown.swap(pins={one.key: replace(one, version=one.version + 1) for one in tables})
        files.append(strict.fragment_files(grown.held.handle))
        return files[-1]

    assert move(1)[:2] == files[-2][:2]
    assert move(64)[:2] == files[-2][:2]
    assert move(65)[0] == files[-2][0] and files[-1][1] != files[-2][1]
    grown.swap(schema=schema("B"))
    assert set(strict.fragment_files(grown.held.handle)).isdisjoint(files[-1])


def test_a_branch_has_a_line_of_its_own(local_root: str) -> None:
    main = Grown(local_root, main_line())
    branch = Grown(local_root, branch_line())
    branch.swap_rows(1)
    assert (Path(local_root) / "__manifest" / "tree" / f"g-{BRANCH}" / "_versions").is_dir()
    assert branch.cold().state == branch.held.state and main.cold().state == main.held.state
    with pytest.raises((SwapLost, SwapUnknown)):
        branch.manifest.create(branch_line(), uuid=new_uuid())


def test_a_swap_on_a_base_that_is_not_the_newest_is_lost(local_root: str) -> None:
    grown = Grown(local_root, main_line())
    base, rival = grown.held, manifest_at(local_root)
    theirs = rival.open_latest()
    rival.swap(theirs, rival.write(theirs, Change(history=(commit(ulid(70)),))), uuid=new_uuid())
    with pytest.raises(SwapLost):
        grown.swap_rows(1)
    assert grown.cold().state.head.commit_id == ulid(70) and base.version == 1


# --- requests -----------------------------------------------------------------------------------------------------------


def test_a_swap_and_an_open_send_exactly_this(fault_proxy: FaultProxy, proxied_root: str) -> None:
    grown = Grown(proxied_root, main_line(70))

    def sent(act: Callable[[], Any]) -> dict[str, int]:
        fault_proxy.reset()
        act()
        fault_proxy.drain()
        return {kind: count for kind, count in sorted(fault_proxy.operations().items()) if count}

    def total(act: Callable[[], Any]) -> int:
        return sum(sent(act).values())

    one = grown.held.state.tables["node:T1"]
    assert total(grown.cold) == 3, "one fragment holds the first version"
    assert total(lambda: grown.swap_rows(1)) == 5, "the first swap of a line writes schema, base and current"
    assert total(grown.cold) == 5
    assert total(lambda: grown.swap_rows(1)) == 3, "current, transaction, version: digests cost nothing"
    assert total(lambda: grown.swap(pins={one.key: replace(one, version=2)})) == 3
    assert total(lambda: grown.swap(schema=schema("B"))) == 5
    every = {p.key: replace(p, version=p.version + 1) for p in grown.held.state.tables.values()}
    assert total(lambda: grown.swap(pins=every)) == 4, "too many pins for current: base is written again"
    while len(grown.held.state.tail) < 127:
        grown.swap_rows(1)
    assert total(lambda: grown.swap_rows(1)) == 5, "a tail that rolls writes an archive fragment and base"
    assert total(grown.cold) == 5
    # Whoever knows the line already reads only what is new.
    other = manifest_at(proxied_root)
    other.open_latest()
    grown.swap_rows(1)
    assert total(other.open_latest) == 3


# --- digests ------------------------------------------------------------------------------------------------------------


def flipping(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """The next reads of fragments bring an actor that nobody wrote."""
    read, left = strict.read_fragments, iter(range(times))

    def flipped(*args: Any) -> pa.Table:
        table = read(*args)
        if next(left, None) is None:
            return table
        texts = [text and text.replace('"ada"', '"adb"') for text in table["metadata"].to_pylist()]
        return table.set_column(
            table.schema.get_field_index("metadata"), table.field("metadata"), pa.array(texts, pa.string())
        )

    monkeypatch.setattr(strict, "read_fragments", flipped)


def test_a_fault_on_the_way_is_gone_the_second_time(local_root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    grown = Grown(local_root, main_line())
    grown.swap_rows(1)
    flipping(monkeypatch, 1)
    assert grown.cold().state == grown.held.state


def test_rows_that_stay_wrong_are_corruption_naming_the_file(local_root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    grown = Grown(local_root, main_line())
    grown.swap_rows(1)
    flipping(monkeypatch, 2)
    with pytest.raises(Corruption) as caught:
        grown.cold()
    current = strict.fragment_files(grown.held.handle)[-1]
    assert caught.value.facts["file"] == current and current in str(caught.value)


def test_a_bit_that_flips_in_a_file_of_the_state_is_never_believed(local_root: str) -> None:
    grown = Grown(local_root, main_line())
    grown.swap_rows(3)
    chance = random.Random(5)
    for file in strict.fragment_files(grown.held.handle):
        path = Path(local_root) / "__manifest" / "data" / file
        whole = path.read_bytes()
        noticed = 0
        for _ in range(60):
            at, bit = chance.randrange(len(whole)), chance.randrange(8)
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
            try:
                assert grown.cold().state == grown.held.state, (file, at, bit)
            except OmnigraphError:
                noticed += 1
        path.write_bytes(whole)
        assert noticed > 10
    assert grown.cold().state == grown.held.state


def raw_swap(grown: Grown, parts: Sequence[Sequence[r.RawRow]], **named: str) -> None:
    """A version made by hand of these fragments, with right digests but for those named."""
    handle = grown.held.handle
    files = [strict.write_ahead(handle, codec.to_arrow(rows)) for rows in parts]
    stamped = {part.files[0]: digests.digest(rows) for part, rows in zip(files, parts, strict=True)}
    metadata = {**digests.metadata(stamped), **named}
    strict.swap(
        Tables(open_store(grown.root)),
        grown.manifest.ref(grown.held.state.ref),
        handle,
        schema=r.ARROW_SCHEMA.with_metadata({key: value for key, value in metadata.items() if value}),
        fragments=files,
        uuid=new_uuid(),
        properties={},
    )


def parts_of(state: State) -> list[list[r.RawRow]]:
    return [fragments.schema_rows(state), fragments.base_rows(state), fragments.current_rows(state)]


@pytest.mark.parametrize("text", ["", "{}", '{"x.lance":"' + "0" * 32 + '"}'], ids=["none", "no file", "another file"])
def test_a_version_without_its_digests_is_corruption(local_root: str, text: str) -> None:
    grown = Grown(local_root, main_line())
    grown.swap_rows(1)
    raw_swap(grown, parts_of(grown.held.state), **{r.DIGESTS_KEY: text})
    with pytest.raises(Corruption):
        grown.cold()


# --- refused ------------------------------------------------------------------------------------------------------------


def hand_made(state: State) -> dict[str, list[list[r.RawRow]]]:
    schema_rows, base, current = parts_of(state)
    head = replace(state, head=replace(state.head, commit_id=ulid(9)))
    owner = replace(state.tables["node:T1"], owner="nobody")
    return {
        "two fragments": [base, current],
        "another order": [base, schema_rows, current],
        "one fragment in a later version": [fragments.single_rows(state)],
        "a head that is no commit": [schema_rows, base, fragments.current_rows(head)],
        "an owner that is no branch": [schema_rows, base, [*current, codec.pin_row(owner)]],
        "a pin of nothing": [schema_rows, base, [*current, codec.pin_row(pin(60))]],
    }


@pytest.mark.parametrize("name", hand_made(Line(main_line()).swap()))
def test_a_version_that_no_swap_makes_is_refused(local_root: str, name: str) -> None:
    grown = Grown(local_root, main_line())
    grown.swap_rows(1)
    raw_swap(grown, hand_made(replace(grown.held.state, version=3))[name])
    with pytest.raises(Corruption) as caught:
        grown.cold()
    assert caught.value.facts["version"] == 3


def test_a_version_made_by_hand_as_a_swap_makes_it_is_read(local_root: str) -> None:
    grown = Grown(local_root, main_line())
    grown.swap_rows(1)
    raw_swap(grown, parts_of(grown.held.state))
    assert grown.cold().state == replace(grown.held.state, version=3)


@pytest.mark.parametrize("stamp", ["", "4", "6", "five"])
def test_another_storage_version_is_refused_before_any_row_is_read(
    local_root: str, monkeypatch: pytest.MonkeyPatch, stamp: str
) -> None:
    grown = Grown(local_root, main_line())
    raw_swap(grown, parts_of(Line(main_line()).swap()), **{r.VERSION_KEY: stamp})
    monkeypatch.setattr(strict, "read_fragments", None)
    with pytest.raises(UnsupportedStorage) as caught:
        grown.cold()
    assert caught.value.facts == {"found": stamp or None, "served": 5}
    assert caught.value.hint is not None
    assert ("newer release" if stamp == "6" else "export with the release that wrote") in caught.value.hint


def test_a_line_with_other_columns_is_refused(local_root: str) -> None:
    rows = codec.to_arrow(fragments.single_rows(main_line())).drop_columns(["idempotency_key"])
    stamp = {r.VERSION_KEY: "5"}
    lance.write_dataset(rows.replace_schema_metadata(stamp), f"{local_root}/__manifest", data_storage_version="2.2")
    with pytest.raises(Corruption):
        manifest_at(local_root).open_latest()


# --- many types ---------------------------------------------------------------------------------------------------------


def current_bytes(grown: Grown) -> int:
    """The file that the newest swap wrote."""
    return (Path(grown.root) / "__manifest" / "data" / strict.fragment_files(grown.held.handle)[-1]).stat().st_size


def test_the_commit_that_made_2000_types_rides_in_the_tail_at_a_twelfth_of_its_size(tmp_path: Path) -> None:
    few, many = (Grown(str(tmp_path / str(tables)), main_line(tables)) for tables in (5, 2_000))
    genesis = len(codec.history_row(many.held.state.tail[0]).metadata or "")
    sizes = []
    for _ in range(50):
        for grown in (few, many):
            grown.swap_rows(1)
        sizes.append((current_bytes(few), current_bytes(many)))
    assert max(large - small for small, large in sizes) < genesis / 10
    assert many.cold().state == many.held.state


def test_the_files_of_a_line_are_written_plain_again_once_a_long_row_has_left_the_tail(local_root: str) -> None:
    grown = Grown(local_root, main_line(200))
    compressed = [grown.held.handle.schema.field("metadata").metadata is None]
    while len(grown.held.state.tail) < 127:
        grown.swap_rows(1)
        compressed.append(grown.held.handle.schema.field("metadata").metadata is None)
    grown.swap_rows(1)
    assert archive_files(grown.held)
    assert all(compressed) and grown.held.handle.schema.field("metadata").metadata is not None
    assert grown.cold().state == grown.held.state
    assert list(History().rows(grown.cold())) == grown.written[::-1]


def test_a_line_of_few_types_is_written_plain(local_root: str) -> None:
    grown = Grown(local_root, main_line(5))
    grown.swap_rows(20)
    assert grown.held.handle.schema.field("metadata").metadata == {
        b"lance-encoding:compression": b"none",
    }


# --- history ------------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["small fragments", "large fragments"])
def long_line(request: pytest.FixtureRequest, local_root: str, monkeypatch: pytest.MonkeyPatch) -> Grown:
    """A line whose archive has several fragments, some of which begin with commits that a merge carried."""
    monkeypatch.setattr("omnigraph.manifest.state.TAIL_ROLL", 12)
    monkeypatch.setattr("omnigraph.manifest.state.TAIL_KEEP", 5)
    if request.param == "large fragments":
        monkeypatch.setattr(history, "WHOLE_ROWS_MAX", 8)
    grown = Grown(local_root, main_line())
    chance = random.Random(3)
    for _ in range(40):
        grown.swap_rows(chance.choice([0, 1, 1, 2, 4]), carried=chance.choice([0, 0, 0, 9]))
        if chance.random() < 0.2:
            grown.swap(history=(abort(grown.new_id()),))
    while not isinstance(grown.held.state.tail[0], r.MergedRow):
        grown.swap_rows(1, carried=9)
    archived = [fragment.to_table() for fragment in grown.held.handle.get_fragments()[:-3]]
    assert len(archived) > 6
    assert any(table["object_type"][0].as_py() == "merged_commit" for table in archived)
    if request.param == "large fragments":
        assert any(table.num_rows > 8 for table in archived)
    return grown


def test_every_record_is_found_by_its_id(long_line: Grown) -> None:
    look = History()
    held = long_line.cold()
    assert list(look.rows(held)) == long_line.written[::-1]
    for row in long_line.written:
        assert look.find(held, row.object_id) == row
    for unknown in ("x", "", "it's", ulid(1), "' OR 1=1 --"):
        assert look.find(held, unknown) is None


def test_every_key_is_found(long_line: Grown) -> None:
    look, held = History(), long_line.cold()
    for row in long_line.written:
        stood = row.row if isinstance(row, r.MergedRow) else row
        if isinstance(stood, r.CommitRow) and stood.idempotency_key is not None:
            found = look.find_key(held, stood.idempotency_key)
            assert found is not None and found.idempotency_key == stood.idempotency_key
    assert look.find_key(held, "no key") is None and look.find_key(held, "") is None


def test_a_key_in_two_rows_belongs_to_the_lines_own_commit_and_then_to_the_newest_merged(long_line: Grown) -> None:
    key = 'it\'s "a" key\n\\'
    one, two, own = ulid(501), ulid(502), ulid(503)
    look = History()
    for number, carried in enumerate((one, two)):
        rows = (merged(carried, idempotency_key=key), commit(long_line.new_id()))
        long_line.swap(history=rows)
        for _ in range(12 * number):
            long_line.swap_rows(1)
    found = look.find_key(long_line.cold(), key)
    assert found is not None and (found.commit_id, found.manifest_version) == (two, 4)
    long_line.swap(history=(commit(own, idempotency_key=key),))
    for _ in range(30):
        found = look.find_key(long_line.cold(), key)
        assert found is not None and found.commit_id == own
        long_line.swap_rows(1, carried=1)


def test_a_look_back_to_a_version_finds_all_that_was_written_after_it(long_line: Grown) -> None:
    held = long_line.cold()
    for since in range(0, held.version, 7):
        look = History()
        for row in long_line.written:
            if isinstance(row, r.MergedRow):
                if row.version > since and row.row.idempotency_key is not None:
                    assert look.find_key(held, row.row.idempotency_key, since=since) is not None
            elif row.version > since:
                assert look.find(held, row.object_id, since=since) == row
                if isinstance(row, r.CommitRow) and row.idempotency_key is not None:
                    assert look.find_key(held, row.idempotency_key, since=since) == row


def test_a_look_back_that_the_tail_covers_reads_no_archive(long_line: Grown, monkeypatch: pytest.MonkeyPatch) -> None:
    held = long_line.cold()
    monkeypatch.setattr(reading, "read", None)
    monkeypatch.setattr(strict, "matching", None)
    monkeypatch.setattr(strict, "columns_of", None)
    since = held.state.tail[0].version
    assert History().find(held, "x", since=since - 1) is None
    assert History().find_key(held, "x", since=since) is None
    with pytest.raises(TypeError):
        History().find_key(held, "x", since=since - 1)


def test_a_new_key_asks_every_small_archive_file_once_side_by_side(
    fault_proxy: FaultProxy, proxied_root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.manifest.state.TAIL_ROLL", 5)
    monkeypatch.setattr("omnigraph.manifest.state.TAIL_KEEP", 1)
    grown = Grown(proxied_root, main_line())
    while len(archive_files(grown.held)) < 40:
        grown.swap_rows(4)
    look, held = History(), grown.cold()

    def asked(act: Callable[[], Any]) -> tuple[int, int]:
        fault_proxy.drain()
        fault_proxy.reset()
        act()
        fault_proxy.drain()
        return sum(fault_proxy.operations().values()), hops(fault_proxy.log)

    requests, chain = asked(lambda: look.find_key(held, "a new key"))
    assert requests <= len(archive_files(held)) and chain <= 8
    assert asked(lambda: look.find_key(held, "another one")) == (0, 0)
    assert asked(lambda: look.find(held, ulid(1))) == (0, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "read", None)  # no row is read that cannot be the one
        assert look.find_key(held, "a third one") is None
    oldest = grown.written[0]
    assert asked(lambda: look.find(held, oldest.object_id))[0] == 1
    merged_ = grown.manifest.merge_archives(held, [(0, len(archive_files(held)))])
    monkeypatch.setattr(history, "WHOLE_ROWS_MAX", 8)
    after = grown.manifest.swap_archives(held, merged_, uuid=new_uuid())
    assert len(archive_files(after)) == 1
    cold = grown.cold()
    assert asked(lambda: History().find_key(cold, "a new key"))[0] <= 10


def test_a_merged_archive_holds_the_same_rows_in_order(long_line: Grown) -> None:
    strange = r.RawRow("x", "of_the_future", seq=3, metadata="?")
    old = [codec.from_arrow(one.to_table()) for one in long_line.held.handle.get_fragments()]
    raw_swap(long_line, [[*old[0], strange], *old[1:]])
    held = long_line.cold()
    sizes = long_line.manifest.archive_sizes(held)
    merged_ = long_line.manifest.merge_archives(held, [(0, 3), (4, len(sizes))])
    after = long_line.manifest.swap_archives(held, merged_, uuid=new_uuid())
    assert long_line.manifest.archive_sizes(after) == [sum(sizes[:3]), sizes[3], sum(sizes[4:])]
    assert list(History().rows(long_line.cold())) == long_line.written[::-1]
    [first] = reading.read(after.handle, 0, 1)
    assert strange in first
    assert long_line.cold().state == after.state == replace(held.state, version=held.version + 1)


def test_what_is_merged_into_the_archive_has_to_be_history(long_line: Grown) -> None:
    old = [codec.from_arrow(one.to_table()) for one in long_line.held.handle.get_fragments()]
    raw_swap(long_line, [old[0], [*old[1], codec.head_row(long_line.held.state.head)], *old[2:]])
    held = long_line.cold()
    with pytest.raises(Corruption):
        long_line.manifest.merge_archives(held, [(0, 3)])
    with pytest.raises(Corruption):
        list(History().rows(held))


def test_an_archive_row_that_was_changed_is_noticed(long_line: Grown, monkeypatch: pytest.MonkeyPatch) -> None:
    held = long_line.cold()
    flipping(monkeypatch, 1 << 30)
    with pytest.raises(Corruption):
        list(History().rows(held))
    with pytest.raises(Corruption):
        long_line.manifest.merge_archives(held, [(0, 2)])


def test_what_is_remembered_of_the_archive_is_bounded(long_line: Grown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "KNOWN_ROWS_MAX", 20)
    look, held = History(), long_line.cold()
    for _ in range(2):
        assert list(look.rows(held)) == long_line.written[::-1]
    assert 0 < sum(map(len, look._known.values())) <= 20 or len(look._known) <= 1


def test_a_receipt_says_what_the_row_says(local_root: str) -> None:
    grown = Grown(local_root, main_line())
    one = grown.held.state.tables["node:T1"]
    moved = replace(one, version=2, rows=7)
    row = commit(ulid(60), tables={one.key: change_of(moved, updated=None)}, idempotency_key="k")
    grown.swap(pins={one.key: moved}, history=(row,))
    assert History().find_key(grown.cold(), "k") == grown.held.state.tail[-1]
