"""Reads Python source for the rules: the dotted names that it uses and its functions. It never runs the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def parse_source(text: str | None) -> ast.Module | None:
    """Return the syntax tree, or None for a missing file and for a text that is not valid Python."""
    if text is None:
        return None
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def map_imports(tree: ast.Module) -> dict[str, str]:
    """Return the dotted origin of each imported name, for example `{"ok": "pytest.raises"}`."""
    origins: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.split(".")[0]
                origins[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                origins[alias.asname or alias.name] = f"{'.' * node.level}{node.module or ''}.{alias.name}"
    return origins


def format_name(node: ast.AST, origins: dict[str, str]) -> str:
    """Return the dotted name of an expression, with imported names replaced by their origin. Empty if it has none."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        return ".".join([origins.get(node.id, node.id), *reversed(parts)])
    return ".".join(["?", *reversed(parts)]) if parts else ""


def get_last_part(name: str) -> str:
    """Return the part of a dotted name behind its last dot."""
    return name.rpartition(".")[2]


def walk_own_nodes(root: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below a function or statement that run with it: not those of nested functions and classes."""
    pending = [root]
    while pending:
        node = pending.pop()
        for child in ast.iter_child_nodes(node):
            yield child
            if not isinstance(child, _SCOPES):
                pending.append(child)


def list_functions(tree: ast.Module) -> dict[str, FunctionNode]:
    """Return every function of a file by its name, `Class::method` for a method. The last definition of a name counts."""
    functions: dict[str, FunctionNode] = {}
    pending: list[tuple[str, Sequence[ast.AST]]] = [("", tree.body)]
    while pending:
        prefix, nodes = pending.pop(0)
        for node in nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                functions[prefix + node.name] = node
                pending.append((f"{prefix}{node.name}::", node.body))
            elif isinstance(node, ast.ClassDef):
                pending.append((f"{prefix}{node.name}::", node.body))
            elif isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
                pending.append((prefix, list(ast.iter_child_nodes(node))))
    return functions


def is_test_name(name: str) -> bool:
    """True when pytest collects a function of this name: `test*`, or `test*` in a class `Test*` or `*Test`."""
    *owners, function = name.split("::")
    return function.startswith("test") and all(owner.startswith("Test") or "Test" in owner for owner in owners)


def format_code(node: ast.AST) -> str:
    """Return the code of a node in one line, shortened."""
    code = " ".join(ast.unparse(node).split())
    return code if len(code) <= 200 else f"{code[:199]}…"


def is_docstring(node: ast.stmt) -> bool:
    """True for a statement that is only a text."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def fold_texts(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield each string of a tree with its line; strings joined by `+` count as one. Docstrings are left out."""
    docstrings = {id(part.value) for part in ast.walk(node) if isinstance(part, ast.Expr)}
    for part in ast.walk(node):
        if id(part) in docstrings:
            continue
        if isinstance(part, ast.Constant) and isinstance(part.value, str | bytes):
            yield _decode_constant(part.value), part.lineno
        elif isinstance(part, ast.BinOp) and isinstance(part.op, ast.Add):
            folded = _find_constant_text(part)
            if folded is not None:
                yield folded, part.lineno


def _find_constant_text(node: ast.expr) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
        return _decode_constant(node.value)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _find_constant_text(node.left), _find_constant_text(node.right)
        return None if left is None or right is None else left + right
    return None


def _decode_constant(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")
