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
        "Without TARGET, mngr checks programs and their versions, disk space, the sandbox, the tmux server, the home, "
        "the settings, the project's set-up and trust, the installed coding agents and their logins, docker and podman, "
        "and plugins. For a host, mngr also checks its clock and locks; for a provider, its settings and whether it answers. "
        "mngr prints a command for each problem, changes nothing, and does not use the network for logins.\n"
        "The exit code is 1 when something required is missing. A warning is no failure."
    ),
    arguments=(
        Argument(
            name="TARGET",
            help="@HOST, @.PROVIDER or an agent kind (default: this machine and the current project)",
            required=False,
            complete="targets",
        ),
    ),
    examples=(
        ("mngr doctor", "Check this machine and the current project"),
        ("mngr doctor claude", "Check what Claude Code agents need"),
        ("mngr doctor @local", "Check a host; for an ssh host: mngr doctor @box; for a provider: mngr doctor @.modal"),
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
