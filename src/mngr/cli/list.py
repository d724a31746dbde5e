"""`mngr list`."""

from __future__ import annotations

from mngr.cli import render
from mngr.cli.spec import Command, Option
from mngr.cli.table import COMMANDS
from mngr.model import STATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.parse import Args
    from mngr.cli.run import Cli

COMMAND = Command(name="list", summary=COMMANDS["list"][1])


def run(cli: Cli, args: Args) -> int:
    listing = cli.fleet.list()
    agents = listing.agents
    items = [a.to_dict() for a in agents]
    head = ("NAME", "STATE", "KIND", "BRANCH")
    human = render.table(head, [(a.name, a.state, a.kind, a.branch or "-") for a in agents], state_column=1)
    render.rows(cli, "agents", items, human, errors=listing.errors)
    return 0
