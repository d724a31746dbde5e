"""Removes secrets from text that other people may read: transcripts, recordings, reports, pull requests, crash logs."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence

from mngr.e2e.secret_shapes import MAX_OPEN, Secret, find_open_shape, find_shapes

_SECRET_NAME = re.compile(r"TOKEN|KEY|SECRET|PASSW|CREDENTIAL|AUTH|COOKIE", re.IGNORECASE)
_MIN_SECRET_LENGTH = 8  # characters: shorter values occur in too many unrelated places


class Redactor:
    """Replaces the secrets of an environment, and everything that looks like a secret."""

    def __init__(self, *environments: Mapping[str, str]) -> None:
        names = {value: name for variables in environments for value, name in collect_secrets(variables).items()}
        longest_first = sorted(names, key=len, reverse=True)
        self._names = {value: names[value] for value in longest_first}
        self._values = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def __call__(self, text: str) -> str:
        """Return `text` with a marker in place of each secret."""
        return "".join(self.redact_pieces(text, [0, len(text)]))

    def redact_pieces(self, text: str, borders: Sequence[int]) -> list[str]:
        """Return the pieces of the text between the borders. The marker of a secret is in the piece where it begins."""
        pieces = [""] * (len(borders) - 1)
        position = borders[0]
        for secret in self.find_secrets(text):
            _copy_text(text, position, secret.start, borders, pieces)
            if borders[0] <= secret.start < borders[-1]:
                pieces[_find_piece(secret.start, borders)] += f"[redacted: {secret.name}]"
            position = max(position, secret.end)
        _copy_text(text, position, borders[-1], borders, pieces)
        return pieces

    def find_secrets(self, text: str) -> list[Secret]:
        """Return the secrets in the text in their order. Secrets that overlap become one."""
        found = find_shapes(text)
        if self._values is not None:
            found += [Secret(*match.span(), self._names[match[0]]) for match in self._values.finditer(text)]
        merged: list[Secret] = []
        for secret in sorted(found, key=lambda each: (each.start, -each.end, each.name)):
            if merged and secret.start < merged[-1].end:
                last = merged[-1]
                merged[-1] = Secret(last.start, max(last.end, secret.end), last.name)
            else:
                merged.append(secret)
        return merged

    def redact_beginning(self, text: str, max_length: int) -> str:
        """Return the first `max_length` characters without secrets. A secret that the end divides is recognized, too."""
        return self(text[: max_length + MAX_OPEN])[:max_length]

    def find_open_secret(self, text: str) -> int:
        """Return where a secret may begin that is not complete yet, or the length of the text."""
        starts = [find_open_shape(text)]
        for value in self._names:
            longest = min(len(value) - 1, len(text))
            lengths = (length for length in range(longest, 0, -1) if text.endswith(value[:length]))
            starts += [len(text) - length for length in lengths][:1]
        return min(starts)


def collect_secrets(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the values that must not be shown, each with the name of its variable."""
    return {
        value: name
        for name, value in variables.items()
        if _SECRET_NAME.search(name) and len(value) >= _MIN_SECRET_LENGTH and not value.startswith("/")
    }


def _copy_text(text: str, start: int, end: int, borders: Sequence[int], pieces: list[str]) -> None:
    """Append this part of the text to the pieces that it belongs to."""
    while start < end:
        index = _find_piece(start, borders)
        piece_end = min(end, borders[index + 1])
        pieces[index] += text[start:piece_end]
        start = piece_end


def _find_piece(position: int, borders: Sequence[int]) -> int:
    return bisect_right(borders, position) - 1


_MAX_HELD = 10_000  # characters that are held back at most
_MAX_CONTEXT = 500  # characters of the text that is already written, by which a later secret can be recognized


class StreamRedactor:
    """Redacts text that arrives in parts, and holds back what may be the beginning of a secret."""

    def __init__(self, redact: Redactor) -> None:
        self._redact = redact
        self._written = ""  # the end of the text that is written already, with its secrets
        self._held = ""

    def add_text(self, text: str) -> str:
        """Return what can be written now."""
        whole = self._written + self._held + text
        end = max(self._redact.find_open_secret(whole), len(self._written))
        return self._redact_until(whole, len(whole) if len(whole) - end > _MAX_HELD else end)

    def finish(self) -> str:
        """Return the text that was held back. No more will follow."""
        whole = self._written + self._held
        return self._redact_until(whole, len(whole))

    def _redact_until(self, whole: str, end: int) -> str:
        [shown] = self._redact.redact_pieces(whole[:end], [len(self._written), end])
        self._written, self._held = whole[:end][-_MAX_CONTEXT:], whole[end:]
        return self._redact(shown)  # A secret may follow a written word without a space.
