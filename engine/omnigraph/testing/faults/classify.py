"""What a request to a store is about, told from its method and key alone.

Pure. Follows the paths of a graph (``__manifest``, ``__recovery``, ``__boundary``, tables) and, inside a table, Lance's
directory layout. Classes are exhaustive: their counts add up to the total.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

CLASSES = ("data", "versions", "manifest", "intent", "boundary", "schema", "index", "other")

# Where in a graph. The manifest's own dataset is "manifest" as a whole, its data files included.
_BY_PLACE = {
    "__manifest": "manifest",
    "__recovery": "intent",
    "__boundary": "boundary",
    "__schema": "schema",
    "__staging": "other",
    "__recoveries": "other",
    "_graph_commit_recoveries.lance": "other",
}
# Where in a table. The innermost segment wins, since a root may have any name.
_BY_FOLDER = {
    "_versions": "versions",
    "_transactions": "versions",
    "_refs": "versions",
    "_indices": "index",
    "_deletions": "data",
}


@dataclass(frozen=True, slots=True)
class Target:
    """Which object, or which listing, a request names. ``operation`` is get, head, list, put, delete, multipart, ..."""

    operation: str
    bucket: str
    key: str
    cls: str
    mutating: bool


def classify_key(key: str) -> str:
    segments = key.split("/")
    for segment in segments:
        if segment in _BY_PLACE:
            return _BY_PLACE[segment]
    # "data" is a name that a root may have as well: it counts only as the folder that holds the object.
    if segments[-2:-1] == ["data"]:
        return "data"
    return next((_BY_FOLDER[segment] for segment in reversed(segments) if segment in _BY_FOLDER), "other")


def parse_target(method: str, path_and_query: str) -> Target:
    """Path-style addressing: ``/bucket/key?query``. A listing is classified by its prefix."""
    parts = urlsplit(path_and_query)
    bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
    query = parse_qs(parts.query, keep_blank_values=True)
    operation = _operation(method, key, query)
    if operation == "list":
        key = query.get("prefix", [""])[0]
    return Target(operation, bucket, key, classify_key(key), method not in ("GET", "HEAD", "OPTIONS"))


def _operation(method: str, key: str, query: dict[str, list[str]]) -> str:
    if method == "GET":
        return "get" if key else "list"
    if method == "POST":
        return "delete-many" if "delete" in query else "multipart"
    if method == "PUT":
        if not key:
            return "create-bucket"
        return "multipart" if "uploadId" in query else "put"
    return method.lower()
