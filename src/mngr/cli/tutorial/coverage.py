"""The command `mngr tutorial coverage`."""

from __future__ import annotations

import sys

from mngr.base.errors import MngrError, UsageError
from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.command_spec import CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.tutorial.blocks import FILE_ARGUMENT
from mngr.cli.tutorial.check import TESTS_ARGUMENT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args
    from mngr.tutorial.blocks import ReadProblem
    from mngr.tutorial.coverage.coverage import CommandCoverage, TutorialCoverage

COMMAND = CommandSpec(
    name="tutorial coverage",
    summary=COMMANDS["tutorial coverage"][1],
    description=(
        "mngr reads the program's commands and options from its help texts. It runs the program in an empty directory "
        "without your environment variables. A command counts as shown if a tutorial block contains it. A command "
        "counts as run if a test that cites a block ran it; mngr finds this in the newest transcripts in .mngr/e2e. A "
        "block has an unhappy path if a test that cites it expects a command to fail."
    ),
    arguments=(FILE_ARGUMENT, TESTS_ARGUMENT),
    options=(
        Option(
            flags=("--program",),
            metavar="NAME",
            help="Measure how much of the program NAME the tutorial covers (default: the setting project.program)",
        ),
        Option(
            flags=("--source",),
            metavar="HOW",
            choices=("help", "completion"),
            default="help",
            help="Read the program's commands from its --help output (help) or from its bash completion (completion)",
        ),
    ),
    examples=(
        ("mngr tutorial coverage", "Measure the coverage of this project's program"),
        (
            "mngr tutorial coverage --program git --source completion",
            "Measure the coverage of git, whose commands mngr reads from its bash completion",
        ),
        (
            "mngr tutorial coverage --format '{command} {shown}'",
            "Print each command with the tutorial blocks that contain it",
        ),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Measure the coverage, print it, and fail if the program or an artifact could not be read."""
    import shlex

    from mngr.base.json_structs import encode
    from mngr.tutorial.coverage.coverage import measure_coverage
    from mngr.tutorial.paths import TutorialPaths

    name = args["program"] or cli.context.settings.get("project.program")
    if not name:
        hint = "name it: mngr tutorial coverage --program NAME; or save it: mngr config set project.program NAME"
        raise UsageError("mngr does not know which program the tutorial is about", hint)
    try:
        program = shlex.split(name)
    except ValueError:
        program = []
    if not program:
        raise UsageError(f"{name!r} is not a valid command", "for example: mngr tutorial coverage --program mngr")
    coverage = measure_coverage(TutorialPaths(cli.context, args["file"], args["tests"]), program, args["source"])
    fields = {
        "program": coverage.program,
        "run": coverage.run,
        "counts": coverage.counts,
        "blocks": [block.to_dict() for block in coverage.blocks],
        "problems": [problem.to_dict() for problem in coverage.problems],
    }
    rows = [encode(command) for command in coverage.commands]
    render.render_rows(cli, "commands", rows, _format_coverage(coverage), **fields)
    if coverage.run is None:
        cli.print_message("there is no transcript in .mngr/e2e: run the tests to see which commands they run")
    if coverage.problems:
        sys.stdout.flush()
        problems = "\n  ".join(map(_format_problem, coverage.problems))
        raise MngrError(
            f"the coverage is incomplete:\n  {problems}",
            "correct the problems, then measure again: mngr tutorial coverage",
        )
    return 0


def _format_problem(problem: ReadProblem) -> str:
    return str(problem) if problem.line else f"{problem.path}: {problem.message}"


def _format_coverage(coverage: TutorialCoverage) -> str:
    text = ""
    if coverage.commands:
        head = ("COMMAND", "SHOWN", "RUN", "OPTIONS", "SHOWN", "RUN", "NEITHER")
        text = render.format_table(head, [_build_row(command) for command in coverage.commands])
    lines = [f"no unhappy path: line {block.line}, {block.slug}\n" for block in coverage.blocks if not block.unhappy]
    counts = coverage.counts
    text += "".join(lines)
    text += (
        f"{counts['commands_shown']} of {counts['commands']} commands are shown, {counts['commands_run']} are run; "
        f"{counts['options_shown']} of {counts['options']} options are shown, {counts['options_run']} are run; "
        f"{counts['blocks_unhappy']} of {counts['blocks']} blocks have an unhappy path"
    )
    return terminal_text.strip_controls(text)


def _build_row(command: CommandCoverage) -> tuple[str, ...]:
    shown_options = [option for option in command.options if option.shown]
    run_options = [option for option in command.options if option.run]
    neither = [option.flags[-1] for option in command.options if not option.shown and not option.run]
    marks = (
        ("", "")
        if command.is_group
        else tuple("yes" if is_covered else "no" for is_covered in (command.shown, command.run))
    )
    counts = [str(len(options)) if command.options else "" for options in (command.options, shown_options, run_options)]
    return (command.command, *marks, *counts, " ".join(neither))
