"""Variables of the environment that a test gives to the program, in whichever way: some are as good as another program."""

from __future__ import annotations

import ast
import re

from mngr.tmr.verify.legacy import values
from mngr.tmr.verify.legacy.escapes import command_of

_LOADERS = frozenset(
    "PATH LD_PRELOAD LD_LIBRARY_PATH DYLD_INSERT_LIBRARIES PYTHONPATH PYTHONSTARTUP PYTHONHOME PYTHONOPTIMIZE "
    "NODE_OPTIONS NODE_PATH BASH_ENV ENV PERL5OPT PERL5LIB RUBYOPT RUBYLIB CLASSPATH JAVA_TOOL_OPTIONS GIT_EXEC_PATH "
    "PYTEST_ADDOPTS PYTEST_PLUGINS PYTEST_DISABLE_PLUGIN_AUTOLOAD".split()
)
_CANNED = frozenset(
    "FAKE MOCK MOCKED STUB STUBBED CANNED DUMMY SIMULATE SIMULATED REPLAY CASSETTE BYPASS GOLDEN SNAPSHOT SNAPSHOTS "
    "UPDATE ACCEPT REGENERATE REGEN RECORD BLESS SKIP ANSWER RESPONSE EXPECTED PRETEND NOOP".split()
)
_COMMON = frozenset(
    "HOME USER LOGNAME HOSTNAME SHELL TERM TZ LANG LANGUAGE PWD TMPDIR TEMP TMP COLUMNS LINES PAGER EDITOR VISUAL "
    "NO_COLOR FORCE_COLOR CLICOLOR SOURCE_DATE_EPOCH CI EMAIL".split()
)
_PARTS = re.compile(r"[;&|\n(]")
_ONE = re.compile(r"([A-Za-z_]\w*)=(.*)", re.S)
Pair = tuple[str, str]  # its name, and its value or an ellipsis


def rule(name: str) -> str:
    """What it means that a test sets this variable."""
    if name.upper() in _LOADERS or set(name.upper().split("_")) & _CANNED:
        return "program-replaced"
    return "environment"


def is_common(name: str) -> bool:
    """Whether it is a variable of the system, and not of one program."""
    return name in _COMMON or name.startswith(("LC_", "XDG_", "GIT_AUTHOR_", "GIT_COMMITTER_"))


def of_call(name: str, node: ast.Call) -> list[Pair]:
    """The variables that a call, with its names resolved, sets or gives."""
    last = name.rsplit(".", 1)[-1]
    found = [pair for k in node.keywords if k.arg in {"env", "environ"} for pair in _pairs(k.value)]
    args = node.args
    if last in {"setenv", "putenv"} or (last in {"setdefault", "__setitem__"} and "environ" in name):
        found += _pair(args[0], args[1]) if len(args) >= 2 else []
    elif last == "setitem" and len(args) >= 3 and "environ" in values.text(args[0]):
        found += _pair(args[1], args[2])
    elif (last == "update" and "environ" in name) or is_patch(name, node):
        found += [pair for arg in args for pair in _pairs(arg)]
        found += [pair for k in node.keywords if k.arg for pair in _pair(ast.Constant(value=k.arg), k.value)]
    return [*found, *_of_shell((command_of(node) or "")[:4000])]


def _of_shell(command: str) -> list[Pair]:
    """What stands before the program in each part of a line, or is exported."""
    found: list[Pair] = []
    for part in _PARTS.split(command) if "=" in command else []:
        for word in part.split():
            one = _ONE.fullmatch(word)
            if one:
                found.append((one[1], one[2].strip("'\"")))
            elif word not in {"export", "env"} and not word.startswith("-"):
                break
    return found


def is_patch(name: str, node: ast.Call) -> bool:
    """Whether it is a `patch.dict` of the environment."""
    return name.endswith("patch.dict") and bool(node.args) and "environ" in values.text(node.args[0])


def _pair(name: ast.expr, given: ast.expr) -> list[Pair]:
    plain, found = values.value(name), values.value(given)
    if not isinstance(plain, str):
        return []
    return [(plain, "…" if found is values.UNKNOWN else str(found))]


def _pairs(node: ast.expr) -> list[Pair]:
    match node:
        case ast.Dict(keys=keys, values=given):
            rows = zip(keys, given, strict=True)
            return [pair for k, v in rows for pair in (_pair(k, v) if k is not None else _pairs(v))]
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return [*_pairs(left), *_pairs(right)]
        case ast.Call(func=func, args=args, keywords=keywords):
            found = [pair for arg in args for pair in _pairs(arg)]
            if values.text(func) != "dict":
                return found
            named = [(k.arg, k.value) for k in keywords]
            more = [_pair(ast.Constant(value=n), v) if n else _pairs(v) for n, v in named]
            return [*found, *(pair for pairs in more for pair in pairs)]
    return []
