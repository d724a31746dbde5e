"""Replaces the program that a test is about: records each call and does what the plan says.

This is a separate program in a run of `mngr e2e audit`: standard library only, Python 3.9 or newer. mngr puts a few
lines before this text that both sh and Python understand. So `sh NAME`, `python NAME` and NAME itself all start it.
"""

import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PROGRAM_NAME = os.path.basename(os.path.realpath(sys.argv[0]))
STUB_DIR = os.path.dirname(os.path.realpath(sys.argv[0]))  # a test may have linked to this stub
ROOT = os.path.dirname(STUB_DIR)
_USAGE_TIMEOUT = 20.0  # seconds for printing the usage
_MIN_VARYING_DIGITS = 5  # digits in a word that marks it as varying between runs


def main() -> int:
    plan = _Plan(_read_json(os.path.join(ROOT, "plan.json")))
    call_site = _read_json(os.path.join(ROOT, "call_site.json"))
    real, fixed_args, args = _find_real_program(plan.search_path), plan.words[1:], sys.argv[1:]
    if args[: len(fixed_args)] != fixed_args:  # another program that begins with the same word
        _exec_program(real, args)
    args = args[len(fixed_args) :]
    normalized_args = [_normalize_word(word) for word in args]
    real_command = [*real, *fixed_args]
    action = plan.choose_action(call_site.get("phase"), normalized_args)
    call = {"args": args, "normalized_args": normalized_args, "real_command": real_command, "altered": bool(action)}
    _log_call({**call_site, **call})
    if action == "help":
        os.write(1, _read_usage(real_command))
    if action in ("nop", "help"):
        return 0
    if action == "drop":
        begin, end = plan.cut
        args = args[:begin] + args[end:]
    _exec_program(real, [*fixed_args, *args])
    return 127


class _Plan:
    """What the stubs do in this run of the test: see StubPlan."""

    def __init__(self, data: "Any") -> None:
        self.words: list[str] = data["words"]
        self.cut: list[int] = data["cut"] or []
        self.search_path: str = data["path"]
        self._mode = data["mode"]
        self._phase = data["phase"]
        self._normalized_args = data["normalized_args"]

    def choose_action(self, phase: "Any", normalized_args: "list[str]") -> str:
        """Return the action for a call: nop, help or drop, or an empty string for a normal call."""
        if phase != self._phase:
            return ""
        if self._mode in ("nop", "help"):
            return str(self._mode)
        if normalized_args != self._normalized_args:
            return ""
        return "drop" if self.cut else "nop"


def _normalize_word(word: str) -> str:
    """Return a word without parts that vary between runs: paths, ports and process ids."""
    name, mark, value = word.partition("=") if word.startswith("-") else ("", "", word)
    varies = value.startswith("/") or sum(char.isdigit() for char in value) >= _MIN_VARYING_DIGITS
    return name + mark + ("*" if varies else value)


def _read_json(path: str) -> "Any":
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return {}


def _log_call(row: "dict[str, object]") -> None:
    fd = os.open(os.path.join(ROOT, "calls.jsonl"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(fd, (json.dumps(row) + "\n").encode())
    os.close(fd)


def _list_path_dirs() -> "list[str]":
    """Return the directories of PATH without the stub's own."""
    return [directory for directory in os.environ.get("PATH", os.defpath).split(":") if not directory.startswith(ROOT)]


def _find_real_program(search_path: str) -> "list[str]":
    """Return the command of the real program: the one that the stub replaced, or the one on PATH."""
    if replaced := _read_json(os.path.join(STUB_DIR, "real.json")):
        return [str(word) for word in replaced]
    for directory in (*_list_path_dirs(), *search_path.split(":")):
        path = os.path.join(directory, PROGRAM_NAME)
        if os.path.isfile(path) and os.access(path, os.X_OK) and not os.path.realpath(path).startswith(ROOT):
            return [path]
    sys.stderr.write(f"{PROGRAM_NAME}: not found\n")
    raise SystemExit(127)


def _build_command(real: "list[str]", args: "list[str]") -> "list[str]":
    """Return the command, with an interpreter if the program is not executable."""
    if os.access(real[0], os.X_OK):
        return [*real, *args]
    with open(real[0], "rb") as file:
        first_line = file.readline(200).decode("utf-8", "replace")
    if first_line.startswith("#!"):
        return [*first_line[2:].split(), *real, *args]
    return [sys.executable if real[0].endswith(".py") else "/bin/sh", *real, *args]


def _exec_program(real: "list[str]", args: "list[str]") -> None:
    command = _build_command(real, args)
    os.execve(command[0], command, {**os.environ, "PATH": ":".join(_list_path_dirs())})


def _read_usage(real: "list[str]") -> bytes:
    import subprocess

    try:
        completed = subprocess.run(
            _build_command(real, ["--help"]),
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_USAGE_TIMEOUT,
            check=False,
            env={**os.environ, "PATH": ":".join(_list_path_dirs())},
        )
    except (OSError, subprocess.SubprocessError):
        return b""
    return completed.stdout or completed.stderr


sys.exit(main())
