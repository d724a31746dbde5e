"""The shapes of secrets: what tokens, keys and passwords look like in text.

Every shape has hints: texts without which it cannot match. Looking for hints is fast, so most shapes are never tried. A
pattern starts only at the beginning of a run of characters, and its repetitions cannot overlap. Therefore the time grows
in proportion to the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_START = r"(?<![A-Za-z0-9_-])"  # a token starts here, not in the middle of a longer word


@dataclass(frozen=True)
class Shape:
    """The pattern of one kind of secret. The secret is the group `secret`, or the whole match without that group."""

    name: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    ignores_case: bool = False


def _shape_of_token(name: str, hints: str, rest: str) -> Shape:
    """Return the shape of a token that starts with one of the hints."""
    starts = hints.split()
    return Shape(name, tuple(starts), re.compile(f"{_START}(?:{'|'.join(map(re.escape, starts))}){rest}"))


def _shape_of_pattern(name: str, hints: str, pattern: str) -> Shape:
    return Shape(name, tuple(hints.split()), re.compile(pattern))


def _shape_in_context(name: str, hints: str, pattern: str) -> Shape:
    """Return the shape of a value that only the words before it make a secret."""
    return Shape(name, tuple(hints.split()), re.compile(pattern, re.IGNORECASE), ignores_case=True)


_BLOCKS = (
    _shape_of_pattern(
        "a private key",
        "PRIVATE",
        r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
    ),
    _shape_of_pattern(
        "a private key", "PuTTY-User-Key-File-", r"PuTTY-User-Key-File-\d[\s\S]*?(?:Private-MAC: [0-9a-f]+|\Z)"
    ),
)
_CLOUD = (
    _shape_of_token("an AWS key", "AKIA ASIA ABIA ACCA", r"[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _shape_of_token("a Google key", "AIza", r"[\w-]{30,}"),
    _shape_of_token("a Google access token", "ya29.", r"[\w.-]{20,}"),
    _shape_of_token("a Google client secret", "GOCSPX-", r"[\w-]{20,}"),
    _shape_of_pattern("an Azure key", "AccountKey= SharedAccessKey=", r"(?<=Key=)[A-Za-z0-9+/]{40,}={0,2}"),
    _shape_of_pattern("an Azure signature", "sig=", r"(?<=[?&]sig=)[A-Za-z0-9%+/=]{40,}"),
    _shape_of_pattern("an Azure client secret", "Q~", r"(?<![\w~.-])[\w~.-]{0,4}Q~[\w~.-]{31,40}"),
    _shape_of_token("a DigitalOcean token", "dop_v1_ doo_v1_ dor_v1_", r"[a-f0-9]{64}"),
    _shape_of_token("a Heroku key", "HRKU-", r"[\w-]{36,}"),
    _shape_of_token("a Cloudflare key", "v1.0-", r"[a-f0-9]{24}-[a-f0-9]{100,}"),
    _shape_of_token("an Alibaba Cloud key", "LTAI", r"[A-Za-z0-9]{12,24}(?![A-Za-z0-9])"),
    _shape_of_token("a Tencent Cloud key", "AKID", r"[A-Za-z0-9]{32}(?![A-Za-z0-9])"),
    _shape_of_token("a Vault token", "hvs. hvb. hvr.", r"[\w-]{24,}"),
    _shape_of_pattern("a Terraform token", ".atlasv1.", r"(?<![A-Za-z0-9])[A-Za-z0-9]{0,14}\.atlasv1\.[\w-]{40,}"),
    _shape_of_token("a Databricks token", "dapi", r"[a-f0-9]{32}(?:-\d)?"),
    _shape_of_token("a Pulumi token", "pul-", r"[a-f0-9]{40}"),
    _shape_of_token("a Fly token", "fm1_ fm2_ fm1a_ fm1r_ fo1_", r"[A-Za-z0-9+/=_,-]{40,}"),
    _shape_of_token("a Netlify token", "nfp_", r"[A-Za-z0-9]{36,}"),
    _shape_of_token("a Supabase key", "sbp_ sb_secret_", r"[\w-]{20,}"),
    _shape_of_token("a PlanetScale token", "pscale_tkn_ pscale_pw_ pscale_oauth_", r"[\w.-]{30,}"),
    _shape_of_token("a Doppler token", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", r"[A-Za-z0-9_.-]{40,}"),
    _shape_of_token("a 1Password token", "ops_eyJ", r"[\w=-]{40,}"),
    _shape_of_token("an age key", "AGE-SECRET-KEY-1", r"[A-Z0-9]{50,}"),
    _shape_of_token("a Tailscale key", "tskey-", r"[a-z]+-[\w-]{16,}"),
)
_REGISTRIES = (
    _shape_of_token("an npm token", "npm_", r"[A-Za-z0-9]{36,}"),
    _shape_of_token("a PyPI token", "pypi-AgE", r"[\w-]{40,}"),
    _shape_of_token("a RubyGems key", "rubygems_", r"[a-f0-9]{48}"),
    _shape_of_token("a crates.io token", "cio", r"[A-Za-z0-9]{32}(?![A-Za-z0-9])"),
    _shape_of_token("a NuGet key", "oy2", r"[a-z0-9]{43}(?![A-Za-z0-9])"),
    _shape_of_token("a Docker Hub token", "dckr_pat_ dckr_oat_", r"[\w-]{20,}"),
    _shape_of_token("an Artifactory key", "AKCp", r"[A-Za-z0-9]{60,}"),
    _shape_of_token("a Clojars token", "CLOJARS_", r"[a-z0-9]{60}"),
    _shape_in_context(
        "a registry password",
        "_authtoken= _auth= _password=",
        r"(?<![a-z])_(?:authToken|auth|password)=[\"']?(?P<secret>[^\s\"']{8,})",
    ),
)
_PAYMENT = (
    _shape_of_token("a Stripe key", "sk_live_ sk_test_ rk_live_ rk_test_", r"[A-Za-z0-9]{16,}"),
    _shape_of_token("a webhook secret", "whsec_", r"[A-Za-z0-9+/=]{24,}"),
    _shape_of_token("a Square token", "sq0atp- sq0csp- sq0idp-", r"[\w-]{22,}"),
    _shape_of_token("a Shopify token", "shpat_ shpca_ shppa_ shpss_", r"[A-Fa-f0-9]{32}"),
    _shape_of_token(
        "a Braintree token", "access_token$production$ access_token$sandbox$", r"[a-z0-9]{16}\$[a-f0-9]{32}"
    ),
    _shape_of_token("a Razorpay key", "rzp_live_ rzp_test_", r"[A-Za-z0-9]{14,}"),
    _shape_of_token(
        "a Plaid token",
        "access-sandbox- access-development- access-production-",
        r"[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}",
    ),
    _shape_of_token("a Flutterwave key", "FLWSECK- FLWSECK_TEST-", r"[A-Za-z0-9]{12,}(?:-X)?"),
)
_MAIL = (
    _shape_of_token("a SendGrid key", "SG.", r"[\w-]{16,}\.[\w-]{16,}"),
    _shape_of_token("a Mailgun key", "key-", r"[a-f0-9]{32}(?![A-Za-z0-9])"),
    _shape_of_pattern("a Mailchimp key", "-us", r"(?<![A-Za-z0-9])[a-f0-9]{32}-us\d{1,2}(?!\w)"),
    _shape_of_token("a Brevo key", "xkeysib- xsmtpsib-", r"[a-f0-9]{64}-[A-Za-z0-9]{16}"),
    _shape_of_token("a Resend key", "re_", r"[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}"),
)
_CHAT = (
    _shape_of_token(
        "a Slack token", "xoxa- xoxb- xoxe- xoxp- xoxr- xoxs- xapp- xoxe.xoxp- xoxe.xoxb-", r"[A-Za-z0-9-]{10,}"
    ),
    _shape_of_pattern(
        "a Slack webhook",
        "hooks.slack.com/",
        r"(?<=hooks\.slack\.com/)(?:services|workflows|triggers)/[A-Za-z0-9/]{20,}",
    ),
    _shape_of_pattern("a Discord token", ".", r"(?<![\w-])[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,40}(?![\w-])"),
    _shape_of_pattern("a Discord webhook", "/api/webhooks/", r"(?<=/api/webhooks/)\d{5,25}/[\w-]{60,}"),
    _shape_of_pattern("a Telegram token", ":AA", r"(?<![\w-])\d{8,10}:AA[\w-]{33}(?![\w-])"),
    _shape_of_pattern("a Teams webhook", ".webhook.office.com/", r"(?<=\.webhook\.office\.com/)[\w@/-]{40,}"),
    _shape_of_pattern("a Twilio key", "AC SK", r"(?<![A-Za-z0-9])(?:AC|SK)[a-f0-9]{32}(?![A-Za-z0-9])"),
)
_DEVELOPMENT = (
    _shape_of_token("a GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_", r"\w{20,}"),
    _shape_of_token(
        "a GitLab token",
        "glpat- gldt- glft- glsoat- glrt- glcbt- glptt- glimt- glagent- gloas- glffct- GR1348941",
        r"[\w.-]{16,}",
    ),
    _shape_of_token("a Bitbucket token", "ATBB ATCTT3", r"[\w=-]{24,}"),
    _shape_of_token("an Atlassian token", "ATATT3", r"[\w=-]{40,}"),
    _shape_of_token("a Linear key", "lin_api_ lin_oauth_", r"[A-Za-z0-9]{32,}"),
    _shape_of_token("a Notion token", "secret_ ntn_", r"[A-Za-z0-9]{40,}"),
    _shape_of_token("a Postman key", "PMAK-", r"[a-f0-9]{24}-[a-f0-9]{34}"),
    _shape_of_token("a Figma token", "figd_ figu_", r"[\w-]{36,}"),
    _shape_of_token("an Airtable token", "pat", r"[A-Za-z0-9]{14}\.[a-f0-9]{64}"),
    _shape_of_token("a CircleCI token", "CCIPAT_ CCIPRJ_", r"[A-Za-z0-9]{20,24}_[a-f0-9]{40}"),
    _shape_of_token("a Buildkite token", "bkua_", r"[a-f0-9]{40}"),
    _shape_of_token("a SonarQube token", "sqp_ squ_ sqa_", r"[a-f0-9]{40}"),
    _shape_of_token("a Sentry token", "sntrys_eyJ sntryu_", r"[\w+/=-]{40,}"),
    _shape_of_token("a Grafana token", "glsa_ glc_eyJ", r"[\w+/=]{30,}"),
    _shape_of_token("a New Relic key", "NRAK- NRJS- NRII- NRRA-", r"[A-Za-z0-9-]{16,}"),
    _shape_of_token("a Dynatrace token", "dt0c01. dt0s01. dt0s16.", r"[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    _shape_of_token("a PostHog key", "phx_ phs_", r"[A-Za-z0-9]{32,}"),
)
_MODELS = (
    _shape_of_token("an API key", "sk-", r"(?:ant-|proj-|or-)?[\w-]{16,}"),
    _shape_of_token("a Hugging Face token", "hf_", r"[A-Za-z0-9]{20,}"),
    _shape_of_token("a Groq key", "gsk_", r"[A-Za-z0-9]{40,}"),
    _shape_of_token("a Replicate token", "r8_", r"[A-Za-z0-9]{32,}"),
    _shape_of_token("an xAI key", "xai-", r"[A-Za-z0-9]{60,}"),
    _shape_of_token("a Perplexity key", "pplx-", r"[A-Za-z0-9]{40,}"),
    _shape_of_token("a Mapbox token", "sk.eyJ", r"[\w-]{20,}\.[\w-]{16,}"),
    _shape_of_token("a Facebook token", "EAAC EAAG EAAB", r"[A-Za-z0-9]{60,}"),
    _shape_of_token("a Dropbox token", "sl.", r"(?:u\.)?[\w-]{100,}"),
)
_WORDS = r"password|passwd|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|secret[_-]?key|credential"
_PASSWORD_WORDS = r"password|passwd|pwd|passphrase"
_GENERAL = (
    _shape_of_token("a signed token", "eyJ", r"[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}"),
    _shape_of_pattern("a password", "://", r"(?<=://)[^\s/:@]{0,200}:[^\s/@]{1,2000}(?=@)"),
    _shape_in_context(
        "an authorization header",
        "authorization",
        r"authorization[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?P<secret>(?:(?:bearer|basic|token|digest|negotiate|apikey)\s{1,4})?[\w.~+/=:-]{12,})",
    ),
    _shape_in_context(
        "a bearer token", "bearer", r"(?<!\w)bearer\s{1,4}(?P<secret>(?=[a-z_.~+/=-]{0,200}\d)[\w.~+/=-]{16,})"
    ),
    _shape_in_context("a cookie", "cookie:", r"(?<!\w)(?:set-)?cookie:\s{0,4}(?P<secret>[^\s;=]{1,100}=[^\s;]{8,})"),
    _shape_in_context(
        "a secret header",
        "x-",
        r"(?<!\w)x-[a-z-]{0,30}(?:key|token|secret|auth)[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?P<secret>[\w.~+/=-]{12,})",
    ),
    _shape_in_context(
        "an assigned secret",
        "passw pwd secret token key credential",
        rf"(?:{_WORDS})[\"']?\s{{0,4}}[:=]\s{{0,4}}[\"']?(?P<secret>(?=[a-z_+/=~-]{{0,60}}\d)(?=[\d_+/=~-]{{0,60}}[a-z])[\w+/=~-]{{20,}})(?![\w(.\[])",
    ),
    _shape_in_context(
        "an assigned password",
        "passw pwd passphrase",
        rf"(?:{_PASSWORD_WORDS})[\"']?[ \t]{{0,4}}[:=][ \t]{{0,4}}(?P<quote>[\"'])(?P<secret>[^\s\"'<>{{}}$\[\]]{{8,200}})(?P=quote)",
    ),
    _shape_in_context(
        "an assigned password",
        "passw pwd passphrase",
        rf"(?:{_PASSWORD_WORDS})[\"']?[ \t]{{0,4}}[:=][ \t]{{0,4}}(?P<secret>(?=[a-z_!@#%^&*+=~-]{{0,60}}\d)(?=[\d_!@#%^&*+=~-]{{0,60}}[a-z])[\w!@#%^&*+=~-]{{8,200}})(?![\w(\[]|\.\w)",
    ),
    _shape_of_pattern(
        "an assigned password",
        "PASSW PWD PASSPHRASE",
        r"(?:PASSWORD|PASSWD|PWD|PASSPHRASE)=(?P<secret>[\w!@#%^&*+=~][\w!@#%^&*+=~.-]{7,200})",
    ),
)
SHAPES = (
    *_BLOCKS,
    *_CLOUD,
    *_REGISTRIES,
    *_PAYMENT,
    *_MAIL,
    *_CHAT,
    *_DEVELOPMENT,
    *_MODELS,
    *_GENERAL,
)
_HINTED = [(hint, shape) for shape in SHAPES if not shape.ignores_case for hint in shape.hints]
_HINTED_IN_ANY_CASE = [(hint, shape) for shape in SHAPES if shape.ignores_case for hint in shape.hints]


@dataclass(frozen=True)
class Secret:
    """Where a secret is in a text, and what it is called in the marker that replaces it."""

    start: int
    end: int
    name: str


def find_shapes(text: str) -> list[Secret]:
    """Return everything in the text that looks like a secret. The parts can overlap."""
    lower_text = text.lower()
    candidates = {shape for hint, shape in _HINTED if hint in text}
    candidates |= {shape for hint, shape in _HINTED_IN_ANY_CASE if hint in lower_text}
    secrets = []
    for shape in candidates:
        group = "secret" if "secret" in shape.pattern.groupindex else 0
        secrets += [Secret(*match.span(group), shape.name) for match in shape.pattern.finditer(text)]
    return secrets


MAX_OPEN = 8_192  # characters at the end of a text in which a secret may begin
_SEPARATOR = re.compile(r"[^\w.~+/=%@:$-]")
_HEADER = re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_HEADER_PART = re.compile(r"-----BEGIN [A-Z ]{0,60}-{0,4}\Z")
_FOOTER = re.compile(r"-----END [A-Z ]{0,40}-----")
# The beginning of a secret that has no hint at its beginning.
_OPEN_RUN = re.compile(
    r"[MNO][\w-]{0,27}(?:\.[\w-]{0,6}(?:\.[\w-]{0,40})?)?|\d{1,10}(?::(?:A{0,2}|AA[\w-]{0,33}))?|[AS][CK]?[a-f0-9]{0,32}"
    r"|[a-f0-9]{1,32}(?:-u?s?\d{0,2})?|[\w~.-]{3}\dQ(?:~[\w~.-]{0,40})?|(?=[A-Za-z]*\d)(?=[a-z0-9]*[A-Z])[A-Za-z0-9]{4,14}(?:\.[a-z0-9.]{0,9})?"
)
_OPEN_CONTEXT = re.compile(
    rf"(?<!\w)(?:(?:authorization|cookie|x-[a-z-]{{0,30}}(?:key|token|secret|auth))[\"']?\s{{0,4}}[:=]"
    rf"|bearer\s|(?:\w{{0,60}}(?:{_WORDS}))[\"']?\s{{0,4}}(?:=|:\s{{0,4}}[\"']?\w))[^\n]{{0,2000}}\Z",
    re.IGNORECASE,
)
_HINTS = tuple(hint for hint, _ in _HINTED if len(hint) > 2)
_HINT_PARTS = {hint[:length] for hint in (*_HINTS, "-----BEGIN ") for length in range(1, len(hint) + 1)}
_LONGEST_PART = max(map(len, _HINT_PARTS))


def find_open_shape(text: str) -> int:
    """Return where a secret may begin that is not complete yet, or the length of the text."""
    return min(_find_open_block(text), _find_open_run(text), _find_open_context(text))


def _find_open_block(text: str) -> int:
    """Return where a private key begins that has not ended, or the length of the text."""
    position = 0
    while (begin := text.find("-----BEGIN ", position)) >= 0:
        header = _HEADER.match(text, begin)
        if header is None:
            if _HEADER_PART.match(text, begin):
                return begin
            position = begin + 5
            continue
        footer = _FOOTER.search(text, header.end())
        if footer is None:
            return begin
        position = footer.end()
    return len(text)


def _find_open_run(text: str) -> int:
    """Return where the last word begins if it may be the beginning of a secret, or the length of the text."""
    window = text[-200:]
    words = _SEPARATOR.split(window)
    run = words[-1] if len(words) > 1 else _SEPARATOR.split(text[-MAX_OPEN:])[-1]
    start = len(text) - len(run)
    if any(hint in run for hint in _HINTS) or _OPEN_RUN.fullmatch(run):
        return start
    for length in range(min(_LONGEST_PART, len(window)), 0, -1):
        part = window[-length:]
        before = window[-length - 1 : -length]
        if part in _HINT_PARTS and not (part[0].isalnum() and before.isalnum()):
            return min(start, len(text) - length)
    return len(text)


def _find_open_context(text: str) -> int:
    """Return where a line names a secret whose value may not be complete, or the length of the text."""
    line_start = max(text.rfind("\n") + 1, len(text) - 2_200)
    match = _OPEN_CONTEXT.search(text, line_start)
    return match.start() if match else len(text)
