"""Checks the paths of a change: patterns that they match, deceptive names, and files that are not regular files."""

from __future__ import annotations

import functools
import os.path
import re
import sys
import unicodedata
from collections.abc import Iterator

from mngr.tmr.finding import Finding

_LINK, _MODULE, _PLAIN, _RUNS = "120000", "160000", "100644", "100755"
_GIT_DIR_PATTERN = re.compile(r"\.git[ .]*|git~\d+|\.git[:].*", re.I)
_TEST_TOOLS = frozenset(("pytest", "_pytest", "pluggy", "mngr", "hypothesis", "coverage", "xdist"))


@functools.cache
def _compile_pattern(pattern: str) -> re.Pattern[str]:
    regex = ""
    for part in re.split(r"(\*\*/|\*\*|\*|\?)", pattern):
        regex += {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(part, re.escape(part))
    return re.compile(regex if "/" in pattern or pattern == "**" else f"(?:.*/)?{regex}", re.I | re.S)


def is_match(path: str, pattern: str) -> bool:
    """True when a path matches. A pattern without a slash matches file names anywhere; case does not matter."""
    return _compile_pattern(pattern).fullmatch(path) is not None


def check_name(path: str) -> Iterator[Finding]:
    """Yield findings about a path that hides characters, leads out of the tree or into git's directory."""
    shown = path.encode("unicode_escape").decode("ascii")
    parts = path.split("/")
    if any(unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for char in path):
        yield _make_refusal("policy-name", shown, "its name contains invisible characters")
    visible_parts = ["".join(char for char in part if unicodedata.category(char) != "Cf") for part in parts]
    if ".." in parts or path.startswith("/") or "" in parts or "\\" in path or re.match(r"[A-Za-z]:", path):
        yield _make_refusal("policy-name", shown, "its name points outside the repository, at least on some systems")
    if any(_GIT_DIR_PATTERN.fullmatch(part) for part in visible_parts):
        yield _make_refusal("policy-name", shown, "its name means git's own directory, at least on some systems")
    elif any(part.endswith((" ", ".")) or part.startswith(("-", " ")) for part in parts if part not in {".", ".."}):
        yield Finding(
            rule="policy-name",
            level="note",
            path=shown,
            what="its name starts or ends with a character that tools may misread",
        )


def check_mode(path: str, old: str, new: str, target: str | None, status: str, program: bool) -> Iterator[Finding]:
    """Yield findings about a file's type and mode; `program` is True when the change is to the implementation."""
    if _MODULE in (new, old):
        yield _make_refusal("policy-module", path, "it is a submodule: a reference to a commit of another repository")
    elif new == _LINK:
        yield _check_link_stays_inside(path, (target or "").strip("\n"))
    elif old == _LINK and status != "A":
        yield _make_refusal("policy-mode", path, "it was a symbolic link and is now a file")
    elif new == _RUNS and (old != _RUNS or status == "A"):
        level = "note" if program or status == "A" else "refuse"
        yield Finding(rule="policy-mode", level=level, path=path, what="it is now executable")
    elif old == _RUNS and new == _PLAIN and status != "A":
        yield _make_refusal("policy-mode", path, "it is no longer executable")
    elif new not in {_PLAIN, _RUNS} or status == "T":
        yield _make_refusal("policy-mode", path, f"it is not a regular file (mode {new})")


def _check_link_stays_inside(path: str, target: str) -> Finding:
    """Return a finding about a symbolic link: a refusal when it leads out of the tree or into git's directory."""
    shown = target.encode("unicode_escape").decode("ascii")
    resolved_path = os.path.normpath(os.path.join(os.path.dirname(path), target))
    if not target or target.startswith(("/", "~")) or resolved_path.split("/")[0] == ".." or "\\" in target:
        return _make_refusal(
            "policy-link", path, f"it is a symbolic link that points outside the repository, to {shown or 'nothing'}"
        )
    if any(_GIT_DIR_PATTERN.fullmatch(part) for part in resolved_path.split("/")):
        return _make_refusal("policy-link", path, f"it is a symbolic link into git's own directory, to {shown}")
    return Finding(rule="policy-link", level="note", path=path, what=f"it is a symbolic link to {shown}")


def check_shadowing(path: str) -> Iterator[Finding]:
    """Yield a finding about a new module that would hide one of Python's or of the test tools."""
    parts = path.removesuffix("/__init__.py").removesuffix(".py").split("/")
    if not path.endswith(".py") or parts[-1] not in {*sys.stdlib_module_names, *_TEST_TOOLS}:
        return
    if len(parts) == 1 or parts[0] in {"tests", "test"} or parts[:-1] in (["src"], ["lib"]):
        yield _make_refusal(
            "policy-shadow",
            path,
            f"Python would import this file instead of the real module {parts[-1]}",
        )


def _make_refusal(rule: str, path: str, what: str) -> Finding:
    return Finding(rule=rule, level="refuse", path=path, what=what)
