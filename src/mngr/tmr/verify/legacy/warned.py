"""Filters of warnings: which kinds are errors in a test, and which are let pass."""

from __future__ import annotations

import ast
import re

from mngr.tmr.verify.legacy import values

CHECKED, PASSED = "warnings-checked", "warnings-passed"
_FIELDS = {
    "warnings.simplefilter": ("action", "category"),
    "warnings.filterwarnings": ("action", "message", "category", "module"),
}
_ALL = "Warning"
_SUBJECT = re.compile(r"\brecwarn\b|\bcatch_warnings\b|\bWarningsRecorder\b")
Found = tuple[str, str, None]


def of_call(name: str, node: ast.Call) -> Found | None:
    """What a call does to warnings."""
    if name == "warnings.resetwarnings":
        return PASSED, f"default {_ALL} ", None
    if name not in _FIELDS:
        return None
    given = dict(zip(_FIELDS[name], node.args, strict=False))
    given.update({k.arg: k.value for k in node.keywords if k.arg})
    if "action" not in given:
        return None
    category = values.text(given["category"]) if "category" in given else _ALL
    module = str(values.value(given["module"])) if "module" in given else ""
    return _made(str(values.value(given["action"])), category, module)


def of_mark(node: ast.expr) -> Found | None:
    """What a mark does to warnings: `action:message:category:module`."""
    parts = [*str(values.value(node)).split(":"), "", "", ""]
    return _made(parts[0].strip(), parts[2].strip() or _ALL, parts[3].strip())


def _made(action: str, category: str, module: str) -> Found:
    kind = category.rsplit(".", 1)[-1]
    if action == "error":
        return CHECKED, kind, None
    return PASSED, f"{action} {kind} {module}", None


def of_others(what: str, programs: set[str]) -> bool:
    """Whether a filter lets pass only what modules warn of that the test does not use."""
    first = re.match(r"\w+", what.split(" ", 2)[2].lstrip("^(").replace("\\b", ""))
    return first is not None and first[0] not in programs


def covers(kinds: set[str], kind: str) -> bool:
    """Whether what is an error has this kind among it."""
    return _ALL in kinds or kind in kinds


def is_seen(subject: str) -> bool:
    """Whether a check looks at warnings that were recorded."""
    return bool(_SUBJECT.search(subject))
