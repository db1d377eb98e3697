"""Both clients of a bucket are told the same: options, then environment, then profile."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.core.errors import InvalidInput, StoreRefused
from omnigraph.store import open_store
from omnigraph.store.s3_options import Connection, canonical_options, resolve

PAIR = {"access_key_id": "AKIAIOSFODNN7EXAMPLE", "secret_access_key": "wJalrXUtnFEMI/K7MDENG"}
NO_PROFILE = {"AWS_CONFIG_FILE": "/nonexistent", "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent"}


def _resolved(options: dict[str, str] | None = None, **env: str) -> Connection:
    return resolve(canonical_options(options), {**NO_PROFILE, **env})


@pytest.mark.parametrize("name", ["endpoint", "aws_endpoint", "aws_endpoint_url", "endpoint_url", "AWS_ENDPOINT_URL"])
def test_every_spelling_of_an_option_means_the_same(name: str) -> None:
    connection = _resolved({name: "http://host:9000/"})
    assert connection.for_lance() == {
        "aws_endpoint": "http://host:9000",
        "aws_region": "us-east-1",
        "allow_http": "true",
    }
    assert connection.for_client() == {"endpoint_url": "http://host:9000", "region_name": "us-east-1"}
    assert connection.for_config() == {"s3": {"addressing_style": "path"}}


def test_credentials_given_reach_both_clients() -> None:
    connection = _resolved({**PAIR, "token": "session-token-1", "region": "eu-west-1"})
    assert connection.for_lance() == {
        "aws_access_key_id": PAIR["access_key_id"],
        "aws_secret_access_key": PAIR["secret_access_key"],
        "aws_session_token": "session-token-1",
        "aws_region": "eu-west-1",
    }
    client = connection.for_client()
    assert client.pop("region_name") == "eu-west-1"
    assert client == {k: v for k, v in connection.for_lance().items() if k != "aws_region"}


def test_credentials_of_the_environment_are_not_copied() -> None:
    env = {
        "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "x" * 40,
        "AWS_SESSION_TOKEN": "y" * 40,
    }
    connection = _resolved(None, **env, AWS_REGION="eu-west-1")
    assert connection.for_lance() == {"aws_region": "eu-west-1"}
    assert connection.for_client() == {"region_name": "eu-west-1"}


def test_the_environment_names_the_endpoint_the_narrower_variable_first() -> None:
    both = {"AWS_ENDPOINT_URL": "https://general", "AWS_ENDPOINT_URL_S3": "https://narrow"}
    assert _resolved(None, **both).endpoint == "https://narrow"
    assert _resolved(None, AWS_ENDPOINT_URL="https://general").endpoint == "https://general"
    assert _resolved({"endpoint": "https://given"}, **both).endpoint == "https://given"
    assert _resolved(None, **both).for_lance()["aws_endpoint"] == "https://narrow"
    assert "allow_http" not in _resolved(None, **both).for_lance()


def test_an_http_endpoint_of_the_environment_implies_allow_http() -> None:
    assert _resolved(None, AWS_ENDPOINT_URL_S3="http://127.0.0.1:1").for_lance()["allow_http"] == "true"


def test_the_region_is_the_same_for_both() -> None:
    cases = [
        (_resolved(None, AWS_REGION="a-1", AWS_DEFAULT_REGION="b-1"), "a-1"),
        (_resolved(None, AWS_DEFAULT_REGION="b-1"), "b-1"),
        (_resolved({"region": "c-1"}, AWS_REGION="a-1"), "c-1"),
        (_resolved({"default_region": "d-1"}), "d-1"),
        (_resolved({"endpoint": "https://host"}), "us-east-1"),
    ]
    for connection, region in cases:
        assert connection.for_lance()["aws_region"] == connection.for_client()["region_name"] == region
    assert "aws_region" not in _resolved().for_lance()


def test_a_profile_is_read_where_nothing_else_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "config"
    config.write_text("[default]\nregion = eu-north-1\nendpoint_url = https://of-the-profile\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    found = resolve(canonical_options(None))
    assert (found.endpoint, found.region) == ("https://of-the-profile", "eu-north-1")
    assert found.for_lance()["aws_endpoint"] == "https://of-the-profile"


def test_switches_mean_the_same_to_both() -> None:
    connection = _resolved({"virtual_hosted_style_request": "true", "skip_signature": "true", "request_payer": "TRUE"})
    assert connection.for_config()["s3"] == {"addressing_style": "virtual"}
    assert "signature_version" in connection.for_config()
    assert connection.for_requests() == {"RequestPayer": "requester"}
    assert connection.for_lance()["aws_skip_signature"] == "true"
    encrypted = _resolved({"aws_server_side_encryption": "sse-kms", "aws_sse_kms_key_id": "k"})
    assert encrypted.for_writes() == {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "k"}
    assert _resolved(None, AWS_ALLOW_HTTP="true").for_lance() == {"allow_http": "true"}


@pytest.mark.parametrize(
    "options",
    [
        {"aws_acces_key_id": "x"},
        {"aws_secret_acess_key": "x"},
        {"regoin": "x"},
        {"access_key_id": "x"},
        {"secret_access_key": "x"},
        {"session_token": "x"},
        {"region": "a", "aws_region": "b"},
        {"region": 7},
        {"endpoint": "host:9000"},
        {"endpoint": "ftp://host"},
        {"endpoint": "http://me:hunter2hunter2@host"},
        {"allow_http": "maybe"},
        {"aws_role_arn": "x"},
        {"bucket": "other"},
        {"aws_conditional_put": "disabled"},
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(InvalidInput) as caught:
        canonical_options(options)
    assert "hunter2" not in str(caught.value)


def test_options_that_only_lance_knows_are_passed_on() -> None:
    assert _resolved({"client_max_retries": "3", "timeout": "9s"}).for_lance() == {
        "client_max_retries": "3",
        "timeout": "9s",
    }


def test_a_foreign_session_token_is_not_mixed_with_a_key_pair_given() -> None:
    with pytest.raises(StoreRefused, match="AWS_SESSION_TOKEN"):
        _resolved(PAIR, AWS_SESSION_TOKEN="of-somebody-else")
    assert _resolved({**PAIR, "token": "mine-mine"}, AWS_SESSION_TOKEN="z" * 9).for_client()["aws_session_token"] == (
        "mine-mine"
    )


@pytest.mark.parametrize("name", ["regoin", "aws_regio", "max_retries", "nonsense", "\x1b]0;x"])
def test_an_unknown_option_is_refused_on_every_kind_of_store(name: str, tmp_path: Path) -> None:
    for uri in (str(tmp_path), "s3://bucket/prefix"):
        with pytest.raises(InvalidInput, match="unknown storage option"):
            open_store(uri, {name: "x"})


def test_options_of_the_http_client_are_handed_on() -> None:
    assert canonical_options({"Timeout": "5s"})["timeout"] == "5s"


def test_a_path_that_is_not_utf_8_is_the_callers() -> None:
    with pytest.raises(InvalidInput, match="not UTF-8"):
        open_store("/tmp/\udcff")
