"""Notes: small objects that a program which feeds the graph keeps beside it, to find them again from any machine.

Owns their names, and where they lie. They are no part of the graph: no snapshot shows them, no commit carries them, no
cleanup takes them, and nothing that the engine decides rests on one.
"""

from __future__ import annotations

from omnigraph.commit.engine import Engine
from omnigraph.commit.gate import entering
from omnigraph.core.kinds import methods_checked
from omnigraph.core.meter import Meter
from omnigraph.core.shown import html_or_text, html_table
from omnigraph.store import layout


@methods_checked
class Notes:
    """The notes of one graph, by name: up to four parts with slashes between them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __repr__(self) -> str:
        return f"<Notes of {self._engine.uri}>"

    def _repr_html_(self) -> str:
        return html_or_text(self, lambda: html_table(("note",), [(name,) for name in self.list()], repr(self)))

    def put(self, name: str, data: bytes) -> None:
        """Keep ``data`` under a name, whatever was there before. Readers see the old bytes or the new ones."""
        with entering(self._engine, "notes.put", writes=True):
            key = layout.note_key(name)
            self._engine.limits.check("note_bytes", len(data), where=name)
            self._engine.store.replace(key, data, meter=Meter())

    def get(self, name: str) -> bytes | None:
        """What is kept under a name; None if nothing is."""
        with entering(self._engine, "notes.get"):
            return self._engine.store.get(layout.note_key(name), meter=Meter())

    def list(self, under: str = "") -> tuple[str, ...]:
        """Names, sorted; only those below the part ``under``."""
        with entering(self._engine, "notes.list"):
            prefix = layout.NOTES if not under else f"{layout.note_key(under)}/"
            return tuple(one.key.removeprefix(layout.NOTES) for one in self._engine.store.list(prefix, meter=Meter()))

    def delete(self, name: str) -> None:
        """Afterwards nothing is kept under the name."""
        with entering(self._engine, "notes.delete", writes=True):
            self._engine.store.delete(layout.note_key(name), meter=Meter())
