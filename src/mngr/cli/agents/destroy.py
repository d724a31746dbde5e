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
        "mngr ends the agent's tmux session and removes its work dir. The trash keeps the agent's commits, staged, "
        "uncommitted and untracked files and conversation for 30 days (setting trash.keep). mngr undestroy restores "
        "them. mngr deletes ignored files. It keeps the agent's branch if the branch has commits that no other branch "
        "has. It does not change a directory that an agent uses with --transfer none.\n"
        "With @HOST, mngr destroys all agents on the host and then the host. If mngr create NAME@.PROVIDER created a "
        "host, mngr removes this host together with its last agent."
    ),
    arguments=(TARGETS_ARGUMENT,),
    options=(
        Option(
            flags=("--force",), help="Also destroy an agent that is running or whose record in mngr's home is damaged"
        ),
    ),
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
