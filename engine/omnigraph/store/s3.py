"""A store on S3 or what speaks its protocol. Owns conditional puts and read-back; ``s3_requests`` sends.

Create-if-absent is a put with ``If-None-Match: *``. Who repeats a put may be told 412 about the first copy of it, and an
answer may be lost: so neither a 412 nor a time-out is believed. The object is read back, and the bytes decide.

Credentials never leave this object: ``repr`` masks them, pickling drops them, errors are cleaned.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from omnigraph.core import failpoints
from omnigraph.core.clock import SYSTEM_CLOCK, Clock
from omnigraph.core.errors import OmnigraphError, StoreRefused, StoreUnavailable
from omnigraph.core.meter import Meter
from omnigraph.core.redact import Secrets
from omnigraph.store import layout, s3_errors
from omnigraph.store.interface import DeleteFailure, Entry, KeyExists
from omnigraph.store.keys import check_key, check_prefix, is_temporary_name
from omnigraph.store.s3_requests import Requests

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

T = TypeVar("T")

# Rounds of put and read-back before a create is given up, and the time they may take together.
_CREATE_ROUNDS: Final = 3
_CREATE_S: Final = 45.0
# The protocol's own bound on one multi-object delete.
_DELETE_BATCH: Final = 1_000
_PAGE: Final = 1_000
# What a store copies in one request.
_COPY_BYTES_MAX = 5 * 1024**3


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
        self._requests = Requests(self.uri, options, clock, jitter)
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
        return self._requests.connection().for_lance()

    # --- writing --------------------------------------------------------------------------------------------------------

    def check_conditional_create(self, *, meter: Meter | None = None) -> None:
        with self._probe_lock:
            if self._probed:
                return
            # The first refusal is the proof, so the object stays: the next create is refused at once.
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
                **self._requests.connection().for_writes(),
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
                Bucket=self._bucket, Key=self._prefix + key, Body=data, **self._requests.connection().for_writes()
            ),
            "write",
            key,
            meter,
            written=len(data),
        )
        failpoints.hit("store.replaced", key=key)

    def copy(self, source: str, target: str, *, meter: Meter | None = None) -> None:
        check_key(source)
        check_key(target)
        self.check_conditional_create(meter=meter)
        size = self.size(source, meter=meter) or 0  # where there is none, the request below says so
        origin: Any = {"Bucket": self._bucket, "Key": self._prefix + source}
        place: Any = {"Bucket": self._bucket, "Key": self._prefix + target}
        if size <= _COPY_BYTES_MAX:
            self._send(lambda client: client.copy_object(**place, CopySource=origin), "copy", source, meter)
            return
        begun: Any = self._send(lambda client: client.create_multipart_upload(**place), "copy", target, meter)
        place["UploadId"] = begun["UploadId"]
        parts = []
        for number, start in enumerate(range(0, size, _COPY_BYTES_MAX), 1):
            span = f"bytes={start}-{min(start + _COPY_BYTES_MAX, size) - 1}"
            part: Any = {**place, "PartNumber": number, "CopySource": origin, "CopySourceRange": span}
            done: Any = self._send(partial(_copy_part, part), "copy", source, meter)
            parts.append({"PartNumber": number, "ETag": done["CopyPartResult"]["ETag"]})
        whole: Any = {**place, "MultipartUpload": {"Parts": parts}}
        self._send(lambda client: client.complete_multipart_upload(**whole), "copy", target, meter)

    # --- reading --------------------------------------------------------------------------------------------------------

    def get(self, key: str, *, meter: Meter | None = None) -> bytes | None:
        check_key(key)
        data = self._send(
            lambda client: client.get_object(
                Bucket=self._bucket, Key=self._prefix + key, **self._requests.connection().for_requests()
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
        # An answer to HEAD has no body, so it cannot say whether the object or the whole bucket is missing.
        answer = self._requests.send(
            lambda client: client.head_object(
                Bucket=self._bucket, Key=self._prefix + key, **self._requests.connection().for_requests()
            ),
            "look up",
            key,
            meter,
            expected=s3_errors.is_absent,
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
            answer = self._requests.send(
                lambda client: client.head_bucket(Bucket=self._bucket),
                "look up",
                "",
                meter,
                expected=s3_errors.is_absent,
            )
        except StoreRefused:
            return  # refused for this one request, so the bucket is there; the next request speaks for itself
        if answer is None:
            raise s3_errors.no_such_bucket("cannot look up", self.uri)
        self._bucket_seen = True

    def list(self, prefix: str, *, start_after: str | None = None, meter: Meter | None = None) -> list[Entry]:
        check_prefix(prefix)
        after = {} if start_after is None else {"StartAfter": self._prefix + start_after}
        found: list[Entry] = []
        for item in self._listed("Contents", prefix, after, meter):
            key = item["Key"].removeprefix(self._prefix)
            # Folder markers of consoles are no objects of ours; temporary names are hidden as on a disk.
            if key.endswith("/") or is_temporary_name(key) or (start_after is not None and key <= start_after):
                continue
            found.append(Entry(key, item["Size"], round(item["LastModified"].timestamp() * 1_000_000)))
        found.sort(key=lambda entry: entry.key)
        return found

    def folders(self, prefix: str, *, meter: Meter | None = None) -> tuple[str, ...]:
        check_prefix(prefix)
        listed = self._listed("CommonPrefixes", prefix, {"Delimiter": "/"}, meter)
        found = {item["Prefix"].removeprefix(self._prefix + prefix).removesuffix("/") for item in listed}
        return tuple(sorted(found - {""}))

    def _listed(self, kind: str, prefix: str, options: dict[str, str], meter: Meter | None) -> Iterator[Any]:
        """The items of this kind on all pages of a listing."""
        page: dict[str, Any] = {"Bucket": self._bucket, "Prefix": self._prefix + prefix, "MaxKeys": _PAGE, **options}
        seen_tokens: set[str] = set()
        while True:
            answer = self._send(
                lambda client: client.list_objects_v2(**page, **self._requests.connection().for_requests()),
                "list",
                prefix,
                meter,
            )
            assert answer is not None  # nothing is expected to fail
            yield from cast("dict[str, Any]", answer).get(kind, [])
            if not answer.get("IsTruncated"):
                return
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
                Bucket=self._bucket, Key=self._prefix + key, **self._requests.connection().for_requests()
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
                    **self._requests.connection().for_requests(),
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

    def _send(
        self, request: Callable[[S3Client], T], what: str, key: str, meter: Meter | None, **facts: Any
    ) -> T | None:
        """Make one request. None if it fails in the way that is expected. Every answer but one to HEAD proves the bucket."""
        answer = self._requests.send(request, what, key, meter, **facts)
        self._bucket_seen = True
        return answer


def _copy_part(part: Any, client: S3Client) -> Any:
    return client.upload_part_copy(**part)
