"""Whether a graph is what its manifest says: the report of ``graph.verify``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from omnigraph.core.shown import count_text, html_table
from omnigraph.wire.model import Count, Model

DAMAGE: Final = "damage"  # durable state contradicts itself
PENDING: Final = "pending"  # an interrupted write; a recovery ends it
GARBAGE: Final = "garbage"  # harmless; a cleanup takes it

_COMMANDS: Final = {PENDING: "recover", GARBAGE: "cleanup"}


@dataclass(frozen=True)
class Problem(Model):
    """One thing that is not as it should be. ``command`` resolves it, where one does."""

    derived: ClassVar[tuple[str, ...]] = ("command",)

    severity: Literal["damage", "pending", "garbage"]
    code: str
    message: str
    table_key: str | None = None

    @property
    def command(self) -> str | None:
        return "repair" if self.code == "drift" else _COMMANDS.get(self.severity)


@dataclass(frozen=True, repr=False)
class VerifyReport(Model):
    """``ok``: no damage. ``clean``: nothing that an interrupted write left, either. ``files`` and ``bytes``: what was compared
    with its checksums."""

    derived: ClassVar[tuple[str, ...]] = ("ok", "clean", "verdict")

    uri: str
    branches: tuple[str, ...]
    commit_id: str
    manifest_version: Count
    deep: bool
    tables: Count
    rows: Count
    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = ()
    files: Count = 0
    bytes: Count = 0

    @property
    def ok(self) -> bool:
        return not any(problem.severity == DAMAGE for problem in self.problems)

    @property
    def clean(self) -> bool:
        return not any(problem.severity in (DAMAGE, PENDING) for problem in self.problems)

    @property
    def verdict(self) -> str:
        if not self.problems:
            return "sound"
        counts = [
            count_text(number, word, word)
            for word in (DAMAGE, PENDING, GARBAGE)
            if (number := sum(problem.severity == word for problem in self.problems))
        ]
        return ("sound, but " if self.ok else "not sound: ") + ", ".join(counts)

    def __repr__(self) -> str:
        lines = [
            f"<VerifyReport {self.uri} at {self.commit_id}: {self.tables} tables, {self.rows} rows; {self.verdict}"
        ]
        lines += [f"  {problem.severity} {problem.code}: {problem.message}" for problem in self.problems[:20]]
        return "\n".join(lines) + ">"

    def _repr_html_(self) -> str:
        rows = [(p.severity, p.code, p.table_key, p.message, p.command) for p in self.problems]
        title = f"{self.uri} at {self.commit_id}: {self.verdict}"
        return html_table(("severity", "code", "table", "message", "command"), rows, title, empty="no problems")
