"""Marks the words that differ between an old and a new line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from mngr.web.report.diff.syntax import CodePart
from mngr.web.untrusted_text import CleanText

_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_MAX_WORDS = 120  # In the part of a line that differs. Only a shorter part is compared word by word.
_MAX_COMPARISONS = 400_000  # Of pairs of words on one page, because a hostile diff could take minutes.
_MIN_SIMILARITY = 0.3  # Below it, two lines have too little in common to mark words.


class WordMarker:
    """Marks changed words, as long as the page has not used up its comparisons."""

    def __init__(self) -> None:
        self._left = _MAX_COMPARISONS

    def mark(self, old: list[CodePart], new: list[CodePart]) -> tuple[list[CodePart], list[CodePart]]:
        """Return the parts of both lines, in which the parts that differ have the kind `word` in addition."""
        old_words, new_words = _split_words(old), _split_words(new)
        old_texts, new_texts = [part.text for part in old_words], [part.text for part in new_words]
        begin = _count_equal(old_texts, new_texts)
        end = _count_equal(old_texts[begin:][::-1], new_texts[begin:][::-1])
        old_span = (begin, len(old_texts) - end)
        new_span = (begin, len(new_texts) - end)
        old_changed, new_changed = set(range(*old_span)), set(range(*new_span))
        size = max(len(old_changed), len(new_changed))
        cost = size * size
        if old_changed and new_changed and size <= _MAX_WORDS and cost <= self._left:
            self._left -= cost
            matcher = difflib.SequenceMatcher(
                None, old_texts[slice(*old_span)], new_texts[slice(*new_span)], autojunk=False
            )
            for match in matcher.get_matching_blocks():
                old_changed -= set(range(begin + match.a, begin + match.a + match.size))
                new_changed -= set(range(begin + match.b, begin + match.b + match.size))
        if _is_too_different(old_texts, old_changed) or _is_too_different(new_texts, new_changed):
            return old, new
        return _mark_words(old_words, old_changed), _mark_words(new_words, new_changed)


def _split_words(parts: list[CodePart]) -> list[CodePart]:
    return [CodePart(part.kind, CleanText(word)) for part in parts for word in _WORD.findall(part.text)]


def _count_equal(old: Sequence[str], new: Sequence[str]) -> int:
    count = 0
    for left, right in zip(old, new, strict=False):
        if left != right:
            break
        count += 1
    return count


def _is_too_different(words: Sequence[str], changed: set[int]) -> bool:
    """True when so much of a line changes that marks would only distract."""
    total = sum(len(word) for word in words if not word.isspace())
    kept = sum(len(word) for index, word in enumerate(words) if index not in changed and not word.isspace())
    return total > 0 and kept < total * _MIN_SIMILARITY


def _mark_words(words: list[CodePart], changed: set[int]) -> list[CodePart]:
    """Return the parts of a line, joined as far as they have the same kind."""
    parts: list[CodePart] = []
    for index, word in enumerate(words):
        kind = f"{word.kind} word".strip() if index in changed else word.kind
        if parts and parts[-1].kind == kind:
            parts[-1] = CodePart(kind, CleanText(parts[-1].text + word.text))
        else:
            parts.append(CodePart(kind, word.text))
    return parts
