"""The command `mngr pull`."""

from __future__ import annotations

from mngr.base.errors import UsageError
from mngr.base.size_format import format_count
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
        "mngr fetches the commits to the agent's branch name, only as a fast-forward, so none of your commits is overwritten. "
        "It checks every object first, and follows no hook and no git setting of the agent. "
        "The commits of a worktree are in your repository already. Outputs go to .mngr/outputs/NAME/.\n"
        "With AGENT:PATH, mngr copies files instead. The settings pull.max_bytes, pull.max_file_bytes, pull.max_files and "
        "pull.timeout limit a pull; mngr refuses what exceeds them."
    ),
    arguments=(
        Argument(name="AGENT", help="An agent, or AGENT:PATH to copy files", complete="agents"),
        Argument(
            name="DEST",
            help="Where to put copied files (default: the current directory)",
            required=False,
            complete="files",
        ),
    ),
    options=(
        Option(
            flags=("--merge",),
            help="Also merge the agent's branch into the current branch; undo the merge if it has conflicts",
        ),
    ),
    examples=(
        ("mngr pull foo", "Fetch foo's commits and outputs"),
        ("mngr pull foo --merge", "Fetch them and merge them into the current branch"),
        ("mngr pull foo:report/out.json .", "Copy one file"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Pull commits and outputs, or copy files from an agent."""
    name, colon, path = args["agent"].partition(":")
    if colon:
        if args["merge"]:
            raise UsageError(
                "--merge merges commits and cannot be combined with AGENT:PATH",
                f"to merge its commits, leave out the path: mngr pull {name} --merge; to copy files, leave out --merge",
            )
        destination = cli.fleet.pull_path(name, path, args["dest"] or ".")
        render.render_agent_result(cli, name, f"copied to {destination}", path=destination)
        return 0
    if args["dest"] is not None:
        raise UsageError(
            f"{args['dest']!r} is a destination, but you named no file to copy: mngr pull AGENT:PATH DEST",
            "for example: mngr pull foo:out.json .",
        )
    result = cli.fleet.pull(name, merge=args["merge"])
    lines = []
    if result.branch and result.commit:
        lines.append(
            f"{result.branch} is at {result.commit[:12]} ({format_count(result.commits, 'new commit')})"
            + (", merged" if result.merged else "")
        )
    if result.outputs:
        lines.append(f"{format_count(result.outputs, 'output')} in {result.outputs_dir}")
    if not lines:
        lines.append(f"{result.name} has no commits and no outputs")
    render.render_rows(
        cli,
        "results",
        [{"ok": True, "error": None, **result.to_dict()}],
        None if cli.quiet else "\n".join(lines),
    )
    return 0
