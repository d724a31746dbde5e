"""Creates a repository from the packaged sample project, and a run on it."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import sys

from mngr.agents.sandbox.host_isolation import check_isolation
from mngr.api import Fleet
from mngr.base.errors import MngrError
from mngr.host import git
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_repo import create_run
from mngr.setup.trust import inspect_trust, trust_project
from mngr.tmr.commits.trees import MNGR_AUTHOR
from mngr.tmr.run_plan import RunPlan, save_plan

SAMPLE_DIR = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "testkit", "sample")
_SKIPPED_DIRS = ("__pycache__", "e2e", "runs", "outputs", "cache")  # leftovers of working in the sample directory
# Turn off the user's global git settings: hooks, signatures, line ends and ignored files.
_GIT_SETTINGS = (
    "core.hooksPath=/dev/null",
    "commit.gpgSign=false",
    "core.autocrlf=false",
    "core.excludesFile=/dev/null",
)


def check_requirements(fleet: Fleet) -> None:
    """Raise MngrError, with the next step as its hint, when the demo cannot run here."""
    for check in fleet.doctor("mechanic"):
        if check.status == "error":
            raise MngrError(f"{check.name}: {check.problem}", check.hint)
    if importlib.util.find_spec("pytest") is None:
        has_pip = importlib.util.find_spec("pip") is not None
        install_command = f"{sys.executable} -m pip install" if has_pip else f"uv pip install --python {sys.executable}"
        raise MngrError(
            f"the sample project needs pytest, which {sys.executable} does not have",
            f"install it: {install_command} pytest",
        )


def create_sample_repo(fleet: Fleet, project_dir: str) -> None:
    """Create the repository in an empty or missing directory, with one commit.

    The Python that runs mngr also runs the sample's tests.
    """
    shutil.copytree(SAMPLE_DIR, project_dir, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*_SKIPPED_DIRS))
    os.chmod(os.path.join(project_dir, "bin", "pantry"), 0o755)
    local = fleet.context.local_host
    git.run_checked(local, project_dir, "init", "--quiet", "--template=", ".", git_command=git.GIT)
    fleet.set_setting("project.pytest", shlex.join(_build_pytest_command()), "project")
    name, _, email = MNGR_AUTHOR.rstrip(">").partition(" <")
    git_options = [
        word for setting in (*_GIT_SETTINGS, f"user.name={name}", f"user.email={email}") for word in ("-c", setting)
    ]
    git.run_checked(local, project_dir, *git_options, "add", "--all", git_command=git.GIT)
    git.run_checked(local, project_dir, *git_options, "commit", "--quiet", "--message", "A pantry", git_command=git.GIT)
    trust_project(fleet.context, inspect_trust(fleet.context, project_dir))  # The settings are mngr's own.


def create_demo_run(fleet: Fleet, project_dir: str, paths: list[str]) -> RunDir:
    """Create a run with the rule-based agent, ready to start. The user's settings for runs do not apply.

    Where this machine cannot isolate tests, the plan goes without: the sample's tests are part of mngr.
    """
    run, base = create_run(fleet, project_dir, None)
    plan = RunPlan(
        base=base,
        pytest=_build_pytest_command(),
        paths=paths,
        program="pantry",
        tutorial="tutorial.sh",
        baseline_runs=1,
        receipt_runs=2,
        root_cause_attempts=1,
    )
    if problem := check_isolation(fleet.context.local_host).problem:
        plan = plan.replace(isolation="off", no_sandbox_reason=problem)
    save_plan(run, plan)
    return run


def _build_pytest_command() -> list[str]:
    """Return the command that runs pytest with the present Python."""
    return [sys.executable, "-m", "pytest"]
