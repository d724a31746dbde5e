"""The entry point: finds the command, runs it, and is the one place where errors end."""

from __future__ import annotations

import os
import sys

from mngr.base.errors import MngrError, UsageError, suggest_closest
from mngr.cli.framework.command_table import ALIASES, COMMAND_GROUPS, COMMANDS, get_module_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from mngr.cli.framework.command_line import Cli

# Common options may stand before the command; these take a value.
_OPTIONS_WITH_VALUE = ("--format", "--home", "-S", "--set")


def main(argv: list[str] | None = None) -> int:
    """Run one command line; the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    _reopen_closed_streams()
    try:
        code = _dispatch(words)
        sys.stdout.flush()
        return code
    except MngrError as error:
        report_error(error, words)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except OSError as error:
        if error.errno not in (13, 28, 30, 122):
            return report_crash(error, words)
        hint = "make room and try again" if error.errno in (28, 122) else "choose a place that can be written to"
        report_error(MngrError(f"{error.strerror}: {error.filename or 'standard output'}", hint), words)
        return 1
    except Exception as error:
        return report_crash(error, words)


def _reopen_closed_streams() -> None:
    """A stream that the caller closed is as good as /dev/null; without this the next file opened would take its place."""
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            while os.open(os.devnull, os.O_RDWR) < fd:
                pass
            setattr(sys, name, os.fdopen(fd, "r" if fd == 0 else "w", encoding="utf-8", closefd=False))


def run_console_script() -> None:
    """The console script: leaves without tearing the interpreter down, which costs 3 ms and nobody misses."""
    code = main()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = code or 1
    os._exit(code)


def _dispatch(words: list[str]) -> int:
    before, words = _split_common_options(words)
    if not words or words[0] in ("-h", "--help"):
        from mngr.cli.framework.help import print_overview

        if not words and before:
            raise UsageError(f"mngr {' '.join(before)} names no command", "see: mngr --help")
        if not words:
            print_overview(sys.stderr)
            return 2
        print_overview(sys.stdout)
        return 0
    if words[0] == "--version":
        words[0] = "version"
    name, rest = _find_command_name(words)
    from mngr.cli.framework.command_line import Cli
    from mngr.cli.framework.run import execute_command

    cli = Cli(name, [*before, *rest])
    return execute_command(cli, _load_command_module(name, cli))


def _split_common_options(words: list[str]) -> tuple[list[str], list[str]]:
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-h", "--help", "--version", "--"):
        at += 2 if words[at] in _OPTIONS_WITH_VALUE else 1
    return words[:at], words[at:]


def _find_command_name(words: list[str]) -> tuple[str, list[str]]:
    first = ALIASES.get(words[0], words[0])
    if first in COMMAND_GROUPS:
        if len(words) > 1 and f"{first} {words[1]}" in COMMANDS:
            return f"{first} {words[1]}", words[2:]
        if len(words) > 1 and words[1] in ("-h", "--help"):
            return "help", [first]
        parts = [c.split()[1] for c in COMMANDS if c.startswith(first + " ")]
        said = f"mngr {first} has no command {words[1]!r}" if len(words) > 1 else f"mngr {first} needs a command"
        raise UsageError(said, f"one of: {', '.join(parts)}")
    return first, words[1:]


def _load_command_module(name: str, cli: Cli) -> ModuleType:
    if name in COMMANDS:
        import importlib

        return importlib.import_module(get_module_name(name))
    for module in cli.context.hooks.list_commands():
        if module.COMMAND.name == name:
            return module
    known = [*COMMANDS, *ALIASES, *COMMAND_GROUPS]
    raise UsageError(f"mngr has no command {name!r}", suggest_closest(name, known) or "see: mngr --help")


def report_error(error: MngrError, words: list[str]) -> None:
    """What and why, and the next step, on standard error."""
    hint = error.hint or ("see: mngr help" if error.exit_code == UsageError.exit_code else "see: mngr doctor")
    if _is_json_requested(words):
        import json

        code = {"message": error.message, "hint": hint, "code": error.exit_code}
        print(json.dumps({"v": 1, "error": code}), file=sys.stderr)
        return
    from mngr.cli.framework.terminal_text import strip_controls

    print(f"Error: {strip_controls(error.message)}", file=sys.stderr)
    print(f"Hint: {strip_controls(hint)}", file=sys.stderr)


def _is_json_requested(words: list[str]) -> bool:
    run = sys.modules.get("mngr.cli.framework.run")
    if run is not None and run.Cli.last_format is not None:  # settings can choose it, too
        return run.Cli.last_format in ("json", "jsonl")
    for at, word in enumerate(words):
        if word == "--":
            return False
        if word in ("--format=json", "--format=jsonl"):
            return True
        if word == "--format" and words[at + 1 : at + 2] in (["json"], ["jsonl"]):
            return True
    return False


def report_crash(error: BaseException, words: list[str]) -> int:
    """A bug of ours: two lines for the user, everything else in a file."""
    import platform
    import tempfile
    import time
    import traceback

    from mngr import __version__
    from mngr.base.paths import get_default_home

    shown = [word if word.startswith("-") and "=" not in word else "…" for word in words[1:]]
    lines = [
        f"mngr {__version__}, Python {platform.python_version()}, {platform.platform()}",
        f"command: {words[:1]} {shown}",
    ]
    text = "\n".join(lines) + "\n\n" + "".join(traceback.format_exception(error))
    name = f"crash-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    where = "nowhere: it could not be written"
    homes = [words[at + 1] for at, word in enumerate(words[:-1]) if word == "--home"]
    for place in (os.path.join(homes[0] if homes else get_default_home(), "crashes"), tempfile.gettempdir()):
        try:
            if place.endswith("crashes"):
                if not os.path.isdir(os.path.dirname(place)):
                    continue
                os.makedirs(place, mode=0o700, exist_ok=True)
            fd = os.open(os.path.join(place, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                file.write(text)
            where = os.path.join(place, name)
            break
        except OSError:
            continue
    bug = MngrError(f"this is a bug in mngr: {type(error).__name__}", f"please report it with the crash log: {where}")
    bug.exit_code = 3
    report_error(bug, words)
    return bug.exit_code
