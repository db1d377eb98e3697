"""Connection options of an S3-compatible store. Owns how option names, environment and profile add up to one answer.

Two clients talk to the same bucket: Lance (whose option names are used) and boto3. Both must reach the same endpoint in
the same region as the same user, whatever each of them would have read by itself. Options given win over the
environment, the environment over the profile. Credentials that were not given as options are left to both clients' own
chains, which read the same places, so that this process holds as few copies as possible.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from omnigraph.core.errors import InvalidInput, StoreRefused
from omnigraph.core.redact import Secrets, redact_text
from omnigraph.core.similar import nearest

# Every name that Lance takes for one option; the first is the one passed on.
_ALIASES: Final[dict[str, tuple[str, ...]]] = {
    "aws_access_key_id": ("access_key_id",),
    "aws_secret_access_key": ("secret_access_key",),
    "aws_session_token": ("session_token", "aws_token", "token"),
    "aws_region": ("region",),
    "aws_default_region": ("default_region",),
    "aws_endpoint": ("endpoint", "aws_endpoint_url", "endpoint_url", "aws_endpoint_url_s3"),
    "aws_virtual_hosted_style_request": ("virtual_hosted_style_request",),
    "aws_skip_signature": ("skip_signature",),
    "aws_request_payer": ("request_payer",),
    "allow_http": ("aws_allow_http",),
    "allow_invalid_certificates": (),
    "aws_server_side_encryption": ("server_side_encryption",),
    "aws_sse_kms_key_id": ("sse_kms_key_id",),
    "aws_sse_bucket_key_enabled": ("sse_bucket_key_enabled",),
}
_CANONICAL: Final = {alias: name for name, aliases in _ALIASES.items() for alias in (name, *aliases)}

# Ways to credentials that boto3 takes from its environment only. Given to Lance alone, the two would differ.
_ENVIRONMENT_ONLY: Final = frozenset(
    {
        "aws_role_arn",
        "aws_role_session_name",
        "aws_web_identity_token_file",
        "aws_container_credentials_relative_uri",
        "aws_container_credentials_full_uri",
        "aws_container_authorization_token_file",
    }
)
# Options of Lance's HTTP client, handed on as they are. They change how requests are sent, not where and as whom.
_OF_THE_CLIENT: Final = frozenset(
    {
        "aws_imdsv1_fallback",
        "aws_metadata_endpoint",
        "aws_unsigned_payload",
        "aws_checksum_algorithm",
        "aws_disable_tagging",
        "client_max_retries",
        "client_retry_timeout",
        "connect_timeout",
        "default_content_type",
        "download_retry_count",
        "http1_only",
        "http2_keep_alive_interval",
        "http2_keep_alive_timeout",
        "http2_keep_alive_while_idle",
        "http2_max_frame_size",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "randomize_addresses",
        "timeout",
        "user_agent",
    }
)
# What would make the two clients disagree about what a key is, or whether a create is conditional.
_NOT_SERVED: Final = frozenset(
    {
        "aws_bucket",
        "aws_bucket_name",
        "bucket",
        "bucket_name",
        "aws_conditional_put",
        "conditional_put",
        "aws_s3_express",
        "s3_express",
        "aws_sse_customer_key_base64",
    }
)
_TRUE: Final = frozenset({"1", "true", "on", "yes", "y"})
_FALSE: Final = frozenset({"0", "false", "off", "no", "n"})

# Emulators and self-hosted stores want a region and do not care which.
_REGION_OF_ENDPOINTS: Final = "us-east-1"


@dataclass(frozen=True)
class Connection:
    """The settings of both clients. ``repr`` shows no credential."""

    endpoint: str | None
    region: str | None
    options: Secrets

    @property
    def allow_http(self) -> bool:
        return self._flag("allow_http") or (self.endpoint or "").startswith("http://")

    def _flag(self, name: str) -> bool:
        return self.options.get(name, "false").lower() in _TRUE

    def for_lance(self) -> dict[str, str]:
        """``storage_options`` for Lance."""
        options = self.options.revealed()
        options.pop("aws_default_region", None)
        if self.endpoint is not None:
            options["aws_endpoint"] = self.endpoint
        if self.region is not None:
            options["aws_region"] = self.region
        if self.allow_http:
            options["allow_http"] = "true"
        return options

    def for_client(self) -> dict[str, Any]:
        """Arguments of boto3's client, but for its ``config``."""
        arguments: dict[str, Any] = {
            "endpoint_url": self.endpoint,
            "region_name": self.region,
            "aws_access_key_id": self.options.get("aws_access_key_id"),
            "aws_secret_access_key": self.options.get("aws_secret_access_key"),
            "aws_session_token": self.options.get("aws_session_token"),
        }
        if self._flag("allow_invalid_certificates"):
            arguments["verify"] = False
        return {name: value for name, value in arguments.items() if value is not None}

    def for_config(self) -> dict[str, Any]:
        """Arguments of botocore's ``Config`` that depend on the options."""
        virtual = self._flag("aws_virtual_hosted_style_request")
        arguments: dict[str, Any] = {}
        if virtual or self.endpoint is not None:
            arguments["s3"] = {"addressing_style": "virtual" if virtual else "path"}
        if self._flag("aws_skip_signature"):
            from botocore import UNSIGNED

            arguments["signature_version"] = UNSIGNED
        return arguments

    def for_requests(self) -> dict[str, Any]:
        """Extra arguments of every request."""
        return {"RequestPayer": "requester"} if self._flag("aws_request_payer") else {}

    def for_writes(self) -> dict[str, Any]:
        """Extra arguments of every write, so that control objects are encrypted like data."""
        arguments = self.for_requests()
        encryption = self.options.get("aws_server_side_encryption")
        if encryption:
            arguments["ServerSideEncryption"] = _ENCRYPTIONS.get(encryption.lower(), encryption)
        if "aws_sse_kms_key_id" in self.options:
            arguments["SSEKMSKeyId"] = self.options["aws_sse_kms_key_id"]
        if self._flag("aws_sse_bucket_key_enabled"):
            arguments["BucketKeyEnabled"] = True
        return arguments


# Lance's names of encryptions on the left.
_ENCRYPTIONS: Final = {"sse-kms": "aws:kms", "sse-kms-dsse": "aws:kms:dsse", "aes256": "AES256"}


def canonical_options(given: Mapping[str, object] | None) -> Secrets:
    """Options under the one name each has, checked. An unknown name is refused: a slip would otherwise have no effect."""
    found: dict[str, str] = {}
    for name, value in (given or {}).items():
        if not isinstance(value, str):
            raise InvalidInput(f"a storage option is a text by name: option={redact_text(str(name))[:80]!r}")
        lower = name.lower()
        if lower in _ENVIRONMENT_ONLY:
            raise InvalidInput(
                f"a storage option that only the environment can set: option={name}", hint=f"export {name.upper()}=…"
            )
        if lower in _NOT_SERVED:
            raise InvalidInput(f"a storage option that is not served: option={name}", hint="leave it out")
        if lower not in _CANONICAL and lower not in _OF_THE_CLIENT:
            near = nearest(lower, (*_CANONICAL, *_OF_THE_CLIENT))
            hint = f"did you mean `{near}`?" if near else f"known are {', '.join(sorted(_ALIASES))}"
            raise InvalidInput(f"unknown storage option: option={redact_text(name)[:80]}", hint=hint)
        canonical = _CANONICAL.get(lower, lower)
        if found.get(canonical, value) != value:
            raise InvalidInput(f"a storage option is given twice with different values: option={canonical}")
        found[canonical] = value
    if ("aws_access_key_id" in found) != ("aws_secret_access_key" in found):
        raise InvalidInput("only half of a key pair: give aws_access_key_id and aws_secret_access_key, or neither")
    if "aws_session_token" in found and "aws_access_key_id" not in found:
        raise InvalidInput("a session token without its key pair: give aws_access_key_id and aws_secret_access_key")
    for name in ("allow_http", "aws_virtual_hosted_style_request", "aws_skip_signature", "allow_invalid_certificates"):
        if found.get(name, "true").lower() not in _TRUE | _FALSE:
            raise InvalidInput(f"a storage option is neither true nor false: option={name}")
    if "aws_endpoint" in found:
        found["aws_endpoint"] = _checked_endpoint(found["aws_endpoint"], "storage_options")
    return Secrets(found)


def resolve(options: Secrets, environ: Mapping[str, str] | None = None) -> Connection:
    """Add what the environment and the profile say. Reads no credential."""
    env = os.environ if environ is None else environ
    endpoint = options.get("aws_endpoint")
    if endpoint is None:
        for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"):
            if env.get(name):
                endpoint = _checked_endpoint(env[name], name)
                break
    region = options.get("aws_region") or options.get("aws_default_region")
    region = region or env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION")
    if (endpoint is None or region is None) and _has_profile(env):
        profile_endpoint, profile_region = _from_profile()
        endpoint = endpoint or profile_endpoint
        region = region or profile_region
    if region is None and endpoint is not None:
        region = _REGION_OF_ENDPOINTS
    return Connection(endpoint, region, _with_environment(options, env))


def _with_environment(options: Secrets, env: Mapping[str, str]) -> Secrets:
    """Switches that Lance reads from the environment and boto3 does not."""
    values = options.revealed()
    for name in ("allow_http", "aws_virtual_hosted_style_request", "aws_skip_signature"):
        given = env.get(name.upper()) or env.get(f"AWS_{name.upper()}")
        if name not in values and given:
            values[name] = given
    # Lance fills up options from the environment one by one. A token there belongs to the pair there, and together
    # with the pair given here it would be refused, or worse.
    if "aws_access_key_id" in values and "aws_session_token" not in values and env.get("AWS_SESSION_TOKEN"):
        raise StoreRefused(
            "AWS_SESSION_TOKEN of the environment does not belong to the key pair of storage_options",
            hint="give aws_session_token in storage_options, or unset AWS_SESSION_TOKEN",
        )
    return Secrets(values, withheld=options.withheld)


def _checked_endpoint(url: str, where: str) -> str:
    if re.search(r"://[^/]*@", url):
        raise InvalidInput(f"credentials do not belong into an endpoint: set by {where}", hint="use storage_options")
    if not re.fullmatch(r"https?://[^\s/?#]+(/[^\s?#]*)?", url):
        raise InvalidInput(f"not an endpoint: set by {where}: {redact_text(url)[:200]!r}", hint="http(s)://host[:port]")
    return url.rstrip("/")


def _has_profile(env: Mapping[str, str]) -> bool:
    home = os.path.expanduser("~")
    config = env.get("AWS_CONFIG_FILE") or os.path.join(home, ".aws", "config")
    credentials = env.get("AWS_SHARED_CREDENTIALS_FILE") or os.path.join(home, ".aws", "credentials")
    return any(os.path.isfile(path) for path in (config, credentials))


def _from_profile() -> tuple[str | None, str | None]:
    """Endpoint and region of the profile in use; Lance reads the region there, and no endpoint."""
    from botocore.configprovider import ConfiguredEndpointProvider
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session

    session = Session()
    try:
        endpoint = ConfiguredEndpointProvider(session.full_config, session.get_scoped_config(), "s3").provide()
        region = session.get_config_variable("region")
    except BotoCoreError as error:
        raise StoreRefused(
            f"the AWS profile cannot be read: {redact_text(str(error))}", hint="check AWS_PROFILE and AWS_CONFIG_FILE"
        ) from error
    return (_checked_endpoint(endpoint, "the AWS profile") if endpoint else None), region or None
