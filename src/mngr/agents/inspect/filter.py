"""`--filter`: FIELD OP VALUE with == != < <= > >= ~, and or not ()."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from mngr.base.errors import UsageError, closest

Test = Callable[[dict[str, Any]], bool]


DEEPEST = 200  # conditions
_TOKEN = re.compile(
    r"""\s*(?:(?P<op>==|!=|<=|>=|<|>|~)|(?P<paren>[()])|"(?P<dq>[^"]*)"|'(?P<sq>[^']*)'|(?P<word>[^\s()=!<>~"']+))"""
)


def compile_filter(text: str, fields: tuple[str, ...]) -> Test:
    """A test for agents as JSON; UsageError points at what cannot be understood."""
    tokens = _tokens(text)
    parser = _Parser(text, tokens, fields)
    test = parser.either()
    if parser.at < len(tokens):
        raise _wrong(text, f"did not expect {tokens[parser.at][1]!r}")
    return test


def _tokens(text: str) -> list[tuple[str, str]]:
    found, at = [], 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise _wrong(text, f"cannot read {text[at:].strip()!r}")
        kind = str(match.lastgroup)
        found.append(("value" if kind in ("dq", "sq") else kind, match[kind]))
        at = match.end()
    return found


def _wrong(text: str, why: str) -> UsageError:
    return UsageError(
        f"--filter {text!r}: {why}", "for example: --filter 'state == RUNNING and labels.team == red'"
    )


class _Parser:
    def __init__(self, text: str, tokens: list[tuple[str, str]], fields: tuple[str, ...]) -> None:
        self.text, self.tokens, self.fields, self.at, self.depth = text, tokens, fields, 0, 0

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.at] if self.at < len(self.tokens) else ("end", "the end")

    def take(self) -> tuple[str, str]:
        token = self.peek()
        self.at += 1
        return token

    def either(self) -> Test:
        test = self.both()
        while self.peek() == ("word", "or"):
            self.take()
            test = _or(test, self.both())
        return test

    def both(self) -> Test:
        test = self.single()
        while self.peek() == ("word", "and"):
            self.take()
            test = _and(test, self.single())
        return test

    def single(self) -> Test:
        kind, word = self.take()
        self.depth += 1
        if self.depth > DEEPEST:
            raise _wrong(self.text, f"it has more than {DEEPEST} conditions")
        if (kind, word) == ("word", "not"):
            inner = self.single()
            return lambda item: not inner(item)
        if (kind, word) == ("paren", "("):
            test = self.either()
            if self.take() != ("paren", ")"):
                raise _wrong(self.text, "a ( is not closed")
            return test
        if kind != "word":
            raise _wrong(self.text, f"expected a field, found {word!r}")
        first = word.partition(".")[0]
        if first not in self.fields:
            raise UsageError(
                f"--filter: there is no field {first!r}",
                closest(first, list(self.fields)) or "fields: " + ", ".join(self.fields),
            )
        kind, op = self.take()
        if kind != "op":
            raise _wrong(self.text, f"expected == != < <= > >= or ~ after {word!r}, found {op!r}")
        kind, value = self.take()
        if kind not in ("word", "value"):
            raise _wrong(self.text, f"expected a value after {op}, found {value!r}")
        return _comparison(self.text, word, op, value)


def _or(a: Test, b: Test) -> Test:
    return lambda item: a(item) or b(item)


def _and(a: Test, b: Test) -> Test:
    return lambda item: a(item) and b(item)


def _comparison(text: str, path: str, op: str, value: str) -> Test:
    if op == "~":
        try:
            pattern = re.compile(value)
        except re.error as error:
            raise _wrong(text, f"{value!r} is not a pattern: {error}") from None
        return lambda item: pattern.search(_text(_at(item, path))) is not None

    def test(item: dict[str, Any]) -> bool:
        left: Any = _at(item, path)
        right: Any = value
        if op in ("==", "!="):
            return (_text(left) == value) == (op == "==")
        if left is None:
            return False
        try:
            left, right = float(left), float(value)
        except (TypeError, ValueError):
            left = _text(left)
        return bool({"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[op])

    return test


def _at(item: dict[str, Any], path: str) -> Any:
    first, _, rest = path.partition(".")
    value = item.get(first)
    return value.get(rest) if rest and isinstance(value, dict) else (None if rest else value)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
