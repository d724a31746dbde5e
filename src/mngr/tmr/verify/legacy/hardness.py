"""What is hard about what a test gives to the program: quotes, line breaks, nothing at all, numbers below zero, and so on."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator

from mngr.tmr.verify.legacy import asking, driven, values
from mngr.tmr.verify.legacy.escapes import command_of
from mngr.tmr.verify.legacy.source import Module

_PLAIN = frozenset(
    "join replace split rsplit splitlines strip lstrip rstrip removeprefix removesuffix startswith endswith format encode "
    "decode get partition rpartition sub search match fullmatch compile findall dedent each listof text gathered changed "
    "raised called count find index translate loads load parse_args open exists sleep wait terminate kill poll setattr "
    "getenv setenv delenv chdir mkdir touch read_text read_bytes is_file is_dir getvalue isoformat approx param skip fail "
    "expect len sorted set list tuple dict str int float repr bool round range zip enumerate print".split()
)
_ASIDE = frozenset(
    "env environ cwd encoding errors mode sep end match reason id ids newline indent timeout timeout_seconds check text "
    "capture_output stdout stderr shell universal_newlines comment deadline seconds delay key flags".split()
)
_RUNS = re.compile(
    r"\w*run\w*|Popen|call|check_call|check_output|invoke|system|popen|execute|exec\w*|cli|sh|shell|main"
)
_LONG = 200  # characters
_LINE = 4_000
_HUGE = 2**31


def lost(old: list[ast.Call], new: list[ast.Call], all_new: list[ast.Call], module: Module) -> str:
    """What was hard about what an old test gave, and is not there any more where the new one gives something else."""
    before, after = _telling(old), _telling(new)
    known = {values.text(call) for call in before}
    still = {values.text(call) for call in after}
    fresh = {_last(call) for call in after if values.text(call) not in known and _says(call)}
    changed = [call for call in before if values.text(call) not in still and _last(call) in fresh]
    hard = {name: None for call in changed for name in sorted(_hard(call, module))}
    names = {_last(call) for call in before}
    for call in _telling(all_new) if hard else ():
        if _last(call) in names or _asks(call, module):
            hard = {name: None for name in hard if name not in _hard(call, module)}
    if any(map(_endless, before)) and not any(map(_endless, _telling(all_new))):
        ends = {_last(call) for call in before if _endless(call) and _asks(call, module)}
        hard |= {"an endless input": None} if ends & {_last(call) for call in after} else {}
    return ", ".join(hard)


def _endless(call: ast.Call) -> bool:
    """Whether something without an end is handed over."""
    return any(driven.is_endless(arg) for arg in (*call.args, *(k.value for k in call.keywords)))


def _telling(calls: list[ast.Call]) -> list[ast.Call]:
    return [call for call in calls if _last(call) not in _PLAIN]


def _last(call: ast.Call) -> str:
    func = call.func
    name = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
    return name.rsplit(".", 1)[-1]


def _asks(call: ast.Call, module: Module) -> bool:
    """Whether it is the program, as far as can be told, that is given something."""
    return any(map(asking.is_program, module.outside(call)))


def _says(call: ast.Call) -> bool:
    return any(True for _ in _given(call))


def _given(call: ast.Call) -> Iterator[tuple[ast.expr, str]]:
    """What stands in the arguments of a call itself, each with what it is one of: words, rows, or nothing."""
    first = call.args[:1] if _RUNS.fullmatch(_last(call)) and command_of(call) is not None else []
    for arg in call.args[len(first) :]:
        yield from _constants(arg, "")
    for line in first:
        words = line.elts[1:] if isinstance(line, ast.List | ast.Tuple) else _split(values.value(line))
        for before, word in zip([None, *words], words, strict=False):
            if values.value(before) not in ("-c", "-e"):  # code is no input
                yield from _constants(word, "word")
    for keyword in call.keywords:
        if keyword.arg not in _ASIDE:
            yield from _constants(keyword.value, "")


def _split(line: object) -> list[ast.expr]:
    """The words of one plain command, without the program."""
    try:
        plain = isinstance(line, str) and len(line) < _LINE and not re.search(r"[|&;<>$`\n]", line)
        words = shlex.split(str(line))[1:] if plain else []
    except ValueError:
        words = []
    return [ast.Constant(value=word) for word in words]


def _constants(node: ast.AST, inside: str) -> Iterator[tuple[ast.expr, str]]:
    if isinstance(node, ast.Call | ast.BinOp) and isinstance(values.value(node), str | bytes):
        yield ast.Constant(value=values.value(node)), inside  # type: ignore[arg-type]
        return
    match node:
        case ast.Call(func=ast.Name(id="text"), args=parts):
            told = "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in parts)
            yield ast.Constant(value=told), inside
        case ast.Call() | ast.Lambda() | ast.JoinedStr():
            return
        case ast.Constant():
            yield node, inside
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant()):
            yield node, inside
        case ast.List() | ast.Tuple() | ast.Set() | ast.Dict():
            yield node, inside
            for part in ast.iter_child_nodes(node):
                yield from _constants(part, "row")
        case ast.BinOp(op=ast.Div()):
            for part in ast.iter_child_nodes(node):
                yield from _constants(part, "word")
        case ast.Starred(value=ast.List(elts=elts) | ast.Tuple(elts=elts)):
            for part in elts:
                yield from _constants(part, "word")


def _hard(call: ast.Call, module: Module) -> set[str]:
    """What is hard about the arguments of one call."""
    found: set[str] = set()
    asks = _asks(call, module)
    for node, inside in _given(call):
        made = values.value(node)
        if isinstance(made, bytes):
            made = made.decode("utf-8", "replace")
        if isinstance(made, str):
            found |= _of_text(made, inside)
        elif isinstance(made, list | tuple | set | dict):
            found |= _of_rows(made) if asks else set()
        elif asks:
            found |= _of_number(made)
    return found


def _of_text(made: str, inside: str) -> set[str]:
    plain = made.strip("\n")
    tried = {
        "an empty value": not made,
        "quotes": '"' in made or "'" in made,
        "a line break": "\n" in plain or "\r" in made,
        "letters outside ASCII": not made.isascii(),
        "a backslash": "\\" in made,
        "a tab": "\t" in made,
        "control characters": any(ord(char) < 32 and char not in "\n\r\t" for char in made),
        "spaces at the start or end": bool(plain.strip()) and plain != plain.strip(" "),
        "markup characters": bool({"<", "&"} & set(made)),
        "a path with ..": ".." in made.split("/"),
        "a long text": len(made) >= _LONG,
        "a comma in one of several values": inside == "row" and "," in made,
        "a space in one of several values": bool(inside) and " " in plain.strip(),
    }
    return {name for name, holds in tried.items() if holds}


def _of_rows(made: list[object] | tuple[object, ...] | set[object] | dict[object, object]) -> set[str]:
    if not made:
        return {"an empty value"}
    if not isinstance(made, list | tuple) or len(made) < 2:
        return set()
    found = {"a repeated value"} if any(made.count(item) > 1 for item in made) else set()
    try:
        ordered = sorted(made) == list(made)  # type: ignore[type-var]
    except TypeError:
        return found
    return found if ordered else found | {"an unsorted list"}


def _of_number(made: object) -> set[str]:
    if made is None:
        return {"None"}
    if isinstance(made, bool) or not isinstance(made, int | float):
        return set()
    tried = {
        "zero": made == 0,
        "a negative number": made < 0,
        "a fraction": made != int(made) if abs(made) < 1e300 else False,
        "a very large number": abs(made) >= _HUGE,
    }
    return {name for name, holds in tried.items() if holds}
