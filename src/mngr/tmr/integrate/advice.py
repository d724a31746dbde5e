"""What an integrator is asked that no code can know: which of equal fixes comes first, and a few words on the whole. They are shown as its own."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from typing import Any

from mngr.api import Fleet
from mngr.host import git
from mngr.mapreduce.governor import RunLimits
from mngr.mapreduce.recipe import Judgement
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_state import RunState, Task, TaskState, add_usage
from mngr.tmr.changes.changes import Change
from mngr.tmr.commits import untrusted
from mngr.tmr.commits.trees import GIT_SAFE_ARGS
from mngr.tmr.integrate.questions import KINDS_WITHOUT_ANSWERS, ask_agents, make_row_announcer, read_answer
from mngr.tmr.plan import RunPlan
from mngr.tmr.prepare.prompt import quote_block

Row = dict[str, Any]


_ORDER, _PROSE = "order.json", "prose.md"
_MAX_FULL_CHANGES = 20  # changes that are shown in full
_MAX_PROSE = 1500  # characters of prose


class Advisor:
    """An agent of some kind, for one run."""

    def __init__(
        self, fleet: Fleet, run: RunDir, plan: RunPlan, kind: str, patience: float, say: Callable[[str], None]
    ) -> None:  # fmt: skip
        self._fleet, self._run, self._plan, self._kind, self._hear = (
            fleet,
            run,
            plan,
            kind,
            make_row_announcer(say),
        )
        self._limits = RunLimits(**plan.limits).replace(timeout=patience, deadline=patience)
        self.usage: Row = {}

    def rank_groups(self, base: str, groups: Sequence[Sequence[Change]]) -> list[Row]:
        """Each group in the order in which a person should look at it, with the reason; none where no answer came."""
        if not groups:
            return []
        asked = [sorted(change.key for change in group) for group in groups]
        one = self._ask("order", asked, base, self._build_order_prompt(groups), _make_order_reader(groups))
        rows = one.claim.get("order") or []
        keys = {change.id: change.key for group in groups for change in group}
        return [{**row, "keys": [keys[name] for name in row["changes"]], "agent": one.agent} for row in rows]

    def write_summary(self, base: str, head: str, text: str) -> Row:
        """A paragraph on a pull request that says this, and whose it is; nothing where none came."""
        one = self._ask("prose", [head], base, _build_prose_prompt(text), _read_prose)
        said = one.claim.get("prose")
        return {"words": said, "agent": one.agent, "head": head} if said else {}

    def _ask(self, what: str, about: list[Any], base: str, prompt: str, read: Callable[[str], Judgement]) -> TaskState:
        number = hashlib.sha256(json.dumps([base, self._kind, about]).encode()).hexdigest()[:6]
        question = _AdviceRecipe(f"{what}-{number}", base, prompt, read)
        state = ask_agents(self._fleet, self._run, self._plan, self._limits, question, self._kind, self._hear)
        one = state.tasks[question.slug]
        if one.usage:
            self.usage = add_usage(self.usage, one.usage)
        return one

    def _build_order_prompt(self, groups: Sequence[Sequence[Change]]) -> str:
        parts = [
            "These fixes turn as many tests green as each other, by as many agents, at the same size and risk. Say in which order a "
            "person should look at those of a group, the one that matters most to users first, and why in one sentence."
        ]
        left = _MAX_FULL_CHANGES
        for number, group in enumerate(groups, 1):
            parts.append(f"Group {number}:")
            for change in group:
                shown = f"\n\n{self._read_diff(change)}" if left > 0 else ""
                parts.append(f"{change.id}, {untrusted.clean_line(change.title)}{shown}")
                left -= 1
        parts.append(
            f"Write to `$MNGR_OUTPUT_DIR/{_ORDER}` a JSON list with one object for each group: "
            '`{"changes": ["ID", …], "reason": "…"}`, all ids of the group in their order. Your branch has the code as it was before '
            "all of them. Change nothing there. Then stop."
        )
        return "\n\n".join(parts)

    def _read_diff(self, change: Change) -> str:
        plain = ("diff-tree", "-p", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames")
        done = git.run(
            self._fleet.context.local_host,
            self._run.repo,
            *GIT_SAFE_ARGS,
            *plain,
            change.parent,
            change.commit,
        )
        return quote_block(done.out.decode("utf-8", "replace"), "diff")


def can_advise(kind: str | None) -> bool:
    """Whether a kind of agent can be asked for advice."""
    return kind is not None and kind not in KINDS_WITHOUT_ANSWERS


class _AdviceRecipe:
    """The recipe: one task, whose answer is a file."""

    def __init__(self, slug: str, base: str, prompt: str, read: Callable[[str], Judgement]) -> None:
        self.slug, self._base, self._prompt, self._read = slug, base, prompt, read

    def has_task(self, slug: str) -> bool:
        """Whether a task is this one."""
        return slug == self.slug

    def plan_rows(self, state: RunState) -> list[Row]:
        """The one."""
        if self.slug in state.tasks:
            return []
        data = {"spend": "advice"}
        return [{"type": "task", "task": Task(slug=self.slug, title=self.slug, data=data).to_dict()}]

    def choose_base(self, one: TaskState) -> str | None:
        """The code as it was."""
        return self._base

    def build_prompt(self, one: TaskState) -> str:
        """What is asked."""
        job = {"job": "advice", "task": self.slug, "test": "", "command": []}
        return f"{self._prompt}\n\n```mngr-job\n{json.dumps(job)}\n```\n"

    def judge(self, one: TaskState, folder: str, *, alive: bool) -> Judgement:
        """Whether the file is what was asked for."""
        return self._read(os.path.join(folder, "outputs"))

    def can_check_without_run(self, one: TaskState) -> bool:
        """There is nothing to run."""
        return True

    def check(self, one: TaskState) -> Row | None:
        """Nor to see."""
        return None

    def decide_outcome(self, one: TaskState) -> tuple[str, str | None]:
        """advised, or failed where no answer came."""
        if one.claim.get("order") or one.claim.get("prose"):
            return "advised", None
        problem = str(one.claim.get("problem") or one.claim.get("closed") or "it did not answer")
        return "failed", untrusted.clean_line(problem.partition("\n")[0])


def _make_order_reader(groups: Sequence[Sequence[Change]]) -> Callable[[str], Judgement]:
    wanted = [sorted(change.id for change in group) for group in groups]

    def read(folder: str) -> Judgement:
        text = read_answer(os.path.join(folder, _ORDER))
        try:
            rows = [
                {"changes": [str(name) for name in row["changes"]], "reason": untrusted.clean_line(str(row["reason"]), 300)}
                for row in json.loads(text)
            ]  # fmt: skip
        except (ValueError, TypeError, KeyError):
            return Judgement(problem=f"There is no list as it was asked for in `$MNGR_OUTPUT_DIR/{_ORDER}`.")
        if sorted(sorted(row["changes"]) for row in rows) != sorted(wanted):
            return Judgement(problem=f"`{_ORDER}` must have every id of every group once, group by group.")
        if not all(row["reason"] for row in rows):
            return Judgement(problem=f"Every group of `{_ORDER}` needs its reason, a sentence.")
        return Judgement(claim={"order": rows})

    return read


def _build_prose_prompt(text: str) -> str:
    return (
        "This is a pull request, as it will be shown. Write the paragraph that stands at its top: what it does as a whole, and what a "
        f"reviewer should look at first. At most {_MAX_PROSE} characters of plain text, nothing that is not in it or in the code, no "
        f"praise.\n\n{quote_block(text, 'markdown')}\n\nWrite it to `$MNGR_OUTPUT_DIR/{_PROSE}`. Change nothing in the repository. Then stop."
    )


def _read_prose(folder: str) -> Judgement:
    text = read_answer(os.path.join(folder, _PROSE)).strip()
    if not text:
        return Judgement(problem=f"There is nothing in `$MNGR_OUTPUT_DIR/{_PROSE}`.")
    if len(text) > _MAX_PROSE:
        return Judgement(problem=f"`{_PROSE}` has {len(text)} characters; {_MAX_PROSE} is the most.")
    return Judgement(claim={"prose": untrusted.clean_body(text)})
