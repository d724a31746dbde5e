"""Whether what a program prints now is what a test expected, said in other words: one close match, and no other meaning."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import SequenceMatcher

from mngr.e2e import line_matching

MIN_SIMILARITY = 0.7  # how much of an expectation must be left in a line
_WORD = re.compile(r"[\w./@:+%-]*\w")
_PLACEHOLDER = re.compile(r"\.\.\.|<[a-z_][a-z0-9_]*>|\[[A-Z][A-Z0-9_]*\]")
_FILLER_WORDS = frozenset("a an the this that it its of to".split())
_MEANINGFUL_SIGNS = "<>=~^$€£¥*|&!-"  # that say something between words
_VALUE_CHARACTERS = "./@:%+"  # in a word: a path, a version, a time
# Words that turn what is said into its contrary.
_REVERSING_WORDS = frozenset(
    "no not never none nothing without cannot can't don't isn't wasn't fail fails failed failure error errors wrong "
    "missing invalid unknown refused denied skipped ignored only all any some before after more less".split()
)


@dataclass(frozen=True)
class RewordingDoubt:
    """Why it needs thought."""

    reason: str


@dataclass(frozen=True)
class FixedWords:
    """What stands, whatever is printed."""

    words: frozenset[str]  # of the commands, the blocks and the docstring
    command_words: frozenset[str]  # of the commands alone, but for the names of programs
    is_in_sources: Callable[[str], bool]  # whether the program's own code has a word in its texts

    @classmethod
    def collect(cls, commands: list[str], texts: list[str], say: Callable[[str], bool]) -> FixedWords:
        """Of what the test typed, and of what it says it is about."""
        typed = [_WORD.findall(part.lower()) for command in commands for part in re.split(r"[;&|\n]+", command)]
        given = frozenset(word for words in typed for word in words[1:])
        programs = frozenset(word for words in typed for word in words[:1])
        said = frozenset(word.lower() for text in texts for word in _WORD.findall(text))
        return cls((given | said) - programs, given - programs, say)


def find_rewording(expected: str, shown: str, held: FixedWords) -> str | RewordingDoubt:
    """The one place in `shown` that says what `expected` did."""
    if "\n" in expected.strip():
        return RewordingDoubt("it has several lines")
    rows = [row for row in dict.fromkeys(line_matching.split_output(shown)) if row.strip()]
    close = [
        (best, row) for best, row in ((_find_closest_part(expected.strip(), row.strip()), row) for row in rows) if best
    ]
    if not close:
        return RewordingDoubt("nothing that is printed is close to it")
    if len(close) > 1:
        return RewordingDoubt("several lines are close to it: " + "; ".join(repr(row.strip()) for _, row in close[:3]))
    found = expected.replace(expected.strip(), close[0][0])
    if found not in shown:
        return RewordingDoubt("the white space around it is different")
    return _find_meaning_change(expected, found, held) or found


def reword_lines(
    expected: list[str], shown: str, held: FixedWords, fits: line_matching.LineMatch
) -> list[str] | RewordingDoubt:
    """The lines of an expectation with those changed that are said in other words; `fits` says how far they fit."""
    actual, made = line_matching.split_output(shown), list(expected)
    if sorted(actual) == sorted(expected):
        return RewordingDoubt("the lines are the same in another order")
    for _ in range(len(expected)):
        at, row = fits.expected_at, fits.actual_at
        if at >= len(made) or row >= len(actual):
            return RewordingDoubt("there are more lines than before" if at >= len(made) else "lines are missing")
        if _PLACEHOLDER.search(made[at]):
            return RewordingDoubt(f"{made[at]!r} stands for more than one text, and does not fit")
        rest = [line for line in actual if line not in made or line == actual[row]]
        found = find_rewording(made[at], "\n".join(rest), held)
        if isinstance(found, RewordingDoubt):
            return RewordingDoubt(f"of {made[at]!r}: {found.reason}")
        if found != actual[row].strip():
            return RewordingDoubt(f"{made[at]!r} is now in another place, or a part of a line")
        made[at] = line_matching.escape_quantity(line_matching.escape_text(actual[row]))
        fits = line_matching.match_lines(made, actual, {}, line_matching.PATTERNS)
        if fits.is_match:
            return made
    return RewordingDoubt("the lines do not fit")


def _find_closest_part(expected: str, row: str) -> str | None:
    """The part of a line that is closest, never with fewer words than were expected; None when none is close."""
    wanted, words = len(expected.split()), list(re.finditer(r"\S+", row))
    best, found = MIN_SIMILARITY, None
    for size in sorted({min(len(words), wanted + more) for more in range(3)}, reverse=True):
        if not wanted or size < wanted:
            continue
        for start in range(len(words) - size + 1):
            part = row[words[start].start() : words[start + size - 1].end()]
            ratio = SequenceMatcher(None, expected, part, autojunk=False).ratio()
            if ratio > best:
                best, found = ratio, part
    return found


def _find_meaning_change(expected: str, found: str, held: FixedWords) -> RewordingDoubt | None:
    """Why the two do not say the same: another value, the contrary, or against what must stand."""
    old, new = _WORD.findall(expected), _WORD.findall(found)
    lost, won = _list_differences(old, new)
    said = f"the test expects {expected!r}, and {found!r} is printed"
    if [sign for sign in expected if sign in _MEANINGFUL_SIGNS] != [
        sign for sign in found if sign in _MEANINGFUL_SIGNS
    ]:
        return RewordingDoubt(f"{said}: a sign in it may turn the meaning round")
    for word in (*lost, *won):
        if any(char.isdigit() or char in _VALUE_CHARACTERS for char in word):
            return RewordingDoubt(f"{said}: {word!r} is a value, and either of the two may be wrong")
        if word.lower() in _REVERSING_WORDS:
            return RewordingDoubt(f"{said}: {word!r} may turn the meaning round")
    stands = [word for word in lost if word.lower() in held.words and word not in won]
    if stands:
        return RewordingDoubt(
            f"{said}: {stands[0]!r} stands in a command, the block or the docstring, so the test may be right"
        )
    given = [word for word in won if lost and word.lower() in held.command_words]
    if given:
        return RewordingDoubt(f"{said}: {given[0]!r} is what a command was given")
    still = [word for word in lost if word.lower() not in _FILLER_WORDS and held.is_in_sources(word)]
    if still:
        return RewordingDoubt(f"{said}: the program can still say {still[0]!r}")
    strange = [word for word in won if word.lower() not in held.command_words and not held.is_in_sources(word)]
    return RewordingDoubt(f"{said}: where {strange[0]!r} comes from is not in this project") if strange else None


def _list_differences(old: list[str], new: list[str]) -> tuple[list[str], list[str]]:
    lost: list[str] = []
    won: list[str] = []
    for tag, a1, a2, b1, b2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            lost += old[a1:a2]
            won += new[b1:b2]
    return lost, won


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


def find_renamed_option(command: str, said: str) -> tuple[str, str] | None:
    """An option of the command that the program does not know, and the one that it itself suggests; None when not just one."""
    given = set(_OPTION.findall(command))
    rows = [row for row in said.split("\n") if row.strip() and not row.lstrip().lower().startswith("usage:")]
    pairs: set[tuple[str, str]] = set()
    for at, row in enumerate(rows):
        old = [option for option in _OPTION.findall(row) if option in given]
        if not old:
            continue
        told = " ".join(rows[at : at + 2])
        news = {option for option in _OPTION.findall(told) if option not in given and option not in _COMMON_OPTIONS}
        if _UNKNOWN_OPTION.search(row) and _SUGGESTION.search(told) and len(set(old)) == 1:
            pairs |= {(old[0], new) for new in news}
    return pairs.pop() if len(pairs) == 1 else None


def rename_option(text: str, old: str, new: str) -> str:
    """The text with an option called otherwise."""
    return re.sub(rf"(?<![\w-]){re.escape(old)}(?![\w-])", new, text)
