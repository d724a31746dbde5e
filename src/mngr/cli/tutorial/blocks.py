"""The command `mngr tutorial blocks`."""

from __future__ import annotations

import sys

from mngr.base import shell
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
    help="The tutorial script (default: the setting tutorial.file, or the file tutorial.sh)",
    required=False,
    complete="files",
)

COMMAND = CommandSpec(
    name="tutorial blocks",
    summary=COMMANDS["tutorial blocks"][1],
    description=(
        "A block consists of consecutive lines with at least one command. An empty line ends a block, unless it is "
        "inside a here-document or a quoted text, or follows a backslash. A block's id is a hash of its text without "
        "indentation. A paragraph that contains only comments is a heading. mngr also lists headings without a block "
        "below them, and lines that it cannot read."
    ),
    arguments=(FILE_ARGUMENT,),
    examples=(
        ("mngr tutorial blocks", "List the blocks of this project's tutorial"),
        (
            "mngr tutorial blocks examples/tour.sh --format json",
            "Print the blocks of another script as JSON, with their text and commands",
        ),
        ("mngr tutorial blocks --format '{line} {id} {slug}'", "Print each row in your own format"),
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
        raise MngrError(
            "; ".join(map(str, script.problems)),
            f"correct these lines, then run again: mngr tutorial blocks {shell.quote(script.path)}",
        )
    return 0


def _format_blocks(script: TutorialScript) -> str:
    head = ("LINE", "ID", "COMMANDS", "SECTION", "BLOCK")
    rows = [
        (str(block.line), block.id, str(len(block.commands)), block.section or "", block.slug)
        for block in script.blocks
    ]
    empty_headings = "".join(
        f"{script.path}:{heading.line}: empty heading: {terminal_text.strip_controls(heading.title)}\n"
        for heading in script.empty_headings
    )
    return (render.format_table(head, rows) if rows else "the script has no blocks\n") + empty_headings
