"""The run's own repository: what agents claim is fetched into it, and everything after that reads only it."""

from __future__ import annotations

import contextlib
import os
import shutil

from mngr.api import Fleet
from mngr.base.errors import MngrError
from mngr.host import git
from mngr.host.git import Repo
from mngr.host.protocol import Host
from mngr.mapreduce.run_dir import RunDir, create_run_dir

_FETCH_ARGS = (
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
    """The folder of a new run and the commit it starts from; nothing is made where there is none."""
    local = fleet.context.local_host
    repo = git.find_repo(local, root)
    if repo is None or repo.head is None:
        raise MngrError(f"{root} has no commit to start from", "commit what there is first")
    run = create_run_dir(root, name)
    try:
        if name is not None:
            _claim_name(fleet, run)
        _make_repo(local, run, repo)
    except BaseException:
        shutil.rmtree(run.path)
        raise
    return run, repo.head


def _claim_name(fleet: Fleet, run: RunDir) -> None:
    """Have a name for this run alone, for agents are called by it and found by it; MngrError when another has it."""
    place = os.path.join(fleet.context.home.cache, "runs")
    fleet.context.home.create()
    os.makedirs(place, exist_ok=True)
    link = os.path.join(place, run.name)
    while True:
        try:
            os.symlink(run.path, link)
            break
        except FileExistsError:
            other = os.path.realpath(link)
            if os.path.isdir(other) and other != os.path.realpath(run.path):
                raise MngrError(f"a run {run.name!r} is in {other} already", "choose another name") from None
            with contextlib.suppress(FileNotFoundError):
                os.unlink(link)  # its folder is gone
    left = [agent.name for agent in fleet.list().agents if agent.labels.get("run") == run.name]
    if left:
        hint = f"choose another name, or: mngr list --label run={run.name} --ids | mngr destroy - --force"
        raise MngrError(f"{left[0]} is there still, of an earlier run {run.name!r}", hint)


def _make_repo(local: Host, run: RunDir, repo: Repo) -> None:
    """A bare repository with all branches and tags of the user's, in one pack, from which agents are made."""
    form = git.run_checked(local, repo.root, "rev-parse", "--show-object-format")
    git.run_checked(local, run.path, "init", "--quiet", "--bare", f"--object-format={form}", "--template=", run.repo)
    for key in (
        "user.name",
        "user.email",
    ):  # so that agents can commit where only this project says who one is
        if who := git.run(local, repo.root, "config", "--local", key).text:
            git.run_checked(local, run.repo, "config", key, who)
    specs = [f"+{name}/*:{name}/*" for name in ("refs/heads", "refs/tags")]
    git.run_checked(local, run.repo, *_FETCH_ARGS, repo.root, *specs, f"+HEAD:{run.ref_name('base')}")


def pin_commit(local: Host, run: RunDir, name: str, commit: str) -> None:
    """A name for a commit, so that no `git gc` takes it."""
    git.run_checked(local, run.repo, "update-ref", run.ref_name(name), commit)
