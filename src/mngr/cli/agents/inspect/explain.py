"""The command `mngr explain`."""

from __future__ import annotations

from mngr.base import time_format
from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.command_spec import NAME_ARGUMENT, CommandSpec
from mngr.cli.framework.command_table import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.inspect.explain import Explanation
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="explain",
    summary=COMMANDS["explain"][1],
    description=(
        "mngr prints everything that it knows about the agent's state. It begins with the most trusted source, and "
        "prints the age of each piece of information. An arrow marks the source that determined the state."
    ),
    arguments=(NAME_ARGUMENT,),
    examples=(("mngr explain foo", "Explain foo's state"),),
)


def run(cli: Cli, args: Args) -> int:
    """Print an agent's state and the evidence for it."""
    explanation = cli.fleet.explain(args["name"])
    evidence = [entry.to_dict() for entry in explanation.evidence]
    render.render_item(cli, {**explanation.to_dict(), "evidence": evidence}, _format_explanation(explanation))
    return 0


def _format_explanation(explanation: Explanation) -> str:
    reason = f" ({explanation.state_reason})" if explanation.state_reason else ""
    duration = f" for {time_format.format_age(explanation.age)}" if explanation.age is not None else ""
    verb = "has been" if duration else "is"
    lines = [
        f"{explanation.name} {verb} {explanation.state}{reason}{duration} (source: {explanation.state_source})",
        "",
    ]
    for entry in explanation.evidence:
        age = f" ({time_format.format_age(entry.age)} ago)" if entry.age is not None else ""
        lines.append(f"{'→' if entry.is_decisive else ' '} {entry.source:12} {entry.text}{age}")
    lines += ["", f"Next step: {explanation.next_step}"]
    return "".join(f"{terminal_text.join_lines(line)}\n" for line in lines)
