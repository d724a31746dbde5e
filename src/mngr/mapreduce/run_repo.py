"""The run's own repository. mngr fetches the agents' commits into it, and every later step reads only from it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil

from mngr.api import Fleet
from mngr.base import paths, shell
from mngr.base.errors import MngrError
from mngr.base.paths import Home
from mngr.host import git
from mngr.host.git import Repo
from mngr.host.protocol import Host
from mngr.mapreduce.run_dir import RunDir, create_run_dir, get_run

_ID_FILE = "id"
_RUN_ID = re.compile(r"[0-9a-f]{32}")
_MAX_ID_BYTES = 64
_FETCH_ARGS = (
    "--git-dir=.",  # the run's own repository is bare
    "-c",
    "fetch.unpackLimit=1",
    "fetch",
    "--quiet",
    "--no-tags",
    "--no-write-fetch-head",
    "--no-auto-maintenance",
    "--update-shallow",
)


def create_run(fleet: Fleet, root: str, name: str | None) -> tuple[RunDir, str]:
    """Create a run and return its folder and base commit. Create nothing when the project has no commit."""
    local = fleet.context.local_host
    repo = git.find_repo(local, root, git.SAFE_GIT)
    if repo is None or repo.head is None:
        raise MngrError(
            f"{root} has no commit to start from", "create a first commit: git add -A && git commit -m 'First commit'"
        )
    run = create_run_dir(root, name)
    try:
        register_run(fleet.context.home, run)
        if name is not None:
            _claim_name(fleet, run)
        _make_repo(local, run, repo)
    except BaseException:
        shutil.rmtree(run.path)
        raise
    return run, repo.head


def get_own_run(local: Host, root: str, name: str | None = None, kind: str | None = None) -> RunDir:
    """Return a run as `get_run` does. Raise MngrError for a run that this home did not create."""
    run = get_run(root, name, kind)
    if not is_own_run(local, run):
        path = shell.join([run.path])
        raise MngrError(
            f"mngr's home has no record of the run {run.path}, so mngr uses neither its plan nor its commits",
            f"use the home that created the run: mngr --home DIR tmr status; or delete the run: rm -r {path}",
        )
    return run


def is_own_run(local: Host, run: RunDir) -> bool:
    """True for a run that this home created. A run's plan says which commands run, and in which sandbox.

    A repository or an archive can contain such a folder, but it does not know an id of this home. A folder with a known id is
    a copy unless it is in the same place, or has been moved.
    """
    real_path = os.path.realpath(run.path)
    if real_path != os.path.join(os.path.realpath(run.root), ".mngr", "runs", run.name):
        return False
    try:
        folder = os.lstat(real_path)
        with paths.open_plain_file(os.path.join(real_path, _ID_FILE)) as file:
            run_id = file.read(_MAX_ID_BYTES).decode("ascii", "replace")
        if folder.st_uid != os.geteuid() or not _RUN_ID.fullmatch(run_id):
            return False
        with open(os.path.join(local.home.own_runs, run_id), encoding="utf-8", errors="surrogateescape") as file:
            created_path, _, created_inode = file.read().partition("\0")
    except OSError:
        return False
    return created_path == real_path or created_inode == _format_inode(folder)


def register_run(home: Home, run: RunDir) -> None:
    """Write an id into the folder of a new run, and note in the home that it created this run."""
    home.create()
    os.makedirs(home.own_runs, mode=0o700, exist_ok=True)
    run_id = os.urandom(16).hex()
    real_path = os.path.realpath(run.path)
    text = f"{real_path}\0{_format_inode(os.lstat(real_path))}"
    with open(os.path.join(home.own_runs, run_id), "x", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    with open(os.path.join(run.path, _ID_FILE), "x", encoding="ascii") as file:
        file.write(run_id)


def _format_inode(folder: os.stat_result) -> str:
    return f"{folder.st_dev}:{folder.st_ino}"


def _claim_name(fleet: Fleet, run: RunDir) -> None:
    """Reserve the run's name, because agents are named after it. Raise MngrError when another run has it."""
    links_dir = os.path.join(fleet.context.home.cache, "runs")
    fleet.context.home.create()
    os.makedirs(links_dir, exist_ok=True)
    link = os.path.join(links_dir, run.name)
    while True:
        try:
            os.symlink(run.path, link)
            break
        except FileExistsError:
            other = os.path.realpath(link)
            if os.path.isdir(other) and other != os.path.realpath(run.path):
                raise MngrError(
                    f"the run in {other} already has the name {run.name!r}",
                    f"choose another name, for example: --name {run.name}-2",
                ) from None
            with contextlib.suppress(FileNotFoundError):
                os.unlink(link)  # the other run's folder is gone
    old_agents = [agent.name for agent in fleet.list().agents if agent.labels.get("run") == run.name]
    if old_agents:
        hint = f"choose another name (--name {run.name}-2), or destroy the old agents: mngr list --label run={run.name} --ids | mngr destroy - --force"
        raise MngrError(f"the agent {old_agents[0]} of an earlier run {run.name!r} still exists", hint)


def _make_repo(local: Host, run: RunDir, repo: Repo) -> None:
    """Create a bare repository with all branches and tags of the user's repository, in one pack."""
    object_format = git.run_checked(local, repo.root, "rev-parse", "--show-object-format", git_command=git.SAFE_GIT)
    git.run_checked(
        local,
        run.path,
        "init",
        "--quiet",
        "--bare",
        f"--object-format={object_format}",
        "--template=",
        run.repo,
        git_command=git.ISOLATED_GIT,
    )
    # Agents must be able to commit when only the project's configuration names an author.
    for key in ("user.name", "user.email"):
        if value := git.run(local, repo.root, "config", "--local", key, git_command=git.SAFE_GIT).text:
            git.run_checked(local, run.repo, "config", key, value, git_command=git.ISOLATED_GIT)
    specs = [f"+{name}/*:{name}/*" for name in ("refs/heads", "refs/tags")]
    git.run_checked(
        local, run.repo, *_FETCH_ARGS, repo.root, *specs, f"+HEAD:{run.ref_name('base')}", git_command=git.GIT
    )


def pin_commit(local: Host, run: RunDir, name: str, commit: str) -> None:
    """Point a ref at a commit, so that `git gc` keeps it."""
    git.run_checked(local, run.repo, "update-ref", run.ref_name(name), commit, git_command=git.ISOLATED_GIT)
