"""What a test file promises in words: docstrings and cited blocks, and whether a change touched them."""

from __future__ import annotations

import ast

from mngr.tmr.finding import Finding
from mngr.tmr.verify.legacy import values
from mngr.tmr.verify.legacy.source import Module, called


def touched(old: str | None, new: str | None, path: str, kind: str) -> list[Finding]:
    """The docstrings and cited blocks of tests that are not what they were."""
    if old is None or new is None or not path.endswith(".py"):
        return []
    try:
        before, after = Module(old), Module(new)
    except (SyntaxError, ValueError, RecursionError):
        return []
    level = "note" if kind == "FIX_TUTORIAL" else "refuse"
    found = []
    for name, test in before.tests.items():
        if name not in after.tests:
            continue
        now = after.tests[name].node
        was, is_now = ast.get_docstring(test.node), ast.get_docstring(now)
        if was != is_now:
            line = now.body[0].lineno if is_now is not None else now.lineno
            added = was is None
            what = "gets a docstring" if added else "promises something else now: its docstring changed"
            found.append(
                Finding(rule="policy-docstring", level="note" if added else level, path=path, line=line,
                        what=f"{name} {what}", old=was or "", new=is_now or "")
            )  # fmt: skip
        blocks, blocks_now = _blocks(test.node), _blocks(now)
        gone = [text for text in blocks if text not in blocks_now]
        if gone:
            line = next((at for text, at in blocks_now.items() if text not in blocks), now.lineno)
            found.append(
                Finding(rule="policy-block", level=level, path=path, line=line,
                        what=f"{name} no longer cites the block that it cited", old=gone[0])
            )  # fmt: skip
    return found


def _blocks(node: ast.AST) -> dict[str, int]:
    """What a test cites, without the white space that does not matter, and where."""
    found: dict[str, int] = {}
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and called(part).rsplit(".", 1)[-1] == "write_tutorial_block":
            text = "\n".join(str(item) for item in values.literals(part)) or values.text(part)
            found["\n".join(row.strip() for row in text.strip().splitlines())] = part.lineno
    return found


def first_line(old: str | None, new: str | None) -> int:
    """The first line that differs; 0 where there are not two texts."""
    if old is None or new is None or old == new:
        return 0
    rows, rows_now = old.splitlines(), new.splitlines()
    for at, (a, b) in enumerate(zip(rows, rows_now, strict=False), 1):
        if a != b:
            return at
    return min(len(rows), len(rows_now)) + 1 if len(rows_now) > len(rows) else len(rows_now)


def only_words(old: str | None, new: str | None) -> bool:
    """Whether nothing but docstrings and comments of a module differ."""
    if old is None or new is None:
        return False
    try:
        return _bare(old) == _bare(new)
    except (SyntaxError, ValueError, RecursionError):
        return False


def _bare(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and body:
            first = body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = [*body[1:]]
    return ast.dump(tree)
