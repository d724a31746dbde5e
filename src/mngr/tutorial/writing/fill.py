"""`tutorial fill`: an agent proposes blocks for headings that have none; each is tried for real before anybody looks at it."""

from __future__ import annotations

import difflib
import json
import os
import tempfile

from mngr.agents.context import Context
from mngr.base import shell
from mngr.base.errors import MngrError
from mngr.base.model import Record
from mngr.tutorial.blocks import Blank, Block, Script, normal, parse, read_script
from mngr.tutorial.coverage.command_tree import Asker, find_program
from mngr.tutorial.coverage.read_tree import read_tree
from mngr.tutorial.locate import Places
from mngr.tutorial.writing import mistakes, prompt
from mngr.tutorial.writing.mistakes import Confusion
from mngr.tutorial.writing.sync import how_to_try
from mngr.tutorial.writing.worker import MECHANIC, Wish, Worker, check_clean, prefix, read_committed

_HELP = 40_000  # characters of a program's help that an agent is given
_BRIEF = """\
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


class Proposal(Record):
    """A block for a blank, and what it did when it was tried."""

    heading: str
    text: str
    after: int  # the line of the script behind which it goes
    ok: bool
    outcome: str


class Filled(Record):
    """What was proposed, as a patch too, and where the agent went wrong on the way."""

    agent: str | None  # None when there is no blank
    proposals: list[Proposal]
    left: list[str]  # headings that are still blank
    patch: str
    confusion: list[Confusion]
    problems: list[str] = []  # what else the agent changed; nothing of it is in the patch
    cost_usd: float | None = None


def fill(ctx: Context, places: Places, wish: Wish, program: str, section: str | None = None) -> Filled:
    """Have an agent propose, try what it proposes, and give it as a patch; raises MngrError."""
    script = read_script(places.file, places.shown(places.file))
    blanks = [blank for blank in script.blanks if section is None or _is_of(blank, section)]
    if not blanks:
        return Filled(agent=None, proposals=[], left=[], patch="", confusion=[])
    if wish.agent == MECHANIC:
        raise MngrError("the mechanic cannot think of commands", "name an agent that can: --agent claude")
    check_clean(ctx, places, places.file)
    text = _brief(places, blanks, program.split(), prefix(ctx, places))
    with Worker(ctx, wish, "fill") as worker:
        for _ in range(wish.rounds):
            worker.tell(text)
            pulled = worker.fleet.pull(worker.name)
            now = _committed(ctx, places, pulled.commit) if pulled.commit and pulled.commits else ""
            changes = _changes(places, blanks, now) if now else _Changes(under=[], astray=[])
            astray = changes.astray
            astray += worker.strays(places, pulled.commit, places.file) if pulled.commit else []
            wrong = _problems(script, parse(now, script.path), blanks) if now else ["nothing was committed"]
            if not astray and not wrong:
                break
            text = "Not done yet:\n\n" + "\n".join(f"- {problem}" for problem in [*astray, *wrong]) + "\n"
        rows, cost = worker.rows(), worker.cost()
    tried = try_blocks(ctx, places, script, _proposals(script, now, changes), wish)
    return Filled(
        agent=worker.name,
        proposals=tried,
        left=[blank.title for blank in blanks if not any(one.after == _end(blank) for one in tried)],
        patch=make_patch(places, tried),
        confusion=mistakes.read(rows, program.split()),
        problems=[*astray, *map(str, script.problems)],
        cost_usd=cost,
    )


def _is_of(blank: Blank, section: str) -> bool:
    wanted = section.lower()
    return wanted in (blank.section or "").lower() or wanted in blank.title.lower()


def _brief(places: Places, blanks: list[Blank], program: list[str], prefix: str) -> str:
    rows = [f"- line {blank.line}: {normal(blank.text)}" for blank in blanks]
    return _BRIEF.format(
        file=prefix + places.shown(places.file),
        program=" ".join(program),
        headings="\n".join(rows),
        help=_help(places, program),
    )


def _help(places: Places, program: list[str]) -> str:
    """Its help, command by command, and its manual page, as far as there is room."""
    found = [find_program(program[0], places.root), *program[1:]]
    try:
        commands = [command.words for command in read_tree(program, places.root).commands]
    except MngrError:
        commands = [()]  # it tells in a form of its own
    with tempfile.TemporaryDirectory(prefix="mngr-fill-") as place:
        asker = Asker(found, place)
        parts = [asker.help(command) for command in commands]
    argv = ["sh", "-c", 'man -P cat -- "$1" 2>/dev/null | col -b', "man", os.path.basename(program[0])]
    parts.append(shell.run(argv, timeout=10.0).text)
    text = ""
    for part in dict.fromkeys(part.strip() for part in parts):
        if part and len(text) + len(part) < _HELP:
            text += f"{part}\n\n"
    return text.strip().replace("```", "'''")


def _committed(ctx: Context, places: Places, commit: str) -> str:
    """The script as the agent left it."""
    found = read_committed(ctx, places, commit, places.file)
    return found.get(places.shown(places.file), b"").decode("utf-8", "replace")


def _problems(old: Script, new: Script, blanks: list[Blank]) -> list[str]:
    """What is wrong with the agent's script."""
    known = {problem.message for problem in old.problems}
    found = [f"{problem}" for problem in new.problems if problem.message not in known]
    still = {normal(blank.text) for blank in new.blanks}
    found += [f"nothing stands under: {blank.title}" for blank in blanks if normal(blank.text) in still]
    if {block.id for block in new.blocks} <= {block.id for block in old.blocks}:
        found = ["nothing new was committed", *found]
    return found


class _Changes(Record):
    """What an agent did to the script: lines under the blanks, and what it should not have done."""

    under: list[tuple[Blank, range]]  # of the new text, from 0
    astray: list[str]


def _changes(places: Places, blanks: list[Blank], text: str) -> _Changes:
    """The new text against the script as it is here."""
    name = places.shown(places.file)
    old = [line.strip() for line in _lines(places)]
    new = [line.strip() for line in text.split("\n")]
    by_end = {_end(blank): blank for blank in blanks}
    found = _Changes(under=[], astray=[])
    for kind, a1, a2, b1, b2 in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        lost = next((at for at in range(a1, a2) if old[at]), None)
        come = next((at for at in range(b1, b2) if new[at]), None)
        above = next((at for at in range(a1, 0, -1) if old[at - 1]), 0)
        if kind == "equal":
            continue
        if lost is not None:
            found.astray.append(f"{name}:{lost + 1}: this line was changed or taken away: {old[lost]}")
        elif above in by_end:
            found.under.append((by_end[above], range(b1, b2)))
        elif come is not None:
            found.astray.append(
                f"{name}:{come + 1}: this was added where no blank is to be filled: {new[come]}"
            )
    return found


def _lines(places: Places) -> list[str]:
    with open(places.file, encoding="utf-8", errors="replace", newline="\n") as file:
        return list(file)


def _end(blank: Blank) -> int:
    return blank.line + len(blank.text.split("\n")) - 1


def _proposals(old: Script, text: str, changes: _Changes) -> list[tuple[Blank, Block]]:
    """New blocks, each with the blank that it stands under."""
    known = {block.id for block in old.blocks}
    found: list[tuple[Blank, Block]] = []
    for block in parse(text).blocks:
        end = block.line + block.text.count("\n")
        above = [blank for blank, lines in changes.under if lines.start < end and block.line <= lines.stop]
        if block.id not in known and block.commands and above:
            found.append((above[0], block))
    return found


def try_blocks(
    ctx: Context, places: Places, script: Script, wanted: list[tuple[Blank, Block]], wish: Wish
) -> list[Proposal]:
    """Run each for real, after what comes before it in the script: by an agent that needs no model, where the other one worked."""
    if not wanted:
        return []
    # Each has its place behind the heading that it is for.
    rows = [
        block.replace(line=blank.line + 0.001 * at, section=blank.section)
        for at, (blank, block) in enumerate(wanted, 1)
    ]
    job = prompt.fence("try", rows, [*script.blocks, *rows], **how_to_try(ctx, places))
    with Worker(ctx, Wish(sandbox=wish.sandbox, network=wish.network, on=wish.on), "try") as worker:
        worker.tell(job)
        said = str(worker.rows()[-1].get("text") or "")
    try:
        outcomes = {str(row["id"]): row for row in json.loads(said)}
    except (ValueError, TypeError, KeyError):
        raise MngrError(
            f"the blocks could not be tried: {said}", f"look: mngr transcript {worker.name}"
        ) from None
    return [
        Proposal(
            heading=blank.title,
            text=block.text,
            after=_end(blank),
            ok=bool(outcomes.get(block.id, {}).get("ok")),
            outcome=str(outcomes.get(block.id, {}).get("outcome") or "it was not tried"),
        )
        for blank, block in wanted
    ]


def make_patch(places: Places, proposals: list[Proposal]) -> str:
    """The script with the proposals in it, as a diff against what it is."""
    old = _lines(places)
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
    name = places.shown(places.file)
    diff = difflib.unified_diff(old, new, f"a/{name}", f"b/{name}")
    return "".join(row if row.endswith("\n") else f"{row}\n\\ No newline at end of file\n" for row in diff)
