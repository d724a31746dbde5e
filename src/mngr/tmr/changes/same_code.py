"""Compares two versions of a Python file by their syntax trees, ignoring the names of local variables."""

from __future__ import annotations

import ast
import hashlib
import warnings
from collections.abc import Iterator

_INTROSPECTION_CALLS = frozenset(
    ("locals", "vars", "eval", "exec", "dir")
)  # these can see the names of local variables
_MAX_TEXT_LENGTH = 1 << 20


def normalize_code(text: str) -> str | None:
    """Return a hash that is the same for files with the same meaning, or None when the text is not Python."""
    if len(text) > _MAX_TEXT_LENGTH:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
        normalized = ast.dump(_LocalRenamer().visit(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return hashlib.sha256(normalized.encode("utf-8", "surrogatepass")).hexdigest()


class _LocalRenamer(ast.NodeTransformer):
    """Renames the local variables of functions by their order of appearance."""

    def __init__(self) -> None:
        self._scopes: list[dict[str, str]] = []
        self._count = 0

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        for part in (*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(part)
        local_names = [] if _has_introspection(node) else _list_locals(node)
        new_names = {name: f"v{self._count + number}" for number, name in enumerate(local_names)}
        self._count += len(new_names)
        parameters = {name: name for name in _list_parameters(node.args)}
        self._scopes.append({**parameters, **new_names})
        node.body = [self.visit(part) for part in node.body]
        self._scopes.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Rename the function's local variables."""
        return self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        """Rename the function's local variables."""
        return self._visit_function(node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        """Keep the lambda's parameters, which hide outer names."""
        self._scopes.append({name: name for name in _list_parameters(node.args)})
        self.generic_visit(node)
        self._scopes.pop()
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Replace a name with its new name in the innermost scope."""
        node.id = self._get_new_name(node.id)
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        """Rename the handler's exception name, which is not a Name node."""
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
    """Return the local variables of a function in the order in which it assigns them."""
    assigned: dict[str, None] = {}
    excluded = set(_list_parameters(node.args))
    for part in _iter_own_nodes(node):
        if isinstance(part, ast.Global | ast.Nonlocal):
            excluded.update(part.names)
        elif isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load):
            assigned.setdefault(part.id)
        elif isinstance(part, ast.ExceptHandler) and part.name:
            assigned.setdefault(part.name)
        elif isinstance(part, ast.Import | ast.ImportFrom):
            excluded.update((alias.asname or alias.name).partition(".")[0] for alias in part.names)
        elif isinstance(part, ast.MatchMapping):
            excluded.add(part.rest or "")
        elif isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.MatchAs | ast.MatchStar):
            excluded.add(part.name or "")
    return [name for name in assigned if name not in excluded]


def _iter_own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function in source order, without those of nested functions and classes."""
    body = node.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else ast.iter_child_nodes(node)
    for part in body:
        yield part
        if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from _iter_own_nodes(part)


def _has_introspection(node: ast.AST) -> bool:
    """True when the code could see the names of its local variables."""
    return any(isinstance(part, ast.Name) and part.id in _INTROSPECTION_CALLS for part in ast.walk(node))
