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
        "Checks programs and their versions, the home, room on the disk, the tmux server, the settings and the plugins,\n"
        "and says how to mend what is wrong, by the package manager that is there; of a host also its clock and its locks;\n"
        "of a provider whether its settings make sense and it answers.\n"
        "Changes nothing. Exits 1 when something that is needed is missing."
    ),
    arguments=(
        Argument(name="TARGET", help="@HOST, @.PROVIDER, or a kind of agent", required=False, complete="targets"),
    ),
    examples=(
        ("mngr doctor", "this machine"),
        ("mngr doctor player", "what agents of kind player need"),
        (
            "mngr doctor @local",
            "a host, be it another machine: mngr doctor @box; what makes them: mngr doctor @.modal",
        ),
        ("mngr doctor @local --format json", "the same for a program"),
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
    hints = "".join(f"to mend {check.name}: {check.hint}\n" for check in checks if check.hint)
    render.render_rows(
        cli, "checks", [check.to_dict() for check in checks], table + terminal_text.strip_controls(hints)
    )
    failed = [check for check in checks if check.status == "error"]
    if failed:
        names = ", ".join(check.name for check in failed)
        raise MngrError(
            f"{len(failed)} of {len(checks)} checks failed: {names}",
            "; ".join(check.hint for check in failed if check.hint),
        )
    return 0
