"""When two versions of a Python file say the same: by their syntax trees, whatever their locals are called."""

from __future__ import annotations

import ast
import hashlib
import warnings
from collections.abc import Iterator

_INTROSPECTION_CALLS = frozenset(
    ("locals", "vars", "eval", "exec", "dir")
)  # who calls these may see what locals are called
_MAX_TEXT_LENGTH = 1 << 20


def normalize_code(text: str) -> str | None:
    """A text that is the same for files that mean the same; None for what is no Python."""
    if len(text) > _MAX_TEXT_LENGTH:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
        said = ast.dump(_LocalRenamer().visit(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()


class _LocalRenamer(ast.NodeTransformer):
    """Gives locals of functions names by the order in which they come."""

    def __init__(self) -> None:
        self._scopes: list[dict[str, str]] = []
        self._count = 0

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        for part in (*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(part)
        given = [] if _has_introspection(node) else _list_locals(node)
        own = {name: f"v{self._count + number}" for number, name in enumerate(given)}
        self._count += len(own)
        hidden = {name: name for name in _list_parameters(node.args)}
        self._scopes.append({**hidden, **own})
        node.body = [self.visit(part) for part in node.body]
        self._scopes.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """A function's own names."""
        return self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        """The same."""
        return self._visit_function(node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        """Its parameters hide names around it."""
        self._scopes.append({name: name for name in _list_parameters(node.args)})
        self.generic_visit(node)
        self._scopes.pop()
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """The name that the innermost function gives to it."""
        node.id = self._get_new_name(node.id)
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        """An exception has a name without being one."""
        if node.name is not None and self._scopes:
            node.name = self._get_new_name(node.name)
        self.generic_visit(node)
        return node

    def _get_new_name(self, name: str) -> str:
        return next((scope[name] for scope in reversed(self._scopes) if name in scope), name)


def _list_parameters(args: ast.arguments) -> list[str]:
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, *filter(None, (args.vararg, args.kwarg))]
    return [arg.arg for arg in every]


def _list_locals(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """The names that a function gives to things of its own, in the order it does."""
    given: dict[str, None] = {}
    kept = set(_list_parameters(node.args))
    for part in _iter_own_nodes(node):
        if isinstance(part, ast.Global | ast.Nonlocal):
            kept.update(part.names)
        elif isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load):
            given.setdefault(part.id)
        elif isinstance(part, ast.ExceptHandler) and part.name:
            given.setdefault(part.name)
        elif isinstance(part, ast.Import | ast.ImportFrom):
            kept.update((alias.asname or alias.name).partition(".")[0] for alias in part.names)
        elif isinstance(part, ast.MatchMapping):
            kept.add(part.rest or "")
        elif isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.MatchAs | ast.MatchStar):
            kept.add(part.name or "")
    return [name for name in given if name not in kept]


def _iter_own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """What belongs to a function itself, in the order it is written; not what is in functions and classes in it."""
    body = node.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else ast.iter_child_nodes(node)
    for part in body:
        yield part
        if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from _iter_own_nodes(part)


def _has_introspection(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Name) and part.id in _INTROSPECTION_CALLS for part in ast.walk(node))
