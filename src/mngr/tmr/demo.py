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
from mngr.mapreduce.run_repo import begin
from mngr.tmr.commits.trees import OURS
from mngr.tmr.plan import Plan, save_plan

SAMPLE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "testkit", "sample")
_NEVER = ("__pycache__", "e2e", "runs", "outputs", "cache")  # what working in there would have left
# Whatever the user's own git does to every repository: hooks, signatures, line ends, files left out.
_PLAIN = ("core.hooksPath=/dev/null", "commit.gpgSign=false", "core.autocrlf=false", "core.excludesFile=/dev/null")  # fmt: skip


def check(fleet: Fleet) -> None:
    """MngrError with the next step for what would be missing on the way."""
    for one in fleet.doctor("mechanic"):
        if one.status == "error":
            raise MngrError(f"{one.name}: {one.problem}", one.hint)
    if importlib.util.find_spec("pytest") is None:
        has_pip = importlib.util.find_spec("pip") is not None
        way = f"{sys.executable} -m pip install" if has_pip else f"uv pip install --python {sys.executable}"
        raise MngrError(f"the sample is tested with pytest, and {sys.executable} has none", f"{way} pytest")


def lay_out(fleet: Fleet, place: str) -> None:
    """Make the repository in a directory that is empty or not there: one commit, tested by the Python that has mngr."""
    shutil.copytree(SAMPLE, place, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*_NEVER))
    os.chmod(os.path.join(place, "bin", "pantry"), 0o755)
    local = fleet.context.local
    git.must(local, place, "init", "--quiet", "--template=", ".")
    fleet.set_setting("project.pytest", shlex.join(_pytest()), "project")
    name, _, mail = OURS.rstrip(">").partition(" <")
    plain = [word for one in (*_PLAIN, f"user.name={name}", f"user.email={mail}") for word in ("-c", one)]
    git.must(local, place, *plain, "add", "--all")
    git.must(local, place, *plain, "commit", "--quiet", "--message", "A pantry")


def begin_run(fleet: Fleet, place: str, paths: list[str]) -> RunDir:
    """A run of the mechanic on it that is about to go; what the user's settings wish for runs has no say in it."""
    run, base = begin(fleet, place, None)
    plan = Plan(
        base=base, pytest=_pytest(), paths=paths, program="pantry", tutorial="tutorial.sh", k=1, verify_k=2, tries=1
    )  # fmt: skip
    save_plan(run, plan)
    return run


def _pytest() -> list[str]:
    return [sys.executable, "-m", "pytest"]
