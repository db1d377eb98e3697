"""The pages of the manual that are made from the commands: ``python -m omnigraph.cli.reference`` writes them.

``--check`` writes nothing and exits with 1 where a page is not what would be written.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from omnigraph.cli.commands.explain import every_error
from omnigraph.cli.tree import COMMANDS, GROUPS, Command
from omnigraph.core.errors import CONFLICT_KINDS, NOT_RAISED_YET, REASONS, REASONS_NOT_GIVEN_YET
from omnigraph.wire.documents import schema_text
from omnigraph.wire.program import ErrorCode

_WIDTH = 100

_HEAD = """\
# Command line

<!-- Made by `python -m omnigraph.cli.reference docs/reference`; do not edit. -->

`omnigraph COMMAND [URI] [options]`. It needs the extra `cli` ([install](../README.md#install-and-try)). `omnigraph
--install-completion` adds completion to your shell (bash, zsh, fish): commands and options, and of a
graph on this disk types, branches, checkpoints and commits.

- **Which graph**: the first argument, `--uri`, or the variable `OMNIGRAPH_URI`. A path, `file:///path` or
  `s3://bucket/prefix`. Connection options come from the environment (`AWS_*`) or from `--storage-option KEY=VALUE`.
- **Who**: `--as ACTOR`, or the variable `OMNIGRAPH_ACTOR`; otherwise none is recorded.
- **Streams**: results on standard output, everything else on standard error. A write first says where it goes; `--quiet`
  silences that.
- **For programs**: `--json` prints exactly one document, `{"schema_version": 1, "ok": true, "result": …}` or
  `{"schema_version": 1, "ok": false, "error": {"error", "code", "hint", …}}`. `ok` is true if and only if the exit code
  is 0. The shapes are published in [cli-json.schema.json](cli-json.schema.json).
- **For people**: tables and colours on a terminal (`NO_COLOR` turns colours off, `FORCE_COLOR` on), plain columns
  elsewhere.
- **Progress**: a bar on a terminal, a line on standard error every five seconds elsewhere; `--quiet` shows neither.
  `OMNIGRAPH_LOG=info` (or `debug`, `warning`, `error`) adds [log records](metrics.md#logs).
- **Consent**: `load --mode overwrite` on a remote store wants `--yes`, or a yes typed at a terminal.
"""

_EXIT_CODES = (
    (0, "done"),
    (1, "a fault of the program"),
    (2, "the command line is wrong, or something that it needs is not installed"),
    (3, "the input is not valid, or a name does not exist or is taken"),
    (4, "another writer changed something meanwhile, or the operation would not be safe"),
    (5, "the outcome of a write is not known: ask with `omnigraph commit outcome`"),
    (6, "an interrupted write stands in the way"),
    (7, "the store did not answer or is full, or writes come too fast"),
    (8, "the store refused: credentials, permissions, or a store that cannot create-if-absent"),
    (9, "the graph is damaged, or of another storage version"),
    (130, "interrupted with Ctrl-C"),
    (141, "the reader of the output has closed the pipe"),
)


def cli_page() -> str:
    parts = [_HEAD, "## Exit codes\n", _table(("code", "meaning"), [(str(code), text) for code, text in _EXIT_CODES])]
    parts.append("Each error code and its exit code: [errors.md](errors.md).\n")
    parts.append("## Commands\n")
    parts.append(
        _table(
            ("command", "what it does"),
            [(f"[`{c.path}`](#omnigraph-{c.path.replace(' ', '-')})", c.help) for c in COMMANDS],
        )
    )
    parts += [_section(command) for command in COMMANDS]
    return "\n".join(parts)


def errors_page() -> str:
    """Every error by its code."""
    parts = [
        "# Error codes\n",
        "<!-- Made by `python -m omnigraph.cli.reference docs/reference`; do not edit. -->\n",
        "Every error has a code that does not change, one line of message with the facts last, and a hint. The code decides "
        "the exit code of the command line; over a wire the body is `{error, code, hint, …facts}`. `omnigraph explain CODE` "
        "says the same as this page.\n",
    ]
    rows = []
    for _, kind in sorted(every_error().items(), key=lambda item: (item[1].exit_code, item[0])):
        told = ErrorCode.of(kind).to_dict()
        rows.append(
            (
                f"`{told['code']}`",
                f"`{told['class']}`",
                str(told["exit_code"]),
                str(told["http_status"]),
                _prose(told["meaning"]),
                _prose(told["hint"]),
            )
        )
    parts.append(_table(("code", "class", "exit", "HTTP", "meaning", "what to do"), rows))
    parts.append(f"Declared, and raised by nothing in this release: {_codes(NOT_RAISED_YET)}.\n")
    parts.append("## Reasons of `refused`\n")
    parts.append("The fact `reason` is one of these; the hint says what to do about it.\n")
    reasons = [(f"`{reason}`", meaning) for reason, meaning in REASONS.items() if reason not in REASONS_NOT_GIVEN_YET]
    parts.append(_table(("reason", "meaning"), reasons))
    parts.append(f"Reserved, and given by nothing in this release: {_codes(REASONS_NOT_GIVEN_YET)}.\n")
    parts.append("## Kinds of `merge-conflict`\n")
    parts.append(f"Reserved with the code: {_codes(CONFLICT_KINDS)}.\n")
    return "\n".join(parts)


def _codes(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def _section(command: Command) -> str:
    return f"### omnigraph {command.path}\n\n```text\n{help_text(command)}\n```\n"


def help_text(command: Command) -> str:
    """What ``--help`` prints, at a fixed width."""
    from omnigraph.cli.app import PROGRAM, root

    made: Any = root()
    context = made.make_context(PROGRAM, [], resilient_parsing=True, terminal_width=_WIDTH, max_content_width=_WIDTH)
    for word in command.path.split():
        made = made.get_command(context, word)
        context = made.make_context(
            word, [], parent=context, resilient_parsing=True, terminal_width=_WIDTH, max_content_width=_WIDTH
        )
    text: str = made.get_help(context)
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE).strip()


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _prose(text: str) -> str:
    return text.replace("``", "`")


def pages() -> dict[str, str]:
    """Every page by its name."""
    assert set(GROUPS) == {c.path.split()[0] for c in COMMANDS if " " in c.path}
    return {
        "cli.md": cli_page(),
        "errors.md": errors_page(),
        "cli-json.schema.json": schema_text([c.path for c in COMMANDS]),
    }


def main(argv: Sequence[str]) -> int:
    check = "--check" in argv
    folders = [argument for argument in argv if not argument.startswith("--")]
    if len(folders) != 1:
        print("usage: python -m omnigraph.cli.reference [--check] FOLDER", file=sys.stderr)
        return 2
    folder = Path(folders[0])
    stale = []
    for name, text in pages().items():
        path = folder / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not check:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for name in stale:
        print(f"{'not up to date' if check else 'written'}: {folder / name}", file=sys.stderr)
    return 1 if check and stale else 0


if __name__ == "__main__":
    os.environ.pop("OMNIGRAPH_URI", None)
    sys.exit(main(sys.argv[1:]))
