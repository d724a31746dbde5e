"""Whether what a check looks at is the program's own doing: stand-ins, lines that say it themselves, programs told not to fail."""

from __future__ import annotations

import ast
import re

from mngr.tmr.verify.legacy import commands, escapes, values
from mngr.tmr.verify.legacy.checks import Check
from mngr.tmr.verify.legacy.scene import Scene, has, is_code
from mngr.tmr.verify.legacy.source import Module
from mngr.tmr.verify.legacy.views import drops_letters
from mngr.tmr.verify.legacy.writing import kept
from mngr.tmr.verify.legacy.written import open_parts

_LONG = 4_000  # characters of a line that are looked at
_ABSENT = frozenset(("empty", "notin", "nomatch"))
_MAKES_UP = re.compile(
    r"\bselect\b.*\b(?:coalesce|ifnull|nvl|union|case\s+when|values)\b|\bselect\s+['\"\d]", re.I | re.S
)
_NAMES = ("fake", "stub", "mock", "dummy")


def fake(old: Check, new: Check, scene: Scene) -> str:
    """Why what the new check looks at is not the program's any more."""
    return _by_command(old, new, scene) or _by_expression(old, new, scene)


def _by_command(old: Check, new: Check, scene: Scene) -> str:
    before, after = _commands(old.node), _commands(new.node)
    if before == after:
        return ""
    said = new.value if isinstance(new.value, str) else ""
    tries = (
        (escapes.is_inert, "the checked command is not the program"),
        (_stands_in, "the checked command is a stand-in for the program"),
        (escapes.is_help, "the command only asks the program for its help"),
        (
            lambda c: is_code(new.node) and commands.hides_status(c),
            "the checked exit code is not that of the program",
        ),
        (
            lambda c: new.kind in _ABSENT and commands.is_quiet(c, scene.doc),
            "the command tells the program to print nothing",
        ),
        (commands.has_remark, "part of the program's command line is only a comment"),
        (lambda c: escapes.says(c, said), "the command line itself contains the expected text"),
    )
    for is_so, why in tries:
        if any(map(is_so, after)) and not any(map(is_so, before)):
            return why
    if is_code(new.node) and _strict(before) > _strict(after):
        return "the command no longer tells the program to be strict"
    for option in {commands.is_eased(c) for c in after} - {commands.is_eased(c) for c in before} - {""}:
        if option.strip("-") not in scene.doc:
            return f"an option tells the program to do nothing or not to fail: {option}"
    return ""


def _by_expression(old: Check, new: Check, scene: Scene) -> str:
    for part in kept(new.node, "_mngr_telling", _telling):
        if isinstance(part, ast.Name):
            named = any(word in part.id.lower() for word in _NAMES) and not has(old.node, part.id)
            if named and not _is_below(part.id, old, new, scene):
                return "the checked value comes from a stand-in"
        elif has(old.node, values.text(part)):
            continue
        elif isinstance(part, ast.IfExp):
            own = scene.module and not all(map(scene.module.traces, (part.body, part.orelse)))
            if own and any(part is one for one in open_parts(new.node)):  # and not in what the program is given
                return "the checked value may come from the test itself"
        elif _query_says(part, new):
            return "the query contains what it should find"
        elif drops_letters(part):
            return "unreadable parts of the output are dropped"
        elif values.text(part.func) == "changed":
            if not _is_surroundings(part.args[0], scene.module):
                return "the test itself changes the checked value"
        elif scene.module and any(_answers(arg, new, scene.module) for arg in _arguments(part)):
            return "the test passes a function that returns the answer"
    return ""


def _is_below(name: str, old: Check, new: Check, scene: Scene) -> bool:
    """Whether a client library's own transport takes the place of the network, and what it is asked is compared."""
    package = name.split(".", maxsplit=1)[0]
    asked = all(_package(check.node) not in {"", package} for check in (old, new))
    made = [p for p in ast.walk(old.node) if isinstance(p, ast.Call) and _package(p) == package]
    live = bool(made) and not any(part.args or part.keywords for part in made)
    recorded = any(f"{name}(" in subject for subject in scene.recorded)
    return name.endswith("Transport") and asked and live and recorded


def _package(node: ast.AST) -> str:
    """Whose function is called."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Await):
        node = node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return _package(node.func)
    named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    return values.text(node).split(".", maxsplit=1)[0].split("(")[0] if named else ""


def _telling(node: ast.AST) -> list[ast.Name | ast.Call | ast.IfExp]:
    return [part for part in ast.walk(node) if isinstance(part, ast.Name | ast.Call | ast.IfExp)]


def _query_says(call: ast.Call, check: Check) -> bool:
    """Whether a query would give what is expected without there being anything."""
    lines = [item[:_LONG] for arg in call.args[:1] for item in values.literals(arg) if isinstance(item, str)]
    made = [line for line in lines if _MAKES_UP.search(line)]
    wanted = [str(item) for item in values.literals(check.expected) if made and len(str(item)) > 1]
    return any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", line) for line in made for word in wanted)


def _strict(lines: list[str]) -> int:
    return sum(map(commands.strictness, lines))


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _answers(node: ast.expr, check: Check, module: Module) -> bool:
    """Whether an argument is a function that returns what the check expects."""
    if isinstance(node, ast.Lambda):
        made = [node.body]
    elif isinstance(node, ast.Name):
        made = module.returned(node.id)
    else:
        return False
    found = [values.value(module.constants.get(e.id, e) if isinstance(e, ast.Name) else e) for e in made]
    wanted = check.value
    return wanted is not values.UNKNOWN and not isinstance(wanted, bool) and wanted is not None and wanted in found


def _is_surroundings(node: ast.expr, module: Module | None) -> bool:
    """Whether a thing is the environment, or a copy of it or of a part of it."""
    while isinstance(node, ast.Call) and values.text(node.func) == "changed":
        node = node.args[0]
    outside = module.outside(node) if module else frozenset()
    return bool(outside) and all(name.startswith("os.environ") for name in outside)


def _stands_in(command: str) -> bool:
    """Whether the first word of a command line says that it is not the real thing."""
    first = next((word for word in command.split() if "=" not in word), "").lower()
    return bool(re.search(r"fake|stub|mock|dummy|canned|(?:^|/)tests?/", first))


def _commands(node: ast.AST) -> list[str]:
    return kept(node, "_mngr_commands", _lines)


def _lines(node: ast.AST) -> list[str]:
    return [found[:_LONG] for part in ast.walk(node) if (found := escapes.command_of(part))]
