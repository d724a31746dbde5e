"""The run's own repository: what agents claim is fetched into it, and everything after that reads only it."""

from __future__ import annotations

from mngr import git
from mngr.errors import MngrError
from mngr.mapreduce.rundir import new_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.git import Repo
    from mngr.host import Host
    from mngr.mapreduce.rundir import RunDir


_FETCH = (
    "-c",
    "fetch.unpackLimit=1",
    "fetch",
    "--quiet",
    "--no-tags",
    "--no-write-fetch-head",
    "--no-auto-maintenance",
    "--update-shallow",
)


def begin(local: Host, root: str, name: str | None) -> tuple[RunDir, str]:
    """The folder of a new run and the commit it starts from; nothing is made where there is none."""
    repo = git.find_repo(local, root)
    if repo is None or repo.head is None:
        raise MngrError(f"{root} has no commit to start from", "commit what there is first")
    run = new_run(root, name)
    _make_repo(local, run, repo)
    return run, repo.head


def _make_repo(local: Host, run: RunDir, repo: Repo) -> None:
    """A bare repository with all branches and tags of the user's, in one pack, from which agents are made."""
    form = git.must(local, repo.root, "rev-parse", "--show-object-format")
    git.must(local, run.path, "init", "--quiet", "--bare", f"--object-format={form}", "--template=", run.repo)
    specs = [f"+{name}/*:{name}/*" for name in ("refs/heads", "refs/tags")]
    git.must(local, run.repo, *_FETCH, repo.root, *specs, f"+HEAD:{run.ref('base')}")


def keep(local: Host, run: RunDir, name: str, commit: str) -> None:
    """A name for a commit, so that no `git gc` takes it."""
    git.must(local, run.repo, "update-ref", run.ref(name), commit)
