"""What of a program its tutorial shows, what the citing tests run, and which blocks are tried only where all goes well."""

from __future__ import annotations

from typing import Any

from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.tutorial.blocks import ReadProblem
from mngr.tutorial.check import CitedCommandBlock, TutorialReport, check_tutorial
from mngr.tutorial.coverage.command_tree import CommandTree, ProgramCommand
from mngr.tutorial.coverage.read_tree import read_tree
from mngr.tutorial.coverage.shell_words import list_calls
from mngr.tutorial.coverage.transcripts import RecordedTest, TranscriptRun, read_run
from mngr.tutorial.paths import TutorialPaths


class ProgramUse(Struct):
    """One call of the program: which command, and which flags."""

    words: tuple[str, ...]
    flags: tuple[str, ...]


class CommandCoverage(Struct):
    """A command, where it is shown and run, and its options likewise."""

    command: str
    is_group: bool
    shown: list[str]  # ids of blocks
    run: list[str]  # tests
    options: list[dict[str, Any]]  # flags, shown, run


class BlockCoverage(Struct):
    """A block, the tests that cite it, and whether one of them saw something fail."""

    id: str
    slug: str
    line: int
    tests: list[str]
    unhappy: bool


class TutorialCoverage(Struct):
    """All of it."""

    program: str
    run: str | None
    commands: list[CommandCoverage]
    blocks: list[BlockCoverage]
    problems: list[ReadProblem]

    @property
    def counts(self) -> dict[str, int]:
        """How many there are, are shown, are run."""
        commands = [one for one in self.commands if not one.is_group]
        options = [option for one in self.commands for option in one.options]
        return {
            "commands": len(commands),
            "commands_shown": sum(bool(one.shown) for one in commands),
            "commands_run": sum(bool(one.run) for one in commands),
            "options": len(options),
            "options_shown": sum(option["shown"] for option in options),
            "options_run": sum(option["run"] for option in options),
            "blocks": len(self.blocks),
            "blocks_unhappy": sum(block.unhappy for block in self.blocks),
        }


def measure_coverage(places: TutorialPaths, program: list[str], source: str = "help") -> TutorialCoverage:
    """Ask the program, read script, tests and transcripts. A program that does not answer is a problem among others."""
    report = check_tutorial(places)
    run = read_run(places.artifacts, places.to_display_path)
    problems = [
        ReadProblem(path=f.path, line=f.line, message=f.message) for f in report.findings if f.kind == "unreadable"
    ]
    problems += run.problems
    commands: list[CommandCoverage] = []
    try:
        tree = read_tree(program, places.root, source)
        problems += tree.problems
        commands = _build_command_coverage(tree, _list_shown_uses(report, tree), _list_run_uses(report, run, tree))
    except MngrError as error:
        problems.append(ReadProblem(path=program[0], line=0, message=error.message))
    blocks = [_build_block_coverage(cited, run) for cited in report.blocks]
    return TutorialCoverage(
        program=" ".join(program), run=run.name, commands=commands, blocks=blocks, problems=problems
    )


def _list_shown_uses(report: TutorialReport, tree: CommandTree) -> list[tuple[str, ProgramUse]]:
    return [
        (block.id, resolve_use(tree, words))
        for block in report.script.blocks
        for command in block.commands
        for words in list_calls(command, tree.program)
    ]


def _list_run_uses(report: TutorialReport, run: TranscriptRun, tree: CommandTree) -> list[tuple[str, ProgramUse]]:
    """The calls of tests that cite a block; what other tests run is no answer to the tutorial."""
    citing = {test for cited in report.blocks for test in cited.tests}
    known = {cited.block.id for cited in report.blocks}
    return [
        (ran.test, resolve_use(tree, words))
        for ran in run.tests
        if known & set(ran.blocks) or any(_is_same_test(ran.test, test) for test in citing)
        for command in ran.commands
        for words in list_calls(command, tree.program)
    ]


def _is_same_test(one: str, other: str) -> bool:
    """Whether two node ids name one test, be they told from different directories."""
    return one == other or one.endswith("/" + other) or other.endswith("/" + one)


def resolve_use(tree: CommandTree, words: list[str]) -> ProgramUse:
    """Which command of the tree some words call, and the flags among them."""
    names = {(*c.words[:-1], alias): c.words for c in tree.commands for alias in c.aliases}
    prefixes = {c.words[:length] for c in tree.commands for length in range(len(c.words) + 1)}
    known = {flag for command in tree.commands for option in command.options for flag in option}
    path: tuple[str, ...] = ()
    flags: list[str] = []
    for word in words:
        if word == "--":
            break
        if word.startswith("-") and word != "-":
            flags += _split_flags(word, known)
            continue
        further = names.get((*path, word), (*path, word))
        if further in prefixes:
            path = further
    return ProgramUse(words=path, flags=tuple(flags))


def _split_flags(word: str, known: set[str]) -> list[str]:
    """`--flag=value`, `--no-flag`, `-f`, `-fvalue` and `-abc`."""
    flag = word.split("=", 1)[0]
    if flag.startswith("--no-") and flag not in known:
        flag = "--" + flag.removeprefix("--no-")
    if flag in known or flag.startswith("--"):
        return [flag]
    letters = ["-" + letter for letter in flag[1:]]
    return letters if set(letters) <= known else letters[:1]


def _build_command_coverage(
    tree: CommandTree, shown: list[tuple[str, ProgramUse]], run: list[tuple[str, ProgramUse]]
) -> list[CommandCoverage]:
    found = []
    for command in tree.commands:
        if command.is_group and not command.options:
            continue
        found.append(
            CommandCoverage(
                command=" ".join([*tree.program, *command.words]),
                is_group=command.is_group,
                shown=_list_users(shown, command),
                run=_list_users(run, command),
                options=[
                    {
                        "flags": list(option),
                        "shown": _has_use(shown, command, option),
                        "run": _has_use(run, command, option),
                    }
                    for option in command.options
                ],
            )
        )
    return found


def _list_users(uses: list[tuple[str, ProgramUse]], command: ProgramCommand) -> list[str]:
    return list(dict.fromkeys(who for who, use in uses if use.words == command.words))


def _has_use(uses: list[tuple[str, ProgramUse]], command: ProgramCommand, option: tuple[str, ...]) -> bool:
    """Whether a flag was used with the command, or with one under it that has no such flag of its own."""
    size = len(command.words)
    return any(use.words[:size] == command.words and set(option) & set(use.flags) for _, use in uses)


def _build_block_coverage(cited: CitedCommandBlock, run: TranscriptRun) -> BlockCoverage:
    def cites(ran: RecordedTest) -> bool:
        return cited.block.id in ran.blocks or any(_is_same_test(ran.test, test) for test in cited.tests)

    return BlockCoverage(
        id=cited.block.id,
        slug=cited.block.slug,
        line=cited.block.line,
        tests=cited.tests,
        unhappy=any(ran.has_failure and cites(ran) for ran in run.tests),
    )
