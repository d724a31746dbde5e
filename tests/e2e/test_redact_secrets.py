"""Secrets are recognized by the name of their variable and by their shape."""

from __future__ import annotations

import pytest

from mngr.e2e.redact_secrets import Redactor


@pytest.mark.parametrize(
    "secret",
    [
        "sk-" + "ant-" + "api03-abcdefghij0123456789",
        "sk-proj-abcdefghij0123456789",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "github_pat_11ABCDEFG0abcdefghij",
        "glpat-abcdefghij0123456789",
        "xoxb-123456789012-abcdefghij",
        "AKIAABCDEFGHIJKLMNOP",
        "AIzaSyA0123456789abcdefghijABCDEFGHIJ_",
        "hf_abcdefghijklmnopqrstuvwxyz",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJlaGVyZQ",
    ],
)
def test_a_secret_is_recognized_by_its_shape(secret: str) -> None:
    redacted = Redactor()(f"before {secret} after")
    assert secret[8:] not in redacted
    assert redacted.startswith("before [redacted: a") and redacted.endswith("] after")


def test_private_keys_and_passwords_in_urls_are_redacted() -> None:
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\ndef\n-----END OPENSSH PRIVATE KEY-----"
    assert Redactor()(f"x\n{key}\ny") == "x\n[redacted: a private key]\ny"
    assert Redactor()("https://me:hunter2@host/x") == "https://[redacted: a password]@host/x"


def test_long_values_of_secret_variables_are_redacted() -> None:
    redact = Redactor({"MY_TOKEN": "0123456789", "LONG_KEY": "0123456789abc", "SHORT_KEY": "abc", "PATH": "/usr/bin"})
    assert redact("0123456789abc 0123456789 abc /usr/bin") == ("[redacted: LONG_KEY] [redacted: MY_TOKEN] abc /usr/bin")


def test_ordinary_text_is_not_redacted() -> None:
    text = "a-b-c 0123456789abcdef sk-short https://host/path user@host AKIA mngr/foo 3f2504e0-4f89-11d3-9a0c"
    assert Redactor()(text) == text
