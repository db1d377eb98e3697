"""How things look: tables and colours on a terminal, plain text everywhere else, one JSON document where asked for.

Owns the two streams. Results go to standard output, everything else to standard error. Text that comes from data or from
a store is shown without its control characters, so that a value cannot control a terminal.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any, BinaryIO

from omnigraph.core.redact import redact_text
from omnigraph.core.shown import bytes_text as bytes_text
from omnigraph.core.shown import count_text as count_text
from omnigraph.wire import SCHEMA_VERSION as SCHEMA_VERSION

NOTHING = "–"
_GAP = "  "
_CONFLICTS_MAX = 20
_SENTENCE, _WORD = 16, 24


class Screen:
    """Standard output and standard error of one command."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self.pretty = is_terminal(sys.stdout)

    # --- results ----------------------------------------------------------------------------------------------------

    def line(self, text: str = "", *, style: str | None = None) -> None:
        """One line of a result. ``style`` is a colour on a terminal and nothing elsewhere."""
        if self.pretty and style is not None:
            self._console(sys.stdout).print(_rich_text(clean(text), style), soft_wrap=True)
        else:
            sys.stdout.write(clean(text) + "\n")

    def raw(self, text: str) -> None:
        """Text for a program to read: written as it is."""
        sys.stdout.write(text)

    def pairs(self, rows: Sequence[tuple[str, Any]]) -> None:
        """``name  value``, one a line."""
        width = max((len(name) for name, _ in rows), default=0)
        for name, value in rows:
            shown = show(value)
            if self.pretty:
                text = _rich_text(name.ljust(width), "bold")
                self._console(sys.stdout).print(text.append(_GAP + shown, style="not bold"), soft_wrap=True)
            else:
                sys.stdout.write(f"{name.ljust(width)}{_GAP}{shown}\n")

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Rows under their headings; numbers to the right."""
        texts = [[show(value) for value in row] for row in rows]
        right = [bool(rows) and all(_is_number(row[i]) for row in rows) for i in range(len(columns))]
        if self.pretty:
            self._rich_table(columns, texts, right)
            return
        widths = [max(len(name), *(len(row[i]) for row in texts), 0) for i, name in enumerate(map(clean, columns))]
        for row in [[clean(name) for name in columns], *texts]:
            cells = [
                text.rjust(width) if at_right else text.ljust(width)
                for text, width, at_right in zip(row, widths, right, strict=True)
            ]
            sys.stdout.write(_GAP.join(cells).rstrip() + "\n")

    def document(self, document: Mapping[str, Any]) -> None:
        """The one JSON document of a command."""
        sys.stdout.write(json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False) + "\n")

    @contextmanager
    def bytes_out(self) -> Iterator[BinaryIO]:
        """Standard output for bytes. Without Python's buffer (``python -u``) a write may stop half-way and only say so."""
        sys.stdout.flush()
        found = sys.stdout.buffer
        if not isinstance(found, io.RawIOBase):
            yield found
            return
        stream = io.BufferedWriter(found)
        try:
            yield stream
            stream.flush()
        finally:
            stream.detach()

    def flush(self) -> None:
        sys.stdout.flush()

    # --- everything else --------------------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        """Said to a person, unless they asked for quiet."""
        if not self.quiet:
            self.warn(text)

    def warn(self, text: str) -> None:
        """Said to a person in any case."""
        sys.stderr.write(clean(redact_text(text)) + "\n")

    def error(self, body: Mapping[str, Any]) -> None:
        """An error body as text: what happened, its details, what to do."""
        lines = [f"error[{body['code']}]: {body['error']}", *_details(body), f"hint: {body['hint']}"]
        if not is_terminal(sys.stderr):
            for line in lines:
                self.warn(line)
            return
        console = self._console(sys.stderr)
        for line, style in zip(lines, ["bold red", *[""] * (len(lines) - 2), "cyan"], strict=True):
            console.print(_rich_text(clean(redact_text(line)), style), soft_wrap=True)

    @contextmanager
    def busy(self, text: str) -> Iterator[None]:
        """How far it has come, while something takes its time."""
        from omnigraph.cli.progress import shown
        from omnigraph.core.progress import listen

        with shown(self, text) as listener, listen(listener):
            yield

    # --- rich -------------------------------------------------------------------------------------------------------

    @staticmethod
    def _console(stream: IO[str]) -> Any:
        from rich.console import Console

        return Console(file=stream, highlight=False, markup=False, emoji=False)

    def _rich_table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool]) -> None:
        from rich.box import SIMPLE_HEAD
        from rich.table import Table

        console = self._console(sys.stdout)
        names = [clean(name) for name in columns]
        whole = [max(map(len, (name, *(row[i] for row in rows)))) for i, name in enumerate(names)]
        least = [_narrowest([name, *(row[i] for row in rows)]) for i, name in enumerate(names)]
        if sum(least) + len(_GAP) * (len(names) - 1) > console.width:
            self._records(names, rows)
            return
        table = Table(box=SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        for name, at_right, tight in zip(names, right, map(int.__eq__, whole, least), strict=True):
            table.add_column(name, justify="right" if at_right else "left", overflow="fold", no_wrap=tight)
        for row in rows:
            table.add_row(*(_rich_text(text, "") for text in row))
        console.print(table)

    def _records(self, names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Rows one below the other, for a terminal that is narrower than they are: an id that was cut could not be copied."""
        for number, row in enumerate(rows):
            if number:
                self.line()
            self.pairs(list(zip(names, row, strict=True)))


def _rich_text(text: str, style: str) -> Any:
    from rich.text import Text

    return Text(text, style=style)


def _narrowest(cells: Iterable[str]) -> int:
    """How narrow a column may be: as its longest word where it has sentences; ids and numbers are kept whole."""
    widest, word = 0, 0
    for cell in cells:
        widest = max(widest, len(cell))
        word = max(word, *map(len, cell.split()), 0)
    return word if widest > _SENTENCE and word <= _WORD else widest


def is_terminal(stream: IO[str]) -> bool:
    """Whether colours and boxes are wanted there. NO_COLOR takes the colours away, the boxes stay."""
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def _details(body: Mapping[str, Any]) -> list[str]:
    """The further lines of an error that has many: violations of records, findings of a lint, failed checks."""
    if body.get("total", 0) > 1 and isinstance(body.get("violations"), list):
        listed = [_violation(violation) for violation in body["violations"]]
        more = body["total"] - len(listed)
        return [*listed, f"  … and {more:,} more"] if more > 0 else listed
    if isinstance(body.get("conflicts"), list):
        listed = [f"  {_conflict(one)}" for one in body["conflicts"][:_CONFLICTS_MAX]]
        more = body.get("total", 0) - len(listed)
        return [*listed, f"  … and {more:,} more"] if more > 0 else listed
    return []


def _conflict(one: Mapping[str, Any]) -> str:
    """``divergent_update Person.age Ann: base 30, source 31, target 32``."""
    where = ".".join(str(part) for part in (one.get("type"), one.get("property")) if part is not None)
    row = "" if one.get("id") is None else f" {one['id']}"
    sides = ", ".join(f"{side} {one.get(side)!r}" for side in ("base", "source", "target"))
    return f"{one.get('kind')} {where}{row}: {one.get('message') or sides}"


def _violation(violation: Mapping[str, Any]) -> str:
    place = " ".join(
        part
        for part in (
            str(violation.get("source") or ""),
            f"record {violation['record']}" if violation.get("record") is not None else "",
            _who(violation),
        )
        if part
    )
    return f"  {place}: {violation.get('message')}" if place else f"  {violation.get('message')}"


def _who(violation: Mapping[str, Any]) -> str:
    """The id of the row, where the message does not say it."""
    shown = json.dumps(violation.get("id"), ensure_ascii=False)
    return f"({shown})" if violation.get("id") and shown not in str(violation.get("message")) else ""


# --- values as text -----------------------------------------------------------------------------------------------------


def clean(text: str) -> str:
    """``text`` on one line and harmless to a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(char: str) -> str:
    code = ord(char)
    if char in "\n\r\t":
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}[char]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def show(value: Any) -> str:
    """A value as a cell."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple, dict)):
        return clean(json.dumps(value, ensure_ascii=False, default=str))
    return clean(str(value))


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def duration_text(seconds: float) -> str:
    """``3 min``: one unit, rounded down."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{int(max(0.0, seconds))} s"
