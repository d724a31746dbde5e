"""The command `mngr exec`."""

from __future__ import annotations

import sys

from mngr.base.errors import UsageError
from mngr.base.untrusted_json import get_int, get_text
from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.cli_invocation import compute_exit_code, raise_single_failure
from mngr.cli.framework.command_spec import NAMES_ARGUMENT, Argument, CommandSpec
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.run import read_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.base.model import Outcome
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="exec",
    summary=COMMANDS["exec"][1],
    description=(
        "The command runs with the agent's environment variables. If you name one agent, the command uses your "
        "standard input and output, and mngr exits with the command's exit code. If you name several agents, mngr "
        "prints the output of each agent separately. In this case, the exit code is 0 if all commands succeeded, and "
        "4 if a command failed. mngr runs the command only once for each agent, even if the connection is lost."
    ),
    arguments=(NAMES_ARGUMENT,),
    trailing=Argument(name="CMD", help="The command that mngr runs in the work dir of each agent"),
    examples=(
        ("mngr exec foo -- git log --oneline -3", "Show foo's latest commits"),
        ("mngr exec foo bar -- make test", "Run the tests in two work dirs at the same time"),
        ("mngr exec foo -- sh -c 'cat > notes.txt' < notes.txt", "Send a file through standard input"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Run the command; with one target, return the exit code of the command."""
    if not args.rest:
        raise UsageError("mngr exec needs a command after --", "for example: mngr exec foo -- make test")
    names = read_names(args)
    if len(names) == 1 and cli.format == "human":
        return cli.fleet.exec_attached(names[0], args.rest)
    outcomes = cli.fleet.exec(names, args.rest)
    if cli.format != "human":
        render.render_rows(cli, "results", [outcome.to_dict() for outcome in outcomes])
        if len(outcomes) == 1 and outcomes[0].extra["started"]:
            return get_int(outcomes[0].extra, "exit_code")
        raise_single_failure(outcomes)
        return compute_exit_code(outcomes)
    for outcome in outcomes:
        _print_outcome(cli, outcome)
    return compute_exit_code(outcomes)


def _print_outcome(cli: Cli, outcome: Outcome) -> None:
    """Print the output of the command on one agent, or the error if it did not start."""
    if not outcome.extra.get("started"):
        print(
            f"Error: {terminal_text.strip_controls(outcome.name)}: {terminal_text.strip_controls(outcome.error or '')}",
            file=sys.stderr,
        )
        return
    code = outcome.extra["exit_code"]
    cli.print_message(f"== {outcome.name}" + (f" (exit code {code})" if code else ""))
    for stream, key in ((sys.stdout, "stdout"), (sys.stderr, "stderr")):
        text = terminal_text.strip_controls(get_text(outcome.extra, key))
        stream.write(text if not text or text.endswith("\n") else text + "\n")
        stream.flush()
