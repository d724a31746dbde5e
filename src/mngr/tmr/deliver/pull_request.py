"""PR.md: what a reviewer reads of a run, built by code and no longer than a forge takes."""

from __future__ import annotations

import os

from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_state import RunState
from mngr.tmr.deliver import sections, summary
from mngr.tmr.deliver.facts import Facts, facts_of
from mngr.tmr.deliver.markdown import tame
from mngr.tmr.plan import Plan

LONGEST = 60_000  # characters of PR.md
_HEAVIEST = 120_000  # bytes: it may have to be one word of a command
_BEGIN, _END = "<!-- title: ", " -->\n"
_SECTIONS = {
    "head": summary.head,
    "red": sections.red,
    "flagged": sections.flagged,
    "fixes": sections.fixes,
    "left": sections.left,
    "edits": sections.edits,
    "tasks": sections.tasks,
    "escalations": sections.escalations,
    "suite": summary.suite,
    "spent": summary.spent,
    "minds": summary.minds,
}
# What gives way, in this order, until all of it fits: first what fewest want to read, last the names of fixes and reasons.
_LADDER = (
    "edits 1", "escalations 1", "tasks 1", "edits 2", "suite 1", "red 1", "fixes 1", "left 1", "edits 3", "escalations 2", "tasks 2",
    "fixes 2", "left 2", "flagged 1", "tasks 3", "fixes 3", "left 3", "flagged 2", "fixes 4", "left 4", "flagged 3", "left 5",
    "fixes 5", "flagged 4", "left 6", "fixes 6",
)  # fmt: skip


def pr_text(facts: Facts) -> tuple[str, str]:
    """(title, body); the same for the same facts."""
    title = summary.title(facts)
    room = LONGEST - len(_BEGIN) - len(title) - len(_END)
    parts = {name: part(facts, 0) for name, part in _SECTIONS.items()}
    for step in ("", *_LADDER):
        name, _, level = step.partition(" ")
        if name:
            parts[name] = _SECTIONS[name](facts, int(level))
        body = "\n\n".join(filter(None, parts.values())) + "\n"
        if len(body) <= room and len(body.encode()) <= _HEAVIEST:
            break
    return title, body


def write_pr(run: RunDir, state: RunState, plan: Plan) -> str:
    """Write PR.md, whose first line keeps the title where no forge shows it; its path. Raises NotFound."""
    title, body = pr_text(facts_of(run, state, plan))
    path = os.path.join(run.path, "PR.md")
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(f"{_BEGIN}{title}{_END}{body}")
    os.replace(path + ".new", path)
    return path


def body_of(run: RunDir) -> str:
    """What PR.md says below its title."""
    with open(os.path.join(run.path, "PR.md"), encoding="utf-8") as file:
        return file.read().partition("\n")[2].strip()


def title_of(path: str) -> str:
    """The title that a PR.md keeps."""
    with open(path, encoding="utf-8") as file:
        return tame(file.readline().strip().removeprefix(_BEGIN.strip()).removesuffix(_END.strip()), 200)
