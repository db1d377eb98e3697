"""Every line of the manifest of a graph: main's, those of branches, and those that no name claims any more.

Deletions, and answers that something cannot happen any more, depend on all of them; an argument that names branches
only narrows what is acted upon. What cannot be read, and what this release does not know, is reported as trouble: a cleanup then
refuses, an answer that depends on it is not given, and it is left where it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from omnigraph.commit.engine import MAIN, Engine, gather
from omnigraph.commit.intent import Intent
from omnigraph.commit.plan import BranchName
from omnigraph.core.errors import InvalidInput, NotFound, OmnigraphError, Reason
from omnigraph.core.ids import is_ulid
from omnigraph.core.meter import Meter
from omnigraph.manifest.boundary import ALL
from omnigraph.manifest.refs import Lines, NameEntry, Names, branches_deleted
from omnigraph.manifest.state import State
from omnigraph.manifest.swap import Held
from omnigraph.store import layout

T = TypeVar("T")

UNKNOWN_REF: Final = "unknown-ref"
UNREADABLE_BRANCH: Final = "unreadable-branch"
UNRESOLVED_BRANCH: Final = "unresolved-branch"
UNKNOWN_INTENT: Final = "unknown-intent"


@dataclass(frozen=True)
class ManifestLine:
    """One line and its newest state. ``name``: the branch that is bound to it, None where no name is or the branch was deleted.
    ``claimed``: an entry of a name still says that the line is its branch, or is going to be."""

    name: str | None
    held: Held = field(repr=False)
    claimed: bool = True

    @property
    def is_dead(self) -> bool:
        """Whether no branch is at this line and none ever will be: an identity that no name claims any more never comes back."""
        return self.name is None and not self.claimed

    @property
    def identity(self) -> str:
        return self.held.state.identity

    @property
    def branch(self) -> BranchName:
        """By identity, for work that must not move to a namesake."""
        return BranchName(self.held.state.head.name, self.identity)

    @property
    def label(self) -> str:
        """For messages."""
        return self.name or f"without a name ({self.identity})"


@dataclass(frozen=True)
class Trouble:
    """Something that stands in the way of every deletion. ``code`` is the reason of the refusal."""

    code: Reason
    message: str
    object: str


@dataclass(frozen=True)
class GraphLines:
    """``lines``: main's first. ``sources``: versions that branches are being made from. ``remains``: identities of which there is
    a folder that no name claims, and no version in it that reads: what an interrupted creation or deletion has left. ``entries``:
    what every name says that was ever used."""

    lines: tuple[ManifestLine, ...]
    sources: tuple[State, ...] = ()
    remains: tuple[str, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    entries: tuple[NameEntry, ...] = ()

    @property
    def deleted(self) -> tuple[str, ...]:
        """Names of branches that were deleted, and whose lines are not all here any more: a cleanup has taken one at least."""
        left = Counter(
            layout.branch_name_key(head.name)
            for line in self.lines
            if (head := line.held.state.head).closed is not None
        )
        found = []
        for entry in self.entries:
            # A closed line that its name is still bound to is none of those that the name had before.
            own = entry.state != "free" and entry.identity in self.closed
            if branches_deleted(entry) > left[layout.branch_name_key(entry.name)] - own:
                found.append(entry.name)
        return tuple(sorted(found))

    @property
    def names(self) -> tuple[str, ...]:
        """Every branch of the graph, main first."""
        return tuple(line.name for line in self.lines if line.name is not None)

    @property
    def closed(self) -> frozenset[str]:
        """The identities of branches that were deleted: a line that is closed stays so. A line without a bound name may be of a
        branch that is being made, and is there a moment later."""
        return frozenset(line.identity for line in self.lines if line.held.state.head.closed is not None)

    def scope(self, branches: Sequence[str] | None) -> tuple[str, ...]:
        """The branches to act upon: those named, or all."""
        if branches is not None and not branches:
            raise InvalidInput("branches names no branch", hint="leave it out for all, or name one")
        return self.names if branches is None else tuple(branches)

    def left_of(self, branches: Sequence[str]) -> tuple[str, ...]:
        """Those of these branches that are still there."""
        return tuple(name for name in branches if name in self.names)

    def named(self, branch: str) -> ManifestLine:
        found = next((line for line in self.lines if line.name == branch), None)
        if found is None:
            raise NotFound(f"no branch {branch[:80]!r}", hint=f"there is {', '.join(self.names)}", branch=branch[:80])
        return found


def read_lines(
    engine: Engine, meter: Meter, folders: Sequence[str] | None = None, *, main: Held | None = None
) -> GraphLines:
    """Open the newest state of every line. ``folders``: those below ``__manifest/tree/`` where they were listed before; a line
    that was made since has its name in the listing that is made now. ``main``: the state of main, where it was just read."""
    if folders is None:
        folders = list_folders(engine, meter)
    listed = tuple(identity for folder in folders if (identity := layout.line_identity(folder)) is not None)
    unknown = tuple(folder for folder in folders if layout.line_identity(folder) is None)
    troubles = [
        Trouble(UNKNOWN_REF, f"{layout.MANIFEST_LINES}{folder} is no line that this release knows", folder)
        for folder in unknown
    ]
    try:
        entries = Names(engine.store).all(meter)
    except OmnigraphError as error:
        troubles.append(Trouble(UNREADABLE_BRANCH, f"a branch name cannot be read: {error.message}", layout.BRANCHES))
        entries = ()
    lines = Lines(entries, listed, unknown)
    bound = {entry.identity: name for name, entry in lines.bound.items()}
    wanted = sorted({*listed, *bound})
    claims = {entry.identity: entry for entry in entries if entry.state != "free"}
    opened = gather(
        [engine.spawn(_open, engine, identity, bound.get(identity), claims.get(identity), meter) for identity in wanted]
    )
    sources = gather([engine.spawn(_source, engine, entry, meter) for entry in entries if entry.state == "making"])
    found = [ManifestLine(MAIN, main or engine.latest(MAIN, meter))]
    found += sorted((one for one in opened if isinstance(one, ManifestLine)), key=lambda line: line.name or "~")
    troubles += [one for one in (*opened, *sources) if isinstance(one, Trouble)]
    sources_kept = tuple(one for one in sources if isinstance(one, State))
    remains = tuple(one for one in opened if isinstance(one, str))
    return GraphLines(tuple(found), sources_kept, remains, tuple(troubles), entries)


def branch_names(engine: Engine, meter: Meter) -> dict[str, str]:
    """The names of branches by their identities, main's included."""
    entries = Names(engine.store).all(meter)
    found = {entry.identity: entry.name for entry in entries if entry.state == "bound"}
    return found | {engine.latest(MAIN, meter).state.identity: MAIN}


def list_folders(engine: Engine, meter: Meter) -> tuple[str, ...]:
    return engine.store.folders(layout.MANIFEST_LINES, meter=meter)


def _open(
    engine: Engine, identity: str, name: str | None, claim: NameEntry | None, meter: Meter
) -> ManifestLine | Trouble | str | None:
    """None: the folder holds no version yet, and a creation is under way; or no more, and its branch was deleted since the names
    were read. Its identity: nothing in it is of any use. ``claim``: the entry of a name that names the line, as it was read."""
    place = f"{layout.MANIFEST_LINES}{layout.branch_ref(identity)}"
    label = f"branch {name!r}" if name is not None else f"the line {place}"
    try:
        held = engine.latest_of(identity, meter)
    except OmnigraphError as error:
        if (claim is None or _let_go(engine, claim, meter)) and is_given_up(engine, identity, meter):
            return identity  # a cleanup was deleting it
        return Trouble(UNREADABLE_BRANCH, f"{label} cannot be read: {error.message}", place)
    if held is not None:  # a name that is bound to a closed line is as good as free: freeing it was interrupted
        return ManifestLine(name if held.state.head.closed is None else None, held, claim is not None)
    if claim is None:
        return identity
    if name is None or _let_go(engine, claim, meter):
        return None
    return Trouble(UNREADABLE_BRANCH, f"{label} has no line: {place} is not there", place)


def _let_go(engine: Engine, claim: NameEntry, meter: Meter) -> bool:
    """Whether the name has stopped naming the line since this entry was read. Without another entry its line has to be there."""
    now = engine.names.highest(claim.name, meter)
    return now is not None and (now.state == "free" or now.identity != claim.identity)


def _source(engine: Engine, entry: NameEntry, meter: Meter) -> State | Trouble | None:
    """The version that a branch is being made from. None: it is gone, so its creator will give up."""
    source = entry.source
    if source is None:
        return None
    try:
        return engine.manifest.open_at(source.ref, source.manifest_version, meter).state
    except NotFound:
        return None
    except OmnigraphError as error:
        what = f"what branch {entry.name!r} is being made from cannot be read: {error.message}"
        return Trouble(UNREADABLE_BRANCH, what, entry.key)


def unresolved(engine: Engine, intents: Iterable[Intent], lines: GraphLines, meter: Meter) -> dict[str, Trouble]:
    """Intents, by their operation, that a later release has written, and those of branches of which there is no line and which
    were not deleted either. Nothing is known about what they need: they are left."""
    known = {line.identity for line in lines.lines}
    found = {}
    for intent in intents:
        key = layout.intent_key(intent.op)
        if intent.why_unknown is not None:
            message = f"the intent {key} was written by a later release: {intent.why_unknown}"
            found[intent.op] = Trouble(UNKNOWN_INTENT, message, key)
            continue
        if intent.branch.identity in known or is_given_up(engine, intent.branch.identity, meter):
            continue
        found[intent.op] = Trouble(
            UNRESOLVED_BRANCH,
            f"the intent {key} is of branch {intent.branch.name[:80]!r} ({intent.branch.identity[:40]}), which this release "
            "does not find",
            key,
        )
    return found


def while_there(
    engine: Engine, branch: BranchName, act: Callable[[BranchName], T], meter: Meter, *, named: bool
) -> T | None:
    """What ``act`` does on the line of this branch; None where the branch was deleted meanwhile. ``named``: the caller asked for
    this branch, so that is ``NotFound``. Whatever else is in the way of ``act`` is raised."""
    try:
        return act(branch)
    except OmnigraphError as error:
        if not was_deleted(engine, branch, meter):
            raise
        if named:
            raise engine.gone(branch.name, layout.branch_ref(branch.identity), meter) from error
        return None


def was_deleted(engine: Engine, branch: BranchName, meter: Meter) -> bool:
    """Whether the branch is gone: its line says so, or a cleanup has given the line up. A line that only cannot be read is not."""
    try:
        held = engine.latest_of(branch.identity, meter)
    except OmnigraphError:
        held = None
    return held.state.head.closed is not None if held is not None else is_given_up(engine, branch.identity, meter)


def is_given_up(engine: Engine, identity: str, meter: Meter) -> bool:
    """Whether a cleanup has given up the whole line: its branch was deleted, and its files may go at any time."""
    return is_ulid(identity) and engine.boundary.value(identity, meter=meter) == ALL


def owned_keys(state: State) -> tuple[str, ...]:
    """The tables whose lines this branch alone commits to. Those it has inherited are another branch's to heal."""
    return tuple(key for key, pin in sorted(state.tables.items()) if pin.owner == state.identity)
