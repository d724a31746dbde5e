"""`mngr tutorial fill`."""

from __future__ import annotations

import os
import sys

from mngr.base.errors import MngrError, UsageError
from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.run import is_interactive
from mngr.cli.framework.spec import CommandSpec, Option
from mngr.cli.tutorial.blocks import FILE_ARGUMENT
from mngr.cli.tutorial.sync import WORKER_OPTIONS, build_request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.command_line import Cli
    from mngr.cli.framework.parse import Args
    from mngr.tutorial.writing.fill import BlockProposal, FillResult

COMMAND = CommandSpec(
    name="tutorial fill",
    summary=COMMANDS["tutorial fill"][1],
    description=(
        "A heading with no block under it is a blank. An agent is given the program's --help and its manual page, writes blocks\n"
        "into a copy, and each of them is tried for real. What you get is a patch with the outcome of each block; nothing of\n"
        "yours is changed. Which commands the agent got wrong on the way is told too: there the program's interface misleads."
    ),
    arguments=(FILE_ARGUMENT,),
    options=(
        *(option for option in WORKER_OPTIONS if option.flags[0] != "--agent"),
        Option(flags=("--agent",), metavar="KIND", default="claude", help="who proposes", complete="kinds"),
        Option(
            flags=("--program",),
            metavar="NAME",
            help="what the tutorial is about (default: the setting project.program)",
        ),
        Option(flags=("--section",), metavar="TEXT", help="only blanks whose heading or section has this in it"),
        Option(flags=("--interactive",), help="keep, edit or drop each block"),
        Option(
            flags=("--output",),
            metavar="FILE",
            help="write the patch there instead of printing it",
            complete="files",
        ),
    ),
    trailing_help="ARGS",
    examples=(
        (
            "mngr tutorial fill --sandbox --yolo --output fill.patch",
            "proposals for every blank; then: git apply fill.patch",
        ),
        (
            "mngr tutorial fill --section 'Undo' --interactive --budget 2",
            "one section, looked at block by block",
        ),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Have it proposed and tried, perhaps choose, and give the patch."""
    from mngr.tutorial.paths import TutorialPaths
    from mngr.tutorial.writing.fill import build_patch, fill_headings

    if args["interactive"] and not (is_interactive() and cli.format == "human"):
        raise UsageError("--interactive needs a terminal", "leave it out")
    places = TutorialPaths(cli.context, args["file"])
    program = args["program"] or cli.context.settings.get("project.program")
    if not program:
        raise UsageError("nothing says which program the tutorial is about", "name it: --program NAME")
    filled = fill_headings(cli.context, places, build_request(args), str(program), args["section"])
    if filled.agent is None:
        render.render_item(cli, filled.to_dict(), "there is no blank to fill")
        return 0
    if args["interactive"]:
        kept = [one for proposal in filled.proposals if (one := _review_proposal(cli, proposal)) is not None]
        filled = filled.replace(proposals=kept, patch=build_patch(places, kept))
    if args["output"]:
        cli.context.local_host.write(cli.context.resolve_path(args["output"]), filled.patch.encode(), 0o644)
    cli.print_message(_format_filled(filled, places.to_display_path(places.file)).rstrip("\n"))
    shown = f"wrote {args['output']}; then: git apply {args['output']}" if args["output"] else filled.patch.rstrip("\n")
    render.render_item(cli, _to_dict(filled), shown)
    if not filled.proposals:
        raise MngrError(f"{filled.agent} proposed nothing that can be taken", f"see: mngr transcript {filled.agent}")
    if filled.problems:
        raise MngrError(
            "more was changed than the blanks, or is wrong; nothing of it is in the patch",
            f"see what was changed: mngr diff {filled.agent}",
        )
    return 0


def _to_dict(filled: FillResult) -> dict[str, object]:
    found = filled.to_dict()
    found["proposals"] = [one.to_dict() for one in filled.proposals]
    found["confusion"] = [one.to_dict() for one in filled.confusion]
    return found


def _format_filled(filled: FillResult, file: str) -> str:
    text = ""
    for one in filled.proposals:
        outcome = "works" if one.ok else f"does not work: {one.outcome}"
        first = next((line for line in one.text.splitlines() if any(map(str.isalnum, line))), one.text)
        text += f"{file}:{one.after}: {one.heading}: {first}: {outcome}\n"
    text += "".join(f"still blank: {title}\n" for title in filled.left)
    text += "".join(f"{problem}\n" for problem in filled.problems)
    if filled.confusion:
        text += "What misled the agent:\n"
    for found in filled.confusion:
        text += f"  {found.command}: {found.failures} of {found.calls} calls failed, {found.retries} tried again"
        text += f"; no such option: {', '.join(found.unknown)}" if found.unknown else ""
        text += f"; worked only after: {', '.join(found.after)}" if found.after else ""
        text += "".join(f"\n    it said: {said}" for said in found.said) + "\n"
    return terminal_text.strip_controls(text)


def _review_proposal(cli: Cli, proposal: BlockProposal) -> BlockProposal | None:
    """What the person makes of it."""
    outcome = f"works:\n{proposal.outcome}" if proposal.ok else f"does not work: {proposal.outcome}"
    while True:
        cli.print_message(f"\n{proposal.heading}\n\n{proposal.text}\n\n{outcome}\n\n[k]eep, [e]dit or [d]rop?")
        answer = sys.stdin.readline().strip().lower()[:1]
        if answer == "e":
            proposal, outcome = (
                proposal.replace(text=_edit_in_editor(proposal.text)),
                "changed by you, and not tried",
            )
        elif answer == "k":
            return proposal
        elif answer in ("d", ""):
            return None


def _edit_in_editor(text: str) -> str:
    """The text as it comes out of the person's editor."""
    import tempfile

    from mngr.base import shell

    with tempfile.NamedTemporaryFile("w+", suffix=".sh", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        shell.wait_process(shell.start_process(["sh", "-c", f'{editor} "$1"', "edit", file.name]))
        with open(file.name, encoding="utf-8") as again:
            return again.read().strip("\n")
