"""Decides whether a program's new output only rewords what a test expects: one close match with the same meaning."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import SequenceMatcher

from mngr.e2e.expectations import line_matching

MIN_SIMILARITY = 0.7  # how similar a line must be to the expectation
_WORD = re.compile(r"[\w./@:+%-]*\w")
_PLACEHOLDER = re.compile(r"\.\.\.|<[a-z_][a-z0-9_]*>|\[[A-Z][A-Z0-9_]*\]")
_FILLER_WORDS = frozenset("a an the this that it its of to".split())
_MEANINGFUL_SIGNS = "<>=~^$€£¥*|&!-"  # signs that carry meaning between words
_VALUE_CHARACTERS = "./@:%+"  # in a word, these show a path, a version or a time
# Words that can reverse the meaning of a sentence.
_REVERSING_WORDS = frozenset(
    "no not never none nothing without cannot can't don't isn't wasn't fail fails failed failure error errors wrong "
    "missing invalid unknown refused denied skipped ignored only all any some before after more less".split()
)


@dataclass(frozen=True)
class RewordingDoubt:
    """The reason why a rewording needs a decision by a person or a model."""

    reason: str


@dataclass(frozen=True)
class FixedWords:
    """The words that a rewording must not change."""

    words: frozenset[str]  # words of the commands, the blocks and the docstring
    command_words: frozenset[str]  # words of the commands only, without program names
    is_in_sources: Callable[[str], bool]  # True when a string in the program's code has the word

    @classmethod
    def collect(cls, commands: list[str], texts: list[str], is_in_sources: Callable[[str], bool]) -> FixedWords:
        """Collect the words of the test's commands, and of the texts that describe the test."""
        command_parts = [_WORD.findall(part.lower()) for command in commands for part in re.split(r"[;&|\n]+", command)]
        arguments = frozenset(word for words in command_parts for word in words[1:])
        programs = frozenset(word for words in command_parts for word in words[:1])
        described = frozenset(word.lower() for text in texts for word in _WORD.findall(text))
        return cls((arguments | described) - programs, arguments - programs, is_in_sources)


def find_rewording(expected: str, output: str, fixed_words: FixedWords) -> str | RewordingDoubt:
    """Return the one part of `output` that rewords `expected`, or the doubt."""
    if "\n" in expected.strip():
        return RewordingDoubt("the expected text has several lines")
    rows = [row for row in dict.fromkeys(line_matching.split_output(output)) if row.strip()]
    close = [
        (best, row) for best, row in ((_find_closest_part(expected.strip(), row.strip()), row) for row in rows) if best
    ]
    if not close:
        return RewordingDoubt("the program prints nothing similar")
    if len(close) > 1:
        return RewordingDoubt(
            "several lines of the output are similar to the expected text: "
            + "; ".join(repr(row.strip()) for _, row in close[:3])
        )
    reworded = expected.replace(expected.strip(), close[0][0])
    if reworded not in output:
        return RewordingDoubt("the white space around the text differs")
    return _find_meaning_change(expected, reworded, fixed_words) or reworded


def reword_lines(
    expected: list[str], output: str, fixed_words: FixedWords, line_match: line_matching.LineMatch
) -> list[str] | RewordingDoubt:
    """Return the expected lines with reworded ones replaced, or the doubt.

    `line_match` says how far the lines match the output.
    """
    actual, lines = line_matching.split_output(output), list(expected)
    if sorted(actual) == sorted(expected):
        return RewordingDoubt("the output has the expected lines in another order")
    for _ in range(len(expected)):
        index, actual_index = line_match.expected_at, line_match.actual_at
        if index >= len(lines) or actual_index >= len(actual):
            return RewordingDoubt(
                "the output has more lines than expected"
                if index >= len(lines)
                else "the output has fewer lines than expected"
            )
        if _PLACEHOLDER.search(lines[index]):
            return RewordingDoubt(f"{lines[index]!r} is a pattern that does not match")
        rest = [line for line in actual if line not in lines or line == actual[actual_index]]
        reworded = find_rewording(lines[index], "\n".join(rest), fixed_words)
        if isinstance(reworded, RewordingDoubt):
            return RewordingDoubt(f"for {lines[index]!r}: {reworded.reason}")
        if reworded != actual[actual_index].strip():
            return RewordingDoubt(f"{lines[index]!r} is now in another place, or is only part of a line")
        lines[index] = line_matching.escape_quantity(line_matching.escape_text(actual[actual_index]))
        line_match = line_matching.match_lines(lines, actual, {}, line_matching.PATTERNS)
        if line_match.is_match:
            return lines
    return RewordingDoubt("the lines do not match")


def _find_closest_part(expected: str, row: str) -> str | None:
    """Return the part of a line that is most similar and has at least as many words, or None."""
    word_count, words = len(expected.split()), list(re.finditer(r"\S+", row))
    best_ratio, closest = MIN_SIMILARITY, None
    for size in sorted({min(len(words), word_count + extra) for extra in range(3)}, reverse=True):
        if not word_count or size < word_count:
            continue
        for start in range(len(words) - size + 1):
            part = row[words[start].start() : words[start + size - 1].end()]
            ratio = SequenceMatcher(None, expected, part, autojunk=False).ratio()
            if ratio > best_ratio:
                best_ratio, closest = ratio, part
    return closest


def _find_meaning_change(expected: str, reworded: str, fixed_words: FixedWords) -> RewordingDoubt | None:
    """Return the doubt when the meaning may differ: another value, the opposite, or a changed fixed word."""
    old, new = _WORD.findall(expected), _WORD.findall(reworded)
    removed, added = _list_differences(old, new)
    comparison = f"the test expects {expected!r}, and the program prints {reworded!r}"
    if [sign for sign in expected if sign in _MEANINGFUL_SIGNS] != [
        sign for sign in reworded if sign in _MEANINGFUL_SIGNS
    ]:
        return RewordingDoubt(f"{comparison}: a sign may reverse the meaning")
    for word in (*removed, *added):
        if any(char.isdigit() or char in _VALUE_CHARACTERS for char in word):
            return RewordingDoubt(f"{comparison}: {word!r} is a value, and either the test or the program may be wrong")
        if word.lower() in _REVERSING_WORDS:
            return RewordingDoubt(f"{comparison}: {word!r} may reverse the meaning")
    fixed = [word for word in removed if word.lower() in fixed_words.words and word not in added]
    if fixed:
        return RewordingDoubt(
            f"{comparison}: {fixed[0]!r} is part of a command, the block or the docstring, so the test may be right"
        )
    from_command = [word for word in added if removed and word.lower() in fixed_words.command_words]
    if from_command:
        return RewordingDoubt(f"{comparison}: {from_command[0]!r} is an argument of a command")
    still_used = [word for word in removed if word.lower() not in _FILLER_WORDS and fixed_words.is_in_sources(word)]
    if still_used:
        return RewordingDoubt(f"{comparison}: the source code of the program still contains {still_used[0]!r}")
    unknown = [
        word for word in added if word.lower() not in fixed_words.command_words and not fixed_words.is_in_sources(word)
    ]
    return (
        RewordingDoubt(f"{comparison}: {unknown[0]!r} does not occur in the source code of this project")
        if unknown
        else None
    )


def _list_differences(old: list[str], new: list[str]) -> tuple[list[str], list[str]]:
    removed: list[str] = []
    added: list[str] = []
    for tag, a1, a2, b1, b2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            removed += old[a1:a2]
            added += new[b1:b2]
    return removed, added


_OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")
_UNKNOWN_OPTION = re.compile(
    r"\b(no such|there is no|no option|unknown|unrecogni[sz]ed|not recogni[sz]ed|unexpected|invalid|illegal|bad|deprecated|removed"
    r"|renamed|replaced|is called|now called|did you mean)\b",
    re.IGNORECASE,
)
_SUGGESTION = re.compile(
    r"\b(did you mean|do you mean|perhaps|instead|renamed|is called|now called|replaced|similar|maybe|use|try)\b",
    re.IGNORECASE,
)
_COMMON_OPTIONS = ("--help", "-h", "--version", "--usage")


def find_renamed_option(command: str, output: str) -> tuple[str, str] | None:
    """Return the command's unknown option and the one that the program suggests, or None if that is not clear."""
    command_options = set(_OPTION.findall(command))
    rows = [row for row in output.split("\n") if row.strip() and not row.lstrip().lower().startswith("usage:")]
    pairs: set[tuple[str, str]] = set()
    for index, row in enumerate(rows):
        old = [option for option in _OPTION.findall(row) if option in command_options]
        if not old:
            continue
        context = " ".join(rows[index : index + 2])
        suggestions = {
            option
            for option in _OPTION.findall(context)
            if option not in command_options and option not in _COMMON_OPTIONS
        }
        if _UNKNOWN_OPTION.search(row) and _SUGGESTION.search(context) and len(set(old)) == 1:
            pairs |= {(old[0], new) for new in suggestions}
    return pairs.pop() if len(pairs) == 1 else None


def rename_option(text: str, old: str, new: str) -> str:
    """Return the text with an option renamed."""
    return re.sub(rf"(?<![\w-]){re.escape(old)}(?![\w-])", new, text)
