"""What verify finds: one problem at a time, how bad it is, and the command that resolves it."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.upkeep.report import Report

DAMAGE = "damage"  # durable state contradicts itself
PENDING = "pending"  # an interrupted write; a recovery ends it
RUBBISH = "rubbish"  # harmless; a cleanup takes it

_COMMANDS = {PENDING: "recover", RUBBISH: "cleanup"}


@dataclass(frozen=True)
class Problem(Report):
    """One thing that is not as it should be. ``command`` resolves it, where one does."""

    severity: str
    code: str
    message: str
    table_key: str | None = None

    @property
    def command(self) -> str | None:
        return "repair" if self.code == "drift" else _COMMANDS.get(self.severity)

    def to_dict(self) -> dict[str, str | None]:
        return {**vars(self), "command": self.command}
