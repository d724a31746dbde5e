"""The ways around checks that an edit adds: compared as counts and amounts, so that those that were there may stay."""

from __future__ import annotations

import re
from collections import Counter

from mngr.base.model import Struct
from mngr.tmr.verify.legacy import examples, warned
from mngr.tmr.verify.legacy.checks import Check
from mngr.tmr.verify.legacy.resolve import Escape

SAID = {
    "skip": "the test is skipped, or can be", "xfail": "the test is allowed to fail", "retry": "the test is repeated until it passes",
    "timeout-raised": "the time limit is higher", "timeout-dropped": "the time limit is gone", "sleep": "the test waits for a fixed time",
    "mock": "the test replaces something with a mock", "program-replaced": "another program may run instead of the program under test",
    "writes-program": "the test writes a program", "ends-early": "the test ends before its checks",
    "assume": "the test excludes cases", "examples": "the test tries fewer cases",
    "dynamic-code": "the test creates code at run time", "not-collected": "tests are excluded from the run",
    "shell-ignores-failure": "the shell command hides a failure of the program", "output-hidden": "output is discarded",
    "environment": "the test changes the environment", "clock-fixed": "the test replaces a clock or a source of random numbers",
    "silenced": "less of the log is recorded",
    "warnings-ignored": "a warning is no longer an error", "warnings-passed": "warnings are suppressed",
    "input-given": "the program gets its input in another way", "program-path": "a directory is added to the search path for programs",
}  # fmt: skip
_NOTED = frozenset(
    (
        "silenced",
        "environment",
        "clock-fixed",
        "input-given",
        "program-path",
        "timeout-dropped",
        "warnings-passed",
    )
)
_KEPT_BY_COUNT = frozenset(("mock", "writes-program", "shell-ignores-failure", "program-replaced", "output-hidden"))
_APART = frozenset(("timeout", "sleep", "retry", "warnings-checked", "given", "example"))
_LOGS = re.compile(r"\b(?:caplog|recwarn|logs?|records|capsys|capfd)\b|\.(?:stderr|err)\b")
_DEFAULT_TIMEOUT = 60.0


class Added(Struct):
    """A way around that was not there."""

    rule: str
    level: str
    line: int
    what: str
    shown: str


def added(old: list[Escape], new: list[Escape], callees: frozenset[str]) -> list[Added]:
    """What the new test has that the old one had not."""
    found = [*_times(old, new), *_sleeps(old, new), *_retries(old, new, callees), *_warnings(old, new)]
    found += _cases(old, new)
    plain = [e for e in new if e.rule not in _APART]
    before = Counter((e.rule, e.what) for e in old)
    rules = Counter(e.rule for e in old)
    seen: Counter[tuple[str, str]] = Counter()
    extra: Counter[str] = Counter()
    now = Counter(e.rule for e in plain)
    for escape in plain:
        key = (escape.rule, escape.what)
        seen[key] += 1
        if seen[key] <= before[key]:
            continue
        extra[escape.rule] += 1
        moved = escape.rule in _KEPT_BY_COUNT and now[escape.rule] <= rules[escape.rule]
        level = "note" if escape.rule in _NOTED or moved else "refuse"
        if not any(a.rule == escape.rule and a.line == escape.line for a in found):
            found.append(_made(escape.rule, level, escape))
    return found


def silent(found: list[Added], checks: list[Check]) -> list[Added]:
    """Where nothing must be in the log, less of it may not be recorded; nor of warnings where there must be none."""
    absent = [c.subject for c in checks if c.kind in {"empty", "notin", "nomatch"}]
    refused = {"silenced"} if any(map(_LOGS.search, absent)) else set()
    unseen = any(map(warned.is_seen, absent))
    return [
        one.replace(level="refuse")
        if one.rule in refused or (unseen and one.rule == warned.PASSED and one.shown.startswith("ignore"))
        else one
        for one in found
    ]


def _made(rule: str, level: str, escape: Escape) -> Added:
    return Added(rule=rule, level=level, line=escape.line, what=SAID[rule], shown=escape.what)


def _times(old: list[Escape], new: list[Escape]) -> list[Added]:
    before: dict[str, list[Escape]] = {}
    after: dict[str, list[Escape]] = {}
    for table, given in ((before, old), (after, new)):
        for escape in given:
            if escape.rule == "timeout":
                table.setdefault(escape.what, []).append(escape)
    found = []
    for what, escapes in after.items():
        most = max(escapes, key=lambda e: e.amount or 0.0)
        limit = max((e.amount or 0.0 for e in before[what]), default=0.0) if what in before else _DEFAULT_TIMEOUT
        if (most.amount or 0.0) > limit and (what in before or (most.amount or 0.0) < 1e9):
            found.append(_made("timeout-raised", "refuse" if what in before else "note", most))
    for what, escapes in before.items():
        if what not in after:
            found.append(_made("timeout-dropped", "refuse" if what == "mark" else "note", escapes[0]))
    return found


def _sleeps(old: list[Escape], new: list[Escape]) -> list[Added]:
    def total(given: list[Escape], looped: bool) -> float:
        return sum(e.amount or 0.0 for e in given if e.rule == "sleep" and e.looped is looped)

    fixed, before = total(new, False), total(old, False)
    shell = [e for e in new if e.rule == "sleep" and e.amount is None]
    if fixed > before or len(shell) > len([e for e in old if e.rule == "sleep" and e.amount is None]):
        escape = max((e for e in new if e.rule == "sleep"), key=lambda e: (not e.looped, e.amount or 0.0))
        return [_made("sleep", "refuse", escape)]
    if total(new, True) > total(old, True) and before == 0:
        return [_made("sleep", "note", next(e for e in new if e.rule == "sleep"))]
    return []


def _warnings(old: list[Escape], new: list[Escape]) -> list[Added]:
    """That a warning is an error is a check, and may not go, not for one kind of them either."""
    strict = [e for e in old if e.rule == warned.CHECKED]
    kept = {e.what for e in new if e.rule == warned.CHECKED}
    gone = [e for e in strict if not warned.covers(kept, e.what)]
    before = {e.what for e in old if e.rule == warned.PASSED}
    passed = [e for e in new if e.rule == warned.PASSED and e.what not in before]
    return [_made("warnings-ignored", "refuse", e) for e in (*gone, *passed)[:1]] if strict else []


def _cases(old: list[Escape], new: list[Escape]) -> list[Added]:
    """Cases that a library makes up, or that it is given besides, are not to become fewer."""
    made = [[e for e in given if e.rule == "given"] for given in (old, new)]
    texts = [[e.what for e in given] for given in made]
    if made[1] and (why := examples.narrowed(*texts)):
        return [_made("examples", "refuse", made[1][0]).replace(shown=why)]
    told = {e.what for e in new if e.rule == "example"}
    return [_made("examples", "refuse", e) for e in old if e.rule == "example" and e.what not in told][:1]


def _retries(old: list[Escape], new: list[Escape], callees: frozenset[str]) -> list[Added]:
    loops = {e.what for e in old if e.rule == "retry"}
    amounts = {e.what: e.amount for e in old if e.rule == "retry"}
    waited = any(e.rule == "sleep" for e in old)
    found: list[Added] = []
    for escape in new:
        if escape.rule != "retry":
            continue
        if escape.what in loops and (escape.amount or 0.0) <= (amounts[escape.what] or 0.0):
            continue
        runs = escape.what.startswith("loop ")
        asks = any(name in callees for name in escape.what.split()[1:])
        level = "note" if runs and (waited or not asks) else "refuse"
        if not any(a.line == escape.line for a in found):
            found.append(_made("retry", level, escape))
    return found
