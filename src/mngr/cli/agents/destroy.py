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
        "mngr removes the agent's session, work dir and record. Commits, index, uncommitted and untracked files and the "
        "conversation stay in the trash for 30 days (setting trash.keep), and mngr undestroy restores them. "
        "Ignored files are deleted. The branch stays if it holds commits that no other branch has. "
        "A directory that was used with --transfer none is not touched.\n"
        "@HOST destroys all agents on a host, and then the host. "
        "A host that was created for NAME@.PROVIDER is removed with its last agent."
    ),
    arguments=(TARGETS_ARGUMENT,),
    options=(Option(flags=("--force",), help="Also destroy agents that are running or whose record is damaged"),),
    examples=(
        ("mngr destroy foo", "Move foo to the trash"),
        ("mngr list --ids --state DONE | mngr destroy -", "Move all finished agents to the trash"),
        ("mngr undestroy foo", "Restore foo"),
        ("mngr destroy @box.docker", "Destroy all agents in a container, and the container with its volume"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Move the agents to the trash."""
    outcomes = cli.fleet.destroy(read_names(args), force=args["force"])
    return render.render_outcomes(cli, outcomes, human=lambda outcome: f"destroyed {outcome.name}")
