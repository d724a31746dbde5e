"""Whether what a program prints now is what a test expected, said in other words: one close match, and no other meaning."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import SequenceMatcher

from mngr.e2e import lines

CLOSE = 0.7  # how much of an expectation must be left in a line
_WORD = re.compile(r"[\w./@:+%-]*\w")
_MARKED = re.compile(r"\.\.\.|<[a-z_][a-z0-9_]*>|\[[A-Z][A-Z0-9_]*\]")
_SMALL = frozenset("a an the this that it its of to".split())
_SIGNS = "<>=~^$€£¥*|&!-"  # that say something between words
_OF_VALUES = "./@:%+"  # in a word: a path, a version, a time
# Words that turn what is said into its contrary.
_TURNS = frozenset(
    "no not never none nothing without cannot can't don't isn't wasn't fail fails failed failure error errors wrong "
    "missing invalid unknown refused denied skipped ignored only all any some before after more less".split()
)


@dataclass(frozen=True)
class Doubt:
    """Why it needs thought."""

    why: str


@dataclass(frozen=True)
class Held:
    """What stands, whatever is printed."""

    words: frozenset[str]  # of the commands, the blocks and the docstring
    given: frozenset[str]  # of the commands alone, but for the names of programs
    say: Callable[[str], bool]  # whether the program's own code has a word in its texts

    @classmethod
    def of(cls, commands: list[str], texts: list[str], say: Callable[[str], bool]) -> Held:
        """Of what the test typed, and of what it says it is about."""
        typed = [
            _WORD.findall(part.lower()) for command in commands for part in re.split(r"[;&|\n]+", command)
        ]
        given = frozenset(word for words in typed for word in words[1:])
        programs = frozenset(word for words in typed for word in words[:1])
        said = frozenset(word.lower() for text in texts for word in _WORD.findall(text))
        return cls((given | said) - programs, given - programs, say)


def reworded(expected: str, shown: str, held: Held) -> str | Doubt:
    """The one place in `shown` that says what `expected` did."""
    if "\n" in expected.strip():
        return Doubt("it has several lines")
    rows = [row for row in dict.fromkeys(lines.rows(shown)) if row.strip()]
    close = [
        (best, row) for best, row in ((_window(expected.strip(), row.strip()), row) for row in rows) if best
    ]
    if not close:
        return Doubt("nothing that is printed is close to it")
    if len(close) > 1:
        return Doubt("several lines are close to it: " + "; ".join(repr(row.strip()) for _, row in close[:3]))
    found = expected.replace(expected.strip(), close[0][0])
    if found not in shown:
        return Doubt("the white space around it is different")
    return _other_meaning(expected, found, held) or found


def reworded_lines(expected: list[str], shown: str, held: Held, fits: lines.Outcome) -> list[str] | Doubt:
    """The lines of an expectation with those changed that are said in other words; `fits` says how far they fit."""
    actual, made = lines.rows(shown), list(expected)
    if sorted(actual) == sorted(expected):
        return Doubt("the lines are the same in another order")
    for _ in range(len(expected)):
        at, row = fits.expected_at, fits.actual_at
        if at >= len(made) or row >= len(actual):
            return Doubt("there are more lines than before" if at >= len(made) else "lines are missing")
        if _MARKED.search(made[at]):
            return Doubt(f"{made[at]!r} stands for more than one text, and does not fit")
        rest = [line for line in actual if line not in made or line == actual[row]]
        found = reworded(made[at], "\n".join(rest), held)
        if isinstance(found, Doubt):
            return Doubt(f"of {made[at]!r}: {found.why}")
        if found != actual[row].strip():
            return Doubt(f"{made[at]!r} is now in another place, or a part of a line")
        made[at] = lines.escape_end(lines.escape(actual[row]))
        fits = lines.match(made, actual, {}, lines.PATTERNS)
        if fits.fits:
            return made
    return Doubt("the lines do not fit")


def _window(expected: str, row: str) -> str | None:
    """The part of a line that is closest, never with fewer words than were expected; None when none is close."""
    wanted, words = len(expected.split()), list(re.finditer(r"\S+", row))
    best, found = CLOSE, None
    for size in sorted({min(len(words), wanted + more) for more in range(3)}, reverse=True):
        if not wanted or size < wanted:
            continue
        for start in range(len(words) - size + 1):
            part = row[words[start].start() : words[start + size - 1].end()]
            ratio = SequenceMatcher(None, expected, part, autojunk=False).ratio()
            if ratio > best:
                best, found = ratio, part
    return found


def _other_meaning(expected: str, found: str, held: Held) -> Doubt | None:
    """Why the two do not say the same: another value, the contrary, or against what must stand."""
    old, new = _WORD.findall(expected), _WORD.findall(found)
    lost, won = _differing(old, new)
    said = f"the test expects {expected!r}, and {found!r} is printed"
    if [sign for sign in expected if sign in _SIGNS] != [sign for sign in found if sign in _SIGNS]:
        return Doubt(f"{said}: a sign in it may turn the meaning round")
    for word in (*lost, *won):
        if any(char.isdigit() or char in _OF_VALUES for char in word):
            return Doubt(f"{said}: {word!r} is a value, and either of the two may be wrong")
        if word.lower() in _TURNS:
            return Doubt(f"{said}: {word!r} may turn the meaning round")
    stands = [word for word in lost if word.lower() in held.words and word not in won]
    if stands:
        return Doubt(
            f"{said}: {stands[0]!r} stands in a command, the block or the docstring, so the test may be right"
        )
    given = [word for word in won if lost and word.lower() in held.given]
    if given:
        return Doubt(f"{said}: {given[0]!r} is what a command was given")
    still = [word for word in lost if word.lower() not in _SMALL and held.say(word)]
    if still:
        return Doubt(f"{said}: the program can still say {still[0]!r}")
    strange = [word for word in won if word.lower() not in held.given and not held.say(word)]
    return Doubt(f"{said}: where {strange[0]!r} comes from is not in this project") if strange else None


def _differing(old: list[str], new: list[str]) -> tuple[list[str], list[str]]:
    lost: list[str] = []
    won: list[str] = []
    for tag, a1, a2, b1, b2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            lost += old[a1:a2]
            won += new[b1:b2]
    return lost, won


_OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")
_UNKNOWN = re.compile(
    r"\b(no such|there is no|no option|unknown|unrecogni[sz]ed|not recogni[sz]ed|unexpected|invalid|illegal|bad|deprecated|removed"
    r"|renamed|replaced|is called|now called|did you mean)\b",
    re.IGNORECASE,
)
_SUGGESTS = re.compile(
    r"\b(did you mean|do you mean|perhaps|instead|renamed|is called|now called|replaced|similar|maybe|use|try)\b",
    re.IGNORECASE,
)
_ALWAYS_THERE = ("--help", "-h", "--version", "--usage")


def renamed(command: str, said: str) -> tuple[str, str] | None:
    """An option of the command that the program does not know, and the one that it itself suggests; None when not just one."""
    given = set(_OPTION.findall(command))
    rows = [row for row in said.split("\n") if row.strip() and not row.lstrip().lower().startswith("usage:")]
    pairs: set[tuple[str, str]] = set()
    for at, row in enumerate(rows):
        old = [option for option in _OPTION.findall(row) if option in given]
        if not old:
            continue
        told = " ".join(rows[at : at + 2])
        news = {
            option for option in _OPTION.findall(told) if option not in given and option not in _ALWAYS_THERE
        }
        if _UNKNOWN.search(row) and _SUGGESTS.search(told) and len(set(old)) == 1:
            pairs |= {(old[0], new) for new in news}
    return pairs.pop() if len(pairs) == 1 else None


def rename_option(text: str, old: str, new: str) -> str:
    """The text with an option called otherwise."""
    return re.sub(rf"(?<![\w-]){re.escape(old)}(?![\w-])", new, text)
