"""`expect(…)`: check output, exit codes and directories, and explain a failed check with the transcript."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NoReturn

from mngr.e2e.expectations import expectation_updates, line_matching
from mngr.e2e.result import CommandOutput, E2eResult, OutputOrigin

_MAX_SHOWN_CHARACTERS = 4_000  # characters of a text in a failure message


def expect(subject: E2eResult | str | Path) -> Expectation:
    """Return an expectation about a command's result, a text, or a directory."""
    return Expectation(subject)


class Expectation:
    """Checks one subject. Each method returns the expectation itself, so that calls can be chained."""

    def __init__(self, subject: E2eResult | str | Path) -> None:
        self._subject = subject

    # Checks of a result.

    def to_succeed(self) -> Expectation:
        """Fail unless the exit code is 0."""
        __tracebackhide__ = True
        return self.to_have_exit_code(0)

    def to_fail(self, code: int | None = None) -> Expectation:
        """Fail unless the exit code is `code`, or any code but 0 when `code` is None."""
        __tracebackhide__ = True
        if code is not None:
            return self.to_have_exit_code(code)
        if self._get_result().exit_code == 0:
            self._fail("the command succeeded, but should have failed")
        return self

    def to_have_exit_code(self, code: int) -> Expectation:
        """Fail unless the exit code is `code`."""
        __tracebackhide__ = True
        actual = self._get_result().exit_code
        if actual != code:
            self._fail(f"the exit code is {actual}, expected {code}")
        return self

    # Checks of a text. For a result, the text is both streams in the order of arrival.

    def to_contain(self, *texts: str) -> Expectation:
        """Fail unless the text contains each of `texts`."""
        __tracebackhide__ = True
        for text in texts:
            if text not in self._get_text():
                self._fail(f"{self._get_noun()} does not contain {text!r}", self._get_text())
        return self

    def not_to_contain(self, *texts: str) -> Expectation:
        """Fail if the text contains any of `texts`."""
        __tracebackhide__ = True
        for text in texts:
            if text in self._get_text():
                self._fail(f"{self._get_noun()} contains {text!r}", self._get_text())
        return self

    def to_match(self, pattern: str) -> Expectation:
        """Fail unless a regular expression is found in the text; ^ and $ match at line ends."""
        __tracebackhide__ = True
        if not re.search(pattern, self._get_text(), re.MULTILINE):
            self._fail(f"{self._get_noun()} does not match /{pattern}/", self._get_text())
        return self

    def not_to_match(self, pattern: str) -> Expectation:
        """Fail if a regular expression is found in the text."""
        __tracebackhide__ = True
        if match := re.search(pattern, self._get_text(), re.MULTILINE):
            self._fail(f"{self._get_noun()} matches /{pattern}/ with {match[0]!r}", self._get_text())
        return self

    def to_be_empty(self) -> Expectation:
        """Fail if the text holds anything but white space."""
        __tracebackhide__ = True
        if self._get_text().strip():
            self._fail(f"{self._get_noun()} is not empty", self._get_text())
        return self

    def to_equal(self, text: str) -> Expectation:
        """Fail unless the text equals `text`, apart from one final newline."""
        __tracebackhide__ = True
        if self._get_text().removesuffix("\n") == text.removesuffix("\n"):
            return self
        if not expectation_updates.note_mismatch(text, self._get_text().removesuffix("\n"), exact=True):
            self._fail(
                f"{self._get_noun()} differs from the expected text",
                diff=(text.split("\n"), self._get_text().removesuffix("\n").split("\n")),
            )
        return self

    def to_match_lines(self, text: str) -> Expectation:
        """Fail unless the lines match. `...`, quantities, `<name>` and `[TIME]` work as in mngr.e2e.expectations.line_matching."""
        __tracebackhide__ = True
        origin = self._find_origin()
        names = origin.captures if origin else {}
        patterns = {**line_matching.PATTERNS, **(origin.redactions if origin else {})}
        expected = line_matching.split_expected(text)
        actual = line_matching.split_output(self._get_text())
        outcome = line_matching.match_lines(expected, actual, names, patterns)
        if outcome.is_match:
            names.update(outcome.names)
            return self
        new_lines = expectation_updates.generalize_lines(expected, actual, names, patterns)
        if expectation_updates.note_mismatch(text, "\n".join(new_lines)):
            names.update(line_matching.match_lines(new_lines, actual, names, patterns).names)
        else:
            row = expected[outcome.expected_at] if outcome.expected_at < len(expected) else "the end"
            reason = f"line {outcome.actual_at + 1} does not match {row!r}"
            self._fail(f"{self._get_noun()} differs from the expected lines: {reason}", diff=(expected, actual))
        return self

    # Checks of a directory.

    def to_match_tree(self, expected: Path | dict[str, str | bytes | None]) -> Expectation:
        """Fail unless the files are those of another directory, or of a table.

        The table maps a path to its text, or to None for a file that must not exist. A path that ends with / is a
        directory. Files that the table does not name are ignored.
        """
        __tracebackhide__ = True
        from mngr.e2e.expectations.directory_comparison import compare_tree

        assert isinstance(self._subject, Path), f"{self._subject!r} is not a path"
        if differences := compare_tree(self._subject, expected):
            self._fail(
                f"{self._subject} differs from the expected files:\n" + "\n".join(f"  {row}" for row in differences)
            )
        return self

    # Helpers of all checks.

    def _get_result(self) -> E2eResult:
        assert isinstance(self._subject, E2eResult), f"{self._subject!r} is not the result of a command"
        return self._subject

    def _get_text(self) -> str:
        if isinstance(self._subject, Path):
            return self._subject.read_text(encoding="utf-8", errors="backslashreplace")
        return self._subject.output if isinstance(self._subject, E2eResult) else self._subject

    def _get_noun(self) -> str:
        """Return what the checked text is, for messages."""
        if isinstance(self._subject, Path):
            return f"the file {self._subject}"
        return "the text" if self._find_origin() is None else "the output"

    def _find_origin(self) -> OutputOrigin | None:
        return self._subject.origin if isinstance(self._subject, E2eResult | CommandOutput) else None

    def _fail(self, problem: str, text: str | None = None, diff: tuple[list[str], list[str]] | None = None) -> NoReturn:
        __tracebackhide__ = True
        origin = self._find_origin()
        parts = [f"$ {origin.command}\n{problem}" if origin else problem]
        if diff is not None:
            parts.append(_format_diff(*diff))
        if text is not None and not origin:
            parts.append(_shorten(text))
        if origin:
            parts.append(f"The transcript ends with:\n{origin.read_transcript_tail()}")
        message = "\n\n".join(parts)
        raise AssertionError(origin.redact(message) if origin else message)


def _shorten(text: str) -> str:
    if len(text) <= _MAX_SHOWN_CHARACTERS:
        return text
    half = _MAX_SHOWN_CHARACTERS // 2
    return f"{text[:half]}\n[{len(text) - _MAX_SHOWN_CHARACTERS} characters omitted]\n{text[-half:]}"


def _format_diff(expected: list[str], actual: list[str]) -> str:
    import difflib

    rows = list(difflib.unified_diff(expected[:2000], actual[:2000], "expected", "actual", lineterm="", n=3))
    return _shorten("\n".join(rows))
