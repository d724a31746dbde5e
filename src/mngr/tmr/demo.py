"""The sample project that lies in the package, as a repository of somebody's own, and a run on it."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import sys

from mngr.api import Fleet
from mngr.base.errors import MngrError
from mngr.host import git
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_repo import create_run
from mngr.tmr.commits.trees import MNGR_AUTHOR
from mngr.tmr.plan import RunPlan, save_plan

SAMPLE_DIR = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "testkit", "sample")
_SKIPPED_DIRS = ("__pycache__", "e2e", "runs", "outputs", "cache")  # what working in there would have left
# Whatever the user's own git does to every repository: hooks, signatures, line ends, files left out.
_GIT_SETTINGS = ("core.hooksPath=/dev/null", "commit.gpgSign=false", "core.autocrlf=false", "core.excludesFile=/dev/null")  # fmt: skip


def check_requirements(fleet: Fleet) -> None:
    """MngrError with the next step for what would be missing on the way."""
    for one in fleet.doctor("mechanic"):
        if one.status == "error":
            raise MngrError(f"{one.name}: {one.problem}", one.hint)
    if importlib.util.find_spec("pytest") is None:
        has_pip = importlib.util.find_spec("pip") is not None
        way = f"{sys.executable} -m pip install" if has_pip else f"uv pip install --python {sys.executable}"
        raise MngrError(f"the sample is tested with pytest, and {sys.executable} has none", f"{way} pytest")


def create_sample_repo(fleet: Fleet, place: str) -> None:
    """Make the repository in a directory that is empty or not there: one commit, tested by the Python that has mngr."""
    shutil.copytree(SAMPLE_DIR, place, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*_SKIPPED_DIRS))
    os.chmod(os.path.join(place, "bin", "pantry"), 0o755)
    local = fleet.context.local_host
    git.run_checked(local, place, "init", "--quiet", "--template=", ".")
    fleet.set_setting("project.pytest", shlex.join(_build_pytest_command()), "project")
    name, _, mail = MNGR_AUTHOR.rstrip(">").partition(" <")
    plain = [word for one in (*_GIT_SETTINGS, f"user.name={name}", f"user.email={mail}") for word in ("-c", one)]
    git.run_checked(local, place, *plain, "add", "--all")
    git.run_checked(local, place, *plain, "commit", "--quiet", "--message", "A pantry")


def create_demo_run(fleet: Fleet, place: str, paths: list[str]) -> RunDir:
    """A run of the mechanic on it that is about to go; what the user's settings wish for runs has no say in it."""
    run, base = create_run(fleet, place, None)
    plan = RunPlan(
        base=base, pytest=_build_pytest_command(), paths=paths, program="pantry", tutorial="tutorial.sh", k=1, verify_k=2, tries=1
    )  # fmt: skip
    save_plan(run, plan)
    return run


def _build_pytest_command() -> list[str]:
    return [sys.executable, "-m", "pytest"]
