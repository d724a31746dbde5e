"""Tokens, keys and passwords are recognized by their shape, in one piece or in several, and in linear time."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from mngr.e2e.asciicast import CastRecorder, redact_recording
from mngr.e2e.redact_secrets import Redactor
from mngr.e2e.secret_shapes import SHAPES, find_open_shape
from tests.support.paths import ROOT

REDACT = Redactor()
HEX = "0123456789abcdef"
LETTERS = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7"
UPPER = "AB3DE6GH9JK2MN5PQ8ST1VW4YZ7CX0"


def hexadecimal(length: int) -> str:
    return (HEX * 20)[:length]


def letters(length: int) -> str:
    return (LETTERS * 20)[:length]


def upper(length: int) -> str:
    return (UPPER * 20)[:length]


# Each secret is put together here, so that the repository contains none. The first part is public: it names the kind.
TOKENS = {
    "1Password": ("ops_" + "eyJ", letters(60)),
    "AWS": ("AK" + "IA", upper(16)),
    "AWS, temporary": ("AS" + "IA", upper(16)),
    "Airtable": ("p" + "at", letters(14) + "." + hexadecimal(64)),
    "Alibaba Cloud": ("LT" + "AI", letters(20)),
    "Anthropic": ("sk-" + "ant-api03-", letters(80)),
    "Artifactory": ("AK" + "Cp", letters(69)),
    "Atlassian": ("ATA" + "TT3", letters(180)),
    "Azure AD": ("", "abc8" + "Q~" + letters(34)),
    "Bitbucket": ("AT" + "BB", letters(32)),
    "Braintree": ("access_token$" + "production$", letters(16).lower() + "$" + hexadecimal(32)),
    "Brevo": ("xkey" + "sib-", hexadecimal(64) + "-" + letters(16)),
    "Buildkite": ("bk" + "ua_", hexadecimal(40)),
    "CircleCI": ("CCI" + "PAT_", letters(22) + "_" + hexadecimal(40)),
    "Clojars": ("CLO" + "JARS_", hexadecimal(60)),
    "Cloudflare": ("v1." + "0-", hexadecimal(24) + "-" + hexadecimal(146)),
    "Databricks": ("da" + "pi", hexadecimal(32)),
    "DigitalOcean": ("dop" + "_v1_", hexadecimal(64)),
    "Discord": ("", "M" + letters(23) + "." + letters(6) + "." + letters(27)),
    "Docker Hub": ("dckr" + "_pat_", letters(27)),
    "Doppler": ("dp." + "pt.", letters(43)),
    "Dropbox": ("s" + "l.", letters(130)),
    "Dynatrace": ("dt0" + "c01.", upper(24) + "." + upper(64)),
    "Facebook": ("EA" + "AC", letters(120)),
    "Figma": ("fi" + "gd_", letters(40)),
    "Flutterwave": ("FLW" + "SECK-", hexadecimal(32) + "-X"),
    "Fly": ("fm" + "2_", letters(80)),
    "GitHub": ("gh" + "p_", letters(36)),
    "GitHub, fine-grained": ("github" + "_pat_", letters(22) + "_" + letters(59)),
    "GitLab": ("gl" + "pat-", letters(20)),
    "GitLab runner": ("gl" + "rt-", letters(20)),
    "Google": ("AI" + "za", letters(35)),
    "Google access": ("ya" + "29.", letters(80)),
    "Google client": ("GOC" + "SPX-", letters(28)),
    "Grafana": ("gl" + "sa_", letters(32) + "_" + hexadecimal(8)),
    "Groq": ("gs" + "k_", letters(52)),
    "Heroku": ("HR" + "KU-", letters(36)),
    "Hugging Face": ("h" + "f_", letters(34)),
    "Linear": ("lin" + "_api_", letters(40)),
    "Mailchimp": ("", hexadecimal(32) + "-u" + "s21"),
    "Mailgun": ("ke" + "y-", hexadecimal(32)),
    "Mapbox": ("sk." + "eyJ", letters(60) + "." + letters(22)),
    "Netlify": ("nf" + "p_", letters(36)),
    "New Relic": ("NR" + "AK-", upper(27)),
    "Notion": ("nt" + "n_", letters(46)),
    "NuGet": ("oy" + "2", hexadecimal(43)),
    "OpenAI": ("sk-" + "proj-", letters(48)),
    "Perplexity": ("pp" + "lx-", letters(48)),
    "Plaid": ("access-" + "sandbox-", "01234567-89ab-cdef-0123-456789abcdef"),
    "PlanetScale": ("pscale" + "_tkn_", letters(43)),
    "PostHog": ("ph" + "x_", letters(43)),
    "Postman": ("PM" + "AK-", hexadecimal(24) + "-" + hexadecimal(34)),
    "Pulumi": ("pu" + "l-", hexadecimal(40)),
    "PyPI": ("pypi" + "-AgE", letters(120)),
    "Razorpay": ("rzp" + "_live_", letters(14)),
    "Replicate": ("r" + "8_", letters(37)),
    "Resend": ("r" + "e_", letters(8) + "_" + letters(24)),
    "RubyGems": ("ruby" + "gems_", hexadecimal(48)),
    "SendGrid": ("S" + "G.", letters(22) + "." + letters(43)),
    "Sentry": ("sntr" + "yu_", hexadecimal(64)),
    "Shopify": ("shp" + "at_", hexadecimal(32)),
    "Slack": ("xo" + "xb-", "123456789012-1234567890123-" + letters(24)),
    "Slack app": ("xa" + "pp-", "1-" + upper(10) + "-1234567890123-" + hexadecimal(64)),
    "SonarQube": ("sq" + "p_", hexadecimal(40)),
    "Square": ("sq0" + "csp-", letters(43)),
    "Stripe": ("sk" + "_live_", letters(24)),
    "Stripe, restricted": ("rk" + "_live_", letters(24)),
    "Stripe webhook": ("wh" + "sec_", letters(32)),
    "Supabase": ("sb" + "p_", hexadecimal(40)),
    "Tailscale": ("ts" + "key-", "auth-" + letters(12) + "-" + letters(32)),
    "Telegram": ("", "123456789:A" + "A" + letters(33)),
    "Tencent Cloud": ("AK" + "ID", letters(32)),
    "Terraform": ("", letters(14) + ".atlas" + "v1." + letters(67)),
    "Twilio": ("S" + "K", hexadecimal(32)),
    "Vault": ("hv" + "s.", letters(95)),
    "age": ("AGE-SECRET" + "-KEY-1", upper(58)),
    "crates.io": ("c" + "io", letters(32)),
    "npm": ("np" + "m_", letters(36)),
    "signed token": ("ey" + "J", letters(20) + ".ey" + "J" + letters(40) + "." + letters(43)),
    "xAI": ("xa" + "i-", letters(80)),
}
# The text before the secret, the secret, and the text after it.
CONTEXTS = {
    "AWS secret": ("aws_secret_access_key = ", letters(40), "\n"),
    "Azure storage": ("AccountName=shop;AccountKey=", letters(86) + "==", ";EndpointSuffix=core\n"),
    "Azure signature": ("https://shop.example/x?se=2030&sig=", letters(44) + "%3D", "\n"),
    "Datadog": ("DD_API_KEY=", hexadecimal(32), "\n"),
    "Discord webhook": ("https://discord.example/api/webhooks/", "123456789012345678/" + letters(68), "\n"),
    "Slack webhook": ("https://hooks.slack." + "com/", "services/T01234567/B01234567/" + letters(24), "\n"),
    "Teams webhook": (
        "https://shop.webhook.office." + "com/",
        "webhookb2/" + hexadecimal(36) + "@" + hexadecimal(36),
        "\n",
    ),
    "authorization header": ("Authorization: ", "Basic " + letters(24), "\n"),
    "bearer header": ("curl -H 'Authorization: ", "Bearer " + letters(40), "'\n"),
    "bearer word": ("sent bearer ", letters(40), "\n"),
    "cookie": ("Set-Cookie: ", "session=" + letters(32), "; HttpOnly\n"),
    "database, MongoDB": ("mongodb+srv://", "app:" + letters(16), "@db.example/shop\n"),
    "database, PostgreSQL": ("postgres://", "app:" + letters(16), "@db.example:5432/shop\n"),
    "database, Redis": ("redis://", ":" + letters(16), "@cache.example:6379/0\n"),
    "header of an API": ("X-Api-Key: ", letters(32), "\n"),
    "npmrc": ("//registry.example/:_auth" + "Token=", letters(36), "\n"),
    "password": ("password: ", "hunter2" + "hunter2", "\n"),
    "password at the end of a sentence": ("Use the passphrase: ", "hunter2-" + "hunter2", ". Then\n"),
    "password in code": ("connect(user='ann', password=", '"correct-horse' + '-battery"', ")\n"),
    "password in JSON": ('{"passwd": ', '"correct-horse' + '-battery"', "}\n"),
    "password of a shell": ("PASSWORD=", "'correct-horse" + "-battery'", "\n"),
    "password without quotes": ("export DB_PASSWORD=", "correct-horse" + "-battery", "\n"),
    "private key, OpenSSH": (
        "",
        "-----BEGIN OPENSSH PRIV" + f"ATE KEY-----\n{letters(70)}\n-----END OPENSSH PRIV" + "ATE KEY-----",
        "\n",
    ),
    "private key, PGP": (
        "",
        "-----BEGIN PGP PRIV" + f"ATE KEY BLOCK-----\n{letters(70)}\n-----END PGP PRIV" + "ATE KEY BLOCK-----",
        "\n",
    ),
    "private key, RSA": (
        "",
        "-----BEGIN RSA PRIV" + f"ATE KEY-----\n{letters(70)}\n-----END RSA PRIV" + "ATE KEY-----",
        "\n",
    ),
}
CASES = {name: ("log: ", mark + rest, " done\n") for name, (mark, rest) in TOKENS.items()} | CONTEXTS
NAMED = pytest.mark.parametrize(("before", "secret", "after"), CASES.values(), ids=CASES)


def find_leak(secret: str, shown: str) -> str:
    """Return a part of the secret that is shown: eight characters in a row."""
    parts = [secret[start : start + 8] for start in range(4, len(secret) - 8)]
    return next((part for part in parts if part in shown), "")


@NAMED
def test_a_secret_of_every_kind_is_redacted(before: str, secret: str, after: str) -> None:
    redacted = REDACT(before + secret + after)
    assert find_leak(secret, redacted) == ""
    assert redacted.startswith(before[:4]) and redacted.endswith(after)
    assert redacted.count("[redacted: ") == 1


@NAMED
def test_a_secret_in_two_chunks_is_redacted_wherever_it_is_divided(
    tmp_path: Path, before: str, secret: str, after: str
) -> None:
    text = before + secret + after
    for position in range(len(before), len(before + secret)):
        recorder = CastRecorder(tmp_path / "x.cast", (24, 80), "x", REDACT)
        recorder.record_output(text[:position].encode())
        recorder.record_output(text[position:].encode())
        recorder.close()
        assert find_leak(secret, (tmp_path / "x.cast").read_text()) == "", text[:position]


@NAMED
def test_a_secret_in_single_characters_is_redacted_from_a_finished_recording(
    before: str, secret: str, after: str
) -> None:
    rows = ['{"version": 2}', *(f'[0.1, "o", "{escape(char)}"]' for char in before + secret + after)]
    shown = redact_recording("\n".join(rows), REDACT)
    text = "".join(row.split('"')[3] for row in shown.splitlines()[1:])
    assert find_leak(secret, text) == ""


def escape(char: str) -> str:
    return {"\n": "\\n", '"': '\\"', "\\": "\\\\"}.get(char, char)


def test_the_documents_of_this_project_contain_nothing_that_is_redacted() -> None:
    texts = [path.read_text() for path in [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]]
    assert len(texts) > 50 and sum(map(len, texts)) > 430_000
    assert [text for text in texts if REDACT(text) != text] == []


def test_the_documentation_names_the_number_of_kinds() -> None:
    page = (ROOT / "docs/concepts/privacy.md").read_text()
    assert f"{len({shape.name for shape in SHAPES})} kinds of secrets" in page


@pytest.mark.parametrize(
    "text",
    [
        "Password: ",
        "password: the word that opens the door",
        "password = settings1.database.password",
        "password = read_password_1(path)",
        "PASSWORD=$(cat file) PASSWORD=${OTHER_PASSWORD} PASSWORD=<password>",
        "password=password",
        "PWD=/home/ann/project",
        "password: [redacted: a password]",
        "token = secrets.token_urlsafe(nbytes_of_the_token_24)",
        "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
        "sha256:" + hexadecimal(64),
        "commit " + hexadecimal(40),
        "the bearer authentication-scheme-is-described",
        "https://host:8080/path@v2",
        "key-value-store-with-many-words-in-it",
        "/home/ann/path.to/a/file_with_a_long_name.txt",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert REDACT(text) == text


def test_a_question_is_shown_before_its_line_ends() -> None:
    for question in ("Continue? [y/N] ", "Password: ", "Your token: ", "Name? "):
        assert find_open_shape(question) == len(question)


HOSTILE = {
    "hints": "".join(hint for shape in SHAPES for hint in shape.hints),
    "headers": "authorization: bearer x-api-key: token=",
    "keys": "-----BEGIN RSA PRIV" + "ATE KEY-----",
    "unfinished headers": "-----BEGIN ",
    "spaced headers": "-----BEGIN " + "A " * 20,
    "urls": "://a:",
    "urls without a host": "://",
    "tokens": "-ey" + "J",
    "tokens with dots": ".ey" + "Jaaaaaaaaa",
    "cookies": "cookie: a=",
    "discord": "-Maaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaa.",
    "digits": "123456789:AA",
    "words": "secret_token_api_key",
    "passwords": "PASSWORD=",
    "quoted passwords": "password='a",
    "passwords with digits": "password: a1",
    "putty": "PuTTY-User-Key-File-2",
    "x headers": "x-" + "a-" * 14,
    "one word": "a",
    "one number": "1",
    "dashes": "-",
}


@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_is_read_in_linear_time(unit: str) -> None:
    def measure(size: int) -> float:
        text = (unit * (size // len(unit) + 1))[:size]
        best = float("inf")
        for _ in range(3):
            started = time.thread_time()
            REDACT(text)
            find_open_shape(text)
            best = min(best, time.thread_time() - started)
        return best

    measure(1000)
    assert measure(160_000) < 0.02 + 16 * measure(20_000)  # quadratic time would be 64 times as long
