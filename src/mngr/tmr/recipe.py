"""The recipe for tests: a task for each, one for a cause that several share; what is claimed counts when we have seen it."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from typing import Any

from mngr.host.protocol import Host
from mngr.mapreduce.recipe import Judgement
from mngr.mapreduce.run_dir import RunDir, slug_of
from mngr.mapreduce.run_state import RunState, Task, TaskState
from mngr.tmr.changes.rejections import Reasons, concerning
from mngr.tmr.cleanroom.rooms import Rooms
from mngr.tmr.cleanroom.test_run import Test, TestRun, command
from mngr.tmr.commits.task_base import add_fix
from mngr.tmr.plan import Plan
from mngr.tmr.prepare import prompt as brief
from mngr.tmr.prepare.history import Memory
from mngr.tmr.prepare.prepare import Prepared, Standing
from mngr.tmr.result_cache import Shelf
from mngr.tmr.verify.claim import read_result
from mngr.tmr.verify.legacy.policy import DEFAULT, merged
from mngr.tmr.verify.receipt import Receipt
from mngr.tmr.verify.request import Claim, How
from mngr.tmr.verify.verify import verify

_NOT_WELL = ("blocked", "refuted", "flaky", "failed")
_CLAIMS = ("fixed", "improved", "unchanged")  # say that the test passes


class Tests:
    """One run on a project's tests."""

    def __init__(
        self, local: Host, run: RunDir, plan: Plan, prepared: Prepared, judges: Rooms, blocks: dict[str, str]
    ) -> None:
        self._local, self._run, self._plan, self._judges = local, run, plan, judges
        self._shelf = Shelf(run.root, "verify")
        self.seen: dict[tuple[str, str], list[TestRun]] = {}  # runs of receipts, by commit and test
        self._tests = prepared.tests
        self._chosen = prepared.chosen
        self._causes = prepared.causes
        self._blocks = blocks  # what each test cites
        self._template = brief.load(run.root)
        self._known = Memory(run.root).tests  # what earlier runs left
        self._refused = list(Reasons(run.root).read().values())
        self._base = plan.base
        self._shared = {test: cause["id"] for cause in prepared.causes for test in cause["tests"]}

    # What is to be done

    def more(self, state: RunState) -> list[dict[str, Any]]:
        """Causes and single tests at once; the witnesses of a cause when it is settled."""
        self._base = (state.facts.get("base") or [{"commit": self._plan.base}])[-1]["commit"]
        rows = [row for cause in self._causes for row in self._cause(state, cause)]
        held = {test for cause in self._causes for test in self._witnesses(cause)}
        for one in self._chosen:
            if one.test.id not in held:
                rows += self._task(state, one)
        return rows

    def _task(self, state: RunState, one: Standing) -> list[dict[str, Any]]:
        slug = slug_of(one.test.id)
        if slug in state.tasks:
            return []
        first = {"fail": 2, "flaky": 1}.get(one.verdict, 0)
        task = Task(slug=slug, title=one.test.id, seconds=one.seconds, first=first, data={"kind": "test"})
        return [{"type": "task", "task": task.to_dict()}]

    def _witnesses(self, cause: dict[str, Any]) -> list[str]:
        return [test for test in cause["tests"] if test in self._tests]

    def _cause(self, state: RunState, cause: dict[str, Any]) -> list[dict[str, Any]]:
        """The next try at a cause; once it is settled, what follows for its witnesses."""
        tries = [one for one in state.tasks.values() if one.task.data.get("cause") == cause["id"]]
        done = next((one for one in tries if _is_confirmed(one)), None)
        if done is not None:
            return self._freed(state, cause, done)
        if any(one.state != "settled" for one in tries):
            return []
        if len(tries) < self._plan.tries:
            name = f"cause-{cause['id']}-{len(tries) + 1}"
            data = {
                "kind": "cause",
                "cause": cause["id"],
                "about": cause["title"],
                "test": self._witnesses(cause)[0],
            }
            seconds = max(self._tests[test].seconds for test in self._witnesses(cause))
            task = Task(slug=name, title=name, seconds=seconds, first=3, data=data)
            return [{"type": "task", "task": task.to_dict()}]
        if any(row["cause"] == cause["id"] for row in state.facts.get("held", [])):
            return []
        why = tries[-1].reason or tries[-1].outcome
        return [{"type": "held", "cause": cause["id"], "tests": self._witnesses(cause), "why": why}]

    def _freed(self, state: RunState, cause: dict[str, Any], done: TaskState) -> list[dict[str, Any]]:
        """The base moves on; witnesses that are still wrong, and those that can be made better, get agents of their own."""
        rows: list[dict[str, Any]] = []
        if not any(row["by"] == done.task.slug for row in state.facts.get("base", [])):
            moved = add_fix(self._local, self._run, self._base, done)
            self._base = moved or self._base
            rows.append(
                {
                    "type": "base",
                    "by": done.task.slug,
                    "commit": self._base,
                    "added": moved is not None,
                }
            )
        wanted = {one.test.id: one for one in self._chosen}
        for test in self._witnesses(cause):
            if test in wanted and test != done.task.data["test"]:
                rows += self._task(state, wanted[test].replace(verdict="pass"))
        return rows

    # What agents are told

    def base(self, one: TaskState) -> str | None:
        """With the fixes that are confirmed so far; who is told to go on has a base."""
        return one.base if "who" in one.task.data else self._base

    def prompt(self, one: TaskState) -> str:
        """The brief, or what somebody wants of its work."""
        data = one.task.data
        if "tell" in data:
            return str(data["tell"])
        cause = None
        if data["kind"] == "cause":
            cause = next(cause for cause in self._causes if cause["id"] == data["cause"])
        return self.brief(
            self._tests[self._test(one)], one.task.title, cause, data.get("hint") or self._earlier(one)
        ).text

    def _earlier(self, one: TaskState) -> str:
        """How an earlier run ended with a test, if not well."""
        known = self._known.get(one.task.title)
        if known is None or known.outcome not in _NOT_WELL or not known.reason:
            return ""
        return f"An earlier run, {known.run}, ended here as {known.outcome}: {known.reason}"

    def brief(
        self, standing: Standing, task: str = "", cause: dict[str, Any] | None = None, hint: str = ""
    ) -> brief.Brief:
        """What an agent is told of a test."""
        test, evidence = standing.test.id, standing.evidence
        said = ""
        if evidence is not None:
            said = evidence.failures[0].text if evidence.failures else evidence.output
        return brief.compose(
            self._template, task=task or test, test=test, command=command(self._plan.pytest, self._plan.args, test),
            verdict=standing.verdict, block=self._blocks.get(test, ""), evidence=said,
            cause=cause["title"] if cause else "", hint=hint, tutorial=self._plan.tutorial, k=self._plan.k,
            witnesses=[name for name in self._witnesses(cause) if name != test] if cause else (),
            refused=concerning(self._refused, test, said),
        )  # fmt: skip

    def _test(self, one: TaskState) -> str:
        return str(one.task.data["test"]) if one.task.data["kind"] == "cause" else one.task.title

    # What came of it

    def judge(self, one: TaskState, folder: str, *, alive: bool) -> Judgement:
        """Whether the result is one."""
        found = read_result(os.path.join(folder, "outputs", "result.json"), one.task.title)
        if isinstance(found, list):
            return Judgement(problem=brief.remind(found))
        with open(os.path.join(folder, "result.json"), "w", encoding="utf-8") as file:
            json.dump(found.to_dict(), file, indent=1)
        if one.task.data.get("answered") == print_of(found.to_dict()):
            return Judgement(
                claim=found.to_dict(), problem=brief.remind(["result.json is still the one from before."])
            )
        return Judgement(claim=found.to_dict())

    def is_known(self, one: TaskState) -> bool:
        """Whether nothing was claimed, or nothing was changed since we saw it ourselves."""
        return not _has_claim(one) or self._is_untouched(one)

    def check(self, one: TaskState) -> dict[str, Any] | None:
        """The receipt: we run what was claimed. What nobody claims to pass is not run."""
        if not _has_claim(one) or one.commit is None:
            return None
        test = self._test(one)
        standing = self._tests[test]
        if self._is_untouched(one):
            receipt = self._untouched(standing, one.commit)
        else:
            others: list[Standing] = []
            if one.task.data["kind"] == "cause":
                cause = next(cause for cause in self._causes if cause["id"] == one.task.data["cause"])
                others = [self._tests[name] for name in self._witnesses(cause) if name != test]
            claim = Claim(
                test=standing.test, commit=one.commit, base=one.base or self._plan.base, witnesses=[other.test for other in others],
                result=one.claim, is_shared=bool(others), red=standing.evidence if one.base == self._plan.base else None,
            )  # fmt: skip
            keep = self._run.task(one.task.slug, "receipt")
            receipt = verify(
                self._judges,
                claim,
                self._how(one),
                source=self._run.repo,
                shelf=self._shelf,
                keep=keep,
                done=functools.partial(self._saw, one.commit),
            )
        row = receipt.to_dict()
        with open(self._run.task(one.task.slug, "receipt.json"), "w", encoding="utf-8") as file:
            json.dump(row, file, indent=1)
        return row

    def _is_untouched(self, one: TaskState) -> bool:
        return one.commit == one.base == self._plan.base

    def _how(self, one: TaskState) -> How:
        plan = self._plan
        seed = int(one.task.slug[-6:], 16) if one.task.data["kind"] == "test" else 0
        return How(
            pytest=plan.pytest, args=plan.args, k=plan.verify_k, timeout=plan.test_timeout, program=plan.program, level=plan.verify,
            seed=seed, policy=merged(DEFAULT, plan.policy),
        )  # fmt: skip

    def _untouched(self, standing: Standing, commit: str) -> Receipt:
        """The receipt of a test that nobody changed: its baseline."""
        verdict = {"pass": "confirmed", "flaky": "flaky"}.get(standing.verdict, "refuted")
        reason = f"nothing was changed, and untouched it was: {standing.verdict}"
        words = command(self._plan.pytest, self._plan.args, standing.test.id)
        return Receipt(
            test=standing.test.id,
            verdict=verdict,
            reason=reason,
            commit=commit,
            command=words,
            k=self._plan.k,
        )

    def _saw(self, commit: str, test: Test, ran: TestRun) -> None:
        self.seen.setdefault((commit, test.id), []).append(ran)

    def settle(self, one: TaskState) -> tuple[str, str | None]:
        """What was claimed, if it was seen; else what it is instead."""
        claimed = one.claim.get("outcome")
        if claimed is None:
            return "failed", one.claim.get("closed") or _problem(one) or "it left no result"
        if claimed not in _CLAIMS:
            return str(claimed), _first_line(one.claim.get("summary"))
        receipt = one.check or {"verdict": "unverified", "reason": "there is no commit"}
        if receipt["verdict"] == "confirmed":
            return str(claimed), _problem(one)
        return str(receipt["verdict"]), str(receipt["reason"])


def print_of(claim: dict[str, Any]) -> str:
    """What a result is known by."""
    return hashlib.sha256(json.dumps(claim, sort_keys=True).encode()).hexdigest()


def _has_claim(one: TaskState) -> bool:
    return one.claim.get("outcome") in _CLAIMS and one.commit is not None


def _is_confirmed(one: TaskState) -> bool:
    return one.state == "settled" and (one.check or {}).get("verdict") == "confirmed"


def _problem(one: TaskState) -> str | None:
    """What was wrong with what came home, without what its agent was told to do about it."""
    text = str(one.claim.get("problem") or "")
    listed = [line.removeprefix("- ") for line in text.splitlines() if line.startswith("- ")]
    return " ".join(listed)[:300] or _first_line(text)


def _first_line(text: object) -> str | None:
    lines = str(text or "").strip().splitlines()
    return lines[0].removeprefix("- ")[:300] if lines else None
