"""Results as JSON, and as tables that people read. Owns their form and the facts of the machine that go with each."""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "results"

Table = dict[str, Any]


def machine() -> dict[str, Any]:
    """What figures depend on besides the code."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(pages * size / 2**30, 1),
        "cpu": _cpu(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "pylance": version("pylance"),
        "pyarrow": version("pyarrow"),
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def load_average() -> float:
    """Processes that wanted to run in the last minute: more than the bench's own means that others disturbed it."""
    return round(os.getloadavg()[0], 1)


def compiled_once() -> dict[str, str]:
    """The environment for child processes whose start is measured: bytecode is kept, as it is for anybody who installs the
    package. Compiling every module again costs more than all that is measured."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], notes: Sequence[str] = ()) -> Table:
    return {"title": title, "columns": list(columns), "rows": [list(row) for row in rows], "notes": list(notes)}


def as_markdown(one: Table) -> str:
    lines = [f"### {one['title']}", ""]
    lines.append("| " + " | ".join(one["columns"]) + " |")
    lines.append("|" + "|".join("---" for _ in one["columns"]) + "|")
    lines += ["| " + " | ".join(_shown(cell) for cell in row) + " |" for row in one["rows"]]
    for note in one["notes"]:
        lines += ["", note]
    return "\n".join(lines)


def _shown(cell: Any) -> str:
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        return f"{cell:,.2f}" if abs(cell) < 100 else f"{cell:,.0f}"
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, Mapping):
        return ", ".join(f"{name} {n}" for name, n in cell.items()) or "–"
    return "–" if cell is None else str(cell)


def write(name: str, tables: Sequence[Table], facts: Mapping[str, Any], *, quick: bool, folder: Path = FOLDER) -> Path:
    """Keep the result of one bench. A quick run goes to a file that the report does not read."""
    body = {
        "bench": name,
        "command": f"./run bench {name}" + (" --quick" if quick else ""),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": machine(),
        "facts": dict(facts),
        "tables": list(tables),
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (f"{name}.quick.json" if quick else f"{name}.json")
    path.write_text(json.dumps(body, indent=1) + "\n")
    return path


def read(name: str, folder: Path = FOLDER) -> dict[str, Any] | None:
    path = folder / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None
