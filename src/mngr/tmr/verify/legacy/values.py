"""Expressions of tests as values and as text. Nothing is run: what cannot be told from the text alone is UNKNOWN."""

from __future__ import annotations

import ast
import json
import re
import textwrap

from mngr.tmr.verify.legacy import writing

UNKNOWN = object()
text = writing.text
_SHAPE, _NAMES, _VALUE = "_mngr_shape", "_mngr_names", "_mngr_value"
_BIG = 20_000  # characters or items: more than a test's expectation has
_WORD = re.compile(r"[A-Za-z0-9_]+")

_METHODS = frozenset(
    "lower upper casefold title strip lstrip rstrip replace split splitlines startswith endswith join removeprefix "
    "removesuffix format encode decode count find keys values items get".split()
)
_FUNCTIONS = {
    "len": len,
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "repr": repr,
    "sorted": sorted,
    "set": set,
    "frozenset": frozenset,
    "list": list,
    "tuple": tuple,
    "dict": dict,
    "sum": sum,
    "min": min,
    "max": max,
    "abs": abs,
    "round": round,
    "all": all,
    "any": any,
    "range": range,
    "zip": lambda *a: list(zip(*a, strict=False)),
    "enumerate": lambda *a: list(enumerate(*a)),
    "reversed": lambda a: list(reversed(a)),
    "textwrap.dedent": textwrap.dedent,
    "json.dumps": json.dumps,
    "json.loads": json.loads,
    "re.escape": re.escape,
}


_TYPES = {kind.__name__: kind for kind in (str, bytes, int, float, bool, list, tuple, dict, set)}


def is_big(node: ast.AST, most: int = 250) -> bool:
    """Whether an expression has more parts than anybody would read."""
    todo, seen = [node], 0
    while todo:
        seen += 1
        if seen > most:
            return True
        todo.extend(ast.iter_child_nodes(todo.pop()))
    return False


def names(node: ast.AST) -> frozenset[str]:
    """The names in an expression, kept with the node."""
    found = node.__dict__.get(_NAMES)
    if found is None:
        own = {node.id} if isinstance(node, ast.Name) else set()
        found = node.__dict__[_NAMES] = frozenset(own.union(*map(names, ast.iter_child_nodes(node))))
    return frozenset(found)


def calls(*nodes: ast.AST) -> list[ast.Call]:
    """All calls in expressions, each once: names stand for the same expression in many places."""
    todo, seen, found = list(reversed(nodes)), set(), []
    while todo:
        part = todo.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, ast.Call):
            found.append(part)
        todo.extend(ast.iter_child_nodes(part))
    return found


def copied(node: ast.AST) -> ast.AST:
    """A tree of its own, that may be changed."""
    fields: dict[str, object] = {}
    for name, found in ast.iter_fields(node):
        if isinstance(found, ast.AST):
            fields[name] = copied(found)
        elif isinstance(found, list):
            fields[name] = [copied(item) if isinstance(item, ast.AST) else item for item in found]
        else:
            fields[name] = found
    return ast.copy_location(type(node)(**fields), node)


def value(node: ast.AST | None) -> object:
    """What a constant expression comes to; UNKNOWN for anything else."""
    if node is None:
        return UNKNOWN
    kept = node.__dict__
    if _VALUE not in kept:
        try:
            kept[_VALUE] = _value(node)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError):
            kept[_VALUE] = UNKNOWN
    return kept[_VALUE]


def known(node: ast.AST | None) -> bool:
    """Whether it is a constant."""
    return value(node) is not UNKNOWN


class _Not(TypeError):
    """It is not constant."""


def _value(node: ast.AST | None) -> object:
    match node:
        case ast.Constant():
            return node.value
        case ast.Tuple(elts=elts):
            return tuple(_items(elts))
        case ast.List(elts=elts):
            return _items(elts)
        case ast.Set(elts=elts):
            return set(_items(elts))
        case ast.Dict(keys=keys, values=values):
            if None in keys:
                raise _Not
            return {_value(k): _value(v) for k, v in zip(keys, values, strict=True)}
        case ast.JoinedStr(values=values):
            return "".join(_formatted(part) for part in values)
        case ast.UnaryOp(op=op, operand=operand):
            return _unary(op, _value(operand))
        case ast.BoolOp(op=op, values=values):
            stop = isinstance(op, ast.Or)
            for item in values[:-1]:
                if bool(found := _value(item)) is stop:
                    return found
            return _value(values[-1])
        case ast.BinOp(left=left, op=op, right=right):
            return _binary(_value(left), op, _value(right))
        case ast.Compare(left=left, ops=ops, comparators=others):
            return _compare(left, ops, others)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _value(body if _value(test) else orelse)
        case ast.Subscript(value=base, slice=ast.Slice(lower=lower, upper=upper, step=step)):
            ends = [_value(part) if part else None for part in (lower, upper, step)]
            return _value(base)[slice(*ends)]  # type: ignore[index]
        case ast.Subscript(value=base, slice=index):
            return _value(base)[_value(index)]  # type: ignore[index]
        case ast.Call():
            return _call(node)
    raise _Not


def _items(nodes: list[ast.expr]) -> list[object]:
    made: list[object] = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            made.extend(_value(node.value))  # type: ignore[arg-type]
        else:
            made.append(_value(node))
    return made


def _formatted(part: ast.expr) -> str:
    if isinstance(part, ast.FormattedValue):
        if part.format_spec is not None or part.conversion not in {-1, 115}:
            raise _Not
        return str(_value(part.value))
    return str(_value(part))


def _unary(op: ast.unaryop, found: object) -> object:
    if isinstance(op, ast.Not):
        return not found
    if isinstance(op, ast.USub):
        return -found  # type: ignore[operator]
    raise _Not


def _binary(left: object, op: ast.operator, right: object) -> object:
    if isinstance(op, ast.Add):
        return left + right  # type: ignore[operator]
    if isinstance(op, ast.Sub):
        return left - right  # type: ignore[operator]
    if isinstance(op, ast.Mult):
        sizes = [len(side) if isinstance(side, str | bytes | list | tuple) else 1 for side in (left, right)]
        times = [side if isinstance(side, int) else 1 for side in (left, right)]
        rows = any(isinstance(side, str | bytes | list | tuple) for side in (left, right))
        if rows and max(sizes) * max(abs(time) for time in times) > _BIG:
            raise _Not
        return left * right  # type: ignore[operator]
    if isinstance(op, ast.Mod) and isinstance(left, int | float):
        return left % right  # type: ignore[operator]
    if isinstance(op, ast.Div):
        return left / right  # type: ignore[operator]
    raise _Not


def _compare(left: ast.expr, ops: list[ast.cmpop], others: list[ast.expr]) -> bool:
    first = _value(left)
    for op, other in zip(ops, others, strict=True):
        second = _value(other)
        if not _holds(first, op, second):
            return False
        first = second
    return True


def _holds(a: object, op: ast.cmpop, b: object) -> bool:
    match op:
        case ast.Eq() | ast.Is():
            return a == b
        case ast.NotEq() | ast.IsNot():
            return a != b
        case ast.In():
            return a in b  # type: ignore[operator]
        case ast.NotIn():
            return a not in b  # type: ignore[operator]
        case ast.Lt():
            return bool(a < b)  # type: ignore[operator]
        case ast.LtE():
            return bool(a <= b)  # type: ignore[operator]
        case ast.Gt():
            return bool(a > b)  # type: ignore[operator]
        case ast.GtE():
            return bool(a >= b)  # type: ignore[operator]
    raise _Not


def _call(node: ast.Call) -> object:
    if any(keyword.arg is None for keyword in node.keywords):
        raise _Not
    options = {str(keyword.arg): _value(keyword.value) for keyword in node.keywords}
    if isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
        base = _value(node.func.value)
        if not isinstance(base, str | bytes | dict | list | tuple):
            raise _Not
        if node.func.attr == "format" and re.search(r"[:!.\[]", str(base)):
            raise _Not
        found = getattr(base, node.func.attr)(*_items(node.args), **options)
        return list(found) if node.func.attr in {"keys", "values", "items"} else found
    name = text(node.func)
    if name == "isinstance" and len(node.args) == 2 and text(node.args[1]) in _TYPES:
        return isinstance(_value(node.args[0]), _TYPES[text(node.args[1])])
    if name not in _FUNCTIONS:
        raise _Not
    arguments = _items(node.args)
    if name == "range" and any(not isinstance(a, int) or abs(a) > _BIG for a in arguments):
        raise _Not
    made = _FUNCTIONS[name](*arguments, **options)  # type: ignore[operator]
    return list(made) if isinstance(made, range) else made


def constant(found: object) -> ast.expr:
    """A value as an expression."""
    if isinstance(found, list):
        return ast.List(elts=[constant(item) for item in found], ctx=ast.Load())
    if isinstance(found, tuple):
        return ast.Tuple(elts=[constant(item) for item in found], ctx=ast.Load())
    if isinstance(found, dict):
        return ast.Dict(keys=[constant(k) for k in found], values=[constant(v) for v in found.values()])
    if isinstance(found, set | frozenset):
        return ast.Set(elts=[constant(item) for item in sorted(found, key=repr)])
    return ast.Constant(value=found)  # type: ignore[arg-type]


class _Blank(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return node if node.value is None or isinstance(node.value, bool) else ast.Constant(value="·")

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        return ast.Constant(value="·")

    def visit_Call(self, node: ast.Call) -> ast.expr:
        filled = isinstance(node.func, ast.Name) and node.func.id == "text"
        return ast.Constant(value="·") if filled else self.generic_visit(node)  # type: ignore[return-value]

    def visit_List(self, node: ast.List) -> ast.expr:
        return ast.Constant(value="·") if known(node) else self.generic_visit(node)  # type: ignore[return-value]

    visit_Tuple = visit_List  # type: ignore[assignment]


def shape(node: ast.AST) -> str:
    """The expression without its literals: what stays when only an expectation or an argument was brought up to date."""
    found = node.__dict__.get(_SHAPE)
    if found is None:
        found = node.__dict__[_SHAPE] = ast.unparse(_Blank().visit(copied(node)))
    return str(found)


def literals(node: ast.AST | None) -> list[object]:
    """Every text and number in it."""
    if node is None:
        return []
    return [
        part.value
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str | bytes | int | float)
    ]


def words(*found: object) -> set[str]:
    """The words of texts and numbers, in lower case."""
    made: set[str] = set()
    for item in found:
        plain = item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item)
        made.update(word.lower() for word in _WORD.findall(plain))
    return made


def weight(found: object) -> int:
    """How much an expected value says: its letters and digits, those of all its parts."""
    if isinstance(found, dict):
        return sum(weight(k) + weight(v) for k, v in found.items())
    if isinstance(found, list | tuple | set | frozenset):
        return sum(weight(item) for item in found)
    if isinstance(found, bytes):
        found = found.decode("utf-8", "replace")
    if found is None or isinstance(found, bool):
        return 1
    return sum(1 for char in str(found) if not char.isspace())
