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
        "mngr fetches the agent's commits to a branch with the same name in your repository. It only fast-forwards "
        "this branch, so it cannot overwrite your commits. mngr checks all git objects before it stores them, and it "
        "ignores the agent's git hooks and git settings. If the agent works in a worktree of your repository, its "
        "commits are "
        "already there. mngr copies the agent's outputs to .mngr/outputs/NAME/.\n"
        "With AGENT:PATH, mngr copies files instead of commits. If a pull exceeds one of the settings pull.max_bytes, "
        "pull.max_file_bytes, pull.max_files and pull.timeout, mngr refuses it."
    ),
    arguments=(
        Argument(
            name="AGENT", help="An agent's name or id, or AGENT:PATH to copy the files at PATH", complete="agents"
        ),
        Argument(
            name="DEST",
            help="The file or directory to which mngr copies the files (default: the current directory)",
            required=False,
            complete="files",
        ),
    ),
    options=(
        Option(
            flags=("--merge",),
            help="Also merge the agent's branch into the current branch; if the merge has conflicts, undo it",
        ),
    ),
    examples=(
        ("mngr pull foo", "Fetch foo's commits and outputs"),
        ("mngr pull foo --merge", "Fetch foo's commits and merge them into the current branch"),
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
