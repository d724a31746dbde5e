"""The recipe for tests: a task for each, one for a cause that several share; what is claimed counts when we have seen it."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from typing import Any

from mngr.host.protocol import Host
from mngr.mapreduce.recipe import Judgement
from mngr.mapreduce.run_dir import RunDir, make_slug
from mngr.mapreduce.run_state import RunState, Task, TaskState
from mngr.tmr.changes.rejections import RejectionFile, list_relevant_rejections
from mngr.tmr.cleanroom.clean_rooms import CleanRoomPool
from mngr.tmr.cleanroom.test_run import TestFunction, TestRun, build_command
from mngr.tmr.commits.task_base import add_fix
from mngr.tmr.plan import RunPlan
from mngr.tmr.prepare import prompt as brief
from mngr.tmr.prepare.history import RunHistory
from mngr.tmr.prepare.prepare import BaselineResult, PreparedTests
from mngr.tmr.result_cache import ResultCache
from mngr.tmr.verify.claim import read_claim
from mngr.tmr.verify.legacy.policy import DEFAULT, merged
from mngr.tmr.verify.receipt import Receipt
from mngr.tmr.verify.request import VerifyOptions, VerifyRequest
from mngr.tmr.verify.verify import verify

_UNSUCCESSFUL_OUTCOMES = ("blocked", "refuted", "flaky", "failed")
_PASSING_CLAIMS = ("fixed", "improved", "unchanged")  # say that the test passes


class TmrRecipe:
    """One run on a project's tests."""

    def __init__(
        self,
        local: Host,
        run: RunDir,
        plan: RunPlan,
        prepared: PreparedTests,
        judges: CleanRoomPool,
        blocks: dict[str, str],
    ) -> None:
        self._local, self._run, self._plan, self._judges = local, run, plan, judges
        self._cache = ResultCache(run.root, "verify")
        self.receipt_runs: dict[tuple[str, str], list[TestRun]] = {}  # runs of receipts, by commit and test
        self._tests = prepared.tests
        self._selected_tests = prepared.selected_tests
        self._root_causes = prepared.root_causes
        self._blocks = blocks  # what each test cites
        self._template = brief.load_template(run.root)
        self._history = RunHistory(run.root).tests  # what earlier runs left
        self._rejections = list(RejectionFile(run.root).read().values())
        self._base = plan.base
        self._root_cause_ids = {test: cause["id"] for cause in prepared.root_causes for test in cause["tests"]}

    # What is to be done

    def plan_rows(self, state: RunState) -> list[dict[str, Any]]:
        """Causes and single tests at once; the witnesses of a cause when it is settled."""
        self._base = (state.recipe_rows.get("base") or [{"commit": self._plan.base}])[-1]["commit"]
        rows = [row for cause in self._root_causes for row in self._plan_root_cause(state, cause)]
        held = {test for cause in self._root_causes for test in self._list_affected_tests(cause)}
        for one in self._selected_tests:
            if one.test.id not in held:
                rows += self._plan_test(state, one)
        return rows

    def _plan_test(self, state: RunState, one: BaselineResult) -> list[dict[str, Any]]:
        slug = make_slug(one.test.id)
        if slug in state.tasks:
            return []
        first = {"fail": 2, "flaky": 1}.get(one.verdict, 0)
        task = Task(slug=slug, title=one.test.id, seconds=one.seconds, first=first, data={"kind": "test"})
        return [{"type": "task", "task": task.to_dict()}]

    def _list_affected_tests(self, cause: dict[str, Any]) -> list[str]:
        return [test for test in cause["tests"] if test in self._tests]

    def _plan_root_cause(self, state: RunState, cause: dict[str, Any]) -> list[dict[str, Any]]:
        """The next try at a cause; once it is settled, what follows for its witnesses."""
        tries = [one for one in state.tasks.values() if one.task.data.get("cause") == cause["id"]]
        done = next((one for one in tries if _is_confirmed(one)), None)
        if done is not None:
            return self._plan_affected_tests(state, cause, done)
        if any(one.state != "settled" for one in tries):
            return []
        if len(tries) < self._plan.tries:
            name = f"cause-{cause['id']}-{len(tries) + 1}"
            data = {
                "kind": "cause",
                "cause": cause["id"],
                "about": cause["title"],
                "test": self._list_affected_tests(cause)[0],
            }
            seconds = max(self._tests[test].seconds for test in self._list_affected_tests(cause))
            task = Task(slug=name, title=name, seconds=seconds, first=3, data=data)
            return [{"type": "task", "task": task.to_dict()}]
        if any(row["cause"] == cause["id"] for row in state.recipe_rows.get("held", [])):
            return []
        why = tries[-1].reason or tries[-1].outcome
        return [{"type": "held", "cause": cause["id"], "tests": self._list_affected_tests(cause), "why": why}]

    def _plan_affected_tests(self, state: RunState, cause: dict[str, Any], done: TaskState) -> list[dict[str, Any]]:
        """The base moves on; witnesses that are still wrong, and those that can be made better, get agents of their own."""
        rows: list[dict[str, Any]] = []
        if not any(row["by"] == done.task.slug for row in state.recipe_rows.get("base", [])):
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
        wanted = {one.test.id: one for one in self._selected_tests}
        for test in self._list_affected_tests(cause):
            if test in wanted and test != done.task.data["test"]:
                rows += self._plan_test(state, wanted[test].replace(verdict="pass"))
        return rows

    # What agents are told

    def choose_base(self, one: TaskState) -> str | None:
        """With the fixes that are confirmed so far; who is told to go on has a base."""
        return one.base if "who" in one.task.data else self._base

    def build_prompt(self, one: TaskState) -> str:
        """The brief, or what somebody wants of its work."""
        data = one.task.data
        if "tell" in data:
            return str(data["tell"])
        cause = None
        if data["kind"] == "cause":
            cause = next(cause for cause in self._root_causes if cause["id"] == data["cause"])
        return self.build_test_prompt(
            self._tests[self._get_test_id(one)],
            one.task.title,
            cause,
            data.get("hint") or self._describe_earlier_run(one),
        ).text

    def _describe_earlier_run(self, one: TaskState) -> str:
        """How an earlier run ended with a test, if not well."""
        known = self._history.get(one.task.title)
        if known is None or known.outcome not in _UNSUCCESSFUL_OUTCOMES or not known.reason:
            return ""
        return f"An earlier run, {known.run}, ended here as {known.outcome}: {known.reason}"

    def build_test_prompt(
        self, standing: BaselineResult, task: str = "", cause: dict[str, Any] | None = None, hint: str = ""
    ) -> brief.Prompt:
        """What an agent is told of a test."""
        test, evidence = standing.test.id, standing.failing_run
        said = ""
        if evidence is not None:
            said = evidence.failures[0].text if evidence.failures else evidence.output
        return brief.build_prompt(
            self._template, task=task or test, test=test, command=build_command(self._plan.pytest, self._plan.args, test),
            verdict=standing.verdict, block=self._blocks.get(test, ""), evidence=said,
            cause=cause["title"] if cause else "", hint=hint, tutorial=self._plan.tutorial, k=self._plan.k,
            witnesses=[name for name in self._list_affected_tests(cause) if name != test] if cause else (),
            refused=list_relevant_rejections(self._rejections, test, said),
        )  # fmt: skip

    def _get_test_id(self, one: TaskState) -> str:
        return str(one.task.data["test"]) if one.task.data["kind"] == "cause" else one.task.title

    # What came of it

    def judge(self, one: TaskState, folder: str, *, alive: bool) -> Judgement:
        """Whether the result is one."""
        found = read_claim(os.path.join(folder, "outputs", "result.json"), one.task.title)
        if isinstance(found, list):
            return Judgement(problem=brief.build_reminder(found))
        with open(os.path.join(folder, "result.json"), "w", encoding="utf-8") as file:
            json.dump(found.to_dict(), file, indent=1)
        if one.task.data.get("answered") == fingerprint_claim(found.to_dict()):
            return Judgement(
                claim=found.to_dict(),
                problem=brief.build_reminder(["result.json is still the one from before."]),
            )
        return Judgement(claim=found.to_dict())

    def can_check_without_run(self, one: TaskState) -> bool:
        """Whether nothing was claimed, or nothing was changed since we saw it ourselves."""
        return not _is_claimed_passing(one) or self._is_untouched(one)

    def check(self, one: TaskState) -> dict[str, Any] | None:
        """The receipt: we run what was claimed. What nobody claims to pass is not run."""
        if not _is_claimed_passing(one) or one.commit is None:
            return None
        test = self._get_test_id(one)
        standing = self._tests[test]
        if self._is_untouched(one):
            receipt = self._make_baseline_receipt(standing, one.commit)
        else:
            others: list[BaselineResult] = []
            if one.task.data["kind"] == "cause":
                cause = next(cause for cause in self._root_causes if cause["id"] == one.task.data["cause"])
                others = [self._tests[name] for name in self._list_affected_tests(cause) if name != test]
            claim = VerifyRequest(
                test=standing.test, commit=one.commit, base=one.base or self._plan.base, affected_tests=[other.test for other in others],
                claim=one.claim, is_shared=bool(others), base_run=standing.failing_run if one.base == self._plan.base else None,
            )  # fmt: skip
            keep = self._run.task_path(one.task.slug, "receipt")
            receipt = verify(
                self._judges,
                claim,
                self._build_verify_options(one),
                source=self._run.repo,
                shelf=self._cache,
                keep=keep,
                done=functools.partial(self._record_run, one.commit),
            )
        row = receipt.to_dict()
        with open(self._run.task_path(one.task.slug, "receipt.json"), "w", encoding="utf-8") as file:
            json.dump(row, file, indent=1)
        return row

    def _is_untouched(self, one: TaskState) -> bool:
        return one.commit == one.base == self._plan.base

    def _build_verify_options(self, one: TaskState) -> VerifyOptions:
        plan = self._plan
        seed = int(one.task.slug[-6:], 16) if one.task.data["kind"] == "test" else 0
        return VerifyOptions(
            pytest=plan.pytest, args=plan.args, runs=plan.verify_k, timeout=plan.test_timeout, program=plan.program, level=plan.verify,
            seed=seed, policy=merged(DEFAULT, plan.policy),
        )  # fmt: skip

    def _make_baseline_receipt(self, standing: BaselineResult, commit: str) -> Receipt:
        """The receipt of a test that nobody changed: its baseline."""
        verdict = {"pass": "confirmed", "flaky": "flaky"}.get(standing.verdict, "refuted")
        reason = f"nothing was changed, and untouched it was: {standing.verdict}"
        words = build_command(self._plan.pytest, self._plan.args, standing.test.id)
        return Receipt(
            test=standing.test.id,
            verdict=verdict,
            reason=reason,
            commit=commit,
            command=words,
            k=self._plan.k,
        )

    def _record_run(self, commit: str, test: TestFunction, ran: TestRun) -> None:
        self.receipt_runs.setdefault((commit, test.id), []).append(ran)

    def decide_outcome(self, one: TaskState) -> tuple[str, str | None]:
        """What was claimed, if it was seen; else what it is instead."""
        claimed = one.claim.get("outcome")
        if claimed is None:
            return "failed", one.claim.get("closed") or _find_problem(one) or "it left no result"
        if claimed not in _PASSING_CLAIMS:
            return str(claimed), _first_line(one.claim.get("summary"))
        receipt = one.check or {"verdict": "unverified", "reason": "there is no commit"}
        if receipt["verdict"] == "confirmed":
            return str(claimed), _find_problem(one)
        return str(receipt["verdict"]), str(receipt["reason"])


def fingerprint_claim(claim: dict[str, Any]) -> str:
    """What a result is known by."""
    return hashlib.sha256(json.dumps(claim, sort_keys=True).encode()).hexdigest()


def _is_claimed_passing(one: TaskState) -> bool:
    return one.claim.get("outcome") in _PASSING_CLAIMS and one.commit is not None


def _is_confirmed(one: TaskState) -> bool:
    return one.state == "settled" and (one.check or {}).get("verdict") == "confirmed"


def _find_problem(one: TaskState) -> str | None:
    """What was wrong with what came home, without what its agent was told to do about it."""
    text = str(one.claim.get("problem") or "")
    listed = [line.removeprefix("- ") for line in text.splitlines() if line.startswith("- ")]
    return " ".join(listed)[:300] or _first_line(text)


def _first_line(text: object) -> str | None:
    lines = str(text or "").strip().splitlines()
    return lines[0].removeprefix("- ")[:300] if lines else None
