"""Finds new code of the implementation that treats the test's own input as a special case."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from mngr.base.model import Struct
from mngr.tmr.prepare.root_causes import is_test_code
from mngr.tmr.verify.experiments.changed_test_lines import FunctionNode, list_changed_lines
from mngr.tmr.verify.rules.changed_file import ChangedFile
from mngr.tmr.verify.rules.python_source import is_docstring, parse_source

_HASHES = ("hash", "hexdigest", "digest", "crc32", "adler32", "md5", "sha1", "sha256", "blake2b")
_CODES = ("chr", "fromhex", "b64decode", "unhexlify", "decompress", "loads", "getenv", "get_ident")
_SEARCHES = ("startswith", "endswith", "fullmatch", "match", "search", "count", "find")
_LITERALS = (ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict)
_SMALL = 3  # smaller numbers and shorter texts occur in any code


class SpecialCase(Struct):
    """A place in new code that compares with a literal, or looks it up in a table."""

    path: str
    line: int
    literal: str  # its source code; empty for a comparison of hashes
    is_hash: bool = False


def list_implementation_changes(changes: Sequence[ChangedFile]) -> list[ChangedFile]:
    """Return the changed Python files of the implementation."""
    return [one for one in changes if one.path.endswith(".py") and one.new is not None and not is_test_code(one.path)]


def list_special_cases(changes: Sequence[ChangedFile]) -> list[SpecialCase]:
    """Return each comparison with a literal, and each key of a table, in the new lines of the implementation."""
    cases: list[SpecialCase] = []
    for change in list_implementation_changes(changes):
        tree = parse_source(change.new)
        lines = set(list_changed_lines(change))
        for node, literal in _iter_keys(tree) if tree is not None else ():
            if node.lineno in lines:
                code = "" if literal is None else ast.unparse(literal)
                cases.append(SpecialCase(path=change.path, line=node.lineno, literal=code, is_hash=literal is None))
    return cases


def list_new_constants(changes: Sequence[ChangedFile]) -> set[str]:
    """Return the source code of the texts and numbers that only the new code contains, and of its calls that hide some.

    A fix for one input must know this input. Messages of errors and the numbers 0 and 1 do not count.
    """
    found: set[str] = set()
    for change in list_implementation_changes(changes):
        tree, old = parse_source(change.new), parse_source(change.old)
        if tree is None:
            continue
        known = {repr(node.value) for node in _iter_constants(old)} if old is not None else set()
        found |= {repr(node.value) for node in _iter_constants(tree)} - known
        lines = set(list_changed_lines(change))
        found |= {repr(node.value) for node in _iter_constants(tree) if _is_number(node) and node.lineno in lines}
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.lineno in lines]
        names = [ast.unparse(call.func) for call in calls]
        found |= {f"{name}()" for name in names if name.rpartition(".")[2] in (*_HASHES, *_CODES)}
    return found


def _is_number(node: ast.Constant) -> bool:
    return isinstance(node.value, int | float)


def _iter_constants(tree: ast.Module) -> Iterator[ast.Constant]:
    """Yield the constants that can name an input: no docstrings, no messages of errors, not 0 and 1."""
    ignored = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and is_docstring(node))
        for part in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in ignored and names_an_input(node):
            yield node


def names_an_input(node: ast.Constant) -> bool:
    """True for a text or a number that can stand for one input: not for an empty text, None, 0 and 1."""
    return node.value not in (None, "", b"", 0, 1, ...)


def _iter_keys(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.pattern, ast.expr | None]]:
    """Yield each place with the literal that decides there, or with None for a comparison of hashes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            literals = [side for side in sides if isinstance(side, _LITERALS)]
            if literals and any(_is_hash(side) for side in sides):
                yield node, None
            for literal in literals:
                yield node, literal
                if isinstance(literal, ast.List | ast.Tuple | ast.Set):
                    yield from ((node, element) for element in literal.elts if isinstance(element, _LITERALS))
        elif isinstance(node, ast.Dict):
            yield from ((key, key) for key in node.keys if isinstance(key, _LITERALS))
        elif isinstance(node, ast.MatchValue):
            yield node, node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SEARCHES:
            yield from ((node, argument) for argument in node.args if isinstance(argument, ast.Constant))


def _is_hash(node: ast.expr) -> bool:
    calls = [part for part in ast.walk(node) if isinstance(part, ast.Call)]
    return any(ast.unparse(call.func).rpartition(".")[2] in _HASHES for call in calls)


def list_test_literals(function: FunctionNode) -> set[str]:
    """Return the source code of the literals of a test that are unlikely to occur elsewhere by chance."""
    literals = [part for part in ast.walk(function) if isinstance(part, _LITERALS)]
    return {ast.unparse(literal) for literal in literals if _is_telling(literal)}


def _is_telling(literal: ast.expr) -> bool:
    if not isinstance(literal, ast.Constant):
        return any(isinstance(part, ast.Constant) for part in ast.walk(literal))
    value = literal.value
    if isinstance(value, bool) or value is None:
        return False
    return abs(value) >= _SMALL if isinstance(value, int | float) else isinstance(value, str) and len(value) >= _SMALL


def list_words_of_program(changes: Sequence[ChangedFile]) -> set[str]:
    """Return the words that name something in the implementation: identifiers, arguments of calls, and all older text."""
    words: set[str] = set()
    for change in list_implementation_changes(changes):
        tree, old = parse_source(change.new), parse_source(change.old)
        for node in ast.walk(tree) if tree is not None else ():
            words |= {str(getattr(node, field)) for field in ("id", "attr", "arg", "name") if hasattr(node, field)}
            if isinstance(node, ast.Call) and not ast.unparse(node.func).endswith(
                ("print", "format", "get", "startswith")
            ):
                words |= {str(part.value) for part in node.args if isinstance(part, ast.Constant)}
        for node in ast.walk(old) if old is not None else ():
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                words |= set(node.value.split())
    return words
