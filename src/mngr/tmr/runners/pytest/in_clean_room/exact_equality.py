"""Compares again what a test compares, by the methods of Python's own types instead of those of the project's classes.

Standard library only, Python 3.9 or newer. mngr runs this text inside a test's file.
"""

from __future__ import annotations

import base64
import functools
import inspect
import json
import operator as _operator
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_MAX_DEPTH, _MAX_PARTS = 4, 50
_ATOMS = (str, bytes, bool, int, float)
_BUILT_IN = (str, bytes, bool, int, float, list, tuple, dict, set, frozenset)


class Comparer:
    """Collects the comparisons that only hold because of the changed classes, as (kind, line, sentence)."""

    def __init__(self, class_names: list[str]) -> None:
        self._names = set(class_names)
        self.seen: list[tuple[str, int, str]] = []

    def _is_changed(self, value: object) -> bool:
        return any(owner.__name__ in self._names for owner in type(value).__mro__)

    def equal(self, left: Any, right: Any, line: int) -> bool:
        """Return `left == right`, and note how it came about."""
        result = left == right
        if result:
            self._look_parts(left, right, line, _MAX_DEPTH)
        return bool(result)

    def _look_parts(self, left: Any, right: Any, line: int, depth: int) -> None:
        """Note how two equal values, or their parts, came to be equal."""
        if self._is_changed(left) or self._is_changed(right):
            self._look_own(*((left, right) if self._is_changed(left) else (right, left)), line)
        elif depth and isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
            for pair in list(zip(left, right))[:_MAX_PARTS]:  # noqa: B905 - unknown to Python 3.9
                self._look_parts(*pair, line, depth - 1)
        elif depth and isinstance(left, dict) and isinstance(right, dict):
            for key in [key for key in left if key in right][:_MAX_PARTS]:
                self._look_parts(left[key], right[key], line, depth - 1)

    def _look_own(self, own: Any, other: Any, line: int) -> None:
        name = type(own).__name__
        base = next((kind for kind in _BUILT_IN if isinstance(own, kind) and isinstance(other, kind)), None)
        if _is_equal_to_all(own):
            self.seen.append(("refuse", line, f"an object of {name} equals every value"))
        elif base is not None and base.__eq__(own, other) is not True:
            text = base.__repr__(own)[:100]
            self.seen.append(
                ("refuse", line, f"an object of {name} holds {text}, which differs from the expected value")
            )
        elif base is None and not is_same(own, other):
            self.seen.append(("note", line, f"the method __eq__ of {name} decides this check{_show_parts(own, other)}"))

    def order(self, left: Any, right: Any, operator: str, line: int) -> Any:
        """Return the result of `!=`, `<`, `<=`, `>` or `>=`, and note if a changed class decides it."""
        result = getattr(_operator, operator)(left, right)
        self.look_order(left, right, line, operator)
        return result

    def look_order(self, left: Any, right: Any, line: int, operator: str = "") -> tuple[Any, Any]:
        """Return both values, and note if a changed class decides how they compare."""
        own = next((value for value in (left, right) if self._is_changed(value)), None)
        is_clear = _differ(left, right) if operator in ("ne", "") else _has_one_order(left, right)
        if own is not None and not is_clear:
            self.seen.append(("note", line, f"a comparing method of {type(own).__name__} decides this check"))
        return left, right

    def look_equal(self, left: Any, right: Any, line: int) -> tuple[Any, Any]:
        """Return both values, and note how their comparison comes about."""
        self.equal(left, right, line)
        return left, right

    def look_contains(self, item: Any, container: Any, line: int) -> tuple[Any, Any]:
        """Return both values, and note how the answer comes about."""
        self.contains(item, container, line)
        return item, container

    def contains(self, item: Any, container: Any, line: int) -> bool:
        """Return `item in container`, and note how it came about."""
        result = item in container
        if result and self._is_changed(container):
            name = type(container).__name__
            level = "refuse" if object() in container else "note"
            what = (
                f"an object of {name} contains every value"
                if level == "refuse"
                else f"the method __contains__ of {name} decides this check"
            )
            self.seen.append((level, line, what))
        return result

    def truth(self, value: Any, line: int) -> Any:
        """Return the value, and note if a changed class decides whether it is true."""
        if self._is_changed(value):
            self.seen.append(("note", line, f"the method __bool__ of {type(value).__name__} decides this check"))
        return value


def is_same(left: object, right: object, depth: int = _MAX_DEPTH) -> bool:
    """True when two values have the same type and the same parts. No method of the project decides."""
    if type(left) is not type(right):
        return False
    if type(left) in (*_ATOMS, type(None)) or not depth:
        return type(left) in (*_ATOMS, type(None)) and left == right
    if isinstance(left, dict) and isinstance(right, dict):
        return list(left) == list(right) and all(is_same(left[key], right[key], depth - 1) for key in left)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        pairs = zip(left, right)  # noqa: B905 - unknown to Python 3.9
        return len(left) == len(right) and all(is_same(one, other, depth - 1) for one, other in pairs)
    parts = [getattr(value, "__dict__", None) for value in (left, right)]
    return isinstance(parts[0], dict) and bool(parts[0]) and is_same(parts[0], parts[1], depth - 1)


def _show_parts(own: object, other: object) -> str:
    """Return the attributes of two objects of one class that are equal although these differ."""
    parts = [getattr(value, "__dict__", None) for value in (own, other)]
    if type(own) is not type(other) or not all(parts):
        return ""
    return f", although {str(parts[0])[:80]} differs from {str(parts[1])[:80]}"


def _differ(left: object, right: object) -> bool:
    """True when two objects of one class have different parts."""
    return type(left) is type(right) and type(left) not in _BUILT_IN and not is_same(left, right)


def _has_one_order(left: Any, right: Any) -> bool:
    """True when exactly one of two values is smaller, or when they are the same and neither is."""
    if type(left) is not type(right):
        return False
    try:
        before, after = bool(left < right), bool(right < left)
        return before != after or (not before and is_same(left, right))
    except Exception:
        return False


def _is_equal_to_all(value: object) -> bool:
    class Stranger:
        def __eq__(self, other: object) -> bool:
            return False

        __hash__ = None  # type: ignore[assignment]

    return value == Stranger() and value == "\0 no such value \0"


def report_test(function: Callable[..., Any], comparer: Comparer, token: str) -> Callable[..., Any]:
    """Return a test that runs `function` and then fails with what the comparer saw as its message."""

    def raise_report() -> None:
        raise AssertionError(token + base64.b64encode(zlib.compress(json.dumps(comparer.seen).encode())).decode())

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def run_later(*args: object, **keywords: object) -> None:
            await function(*args, **keywords)
            raise_report()

        return run_later

    @functools.wraps(function)
    def run_and_report(*args: object, **keywords: object) -> None:
        function(*args, **keywords)
        raise_report()

    return run_and_report
