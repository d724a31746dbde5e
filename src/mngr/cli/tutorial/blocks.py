"""`mngr tutorial blocks`."""

from __future__ import annotations

import sys

from mngr.base.errors import MngrError
from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.spec import Argument, Command
from mngr.cli.framework.table import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.command_line import Cli
    from mngr.cli.framework.parse import Args
    from mngr.tutorial.blocks import Script

FILE = Argument(
    name="FILE",
    help="the tutorial script (default: the setting tutorial.file, else tutorial.sh)",
    required=False,
    complete="files",
)

COMMAND = Command(
    name="tutorial blocks",
    summary=COMMANDS["tutorial blocks"][1],
    description=(
        "A block is a run of lines with no empty line between them; one inside a here-document, a quote or a continuation\n"
        "does not count. A block is known by a hash of what it says, whatever its indentation. A paragraph of comments is\n"
        "a heading, and a heading with no block under it is a blank to fill. What cannot be read is named with its line."
    ),
    arguments=(FILE,),
    examples=(
        ("mngr tutorial blocks", "the blocks of this project's tutorial"),
        (
            "mngr tutorial blocks examples/tour.sh --format json",
            "of any script, with their text and commands",
        ),
        ("mngr tutorial blocks --format '{line} {id} {slug}'", "a line of your own making for each"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Read, show, and fail when some of it could not be read."""
    from mngr.tutorial.blocks import read_script
    from mngr.tutorial.locate import Places

    places = Places(cli.context, args["file"])
    script = read_script(places.file, places.shown(places.file))
    blocks = [block.to_dict() for block in script.blocks]
    blanks = [blank.to_dict() for blank in script.blanks]
    problems = [problem.to_dict() for problem in script.problems]
    render.rows(cli, "blocks", blocks, _human(script), blanks=blanks, problems=problems)
    if script.problems:
        sys.stdout.flush()
        raise MngrError("; ".join(map(str, script.problems)), "mend the script at the lines that are named")
    return 0


def _human(script: Script) -> str:
    head = ("LINE", "ID", "COMMANDS", "SECTION", "BLOCK")
    rows = [(str(b.line), b.id, str(len(b.commands)), b.section or "", b.slug) for b in script.blocks]
    blanks = "".join(
        f"{script.path}:{b.line}: to fill: {terminal_text.clean(b.title)}\n" for b in script.blanks
    )
    return (render.table(head, rows) if rows else "there is no block\n") + blanks
