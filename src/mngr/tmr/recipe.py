"""The recipe for tests: a task for each test and one for each root cause.

A claim counts only after mngr verified it.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import os
from collections.abc import Mapping

from mngr.base.json_structs import encode, encode_briefly
from mngr.base.untrusted_json import get_text
from mngr.host.protocol import Host
from mngr.mapreduce.journal.journal_rows import NewTaskRow
from mngr.mapreduce.journal.run_state import JournalRow, RunState, Task, TaskState
from mngr.mapreduce.recipe import Judgement
from mngr.mapreduce.run_dir import RunDir, make_slug
from mngr.tmr.changes.rejection_reasons import RejectionFile, list_relevant_rejections
from mngr.tmr.cleanroom.clean_rooms import CleanRoomPool
from mngr.tmr.commits.base_for_later_tasks import add_fix
from mngr.tmr.commits.trees import list_trees
from mngr.tmr.prepare import prompt as prompts
from mngr.tmr.prepare.estimate import PlannedTask
from mngr.tmr.prepare.history.earlier_results import RunHistory
from mngr.tmr.prepare.journal_facts import BaseMoved, RootCauseGivenUp, list_facts
from mngr.tmr.prepare.prepare import BaselineResult, PreparedTests
from mngr.tmr.prepare.root_causes import RootCause
from mngr.tmr.prepare.verdict_of_one_test import FAILS_ALONE, FAILS_IN_SUITE, describe_runs, explain_verdict
from mngr.tmr.result_cache import ResultCache, get_cache_dir
from mngr.tmr.run_plan import RunPlan
from mngr.tmr.runners.choose_runner import choose_runner_of_plan
from mngr.tmr.runners.test_run import TestFunction, TestRun
from mngr.tmr.verify.claim import list_claimed_changes, read_claim
from mngr.tmr.verify.receipt import Receipt, find_verdict, make_receipt
from mngr.tmr.verify.rules.path_policy import DEFAULT_POLICY, extend_policy
from mngr.tmr.verify.verify import verify
from mngr.tmr.verify.verify_request import VerifyOptions, VerifyRequest

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
        self._local = local
        self._run = run
        self._plan = plan
        self._clean_rooms = clean_rooms
        self._cache = ResultCache(get_cache_dir(local.home, run.root), "verify")
        self.receipt_runs: dict[tuple[str, str], list[TestRun]] = {}  # the runs behind the receipts, by commit and test
        self._tests = prepared.tests
        self._selected_tests = prepared.selected_tests
        self._root_causes = prepared.root_causes
        self._blocks = blocks  # test -> the tutorial blocks that it cites
        self._template = prompts.load_template(run.root)
        self._history = RunHistory(local.home, run.root).tests  # test -> how an earlier run ended
        self._rejections = list(RejectionFile(local.home, run.root).read().values())
        self._base = plan.base
        affected = {test for root_cause in self._root_causes for test in self._list_affected_tests(root_cause)}
        # The tests that share no root cause: all of them get their task at once.
        self._single_tests = [baseline for baseline in self._selected_tests if baseline.test.id not in affected]
        self._finished_causes: set[tuple[str, bool]] = set()  # root cause and whether it is confirmed: nothing to plan
        self._tree_by_commit: dict[str, str] = {}

    # Planning

    def plan_rows(self, state: RunState) -> list[JournalRow]:
        """Return tasks for root causes and single tests. Affected tests get tasks when their root cause is settled."""
        moves = list_facts(state, BaseMoved)
        self._base = moves[-1].commit if moves else self._plan.base
        rows: list[JournalRow] = [*self._clean_rooms.hosts.list_new_rows()]
        rows += [row for root_cause in self._root_causes for row in self._plan_root_cause(state, root_cause)]
        # The scheduler asks in every turn. If the last test has its task, all others have theirs.
        if self._single_tests and make_slug(self._single_tests[-1].test.id) not in state.tasks:
            for baseline in self._single_tests:
                rows += self._plan_test(state, baseline)
        return rows

    def list_first_tasks(self) -> list[PlannedTask]:
        """Return the tasks that the run begins with."""
        tests_by_cause = {root_cause.id: self._list_affected_tests(root_cause) for root_cause in self._root_causes}
        tasks = [row.task for row in self.plan_rows(RunState()) if isinstance(row, NewTaskRow)]
        planned = []
        for task in tasks:
            cause = task.data.get("root_cause")
            tests = [task.title] if cause is None else tests_by_cause[cause]
            planned.append(PlannedTask(slug=task.slug, tests=tests, root_cause=cause, before=task.data["before"]))
        return planned

    def _plan_test(self, state: RunState, baseline: BaselineResult) -> list[JournalRow]:
        """Return a new task for a test that has none."""
        slug = make_slug(baseline.test.id)
        if slug in state.tasks:
            return []
        priority = {"fail": 2, "flaky": 1, FAILS_IN_SUITE: 1, FAILS_ALONE: 1}.get(baseline.verdict, 0)
        task = Task(
            slug=slug,
            title=baseline.test.id,
            expected_seconds=baseline.seconds,
            priority=priority,
            data={"kind": "test", "before": describe_runs(baseline.runs)},
        )
        return [NewTaskRow(task=task)]

    def _list_affected_tests(self, root_cause: RootCause) -> list[str]:
        """Return the affected tests that this run knows."""
        return [test for test in root_cause.tests if test in self._tests]

    def _plan_root_cause(self, state: RunState, root_cause: RootCause) -> list[JournalRow]:
        """Return the next task for a root cause or, once it is settled, the rows for its affected tests."""
        names = (f"cause-{root_cause.id}-{number}" for number in itertools.count(1))
        attempts = [state.tasks[name] for name in itertools.takewhile(state.tasks.__contains__, names)]
        confirmed = next((attempt for attempt in attempts if _is_confirmed(attempt)), None)
        if (root_cause.id, confirmed is not None) in self._finished_causes:
            return []
        if confirmed is not None:
            rows = self._plan_affected_tests(state, root_cause, confirmed)
            if not rows:
                self._finished_causes.add((root_cause.id, True))
            return rows
        if any(attempt.state != "settled" for attempt in attempts):
            return []
        if len(attempts) < self._plan.root_cause_attempts:
            name = f"cause-{root_cause.id}-{len(attempts) + 1}"
            affected = self._list_affected_tests(root_cause)
            data = {
                "kind": "root_cause",
                "root_cause": root_cause.id,
                "about": root_cause.title,
                "test": affected[0],
                "before": describe_runs(self._tests[affected[0]].runs),
            }
            seconds = max(self._tests[test].seconds for test in affected)
            task = Task(slug=name, title=name, expected_seconds=seconds, priority=3, data=data)
            return [NewTaskRow(task=task)]
        if any(fact.root_cause == root_cause.id for fact in list_facts(state, RootCauseGivenUp)):
            self._finished_causes.add((root_cause.id, False))
            return []
        reason = attempts[-1].reason or attempts[-1].outcome
        return [
            RootCauseGivenUp(root_cause=root_cause.id, tests=self._list_affected_tests(root_cause), why=reason).to_row()
        ]

    def _plan_affected_tests(self, state: RunState, root_cause: RootCause, fixed: TaskState) -> list[JournalRow]:
        """Add the confirmed fix to the base, and return tasks for the other affected tests that were selected."""
        rows: list[JournalRow] = []
        if not any(move.by == fixed.task.slug for move in list_facts(state, BaseMoved)):
            new_base = add_fix(self._local, self._run, self._base, fixed)
            self._base = new_base or self._base
            move = BaseMoved(by=fixed.task.slug, commit=self._base, added=new_base is not None)
            rows.append(move.to_row())
        selected = {baseline.test.id: baseline for baseline in self._selected_tests}
        for test in self._list_affected_tests(root_cause):
            if test in selected and test != fixed.task.data["test"]:
                rows += self._plan_test(state, selected[test].replace(verdict="pass"))
        return rows

    # Prompts

    def choose_base(self, task: TaskState) -> str | None:
        """Return the base with all fixes confirmed so far. An existing agent keeps its own base."""
        return self._base if task.task.existing_agent is None else task.base

    def build_prompt(self, task: TaskState) -> str:
        """Return the prompt for a test or root cause, or a person's message about earlier work."""
        if task.task.message is not None:
            return task.task.message
        root_cause = self._find_root_cause(task)
        return self.build_test_prompt(
            self._tests[self._get_test_id(task)],
            task.task.title,
            root_cause,
            task.task.hint or self._describe_earlier_run(task),
        ).text

    def _describe_earlier_run(self, task: TaskState) -> str:
        """Return how an earlier run ended for the test, if it ended without success."""
        entry = self._history.get(task.task.title)
        if entry is None or entry.outcome not in _UNSUCCESSFUL_OUTCOMES or not entry.reason:
            return ""
        return f"In the earlier run {entry.run} this task ended as {entry.outcome}: {entry.reason}"

    def build_test_prompt(
        self, baseline: BaselineResult, task: str = "", root_cause: RootCause | None = None, hint: str = ""
    ) -> prompts.Prompt:
        """Return the prompt for a test, with its baseline as evidence."""
        test, failing_run = baseline.test.id, baseline.failing_run
        failure_text = ""
        if failing_run is not None:
            failure_text = failing_run.failures[0].text if failing_run.failures else failing_run.output
        description = prompts.TaskDescription(
            task=task or test,
            test=test,
            command=choose_runner_of_plan(self._plan).command(test),
            verdict=baseline.verdict,
            block=self._blocks.get(test, ""),
            evidence=failure_text,
            root_cause=root_cause.title if root_cause else "",
            hint=hint,
            tutorial=self._plan.tutorial,
            runs=self._plan.baseline_runs,
            affected_tests=[name for name in self._list_affected_tests(root_cause) if name != test]
            if root_cause
            else (),
            rejections=list_relevant_rejections(self._rejections, test, failure_text),
        )
        return prompts.build_prompt(self._template, description)

    def _get_test_id(self, task: TaskState) -> str:
        """Return the test that the task's agent works on."""
        return task.task.data.get("test", task.task.title)

    def _find_root_cause(self, task: TaskState) -> RootCause | None:
        """Return the root cause that the task is about, or None when it is about one test."""
        cause_id = task.task.data.get("root_cause")
        return next((root_cause for root_cause in self._root_causes if root_cause.id == cause_id), None)

    # Results

    def judge(self, task: TaskState, folder: str, *, alive: bool) -> Judgement:
        """Read the agent's result file. Return its claim, or the problem that the agent must correct."""
        claim = read_claim(os.path.join(folder, "outputs", "result.json"), task.task.title)
        if isinstance(claim, list):
            return Judgement(problem=prompts.build_reminder(claim))
        with open(os.path.join(folder, "result.json"), "w", encoding="utf-8") as file:
            json.dump(encode(claim), file, indent=1)
        if task.task.answered_claim == fingerprint_claim(encode(claim)):
            return Judgement(
                claim=encode(claim),
                problem=prompts.build_reminder(["result.json has not changed since your last answer."]),
            )
        return Judgement(claim=encode(claim))

    def can_check_without_run(self, task: TaskState) -> bool:
        """True when the agent claims no passing test, or changed nothing since the baseline."""
        return not _is_claimed_passing(task) or self._is_untouched(task)

    def check(self, task: TaskState) -> Mapping[str, object] | None:
        """Re-run a claimed test and return the receipt. Return None when the agent does not claim that it passes."""
        if not _is_claimed_passing(task) or task.commit is None:
            return None
        test = self._get_test_id(task)
        baseline = self._tests[test]
        if self._is_untouched(task):
            receipt = self._make_baseline_receipt(baseline, task.commit)
        else:
            root_cause = self._find_root_cause(task)
            affected: list[BaselineResult] = []
            if root_cause is not None:
                affected = [self._tests[name] for name in self._list_affected_tests(root_cause) if name != test]
            request = VerifyRequest(
                test=baseline.test,
                commit=task.commit,
                base=task.base or self._plan.base,
                source=self._run.repo,
                affected_tests=[other.test for other in affected],
                claimed_changes=list_claimed_changes(task.claim),
                is_shared=bool(affected),
                base_run=baseline.failing_run if task.base == self._plan.base else None,
            )
            receipt_dir = self._run.task_path(task.task.slug, "receipt")
            receipt = verify(
                self._clean_rooms,
                request,
                self._build_verify_options(task),
                cache=self._cache,
                artifacts_dir=receipt_dir,
                on_run=functools.partial(self._record_run, task.commit),
            )
        with open(self._run.task_path(task.task.slug, "receipt.json"), "w", encoding="utf-8") as file:
            json.dump(encode(receipt), file, indent=1)
        row: dict[str, object] = encode_briefly(receipt)
        return row

    def _is_untouched(self, task: TaskState) -> bool:
        """True when the agent made no commit on the run's base."""
        return task.commit == task.base == self._plan.base

    def _build_verify_options(self, task: TaskState) -> VerifyOptions:
        plan = self._plan
        seed = int(task.task.slug[-6:], 16) if task.task.data["kind"] == "test" else 0
        return VerifyOptions(
            pytest=plan.pytest,
            args=plan.args,
            runs=plan.receipt_runs,
            timeout=plan.test_timeout,
            program=plan.program,
            level=plan.verify,
            seed=seed,
            policy=extend_policy(DEFAULT_POLICY, plan.policy),
        )

    def _make_baseline_receipt(self, baseline: BaselineResult, commit: str) -> Receipt:
        """Return the receipt of an unchanged test, which follows from its baseline."""
        verdict = {"pass": "confirmed", "flaky": "flaky", FAILS_IN_SUITE: "flaky", FAILS_ALONE: "flaky"}.get(
            baseline.verdict, "refuted"
        )
        explanation = explain_verdict(baseline.verdict)
        result = f". {explanation}" if explanation else f": {baseline.verdict}"
        reason = f"the agent changed nothing, so the result of the baseline counts{result}"
        blank = Receipt(
            test=baseline.test.id,
            verdict="unverified",
            reason="",
            commit=commit,
            base=self._plan.base,
            tree=self._find_tree(commit),
            command=choose_runner_of_plan(self._plan).command(baseline.test.id),
            runs=self._plan.baseline_runs,
        )
        receipt = make_receipt(blank, baseline.runs, [], [baseline.test], self._plan.program)
        return receipt.replace(verdict=verdict, reason=reason)

    def _find_tree(self, commit: str) -> str:
        if commit not in self._tree_by_commit:
            self._tree_by_commit[commit] = str(list_trees(self._local, self._run.repo, [commit])[0])
        return self._tree_by_commit[commit]

    def _record_run(self, commit: str, test: TestFunction, test_run: TestRun) -> None:
        self.receipt_runs.setdefault((commit, test.id), []).append(test_run)

    @property
    def is_waiting_for_host(self) -> bool:
        """True when a receipt waits until the provider has capacity for a test host."""
        return self._clean_rooms.hosts.is_waiting_for_capacity

    def decide_outcome(self, task: TaskState) -> tuple[str, str | None]:
        """Return the claimed outcome if its receipt confirms it, else the receipt's verdict and reason."""
        claimed = task.claim.get("outcome")
        if claimed is None:
            return "failed", task.close_reason or _find_problem(task) or "the agent left no result"
        if claimed not in _PASSING_CLAIMS:
            return str(claimed), _first_line(task.claim.get("summary"))
        if not task.check:
            return "unverified", "the agent left no commit to verify"
        # A check that failed has only a verdict and a reason, and is no complete receipt.
        verdict, reason = get_text(task.check, "verdict"), get_text(task.check, "reason")
        return (str(claimed), _find_problem(task)) if verdict == "confirmed" else (verdict, reason)


def fingerprint_claim(claim: Mapping[str, object]) -> str:
    """Return a hash that identifies a claim."""
    return hashlib.sha256(json.dumps(dict(claim), sort_keys=True).encode()).hexdigest()


def _is_claimed_passing(task: TaskState) -> bool:
    return task.claim.get("outcome") in _PASSING_CLAIMS and task.commit is not None


def _is_confirmed(task: TaskState) -> bool:
    return task.state == "settled" and find_verdict(task.check) == "confirmed"


def _find_problem(task: TaskState) -> str | None:
    """Return what was wrong with the agent's work, without the instructions that the agent got about it."""
    text = task.problem or ""
    listed = [line.removeprefix("- ") for line in text.splitlines() if line.startswith("- ")]
    return " ".join(listed)[:300] or _first_line(text)


def _first_line(text: object) -> str | None:
    lines = str(text or "").strip().splitlines()
    return lines[0].removeprefix("- ")[:300] if lines else None
