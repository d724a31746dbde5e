"""The job `repair`: runs a test several times, repairs it by fixed rules, and leaves commits and a result.json."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mngr.kinds.mechanic.program import fixes, missing_checks, source_edits
from mngr.kinds.mechanic.program.observed_runs import RUN_TIMEOUT, ObservedTestRun, run_test
from mngr.kinds.mechanic.program.repair_edits import Escalation, WorkspaceFiles, write_atomically

CHANGE_KINDS = ("FIX_TUTORIAL", "FIX_TEST", "IMPROVE_TEST")
_MAX_FIXES = 8  # failures of one test that are repaired one after the other
_MAX_LISTED_RUNS = 100  # a result lists at most this many runs
_LEDGER_FILE = ".repair.json"  # in the outputs while the repair runs
_OUTCOME_ORDER = ("unchanged", "improved", "fixed", "blocked", "failed")


def repair_tests(job: dict[str, Any], work_dir: str, outputs: str, on_poll: Callable[[], None]) -> dict[str, Any]:
    """Repair the job's tests, or continue an interrupted repair; write result.json and return it."""
    os.makedirs(outputs, exist_ok=True)
    ledger = _Ledger(os.path.join(outputs, _LEDGER_FILE), job.get("task") or job["test"])
    tests = [job["test"], *job.get("affected_tests", [])]
    while len(ledger.done) < len(tests):  # a failure of one test probably affects the rest too
        if ledger.done and ledger.done[-1]["after"] != "pass":
            break
        test = tests[len(ledger.done)]
        test_job = {**job, "test": test, "command": _build_command(job, test), "shared": len(tests) > 1}
        plan = _plan_repair(test_job, work_dir, outputs, on_poll, ledger)
        ledger.save(done=[*ledger.done, _commit_plan(plan, work_dir)], plan=None)
    result = _merge_results(ledger.task, ledger.done)
    write_atomically(os.path.join(outputs, "result.json"), json.dumps(result, indent=1) + "\n")
    os.unlink(ledger.path)
    return result


class _Ledger:
    """The saved progress of a repair: original files, planned commits, and finished tests."""

    def __init__(self, path: str, task: str) -> None:
        self.path = path
        self.task = task
        self.first: dict[str, str] = {}
        self.plan: dict[str, Any] | None = None
        self.done: list[dict[str, Any]] = []
        try:
            with open(path, encoding="utf-8") as file:
                saved = json.load(file)
        except (FileNotFoundError, ValueError):
            return
        if saved["task"] == task:
            self.first, self.plan, self.done = saved["first"], saved["plan"], saved["done"]

    def save(self, **changes: Any) -> None:
        """Update these fields and write the ledger to disk."""
        self.__dict__.update(changes)
        content = {"task": self.task, "first": self.first, "plan": self.plan, "done": self.done}
        write_atomically(self.path, json.dumps(content))


def _build_command(job: dict[str, Any], test: str) -> list[str]:
    """Return the job's command, with the job's test replaced by this test."""
    test_arguments = [arg for arg in job["command"] if arg.partition("[")[0] == job["test"]]
    if test == job["test"] or not test_arguments:
        return list(job["command"])
    return [test if arg == test_arguments[0] else arg for arg in job["command"] if arg not in test_arguments[1:]]


def _plan_repair(
    job: dict[str, Any], work_dir: str, outputs: str, on_poll: Callable[[], None], ledger: _Ledger
) -> dict[str, Any]:
    """Return the commits and the result for one test. The files are unchanged afterwards."""
    if ledger.plan is not None:
        return ledger.plan
    for path, text in ledger.first.items():
        write_atomically(os.path.join(work_dir, path), text)
    repair = _TestRepair(job, work_dir, outputs, on_poll, lambda first: ledger.save(first=dict(first)))
    try:
        plan = repair.make_plan()
    except (OSError, ValueError) as error:  # a missing program, a missing file, or invalid Python
        repair.files.restore(repair.files.first)
        plan = repair.report_failure(str(error))
    ledger.save(plan=plan, first={})
    return plan


def _merge_results(task: str, results: list[dict[str, Any]]) -> dict[str, Any]:
    """Merge the results of all tests into one; its outcome is usually the worst of them."""
    worst = max(results, key=lambda result: _OUTCOME_ORDER.index(result["outcome"]))
    after = next((result["after"] for result in results if result["after"] != "pass"), "pass")
    changes = []
    for kind in CHANGE_KINDS:
        same = [change for result in results for change in result["changes"] if change["kind"] == kind]
        if same:
            summary = "\n".join(dict.fromkeys(row for change in same for row in change["summary"].split("\n")))
            commits = [commit for change in same for commit in change["commits"]]
            changes.append({"kind": kind, "summary": summary, "commits": commits})
    outcome = "fixed" if after == "pass" and results[0]["outcome"] == "fixed" else worst["outcome"]
    return {
        "v": 1,
        "task": task,
        "outcome": outcome,
        "before": results[0]["before"],
        "after": after,
        "summary": "\n".join(dict.fromkeys(result["summary"] for result in results)),
        "changes": changes,
        "escalations": [row for result in results for row in result["escalations"]],
        "runs": [row for result in results for row in result["runs"]][:_MAX_LISTED_RUNS],
    }


class _TestRepair:
    """The repair of one test."""

    def __init__(
        self,
        job: dict[str, Any],
        work_dir: str,
        outputs: str,
        on_poll: Callable[[], None],
        save_originals: Callable[[dict[str, str]], None],
    ) -> None:
        self.job = job
        self.outputs = outputs
        self.on_poll = on_poll
        self.timeout = float(job.get("timeout") or RUN_TIMEOUT)
        self.runs = max(1, int(job.get("runs", 2)))
        self.files = WorkspaceFiles(work_dir, job["test"], job.get("tutorial"), save_originals)
        self.escalations: list[Escalation] = []
        self.summaries: dict[str, list[str]] = {kind: [] for kind in CHANGE_KINDS}
        self.stages: dict[str, dict[str, str]] = {}  # by change kind: the files with all changes up to that kind
        self.listed_runs: list[dict[str, str]] = []

    def make_plan(self) -> dict[str, Any]:
        """Return the commits to make and the result. The files are restored afterwards."""
        test_runs = self._run_test("before")
        before = after = self._summarize_runs(test_runs)
        if test_runs[0].outcome in ("none", "skip"):
            message = f"The test does not exist, or it is skipped:\n\n```\n{test_runs[0].tail}\n```"
            return self.report_failure(message)
        if test_runs[0].uncollected:
            detail = f"```\n{test_runs[0].uncollected[-1500:]}\n```"
            self.escalations.append(
                Escalation("HARNESS_DEFECT", "pytest cannot collect the test", detail, [(self.files.path, 1)])
            )
        elif before != "flaky":
            test_runs = self._fix_test(test_runs)
            after = self._summarize_runs(test_runs)
        if after == "flaky":
            self.escalations = [self._describe_flakiness(test_runs)]
            before = after = "flaky"
        if after != "pass":
            self._discard_changes()
            after = before
        return self._build_outcome(before, after)

    def report_failure(self, reason: str) -> dict[str, Any]:
        """Return the result of a repair that could not be tried."""
        self.stages = {}
        return self._build_result("failed", "fail", "fail", reason)

    def _summarize_runs(self, test_runs: list[ObservedTestRun]) -> str:
        passes = [test_run.outcome == "pass" for test_run in test_runs]
        if self.job.get("before") == "flaky" or (any(passes) and not all(passes)):
            return "flaky"
        return "pass" if all(passes) else "fail"

    def _run_test(self, name: str, times: int | None = None) -> list[ObservedTestRun]:
        test_runs = []
        times = self.runs if times is None else times
        for number in range(1, times + 1):
            test_run = run_test(self.job["command"], self.files.work, self.on_poll, self.timeout)
            self._save_run(f"{name}-{number}" if times > 1 else name, test_run)
            test_runs.append(test_run)
        return test_runs

    def _save_run(self, name: str, test_run: ObservedTestRun) -> None:
        """Record a run under its name and copy its transcripts to the outputs."""
        name = f"{self.files.test.rpartition('::')[2]}-{name}" if self.job.get("shared") else name
        case = test_run.first_failed_case
        failure = f": {case.exception} {case.message.strip().partition(chr(10))[0]}"[:200] if case else ""
        self.listed_runs.append(
            {"name": name, "description": f"{test_run.outcome} in {test_run.seconds:.1f} s{failure}"}
        )
        for number, observed_case in enumerate(test_run.cases):
            transcript = observed_case.runs[0].transcript if observed_case.runs else ""
            if os.path.isfile(transcript):
                directory = os.path.join(self.outputs, "runs", f"{name}{f'-{number + 1}' if number else ''}")
                os.makedirs(directory, exist_ok=True)
                shutil.copyfile(transcript, os.path.join(directory, "transcript.txt"))

    def _fix_test(self, test_runs: list[ObservedTestRun]) -> list[ObservedTestRun]:
        """Repair citations, then failures one by one, then add missing checks; return the last runs."""
        self._record_rows("FIX_TUTORIAL", fixes.update_citations(self.files))
        if self.summaries["FIX_TUTORIAL"]:
            test_runs = self._run_test("citation-updated", 1)
        for step in range(_MAX_FIXES):
            if test_runs[-1].outcome == "pass" or not self._fix_next_failure(test_runs[-1]):
                break
            test_runs = self._run_test(f"repaired-{step + 1}", 1)
        if test_runs[-1].outcome != "pass":
            return test_runs
        test_runs += self._run_test("repeated", max(0, self.runs - len(test_runs)))
        self._split_changes()
        if self.job.get("shared") or self._summarize_runs(test_runs) != "pass":
            return test_runs
        return self._add_checks(test_runs)

    def _fix_next_failure(self, test_run: ObservedTestRun) -> bool:
        before = self.files.read_changed_files()
        self._record_rows("FIX_TEST", [fixes.fix_first_failure(self.files, test_run)])
        return self.files.read_changed_files() != before

    def _split_changes(self) -> None:
        """Separate the changes to the tutorial and its citations from the changes to the test."""
        current = self.files.read_changed_files()
        first = self.files.first
        tutorial = self.files.tutorial
        self.stages["FIX_TUTORIAL"] = {
            path: text if path == tutorial else source_edits.merge_citations(first[path], text)
            for path, text in current.items()
        }
        self.stages["FIX_TEST"] = current
        if tutorial in current:
            self.summaries["FIX_TUTORIAL"].append("use the current option names of the program in the block")
        if self.stages["FIX_TUTORIAL"] != current and not self.summaries["FIX_TEST"]:
            self.summaries["FIX_TEST"].append("run the command of the block as it is now in the tutorial")

    def _add_checks(self, test_runs: list[ObservedTestRun]) -> list[ObservedTestRun]:
        """Add missing checks, and keep them only if they hold in every run."""
        before = self.files.read_changed_files()
        filled = missing_checks.fill_empty_test(self.files)
        observed_runs = self._run_test("checks-added", max(2, self.runs)) if filled else test_runs
        if filled and any(run.code for test_run in observed_runs for case in test_run.cases for run in case.runs):
            self.files.restore(before)
            run = next(run for test_run in observed_runs for case in test_run.cases for run in case.runs if run.code)
            evidence = fixes.format_evidence(
                run, "The test runs nothing, and the block that it cites fails when it runs in the test."
            )
            self.escalations.append(
                Escalation("AMBIGUOUS", "the test checks nothing", evidence, [(self.files.path, 1)])
            )
            return test_runs
        if len(observed_runs) < 2:  # one run cannot show which output is always the same
            observed_runs = [*observed_runs, *self._run_test("observed", 1)]
        outcomes = missing_checks.add_missing_checks(self.files, [test_run.cases for test_run in observed_runs])
        self._record_rows("IMPROVE_TEST", [*([filled] if filled else []), *outcomes])
        if self.files.read_changed_files() == before:
            return test_runs
        improved = self._run_test("improved")
        if self._summarize_runs(improved) != "pass":
            self.files.restore(before)
            self.summaries["IMPROVE_TEST"] = []
            return test_runs
        self.stages["IMPROVE_TEST"] = self.files.read_changed_files()
        return improved

    def _record_rows(self, kind: str, rows: list[str | Escalation]) -> None:
        for row in rows:
            if isinstance(row, Escalation):
                self.escalations.append(row)
            else:
                self.summaries[kind].append(row)

    def _describe_flakiness(self, test_runs: list[ObservedTestRun]) -> Escalation:
        pass_count = sum(test_run.outcome == "pass" for test_run in test_runs)
        failed_case = next((test_run.first_failed_case for test_run in test_runs if test_run.first_failed_case), None)
        detail = (
            f"```\n{failed_case.message[-1500:]}\n```"
            if failed_case
            else "Earlier runs of the test differed; these runs did not."
        )
        title = f"the test passes in {pass_count} of {len(test_runs)} runs of the same commit"
        return Escalation("BLOCKER", title, detail, [(self.files.path, 1)])

    def _discard_changes(self) -> None:
        self.files.restore(self.files.first)
        self.stages = {}
        self.summaries = {kind: [] for kind in CHANGE_KINDS}
        if not self.escalations:
            self.escalations.append(Escalation("BLOCKER", "the attempted repair does not work in every run", "", []))

    def _build_outcome(self, before: str, after: str) -> dict[str, Any]:
        self.files.restore(self.files.first)
        has_changes = any(self.summaries.values())
        if after != "pass" or (self.escalations and not has_changes):
            outcome = "blocked"
        elif before != "pass":
            outcome = "fixed"
        else:
            outcome = "improved" if has_changes else "unchanged"
        lines = [row for rows in self.summaries.values() for row in rows] + [
            escalation.title for escalation in self.escalations
        ]
        return self._build_result(
            outcome, before, after, "\n".join(f"- {row}" for row in lines) or "The test needs no change."
        )

    def _build_result(self, outcome: str, before: str, after: str, summary: str) -> dict[str, Any]:
        if self.job.get("shared"):
            self.escalations = [
                replace(escalation, kind="SHARED_CAUSE") if escalation.kind == "BLOCKER" else escalation
                for escalation in self.escalations
            ]
        name = self.job["test"].rpartition("::")[2]
        commits, last = [], self.files.first
        for kind, staged in self.stages.items():
            files = {**last, **staged}
            if files != last:
                subject = _shorten_line(f"[{kind}] {name}: {self.summaries[kind][0]}", 100)
                commits.append({"kind": kind, "subject": subject, "notes": self.summaries[kind], "files": files})
            last = files
        result = {
            "outcome": outcome,
            "before": before,
            "after": after,
            "summary": summary,
            "escalations": [escalation.to_dict() for escalation in self.escalations],
            "runs": self.listed_runs,
        }
        head = _run_git(self.files.work, "rev-parse", "HEAD").strip()
        return {"head": head, "commits": commits, "result": result}


def _commit_plan(plan: dict[str, Any], work_dir: str) -> dict[str, Any]:
    """Make the planned commits that do not exist yet, one for each change kind."""
    changes = []
    log_rows = [
        row.partition(" ") for row in _run_git(work_dir, "log", "--format=%H %s", f"{plan['head']}..").splitlines()
    ]
    commits_by_subject = {subject: commit for commit, _, subject in log_rows}
    for planned in plan["commits"]:
        body = "\n".join(f"- {row}" for row in planned["notes"])
        if planned["subject"] not in commits_by_subject:
            for path, text in planned["files"].items():
                write_atomically(os.path.join(work_dir, path), text)
            names = list(planned["files"])
            _run_git(
                work_dir,
                *_build_author_options(work_dir),
                "commit",
                "--quiet",
                "-m",
                planned["subject"],
                "-m",
                body,
                "--",
                *names,
            )
            commits_by_subject[planned["subject"]] = _run_git(work_dir, "rev-parse", "HEAD").strip()
        changes.append({"kind": planned["kind"], "summary": body, "commits": [commits_by_subject[planned["subject"]]]})
    return {**plan["result"], "changes": changes}


def _build_author_options(work_dir: str) -> list[str]:
    """Return git options that name an author, if the repository has none."""
    result = subprocess.run(["git", "config", "user.email"], cwd=work_dir, capture_output=True, check=False)
    return [] if result.returncode == 0 else ["-c", "user.name=mechanic", "-c", "user.email=mechanic@localhost"]


def _run_git(work_dir: str, *arguments: str) -> str:
    result = subprocess.run(
        ["git", *arguments], cwd=work_dir, capture_output=True, stdin=subprocess.DEVNULL, text=True, check=False
    )
    if result.returncode:
        raise OSError(f"git {arguments[0]} failed: {(result.stderr or result.stdout).strip()}")
    return result.stdout


def _shorten_line(line: str, max_length: int) -> str:
    """Return the text as one line of at most `max_length` characters, cut at a word and marked with an ellipsis."""
    line = " ".join(line.split())
    if len(line) <= max_length:
        return line
    return line[: max_length - 1].rpartition(" ")[0].rstrip(" ,:;") + "…"
