"""Expressions as code. What was written once is kept with its node, so that a large one costs no more than its parts."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_KEPT, _DUMPED = "_mngr_text", "_mngr_dump"
_SIGNS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Mod: "%", ast.BitOr: "|", ast.Eq: "==",
    ast.NotEq: "!=", ast.In: "in", ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not", ast.Lt: "<",
    ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
_ATOMS = (ast.Name, ast.Call, ast.Attribute, ast.Subscript)


def text(node: ast.AST) -> str:
    """The expression as code, the same for the same expression however it was laid out."""
    found = node.__dict__.get(_KEPT)
    if found is None:
        found = node.__dict__[_KEPT] = _composed(node) or ast.unparse(node)
    return str(found)


def dumped(node: ast.AST) -> str:
    """All of a statement, to be compared; kept with it."""
    found = node.__dict__.get(_DUMPED)
    if found is None:
        found = node.__dict__[_DUMPED] = ast.dump(node)
    return str(found)


def kept(node: ast.AST, name: str, make: Callable[[ast.AST], T]) -> T:
    """What was found of an expression once, kept with it."""
    found = node.__dict__.get(name)
    if found is None:
        found = node.__dict__[name] = make(node)
    return found


def _composed(node: ast.AST) -> str:
    """From the texts of its parts; empty where that would need more than commas between them."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=base, attr=attr) if isinstance(base, _ATOMS):
            return f"{text(base)}.{attr}"
        case ast.Call(func=func, args=args, keywords=keywords) if isinstance(func, _ATOMS):
            if len(args) == 1 and isinstance(args[0], ast.GeneratorExp):
                return ""
            named = [f"{k.arg}={text(k.value)}" if k.arg else f"**{text(k.value)}" for k in keywords]
            return f"{text(func)}({', '.join([*map(text, args), *named])})"
        case ast.Starred(value=inner) if isinstance(inner, _ATOMS):
            return f"*{text(inner)}"
        case ast.List(elts=elts):
            return f"[{', '.join(map(text, elts))}]"
        case ast.Tuple(elts=elts) if len(elts) > 1:
            return f"({', '.join(map(text, elts))})"
        case ast.Dict(keys=keys, values=given):
            pairs = zip(keys, given, strict=True)
            return f"{{{', '.join(f'{text(k)}: {_side(v)}' if k else f'**{_side(v)}' for k, v in pairs)}}}"
        case ast.Subscript(value=base, slice=index) if isinstance(base, _ATOMS):
            return f"{text(base)}[{_index(index)}]"
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _SIGNS:
            return f"{_side(left)} {_SIGNS[type(op)]} {_side(right)}"
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return f"{_side(body)} if {_side(test)} else {_side(orelse)}"
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _SIGNS:
            return f"{_side(left)} {_SIGNS[type(op)]} {_side(right)}"
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return f"not {_side(inner)}"
        case ast.BoolOp(op=op, values=parts):
            return (" and " if isinstance(op, ast.And) else " or ").join(map(_side, parts))
    return ""


def _side(node: ast.AST) -> str:
    return text(node) if isinstance(node, (*_ATOMS, ast.Constant, ast.List, ast.Dict)) else f"({text(node)})"


def _index(node: ast.AST) -> str:
    if isinstance(node, ast.Slice):
        ends = [text(end) if end else "" for end in (node.lower, node.upper)]
        return ":".join(ends) + (f":{text(node.step)}" if node.step else "")
    return text(node)
