"""The command `mngr pull`."""

from __future__ import annotations

from mngr.base.errors import UsageError
from mngr.cli.framework import render
from mngr.cli.framework.command_spec import Argument, CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="pull",
    summary=COMMANDS["pull"][1],
    description=(
        "Commits come under the agent's branch name, fast-forward only: nothing of yours is overwritten. Every object is\n"
        "checked before it lands, and no hook or setting of the agent's is followed. With a worktree the commits are here\n"
        "already. Outputs go to .mngr/outputs/NAME/. With AGENT:PATH, files are copied instead. How much may come is set by\n"
        "pull.max_bytes, pull.max_file_bytes, pull.max_files and pull.timeout; what is more is refused."
    ),
    arguments=(
        Argument(name="AGENT", help="an agent, or AGENT:PATH for files", complete="agents"),
        Argument(name="DEST", help="where files go (default: here)", required=False, complete="files"),
    ),
    options=(Option(flags=("--merge",), help="also merge it into the current branch; a conflict is undone"),),
    examples=(
        ("mngr pull foo", "foo's commits and outputs"),
        ("mngr pull foo --merge", "and merge them here"),
        ("mngr pull foo:report/out.json .", "one file"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Pull commits and outputs, or copy files from an agent."""
    name, colon, path = args["agent"].partition(":")
    if colon:
        if args["merge"]:
            raise UsageError("--merge goes with an agent, not with a path")
        destination = cli.fleet.pull_path(name, path, args["dest"] or ".")
        render.render_agent_result(cli, name, f"copied to {destination}", path=destination)
        return 0
    if args["dest"] is not None:
        raise UsageError("a target goes with AGENT:PATH", "for example: mngr pull foo:out.json .")
    result = cli.fleet.pull(name, merge=args["merge"])
    lines = []
    if result.branch and result.commit:
        lines.append(
            f"{result.branch} is at {result.commit[:12]} ({_format_count(result.commits, 'new commit')})"
            + (", merged" if result.merged else "")
        )
    if result.outputs:
        lines.append(f"{_format_count(result.outputs, 'output')} in {result.outputs_dir}")
    if not lines:
        lines.append(f"{result.name} has no commits and no outputs")
    render.render_rows(
        cli,
        "results",
        [{"ok": True, "error": None, **result.to_dict()}],
        None if cli.quiet else "\n".join(lines),
    )
    return 0


def _format_count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
