"""The command `mngr doctor`."""

from __future__ import annotations

from mngr.base.errors import MngrError
from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.command_spec import Argument, CommandSpec
from mngr.cli.framework.command_table import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="doctor",
    summary=COMMANDS["doctor"][1],
    description=(
        "Without TARGET, mngr checks the programs that it needs and their versions, disk space, the sandbox, the tmux "
        "server, mngr's home, the settings, the project's set-up command, whether you trust the project, the "
        "installed coding agents and their logins, docker and podman, and plugins. For a host, mngr also checks the "
        "clock and file locks. For a provider, mngr checks the settings and whether the provider answers. For each "
        "problem, mngr prints a command that solves it. mngr doctor changes nothing, and does not use the network "
        "when it checks logins.\n"
        "The exit code is 1 if a required program or setting is missing. Warnings do not change the exit code."
    ),
    arguments=(
        Argument(
            name="TARGET",
            help="The host (@HOST), provider (@.PROVIDER) or agent kind to check (default: this machine and the "
            "current project)",
            required=False,
            complete="targets",
        ),
    ),
    examples=(
        ("mngr doctor", "Check this machine and the current project"),
        ("mngr doctor claude", "Check Claude Code and its login"),
        (
            "mngr doctor @local",
            "Check this machine as a host; use @box for the ssh host box and @.modal for the provider modal",
        ),
        ("mngr doctor @local --json", "Print the checks for a program"),
    ),
    can_run_without_settings=True,
)


def run(cli: Cli, args: Args) -> int:
    """Check the set-up, print the results, and fail if something required is missing."""
    from mngr.cli.settings.config_shared import check_option

    checks = cli.fleet.doctor(args["target"], lambda key, value: check_option(cli.context, key, value))
    table = render.format_table(
        ("STATUS", "CHECK", "FOUND"),
        [(check.status, check.name, check.problem or check.found or "") for check in checks],
    )
    hints = "".join(f"To fix {check.name}: {check.hint}\n" for check in checks if check.hint)
    render.render_rows(
        cli, "checks", [check.to_dict() for check in checks], table + terminal_text.strip_controls(hints)
    )
    failed = [check for check in checks if check.status == "error"]
    if failed:
        names = ", ".join(check.name for check in failed)
        raise MngrError(
            f"{len(failed)} {'check' if len(failed) == 1 else 'checks'} failed: {names}",
            "; ".join(check.hint for check in failed if check.hint),
        )
    return 0
