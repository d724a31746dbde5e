"""The command `mngr label`."""

from __future__ import annotations

from mngr.base.errors import UsageError
from mngr.base.untrusted_json import get_object
from mngr.cli.framework import render
from mngr.cli.framework.command_spec import Argument, CommandSpec
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.run import read_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.base.model import Outcome
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="label",
    summary=COMMANDS["label"][1],
    description="An argument K=V sets the label K to V, and an argument K- removes the label K. All other arguments "
    "are agents.",
    arguments=(
        Argument(
            name="NAME",
            help="An agent's name or id, K=V to set a label, or K- to remove a label; - reads names from standard "
            "input",
            is_repeatable=True,
            complete="agents",
        ),
    ),
    examples=(
        ("mngr label foo team=red", "Set foo's label team to red"),
        ("mngr label foo bar team-", "Remove the label team from two agents"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Set or remove labels of agents."""
    changes: dict[str, str | None] = {}
    agents: list[str] = []
    for word in read_names(args):
        key, equals, value = word.partition("=")
        if equals:
            if not key:
                raise UsageError(f"{word!r} has no key before the =", "for example: mngr label foo team=red")
            changes[key] = value
        elif word.endswith("-") and word != "-":
            changes[word[:-1]] = None
        else:
            agents.append(word)
    if not agents:
        raise UsageError("mngr label needs the name of an agent", "for example: mngr label foo team=red")
    return render.render_outcomes(cli, cli.fleet.label(agents, changes), human=_format_outcome)


def _format_outcome(outcome: Outcome) -> str:
    labels = get_object(outcome.extra, "labels")
    return f"{outcome.name}: " + (" ".join(f"{key}={value}" for key, value in labels.items()) or "no labels")
