"""The command `mngr tutorial blocks`."""

from __future__ import annotations

import sys

from mngr.base.errors import MngrError
from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.command_spec import Argument, CommandSpec
from mngr.cli.framework.command_table import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
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
    """Print the blocks of the script, and fail if a part of it cannot be read."""
    from mngr.tutorial.blocks import read_script
    from mngr.tutorial.paths import TutorialPaths

    paths = TutorialPaths(cli.context, args["file"])
    script = read_script(paths.file, paths.to_display_path(paths.file))
    blocks = [block.to_dict() for block in script.blocks]
    empty_headings = [heading.to_dict() for heading in script.empty_headings]
    problems = [problem.to_dict() for problem in script.problems]
    render.render_rows(cli, "blocks", blocks, _format_blocks(script), blanks=empty_headings, problems=problems)
    if script.problems:
        sys.stdout.flush()
        raise MngrError("; ".join(map(str, script.problems)), "mend the script at the lines that are named")
    return 0


def _format_blocks(script: TutorialScript) -> str:
    head = ("LINE", "ID", "COMMANDS", "SECTION", "BLOCK")
    rows = [
        (str(block.line), block.id, str(len(block.commands)), block.section or "", block.slug)
        for block in script.blocks
    ]
    empty_headings = "".join(
        f"{script.path}:{heading.line}: to fill: {terminal_text.strip_controls(heading.title)}\n"
        for heading in script.empty_headings
    )
    return (render.format_table(head, rows) if rows else "there is no block\n") + empty_headings
