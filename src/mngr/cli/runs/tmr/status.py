"""`mngr tmr status`."""

from __future__ import annotations

from mngr.base.errors import MngrError
from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.spec import CommandSpec
from mngr.cli.runs.tmr.shared import RUN_ARGUMENT, get_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mngr.cli.framework.command_line import Cli
    from mngr.cli.framework.parse import Args
    from mngr.mapreduce.run_dir import RunDir

_PLACES, _NAMES = 5, 4  # that are shown

COMMAND = CommandSpec(
    name="tmr status",
    summary=COMMANDS["tmr status"][1],
    description=(
        "What is claimed and what we saw stand side by side, and who works on the same lines of a file as others, by what was\n"
        "brought home so far. Everything is read from the run's folder, so it costs nothing."
    ),
    arguments=(RUN_ARGUMENT,),
    examples=(
        ("mngr tmr status", "how the latest run stands"),
        ("mngr tmr status --format '{task} {claimed} {verdict}'", "claims and receipts"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Show it."""
    from mngr.tmr.status import build_status

    place = get_run(cli, args)
    found = build_status(place, cli.context.local_host)
    rest = {key: value for key, value in found.items() if key != "tasks"}
    render.render_rows(cli, "tasks", found["tasks"], _format_status(place, found), **rest)
    return 0


def _format_resume_hint(place: RunDir) -> str:
    """How to take it up again."""
    from mngr.tmr.plan import load_plan

    try:
        load_plan(place)
    except MngrError as error:  # a run of map, say
        return error.hint or error.message
    return f"go on: mngr tmr resume {place.name}"


def _format_status(place: RunDir, found: dict[str, Any]) -> str:
    counts = ", ".join(f"{number} {word}" for word, number in sorted(found["counts"].items())) or "no tasks yet"
    text = f"{found['run']} is {found['state']}: {counts}\n"
    if found["state"] == "interrupted":
        text += f"{_format_resume_hint(place)}\n"
    if found["skipped"]:
        text += f"{len(found['skipped'])} tests skipped, the first: {found['skipped'][0]['why']}\n"
    for cluster in found["clusters"]:
        text += f"{cluster['id']}: {len(cluster['tests'])} tests: {cluster['title']}\n"
    if found["alarm"]:
        text += f"ALARM: {found['alarm']}\n"
    if found["waits"] and found["state"] != "settled":
        text += f"no launches: {found['waits']}\n"
    cost = found["budget"]["cost_usd"]
    tokens = found["budget"]["input_tokens"] + found["budget"]["output_tokens"]
    if tokens:
        text += f"{tokens} tokens, {'cost unknown' if cost is None else f'${cost:.2f}'}"
        spend = found["budget"]["spend"]
        shares = [f"{kind} {used['input_tokens'] + used['output_tokens']}" for kind, used in spend.items()]
        text += f" ({', '.join(shares)})" if len(shares) > 1 else ""
        before = found["budget"]["before_edit"]
        text += f", {before} before the first edit on average\n" if before is not None else "\n"
    text += _format_hosts(found["budget"]["hosts"])
    rows = [
        (one["outcome"] or one["state"], one["claimed"] or "-", one["verdict"] or "-", f"{one['seconds'] or 0:.0f}s",
         one["task"], one["reason"] or "")
        for one in found["tasks"]
    ]  # fmt: skip
    table = render.format_table(("STATE", "CLAIMED", "SEEN", "TIME", "TASK", "WHY"), rows) if rows else ""
    return (
        terminal_text.strip_controls(text)
        + table
        + terminal_text.strip_controls(_format_shared_locations(found["converging"]))
    )


def _format_hosts(bill: dict[str, Any]) -> str:
    """A line on what was rented."""
    if not bill["made"]:
        return ""
    cost = "" if bill["cost_usd"] is None else f", ${bill['cost_usd']:.2f}"
    hosts = "1 host" if bill["made"] == 1 else f"{bill['made']} hosts"
    return f"{hosts}, {bill['running']} running, {bill['hours']:.2f} host-hours{cost}\n"


def _format_shared_locations(rows: list[dict[str, Any]]) -> str:
    """A line for each place that several work at, the busiest first."""
    lines = [
        f"{len(row['who'])} at the same lines, {row['path']}:{row['first']}-{row['last']}: {_format_names(row['who'])}"
        for row in rows[:_PLACES]
    ]
    more = len(rows) - len(lines)
    return "\n".join([*lines, f"and at {more} more places: --format json"] if more else lines)


def _format_names(names: list[str]) -> str:
    return ", ".join(names[:_NAMES]) + (" …" if len(names) > _NAMES else "")
