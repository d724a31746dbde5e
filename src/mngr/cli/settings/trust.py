"""The command `mngr trust`."""

from __future__ import annotations

import os

from mngr.base import shell
from mngr.base.errors import MngrError, UsageError
from mngr.base.trust.project_trust import describe_changes, escape, format_question, format_value
from mngr.cli.framework import render
from mngr.cli.framework.command_spec import Argument, CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args
    from mngr.setup.trust import ProjectTrust

COMMAND = CommandSpec(
    name="trust",
    summary=COMMANDS["trust"][1],
    description=(
        "A project's settings contain commands that mngr runs on this machine, for example to set up, test and lint "
        "the project. mngr uses these settings only after you have trusted them. Your trust applies to this "
        "repository, its worktrees and the current values of the settings. If a value changes, mngr shows the "
        "difference and asks you again. mngr init and mngr config set automatically trust the values that they write. "
        "Commands that run the project's tests or programs outside a sandbox, such as mngr e2e audit, need your trust "
        "even if the project has no settings."
    ),
    arguments=(
        Argument(
            name="PROJECT",
            help="The project's directory; with --hash, you can also write a git URL or HOST:PATH (default: the "
            "current project)",
            required=False,
            complete="files",
        ),
    ),
    options=(
        Option(
            flags=("--show",),
            help="Print the settings that you must trust before mngr uses them, without changing anything",
        ),
        Option(
            flags=("--hash",),
            metavar="HASH",
            help="Trust the settings without asking you, but only if their hash is HASH",
        ),
        Option(flags=("--yes",), help="Trust the settings without asking you, even if their values have changed"),
        Option(flags=("--revoke",), help="Stop trusting the project's settings"),
    ),
    examples=(
        ("mngr trust", "Read the project's settings and trust them"),
        ("mngr trust --show --format '{hash}'", "Print the hash of the settings, for use in a CI job"),
        ("mngr trust --hash HASH", "Trust the settings in a CI job, but only if they have this hash"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Show, trust or revoke."""
    from mngr.setup import trust

    chosen = [key for key in ("show", "hash", "yes", "revoke") if args[key]]
    if len(chosen) > 1:
        raise UsageError(f"--{chosen[0]} and --{chosen[1]} cannot be combined", "leave out one of them")
    place = args["project"]
    if place and args["hash"] and not os.path.isdir(cli.context.resolve_path(place)):
        trust.trust_place(cli.context, place, args["hash"])
        render.render_item(cli, {"place": place, "hash": args["hash"]}, f"you trust these settings from {place}")
        return 0
    project = trust.inspect_trust(cli.context, place)
    if args["revoke"]:
        was_trusted = trust.revoke_trust(cli.context, project)
        text = f"{project.root} is no longer trusted" if was_trusted else f"{project.root} was not trusted"
        render.render_item(cli, {**_describe(project), "is_trusted": False, "is_recorded": False}, text)
        return 0
    if args["show"]:
        render.render_item(cli, _describe(project), _format(project))
        return 0
    if not project.is_trusted or not project.is_recorded:
        _confirm(cli, args, project)
        trust.trust_project(cli.context, project)
    text = f"you trust the settings of {project.root}"
    render.render_item(cli, {**_describe(project), "is_trusted": True, "is_recorded": True, "changes": []}, text)
    return 0


def _confirm(cli: Cli, args: Args, project: ProjectTrust) -> None:
    """Raise MngrError unless the user agrees, on the command line or at the terminal."""
    if args["yes"]:
        return
    listed = describe_changes(project.changes)
    place = f" {shell.quote(args['project'])}" if args["project"] else ""
    if args["hash"]:
        if args["hash"] != project.hash:
            raise MngrError(
                f"the settings of {project.root} have the hash {project.hash}:\n{listed}",
                f"if you agree with them: mngr trust{place} --hash {project.hash}",
            )
        return
    ask = cli.context.ask_trust
    if ask is None:
        raise MngrError(
            f"mngr needs a terminal to ask whether you trust the settings of {project.root}:\n{listed or 'the project has none'}",
            f"if you agree with them: mngr trust{place} --hash {project.hash}",
        )
    if not ask(format_question(project.root, project.changes)):
        raise MngrError(
            f"you did not trust the settings of {project.root}",
            f"read the settings: mngr trust{place} --show; then decide again: mngr trust{place}",
        )


def _describe(project: ProjectTrust) -> dict[str, object]:
    """Return the project for the JSON output."""
    return {**project.to_dict(), "changes": [change.to_dict() for change in project.changes]}


def _format(project: ProjectTrust) -> str:
    """Return the settings that need trust, for people."""
    if not project.settings:
        lines = [f"{escape(project.root)} has no settings that need trust"]
    else:
        state = "trusted" if project.is_trusted else "not trusted"
        lines = [f"{escape(project.root)}: {state} (hash {project.hash})"]
        lines += [f"  {escape(key)} = {format_value(value)}" for key, value in sorted(project.settings.items())]
    if project.ignored:
        lines.append(
            "mngr ignores these settings, because only you may set them: " + ", ".join(map(escape, project.ignored))
        )
    return "\n".join(lines)
