"""From a URI to a store. Owns which URIs are served and their one normal form."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

from omnigraph.core.clock import SYSTEM_CLOCK, Clock
from omnigraph.core.errors import InvalidInput
from omnigraph.core.redact import redact_text
from omnigraph.store.interface import Store
from omnigraph.store.keys import check_key
from omnigraph.store.local import LocalStore
from omnigraph.store.s3_options import canonical_options

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]")
# Characters that the two clients of a bucket would decode differently.
_PREFIX_REFUSED = re.compile(r"[%?#:*\"<>|\\]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SERVED: Final = "give a path, file:///path or s3://bucket/prefix"


def open_store(
    uri: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None, *, clock: Clock = SYSTEM_CLOCK
) -> Store:
    """The store at ``uri``. Sends no request and makes no folder. Options are checked wherever the graph lies: one that is
    misspelt is found before the graph moves to a store."""
    text = os.fspath(uri)
    if not isinstance(text, str):
        raise InvalidInput("the URI of a graph is text, not bytes", hint=_SERVED)
    if not text.isascii() and text != text.encode("utf-8", "replace").decode():
        raise InvalidInput(f"the URI of a graph is not UTF-8: {ascii(text)[:200]}", hint="rename the folder")
    options = canonical_options(storage_options)
    shown = redact_text(text)[:200]
    if not text.strip() or _CONTROL.search(text):
        raise InvalidInput(f"not the URI of a graph: {shown!r}", hint=_SERVED)
    scheme = _SCHEME.match(text)
    if scheme is None:
        if text.lower().startswith(("file:", "s3:")):
            raise InvalidInput(f"not the URI of a graph: {shown!r}", hint=_SERVED)
        return LocalStore(_absolute(os.path.expanduser(text)))
    match scheme[1].lower():
        case "file":
            return LocalStore(_absolute(_path_of_file_uri(text, shown)))
        case "s3":
            # Not at the top: who stays on a disk need not load it.
            from omnigraph.store.s3 import S3Store

            bucket, prefix = _bucket_and_prefix(text[len(scheme[0]) :], shown)
            return S3Store(bucket, prefix, options, clock=clock)
        case other:
            hint = "write s3:// instead" if other in ("s3a", "s3n") else _SERVED
            raise InvalidInput(f"no store is served at such a URI: scheme={other} uri={shown!r}", hint=hint)


def _absolute(path: str) -> str:
    # Without links: forks name the place of what they were made from as it is written here, for everybody.
    return os.path.realpath(path)


def _path_of_file_uri(text: str, shown: str) -> str:
    parts = urlsplit(text)
    if parts.netloc not in ("", "localhost") or parts.query or parts.fragment or not parts.path.startswith("/"):
        raise InvalidInput(
            f"not the URI of a local folder: {shown!r}", hint="write file:///absolute/path, with %23 for #"
        )
    path = unquote(parts.path)
    if _CONTROL.search(path):
        raise InvalidInput(f"not the URI of a local folder: {shown!r}", hint=_SERVED)
    return path


def _bucket_and_prefix(rest: str, shown: str) -> tuple[str, str]:
    bucket, _, path = rest.partition("/")
    if "@" in bucket:
        raise InvalidInput("credentials do not belong into a URI", hint="use storage_options or the environment")
    if not _BUCKET.fullmatch(bucket):
        raise InvalidInput(f"not the name of a bucket: {bucket[:80]!r}", hint="write s3://bucket/prefix")
    prefix = "/".join(part for part in path.split("/") if part)
    if prefix:
        if _PREFIX_REFUSED.search(prefix):
            raise InvalidInput(
                f"a prefix with characters that URIs give a meaning: {shown!r}", hint="rename the prefix"
            )
        check_key(prefix)
    return bucket, prefix
