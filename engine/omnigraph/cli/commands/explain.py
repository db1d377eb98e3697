"""``omnigraph explain``: what an error code means, from the error classes themselves."""

from __future__ import annotations

import difflib
import inspect
from typing import Annotated, Any

import typer

from omnigraph.cli.call import Answer, Call, Interrupted, Usage
from omnigraph.cli.render import Screen
from omnigraph.core.errors import NotFound, OmnigraphError, all_errors

# Classes that say in their name what they mean, said in words.
_MEANINGS = {
    "internal": "A fault of the program, not of the call.",
    "invalid-input": "An argument, or a file given, is not valid.",
    "not-found": "There is nothing of this name.",
    "already-exists": "There is something of this name already.",
    "conflict": "Somebody else changed what this operation was planned on.",
    "limit-exceeded": "Something is larger than a limit.",
}


def run(
    call: Call,
    code: Annotated[
        str | None,
        typer.Argument(
            metavar="CODE",
            help="Such as key-conflict. Without it: all.",
            autocompletion=lambda incomplete: [code for code in every_error() if code.startswith(incomplete)],
        ),
    ] = None,
) -> Answer:
    """Tell what an error code means and what to do."""
    if code is None:
        found = [describe(kind) for _, kind in sorted(every_error().items())]
        columns = ("code", "exit_code", "meaning")
        return Answer(
            {"codes": found},
            lambda screen: screen.table(
                ("code", "exit", "meaning"), [[each[name] for name in columns] for each in found]
            ),
        )
    explained = describe(_find(code))
    return Answer(explained, lambda screen: _show(screen, explained))


def every_error() -> dict[str, type[OmnigraphError]]:
    """Every error by its code, those of the command line included."""
    return {**all_errors(), Usage.code: Usage, Interrupted.code: Interrupted}


def describe(kind: type[OmnigraphError]) -> dict[str, Any]:
    return {
        "code": kind.code,
        "class": kind.__name__,
        "exit_code": kind.exit_code,
        "http_status": kind.http_status,
        "meaning": meaning(kind),
        "hint": kind.default_hint,
    }


def meaning(kind: type[OmnigraphError]) -> str:
    """A sentence, then the facts that the class names in its docstring."""
    own = " ".join(inspect.cleandoc(kind.__dict__.get("__doc__") or "").split()).replace("``", "`")
    return (
        f"{_MEANINGS[kind.code]} {own if own.startswith('Facts:') else ''}".strip() if kind.code in _MEANINGS else own
    )


def _find(code: str) -> type[OmnigraphError]:
    errors = every_error()
    wanted = code.strip().removeprefix("error[").removesuffix("]")
    for kind in errors.values():
        if wanted in (kind.code, kind.__name__):
            return kind
    near = difflib.get_close_matches(wanted.lower(), errors, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise NotFound(f"no such error code: {wanted[:80]!r}", hint=f"{hint}`omnigraph explain` lists all of them")


def _show(screen: Screen, explained: dict[str, Any]) -> None:
    from omnigraph.cli.app import as_options

    screen.line(explained["code"], style="bold")
    screen.pairs(
        [
            ("meaning", explained["meaning"]),
            ("what to do", as_options(explained["hint"])),
            ("exit code", explained["exit_code"]),
            ("python", f"omnigraph.errors.{explained['class']}" if explained["code"] in all_errors() else None),
        ]
    )
