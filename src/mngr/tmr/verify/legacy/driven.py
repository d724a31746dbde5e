"""Calls that run nothing yet: coroutines, generators and contexts do something only once they are awaited, gone through, entered."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from mngr.tmr.verify.legacy import values

Function = ast.FunctionDef | ast.AsyncFunctionDef
HELD = {
    "coroutine": "if it is awaited",
    "generator": "if anything goes through it",
    "context": "if it is entered",
}
_RUNS = {
    "coroutine": re.compile(r"run\w*|wait_\w+|gather|shield|as_completed|start_soon|\w*sync\w*|\w*complete"),
    "generator": re.compile(r"list|tuple|set|frozenset|sorted|dict|all|any|sum|max|min|deque|join|extend|Counter"),
    "context": re.compile(r"enter_\w*context|push"),
}  # fmt: skip
_ADDS = frozenset(("append", "add", "extend", "insert"))
_CALLERS = frozenset("anyio.run trio.run asyncio.to_thread anyio.to_thread.run_sync trio.to_thread.run_sync".split())


def kind(function: Function, known: Mapping[str, Function], depth: int = 0) -> str:
    """What calling it makes, where that runs nothing yet; empty where it runs."""
    if any("contextmanager" in values.text(decorator) for decorator in function.decorator_list):
        return "context"
    own = list(_own(function))
    if any(isinstance(part, ast.Yield | ast.YieldFrom) for part in own):
        return "generator"
    if isinstance(function, ast.AsyncFunctionDef):
        return "coroutine"
    for part in own if depth < 3 else []:
        match part:
            case ast.Return(value=ast.Call(func=ast.Name(id=name))) if known.get(name) not in (
                None,
                function,
            ):
                if found := kind(known[name], known, depth + 1):
                    return found
    return ""


def has_no_end(function: Function) -> bool:
    """Whether a generator goes on for as long as it is asked."""
    for part in _own(function):
        match part:
            case ast.YieldFrom(value=over) if is_endless(over):
                return True
            case ast.For(iter=over, body=body) if is_endless(over):
                inside = [inner for statement in body for inner in ast.walk(statement)]
            case ast.While(test=ast.Constant(value=found), body=body) if found:
                inside = [inner for statement in body for inner in ast.walk(statement)]
            case _:
                continue
        yields = any(isinstance(inner, ast.Yield | ast.YieldFrom) for inner in inside)
        if yields and not any(isinstance(inner, ast.Break | ast.Return) for inner in inside):
            return True
    return False


def is_endless(node: ast.AST) -> bool:
    """Whether an expression is an iterator without an end."""
    if not isinstance(node, ast.Call):
        return any(map(is_endless, ast.iter_child_nodes(node)))
    last = values.text(node.func).removeprefix("itertools.")
    if last in {"count", "cycle", "repeat", "endless"}:
        return not (last == "repeat" and len(node.args) + len(node.keywords) > 1)
    return last in {"map", "filter", "enumerate", "chain", "iter", "each"} and any(map(is_endless, node.args))


def _own(function: Function) -> Iterator[ast.AST]:
    """What is in a function, without the functions inside it."""
    todo: list[ast.AST] = list(function.body)
    while todo:
        part = todo.pop()
        if not isinstance(part, Function | ast.Lambda):
            yield part
            todo.extend(ast.iter_child_nodes(part))


def runs(tree: ast.AST, kind: str) -> set[int]:
    """The calls in a file, by their ids, that are awaited, gone through or entered where they stand or later."""
    found: set[int] = set()
    for function in ast.walk(tree):
        if isinstance(function, Function):
            found |= _Driven(function, kind).calls
    return found


class _Driven:
    """One function: from what is driven for certain, to the names that hold it, to the calls that made it."""

    def __init__(self, function: Function, kind: str) -> None:
        self.calls: set[int] = set()
        self.names: set[str] = set()
        self.kind = kind
        parts = list(ast.walk(function))
        called = {values.text(part.func).rsplit(".", 1)[-1] for part in parts if isinstance(part, ast.Call)}
        self.asks = bool(called & {"result", "exception", "isinstance"})  # how those ended that raise nothing
        groups = {
            item.optional_vars.id
            for part in parts
            if isinstance(part, ast.AsyncWith)
            for item in part.items
            if isinstance(item.optional_vars, ast.Name)
        }
        for part in parts:
            for seed in _seeds(part, kind, groups):
                self._mark(seed)
        for _ in range(3):
            for part in parts:
                self._held(part)

    def _mark(self, node: ast.AST) -> None:
        todo = [node]
        while todo:
            part = todo.pop()
            if isinstance(part, ast.Call):
                self.calls.add(id(part))
                if self.kind == "coroutine" and not self.asks and _keeps_quiet(part):
                    continue
            elif isinstance(part, ast.Name):
                self.names.add(part.id)
            todo.extend(ast.iter_child_nodes(part))

    def _held(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=made):
                if any(isinstance(t, ast.Name) and t.id in self.names for t in targets):
                    self._mark(made)
            case (
                ast.For(target=ast.Name(id=name), iter=over) | ast.comprehension(target=ast.Name(id=name), iter=over)
            ) if name in self.names:
                self._mark(over)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr), args=args):
                for arg in args if name in self.names and attr in _ADDS else []:
                    self._mark(arg)


def _seeds(node: ast.AST, kind: str, groups: set[str]) -> list[ast.AST]:
    """What this statement or expression drives."""
    if isinstance(node, ast.Return):
        return [node.value] if node.value else []
    if isinstance(node, ast.Call):
        given = [*node.args, *(k.value for k in node.keywords)]
        last = values.text(node.func).rsplit(".", 1)[-1]
        grouped = (
            last == "create_task" and isinstance(node.func, ast.Attribute) and values.text(node.func.value) in groups
        )
        if _keeps_quiet(node):
            return []
        return [*given] if _RUNS[kind].fullmatch(last) or (grouped and kind == "coroutine") else []
    match kind, node:
        case "coroutine", ast.Await(value=made):
            return [made]
        case "generator", ast.For(iter=made) | ast.AsyncFor(iter=made) | ast.comprehension(iter=made):
            return [made]
        case "generator", ast.YieldFrom(value=made) | ast.Starred(value=made):
            return [made]
        case "context", ast.With(items=items) | ast.AsyncWith(items=items):
            return [item.context_expr for item in items]
    return []


def _keeps_quiet(node: ast.Call) -> bool:
    """Whether what is raised in the coroutines that it waits for is not raised by it."""
    told = any(k.arg == "return_exceptions" and values.value(k.value) is not False for k in node.keywords)
    return told or values.text(node.func) == "asyncio.wait"


def indirect(func: ast.expr, name: str, args: list[ast.expr]) -> tuple[str, list[ast.expr]] | None:
    """The function that a call comes to by way of another, and what it is given."""
    match func:
        case ast.Call(func=ast.Name(id="functools.partial"), args=[ast.Name(id=inner), *given]):
            return inner, [*given, *args]
        case ast.Attribute(
            value=ast.Call(func=ast.Attribute(attr="submit"), args=[ast.Name(id=inner), *given]),
            attr="result",
        ):
            return inner, given
    if (name in _CALLERS or name.endswith(".start_soon")) and args and isinstance(args[0], ast.Name):
        return args[0].id, args[1:]
    return None
