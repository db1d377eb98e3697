"""Log records as JSON, one object a line, for log collectors.

Owns the form of a line. Where records go and from which level on is the program's business; ``to_stream`` is the short way.
Loggers of this package are below ``omnigraph``: ``omnigraph.operation`` has one record an operation.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import IO, Any

from omnigraph.core.redact import RedactingFilter, redact_text


class JsonFormatter(logging.Formatter):
    """A record as one JSON object: time, level, logger, message, then the facts that this package attaches."""

    def format(self, record: logging.LogRecord) -> str:
        body: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact_text(record.getMessage()),
        }
        facts = getattr(record, "omnigraph", None)
        if isinstance(facts, dict):
            body |= {name: value for name, value in facts.items() if name not in body}
        if record.exc_info:
            body["exception"] = redact_text(self.formatException(record.exc_info))
        return json.dumps(body, ensure_ascii=False, default=str)


def to_stream(stream: IO[str], *, level: int | str = logging.INFO, as_json: bool = True) -> logging.Handler:
    """Write the records of this package to ``stream``, without credentials. Returns the handler, for taking it off again."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        JsonFormatter() if as_json else logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    )
    handler.addFilter(RedactingFilter())
    logger = logging.getLogger("omnigraph")
    logger.addHandler(handler)
    logger.setLevel(level if isinstance(level, int) else level.upper())
    return handler


def take_off(handler: logging.Handler) -> None:
    """End what ``to_stream`` began."""
    logger = logging.getLogger("omnigraph")
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)
