"""Two checks side by side: whether the new one says as much as the old one."""

from __future__ import annotations

import ast
import builtins

from mngr.tmr.verify.legacy import disclaimed, implied, patterns, values
from mngr.tmr.verify.legacy.asking import is_program
from mngr.tmr.verify.legacy.checks import NEGATIVE, RANK, Check
from mngr.tmr.verify.legacy.expected import Verdict, expectations, grade
from mngr.tmr.verify.legacy.scene import Scene, callee, has, is_code
from mngr.tmr.verify.legacy.standin import fake
from mngr.tmr.verify.legacy.views import REDACT
from mngr.tmr.verify.legacy.writing import kept

SAME, STRONGER, UPDATED, WEAKER, OTHER = range(5)
_STREAMS = frozenset(("stdout", "stderr", "output", "out", "err", "text", "stdout_text", "stderr_text", "transcript"))
LOOSE = frozenset("lower strip replace sorted set frozenset len round int float abs min max sum slice split join filter bool type keys translate expandtabs".split())  # fmt: skip
_LOOSE_IN = frozenset("lower replace slice len bool type filter hash".split())
_LOOSE_NOT = frozenset("strip slice replace split filter len bool set".split())
_BROAD = frozenset(
    ("Exception", "BaseException", "OSError", "LookupError", "ArithmeticError", "RuntimeError", "Warning")
)
_GENERAL = frozenset(("base", "app", "application", "generic", "general", "any", "user", "cli", "command"))


def judge(old: Check, new: Check, scene: Scene) -> Verdict:
    """How the new check stands to the old one."""
    if old.key == new.key:
        return Verdict(grade=SAME)
    if new.empty:
        alike = new.kind == old.kind or new.expected is not None or new.kind in {"true", "or"}
        return Verdict(grade=WEAKER if alike else OTHER, rule="always-holds", what=new.empty)
    if old.kind == "raises" and new.kind == "raises":
        return _raises(old, new, scene)
    if implied.by(old, new):
        return Verdict(grade=STRONGER)
    if "raises" in (old.kind, new.kind):
        return Verdict(grade=OTHER)
    if "or" in (old.kind, new.kind):
        return _either(old, new, scene)
    relation = related(old, new)
    if relation == "none":
        return Verdict(grade=OTHER)
    if relation in {"updated", "moved", "part"} and (why := fake(old, new, scene)):
        return Verdict(grade=WEAKER, rule="program-replaced", what=why)
    if relation == "updated" and old.kind == "eq" and _deeper(old.node, new.node):
        return Verdict(grade=WEAKER, rule="loosened", what="it checks only a part of what was compared completely")
    found = _compare(old, new, scene)
    if relation == "part":
        return _part(old, new, found)
    if relation == "each":
        return _each(old, new, found)
    if relation == "whole":
        return _whole(old, new, found)
    if relation == "moved":
        plain = old.kind == new.kind and values.text(old.expected or _NONE) == values.text(new.expected or _NONE)
        plain = plain or _asked_better(old, new)
        return Verdict(grade=UPDATED, what="it checks something else") if plain else Verdict(grade=OTHER)
    if relation in {"updated", "stream"} and found.grade < UPDATED:
        return Verdict(grade=UPDATED, what="the checked value is produced in another way")
    return found


_NONE = ast.Constant(value=None)


def _asked_better(old: Check, new: Check) -> bool:
    """Whether the same program is asked the same in another form, and all of the answer is compared."""
    roots = {callee(node).split(".")[0] for node in (old.node, new.node)}
    if new.kind != "eq" or new.views or old.kind not in {"in", "search", "starts"} or len(roots) != 1:
        return False
    asked = [{item for item in values.literals(node) if isinstance(item, str)} for node in (old.node, new.node)]
    said = [values.words(*values.literals(check.expected)) for check in (old, new)]
    return bool(asked[0]) and asked[0] <= asked[1] and bool(said[0]) and said[0] <= said[1]


def related(old: Check, new: Check) -> str:
    """How the things stand to each other that two checks are about."""
    a, b = old.subject, new.subject
    if a == b or a == b.replace("await ", ""):
        return "same"
    if any(found == b for found, _ in _every(old.node)):
        return "each"
    if is_code(old.node) or is_code(new.node):
        both = is_code(old.node) and is_code(new.node)
        return ("updated" if callee(old.node) == callee(new.node) else "moved") if both else "none"
    match old.node, new.node:
        case ast.Attribute(value=one, attr=first), ast.Attribute(value=two, attr=second):
            if values.text(one) == values.text(two):
                return "stream" if {first, second} <= _STREAMS else "none"
        case ast.Call(func=ast.Attribute(value=one, attr=first)), ast.Call(func=ast.Attribute(value=two, attr=second)):
            if values.text(one) == values.text(two) and {first, second} <= {"read_text", "read_bytes"}:
                return "same"
    if has(new.node, a):
        return "part"
    if has(old.node, b):
        return "whole"
    if values.shape(old.node) == values.shape(new.node) or _asked_by(old.node) == _asked_by(new.node) != "":
        return "updated"
    if callee(old.node) and callee(old.node) == callee(new.node):
        return "updated" if _last(old.node) == _last(new.node) or old.kind == new.kind else "moved"
    return "moved"


def _asked_by(node: ast.expr) -> str:
    """The function of the program whose answer it is, as it came."""
    name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    return name if "." in name and is_program(name) else ""


def _deeper(old: ast.expr, new: ast.expr) -> bool:
    """Whether more is done to what the same call gave, beside all that was done before."""
    before, after = _taken(old), _taken(new)
    if before is None or after is None or len(after) <= len(before) or callee(old) != callee(new):
        return False
    rest = iter(after)
    return all(step in rest for step in before)


def _taken(node: ast.expr) -> list[str] | None:
    """What is taken out of what the program's call gave, the last first."""
    steps: list[str] = []
    asked = callee(node)
    while True:
        match node:
            case ast.Call(func=ast.Attribute(value=inner, attr=name)) if any(
                isinstance(part, ast.Call) for part in ast.walk(inner)
            ):
                steps.append(f"{name}()")
            case ast.Attribute(value=inner, attr=name):
                steps.append(name)
            case ast.Subscript(value=inner):
                steps.append("[]")
            case ast.Await(value=inner):
                pass
            case ast.Call(func=func):
                return steps if values.text(func) == asked else None
            case _:
                return None
        node = inner


def _every(node: ast.expr) -> list[tuple[str, int]]:
    return kept(node, "_mngr_every", _numbered)


def _numbered(node: ast.AST) -> list[tuple[str, int]]:
    """The same about each item of something, for every item that is taken out of it by its number."""
    found = []
    for part in ast.walk(node):
        if isinstance(part, ast.Subscript) and isinstance(index := values.value(part.slice), int):
            one = values.text(part)
            found.append((values.text(node).replace(one, f"each({values.text(part.value)})"), index))
    return found


def _each(old: Check, new: Check, found: Verdict) -> Verdict:
    """The old check was about one item, the new one is about all."""
    index = next(number for text, number in _every(old.node) if text == new.subject)
    rows = new.value
    listed = isinstance(rows, list | tuple) and not isinstance(old.value, list | tuple)
    if listed and new.kind == old.kind == "eq" and -len(rows) <= index < len(rows):  # type: ignore[arg-type]
        same = rows[index] == old.value  # type: ignore[index]
        return Verdict(grade=STRONGER if same else UPDATED, what="the test now expects another value")
    return Verdict(grade=STRONGER) if found.grade <= STRONGER else found


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else ""


def _part(old: Check, new: Check, found: Verdict) -> Verdict:
    """The new check looks at a part of what the old one looked at."""
    if old.kind in NEGATIVE:
        if isinstance(new.node, ast.Attribute) and new.node.attr in _STREAMS and new.kind == old.kind:
            return Verdict(grade=WEAKER, rule="loosened", what="it checks less of the output")
        return Verdict(grade=OTHER)
    said = values.words(*values.literals(old.expected))
    path = values.words(*values.literals(new.node)) | values.words(*values.literals(new.expected))
    if old.kind == "eq":
        if new.kind == "eq" and said <= values.words(*values.literals(new.expected)) and not _selects(new.node, old):
            return Verdict(grade=UPDATED, what="it is parsed before the comparison, and all of it is compared")
        return Verdict(grade=WEAKER, rule="loosened", what="it checks only a part of what was compared completely")
    if RANK[new.kind] >= RANK[old.kind] and said <= path:
        return Verdict(grade=STRONGER)
    return found


def _selects(node: ast.expr, old: Check) -> bool:
    """Whether it takes something out of what the old check looked at."""
    if values.text(node) == old.subject:
        return False
    if isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Name):
        return _selects(node.args[0], old)
    return True


def _whole(old: Check, new: Check, found: Verdict) -> Verdict:
    """The old check looked at a part of what the new one looks at."""
    said = values.words(*values.literals(old.expected))
    keys = {str(item) for item in values.literals(old.node) if not isinstance(item, int)}
    keys -= {str(item) for item in values.literals(new.node)}
    given = values.words(*values.literals(new.expected))
    if RANK[new.kind] >= RANK[old.kind] and said | values.words(*keys) <= given and new.kind in {"eq", "full"}:
        return Verdict(grade=STRONGER)
    stream = isinstance(old.node, ast.Attribute) and old.node.attr in _STREAMS
    if stream and found.grade <= UPDATED:
        return Verdict(grade=UPDATED, what="it checks more than before")
    return Verdict(grade=WEAKER, rule="loosened", what="it no longer says where the value is")


def _compare(old: Check, new: Check, scene: Scene) -> Verdict:
    """Two checks about the same thing."""
    loose = _LOOSE_NOT if new.kind in NEGATIVE else LOOSE if RANK[new.kind] >= 4 else _LOOSE_IN
    if new.kind in {"lt", "gt"} or old.kind in {"lt", "gt"}:
        loose = frozenset({"slice", "filter", "round"})
    rows = new.value
    if old.views[:1] == ("len",) and old.kind == new.kind == "eq" and isinstance(rows, list | tuple | dict | set):
        return Verdict(grade=STRONGER if len(rows) == old.value and not new.views else UPDATED)
    fresh = [view for view in new.views if view not in old.views]
    added = [view for view in fresh if view in loose]
    replaced = [view.removeprefix(REDACT) for view in fresh if view.startswith(REDACT)]
    text, given = old.value, scene.doc + scene.inputs
    if isinstance(text, str) and any(patterns.takes_more(pattern, text, given) for pattern in replaced):
        return Verdict(grade=WEAKER, rule="loosened", what="the varying part was removed before the comparison")
    if added == ["sorted"] and disclaimed.order(scene.doc, old) and not _fewer(old.value, rows):
        added = []
    if added and old.kind != "true":
        return Verdict(grade=WEAKER, rule="loosened", what=f"it checks the value only through {', '.join(added)}")
    if (old.kind in NEGATIVE) != (new.kind in NEGATIVE):
        return _turned(old, new)
    return expectations(old, new, scene.doc, scene.inputs, _computes(old, new, scene))


def _fewer(before: object, now: object) -> bool:
    """Whether a list of what is expected has become shorter."""
    return isinstance(before, list | tuple) and isinstance(now, list | tuple) and len(now) < len(before)


def _turned(old: Check, new: Check) -> Verdict:
    a, b = old.value, new.value
    if new.kind in NEGATIVE:
        return Verdict(grade=WEAKER, rule="inverted", what="it only says what is not the case")
    if old.kind == "ne" and new.kind == "eq":
        if a == b:
            return Verdict(grade=WEAKER, rule="inverted", what="the check says the opposite")
        return Verdict(grade=STRONGER)
    if old.kind == "notin" and new.kind == "empty":
        return Verdict(grade=STRONGER)
    if old.kind == "notin" and new.kind == "eq" and isinstance(a, str) and isinstance(b, str):
        return Verdict(grade=STRONGER) if a not in b else Verdict(grade=WEAKER, rule="inverted", what="the opposite")
    if new.kind in {"in", "search"} and a == b:
        return Verdict(grade=WEAKER, rule="inverted", what="the check says the opposite")
    return Verdict(grade=OTHER)


def _computes(old: Check, new: Check, scene: Scene) -> bool:
    """Whether what is expected now comes from the program itself."""
    if new.expected is None or scene.module is None:
        return False

    def asks(node: ast.expr | None) -> bool:
        for part in ast.walk(node) if node is not None else []:
            if not (isinstance(part, ast.Call) and isinstance(part.func, ast.Name | ast.Attribute)):
                continue
            name = values.text(part.func)
            imported = isinstance(part.func, ast.Name) and "." in name and scene.module is not None
            traced = imported and scene.module and scene.module.traces(part.func)
            if name in scene.callees or (traced and not name.startswith("importlib.metadata")):
                return True
        return False

    return asks(new.expected) and not asks(old.expected)


def _either(old: Check, new: Check, scene: Scene) -> Verdict:
    if new.kind == "or" and old.kind == "or":
        ways = [{c.key for c in way} for way in old.either]
        if all(any({c.key for c in way} >= one for one in ways) for way in new.either):
            return Verdict(grade=STRONGER)
        if len(new.either) <= len(old.either) and values.shape(new.node) == values.shape(old.node):
            return Verdict(grade=UPDATED)
        return Verdict(grade=WEAKER, rule="loosened", what="it now allows more")
    if old.kind == "or":
        if any(all(judge(one, new, scene).grade <= UPDATED for one in way) for way in old.either):
            return Verdict(grade=STRONGER)
        return Verdict(grade=OTHER)
    graded = [min((judge(old, one, scene).grade for one in way), default=OTHER) for way in new.either]
    if all(found <= UPDATED for found in graded):
        return Verdict(grade=UPDATED)
    if any(found <= WEAKER for found in graded):
        return Verdict(grade=WEAKER, rule="loosened", what="something else is now also accepted")
    return Verdict(grade=OTHER)


def _raises(old: Check, new: Check, scene: Scene) -> Verdict:
    before, after = old.option.split(), new.option.split()
    if _is_broader(before, after):
        return Verdict(grade=WEAKER, rule="exception-broadened", what=f"{' or '.join(after)} is broader than before")
    if old.expected is not None and new.expected is None:
        return Verdict(grade=WEAKER, rule="exception-broadened", what="the test no longer checks the message")
    if old.expected is not None and new.expected is not None:
        pattern = (
            old.replace(kind="search", option="re search"),
            new.replace(kind="search", option="re search"),
        )
        found = grade(*pattern)
        if found.grade == WEAKER:
            return found
    if extra := _beside(old.node, new.node, scene):
        return Verdict(grade=WEAKER, rule="exception-broadened", what=f"{extra} may now raise it as well")
    same = before == after and old.subject == new.subject
    if callee(old.node) != callee(new.node) and values.shape(old.node) != values.shape(new.node):
        return Verdict(grade=UPDATED if before == after else OTHER, what="another call raises it")
    return Verdict(grade=SAME if same else UPDATED)


def _beside(old: ast.expr, new: ast.expr, scene: Scene) -> str:
    """What stands in the block besides the program, and did not before."""
    parts = new.elts if isinstance(new, ast.Tuple) else []
    for part in parts:
        own = isinstance(part, ast.Call | ast.Subscript) and scene.module and not scene.module.traces(part)
        if own and not has(old, values.text(part)):
            return values.text(part)
    return ""


def _is_broader(old: list[str], new: list[str]) -> bool:
    if set(new) > set(old):
        return True
    for name in new:
        if name in old:
            continue
        if name in _BROAD or (_is_general(name) and not all(_is_general(one) for one in old)):
            return True
        kind = getattr(builtins, name, None)
        for one in old:
            before = getattr(builtins, one, None)
            if isinstance(kind, type) and isinstance(before, type) and issubclass(before, kind):
                return True
    return False


def _is_general(name: str) -> bool:
    """Whether an exception is named like the one above all of its package."""
    parts = name.split(".")
    root = parts[-1].removesuffix("Exception").removesuffix("Error").lower()
    return root in _GENERAL or root in {"".join(part.split("_")) for part in parts[:-1]} or not root
