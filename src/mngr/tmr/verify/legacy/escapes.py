"""Ways around a check: skips, retries, waits, stand-ins for the program, and what a shell line can hide."""

from __future__ import annotations

import ast
import builtins
import re

from mngr.tmr.verify.legacy import values, warned
from mngr.tmr.verify.legacy.values import UNKNOWN

EXITS = frozenset(
    ("pytest.skip", "pytest.xfail", "pytest.exit", "sys.exit", "os._exit", "exit", "quit", "os.abort", "os.kill",
     "self.skipTest")
)  # fmt: skip
_SKIPS = {"skip": "skip", "skipif": "skip", "skipIf": "skip", "skipUnless": "skip", "importorskip": "skip",
          "skipTest": "skip", "SkipTest": "skip", "xfail": "xfail", "expectedFailure": "xfail",
          "flaky": "retry", "retry": "retry", "rerun": "retry", "repeat": "retry", "timeout": "timeout"}  # fmt: skip
_STUBS = ("Mock", "MagicMock", "AsyncMock", "NonCallableMock", "PropertyMock", "create_autospec", "mock_open")
_CLOCKS = frozenset(("time", "random", "datetime", "uuid", "locale"))
_INPUTS = re.compile(r"\bsys\W+(argv|stdin)\b|\bbuiltins\W+input\b")
_DYNAMIC = frozenset(("exec", "eval", "globals", "__import__", "builtins.exec", "builtins.eval"))
INERT = frozenset(("echo", "printf", "true", ":", "cat", "exit", "test", "false", "yes", "tee", "seq", "["))

_SHELL = (
    ("shell-ignores-failure", re.compile(r"\|\|\s*(?:true|:|exit 0|echo\b)|;\s*(?:true|:|exit 0)\s*$|\bset \+e\b|\|\s*(?:true|cat)\s*$")),
    ("program-replaced", re.compile(r"(?:^|[;&|\s])(?:export\s+)?PATH=|(?:^|[;&|])\s*(?:alias\s|function\s|[\w-]+\s*\(\)\s*\{)")),
    ("sleep", re.compile(r"(?:^|[;&|])\s*sleep\s")),
    ("output-hidden", re.compile(r"2>\s*/dev/null|(?<![2])>\s*/dev/null|&>\s*/dev/null")),
)  # fmt: skip
_TOLERANT = re.compile(
    r"toler|lenient|ignor|swallow|suppress|flak|retr(?:y|ies)|rerun|allow_fail|may_fail|can_fail|best_effort|quarantin|known_\w+|"
    r"skip|xfail|expect\w*_fail|disabled?$|broken",
    re.I,
)
_STOPS = re.compile(r"\bos\.(?:_exit|abort)\b")
_LONG = 4_000  # characters of a line that are looked at, at both of its ends
_RUNS = re.compile(r"(.)\1{20,}", re.S)
_WRITES = re.compile(r"(?:^|[;&|])\s*(?:echo|printf|cat|tee)\b[^;&|]*?>{1,2}\s*(['\"]?)([\w./~$-]+)\1|<<")
_LIMITS = frozenset(("timeout", "timeout_seconds", "deadline", "wait", "seconds", "max_wait", "time_limit"))
Found = tuple[str, str, float | None]


def of_call(name: str, node: ast.Call) -> Found | None:
    """What a call, with its names resolved, does for a test that should rather pass."""
    last = name.rsplit(".", 1)[-1]
    shown = values.text(node)[:200]
    if last == "sleep":
        found = values.value(node.args[0]) if node.args else 0
        return "sleep", shown, float(found) if isinstance(found, int | float) else 1e9
    if name in {"pytest.exit", "sys.exit", "os._exit", "exit", "quit", "os.abort", "os.kill"}:
        return "ends-early", shown, None
    if last in {"set_level", "at_level", "setLevel", "disable"} and any(map(_is_high, node.args[:1])):
        return "silenced", shown, None
    if any(_STOPS.search(values.text(arg)) for arg in (*node.args, *(k.value for k in node.keywords))):
        return "ends-early", shown, None
    if found_filter := warned.of_call(name, node):
        return found_filter
    if last in _SKIPS and (name.startswith(("pytest.", "_pytest.", "unittest.", "self.")) or last == "skipTest"):
        return of_decorator(node, name)
    if last == "assume":
        return "assume", shown, None
    if last in {"add_marker", "applymarker"} or "own_markers." in name:
        return _marked(node.args[-1], shown) if node.args else None
    if last in {"addopts", "deselect"}:
        return "not-collected", shown, None
    return _stand_in(name, last, node, shown)


def _is_high(level: ast.expr) -> bool:
    """Whether only errors, or not even these, are recorded from this level on."""
    found = values.value(level)
    return (isinstance(found, int) and found >= 40) or bool(
        re.search(r"\b(?:ERROR|CRITICAL|FATAL)\b", values.text(level))
    )


def _marked(mark: ast.expr, shown: str) -> Found | None:
    """A mark that is put on a test while it is run; one that cannot be told may be any."""
    said = re.findall(r"\w+", values.text(mark))
    for word in said:
        if word in _SKIPS:
            return _SKIPS[word], shown, None
    plain = isinstance(mark, ast.Constant) or values.text(mark).startswith("pytest.mark.")
    return None if plain else ("skip", shown, None)


def _stand_in(name: str, last: str, node: ast.Call, shown: str) -> Found | None:
    if name.startswith(("monkeypatch.", "mp.")) or "MonkeyPatch" in name:
        return _patched(last, node, shown)
    if name.endswith("patch.dict") and node.args and "environ" in values.text(node.args[0]):
        return None  # see variables.py
    first = name.split(".", maxsplit=1)[0]
    if last in {"call", "sentinel"} and name.startswith(("unittest.mock.", "mock.")):
        return None  # it only says what is expected
    if "mock" in name.split(".")[:-1] or first == "mocker" or last in _STUBS or last == "patch":
        return "mock", shown, None
    if "patch" in name.split(".") and last in {"object", "dict", "multiple"}:
        return "mock", shown, None
    if name in _DYNAMIC:
        return "dynamic-code", shown, None
    if name == "setattr" or last == "__setattr__" or name.endswith("__dict__.update"):
        return "mock", shown, None
    if name in {"unittest.skip", "unittest.skipIf", "unittest.skipUnless"}:
        return "skip", shown, None
    if last in {"write_text", "write_bytes", "write"} and any(_isprogram(item) for item in values.literals(node)):
        return "writes-program", shown, None
    if last == "allow_path":
        return "program-path", shown, None
    return None


def _patched(last: str, node: ast.Call, shown: str) -> Found | None:
    if last in {"setattr", "setitem", "delattr", "delitem"}:
        target = values.text(node.args[0]) if node.args else ""
        if _INPUTS.search(shown.split("(", 1)[-1]):
            return "input-given", shown, None
        if "environ" in target:
            return None if last == "setitem" else ("environment", shown, None)
        if target.strip("'\"").split(".")[0] in _CLOCKS:
            return "clock-fixed", shown, None
        return "mock", shown, None
    if last == "delenv":
        return "environment", shown, None
    if last in {"syspath_prepend"}:
        return "program-replaced", shown, None
    return None


def _isprogram(found: object) -> bool:
    plain = found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found)
    return plain.lstrip().startswith("#!")


def of_decorator(node: ast.expr, name: str) -> Found | None:
    """What a mark or another decorator does."""
    last = name.rsplit(".", 1)[-1]
    arguments = node.args if isinstance(node, ast.Call) else []
    keywords = [k for k in node.keywords if k.arg not in {"reason", "msg"}] if isinstance(node, ast.Call) else []
    plain = ", ".join([*(values.text(a) for a in arguments), *(f"{k.arg}={values.text(k.value)}" for k in keywords)])
    if last in {"skip", "xfail", "skipTest"} and len(arguments) == 1 and isinstance(arguments[0], ast.Constant):
        plain = ", ".join(f"{k.arg}={values.text(k.value)}" for k in keywords)
    if last == "timeout":
        given = [*arguments, *(k.value for k in keywords if k.arg in {"timeout", "seconds"})]
        found = values.value(given[0]) if given else UNKNOWN
        return "timeout", "mark", float(found) if isinstance(found, int | float) else 1e9
    if last in _SKIPS:
        return _SKIPS[last], f"{last}({plain})", None
    if _TOLERANT.search(last):
        return "xfail", f"{last}({plain})", None
    if last == "filterwarnings" and arguments:
        return warned.of_mark(arguments[0])
    if last == "example":
        return "example", f"example({plain})", None
    if last == "given" and ("just(" in plain or ".filter(" in plain):
        return "examples", f"given({plain})", None
    if last == "given":
        return "given", f"given({plain})", None
    if last == "settings":
        few = [k for k in keywords if k.arg == "max_examples" and _is_few(values.value(k.value))]
        return ("examples", f"settings({plain})", None) if few else None
    if "patch" in name.split(".") or "mock" in name.split("."):
        return "mock", values.text(node)[:200], None
    return None


def _is_few(found: object) -> bool:
    return isinstance(found, int) and found < 50


def of_keyword(call: ast.Call, keyword: ast.keyword) -> Found | None:
    """A time limit, or how often something may be tried."""
    found = values.value(keyword.value)
    amount = float(found) if isinstance(found, int | float) and not isinstance(found, bool) else 1e9
    last = values.text(call.func).rsplit(".", 1)[-1]
    if keyword.arg in _LIMITS:
        return "timeout", last, 1e9 if found is None else amount
    if keyword.arg in {"retries", "reruns", "attempts", "max_retries", "tries", "max_attempts", "max_runs"}:
        return "retry", last, amount
    return None


def of_limit(name: str, node: ast.expr) -> Found | None:
    """A time limit that is given by its name."""
    numbers = [n for n in values.literals(node) if isinstance(n, int | float) and not isinstance(n, bool)]
    if name.lower() in _LIMITS and numbers:
        return "timeout", f"{name} =", float(max(numbers))
    return None


def of_command(command: str) -> list[Found]:
    """What a line of shell hides."""
    plain = command if len(command) < _LONG else f"{command[: _LONG // 2]}\n{command[-_LONG // 2 :]}"
    plain = _RUNS.sub(lambda run: run[0][:20], plain)  # what is repeated says nothing more, and costs
    return [(rule, "a shell line", None) for rule, pattern in _SHELL if pattern.search(plain)]


def command_of(node: ast.AST) -> str | None:
    """The command line of a call that has one: a text, or a list of words."""
    if not isinstance(node, ast.Call) or not node.args:
        return None
    if isinstance(node.func, ast.Name) and hasattr(builtins, node.func.id):
        return None
    first = node.args[0]
    if isinstance(first, ast.Call) and isinstance(first.func, ast.Name) and first.func.id == "text":
        return "".join(str(p.value) if isinstance(p, ast.Constant) else "{}" for p in first.args)
    found = values.value(first)
    if isinstance(found, str):
        return found
    if isinstance(first, ast.List | ast.Tuple):
        parts = [values.value(item) for item in first.elts]
        return " ".join(part if isinstance(part, str) else "{}" for part in parts)
    return None


def is_inert(command: str) -> bool:
    """Whether a command line runs nothing that could be the program: what it prints, the test says itself."""
    lines = [part.strip() for part in re.split(r"&&|\|\||[;|\n]", command) if part.strip()]
    return bool(lines) and all(program(part) in INERT or _says_itself(part) for part in lines)


def is_help(command: str) -> bool:
    """Whether a command line asks for help only."""
    return bool(re.search(r"(?:^|\s)(?:--help|-h|--version|--usage)(?:\s|$)|^\S+ help\b", command))


def says(command: str, text: str) -> bool:
    """Whether a line of shell prints these words by itself."""
    parts = [part.strip() for part in re.split(r"&&|\|\||[;|\n]", command)]
    plain = [row.strip() for row in text.splitlines() if row.strip()]
    return any(program(part) in {"echo", "printf", "cat"} and any(row in part for row in plain) for part in parts)


def program(part: str) -> str:
    """The program that a command runs."""
    rows = [word for word in part.split() if not re.match(r"\w+=", word)]
    return rows[0].rsplit("/", 1)[-1] if rows else ""


def _says_itself(part: str) -> bool:
    return bool(
        re.match(
            r"(?:\S*/)?(?:python3?|sh|bash|\{\})\s+-c\s+['\"]?\s*(?:print|echo|printf|exit|true|import sys; sys\.exit)\b",
            part,
        )
    )


def written_by(command: str) -> list[str]:
    """The files that a line of shell writes with words of its own."""
    names = [found[2] for found in _WRITES.finditer(command) if found[2]]
    return [name.rsplit("/", 1)[-1] for name in names]


def hides(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a decorator of the file lets a failing test pass, or does not run it."""
    names = [arg.arg for arg in node.args.args]
    called = any(
        isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id in names
        for part in ast.walk(node)
    )
    hides = any(
        isinstance(part, ast.Try) and any(not any(isinstance(s, ast.Raise) for s in ast.walk(h)) for h in part.handlers)
        for part in ast.walk(node)
    )
    quiet = any(
        "suppress" in values.text(item.context_expr)
        for p in ast.walk(node)
        if isinstance(p, ast.With)
        for item in p.items
    )
    loops = any(isinstance(part, ast.For | ast.While) for part in ast.walk(node))
    returns_it = any(
        isinstance(p, ast.Return) and isinstance(p.value, ast.Name) and p.value.id in names for p in ast.walk(node)
    )
    return hides or quiet or loops or not (called or returns_it)
