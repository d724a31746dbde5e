"""The folder of a run, `.mngr/runs/RUN/`, which holds all of its state."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time

from mngr.base.errors import MngrError, NotFound, UsageError, suggest_closest
from mngr.base.names_and_addresses import is_agent_name
from mngr.base.trust import project_files

_RUNS_DIR = os.path.join(".mngr", "runs")  # in the project
_MAX_SLUG_WORD = 31  # characters of a task's title in its slug, so that `tmr-RUN-SLUG-2` is a valid agent name


class RunDir:
    """The paths of one run."""

    def __init__(self, root: str, name: str) -> None:
        self.root = root  # the project's directory
        self.name = name
        self.path = os.path.join(root, _RUNS_DIR, name)
        self.plan = os.path.join(self.path, "run.json")
        self.journal = os.path.join(self.path, "journal.jsonl")
        self.repo = os.path.join(self.path, "repo.git")
        self.tasks = os.path.join(self.path, "tasks")

    def task_path(self, slug: str, *parts: str) -> str:
        """Return a path in the folder of a task."""
        return os.path.join(self.tasks, slug, *parts)

    def ref_name(self, slug: str) -> str:
        """Return the git ref that holds the work of a task."""
        return f"refs/mngr/runs/{self.name}/{slug}"


def create_run_dir(root: str, name: str | None = None) -> RunDir:
    """Create the folder of a new run. Raise MngrError when a run of that name exists."""
    if name is None:
        name = time.strftime("%Y%m%d-%H%M%S-", time.gmtime()) + os.urandom(2).hex()
    elif not is_agent_name(name) or len(name) > 20:
        raise UsageError(
            f"--name: a run cannot be called {name!r}",
            "use at most 20 characters: a-z, 0-9, _ and -; for example: --name nightly",
        )
    run = RunDir(root, name)
    project_files.write_new_project_file(root, os.path.join(_RUNS_DIR, ".gitignore"), b"*\n")
    try:
        os.mkdir(run.path, 0o700)
    except FileExistsError:
        resume_command = f"mngr map --resume {name}" if _read_kind(run) == "map" else f"mngr tmr resume {name}"
        raise MngrError(
            f"the run {name!r} exists already",
            f"continue it: {resume_command}; or choose another name, for example: --name {name}-2",
        ) from None
    os.mkdir(run.tasks)
    return run


def list_runs(root: str) -> list[str]:
    """Return the names of a project's runs, the latest last."""
    runs_dir = os.path.join(root, _RUNS_DIR)
    try:
        names = [name for name in os.listdir(runs_dir) if is_agent_name(name)]
    except FileNotFoundError:
        return []

    def creation_key(name: str) -> tuple[float, str]:
        try:
            return os.stat(os.path.join(runs_dir, name, "run.json")).st_mtime, name
        except OSError:
            return 0.0, name

    return sorted(names, key=creation_key)


def get_run(root: str, name: str | None = None, kind: str | None = None) -> RunDir:
    """Return a run by name, or the latest one, or the latest one of a kind. Raise NotFound when there is none."""
    names = list_runs(root)
    if name is None and kind is not None and names:
        names = [run_name for run_name in names if _read_kind(RunDir(root, run_name)) in (kind, None)]
        if not names:
            raise NotFound(f"there is no run of `mngr {kind}` in {root}", "list the runs: mngr tmr list")
    if not names:
        raise NotFound(f"there is no run in {root}", "start one: mngr tmr run")
    if name is not None and name not in names:
        raise NotFound(f"there is no run {name!r}", suggest_closest(name, names) or "list the runs: mngr tmr list")
    return RunDir(root, name or names[-1])


def _read_kind(run: RunDir) -> str | None:
    """Return the run's kind, or None when its plan cannot be read."""
    try:
        with open(run.plan, encoding="utf-8") as file:
            return str(json.load(file)["kind"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def make_slug(title: str, more: str = "") -> str:
    """Return a task's name for paths, refs and agents: the end of its title and six hex digits of a hash.

    The hash covers the title and `more`.
    """
    last_part = re.split(r"::|/", title)[-1] or title
    word = re.sub(r"[^a-z0-9]+", "-", last_part.lower()).strip("-")[:_MAX_SLUG_WORD].strip("-") or "task"
    return f"{word}-{hashlib.sha256((title + more).encode('utf-8', 'surrogateescape')).hexdigest()[:6]}"
