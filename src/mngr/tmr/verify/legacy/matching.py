"""All checks of an old test against those of the new one: which are kept, which say less, which are gone."""

from __future__ import annotations

import ast
import difflib

from mngr.base.model import Struct
from mngr.tmr.verify.legacy import disclaimed, remainder, values
from mngr.tmr.verify.legacy.checks import NEGATIVE, Check
from mngr.tmr.verify.legacy.contracts import promised
from mngr.tmr.verify.legacy.expected import Verdict
from mngr.tmr.verify.legacy.resolve import TooLong
from mngr.tmr.verify.legacy.scene import Scene
from mngr.tmr.verify.legacy.strength import OTHER, STRONGER, UPDATED, WEAKER, judge, related

_PAIRS = 4_000  # of checks that are compared


class Loss(Struct):
    """An old check that no new one makes good."""

    old: Check
    new: Check | None  # the one that says less, or that came closest
    rule: str
    what: str
    justified: bool = False


class Match(Struct):
    """What became of the checks of one test."""

    losses: tuple[Loss, ...] = ()
    updates: tuple[tuple[Check, Check, str], ...] = ()


class Matcher:
    """Pairs old checks with new ones, the surest pairs first."""

    def __init__(self, old: list[Check], own: list[Check], pool: list[Check], scene: Scene) -> None:
        self.left = _once(old)
        self.kept = list(self.left)  # in the end, those that are
        self.own = own
        self.pool = pool
        self.scene = scene.replace(recorded=tuple(check.subject for check in own if _is_record(check)))
        self.used: set[int] = set()
        self.serves: set[int] = set()  # new checks that make good for old ones, and so are no others brought up to date
        self.updates: list[tuple[Check, Check, str]] = []
        self.safe = {check.subject for check in own if _shows(check)}

    def match(self) -> Match:
        """What is kept, and what is not."""
        kept = len(self.left)
        self._exact(self.own)
        pairs = len(self.left) * (len(self.own) + len(self.pool))
        if pairs > _PAIRS or (self.scene.module and not self.scene.module.spend(pairs // 4)):
            raise TooLong
        for candidates in (self.own, self.pool):
            self._exact(candidates)
            self._stronger(candidates)
            self._updated(candidates)
        self._pieces()
        self._counted()
        self.kept = [one for one in self.kept if not any(one is lost for lost in self.left)]
        still = [c for c in self.own if not c.empty and not c.conditions and _says_more(c)]
        losses = [self._loss(check, len(self.left) < kept and bool(still)) for check in self.left]
        return Match(losses=tuple(losses), updates=tuple(self.updates))

    def _exact(self, candidates: list[Check]) -> None:
        table: dict[str, list[Check]] = {}
        for new in candidates:
            if id(new) not in self.used:
                table.setdefault(new.key, []).append(new)
        gone: set[int] = set()
        for old in self.left:
            same = table.get(old.key, [])
            for at, new in enumerate(same):
                if self._reached(old, new):
                    gone.add(id(old))
                    self.used.add(id(same.pop(at)))
                    break
        self.left = [one for one in self.left if id(one) not in gone]

    def _stronger(self, candidates: list[Check]) -> None:
        for old in list(self.left):
            for new in candidates:
                other = new.key != old.key and self._reached(old, new)
                if other and judge(old, new, self.scene).grade <= STRONGER:
                    self.left.remove(old)
                    self.serves.add(id(new))
                    break

    def _updated(self, candidates: list[Check]) -> None:
        pairs: list[tuple[float, int, int, Check, Check, str]] = []
        for i, old in enumerate(self.left):
            for j, new in enumerate(candidates):
                taken = id(new) in self.used or (id(new) in self.serves and new.kind in {"in", "search"})
                if taken or new.key == old.key or not self._reached(old, new):
                    continue
                found = judge(old, new, self.scene)
                if found.grade <= UPDATED:
                    alike = difflib.SequenceMatcher(None, old.key[:300], new.key[:300]).ratio()
                    pairs.append((-alike, i, j, old, new, found.what))
        for *_, old, new, what in sorted(pairs, key=lambda pair: pair[:3]):
            if any(old is one for one in self.left) and id(new) not in self.used:
                self._take(old, new)
                self.updates.append((old, new, what))

    def _take(self, old: Check, new: Check) -> None:
        self.left = [one for one in self.left if one is not old]
        self.used.add(id(new))

    def _reached(self, old: Check, new: Check) -> bool:
        """Whether the new check is reached whenever the old one was."""
        before = {*old.conditions, *map(_shape, old.conditions)}
        return all(c in before or _shape(c) in before or self._discharged(c) for c in new.conditions)

    def _discharged(self, condition: str) -> bool:
        return condition.startswith("each ") and condition[5:] in self.safe

    def _pieces(self) -> None:
        """A list or table that was compared whole, and is now compared part by part."""
        for old in list(self.left):
            reached = [new for new in self.own if self._reached(old, new)]
            if remainder.unpromised(self.scene.doc, old, reached):
                self.left.remove(old)
                self.updates.append((old, reached[-1], "the docstring or the tutorial block does not promise the rest"))
                continue
            if old.kind != "eq" or not isinstance(old.value, dict | list | tuple):
                continue
            parts = [new for new in self.own if new.kind == "eq" and related(old, new) == "part"]
            parts = [new for new in parts if self._reached(old, new) and not new.empty]
            parts = [new for new in parts if judge(old, new, self.scene).rule == "loosened"]
            said = {
                w for new in parts for w in values.words(*values.literals(new.node), *values.literals(new.expected))
            }
            if parts and values.words(*values.literals(old.expected)) <= said:
                self.left.remove(old)
                self.updates.append((old, parts[0], "the test now compares it part by part"))

    def _counted(self) -> None:
        """A list whose order is not promised, and of which what is in it and how many there are is compared now."""
        for old in list(self.left):
            rows = old.value
            if old.kind != "eq" or not isinstance(rows, list | tuple) or not disclaimed.order(self.scene.doc, old):
                continue
            same = [c for c in self.own if c.subject == old.subject and c.kind == "eq" and self._reached(old, c)]
            sized = any(c.views == ("len", *old.views) and c.value == len(rows) for c in same)
            whole = [c for c in same if c.views == ("set", *old.views) and isinstance(c.value, set | frozenset)]
            if sized and whole and all(item in whole[0].value for item in rows):  # type: ignore[operator]
                self.left.remove(old)
                self.updates.append((old, whole[0], "the test ignores the order"))

    def _loss(self, old: Check, others: bool) -> Loss:
        best: tuple[int, Check | None, Verdict] = (OTHER, None, Verdict(grade=OTHER))
        for new in self.own:
            found = judge(old, new, self.scene)
            reached = self._reached(old, new)
            if found.grade < best[0] and not (reached and id(new) in self.used):
                if not reached and found.grade <= UPDATED:
                    why = next(c for c in new.conditions if not self._known(old, c))
                    found = Verdict(grade=WEAKER, rule="conditional", what=f"it runs only under this condition: {why}")
                best = (found.grade, new, found)
        grade, nearest, verdict = best
        worded = verdict.rule in {"", "loosened", "pattern-widened"} and not (nearest and nearest.conditions)
        if worded and disclaimed.wording(self.scene.doc, self.scene.inputs, old, nearest):
            what = "the docstring or the tutorial block does not promise the wording"
            return Loss(old=old, new=nearest, rule=verdict.rule or "assert-removed", what=what, justified=True)
        if grade <= WEAKER:
            what = verdict.what or "the test checks it less often"
            return Loss(old=old, new=nearest, rule=verdict.rule or "assert-removed", what=what)
        if others and not promised(old, self.scene, self.kept):
            return Loss(
                old=old,
                new=None,
                rule="assert-removed",
                what="neither the docstring nor the tutorial block mentions it",
                justified=True,
            )
        return Loss(old=old, new=None, rule="assert-removed", what="a check was removed")

    def _known(self, old: Check, condition: str) -> bool:
        before = {*old.conditions, *map(_shape, old.conditions)}
        return condition in before or _shape(condition) in before or self._discharged(condition)


def _once(checks: list[Check]) -> list[Check]:
    """Without those that say the same at the same moment. What could never fail is nobody's loss."""
    seen: set[tuple[str, int, tuple[str, ...]]] = set()
    kept = []
    for check in checks:
        mark = (check.key, check.moment, check.conditions)
        if not check.empty and mark not in seen:
            seen.add(mark)
            kept.append(check)
    return kept


def _is_record(check: Check) -> bool:
    """Whether it compares what a list of the test's own was filled with, and that names a place."""
    said = [item for item in values.literals(check.expected) if isinstance(item, str)]
    return check.kind == "eq" and "gathered(" in check.subject and any("/" in item for item in said)


def _shows(check: Check) -> bool:
    """Whether it says that there is something in it."""
    if check.empty or check.conditions or check.kind in NEGATIVE or check.kind == "empty":
        return False
    return check.kind != "lt"


def _says_more(check: Check) -> bool:
    return not (isinstance(check.node, ast.Attribute) and check.node.attr == "exit_code") and check.kind != "true"


def _shape(condition: str) -> str:
    first, _, rest = condition.partition(" ")
    try:
        return f"{first} {values.shape(ast.parse(rest, mode='eval'))}"
    except (SyntaxError, ValueError):
        return condition
