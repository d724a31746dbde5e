"""The command `mngr map`."""

from __future__ import annotations

import sys

from mngr.base import shell
from mngr.base.errors import MngrError, UsageError
from mngr.cli.framework import render
from mngr.cli.framework.command_spec import Argument, CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.runs.run_options import (
    LIMIT_OPTIONS,
    NOTIFY_OPTION,
    RunProgress,
    build_agent_request,
    build_parked_error,
    compute_exit_code,
    format_summary,
    get_project_root,
    make_agent_options,
    make_notifier,
    merge_agent_request,
    merge_limits,
    parse_limits,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args
    from mngr.mapreduce.map_recipe import MapPlan

COMMAND = CommandSpec(
    name="map",
    summary=COMMANDS["map"][1],
    description=(
        "Each agent gets its own copy of the project and the same prompt. In the prompt, mngr replaces {item} with "
        "the item and {number} with its number. Without a prompt, mngr runs the command after -- for each item. When "
        "an agent has finished its turn, mngr copies its commits and outputs to .mngr/runs/RUN/ and stops the agent. "
        "mngr does not destroy any agent.\n"
        "You can continue a run with --resume after a crash, a reboot or Ctrl-C. The continued run keeps all its "
        "options except --deadline, and skips items that are finished.\n"
        "The exit code is 4 if some items failed. It is 5 if the run reached a limit of time or cost before all items "
        "were finished."
    ),
    arguments=(
        Argument(
            name="ITEM",
            help="An item, such as a file name, that one agent works on; - reads items from standard input, one per "
            "line",
            is_repeatable=True,
            required=False,
        ),
    ),
    options=(
        Option(flags=("-p", "--prompt"), metavar="TEXT", help="Send TEXT to each agent as its prompt"),
        Option(
            flags=("--prompt-file",),
            metavar="FILE",
            help="Send the content of FILE to each agent as its prompt",
            complete="files",
        ),
        Option(
            flags=("--output",),
            metavar="FILE",
            help="Require each agent to write FILE to $MNGR_OUTPUT_DIR; mngr reminds an agent that does not (default: "
            "no file)",
        ),
        Option(flags=("--name",), metavar="RUN", help="Set the run's name (default: the current time)"),
        Option(flags=("--resume",), metavar="RUN", help="Continue the run with the name RUN", complete="runs"),
        *make_agent_options("required unless a command follows --"),
        *LIMIT_OPTIONS,
        NOTIFY_OPTION,
    ),
    trailing=Argument(
        name="ARGS",
        help="The command that mngr runs for each item; with --agent, the arguments that mngr passes to the agent's "
        "program",
    ),
    examples=(
        (
            "mngr map a.py b.py --agent claude -p 'add types to {item}' --yolo --sandbox",
            "Run Claude Code for each file",
        ),
        (
            "git ls-files | mngr map - --max-agents 4 -- sh -c 'wc $0 >$MNGR_OUTPUT_DIR/size' {item}",
            "Run a command for each file",
        ),
        ("mngr map --resume nightly", "Continue a run"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Create or resume a run, and complete it."""
    from mngr.mapreduce.journal.journal_file import Journal, JournaledState
    from mngr.mapreduce.map_recipe import ItemRecipe, load_map_plan, save_map_plan
    from mngr.mapreduce.run_repo import create_run, get_own_run
    from mngr.mapreduce.scheduler import Scheduler

    root = get_project_root(cli)
    if args["resume"] is not None:
        run_dir = get_own_run(cli.context.local_host, root, args["resume"])
        plan = load_map_plan(run_dir)
    else:
        plan = _build_new_plan(cli, args)
    limits = merge_limits(args, plan.limits) if args["resume"] is not None else parse_limits(args)
    agent_options = build_agent_request(cli, args, "map", args["agent"] or plan.agent).replace(args=plan.args)
    if plan.options is not None:
        agent_options = merge_agent_request(args, agent_options, plan.options)
    if args["resume"] is None:
        run_dir, base = create_run(cli.fleet, root, args["name"])
        plan = plan.replace(base=base, limits=limits.replace(deadline=None), options=agent_options)
        save_map_plan(run_dir, plan)
    cli.print_message(f"run {run_dir.name}")
    recipe = ItemRecipe(plan.items, plan.prompt, plan.args, plan.base, plan.output)
    with Journal(run_dir.journal) as journal:
        progress = RunProgress(cli, notify=make_notifier(args["notify"], run_dir), rows=journal.rows)
        run_state = JournaledState(journal, progress)
        scheduler = Scheduler(cli.fleet, run_dir, run_state, recipe, agent_options, limits)
        try:
            state = scheduler.run()
        except KeyboardInterrupt:
            progress.close()
            cli.print_message(
                f"mngr starts no more agents. The running agents continue.\nContinue the run: mngr map --resume {run_dir.name}"
            )
            raise
        finally:
            progress.close()
    rows = [
        {
            "item": task.task.title,
            "slug": slug,
            "outcome": task.outcome,
            "reason": task.reason,
            "agent": task.agent,
            "commit": task.commit,
            "outputs": run_dir.task_path(slug, "outputs"),
        }
        for slug, task in state.tasks.items()
    ]
    if cli.format != "jsonl":
        render.render_rows(cli, "tasks", rows, f"{format_summary(state)}: {run_dir.path}", run=run_dir.name)
    code = compute_exit_code(state)
    if code == 5:
        raise build_parked_error(f"mngr map --resume {run_dir.name}", state)
    return code


def _build_new_plan(cli: Cli, args: Args) -> MapPlan:
    """Return the plan of a new run; raise UsageError if the items, the agent or the prompt are missing."""
    from mngr.mapreduce.map_recipe import MapPlan

    items = [text for item in args["item"] or [] for text in (sys.stdin.read().splitlines() if item == "-" else [item])]
    items = [item for item in items if item.strip()]
    if not items:
        raise UsageError(
            "mngr map needs at least one item",
            "name items, or read them from standard input: git ls-files | mngr map - --agent claude -p 'review {item}'",
        )
    prompt = args["prompt"]
    if args["prompt_file"] is not None:
        if prompt is not None:
            raise UsageError("--prompt and --prompt-file cannot be combined", "leave out one of them")
        try:
            with open(cli.context.resolve_path(args["prompt_file"]), encoding="utf-8") as file:
                prompt = file.read()
        except OSError as error:
            path = args["prompt_file"]
            raise MngrError(
                f"--prompt-file: cannot read {path}: {error.strerror}",
                f"see whether the file exists: ls -l {shell.quote(path)}",
            ) from None
    command = args.rest or []
    kind = args["agent"] or ("command" if command and prompt is None else None)
    if kind is None:
        raise UsageError(
            "mngr map needs an agent kind or a command",
            "for example: mngr map a.py b.py --agent claude --prompt 'review {item}'",
        )
    if prompt is None and kind != "command":
        raise UsageError(f"{kind} agents need a prompt", "add --prompt TEXT, with {item} in place of the item")
    return MapPlan(items=items, prompt=prompt, args=command, agent=kind, output=args["output"])
