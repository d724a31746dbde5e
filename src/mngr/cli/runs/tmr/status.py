"""The command `mngr tmr status`."""

from __future__ import annotations

from mngr.base.errors import MngrError
from mngr.base.size_format import choose_noun, format_count
from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.command_spec import CommandSpec
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.runs.tmr.shared import RUN_ARGUMENT, get_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args
    from mngr.mapreduce.journal.host_costs import HostCosts
    from mngr.mapreduce.run_dir import RunDir
    from mngr.tmr.changes.conflict_graph import LineOverlap
    from mngr.tmr.status import BudgetStatus, RunStatus, TaskStatus

_PLACES, _NAMES = 5, 4  # The most locations and names to show.

COMMAND = CommandSpec(
    name="tmr status",
    summary=COMMANDS["tmr status"][1],
    description=(
        "For each task, mngr shows the agent's claim and the result that mngr got when it re-ran the test. It also "
        "lists parts of files that several agents have edited. mngr reads this information from the run's folder and "
        "does not contact any agent."
    ),
    arguments=(RUN_ARGUMENT,),
    examples=(
        ("mngr tmr status", "Show the progress of the latest run"),
        ("mngr tmr status --format '{task} {claimed} {verdict}'", "Print the claim and the verdict of each task"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Show the state of a run and its tasks."""
    from mngr.base.json_structs import encode
    from mngr.base.python_process import pause_python_gc
    from mngr.tmr.status import build_status

    run_dir = get_run(cli, args)
    with pause_python_gc.pause():  # a run can have ten thousand tasks
        status = build_status(run_dir, cli.context.local_host)
        fields = encode(status)
    tasks = fields.pop("tasks")
    text = _format_status(run_dir, status) if cli.format == "human" else None
    render.render_rows(cli, "tasks", tasks, text, **fields)
    return 0


def _format_resume_hint(run_dir: RunDir) -> str:
    """Return the command that continues the run."""
    from mngr.tmr.run_plan import load_plan

    try:
        load_plan(run_dir)
    except MngrError as error:  # The run may be one of `mngr map`.
        return error.hint or error.message
    return f"continue the run: mngr tmr resume {run_dir.name}"


def _format_status(run_dir: RunDir, status: RunStatus) -> str:
    """Return the status as text for people: facts, one per line, and a table of the tasks."""
    counts = ", ".join(f"{number} {word}" for word, number in sorted(status.counts.items())) or "no tasks yet"
    lines = [f"{status.run} is {status.state}: {counts}"]
    if status.state == "interrupted":
        lines.append(_format_resume_hint(run_dir))
    if status.skipped:
        lines.append(
            f"{format_count(len(status.skipped), 'test')} {choose_noun(len(status.skipped), 'gets', 'get')} no agent, for example because: {status.skipped[0].why}"
        )
    for root_cause in status.root_causes:
        lines.append(f"{len(root_cause.tests)} tests share the root cause {root_cause.id}: {root_cause.title}")
    if status.alarm:
        lines.append(f"ALARM: {status.alarm}")
    if status.waits and status.state != "settled":
        lines.append(f"no new agents: {status.waits}")
    if status.budget.tokens:
        lines.append(_format_usage(status.budget))
    if status.budget.hosts.made:
        lines.append(_format_hosts(status.budget.hosts))
    text = "".join(f"{terminal_text.join_lines(line)}\n" for line in lines)
    places = _format_shared_locations(status.converging or [])
    return text + _format_tasks(status.tasks) + terminal_text.strip_controls(places)


def _format_tasks(tasks: list[TaskStatus]) -> str:
    """Return one line per task, or nothing without tasks."""
    if not tasks:
        return ""
    rows = [_format_task(task) for task in tasks]
    return render.format_table(("OUTCOME", "CLAIMED", "VERDICT", "TIME", "TASK", "REASON"), rows)


def _format_task(task: TaskStatus) -> tuple[str, str, str, str, str, str]:
    """Return the cells of a task's line."""
    return (
        task.outcome or task.state,
        task.claimed or "-",
        task.verdict or "-",
        f"{task.seconds or 0:.0f}s",
        task.task,
        task.reason or "",
    )


def _format_usage(budget: BudgetStatus) -> str:
    """Return the tokens and the cost, and the tokens by purpose if there are several."""
    cost = "cost unknown" if budget.cost_usd is None else f"${budget.cost_usd:.2f}"
    text = f"{budget.tokens:,} tokens, {cost}"
    if len(budget.usage_by_purpose) > 1:
        shares = [f"{purpose} {usage.tokens:,}" for purpose, usage in budget.usage_by_purpose.items()]
        text += f" ({', '.join(shares)})"
    if budget.tokens_before_edit is not None:
        text += f", {budget.tokens_before_edit:,} on average before an agent's first edit"
    return text


def _format_hosts(hosts: HostCosts) -> str:
    """Return a line on the hosts of the run and their cost."""
    cost = "" if hosts.cost_usd is None else f", ${hosts.cost_usd:.2f}"
    return f"{format_count(hosts.made, 'host')}, {hosts.running} running, {hosts.hours:.2f} host-hours{cost}"


def _format_shared_locations(overlaps: list[LineOverlap]) -> str:
    """Return a line for each location that several agents edit, the busiest first."""
    lines = [
        f"{len(overlap.who)} tasks changed the same lines, {overlap.path}:{overlap.first}-{overlap.last}: {_format_names(overlap.who)}"
        for overlap in overlaps[:_PLACES]
    ]
    hidden_count = len(overlaps) - len(lines)
    if hidden_count:
        lines.append(f"and {hidden_count} more {choose_noun(hidden_count, 'place')}: mngr tmr status --format json")
    return "\n".join(lines)


def _format_names(names: list[str]) -> str:
    return ", ".join(names[:_NAMES]) + (" …" if len(names) > _NAMES else "")
