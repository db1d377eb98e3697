"""What ``dg scaffold`` writes: a commented example that loads as it is, made from the descriptions of the settings."""

from abc import ABC, abstractmethod
from typing import Any, Final

import dagster as dg

from omnigraph_pipelines.setting_kinds import Part
from omnigraph_pipelines.settings import (
    AlertSettings,
    CheckSettings,
    GraphSettings,
    SourceSettings,
    SparkSettings,
    TableSettings,
    UpkeepSettings,
)

_GRAPH: Final = {"name": "social", "uri": "data/social.omni", "schema": "social.pg"}
_SOURCE: Final = {"name": "crm", "batches": "landing/crm/*/", "ready": "_SUCCESS", "mode": "merge"}
_TABLE: Final = {"node": "Person", "files": "people*.csv"}
_SCHEMA: Final = "node Person { name: String @key }\n"
_WIDTH: Final = 46


def _lines(part: type[Part], shown: dict[str, str], indent: str, *, listed: bool = False) -> list[str]:
    """Return the keys of a part with what they are; those without an example are comments."""
    found: list[str] = []
    for name, info in part.model_fields.items():
        key = info.alias or name
        if key in shown:
            text = f"{indent}{key}: {shown[key]}"
        else:
            default = "" if info.is_required() else _plain(info.get_default(call_default_factory=True))
            text = f"{indent}# {key}: {default}"
        found.append(f"{text.rstrip():<{_WIDTH}}  # {_described(info)}")
    if listed:
        first = next(number for number, line in enumerate(found) if not line.strip().startswith("#"))
        found.insert(0, found.pop(first))
        found[0] = f"{indent[:-2]}- {found[0].strip()}"
    return found


def _described(info: Any) -> str:
    """Return the whole description on one line: in the settings it wraps where their line ends."""
    return " ".join((info.description or "").split())


def _plain(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Part):
        return "{}"
    return "[]" if value == () else str(value)


def _document(type_name: str, lines: list[str]) -> str:
    return "\n".join([f"type: {type_name}", "attributes:", *lines, ""])


class _Scaffolder(dg.Scaffolder, ABC):
    @abstractmethod
    def lines(self) -> list[str]: ...

    def scaffold(self, request: Any) -> None:
        """Write the example, and a schema for it unless there is one."""
        file = request.target_path if request.append else request.target_path / "defs.yaml"
        with file.open("a" if request.append else "w", encoding="utf-8") as out:
            out.write(("---\n" if request.append else "") + _document(request.type_name, self.lines()))
        schema = file.parent / "social.pg"
        if not schema.exists():
            schema.write_text(_SCHEMA, encoding="utf-8")


class IngestScaffolder(_Scaffolder):
    def lines(self) -> list[str]:
        source = [line for line in _lines(SourceSettings, _SOURCE, "      ", listed=True) if " tables:" not in line]
        return [
            "  graph:",
            *_lines(GraphSettings, _GRAPH, "    "),
            "  sources:",
            *source,
            "      tables:",
            *_lines(TableSettings, _TABLE, "          ", listed=True),
            "  # checks:",
            *_commented(CheckSettings),
            "  # spark:",
            *_commented(SparkSettings),
            "  # alerts:",
            *_commented(AlertSettings),
        ]


class UpkeepScaffolder(_Scaffolder):
    def lines(self) -> list[str]:
        found = ["  graph:", *_lines(GraphSettings, _GRAPH, "    "), "  # upkeep:"]
        for name, info in UpkeepSettings.model_fields.items():
            kind = info.annotation
            if isinstance(kind, type) and issubclass(kind, Part):
                found.append(f"  #   {name}:  # {_described(info)}")
                found += [line.replace("    # ", "  #     ", 1) for line in _lines(kind, {}, "    ")]
            else:
                default = _plain(info.default)
                found.append(f"  #   {name}: {default}  # {_described(info)}")
        return found


def _commented(part: type[Part]) -> list[str]:
    return [line.replace("    # ", "  #   ", 1) for line in _lines(part, {}, "    ")]
