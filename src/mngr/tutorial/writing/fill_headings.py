"""`tutorial fill`: an agent proposes blocks for empty headings, and mngr runs each block before a person reviews it."""

from __future__ import annotations

import difflib
import os
import tempfile

from mngr.agents.context import Context
from mngr.base import shell
from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.base.untrusted_json import parse_json
from mngr.tutorial.blocks import (
    Block,
    EmptyHeading,
    TutorialScript,
    normalize_text,
    parse_script,
    read_script,
)
from mngr.tutorial.coverage.help_text_reader import HelpRunner, get_program
from mngr.tutorial.coverage.read_tree import read_tree
from mngr.tutorial.paths import TutorialPaths
from mngr.tutorial.writing import failed_program_calls, test_update_prompt
from mngr.tutorial.writing.failed_program_calls import CommandMistakes
from mngr.tutorial.writing.write_missing_tests import get_run_settings
from mngr.tutorial.writing.writing_agent import (
    MECHANIC,
    WriterAgent,
    WriterRequest,
    check_clean,
    get_project_prefix,
    read_committed,
)

_MAX_HELP_CHARACTERS = 40_000  # characters of a program's help in the prompt
_PROMPT = """\
Some headings in {file} have no commands below them yet. Fill them.

Write one to four blocks under each heading in the list below. A block is a comment followed by commands; an empty line ends it. The
comment tells the reader what the commands do. Show the most common uses of `{program}`, in the order in which a person needs them.
Use only commands that work as written, after everything that comes before them in the script. Do not use commands that ask for
input, never end or need the network. Try each command. Change nothing else in {file} and no other file. Commit your work; the
subject of the commit starts with `[FIX_TUTORIAL]`.

{headings}

The help of `{program}`:

```
{help}
```
"""


class BlockProposal(Struct):
    """A block for an empty heading, and the outcome of its trial."""

    heading: str
    text: str
    after: int  # the line of the script after which it is inserted
    ok: bool
    outcome: str


class FillResult(Struct):
    """The proposals, the same as a patch, and the agent's mistakes with the program."""

    agent: str | None  # None when no heading is empty
    proposals: list[BlockProposal]
    left: list[str]  # headings that are still empty
    patch: str
    confusion: list[CommandMistakes]
    problems: list[str] = []  # other changes of the agent, which the patch does not contain
    cost_usd: float | None = None


def fill_headings(
    ctx: Context, tutorial_paths: TutorialPaths, request: WriterRequest, program: str, section: str | None = None
) -> FillResult:
    """Let an agent propose blocks, run them, and return them as a patch. Raise MngrError when that is impossible."""
    script = read_script(tutorial_paths.file, tutorial_paths.to_display_path(tutorial_paths.file))
    headings = [heading for heading in script.empty_headings if section is None or _is_in_section(heading, section)]
    if not headings:
        return FillResult(agent=None, proposals=[], left=[], patch="", confusion=[])
    if request.agent == MECHANIC:
        raise MngrError(
            "the agent kind mechanic cannot write commands, because it has no model",
            "choose another agent kind: mngr tutorial fill --agent claude",
        )
    check_clean(ctx, tutorial_paths, tutorial_paths.file)
    prompt = _build_prompt(tutorial_paths, headings, program.split(), get_project_prefix(ctx, tutorial_paths))
    reminder: str | None = None
    with WriterAgent(ctx, request, "fill", prompt) as worker:
        for _ in range(request.rounds):
            worker.finish_turn(reminder)
            pulled = worker.fleet.pull(worker.name)
            new_text = (
                _read_committed_script(ctx, tutorial_paths, pulled.commit) if pulled.commit and pulled.commits else ""
            )
            changes = (
                _compare_script(tutorial_paths, headings, new_text)
                if new_text
                else _ScriptChanges(added_lines=[], unexpected_changes=[])
            )
            unexpected = changes.unexpected_changes
            unexpected += (
                worker.list_unexpected_changes(tutorial_paths, pulled.commit, tutorial_paths.file)
                if pulled.commit
                else []
            )
            problems = (
                _list_problems(script, parse_script(new_text, script.path), headings)
                if new_text
                else ["there is no new commit"]
            )
            if not unexpected and not problems:
                break
            reminder = (
                "Your work is not complete yet:\n\n"
                + "\n".join(f"- {problem}" for problem in [*unexpected, *problems])
                + "\n"
            )
        entries, cost = worker.read_transcript(), worker.get_cost()
    proposals = try_blocks(ctx, tutorial_paths, script, _list_proposed_blocks(script, new_text, changes), request)
    return FillResult(
        agent=worker.name,
        proposals=proposals,
        left=[
            heading.title
            for heading in headings
            if not any(proposal.after == _get_end_line(heading) for proposal in proposals)
        ],
        patch=build_patch(tutorial_paths, proposals),
        confusion=failed_program_calls.list_mistakes(entries, program.split()),
        problems=[*unexpected, *map(str, script.problems)],
        cost_usd=cost,
    )


def _is_in_section(heading: EmptyHeading, section: str) -> bool:
    wanted = section.lower()
    return wanted in (heading.section or "").lower() or wanted in heading.title.lower()


def _build_prompt(tutorial_paths: TutorialPaths, headings: list[EmptyHeading], program: list[str], prefix: str) -> str:
    rows = [f"- line {heading.line}: {normalize_text(heading.text)}" for heading in headings]
    return _PROMPT.format(
        file=prefix + tutorial_paths.to_display_path(tutorial_paths.file),
        program=" ".join(program),
        headings="\n".join(rows),
        help=_read_help(tutorial_paths, program),
    )


def _read_help(tutorial_paths: TutorialPaths, program: list[str]) -> str:
    """Return the help of every command and the manual page, up to the character limit."""
    argv = [get_program(program[0], tutorial_paths.root), *program[1:]]
    try:
        commands = [command.words for command in read_tree(program, tutorial_paths.root).commands]
    except MngrError:
        commands = [()]  # its help has a form that mngr cannot parse
    with tempfile.TemporaryDirectory(prefix="mngr-fill-") as directory:
        runner = HelpRunner(argv, directory)
        parts = [runner.read_help_text(command) for command in commands]
    man_command = ["sh", "-c", 'man -P cat -- "$1" 2>/dev/null | col -b', "man", os.path.basename(program[0])]
    parts.append(shell.run(man_command, timeout=10.0).text)
    text = ""
    for part in dict.fromkeys(part.strip() for part in parts):
        if part and len(text) + len(part) < _MAX_HELP_CHARACTERS:
            text += f"{part}\n\n"
    return text.strip().replace("```", "'''")


def _read_committed_script(ctx: Context, tutorial_paths: TutorialPaths, commit: str) -> str:
    """Return the script as the agent committed it."""
    contents = read_committed(ctx, tutorial_paths, commit, tutorial_paths.file)
    return contents.get(tutorial_paths.to_display_path(tutorial_paths.file), b"").decode("utf-8", "replace")


def _list_problems(old: TutorialScript, new: TutorialScript, headings: list[EmptyHeading]) -> list[str]:
    """Return what is wrong with the agent's script."""
    old_messages = {problem.message for problem in old.problems}
    problems = [f"{problem}" for problem in new.problems if problem.message not in old_messages]
    empty_texts = {normalize_text(heading.text) for heading in new.empty_headings}
    problems += [
        f"there is no block under the heading: {heading.title}"
        for heading in headings
        if normalize_text(heading.text) in empty_texts
    ]
    if {block.id for block in new.blocks} <= {block.id for block in old.blocks}:
        problems = ["no commit contains a new block", *problems]
    return problems


class _ScriptChanges(Struct):
    """The agent's changes to the script: lines under the empty headings, and changes it was not allowed to make."""

    added_lines: list[tuple[EmptyHeading, range]]  # lines of the new text, counted from 0
    unexpected_changes: list[str]


def _compare_script(tutorial_paths: TutorialPaths, headings: list[EmptyHeading], text: str) -> _ScriptChanges:
    """Compare the new text with the local script."""
    name = tutorial_paths.to_display_path(tutorial_paths.file)
    old = [line.strip() for line in _read_lines(tutorial_paths)]
    new = [line.strip() for line in text.split("\n")]
    by_end = {_get_end_line(heading): heading for heading in headings}
    changes = _ScriptChanges(added_lines=[], unexpected_changes=[])
    for kind, old_start, old_end, new_start, new_end in difflib.SequenceMatcher(
        None, old, new, autojunk=False
    ).get_opcodes():
        removed = next((index for index in range(old_start, old_end) if old[index]), None)
        added = next((index for index in range(new_start, new_end) if new[index]), None)
        heading_end = next((index for index in range(old_start, 0, -1) if old[index - 1]), 0)
        if kind == "equal":
            continue
        if removed is not None:
            changes.unexpected_changes.append(f"{name}:{removed + 1}: this line was changed or removed: {old[removed]}")
        elif heading_end in by_end:
            changes.added_lines.append((by_end[heading_end], range(new_start, new_end)))
        elif added is not None:
            changes.unexpected_changes.append(
                f"{name}:{added + 1}: this line was added outside the empty headings: {new[added]}"
            )
    return changes


def _read_lines(tutorial_paths: TutorialPaths) -> list[str]:
    with open(tutorial_paths.file, encoding="utf-8", errors="replace", newline="\n") as file:
        return list(file)


def _get_end_line(heading: EmptyHeading) -> int:
    return heading.line + len(heading.text.split("\n")) - 1


def _list_proposed_blocks(old: TutorialScript, text: str, changes: _ScriptChanges) -> list[tuple[EmptyHeading, Block]]:
    """Return the new blocks, each with the empty heading above it."""
    old_ids = {block.id for block in old.blocks}
    proposed: list[tuple[EmptyHeading, Block]] = []
    for block in parse_script(text).blocks:
        end = block.line + block.text.count("\n")
        headings = [heading for heading, lines in changes.added_lines if lines.start < end and block.line <= lines.stop]
        if block.id not in old_ids and block.commands and headings:
            proposed.append((headings[0], block))
    return proposed


def try_blocks(
    ctx: Context,
    tutorial_paths: TutorialPaths,
    script: TutorialScript,
    proposed: list[tuple[EmptyHeading, Block]],
    request: WriterRequest,
) -> list[BlockProposal]:
    """Run each block after the blocks that precede it in the script.

    The rule-based agent does this, on the host where the other agent worked.
    """
    if not proposed:
        return []
    # Each block is placed after its heading.
    rows = [
        block.replace(line=heading.line + 0.001 * number, section=heading.section)
        for number, (heading, block) in enumerate(proposed, 1)
    ]
    job = test_update_prompt.format_job_fence(
        "try", rows, [*script.blocks, *rows], **get_run_settings(ctx, tutorial_paths)
    )
    trial_request = WriterRequest(sandbox=request.sandbox, network=request.network, on=request.on)
    with WriterAgent(ctx, trial_request, "try", job) as worker:
        worker.finish_turn()
        answer = worker.read_transcript()[-1].text
    try:
        outcomes = {str(row["id"]): row for row in parse_json(answer)}
    except (ValueError, TypeError, KeyError):
        raise MngrError(
            f"mngr could not try the blocks: {answer}", f"read what the agent did: mngr transcript {worker.name}"
        ) from None
    return [
        BlockProposal(
            heading=heading.title,
            text=block.text,
            after=_get_end_line(heading),
            ok=bool(outcomes.get(block.id, {}).get("ok")),
            outcome=str(outcomes.get(block.id, {}).get("outcome") or "mngr did not try it"),
        )
        for heading, block in proposed
    ]


def build_patch(tutorial_paths: TutorialPaths, proposals: list[BlockProposal]) -> str:
    """Return a diff that adds the proposals to the script."""
    old = _read_lines(tutorial_paths)
    old_lines = [line.rstrip("\r\n") for line in old]
    ending = "\r\n" if old and old[0].endswith("\r\n") else "\n"
    new = list(old)
    for after in sorted({proposal.after for proposal in proposals}, reverse=True):
        rows: list[str] = []
        for text in (proposal.text for proposal in proposals if proposal.after == after):
            lines = text.split("\n")
            # The heading may have become the comment of the first block.
            shared = next((n for n in range(len(lines), 0, -1) if lines[:n] == old_lines[after - n : after]), 0)
            rows += lines[shared:] if shared and not rows else ["", *lines]
        new[after - 1] = old_lines[after - 1] + ending  # the last line may lack a line end
        new[after:after] = [row + ending for row in rows]
    name = tutorial_paths.to_display_path(tutorial_paths.file)
    diff = difflib.unified_diff(old, new, f"a/{name}", f"b/{name}")
    return "".join(row if row.endswith("\n") else f"{row}\n\\ No newline at end of file\n" for row in diff)
