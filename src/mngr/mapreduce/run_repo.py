"""The run's own repository. mngr fetches the agents' commits into it, and every later step reads only from it."""

from __future__ import annotations

import contextlib
import os
import shutil

from mngr.api import Fleet
from mngr.base.errors import MngrError
from mngr.host import git
from mngr.host.git import Repo
from mngr.host.protocol import Host
from mngr.mapreduce.run_dir import RunDir, create_run_dir, get_run

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
        if name is not None:
            _claim_name(fleet, run)
        _make_repo(local, run, repo)
    except BaseException:
        shutil.rmtree(run.path)
        raise
    return run, repo.head


def get_own_run(local: Host, root: str, name: str | None = None, kind: str | None = None) -> RunDir:
    """Return a run as `get_run` does. Raise MngrError for a run that came with the repository."""
    run = get_run(root, name, kind)
    if not is_own_run(local, run):
        raise MngrError(
            f"{run.path} came with the repository, so mngr uses neither its plan nor its commits",
            f"delete it: git rm -r {os.path.relpath(run.path, root)}",
        )
    return run


def is_own_run(local: Host, run: RunDir) -> bool:
    """True unless git tracks the folder of the run. A run's plan says which commands run, and in which sandbox."""
    if os.path.realpath(run.path) != os.path.join(os.path.realpath(run.root), ".mngr", "runs", run.name):
        return False
    tracked = git.run(local, run.root, "ls-files", "-z", "--", ".mngr", git_command=git.SAFE_GIT)
    names = tracked.out.decode("utf-8", "surrogateescape").split("\0")
    folder = f".mngr/runs/{run.name}"
    return not any(name in (".mngr", ".mngr/runs", folder) or name.startswith(f"{folder}/") for name in names)


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
