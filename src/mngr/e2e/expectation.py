"""`expect(…)`: what a test says about output, exit codes and directories, and what it shows when that is not so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NoReturn

from mngr.e2e import lines, update
from mngr.e2e.result import Result, Scene, Text

_SHOWN = 4_000  # characters of a text in a failure message


def expect(subject: Result | str | Path) -> Expectation:
    """What is said about a command's result, a text, or a directory."""
    return Expectation(subject)


class Expectation:
    """Each method returns this, so that several can be said in a row."""

    def __init__(self, subject: Result | str | Path) -> None:
        self._subject = subject

    # Of a result.

    def to_succeed(self) -> Expectation:
        """Its exit code is 0."""
        __tracebackhide__ = True
        return self.to_have_exit_code(0)

    def to_fail(self, code: int | None = None) -> Expectation:
        """Its exit code is not 0, or the one given."""
        __tracebackhide__ = True
        if code is not None:
            return self.to_have_exit_code(code)
        if self._result().exit_code == 0:
            self._fail("it succeeded, and should have failed")
        return self

    def to_have_exit_code(self, code: int) -> Expectation:
        """Its exit code is this one."""
        __tracebackhide__ = True
        found = self._result().exit_code
        if found != code:
            self._fail(f"the exit code is {found}, expected {code}")
        return self

    # Of a text; of a result, both streams as they came.

    def to_contain(self, *texts: str) -> Expectation:
        """It has each of these in it."""
        __tracebackhide__ = True
        for text in texts:
            if text not in self._text():
                self._fail(f"does not contain {text!r}", self._text())
        return self

    def not_to_contain(self, *texts: str) -> Expectation:
        """It has none of these in it."""
        __tracebackhide__ = True
        for text in texts:
            if text in self._text():
                self._fail(f"contains {text!r}", self._text())
        return self

    def to_match(self, pattern: str) -> Expectation:
        """A regular expression is found in it; ^ and $ are ends of lines."""
        __tracebackhide__ = True
        if not re.search(pattern, self._text(), re.MULTILINE):
            self._fail(f"does not match /{pattern}/", self._text())
        return self

    def not_to_match(self, pattern: str) -> Expectation:
        """A regular expression is not found in it."""
        __tracebackhide__ = True
        if found := re.search(pattern, self._text(), re.MULTILINE):
            self._fail(f"matches /{pattern}/ with {found[0]!r}", self._text())
        return self

    def to_be_empty(self) -> Expectation:
        """There is nothing but white space."""
        __tracebackhide__ = True
        if self._text().strip():
            self._fail("is not empty", self._text())
        return self

    def to_equal(self, text: str) -> Expectation:
        """It is this text, up to the line end that closes it."""
        __tracebackhide__ = True
        if self._text().removesuffix("\n") == text.removesuffix("\n"):
            return self
        if not update.note(text, self._text().removesuffix("\n"), exact=True):
            self._fail(
                "is not what was expected",
                diff=(text.split("\n"), self._text().removesuffix("\n").split("\n")),
            )
        return self

    def to_match_lines(self, text: str) -> Expectation:
        """Its lines are these, with `...`, quantities, `<name>` and `[TIME]` as mngr.e2e.lines has them."""
        __tracebackhide__ = True
        scene = self._scene()
        names = scene.names if scene else {}
        patterns = {**lines.PATTERNS, **(scene.patterns if scene else {})}
        expected = lines.split(text)
        actual = lines.rows(self._text())
        outcome = lines.match(expected, actual, names, patterns)
        if outcome.fits:
            names.update(outcome.names)
            return self
        new = update.generalise(expected, actual, names, patterns)
        if update.note(text, "\n".join(new)):
            names.update(lines.match(new, actual, names, patterns).names)
        else:
            row = expected[outcome.expected_at] if outcome.expected_at < len(expected) else "the end"
            where = f"line {outcome.actual_at + 1} does not fit {row!r}"
            self._fail(f"is not as expected: {where}", diff=(expected, actual))
        return self

    # Of a directory.

    def to_match_tree(self, expected: Path | dict[str, str | bytes | None]) -> Expectation:
        """Its files are those of another directory, or of a table: path to text, or None for one that must not be there.

        In a table a path that ends with / is a directory; what the table does not name does not matter.
        """
        __tracebackhide__ = True
        from mngr.e2e.tree import compare

        assert isinstance(self._subject, Path), f"{self._subject!r} is not a path"
        if differences := compare(self._subject, expected):
            self._fail(
                f"{self._subject} is not as expected:\n" + "\n".join(f"  {row}" for row in differences)
            )
        return self

    # What all of them need.

    def _result(self) -> Result:
        assert isinstance(self._subject, Result), f"{self._subject!r} is no result of a command"
        return self._subject

    def _text(self) -> str:
        if isinstance(self._subject, Path):
            return self._subject.read_text(encoding="utf-8", errors="backslashreplace")
        return self._subject.output if isinstance(self._subject, Result) else self._subject

    def _scene(self) -> Scene | None:
        return self._subject.scene if isinstance(self._subject, Result | Text) else None

    def _fail(
        self, what: str, text: str | None = None, diff: tuple[list[str], list[str]] | None = None
    ) -> NoReturn:
        __tracebackhide__ = True
        scene = self._scene()
        parts = [f"$ {scene.command}\n{what}" if scene else what]
        if diff is not None:
            parts.append(_diff(*diff))
        if text is not None and not scene:
            parts.append(_short(text))
        if scene:
            parts.append(f"The transcript ends with:\n{scene.tail()}")
        message = "\n\n".join(parts)
        raise AssertionError(scene.redact(message) if scene else message)


def _short(text: str) -> str:
    if len(text) <= _SHOWN:
        return text
    half = _SHOWN // 2
    return f"{text[:half]}\n[{len(text) - _SHOWN} characters left out here]\n{text[-half:]}"


def _diff(expected: list[str], actual: list[str]) -> str:
    import difflib

    rows = list(difflib.unified_diff(expected[:2000], actual[:2000], "expected", "actual", lineterm="", n=3))
    return _short("\n".join(rows))
