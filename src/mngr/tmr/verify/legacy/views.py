"""The thing that a check is about, under what is done to it before it is looked at."""

from __future__ import annotations

import ast

from mngr.tmr.verify.legacy import values
from mngr.tmr.verify.legacy.patterns import is_narrow
from mngr.tmr.verify.legacy.values import UNKNOWN

_VIEWS = frozenset(
    "lower upper casefold swapcase title capitalize strip lstrip rstrip replace split rsplit splitlines partition "
    "rpartition removeprefix removesuffix translate expandtabs keys".split()
)
_OVER = frozenset("sorted set frozenset len round int float abs min max sum bool type id hash Counter".split())
_SAME = frozenset("str list tuple repr dict iter bytes".split())
_CASE = {"upper": "lower", "casefold": "lower", "swapcase": "lower", "title": "lower", "capitalize": "lower"}
UNKEPT = "_mngr_unkept"  # on the call of a process whose streams go where those of the test go
REDACT = "redact "  # before the pattern of what is replaced
_TRIM = {"lstrip": "strip", "rstrip": "strip", "removesuffix": "strip", "removeprefix": "strip"}


def peel(node: ast.expr) -> tuple[ast.expr, tuple[str, ...]]:
    """The thing itself, and the views on it that lose something."""
    lost: list[str] = []
    while True:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Constant(), attr="join"), args=[inner]):
                lost.append("join")
                node = inner
            case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in _VIEWS:
                name = _CASE.get(name, _TRIM.get(name, name))
                if name == "splitlines" or (name == "split" and values.value(_first(node)) == "\n"):
                    name = ""
                lost.append(name)
                node = inner
            case ast.Call(func=ast.Attribute(value=inner, attr="decode" | "encode" | "copy")):
                lost += ["replace"] * drops_letters(node)
                node = inner
            case ast.Call(func=ast.Name(id=name), args=[inner, *_]) if name in _OVER:
                lost.append(name)
                node = inner
            case ast.Call(func=ast.Name(id=name), args=[inner]) if name in _SAME:
                node = inner
            case ast.Call(func=ast.Name(id="collections.Counter"), args=[inner]):
                lost.append("sorted")
                node = inner
            case ast.Call(func=ast.Name(id="re.sub"), args=[pattern, _, inner, *_]):
                given = values.value(pattern)
                lost.append(f"{REDACT}{given}" if is_narrow(given) else "replace")
                node = inner
            case ast.Call(func=ast.Name(id="textwrap.dedent"), args=[inner]):
                node = inner
            case ast.Call(func=ast.Name(id="each"), args=[inner]):
                node = inner
            case ast.Call(func=ast.Name(id="listof"), args=[inner, *ifs]):
                lost += ["filter"] * bool(ifs)
                node = inner
            case ast.Subscript(value=inner, slice=ast.Slice(lower=low, upper=high)):
                lost += ["slice"] * bool(low or high)
                node = inner
            case ast.Starred(value=inner) | ast.List(elts=[ast.Starred(value=inner)]):
                node = inner
            case _:
                return node, tuple(name for name in lost if name)


def drops_letters(node: ast.Call) -> bool:
    """Whether a call is told to leave out what it cannot read."""
    told = [k.value for k in node.keywords if k.arg == "errors"]
    told += node.args[1:2] if values.text(node.func).endswith((".decode", ".encode")) else []
    return any(values.value(item) == "ignore" for item in told)


def _first(node: ast.Call) -> ast.expr | None:
    return node.args[0] if node.args else None


def loop(over: ast.expr) -> str:
    """The condition that there is something to go through."""
    base, views = peel(over)
    return " ".join(["each", values.text(base), *(view for view in views if view in {"slice", "filter"})])


def leaks(node: ast.expr, expected: ast.expr) -> bool:
    """Whether the answer stands in the very thing that is looked at: as a default, or joined to it."""
    wanted = values.value(expected)
    if wanted is UNKNOWN or wanted is None or isinstance(wanted, bool) or wanted == "":
        return False
    if isinstance(node, ast.Call) and isinstance(wanted, str) and values.text(node.func) == "subprocess.run":
        return any(wanted.strip() in str(item) for item in values.literals(node))  # it shows what it was given
    for found in _mixed(node):
        if type(found) is type(wanted) and found == wanted:
            return True
        if isinstance(found, str) and isinstance(wanted, str) and len(wanted) > 1 and wanted in found:
            return True
    return False


def _mixed(node: ast.AST) -> list[object]:
    """The constants in an expression that are not what the program is asked with."""
    match node:
        case ast.Constant(value=found):
            return [found]
        case ast.Call(func=ast.Attribute(value=base, attr="get" | "pop" | "setdefault"), args=[_, *rest]):
            return [found for part in (base, *rest) for found in _mixed(part)] if _asks(base) else []
        case ast.Call(func=ast.Name(id="getattr"), args=[base, _, *rest]):
            return [found for part in (base, *rest) for found in _mixed(part)]
        case ast.Call(func=ast.Name(id="next" | "max" | "min" | "dict" | "list" | "str"), args=args, keywords=keywords):
            return [found for part in (*args, *(k.value for k in keywords)) for found in _mixed(part)]
        case ast.Call(func=ast.Attribute(value=base)):
            return _mixed(base) if _asks(base) else []
        case ast.Call(func=ast.Name(id="text"), args=args):
            return [found for part in args for found in _mixed(part)]
        case ast.Call() | ast.Lambda():
            return []
        case ast.Subscript(value=base):
            return _mixed(base)
        case ast.IfExp(body=body, orelse=orelse):
            return [*_mixed(body), *_mixed(orelse)]
        case ast.BinOp(op=ast.Div()):
            return []
        case _:
            return [found for part in ast.iter_child_nodes(node) for found in _mixed(part)]


def _asks(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Call) for part in ast.walk(node))


def is_thrown_away(node: ast.expr) -> bool:
    """Whether it is a stream of a process that nobody kept: there is never anything in it."""
    match node:
        case ast.Attribute(value=ast.Call(keywords=keywords) as run, attr="stdout" | "stderr" as stream):
            given = {k.arg: values.text(k.value).rsplit(".", 1)[-1] for k in keywords}
            return given.get(stream) in {"DEVNULL", "STDOUT"} or bool(run.__dict__.get(UNKEPT, False))
    return False
