"""The run's own repository: what agents claim is fetched into it, and everything after that reads only it."""

from __future__ import annotations

import os

from mngr import git
from mngr.errors import MngrError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.host import Host
    from mngr.mapreduce.rundir import RunDir


def make_repo(local: Host, run: RunDir) -> str:
    """A bare repository that sees the objects of the user's, which keeps the base for it; the base commit."""
    repo = git.find_repo(local, run.root)
    if repo is None or repo.head is None:
        raise MngrError(f"{run.root} has no commit to start from", "commit what there is first")
    form = git.must(local, repo.root, "rev-parse", "--show-object-format")
    git.must(local, run.path, "init", "--quiet", "--bare", f"--object-format={form}", "--template=", run.repo)
    objects = os.path.join(repo.common_dir, "objects")
    with open(os.path.join(run.repo, "objects", "info", "alternates"), "w", encoding="utf-8") as file:
        file.write(objects + "\n")
    shallow = os.path.join(repo.common_dir, "shallow")
    if os.path.exists(shallow):
        with (
            open(shallow, encoding="ascii") as here,
            open(os.path.join(run.repo, "shallow"), "w", encoding="ascii") as there,
        ):
            there.write(here.read())
    keep(local, run, "base", repo.head)
    return repo.head


def keep(local: Host, run: RunDir, name: str, commit: str) -> None:
    """A name for a commit in both repositories, so that no `git gc` takes it; agents are made from the user's."""
    git.must(local, run.repo, "update-ref", run.ref(name), commit)
    repo = git.find_repo(local, run.root)
    assert repo is not None
    if git.resolve(local, repo.root, commit) is None:
        git.must(
            local,
            repo.root,
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            run.repo,
            run.ref(name),
        )
    git.must(local, repo.root, "update-ref", run.ref(name), commit)


def forget(local: Host, run: RunDir) -> int:
    """Take away every name that a run has in the user's repository; how many there were."""
    names = _names(local, run)
    for name in names:
        git.must(local, run.root, "update-ref", "-d", name)
    return len(names)


def count(local: Host, run: RunDir) -> int:
    """How many names a run has in the user's repository."""
    return len(_names(local, run))


def _names(local: Host, run: RunDir) -> list[str]:
    place = f"refs/mngr/runs/{run.name}"
    return git.must(local, run.root, "for-each-ref", "--format=%(refname)", place).split()
