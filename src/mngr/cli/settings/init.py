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
    from mngr.setup.init.init import DetectedProject
    from mngr.tmr.try_settings import SettingsTrial

COMMAND = CommandSpec(
    name="init",
    summary=COMMANDS["init"][1],
    description=(
        "mngr looks for a command that prepares a fresh copy of the project. It recognizes uv, poetry, pdm, hatch, "
        "tox, nox, requirements files, extras and dependency groups for tests, npm, pnpm, yarn, cargo, go and "
        "Makefile targets. It also looks for ignored files that an agent needs, for the project's program, the tests "
        "and the tutorial. If the project does not install pytest, mngr adds the installation of pytest to the set-up "
        "command.\n"
        "Then mngr tries the settings in a temporary copy of the last commit: it runs the set-up command, collects "
        "the tests and prints the result. If the set-up command fails or a package is missing, mngr corrects the "
        "settings and tries again. mngr changes no file except .mngr/settings.toml."
    ),
    options=(
        Option(flags=("--force",), help="Overwrite the existing settings"),
        Option(flags=("--no-try",), help="Write the settings without trying them in a temporary copy"),
        Option(flags=("-n", "--dry-run"), help="Print the settings without writing the file or trying them"),
    ),
    examples=(
        ("mngr init", "Write .mngr/settings.toml, try the settings and print the result"),
        ("mngr init --dry-run", "Print the settings without changing anything"),
    ),
    can_run_without_settings=True,
)


def run(cli: Cli, args: Args) -> int:
    """Inspect the project, print the findings, write the settings and try them."""
    if args["dry_run"] or args["no_try"]:
        project = cli.fleet.init(force=args["force"], dry_run=args["dry_run"])
        _render(cli, project, written=not args["dry_run"])
        return 0
    from mngr.tmr.try_settings import init_and_try

    trial = init_and_try(cli.fleet, force=args["force"], on_message=cli.print_message)
    _render(cli, trial.project, written=True, trial=trial)
    if trial.error is not None:
        raise trial.error
    return 0


def _render(cli: Cli, project: DetectedProject, *, written: bool, trial: SettingsTrial | None = None) -> None:
    """Print the settings with their reasons, and the result of the trial."""
    rows = [(finding.key, format_value(finding.value), finding.reason) for finding in project.settings]
    table = (
        render.format_table(("SETTING", "VALUE", "BECAUSE OF"), rows)
        if rows
        else "mngr did not find out how to set up the project\n"
    )
    lines = [table.rstrip("\n"), *project.notes]
    if not written and cli.format == "human":
        cli.print_message("\n".join(lines))
        cli.print_data(project.text)
        return
    item = {
        "path": project.path,
        "written": written,
        "findings": [finding.to_dict() for finding in project.settings],
        "notes": project.notes,
        "text": project.text,
    }
    lines.append(f"wrote {project.path}")
    if trial is not None:
        item |= {
            "tests": trial.tests,
            "seconds": trial.seconds,
            "tried": trial.summary,
            "uncollected": trial.uncollected,
        }
        lines += [trial.summary, *(f"  {line}" for line in trial.uncollected[:10])]
    render.render_item(cli, item, "\n".join(lines))
