"""Surroundings of the test's own, a home or a directory, in which it has put what the program then answers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from mngr.tmr.verify.legacy import values, written
from mngr.tmr.verify.legacy.answers import Side
from mngr.tmr.verify.legacy.checks import NEGATIVE, Check
from mngr.tmr.verify.legacy.written import Written

_INTERPRETER = re.compile(r"sys\.executable|\b(?:python[\d.]*|sh|bash|zsh|node|perl|ruby)\b")
_SETS = frozenset(("setenv", "putenv", "chdir", "setdefault", "update", "setitem", "mkdir", "makedirs"))


def with_answers(
    old: Side, new: Side, before: Sequence[Written], after: Sequence[Written]
) -> Iterator[tuple[int, str]]:
    """Files that nothing names to the program, and that it finds only where the new test sends it."""
    if not _places(new) - _places(old):
        return
    known = values.words(*(item for _, content, _ in before for item in values.literals(content)))
    asked = values.words(*old.commands)
    wanted = {word for check in _kept(old, new) for word in _answer(check) - asked - known}
    handed = values.words(*_handed(new))
    for place, content, line in after:
        name = written.file_name(place)
        told = values.words(*values.literals(content)) & wanted
        if told and not values.words(name) <= handed:
            yield line, f"the test points the program to {name or 'a file'}, where the test itself put the answer"


def scripts(old: Side, new: Side, before: Sequence[Written], after: Sequence[Written]) -> Iterator[tuple[int, str]]:
    """Programs that the new test has written, and that it runs where the old one ran another."""
    known = {values.text(place) for place, _, _ in before}
    programs = values.words(*old.commands)
    for place, content, line in after:
        shown = values.text(place)
        said = values.words(*(re.sub(r"#.*", "", str(item)) for item in values.literals(content)))
        if shown in known or content is None or any(word in said for word in programs if len(word) > 2):
            continue
        if any(shown in _run(call) for call in new.calls):
            yield line, f"the test runs {written.file_name(place) or shown}, which it wrote itself"


def _run(call: ast.Call) -> list[str]:
    """The program of a command that is a list, or the file that an interpreter is told to run."""
    words = call.args[0].elts if call.args and isinstance(call.args[0], ast.List | ast.Tuple) else []
    plain = [values.text(word) for word in words if not str(values.value(word)).startswith("-")]
    runs = bool(plain) and bool(_INTERPRETER.search(plain[0]))
    return plain[: 2 if runs else 1]


def _places(side: Side) -> set[str]:
    """The variables and directories that a test gives to the program."""
    named = {shown.partition("=")[0] for shown in side.set if "=" in shown}
    moved = any(k.arg == "cwd" for call in side.calls for k in call.keywords)
    moved = moved or any(values.text(call.func).endswith("chdir") for call in side.calls)
    return {name for name in named if name.isidentifier()} | ({"the directory"} if moved else set())


def _kept(old: Side, new: Side) -> list[Check]:
    """The checks that expect what they expected before."""
    then = {values.text(check.expected) for check in old.checks if check.expected is not None}
    return [c for c in new.checks if c.expected is not None and values.text(c.expected) in then]


def _answer(check: Check) -> set[str]:
    if check.kind in NEGATIVE or check.subject.endswith(".exit_code"):
        return set()
    return {word for word in values.words(*values.literals(check.expected)) if len(word) > 2}


def _handed(side: Side) -> Iterator[str]:
    """The words in what the program is given, other than where it is."""
    for call in side.calls:
        last = values.text(call.func).rsplit(".", 1)[-1]
        if last in _SETS or any(True for _ in written.of_call(last, call)):
            continue
        for part in (*call.args, *(k.value for k in call.keywords if k.arg not in {"env", "cwd"})):
            yield from (
                item.value for item in ast.walk(part) if isinstance(item, ast.Constant) and isinstance(item.value, str)
            )
