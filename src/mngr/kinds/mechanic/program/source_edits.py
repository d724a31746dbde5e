"""Finds places in Python source by its syntax tree, and edits them without changing the rest of the text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from mngr.e2e.parse_docstring_citations import list_cited_blocks

Function = (ast.FunctionDef, ast.AsyncFunctionDef)
Splice = tuple[int, int, str]  # start and end in bytes, and the new text
CITE_FUNCTION = "write_tutorial_block"


class PythonSource:
    """The parsed text of a Python file. Raises ValueError when the text is not valid Python."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.data = text.encode()
        try:
            self.tree = ast.parse(self.data)
        except (SyntaxError, RecursionError, MemoryError) as error:
            raise ValueError(f"this is not valid Python: {error}") from None
        self._starts = [0, *(line_end.end() for line_end in re.finditer(rb"\r\n|\r|\n", self.data))]

    def get_span(self, node: ast.AST) -> tuple[int, int]:
        """Return the start and the end of a node, in bytes."""
        return (
            self._starts[node.lineno - 1] + node.col_offset,  # type: ignore[attr-defined]
            self._starts[node.end_lineno - 1] + node.end_col_offset,  # type: ignore[attr-defined]
        )

    def get_source(self, node: ast.AST) -> str:
        """Return the source text of a node."""
        start, end = self.get_span(node)
        return self.data[start:end].decode()

    def find_indent(self, node: ast.stmt) -> str:
        """Return the text before a statement on its line. It is not blank when another statement precedes it."""
        return self.data[self._starts[node.lineno - 1] :][: node.col_offset].decode()

    def apply_splices(self, splices: list[Splice]) -> str:
        """Return the text with these edits."""
        data = self.data
        if b"\r\n" in data:
            splices = [(start, end, re.sub("\r?\n", "\r\n", new)) for start, end, new in splices]
        for start, end, new in sorted(splices, key=lambda splice: splice[:2], reverse=True):
            data = data[:start] + new.encode() + data[end:]
        return data.decode()

    def find_test(self, test: str) -> ast.FunctionDef | None:
        """Return the function of a node id `path::Class::name[parameters]`, or None."""
        holder: ast.AST = self.tree
        for name in test.partition("[")[0].split("::")[1:]:
            matches = [node for node in _iter_definitions(holder) if node.name == name]  # type: ignore[attr-defined]
            if not matches:
                return None
            holder = matches[-1]  # Python keeps the last definition
        return holder if isinstance(holder, Function) else None  # type: ignore[return-value]


def _iter_definitions(holder: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(holder):
        if isinstance(node, (*Function, ast.ClassDef)):
            yield node
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            yield from _iter_definitions(node)


def get_called_name(call: ast.AST) -> str:
    """Return the last part of the called name, or "" when the node is not a call."""
    if not isinstance(call, ast.Call):
        return ""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def list_calls(node: ast.AST, name: str) -> list[ast.Call]:
    """Return the calls of `….name(…)` in source order."""
    calls = [child for child in ast.walk(node) if isinstance(child, ast.Call) and get_called_name(child) == name]
    return sorted(calls, key=lambda call: (call.lineno, call.col_offset))


def find_string(node: ast.AST | None) -> str | None:
    """Return the value of a string constant, or None for any other node."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


class CitedBlock(NamedTuple):
    """A block that a test cites, in a separate string or in its docstring."""

    node: ast.Constant
    text: str
    in_docstring: bool


def list_citations(node: ast.AST) -> list[CitedBlock]:
    """Return the citations in a test or in a whole file, in source order."""
    arguments = [call.args[0] for call in list_calls(node, CITE_FUNCTION) if len(call.args) == 1]
    citations = [
        CitedBlock(arg, text, False)
        for arg in arguments
        if isinstance(arg, ast.Constant) and (text := find_string(arg)) is not None
    ]
    for function in ast.walk(node):
        doc = find_docstring(function) if isinstance(function, Function) else None
        citations += (
            [CitedBlock(doc, text, True) for text in list_cited_blocks(str(doc.value))] if doc is not None else []
        )
    return sorted(citations, key=lambda citation: (citation.node.lineno, citation.node.col_offset))


def find_docstring(function: ast.AST) -> ast.Constant | None:
    """Return the docstring node of a function, or None."""
    body = getattr(function, "body", None)
    first = body[0].value if body and isinstance(body[0], ast.Expr) else None
    return first if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


def iter_statements(function: ast.AST) -> Iterator[ast.stmt]:
    """Yield every statement inside a function, but not those of nested functions and classes."""
    for node in ast.iter_child_nodes(function):
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, (*Function, ast.ClassDef, ast.Lambda)):
            yield from iter_statements(node)


def format_literal(text: str, old: str, indent: str) -> str:
    """Return `text` as a literal in the style and the indentation of the literal `old`."""
    match = re.match(r"([rRuU]?)(\"\"\"|'''|\"|')", old)
    prefix, quote = (match[1], match[2]) if match else ("", '"')
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
    """Return a literal on one line, in double quotes where that needs no additional backslash."""
    plain = repr(text)
    if quote == '"' and plain.startswith("'") and '"' not in text:
        return f'"{plain[1:-1]}"'.replace("\\'", "'")
    return plain


def replace_literal(source: str, old: str, new: str) -> str:
    """Return the literal with the new value, written as before where that is possible."""
    size = min(len(old), len(new))
    start = next((index for index in range(size) if old[index] != new[index]), size)
    end = next((index for index in range(size - start) if old[-1 - index] != new[-1 - index]), size - start)
    old_part, new_part = old[start : len(old) - end], new[start : len(new) - end]
    for length in range(start + 1):  # Extend the searched text to the left until it occurs only once.
        before = old[start - length : start]
        if source.count(before + old_part) == 1:
            edited = source.replace(before + old_part, before + new_part)
            if _evaluate_string(edited) == new:
                return edited
    return quote_string(new)


def _evaluate_string(source: str) -> str | None:
    try:
        return find_string(ast.parse(source.strip(), mode="eval").body)
    except (SyntaxError, ValueError):
        return None


def merge_citations(old: str, new: str) -> str:
    """Return the old text with the citations of the new one: the part of a change that concerns the tutorial."""
    module, new_module = PythonSource(old), PythonSource(new)
    splices = {}  # keyed by span, because a docstring may hold several citations
    for old_citation, new_citation in zip(list_citations(module.tree), list_citations(new_module.tree)):  # noqa: B905
        if old_citation.text != new_citation.text:
            splices[module.get_span(old_citation.node)] = new_module.get_source(new_citation.node)
    return module.apply_splices([(*span, text) for span, text in splices.items()])
