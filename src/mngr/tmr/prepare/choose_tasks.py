"""Chooses the tests that become tasks: all that do not pass, and the passing ones that are most worth a look."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from mngr.base.model import Struct
from mngr.host import git
from mngr.host.protocol import Host
from mngr.tmr.cited_blocks import list_cited_blocks
from mngr.tmr.prepare.history.audit_outcomes import AuditedTestFile
from mngr.tmr.run_plan import RunPlan

_MAX_COMMITS = 1000  # in which a test counts as changed recently
_TIME_MARK = "\x01"  # begins a line with the time of a commit


class PassingTest(Struct):
    """A passing test that could become a task."""

    id: str
    path: str
    seconds: float


class RankFacts(Struct):
    """The facts that decide which passing tests come first."""

    citing: Collection[str] = ()  # tests that cite a tutorial block
    weak: Collection[str] = ()  # tests that the last audit found weak
    changed_at: Mapping[str, int] = {}  # the time of the last commit that changed a file, by path


def read_rank_facts(local: Host, root: str, repo: str, plan: RunPlan, tests: Iterable[PassingTest]) -> RankFacts:
    """Return the facts about these tests from the tutorial, earlier audits and the history of the project."""
    known = list(tests)
    return RankFacts(
        citing=set(list_cited_blocks(local, repo, plan.base, [test.id for test in known])),
        weak=AuditedTestFile(local.home, root).list_weak(),
        changed_at=_find_change_times(local, root, plan.base),
    )


def rank_tests(tests: Iterable[PassingTest], facts: RankFacts) -> list[PassingTest]:
    """Return the tests in the order of their rank: citing the tutorial, weak, changed recently, slow."""
    return sorted(
        tests,
        key=lambda test: (
            test.id not in facts.citing,
            test.id not in facts.weak,
            -facts.changed_at.get(test.path, 0),
            -test.seconds,
        ),
    )


def _find_change_times(local: Host, root: str, commit: str) -> dict[str, int]:
    """Return when each file was changed last, for the files that the latest commits changed."""
    options = (f"--max-count={_MAX_COMMITS}", f"--format={_TIME_MARK}%ct", "--name-only", "--no-renames")
    listed = git.run(local, root, "-c", "core.quotePath=off", "log", *options, commit, "--", git_command=git.SAFE_GIT)
    times: dict[str, int] = {}
    time = 0
    for line in listed.text.splitlines() if listed.code == 0 else ():
        if line.startswith(_TIME_MARK):
            time = int(line[1:])
        elif line:
            times.setdefault(line, time)
    return times
