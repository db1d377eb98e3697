"""The closed lists that errors choose from: reasons of a refusal, kinds of a merge conflict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args

Reason = Literal[
    "bases",
    "clock",
    "drift",
    "forked-process",
    "group-member",
    "missing-version",
    "no-consent",
    "not-healed",
    "paused",
    "quarantine-taken",
    "recovery",
    "schema",
    "schema-ahead",
    "schema-differs",
    "unknown-intent",
    "unknown-ref",
    "unreadable-branch",
    "unreadable-checkpoint",
    "unreadable-intent",
    "unreadable-staging-record",
    "unresolved-branch",
]
"""Why something is refused. The list is closed: a new reason is added here and to ``REASONS``."""

REASONS: Final[Mapping[Reason, str]] = {
    "bases": "A table reads files of too many lines, each forked from the one before.",
    "clock": "The clock of this machine and that of the store differ too much to tell what is young.",
    "drift": "A table has versions above the published one that no operation explains.",
    "forked-process": "The graph was opened before this process was forked; its threads stayed in the parent.",
    "group-member": "The commit shares its swap with others on the same tables and cannot be undone alone.",
    "missing-version": "A version that a root needs is not there.",
    "no-consent": "A command that destroys something on a remote store was not given --yes, or a change of the schema that loses data no --confirm.",
    "not-healed": "A table could not be put back to its published version.",
    "paused": "Upkeep is paused in the graph file.",
    "quarantine-taken": "The name under which an unreadable intent would be kept is taken by other bytes.",
    "recovery": "An interrupted write could not be ended first.",
    "schema": "The change of the schema is not supported.",
    "schema-ahead": "The schema file of a pipeline declares what the graph has not accepted yet.",
    "schema-differs": "The old state has another schema, which has to be applied first.",
    "unknown-intent": "An intent was written by a later release, so what it needs is not known.",
    "unknown-ref": "The store holds a branch of a kind that this release does not know.",
    "unreadable-branch": "The manifest of a branch cannot be read, so what it needs is not known.",
    "unreadable-checkpoint": "A checkpoint cannot be read, so what it pins is not known.",
    "unreadable-intent": "An intent cannot be read, so the tables that it claims are not known.",
    "unreadable-staging-record": "A staging record cannot be read, so the files that it claims are not known.",
    "unresolved-branch": "An intent names a branch that this release cannot find.",
}

ConflictKind = Literal[
    "divergent_insert",
    "divergent_update",
    "delete_vs_update",
    "drop_vs_update",
    "divergent_schema",
    "orphan_edge",
    "unique_violation",
    "cardinality_violation",
    "value_violation",
]
"""What a row of a ``MergeConflict`` says."""

CONFLICT_KINDS: Final[tuple[ConflictKind, ...]] = get_args(ConflictKind)

# Declared so that callers can name them; nothing of this release raises them.
NOT_RAISED_YET: Final = frozenset({"expected-version-mismatch", "recovery-pending"})
REASONS_NOT_GIVEN_YET: Final[frozenset[Reason]] = frozenset()
