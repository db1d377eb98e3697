"""What the shell offers for a word that is not finished: types, branches, checkpoints and commits of the graph that is meant.

Owns which option and which argument holds what. A graph on this disk is asked and no other: a key press does not wait for a
network. Branches and checkpoints are read without Lance, whose import takes longer than everything else here. Nothing is
offered where anything fails: the command itself says what is wrong.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args, get_origin

import typer

from omnigraph.cli.call import URI_VARIABLE
from omnigraph.core.errors import OmnigraphError

if TYPE_CHECKING:
    from omnigraph.graph import Graph
    from omnigraph.store import Store

_COMMITS_OFFERED: Final = 50


# --- what a graph has ---------------------------------------------------------------------------------------------------


def _branches(store: Store, _: str) -> Iterable[str]:
    from omnigraph.manifest.refs import Names

    return ("main", *(entry.name for entry in Names(store).all() if entry.state == "bound"))


def _checkpoints(store: Store, _: str) -> Iterable[str]:
    from omnigraph.manifest.checkpoints import list_checkpoints

    return (checkpoint.name for checkpoint in list_checkpoints(store))


def _types(store: Store, branch: str) -> Iterable[str]:
    with _opened(store) as graph:
        return [declared.name for declared in graph.snapshot(branch).catalog.types()]


def _commits(store: Store, branch: str) -> Iterable[str]:
    with _opened(store) as graph:
        return [commit.id for commit in graph.commits(branch, limit=_COMMITS_OFFERED)]


def _places(store: Store, branch: str) -> Iterable[str]:
    return (*_checkpoints(store, branch), *_commits(store, branch))


def _states(store: Store, branch: str) -> Iterable[str]:
    return (*_branches(store, branch), *_places(store, branch))


def _opened(store: Store) -> Graph:
    from omnigraph import graph

    return graph.open(store.uri, read_only=True)


Source = Callable[["Store", str], Iterable[str]]

OPTIONS: Final[dict[str, Source]] = {
    "--at": _places,
    "--branch": _branches,
    "--expect-head": _commits,
    "--from": _branches,
    "--into": _branches,
    "--since": _places,
    "--type": _types,
    "--until": _places,
}
# By the words of a command's subject; a name that the command makes is not there yet.
SUBJECTS: Final[dict[str, Source]] = {
    "A": _states,
    "[B]": _states,
    "BRANCH": _branches,
    "COMMIT_ID": _commits,
    "PLACE": _places,
    "SOURCE": _branches,
    "TYPE": _types,
}
NAMES: Final[dict[str, Source]] = {"branch delete": _branches, "checkpoint delete": _checkpoints}


# --- where it is offered ------------------------------------------------------------------------------------------------


def offer(annotation: Any) -> None:
    """Let the shell complete an option if its values are those of a graph."""
    if get_origin(annotation) is Annotated:
        for option in get_args(annotation)[1:]:
            # Within Annotated the first name of an option lies where its default would.
            for name in (getattr(option, "default", None), *(getattr(option, "param_decls", None) or ())):
                if name in OPTIONS and option.autocompletion is None:
                    option.autocompletion = _completing(OPTIONS[name])


def offer_subject(path: str, subject: str) -> Callable[[typer.Context, str], list[str]]:
    """Completion of what a command takes beside the URI, word by word."""
    words = subject.split()

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        given = list(context.params.get("positionals") or ())
        if given and os.path.isdir(given[0]):
            given.pop(0)
        if len(given) >= len(words):
            return []
        word = words[len(given)]
        source = NAMES.get(path) if word == "NAME" else SUBJECTS.get(word)
        return [] if source is None else _offered(source, context, incomplete)

    return complete


def _completing(source: Source) -> Callable[[typer.Context, str], list[str]]:
    def complete(context: typer.Context, incomplete: str) -> list[str]:
        return _offered(source, context, incomplete)

    return complete


def _uri(context: typer.Context) -> str | None:
    """The graph that is meant. Words before an option whose value is still to come are left over in ``context.args``."""
    words = (*(context.params.get("positionals") or ()), *context.args)
    folders = (word for word in words if os.path.isdir(word))
    given = context.params.get("positional") or context.params.get("uri") or next(folders, None)
    return given or os.environ.get(URI_VARIABLE)


def _offered(source: Source, context: typer.Context, incomplete: str) -> list[str]:
    uri = _uri(context)
    with suppress(OmnigraphError, OSError):
        if uri:
            from omnigraph.store import open_store

            store = open_store(uri)
            if not store.is_remote:
                branch = context.params.get("branch") or "main"
                return [name for name in dict.fromkeys(source(store, branch)) if name.startswith(incomplete)]
    return []
