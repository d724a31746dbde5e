"""The command `mngr tmr status`."""

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

_PLACES, _NAMES = 5, 4  # The most locations and names to show.

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
    """Show the state of a run and its tasks."""
    from mngr.tmr.status import build_status

    run_dir = get_run(cli, args)
    status = build_status(run_dir, cli.context.local_host)
    fields = {key: value for key, value in status.items() if key != "tasks"}
    render.render_rows(cli, "tasks", status["tasks"], _format_status(run_dir, status), **fields)
    return 0


def _format_resume_hint(run_dir: RunDir) -> str:
    """Return the command that continues the run."""
    from mngr.tmr.plan import load_plan

    try:
        load_plan(run_dir)
    except MngrError as error:  # The run may be one of `mngr map`.
        return error.hint or error.message
    return f"go on: mngr tmr resume {run_dir.name}"


def _format_status(run_dir: RunDir, status: dict[str, Any]) -> str:
    counts = ", ".join(f"{number} {word}" for word, number in sorted(status["counts"].items())) or "no tasks yet"
    text = f"{status['run']} is {status['state']}: {counts}\n"
    if status["state"] == "interrupted":
        text += f"{_format_resume_hint(run_dir)}\n"
    if status["skipped"]:
        text += f"{len(status['skipped'])} tests skipped, the first: {status['skipped'][0]['why']}\n"
    for root_cause in status["clusters"]:
        text += f"{root_cause['id']}: {len(root_cause['tests'])} tests: {root_cause['title']}\n"
    if status["alarm"]:
        text += f"ALARM: {status['alarm']}\n"
    if status["waits"] and status["state"] != "settled":
        text += f"no launches: {status['waits']}\n"
    cost = status["budget"]["cost_usd"]
    tokens = status["budget"]["input_tokens"] + status["budget"]["output_tokens"]
    if tokens:
        text += f"{tokens} tokens, {'cost unknown' if cost is None else f'${cost:.2f}'}"
        spend = status["budget"]["spend"]
        shares = [f"{kind} {usage['input_tokens'] + usage['output_tokens']}" for kind, usage in spend.items()]
        text += f" ({', '.join(shares)})" if len(shares) > 1 else ""
        before_edit = status["budget"]["before_edit"]
        text += f", {before_edit} before the first edit on average\n" if before_edit is not None else "\n"
    text += _format_hosts(status["budget"]["hosts"])
    rows = [
        (task["outcome"] or task["state"], task["claimed"] or "-", task["verdict"] or "-", f"{task['seconds'] or 0:.0f}s",
         task["task"], task["reason"] or "")
        for task in status["tasks"]
    ]  # fmt: skip
    table = render.format_table(("STATE", "CLAIMED", "SEEN", "TIME", "TASK", "WHY"), rows) if rows else ""
    return (
        terminal_text.strip_controls(text)
        + table
        + terminal_text.strip_controls(_format_shared_locations(status["converging"]))
    )


def _format_hosts(host_costs: dict[str, Any]) -> str:
    """Return a line on the hosts of the run and their cost."""
    if not host_costs["made"]:
        return ""
    cost = "" if host_costs["cost_usd"] is None else f", ${host_costs['cost_usd']:.2f}"
    hosts = "1 host" if host_costs["made"] == 1 else f"{host_costs['made']} hosts"
    return f"{hosts}, {host_costs['running']} running, {host_costs['hours']:.2f} host-hours{cost}\n"


def _format_shared_locations(rows: list[dict[str, Any]]) -> str:
    """Return a line for each location that several agents edit, the busiest first."""
    lines = [
        f"{len(row['who'])} at the same lines, {row['path']}:{row['first']}-{row['last']}: {_format_names(row['who'])}"
        for row in rows[:_PLACES]
    ]
    hidden_count = len(rows) - len(lines)
    return "\n".join([*lines, f"and at {hidden_count} more places: --format json"] if hidden_count else lines)


def _format_names(names: list[str]) -> str:
    return ", ".join(names[:_NAMES]) + (" …" if len(names) > _NAMES else "")
