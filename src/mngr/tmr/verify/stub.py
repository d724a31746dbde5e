"""Stands where a test finds the program that it is about: notes each call, and does with it what the plan says.

A program of its own in a run of `mngr e2e audit`: standard library only, Python 3.9 or newer. What follows its first lines, which sh
and Python both understand, so that `sh NAME`, `python NAME` and NAME by itself all lead here, is this text.
"""

import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PROGRAM_NAME = os.path.basename(os.path.realpath(sys.argv[0]))
STUB_DIR = os.path.dirname(os.path.realpath(sys.argv[0]))  # a test may have made a link to us
ROOT = os.path.dirname(STUB_DIR)
_USAGE_TIMEOUT = 20.0  # seconds for a usage
_MIN_VARYING_DIGITS = 5  # in a word that is another one next time


def main() -> int:
    plan = _read_json(os.path.join(ROOT, "plan.json"))
    at = _read_json(os.path.join(ROOT, "at.json"))
    real, first, args = _find_real_program(plan), plan["words"][1:], sys.argv[1:]
    if args[: len(first)] != first:  # of another program that begins with the same word
        _exec_program(real, args)
    args = args[len(first) :]
    shape = [_normalize_word(word) for word in args]
    order = _choose_action(plan, at, shape)
    _log_call({**at, "args": args, "shape": shape, "real": [*real, *first], "altered": bool(order)})
    if order == "help":
        os.write(1, _read_usage([*real, *first]))
    if order in ("nop", "help"):
        return 0
    if order == "drop":
        begin, end = plan["cut"]
        args = args[:begin] + args[end:]
    _exec_program(real, [*first, *args])
    return 127


def _choose_action(plan: "dict[str, Any]", at: "dict[str, Any]", shape: "list[str]") -> str:
    """What is to be done with a call; "" when nothing is."""
    if plan["mode"] in ("nop", "help"):
        return str(plan["mode"]) if at.get("phase") == plan["phase"] else ""
    if shape != plan.get("shape") or at.get("phase") != plan["phase"]:
        return ""
    return "drop" if plan.get("cut") else "nop"


def _normalize_word(word: str) -> str:
    """A word without what is another one each time: places, ports, numbers of processes."""
    name, mark, value = word.partition("=") if word.startswith("-") else ("", "", word)
    varies = value.startswith("/") or sum(char.isdigit() for char in value) >= _MIN_VARYING_DIGITS
    return name + mark + ("*" if varies else value)


def _read_json(path: str) -> "Any":
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return {}


def _log_call(row: "dict[str, Any]") -> None:
    fd = os.open(os.path.join(ROOT, "calls.jsonl"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(fd, (json.dumps(row) + "\n").encode())
    os.close(fd)


def _list_path_dirs() -> "list[str]":
    """The PATH without us."""
    return [place for place in os.environ.get("PATH", os.defpath).split(":") if not place.startswith(ROOT)]


def _find_real_program(plan: "dict[str, Any]") -> "list[str]":
    """What runs the program itself: what we were put in the place of, else what the PATH leads to."""
    if found := _read_json(os.path.join(STUB_DIR, "real.json")):
        return [str(word) for word in found]
    for place in (*_list_path_dirs(), *plan["path"].split(":")):
        full = os.path.join(place, PROGRAM_NAME)
        if os.path.isfile(full) and os.access(full, os.X_OK) and not os.path.realpath(full).startswith(ROOT):
            return [full]
    sys.stderr.write(f"{PROGRAM_NAME}: not found\n")
    raise SystemExit(127)


def _build_command(real: "list[str]", args: "list[str]") -> "list[str]":
    """With who understands it, if it cannot be run by itself."""
    if os.access(real[0], os.X_OK):
        return [*real, *args]
    with open(real[0], "rb") as file:
        first = file.readline(200).decode("utf-8", "replace")
    if first.startswith("#!"):
        return [*first[2:].split(), *real, *args]
    return [sys.executable if real[0].endswith(".py") else "/bin/sh", *real, *args]


def _exec_program(real: "list[str]", args: "list[str]") -> None:
    words = _build_command(real, args)
    os.execve(words[0], words, {**os.environ, "PATH": ":".join(_list_path_dirs())})


def _read_usage(real: "list[str]") -> bytes:
    import subprocess

    try:
        done = subprocess.run(
            _build_command(real, ["--help"]), capture_output=True, stdin=subprocess.DEVNULL, timeout=_USAGE_TIMEOUT, check=False,
            env={**os.environ, "PATH": ":".join(_list_path_dirs())},
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return b""
    return done.stdout or done.stderr


sys.exit(main())
