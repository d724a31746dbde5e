"""Reads which blocks the tests cite, from their syntax trees. mngr imports no test."""

from __future__ import annotations

import ast
import io
import os
import re
import textwrap
import tokenize
import warnings
from collections.abc import Callable, Iterator

from mngr.base.errors import NotFound
from mngr.base.model import Struct
from mngr.tutorial.blocks import ReadProblem, compute_block_id, normalize_text, split_lines

Function = ast.FunctionDef | ast.AsyncFunctionDef
Holder = ast.Module | ast.ClassDef | Function


CITE_FUNCTION = "write_tutorial_block"
_SECTION_LABEL = re.compile(r"[A-Za-z][A-Za-z0-9_ -]*:(?P<rest>\s+\S.*)?$")
_CITATION_LABEL = re.compile(r"tutorial block:(?P<rest>.*)$", re.IGNORECASE)
_SKIPPED_DIRS = ("__pycache__", "node_modules")


class CitationLocation(Struct):
    """The position of a citation in its file: its own string, or lines of a docstring, counted from 1."""

    node: ast.Constant
    first_line: int = 0  # the first line in a docstring; 0 when it is unknown
    last_line: int = 0
    is_docstring: bool = False


class Citation(Struct):
    """A test's statement that it covers a block."""

    path: str
    line: int
    test: str
    text: str
    source_text: str  # as written in the file, with escapes such as \n unresolved
    text_with_remarks: str  # with the less indented text that follows in a docstring, usually a remark
    observed: bool  # the test was generated from observed output and is not reviewed
    location: CitationLocation

    @property
    def block_ids(self) -> set[str]:
        """The possible ids of the block: from the value, from the source text, and from the text with remarks."""
        return {
            compute_block_id(self.text),
            compute_block_id(self.source_text),
            compute_block_id(self.text_with_remarks),
        }


class Citations(Struct):
    """All citations and tests, and the files that could not be read."""

    citations: list[Citation]
    tests: list[str]
    problems: list[ReadProblem]


def read_tests(path: str, to_display_path: Callable[[str], str]) -> Citations:
    """Return the citations of a file, or of all test files in a directory. Raise NotFound when it does not exist."""
    if not os.path.exists(path):
        hint = "name the directory of the tests; to save its name: mngr config set tutorial.tests DIR"
        raise NotFound(f"there are no tests at {to_display_path(path)}", hint)
    problems: list[ReadProblem] = []
    citations: list[Citation] = []
    tests: list[str] = []
    for file in _iter_test_files(path, problems, to_display_path):
        file_citations = _read_file(file, to_display_path(file))
        citations += file_citations.citations
        tests += file_citations.tests
        problems += file_citations.problems
    return Citations(citations=citations, tests=tests, problems=problems)


def _iter_test_files(path: str, problems: list[ReadProblem], to_display_path: Callable[[str], str]) -> Iterator[str]:
    if not os.path.isdir(path):
        yield path
        return

    def note_error(error: OSError) -> None:
        directory = to_display_path(str(error.filename))
        problems.append(ReadProblem(path=directory, line=1, message=f"cannot be read: {error.strerror}"))

    for directory, folders, names in os.walk(path, onerror=note_error):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED_DIRS)
        for name in sorted(names):
            if name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py")):
                yield os.path.join(directory, name)


def _read_file(path: str, display_path: str) -> Citations:
    def fail(line: int, message: str) -> Citations:
        problem = ReadProblem(path=display_path, line=line, message=message)
        return Citations(citations=[], tests=[], problems=[problem])

    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        return fail(1, f"cannot be read: {error.strerror}")
    return parse_tests(data, display_path) if b"\0" not in data else fail(1, "cannot be read: this is not text")


def parse_tests(data: bytes, path: str) -> Citations:
    """Return the citations in the source of one file. It never raises."""

    def fail(line: int, message: str) -> Citations:
        problem = ReadProblem(path=path, line=line, message=f"is not valid Python: {message}")
        return Citations(citations=[], tests=[], problems=[problem])

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(data)
        source = SourceText(decode_source(data))
    except SyntaxError as error:
        return fail(error.lineno or 1, error.msg)
    except (ValueError, RecursionError, MemoryError) as error:
        return fail(1, str(error) or type(error).__name__)
    reader = _CitationReader(path, source)
    reader.read_container(tree, path, observed=False)
    return Citations(citations=reader.citations, tests=reader.tests, problems=reader.problems)


def decode_source(data: bytes) -> str:
    """Return the text of a Python file, with its line ends unchanged."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return data.decode(encoding)


class SourceText:
    """The text of a file, with lookups for the positions of a syntax tree."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", text))]

    def get_offset(self, line: int, column: int = 0) -> int:
        """Return the offset of a position as Python counts it: lines from 1, columns in bytes."""
        start = self.starts[line - 1]
        row = self.text[start : self.starts[line] if line < len(self.starts) else None]
        return start + len(row.encode()[:column].decode())

    def get_span(self, node: ast.Constant) -> tuple[int, int]:
        """Return where a string literal begins and ends."""
        return self.get_offset(node.lineno, node.col_offset), self.get_offset(
            node.end_lineno or 1, node.end_col_offset or 0
        )

    def find_literal_text(self, node: ast.Constant) -> str | None:
        """Return the source text between the quotes, or None when the string is made of several literals."""
        start, end = self.get_span(node)
        match = re.fullmatch(r"[rRuU]?(\"\"\"|'''|\"|')(.*)\1", self.text[start:end], re.DOTALL)
        unescaped = re.sub(r"\\.", "", match[2], flags=re.DOTALL) if match else ""
        return match[2] if match and match[1] not in unescaped else None


class _CitationReader:
    """Walks one file: modules and classes contain tests, tests contain citations."""

    def __init__(self, path: str, source: SourceText) -> None:
        self.path = path
        self.source = source
        self.citations: list[Citation] = []
        self.tests: list[str] = []
        self.problems: list[ReadProblem] = []

    def read_container(self, node: Holder, name: str, *, observed: bool) -> None:
        """Read the tests of a module or class with the node id `name`."""
        observed = observed or _is_observed(node)
        for child in node.body:
            for definition in _list_definitions(child):
                child_name = f"{name}::{definition.name}"
                if isinstance(definition, ast.ClassDef):
                    self.read_container(definition, child_name, observed=observed)
                elif definition.name.startswith("test"):
                    self._read_test(definition, child_name, observed=observed or _is_observed(definition))

    def _read_test(self, function: Function, name: str, *, observed: bool) -> None:
        self.tests.append(name)
        docstring = _find_docstring(function)
        if docstring is not None:
            self._read_docstring(docstring, name, observed)
        for call in _list_cite_calls(function):
            constant = _find_cited_string(call)
            if constant is None:
                message = f"mngr cannot read the argument of {CITE_FUNCTION}: it must be a plain string"
                self.problems.append(ReadProblem(path=self.path, line=call.lineno, message=message))
            else:
                text = str(constant.value)
                source_text = self.source.find_literal_text(constant)
                location = CitationLocation(node=constant)
                self._add_citation(
                    name,
                    observed,
                    constant.lineno,
                    (text, text if source_text is None else source_text, text),
                    location,
                )

    def _read_docstring(self, node: ast.Constant, test: str, observed: bool) -> None:
        """Read the `Tutorial block:` sections of a docstring.

        Line numbers come from the source, because the value of a string lacks escaped line ends.
        """
        sections = list(_iter_cited_sections(str(node.value)))
        source_sections = list(_iter_cited_sections(self.source.find_literal_text(node) or ""))
        if len(source_sections) != len(sections):
            for section in sections:
                location = CitationLocation(node=node, is_docstring=True)
                self._add_citation(
                    test,
                    observed,
                    node.lineno,
                    (section.text, section.text, section.text_with_remarks),
                    location,
                )
            return
        for section, source_section in zip(sections, source_sections, strict=True):
            first, last = (
                (0, 0)
                if source_section.is_on_label_line
                else (node.lineno + source_section.first, node.lineno + source_section.last)
            )
            location = CitationLocation(node=node, is_docstring=True, first_line=first, last_line=last)
            self._add_citation(
                test,
                observed,
                node.lineno + source_section.first,
                (section.text, source_section.text, section.text_with_remarks),
                location,
            )

    def _add_citation(
        self, test: str, observed: bool, line: int, texts: tuple[str, str, str], location: CitationLocation
    ) -> None:
        text, source_text, text_with_remarks = texts
        if not normalize_text(text):
            self.problems.append(ReadProblem(path=self.path, line=line, message="this citation is empty"))
            return
        self.citations.append(
            Citation(
                path=self.path,
                line=line,
                test=test,
                text=_dedent(text),
                source_text=_dedent(source_text),
                text_with_remarks=_dedent(text_with_remarks),
                observed=observed,
                location=location,
            )
        )


def _list_definitions(node: ast.stmt) -> list[Function | ast.ClassDef]:
    """Return the functions and classes that a statement defines, also inside a condition."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node]
    if not isinstance(node, ast.If | ast.Try | ast.With):
        return []
    inner: list[ast.stmt] = [*node.body]
    if isinstance(node, ast.If | ast.Try):
        inner += node.orelse
    if isinstance(node, ast.Try):
        inner += [child for handler in node.handlers for child in handler.body]
        inner += node.finalbody
    return [definition for child in inner for definition in _list_definitions(child)]


def _list_cite_calls(node: ast.AST) -> list[ast.Call]:
    """Return the calls of `….write_tutorial_block(…)` anywhere inside, in the order of the source."""
    calls = [
        child for child in ast.walk(node) if isinstance(child, ast.Call) and _get_called_name(child) == CITE_FUNCTION
    ]
    return sorted(calls, key=lambda call: (call.lineno, call.col_offset))


def _get_called_name(call: ast.Call) -> str:
    """Return the last part of the called name."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _find_cited_string(call: ast.Call) -> ast.Constant | None:
    """Return the cited string literal, or None when the argument is not a plain string."""
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    if len(arguments) != 1:
        return None
    value = arguments[0]
    if isinstance(value, ast.Call) and _get_called_name(value) in ("dedent", "cleandoc") and len(value.args) == 1:
        value = value.args[0]
    return value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


def _find_docstring(function: Function) -> ast.Constant | None:
    first = function.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        return first.value if isinstance(first.value.value, str) else None
    return None


class _Section(Struct):
    """Lines of a docstring, counted from its first line. The last line is included."""

    first: int
    last: int
    text: str
    text_with_remarks: str
    is_on_label_line: bool  # the text begins on the line of the label


def _iter_cited_sections(docstring: str) -> Iterator[_Section]:
    """Yield the text after each `Tutorial block:` up to the next label."""
    lines = docstring.replace("\r\n", "\n").split("\n")
    margin = min((_measure_indent(line) for line in lines[1:] if line.strip()), default=0)
    index = 0
    while index < len(lines):
        label_match = _CITATION_LABEL.match(lines[index].strip())
        if not label_match:
            index += 1
            continue
        label, rest = index, label_match["rest"].strip()
        depth = _measure_indent(lines[index]) if index else margin
        next_line = next((line for line in lines[index + 1 :] if line.strip()), "")
        is_indented = _measure_indent(next_line) > depth
        index += 1
        while index < len(lines) and not _is_label(lines[index], depth, is_indented=is_indented):
            index += 1
        nonempty = [number for number in range(label + 1, index) if lines[number].strip()]
        remarks = [
            n for n in nonempty if is_indented and _measure_indent(lines[n]) <= depth and not lines[n - 1].strip()
        ]
        cited = [number for number in nonempty if number < (remarks or [index])[0]]
        first_line = cited[0] if cited and not rest else label
        last_line = (cited or [label])[-1]
        first_text = [rest] if rest else []
        yield _Section(
            first=first_line,
            last=last_line,
            text="\n".join([*first_text, *(lines[label + 1 : last_line + 1])]),
            text_with_remarks="\n".join([*first_text, *(lines[label + 1 : index])]),
            is_on_label_line=bool(rest),
        )


def _is_label(line: str, depth: int, *, is_indented: bool) -> bool:
    """True when another section begins here, not deeper than the cited one.

    Text may follow the label on its line if the cited section is indented.
    """
    label = _SECTION_LABEL.match(line.strip())
    is_label = _CITATION_LABEL.match(line.strip()) or (
        label and (is_indented or (line.strip()[0].isupper() and not label["rest"]))
    )
    return bool(is_label) and _measure_indent(line) <= depth


def _measure_indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _is_observed(node: Holder) -> bool:
    """True when the node has `pytest.mark.observed`, as a decorator or in `pytestmark`."""
    marks: list[ast.expr] = []
    if isinstance(node, ast.Module | ast.ClassDef):
        for child in node.body:
            if isinstance(child, ast.Assign) and any(
                isinstance(target, ast.Name) and target.id == "pytestmark" for target in child.targets
            ):
                marks += child.value.elts if isinstance(child.value, ast.List | ast.Tuple) else [child.value]
    if not isinstance(node, ast.Module):
        marks += node.decorator_list
    names = [mark.func if isinstance(mark, ast.Call) else mark for mark in marks]
    return any(
        isinstance(mark, ast.Attribute)
        and mark.attr == "observed"
        and (mark.value.attr if isinstance(mark.value, ast.Attribute) else "") == "mark"
        for mark in names
    )


def _dedent(text: str) -> str:
    """Return the text without its common indentation and without empty lines around it."""
    return textwrap.dedent("\n".join(split_lines(text))).strip("\n").rstrip()
