"""May rows that were staged under an older schema be committed under the present one? Pure.

They may if every column that they hold is still that column, and every column that they lack is null where nothing is said:
nullable, and added without a fill. A column is recognised by its property and its field id together: Lance gives a number again once
the last file with it is gone, so the number alone could be that of another property.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from omnigraph.schema.catalog import TableType


@dataclass(frozen=True, slots=True)
class LiveField:
    """A column of a table as it is now. ``filled``: it was given a value in every row when it was added."""

    field_id: int
    nullable: bool
    filled: bool = False
    also: tuple[str, ...] = ()  # older ids of its property, since a merge


def live_fields(
    declared: TableType, column_ids: Mapping[str, int], filled: Collection[str] = ()
) -> dict[str, LiveField]:
    """The columns of a table by the id of their property, or ``id``, ``src``, ``dst``. ``column_ids``: field ids by name.
    ``filled``: ids of properties that were added with a fill since the rows were staged."""
    properties = {prop.name: prop for prop in declared.properties}
    found = {}
    for name, number in column_ids.items():
        prop = properties.get(name)
        if prop is None:
            found[name] = LiveField(number, nullable=False)
        else:
            found[prop.prop_id] = LiveField(number, prop.type.nullable, prop.prop_id in filled, prop.also)
    return found


def misfit(held: Mapping[str, int], live: Mapping[str, LiveField]) -> str | None:
    """Why rows with the columns ``held`` (field ids as in ``live``) cannot be committed, or None if they can."""
    by_any_id = {known: one for name, one in live.items() for known in (name, *one.also)}
    for name, number in sorted(held.items()):
        if name not in by_any_id:
            return f"field {number} was dropped"
        if by_any_id[name].field_id != number:
            return f"field {number} was replaced"
    for name, one in sorted(live.items()):
        if held.keys().isdisjoint((name, *one.also)) and (one.filled or not one.nullable):
            return f"{name} needs a value"
    return None
