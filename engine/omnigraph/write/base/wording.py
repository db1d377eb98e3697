"""The wording that all violations of rows share: who, where, what.

Owns neither the rules nor the places of rows; it puts the two together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol

from omnigraph.schema.catalog import TableType
from omnigraph.write.base.violations import Violation, show_value


class Places(Protocol):
    def place(self, row: int) -> tuple[int, str | None, int]: ...


class _Nowhere:
    """For violations of committed rows, which came with no record of this input."""

    def place(self, row: int) -> tuple[int, str | None, int]:
        raise LookupError(row)


NOWHERE: Final = _Nowhere()


@dataclass(frozen=True)
class Wording:
    """Violations of one table's rows: who, where, what."""

    type: TableType
    places: Places

    def row(
        self,
        row: int,
        code: str,
        reason: str,
        *,
        property: str | None = None,
        value: Any = None,
        expected: str | None = None,
        id: str | None = None,
    ) -> Violation:
        return self.placed(row, self.committed(code, reason, property=property, value=value, expected=expected, id=id))

    def placed(self, row: int, found: Violation) -> Violation:
        """The violation, with the place of its row."""
        return found.at(*self.places.place(row))

    def committed(
        self,
        code: str,
        reason: str,
        *,
        property: str | None = None,
        value: Any = None,
        expected: str | None = None,
        id: str | None = None,
    ) -> Violation:
        """About something that is no row of the input."""
        name = self.type.name
        return Violation(
            code,
            f"{name}.{property} {reason}" if property else f"{name} {reason}",
            table_key=self.type.table_key,
            type=name,
            property=property,
            id=None if id is None else id[:1024],
            value=None if value is None else show_value(value),
            expected=expected,
        )

    def record(self, row: int) -> str:
        """``record 7``, with its source if that is another."""
        number, source, _ = self.places.place(row)
        return f"{source} record {number}" if source else f"record {number}"
