"""What two checks are compared by, and what is asked of the expressions in them."""

from __future__ import annotations

import ast
import builtins

from mngr.base.model import Struct
from mngr.tmr.verify.legacy import values
from mngr.tmr.verify.legacy.source import Module
from mngr.tmr.verify.legacy.writing import kept

_HANDED = ("os.environ", "os.path.", "os.fspath", "shutil.which", "sys.")  # what a program is asked with


class Scene(Struct):
    """What two checks are compared by, beside themselves."""

    doc: str = ""  # what the test promises
    inputs: str = ""  # what the test does, as text
    module: Module | None = None  # the new file
    callees: frozenset[str] = frozenset()  # the calls by which the old test asked the program
    recorded: tuple[str, ...] = ()  # what the new test has kept of what was asked, and compares


def is_code(node: ast.expr) -> bool:
    """Whether it is the status of a program."""
    return isinstance(node, ast.Attribute) and node.attr == "exit_code"


def has(node: ast.expr, inner: str) -> bool:
    """Whether an expression, as text, is in another."""
    return inner in kept(node, "_mngr_parts", _texts)


def _texts(node: ast.AST) -> frozenset[str]:
    return frozenset(values.text(part) for part in ast.walk(node) if isinstance(part, ast.expr))


def callee(node: ast.AST) -> str:
    """The call at the bottom of an expression: by what name the program is asked."""
    return kept(node, "_mngr_callee", _bottom)


def _bottom(node: ast.AST) -> str:
    calls = [part for part in ast.walk(node) if isinstance(part, ast.Call)]
    found = []
    for part in reversed(calls):
        name = values.text(part.func) if isinstance(part.func, ast.Name | ast.Attribute) else ""
        inside = any(isinstance(inner, ast.Call) for inner in ast.walk(part.func))
        if name and not inside and name not in {"each", "listof"} and not hasattr(builtins, name):
            found.append(name)
    asks = [name for name in found if not name.startswith(_HANDED)]
    return next(iter([*asks, *found]), "")
