"""The command `mngr transcript`."""

from __future__ import annotations

from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.command_spec import NAME_ARGUMENT, CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args
    from mngr.kinds.transcript_entry import TranscriptEntry

COMMAND = CommandSpec(
    name="transcript",
    summary=COMMANDS["transcript"][1],
    description=(
        "mngr prints the conversations of all agent kinds in the same format. Each entry has a role (user, assistant "
        "or tool), a time, and either a text or a tool with its input and output."
    ),
    arguments=(NAME_ARGUMENT,),
    options=(
        Option(
            flags=("-f", "--follow"),
            help="Continue to print new entries until you press Ctrl-C (not possible with --format json)",
        ),
    ),
    examples=(
        ("mngr transcript foo", "Print foo's conversation"),
        (
            "mngr transcript foo --follow --format jsonl",
            "Print the conversation as JSON, and continue to print new entries",
        ),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Print an agent's conversation."""
    conversation = cli.fleet.transcript(args["name"], follow=args["follow"])
    if args["follow"]:
        render.render_stream(cli, conversation, _format_entry)
    else:
        entries = list(conversation)
        rows = [entry.to_dict() for entry in entries]
        render.render_rows(cli, "transcript", rows, "".join(_format_entry(entry) for entry in entries))
    return 0


def _format_entry(entry: TranscriptEntry) -> str:
    """Return a heading with the role and the time, and the indented text below it."""
    time = str(entry.at)[:19].replace("T", " ")
    if entry.role != "tool":
        return f"{entry.role}  {terminal_text.strip_controls(time)}\n{_indent(entry.text)}\n"
    input_text = entry.input if isinstance(entry.input, str) else render.format_json(entry.input)
    text = f"{entry.tool} {input_text}"
    if entry.output:
        text += f"\n{entry.output}"
    return f"tool  {terminal_text.strip_controls(time)}\n{_indent(text)}\n"


def _indent(text: str) -> str:
    return "".join(f"  {line}".rstrip() + "\n" for line in terminal_text.strip_controls(text).split("\n"))
