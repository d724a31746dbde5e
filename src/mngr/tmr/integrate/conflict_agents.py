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
from mngr.base.model import Record
from mngr.host import git
from mngr.host.protocol import Host
from mngr.mapreduce.governor import Limits
from mngr.mapreduce.hosts.pool import saved_agents
from mngr.mapreduce.recipe import Judgement
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_repo import keep
from mngr.mapreduce.run_state import RunState, Task, TaskState, add_usage
from mngr.tmr.changes.changes import Change
from mngr.tmr.cleanroom.test_run import command
from mngr.tmr.commits import hostile
from mngr.tmr.commits.trees import PLAIN, Row, blobs_of, rows_of, sizes_of, trees_of
from mngr.tmr.integrate.merge_tools import has_markers, marked
from mngr.tmr.integrate.questions import MINDLESS, SCRIPTED, ask, first_line, place_of
from mngr.tmr.plan import Plan
from mngr.tmr.prepare.prompt import quoted

_LARGEST = 8 << 20  # bytes of a file in which markers are looked for
_SHOWN = 5  # others whose changes are shown in full


class Item(Record):
    """A change that does not merge onto a commit, whose changes are in its way, and the tests that must pass."""

    change: Change
    head: str
    others: list[Change]
    tests: list[str]


class Mended(Record):
    """What came of it."""

    tree: str | None
    by: str = ""  # owner | integrator
    agent: str | None = None
    reason: str = ""  # why there is no tree
    usage: dict[str, Any] = {}


class _Case(Record):
    """An item as agents get it."""

    item: Item
    slug: str  # of the question, the same for the same head and change
    start: str  # the commit with markers
    paths: list[str]  # where
    tree: str  # of the head
    owner: str | None

    @property
    def rounds(self) -> list[tuple[str, str]]:
        """Who may be asked: owner or integrator, and the task's slug."""
        return [("owner", f"{self.slug}-own"), ("integrator", self.slug)]


def mend(
    fleet: Fleet, run: RunDir, plan: Plan, limits: Limits, items: Sequence[Item], agent: str | None,
    say: Callable[[dict[str, Any]], None],
) -> dict[str, Mended]:  # fmt: skip
    """Ask agents how changes are to be merged; an answer for each, by its id. `agent` is the kind of integrators, if any.

    `limits` are those of one question in time, and in money those of the whole run, of which what it has spent is taken off.
    """
    local, place = fleet.context.local, place_of(run)
    integrator = None if agent is None or agent in MINDLESS else agent
    owners, used = _owners(fleet, run, plan, items, is_played=agent == SCRIPTED)
    nobody = "there is nobody to ask: neither who made it nor an integrator has a mind of its own"
    found = {
        item.change.id: Mended(tree=None, reason=nobody)
        for item in items
        if integrator is None and owners.get(item.change.id) is None
    }
    asked = [
        _case(local, run, item, owners.get(item.change.id)) for item in items if item.change.id not in found
    ]
    if not asked:
        return found
    recipe = _Questions(local, place, plan, asked, integrator, used)
    state = ask(fleet, run, plan, limits, recipe, integrator, say)
    return found | {case.item.change.id: recipe.answer(state, case) for case in asked}


def _owners(
    fleet: Fleet, run: RunDir, plan: Plan, items: Sequence[Item], *, is_played: bool
) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    """Who made each change, if they can be asked, and what those have used so far."""
    if plan.transfer != "mirror":  # the user's own repository is where they work
        return {}, {}
    dull = MINDLESS if is_played else (*MINDLESS, SCRIPTED)
    saved = saved_agents(fleet, run, plan.on)
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


def _case(local: Host, run: RunDir, item: Item, owner: str | None) -> _Case:
    tree = str(trees_of(local, run.repo, [item.head])[0])
    start, paths = marked(local, run.repo, item.head, item.change)
    number = hashlib.sha256(f"{tree} {item.change.key}".encode()).hexdigest()[:6]
    slug = f"merge-{item.change.id}-{number}"
    keep(local, run, f"{slug}-start", start)
    return _Case(item=item, slug=slug, start=start, paths=paths, tree=tree, owner=owner)


class _Questions:
    """The recipe."""

    def __init__(
        self, local: Host, run: RunDir, plan: Plan, cases: Sequence[_Case], integrator: str | None,
        used: dict[str, dict[str, Any]],
    ) -> None:  # fmt: skip
        self._local, self._run, self._plan, self._integrator, self._used = local, run, plan, integrator, used
        self._cases = cases
        self._of = {slug: case for case in cases for _, slug in case.rounds}

    def knows(self, slug: str) -> bool:
        """Whether a task is about one of these."""
        return slug in self._of

    # What is asked

    def more(self, state: RunState) -> list[dict[str, Any]]:
        """For each the first who can be asked, and the next when that one did not know; nobody two things at once."""
        rows = []
        busy = {one.task.data.get("who") for one in state.tasks.values() if one.state != "settled"}
        for case in self._cases:
            for who, slug in case.rounds:
                one = state.tasks.get(slug)
                if one is None and self._is_there(case, who):
                    if who == "integrator" or case.owner not in busy:
                        rows.append(self._task(case, who, slug))
                        busy |= {case.owner} if who == "owner" else set()
                    break
                if one is not None and (one.state != "settled" or one.outcome == "merged"):
                    break
        return rows

    def _is_there(self, case: _Case, who: str) -> bool:
        return (case.owner if who == "owner" else self._integrator) is not None

    def _task(self, case: _Case, who: str, slug: str) -> dict[str, Any]:
        data: dict[str, Any] = {"spend": "conflicts", "change": case.item.change.id, "by": who}
        row: dict[str, Any] = {"type": "task"}
        if who == "owner" and case.owner is not None:
            data |= {"who": case.owner, "branch": f"mngr/{self._run.name}/{case.slug}"}
            row["own"] = self._used.get(case.owner) or {}
        title = f"merge {case.item.change.id}"
        return {**row, "task": Task(slug=slug, title=title, data=data).to_dict()}

    def base(self, one: TaskState) -> str | None:
        """The commit with markers."""
        return self._of[one.task.slug].start

    def prompt(self, one: TaskState) -> str:
        """Both sides, and what must hold."""
        case = self._of[one.task.slug]
        change, others = case.item.change, case.item.others
        branch = one.task.data.get("branch")
        is_owner = branch is not None
        begin = (
            f"It is in your repository: begin with `git switch -C {branch} {case.start}`."
            if is_owner
            else "Your branch begins with it."
        )
        parts = [
            f"{'A change that you made' if is_owner else 'A change'} does not merge with changes that were taken before it. Merge it.",
            f"The change is {change.id}, {hostile.clean(change.title)}:\n\n{self._diff(change)}",
        ]
        if not others:
            parts.append("What it does not merge with is the code itself, which has moved on.")
        for other in others[:_SHOWN]:
            parts.append(f"In its way is {other.id}, {hostile.clean(other.title)}:\n\n{self._diff(other)}")
        parts += [
            f"The commit {case.start} has everything that was taken before, and the change as far as git could put it there. {begin} "
            "What git could not merge is in these files, between `<<<<<<<` (what was taken before), `=======` and `>>>>>>>` (the change), "
            "or is in them as only one of the two wanted it:",
            _listed(case.paths),
            "Put both together, so that each does what it was made for. Leave no marker. Touch no other files than:",
            _listed(self._allowed(case)),
        ]
        if case.item.tests:
            line = command(self._plan.pytest, self._plan.args, "TEST")
            parts.append(f"These tests must pass; we run them ourselves (`{hostile.clean(' '.join(line))}`):")
            parts.append(_listed(case.item.tests))
        parts += [
            f"Commit it on {branch or 'your branch'}, with `--allow-empty` if all was right as it was. Then stop. If the two contradict each "
            f"other, commit nothing and write why, in a sentence, to `$MNGR_OUTPUT_DIR/{_NO.format(change.id)}`. Then stop.",
            f"```mngr-job\n{json.dumps(self._job(case, one))}\n```",
        ]
        return "\n\n".join(parts) + "\n"

    def _job(self, case: _Case, one: TaskState) -> dict[str, Any]:
        test = case.item.tests[0] if case.item.tests else ""
        return {
            "job": "merge", "task": one.task.slug, "test": test, "paths": case.paths, "commit": case.start,
            "command": command(self._plan.pytest, self._plan.args, test) if test else [],
        }  # fmt: skip

    def _diff(self, change: Change) -> str:
        words = ("diff-tree", "-p", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames")
        done = git.run(self._local, self._run.repo, *PLAIN, *words, change.parent, change.commit)
        return quoted(done.out.decode("utf-8", "replace"), "diff")

    # What came of it

    def judge(self, one: TaskState, folder: str, *, alive: bool) -> Judgement:
        """Whether both sides are in one tree now."""
        case = self._of[one.task.slug]
        reason = first_line(os.path.join(folder, "outputs", _NO.format(case.item.change.id)))
        if reason:
            return Judgement(claim={"no": reason})
        commit = git.resolve(self._local, self._run.repo, self._run.ref(one.task.slug))
        if commit is None or commit == case.start:
            return Judgement(problem=_remind("there is no new commit where you were asked to make one"))
        repo = self._run.repo
        if git.run(self._local, repo, "merge-base", "--is-ancestor", case.start, commit).code:
            return Judgement(problem=_remind(f"the commit {commit[:12]} does not stand on {case.start}"))
        tree = str(trees_of(self._local, repo, [commit])[0])
        rows = rows_of(self._local, repo, [(case.tree, tree)])[0]
        return self._seen(case, tree, rows)

    def _seen(self, case: _Case, tree: str, rows: Sequence[Row]) -> Judgement:
        refused = self._refused(rows)
        if refused:
            return Judgement(claim={"no": f"refused: {refused}"})
        if not rows:
            return Judgement(claim={"no": "nothing of the change is left in what came of it"})
        allowed = self._allowed(case)
        beside = [hostile.clean(row.path) for row in rows if row.path not in allowed]
        if beside:
            return Judgement(
                problem=_remind(
                    f"you touched files that neither side touched, take that back: {', '.join(beside[:5])}"
                )
            )
        left = self._with_markers(case, rows)
        if left:
            return Judgement(problem=_remind(f"there are markers left in {', '.join(left[:5])}"))
        return Judgement(claim={"tree": tree})

    def _refused(self, rows: Sequence[Row]) -> str:
        repo = self._run.repo
        real = [row for row in rows if row.new_mode not in ("000000", "160000")]
        sizes = sizes_of(self._local, repo, (row.new for row in real))
        targets = blobs_of(self._local, repo, (row.new for row in real if row.new_mode == hostile.LINK), 4096)
        found = hostile.refusals(rows, sizes, targets)
        return f"{found[0].path}: {found[0].what}" if found else ""

    def _allowed(self, case: _Case) -> list[str]:
        some = {path for change in (case.item.change, *case.item.others) for path in change.paths}
        return sorted(some.union(case.paths))

    def _with_markers(self, case: _Case, rows: Sequence[Row]) -> list[str]:
        """The files with lines that neither side had."""
        local, repo = self._local, self._run.repo
        theirs = str(trees_of(local, repo, [case.item.change.commit])[0])
        other = {row.path: row.old for row in rows_of(local, repo, [(theirs, case.tree)])[0]}
        texts = blobs_of(
            local, repo, {name for row in rows for name in (row.old, row.new, other.get(row.path, row.old))}, _LARGEST
        )  # fmt: skip
        return [
            hostile.clean(row.path)
            for row in rows
            if row.new in texts
            and has_markers(
                texts[row.new], [texts.get(row.old, b""), texts.get(other.get(row.path, row.old), b"")]
            )
        ]

    def is_known(self, one: TaskState) -> bool:
        """The tests are run by whoever asked."""
        return True

    def check(self, one: TaskState) -> dict[str, Any] | None:
        """Nothing more than what was seen."""
        return None

    def settle(self, one: TaskState) -> tuple[str, str | None]:
        """merged, unmerged, or failed where nobody answered."""
        if one.claim.get("tree"):
            return "merged", None
        if one.claim.get("no"):
            return "unmerged", hostile.clean(str(one.claim["no"]))
        problem = str(one.claim.get("problem") or "").partition("\n")[0].removeprefix(_BEFORE)
        return "failed", hostile.clean(problem or str(one.claim.get("closed") or "it did not answer"))

    def answer(self, state: RunState, case: _Case) -> Mended:
        """What is known of a case."""
        usage: dict[str, Any] = {}
        reasons = []
        for who, slug in case.rounds:
            one = state.tasks.get(slug)
            if one is None:
                continue
            usage = add_usage(usage, one.usage) if one.usage else usage
            if one.outcome == "merged":
                return Mended(tree=one.claim["tree"], by=who, agent=one.agent, usage=usage)
            why = one.reason or ("it is not over" if one.state != "settled" else one.outcome)
            reasons.append(f"{one.agent or who}: {why}")
        return Mended(tree=None, reason="; ".join(reasons) or "nobody was asked", usage=usage)


_NO = "merge-{}.txt"
_BEFORE = "This is not merged yet: "


def _remind(problem: str) -> str:
    return f"{_BEFORE}{problem}\nMend that, commit, and stop.\n"


def _listed(names: Sequence[str]) -> str:
    return "\n".join(f"- {hostile.clean(name)}" for name in names)
