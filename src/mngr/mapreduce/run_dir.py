"""The folder of a run, `.mngr/runs/RUN/`: all of its state is in there."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time

from mngr.base.errors import MngrError, NotFound, UsageError, suggest_closest
from mngr.base.names import is_agent_name

_MAX_SLUG_WORD = 31  # characters of a task's name in its slug, so that `tmr-RUN-SLUG-2` is an agent's name


class RunDir:
    """Every path of one run."""

    def __init__(self, root: str, name: str) -> None:
        self.root = root  # of the project
        self.name = name
        self.path = os.path.join(root, ".mngr", "runs", name)
        self.plan = os.path.join(self.path, "run.json")
        self.journal = os.path.join(self.path, "journal.jsonl")
        self.repo = os.path.join(self.path, "repo.git")
        self.tasks = os.path.join(self.path, "tasks")

    def task_path(self, slug: str, *more: str) -> str:
        """A path in the folder of a task."""
        return os.path.join(self.tasks, slug, *more)

    def ref_name(self, slug: str) -> str:
        """Where the work of a task is kept."""
        return f"refs/mngr/runs/{self.name}/{slug}"


def create_run_dir(root: str, name: str | None = None) -> RunDir:
    """A folder for a new run; MngrError when there is one of that name."""
    if name is None:
        name = time.strftime("%Y%m%d-%H%M%S-", time.gmtime()) + os.urandom(2).hex()
    elif not is_agent_name(name) or len(name) > 20:
        raise UsageError(
            f"--name: {name!r} cannot be the name of a run",
            "at most 20 of a-z, 0-9, _ and -, as for an agent",
        )
    run = RunDir(root, name)
    above = os.path.dirname(run.path)
    os.makedirs(above, exist_ok=True)
    ignore = os.path.join(above, ".gitignore")
    if not os.path.exists(ignore):
        with open(ignore, "w", encoding="utf-8") as file:
            file.write("*\n")
    try:
        os.mkdir(run.path, 0o700)
    except FileExistsError:
        go_on = f"mngr map --resume {name}" if _read_kind(run) == "map" else f"mngr tmr resume {name}"
        raise MngrError(f"there is a run {name!r} already", f"go on with it: {go_on}, or choose another name") from None
    os.mkdir(run.tasks)
    return run


def list_runs(root: str) -> list[str]:
    """The runs of a project, the latest last."""
    place = os.path.join(root, ".mngr", "runs")
    try:
        names = [name for name in os.listdir(place) if is_agent_name(name)]
    except FileNotFoundError:
        return []

    def begun(name: str) -> tuple[float, str]:
        try:
            return os.stat(os.path.join(place, name, "run.json")).st_mtime, name
        except OSError:
            return 0.0, name

    return sorted(names, key=begun)


def get_run(root: str, name: str | None = None, kind: str | None = None) -> RunDir:
    """A run by name, without one the latest, or the latest of a kind; raises NotFound."""
    known = list_runs(root)
    if name is None and kind is not None and known:
        known = [one for one in known if _read_kind(RunDir(root, one)) in (kind, None)]
        if not known:
            raise NotFound(f"there is no run of {kind} in {root}", "see: mngr tmr list")
    if not known:
        raise NotFound(f"there is no run in {root}", "make one: mngr tmr run, or mngr map")
    if name is not None and name not in known:
        raise NotFound(f"there is no run {name!r}", suggest_closest(name, known) or "see: mngr tmr list")
    return RunDir(root, name or known[-1])


def _read_kind(run: RunDir) -> str | None:
    """What the run is of; None when its plan cannot be read."""
    try:
        with open(run.plan, encoding="utf-8") as file:
            return str(json.load(file)["kind"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def make_slug(title: str, more: str = "") -> str:
    """What a task is called in paths, refs and agents: the last part of its title, and six digits of all of it and `more`."""
    last = re.split(r"::|/", title)[-1] or title
    word = re.sub(r"[^a-z0-9]+", "-", last.lower()).strip("-")[:_MAX_SLUG_WORD].strip("-") or "task"
    return f"{word}-{hashlib.sha256((title + more).encode('utf-8', 'surrogateescape')).hexdigest()[:6]}"
