"""The documents that ``--json`` prints, as models. The published JSON schema is made from them, and tests hold both to
what the commands print. No command imports this package.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic.json_schema import models_json_schema

from omnigraph.cli.render import SCHEMA_VERSION
from omnigraph.cli.shapes.base import Shape
from omnigraph.cli.shapes.data import (
    Commit,
    CommitList,
    Export,
    Init,
    Load,
    LoadCheck,
    Mutate,
    Outcome,
    Query,
    SchemaShow,
    Snapshot,
)
from omnigraph.cli.shapes.looks import (
    Doctor,
    IntentList,
    PendingIntent,
    Recover,
    RecoveryHistory,
    Repair,
    Status,
    Verify,
)
from omnigraph.cli.shapes.maintenance import (
    Checkpoint,
    CheckpointDeleted,
    CheckpointList,
    Cleanup,
    Compact,
    Optimize,
)
from omnigraph.cli.shapes.program import (
    ErrorBody,
    ErrorCode,
    ErrorCodes,
    Lint,
    Version,
)
from omnigraph.cli.tree import COMMANDS

DIALECT = "https://json-schema.org/draft/2020-12/schema"

RESULTS: dict[str, tuple[type[Shape], ...]] = {
    "init": (Init,),
    "load": (Load, LoadCheck),
    "mutate": (Mutate,),
    "snapshot": (Snapshot,),
    "query": (Query,),
    "export": (Export,),
    "status": (Status,),
    "commit list": (CommitList,),
    "commit show": (Commit,),
    "commit outcome": (Outcome,),
    "intent list": (IntentList,),
    "intent show": (PendingIntent,),
    "recover": (Recover, RecoveryHistory),
    "verify": (Verify,),
    "repair": (Repair,),
    "optimize": (Optimize,),
    "compact": (Compact,),
    "ensure-indices": (Optimize,),
    "cleanup": (Cleanup,),
    "checkpoint create": (Checkpoint,),
    "checkpoint list": (CheckpointList,),
    "checkpoint delete": (CheckpointDeleted,),
    "schema show": (SchemaShow,),
    "lint": (Lint,),
    "explain": (ErrorCode, ErrorCodes),
    "doctor": (Doctor,),
    "version": (Version,),
}


def published_schema() -> dict[str, Any]:
    """One schema for all commands: ``#/$defs/command.load`` is what ``load --json`` prints."""
    models = {model for shapes in RESULTS.values() for model in shapes} | {ErrorBody}
    ordered = sorted(models, key=lambda model: model.__name__)
    _, defs = models_json_schema([(model, "serialization") for model in ordered], ref_template="#/$defs/{model}")
    found: dict[str, Any] = {name: _untitled(shape) for name, shape in defs["$defs"].items()}
    found["failed"] = _document(False, "error", {"$ref": "#/$defs/ErrorBody"})
    for command in COMMANDS:
        refs = [{"$ref": f"#/$defs/{model.__name__}"} for model in RESULTS[command.path]]
        result = refs[0] if len(refs) == 1 else {"anyOf": refs}
        found[f"command.{command.path}"] = {"oneOf": [_document(True, "result", result), {"$ref": "#/$defs/failed"}]}
    return {
        "$schema": DIALECT,
        "title": "What `omnigraph … --json` prints",
        "description": "Validate against #/$defs/command.NAME for one command, or against the whole for any.",
        "anyOf": [{"$ref": f"#/$defs/command.{command.path.replace(' ', '%20')}"} for command in COMMANDS],
        "$defs": dict(sorted(found.items())),
    }


def _untitled(shape: Any) -> Any:
    """Without the titles that pydantic makes from names: they say nothing and are a third of the text."""
    if isinstance(shape, list):
        return [_untitled(each) for each in shape]
    if not isinstance(shape, dict):
        return shape
    return {
        name: {field: _untitled(each) for field, each in value.items()} if name == "properties" else _untitled(value)
        for name, value in shape.items()
        if name != "title"
    }


def schema_text() -> str:
    return json.dumps(published_schema(), indent=1, ensure_ascii=False) + "\n"


def _document(ok: bool, member: str, content: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"schema_version": {"const": SCHEMA_VERSION}, "ok": {"const": ok}, member: content},
        "required": ["schema_version", "ok", member],
        "additionalProperties": False,
    }
