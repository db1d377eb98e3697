"""Options that several commands have, spelt once: those of every commit, and the branch."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.options import DEADLINE_S as DEADLINE_S

LoadedBranch = Annotated[str, typer.Option("--branch", metavar="NAME", help="The branch to load into.")]
FromBranch = Annotated[
    str | None, typer.Option("--from", metavar="NAME", help="Make the branch from this one, if it is not there.")
]
ChangedBranch = Annotated[str, typer.Option("--branch", metavar="NAME", help="The branch to change.")]
MeantBranch = Annotated[str, typer.Option("--branch", metavar="NAME", help="The branch that is meant.")]
Branches = Annotated[
    list[str] | None, typer.Option("--branch", metavar="NAME", help="This branch only; may be repeated.")
]
Types = Annotated[list[str] | None, typer.Option("--type", metavar="TYPE", help="This type only; may be repeated.")]
All = Annotated[bool, typer.Option("--all", help="Print everything, also what does not fit on a screen.")]
Branch = Annotated[str, typer.Option("--branch", metavar="NAME", help="The branch to read.")]
At = Annotated[
    str | None,
    typer.Option(
        "--at", metavar="PLACE", help="As of a commit, a checkpoint, a branch or a time (2h ago); default: now."
    ),
]
Key = Annotated[
    str | None,
    typer.Option("--key", metavar="KEY", help="Idempotency key: the same key again returns the first receipt."),
]
ExpectHead = Annotated[
    str | None, typer.Option("--expect-head", metavar="COMMIT_ID", help="Fail unless this is the newest commit.")
]
Deadline = Annotated[float, typer.Option("--deadline", metavar="SECONDS", min=0.001, help="Give up after so long.")]
