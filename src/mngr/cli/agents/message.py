"""The command `mngr message`."""

from __future__ import annotations

import sys

from mngr.base import shell
from mngr.base.errors import MngrError, UsageError
from mngr.cli.framework import render
from mngr.cli.framework.command_spec import NAMES_ARGUMENT, CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.run import read_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.base.model import Outcome
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="message",
    summary=COMMANDS["message"][1],
    description=(
        "mngr reads the message from -m, from --message-file or from standard input, and removes a line end at the "
        "end of the text. A message is delivered when the coding agent has recorded it in its conversation or has "
        "reported it to mngr. A plain command has no conversation, so mngr can only report that it has sent the "
        "message (`sent`)."
    ),
    arguments=(NAMES_ARGUMENT,),
    options=(
        Option(flags=("-m", "--message"), metavar="TEXT", help="Send TEXT"),
        Option(flags=("--message-file",), metavar="FILE", help="Send the content of FILE", complete="files"),
        Option(
            flags=("--allow",), help="Instead of sending a message, grant the permission that the agent has asked for"
        ),
        Option(
            flags=("--deny",), help="Instead of sending a message, refuse the permission that the agent has asked for"
        ),
        Option(flags=("--start",), help="If an agent is not running, start it before sending the message"),
        Option(flags=("--wait",), help="Wait until the agent has answered, that is, until its turn has ended"),
        Option(
            flags=("--timeout",),
            metavar="TIME",
            kind="length",
            help="Stop waiting after TIME (default: 30s for the delivery, no limit for --wait)",
        ),
        Option(
            flags=("--raw",),
            help="Send the message even if the agent's program treats it as a command, for example /exit",
        ),
    ),
    examples=(
        ("mngr message foo -m 'now run the tests'", "Send a message, and return when it has arrived"),
        ("mngr message foo --allow", "Grant the permission that foo has asked for"),
        ("git diff | mngr message foo bar", "Send standard input to two agents"),
        (
            "mngr message foo -m 'continue' --start --wait --timeout 10m",
            "Start foo, send a message, and wait until foo has answered",
        ),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Send a message or an answer; the exit code says whether it arrived."""
    names = read_names(args)
    options = {"start": args["start"], "wait": args["wait"], "timeout": args["timeout"], "raw": args["raw"]}
    answer = _parse_answer(args)
    text = None if answer else _read_text(args)
    outcomes = cli.fleet.message(names, text, answer=answer, **options)
    return render.render_outcomes(cli, outcomes, human=_format_outcome)


def _parse_answer(args: Args) -> str | None:
    """Return `allow` or `deny` if given, else None; raise UsageError if a message is given as well."""
    given_keys = args.given & {"allow", "deny", "message", "message_file"}
    if given_keys & {"allow", "deny"} and len(given_keys) > 1:
        raise UsageError("--allow, --deny and a message cannot be combined", "give only one; see: mngr help message")
    return next((key for key in ("allow", "deny") if args[key]), None)


def _read_text(args: Args) -> str:
    """Return the message from -m, --message-file or standard input."""
    if args["message"] is not None:
        if args["message_file"] is not None:
            raise UsageError(
                "-m and --message-file cannot be combined", "leave out one of them; see: mngr help message"
            )
        return str(args["message"])
    if args["message_file"] is not None:
        return read_message(args["message_file"])
    if "-" in args["name"]:
        raise UsageError(
            "standard input holds the names, so it cannot hold the message",
            "give the message with -m: mngr message - -m TEXT",
        )
    if sys.stdin.isatty():
        print("Type the message and end it with Ctrl-D.", file=sys.stderr)
    return _decode_message(sys.stdin.buffer.read())


def read_message(path: str) -> str:
    """Return a message from a file, without the last line end."""
    import os

    try:
        with open(os.path.expanduser(path), "rb") as file:
            return _decode_message(file.read())
    except OSError as error:
        raise MngrError(
            f"--message-file: cannot read {path}: {error.strerror}",
            f"see whether the file exists: ls -l {shell.quote(path)}",
        ) from None


def _decode_message(data: bytes) -> str:
    """Return the bytes as text with plain line ends, without the last one."""
    return data.decode("utf-8", "surrogateescape").replace("\r\n", "\n").removesuffix("\n")


def _format_outcome(outcome: Outcome) -> str:
    proof = outcome.extra["proof"]
    text = f"sent to {outcome.name}" if proof == "sent" else f"delivered to {outcome.name} (proof: {proof})"
    state, reason = outcome.extra.get("state"), outcome.extra.get("state_reason")
    if state:
        text += f", now {state}" + (f" ({reason})" if reason else "")
    return text
