"""Reading a file that holds a text of the user's: a schema, a query, parameters. Owns what is said when it cannot be read."""

from __future__ import annotations

from pathlib import Path

from omnigraph.core.errors import InvalidInput
from omnigraph.core.limits import DEFAULT_LIMITS, Limits


def read_text(path: Path, what: str, limits: Limits = DEFAULT_LIMITS) -> str:
    """The text; ``what`` says what kind of file it is."""
    try:
        limits.check("source_text_bytes", path.stat().st_size, where=str(path))
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidInput(
            f"the {what} {path} cannot be read: {error.strerror or error}", hint="check the path"
        ) from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the {what} {path} is not UTF-8: {error}", hint="save it as UTF-8") from error
