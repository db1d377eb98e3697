"""States, changes and histories of a manifest line, made by hand for the tests of its formats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from hypothesis import strategies as st

from omnigraph.manifest import codec, fragments
from omnigraph.manifest import rows as r
from omnigraph.manifest.recent import Recent
from omnigraph.manifest.schema_id import schema_id, shape_hash
from omnigraph.manifest.state import Change, State, fold, genesis

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def ulid(number: int) -> str:
    text = ""
    for _ in range(26):
        number, digit = divmod(number, 32)
        text = _ALPHABET[digit] + text
    return text


def schema(name: str) -> r.SchemaRow:
    canonical = f'{{"ir_version":1,"interfaces":[],"nodes":[{{"name":"{name}","type_id":"{ulid(1)}"}}],"edges":[]}}'
    return r.SchemaRow(f"node {name}", canonical, shape_hash(canonical), schema_id(canonical))


MAIN, BRANCH, SOURCE = ulid(11), ulid(12), ulid(13)
ACTOR = "ada"


def pin(number: int, *, owner: str = MAIN, **facts: Any) -> r.Pin:
    made = r.Pin(
        f"node:T{number}", ulid(100 + number), 1, ulid(5_000 + number), f"nodes/T{number}-{ulid(number)}.lance", None, 1,
        owner=owner,
    )  # fmt: skip
    return replace(made, **facts)


def main_line(tables: int = 3) -> State:
    return genesis(
        identity=MAIN,
        commit_id=ulid(20),
        actor=ACTOR,
        created_at_us=1,
        schema=schema("A"),
        pins=[pin(number) for number in range(tables)],
    )


def branch_line(tables: int = 3) -> State:
    """The first state of a branch: pins verbatim, a new head row, no history."""
    made = main_line(tables)
    parent = r.Parent(MAIN, None, 7, ulid(21))
    return replace(
        made, ref=f"g-{BRANCH}", head=r.Head(BRANCH, ulid(21), mark=ulid(3), name="work", parent=parent), tail=()
    )


def change_of(one: r.Pin, **facts: Any) -> r.TableChange:
    return replace(r.TableChange(one.identity, one.ref, one.version, inserted=1), **facts)


def commit(row_id: str, **facts: Any) -> r.CommitRow:
    made = r.CommitRow(row_id, row_id, (ulid(0),), ACTOR, 5, None, 0, "load")
    return replace(made, **facts)


def abort(row_id: str, **facts: Any) -> r.AbortRow:
    return replace(r.AbortRow(row_id, row_id, ACTOR, 1, 6), **facts)


def merged(row_id: str, **facts: Any) -> r.MergedRow:
    """A commit as it stood on the line of a source branch."""
    return r.MergedRow(commit(row_id, ref=f"g-{SOURCE}", manifest_version=4, **facts))


def reread(given: State) -> State:
    """What a cold open makes of the rows that lie in the fragments of this state."""
    if given.base is None:
        parts = [fragments.single_rows(given)]
    else:
        parts = [fragments.schema_rows(given), fragments.base_rows(given), fragments.current_rows(given)]
    stored = [codec.from_arrow(codec.to_arrow(rows)) for rows in parts]
    return fragments.join(stored, version=given.version, ref=given.ref)


@dataclass
class Line:
    """A line that grows: its newest state and what was archived, with the ids used so far."""

    state: State
    archive: tuple[r.HistoryRow, ...] = ()
    ids: Iterator[int] | None = None

    def new_id(self) -> str:
        self.ids = self.ids or count(1_000)
        return ulid(next(self.ids))

    def swap(self, **facts: Any) -> State:
        self.state, rolled = fold(self.state, Change(**facts))
        self.archive = (*self.archive, *rolled)
        return self.state

    @property
    def history(self) -> tuple[r.HistoryRow, ...]:
        return (*self.archive, *self.state.tail)


# --- random histories ---------------------------------------------------------------------------------------------------

maybe_text = st.none() | st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
recents = st.none() | st.builds(
    lambda numbers, keys: Recent(tuple(sorted(numbers)), b"".join(k.to_bytes(8, "little") for k in sorted(keys))),
    st.sets(st.integers(0, 99), min_size=1, max_size=5),
    st.sets(st.integers(0, (1 << 64) - 1), max_size=5),
)


@st.composite
def swaps(draw: st.DrawFn, steps: int = 6) -> Sequence[Step]:
    return draw(st.lists(st.builds(Step, *_STEP), min_size=1, max_size=steps))


@dataclass(frozen=True)
class Step:
    """One swap of a random history. ``kind``: what it does to the tables and the schema."""

    kind: str
    tables: tuple[int, ...]
    commits: int
    aborts: int
    carried: int
    text: str | None
    number: int
    recent: Recent | None

    def run(self, line: Line) -> State:
        gone = self._gone(line.state)
        pins = {} if gone else self._pins(line.state)
        rows: list[r.HistoryRow] = [merged(line.new_id(), idempotency_key=self.text) for _ in range(self.carried)]
        for _ in range(self.commits):
            tables = {key: change_of(one, inserted=self.number) for key, one in list(pins.items())[:2]}
            rows.append(commit(line.new_id(), actor=self.text, tables=tables, idempotency_key=self.text))
        rows += [abort(line.new_id(), base=self.number) for _ in range(self.aborts)]
        facts: dict[str, Any] = {"pins": pins, "history": tuple(rows)}
        if self.kind == "schema":
            facts["schema"] = schema(f"B{self.number % 7}")
        if self.kind == "head":
            facts["head"] = replace(line.state.head, epoch=self.number, owner=self.text, unsynced_since=1)
        return line.swap(**{**facts, **gone})

    def _pins(self, state: State) -> dict[str, r.Pin]:
        live = list(state.tables.values())
        chosen = {number % len(live) for number in self.tables} if live else set()
        found = {live[n].key: replace(live[n], version=live[n].version + 1, recent=self.recent) for n in chosen}
        if self.kind == "many":
            found = {one.key: replace(one, version=one.version + 1, recent=self.recent) for one in live}
        if self.kind == "create":
            for n in range(self.number % 40):
                new = pin(200 + state.version * 50 + n)
                found[new.key] = new
        return found

    def _gone(self, state: State) -> dict[str, Any]:
        if self.kind not in ("drop", "rename") or not state.tables:
            return {}
        old = list(state.tables.values())[self.number % len(state.tables)]
        if self.kind == "drop":
            return {"pins": {}, "tombstones": (r.Tombstone(old.key, old.incarnation, old.identity, old.version),)}
        new = f"node:R{state.version}"
        gone = r.Tombstone(old.key, old.incarnation, old.identity, old.version, new)
        return {"pins": {new: replace(old, key=new)}, "tombstones": (gone,)}


_STEP = (
    st.sampled_from(["data", "data", "many", "schema", "drop", "rename", "create", "head"]),
    st.lists(st.integers(0, 99), max_size=3).map(tuple),
    st.integers(0, 3) | st.just(64),
    st.integers(0, 2),
    st.integers(0, 2) | st.just(80),
    maybe_text,
    st.integers(0, 1 << 40),
    recents,
)
