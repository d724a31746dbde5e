"""Asks an agent for advice: the order of equally good fixes, and a summary.

The report shows both as the agent's words.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence

from mngr.api import Fleet
from mngr.base.untrusted_json import as_list, get_objects, get_text, parse_json
from mngr.mapreduce.journal.agent_usage import AgentUsage, add_usage
from mngr.mapreduce.journal.journal_rows import NewTaskRow
from mngr.mapreduce.journal.run_state import RunState, Task, TaskState
from mngr.mapreduce.recipe import Judgement, UncheckedRecipe
from mngr.mapreduce.run_dir import RunDir
from mngr.tmr.changes.collect_changes import Change
from mngr.tmr.changes.integration_record import AdvisedOrder, AgentSummary
from mngr.tmr.commits import clean_untrusted_text
from mngr.tmr.integrate.ask_agents import KINDS_WITHOUT_ANSWERS, ask_agents, make_row_announcer, quote_diff, read_answer
from mngr.tmr.prepare.prompt import quote_block
from mngr.tmr.run_plan import RunPlan

_ORDER, _PROSE = "order.json", "prose.md"
_MAX_FULL_CHANGES = 20  # changes whose diff is in the prompt
_MAX_PROSE = 1500  # characters of the summary


class Advisor:
    """Asks an agent of one kind for advice on one run."""

    def __init__(
        self, fleet: Fleet, run: RunDir, plan: RunPlan, kind: str, timeout: float, report: Callable[[str], None]
    ) -> None:
        self._fleet = fleet
        self._run = run
        self._plan = plan
        self._kind = kind
        self._announce_row = make_row_announcer(report)
        self._limits = plan.limits.replace(timeout=timeout, deadline=timeout)
        self.usage = AgentUsage()

    def rank_groups(self, base: str, groups: Sequence[Sequence[Change]]) -> list[AdvisedOrder]:
        """Return each group in the order in which a person should review it, with the reason.

        Empty without an answer.
        """
        if not groups:
            return []
        group_keys = [sorted(change.key for change in group) for group in groups]
        task = self._ask_agent("order", group_keys, base, self._build_order_prompt(groups), _make_order_reader(groups))
        keys = {change.id: change.key for group in groups for change in group}
        orders = []
        for row in get_objects(task.claim, "order"):
            ids = [str(name) for name in as_list(row["changes"])]
            order_keys = [keys[name] for name in ids]
            orders.append(AdvisedOrder(changes=ids, reason=get_text(row, "reason"), keys=order_keys, agent=task.agent))
        return orders

    def write_summary(self, base: str, head: str, text: str) -> AgentSummary | None:
        """Return an agent's summary of the pull request, or None without an answer."""
        task = self._ask_agent("prose", [head], base, _build_prose_prompt(text), _read_prose)
        prose = get_text(task.claim, "prose")
        return AgentSummary(text=prose, agent=task.agent, head=head) if prose else None

    def _ask_agent(
        self, kind: str, subject: Sequence[object], base: str, prompt: str, read_answer: Callable[[str], Judgement]
    ) -> TaskState:
        """Ask one question and return its settled task."""
        number = hashlib.sha256(json.dumps([base, self._kind, subject]).encode()).hexdigest()[:6]
        question = _AdviceRecipe(f"{kind}-{number}", base, prompt, read_answer)
        state = ask_agents(self._fleet, self._run, self._plan, self._limits, question, self._kind, self._announce_row)
        task = state.tasks[question.slug]
        if task.usage is not None:
            self.usage = add_usage(self.usage, task.usage)
        return task

    def _build_order_prompt(self, groups: Sequence[Sequence[Change]]) -> str:
        parts = [
            "The evidence for the fixes in each group is equally good: they fix the same number of tests, and have the same number of "
            "authors, the same size and the same risk. For each group, choose the order in which a person should review the fixes. "
            "Put the fix that matters most to users first. Give the reason in one sentence."
        ]
        diffs_left = _MAX_FULL_CHANGES
        for number, group in enumerate(groups, 1):
            parts.append(f"Group {number}:")
            for change in group:
                parts.append(f"{change.id}, {clean_untrusted_text.clean_line(change.title)}")
                if diffs_left > 0:
                    parts.append(quote_diff(self._fleet.context.local_host, self._run.repo, change))
                diffs_left -= 1
        parts.append(
            f"Write to `$MNGR_OUTPUT_DIR/{_ORDER}` a JSON list with one object for each group: "
            '`{"changes": ["ID", …], "reason": "…"}`, all ids of the group in your order. Your branch has the code before '
            "these fixes. Do not change it. Then stop."
        )
        return "\n\n".join(parts)


def can_advise(kind: str | None) -> bool:
    """True when an agent kind can be asked for advice."""
    return kind is not None and kind not in KINDS_WITHOUT_ANSWERS


class _AdviceRecipe(UncheckedRecipe):
    """The recipe of a question: one task whose answer is a file."""

    def __init__(self, slug: str, base: str, prompt: str, read_answer: Callable[[str], Judgement]) -> None:
        self.slug = slug
        self._base = base
        self._prompt = prompt
        self._read = read_answer

    def has_task(self, slug: str) -> bool:
        """True when the slug is this question's."""
        return slug == self.slug

    def plan_rows(self, state: RunState) -> list[NewTaskRow]:
        """Return the question's task, if it does not exist yet."""
        if self.slug in state.tasks:
            return []
        return [NewTaskRow(task=Task(slug=self.slug, title=self.slug, usage_purpose="advice"))]

    def choose_base(self, task: TaskState) -> str | None:
        """Return the code before all changes."""
        return self._base

    def build_prompt(self, task: TaskState) -> str:
        """Return the question as a prompt."""
        job = {"job": "advice", "task": self.slug, "test": "", "command": []}
        return f"{self._prompt}\n\n```mngr-job\n{json.dumps(job)}\n```\n"

    def judge(self, task: TaskState, folder: str, *, alive: bool) -> Judgement:
        """Return the answer, or the problem with the answer's file."""
        return self._read(os.path.join(folder, "outputs"))

    def decide_outcome(self, task: TaskState) -> tuple[str, str | None]:
        """Return "advised", or "failed" with the reason if there is no answer."""
        if task.claim.get("order") or task.claim.get("prose"):
            return "advised", None
        problem = task.problem or task.close_reason or "the agent did not answer"
        return "failed", clean_untrusted_text.clean_line(problem.partition("\n")[0])


def _make_order_reader(groups: Sequence[Sequence[Change]]) -> Callable[[str], Judgement]:
    expected = [sorted(change.id for change in group) for group in groups]

    def read(folder: str) -> Judgement:
        text = read_answer(os.path.join(folder, _ORDER))
        try:
            rows = [
                {
                    "changes": [str(name) for name in row["changes"]],
                    "reason": clean_untrusted_text.clean_line(str(row["reason"]), 300),
                }
                for row in parse_json(text)
            ]
        except (ValueError, TypeError, KeyError):
            return Judgement(problem=f"`$MNGR_OUTPUT_DIR/{_ORDER}` does not hold a JSON list in the requested form.")
        if sorted(sorted(row["changes"]) for row in rows) != sorted(expected):
            return Judgement(problem=f"`{_ORDER}` must have each id of each group exactly once, one object per group.")
        if not all(row["reason"] for row in rows):
            return Judgement(problem=f"Each group in `{_ORDER}` needs a reason of one sentence.")
        return Judgement(claim={"order": rows})

    return read


def _build_prose_prompt(text: str) -> str:
    return (
        "Below is the text of a pull request. Write a paragraph for its top: what the pull request does as a whole, and what a "
        f"reviewer should look at first. Use at most {_MAX_PROSE} characters of plain text. State only facts from the text or the "
        f"code. Do not praise.\n\n{quote_block(text, 'markdown')}\n\nWrite the paragraph to `$MNGR_OUTPUT_DIR/{_PROSE}`. Do not change the repository. Then stop."
    )


def _read_prose(folder: str) -> Judgement:
    text = read_answer(os.path.join(folder, _PROSE)).strip()
    if not text:
        return Judgement(problem=f"`$MNGR_OUTPUT_DIR/{_PROSE}` is missing or empty.")
    if len(text) > _MAX_PROSE:
        return Judgement(problem=f"`{_PROSE}` has {len(text)} characters. The limit is {_MAX_PROSE}.")
    return Judgement(claim={"prose": clean_untrusted_text.clean_body(text)})
