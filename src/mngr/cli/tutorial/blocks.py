"""`mngr tutorial blocks`."""

from __future__ import annotations

import sys

from mngr.base.errors import MngrError
from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.spec import Argument, CommandSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.command_line import Cli
    from mngr.cli.framework.parse import Args
    from mngr.tutorial.blocks import TutorialScript

FILE_ARGUMENT = Argument(
    name="FILE",
    help="the tutorial script (default: the setting tutorial.file, else tutorial.sh)",
    required=False,
    complete="files",
)

COMMAND = CommandSpec(
    name="tutorial blocks",
    summary=COMMANDS["tutorial blocks"][1],
    description=(
        "A block is a run of lines with no empty line between them; one inside a here-document, a quote or a continuation\n"
        "does not count. A block is known by a hash of what it says, whatever its indentation. A paragraph of comments is\n"
        "a heading, and a heading with no block under it is a blank to fill. What cannot be read is named with its line."
    ),
    arguments=(FILE_ARGUMENT,),
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
    from mngr.tutorial.paths import TutorialPaths

    places = TutorialPaths(cli.context, args["file"])
    script = read_script(places.file, places.to_display_path(places.file))
    blocks = [block.to_dict() for block in script.blocks]
    blanks = [blank.to_dict() for blank in script.empty_headings]
    problems = [problem.to_dict() for problem in script.problems]
    render.render_rows(cli, "blocks", blocks, _format_blocks(script), blanks=blanks, problems=problems)
    if script.problems:
        sys.stdout.flush()
        raise MngrError("; ".join(map(str, script.problems)), "mend the script at the lines that are named")
    return 0


def _format_blocks(script: TutorialScript) -> str:
    head = ("LINE", "ID", "COMMANDS", "SECTION", "BLOCK")
    rows = [(str(b.line), b.id, str(len(b.commands)), b.section or "", b.slug) for b in script.blocks]
    blanks = "".join(
        f"{script.path}:{b.line}: to fill: {terminal_text.strip_controls(b.title)}\n" for b in script.empty_headings
    )
    return (render.format_table(head, rows) if rows else "there is no block\n") + blanks
