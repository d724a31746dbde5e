"""The command `mngr model-server`."""

from __future__ import annotations

import os
import sys

from mngr.base.errors import UsageError, describe_file_error
from mngr.cli.framework import render
from mngr.cli.framework.command_spec import Argument, CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="model-server",
    summary=COMMANDS["model-server"][1],
    description=(
        "The server supports the APIs of Anthropic (Messages), OpenAI (Responses and chat completions) and Gemini. It "
        "takes its answers from SCRIPT: texts, calls of the client's tools, errors, interrupted answers or no answer "
        "at all. The server prints its URL and runs until you press Ctrl-C. If several clients use the server, give "
        "each of them its own address URL/s/NAME. Each address starts with the first step of the script, and the log "
        "contains NAME. docs/guide/model-server.md describes all steps."
    ),
    arguments=(
        Argument(
            name="SCRIPT",
            help="A JSON file, JSON text, or - for standard input; [] is a script that answers ok to each request",
            complete="files",
        ),
    ),
    options=(
        Option(flags=("--port",), metavar="N", kind="int", default=0, help="Listen on port N (default: a free port)"),
        Option(
            flags=("--listen",),
            metavar="ADDR",
            default="127.0.0.1",
            help="Listen on the address ADDR (default: 127.0.0.1, which only this machine can reach)",
        ),
        Option(
            flags=("--log",),
            metavar="FILE",
            complete="files",
            help="For each request, append one line of JSON with the client, API, size and answer to FILE",
        ),
        Option(
            flags=("--dump",),
            metavar="DIR",
            complete="files",
            help="Save each request as a file in DIR, without its credentials",
        ),
    ),
    examples=(
        (
            "mngr model-server script.json --log requests.jsonl",
            "Answer with the steps of a script, and log the requests",
        ),
        (
            """mngr model-server '[{"text": "hello"}]' --port 8399""",
            "Answer hello to the first request and ok to all others",
        ),
        (
            """mngr model-server '[{"fail": {"status": 429, "times": 3}, "text": "at last"}]'""",
            "Test how a program handles a rate limit",
        ),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Serve until a signal arrives."""
    import signal

    from mngr.testkit.modelserver import ModelServer

    script = _read_script(args["script"])
    stop_signals = {signal.SIGTERM}
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:  # ^C does not interrupt a background job of a shell.
        stop_signals.add(signal.SIGINT)
    signal.pthread_sigmask(signal.SIG_BLOCK, stop_signals)  # Before threads start, so that no thread receives it.
    if args["port"] > 65535:
        raise UsageError(
            f"{args['port']} is not a valid port",
            "use a port up to 65535, or a free port: mngr model-server SCRIPT --port 0",
        )
    try:
        server = ModelServer(script, listen=args["listen"], port=args["port"], log=args["log"], dump=args["dump"])
    except OSError as error:
        raise UsageError(
            f"cannot write {error.filename}: {error.strerror}",
            f"check the path and its permissions: ls -ld {error.filename}",
        ) from None
    with server:
        render.render_item(cli, {"url": server.url(), "pid": os.getpid()}, server.url())
        sys.stdout.flush()
        return 128 + signal.sigwait(stop_signals)


def _read_script(text: str) -> str:
    """Return the script that the user named; raise UsageError if it cannot be read."""
    if text.strip()[:1] in ("[", "{"):
        return text
    try:
        if text == "-":
            return sys.stdin.read()
        with open(os.path.expanduser(text), encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError) as error:
        hint = """name a JSON file, or write JSON: mngr model-server '[{"text": "done"}]'"""
        raise UsageError(f"cannot read the script {text}: {describe_file_error(error)}", hint) from None
