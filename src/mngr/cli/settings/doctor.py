"""`mngr doctor`."""

from __future__ import annotations

from mngr.base.errors import MngrError
from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.spec import Argument, CommandSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.command_line import Cli
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
    """Look, show, and fail when something needed is missing."""
    from mngr.cli.settings.scopes import check_option

    checks = cli.fleet.doctor(args["target"], lambda key, value: check_option(cli.context, key, value))
    shown = render.format_table(
        ("STATUS", "CHECK", "FOUND"), [(c.status, c.name, c.problem or c.found or "") for c in checks]
    )
    mend = "".join(f"to mend {check.name}: {check.hint}\n" for check in checks if check.hint)
    render.render_rows(cli, "checks", [check.to_dict() for check in checks], shown + terminal_text.strip_controls(mend))
    wrong = [check for check in checks if check.status == "error"]
    if wrong:
        what = ", ".join(check.name for check in wrong)
        raise MngrError(
            f"{len(wrong)} of {len(checks)} checks failed: {what}", "; ".join(c.hint for c in wrong if c.hint)
        )
    return 0
