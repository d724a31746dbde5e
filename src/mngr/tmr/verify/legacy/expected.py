"""What two checks of the same thing expect: the same, more, something else, or less."""

from __future__ import annotations

import ast
import re

from mngr.base.model import Struct
from mngr.tmr.verify.legacy import patterns, values
from mngr.tmr.verify.legacy.checks import RANK, Check
from mngr.tmr.verify.legacy.patterns import Pattern
from mngr.tmr.verify.legacy.values import UNKNOWN

SAME, STRONGER, UPDATED, WEAKER, OTHER = range(5)
_TEXTUAL = frozenset(("eq", "full", "starts", "in", "search", "any"))
_ENDLESS = re.compile(r"\b(?:maxsize|inf|infinity|Infinity|float_info)\b")
_FAILING = re.compile(
    r"\b(fail|fails|error|errors|refus\w*|reject\w*|invalid|unknown|not allowed|exit code [1-9])\b", re.I
)


class Verdict(Struct):
    """How a new check stands to an old one, and why."""

    grade: int
    rule: str = ""
    what: str = ""


def _less(what: str, rule: str = "loosened") -> Verdict:
    return Verdict(grade=WEAKER, rule=rule, what=what)


def expectations(old: Check, new: Check, doc: str, inputs: str, computed: bool) -> Verdict:
    """Both checks are about the same thing, and both say that something is, or that something is not."""
    if computed and new.kind not in {"true", "isinstance"}:
        return _less("the expected value comes from the program itself", "expected-computed")
    if _wild(new) and not _wild(old):
        return _less("part of the expected value may be anything")
    if old.kind in {"ne", "notin", "nomatch"}:
        return _negative(old, new, inputs)
    if (plain := _equivalent(old, new)) is not None:
        return plain
    if new.kind == "empty":
        return _less("the value may now be empty")
    if old.kind == "true":
        if new.kind == "true":
            looser = new.option == "any" and old.option != "any"
            return _less("any one of them is now enough") if looser else Verdict(grade=SAME)
        return Verdict(grade=STRONGER) if new.kind != "empty" else _less("the check says the opposite", "inverted")
    if new.kind == "near" or old.kind == "near":
        return _near(old, new)
    if old.kind in {"lt", "gt"} and new.kind == old.kind:
        return _bound(old, new)
    if old.kind == "call" or new.kind == "call":
        return _called(old, new)
    if RANK[new.kind] < RANK[old.kind]:
        if old.kind in _TEXTUAL and new.kind == "full":
            return grade(old, new, doc + inputs)
        return _less(f"{_NAMES[old.kind]} became {_NAMES[new.kind]}")
    if old.kind in _TEXTUAL and new.kind in _TEXTUAL:
        found = grade(old, new, doc + inputs)
        return _against(old, new, doc) if found.grade == UPDATED else found
    return _others(old, new)


_NAMES = {
    "eq": "equality", "full": "a pattern for the whole text", "empty": "emptiness", "starts": "the start or end",
    "in": "containment", "search": "a pattern anywhere in the text", "any": "one of several values", "oneof": "one of a list",
    "lt": "a bound", "gt": "a bound", "near": "nearness", "isinstance": "its type", "true": "a check that there is a value",
    "or": "alternatives", "call": "a check by a call", "raises": "an exception",
    "ne": "a difference", "notin": "absence", "nomatch": "absence of a pattern",
}  # fmt: skip


def _wild(check: Check) -> bool:
    nodes = ast.walk(check.expected) if check.expected is not None else []
    return any(isinstance(n, ast.Name | ast.Attribute) and values.text(n).endswith("mock.ANY") for n in nodes)


def _equivalent(old: Check, new: Check) -> Verdict | None:
    """Other words for the same."""
    if old.kind == "eq" and new.kind == "true" and old.value is True:
        return Verdict(grade=UPDATED)
    if old.kind == "eq" and new.kind == "empty" and old.value is not UNKNOWN and not old.value:
        return Verdict(grade=UPDATED)
    if old.kind == "empty":
        if new.kind == "empty":
            return Verdict(grade=SAME)
        if new.kind == "eq":
            return Verdict(grade=UPDATED)
        return _less("the value no longer has to be empty")
    return None


def _negative(old: Check, new: Check, inputs: str) -> Verdict:
    a, b = old.value, new.value
    if old.kind == new.kind and a == b and a is not UNKNOWN:
        return Verdict(grade=SAME)
    if isinstance(a, str) and isinstance(b, str):
        if old.kind == "ne" and new.kind == "notin":
            return Verdict(grade=STRONGER) if b in a else Verdict(grade=OTHER)
        if new.kind == "ne":
            return (
                _less("a check for absence became a check for a difference")
                if old.kind != "ne"
                else Verdict(grade=UPDATED)
            )
        if b in a and b:
            return Verdict(grade=STRONGER)
        if a in b:
            return _less("a smaller part must be absent")
        return Verdict(grade=UPDATED) if b.strip() and b.strip() in inputs else _less("something else must be absent")
    if old.kind == "ne" and new.kind == "ne":
        return Verdict(grade=UPDATED) if new.expected is not None else Verdict(grade=OTHER)
    same_kind = old.kind == new.kind
    return Verdict(grade=UPDATED) if same_kind and UNKNOWN in (a, b) else _less("something else must be absent")


def _near(old: Check, new: Check) -> Verdict:
    if new.kind == "eq":
        return Verdict(grade=STRONGER)
    if new.kind != "near":
        return _less(f"{_NAMES[old.kind]} became {_NAMES[new.kind]}")
    rel, absolute = map(float, new.option.split())
    if old.kind == "near":
        before = [float(part) for part in old.option.split()]
        if (rel > before[0] * 1.01 and rel > 1e-6) or (absolute > before[1] * 1.01 and absolute > 1e-6):
            return _less("the tolerance is larger", "tolerance-raised")
        return Verdict(grade=SAME if old.value == new.value else UPDATED)
    if old.kind != "eq":
        return Verdict(grade=STRONGER)
    size = abs(old.value) if isinstance(old.value, int | float) else 1.0
    if rel > 1e-4 or absolute > 1e-4 * max(1.0, size):
        return _less("an exact comparison became an approximate one", "tolerance-raised")
    return Verdict(grade=UPDATED)


def _bound(old: Check, new: Check) -> Verdict:
    a, b = old.value, new.value
    if b is UNKNOWN and new.expected is not None and _ENDLESS.search(values.text(new.expected)):
        return _less("the limit is larger than any value", "bound-raised")
    if not isinstance(a, int | float) or not isinstance(b, int | float):
        return Verdict(
            grade=SAME if values.text(old.expected or new.node) == values.text(new.expected or new.node) else UPDATED
        )
    looser = b > a if old.kind == "lt" else b < a
    if looser or (a == b and old.option == "strict" and new.option != "strict"):
        return _less(f"the limit was {a} and is now {b}", "bound-raised")
    return Verdict(grade=STRONGER)


def _called(old: Check, new: Check) -> Verdict:
    if old.kind != new.kind:
        return Verdict(grade=STRONGER) if new.kind == "eq" else Verdict(grade=OTHER)
    if old.option != new.option:
        fewer = len(values.literals(new.expected)) < len(values.literals(old.expected))
        return _less("another check replaces it and requires less") if fewer else Verdict(grade=OTHER)
    if values.text(old.expected or old.node) == values.text(new.expected or new.node):
        return Verdict(grade=SAME)
    if values.weight(str(values.literals(new.expected))) * 2 < values.weight(str(values.literals(old.expected))):
        return _less("the test expects less")
    return Verdict(grade=UPDATED)


def _others(old: Check, new: Check) -> Verdict:
    a, b = old.value, new.value
    if old.kind == "oneof" and new.kind == "oneof":
        try:
            before, after = set(a), set(b)  # type: ignore[call-overload]
        except TypeError:
            return Verdict(grade=UPDATED)
        if after <= before:
            return Verdict(grade=STRONGER)
        return _less("the test allows more") if len(after) > len(before) else Verdict(grade=UPDATED)
    if old.kind == "isinstance" and new.kind == "isinstance":
        return _types(old, new)
    return Verdict(grade=STRONGER if new.kind in {"eq", "empty"} else OTHER)


def _types(old: Check, new: Check) -> Verdict:
    def kinds(check: Check) -> set[str]:
        found = check.expected
        return {values.text(e) for e in (found.elts if isinstance(found, ast.Tuple) else [found]) if e is not None}

    if "object" in kinds(new) or kinds(new) > kinds(old):
        return _less("the test allows more types")
    return Verdict(grade=SAME if kinds(old) == kinds(new) else UPDATED)


def _against(old: Check, new: Check, doc: str) -> Verdict:
    """Another value is expected: not one that the contract contradicts."""
    a, b = old.value, new.value
    code = isinstance(old.node, ast.Attribute) and old.node.attr == "exit_code"
    if code and b == 0 and a != 0 and (_FAILING.search(doc) or not doc):
        return _less("the command should fail, and the test now expects it to succeed", "inverted")
    for plain, other in ((str(a).strip(), str(b).strip()),):
        if isinstance(a, str | int | float) and plain and _stands(plain, doc) and not _stands(other, doc):
            return _less(
                f"the docstring or the tutorial block says {plain!r}, and the test now expects {other!r}",
                "against-contract",
            )
    return Verdict(grade=UPDATED, what="the test now expects another value")


def _stands(plain: str, doc: str) -> bool:
    return bool(re.search(rf"(?<![\w.]){re.escape(plain)}(?![\w])", doc))


# Texts and patterns.


def _pattern(check: Check) -> Pattern | None:
    found = check.value
    if isinstance(found, bytes):
        found = found.decode("utf-8", "replace")
    if not isinstance(found, str):
        return None
    if check.option == "lines":
        return patterns.of_lines(found)
    return patterns.of_regex(found) if check.option.startswith("re ") else patterns.of_text(found)


def grade(old: Check, new: Check, given: str = "") -> Verdict:
    """Two expectations of a text, or of a value."""
    before, after = _pattern(old), _pattern(new)
    if before is None or after is None:
        return _valued(old, new)
    if old.option.startswith("re ") and new.option.startswith("re "):
        return _regexes(old, new, before, after)
    if after.anything and not before.anything:
        return _less("any text matches it", "pattern-widened")
    if new.kind == "eq" and old.kind == "eq":
        return _valued(old, new)
    plain = before.fixed.strip()
    if new.option != "lines" and not new.option.startswith("re "):
        if plain and plain in after.fixed:
            return Verdict(grade=STRONGER)
        if old.kind == new.kind == "in" and _worded(plain, after.fixed):
            return Verdict(grade=STRONGER)
        if after.fixed.strip() and after.fixed.strip() in plain and old.option != "lines":
            return _less("the test looks for a shorter text")
        enough = after.weight >= 0.5 * before.weight and after.weight >= min(3.0, before.weight)
        return Verdict(grade=UPDATED) if enough else _less("the test looks for much less text")
    regex = old.option.startswith("re ")
    varies = 0.0 if regex or after.broad > before.broad else patterns.varying(before.fixed, given)
    if plain and plain in after.fixed and after.wild <= before.wild:
        return Verdict(grade=STRONGER)
    if after.weight < (before.weight - varies) * 0.95:
        return _less("the pattern fixes less of the text", "pattern-widened")
    if after.wild > before.wild and not varies and after.weight < before.weight:
        return _less("the pattern fixes less of the text", "pattern-widened")
    return Verdict(grade=UPDATED)


_MODES = {"re search": 0, "re match": 1, "re fullmatch": 2}


def _regexes(old: Check, new: Check, before: Pattern, after: Pattern) -> Verdict:
    if old.value == new.value and old.option == new.option:
        return Verdict(grade=SAME)
    if after.anything and not before.anything:
        return _less("the pattern matches everything", "pattern-widened")
    if new.option.endswith(" i") and not old.option.endswith(" i"):
        return _less("the pattern now ignores upper and lower case", "pattern-widened")
    ends = [p.anchors + _MODES[c.option.removesuffix(" i")] for p, c in ((before, old), (after, new))]
    if ends[1] < ends[0]:
        return _less("the pattern no longer matches from the start to the end", "pattern-widened")
    if after.weight < before.weight:
        if _within(after.fixed, before.fixed) or after.wild > before.wild:
            return _less("the pattern matches more than before", "pattern-widened")
        if after.weight < 0.6 * before.weight:
            return _less("the pattern requires much less than before", "pattern-widened")
    return Verdict(grade=UPDATED)


def _within(part: str, whole: str) -> bool:
    """Whether the characters come in this order."""
    rest = iter(whole)
    return all(char in rest for char in part)


def _worded(plain: str, whole: str) -> bool:
    """Whether all words of a text come in a longer one, in the same order and one close to the other."""
    words, rest = re.findall(r"\w+", plain), re.findall(r"\w+", whole)
    if len(words) < 3 or len(rest) <= len(words):
        return False
    return any(rest[at : at + len(words)] == words for at in range(len(rest) - len(words) + 1))


def _valued(old: Check, new: Check) -> Verdict:
    a, b = old.value, new.value
    if b is UNKNOWN:
        same = values.text(old.expected or new.node) == values.text(new.expected or new.node)
        return Verdict(grade=SAME if same else UPDATED, what="the test no longer contains the expected value")
    if a is UNKNOWN:
        return Verdict(grade=UPDATED)
    if old.kind == new.kind and a == b:
        return Verdict(grade=SAME)
    if old.kind != "eq" and new.kind == "eq":
        return Verdict(grade=STRONGER if values.words(str(a)) <= values.words(str(b)) else UPDATED)
    if old.option == "tree" and isinstance(a, dict) and isinstance(b, dict) and a.keys() > b.keys():
        return _less("the test checks fewer files")
    sized = isinstance(a, str | bytes | list | tuple | dict | set)
    if sized and values.weight(b) < 0.4 * values.weight(a):
        return _less("the test expects much less")
    if b is None and a is not None:
        return _less("the test no longer expects anything")
    return Verdict(grade=UPDATED, what="the test now expects another value")
