"""The recipe for tests: a task for each test and one for each root cause.

A claim counts only after mngr verified it.
"""

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
_PASSING_CLAIMS = ("fixed", "improved", "unchanged")  # claims that say that the test passes


class TmrRecipe:
    """The recipe of one run on a project's tests."""

    def __init__(
        self,
        local: Host,
        run: RunDir,
        plan: RunPlan,
        prepared: PreparedTests,
        clean_rooms: CleanRoomPool,
        blocks: dict[str, str],
    ) -> None:
        self._local, self._run, self._plan, self._judges = local, run, plan, clean_rooms
        self._cache = ResultCache(run.root, "verify")
        self.receipt_runs: dict[tuple[str, str], list[TestRun]] = {}  # the runs behind the receipts, by commit and test
        self._tests = prepared.tests
        self._selected_tests = prepared.selected_tests
        self._root_causes = prepared.root_causes
        self._blocks = blocks  # test -> the tutorial blocks that it cites
        self._template = brief.load_template(run.root)
        self._history = RunHistory(run.root).tests  # test -> how an earlier run ended
        self._rejections = list(RejectionFile(run.root).read().values())
        self._base = plan.base
        self._root_cause_ids = {
            test: root_cause["id"] for root_cause in prepared.root_causes for test in root_cause["tests"]
        }

    # Planning

    def plan_rows(self, state: RunState) -> list[dict[str, Any]]:
        """Return tasks for root causes and single tests. Affected tests get tasks when their root cause is settled."""
        self._base = (state.recipe_rows.get("base") or [{"commit": self._plan.base}])[-1]["commit"]
        rows = [row for root_cause in self._root_causes for row in self._plan_root_cause(state, root_cause)]
        affected = {test for root_cause in self._root_causes for test in self._list_affected_tests(root_cause)}
        for baseline in self._selected_tests:
            if baseline.test.id not in affected:
                rows += self._plan_test(state, baseline)
        return rows

    def _plan_test(self, state: RunState, baseline: BaselineResult) -> list[dict[str, Any]]:
        """Return a new task for a test that has none."""
        slug = make_slug(baseline.test.id)
        if slug in state.tasks:
            return []
        priority = {"fail": 2, "flaky": 1}.get(baseline.verdict, 0)
        task = Task(slug=slug, title=baseline.test.id, seconds=baseline.seconds, first=priority, data={"kind": "test"})
        return [{"type": "task", "task": task.to_dict()}]

    def _list_affected_tests(self, root_cause: dict[str, Any]) -> list[str]:
        """Return the affected tests that this run knows."""
        return [test for test in root_cause["tests"] if test in self._tests]

    def _plan_root_cause(self, state: RunState, root_cause: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the next task for a root cause or, once it is settled, the rows for its affected tests."""
        attempts = [attempt for attempt in state.tasks.values() if attempt.task.data.get("cause") == root_cause["id"]]
        confirmed = next((attempt for attempt in attempts if _is_confirmed(attempt)), None)
        if confirmed is not None:
            return self._plan_affected_tests(state, root_cause, confirmed)
        if any(attempt.state != "settled" for attempt in attempts):
            return []
        if len(attempts) < self._plan.tries:
            name = f"cause-{root_cause['id']}-{len(attempts) + 1}"
            data = {
                "kind": "cause",
                "cause": root_cause["id"],
                "about": root_cause["title"],
                "test": self._list_affected_tests(root_cause)[0],
            }
            seconds = max(self._tests[test].seconds for test in self._list_affected_tests(root_cause))
            task = Task(slug=name, title=name, seconds=seconds, first=3, data=data)
            return [{"type": "task", "task": task.to_dict()}]
        if any(row["cause"] == root_cause["id"] for row in state.recipe_rows.get("held", [])):
            return []
        reason = attempts[-1].reason or attempts[-1].outcome
        return [
            {"type": "held", "cause": root_cause["id"], "tests": self._list_affected_tests(root_cause), "why": reason}
        ]

    def _plan_affected_tests(
        self, state: RunState, root_cause: dict[str, Any], fixed: TaskState
    ) -> list[dict[str, Any]]:
        """Add the confirmed fix to the base, and return tasks for the other affected tests that were selected."""
        rows: list[dict[str, Any]] = []
        if not any(row["by"] == fixed.task.slug for row in state.recipe_rows.get("base", [])):
            new_base = add_fix(self._local, self._run, self._base, fixed)
            self._base = new_base or self._base
            rows.append(
                {
                    "type": "base",
                    "by": fixed.task.slug,
                    "commit": self._base,
                    "added": new_base is not None,
                }
            )
        selected = {baseline.test.id: baseline for baseline in self._selected_tests}
        for test in self._list_affected_tests(root_cause):
            if test in selected and test != fixed.task.data["test"]:
                rows += self._plan_test(state, selected[test].replace(verdict="pass"))
        return rows

    # Prompts

    def choose_base(self, task: TaskState) -> str | None:
        """Return the base with all fixes confirmed so far. An existing agent keeps its own base."""
        return task.base if "who" in task.task.data else self._base

    def build_prompt(self, task: TaskState) -> str:
        """Return the prompt for a test or root cause, or a person's message about earlier work."""
        data = task.task.data
        if "tell" in data:
            return str(data["tell"])
        root_cause = None
        if data["kind"] == "cause":
            root_cause = next(root_cause for root_cause in self._root_causes if root_cause["id"] == data["cause"])
        return self.build_test_prompt(
            self._tests[self._get_test_id(task)],
            task.task.title,
            root_cause,
            data.get("hint") or self._describe_earlier_run(task),
        ).text

    def _describe_earlier_run(self, task: TaskState) -> str:
        """Return how an earlier run ended for the test, if it ended without success."""
        entry = self._history.get(task.task.title)
        if entry is None or entry.outcome not in _UNSUCCESSFUL_OUTCOMES or not entry.reason:
            return ""
        return f"An earlier run, {entry.run}, ended here as {entry.outcome}: {entry.reason}"

    def build_test_prompt(
        self, baseline: BaselineResult, task: str = "", root_cause: dict[str, Any] | None = None, hint: str = ""
    ) -> brief.Prompt:
        """Return the prompt for a test, with its baseline as evidence."""
        test, failing_run = baseline.test.id, baseline.failing_run
        failure_text = ""
        if failing_run is not None:
            failure_text = failing_run.failures[0].text if failing_run.failures else failing_run.output
        description = brief.TaskDescription(
            task=task or test, test=test, command=build_command(self._plan.pytest, self._plan.args, test),
            verdict=baseline.verdict, block=self._blocks.get(test, ""), evidence=failure_text,
            root_cause=root_cause["title"] if root_cause else "", hint=hint, tutorial=self._plan.tutorial, k=self._plan.k,
            affected_tests=[name for name in self._list_affected_tests(root_cause) if name != test] if root_cause else (),
            rejections=list_relevant_rejections(self._rejections, test, failure_text),
        )  # fmt: skip
        return brief.build_prompt(self._template, description)

    def _get_test_id(self, task: TaskState) -> str:
        """Return the test that the task's agent works on."""
        return str(task.task.data["test"]) if task.task.data["kind"] == "cause" else task.task.title

    # Results

    def judge(self, task: TaskState, folder: str, *, alive: bool) -> Judgement:
        """Read the agent's result file. Return its claim, or the problem that the agent must correct."""
        claim = read_claim(os.path.join(folder, "outputs", "result.json"), task.task.title)
        if isinstance(claim, list):
            return Judgement(problem=brief.build_reminder(claim))
        with open(os.path.join(folder, "result.json"), "w", encoding="utf-8") as file:
            json.dump(claim.to_dict(), file, indent=1)
        if task.task.data.get("answered") == fingerprint_claim(claim.to_dict()):
            return Judgement(
                claim=claim.to_dict(),
                problem=brief.build_reminder(["result.json is still the one from before."]),
            )
        return Judgement(claim=claim.to_dict())

    def can_check_without_run(self, task: TaskState) -> bool:
        """True when the agent claims no passing test, or changed nothing since the baseline."""
        return not _is_claimed_passing(task) or self._is_untouched(task)

    def check(self, task: TaskState) -> dict[str, Any] | None:
        """Re-run a claimed test and return the receipt. Return None when the agent does not claim that it passes."""
        if not _is_claimed_passing(task) or task.commit is None:
            return None
        test = self._get_test_id(task)
        baseline = self._tests[test]
        if self._is_untouched(task):
            receipt = self._make_baseline_receipt(baseline, task.commit)
        else:
            affected: list[BaselineResult] = []
            if task.task.data["kind"] == "cause":
                root_cause = next(
                    root_cause for root_cause in self._root_causes if root_cause["id"] == task.task.data["cause"]
                )
                affected = [self._tests[name] for name in self._list_affected_tests(root_cause) if name != test]
            request = VerifyRequest(
                test=baseline.test, commit=task.commit, base=task.base or self._plan.base, source=self._run.repo,
                affected_tests=[other.test for other in affected],
                claim=task.claim, is_shared=bool(affected), base_run=baseline.failing_run if task.base == self._plan.base else None,
            )  # fmt: skip
            receipt_dir = self._run.task_path(task.task.slug, "receipt")
            receipt = verify(
                self._judges,
                request,
                self._build_verify_options(task),
                cache=self._cache,
                artifacts_dir=receipt_dir,
                on_run=functools.partial(self._record_run, task.commit),
            )
        row = receipt.to_dict()
        with open(self._run.task_path(task.task.slug, "receipt.json"), "w", encoding="utf-8") as file:
            json.dump(row, file, indent=1)
        return row

    def _is_untouched(self, task: TaskState) -> bool:
        """True when the agent made no commit on the run's base."""
        return task.commit == task.base == self._plan.base

    def _build_verify_options(self, task: TaskState) -> VerifyOptions:
        plan = self._plan
        seed = int(task.task.slug[-6:], 16) if task.task.data["kind"] == "test" else 0
        return VerifyOptions(
            pytest=plan.pytest, args=plan.args, runs=plan.verify_k, timeout=plan.test_timeout, program=plan.program, level=plan.verify,
            seed=seed, policy=merged(DEFAULT, plan.policy),
        )  # fmt: skip

    def _make_baseline_receipt(self, baseline: BaselineResult, commit: str) -> Receipt:
        """Return the receipt of an unchanged test, which follows from its baseline."""
        verdict = {"pass": "confirmed", "flaky": "flaky"}.get(baseline.verdict, "refuted")
        reason = f"nothing was changed, and untouched it was: {baseline.verdict}"
        command = build_command(self._plan.pytest, self._plan.args, baseline.test.id)
        return Receipt(
            test=baseline.test.id,
            verdict=verdict,
            reason=reason,
            commit=commit,
            command=command,
            k=self._plan.k,
        )

    def _record_run(self, commit: str, test: TestFunction, test_run: TestRun) -> None:
        self.receipt_runs.setdefault((commit, test.id), []).append(test_run)

    def decide_outcome(self, task: TaskState) -> tuple[str, str | None]:
        """Return the claimed outcome if its receipt confirms it, else the receipt's verdict and reason."""
        claimed = task.claim.get("outcome")
        if claimed is None:
            return "failed", task.claim.get("closed") or _find_problem(task) or "it left no result"
        if claimed not in _PASSING_CLAIMS:
            return str(claimed), _first_line(task.claim.get("summary"))
        receipt = task.check or {"verdict": "unverified", "reason": "there is no commit"}
        if receipt["verdict"] == "confirmed":
            return str(claimed), _find_problem(task)
        return str(receipt["verdict"]), str(receipt["reason"])


def fingerprint_claim(claim: dict[str, Any]) -> str:
    """Return a hash that identifies a claim."""
    return hashlib.sha256(json.dumps(claim, sort_keys=True).encode()).hexdigest()


def _is_claimed_passing(task: TaskState) -> bool:
    return task.claim.get("outcome") in _PASSING_CLAIMS and task.commit is not None


def _is_confirmed(task: TaskState) -> bool:
    return task.state == "settled" and (task.check or {}).get("verdict") == "confirmed"


def _find_problem(task: TaskState) -> str | None:
    """Return what was wrong with the agent's work, without the instructions that the agent got about it."""
    text = str(task.claim.get("problem") or "")
    listed = [line.removeprefix("- ") for line in text.splitlines() if line.startswith("- ")]
    return " ".join(listed)[:300] or _first_line(text)


def _first_line(text: object) -> str | None:
    lines = str(text or "").strip().splitlines()
    return lines[0].removeprefix("- ")[:300] if lines else None
