"""The command `mngr destroy`."""

from __future__ import annotations

from mngr.cli.framework import render
from mngr.cli.framework.command_spec import TARGETS_ARGUMENT, CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.run import read_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="destroy",
    summary=COMMANDS["destroy"][1],
    description=(
        "Removes session, work dir and record. Commits, index, uncommitted and untracked files and the conversation stay\n"
        "in the trash for 30 days (trash.keep), and mngr undestroy brings them back; ignored files do not. The\n"
        "branch stays if it holds commits that no other branch has. A directory used with --transfer none is not touched.\n"
        "@HOST destroys all agents on a host, and then the host. One that was made for NAME@.PROVIDER goes with its last agent."
    ),
    arguments=(TARGETS_ARGUMENT,),
    options=(Option(flags=("--force",), help="also agents that run, or whose record is damaged"),),
    examples=(
        ("mngr destroy foo", "put foo away"),
        ("mngr list --ids --state DONE | mngr destroy -", "put away all that are done"),
        ("mngr undestroy foo", "bring it back"),
        ("mngr destroy @box.docker", "put all agents of a container away, and the container with its volume"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Move the agents to the trash."""
    outcomes = cli.fleet.destroy(read_names(args), force=args["force"])
    return render.render_outcomes(cli, outcomes, human=lambda outcome: f"destroyed {outcome.name}")
