"""Builds PR.md, the text of a pull request, within the length limits of a forge."""

from __future__ import annotations

import os

from mngr.mapreduce.journal.run_state import RunState
from mngr.mapreduce.run_dir import RunDir
from mngr.tmr.deliver import pull_request_sections, pull_request_summary
from mngr.tmr.deliver.markdown import redact_line
from mngr.tmr.deliver.pull_request_facts import PullRequestFacts, load_facts
from mngr.tmr.run_plan import RunPlan

MAX_CHARACTERS = 60_000  # characters of PR.md
_MAX_BYTES = 120_000  # bytes: the text may be one command-line argument
_BEGIN, _END = "\n<!-- title: ", " -->\n"  # around the title, which the last line of PR.md holds
_SECTIONS = {
    "head": pull_request_summary.render_head,
    "regressions": pull_request_sections.render_regressions,
    "failing": pull_request_sections.render_still_failing,
    "questions": pull_request_sections.render_questions,
    "review": pull_request_sections.render_flagged,
    "fixes": pull_request_sections.render_fixes,
    "excluded": pull_request_sections.render_excluded,
    "edits": pull_request_sections.render_test_edits,
    "tasks": pull_request_sections.render_tasks,
    "cost": pull_request_summary.render_cost,
    "instructions": pull_request_summary.render_branch_commands,
}
# Sections are shortened in this order until the text fits: the least read first, the names of fixes and reasons last.
_SHORTENING_STEPS = (
    "edits 1",
    "questions 1",
    "tasks 1",
    "edits 2",
    "failing 1",
    "regressions 1",
    "fixes 1",
    "review 1",
    "excluded 1",
    "edits 3",
    "questions 2",
    "tasks 2",
    "fixes 2",
    "excluded 2",
    "review 2",
    "tasks 3",
    "fixes 3",
    "excluded 3",
    "review 3",
    "fixes 4",
    "excluded 4",
    "review 4",
    "excluded 5",
    "fixes 5",
    "review 5",
    "excluded 6",
    "fixes 6",
)


def build_pull_request(facts: PullRequestFacts) -> tuple[str, str]:
    """Return the title and body; the same facts always give the same text."""
    title = pull_request_summary.render_title(facts)
    max_length = MAX_CHARACTERS - len(_BEGIN) - len(title) - len(_END)
    parts = {name: render(facts, 0) for name, render in _SECTIONS.items()}
    for step in ("", *_SHORTENING_STEPS):
        name, _, level = step.partition(" ")
        if name:
            parts[name] = _SECTIONS[name](facts, int(level))
        body = "\n\n".join(filter(None, parts.values())) + "\n"
        if len(body) <= max_length and len(body.encode()) <= _MAX_BYTES:
            break
    return title, body


def write_pull_request(run: RunDir, state: RunState, plan: RunPlan) -> str:
    """Write PR.md, with the title in a hidden last line, and return its path. Raises NotFound."""
    title, body = build_pull_request(load_facts(run, state, plan))
    path = os.path.join(run.path, "PR.md")
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(f"{body}{_BEGIN}{title}{_END}")
    os.replace(path + ".new", path)
    return path


def read_body(run: RunDir) -> str:
    """Return the text of PR.md above its title."""
    with open(os.path.join(run.path, "PR.md"), encoding="utf-8") as file:
        return file.read().rpartition(_BEGIN)[0].strip()


def read_title(path: str) -> str:
    """Return the title in a PR.md."""
    with open(path, encoding="utf-8") as file:
        return redact_line(file.read().rpartition(_BEGIN)[2].removesuffix(_END), 200)
