"""The result of an integration, as `integration.json` holds it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from mngr.base.errors import MngrError
from mngr.base.json_structs import decode, encode
from mngr.base.model import Struct
from mngr.base.untrusted_json import as_object
from mngr.mapreduce.journal.agent_usage import AgentUsage
from mngr.mapreduce.run_dir import RunDir


class BranchCommit(Struct):
    """A commit of the branch."""

    commit: str
    tree: str
    changes: list[str]  # ids
    kind: str  # test | flagged | fix
    subject: str
    fixed_tests: list[str] = []  # tests that fail before the branch and pass on it, because of these changes


class FailureProof(Struct):
    """The outcome of a test without a change and with it."""

    test: str
    before: str
    after: str
    why: str
    commit: str  # the head of the branch with the change


class Exclusion(Struct):
    """A change that is not in the branch, and the reason."""

    change: str
    why: str  # conflict | breaks | needs | more_failures | requested | already
    reason: str
    others: list[str] = []  # ids of the changes that are in its way, or that it needs
    proof: FailureProof | None = None


class ExcludedChange(Exclusion):
    """An exclusion with a description of the change."""

    key: str
    title: str
    kind: str
    tasks: list[str]


class EditTrace(Struct):
    """The marks by which mngr finds an edit again when its key changes."""

    kind: str
    paths: list[str]
    commits: list[str]


class ExclusionRequest(Struct):
    """A person's request to exclude changes."""

    what: str  # the person's word for them
    keys: list[str]  # keys of the changes
    reason: str
    traces: dict[str, EditTrace | None] = {}  # by key
    changes: list[str] = []  # ids of the changes that exist now


class FailingTest(Struct):
    """A test that fails at the head, although it passed before."""

    test: str
    why: str


class CheckResult(Struct):
    """The result of another check of the project, such as a linter, at the head."""

    name: str
    command: str
    ok: bool
    was_ok: bool  # it did not fail on the base
    output: str


class TestTotals(Struct):
    """What the branch does to the tests, compared with the tests before any change."""

    __test__ = False

    regressions: list[str]  # passed before and fail now
    fixed: list[str]  # failed before and pass now
    still_failing: list[str]
    flaky: list[str]

    def describe(self) -> str:
        """Return the totals in words, for example `No regressions. 8 tests fixed, 3 still failing, 1 flaky.`"""
        return f"{self.describe_regressions()} {self.describe_others()}"

    def describe_regressions(self) -> str:
        """Return the first sentence of `describe`."""
        count = len(self.regressions)
        if count == 0:
            return "No regressions."
        return f"{count:,} regression{'' if count == 1 else 's'}."

    def describe_others(self) -> str:
        """Return the second sentence of `describe`."""
        fixed = f"{len(self.fixed):,} test{'' if len(self.fixed) == 1 else 's'} fixed"
        return f"{fixed}, {len(self.still_failing):,} still failing, {len(self.flaky):,} flaky."


class SuiteCounts(Struct):
    """The numbers of tests at the head, and the tests that the branch repaired."""

    all: int
    passed: int
    skipped: int
    green: list[str]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, whose keys are outcomes of tests."""
        return {"all": self.all, "pass": self.passed, "skip": self.skipped, "green": self.green}


class SuiteWork(Struct):
    """The number of test processes, test runs and cached results of an integration, and the seconds in pytest."""

    processes: int = 0
    tests: int = 0
    cached: int = 0
    seconds: float = 0.0


class AdvisedOrder(Struct):
    """Equally good fixes in the order that an agent advised."""

    changes: list[str]  # ids
    reason: str
    keys: list[str]
    agent: str | None


class AgentSummary(Struct):
    """An agent's summary of the branch."""

    text: str
    agent: str | None
    head: str  # the commit that the summary is about


_RESOLVERS = {
    "owner": "the agent that made the change",
    "integrator": "the integrator agent",
    "tool": "the merge tool",
    "rerere": "git rerere",
}


def describe_resolver(by: str) -> str:
    """Return who resolved a conflict, in words."""
    return _RESOLVERS.get(by, by)


class ResolvedConflict(Struct):
    """A change that was merged in spite of a conflict."""

    change: str
    by: str  # the tool, or the role of the agent
    agent: str | None
    others: list[str]  # ids of the changes that it conflicted with


class EarlierVerdict(Struct):
    """An exclusion that later integrations may reuse. Changes are named by key."""

    key: str
    why: str
    reason: str
    proof: FailureProof | None
    others: list[str]


class EarlierVerdicts(Struct):
    """The reusable exclusions of the last integration in which people excluded nothing."""

    onto: str
    keys: list[str]  # keys of all changes at that time
    rows: list[EarlierVerdict]


class PushedBranch(Struct):
    """The branch as it was pushed last."""

    commit: str
    commits: list[BranchCommit]


class Integration(Struct):
    """The branch of a run, its tests, and everything that is not in it. The default is an empty branch."""

    v: int = 1
    run: str = ""
    at: str = ""
    branch: str = ""
    base: str = ""  # the run's base
    onto: str = ""  # the commit below the branch
    onto_ref: str | None = None  # the user's name for that commit
    head: str = ""
    tree: str = ""
    verdict: str = "empty"  # green | red | empty
    commits: list[BranchCommit] = []
    excluded: list[ExcludedChange] = []
    regressions: list[FailingTest] = []
    open: int = 0  # tasks that are not settled
    still_failing: list[str] = []  # tests that failed on the base and still fail
    failure_reasons: Mapping[str, str] = {}  # why each test in `still_failing` fails
    flaky: list[str] = []
    partly_tested: int = 0  # commits at which not all affected tests were run
    requests: list[ExclusionRequest] = []
    only: str | None = None  # impl | tests
    delivered: str | None = None  # the commit to which mngr last moved the branch
    pushed: PushedBranch | None = None
    tests: SuiteCounts | None = None
    earlier_verdicts: EarlierVerdicts | None = None
    advised_orders: list[AdvisedOrder] = []
    resolved: list[ResolvedConflict] = []
    usage_by_purpose: Mapping[str, AgentUsage] = {}
    checks: list[CheckResult] = []
    commits_by_people: list[str] = []  # commits that people made on the branch
    runs: SuiteWork = SuiteWork()
    seconds: float = 0.0
    summary: AgentSummary | None = None
    isolation: list[str] = []  # of the clean rooms in which mngr ran the tests of the branch
    report_url: str | None = None  # where other people can read the report

    @property
    def totals(self) -> TestTotals:
        """Return the tests by what the branch does to them."""
        fixed = {test for commit in self.commits for test in commit.fixed_tests}
        if self.tests is not None:
            fixed = set(self.tests.green)
        regressions = [row.test for row in self.regressions]
        return TestTotals(
            regressions=regressions,
            fixed=sorted(fixed.difference(regressions, self.still_failing, self.flaky)),
            still_failing=self.still_failing,
            flaky=self.flaky,
        )

    @property
    def is_complete(self) -> bool:
        """True when every confirmed change is in the branch, except those that people excluded."""
        return self.verdict != "red" and not self.list_missing()

    def list_missing(self) -> list[ExcludedChange]:
        """Return the excluded changes that nobody asked to exclude."""
        requested = {row.change for row in self.excluded if row.why == "requested"}
        missing = []
        for row in self.excluded:
            is_result_of_request = row.why == "needs" and not requested.isdisjoint(row.others)
            if row.why not in ("requested", "already") and not is_result_of_request:
                missing.append(row)
        return missing

    def list_regressions(self, previous: Integration) -> list[str]:
        """Return the tests that passed on the previous branch and fail on this one."""
        if previous.verdict == "empty":
            return []
        return sorted(set(self.still_failing) - set(previous.still_failing))


def find_integration(run: RunDir) -> Integration | None:
    """Return the record of the last integration, or None when there was none. Raise MngrError when it is damaged."""
    try:
        with open(_get_path(run), encoding="utf-8") as file:
            return _decode_integration(json.load(file))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise MngrError(
            f"cannot read the integration of {run.name}: {error}",
            f"build the branch again: mngr tmr integrate {run.name}",
        ) from None


def save_integration(run: RunDir, integration: Integration) -> None:
    """Write the record of an integration."""
    path = _get_path(run)
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(encode(integration), file, indent=1)
    os.replace(path + ".new", path)


def _decode_integration(data: object) -> Integration:
    """Return the record from its JSON form. Raise ValueError."""
    fields = as_object(data)
    tests = fields.get("tests")
    if isinstance(tests, dict):
        counts = {**tests, "passed": tests.get("pass"), "skipped": tests.get("skip")}
        fields = {**fields, "tests": counts}
    return decode(Integration, fields)


def _get_path(run: RunDir) -> str:
    return os.path.join(run.path, "integration.json")
