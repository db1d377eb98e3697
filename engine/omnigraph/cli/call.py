"""One call of a command: what was given besides the command's own arguments, and the graph it is about.

Owns the options that every command has, where the URI comes from, the echo of what a write is about to touch, and consent.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from omnigraph.cli.render import Screen
from omnigraph.cli.tree import Command
from omnigraph.core.errors import OmnigraphError, Refused
from omnigraph.core.redact import Secrets

if TYPE_CHECKING:
    from omnigraph.graph import Graph
    from omnigraph.store import Store
    from omnigraph.wire.model import Model

URI_VARIABLE = "OMNIGRAPH_URI"


class Usage(OmnigraphError):
    """The command line itself is wrong."""

    code: ClassVar[str] = "usage"
    exit_code: ClassVar[int] = 2
    http_status: ClassVar[int] = 400
    default_hint: ClassVar[str] = "run `omnigraph --help`"


class Interrupted(OmnigraphError):
    """The user pressed Ctrl-C."""

    code: ClassVar[str] = "interrupted"
    exit_code: ClassVar[int] = 130
    default_hint: ClassVar[str] = "run `omnigraph status`: it tells whether a write is still pending"


@dataclass(frozen=True)
class Answer:
    """What a command found: the result for programs, and how it looks to people."""

    result: Model
    show: Callable[[Screen], None]


@dataclass(frozen=True)
class Call:
    """What every command is given."""

    command: Command
    screen: Screen
    as_json: bool = False
    actor: str | None = None
    options: Secrets | None = None
    durability: str | None = None
    verify_reads: bool | None = None
    given_uri: str | None = None
    subject: str = ""
    subjects: tuple[str, ...] = ()

    # --- the graph --------------------------------------------------------------------------------------------------

    @property
    def uri(self) -> str:
        """The graph's URI, from the arguments or the environment."""
        found = self.uri_or_none
        if not found:
            raise Usage(
                "which graph? no URI was given",
                hint=f"give it as the first argument, with --uri, or in {URI_VARIABLE}",
            )
        return found

    @property
    def uri_or_none(self) -> str | None:
        return self.given_uri or os.environ.get(URI_VARIABLE) or None

    def store(self) -> Store:
        """The store of the graph; sends no request."""
        from omnigraph.store import open_store

        return open_store(self.uri, self.options)

    @contextmanager
    def reading(self) -> Iterator[Graph]:
        """The graph, opened for reading."""
        from omnigraph import graph

        with graph.open(
            self.uri, read_only=True, storage_options=self.options, verify_reads=self.verify_reads
        ) as opened:
            yield opened

    @contextmanager
    def writing(self) -> Iterator[Graph]:
        """The graph, opened for writing, after saying which."""
        from omnigraph import graph

        self.announce()
        with graph.open(
            self.uri,
            storage_options=self.options,
            actor=self.actor,
            durability=self.durability,
            verify_reads=self.verify_reads,
        ) as opened:
            yield opened

    @contextmanager
    def repairing(self, *, announced: bool = True) -> Iterator[Graph]:
        """The graph, opened for writing as it stands: what an ordinary open would end or refuse is the command's business.
        ``announced``: say which graph is written to."""
        from omnigraph import graph

        if announced:
            self.announce()
        with graph.open_for_repair(self.uri, storage_options=self.options, actor=self.actor) as opened:
            yield opened

    # --- before a write ---------------------------------------------------------------------------------------------

    def announce(self) -> None:
        """``omnigraph load → s3://bucket/graph (remote)``, for the log of who ran it."""
        store = self.store()
        where = "remote" if store.is_remote else "local"
        self.screen.note(f"omnigraph {self.command.path} → {store.uri} ({where})")

    def want_consent(self, what: str, *, yes: bool) -> None:
        """Ask for consent on a remote store: ``--yes``, or a yes typed at a terminal. A local graph needs none."""
        store = self.store()
        if yes or not store.is_remote:
            return
        if sys.stdin.isatty() and not self.as_json:
            sys.stderr.write(f"{what} on {store.uri}. Type yes to go on: ")
            sys.stderr.flush()
            if sys.stdin.readline().strip().lower() == "yes":
                return
        raise Refused(
            f"{what} on a remote store needs consent: {store.uri}",
            hint="repeat the command with --yes",
            reason="no-consent",
        )


def storage_options(given: Sequence[str]) -> Secrets | None:
    """``K=V`` options. A value is never repeated in an error: it may be a secret."""
    if not given:
        return None
    found: dict[str, str] = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise Usage("--storage-option takes KEY=VALUE", hint="for example --storage-option aws_region=eu-west-1")
        if name.lower() in found:
            raise Usage(f"--storage-option {name} is given twice", hint="give it once")
        found[name.lower()] = value
    return Secrets(found)
