"""Names of branches on storage: a compare-and-swap whose numbers never come back, and entries that are refused unless whole."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.core import documents, failpoints
from omnigraph.core.errors import Corruption, InvalidInput, LimitExceeded, StoreUnavailable, UnsupportedStorage
from omnigraph.core.ids import new_ulid
from omnigraph.core.meter import Meter
from omnigraph.manifest import refs
from omnigraph.manifest.refs import BranchSource, Lost, NameEntry, Names, NameState, Written, decode, encode
from omnigraph.store import Store, layout, open_store

SOURCE = BranchSource(new_ulid(), None, 7, new_ulid())


@pytest.fixture
def store(any_root: str) -> Store:
    return open_store(any_root)


def entry(state: NameState, identity: str, name: str = "Feature/x", actor: str | None = "ada") -> NameEntry:
    return NameEntry(0, state, name, identity, SOURCE if state == "making" else None, actor, 5)


def written(names: Names, after: NameEntry | None, wanted: NameEntry) -> NameEntry:
    done = names.write(after, wanted)
    assert isinstance(done, Written)
    return done.entry


def bound(names: Names, name: str = "Feature/x") -> NameEntry:
    identity = new_ulid()
    making = written(names, names.highest(name), entry("making", identity, name))
    return written(names, making, entry("bound", identity, name))


# --- the log ------------------------------------------------------------------------------------------------------------


def test_a_name_goes_from_free_to_making_to_bound_to_free(store: Store) -> None:
    names = Names(store)
    assert names.highest("Feature/x") is None
    first = bound(names)
    assert (first.n, first.key) == (1, "__branches/feature+x/00000001")
    assert names.highest("feature/X") == first, "twins by case share a log"
    assert names.highest("feature") is None, "prefixes do not"
    free = written(names, first, entry("free", first.identity))
    second = bound(names)
    assert (free.n, second.n) == (2, 4)
    assert names.highest("Feature/x") == second
    assert names.all() == (second,)


@pytest.mark.parametrize("state", ["making", "bound", "free"])
@pytest.mark.parametrize("after", [None, "making", "bound", "free"])
@pytest.mark.parametrize("same", [True, False])
def test_only_three_steps_are_steps(state: NameState, after: NameState | None, *, same: bool) -> None:
    one, other = new_ulid(), new_ulid()
    highest = None if after is None else replace(entry(after, one), n=4)
    allowed = {(None, "making"), ("free", "making")}
    allowed |= {("making", "bound"), ("making", "free"), ("bound", "free")} if same else set()
    number = refs.next_number(highest, state, one if same else other)
    assert (number is not None) == ((after, state) in allowed)
    assert number in (None, 0 if highest is None else 5)


def test_what_is_no_step_is_not_written(store: Store) -> None:
    names = Names(store)
    first = bound(names)
    for after, wanted in (
        (first, entry("making", new_ulid())),
        (first, entry("free", new_ulid())),
        (None, entry("bound", new_ulid())),
        (first, entry("free", first.identity, "other")),
    ):
        with pytest.raises(ValueError, match="no step"):
            names.write(after, wanted)
    assert [one.key for one in store.list(layout.BRANCHES)] == [f"__branches/feature+x/{n:08d}" for n in (0, 1)]


def test_of_many_creators_at_once_one_has_the_name(store: Store) -> None:
    store.check_conditional_create()
    names = Names(store)
    start = threading.Barrier(6)
    found: list[Written | Lost] = []

    def claim() -> None:
        start.wait()
        found.append(names.write(None, entry("making", new_ulid())))

    threads = [threading.Thread(target=claim) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [won] = [one for one in found if isinstance(one, Written)]
    assert names.highest("Feature/x") == won.entry
    assert all(one.highest == won.entry for one in found if isinstance(one, Lost))


def test_who_loses_a_number_learns_what_the_name_says(store: Store) -> None:
    names = Names(store)
    making = written(names, None, entry("making", new_ulid()))
    free = written(names, making, entry("free", making.identity))  # somebody lost patience
    assert names.write(making, entry("bound", making.identity)) == Lost(free)
    assert names.highest("Feature/x") == free


@pytest.mark.parametrize("landed", [True, False])
def test_an_answer_that_is_lost_is_resolved_by_reading(
    store: Store, monkeypatch: pytest.MonkeyPatch, *, landed: bool
) -> None:
    names = Names(store)
    create = type(store).create

    def silent(self: Any, key: str, data: bytes, **facts: Any) -> None:
        if landed:
            create(self, key, data, **facts)
        raise StoreUnavailable("no answer", outcome="unknown")

    with monkeypatch.context() as patch:
        patch.setattr(type(store), "create", silent)
        if landed:
            making = written(names, None, entry("making", new_ulid()))
        else:
            with pytest.raises(StoreUnavailable):
                names.write(None, entry("making", new_ulid()))
            return
    assert names.highest("Feature/x") == making


def test_a_lost_answer_of_a_number_that_another_has_is_a_loss(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    names = Names(store)
    create = type(store).create
    rival = replace(entry("making", new_ulid()), n=0)

    def overtaken(self: Any, key: str, data: bytes, **facts: Any) -> None:
        create(self, key, encode(rival), **facts)
        raise StoreUnavailable("no answer", outcome="unknown")

    with monkeypatch.context() as patch:
        patch.setattr(type(store), "create", overtaken)
        assert names.write(None, entry("making", new_ulid())) == Lost(rival)


def test_trimming_keeps_the_highest_of_each_name_however_often(store: Store) -> None:
    names = Names(store)
    first = bound(names)
    written(names, first, entry("free", first.identity))
    second, other = bound(names), bound(names, "b")
    assert names.trim() == 4 + 1
    assert names.trim() == 0
    assert set(names.all()) == {second, other}
    assert [one.key for one in store.list(layout.BRANCHES)] == sorted([second.key, other.key])
    free = written(names, second, entry("free", second.identity))
    assert free.n == second.n + 1, "no number comes back"


def test_a_late_repeat_of_a_delete_meets_no_newer_entry(store: Store) -> None:
    """The deletes of a trimmer arrive once more, after the name was freed, trimmed and taken again."""
    names = Names(store)
    first = bound(names)
    doomed = [layout.name_entry_key("feature+x", n) for n in range(first.n)]
    names.trim()
    free = written(names, first, entry("free", first.identity))
    names.trim()
    second = bound(names)
    store.delete_many([*doomed, first.key, free.key])
    assert names.highest("Feature/x") == second


def test_an_entry_that_a_slow_author_writes_below_the_highest_means_nothing(store: Store) -> None:
    names = Names(store)
    first = bound(names)
    written(names, first, entry("free", first.identity))
    second = bound(names)
    names.trim()
    late = written(names, None, entry("making", new_ulid()))  # it had listed an empty log
    assert late.n == 0
    assert names.highest("Feature/x") == second and not refs.stands(late, second)
    assert refs.stands(second, names.highest("Feature/x"))


def test_the_last_number_is_taken_and_no_other(store: Store) -> None:
    names = Names(store)
    identity = new_ulid()
    last = replace(entry("bound", identity), n=layout.NAME_NUMBER_MAX)
    store.create(last.key, encode(last))
    assert names.highest("Feature/x") == last
    with pytest.raises(LimitExceeded):
        names.write(last, entry("free", identity))
    almost = replace(entry("bound", identity, "b"), n=layout.NAME_NUMBER_MAX - 1)
    store.create(almost.key, encode(almost))
    assert written(names, almost, entry("free", identity, "b")).n == layout.NAME_NUMBER_MAX


def test_looking_a_name_up_costs_a_list_and_a_get(store: Store) -> None:
    bound(Names(store))
    names = Names(store)
    for name, requests in (("Feature/x", 2), ("never", 1), ("Feature/x", 1)):  # an entry that was read is remembered
        meter = Meter()
        names.highest(name, meter)
        assert meter.snapshot().requests == requests
    meter = Meter()
    names.all(meter)
    assert meter.snapshot().requests == 2, "who judges what may be deleted reads every entry again"


@pytest.mark.parametrize(
    ("state", "closed", "grace", "free"),
    [
        ("free", False, False, True),
        ("bound", False, True, False),
        ("bound", True, False, True),
        ("making", True, False, False),
        ("making", False, True, True),
    ],
)
def test_a_reader_takes_for_free_what_nobody_uses(state: NameState, *, closed: bool, grace: bool, free: bool) -> None:
    assert refs.reads_as_free(entry(state, new_ulid()), line_closed=closed, beyond_grace=grace) is free
    assert refs.reads_as_free(None, line_closed=False, beyond_grace=False)


# --- the format ---------------------------------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=10)


@given(
    st.sampled_from(["making", "bound", "free"]),
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,9}(/[A-Za-z0-9][A-Za-z0-9._-]{0,9}){0,2}", fullmatch=True).filter(
        lambda name: name.lower() != "main"
    ),
    st.integers(0, layout.NAME_NUMBER_MAX),
    st.none() | texts,
)
def test_an_entry_comes_back_as_it_was(state: NameState, name: str, n: int, actor: str | None) -> None:
    one = replace(entry(state, new_ulid(), name, actor), n=n)
    assert decode(one.key, encode(one)) == one
    body = json.loads(encode(one))
    assert set(body) == {"format", "n", "state", "name", "identity", "ref", "from", "actor", "created_at_us"}
    assert (body["from"] is None) == (state != "making")


WRONG: dict[str, Callable[[dict[str, Any]], object]] = {
    "number": lambda body: body.update(n=1),
    "state": lambda body: body.update(state="gone"),
    "another name": lambda body: body.update(name="other"),
    "no name": lambda body: body.update(name="a b"),
    "identity": lambda body: body.update(identity="main"),
    "another identity": lambda body: body.update(identity=new_ulid()),
    "no ref": lambda body: body.update(ref=None),
    "another ref": lambda body: body.update(ref=f"g-{new_ulid()}"),
    "a fork": lambda body: body.update(ref="f-" + body["identity"]),
    "no source": lambda body: body.update({"from": None}),
    "a source where there is none": lambda body: body.update(state="bound"),
    "no from": lambda body: body.pop("from"),
    "from_": lambda body: body.update(from_=body.pop("from")),
    "a member more": lambda body: body.update(more=1),
    "source with a foreign ref": lambda body: body["from"].update(ref=f"g-{new_ulid()}"),
    "source without a version": lambda body: body["from"].update(manifest_version=0),
    "source with a member more": lambda body: body["from"].update(more=1),
    "source with a short commit": lambda body: body["from"].update(commit="x"),
    "a later format": lambda body: body.update(format=2),
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG.keys())
def test_an_entry_that_does_not_fit_its_place_is_refused_and_left(
    local_root: str, change: Callable[[dict[str, Any]], object]
) -> None:
    one = entry("making", new_ulid())
    body = json.loads(encode(one))
    change(body)
    store = open_store(local_root)
    store.create(one.key, documents.canonical(body))
    names = Names(store)
    for read in (lambda: names.highest("Feature/x"), names.all, lambda: refs.list_lines(store)):
        with pytest.raises((Corruption, UnsupportedStorage)) as caught:
            read()
        assert caught.value.facts["object"] == one.key
    assert store.get(one.key) is not None


@pytest.mark.parametrize("key", ["__branches/x", "__branches/a/7", "__branches/a/b/00000001", "__branches/A/00000001"])
def test_another_key_among_the_names_is_loud(local_root: str, key: str) -> None:
    store = open_store(local_root)
    store.create(key, b"")
    with pytest.raises(Corruption):
        Names(store).all()


def test_a_name_that_is_none_is_refused_before_anything(local_root: str) -> None:
    store = open_store(local_root)
    for name in ("main", "../x", "a b", ""):
        with pytest.raises(InvalidInput):
            Names(store).highest(name)


# --- lines --------------------------------------------------------------------------------------------------------------


def test_lines_are_listed_by_their_identity_and_everything_else_is_unknown(store: Store) -> None:
    names = Names(store)
    named, unnamed = bound(names), new_ulid()
    for folder in (named.ref, f"g-{unnamed}", "feature", f"f-{unnamed}"):
        store.create(f"__manifest/tree/{folder}/_versions/1.manifest", folder.encode())
    lines = refs.list_lines(store)
    assert set(lines.identities) == {named.identity, unnamed}
    assert set(lines.unknown) == {"feature", f"f-{unnamed}"}
    assert lines.bound == {"Feature/x": named}
    assert (lines.name_of(named.identity), lines.name_of(unnamed)) == ("Feature/x", None)


def test_a_line_that_is_made_while_lines_are_listed_is_never_unnamed(local_root: str) -> None:
    """The folders are listed before the names: whatever was there has its claim in the later listing."""
    store = open_store(local_root)
    names = Names(store)
    made: list[NameEntry] = []
    listed = Names.all

    def between(self: Names, meter: Meter | None = None) -> tuple[NameEntry, ...]:
        made.append(bound(names))
        store.create(f"__manifest/tree/{made[0].ref}/_versions/1.manifest", b"x")
        return listed(self, meter)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Names, "all", between)
        lines = refs.list_lines(store)
    assert [identity for identity in lines.identities if lines.name_of(identity) is None] == []
    assert lines.bound == {"Feature/x": made[0]}


def test_a_name_is_written_at_two_places_that_a_process_may_die_at(local_root: str) -> None:
    names = Names(open_store(local_root))
    with failpoints.recording() as passed:
        bound(names)
    assert [name for name, _ in passed if name.startswith("names.")] == ["names.before_write", "names.after_write"] * 2
