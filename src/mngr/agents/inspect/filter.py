"""Parses `--filter`: FIELD OP VALUE with == != < <= > >= ~, combined by and, or, not and parentheses."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from mngr.base.errors import UsageError, suggest_closest
from mngr.base.untrusted_json import as_object

Predicate = Callable[[Mapping[str, object]], bool]


MAX_CONDITIONS = 200
_TOKEN = re.compile(
    r"""\s*(?:(?P<op>==|!=|<=|>=|<|>|~)|(?P<paren>[()])|"(?P<dq>[^"]*)"|'(?P<sq>[^']*)'|(?P<word>[^\s()=!<>~"']+))"""
)


def compile_filter(text: str, fields: tuple[str, ...]) -> Predicate:
    """Return a predicate for agents in their JSON form. Raise UsageError for text that is not a filter."""
    tokens = _split_into_tokens(text)
    parser = _Parser(text, tokens, fields)
    predicate = parser.parse_or()
    if parser.at < len(tokens):
        raise _make_usage_error(text, f"mngr does not expect {tokens[parser.at][1]!r} here")
    return predicate


def _split_into_tokens(text: str) -> list[tuple[str, str]]:
    """Return (kind, text) for each token of a filter."""
    tokens, position = [], 0
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None:
            raise _make_usage_error(text, f"mngr does not understand {text[position:].strip()!r}")
        kind = str(match.lastgroup)
        tokens.append(("value" if kind in ("dq", "sq") else kind, match[kind]))
        position = match.end()
    return tokens


def _make_usage_error(text: str, problem: str) -> UsageError:
    return UsageError(
        f"--filter {text!r}: {problem}", "for example: --filter 'state == RUNNING and labels.team == red'"
    )


class _Parser:
    """A recursive descent parser that turns the tokens into one predicate."""

    def __init__(self, text: str, tokens: list[tuple[str, str]], fields: tuple[str, ...]) -> None:
        self.text = text
        self.tokens = tokens
        self.fields = fields
        self.at = 0
        self.depth = 0

    def peek_token(self) -> tuple[str, str]:
        return self.tokens[self.at] if self.at < len(self.tokens) else ("end", "the end")

    def next_token(self) -> tuple[str, str]:
        token = self.peek_token()
        self.at += 1
        return token

    def parse_or(self) -> Predicate:
        predicate = self.parse_and()
        while self.peek_token() == ("word", "or"):
            self.next_token()
            predicate = _make_or(predicate, self.parse_and())
        return predicate

    def parse_and(self) -> Predicate:
        predicate = self.parse_condition()
        while self.peek_token() == ("word", "and"):
            self.next_token()
            predicate = _make_and(predicate, self.parse_condition())
        return predicate

    def parse_condition(self) -> Predicate:
        kind, word = self.next_token()
        self.depth += 1
        if self.depth > MAX_CONDITIONS:
            raise _make_usage_error(self.text, f"it has more than {MAX_CONDITIONS} conditions")
        if (kind, word) == ("word", "not"):
            inner = self.parse_condition()
            return lambda item: not inner(item)
        if (kind, word) == ("paren", "("):
            predicate = self.parse_or()
            if self.next_token() != ("paren", ")"):
                raise _make_usage_error(self.text, "a closing ) is missing")
            return predicate
        if kind != "word":
            raise _make_usage_error(self.text, f"expected a field, found {word!r}")
        field = word.partition(".")[0]
        if field not in self.fields:
            raise UsageError(
                f"--filter: there is no field {field!r}",
                suggest_closest(field, list(self.fields)) or "use one of: " + ", ".join(self.fields),
            )
        kind, op = self.next_token()
        if kind != "op":
            raise _make_usage_error(self.text, f"expected == != < <= > >= or ~ after {word!r}, found {op!r}")
        kind, value = self.next_token()
        if kind not in ("word", "value"):
            raise _make_usage_error(self.text, f"expected a value after {op}, found {value!r}")
        return _make_comparison(self.text, word, op, value)


def _make_or(left: Predicate, right: Predicate) -> Predicate:
    return lambda item: left(item) or right(item)


def _make_and(left: Predicate, right: Predicate) -> Predicate:
    return lambda item: left(item) and right(item)


def _make_comparison(text: str, path: str, op: str, value: str) -> Predicate:
    """Return a predicate that compares a field with a value. `~` searches for a pattern."""
    if op == "~":
        try:
            pattern = re.compile(value)
        except re.error as error:
            raise _make_usage_error(text, f"{value!r} is not a regular expression: {error}") from None
        return lambda item: pattern.search(_format_value(_find_field(item, path))) is not None

    def test(item: Mapping[str, object]) -> bool:
        left: Any = _find_field(item, path)
        right: Any = value
        if op in ("==", "!="):
            return (_format_value(left) == value) == (op == "==")
        if left is None:
            return False
        try:
            left, right = float(left), float(value)
        except (TypeError, ValueError):
            left = _format_value(left)
        return bool({"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[op])

    return test


def _find_field(item: Mapping[str, object], path: str) -> Any:
    """Return the value at FIELD or FIELD.KEY, or None."""
    field, _, key = path.partition(".")
    value = item.get(field)
    return as_object(value).get(key) if key else value


def _format_value(value: object) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
