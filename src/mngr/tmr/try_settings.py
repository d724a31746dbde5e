"""Tries the settings that `mngr init` writes: sets up a scratch copy of the project and collects its tests there.

When set-up fails or a package is missing, mngr leaves out what failed or adds the package, and tries again.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Callable

from mngr.agents.sandbox.host_isolation import SandboxUnavailable
from mngr.agents.workdir.setup_run import SetupFailed
from mngr.api import Fleet
from mngr.base import paths
from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.host import git
from mngr.setup.init.find_test_requirements import RequirementSource, normalize_name
from mngr.setup.init.init import DetectedProject, init_project
from mngr.setup.init.project_files import find_python_project
from mngr.setup.init.pytest_needs import list_missing_packages
from mngr.setup.init.python_setup import list_declared_requirements
from mngr.setup.init.setup_command_types import NO_ADJUSTMENTS, Adjustments
from mngr.tmr.clean_room_and_agent_options import build_room_options
from mngr.tmr.cleanroom.clean_rooms import CleanRoomPool
from mngr.tmr.prepare.code_location_check import describe_foreign_code
from mngr.tmr.prepare.explain_collection_failure import make_collection_error, summarize_failure
from mngr.tmr.run_plan import RunPlan
from mngr.tmr.runners.choose_runner import choose_runner_of_plan
from mngr.tmr.runners.test_run import CollectedTests

_MAX_ATTEMPTS = 8
# What pip says about a package that it cannot install.
_PIP_ERRORS = (
    r"No matching distribution found for ([A-Za-z0-9][\w.-]*)",
    r"requirement ([A-Za-z0-9][\w.-]*)",
    r"[Ff]ailed (?:to build|building (?:wheel|editable) for) '?([A-Za-z0-9][\w.-]*)",
    r"ERROR: Cannot install ([A-Za-z0-9][\w.-]*)",
)

Listener = Callable[[str], None]


class SettingsTrial(Struct):
    """The settings that `init` wrote, and what mngr saw when it tried them."""

    project: DetectedProject
    tests: int | None = None  # tests that were collected; None: mngr did not try
    seconds: float = 0.0  # how long the collection took
    summary: str = ""  # one sentence
    uncollected: list[str] = []  # files of tests that cannot be collected, with the reason
    error: MngrError | None = None  # why no test can run


class _Attempt(Struct):
    """One attempt: the collection, or the error of set-up."""

    collected: CollectedTests | None = None
    error: MngrError | None = None
    setup_output: str = ""


def init_and_try(fleet: Fleet, *, force: bool, on_message: Listener) -> SettingsTrial:
    """Write the project's settings, try them in a scratch copy, and correct them as far as possible."""
    project = init_project(fleet.context, force=force)
    root = paths.find_project_root(fleet.context.cwd) or fleet.context.cwd
    obstacle = _find_obstacle(fleet, project, root)
    if obstacle:
        return SettingsTrial(project=project, summary=obstacle)
    adjustments, attempt = NO_ADJUSTMENTS, _Attempt()
    for _ in range(_MAX_ATTEMPTS):
        on_message(f"trying in a scratch copy: {project.find_value('project.setup') or 'collect the tests'}")
        try:
            attempt = _try_once(fleet, project, root)
        except SandboxUnavailable as error:
            return SettingsTrial(
                project=project, summary=f"mngr did not try these settings: {error.message}. {error.hint}"
            )
        better = _choose_next_adjustments(root, project, adjustments, attempt)
        if better is None:
            break
        for sentence in _describe_change(adjustments, better):
            on_message(sentence)
        adjustments = better
        project = init_project(fleet.context, force=True, adjustments=adjustments)
    return _make_trial(project, attempt)


def _find_obstacle(fleet: Fleet, project: DetectedProject, root: str) -> str:
    """Return why mngr cannot try the settings, as a sentence with the next step, or an empty text."""
    if not project.find_value("project.pytest"):
        return "mngr found no Python tests, so there was nothing to try. Write a test, then run: mngr init --force"
    if fleet.context.is_agent_work_dir(root):
        return "mngr did not try these settings, because this is the work dir of an agent"
    repo = git.find_repo(fleet.context.local_host, root, git.SAFE_GIT)
    if repo is None:
        command = f"cd {shlex.quote(root)} && git init && git add -A && git commit -m start && mngr init --force"
        return f"mngr did not try these settings, because {root} is not a git repository. Run: {command}"
    if repo.head is None:
        command = "git add -A && git commit -m start && mngr init --force"
        return f"mngr did not try these settings, because the repository has no commit. Run: {command}"
    return ""


def _try_once(fleet: Fleet, project: DetectedProject, root: str) -> _Attempt:
    """Set up a scratch copy of the last commit and collect its tests there."""
    head = git.run_checked(fleet.context.local_host, root, "rev-parse", "HEAD", git_command=git.SAFE_GIT).strip()
    program = project.find_value("project.program")
    plan = RunPlan(base=head, pytest=shlex.split(project.find_value("project.pytest") or ""), program=program)
    options = build_room_options(fleet, plan, trusted_commit=head)
    rooms = CleanRoomPool(fleet, f"init-{os.urandom(3).hex()}", root, options, at_once=1)
    try:
        with contextlib.closing(rooms), rooms.acquire(head) as room:
            collected = choose_runner_of_plan(plan).collect(room, program=program)
    except SetupFailed as error:
        return _Attempt(error=error, setup_output=error.output)
    if not collected.tests:
        return _Attempt(collected=collected, error=make_collection_error(collected))
    problems = describe_foreign_code(collected.resolved, program, collected.checkout_modules)
    if problems:
        message = f"the tests would load the program from outside their copy: {problems[0]}"
        hint = "correct the settings, then try again: mngr tmr run --dry-run"
        return _Attempt(collected=collected, error=MngrError(message, hint))
    return _Attempt(collected=collected)


def _choose_next_adjustments(
    root: str, project: DetectedProject, adjustments: Adjustments, attempt: _Attempt
) -> Adjustments | None:
    """Return better adjustments after an attempt, or None when it was good or nothing else can be tried."""
    if attempt.collected is None:
        source = _find_culprit(project.avoidable, attempt.setup_output)
        if source is None:
            return None
        return adjustments.replace(avoided=adjustments.avoided | {source.name})
    files = find_python_project(root)
    failures = "\n".join(f"{failure.message}\n{failure.text}" for failure in attempt.collected.failures)
    output = f"{attempt.collected.output}\n{failures}" if attempt.collected.errors else ""
    missing = list_missing_packages(output, list_declared_requirements(files), files)
    known = {normalize_name(need.package) for need in adjustments.added}
    new = [
        need
        for need in missing
        if normalize_name(need.package) not in known and need.package not in adjustments.avoided
    ]
    return adjustments.replace(added=(*adjustments.added, *new)) if new else None


def _find_culprit(sources: list[RequirementSource], output: str) -> RequirementSource | None:
    """Return the source of the package that pip could not install, or the least important one."""
    names = {normalize_name(name) for pattern in _PIP_ERRORS for name in re.findall(pattern, output)}
    for source in sources:
        if names & {normalize_name(requirement) for requirement in source.requirements}:
            return source
    return sources[0] if sources else None


def _describe_change(before: Adjustments, after: Adjustments) -> list[str]:
    sentences = [f"that failed; trying without {name.partition('#')[0]}" for name in after.avoided - before.avoided]
    return [*sentences, *(f"{need.reason}: adding {need.package}" for need in after.added[len(before.added) :])]


def _make_trial(project: DetectedProject, attempt: _Attempt) -> SettingsTrial:
    """Return what the last attempt showed."""
    collected = attempt.collected
    if collected is None:
        return SettingsTrial(project=project, tests=0, summary="set-up failed", error=attempt.error)
    count = sum(len(test.ids) for test in collected.tests)
    uncollected = [f"{failure.id}: {summarize_failure(failure)}" for failure in collected.failures]
    summary = f"{count} {'test' if count == 1 else 'tests'} collected in {collected.seconds:.1f} s"
    if uncollected and count:
        summary += f"; {len(uncollected)} {'file' if len(uncollected) == 1 else 'files'} cannot be collected"
    return SettingsTrial(
        project=project,
        tests=count,
        seconds=collected.seconds,
        summary=summary,
        uncollected=uncollected,
        error=attempt.error,
    )
