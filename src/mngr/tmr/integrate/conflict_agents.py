"""Changes that do not merge, by agents: first the one that made it, then an integrator; an answer is looked at, not believed.

Each is a task of an engine with a journal of its own, `integrate/journal.jsonl`, so that limits, money, reminders and going on after
a crash are the same as for tests. A question that was settled once is not asked again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from typing import Any

from mngr.api import Fleet
from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.host import git
from mngr.host.protocol import Host
from mngr.mapreduce.governor import RunLimits
from mngr.mapreduce.hosts.pool import list_saved_agents
from mngr.mapreduce.recipe import Judgement
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_repo import pin_commit
from mngr.mapreduce.run_state import RunState, Task, TaskState, add_usage
from mngr.tmr.changes.changes import Change
from mngr.tmr.cleanroom.test_run import build_command
from mngr.tmr.commits import untrusted
from mngr.tmr.commits.trees import GIT_SAFE_ARGS, PathChange, diff_trees, list_trees, read_blobs, read_sizes
from mngr.tmr.integrate.merge_tools import commit_with_markers, has_markers
from mngr.tmr.integrate.questions import (
    KINDS_WITHOUT_ANSWERS,
    SCRIPTED,
    ask_agents,
    get_questions_dir,
    read_first_line,
)
from mngr.tmr.plan import RunPlan
from mngr.tmr.prepare.prompt import quote_block

_MAX_FILE_BYTES = 8 << 20  # bytes of a file in which markers are looked for
_MAX_FULL_CHANGES = 5  # others whose changes are shown in full


class UnmergedChange(Struct):
    """A change that does not merge onto a commit, whose changes are in its way, and the tests that must pass."""

    change: Change
    head: str
    others: list[Change]
    tests: list[str]


class ConflictResolution(Struct):
    """What came of it."""

    tree: str | None
    by: str = ""  # owner | integrator
    agent: str | None = None
    reason: str = ""  # why there is no tree
    usage: dict[str, Any] = {}


class _ConflictCase(Struct):
    """An item as agents get it."""

    item: UnmergedChange
    slug: str  # of the question, the same for the same head and change
    marked_commit: str  # the commit with markers
    paths: list[str]  # where
    tree: str  # of the head
    author_agent: str | None

    @property
    def rounds(self) -> list[tuple[str, str]]:
        """Who may be asked: owner or integrator, and the task's slug."""
        return [("owner", f"{self.slug}-own"), ("integrator", self.slug)]


def resolve_conflicts(
    fleet: Fleet, run: RunDir, plan: RunPlan, limits: RunLimits, items: Sequence[UnmergedChange], agent: str | None,
    say: Callable[[dict[str, Any]], None],
) -> dict[str, ConflictResolution]:  # fmt: skip
    """Ask agents how changes are to be merged; an answer for each, by its id. `agent` is the kind of integrators, if any.

    `limits` are those of one question in time, and in money those of the whole run, of which what it has spent is taken off.
    """
    local, place = fleet.context.local_host, get_questions_dir(run)
    integrator = None if agent is None or agent in KINDS_WITHOUT_ANSWERS else agent
    owners, used = _list_author_agents(fleet, run, plan, items, is_played=agent == SCRIPTED)
    nobody = "there is nobody to ask: neither who made it nor an integrator has a mind of its own"
    found = {
        item.change.id: ConflictResolution(tree=None, reason=nobody)
        for item in items
        if integrator is None and owners.get(item.change.id) is None
    }
    asked = [_make_case(local, run, item, owners.get(item.change.id)) for item in items if item.change.id not in found]
    if not asked:
        return found
    recipe = _ConflictRecipe(local, place, plan, asked, integrator, used)
    state = ask_agents(fleet, run, plan, limits, recipe, integrator, say)
    return found | {case.item.change.id: recipe.get_resolution(state, case) for case in asked}


def _list_author_agents(
    fleet: Fleet, run: RunDir, plan: RunPlan, items: Sequence[UnmergedChange], *, is_played: bool
) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    """Who made each change, if they can be asked, and what those have used so far."""
    if plan.transfer != "mirror":  # the user's own repository is where they work
        return {}, {}
    dull = KINDS_WITHOUT_ANSWERS if is_played else (*KINDS_WITHOUT_ANSWERS, SCRIPTED)
    saved = list_saved_agents(fleet, run, plan.on)
    able = {agent.name for agent in fleet.list().agents if agent.kind not in dull}
    able |= {name for name, grave in saved.items() if grave.kind not in dull}
    owners = {
        item.change.id: next(maker.agent for maker in item.change.made_by if maker.agent in able)
        for item in items
        if not able.isdisjoint(maker.agent for maker in item.change.made_by)
    }
    used: dict[str, dict[str, Any]] = {}
    for name in set(owners.values()):
        try:
            rows = fleet.usage(destroyed=True) if name in saved else fleet.usage([name])
            used[name] = next((row.to_dict() for row in rows if row.group == name), {})
        except MngrError:
            used[name] = {}
    return owners, used


def _make_case(local: Host, run: RunDir, item: UnmergedChange, owner: str | None) -> _ConflictCase:
    tree = str(list_trees(local, run.repo, [item.head])[0])
    start, paths = commit_with_markers(local, run.repo, item.head, item.change)
    number = hashlib.sha256(f"{tree} {item.change.key}".encode()).hexdigest()[:6]
    slug = f"merge-{item.change.id}-{number}"
    pin_commit(local, run, f"{slug}-start", start)
    return _ConflictCase(item=item, slug=slug, marked_commit=start, paths=paths, tree=tree, author_agent=owner)


class _ConflictRecipe:
    """The recipe."""

    def __init__(
        self, local: Host, run: RunDir, plan: RunPlan, cases: Sequence[_ConflictCase], integrator: str | None,
        used: dict[str, dict[str, Any]],
    ) -> None:  # fmt: skip
        self._local, self._run, self._plan, self._integrator, self._used = local, run, plan, integrator, used
        self._cases = cases
        self._case_by_slug = {slug: case for case in cases for _, slug in case.rounds}

    def has_task(self, slug: str) -> bool:
        """Whether a task is about one of these."""
        return slug in self._case_by_slug

    # What is asked

    def plan_rows(self, state: RunState) -> list[dict[str, Any]]:
        """For each the first who can be asked, and the next when that one did not know; nobody two things at once."""
        rows = []
        busy = {one.task.data.get("who") for one in state.tasks.values() if one.state != "settled"}
        for case in self._cases:
            for who, slug in case.rounds:
                one = state.tasks.get(slug)
                if one is None and self._is_available(case, who):
                    if who == "integrator" or case.author_agent not in busy:
                        rows.append(self._make_task(case, who, slug))
                        busy |= {case.author_agent} if who == "owner" else set()
                    break
                if one is not None and (one.state != "settled" or one.outcome == "merged"):
                    break
        return rows

    def _is_available(self, case: _ConflictCase, who: str) -> bool:
        return (case.author_agent if who == "owner" else self._integrator) is not None

    def _make_task(self, case: _ConflictCase, who: str, slug: str) -> dict[str, Any]:
        data: dict[str, Any] = {"spend": "conflicts", "change": case.item.change.id, "by": who}
        row: dict[str, Any] = {"type": "task"}
        if who == "owner" and case.author_agent is not None:
            data |= {"who": case.author_agent, "branch": f"mngr/{self._run.name}/{case.slug}"}
            row["own"] = self._used.get(case.author_agent) or {}
        title = f"merge {case.item.change.id}"
        return {**row, "task": Task(slug=slug, title=title, data=data).to_dict()}

    def choose_base(self, one: TaskState) -> str | None:
        """The commit with markers."""
        return self._case_by_slug[one.task.slug].marked_commit

    def build_prompt(self, one: TaskState) -> str:
        """Both sides, and what must hold."""
        case = self._case_by_slug[one.task.slug]
        change, others = case.item.change, case.item.others
        branch = one.task.data.get("branch")
        is_owner = branch is not None
        begin = (
            f"It is in your repository: begin with `git switch -C {branch} {case.marked_commit}`."
            if is_owner
            else "Your branch begins with it."
        )
        parts = [
            f"{'A change that you made' if is_owner else 'A change'} does not merge with changes that were taken before it. Merge it.",
            f"The change is {change.id}, {untrusted.clean_line(change.title)}:\n\n{self._read_diff(change)}",
        ]
        if not others:
            parts.append("What it does not merge with is the code itself, which has moved on.")
        for other in others[:_MAX_FULL_CHANGES]:
            parts.append(f"In its way is {other.id}, {untrusted.clean_line(other.title)}:\n\n{self._read_diff(other)}")
        parts += [
            f"The commit {case.marked_commit} has everything that was taken before, and the change as far as git could put it there. {begin} "
            "What git could not merge is in these files, between `<<<<<<<` (what was taken before), `=======` and `>>>>>>>` (the change), "
            "or is in them as only one of the two wanted it:",
            _format_list(case.paths),
            "Put both together, so that each does what it was made for. Leave no marker. Touch no other files than:",
            _format_list(self._list_allowed_paths(case)),
        ]
        if case.item.tests:
            line = build_command(self._plan.pytest, self._plan.args, "TEST")
            parts.append(f"These tests must pass; we run them ourselves (`{untrusted.clean_line(' '.join(line))}`):")
            parts.append(_format_list(case.item.tests))
        parts += [
            f"Commit it on {branch or 'your branch'}, with `--allow-empty` if all was right as it was. Then stop. If the two contradict each "
            f"other, commit nothing and write why, in a sentence, to `$MNGR_OUTPUT_DIR/{_REFUSAL_FILE.format(change.id)}`. Then stop.",
            f"```mngr-job\n{json.dumps(self._make_job(case, one))}\n```",
        ]
        return "\n\n".join(parts) + "\n"

    def _make_job(self, case: _ConflictCase, one: TaskState) -> dict[str, Any]:
        test = case.item.tests[0] if case.item.tests else ""
        return {
            "job": "merge", "task": one.task.slug, "test": test, "paths": case.paths, "commit": case.marked_commit,
            "command": build_command(self._plan.pytest, self._plan.args, test) if test else [],
        }  # fmt: skip

    def _read_diff(self, change: Change) -> str:
        words = ("diff-tree", "-p", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames")
        done = git.run(self._local, self._run.repo, *GIT_SAFE_ARGS, *words, change.parent, change.commit)
        return quote_block(done.out.decode("utf-8", "replace"), "diff")

    # What came of it

    def judge(self, one: TaskState, folder: str, *, alive: bool) -> Judgement:
        """Whether both sides are in one tree now."""
        case = self._case_by_slug[one.task.slug]
        reason = read_first_line(os.path.join(folder, "outputs", _REFUSAL_FILE.format(case.item.change.id)))
        if reason:
            return Judgement(claim={"no": reason})
        commit = git.find_commit(self._local, self._run.repo, self._run.ref_name(one.task.slug))
        if commit is None or commit == case.marked_commit:
            return Judgement(problem=_build_reminder("there is no new commit where you were asked to make one"))
        repo = self._run.repo
        if git.run(self._local, repo, "merge-base", "--is-ancestor", case.marked_commit, commit).code:
            return Judgement(
                problem=_build_reminder(f"the commit {commit[:12]} does not stand on {case.marked_commit}")
            )
        tree = str(list_trees(self._local, repo, [commit])[0])
        rows = diff_trees(self._local, repo, [(case.tree, tree)])[0]
        return self._judge_tree(case, tree, rows)

    def _judge_tree(self, case: _ConflictCase, tree: str, rows: Sequence[PathChange]) -> Judgement:
        refused = self._describe_refusals(rows)
        if refused:
            return Judgement(claim={"no": f"refused: {refused}"})
        if not rows:
            return Judgement(claim={"no": "nothing of the change is left in what came of it"})
        allowed = self._list_allowed_paths(case)
        beside = [untrusted.clean_line(row.path) for row in rows if row.path not in allowed]
        if beside:
            return Judgement(
                problem=_build_reminder(
                    f"you touched files that neither side touched, take that back: {', '.join(beside[:5])}"
                )
            )
        left = self._list_marked_files(case, rows)
        if left:
            return Judgement(problem=_build_reminder(f"there are markers left in {', '.join(left[:5])}"))
        return Judgement(claim={"tree": tree})

    def _describe_refusals(self, rows: Sequence[PathChange]) -> str:
        repo = self._run.repo
        real = [row for row in rows if row.new_mode not in ("000000", "160000")]
        sizes = read_sizes(self._local, repo, (row.new for row in real))
        targets = read_blobs(self._local, repo, (row.new for row in real if row.new_mode == untrusted.LINK_MODE), 4096)
        found = untrusted.list_refusals(rows, sizes, targets)
        return f"{found[0].path}: {found[0].what}" if found else ""

    def _list_allowed_paths(self, case: _ConflictCase) -> list[str]:
        some = {path for change in (case.item.change, *case.item.others) for path in change.paths}
        return sorted(some.union(case.paths))

    def _list_marked_files(self, case: _ConflictCase, rows: Sequence[PathChange]) -> list[str]:
        """The files with lines that neither side had."""
        local, repo = self._local, self._run.repo
        theirs = str(list_trees(local, repo, [case.item.change.commit])[0])
        other = {row.path: row.old for row in diff_trees(local, repo, [(theirs, case.tree)])[0]}
        texts = read_blobs(
            local, repo, {name for row in rows for name in (row.old, row.new, other.get(row.path, row.old))}, _MAX_FILE_BYTES
        )  # fmt: skip
        return [
            untrusted.clean_line(row.path)
            for row in rows
            if row.new in texts
            and has_markers(texts[row.new], [texts.get(row.old, b""), texts.get(other.get(row.path, row.old), b"")])
        ]

    def can_check_without_run(self, one: TaskState) -> bool:
        """The tests are run by whoever asked."""
        return True

    def check(self, one: TaskState) -> dict[str, Any] | None:
        """Nothing more than what was seen."""
        return None

    def decide_outcome(self, one: TaskState) -> tuple[str, str | None]:
        """merged, unmerged, or failed where nobody answered."""
        if one.claim.get("tree"):
            return "merged", None
        if one.claim.get("no"):
            return "unmerged", untrusted.clean_line(str(one.claim["no"]))
        problem = str(one.claim.get("problem") or "").partition("\n")[0].removeprefix(_REMINDER_PREFIX)
        return "failed", untrusted.clean_line(problem or str(one.claim.get("closed") or "it did not answer"))

    def get_resolution(self, state: RunState, case: _ConflictCase) -> ConflictResolution:
        """What is known of a case."""
        usage: dict[str, Any] = {}
        reasons = []
        for who, slug in case.rounds:
            one = state.tasks.get(slug)
            if one is None:
                continue
            usage = add_usage(usage, one.usage) if one.usage else usage
            if one.outcome == "merged":
                return ConflictResolution(tree=one.claim["tree"], by=who, agent=one.agent, usage=usage)
            why = one.reason or ("it is not over" if one.state != "settled" else one.outcome)
            reasons.append(f"{one.agent or who}: {why}")
        return ConflictResolution(tree=None, reason="; ".join(reasons) or "nobody was asked", usage=usage)


_REFUSAL_FILE = "merge-{}.txt"
_REMINDER_PREFIX = "This is not merged yet: "


def _build_reminder(problem: str) -> str:
    return f"{_REMINDER_PREFIX}{problem}\nMend that, commit, and stop.\n"


def _format_list(names: Sequence[str]) -> str:
    return "\n".join(f"- {untrusted.clean_line(name)}" for name in names)
