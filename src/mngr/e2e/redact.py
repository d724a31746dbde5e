"""Removes secrets from transcripts, recordings and failure messages."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SECRET_NAME = re.compile(r"TOKEN|KEY|SECRET|PASSW|CREDENTIAL|AUTH|COOKIE", re.IGNORECASE)
_MIN_SECRET_LENGTH = 8  # characters: shorter values occur in too many unrelated places
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
# The beginning of a secret at the end of the text received so far.
_SECRET_START = re.compile(
    r"\b(?:sk-|gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|AKIA|ASIA|AIza|hf_|eyJ)[A-Za-z0-9_.-]*\Z"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----(?:(?!-----END)(?:.|\n))*(?:-----END[A-Z -]*)?\Z|://[^\s/@]+\Z"
)
_MIN_PREFIX_LENGTH = 4  # characters of a value that count as its possible beginning


class Redactor:
    """Replaces the secrets of an environment, and everything that looks like a secret."""

    def __init__(self, *environments: Mapping[str, str]) -> None:
        names = {value: name for variables in environments for value, name in collect_secrets(variables).items()}
        longest_first = sorted(names, key=len, reverse=True)
        self._names = {value: names[value] for value in longest_first}
        self._values = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
        self._shapes = re.compile(
            "|".join(f"(?P<s{index}>{shape})" for index, (_, shape) in enumerate(_SECRET_PATTERNS))
        )

    def __call__(self, text: str) -> str:
        """Return `text` with a marker in place of each secret."""
        if self._values is not None:
            text = self._values.sub(lambda match: f"[redacted: {self._names[match[0]]}]", text)
        return self._shapes.sub(_replace_secret, text)

    def find_open_secret(self, text: str) -> int:
        """Return where a secret may begin that is not complete yet, or the length of the text."""
        match = _SECRET_START.search(text)
        starts = [match.start()] if match else []
        for value in self._names:
            longest = min(len(value) - 1, len(text))
            starts += [len(text) - n for n in range(longest, _MIN_PREFIX_LENGTH - 1, -1) if text.endswith(value[:n])][
                :1
            ]
        return min(starts, default=len(text))


def collect_secrets(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the values that must not be shown, each with the name of its variable."""
    return {
        value: name
        for name, value in variables.items()
        if _SECRET_NAME.search(name) and len(value) >= _MIN_SECRET_LENGTH and not value.startswith("/")
    }


def _replace_secret(match: re.Match[str]) -> str:
    assert match.lastgroup is not None
    return f"[redacted: {_SECRET_PATTERNS[int(match.lastgroup[1:])][0]}]"
