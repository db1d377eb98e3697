"""What a key may look like. Owns the check that every path below a root goes through; touches no storage.

Keys come from our own layout, but also out of manifest rows and intents, which anybody with write access to the store
may have written. So every key is checked where it is used, and one that could leave the root is refused.
"""

from __future__ import annotations

import re
from typing import Final

from omnigraph.core.errors import InvalidInput

# Object stores stop at 1,024 bytes for the whole key, prefix of the root included.
KEY_BYTES_MAX: Final = 800
# File systems stop at 255 bytes for one name, and a temporary name adds 21.
SEGMENT_BYTES_MAX: Final = 220

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
# Temporary files of local writes, ours and Lance's. They are no objects.
_TEMPORARY = re.compile(r"#[0-9]+$|^\.tmp[A-Za-z0-9]{6}$")


def is_temporary_name(name: str) -> bool:
    """Whether a file of this name is a write that has not been finished."""
    return _TEMPORARY.search(name) is not None


def check_key(key: str) -> str:
    """Return ``key`` if it names exactly one object below the root, else raise ``InvalidInput``."""
    reason = _fault(key)
    if reason is not None:
        raise InvalidInput(f"not a path below the root: {reason}: key={key[:80]!r}", reason=reason)
    return key


def check_prefix(prefix: str) -> str:
    """Return ``prefix`` if every key that starts with it is below the root; empty means everything."""
    if prefix:
        check_key(prefix.removesuffix("/"))
    return prefix


def _fault(key: str) -> str | None:
    if not key:
        return "empty"
    if key.startswith("/"):
        return "absolute"
    if "\\" in key:
        return "has a backslash"
    if _CONTROL.search(key):
        return "has a control character"
    try:
        size_bytes = len(key.encode())
    except UnicodeEncodeError:
        return "is not Unicode text"
    if size_bytes > KEY_BYTES_MAX:
        return f"longer than {KEY_BYTES_MAX} bytes"
    for segment in key.split("/"):
        if segment in ("", ".", ".."):
            return "has an empty part or dots for one"
        if len(segment.encode()) > SEGMENT_BYTES_MAX:
            return f"has a part longer than {SEGMENT_BYTES_MAX} bytes"
        if _TEMPORARY.search(segment):
            return "has the name of a temporary file"
    return None
