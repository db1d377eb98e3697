"""Requests to S3, repeated here and not by the client. Owns the client, its connections and the counting of what is sent.

Every request may be repeated, a create included (``s3`` reads the object back); the count and the time are bounded, and each
attempt is counted as the request that it is. Botocore is loaded on use.
"""

from __future__ import annotations

import functools
import os
import random
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from omnigraph.core.clock import Clock
from omnigraph.core.errors import InvalidInput, OmnigraphError, StoreRefused, StoreUnavailable
from omnigraph.core.meter import Meter
from omnigraph.core.redact import Secrets, redact_text
from omnigraph.store import layout, s3_errors, s3_options

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

T = TypeVar("T")

# A store that does not accept a connection in five seconds, or is silent for twenty, is treated as gone.
_CONNECT_S: Final = 5
_READ_S: Final = 20
# Attempts of one request, the first included; the longest wait before each further one (a random part of it is
# waited); and the time after which no further one begins.
_ATTEMPTS: Final = 4
_BACK_OFF_S: Final = (0.1, 0.4, 1.6)
_ATTEMPTS_S: Final = 30.0
# Connections kept open: a commit over many tables lists and deletes beside Lance's own traffic.
_CONNECTIONS: Final = 64


class Requests:
    """What one store sends. Safe to use from several threads, and after a fork."""

    def __init__(self, uri: str, options: Secrets, clock: Clock, jitter: Callable[[], float] | None) -> None:
        self._uri = uri
        self._options = options
        self._clock = clock
        self._jitter = jitter or random.Random().random
        self._lock = threading.Lock()
        self._sent = threading.local()
        self._connection_: s3_options.Connection | None = None
        self._client_: S3Client | None = None
        self._client_pid = 0

    def send(
        self,
        request: Callable[[S3Client], T],
        what: str,
        key: str,
        meter: Meter | None,
        *,
        written: int = 0,
        expected: Callable[[Exception], bool] = lambda _: False,
    ) -> T | None:
        """Make one request, more than once if need be. ``None`` if it fails in the way that is ``expected``."""
        give_up = self._clock.monotonic() + _ATTEMPTS_S
        sent_before = 0
        for attempt in range(_ATTEMPTS):
            try:
                answer = self._attempt(request, what, key, meter, written, expected)
            except StoreUnavailable:
                if attempt == _ATTEMPTS - 1 or self._clock.monotonic() >= give_up:
                    raise
            except StoreRefused as error:
                if sent_before:
                    # The copy that was refused is not the one that may have landed before.
                    error.facts["outcome"] = "unknown"
                raise
            else:
                return answer
            sent_before += self._sent.requests
            self._clock.sleep(_BACK_OFF_S[attempt] * self._jitter())
        raise AssertionError("unreachable")

    def _attempt(
        self,
        request: Callable[[S3Client], T],
        what: str,
        key: str,
        meter: Meter | None,
        written: int,
        expected: Callable[[Exception], bool],
    ) -> T | None:
        from botocore.exceptions import BotoCoreError, ClientError
        from urllib3.exceptions import HTTPError

        self._sent.requests = 0
        try:
            return request(self.client())
        except (BotoCoreError, ClientError, HTTPError, OSError) as error:
            if expected(error):
                return None
            raise self._translated(error, f"cannot {what}", key) from error
        finally:
            # Not always one: without credentials none is sent, and a redirect to another region is followed.
            sent = self._sent.requests
            if meter is not None and sent:
                meter.count(layout.request_class(key), sent, bytes_written=written * sent)

    def _translated(self, error: Exception, what: str, key: str) -> OmnigraphError:
        translated = s3_errors.translate(error, what, f"{self._uri}/{key}" if key else self._uri)
        if self._options.withheld and s3_errors.is_without_credentials(error):
            translated.hint = (
                "credentials passed as storage_options are not sent to other processes: "
                "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in this one"
            )
        return translated

    def connection(self) -> s3_options.Connection:
        """Options, environment and profile, as they were at the first use."""
        found = self._connection_
        if found is None:
            found = self._connection_ = s3_options.resolve(self._options)
        return found

    def client(self) -> S3Client:
        # Sockets do not survive a fork: parent and child would read each other's answers.
        client = self._client_
        if client is not None and self._client_pid == os.getpid():
            return client
        with self._lock:
            if self._client_ is None or self._client_pid != os.getpid():
                self._client_ = self._new_client()
                self._client_pid = os.getpid()
            return self._client_

    def _new_client(self) -> S3Client:
        from botocore.config import Config
        from botocore.session import Session

        connection = self.connection()
        settings: dict[str, Any] = {
            "connect_timeout": _CONNECT_S,
            "read_timeout": _READ_S,
            "retries": {"total_max_attempts": 1, "mode": "standard"},
            "max_pool_connections": _CONNECTIONS,
            # Stores other than AWS's refuse or mangle the checksum trailers that newer clients add by themselves.
            "request_checksum_calculation": "when_required",
            "response_checksum_validation": "when_required",
            # The connection is resolved already, for Lance as well; nothing may be added to one of the two.
            "ignore_configured_endpoint_urls": True,
            **connection.for_config(),
        }
        try:
            # boto3's core without its object layer, which would double the time to the first request.
            session = Session()
            session.register_component("data_loader", _service_descriptions())
            client = cast("S3Client", session.create_client("s3", config=Config(**settings), **connection.for_client()))
        except ValueError as error:
            raise InvalidInput(f"cannot connect: {redact_text(str(error))}: uri={self._uri}") from error
        client.meta.events.register("before-send.s3", self._count_sent)
        return client

    def _count_sent(self, **_: Any) -> None:
        self._sent.requests = getattr(self._sent, "requests", 0) + 1


@functools.cache
def _service_descriptions() -> Any:
    """Parsing the client's description of S3 takes longer than most requests; stores of one process share it."""
    from botocore.loaders import create_loader

    return create_loader()
