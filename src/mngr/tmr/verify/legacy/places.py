"""Other ways to write the same: paths, reading a file, running a process. So that it does not matter which one a test uses."""

from __future__ import annotations

import ast

from mngr.tmr.verify.legacy import values

_ASKS = {"os.path.exists": "exists", "os.path.isfile": "is_file", "os.path.isdir": "is_dir"}
_BARE = frozenset(("str", "os.fspath", "os.fsdecode", "pathlib.Path"))


def plain(name: str, made: ast.Call) -> ast.expr | None:
    """The one way to write a call that has several; None where there is no other."""
    args = made.args
    if name == "os.path.join" and args and not any(isinstance(arg, ast.Starred) for arg in args):
        return _joined(args)
    if name in _BARE and len(args) == 1 and _is_path(args[0]):
        return args[0]
    if name in _ASKS and len(args) == 1 and _is_path(args[0]):
        return _method(args[0], _ASKS[name])
    match made:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="tmp_path") as base, attr="join")) if args:
            return _joined([base, *args])
        case ast.Call(func=ast.Attribute(value=opened, attr="read"), args=[]):
            place = _opened(opened)
            return _method(place, "read_text") if place is not None else None
    return _process(name, made)


def _process(name: str, made: ast.Call) -> ast.expr | None:
    part = {"subprocess.call": "exit_code", "subprocess.check_output": "stdout"}.get(name)
    if part is None:
        return None
    run = ast.Call(func=ast.Name(id="subprocess.run", ctx=ast.Load()), args=made.args, keywords=made.keywords)
    return ast.Attribute(value=run, attr=part, ctx=ast.Load())


def _joined(args: list[ast.expr]) -> ast.expr:
    parts = [arg.args[0] if _is_bare(arg) else arg for arg in args]  # type: ignore[attr-defined]
    if all(isinstance(values.value(part), str) for part in parts):
        return ast.Constant(value="/".join(str(values.value(part)) for part in parts))
    made = parts[0]
    for part in parts[1:]:
        made = ast.BinOp(left=made, op=ast.Div(), right=part)
    return made


def _is_bare(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and values.text(node.func) in _BARE and len(node.args) == 1


def _is_path(node: ast.expr) -> bool:
    return (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)) or values.text(node) == "tmp_path"


def _opened(node: ast.expr) -> ast.expr | None:
    """The file that was opened to be read as text."""
    match node:
        case ast.Call(func=ast.Name(id="open"), args=[place]) if _is_path(place):
            return place
        case ast.Call(func=ast.Name(id="open"), args=[place, ast.Constant(value="r" | "rt")]) if _is_path(place):
            return place
        case ast.Call(func=ast.Attribute(value=place, attr="open"), args=[]) if _is_path(place):
            return place
    return None


def _method(base: ast.expr, name: str) -> ast.expr:
    return ast.Call(func=ast.Attribute(value=base, attr=name, ctx=ast.Load()), args=[], keywords=[])
