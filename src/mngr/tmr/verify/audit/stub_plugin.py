"""A pytest plugin beside the observer: puts stubs where tests find their program, and reports each call and its line.

Standard library and pytest only, Python 3.9 or newer; `observer` is the observer's module. A call by name finds the stub
through PATH. A call by path, or as a Python module, is redirected in the arguments of the started process.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import zlib
from typing import Any

observer: Any = globals()["observer"]
PLAN: dict[str, Any] = observer.FACTS.pop("plugin_settings")
STUB: str = PLAN.pop("stub")
ROOT = os.path.realpath(tempfile.mkdtemp(prefix="audit-", dir=os.path.dirname(observer.FACTS["report"])))
PROGRAM_NAME = os.path.basename(PLAN["words"][0])
STUB_BIN_DIR = os.path.join(ROOT, "bin")
_PROCESS_EVENTS = ("subprocess.Popen", "os.posix_spawn", "os.system", "os.fork", "os.forkpty", "os.exec")
# Words that may precede a program's name in a command.
_SHELLS = frozenset(("sh", "bash", "dash", "zsh"))
_PREFIX_COMMANDS = _SHELLS | frozenset(
    "env exec command time nice timeout setsid sudo then do else elif if while until ! {".split()
)
_PYTHON_NAME = re.compile(r"python[\d.]*")
_SHELL_SEPARATOR = re.compile(r"(\s*[;|&()`\n]+\s*|\s+)")


class _RunningTest:
    """The test that runs now; `file` is empty before the first one."""

    id, phase, file = "", "", ""


_running_test = _RunningTest()


def _install_stub(place: str, real: list[str] | None = None) -> str:
    """Create a stub in its own directory, unless it exists, and return its path."""
    path = os.path.join(ROOT, place, PROGRAM_NAME)
    if not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if real is not None:
            with open(os.path.join(ROOT, place, "real.json"), "w", encoding="utf-8") as file:
                json.dump(real, file)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n'''exec' '{sys.executable}' -IS \"$0\" \"$@\"\n' '''\n{STUB}")
        os.chmod(path, 0o755)
    return path


def _write_json(name: str, data: object) -> None:
    temp_path = os.path.join(ROOT, f"{name}.{os.getpid()}.{threading.get_ident()}")
    with open(temp_path, "w", encoding="utf-8") as file:
        json.dump(data, file)
    os.replace(temp_path, os.path.join(ROOT, name))


# Locating the running test


def pytest_runtest_protocol(item: Any) -> None:
    file = os.path.realpath(str(getattr(item, "path", None) or item.fspath))
    _running_test.id = observer.get_node_id(item)
    _running_test.phase = "setup"
    _running_test.file = file


def pytest_runtest_call(item: Any) -> None:
    _running_test.phase = "call"


def pytest_runtest_teardown(item: Any) -> None:
    _running_test.phase = "teardown"


def _on_audit_event(event: str, args: Any) -> None:
    if event in _PROCESS_EVENTS and _running_test.file:
        path, line = _find_call_site()
        call_site = {"id": _running_test.id, "phase": _running_test.phase, "path": path, "line": line}
        _write_json("call_site.json", call_site)


def _find_call_site() -> tuple[str, int]:
    """Return the outermost line in the test's own file, else the innermost line of the project."""
    in_test, in_project = None, None
    frame: Any = sys._getframe(2)
    while frame is not None:
        filename, line, frame = frame.f_code.co_filename, frame.f_lineno, frame.f_back
        if not os.path.isabs(filename):  # not a file, for example <string>
            continue
        path = os.path.realpath(filename)
        if path == _running_test.file:
            in_test = (path, line)
        elif in_project is None and observer.belongs_to_project(path):
            in_project = (path, line)
    path, line = in_test or in_project or (_running_test.file, 0)
    return (os.path.relpath(path, observer.WORK_DIR) if observer.belongs_to_project(path) else path), line


# Redirecting calls of the program


def _redirect_path(word: str, cwd: str) -> str:
    """Return the stub's path if the word is a path of the program, else the word."""
    if "/" not in word or os.path.basename(word) != PROGRAM_NAME:
        return word
    path = os.path.abspath(os.path.join(cwd, word))
    if path.startswith(ROOT) or not os.path.isfile(path):
        return word
    return _install_stub(f"p{zlib.crc32(path.encode()):08x}", [path])


def _is_command_prefix(word: str, last: str) -> bool:
    """True when the command can still follow this word."""
    name = os.path.basename(word)
    if name in _PREFIX_COMMANDS or _PYTHON_NAME.fullmatch(name) or re.match(r"\w+=", word):
        return True
    return bool(last) and (word.startswith("-") or word.replace(".", "").isdigit())


def _redirect_words(words: list[str], cwd: str) -> list[str]:
    """Return the command with the stub in place of the program."""
    last = ""
    for index, word in enumerate(words):
        if word == "-c" and os.path.basename(last) in _SHELLS and words[index + 1 :]:
            rest = [_redirect_path(word, cwd) for word in words[index + 2 :]]  # arguments of the shell line, "$@"
            return [*words[: index + 1], _redirect_shell_line(words[index + 1], cwd), *rest]
        if (
            word == "-m"
            and _PYTHON_NAME.fullmatch(os.path.basename(last))
            and words[index + 1 : index + 2] == [PROGRAM_NAME]
        ):
            return [_install_stub("module", [sys.executable, "-m", PROGRAM_NAME]), *words[index + 2 :]]
        if not _is_command_prefix(word, last):
            return [*words[:index], _redirect_path(word, cwd), *words[index + 1 :]]
        last = last if word.startswith("-") or (last and word[:1].isdigit()) else word
    return words


def _redirect_shell_line(text: str, cwd: str) -> str:
    """Return the shell line with the stub in place of the program."""
    text = re.sub(
        rf"(?:\S*/)?python[\d.]*(?: -[A-Za-z]+)*? -m {re.escape(PROGRAM_NAME)}(?![\w.-])",
        lambda _: _install_stub("module", [sys.executable, "-m", PROGRAM_NAME]),
        text,
    )
    last, expects_command, pieces = "", True, []
    for index, piece in enumerate(_SHELL_SEPARATOR.split(text)):
        if index % 2:
            if piece.strip() or "\n" in piece:
                expects_command, last = True, ""
            pieces.append(piece)
            continue
        bare = piece.strip("'\"")
        if expects_command and piece:
            pieces.append(piece.replace(bare, _redirect_path(bare, cwd)) if bare else piece)
            expects_command = _is_command_prefix(bare, last)
            last = bare if expects_command and not bare.startswith("-") else last
        else:
            pieces.append(piece)
    return "".join(pieces)


def _patch_popen() -> None:
    init: Any = subprocess.Popen.__init__

    def patched_init(self: Any, args: Any, *rest: Any, **options: Any) -> None:
        cwd = os.fspath(options.get("cwd") or os.curdir)  # the directory may no longer exist
        cwd = cwd.decode() if isinstance(cwd, bytes) else cwd
        if isinstance(args, str):
            args = _redirect_shell_line(args, cwd) if options.get("shell") else _redirect_path(args, cwd)
        elif isinstance(args, (list, tuple)) and all(isinstance(word, (str, os.PathLike)) for word in args):
            args = _redirect_words([str(os.fspath(word)) for word in args], cwd)
        env = options.get("env")
        if env is not None and "PATH" in env:
            directories = [directory for directory in env["PATH"].split(":") if directory != STUB_BIN_DIR]
            options["env"] = {**env, "PATH": ":".join([STUB_BIN_DIR, *directories])}
        init(self, args, *rest, **options)

    subprocess.Popen.__init__ = patched_init  # type: ignore[method-assign]
    system = os.system
    os.system = lambda command: system(_redirect_shell_line(os.fsdecode(command), os.curdir))


# Cleaning up and reporting


def pytest_configure(config: Any) -> None:
    """Keep pytest's cache and other files out of the checkout."""
    cache: Any = getattr(config, "cache", None)
    if hasattr(cache, "_cachedir"):
        import pathlib

        cache._cachedir = pathlib.Path(ROOT, "cache")
    if hasattr(config.option, "e2e_dir"):
        config.option.e2e_dir = os.path.join(ROOT, "e2e")


def pytest_sessionfinish() -> None:
    try:
        with open(os.path.join(ROOT, "calls.jsonl"), encoding="utf-8") as file:
            rows = [json.loads(row) for row in file]
    except OSError:
        rows = []
    for row in rows:
        observer.write_row("call", **row)


def _start_stubs() -> None:
    _install_stub("bin")
    search_path = f"{os.environ.get('PATH', os.defpath)}:{os.path.dirname(sys.executable)}"
    _write_json("plan.json", {**PLAN, "path": search_path})
    os.environ["PATH"] = f"{STUB_BIN_DIR}:{os.environ.get('PATH', os.defpath)}"
    _patch_popen()
    sys.addaudithook(_on_audit_event)


if PLAN["mode"] != "plain":
    _start_stubs()
