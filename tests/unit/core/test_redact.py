from __future__ import annotations

import copy
import io
import logging
import pickle

import pytest

from omnigraph.core.redact import RedactingFilter, Secrets, is_secret_name, redact_text

CANARY = "cAnArY/5ecret+0123456789abcdefXYZ"


def _options() -> Secrets:
    return Secrets(
        {
            "AWS_Secret_Access_Key": CANARY,
            "aws_access_key_id": "AKIACANARYCANARY0001",
            "token": CANARY + "-token",
            "region": "eu-west-1",
            "aws_web_identity_token_file": "/var/run/token",
        }
    )


def test_options_read_like_a_mapping_whatever_the_case() -> None:
    options = _options()
    assert options["aws_secret_access_key"] == options["AWS_SECRET_ACCESS_KEY"] == CANARY
    assert "region" in options
    assert options.revealed()["token"] == CANARY + "-token"
    assert options.get("nothing") is None


@pytest.mark.parametrize("show", [repr, str, lambda o: f"{o}", lambda o: repr({"o": o}), lambda o: repr(o.shown())])
def test_no_form_of_showing_options_contains_a_secret(show: object) -> None:
    text = show(_options())  # type: ignore[operator]
    assert CANARY not in text
    assert "AKIACANARY" not in text
    assert "eu-west-1" in text


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickled_options_contain_no_secret_and_say_what_was_left_out(protocol: int) -> None:
    sent = pickle.dumps({"options": _options()}, protocol=protocol)
    assert b"cAnArY" not in sent
    assert b"AKIACANARY" not in sent
    there = pickle.loads(sent)["options"]
    assert there.revealed() == {"region": "eu-west-1", "aws_web_identity_token_file": "/var/run/token"}
    assert there.withheld == {"aws_secret_access_key", "aws_access_key_id", "token"}
    assert pickle.loads(pickle.dumps(there)).withheld == there.withheld
    assert CANARY not in repr(copy.copy(_options()))


def test_a_secret_seen_once_is_masked_wherever_it_turns_up() -> None:
    Secrets({"aws_secret_access_key": "an-unremarkable-value"})
    assert redact_text("the store said an-unremarkable-value is wrong") == "the store said *** is wrong"


def test_secrets_of_the_environment_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "a-token-of-the-environment")
    assert "of-the-environment" not in redact_text("x a-token-of-the-environment y")


@pytest.mark.parametrize(
    "text",
    [
        "http://user:hunter2hunter2@host:9000/bucket",
        "https://b.s3.amazonaws.com/k?X-Amz-Credential=hunter2hunter2&X-Amz-Signature=hunter2hunter2",
        "Authorization: Bearer hunter2hunter2",
        "AWS4-HMAC-SHA256 Credential=hunter2hunter2/20250101/x, Signature=hunter2hunter2",
        '{"aws_secret_access_key": "hunter2hunter2"}',
        "{'AWS_SESSION_TOKEN': 'hunter2hunter2'}",
        'AmazonS3Builder { secret_access_key: Some("hunter2hunter2") }',
        "password=hunter2hunter2",
    ],
)
def test_what_looks_like_a_credential_is_masked(text: str) -> None:
    assert "hunter2" not in redact_text(text)


def test_other_text_stays_as_it_is() -> None:
    text = "no object at s3://bucket/graph/__recovery/01ABC.json: region=eu-west-1 tokens=12 http://host:9000/a@b"
    assert redact_text(text) == text


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("aws_secret_access_key", True),
        ("ACCESS_KEY_ID", True),
        ("session_token", True),
        ("aws_sse_customer_key_base64", True),
        ("google_service_account_key", True),
        ("region", False),
        ("endpoint", False),
        ("aws_sse_kms_key_id", False),
        ("aws_web_identity_token_file", False),
    ],
)
def test_names_of_secrets_are_known_by_their_parts(name: str, secret: bool) -> None:
    assert is_secret_name(name) is secret


def test_no_log_record_leaves_with_a_secret() -> None:
    Secrets({"token": CANARY})
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.addFilter(RedactingFilter())
    logger = logging.Logger("test")
    logger.addHandler(handler)
    logger.warning("connecting with %s", CANARY)
    try:
        raise ValueError(f"bad {CANARY}")
    except ValueError:
        logger.exception("failed")
    assert CANARY not in out.getvalue()
    assert "bad ***" in out.getvalue()
