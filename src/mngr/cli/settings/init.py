"""The command `mngr init`."""

from __future__ import annotations

from mngr.cli.framework import render
from mngr.cli.framework.command_spec import CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.settings.config_shared import format_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="init",
    summary=COMMANDS["init"][1],
    description=(
        "Finds how a fresh copy of the project is made runnable (uv, poetry, requirements, npm, pnpm, yarn, cargo, go,\n"
        "or a Makefile's own target), the ignored files an agent needs, the program, the way its tests are run and the\n"
        "tutorial. Writes that one file and changes nothing else."
    ),
    options=(
        Option(flags=("--force",), help="replace the settings that are there"),
        Option(flags=("-n", "--dry-run"), help="print the file instead of writing it"),
    ),
    examples=(
        ("mngr init", "write .mngr/settings.toml and say what was found"),
        ("mngr init --dry-run", "only look"),
    ),
    can_run_without_settings=True,
)


def run(cli: Cli, args: Args) -> int:
    """Inspect the project, print the findings, and write the settings."""
    project = cli.fleet.init(force=args["force"], dry_run=args["dry_run"])
    findings = [finding.to_dict() for finding in project.settings]
    lines = [(finding.key, format_value(finding.value), finding.reason) for finding in project.settings]
    table = (
        render.format_table(("SETTING", "VALUE", "BECAUSE OF"), lines)
        if lines
        else "found nothing that says how to set the project up\n"
    )
    item = {"path": project.path, "written": not args["dry_run"], "findings": findings, "text": project.text}
    if args["dry_run"] and cli.format == "human":
        cli.print_message(table.rstrip("\n"))
        cli.print_data(project.text)
        return 0
    render.render_item(cli, item, f"{table}wrote {project.path}")
    return 0
