"""Which blocks tests cite, read from their syntax trees; no test is imported."""

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
    """Where a citation stands in its file: a string of its own, or lines of a docstring, counted from 1."""

    node: ast.Constant
    first_line: int = 0  # of a docstring; 0 when it cannot be told
    last_line: int = 0
    is_docstring: bool = False


class Citation(Struct):
    """A test says that it is about a block."""

    path: str
    line: int
    test: str
    text: str
    source_text: str  # as it stands in the file; \n and the like are not yet what they mean
    text_with_remarks: str  # with what follows in a docstring and stands further left: words on it, mostly
    observed: bool  # it says what was seen, and nobody has reviewed it
    location: CitationLocation

    @property
    def block_ids(self) -> set[str]:
        """What the block may be known by: the text as Python has it, as a reader sees it, and all of it."""
        return {
            compute_block_id(self.text),
            compute_block_id(self.source_text),
            compute_block_id(self.text_with_remarks),
        }


class Citations(Struct):
    """All that was found, and what could not be read."""

    citations: list[Citation]
    tests: list[str]
    problems: list[ReadProblem]


def read_tests(path: str, shown: Callable[[str], str]) -> Citations:
    """The citations of a file or of all test files under a directory; raises NotFound when there is neither."""
    if not os.path.exists(path):
        hint = "name the tests, or write it down: mngr config set tutorial.tests DIR"
        raise NotFound(f"there are no tests at {shown(path)}", hint)
    problems: list[ReadProblem] = []
    citations: list[Citation] = []
    tests: list[str] = []
    for file in _iter_test_files(path, problems, shown):
        found = _read_file(file, shown(file))
        citations += found.citations
        tests += found.tests
        problems += found.problems
    return Citations(citations=citations, tests=tests, problems=problems)


def _iter_test_files(path: str, problems: list[ReadProblem], shown: Callable[[str], str]) -> Iterator[str]:
    if not os.path.isdir(path):
        yield path
        return

    def failed(error: OSError) -> None:
        place = shown(str(error.filename))
        problems.append(ReadProblem(path=place, line=1, message=f"cannot be read: {error.strerror}"))

    for place, folders, names in os.walk(path, onerror=failed):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED_DIRS)
        for name in sorted(names):
            if name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py")):
                yield os.path.join(place, name)


def _read_file(path: str, shown: str) -> Citations:
    def broken(line: int, message: str) -> Citations:
        problem = ReadProblem(path=shown, line=line, message=message)
        return Citations(citations=[], tests=[], problems=[problem])

    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        return broken(1, f"cannot be read: {error.strerror}")
    return parse_tests(data, shown) if b"\0" not in data else broken(1, "cannot be read: this is no text")


def parse_tests(data: bytes, path: str) -> Citations:
    """The citations in the source of one file; never raises."""

    def broken(line: int, message: str) -> Citations:
        problem = ReadProblem(path=path, line=line, message=f"does not parse: {message}")
        return Citations(citations=[], tests=[], problems=[problem])

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(data)
        source = SourceText(decode_source(data))
    except SyntaxError as error:
        return broken(error.lineno or 1, error.msg)
    except (ValueError, RecursionError, MemoryError) as error:
        return broken(1, str(error) or type(error).__name__)
    reader = _CitationReader(path, source)
    reader.read_container(tree, path, observed=False)
    return Citations(citations=reader.citations, tests=reader.tests, problems=reader.problems)


def decode_source(data: bytes) -> str:
    """The text of a file of Python, its line ends as they are."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return data.decode(encoding)


class SourceText:
    """The text of a file, in which the places of a syntax tree can be found."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", text))]

    def get_offset(self, line: int, column: int = 0) -> int:
        """The offset of a place as Python counts it: lines from 1, columns in bytes."""
        start = self.starts[line - 1]
        row = self.text[start : self.starts[line] if line < len(self.starts) else None]
        return start + len(row.encode()[:column].decode())

    def get_span(self, node: ast.Constant) -> tuple[int, int]:
        """Where a string begins and ends."""
        return self.get_offset(node.lineno, node.col_offset), self.get_offset(
            node.end_lineno or 1, node.end_col_offset or 0
        )

    def find_literal_text(self, node: ast.Constant) -> str | None:
        """What stands between the quotes of a string, None when it is put together from several."""
        start, end = self.get_span(node)
        match = re.fullmatch(r"[rRuU]?(\"\"\"|'''|\"|')(.*)\1", self.text[start:end], re.DOTALL)
        inside = re.sub(r"\\.", "", match[2], flags=re.DOTALL) if match else ""
        return match[2] if match and match[1] not in inside else None


class _CitationReader:
    """Walks one file: modules and classes hold tests, tests hold citations."""

    def __init__(self, path: str, source: SourceText) -> None:
        self.path = path
        self.source = source
        self.citations: list[Citation] = []
        self.tests: list[str] = []
        self.problems: list[ReadProblem] = []

    def read_container(self, node: Holder, name: str, *, observed: bool) -> None:
        """A module or class, under the node id `name`."""
        observed = observed or _is_observed(node)
        for child in node.body:
            for function in _list_definitions(child):
                inner = f"{name}::{function.name}"
                if isinstance(function, ast.ClassDef):
                    self.read_container(function, inner, observed=observed)
                elif function.name.startswith("test"):
                    self._read_test(function, inner, observed=observed or _is_observed(function))

    def _read_test(self, function: Function, name: str, *, observed: bool) -> None:
        self.tests.append(name)
        docstring = _find_docstring(function)
        if docstring is not None:
            self._read_docstring(docstring, name, observed)
        for call in _list_cite_calls(function):
            constant = _find_cited_string(call)
            if constant is None:
                said = f"the argument of {CITE_FUNCTION} cannot be read: it must be a plain string"
                self.problems.append(ReadProblem(path=self.path, line=call.lineno, message=said))
            else:
                text = str(constant.value)
                written = self.source.find_literal_text(constant)
                place = CitationLocation(node=constant)
                self._add_citation(
                    name, observed, constant.lineno, (text, text if written is None else written, text), place
                )

    def _read_docstring(self, node: ast.Constant, test: str, observed: bool) -> None:
        """What follows `Tutorial block:`. The lines of the source are counted, for an escaped line end is none in the value."""
        meant = list(_iter_cited_sections(str(node.value)))
        written = list(_iter_cited_sections(self.source.find_literal_text(node) or ""))
        if len(written) != len(meant):
            for section in meant:
                place = CitationLocation(node=node, is_docstring=True)
                self._add_citation(
                    test,
                    observed,
                    node.lineno,
                    (section.text, section.text, section.text_with_remarks),
                    place,
                )
            return
        for section, seen in zip(meant, written, strict=True):
            first, last = (0, 0) if seen.is_on_label_line else (node.lineno + seen.first, node.lineno + seen.last)
            place = CitationLocation(node=node, is_docstring=True, first_line=first, last_line=last)
            self._add_citation(
                test,
                observed,
                node.lineno + seen.first,
                (section.text, seen.text, section.text_with_remarks),
                place,
            )

    def _add_citation(
        self, test: str, observed: bool, line: int, texts: tuple[str, str, str], place: CitationLocation
    ) -> None:
        text, written, whole = texts
        if not normalize_text(text):
            self.problems.append(ReadProblem(path=self.path, line=line, message="this citation is empty"))
            return
        self.citations.append(
            Citation(
                path=self.path,
                line=line,
                test=test,
                text=_dedent(text),
                source_text=_dedent(written),
                text_with_remarks=_dedent(whole),
                observed=observed,
                location=place,
            )
        )


def _list_definitions(node: ast.stmt) -> list[Function | ast.ClassDef]:
    """The functions and classes that a statement makes, be it behind a condition."""
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
    return [found for child in inner for found in _list_definitions(child)]


def _list_cite_calls(node: ast.AST) -> list[ast.Call]:
    """Calls of `….write_tutorial_block(…)` anywhere inside, in the order of the source."""
    found = [
        child for child in ast.walk(node) if isinstance(child, ast.Call) and _get_called_name(child) == CITE_FUNCTION
    ]
    return sorted(found, key=lambda call: (call.lineno, call.col_offset))


def _get_called_name(call: ast.Call) -> str:
    """The last part of the name of what is called."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _find_cited_string(call: ast.Call) -> ast.Constant | None:
    """The text that is cited, None when it is no plain string."""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    if len(given) != 1:
        return None
    value = given[0]
    if isinstance(value, ast.Call) and _get_called_name(value) in ("dedent", "cleandoc") and len(value.args) == 1:
        value = value.args[0]
    return value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


def _find_docstring(function: Function) -> ast.Constant | None:
    first = function.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        return first.value if isinstance(first.value.value, str) else None
    return None


class _Section(Struct):
    """Lines of a docstring, counted from its first; the last is included."""

    first: int
    last: int
    text: str
    text_with_remarks: str
    is_on_label_line: bool  # it begins behind its label


def _iter_cited_sections(docstring: str) -> Iterator[_Section]:
    """The text after each `Tutorial block:` up to the next label."""
    lines = docstring.replace("\r\n", "\n").split("\n")
    margin = min((_measure_indent(line) for line in lines[1:] if line.strip()), default=0)
    at = 0
    while at < len(lines):
        ours = _CITATION_LABEL.match(lines[at].strip())
        if not ours:
            at += 1
            continue
        label, rest = at, ours["rest"].strip()
        depth = _measure_indent(lines[at]) if at else margin
        inside = next((line for line in lines[at + 1 :] if line.strip()), "")
        deeper = _measure_indent(inside) > depth
        at += 1
        while at < len(lines) and not _is_label(lines[at], depth, deeper=deeper):
            at += 1
        filled = [number for number in range(label + 1, at) if lines[number].strip()]
        outside = [n for n in filled if deeper and _measure_indent(lines[n]) <= depth and not lines[n - 1].strip()]
        near = [number for number in filled if number < (outside or [at])[0]]
        first, last = (label if rest else near[0] if near else label), (near or [label])[-1]
        head = [rest] if rest else []
        yield _Section(
            first=first,
            last=last,
            text="\n".join([*head, *(lines[label + 1 : last + 1])]),
            text_with_remarks="\n".join([*head, *(lines[label + 1 : at])]),
            is_on_label_line=bool(rest),
        )


def _is_label(line: str, depth: int, *, deeper: bool) -> bool:
    """Whether another section begins: a label of its own, not deeper than ours. Text may follow it where ours is indented."""
    label = _SECTION_LABEL.match(line.strip())
    is_one = _CITATION_LABEL.match(line.strip()) or (
        label and (deeper or (line.strip()[0].isupper() and not label["rest"]))
    )
    return bool(is_one) and _measure_indent(line) <= depth


def _measure_indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _is_observed(node: Holder) -> bool:
    """Whether `pytest.mark.observed` stands on it: as a decorator or in `pytestmark`."""
    marks: list[ast.expr] = []
    if isinstance(node, ast.Module | ast.ClassDef):
        for child in node.body:
            if isinstance(child, ast.Assign) and any(
                isinstance(target, ast.Name) and target.id == "pytestmark" for target in child.targets
            ):
                marks += child.value.elts if isinstance(child.value, ast.List | ast.Tuple) else [child.value]
    if not isinstance(node, ast.Module):
        marks += node.decorator_list
    plain = [mark.func if isinstance(mark, ast.Call) else mark for mark in marks]
    return any(
        isinstance(mark, ast.Attribute)
        and mark.attr == "observed"
        and (mark.value.attr if isinstance(mark.value, ast.Attribute) else "") == "mark"
        for mark in plain
    )


def _dedent(text: str) -> str:
    """Without the indentation that all lines have, and the empty lines around it."""
    return textwrap.dedent("\n".join(split_lines(text))).strip("\n").rstrip()
