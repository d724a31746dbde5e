"""The job `repair`: run one test several times, mend what is mechanical, and leave commits and a result.json."""

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
from mngr.kinds.mechanic.program.workspace_files import Escalation, WorkspaceFiles, write_atomically

CHANGE_KINDS = ("FIX_TUTORIAL", "FIX_TEST", "IMPROVE_TEST")
_MAX_FIXES = 8  # failures of one test that are mended one after the other
_MAX_LISTED_RUNS = 100  # runs that a result may name
_LEDGER_FILE = ".repair.json"  # in the outputs while it works
_OUTCOME_ORDER = ("unchanged", "improved", "fixed", "blocked", "failed")


def repair_tests(job: dict[str, Any], work: str, outputs: str, between: Callable[[], None]) -> dict[str, Any]:
    """Do it, or what is left of it after being cut off; the result, as it was written."""
    os.makedirs(outputs, exist_ok=True)
    ledger = _Ledger(os.path.join(outputs, _LEDGER_FILE), job.get("task") or job["test"])
    tests = [job["test"], *job.get("witnesses", [])]
    while len(ledger.done) < len(tests):  # what is wrong with the first is wrong with all
        if ledger.done and ledger.done[-1]["after"] != "pass":
            break
        test = tests[len(ledger.done)]
        one = {**job, "test": test, "command": _build_command(job, test), "shared": len(tests) > 1}
        plan = _plan_test(one, work, outputs, between, ledger)
        ledger.save(done=[*ledger.done, _commit_plan(plan, work)], plan=None)
    result = _merge_results(ledger.task, ledger.done)
    write_atomically(os.path.join(outputs, "result.json"), json.dumps(result, indent=1) + "\n")
    os.unlink(ledger.path)
    return result


class _Ledger:
    """What a repair that is cut off has to put right: files as they were, commits to be made, tests that are done."""

    def __init__(self, path: str, task: str) -> None:
        self.path = path
        self.task = task
        self.first: dict[str, str] = {}
        self.plan: dict[str, Any] | None = None
        self.done: list[dict[str, Any]] = []
        try:
            with open(path, encoding="utf-8") as file:
                kept = json.load(file)
        except (FileNotFoundError, ValueError):
            return
        if kept["task"] == task:
            self.first, self.plan, self.done = kept["first"], kept["plan"], kept["done"]

    def save(self, **changes: Any) -> None:
        """Write it down with what is new."""
        self.__dict__.update(changes)
        kept = {"task": self.task, "first": self.first, "plan": self.plan, "done": self.done}
        write_atomically(self.path, json.dumps(kept))


def _build_command(job: dict[str, Any], test: str) -> list[str]:
    """The exact command, for this test in the place of the one it is for."""
    own = [arg for arg in job["command"] if arg.partition("[")[0] == job["test"]]
    if test == job["test"] or not own:
        return list(job["command"])
    return [test if arg == own[0] else arg for arg in job["command"] if arg not in own[1:]]


def _plan_test(
    job: dict[str, Any], work: str, outputs: str, between: Callable[[], None], ledger: _Ledger
) -> dict[str, Any]:
    """What to commit and say for one test; no file is changed then."""
    if ledger.plan is not None:
        return ledger.plan
    for path, text in ledger.first.items():
        write_atomically(os.path.join(work, path), text)
    worker = _TestRepair(job, work, outputs, between, lambda first: ledger.save(first=dict(first)))
    try:
        plan = worker.make_plan()
    except (OSError, ValueError) as error:  # no such program, no such file, no Python
        worker.desk.restore(worker.desk.first)
        plan = worker.report_failure(str(error))
    ledger.save(plan=plan, first={})
    return plan


def _merge_results(task: str, results: list[dict[str, Any]]) -> dict[str, Any]:
    """One result of all: as good as the worst of them."""
    worst = max(results, key=lambda one: _OUTCOME_ORDER.index(one["outcome"]))
    after = next((one["after"] for one in results if one["after"] != "pass"), "pass")
    changes = []
    for kind in CHANGE_KINDS:
        same = [change for one in results for change in one["changes"] if change["kind"] == kind]
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
        "summary": "\n".join(dict.fromkeys(one["summary"] for one in results)),
        "changes": changes,
        "escalations": [row for one in results for row in one["escalations"]],
        "runs": [row for one in results for row in one["runs"]][:_MAX_LISTED_RUNS],
    }


class _TestRepair:
    """One test on its way from how it is to how it can be."""

    def __init__(
        self, job: dict[str, Any], work: str, outputs: str, between: Callable[[], None],
        keep: Callable[[dict[str, str]], None],
    ) -> None:  # fmt: skip
        self.job = job
        self.outputs = outputs
        self.between = between
        self.patience = float(job.get("timeout") or RUN_TIMEOUT)
        self.k = max(1, int(job.get("k", 2)))
        self.desk = WorkspaceFiles(work, job["test"], job.get("tutorial"), keep)
        self.troubles: list[Escalation] = []
        self.said: dict[str, list[str]] = {kind: [] for kind in CHANGE_KINDS}
        self.stages: dict[str, dict[str, str]] = {}  # what the files say with the changes up to a kind
        self.shown: list[dict[str, str]] = []

    def make_plan(self) -> dict[str, Any]:
        """What to commit and what to say; the files are as they were then."""
        trials = self._run_test("before")
        before = after = self._summarize_runs(trials)
        if trials[0].outcome in ("none", "skip"):
            said = f"There is no such test, or it is skipped:\n\n```\n{trials[0].tail}\n```"
            return self.report_failure(said)
        if trials[0].uncollected:
            detail = f"```\n{trials[0].uncollected[-1500:]}\n```"
            self.troubles.append(Escalation("HARNESS_DEFECT", "it cannot be collected", detail, [(self.desk.path, 1)]))
        elif before != "flaky":
            trials = self._fix_test(trials)
            after = self._summarize_runs(trials)
        if after == "flaky":
            self.troubles = [self._describe_flakiness(trials)]
            before = after = "flaky"
        if after != "pass":
            self._discard_changes()
            after = before
        return self._build_outcome(before, after)

    def report_failure(self, why: str) -> dict[str, Any]:
        """That it could not be tried at all."""
        self.stages = {}
        return self._build_result("failed", "fail", "fail", why)

    def _summarize_runs(self, trials: list[ObservedTestRun]) -> str:
        good = [trial.outcome == "pass" for trial in trials]
        if self.job.get("before") == "flaky" or (any(good) and not all(good)):
            return "flaky"
        return "pass" if all(good) else "fail"

    def _run_test(self, name: str, times: int | None = None) -> list[ObservedTestRun]:
        trials = []
        times = self.k if times is None else times
        for number in range(1, times + 1):
            trial = run_test(self.job["command"], self.desk.work, self.between, self.patience)
            self._save_run(f"{name}-{number}" if times > 1 else name, trial)
            trials.append(trial)
        return trials

    def _save_run(self, name: str, trial: ObservedTestRun) -> None:
        """Keep what can be seen of a run, by its name."""
        name = f"{self.desk.test.rpartition('::')[2]}-{name}" if self.job.get("shared") else name
        case = trial.first_failed_case
        said = f": {case.exception} {case.message.strip().partition(chr(10))[0]}"[:200] if case else ""
        self.shown.append({"name": name, "description": f"{trial.outcome} in {trial.seconds:.1f} s{said}"})
        for number, one in enumerate(trial.cases):
            seen = one.runs[0].transcript if one.runs else ""
            if os.path.isfile(seen):
                place = os.path.join(self.outputs, "runs", f"{name}{f'-{number + 1}' if number else ''}")
                os.makedirs(place, exist_ok=True)
                shutil.copyfile(seen, os.path.join(place, "transcript.txt"))

    def _fix_test(self, trials: list[ObservedTestRun]) -> list[ObservedTestRun]:
        """First what it cites, then what fails, one after the other, then what it does not check; how it is then."""
        self._record_rows("FIX_TUTORIAL", fixes.update_citations(self.desk))
        if self.said["FIX_TUTORIAL"]:
            trials = self._run_test("cited", 1)
        for step in range(_MAX_FIXES):
            if trials[-1].outcome == "pass" or not self._fix_next_failure(trials[-1]):
                break
            trials = self._run_test(f"mended-{step + 1}", 1)
        if trials[-1].outcome != "pass":
            return trials
        trials += self._run_test("again", max(0, self.k - len(trials)))
        self._split_changes()
        if self.job.get("shared") or self._summarize_runs(trials) != "pass":
            return trials
        return self._add_checks(trials)

    def _fix_next_failure(self, trial: ObservedTestRun) -> bool:
        before = self.desk.read_all()
        self._record_rows("FIX_TEST", [fixes.fix_first_failure(self.desk, trial)])
        return self.desk.read_all() != before

    def _split_changes(self) -> None:
        """Tell what is about the tutorial from what is about the test."""
        now, first, tutorial = self.desk.read_all(), self.desk.first, self.desk.tutorial
        self.stages["FIX_TUTORIAL"] = {
            path: text if path == tutorial else source_edits.merge_citations(first[path], text)
            for path, text in now.items()
        }
        self.stages["FIX_TEST"] = now
        if tutorial in now:
            self.said["FIX_TUTORIAL"].append("the block names its options as the program does now")
        if self.stages["FIX_TUTORIAL"] != now and not self.said["FIX_TEST"]:
            self.said["FIX_TEST"].append("it runs the command of the block as that is now")

    def _add_checks(self, trials: list[ObservedTestRun]) -> list[ObservedTestRun]:
        """Add missing checks; none is kept that does not hold every time."""
        before = self.desk.read_all()
        filled = missing_checks.fill_empty_test(self.desk)
        seen = self._run_test("filled", max(2, self.k)) if filled else trials
        if filled and any(run.code for trial in seen for case in trial.cases for run in case.runs):
            self.desk.restore(before)
            run = next(run for trial in seen for case in trial.cases for run in case.runs if run.code)
            said = fixes.format_evidence(run, "It runs nothing, and the block that it cites fails in its place.")
            self.troubles.append(Escalation("AMBIGUOUS", "it checks nothing", said, [(self.desk.path, 1)]))
            return trials
        if len(seen) < 2:  # what was seen once may be another next time
            seen = [*seen, *self._run_test("seen", 1)]
        done = missing_checks.add_missing_checks(self.desk, [trial.cases for trial in seen])
        self._record_rows("IMPROVE_TEST", [*([filled] if filled else []), *done])
        if self.desk.read_all() == before:
            return trials
        improved = self._run_test("improved")
        if self._summarize_runs(improved) != "pass":
            self.desk.restore(before)
            self.said["IMPROVE_TEST"] = []
            return trials
        self.stages["IMPROVE_TEST"] = self.desk.read_all()
        return improved

    def _record_rows(self, kind: str, rows: list[str | Escalation]) -> None:
        for row in rows:
            if isinstance(row, Escalation):
                self.troubles.append(row)
            else:
                self.said[kind].append(row)

    def _describe_flakiness(self, trials: list[ObservedTestRun]) -> Escalation:
        good = sum(trial.outcome == "pass" for trial in trials)
        bad = next((trial.first_failed_case for trial in trials if trial.first_failed_case), None)
        told = f"```\n{bad.message[-1500:]}\n```" if bad else "The runs before this one differed; these did not."
        title = f"it passes in {good} of {len(trials)} runs of the same commit"
        return Escalation("BLOCKER", title, told, [(self.desk.path, 1)])

    def _discard_changes(self) -> None:
        self.desk.restore(self.desk.first)
        self.stages = {}
        self.said = {kind: [] for kind in CHANGE_KINDS}
        if not self.troubles:
            self.troubles.append(Escalation("BLOCKER", "what seemed to mend it does not hold every time", "", []))

    def _build_outcome(self, before: str, after: str) -> dict[str, Any]:
        self.desk.restore(self.desk.first)
        changed = any(self.said.values())
        if after != "pass" or (self.troubles and not changed):
            outcome = "blocked"
        else:
            outcome = "fixed" if before != "pass" else "improved" if changed else "unchanged"
        told = [row for rows in self.said.values() for row in rows] + [one.title for one in self.troubles]
        return self._build_result(outcome, before, after, "\n".join(f"- {row}" for row in told) or "Nothing to do.")

    def _build_result(self, outcome: str, before: str, after: str, summary: str) -> dict[str, Any]:
        if self.job.get("shared"):
            self.troubles = [
                replace(one, kind="SHARED_CAUSE") if one.kind == "BLOCKER" else one for one in self.troubles
            ]
        name = self.job["test"].rpartition("::")[2]
        commits, last = [], self.desk.first
        for kind, staged in self.stages.items():
            files = {**last, **staged}
            if files != last:
                subject = _shorten_line(f"[{kind}] {name}: {self.said[kind][0]}", 100)
                commits.append({"kind": kind, "subject": subject, "said": self.said[kind], "files": files})
            last = files
        result = {
            "outcome": outcome,
            "before": before,
            "after": after,
            "summary": summary,
            "escalations": [one.to_dict() for one in self.troubles],
            "runs": self.shown,
        }
        head = _run_git(self.desk.work, "rev-parse", "HEAD").strip()
        return {"head": head, "commits": commits, "result": result}


def _commit_plan(plan: dict[str, Any], work: str) -> dict[str, Any]:
    """Make the commits that are not there yet, a kind each."""
    changes = []
    made = [row.partition(" ") for row in _run_git(work, "log", "--format=%H %s", f"{plan['head']}..").splitlines()]
    done = {subject: commit for commit, _, subject in made}
    for one in plan["commits"]:
        body = "\n".join(f"- {row}" for row in one["said"])
        if one["subject"] not in done:
            for path, text in one["files"].items():
                write_atomically(os.path.join(work, path), text)
            names = list(one["files"])
            _run_git(
                work,
                *_build_author_options(work),
                "commit",
                "--quiet",
                "-m",
                one["subject"],
                "-m",
                body,
                "--",
                *names,
            )
            done[one["subject"]] = _run_git(work, "rev-parse", "HEAD").strip()
        changes.append({"kind": one["kind"], "summary": body, "commits": [done[one["subject"]]]})
    return {**plan["result"], "changes": changes}


def _build_author_options(work: str) -> list[str]:
    """Who commits, where nobody is named."""
    done = subprocess.run(["git", "config", "user.email"], cwd=work, capture_output=True, check=False)
    return [] if done.returncode == 0 else ["-c", "user.name=mechanic", "-c", "user.email=mechanic@localhost"]


def _run_git(work: str, *words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=work, capture_output=True, stdin=subprocess.DEVNULL, text=True, check=False
    )
    if done.returncode:
        raise OSError(f"git {words[0]}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def _shorten_line(line: str, most: int) -> str:
    """One line, which ends with a whole word and says so when that is not its end."""
    line = " ".join(line.split())
    if len(line) <= most:
        return line
    return line[: most - 1].rpartition(" ")[0].rstrip(" ,:;") + "…"
