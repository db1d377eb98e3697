"""The tree of commands: names, one line of help and an example each. Plain values, so that ``--help`` loads no command.

A command stands here only if everything behind it exists. ``needs`` names the part of the façade that it calls; a test
holds the two together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

GRAPH = "graph"  # takes the URI of a graph, and has to have one
MAYBE = "maybe"  # may take one
NONE = "none"


@dataclass(frozen=True, slots=True)
class Command:
    """One command. ``subject`` is what it takes beside the URI, one positional argument for each of its words."""

    path: str
    help: str
    example: str
    target: Literal["graph", "maybe", "none"] = "graph"
    subject: str | None = None
    needs: str | None = None
    writes: bool = False

    @property
    def module(self) -> str:
        return f"omnigraph.cli.commands.{self.path.split()[0].replace('-', '_')}"

    @property
    def function(self) -> str:
        words = self.path.split()
        return "run" if len(words) == 1 else f"run_{words[1].replace('-', '_')}"

    @property
    def name(self) -> str:
        return self.path.split()[-1]


GROUPS: dict[str, str] = {
    "branch": "Work beside main.",
    "checkpoint": "Pin commits against cleanup.",
    "commit": "Look at commits.",
    "intent": "Look at writes that have not ended.",
    "schema": "Look at the accepted schema, and change it.",
}

COMMANDS: tuple[Command, ...] = (
    Command(
        "init",
        "Create a graph from a schema.",
        "omnigraph init social.omni --schema social.pg",
        needs="init",
        writes=True,
    ),
    Command(
        "load",
        "Bring records into a graph, as one commit.",
        "omnigraph load social.omni --data people.jsonl --mode merge",
        needs="load",
        writes=True,
    ),
    Command(
        "mutate",
        "Run one query that inserts, updates or deletes, as one commit.",
        "omnigraph mutate social.omni -e 'update Person set { age: 31 } where name = \"Ann\"'",
        needs="mutate",
        writes=True,
    ),
    Command(
        "snapshot",
        "Show what a branch, or a commit, holds: one line a table.",
        "omnigraph snapshot social.omni",
        needs="snapshot",
    ),
    Command(
        "get",
        "Show one row by its id.",
        "omnigraph get social.omni Person Ann",
        subject="TYPE ID",
        needs="snapshot",
    ),
    Command(
        "head",
        "Show the first rows of a type.",
        "omnigraph head social.omni Person --limit 5",
        subject="TYPE",
        needs="snapshot",
    ),
    Command(
        "query",
        "Run SQL over a snapshot: one view a type, read-only.",
        "omnigraph query social.omni --sql 'select name, age from Person order by age'",
        needs="snapshot",
    ),
    Command(
        "export",
        "Write a snapshot as records or Parquet files that load takes.",
        "omnigraph export social.omni --output social.jsonl",
        needs="snapshot",
    ),
    Command(
        "changes",
        "Print what commits did, one JSON line a change.",
        "omnigraph changes social.omni --since 01JZX5W9GZ0000000000000000",
        needs="changes",
    ),
    Command(
        "status",
        "Show head, tables, pending writes and a verdict, in one screen.",
        "omnigraph status social.omni",
        needs="status",
    ),
    Command(
        "commit list",
        "List the commits of a branch, newest first.",
        "omnigraph commit list social.omni --limit 10",
        needs="commits",
    ),
    Command(
        "commit show",
        "Show one commit.",
        "omnigraph commit show social.omni 01JZX5W9GZ0000000000000000",
        subject="COMMIT_ID",
        needs="commit",
    ),
    Command(
        "commit outcome",
        "Tell what became of a write: landed, aborted, pending or absent.",
        "omnigraph commit outcome social.omni 01JZX5W9GZ0000000000000000",
        subject="COMMIT_ID",
        needs="outcome",
    ),
    Command(
        "history",
        "Show who changed a row: its commits, newest first.",
        "omnigraph history social.omni Person Ann",
        subject="TYPE ID",
        needs="history",
    ),
    Command(
        "diff",
        "Show what changed from one commit, checkpoint or branch to another.",
        "omnigraph diff social.omni main review",
        subject="A [B]",
        needs="diff",
    ),
    Command(
        "branch create",
        "Make a branch from another one; no table is copied.",
        "omnigraph branch create social.omni review",
        subject="NAME",
        needs="branches",
        writes=True,
    ),
    Command(
        "branch list",
        "List the branches, main first.",
        "omnigraph branch list social.omni --heads",
        needs="branches",
    ),
    Command(
        "branch delete",
        "Show what deleting a branch would lose; with --confirm delete it.",
        "omnigraph branch delete social.omni review --confirm",
        subject="NAME",
        needs="branches",
        writes=True,
    ),
    Command(
        "branch merge",
        "Merge a branch into another, as one commit.",
        "omnigraph branch merge social.omni review --into main --dry-run",
        subject="SOURCE",
        needs="branches",
        writes=True,
    ),
    Command(
        "revert",
        "Take back what one commit did, as a new commit.",
        "omnigraph revert social.omni 01JZX5W9GZ0000000000000000 --dry-run",
        subject="COMMIT_ID",
        needs="revert",
        writes=True,
    ),
    Command(
        "restore",
        "Make the rows of a branch what they were, as a new commit.",
        "omnigraph restore social.omni 01JZX5W9GZ0000000000000000 --dry-run",
        subject="PLACE",
        needs="restore",
        writes=True,
    ),
    Command(
        "intent list",
        "List writes that have not ended, oldest first, and what recovery would do.",
        "omnigraph intent list social.omni",
        needs="intents",
    ),
    Command(
        "intent show",
        "Explain one of them, table by table.",
        "omnigraph intent show social.omni 01JZX5W9GZ0000000000000000",
        subject="OPERATION_ID",
        needs="intents",
    ),
    Command(
        "recover",
        "End interrupted writes: publish what is complete, undo the rest.",
        "omnigraph recover social.omni --grace 0",
        needs="recover",
        writes=True,
    ),
    Command(
        "verify",
        "Check that the graph is what its manifest says. Changes nothing.",
        "omnigraph verify social.omni --deep",
        needs="verify",
    ),
    Command(
        "repair",
        "List table versions that no commit published and no write claims; with --confirm put the tables back.",
        "omnigraph repair social.omni",
        needs="repair",
        writes=True,
    ),
    Command(
        "optimize",
        "Make fewer, larger files, and indexes that cover them. Changes no content.",
        "omnigraph optimize social.omni",
        needs="optimize",
        writes=True,
    ),
    Command(
        "compact",
        "Merge the archive of the history into fewer files. Adds no commit.",
        "omnigraph compact social.omni --fragments-max 64",
        needs="compact_manifest",
        writes=True,
    ),
    Command(
        "ensure-indices",
        "Build the indexes that the schema asks for and that are missing.",
        "omnigraph ensure-indices social.omni",
        needs="ensure_indices",
        writes=True,
    ),
    Command(
        "cleanup",
        "Show which versions are not needed any more, and why the rest stays; with --confirm delete them.",
        "omnigraph cleanup social.omni --keep 10 --older-than 7d",
        needs="cleanup",
        writes=True,
    ),
    Command(
        "checkpoint create",
        "Pin a commit: no cleanup takes it until the checkpoint is deleted.",
        "omnigraph checkpoint create social.omni season-start",
        subject="NAME",
        needs="checkpoints",
        writes=True,
    ),
    Command(
        "checkpoint list",
        "List checkpoints by name.",
        "omnigraph checkpoint list social.omni",
        needs="checkpoints",
    ),
    Command(
        "checkpoint delete",
        "Let a cleanup have the commit again.",
        "omnigraph checkpoint delete social.omni season-start",
        subject="NAME",
        needs="checkpoints",
        writes=True,
    ),
    Command(
        "schema show",
        "Print the accepted schema, or a diagram of it.",
        "omnigraph schema show social.omni --format mermaid",
        needs="schema",
    ),
    Command(
        "schema plan",
        "Show what a new schema would change, what each step costs, and what cannot be done. Changes nothing.",
        "omnigraph schema plan social.omni --schema social.pg",
        needs="schema",
    ),
    Command(
        "schema apply",
        "Make a file the accepted schema, as one commit beside other writers.",
        "omnigraph schema apply social.omni --schema social.pg --confirm",
        needs="schema",
        writes=True,
    ),
    Command(
        "lint",
        "Check a file of queries against a schema.",
        "omnigraph lint --query queries.gq --schema social.pg",
        target="maybe",
    ),
    Command(
        "explain",
        "Tell what an error code means and what to do.",
        "omnigraph explain outcome-unknown",
        target="none",
    ),
    Command(
        "doctor",
        "Check the store, credentials, the clock and what is installed; show each setting with where it comes from.",
        "omnigraph doctor social.omni",
        target="maybe",
    ),
    Command(
        "version",
        "Print the release and the storage version.",
        "omnigraph version",
        target="none",
    ),
)


def find(path: str) -> Command | None:
    return next((command for command in COMMANDS if command.path == path), None)


def children(group: str | None) -> dict[str, str]:
    """Names below a group (or below the root) with their help, in the order of the table; groups where they first occur."""
    found: dict[str, str] = {}
    for command in COMMANDS:
        words = command.path.split()
        if group is None:
            found.setdefault(words[0], GROUPS[words[0]] if len(words) > 1 else command.help)
        elif words[0] == group and len(words) > 1:
            found[words[1]] = command.help
    return found


def has(path: str) -> bool:
    """Whether this release has the command: a hint must not name a command that is not there."""
    return find(path) is not None
