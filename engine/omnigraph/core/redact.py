"""Keeping credentials out of everything that is shown, stored or sent. Owns the list of what is secret.

``Secrets`` holds connection options: it hands values to who asks for them by key, and shows or pickles none of the
secret ones. ``redact_text`` cleans text that comes from elsewhere before it enters an error or a log.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

MASK: Final = "***"

# Parts of option names. Matched anywhere, so that an unforeseen spelling is hidden rather than shown.
_SECRET_NAME = re.compile(r"secret|token|password|passwd|credential|access_key|account_key|sas|customer_key", re.I)
# What looks like it but says where to find a secret, or how, rather than what it is.
_NOT_SECRET: Final = frozenset(
    {
        "aws_web_identity_token_file",
        "aws_container_authorization_token_file",
        "aws_container_credentials_relative_uri",
        "aws_container_credentials_full_uri",
    }
)
_SECRET_ENVIRONMENT: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")

# A value shorter than this is not looked for in text: masking every "x" would destroy the message and protect nothing.
_VALUE_CHARS_MIN: Final = 6

_PATTERNS: Final = (
    # scheme://user:password@host
    (re.compile(r"(?<=://)[^/\s@'\"]+@"), MASK + "@"),
    # signed URLs and authorization headers
    (re.compile(r"(?i)(X-Amz-(?:Signature|Credential|Security-Token)=)[^&\s'\"]+"), r"\1" + MASK),
    (re.compile(r"(?i)\b((?:Signature|Credential)=)[^,&\s'\"]+"), r"\1" + MASK),
    (re.compile(r"(?i)(authorization['\"]?\s*[:=]\s*['\"]?(?:bearer|basic)\s+)[^\s'\",]+"), r"\1" + MASK),
    # key = value, in the notations of dictionaries, JSON, query strings and debug prints
    (
        re.compile(
            r"(?i)((?:secret_?access_?key|session_?token|security_?token|access_?key_?id|password)"
            r"['\"]?\s*[:=]\s*(?:Some\()?\s*['\"]?)[^\s'\",;&)}]+"
        ),
        r"\1" + MASK,
    ),
    # access key ids of AWS have a shape of their own
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), MASK),
)

# Secret values seen by this process, so that they are found wherever they turn up. Only ever added to.
_known: set[str] = set()


def is_secret_name(name: str) -> bool:
    """Whether the value of the option ``name`` must not be shown."""
    return name.lower() not in _NOT_SECRET and _SECRET_NAME.search(name) is not None


def redact_text(text: str) -> str:
    """``text`` without credentials: those of this process and whatever looks like one."""
    from_environment = {value for name in _SECRET_ENVIRONMENT if (value := os.environ.get(name))}
    # Longest first: one secret may be the beginning of another.
    for value in sorted(_known | from_environment, key=len, reverse=True):
        if len(value) >= _VALUE_CHARS_MIN:
            text = text.replace(value, MASK)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


class Secrets(Mapping[str, str]):
    """Options by lower-case name, some of them secret.

    Reads like a mapping. ``repr`` masks secret values, pickling leaves them out: the other side takes its own from its
    environment, so that nothing that is sent or stored ever holds one.
    """

    __slots__ = ("_values", "_withheld")

    def __init__(self, values: Mapping[str, str] | None = None, *, withheld: frozenset[str] = frozenset()) -> None:
        self._values = {name.lower(): value for name, value in (values or {}).items()}
        self._withheld = withheld
        _known.update(value for name, value in self._values.items() if value and is_secret_name(name))

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def withheld(self) -> frozenset[str]:
        """Names whose values were left behind when this object was pickled."""
        return self._withheld

    def shown(self) -> dict[str, str]:
        """A plain copy with the secret values masked."""
        return {name: MASK if is_secret_name(name) else redact_text(value) for name, value in self._values.items()}

    def revealed(self) -> dict[str, str]:
        """A plain copy, for handing to a client. Never keep, show or store it."""
        return dict(self._values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secrets):
            return NotImplemented
        return self._values == other._values

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        return f"Secrets({self.shown()!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        public = {name: value for name, value in self._values.items() if not is_secret_name(name)}
        return _restored, (public, sorted(self._withheld | (self._values.keys() - public.keys())))


def _restored(public: Mapping[str, str], withheld: list[str]) -> Secrets:
    return Secrets(public, withheld=frozenset(withheld))


class RedactingFilter(logging.Filter):
    """For handlers: no record leaves with a credential in its text or its traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        clean = redact_text(message)
        if clean != message:
            record.msg, record.args = clean, None
        if record.exc_info and not record.exc_text:
            record.exc_text = redact_text(logging.Formatter().formatException(record.exc_info))
        elif record.exc_text:
            record.exc_text = redact_text(record.exc_text)
        return True
