"""Writes a test with other input: words and numbers of the test are replaced everywhere in it and in its fixtures."""

from __future__ import annotations

import ast
import copy
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping

from mngr.base.model import Struct
from mngr.tmr.runners.test_run import TestFunction
from mngr.tmr.verify.experiments.changed_test_lines import FunctionNode, find_function
from mngr.tmr.verify.rules.python_source import is_docstring, parse_source

_TOKEN = re.compile(r"[A-Za-z]{3,}|\d{2,}")
_ANY_TOKEN = re.compile(r"[A-Za-z]+|\d{2,}")
_WORD = re.compile(r"[A-Za-z_]\w*")
_FILE_NAME = re.compile(r"[\w.-]+\.[A-Za-z]\w{0,4}")
_VOWELS, _CONSONANTS = "aeiou", "bcdfghklmnprtvwz"
_MAX_TOKENS = 10
_SETUP_NAMES = ("setUp", "setup_method", "asyncSetUp")


class Replacement(Struct):
    """A word or number of the test, and the one of the same length and kind that replaces it."""

    old: str
    new: str
    comes_back: bool = True  # the test both passes it in and gets it back


class _Scope(Struct):
    """The parts of the test's file and of its conftest files that prepare or check something for the test."""

    trees: dict[str, ast.Module]
    parts: list[ast.stmt]
    function: FunctionNode


def choose_replacements(texts: Mapping[str, str], test: TestFunction, seed: int) -> list[Replacement]:
    """Return a replacement for words and numbers of the test. Those that the test passes in and gets back come first.

    `texts` has the test's file and its conftest files.
    """
    scope = _find_scope(texts, test)
    if scope is None:
        return []
    chance = random.Random(seed)
    used = set(_WORD.findall("\n".join(texts.values())))
    replacements: list[Replacement] = []
    for token, comes_back in list(_list_tokens(scope).items())[:_MAX_TOKENS]:
        new = next((other for _ in range(20) if (other := _replace_token(token, chance)) not in used), None)
        if new is not None:
            used.add(new)
            replacements.append(Replacement(old=token, new=new, comes_back=comes_back))
    return replacements


def write_test(texts: Mapping[str, str], test: TestFunction, replacements: list[Replacement]) -> dict[str, str | None]:
    """Return the files with these replacements in the test and its fixtures, or nothing if mngr cannot write them."""
    scope = _find_scope(texts, test)
    if scope is None:
        return {}
    replacer = _Replacer({one.old: one.new for one in replacements})
    for part in scope.parts:
        replacer.visit(part)
    return {path: f"{ast.unparse(tree)}\n" for path, tree in scope.trees.items()}


class _Replacer(ast.NodeTransformer):
    """Replaces whole words and numbers in constants."""

    def __init__(self, replacements: dict[str, str]) -> None:
        self._replacements = replacements

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        if isinstance(node.value, str):
            node.value = _ANY_TOKEN.sub(lambda match: self._replacements.get(match[0], match[0]), node.value)
        elif type(node.value) is int and str(node.value) in self._replacements:
            node.value = int(self._replacements[str(node.value)])
        return node


# The parts of the files that belong to the test


def _find_scope(texts: Mapping[str, str], test: TestFunction) -> _Scope | None:
    """Return the test, the fixtures that it uses, and the constants of the module that these mention."""
    trees = {path: tree for path, text in texts.items() if (tree := parse_source(text)) is not None}
    tree = trees.get(test.path)
    function = None if tree is None else find_function(tree, test)
    if function is None:
        return None
    bodies = [(path, statement) for path, other in trees.items() for statement in _iter_statements(other.body)]
    parts: list[ast.stmt] = [function]
    names = _list_names(function)
    changed = True
    while changed:
        changed = False
        for path, statement in bodies:
            if statement not in parts and _belongs_to(statement, names, is_own_file=path == test.path):
                parts.append(statement)
                names |= _list_names(statement)
                changed = True
    used = {path: tree for path, tree in trees.items() if any(part in parts for part in _iter_statements(tree.body))}
    return copy.deepcopy(_Scope(trees=used, parts=parts, function=function))


def _iter_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        if isinstance(statement, ast.ClassDef):
            yield from _iter_statements(statement.body)


def _list_names(node: ast.stmt) -> set[str]:
    """Return the names and parameters that a statement uses."""
    parts = list(ast.walk(node))
    names = {part.id for part in parts if isinstance(part, ast.Name)} | {
        part.attr for part in parts if isinstance(part, ast.Attribute)
    }
    return names | {part.arg for part in parts if isinstance(part, ast.arg)}


def _belongs_to(statement: ast.stmt, names: set[str], *, is_own_file: bool) -> bool:
    if isinstance(statement, FunctionNode):
        is_fixture = any("fixture" in ast.unparse(decorator) for decorator in statement.decorator_list)
        is_helper = is_own_file and not statement.name.startswith("test")
        return statement.name in _SETUP_NAMES or ((is_fixture or is_helper) and statement.name in names)
    if isinstance(statement, ast.Assign):
        targets = [target.id for target in statement.targets if isinstance(target, ast.Name)]
        return any(target in names for target in targets)
    return False


# Words and numbers


def _list_tokens(scope: _Scope) -> dict[str, bool]:
    """Return the tokens without names and keywords, and whether each occurs in two constants or is held by a variable."""
    constants, fixed = _list_constants(scope.parts)
    counts = Counter(token for constant in constants for token in set(_TOKEN.findall(str(constant.value))))
    held = {
        token
        for node in ast.walk(scope.function)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for token in _TOKEN.findall(str(node.value.value))
    }
    for constant in constants:
        found = _ANY_TOKEN.findall(str(constant.value))
        counts.update({token: 0 for token in found if len(found) > 1 or _TOKEN.fullmatch(token)})
    tokens = {token: count > 1 or token in held for token, count in counts.items() if token not in fixed}
    return dict(sorted(tokens.items(), key=lambda item: not item[1]))


def _list_constants(parts: list[ast.stmt]) -> tuple[list[ast.Constant], set[str]]:
    """Return the constants that may be data, and the words that are names: of keys, options, files and commands."""
    nodes = [node for part in parts for node in ast.walk(part)]
    fixed = {part.id for part in nodes if isinstance(part, ast.Name)}
    fixed |= {part.attr for part in nodes if isinstance(part, ast.Attribute)}
    fixed |= {part.arg for part in nodes if isinstance(part, ast.arg | ast.keyword) and part.arg}
    ignored = {
        id(statement.value) for statement in nodes if isinstance(statement, ast.Expr) and is_docstring(statement)
    }
    for name in _iter_names(nodes):
        fixed |= set(_WORD.findall(str(name.value)))
        ignored.add(id(name))
    constants = [part for part in nodes if isinstance(part, ast.Constant) and id(part) not in ignored]
    constants = [constant for constant in constants if isinstance(constant.value, str) or type(constant.value) is int]
    for constant in constants:
        text = str(constant.value)
        if text.startswith("-") or "/" in text or "%" in text or _FILE_NAME.fullmatch(text):
            fixed |= set(_ANY_TOKEN.findall(text))
    return constants, fixed


def _iter_names(nodes: list[ast.AST]) -> Iterator[ast.Constant]:
    """Yield the constants that name something: keys, the first word of a command, and the parameters of a test."""
    for node in nodes:
        names: list[ast.expr | None] = []
        if isinstance(node, ast.Dict):
            names = list(node.keys)
        elif isinstance(node, ast.Subscript):
            names = [node.slice]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
            ("parametrize", "getattr", "write_tutorial_block")
        ):
            names = list(node.args[:1])
        yield from (name for name in names if isinstance(name, ast.Constant))


def _replace_token(token: str, chance: random.Random) -> str:
    """Return a token of the same length and kind. The first and last characters of longer ones stay, for order and plural."""
    if token.isdigit():
        return chance.choice("123456789") + "".join(chance.choice("0123456789") for _ in token[1:-1]) + token[-1]
    if len(token) < 3:
        return "".join(_replace_letter(letter, chance) for letter in token)
    middle = "".join(_replace_letter(letter, chance) for letter in token[1:-1])
    return token[0] + middle + token[-1]


def _replace_letter(letter: str, chance: random.Random) -> str:
    new = chance.choice(_VOWELS if letter.lower() in _VOWELS else _CONSONANTS)
    return new.upper() if letter.isupper() else new
