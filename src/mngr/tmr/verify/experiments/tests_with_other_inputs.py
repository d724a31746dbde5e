"""Writes a test with other input: words and numbers that the test passes in and gets back are replaced everywhere in it."""

from __future__ import annotations

import ast
import copy
import random
import re
import textwrap
from collections import Counter
from collections.abc import Iterator

from mngr.base.model import Struct
from mngr.tmr.runners.test_run import TestFunction
from mngr.tmr.verify.experiments.changed_test_lines import FunctionNode, parse_function
from mngr.tmr.verify.rules.python_source import is_docstring

_TOKEN = re.compile(r"[A-Za-z]{3,}|\d{2,}")
_WORD = re.compile(r"[A-Za-z_]\w*")
_FILE_NAME = re.compile(r"[\w.-]+\.[A-Za-z]\w{0,4}")
_VOWELS, _CONSONANTS = "aeiou", "bcdfghklmnprtvwz"
_MAX_TOKENS = 8


class Replacement(Struct):
    """A word or number of the test, and the one of the same length and kind that replaces it."""

    old: str
    new: str


def choose_replacements(text: str, test: TestFunction, seed: int) -> list[Replacement]:
    """Return a replacement for each word and number that the test passes in and gets back."""
    function = parse_function(text, test)
    if function is None:
        return []
    chance = random.Random(seed)
    used = set(_WORD.findall(text))
    replacements: list[Replacement] = []
    for token in _list_tokens(function)[:_MAX_TOKENS]:
        new = next((other for _ in range(20) if (other := _replace_token(token, chance)) not in used), None)
        if new is not None:
            used.add(new)
            replacements.append(Replacement(old=token, new=new))
    return replacements


def write_test(text: str, test: TestFunction, replacements: list[Replacement]) -> str | None:
    """Return the test's file with these replacements in the test's function, or None if mngr cannot write it."""
    function = parse_function(text, test)
    if function is None or function.end_lineno is None:
        return None
    changed = _Replacer({one.old: one.new for one in replacements}).visit(copy.deepcopy(function))
    first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
    lines = text.splitlines(keepends=True)
    lines[first - 1 : function.end_lineno] = [textwrap.indent(ast.unparse(changed), " " * function.col_offset) + "\n"]
    return "".join(lines)


class _Replacer(ast.NodeTransformer):
    """Replaces whole words and numbers in the constants of a function."""

    def __init__(self, replacements: dict[str, str]) -> None:
        self._replacements = replacements

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        if isinstance(node.value, str):
            node.value = _TOKEN.sub(lambda match: self._replacements.get(match[0], match[0]), node.value)
        elif type(node.value) is int and str(node.value) in self._replacements:
            node.value = int(self._replacements[str(node.value)])
        return node


def _list_tokens(function: FunctionNode) -> list[str]:
    """Return the tokens of at least two constants, or of one that a variable holds, without names and keywords."""
    constants, fixed = _list_constants(function)
    counts = Counter(token for constant in constants for token in set(_TOKEN.findall(str(constant.value))))
    held = {
        token
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for token in _TOKEN.findall(str(node.value.value))
    }
    return [token for token, count in counts.items() if token not in fixed and (count > 1 or token in held)]


def _list_constants(function: FunctionNode) -> tuple[list[ast.Constant], set[str]]:
    """Return the constants that may be data, and the words that are names: of keys, options, files and commands."""
    fixed = {part.id for part in ast.walk(function) if isinstance(part, ast.Name)}
    fixed |= {part.attr for part in ast.walk(function) if isinstance(part, ast.Attribute)}
    fixed |= {part.arg for part in ast.walk(function) if isinstance(part, ast.arg | ast.keyword) and part.arg}
    ignored = {
        id(statement.value)
        for statement in ast.walk(function)
        if isinstance(statement, ast.Expr) and is_docstring(statement)
    }
    for name in _iter_names(function):
        fixed |= set(_WORD.findall(str(name.value)))
        ignored.add(id(name))
    constants = [part for part in ast.walk(function) if isinstance(part, ast.Constant) and id(part) not in ignored]
    constants = [constant for constant in constants if isinstance(constant.value, str) or type(constant.value) is int]
    for constant in constants:
        text = str(constant.value)
        if text.startswith("-") or "/" in text or _FILE_NAME.fullmatch(text):
            fixed |= set(_TOKEN.findall(text))
    return constants, fixed


def _iter_names(function: FunctionNode) -> Iterator[ast.Constant]:
    """Yield the constants that name something: keys, the first word of a command, and the parameters of a test."""
    for node in ast.walk(function):
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
    """Return a token of the same length and kind. Its first and last characters stay, for order and plural."""
    if token.isdigit():
        return chance.choice("123456789") + "".join(chance.choice("0123456789") for _ in token[1:-1]) + token[-1]
    middle = "".join(_replace_letter(letter, chance) for letter in token[1:-1])
    return token[0] + middle + token[-1]


def _replace_letter(letter: str, chance: random.Random) -> str:
    new = chance.choice(_VOWELS if letter.lower() in _VOWELS else _CONSONANTS)
    return new.upper() if letter.isupper() else new
