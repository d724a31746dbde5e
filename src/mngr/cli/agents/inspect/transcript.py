"""The command `mngr transcript`."""

from __future__ import annotations

from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.spec import NAME_ARGUMENT, CommandSpec, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mngr.cli.framework.command_line import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="transcript",
    summary=COMMANDS["transcript"][1],
    description="One schema for all kinds of agents: who spoke (user, assistant, tool), when, and what was said or done.",
    arguments=(NAME_ARGUMENT,),
    options=(
        Option(
            flags=("-f", "--follow"),
            help="go on as the conversation does (with --format human, jsonl or a template)",
        ),
    ),
    examples=(
        ("mngr transcript foo", "read the conversation"),
        ("mngr transcript foo --follow --format jsonl", "feed another program with it"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Print an agent's conversation."""
    rows = cli.fleet.transcript(args["name"], follow=args["follow"])
    if args["follow"]:
        render.render_stream(cli, rows, _format_row)
    else:
        entries = list(rows)
        render.render_rows(cli, "transcript", entries, "".join(_format_row(row) for row in entries))
    return 0


def _format_row(row: dict[str, Any]) -> str:
    """Return a heading with the role and the time, and the indented text below it."""
    time = str(row.get("at", ""))[:19].replace("T", " ")
    if row["role"] != "tool":
        return f"{row['role']}  {terminal_text.strip_controls(time)}\n{_indent(row['text'])}\n"
    tool_input, output = row.get("input"), row.get("output")
    input_text = tool_input if isinstance(tool_input, str) else render.format_json(tool_input)
    text = f"{row.get('tool')} {input_text}" + (f"\n{output}" if isinstance(output, str) and output else "")
    return f"tool  {terminal_text.strip_controls(time)}\n{_indent(text)}\n"


def _indent(text: str) -> str:
    return "".join(f"  {line}".rstrip() + "\n" for line in terminal_text.strip_controls(text).split("\n"))
