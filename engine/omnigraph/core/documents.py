"""Strict reading and canonical writing of the small JSON documents that a graph keeps. Owns what every reader refuses.

A document with an unknown, missing or repeated member, a number that is not finite, nesting over 32, a size over its bound,
a wrong checksum, or another name inside than the one it was read by, is not interpreted at all: deleting or publishing on
the strength of a guess loses data. ``refusals`` gives such a document its typed error: ``Corruption`` where it came from the
store, ``InvalidInput`` where a caller gave it. Knows no place and no document; the models stand beside their owners.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from omnigraph.core import canonical_json
from omnigraph.core.errors import Corruption, InvalidInput, LimitExceeded, UnsupportedStorage
from omnigraph.core.ids import is_ulid

SMALL_BYTES_MAX: Final = 4 * 1024 * 1024
CHECKSUM: Final = "checksum"
_NEWER_HINT: Final = "install a newer release of omnigraph-pipelines; this one leaves the object as it is"


class Malformed(ValueError):
    """What is wrong with a document. ``refusals`` names the object and makes a typed error of it."""


class NewerFormat(Malformed):
    """The document says a format above those that this release reads."""

    def __init__(self, found: int, served: int) -> None:
        super().__init__(f"it has format {found}, and this release reads format {served}")
        self.found = found
        self.served = served


class Document(BaseModel):
    """Base of the models of documents: no member more, none less, nothing converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


def check_ulid(text: str) -> str:
    if not is_ulid(text):
        raise ValueError(f"{text[:80]!r} is not a canonical ULID")
    return text


def check_ref(ref: str) -> str:
    """A ref is ``g-`` or ``f-`` and a ULID; anything else could lead out of the dataset's folder."""
    if ref[:2] not in ("g-", "f-") or not is_ulid(ref[2:]):
        raise ValueError(f"{ref[:80]!r} is not a ref that this engine makes")
    return ref


Ulid = Annotated[str, AfterValidator(check_ulid)]
Ref = Annotated[str, AfterValidator(check_ref)]

M = TypeVar("M", bound=BaseModel)


# --- writing ------------------------------------------------------------------------------------------------------------


def canonical(body: object) -> bytes:
    """Canonical JSON: members sorted by code point, no blanks, nothing escaped that need not be, finite numbers."""
    return canonical_json.dumps(body).encode()


def checksum(body: Mapping[str, Any]) -> str:
    """sha256 of the canonical JSON of the document without its ``checksum``."""
    return hashlib.sha256(canonical({key: value for key, value in body.items() if key != CHECKSUM})).hexdigest()


def digest(body: object) -> str:
    """sha256 of the canonical JSON of a value, in hex."""
    return hashlib.sha256(canonical(body)).hexdigest()


def seal(body: Mapping[str, Any]) -> bytes:
    """The bytes of a document with its checksum."""
    before, after = (
        canonical({key: value for key, value in body.items() if key != CHECKSUM and (key < CHECKSUM) is early})[1:-1]
        for early in (True, False)
    )
    # Encoded once: the checksum is put where its name stands among the members.
    digest = hashlib.sha256(b"{%s}" % b",".join(filter(None, (before, after)))).hexdigest()
    return b"{%s}" % b",".join(filter(None, (before, b'"%s":"%s"' % (CHECKSUM.encode(), digest.encode()), after)))


def check_size(data: bytes, what: str, limit: str, bytes_max: int) -> bytes:
    """The bytes, if a reader takes as many. Raises ``LimitExceeded`` before anything is durable."""
    if len(data) > bytes_max:
        raise LimitExceeded(
            f"{what} takes {len(data)} bytes; {bytes_max} are allowed",
            hint="split the change into several commits",
            limit=limit,
            bound=bytes_max,
            actual=len(data),
        )
    return data


# --- reading ------------------------------------------------------------------------------------------------------------


def loads(data: bytes, *, bytes_max: int = SMALL_BYTES_MAX) -> dict[str, Any]:
    """The members of a JSON object. Raises ``Malformed``."""
    if len(data) > bytes_max:
        raise Malformed(f"it has {len(data)} bytes; no document of its kind is larger than {bytes_max}")
    try:
        loaded = canonical_json.loads(data.decode("utf-8"))
        canonical(loaded)  # texts with half a surrogate pair are no UTF-8: such a document could not be written again
    except ValueError as error:
        raise Malformed(str(error)) from None
    if not isinstance(loaded, dict):
        raise Malformed("it is not a JSON object")
    return loaded


def unseal(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The document without its checksum. Raises ``Malformed`` where that does not match."""
    if raw.get(CHECKSUM) != checksum(raw):
        raise Malformed("its checksum does not match its content")
    return {key: value for key, value in raw.items() if key != CHECKSUM}


def check_format(raw: Mapping[str, Any], served: int) -> None:
    """Raises ``NewerFormat`` for a higher format, ``Malformed`` for any other that is not ``served``."""
    found = raw.get("format")
    if isinstance(found, int) and not isinstance(found, bool) and found > served:
        raise NewerFormat(found, served)
    if found != served or isinstance(found, bool):
        raise Malformed(f"format is {str(found)[:40]!r}, not {served}")


def fill(model: type[M], raw: Mapping[str, Any]) -> M:
    """The model of a document, JSON arrays as tuples where it says so. Raises ``Malformed`` naming the member."""
    try:
        return model.model_validate_json(canonical(raw))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise Malformed(f"{place}: {first['msg']}" if place else str(first["msg"])) from None


def read(
    model: type[M],
    data: bytes,
    *,
    format: int,
    bytes_max: int = SMALL_BYTES_MAX,
    sealed: bool = False,
    named: Mapping[str, object] | None = None,
) -> M:
    """The document in ``data``. ``named``: members that repeat the name by which the document was found, with the values
    that the name gives them. The format is judged before the members, as a later one may have others."""
    raw = loads(data, bytes_max=bytes_max)
    if sealed:
        raw = unseal(raw)
    check_format(raw, format)
    found = fill(model, raw)
    for member, expected in (named or {}).items():
        if raw.get(member) != expected:
            raise Malformed(f"its {member} is {str(raw.get(member))[:80]!r}; its name says {str(expected)[:80]!r}")
    return found


@contextlib.contextmanager
def refusals(place: str, what: str, *, hint: str | None = None, given: bool = False) -> Iterator[None]:
    """Make a typed error of ``Malformed``, other ``ValueError`` and ``InvalidInput``. ``what``: the kind of document, with its article
    ("the checkpoint"); ``given``: a caller handed it over, nothing durable is damaged."""
    try:
        yield
    except NewerFormat as error:
        raise UnsupportedStorage(
            f"{what} {place} cannot be read: {error}",
            hint=_NEWER_HINT,
            object=place,
            found=error.found,
            served=error.served,
        ) from None
    except (
        ValueError,
        RecursionError,
        InvalidInput,
    ) as error:  # InvalidInput: of a check that callers' values go through
        if given:
            raise InvalidInput(f"{what} {place} cannot be read: {error}", hint=hint, reason=str(error)) from None
        raise Corruption(
            f"{what} {place} cannot be read: {error}", hint=hint, object=place, reason=str(error)
        ) from None
