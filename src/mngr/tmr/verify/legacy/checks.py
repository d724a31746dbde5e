"""What a test checks: each assertion as a kind, the thing it is about, and what is expected of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from mngr.base.model import Struct
from mngr.tmr.verify.legacy import values
from mngr.tmr.verify.legacy.values import UNKNOWN
from mngr.tmr.verify.legacy.views import is_thrown_away, leaks, loop, peel

# How much a check of a kind says, between kinds about the same thing.
RANK = {
    "eq": 6, "full": 5, "empty": 5, "starts": 4, "in": 3, "search": 3, "any": 3,
    "oneof": 2, "lt": 2, "gt": 2, "near": 5, "isinstance": 2, "true": 1,
    "ne": 2, "notin": 3, "nomatch": 3, "or": 1, "raises": 6, "call": 3,
}  # fmt: skip
NEGATIVE = ("ne", "notin", "nomatch")

_FLIP = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}
_ANY = frozenset(("unittest.mock.ANY", "mock.ANY"))


class Check(Struct):
    """One thing that must hold for the test to pass."""

    kind: str
    node: ast.expr  # what it is about, without the views below
    views: tuple[str, ...] = ()  # what is done to it before it is looked at, outermost first
    expected: ast.expr | None = None
    option: str = ""  # the mode of a pattern, the tolerance, whether a bound is strict, a name
    conditions: tuple[str, ...] = ()  # what must be so that it is reached at all
    either: tuple[tuple[Check, ...], ...] = ()  # of kind `or`: the ways it can hold
    empty: str = ""  # why it cannot fail
    line: int = 0
    moment: int = 0  # how many things the test had done by then
    code: str = ""

    @property
    def subject(self) -> str:
        """The thing it is about, as text."""
        return values.text(self.node)

    @property
    def value(self) -> object:
        """The constant that is expected, or UNKNOWN."""
        return values.value(self.expected)

    @property
    def key(self) -> str:
        """Equal for checks that say the same."""
        inside = "|".join(sorted("&".join(sorted(c.key for c in way)) for way in self.either))
        expected = "" if self.expected is None else _plain(self.expected)
        views = ",".join(self.views)
        return f"{self.kind}:{self.option}:{self.subject}:{views}:{expected}:{inside}"


def _plain(node: ast.expr) -> str:
    found = values.value(node)
    return values.text(node) if found is UNKNOWN else repr(found)


class Reader:
    """Turns the expression of an assertion into checks. Names in it were resolved already."""

    def __init__(self, traces: Callable[[ast.AST], bool], odd: frozenset[str], functions: frozenset[str]) -> None:
        self.traces = traces
        self.odd = odd  # classes of the file with a comparison of their own
        self.functions = functions

    def read(self, node: ast.expr, holds: bool = True) -> list[Check]:
        """What it says when it holds, or when it does not."""
        match node:
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return self.read(inner, not holds)
            case ast.BoolOp(op=op, values=parts):
                if isinstance(op, ast.And) is holds:
                    return [check for part in parts for check in self.read(part, holds)]
                return [self._either([self.read(part, holds) for part in parts], node)]
            case ast.Compare(left=left, ops=ops, comparators=others):
                pairs = zip([left, *others[:-1]], ops, others, strict=True)
                made = [check for a, op, b in pairs for check in self._pairs(a, op, b, holds)]
                return made if holds or len(made) == 1 else [self._either([[check] for check in made], node)]
            case ast.Call():
                return (self._none_of(node) if not holds else []) or self._call(node, holds)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return [self._either([self.read(body, holds), self.read(orelse, holds)], test)]
        return [self._truth(node, holds)]

    def _either(self, ways: list[list[Check]], node: ast.expr) -> Check:
        if len(ways) == 1 and len(ways[0]) == 1:
            return ways[0][0]
        hollow = next((c.empty for way in ways if all(c.empty for c in way) for c in way or []), "")
        hollow = hollow or ("one of its alternatives is always true" if any(not way for way in ways) else "")
        return Check(kind="or", node=node, either=tuple(map(tuple, ways)), empty=hollow)

    def _none_of(self, node: ast.expr) -> list[Check]:
        """That no item is picked out says of each that it is not so."""
        if not (isinstance(node, ast.Call) and _is_call(node, "listof") and len(node.args) == 2):
            return []
        each = tuple(loop(part.args[0]) for part in _eaches(node.args[1]))
        return [check.replace(conditions=(*check.conditions, *each)) for check in self.read(node.args[1], False)]

    def _truth(self, node: ast.expr, holds: bool) -> Check:
        why = ""
        always = isinstance(node, ast.Lambda | ast.GeneratorExp | ast.JoinedStr)
        if isinstance(node, ast.Tuple | ast.List | ast.Set) and node.elts:
            always = True
        if isinstance(node, ast.Name) and node.id in self.functions:
            always = True
        if _is_call(node, "text") and any(values.value(arg) for arg in node.args if values.known(arg)):  # type: ignore[attr-defined]
            always = True
        if always:
            why = "it is true for any content"
        base, views = peel(node)
        if not why and not self.traces(base):
            why = "it checks nothing that the program produced"
        if not why and is_thrown_away(base):
            why = "the output of the program is discarded there"
        kind = "true" if holds else "empty"
        if views[:1] == ("len",) or views[:1] == ("bool",):
            views = views[1:]
        return Check(kind=kind, node=base, views=views, empty=why)

    def _pairs(self, left: ast.expr, op: ast.cmpop, right: ast.expr, holds: bool) -> list[Check]:
        """Several things side by side are compared one by one."""
        rows = ast.Tuple | ast.List
        both = isinstance(left, rows) and isinstance(right, rows) and isinstance(op, ast.Eq) and holds
        if both and len(left.elts) == len(right.elts) > 0:  # type: ignore[attr-defined]
            pairs = zip(left.elts, right.elts, strict=True)  # type: ignore[attr-defined]
            return [check for a, b in pairs for check in self._pairs(a, op, b, holds)]
        nothing = isinstance(op, ast.Eq) and holds and values.value(right) == []
        return (self._none_of(left) if nothing else []) or [self._pair(left, op, right, holds)]

    def _pair(self, left: ast.expr, op: ast.cmpop, right: ast.expr, holds: bool) -> Check:
        if isinstance(op, ast.In | ast.NotIn):
            return self._within(left, right, isinstance(op, ast.In) is holds)
        same = values.text(left) == values.text(right)
        swap = self._is_expected(left) and not self._is_expected(right)
        subject, expected = (right, left) if swap else (left, right)
        kind_of: type[ast.cmpop] = _FLIP.get(type(op), type(op)) if swap else type(op)
        base, views = peel(subject)
        hollow = "it compares a value with itself" if same else self._hollow(base, expected)
        option = ""
        if kind_of in _FLIP:
            upper = (kind_of in {ast.Lt, ast.LtE}) is holds
            strict = (kind_of in {ast.Lt, ast.Gt}) is holds
            kind, option = ("lt" if upper else "gt"), ("strict" if strict else "")
            if _is_call(expected, "set", "frozenset") or isinstance(expected, ast.Set):
                kind = "in" if not upper else "oneof"
        elif (kind_of in {ast.Eq, ast.Is}) is holds:
            kind = "eq"
        else:
            kind = "ne"
        check = Check(kind=kind, node=base, views=views, expected=expected, option=option, empty=hollow)
        return _simple(_tolerant(check))

    def _is_expected(self, node: ast.expr) -> bool:
        return values.known(node) or not self.traces(node) or _is_call(node, "pytest.approx")

    def _hollow(self, base: ast.expr, expected: ast.expr) -> str:
        if isinstance(expected, ast.Name | ast.Attribute) and values.text(expected) in _ANY:
            return "the expected value is equal to anything"
        for side in (base, expected):
            for part in ast.walk(side):
                if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id in self.odd:
                    return "it compares with an object that defines equality itself"
        if isinstance(expected, ast.List | ast.Tuple | ast.Dict) and any(
            values.text(part) in _ANY for part in ast.walk(expected) if isinstance(part, ast.Name | ast.Attribute)
        ):
            inside = [part for part in ast.walk(expected) if isinstance(part, ast.Constant)]
            if not inside:
                return "the expected value is equal to anything"
        if not self.traces(base):
            return "it checks nothing that the program produced"
        if is_thrown_away(base):
            return "the output of the program is discarded there"
        if leaks(base, expected):
            return "the test itself put the expected value into the data that it checks"
        return ""

    def _within(self, item: ast.expr, whole: ast.expr, holds: bool) -> Check:
        if not self.traces(whole) and self.traces(item):
            base, views = peel(item)
            return Check(kind="oneof" if holds else "ne", node=base, views=views, expected=whole)
        base, views = peel(whole)
        hollow = self._hollow(base, item)
        if holds and values.value(item) in ("", b""):
            hollow = "every text contains the empty text"
        if values.text(base) == values.text(item):
            hollow = "it compares a value with itself"
        return Check(kind="in" if holds else "notin", node=base, views=views, expected=item, empty=hollow)

    def _call(self, node: ast.Call, holds: bool) -> list[Check]:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        match node:
            case ast.Call(func=ast.Attribute(value=inner, attr="startswith" | "endswith" as side), args=[what, *_]):
                if self.traces(inner):
                    base, views = peel(inner)
                    kind = "starts" if holds else "ne"
                    hollow = "every text starts and ends with the empty text" if values.value(what) == "" else ""
                    return [Check(kind=kind, node=base, views=views, expected=what, option=side, empty=hollow)]
            case ast.Call(func=ast.Attribute(attr="issuperset" | "issubset" as side, value=a), args=[b]):
                whole, part = (a, b) if side == "issuperset" else (b, a)
                return [self._within(part, whole, holds)]
            case ast.Call(func=ast.Attribute(value=inner, attr="__contains__"), args=[what]):
                return [self._within(what, inner, holds)]
            case ast.Call(func=ast.Attribute(value=inner, attr="__eq__"), args=[what]):
                return [self._pair(inner, ast.Eq(), what, holds)]
        if name in {"re.search", "re.match", "re.fullmatch"} and len(node.args) >= 2:
            return [self._pattern(name[3:], node, holds)]
        if name == "bool" and node.args:
            return self.read(node.args[0], holds)
        if name in {"all", "any"} and len(node.args) == 1:
            return self._quantified(name, node.args[0], holds)
        if name == "isinstance" and len(node.args) == 2:
            base, views = peel(node.args[0])
            hollow = "" if self.traces(base) else "it checks nothing that the program produced"
            return [Check(kind="isinstance", node=base, views=views, expected=node.args[1], empty=hollow)]
        if name == "math.isclose" and len(node.args) == 2:
            made = self._pair(node.args[0], ast.Eq(), node.args[1], holds)
            slack = {k.arg: values.value(k.value) for k in node.keywords}
            return [made.replace(kind="near", option=_slack(slack.get("rel_tol"), slack.get("abs_tol")))]
        if name in {"operator.eq", "operator.contains"} and len(node.args) == 2:
            a, b = node.args
            return [self._pair(a, ast.Eq(), b, holds) if name.endswith("eq") else self._within(b, a, holds)]
        return [self._truth(node, holds)]

    def _pattern(self, mode: str, node: ast.Call, holds: bool) -> Check:
        base, views = peel(node.args[1])
        flags = [*node.args[2:], *(k.value for k in node.keywords if k.arg == "flags")]
        hollow = "" if self.traces(base) else "it checks nothing that the program produced"
        kind = ("full" if mode == "fullmatch" else "search") if holds else "nomatch"
        told = values.text(flags[0]) if flags else ""
        expected, given = node.args[0], values.value(node.args[0])
        if isinstance(given, str) and re.search(r"\bre\.(?:X|VERBOSE)\b", told):
            expected = ast.Constant(value=f"(?x){given}")
        blind = re.search(r"\bre\.I", told) or (isinstance(given, str) and re.match(r"\(\?[a-z]*i", given))
        option = f"re {mode}{' i' if blind else ''}"
        return Check(kind=kind, node=base, views=views, expected=expected, option=option, empty=hollow)

    def _quantified(self, name: str, over: ast.expr, holds: bool) -> list[Check]:
        if isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id == "listof":
            inner = self.read(over.args[0], holds)
            if (name == "all") is holds:
                each = [loop(n.args[0]) for n in _eaches(over.args[0])]
                each += [f"if {values.text(test)}" for test in over.args[1:]]
                return [check.replace(conditions=(*check.conditions, *each)) for check in inner]
            made = inner[0] if len(inner) == 1 else self._either([inner], over)
            if made.kind in {"eq", "in", "starts"}:
                return [made.replace(kind="in")]
            return [made.replace(option="any") if made.kind in {"true", "empty", "lt", "gt"} else made]
        if isinstance(over, ast.List | ast.Tuple | ast.Set):
            ways = [self.read(part, holds) for part in over.elts]
            if (name == "all") is holds:
                nothing = Check(kind="true", node=over, empty="it checks an empty list")
                return [check for way in ways for check in way] or [nothing]
            return [self._either(ways, over)]
        return [self._truth(over, holds).replace(option=name)]


def _eaches(node: ast.AST) -> list[ast.Call]:
    return [
        part
        for part in ast.walk(node)
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "each"
    ]


def _is_call(node: ast.expr, *names: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


def _slack(rel: object, absolute: object) -> str:
    def number(found: object, default: float) -> float:
        return float(found) if isinstance(found, int | float) else default

    if rel is UNKNOWN or absolute is UNKNOWN:
        return "1e9 1e9"
    return f"{number(rel, 1e-6 if absolute is None else 0.0)} {number(absolute, 1e-9)}"


def _tolerant(check: Check) -> Check:
    """A comparison with a tolerance, in whichever way it is written."""
    found = check.expected
    if check.kind == "eq" and isinstance(found, ast.Call) and _is_call(found, "pytest.approx") and found.args:
        named = {k.arg: values.value(k.value) for k in found.keywords}
        extra = [values.value(item) for item in found.args[1:]]
        rel = named.get("rel", extra[0] if extra else None)
        absolute = named.get("abs", extra[1] if len(extra) > 1 else None)
        return check.replace(kind="near", expected=found.args[0], option=_slack(rel, absolute))
    match check.node:
        case ast.BinOp(op=ast.Sub(), left=left, right=right) if check.kind == "lt" and check.views[:1] == ("abs",):
            base, views = peel(left)
            bound = values.value(found)
            return check.replace(kind="near", node=base, views=views, expected=right, option=_slack(0.0, bound))
    return check


def _simple(check: Check) -> Check:
    """The plainer kinds that some comparisons come to."""
    found = check.value
    if check.views[:1] == ("len",):
        rest = check.views[1:]
        some = (check.kind, found, check.option) in (("gt", 0, "strict"), ("gt", 1, ""), ("ne", 0, ""))
        if some and isinstance(found, int):
            return check.replace(kind="true", views=rest, expected=None, option="")
        if check.kind == "eq" and found == 0:
            return check.replace(kind="empty", views=rest, expected=None)
        if check.kind == "gt" and isinstance(found, int) and found <= (-1 if check.option else 0):
            return check.replace(empty="no length is less than that")
    if check.kind == "ne" and (found is None or found in ("", b"", [], {}, (), False)) and found is not UNKNOWN:
        return check if found == 0 and not isinstance(found, bool) else check.replace(kind="true", expected=None)
    if check.kind == "eq" and found in ("", b"", [], {}, ()):
        return check.replace(kind="empty", expected=None)
    return check
