"""`mngr explain`."""

from __future__ import annotations

from mngr.base import clock
from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.spec import NAME_ARGUMENT, CommandSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.inspect.explain import Explanation
    from mngr.cli.framework.command_line import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="explain",
    summary=COMMANDS["explain"][1],
    description="Shows every piece of evidence in the order in which it is trusted, how old it is, and which one decided.",
    arguments=(NAME_ARGUMENT,),
    examples=(("mngr explain foo", "why is foo WAITING?"),),
)


def run(cli: Cli, args: Args) -> int:
    """Print the state and its evidence."""
    found = cli.fleet.explain(args["name"])
    evidence = [testimony.to_dict() for testimony in found.evidence]
    render.render_item(cli, {**found.to_dict(), "evidence": evidence}, _format_explanation(found))
    return 0


def _format_explanation(found: Explanation) -> str:
    reason = f" ({found.state_reason})" if found.state_reason else ""
    lasting = f" for {clock.format_age(found.age)}" if found.age is not None else ""
    lines = [f"{found.name} is {found.state}{reason}{lasting}, by the word of: {found.state_source}", ""]
    for said in found.evidence:
        age = f" ({clock.format_age(said.age)} ago)" if said.age is not None else ""
        lines.append(f"{'→' if said.decided else ' '} {said.witness:12} {said.said}{age}")
    lines += ["", f"What would change it: {found.change}"]
    return terminal_text.strip_controls("\n".join(lines)) + "\n"
