"""A store on S3 or what speaks its protocol. Owns the client, conditional puts and read-back; botocore is loaded on use.

Create-if-absent is a put with ``If-None-Match: *``. Who repeats a put may be told 412 about the first copy of it, and an
answer may be lost: so neither a 412 nor a time-out is believed. The object is read back, and the bytes decide.

Requests are repeated here, not by the client: every one of them may be (a create by the above), the count and the time
are bounded, and each attempt is counted as the request that it is.

Credentials never leave this object: ``repr`` masks them, pickling drops them, errors are cleaned.
"""

from __future__ import annotations

import functools
import os
import random
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from omnigraph.core import failpoints
from omnigraph.core.clock import SYSTEM_CLOCK, Clock
from omnigraph.core.errors import InvalidInput, OmnigraphError, StoreRefused, StoreUnavailable
from omnigraph.core.meter import Meter
from omnigraph.core.redact import Secrets, redact_text
from omnigraph.store import layout, s3_errors, s3_options
from omnigraph.store.interface import DeleteFailure, Entry, KeyExists
from omnigraph.store.keys import check_key, check_prefix, is_temporary_name

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
# Rounds of put and read-back before a create is given up, and the time they may take together.
_CREATE_ROUNDS: Final = 3
_CREATE_S: Final = 45.0
# The protocol's own bound on one multi-object delete.
_DELETE_BATCH: Final = 1_000
_PAGE: Final = 1_000


class S3Store:
    """``Store`` below one prefix of one bucket."""

    is_remote: Final = True

    def __init__(
        self,
        bucket: str,
        prefix: str,
        options: Secrets,
        *,
        clock: Clock = SYSTEM_CLOCK,
        jitter: Callable[[], float] | None = None,
    ) -> None:
        self._bucket = bucket
        self._prefix = prefix + "/" if prefix else ""
        self._options = options
        self._clock = clock
        self._jitter = jitter or random.Random().random
        self._lock = threading.Lock()
        self._sent = threading.local()
        self._connection_: s3_options.Connection | None = None
        self._client_: S3Client | None = None
        self._client_pid = 0
        self._bucket_seen = False
        self._probe_lock = threading.Lock()
        self._probed = False

    @property
    def uri(self) -> str:
        return f"s3://{self._bucket}/{self._prefix}".rstrip("/")

    def __repr__(self) -> str:
        return f"S3Store({self.uri!r}, {self._options!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return S3Store, (self._bucket, self._prefix.removesuffix("/"), self._options)

    def lance_uri(self, relative: str) -> str:
        return f"s3://{self._bucket}/{self._prefix}{check_key(relative)}"

    def lance_options(self) -> dict[str, str] | None:
        return self._connection().for_lance()

    # --- writing --------------------------------------------------------------------------------------------------------

    def check_conditional_create(self, *, meter: Meter | None = None) -> None:
        with self._probe_lock:
            if self._probed:
                return
            # The first refusal is the proof, so the object stays: whoever comes next is refused at once.
            for _ in range(2):
                if not self._put_new(layout.PROBE, b"", meter):
                    self._probed = True
                    return
            raise StoreRefused(
                f"the store lets two creates of one key succeed, so no write on it is safe: uri={self.uri}",
                hint="use a store that honours If-None-Match on PUT",
                uri=self.uri,
            )

    def create(self, key: str, data: bytes, *, meter: Meter | None = None) -> None:
        check_key(key)
        self.check_conditional_create(meter=meter)
        failpoints.hit("store.create", key=key)
        deadline = self._clock.monotonic() + _CREATE_S
        for last in (False,) * (_CREATE_ROUNDS - 1) + (True,):
            try:
                if self._put_new(key, data, meter):
                    break
                failure: OmnigraphError | None = None
            except StoreUnavailable as error:
                failure = error
            found = self.get(key, meter=meter)
            if found == data:
                break
            if found is not None:
                raise KeyExists(f"another object is there: key={key}", key=key)
            # Not there: the request was lost, or what refused us has been deleted since. A put that is still under way
            # carries the same bytes, so sending them again cannot do harm.
            if last or self._clock.monotonic() >= deadline:
                raise failure or StoreUnavailable(
                    f"cannot create: others keep creating and deleting the object: key={key}", key=key
                )
        failpoints.hit("store.created", key=key)

    def _put_new(self, key: str, data: bytes, meter: Meter | None) -> bool:
        """One conditional put: true if it was acknowledged, false if something is in the way (perhaps this very put)."""
        answer = self._send(
            lambda client: client.put_object(
                Bucket=self._bucket,
                Key=self._prefix + key,
                Body=data,
                IfNoneMatch="*",
                **self._connection().for_writes(),
            ),
            "create",
            key,
            meter,
            written=len(data),
            expected=s3_errors.is_condition_refused,
        )
        return answer is not None

    def replace(self, key: str, data: bytes, *, meter: Meter | None = None) -> None:
        check_key(key)
        self.check_conditional_create(meter=meter)
        failpoints.hit("store.replace", key=key)
        self._send(
            lambda client: client.put_object(
                Bucket=self._bucket, Key=self._prefix + key, Body=data, **self._connection().for_writes()
            ),
            "write",
            key,
            meter,
            written=len(data),
        )
        failpoints.hit("store.replaced", key=key)

    # --- reading --------------------------------------------------------------------------------------------------------

    def get(self, key: str, *, meter: Meter | None = None) -> bytes | None:
        check_key(key)
        data = self._send(
            lambda client: client.get_object(
                Bucket=self._bucket, Key=self._prefix + key, **self._connection().for_requests()
            )["Body"].read(),
            "read",
            key,
            meter,
            expected=s3_errors.is_absent,
        )
        if data is not None and meter is not None:
            meter.count(layout.request_class(key), 0, bytes_read=len(data))
        return data

    def exists(self, key: str, *, meter: Meter | None = None) -> bool:
        return self.size(key, meter=meter) is not None

    def size(self, key: str, *, meter: Meter | None = None) -> int | None:
        check_key(key)
        answer = self._send(
            lambda client: client.head_object(
                Bucket=self._bucket, Key=self._prefix + key, **self._connection().for_requests()
            ),
            "look up",
            key,
            meter,
            expected=s3_errors.is_absent,
            # An answer to HEAD has no body, so it cannot say whether the object or the whole bucket is missing.
            proves_bucket=False,
        )
        if answer is None:
            self._check_bucket(meter)
            return None
        return answer["ContentLength"]

    def _check_bucket(self, meter: Meter | None) -> None:
        """Once: a bucket that does not exist is an error, not an empty store."""
        if self._bucket_seen:
            return
        try:
            answer = self._send(
                lambda client: client.head_bucket(Bucket=self._bucket),
                "look up",
                "",
                meter,
                expected=s3_errors.is_absent,
                proves_bucket=False,
            )
        except StoreRefused:
            return  # refused for this one request, so the bucket is there; the next request speaks for itself
        if answer is None:
            raise s3_errors.no_such_bucket("cannot look up", self.uri)
        self._bucket_seen = True

    def list(self, prefix: str, *, start_after: str | None = None, meter: Meter | None = None) -> list[Entry]:
        check_prefix(prefix)
        page: dict[str, Any] = {"Bucket": self._bucket, "Prefix": self._prefix + prefix, "MaxKeys": _PAGE}
        if start_after is not None:
            page["StartAfter"] = self._prefix + start_after
        found: list[Entry] = []
        seen_tokens: set[str] = set()
        while True:
            answer = self._send(
                lambda client: client.list_objects_v2(**page, **self._connection().for_requests()),
                "list",
                prefix,
                meter,
            )
            assert answer is not None  # nothing is expected to fail
            for item in answer.get("Contents", []):
                key = item["Key"].removeprefix(self._prefix)
                # Folder markers of consoles are no objects of ours; temporary names are hidden as on a disk.
                if key.endswith("/") or is_temporary_name(key) or (start_after is not None and key <= start_after):
                    continue
                found.append(Entry(key, item["Size"], round(item["LastModified"].timestamp() * 1_000_000)))
            if not answer.get("IsTruncated"):
                break
            token = answer.get("NextContinuationToken", "")
            if not token or token in seen_tokens:
                raise StoreUnavailable(f"the store does not finish a listing: prefix={prefix} uri={self.uri}")
            seen_tokens.add(token)
            page["ContinuationToken"] = token
        found.sort(key=lambda entry: entry.key)
        return found

    def folders(self, prefix: str, *, meter: Meter | None = None) -> tuple[str, ...]:
        check_prefix(prefix)
        page: dict[str, Any] = {
            "Bucket": self._bucket,
            "Prefix": self._prefix + prefix,
            "Delimiter": "/",
            "MaxKeys": _PAGE,
        }
        found: set[str] = set()
        seen_tokens: set[str] = set()
        while True:
            answer = self._send(
                lambda client: client.list_objects_v2(**page, **self._connection().for_requests()),
                "list",
                prefix,
                meter,
            )
            assert answer is not None  # nothing is expected to fail
            for item in answer.get("CommonPrefixes", []):
                found.add(item["Prefix"].removeprefix(self._prefix + prefix).removesuffix("/"))
            if not answer.get("IsTruncated"):
                return tuple(sorted(found - {""}))
            token = answer.get("NextContinuationToken", "")
            if not token or token in seen_tokens:
                raise StoreUnavailable(f"the store does not finish a listing: prefix={prefix} uri={self.uri}")
            seen_tokens.add(token)
            page["ContinuationToken"] = token

    # --- deleting -------------------------------------------------------------------------------------------------------

    def delete(self, key: str, *, meter: Meter | None = None) -> bool:
        """True even if there was nothing: the protocol does not say."""
        check_key(key)
        failpoints.hit("store.delete", key=key)
        answer = self._send(
            lambda client: client.delete_object(
                Bucket=self._bucket, Key=self._prefix + key, **self._connection().for_requests()
            ),
            "delete",
            key,
            meter,
            expected=s3_errors.is_absent,
        )
        return answer is not None

    def delete_many(self, keys: Iterable[str], *, meter: Meter | None = None) -> tuple[DeleteFailure, ...]:
        todo = [check_key(key) for key in keys]
        failures: list[DeleteFailure] = []
        for start in range(0, len(todo), _DELETE_BATCH):
            failures.extend(self._delete_batch(todo[start : start + _DELETE_BATCH], meter))
        return tuple(failures)

    def _delete_batch(self, keys: Sequence[str], meter: Meter | None) -> tuple[DeleteFailure, ...]:
        for key in keys:
            failpoints.hit("store.delete", key=key)
        try:
            answer = self._send(
                lambda client: client.delete_objects(
                    Bucket=self._bucket,
                    Delete={"Objects": [{"Key": self._prefix + key} for key in keys], "Quiet": True},
                    **self._connection().for_requests(),
                ),
                "delete",
                keys[0],
                meter,
            )
        except (StoreUnavailable, StoreRefused) as error:
            return tuple(DeleteFailure(key, error) for key in keys)
        assert answer is not None  # nothing is expected to fail
        return tuple(
            DeleteFailure(
                item.get("Key", "").removeprefix(self._prefix),
                s3_errors.of_code(item.get("Code", ""), f"cannot delete: {item.get('Message', '')}", self.uri),
            )
            for item in answer.get("Errors", [])
        )

    def prune(self, prefix: str) -> None:
        check_prefix(prefix)  # an object store has no folders ...

    def unfinished(self, prefix: str, before_us: int) -> tuple[Entry, ...]:
        check_prefix(prefix)
        return ()  # ... and no object before it is whole

    def delete_unfinished(self, entries: Iterable[Entry]) -> tuple[DeleteFailure, ...]:
        return ()

    # --- client ---------------------------------------------------------------------------------------------------------

    def _send(
        self,
        request: Callable[[S3Client], T],
        what: str,
        key: str,
        meter: Meter | None,
        *,
        written: int = 0,
        expected: Callable[[Exception], bool] = lambda _: False,
        proves_bucket: bool = True,
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
                self._bucket_seen |= proves_bucket
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
            return request(self._client())
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
        translated = s3_errors.translate(error, what, f"{self.uri}/{key}" if key else self.uri)
        if self._options.withheld and s3_errors.is_without_credentials(error):
            translated.hint = (
                "credentials passed as storage_options are not sent to other processes: "
                "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in this one"
            )
        return translated

    def _connection(self) -> s3_options.Connection:
        """Options, environment and profile, as they were at the first use."""
        found = self._connection_
        if found is None:
            found = self._connection_ = s3_options.resolve(self._options)
        return found

    def _client(self) -> S3Client:
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

        connection = self._connection()
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
            raise InvalidInput(f"cannot connect: {redact_text(str(error))}: uri={self.uri}") from error
        client.meta.events.register("before-send.s3", self._count_sent)
        return client

    def _count_sent(self, **_: Any) -> None:
        self._sent.requests = getattr(self._sent, "requests", 0) + 1


@functools.cache
def _service_descriptions() -> Any:
    """Parsing the client's description of S3 takes longer than most requests; stores of one process share it."""
    from botocore.loaders import create_loader

    return create_loader()
