"""The entry point: finds the command, runs it, and reports every error."""

from __future__ import annotations

import os
import sys

from mngr.base.errors import MngrError, UsageError, suggest_closest
from mngr.cli.framework.command_table import ALIASES, COMMAND_GROUPS, COMMANDS, get_module_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from mngr.cli.framework.cli_invocation import Cli


def main(argv: list[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    _reopen_closed_streams()
    _forget_last_command_line()
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
        report_error(
            MngrError(f"{error.strerror}: {error.filename or 'standard output'}", _suggest_repair(error)), words
        )
        return 1
    except Exception as error:
        return report_crash(error, words)


def _suggest_repair(error: OSError) -> str:
    """Return the hint for a file that mngr may not use, or that has no space."""
    if error.errno in (28, 122):
        return "free some disk space, for example: mngr gc; then try again"
    if not isinstance(error.filename, str):
        return "check where the output goes, then run the command again"
    from mngr.base import shell
    from mngr.base.paths import get_default_home

    hint = f"check the permissions: ls -ld {shell.quote(error.filename)}"
    is_in_home = os.path.abspath(error.filename).startswith(get_default_home())
    return f"{hint}; or use another home: mngr --home DIR" if is_in_home else hint


def _reopen_closed_streams() -> None:
    """Replace standard streams that the caller closed by /dev/null.

    Otherwise the next file that mngr opens would get the number of the closed stream.
    """
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            while os.open(os.devnull, os.O_RDWR) < fd:
                pass
            setattr(sys, name, os.fdopen(fd, "r" if fd == 0 else "w", encoding="utf-8", closefd=False))


def run_console_script() -> None:
    """Run mngr as the console script, and exit without tearing down the interpreter, which saves 3 ms."""
    code = main()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = code or 1
    os._exit(code)


def _dispatch(words: list[str]) -> int:
    """Find the command that the words name, run it, and return its exit code."""
    from mngr.cli.framework.parse import scan_options, split_leading_options

    leading_words, words = split_leading_options(words)
    leading = scan_options(None, leading_words)
    if not words and leading["version"]:
        words = ["version"]
    if not words:
        from mngr.cli.framework.help import print_overview

        if leading["help"]:
            print_overview(sys.stdout)
            return 0
        if leading_words:
            raise UsageError(f"you gave no command after {' '.join(leading_words)}", "see: mngr --help")
        print_overview(sys.stderr)
        return UsageError.exit_code
    if leading["help"] and words[0] in COMMAND_GROUPS:
        leading_words, words = [], [*words, "--help"]
    name, command_words = _find_command_name(words)
    from mngr.cli.framework.run import execute_command

    cli, module = _load_command(name, [*leading_words, *command_words])
    return execute_command(cli, module)


def _find_command_name(words: list[str]) -> tuple[str, list[str]]:
    """Return the full name of the command and the words after it; raise UsageError for an incomplete group."""
    first = ALIASES.get(words[0], words[0])
    if first in COMMAND_GROUPS:
        if len(words) > 1 and f"{first} {words[1]}" in COMMANDS:
            return f"{first} {words[1]}", words[2:]
        if len(words) > 1 and words[1] in ("-h", "--help"):
            return "help", [first]
        subcommands = [command.split()[1] for command in COMMANDS if command.startswith(first + " ")]
        message = f"mngr {first} has no command {words[1]!r}" if len(words) > 1 else f"mngr {first} needs a command"
        hint = f"use one of: {', '.join(subcommands)}; see: mngr help {first}"
        raise UsageError(message, suggest_closest(words[1], subcommands) or hint if len(words) > 1 else hint)
    return first, words[1:]


def _load_command(name: str, words: list[str]) -> tuple[Cli, ModuleType]:
    """Return the command line and the module of a built-in command or of a plugin's; raise UsageError for no command."""
    from mngr.cli.framework.cli_invocation import Cli

    if name in COMMANDS:
        import importlib

        module = importlib.import_module(get_module_name(name))
        return Cli(name, words, module.COMMAND), module
    cli = Cli(name, words, None)
    for module in cli.context.hooks.list_commands():
        if module.COMMAND.name == name:
            cli.context.close()
            return Cli(name, words, module.COMMAND), module
    known = [*COMMANDS, *ALIASES, *COMMAND_GROUPS]
    raise UsageError(f"mngr has no command {name!r}", suggest_closest(name, known) or "see: mngr --help")


def _find_last_command_line() -> Cli | None:
    """Return the command line that mngr was about to run, or None if the words name no command."""
    module = sys.modules.get("mngr.cli.framework.cli_invocation")
    return module.Cli.last if module is not None else None


def _forget_last_command_line() -> None:
    """Forget the command line of an earlier call in this process."""
    module = sys.modules.get("mngr.cli.framework.cli_invocation")
    if module is not None:
        module.Cli.last = None


def report_error(error: MngrError, words: list[str]) -> None:
    """Print the error and its hint to standard error, as JSON if the command line asks for JSON."""
    hint = error.hint or ("see: mngr help" if error.exit_code == UsageError.exit_code else "see: mngr doctor")
    if _is_json_requested(words):
        import json

        fields = {"message": error.message, "hint": hint, "code": error.exit_code}
        print(json.dumps({"v": 1, "error": fields}), file=sys.stderr)
        return
    from mngr.cli.framework.terminal_text import strip_controls

    print(f"Error: {strip_controls(error.message)}", file=sys.stderr)
    print(f"Hint: {strip_controls(hint)}", file=sys.stderr)


def _is_json_requested(words: list[str]) -> bool:
    """True when the settings or the words choose a JSON format."""
    cli = _find_last_command_line()
    if cli is not None:
        return cli.format in ("json", "jsonl")
    from mngr.cli.framework.parse import scan_options

    return scan_options(None, words)["format"][-1:] in (["json"], ["jsonl"])


def report_crash(error: BaseException, words: list[str]) -> int:
    """Report a bug in mngr: write a crash log, print two lines for the user, and return exit code 3."""
    import platform
    import tempfile
    import time
    import traceback

    from mngr import __version__
    from mngr.base.paths import get_default_home
    from mngr.e2e.redact_secrets import Redactor

    lines = [
        f"mngr {__version__}, Python {platform.python_version()}, {platform.platform()}",
        f"command: {' '.join(_mask_words(words))}",
    ]
    text = Redactor(os.environ)("\n".join(lines) + "\n\n" + "".join(traceback.format_exception(error)))
    name = f"crash-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    log_path = "none, because mngr could not write one"
    cli = _find_last_command_line()
    home = (cli.home if cli is not None else None) or get_default_home()
    for directory in (os.path.join(home, "crashes"), tempfile.gettempdir()):
        try:
            if directory.endswith("crashes"):
                if not os.path.isdir(os.path.dirname(directory)):
                    continue
                os.makedirs(directory, mode=0o700, exist_ok=True)
            fd = os.open(os.path.join(directory, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                file.write(text)
            log_path = os.path.join(directory, name)
            break
        except OSError:
            continue
    bug = MngrError(
        f"this is a bug in mngr: {type(error).__name__}", f"please report it, with the crash log: {log_path}"
    )
    bug.exit_code = 3
    report_error(bug, words)
    return bug.exit_code


def _mask_words(words: list[str]) -> list[str]:
    """Return the words with `…` for everything that may be a secret. Names of commands and flags are shown."""
    cli = _find_last_command_line()
    if cli is None:
        return ["…" for _ in words]
    from mngr.cli.framework.parse import mask_words

    return [*cli.name.split(), *mask_words(cli.command, cli.words)]
