"""The command `mngr tutorial fill`."""

from __future__ import annotations

import os
import sys

from mngr.base.errors import MngrError, UsageError
from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.command_spec import Argument, CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.run import is_interactive
from mngr.cli.tutorial.blocks import FILE_ARGUMENT
from mngr.cli.tutorial.sync import WORKER_OPTIONS, build_request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args
    from mngr.tutorial.writing.fill_headings import BlockProposal, FillResult

COMMAND = CommandSpec(
    name="tutorial fill",
    summary=COMMANDS["tutorial fill"][1],
    description=(
        "An empty heading is a heading without a block below it. The agent reads the program's --help output and "
        "manual page, and writes blocks into a copy of the script. mngr runs each block. It prints a patch and the "
        "result of each block, and does not change your files. mngr also lists commands that the agent wrote "
        "incorrectly, because they may show that the program is hard to use."
    ),
    arguments=(FILE_ARGUMENT,),
    options=(
        *(option for option in WORKER_OPTIONS if option.flags[0] != "--agent"),
        Option(
            flags=("--agent",),
            metavar="KIND",
            default="claude",
            help="Use an agent of the kind KIND, for example claude",
            complete="kinds",
            group="Agent",
        ),
        Option(
            flags=("--program",),
            metavar="NAME",
            help="Write blocks that run the program NAME (default: the setting project.program)",
        ),
        Option(
            flags=("--section",),
            metavar="TEXT",
            help="Write blocks only for headings that contain TEXT or that are in a section whose title contains TEXT "
            "(default: all headings)",
        ),
        Option(flags=("--interactive",), help="For each block, ask you whether to keep, edit or remove it"),
        Option(
            flags=("--output",),
            metavar="FILE",
            help="Write the patch to FILE (default: print it to standard output)",
            complete="files",
        ),
    ),
    trailing=Argument(name="ARGS", help="The arguments that mngr passes to the agent's program"),
    examples=(
        (
            "mngr tutorial fill --sandbox --yolo --output fill.patch",
            "Let Claude Code write blocks for all empty headings; apply the patch with: git apply fill.patch",
        ),
        (
            "mngr tutorial fill --section 'Undo' --interactive --budget 2",
            "Write blocks for one section, and decide about each block",
        ),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Have an agent propose blocks for empty headings, let the user review them, and print the patch."""
    from mngr.tutorial.paths import TutorialPaths
    from mngr.tutorial.writing.fill_headings import build_patch, fill_headings

    if args["interactive"] and not (is_interactive() and cli.format == "human"):
        raise UsageError("--interactive needs a terminal and --format human", "leave out --interactive")
    paths = TutorialPaths(cli.context, args["file"])
    program = args["program"] or cli.context.settings.get("project.program")
    if not program:
        raise UsageError(
            "mngr does not know which program the tutorial is about", "name it: mngr tutorial fill --program NAME"
        )
    result = fill_headings(cli.context, paths, build_request(args), str(program), args["section"])
    if result.agent is None:
        render.render_item(cli, result.to_dict(), "there is no empty heading")
        return 0
    if args["interactive"]:
        accepted = [
            reviewed for proposal in result.proposals if (reviewed := _review_proposal(cli, proposal)) is not None
        ]
        result = result.replace(proposals=accepted, patch=build_patch(paths, accepted))
    if args["output"]:
        cli.context.local_host.write(cli.context.resolve_path(args["output"]), result.patch.encode(), 0o644)
    cli.print_message(_format_filled(result, paths.to_display_path(paths.file)).rstrip("\n"))
    text = (
        f"wrote {args['output']}; apply it: git apply {args['output']}" if args["output"] else result.patch.rstrip("\n")
    )
    render.render_item(cli, _to_dict(result), text)
    if not result.proposals:
        raise MngrError(
            f"{result.agent} proposed no usable block", f"read its conversation: mngr transcript {result.agent}"
        )
    if result.problems:
        raise MngrError(
            "the agent changed more than empty headings, or wrote invalid blocks; the patch does not contain that",
            f"show its changes: mngr diff {result.agent}",
        )
    return 0


def _to_dict(result: FillResult) -> dict[str, object]:
    fields = result.to_dict()
    fields["proposals"] = [entry.to_dict() for entry in result.proposals]
    fields["confusion"] = [entry.to_dict() for entry in result.confusion]
    return fields


def _format_filled(result: FillResult, file: str) -> str:
    text = ""
    for proposal in result.proposals:
        outcome = "works" if proposal.ok else f"does not work: {proposal.outcome}"
        first_line = next((line for line in proposal.text.splitlines() if any(map(str.isalnum, line))), proposal.text)
        text += f"{file}:{proposal.after}: {proposal.heading}: {first_line}: {outcome}\n"
    text += "".join(f"still empty: {title}\n" for title in result.left)
    text += "".join(f"{problem}\n" for problem in result.problems)
    if result.confusion:
        text += "What misled the agent:\n"
    for confusion in result.confusion:
        text += f"  {confusion.command}: {confusion.failures} of {confusion.calls} calls failed, {confusion.retries} were repeated"
        text += f"; no such option: {', '.join(confusion.unknown)}" if confusion.unknown else ""
        text += f"; worked only after: {', '.join(confusion.after)}" if confusion.after else ""
        text += "".join(f"\n    it printed: {message}" for message in confusion.messages) + "\n"
    return terminal_text.strip_controls(text)


def _review_proposal(cli: Cli, proposal: BlockProposal) -> BlockProposal | None:
    """Return the proposal as the user accepts or edits it, or None if the user drops it."""
    outcome = f"works:\n{proposal.outcome}" if proposal.ok else f"does not work: {proposal.outcome}"
    while True:
        cli.print_message(f"\n{proposal.heading}\n\n{proposal.text}\n\n{outcome}\n\n[k]eep, [e]dit or [d]rop?")
        answer = sys.stdin.readline().strip().lower()[:1]
        if answer == "e":
            proposal = proposal.replace(text=_edit_in_editor(proposal.text))
            outcome = "changed by you; mngr did not run it"
        elif answer == "k":
            return proposal
        elif answer in ("d", ""):
            return None


def _edit_in_editor(text: str) -> str:
    """Open the text in the user's editor and return the edited text."""
    import tempfile

    from mngr.base import shell

    with tempfile.NamedTemporaryFile("w+", suffix=".sh", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        shell.wait_process(shell.start_process(["sh", "-c", f'{editor} "$1"', "edit", file.name]))
        with open(file.name, encoding="utf-8") as edited:
            return edited.read().strip("\n")
