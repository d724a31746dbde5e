"""`tutorial fill`: an agent proposes blocks for headings that have none; each is tried for real before anybody looks at it."""

from __future__ import annotations

import difflib
import json
import os
import tempfile

from mngr.agents.context import Context
from mngr.base import shell
from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.tutorial.blocks import (
    Block,
    EmptyHeading,
    TutorialScript,
    normalize_text,
    parse_script,
    read_script,
)
from mngr.tutorial.coverage.command_tree import HelpRunner, get_program
from mngr.tutorial.coverage.read_tree import read_tree
from mngr.tutorial.paths import TutorialPaths
from mngr.tutorial.writing import mistakes, prompt
from mngr.tutorial.writing.mistakes import CommandMistakes
from mngr.tutorial.writing.sync import get_run_settings
from mngr.tutorial.writing.worker import (
    MECHANIC,
    WriterAgent,
    WriterRequest,
    check_clean,
    get_project_prefix,
    read_committed,
)

_MAX_HELP_CHARACTERS = 40_000  # characters of a program's help that an agent is given
_PROMPT = """\
Fill blanks in {file}: headings that have no block of commands under them yet.

Write under each heading named below one to four blocks. A block is a comment that says in the reader's words what is done, and
under it the commands; an empty line ends it. Show what a person would do with `{program}` first, and in the order in which he would
do it. Only commands that work as they stand, with what comes before them in the script; nothing that asks for input, never ends
or needs the network. Try each of them. Change nothing else in {file}, and no other file. Commit it, with a subject that begins with
`[FIX_TUTORIAL]`.

{headings}

What `{program}` says of itself:

```
{help}
```
"""


class BlockProposal(Struct):
    """A block for a blank, and what it did when it was tried."""

    heading: str
    text: str
    after: int  # the line of the script behind which it goes
    ok: bool
    outcome: str


class FillResult(Struct):
    """What was proposed, as a patch too, and where the agent went wrong on the way."""

    agent: str | None  # None when there is no blank
    proposals: list[BlockProposal]
    left: list[str]  # headings that are still blank
    patch: str
    confusion: list[CommandMistakes]
    problems: list[str] = []  # what else the agent changed; nothing of it is in the patch
    cost_usd: float | None = None


def fill_headings(
    ctx: Context, places: TutorialPaths, wish: WriterRequest, program: str, section: str | None = None
) -> FillResult:
    """Have an agent propose, try what it proposes, and give it as a patch; raises MngrError."""
    script = read_script(places.file, places.to_display_path(places.file))
    blanks = [blank for blank in script.empty_headings if section is None or _is_in_section(blank, section)]
    if not blanks:
        return FillResult(agent=None, proposals=[], left=[], patch="", confusion=[])
    if wish.agent == MECHANIC:
        raise MngrError("the mechanic cannot think of commands", "name an agent that can: --agent claude")
    check_clean(ctx, places, places.file)
    text = _build_prompt(places, blanks, program.split(), get_project_prefix(ctx, places))
    with WriterAgent(ctx, wish, "fill") as worker:
        for _ in range(wish.rounds):
            worker.send_and_wait(text)
            pulled = worker.fleet.pull(worker.name)
            now = _read_committed_script(ctx, places, pulled.commit) if pulled.commit and pulled.commits else ""
            changes = (
                _compare_script(places, blanks, now) if now else _ScriptChanges(added_lines=[], unexpected_changes=[])
            )
            astray = changes.unexpected_changes
            astray += worker.list_unexpected_changes(places, pulled.commit, places.file) if pulled.commit else []
            wrong = _list_problems(script, parse_script(now, script.path), blanks) if now else ["nothing was committed"]
            if not astray and not wrong:
                break
            text = "Not done yet:\n\n" + "\n".join(f"- {problem}" for problem in [*astray, *wrong]) + "\n"
        rows, cost = worker.read_transcript(), worker.get_cost()
    tried = try_blocks(ctx, places, script, _list_proposed_blocks(script, now, changes), wish)
    return FillResult(
        agent=worker.name,
        proposals=tried,
        left=[blank.title for blank in blanks if not any(one.after == _get_end_line(blank) for one in tried)],
        patch=build_patch(places, tried),
        confusion=mistakes.list_mistakes(rows, program.split()),
        problems=[*astray, *map(str, script.problems)],
        cost_usd=cost,
    )


def _is_in_section(blank: EmptyHeading, section: str) -> bool:
    wanted = section.lower()
    return wanted in (blank.section or "").lower() or wanted in blank.title.lower()


def _build_prompt(places: TutorialPaths, blanks: list[EmptyHeading], program: list[str], prefix: str) -> str:
    rows = [f"- line {blank.line}: {normalize_text(blank.text)}" for blank in blanks]
    return _PROMPT.format(
        file=prefix + places.to_display_path(places.file),
        program=" ".join(program),
        headings="\n".join(rows),
        help=_read_help(places, program),
    )


def _read_help(places: TutorialPaths, program: list[str]) -> str:
    """Its help, command by command, and its manual page, as far as there is room."""
    found = [get_program(program[0], places.root), *program[1:]]
    try:
        commands = [command.words for command in read_tree(program, places.root).commands]
    except MngrError:
        commands = [()]  # it tells in a form of its own
    with tempfile.TemporaryDirectory(prefix="mngr-fill-") as place:
        asker = HelpRunner(found, place)
        parts = [asker.read_help_text(command) for command in commands]
    argv = ["sh", "-c", 'man -P cat -- "$1" 2>/dev/null | col -b', "man", os.path.basename(program[0])]
    parts.append(shell.run(argv, timeout=10.0).text)
    text = ""
    for part in dict.fromkeys(part.strip() for part in parts):
        if part and len(text) + len(part) < _MAX_HELP_CHARACTERS:
            text += f"{part}\n\n"
    return text.strip().replace("```", "'''")


def _read_committed_script(ctx: Context, places: TutorialPaths, commit: str) -> str:
    """The script as the agent left it."""
    found = read_committed(ctx, places, commit, places.file)
    return found.get(places.to_display_path(places.file), b"").decode("utf-8", "replace")


def _list_problems(old: TutorialScript, new: TutorialScript, blanks: list[EmptyHeading]) -> list[str]:
    """What is wrong with the agent's script."""
    known = {problem.message for problem in old.problems}
    found = [f"{problem}" for problem in new.problems if problem.message not in known]
    still = {normalize_text(blank.text) for blank in new.empty_headings}
    found += [f"nothing stands under: {blank.title}" for blank in blanks if normalize_text(blank.text) in still]
    if {block.id for block in new.blocks} <= {block.id for block in old.blocks}:
        found = ["nothing new was committed", *found]
    return found


class _ScriptChanges(Struct):
    """What an agent did to the script: lines under the blanks, and what it should not have done."""

    added_lines: list[tuple[EmptyHeading, range]]  # of the new text, from 0
    unexpected_changes: list[str]


def _compare_script(places: TutorialPaths, blanks: list[EmptyHeading], text: str) -> _ScriptChanges:
    """The new text against the script as it is here."""
    name = places.to_display_path(places.file)
    old = [line.strip() for line in _read_lines(places)]
    new = [line.strip() for line in text.split("\n")]
    by_end = {_get_end_line(blank): blank for blank in blanks}
    found = _ScriptChanges(added_lines=[], unexpected_changes=[])
    for kind, a1, a2, b1, b2 in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        lost = next((at for at in range(a1, a2) if old[at]), None)
        come = next((at for at in range(b1, b2) if new[at]), None)
        above = next((at for at in range(a1, 0, -1) if old[at - 1]), 0)
        if kind == "equal":
            continue
        if lost is not None:
            found.unexpected_changes.append(f"{name}:{lost + 1}: this line was changed or taken away: {old[lost]}")
        elif above in by_end:
            found.added_lines.append((by_end[above], range(b1, b2)))
        elif come is not None:
            found.unexpected_changes.append(
                f"{name}:{come + 1}: this was added where no blank is to be filled: {new[come]}"
            )
    return found


def _read_lines(places: TutorialPaths) -> list[str]:
    with open(places.file, encoding="utf-8", errors="replace", newline="\n") as file:
        return list(file)


def _get_end_line(blank: EmptyHeading) -> int:
    return blank.line + len(blank.text.split("\n")) - 1


def _list_proposed_blocks(old: TutorialScript, text: str, changes: _ScriptChanges) -> list[tuple[EmptyHeading, Block]]:
    """New blocks, each with the blank that it stands under."""
    known = {block.id for block in old.blocks}
    found: list[tuple[EmptyHeading, Block]] = []
    for block in parse_script(text).blocks:
        end = block.line + block.text.count("\n")
        above = [blank for blank, lines in changes.added_lines if lines.start < end and block.line <= lines.stop]
        if block.id not in known and block.commands and above:
            found.append((above[0], block))
    return found


def try_blocks(
    ctx: Context,
    places: TutorialPaths,
    script: TutorialScript,
    wanted: list[tuple[EmptyHeading, Block]],
    wish: WriterRequest,
) -> list[BlockProposal]:
    """Run each for real, after what comes before it in the script: by an agent that needs no model, where the other one worked."""
    if not wanted:
        return []
    # Each has its place behind the heading that it is for.
    rows = [
        block.replace(line=blank.line + 0.001 * at, section=blank.section)
        for at, (blank, block) in enumerate(wanted, 1)
    ]
    job = prompt.format_job_fence("try", rows, [*script.blocks, *rows], **get_run_settings(ctx, places))
    with WriterAgent(ctx, WriterRequest(sandbox=wish.sandbox, network=wish.network, on=wish.on), "try") as worker:
        worker.send_and_wait(job)
        said = str(worker.read_transcript()[-1].get("text") or "")
    try:
        outcomes = {str(row["id"]): row for row in json.loads(said)}
    except (ValueError, TypeError, KeyError):
        raise MngrError(f"the blocks could not be tried: {said}", f"look: mngr transcript {worker.name}") from None
    return [
        BlockProposal(
            heading=blank.title,
            text=block.text,
            after=_get_end_line(blank),
            ok=bool(outcomes.get(block.id, {}).get("ok")),
            outcome=str(outcomes.get(block.id, {}).get("outcome") or "it was not tried"),
        )
        for blank, block in wanted
    ]


def build_patch(places: TutorialPaths, proposals: list[BlockProposal]) -> str:
    """The script with the proposals in it, as a diff against what it is."""
    old = _read_lines(places)
    plain = [line.rstrip("\r\n") for line in old]
    ending = "\r\n" if old and old[0].endswith("\r\n") else "\n"
    new = list(old)
    for after in sorted({one.after for one in proposals}, reverse=True):
        rows: list[str] = []
        for text in (one.text for one in proposals if one.after == after):
            lines = text.split("\n")
            # The heading may have become the comment of the first one.
            same = next((n for n in range(len(lines), 0, -1) if lines[:n] == plain[after - n : after]), 0)
            rows += lines[same:] if same and not rows else ["", *lines]
        new[after - 1] = plain[after - 1] + ending  # the last line may have no end
        new[after:after] = [row + ending for row in rows]
    name = places.to_display_path(places.file)
    diff = difflib.unified_diff(old, new, f"a/{name}", f"b/{name}")
    return "".join(row if row.endswith("\n") else f"{row}\n\\ No newline at end of file\n" for row in diff)
