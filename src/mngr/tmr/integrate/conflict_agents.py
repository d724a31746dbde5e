"""Lets agents merge conflicting changes: first the author of the change, then an integrator agent.

Each conflict is a task in the journal of the questions (see `ask_agents.py`). mngr checks every answer.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence

from mngr.api import Fleet
from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.base.untrusted_json import get_text
from mngr.host import git
from mngr.host.protocol import Host
from mngr.mapreduce.governor import RunLimits
from mngr.mapreduce.hosts.pool import list_saved_agents
from mngr.mapreduce.journal.agent_usage import AgentUsage, add_usage
from mngr.mapreduce.journal.journal_rows import NewTaskRow
from mngr.mapreduce.journal.run_state import RunState, Task, TaskState
from mngr.mapreduce.measure_run_usage import make_usage
from mngr.mapreduce.recipe import Judgement, UncheckedRecipe
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_repo import pin_commit
from mngr.tmr.changes.collect_changes import Change
from mngr.tmr.commits import clean_untrusted_text, dangerous_files
from mngr.tmr.commits.trees import PathChange, diff_trees, list_trees, read_blobs, read_sizes
from mngr.tmr.integrate.ask_agents import (
    KINDS_WITHOUT_ANSWERS,
    SCRIPTED,
    RowListener,
    ask_agents,
    get_questions_dir,
    quote_diff,
    read_first_line,
)
from mngr.tmr.integrate.automatic_resolution import commit_with_markers, has_new_markers
from mngr.tmr.run_plan import RunPlan
from mngr.tmr.runners.choose_runner import choose_runner_of_plan

_MAX_FILE_BYTES = 8 << 20  # larger files are not searched for conflict markers
_MAX_FULL_CHANGES = 5  # conflicting changes whose diff is in the prompt


class UnmergedChange(Struct):
    """A change that conflicts with a commit, the changes in its way, and the tests that must pass."""

    change: Change
    head: str
    others: list[Change]
    tests: list[str]


class ConflictResolution(Struct):
    """The result of asking agents about a conflict."""

    tree: str | None
    by: str = ""  # owner | integrator
    agent: str | None = None
    reason: str = ""  # why there is no tree
    usage: AgentUsage = AgentUsage()


class _AuthorAgents(Struct):
    """The agents that made the changes and can be asked about them."""

    name_by_change: dict[str, str] = {}
    usage_by_name: Mapping[str, AgentUsage] = {}  # what these agents have used so far


class _ConflictCase(Struct):
    """A conflict as agents get it."""

    item: UnmergedChange
    slug: str  # slug of the question, the same for the same head and change
    marked_commit: str  # the commit with conflict markers
    paths: list[str]  # the paths with conflicts
    tree: str  # tree of the head
    author_agent: str | None

    @property
    def rounds(self) -> list[tuple[str, str]]:
        """The agents to ask, owner or integrator, each with its task's slug."""
        return [("owner", f"{self.slug}-own"), ("integrator", self.slug)]


def resolve_conflicts(
    fleet: Fleet,
    run: RunDir,
    plan: RunPlan,
    limits: RunLimits,
    items: Sequence[UnmergedChange],
    agent: str | None,
    on_row: RowListener,
) -> dict[str, ConflictResolution]:
    """Ask agents to merge changes. Return a resolution for each, by id. `agent` is the integrator's kind, if any.

    The time limits hold for one question. The budget is that of the whole run, minus what the run has spent.
    """
    local, questions_dir = fleet.context.local_host, get_questions_dir(run)
    integrator = None if agent is None or agent in KINDS_WITHOUT_ANSWERS else agent
    authors = _list_author_agents(fleet, run, plan, items, is_played=agent == SCRIPTED)
    nobody_reason = "there is no agent to ask: the agent that made it uses no model, and the run has no integrator"
    resolutions = {
        item.change.id: ConflictResolution(tree=None, reason=nobody_reason)
        for item in items
        if integrator is None and item.change.id not in authors.name_by_change
    }
    cases = [
        _make_case(local, run, item, authors.name_by_change.get(item.change.id))
        for item in items
        if item.change.id not in resolutions
    ]
    if not cases:
        return resolutions
    recipe = _ConflictRecipe(local, questions_dir, plan, cases, integrator, authors)
    state = ask_agents(fleet, run, plan, limits, recipe, integrator, on_row)
    return resolutions | {case.item.change.id: recipe.get_resolution(state, case) for case in cases}


def _list_author_agents(
    fleet: Fleet, run: RunDir, plan: RunPlan, items: Sequence[UnmergedChange], *, is_played: bool
) -> _AuthorAgents:
    """Return the author of each change that can be asked, and what these agents have used so far."""
    if plan.transfer != "mirror":  # these agents work in the user's own repository
        return _AuthorAgents()
    unable_kinds = KINDS_WITHOUT_ANSWERS if is_played else (*KINDS_WITHOUT_ANSWERS, SCRIPTED)
    saved = list_saved_agents(fleet, run, plan.on)
    able_names = {agent.name for agent in fleet.list().agents if agent.kind not in unable_kinds}
    able_names |= {name for name, trashed in saved.items() if trashed.kind not in unable_kinds}
    name_by_change: dict[str, str] = {}
    for item in items:
        able_authors = [author.agent for author in item.change.made_by if author.agent in able_names]
        if able_authors:
            name_by_change[item.change.id] = able_authors[0]
    names = set(name_by_change.values())
    usage_by_name = {name: _read_usage(fleet, name, is_destroyed=name in saved) for name in names}
    return _AuthorAgents(name_by_change=name_by_change, usage_by_name=usage_by_name)


def _read_usage(fleet: Fleet, name: str, *, is_destroyed: bool) -> AgentUsage:
    """Return what an agent has used so far. Nothing when that is unknown."""
    try:
        rows = fleet.usage(destroyed=True) if is_destroyed else fleet.usage([name])
    except MngrError:
        return AgentUsage()
    return next((make_usage(row) for row in rows if row.group == name), AgentUsage())


def _make_case(local: Host, run: RunDir, item: UnmergedChange, owner: str | None) -> _ConflictCase:
    """Return the case with a commit that has conflict markers."""
    tree = str(list_trees(local, run.repo, [item.head])[0])
    start, paths = commit_with_markers(local, run.repo, item.head, item.change)
    number = hashlib.sha256(f"{tree} {item.change.key}".encode()).hexdigest()[:6]
    slug = f"merge-{item.change.id}-{number}"
    pin_commit(local, run, f"{slug}-start", start)
    return _ConflictCase(item=item, slug=slug, marked_commit=start, paths=paths, tree=tree, author_agent=owner)


class _ConflictRecipe(UncheckedRecipe):
    """The recipe for merging conflicting changes."""

    def __init__(
        self,
        local: Host,
        run: RunDir,
        plan: RunPlan,
        cases: Sequence[_ConflictCase],
        integrator: str | None,
        authors: _AuthorAgents,
    ) -> None:
        self._local = local
        self._run = run
        self._plan = plan
        self._integrator = integrator
        self._authors = authors
        self._cases = cases
        self._case_by_slug = {slug: case for case in cases for _, slug in case.rounds}

    def has_task(self, slug: str) -> bool:
        """True when the task is about one of these conflicts."""
        return slug in self._case_by_slug

    # Questions

    def plan_rows(self, state: RunState) -> list[NewTaskRow]:
        """Return a task for the first agent to ask about each conflict, or the next if that one failed.

        No agent gets two questions at the same time.
        """
        rows = []
        busy = {task.task.existing_agent for task in state.tasks.values() if task.state != "settled"}
        for case in self._cases:
            for role, slug in case.rounds:
                task = state.tasks.get(slug)
                if task is None and self._is_available(case, role):
                    if role == "integrator" or case.author_agent not in busy:
                        rows.append(self._make_task(case, role, slug))
                        busy |= {case.author_agent} if role == "owner" else set()
                    break
                if task is not None and (task.state != "settled" or task.outcome == "merged"):
                    break
        return rows

    def _is_available(self, case: _ConflictCase, role: str) -> bool:
        return (case.author_agent if role == "owner" else self._integrator) is not None

    def _make_task(self, case: _ConflictCase, role: str, slug: str) -> NewTaskRow:
        task = Task(
            slug=slug,
            title=f"merge {case.item.change.id}",
            usage_purpose="conflicts",
            data={"change": case.item.change.id, "by": role},
        )
        if role != "owner" or case.author_agent is None:
            return NewTaskRow(task=task)
        task = task.replace(existing_agent=case.author_agent, branch=f"mngr/{self._run.name}/{case.slug}")
        return NewTaskRow(task=task, agent_usage=self._authors.usage_by_name.get(case.author_agent, AgentUsage()))

    def choose_base(self, task: TaskState) -> str | None:
        """Return the commit with conflict markers."""
        return self._case_by_slug[task.task.slug].marked_commit

    def build_prompt(self, task: TaskState) -> str:
        """Return the prompt with both sides of the conflict and the tests that must pass."""
        case = self._case_by_slug[task.task.slug]
        change, others = case.item.change, case.item.others
        branch = task.task.branch
        is_owner = branch is not None
        start_sentence = (
            f"The commit is in your repository. Start with `git switch -C {branch} {case.marked_commit}`."
            if is_owner
            else "Your branch starts at this commit."
        )
        parts = [
            f"{'A change that you made' if is_owner else 'A change'} conflicts with changes that are already in the branch. Merge it.",
            f"The change is {change.id}, {clean_untrusted_text.clean_line(change.title)}:\n\n{quote_diff(self._local, self._run.repo, change)}",
        ]
        if not others:
            parts.append("It conflicts with the code itself, which has changed since.")
        for other in others[:_MAX_FULL_CHANGES]:
            parts.append(
                f"It conflicts with the change {other.id}, {clean_untrusted_text.clean_line(other.title)}:\n\n{quote_diff(self._local, self._run.repo, other)}"
            )
        parts += [
            f"The commit {case.marked_commit} holds the branch, and the parts of the change that git could merge. {start_sentence} "
            "These files have conflicts. Conflict markers enclose the two versions: `<<<<<<<` (the branch), `=======`, `>>>>>>>` (the change). "
            "Where only one side has a file, git kept that version without markers:",
            _format_list(case.paths),
            "Combine both versions so that each keeps its purpose. Remove all markers. Edit only these files:",
            _format_list(self._list_allowed_paths(case)),
        ]
        if case.item.tests:
            command = choose_runner_of_plan(self._plan).command("TEST")
            parts.append(
                f"These tests must pass. mngr runs them after you (`{clean_untrusted_text.clean_line(' '.join(command))}`):"
            )
            parts.append(_format_list(case.item.tests))
        parts += [
            f"Commit the result on {branch or 'your branch'}, with `--allow-empty` if no edit was needed. Then stop. If the two changes contradict each "
            f"other, commit nothing and write the reason in one sentence to `$MNGR_OUTPUT_DIR/{_REFUSAL_FILE.format(change.id)}`. Then stop.",
            f"```mngr-job\n{json.dumps(self._make_job(case, task))}\n```",
        ]
        return "\n\n".join(parts) + "\n"

    def _make_job(self, case: _ConflictCase, task: TaskState) -> dict[str, object]:
        test = case.item.tests[0] if case.item.tests else ""
        return {
            "job": "merge",
            "task": task.task.slug,
            "test": test,
            "paths": case.paths,
            "commit": case.marked_commit,
            "command": choose_runner_of_plan(self._plan).command(test) if test else [],
        }

    # Answers

    def judge(self, task: TaskState, folder: str, *, alive: bool) -> Judgement:
        """Return the merged tree, the agent's refusal, or the problem that the agent must correct."""
        case = self._case_by_slug[task.task.slug]
        reason = read_first_line(os.path.join(folder, "outputs", _REFUSAL_FILE.format(case.item.change.id)))
        if reason:
            return Judgement(claim={"no": reason})
        commit = git.find_commit(self._local, self._run.repo, self._run.ref_name(task.task.slug), git.ISOLATED_GIT)
        if commit is None or commit == case.marked_commit:
            return Judgement(problem=_build_reminder("there is no new commit on the branch"))
        repo = self._run.repo
        if git.run(
            self._local, repo, "merge-base", "--is-ancestor", case.marked_commit, commit, git_command=git.ISOLATED_GIT
        ).code:
            return Judgement(problem=_build_reminder(f"the commit {commit[:12]} is not based on {case.marked_commit}"))
        tree = str(list_trees(self._local, repo, [commit])[0])
        rows = diff_trees(self._local, repo, [(case.tree, tree)])[0]
        return self._judge_tree(case, tree, rows)

    def _judge_tree(self, case: _ConflictCase, tree: str, rows: Sequence[PathChange]) -> Judgement:
        """Return the tree as the claim, unless its changes are refused, out of scope or still have markers."""
        refused = self._describe_refusals(rows)
        if refused:
            return Judgement(claim={"no": f"mngr rejects the merge: {refused}"})
        if not rows:
            return Judgement(claim={"no": "the merged version contains nothing of the change"})
        allowed = self._list_allowed_paths(case)
        out_of_scope = [clean_untrusted_text.clean_line(row.path) for row in rows if row.path not in allowed]
        if out_of_scope:
            return Judgement(
                problem=_build_reminder(
                    f"you edited files that neither change edits; undo these edits: {', '.join(out_of_scope[:5])}"
                )
            )
        marked = self._list_marked_files(case, rows)
        if marked:
            return Judgement(problem=_build_reminder(f"conflict markers are left in {', '.join(marked[:5])}"))
        return Judgement(claim={"tree": tree})

    def _describe_refusals(self, rows: Sequence[PathChange]) -> str:
        """Return why these changes are refused, or an empty string."""
        repo = self._run.repo
        blobs = [row for row in rows if row.new_mode not in ("000000", "160000")]
        sizes = read_sizes(self._local, repo, (row.new for row in blobs))
        targets = read_blobs(
            self._local, repo, (row.new for row in blobs if row.new_mode == dangerous_files.LINK_MODE), 4096
        )
        refusals = dangerous_files.list_refusals(rows, sizes, targets)
        return f"{refusals[0].path}: {refusals[0].what}" if refusals else ""

    def _list_allowed_paths(self, case: _ConflictCase) -> list[str]:
        """Return the paths that one of the sides touches."""
        paths = {path for change in (case.item.change, *case.item.others) for path in change.paths}
        return sorted(paths.union(case.paths))

    def _list_marked_files(self, case: _ConflictCase, rows: Sequence[PathChange]) -> list[str]:
        """Return the files with conflict markers that neither side had."""
        local, repo = self._local, self._run.repo
        change_tree = str(list_trees(local, repo, [case.item.change.commit])[0])
        change_blobs = {row.path: row.old for row in diff_trees(local, repo, [(change_tree, case.tree)])[0]}
        texts = read_blobs(
            local,
            repo,
            {name for row in rows for name in (row.old, row.new, change_blobs.get(row.path, row.old))},
            _MAX_FILE_BYTES,
        )
        return [
            clean_untrusted_text.clean_line(row.path)
            for row in rows
            if row.new in texts
            and has_new_markers(
                texts[row.new], [texts.get(row.old, b""), texts.get(change_blobs.get(row.path, row.old), b"")]
            )
        ]

    def decide_outcome(self, task: TaskState) -> tuple[str, str | None]:
        """Return "merged", "unmerged", or "failed" if there is no answer."""
        if task.claim.get("tree"):
            return "merged", None
        if task.claim.get("no"):
            return "unmerged", clean_untrusted_text.clean_line(str(task.claim["no"]))
        problem = (task.problem or "").partition("\n")[0].removeprefix(_REMINDER_PREFIX)
        return "failed", clean_untrusted_text.clean_line(problem or (task.close_reason or "the agent did not answer"))

    def get_resolution(self, state: RunState, case: _ConflictCase) -> ConflictResolution:
        """Return the merged tree of a case, or the reasons why there is none."""
        usage = AgentUsage()
        reasons = []
        for role, slug in case.rounds:
            task = state.tasks.get(slug)
            if task is None:
                continue
            usage = add_usage(usage, task.usage or AgentUsage())
            if task.outcome == "merged":
                return ConflictResolution(tree=get_text(task.claim, "tree"), by=role, agent=task.agent, usage=usage)
            reason = task.reason or ("the agent has not finished" if task.state != "settled" else task.outcome)
            reasons.append(f"{task.agent or role}: {reason}")
        return ConflictResolution(tree=None, reason="; ".join(reasons) or "mngr asked no agent", usage=usage)


_REFUSAL_FILE = "merge-{}.txt"
_REMINDER_PREFIX = "The conflict is not resolved yet: "


def _build_reminder(problem: str) -> str:
    return f"{_REMINDER_PREFIX}{problem}\nCorrect this, commit, and stop.\n"


def _format_list(names: Sequence[str]) -> str:
    return "\n".join(f"- {clean_untrusted_text.clean_line(name)}" for name in names)
