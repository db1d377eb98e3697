"""What an S3 client's failure means. Owns the translation, by type first; what cannot be classified is unknown."""

from __future__ import annotations

from typing import Any, Final

from omnigraph.core.errors import InvalidInput, NotFound, OmnigraphError, StoreRefused, StoreUnavailable
from omnigraph.core.redact import redact_text

# Codes that stores send with a status which would say something else.
_REFUSED_CODES: Final = frozenset(
    {
        "AccessDenied",
        "AccountProblem",
        "AllAccessDisabled",
        "AuthorizationHeaderMalformed",
        "ExpiredToken",
        "ExpiredTokenException",
        "IllegalLocationConstraintException",
        "InvalidAccessKeyId",
        "InvalidToken",
        "NotImplemented",
        "NotSignedUp",
        "PermanentRedirect",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
        "TokenRefreshRequired",
    }
)
_BUSY_CODES: Final = frozenset(
    {
        "InternalError",
        "OperationAborted",
        "RequestTimeout",
        "ServiceUnavailable",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequests",
    }
)
_HINTS: Final = {
    "RequestTimeTooSkewed": "set the clock of this machine; `omnigraph doctor` compares it with the store's",
    "ExpiredToken": "renew the credentials of this process",
    "PermanentRedirect": "set aws_region to the region of the bucket",
    "AuthorizationHeaderMalformed": "set aws_region to the region of the bucket",
    "NotImplemented": "use a store that offers create-if-absent (If-None-Match on PUT)",
}


def status_of(error: Exception) -> int | None:
    """The HTTP status behind an error, if the store answered."""
    return _metadata(error).get("HTTPStatusCode")


def code_of(error: Exception) -> str:
    response = getattr(error, "response", None)
    return str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else ""


def _metadata(error: Exception) -> dict[str, Any]:
    response = getattr(error, "response", None)
    return dict(response.get("ResponseMetadata", {})) if isinstance(response, dict) else {}


def is_absent(error: Exception) -> bool:
    """The store says that there is no such object (and does not say that the bucket is missing)."""
    return status_of(error) == 404 and code_of(error) != "NoSuchBucket"


def is_condition_refused(error: Exception) -> bool:
    """The store refuses a conditional write: an object is there, or another such write is under way."""
    return status_of(error) == 412 or code_of(error) in ("PreconditionFailed", "ConditionalRequestConflict")


def is_without_credentials(error: Exception) -> bool:
    """The client found none to sign with."""
    from botocore import exceptions as boto

    return isinstance(error, boto.NoCredentialsError | boto.PartialCredentialsError)


def no_such_bucket(what: str, uri: str) -> NotFound:
    return NotFound(
        f"{what}: no such bucket: uri={uri}", hint="create the bucket, or correct the name in the URI", uri=uri
    )


def of_code(code: str, what: str, uri: str) -> OmnigraphError:
    """An error that the store reported for one object inside an answer that was a success."""
    kind = StoreRefused if code in _REFUSED_CODES else StoreUnavailable
    return kind(redact_text(f"{what}: code={code} uri={uri}"), uri=uri, store_code=code)


def translate(error: Exception, what: str, uri: str) -> OmnigraphError:
    """The error of this product for an error of the client."""
    from botocore import exceptions as boto

    text = redact_text(str(error))[:500]
    facts: dict[str, Any] = {"uri": uri}
    if isinstance(error, boto.ClientError):
        return _of_answer(error, what, uri, text)
    if isinstance(
        error,
        boto.NoCredentialsError
        | boto.PartialCredentialsError
        | boto.CredentialRetrievalError
        | boto.NoAuthTokenError
        | boto.TokenRetrievalError
        | boto.SSOError
        | boto.ProfileNotFound
        | boto.ConfigParseError
        | boto.ConfigNotFound
        | boto.NoRegionError
        | boto.RefreshWithMFAUnsupportedError,
    ):
        return StoreRefused(
            f"{what}: no usable credentials: {text}: uri={uri}",
            hint="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE, or pass storage_options",
            **facts,
        )
    if isinstance(error, boto.SSLError):
        return StoreRefused(
            f"{what}: the store's certificate is not trusted: {text}: uri={uri}",
            hint="set AWS_CA_BUNDLE to the authority that signed it",
            **facts,
        )
    if isinstance(error, boto.ParamValidationError):
        return InvalidInput(f"{what}: {text}: uri={uri}", **facts)
    # Time-outs, dropped and refused connections, truncated answers, and everything that is not classified above.
    return StoreUnavailable(f"{what}: {type(error).__name__}: {text}: uri={uri}", outcome="unknown", **facts)


def _of_answer(error: Exception, what: str, uri: str, text: str) -> OmnigraphError:
    status, code = status_of(error), code_of(error)
    facts: dict[str, Any] = {"uri": uri, "store_code": code, "status": status}
    message = f"{what}: {text}: uri={uri}"
    if code == "NoSuchBucket":
        return no_such_bucket(what, uri)
    if code in _BUSY_CODES or status == 429:
        return StoreUnavailable(message, outcome="unknown", **facts)
    # 501 stands here by its code, before the other statuses from 500 on.
    if code in _REFUSED_CODES or status in (301, 307, 401, 403, 405, 501):
        return StoreRefused(message, hint=_HINTS.get(code), **facts)
    if status is None or status >= 500:
        return StoreUnavailable(message, outcome="unknown", **facts)
    return StoreRefused(message, **facts)
