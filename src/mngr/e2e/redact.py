"""Secrets do not belong into what people look at: transcripts, recordings, failure messages."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SECRET_NAME = re.compile(r"TOKEN|KEY|SECRET|PASSW|CREDENTIAL|AUTH|COOKIE", re.IGNORECASE)
_MIN_SECRET_LENGTH = 8  # characters: what is shorter stands in too many places that have nothing to do with it
_SECRET_PATTERNS = (
    ("an API key", r"\bsk-(?:ant-|proj-|or-)?[A-Za-z0-9_-]{16,}"),
    ("a GitHub token", r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})"),
    ("a GitLab token", r"\bglpat-[A-Za-z0-9_-]{16,}"),
    ("a Slack token", r"\bxox[abeprs]-[A-Za-z0-9-]{10,}"),
    ("an AWS key", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    ("a Google key", r"\bAIza[A-Za-z0-9_-]{30,}"),
    ("a Hugging Face token", r"\bhf_[A-Za-z0-9]{20,}"),
    ("a signed token", r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    ("a private key", r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:.|\n)*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"),
    ("a password", r"(?<=://)[^\s/:@]+:[^\s/@]+(?=@)"),
)
# How they begin, up to the end of what has come so far.
_SECRET_START = re.compile(
    r"\b(?:sk-|gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|AKIA|ASIA|AIza|hf_|eyJ)[A-Za-z0-9_.-]*\Z"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----(?:(?!-----END)(?:.|\n))*(?:-----END[A-Z -]*)?\Z|://[^\s/@]+\Z"
)
_MIN_PREFIX_LENGTH = 4  # characters of a value that may be its beginning


class Redactor:
    """Knows the secrets of an environment and the shapes that secrets have."""

    def __init__(self, *environments: Mapping[str, str]) -> None:
        found = {value: name for variables in environments for value, name in collect_secrets(variables).items()}
        longest = sorted(found, key=len, reverse=True)
        self._names = {value: found[value] for value in longest}
        self._values = re.compile("|".join(map(re.escape, longest))) if longest else None
        self._shapes = re.compile("|".join(f"(?P<s{at}>{shape})" for at, (_, shape) in enumerate(_SECRET_PATTERNS)))

    def __call__(self, text: str) -> str:
        """`text` with a word in the place of each secret."""
        if self._values is not None:
            text = self._values.sub(lambda found: f"[redacted: {self._names[found[0]]}]", text)
        return self._shapes.sub(_replace_secret, text)

    def find_open_secret(self, text: str) -> int:
        """Where something begins that may be a secret once more has come; the end of the text when nothing does."""
        begun = _SECRET_START.search(text)
        at = [begun.start()] if begun else []
        for value in self._names:
            longest = min(len(value) - 1, len(text))
            at += [len(text) - n for n in range(longest, _MIN_PREFIX_LENGTH - 1, -1) if text.endswith(value[:n])][:1]
        return min(at, default=len(text))


def collect_secrets(variables: Mapping[str, str]) -> dict[str, str]:
    """The values that must not be shown, each with the name of its variable."""
    return {
        value: name
        for name, value in variables.items()
        if _SECRET_NAME.search(name) and len(value) >= _MIN_SECRET_LENGTH and not value.startswith("/")
    }


def _replace_secret(found: re.Match[str]) -> str:
    assert found.lastgroup is not None
    return f"[redacted: {_SECRET_PATTERNS[int(found.lastgroup[1:])][0]}]"
