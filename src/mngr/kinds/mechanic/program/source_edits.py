"""Python source whose places are known by its syntax tree, and edits at those places that leave all else as it is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from mngr.e2e.docstring_citations import list_cited_blocks

Function = (ast.FunctionDef, ast.AsyncFunctionDef)
Splice = tuple[int, int, str]  # from and to, in bytes, and what comes there
CITE_FUNCTION = "write_tutorial_block"


class PythonSource:
    """A file of Python; raises ValueError when it is none."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.data = text.encode()
        try:
            self.tree = ast.parse(self.data)
        except (SyntaxError, RecursionError, MemoryError) as error:
            raise ValueError(f"this is no Python: {error}") from None
        self._starts = [0, *(found.end() for found in re.finditer(rb"\r\n|\r|\n", self.data))]

    def get_span(self, node: ast.AST) -> tuple[int, int]:
        """Where a piece of syntax begins and ends, in bytes."""
        return (
            self._starts[node.lineno - 1] + node.col_offset,  # type: ignore[attr-defined]
            self._starts[node.end_lineno - 1] + node.end_col_offset,  # type: ignore[attr-defined]
        )

    def get_source(self, node: ast.AST) -> str:
        """How it is written."""
        start, end = self.get_span(node)
        return self.data[start:end].decode()

    def find_indent(self, node: ast.stmt) -> str:
        """The white space before a statement; None stands alone on its line when something else is there."""
        return self.data[self._starts[node.lineno - 1] :][: node.col_offset].decode()

    def apply_splices(self, splices: list[Splice]) -> str:
        """The text with pieces of it replaced."""
        data = self.data
        if b"\r\n" in data:
            splices = [(start, end, re.sub("\r?\n", "\r\n", new)) for start, end, new in splices]
        for start, end, new in sorted(splices, key=lambda one: one[:2], reverse=True):
            data = data[:start] + new.encode() + data[end:]
        return data.decode()

    def find_test(self, test: str) -> ast.FunctionDef | None:
        """The test of a node id: `path::Class::name[parameters]`."""
        holder: ast.AST = self.tree
        for name in test.partition("[")[0].split("::")[1:]:
            found = [node for node in _iter_definitions(holder) if node.name == name]  # type: ignore[attr-defined]
            if not found:
                return None
            holder = found[-1]  # the later one is what Python keeps
        return holder if isinstance(holder, Function) else None  # type: ignore[return-value]


def _iter_definitions(holder: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(holder):
        if isinstance(node, (*Function, ast.ClassDef)):
            yield node
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            yield from _iter_definitions(node)


def get_called_name(call: ast.AST) -> str:
    """The last part of the name of what is called; nothing when this is no call."""
    if not isinstance(call, ast.Call):
        return ""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def list_calls(node: ast.AST, name: str) -> list[ast.Call]:
    """Calls of `….name(…)`, in the order of the source."""
    found = [child for child in ast.walk(node) if isinstance(child, ast.Call) and get_called_name(child) == name]
    return sorted(found, key=lambda call: (call.lineno, call.col_offset))


def find_string(node: ast.AST | None) -> str | None:
    """The value of a plain string; None for everything else."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


class CitedBlock(NamedTuple):
    """A block that a test cites: in a string of its own, or in its docstring."""

    node: ast.Constant
    text: str
    in_docstring: bool


def list_citations(node: ast.AST) -> list[CitedBlock]:
    """Those of a test or of a whole file, in the order of the source."""
    given = [call.args[0] for call in list_calls(node, CITE_FUNCTION) if len(call.args) == 1]
    found = [
        CitedBlock(arg, text, False)
        for arg in given
        if isinstance(arg, ast.Constant) and (text := find_string(arg)) is not None
    ]
    for function in ast.walk(node):
        doc = find_docstring(function) if isinstance(function, Function) else None
        found += [CitedBlock(doc, text, True) for text in list_cited_blocks(str(doc.value))] if doc is not None else []
    return sorted(found, key=lambda one: (one.node.lineno, one.node.col_offset))


def find_docstring(function: ast.AST) -> ast.Constant | None:
    """The string that a function begins with."""
    body = getattr(function, "body", None)
    first = body[0].value if body and isinstance(body[0], ast.Expr) else None
    return first if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


def iter_statements(function: ast.AST) -> Iterator[ast.stmt]:
    """Every statement inside, whatever holds it, but not those of functions of its own."""
    for node in ast.iter_child_nodes(function):
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, (*Function, ast.ClassDef, ast.Lambda)):
            yield from iter_statements(node)


def format_literal(text: str, old: str, indent: str) -> str:
    """`text` as Python writes it in the place of the literal `old`; lines of several stand as far right as they did."""
    found = re.match(r"([rRuU]?)(\"\"\"|'''|\"|')", old)
    prefix, quote = (found[1], found[2]) if found else ("", '"')
    if "\n" not in text or len(quote) == 1:
        return quote_string(text, quote[0])
    raw = "r" in prefix.lower()
    if quote in text or any(ord(char) < 32 and char not in "\n\t" for char in text) or (raw and text.endswith("\\")):
        return repr(text)
    rows = old.split("\n")
    filled = [row for row in rows[1:-1] if row.strip()]
    inner = filled[0][: len(filled[0]) - len(filled[0].lstrip())] if filled else indent
    body = text if raw else text.replace("\\", "\\\\")
    lines = "\n".join(f"{inner}{row}" if row.strip() else "" for row in body.split("\n"))
    last = rows[-1][: len(rows[-1]) - len(rows[-1].lstrip())] if len(rows) > 1 else indent
    return f"{prefix}{quote}\n{lines}\n{last}{quote}"


def quote_string(text: str, quote: str = '"') -> str:
    """A literal on one line, in double quotes where that needs no backslash more than it would otherwise."""
    plain = repr(text)
    if quote == '"' and plain.startswith("'") and '"' not in text:
        return f'"{plain[1:-1]}"'.replace("\\'", "'")
    return plain


def replace_literal(source: str, old: str, new: str) -> str:
    """A literal that says something else, written as it was where that is possible."""
    size = min(len(old), len(new))
    start = next((at for at in range(size) if old[at] != new[at]), size)
    end = next((at for at in range(size - start) if old[-1 - at] != new[-1 - at]), size - start)
    was, now = old[start : len(old) - end], new[start : len(new) - end]
    for more in range(start + 1):  # with as much before it as it takes to be found once
        before = old[start - more : start]
        if source.count(before + was) == 1:
            made = source.replace(before + was, before + now)
            if _evaluate_string(made) == new:
                return made
    return quote_string(new)


def _evaluate_string(source: str) -> str | None:
    try:
        return find_string(ast.parse(source.strip(), mode="eval").body)
    except (SyntaxError, ValueError):
        return None


def merge_citations(old: str, new: str) -> str:
    """The old text with the new one's citations: of a change to both, the part that is about the tutorial."""
    module, after = PythonSource(old), PythonSource(new)
    splices = {}  # a docstring may have several
    for was, now in zip(list_citations(module.tree), list_citations(after.tree)):  # noqa: B905
        if was.text != now.text:
            splices[module.get_span(was.node)] = after.get_source(now.node)
    return module.apply_splices([(*span, text) for span, text in splices.items()])
