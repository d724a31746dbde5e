"""What a contract says outright that it does not promise: in which order things come, and in which words they are said."""

from __future__ import annotations

import ast
import re

from mngr.tmr.verify.legacy import patterns, values
from mngr.tmr.verify.legacy.checks import Check
from mngr.tmr.verify.legacy.escapes import command_of

_LONG = 8_000  # characters of a contract
_CLAUSES = re.compile(r"(?<=[.;:!?])\s+|,\s+(?:but|while|whereas|yet|though|only)\s+|\n\s*\n")
_PARTS = re.compile(r",(?!\s*(?:which|whose)\b)")
_DENIED = re.compile(
    r"(?:\b(?:not|no|never|neither|nor|nothing|cannot)|n't)\b(?:\W+\w+){0,3}?\W+"
    r"(?:part\b|promise|guarante|specif|defin|fixed|stable|signific|relevan|import|matter|contract|document|kept|"
    r"preserve|particular|test|check|rel(?:y|ied)\b|meant\b|depend\w* (?:up)?on\b|assum)",
    re.I,
)
_FREE = re.compile(
    r"\b(?:unspecified|undefined|unordered|unsorted|arbitrary|unstable|undocumented|irrelevant|unimportant|random|"
    r"(?:any|whatever|whichever)\b(?:\W+\w+)?\W+(?:order|words?|wording)|differs|varies|depends on|implementation detail|"
    r"(?:may|can|might|could)\s+(?:\w+\s+)?(?:change|vary|differ|be anything)|free\b(?! of)|up to the)\b",
    re.I,
)
_BEFORE = re.compile(r"(?:\b(?:not|no|never|cannot|without)|n't)\b(?:\W+\w+){0,2}\W*$", re.I)
_AFTER = re.compile(r"(?:may|can|might|could)\s+(?:not|never)\b", re.I)
_ORDER = re.compile(r"\b(?:order|unordered|unsorted|sequence)\b", re.I)
_ORDERED = re.compile(
    r"\b(?:sorted|ordered|alphabetical\w*|chronological\w*|ascending|descending|\w+ (?:first|last)|in (?:the |that |this |its |their )?"
    r"(?:\w+ )?order\b|order\b[^.;]*\b(?:kept|preserved|same|stable|as given|that of|matters))\b",
    re.I,
)
_WHOSE = re.compile(r"\border\b (?:of|in which|that)\s+(?:the |its |their |all )?(\w+)|\b(\w+)(?:'s|s')? order\b", re.I)
_WORDS = re.compile(r"\b(?:wording|phras\w+|words|text|messages?|formulation|punctuation|formatting|layout)\b", re.I)
_ASIDE = re.compile(
    r"\b(?:stderr|standard error|errors?|warn\w*|diagnostic\w*|logs?|logged|exceptions?|complain\w*)\b", re.I
)
_OUTPUT = re.compile(
    r"\b(?:stdout|standard output|output|prints?|printed|lines?|summary|report|banner|greeting)\b", re.I
)
_QUOTED = re.compile(r"`+([^`]+)`+|\"([^\"]+)\"|(?<!\w)'([^']+)'|\b(\w*\d\w*)\b")
_SUBJECT_ASIDE = re.compile(r"\.(?:stderr|err)\b|\braised\(|\bcaplog\b|\brecwarn\b")


def clauses(doc: str, topic: re.Pattern[str]) -> list[str]:
    """The clauses that say of a topic that nothing is promised of it."""
    plain = [re.sub(r"\s+", " ", part).strip() for part in _CLAUSES.split(doc[:_LONG]) if part and topic.search(part)]
    return [clause for clause in plain if any(map(_denies, _about_it(clause, topic)))]


def _about_it(clause: str, topic: re.Pattern[str]) -> list[str]:
    """The parts of a clause that speak of a topic; all of it where a part only names it."""
    parts = [part.strip() for part in _PARTS.split(clause) if topic.search(part)]
    return [clause if len(part.split()) <= 2 else part for part in parts]


def _denies(clause: str) -> bool:
    free = [
        found
        for found in _FREE.finditer(clause)
        if not _BEFORE.search(clause[: found.start()]) and not _AFTER.match(clause[found.start() :])
    ]
    return bool(free or _DENIED.search(clause))


def order(doc: str, check: Check) -> bool:
    """Whether nothing is promised of the order of what a check looks at."""
    free = clauses(doc, _ORDER)
    if not free:
        return False
    kept = [part for part in _CLAUSES.split(doc[:_LONG]) if part and _ORDERED.search(part) and not _denies(part)]
    return not kept or any(_is_of(check, clause) for clause in free)


def _is_of(check: Check, clause: str) -> bool:
    """Whether it says whose order it is, and that is what the check looks at."""
    whose = {word.lower().rstrip("s") for found in _WHOSE.findall(clause) for word in found if len(word) > 3}
    seen = {word.rstrip("s") for word in values.words(check.subject, check.code)}
    return bool(whose & seen)


def wording(doc: str, inputs: str, old: Check, new: Check | None) -> bool:
    """Whether nothing is promised of the words that an old check asked for, and the new one has all that is left."""
    said = old.value
    if not isinstance(said, str) or not any(_about(doc, clause, old) for clause in clauses(doc, _WORDS)):
        return False
    if new is None and "raised(" not in old.subject:
        return False  # that something is said was promised, or may have been
    if new is not None and (new.empty or new.views != old.views or new.subject != old.subject):
        return False
    plain, now = _fixed(old), _fixed(new) if new is not None else ""
    promised = {token for token in (*_given(inputs), *_named(doc)) if _stands(token, plain)}
    return all(_stands(token, now) for token in promised)


def _fixed(check: Check) -> str:
    """What a check says in so many words."""
    found = check.value if isinstance(check.value, str) else ""
    return patterns.of_regex(found).fixed if check.option.startswith("re ") else found


def _about(doc: str, clause: str, check: Check) -> bool:
    """Whether a clause is about the stream that a check looks at."""
    if _SUBJECT_ASIDE.search(check.subject):
        return bool(_ASIDE.search(clause)) or not _OUTPUT.search(clause)
    return not _ASIDE.search(clause) and (bool(_OUTPUT.search(clause)) or not _ASIDE.search(doc))


def _given(inputs: str) -> set[str]:
    """The words that the test hands to the program, its own name aside."""
    found: set[str] = set()
    for row in inputs.splitlines():
        try:
            tree = ast.parse(row, mode="eval")
        except (SyntaxError, ValueError):
            continue
        lines = [words for part in ast.walk(tree) if (words := (command_of(part) or "").split())]
        given = {word for item in values.literals(tree) if isinstance(item, str) for word in item.split()}
        found |= given - {words[0] for words in lines}
    return {word.rsplit("/", 1)[-1].strip("'\"") for word in found}


def _named(doc: str) -> set[str]:
    """What the contract quotes, and its numbers."""
    return {word for found in _QUOTED.findall(doc) for word in found if word}


def _stands(token: str, text: str) -> bool:
    return len(token) > 1 and bool(re.search(rf"(?<!\w){re.escape(token)}(?!\w)", text))
