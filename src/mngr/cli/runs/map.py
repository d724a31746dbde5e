"""The command `mngr map`."""

from __future__ import annotations

import sys

from mngr.base.errors import MngrError, UsageError
from mngr.cli.framework import render
from mngr.cli.framework.command_spec import Argument, CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.runs.run_options import (
    AGENT_OPTIONS,
    LIMIT_OPTIONS,
    NOTIFY_OPTION,
    RunProgress,
    build_agent_request,
    build_parked_error,
    compute_exit_code,
    format_summary,
    get_project_root,
    merge_agent_request,
    merge_limits,
    parse_limits,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args
    from mngr.mapreduce.map_plan import MapPlan

COMMAND = CommandSpec(
    name="map",
    summary=COMMANDS["map"][1],
    description=(
        "Each item gets an agent with a copy of the project of its own, which is told the prompt with {item} and {number} in\n"
        "their places. Without a prompt, the command after -- is run for each item. When its turn is over, or it ends, its\n"
        "commits and outputs are brought to .mngr/runs/RUN/ and it is stopped; nothing is destroyed.\n"
        "Everything is journaled: --resume goes on after a crash, a reboot or Ctrl-C where it was, with the options that it began with\n"
        "unless others are given then, but no --deadline, and repeats nothing that is settled.\n"
        "Exit code 4 when some failed, 5 when time or money ran out and the rest is parked."
    ),
    arguments=(Argument(name="ITEM", help="what to work on; - reads one a line from standard input", is_repeatable=True, required=False),),
    options=(
        Option(flags=("-p", "--prompt"), metavar="TEXT", help="what each agent is told"),
        Option(flags=("--prompt-file",), metavar="FILE", help="the same from a file", complete="files"),
        Option(flags=("--output",), metavar="FILE", help="what each must leave in $MNGR_OUTPUT_DIR; it is reminded"),
        Option(flags=("--name",), metavar="RUN", help="what to call the run (default: its time)"),
        Option(flags=("--resume",), metavar="RUN", help="go on with a run", complete="runs"),
        NOTIFY_OPTION,
        *AGENT_OPTIONS,
        *LIMIT_OPTIONS,
    ),
    trailing_help="ARGS",
    examples=(
        ("mngr map a.py b.py --agent claude -p 'add types to {item}' --yolo --sandbox", "an agent for each file"),
        ("git ls-files | mngr map - --max-agents 4 -- sh -c 'wc $0 >$MNGR_OUTPUT_DIR/size' {item}", "a command for each"),
        ("mngr map --resume nightly", "go on"),
    ),
)  # fmt: skip


def run(cli: Cli, args: Args) -> int:
    """Create or resume a run, and complete it."""
    from mngr.mapreduce.item_recipe import ItemRecipe
    from mngr.mapreduce.journal.journal_file import Journal, JournaledState
    from mngr.mapreduce.map_plan import load_map_plan, save_map_plan
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
        progress = RunProgress(cli, notify=args["notify"], rows=journal.rows)
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
    rows = [{"item": task.task.title, "slug": slug, "outcome": task.outcome, "reason": task.reason, "agent": task.agent,
             "commit": task.commit, "outputs": run_dir.task_path(slug, "outputs")} for slug, task in state.tasks.items()]  # fmt: skip
    if cli.format != "jsonl":
        render.render_rows(cli, "tasks", rows, f"{format_summary(state)}: {run_dir.path}", run=run_dir.name)
    code = compute_exit_code(state)
    if code == 5:
        raise build_parked_error(f"mngr map --resume {run_dir.name}", state)
    return code


def _build_new_plan(cli: Cli, args: Args) -> MapPlan:
    """Return the plan of a new run; raise UsageError if the items, the agent or the prompt are missing."""
    from mngr.mapreduce.map_plan import MapPlan

    items = [text for item in args["item"] or [] for text in (sys.stdin.read().splitlines() if item == "-" else [item])]
    items = [item for item in items if item.strip()]
    if not items:
        raise UsageError(
            "mngr map needs at least one item",
            "name items, or read them from standard input: git ls-files | mngr map - …",
        )
    prompt = args["prompt"]
    if args["prompt_file"] is not None:
        if prompt is not None:
            raise UsageError("--prompt and --prompt-file exclude each other", "give one of them")
        try:
            with open(cli.context.resolve_path(args["prompt_file"]), encoding="utf-8") as file:
                prompt = file.read()
        except OSError as error:
            raise MngrError(f"cannot read {args['prompt_file']}: {error.strerror}", "check the path") from None
    command = args.rest or []
    kind = args["agent"] or ("command" if command and prompt is None else None)
    if kind is None:
        raise UsageError(
            "mngr map needs an agent kind or a command",
            "choose an agent kind: mngr map ITEM --agent claude --prompt TEXT",
        )
    if prompt is None and kind != "command":
        raise UsageError(f"{kind} agents need a prompt", "add --prompt TEXT, with {item} in place of the item")
    return MapPlan(items=items, prompt=prompt, args=command, agent=kind, output=args["output"])
