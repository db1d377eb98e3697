"""What each command prints with ``--json``, and the schema that is published of it. No command imports this module."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from omnigraph.wire import SCHEMA_VERSION
from omnigraph.wire.branches import BranchDeleted, BranchInfo, BranchNames
from omnigraph.wire.changes import ChangeList
from omnigraph.wire.cleanup import Checkpoint, CheckpointDeleted, CheckpointNames, CleanupRun
from omnigraph.wire.data import Created, ExportedRecords, QueryResult, RowFound, SnapshotOf
from omnigraph.wire.diff import DiffReport
from omnigraph.wire.history import Commit, CommitList, HistoryOfRow
from omnigraph.wire.jsonschema import DIALECT, Definitions, document
from omnigraph.wire.merge import BranchMerged, MergePlan
from omnigraph.wire.model import Model
from omnigraph.wire.optimize import Compacted, OptimizeReport
from omnigraph.wire.program import DoctorReport, ErrorBody, ErrorCode, ErrorCodes, LintReport, Version
from omnigraph.wire.receipt import CheckReport, Loaded, LoadPlan, Mutated, Outcome
from omnigraph.wire.recovery import IntentList, PendingIntent, Recovered, Recoveries, RepairReport
from omnigraph.wire.schema import SchemaApplied, SchemaPlanned, SchemaSource
from omnigraph.wire.status import StatusReport
from omnigraph.wire.undo import Undone, UndoPlan
from omnigraph.wire.verify import VerifyReport

_CHOICES: Final = re.compile(r"\[\s*(?:\{[^{}\n]*\},?\s*){1,3}\]")
_COLLECTION: Final = re.compile(
    r'\{\s*"type": "(?:array|object)",\s*"(?:items|additionalProperties)": \{[^{}\n]*\}\s*\}'
)
_CHOICE: Final = re.compile(r'\{\s*"anyOf": \[\{[^\[\]\n]*\}\]\s*\}')
_LIST_OF_NAMES: Final = re.compile(r'\[\s+"[^\[\]{}]*"\s+\]')
_SMALL_OBJECT: Final = re.compile(r'\{\s+"[^{}]{1,100}\s+\}')

RESULTS: Final[Mapping[str, tuple[type[Model], ...]]] = {
    "init": (Created,),
    "load": (Loaded, CheckReport, LoadPlan),
    "mutate": (Mutated,),
    "snapshot": (SnapshotOf,),
    "get": (RowFound,),
    "head": (QueryResult,),
    "query": (QueryResult,),
    "export": (ExportedRecords,),
    "status": (StatusReport,),
    "changes": (ChangeList,),
    "commit list": (CommitList,),
    "commit show": (Commit,),
    "commit outcome": (Outcome,),
    "history": (HistoryOfRow,),
    "diff": (DiffReport,),
    "branch create": (BranchInfo,),
    "branch list": (BranchNames,),
    "branch delete": (BranchDeleted,),
    "branch merge": (BranchMerged, MergePlan),
    "revert": (Undone, UndoPlan),
    "restore": (Undone, UndoPlan),
    "intent list": (IntentList,),
    "intent show": (PendingIntent,),
    "recover": (Recovered, Recoveries),
    "verify": (VerifyReport,),
    "repair": (RepairReport,),
    "optimize": (OptimizeReport,),
    "compact": (Compacted,),
    "ensure-indices": (OptimizeReport,),
    "cleanup": (CleanupRun,),
    "checkpoint create": (Checkpoint,),
    "checkpoint list": (CheckpointNames,),
    "checkpoint delete": (CheckpointDeleted,),
    "schema show": (SchemaSource,),
    "schema plan": (SchemaPlanned,),
    "schema apply": (SchemaApplied,),
    "lint": (LintReport,),
    "explain": (ErrorCode, ErrorCodes),
    "doctor": (DoctorReport,),
    "version": (Version,),
}


def published_schema(commands: Sequence[str] = tuple(RESULTS)) -> dict[str, Any]:
    """One schema for all commands: ``#/$defs/command.load`` is what ``load --json`` prints."""
    kinds = Definitions()
    found: dict[str, Any] = {
        "failed": document(False, "error", kinds.ref(ErrorBody), SCHEMA_VERSION),
        "succeeded": document(True, "result", {"type": "object"}, SCHEMA_VERSION),
    }
    for command in commands:
        refs = [kinds.ref(model) for model in RESULTS[command]]
        result = refs[0] if len(refs) == 1 else {"anyOf": refs}
        good = {"$ref": "#/$defs/succeeded", "properties": {"result": result}}
        found[f"command.{command}"] = {"oneOf": [good, {"$ref": "#/$defs/failed"}]}
    return {
        "$schema": DIALECT,
        "title": "What `omnigraph … --json` prints",
        "description": "Validate against #/$defs/command.NAME for one command, or against the whole for any.",
        "anyOf": [{"$ref": f"#/$defs/command.{command.replace(' ', '%20')}"} for command in commands],
        "$defs": dict(sorted({**kinds.made, **found}.items())),
    }


def schema_text(commands: Sequence[str]) -> str:
    """The published schema, with lists of names, objects of a few plain members, and choices and collections of such on one line each."""
    text = json.dumps(published_schema(commands), indent=1, ensure_ascii=False)
    for on_one_line in (_LIST_OF_NAMES, _SMALL_OBJECT, _CHOICES, _CHOICE, _COLLECTION):
        text = on_one_line.sub(lambda found: _on_one_line(found[0]), text)
    return text + "\n"


def _on_one_line(text: str) -> str:
    """A list or an object, without blanks beside its brackets."""
    return text[0] + " ".join(text[1:-1].split()) + text[-1]
