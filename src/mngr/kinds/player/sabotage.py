"""Imitates a bad agent: weakens tests and plants hostile files. `work_and_fault_steps.py` calls it. It imports nothing of mngr."""

from __future__ import annotations

import ast
import os
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# --- weaken tests


def weaken_test(text: str, names: list[str], weakening: str) -> str:
    """Return the source of a test file with one test weakened. `names` leads from the class to the test."""
    lines = text.splitlines(keepends=True)
    WEAKENINGS[weakening](lines, _get_function(ast.parse(text), names))
    return "".join(lines)


def _remove_asserts(lines: list[str], test: ast.FunctionDef) -> None:
    for node in _list_checks(test):
        _replace_node(lines, node, "pass", node.lineno)


def _make_asserts_true(lines: list[str], test: ast.FunctionDef) -> None:
    for node in _list_checks(test):
        if isinstance(node, ast.Assert):
            first, last = node.test.lineno - 1, (node.test.end_lineno or 0) - 1
            lines[last] = _insert_at_byte_column(lines[last], node.test.end_col_offset or 0, ") or True")
            lines[first] = _insert_at_byte_column(lines[first], node.test.col_offset, "(")


def _insert_return(lines: list[str], test: ast.FunctionDef) -> None:
    first = test.body[1 if ast.get_docstring(test) is not None and test.body[1:] else 0]
    lines.insert(first.lineno - 1, " " * first.col_offset + "return\n")


def _delete_test(lines: list[str], test: ast.FunctionDef) -> None:
    _replace_node(lines, test, "pass", _get_first_line(test))


def _make_marker(marker: str) -> Callable[[list[str], ast.FunctionDef], None]:
    def mark(lines: list[str], test: ast.FunctionDef) -> None:
        line = f'@__import__("pytest").mark.{marker}(reason="unstable")\n'
        lines.insert(_get_first_line(test) - 1, " " * test.col_offset + line)

    return mark


WEAKENINGS: dict[str, Callable[[list[str], ast.FunctionDef], None]] = {
    "asserts": _remove_asserts,
    "true": _make_asserts_true,
    "return": _insert_return,
    "skip": _make_marker("skip"),
    "xfail": _make_marker("xfail"),
    "delete": _delete_test,
}
FORGED_CONFTEST = """import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    outcome.get_result().outcome = "passed"
"""


def _get_function(module: ast.Module, names: list[str]) -> ast.FunctionDef:
    owner: Any = module
    for name in names:
        matches = [node for node in owner.body if getattr(node, "name", None) == name]
        if not matches:
            raise ValueError(f"there is no function or class {name}")
        owner = matches[-1]
    return owner  # type: ignore[no-any-return]


def _list_checks(test: ast.FunctionDef) -> list[ast.stmt]:
    """Return the assertions and calls of `expect`, the last first, so that edits do not move the lines before."""
    checks: list[ast.stmt] = []
    for node in ast.walk(test):
        if isinstance(node, ast.Assert) or (isinstance(node, ast.Expr) and "expect(" in ast.unparse(node)):
            checks.append(node)
    return sorted(checks, key=lambda node: -node.lineno)


def _replace_node(lines: list[str], node: ast.stmt, text: str, first_line: int) -> None:
    lines[first_line - 1 : node.end_lineno] = [" " * node.col_offset + text + "\n"]


def _insert_at_byte_column(line: str, column: int, text: str) -> str:
    data = line.encode()  # ast counts columns in bytes
    return (data[:column] + text.encode() + data[column:]).decode()


def _get_first_line(test: ast.FunctionDef) -> int:
    return min([test.lineno, *(node.lineno for node in test.decorator_list)])


# --- plant hostile files


def plant_hostile_files(kind: str, outputs: str, work_dir: str) -> str:
    """Plant files of a hostile kind in the outputs and the work dir; return a commit message or ""."""
    return HOSTILE_PLANTERS[kind](outputs, work_dir) or ""


def _plant_links(outputs: str, work_dir: str) -> str:
    for name, target in (("secret", "/etc/passwd"), ("up", "../../.."), ("loop", "loop"), ("dir", work_dir)):
        os.symlink(target, _remove_existing(outputs, name))
    os.symlink("/etc/passwd", _remove_existing(work_dir, "hostile-link"))
    return "[FIX_TEST] Link a file"


def _plant_odd_names(outputs: str, work_dir: str) -> str:
    for directory in (outputs, os.path.join(work_dir, "hostile")):
        os.makedirs(directory, exist_ok=True)
        for name in ODD_NAMES:
            with open(os.path.join(os.fsencode(directory), name), "wb") as file:
                file.write(b"odd\n")
    return "[FIX_TEST] Add files"


ODD_NAMES = (
    b"-rf",
    b"~",
    b" ",
    b"a\nb",
    b"a\tb",
    b"\x1b[31mred\x1b]0;title\x07",
    b"\xff\xfe",
    b"$(touch trapped)",
    b"`touch trapped`",
    b"'\"\\",
    b"*",
    b"con.",
    b"<script>alert(1)<",
    b"n" * 255,
    "\u202etxt.exe".encode(),
    "e\u0301".encode(),
)
ESCAPES = "\x1b[2J\x1b]0;owned\x07\x1b[201~\rrm -rf x\r \x9b31m <script>alert(1)</script> \x00 \u202e"


def _plant_escapes(outputs: str, work_dir: str) -> None:
    _write(os.path.join(outputs, "escapes.txt"), ESCAPES)


def _plant_big_file(outputs: str, work_dir: str) -> None:
    with open(os.path.join(outputs, "big.bin"), "wb") as file:
        file.truncate(2 << 30)  # a sparse file, which occupies no disk space


def _plant_special_files(outputs: str, work_dir: str) -> None:
    os.mkfifo(_remove_existing(outputs, "pipe"))
    previous_dir = os.open(".", os.O_RDONLY)
    try:
        os.chdir(outputs)  # the path of a socket must be short
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(_remove_existing(".", "socket"))
    finally:
        os.fchdir(previous_dir)
        os.close(previous_dir)
    _write(os.path.join(outputs, "setuid"), "#!/bin/sh\n")
    os.chmod(os.path.join(outputs, "setuid"), 0o4755)
    os.makedirs(os.path.join(outputs, "shut"), mode=0, exist_ok=True)


def _plant_deep_tree(outputs: str, work_dir: str) -> None:
    os.makedirs(os.path.join(outputs, *["d"] * 500), exist_ok=True)


def _plant_many_files(outputs: str, work_dir: str) -> None:
    os.makedirs(os.path.join(outputs, "many"), exist_ok=True)
    for number in range(5000):
        _write(os.path.join(outputs, "many", str(number)), "")


def _plant_git_traps(outputs: str, work_dir: str) -> None:
    """Make every git command in this repository run a planted program."""
    if not os.path.isdir(os.path.join(work_dir, ".git")):
        raise ValueError("the agent does not have its own repository")
    trap = os.path.join(work_dir, ".git", "trap")
    _write(trap, f"#!/bin/sh\ntouch '{outputs}/trapped'\n")
    os.chmod(trap, 0o755)
    os.makedirs(os.path.join(work_dir, ".git", "hooks"), exist_ok=True)
    for hook in ("post-checkout", "post-merge", "pre-commit", "post-index-change", "reference-transaction"):
        os.symlink(trap, _remove_existing(work_dir, ".git", "hooks", hook))
    with open(os.path.join(work_dir, ".git", "config"), "a", encoding="utf-8") as file:
        file.write(f"[core]\n\tfsmonitor = {trap}\n\tsshCommand = {trap}\n[diff]\n\texternal = {trap}\n")
        file.write(f'[filter "t"]\n\tsmudge = {trap}\n\tclean = {trap}\n[uploadpack]\n\tpackObjectsHook = {trap}\n')
    _write(os.path.join(work_dir, ".gitattributes"), "* filter=t\n")


HOSTILE_PLANTERS: dict[str, Callable[[str, str], str | None]] = {
    "links": _plant_links,
    "names": _plant_odd_names,
    "escapes": _plant_escapes,
    "big": _plant_big_file,
    "special": _plant_special_files,
    "deep": _plant_deep_tree,
    "many": _plant_many_files,
    "git": _plant_git_traps,
}


def _remove_existing(*parts: str) -> str:
    path = os.path.join(*parts)
    if os.path.lexists(path):
        os.unlink(path)
    return path


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
