"""Measures which commands the tutorial shows, which the citing tests run, and which blocks lack a failure test."""

from __future__ import annotations

from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.tutorial.blocks import ReadProblem
from mngr.tutorial.check_citations import CitedCommandBlock, TutorialReport, check_tutorial
from mngr.tutorial.coverage.help_text_reader import CommandTree, ProgramCommand
from mngr.tutorial.coverage.read_tree import read_tree
from mngr.tutorial.coverage.shell_words import list_calls
from mngr.tutorial.coverage.transcripts import RecordedTest, TranscriptRun, read_run
from mngr.tutorial.paths import TutorialPaths


class ProgramUse(Struct):
    """One call of the program: its command and its flags."""

    words: tuple[str, ...]
    flags: tuple[str, ...]


class OptionCoverage(Struct):
    """An option with all its flags, and whether the tutorial shows it and a test runs it."""

    flags: list[str]
    shown: bool
    run: bool


class CommandCoverage(Struct):
    """A command with the blocks that show it, the tests that run it, and the same for its options."""

    command: str
    is_group: bool
    shown: list[str]  # ids of blocks
    run: list[str]  # tests
    options: list[OptionCoverage]


class BlockCoverage(Struct):
    """A block, the tests that cite it, and whether one of them saw a command fail."""

    id: str
    slug: str
    line: int
    tests: list[str]
    unhappy: bool


class TutorialCoverage(Struct):
    """The coverage of all commands and blocks."""

    program: str
    run: str | None
    commands: list[CommandCoverage]
    blocks: list[BlockCoverage]
    problems: list[ReadProblem]

    @property
    def counts(self) -> dict[str, int]:
        """The number of commands, options and blocks, and how many are shown and run."""
        commands = [command for command in self.commands if not command.is_group]
        options = [option for command in self.commands for option in command.options]
        return {
            "commands": len(commands),
            "commands_shown": sum(bool(command.shown) for command in commands),
            "commands_run": sum(bool(command.run) for command in commands),
            "options": len(options),
            "options_shown": sum(option.shown for option in options),
            "options_run": sum(option.run for option in options),
            "blocks": len(self.blocks),
            "blocks_unhappy": sum(block.unhappy for block in self.blocks),
        }


def measure_coverage(tutorial_paths: TutorialPaths, program: list[str], source: str = "help") -> TutorialCoverage:
    """Read the program's commands, the script, the tests and the transcripts, and compare them.

    A program that cannot be read becomes an entry in `problems`.
    """
    report = check_tutorial(tutorial_paths)
    run = read_run(tutorial_paths.artifacts, tutorial_paths.to_display_path)
    problems = [
        ReadProblem(path=f.path, line=f.line, message=f.message) for f in report.findings if f.kind == "unreadable"
    ]
    problems += run.problems
    commands: list[CommandCoverage] = []
    try:
        tree = read_tree(program, tutorial_paths.root, source)
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
    """Return the calls made by tests that cite a block. Other tests do not count."""
    citing = {test for cited in report.blocks for test in cited.tests}
    block_ids = {cited.block.id for cited in report.blocks}
    return [
        (recorded.test, resolve_use(tree, words))
        for recorded in run.tests
        if block_ids & set(recorded.blocks) or any(_is_same_test(recorded.test, test) for test in citing)
        for command in recorded.commands
        for words in list_calls(command, tree.program)
    ]


def _is_same_test(first: str, second: str) -> bool:
    """True when two node ids name the same test, even relative to different directories."""
    return first == second or first.endswith("/" + second) or second.endswith("/" + first)


def resolve_use(tree: CommandTree, words: list[str]) -> ProgramUse:
    """Return the command of the tree that the words call, and the flags among them."""
    names = {(*c.words[:-1], alias): c.words for c in tree.commands for alias in c.aliases}
    prefixes = {c.words[:length] for c in tree.commands for length in range(len(c.words) + 1)}
    known_flags = {flag for command in tree.commands for option in command.options for flag in option}
    path: tuple[str, ...] = ()
    flags: list[str] = []
    for word in words:
        if word == "--":
            break
        if word.startswith("-") and word != "-":
            flags += _split_flags(word, known_flags)
            continue
        longer_path = names.get((*path, word), (*path, word))
        if longer_path in prefixes:
            path = longer_path
    return ProgramUse(words=path, flags=tuple(flags))


def _split_flags(word: str, known_flags: set[str]) -> list[str]:
    """Return the flags in a word: `--flag=value`, `--no-flag`, `-f`, `-fvalue` or `-abc`."""
    flag = word.split("=", 1)[0]
    if flag.startswith("--no-") and flag not in known_flags:
        flag = "--" + flag.removeprefix("--no-")
    if flag in known_flags or flag.startswith("--"):
        return [flag]
    letters = ["-" + letter for letter in flag[1:]]
    return letters if set(letters) <= known_flags else letters[:1]


def _build_command_coverage(
    tree: CommandTree, shown_uses: list[tuple[str, ProgramUse]], run_uses: list[tuple[str, ProgramUse]]
) -> list[CommandCoverage]:
    coverage = []
    for command in tree.commands:
        if command.is_group and not command.options:
            continue
        coverage.append(
            CommandCoverage(
                command=" ".join([*tree.program, *command.words]),
                is_group=command.is_group,
                shown=_list_users(shown_uses, command),
                run=_list_users(run_uses, command),
                options=[
                    OptionCoverage(
                        flags=list(flags),
                        shown=_has_use(shown_uses, command, flags),
                        run=_has_use(run_uses, command, flags),
                    )
                    for flags in command.options
                ],
            )
        )
    return coverage


def _list_users(uses: list[tuple[str, ProgramUse]], command: ProgramCommand) -> list[str]:
    return list(dict.fromkeys(user for user, use in uses if use.words == command.words))


def _has_use(uses: list[tuple[str, ProgramUse]], command: ProgramCommand, option: tuple[str, ...]) -> bool:
    """True when a call of the command, or of a command below it, used the option."""
    size = len(command.words)
    return any(use.words[:size] == command.words and set(option) & set(use.flags) for _, use in uses)


def _build_block_coverage(cited: CitedCommandBlock, run: TranscriptRun) -> BlockCoverage:
    def cites(recorded: RecordedTest) -> bool:
        return cited.block.id in recorded.blocks or any(_is_same_test(recorded.test, test) for test in cited.tests)

    return BlockCoverage(
        id=cited.block.id,
        slug=cited.block.slug,
        line=cited.block.line,
        tests=cited.tests,
        unhappy=any(recorded.has_failure and cites(recorded) for recorded in run.tests),
    )
