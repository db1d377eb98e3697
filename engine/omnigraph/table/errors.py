"""What a failure of Lance means, decided in one place.

Lance raises mostly plain ``OSError`` and ``ValueError`` with prose in them. This module turns each into a
:class:`Fate` (what became of the operation) and, for callers, into an error of :mod:`omnigraph.core.errors`. Types are
asked first, fixed fragments of text second; whatever matches neither is ``UNKNOWN`` and never "try again". It performs
no I/O and never looks at storage to resolve an unknown outcome: that is the commit protocol's work.
"""

from __future__ import annotations

import contextlib
import errno
import re
from collections.abc import Iterator
from enum import Enum

from omnigraph.core.errors import (
    Conflict,
    Corruption,
    InvalidInput,
    NotFound,
    OmnigraphError,
    StoreRefused,
    StoreUnavailable,
)
from omnigraph.core.interrupts import is_interrupt

_WRAPPERS = re.compile(r"(?:LanceError\(IO\): |Generic \S+ error: )+")
"""What Lance and its store client put around a message, once for each layer that it passes."""
_MESSAGE_CHARS_MAX = 300
"""Longer texts of Lance repeat themselves (nested causes); the full one stays on ``__cause__``."""


class Fate(Enum):
    """What a raised exception says about the operation that raised it."""

    NOT_LANDED_RETRYABLE = "not-landed-retryable"
    """Another commit came first; the same intent may succeed on a newer version."""
    NOT_LANDED_INCOMPATIBLE = "not-landed-incompatible"
    """Another commit makes this one meaningless (overwrite, restore)."""
    MISSING_VERSION = "missing-version"
    """The dataset, version or ref asked for does not exist (any more)."""
    MISSING_FILE = "missing-file"
    """A file that a version refers to does not exist, or is not what it claims to be."""
    REFUSED = "refused"
    """Credentials, permissions, a read-only store."""
    UNAVAILABLE = "unavailable"
    """No connection, an exhausted budget of retries, a full disk."""
    INVALID = "invalid"
    """The call itself was wrong: a column, a filter, a schema."""
    UNKNOWN = "unknown"
    """Nothing is known, least of all whether a commit landed."""

    @property
    def surely_not_landed(self) -> bool:
        """Whether a *commit* that raised this certainly left nothing behind.

        Everything else may have landed: an answer can be lost after its effect, and a refusal can be the answer to
        Lance's own second try of a request whose first try succeeded.
        """
        return self in (Fate.NOT_LANDED_RETRYABLE, Fate.NOT_LANDED_INCOMPATIBLE)


# Fragments are matched in this order: a conflict first (its text may quote anything), then what the store said.
_CONFLICT_RETRYABLE = (
    "Too many concurrent writers",
    "Retryable commit conflict",
    "Failed to commit the transaction after",
)
_CONFLICT_INCOMPATIBLE = ("Incompatible transaction",)
_REFUSED = (
    "lacked the necessary privileges",
    "lacked valid authentication credentials",
    _CREDENTIALS := "Failed to get AWS credentials",
    "CredentialsNotLoaded",
    "status code: 401",
    "status code: 403",
    "AccessDenied",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    _BUCKET := "NoSuchBucket",
    "Permission denied (os error 13)",
    "Operation not permitted (os error 1)",
    "Read-only file system (os error 30)",
)
_UNAVAILABLE = (
    "error sending request",
    "max_retries:",
    "status code: 5",
    "status code: 408",
    "status code: 429",
    "connection closed",
    "Connection reset",
    "Connection refused",
    "operation timed out",
    _REGION := "Failed to resolve region for bucket",
    "No space left on device (os error 28)",
    "Disk quota exceeded (os error 122)",
    "Too many open files (os error 24)",
)
_FULL = ("No space left on device", "Disk quota exceeded", "the disk is full", "the disk quota is used up")
_MISSING_VERSION = re.compile(
    r"Dataset at path .* was not found|Not found: \S*/_versions|Not found: \S*\.manifest|Ref not found|Ref \S* not found"
)
# The folder right above the file: a graph may itself lie below a folder called data.
_MISSING_FILE = re.compile(
    r"[Nn]ot found: \S*/((data|_deletions|_transactions|staging)|_indices/[^/\s]+)/[^/\s,]+(?![^\s,])"
    r"|Object at location \S* not found|[Nn]o such file or directory \(os error 2\)"
)
_DAMAGED = (
    "file size is too small",
    "does not have sufficient data",
    "does not appear to be a Lance file",
    "Invalid format",
    "invalid magic",
    "for object of size",
    "exceeds blob object size",
    "failed to fill whole buffer",
    "Arrow file does not contain correct footer",
    "invalid seek to a negative or overflowing position",
    "Corrupt",
)
_INVALID = ("Invalid user input", "Schema error", "Append with different schema", "lance error: Invalid")
_REFUSED_ERRNO = {errno.EACCES, errno.EPERM, errno.EROFS}
_UNAVAILABLE_ERRNO = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ECONNREFUSED, errno.ECONNRESET}


def classify(exc: BaseException) -> Fate:
    """What became of the operation that raised ``exc``; total, and ``UNKNOWN`` when in doubt."""
    by_type = _by_type(exc)
    return _by_text(str(exc)) if by_type is None else by_type


def _by_type(exc: BaseException) -> Fate | None:
    from lance.commit import CommitConflictError

    if isinstance(exc, CommitConflictError):
        return Fate.NOT_LANDED_RETRYABLE if exc.retryable else Fate.NOT_LANDED_INCOMPATIBLE
    if isinstance(exc, TimeoutError):
        return Fate.UNKNOWN
    if isinstance(exc, OSError) and exc.errno is not None:
        if exc.errno in _REFUSED_ERRNO:
            return Fate.REFUSED
        if exc.errno in _UNAVAILABLE_ERRNO:
            return Fate.UNAVAILABLE
    if not isinstance(exc, OSError | ValueError | RuntimeError):
        return Fate.UNKNOWN
    return None


def _by_text(text: str) -> Fate:
    if _has(text, _CONFLICT_RETRYABLE):
        return Fate.NOT_LANDED_RETRYABLE
    if _has(text, _CONFLICT_INCOMPATIBLE):
        return Fate.NOT_LANDED_INCOMPATIBLE
    if _has(text, _REFUSED):
        return Fate.REFUSED
    if _has(text, _UNAVAILABLE):
        return Fate.UNAVAILABLE
    # Data files live under the dataset's own path, so the narrower pattern goes first.
    if _MISSING_FILE.search(text):
        return Fate.MISSING_FILE
    if _MISSING_VERSION.search(text):
        return Fate.MISSING_VERSION
    if _has(text, _DAMAGED):
        return Fate.MISSING_FILE
    if _has(text, _INVALID):
        return Fate.INVALID
    return Fate.UNKNOWN


def is_full(error: BaseException) -> bool:
    """Whether a disk without room is behind this error. Trying again at once cannot help, unlike with a store that is busy."""
    one: BaseException | None = error
    seen: set[int] = set()  # an error that is raised from itself is behind itself, for ever
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        if _has(str(one), _FULL) or (isinstance(one, OSError) and one.errno in (errno.ENOSPC, errno.EDQUOT)):
            return True
        one = one.__cause__
    return False


def no_room(what: str, error: BaseException) -> StoreUnavailable:
    """The error for a step that a full disk has stopped."""
    return StoreUnavailable(
        f"{what}: the disk is full: {brief(error)}", hint="free space on the disk, then run `omnigraph recover`"
    )


def _has(text: str, fragments: tuple[str, ...]) -> bool:
    return any(fragment in text for fragment in fragments)


@contextlib.contextmanager
def panics_raised() -> Iterator[None]:
    """A panic inside Lance is a failure like any other. What carries it into Python is no ``Exception``, as if the user had
    asked this process to stop. The other way round, an interrupt that Lance reports as a failure is one again."""
    try:
        yield
    except BaseException as error:
        if is_interrupt(error) and not isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        if type(error).__name__ != "PanicException":  # each extension module has a class of its own for them
            raise
        raise RuntimeError(f"Lance panicked: {error}") from error


_ERRORS: dict[Fate, type[OmnigraphError]] = {
    Fate.NOT_LANDED_RETRYABLE: Conflict,
    Fate.NOT_LANDED_INCOMPATIBLE: Conflict,
    Fate.MISSING_VERSION: NotFound,
    Fate.MISSING_FILE: Corruption,
    Fate.REFUSED: StoreRefused,
    Fate.UNAVAILABLE: StoreUnavailable,
    Fate.INVALID: InvalidInput,
}


def translate(exc: BaseException, what: str) -> OmnigraphError:
    """The error to raise ``from exc``; ``what`` says in a few words what was being done ("reading node:Person").

    For reads and staging. A commit of unknown fate is not translated here: its owner asks storage first and then
    raises ``OutcomeUnknown`` with the commit id.
    """
    if isinstance(exc, OmnigraphError):
        return exc
    fate = classify(exc)
    kind = _ERRORS.get(fate)
    if kind is None:
        # An unexplained I/O failure is the store's; anything else is ours and must not look like weather.
        kind = StoreUnavailable if isinstance(exc, OSError) else OmnigraphError
    # What the store has answered is a page of XML.
    said = "the bucket does not exist" if fate is Fate.REFUSED and _BUCKET in str(exc) else brief(exc)
    return kind(f"{what} failed: {said}", hint=_hint(str(exc)), fate=fate.value)


def _hint(text: str) -> str | None:
    """What to do where the class of the error does not say it; for what stands in the way of a first connection."""
    if _BUCKET in text:
        return "create the bucket, or correct its name in the URI"
    if _REGION in text:
        return "name the region (AWS_REGION, or the storage option aws_region) and check the bucket's name"
    if _CREDENTIALS in text:
        return "set credentials in the environment, or name a profile in AWS_PROFILE; `omnigraph doctor` says what it finds"
    return None


def brief(exc: BaseException) -> str:
    """The text of a foreign exception on one line, without the source positions that Lance appends."""
    text = re.sub(r",? ?\S*/rust\S*/\S+\.rs:\d+:\d+", "", str(exc)) or type(exc).__name__
    text = _WRAPPERS.sub("", " ".join(text.split()))
    text = text.partition(": ProviderError(")[0]  # a dump of the whole exchange
    return text if len(text) <= _MESSAGE_CHARS_MAX else text[: _MESSAGE_CHARS_MAX - 1] + "…"
