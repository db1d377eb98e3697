"""Type checkers know every public name and find mistakes in its use: two programs of a user, read by mypy and by pyright."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
LAZY = ("omnigraph", "omnigraph.distributed", "omnigraph.schema", "omnigraph_pipelines", "omnigraph_pipelines.spark")
_OPTIONS = (
    *("--config-file=", "--strict", "--follow-imports=silent"),
    *("--ignore-missing-imports", "--disable-error-code=import-untyped"),
)
_REVEALED = re.compile(r'(?:Revealed type is|Type of ".*" is) "(.*)"$')
_MODULE = re.compile(r"\b(?:[a-zA-Z_]\w*\.)+(?=[a-zA-Z_])")

# (line, message) of one program, by what it is: revealed types and mistakes.
Findings = tuple[dict[int, str], set[int]]


def _short(name: str) -> str:
    """A type without the modules of its parts: mypy writes them, pyright does not."""
    return _MODULE.sub("", name)


def _mypy(program: Path, cache: Path) -> Findings:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *_OPTIONS, f"--cache-dir={cache}", str(program)],
        env=os.environ | {"MYPYPATH": f"{ROOT / 'engine'}{os.pathsep}{ROOT}"},
        cwd=cache,
        capture_output=True,
        text=True,
    )
    found = re.findall(rf"^(?:.*/)?{program.name}:(\d+): (note|error): (.*)$", done.stdout, re.M)
    assert found, done.stdout + done.stderr
    notes = {int(line): shown[1] for line, _, text in found if (shown := _REVEALED.match(text))}
    return notes, {int(line) for line, kind, _ in found if kind == "error"}


def _pyright(program: Path, cache: Path) -> Findings:
    settings = {
        "include": [os.path.relpath(program, cache)],
        "extraPaths": [str(ROOT / "engine"), str(ROOT)],
        "reportMissingImports": "none",
        "reportMissingModuleSource": "none",
        "reportUnusedExpression": "none",
    }
    project = cache / "pyrightconfig.json"
    project.write_text(json.dumps(settings), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--project", str(project), "--pythonpath", sys.executable],
        capture_output=True,
        text=True,
        env=os.environ | {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
    )
    assert done.stdout.startswith("{"), done.stdout + done.stderr
    said = json.loads(done.stdout)["generalDiagnostics"]
    lines = [(one["range"]["start"]["line"] + 1, one["severity"], one["message"]) for one in said]
    notes = {line: shown[1] for line, _, text in lines if (shown := _REVEALED.match(text))}
    return notes, {line for line, severity, _ in lines if severity == "error"}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("checker", [_mypy, _pyright], ids=["mypy", "pyright"])
def test_a_checker_knows_the_types_and_finds_the_mistakes(checker: object, request: pytest.FixtureRequest) -> None:
    assert callable(checker)
    cache = request.config.cache.mkdir("types")  # type: ignore[union-attr]
    program = HERE / "names.py"
    notes, errors = checker(program, cache)
    lines = program.read_text(encoding="utf-8").splitlines()
    wanted = {n: text.split("  # ")[1] for n, text in enumerate(lines, 1) if text.startswith("reveal_type(")}
    assert len(wanted) >= 60
    assert not errors
    assert {n: f"{lines[n - 1]} is {_short(notes.get(n, 'not known'))}" for n in wanted} == {
        n: f"{lines[n - 1]} is {name}" for n, name in wanted.items()
    }
    program = HERE / "mistakes.py"
    _, errors = checker(program, cache)
    lines = program.read_text(encoding="utf-8").splitlines()
    assert errors == {n for n, text in enumerate(lines, 1) if text.endswith("# mistake")}


@pytest.mark.parametrize("name", LAZY)
def test_the_names_for_checkers_are_the_names_that_resolve(name: str) -> None:
    module = importlib.import_module(name)
    tree = ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8"))
    guarded = next(one for one in tree.body if isinstance(one, ast.If) and ast.unparse(one.test) == "TYPE_CHECKING")
    typed = {alias.asname or alias.name for one in guarded.body for alias in getattr(one, "names", ())}
    plain = {"STORAGE_VERSION", "__version__"} if name == "omnigraph" else set()
    assert typed | plain == set(module.__all__)
    for one in module.__all__:
        assert getattr(module, one) is not None


@pytest.mark.parametrize("name", [one for one in LAZY if one != "omnigraph.schema"])
def test_dir_shows_public_names_only(name: str) -> None:
    module = importlib.import_module(name)
    assert dir(module) == sorted(module.__all__)
