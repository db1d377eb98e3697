"""``omnigraph explain``: what an error code means, from the error classes themselves."""

from __future__ import annotations

import difflib
from typing import Annotated

import typer

from omnigraph.cli.call import Answer, Call, Interrupted, Usage
from omnigraph.cli.render import Screen
from omnigraph.core.errors import NotFound, OmnigraphError, all_errors
from omnigraph.wire.program import ErrorCode, ErrorCodes


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
    all_: Annotated[bool, typer.Option("--all", help="All of them; the same as no code.")] = False,
) -> Answer:
    """Tell what an error code means and what to do."""
    if all_ and code is not None:
        raise Usage("a code and --all are given", hint="give one of them")
    if code is None:
        found = [ErrorCode.of(kind) for _, kind in sorted(every_error().items())]
        rows = [(each.code, each.exit_code, each.meaning) for each in found]
        return Answer(ErrorCodes(tuple(found)), lambda screen: screen.table(("code", "exit", "meaning"), rows))
    explained = ErrorCode.of(_find(code))
    return Answer(explained, lambda screen: _show(screen, explained))


def every_error() -> dict[str, type[OmnigraphError]]:
    """Every error by its code, those of the command line included."""
    return {**all_errors(), Usage.code: Usage, Interrupted.code: Interrupted}


def _find(code: str) -> type[OmnigraphError]:
    errors = every_error()
    wanted = code.strip().removeprefix("error[").removesuffix("]")
    for kind in errors.values():
        if wanted in (kind.code, kind.__name__):
            return kind
    near = difflib.get_close_matches(wanted.lower(), errors, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise NotFound(f"no such error code: {wanted[:80]!r}", hint=f"{hint}`omnigraph explain` lists all of them")


def _show(screen: Screen, explained: ErrorCode) -> None:
    from omnigraph.cli.app import as_options

    screen.line(explained.code, style="bold")
    screen.pairs(
        [
            ("meaning", explained.meaning),
            ("what to do", as_options(explained.hint)),
            ("exit code", explained.exit_code),
            ("python", f"omnigraph.errors.{explained.class_}" if explained.code in all_errors() else None),
        ]
    )
