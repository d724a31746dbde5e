"""`pull`: an agent's commits and outputs, checked before they land here."""

from __future__ import annotations

import os

from mngr import git, paths, store
from mngr.errors import MngrError
from mngr.lock import Lock
from mngr.model import Record
from mngr.ops import files, find, sandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.git import Repo
    from mngr.host import Host
    from mngr.model import AgentRecord
    from mngr.ops.context import Context

# Nothing the agent's repository says may run here, and every object is checked.
SAFE = (
    "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "fetch.fsckObjects=true",
    "-c", "transfer.fsckObjects=true", "-c", "protocol.ext.allow=never", "-c", "submodule.recurse=false",
)  # fmt: skip
# A repository made from a shallow one is shallow too.
_FETCH = (
    "--quiet",
    "--no-tags",
    "--no-write-fetch-head",
    "--no-recurse-submodules",
    "--no-auto-maintenance",
    "--update-shallow",
)
LONGEST = 3600.0  # seconds that a fetch may take


class Pulled(Record):
    """What came."""

    id: str
    name: str
    branch: str | None
    commit: str | None
    commits: int  # how many were new here; of a shared repository, new to the current branch
    outputs: int
    outputs_dir: str | None
    merged: bool


def pull(ctx: Context, name: str, *, merge: bool = False) -> Pulled:
    """Bring the agent's branch and outputs into the repository of the current directory."""
    host, record = find.find(ctx, name)
    repo = git.find_repo(ctx.local, ctx.cwd)
    commit, new, merged = None, 0, False
    if record.base is not None and record.branch is not None and record.transfer != "copy":
        if repo is None:
            raise MngrError(
                f"{ctx.cwd} is not in a git repository", "go to the repository that shall have the work"
            )
        commit, new = _commits(ctx, host, repo, record)
        merged = merge and _merge(ctx, repo, record, commit)
    elif merge:
        raise MngrError(
            f"{record.name} has no branch ({record.transfer})",
            f"copy files with: mngr pull {record.name}:PATH",
        )
    root = repo.root if repo is not None else paths.find_project_root(ctx.cwd) or ctx.cwd
    count, place = _outputs(host, root, record)
    store.add_event(host, record.id, "pulled", commit=commit, commits=new, outputs=count)
    return Pulled(
        id=record.id, name=record.name, branch=record.branch, commit=commit, commits=new, outputs=count,
        outputs_dir=place, merged=merged,
    )  # fmt: skip


def fetch(ctx: Context, host: Host, record: AgentRecord) -> tuple[str, str]:
    """The agent's branch in a staging repository of ours, checked; (its path, the commit)."""
    staging = os.path.join(ctx.home.cache, "staging", record.id + ".git")
    local, there = ctx.local, sandbox.inside(host, record)
    if not os.path.isdir(staging):
        os.makedirs(os.path.dirname(staging), exist_ok=True)
        form = git.run(there, record.work_dir, "rev-parse", "--show-object-format").text or "sha1"
        made = local.run(
            ["git", "init", "--quiet", "--bare", "--template=", f"--object-format={form}", staging]
        )
        if made.code:
            raise MngrError(f"git init failed: {made.problem}", "check space and permissions")
    if record.source and os.path.isdir(record.source):  # what the user has need not travel
        known = git.find_repo(local, record.source)
        if known is not None:
            local.write(
                os.path.join(staging, "objects", "info", "alternates"),
                os.path.join(known.common_dir, "objects").encode() + b"\n",
            )
    guard = () if there.is_here else git.guard(there, record.work_dir)
    spec = f"+refs/heads/{record.branch}:refs/mngr/incoming"
    try:
        fetch_checked(local, staging, there.git_url(record.work_dir, guard), spec)
    except Refused as error:
        if "couldn't find remote ref" in error.message:
            raise MngrError(
                f"{record.name} no longer has the branch {record.branch!r}",
                f"look: mngr exec {record.name} -- git branch",
            ) from None
        raise MngrError(
            f"the work of {record.name} was refused: {error.message}", "nothing was changed here"
        ) from None
    commit = git.resolve(local, staging, "refs/mngr/incoming")
    if commit is None:
        raise MngrError(f"{record.name} has nothing to pull", "see: mngr diff")
    return staging, commit


class Refused(MngrError):
    """What a repository sends cannot be taken."""


def fetch_checked(local: Host, place: str, url: str, *specs: str) -> None:
    """Fetch into a repository of ours under limits, every object checked; nothing the other side says is run. Refused."""
    argv = ["git", "-C", place, *SAFE, *git.THROUGH, "fetch", *_FETCH, "--", url, *specs]
    limits = f'ulimit -f {files.MOST_BYTES // 512}; exec "$@"'
    result = local.run(["sh", "-c", limits, "fetch", *argv], timeout=LONGEST)
    if result.code:
        raise Refused(result.problem, "nothing was changed here")


def _commits(ctx: Context, host: Host, repo: Repo, record: AgentRecord) -> tuple[str, int]:
    local = ctx.local
    assert record.branch is not None
    source = _shared(local, record) if host is local and record.transfer in ("worktree", "none") else None
    if source is not None and os.path.realpath(source.common_dir) == os.path.realpath(repo.common_dir):
        commit = git.resolve(local, repo.root, f"refs/heads/{record.branch}")  # shared: they are here already
        if commit is None:
            raise MngrError(
                f"there is no branch {record.branch!r}", f"look: mngr exec {record.name} -- git branch"
            )
        return commit, git.count_commits(local, repo.root, [commit, f"^{repo.head or record.base}"])
    with Lock(os.path.join(repo.common_dir, "mngr.lock")):
        staging, commit = fetch(ctx, host, record)
        old = git.resolve(local, repo.root, f"refs/heads/{record.branch}")
        spec = f"+refs/mngr/incoming:refs/mngr/pulled/{record.id}"
        git.must(local, repo.root, *SAFE, "fetch", *_FETCH, "--", staging, spec)
        try:
            _advance(local, repo, record.branch, old, commit)
        finally:
            git.run(local, repo.root, "update-ref", "-d", f"refs/mngr/pulled/{record.id}")
        return commit, git.count_commits(local, repo.root, [commit, f"^{old or record.base}"])


def _shared(local: Host, record: AgentRecord) -> Repo | None:
    """The repository that holds the agent's branch, also when its work dir is gone."""
    found = git.find_repo(local, record.work_dir)
    return found or (git.find_repo(local, record.source) if record.source else None)


def _advance(local: Host, repo: Repo, branch: str, old: str | None, commit: str) -> None:
    """Move a branch of the user's forward, or refuse."""
    if old == commit:
        return
    if old is not None and git.run(local, repo.root, "merge-base", "--is-ancestor", old, commit).code:
        raise MngrError(
            f"the branch {branch!r} here has commits the agent's does not have",
            f"rename yours (git branch -m {branch} NEW), or push it to the agent first: mngr push",
        )
    where = _checked_out(local, repo, branch)
    if where is None:
        git.must(local, repo.root, "update-ref", "-m", "mngr pull", f"refs/heads/{branch}", commit, old or "")
        return
    if git.status(local, where):
        raise MngrError(
            f"{branch!r} is checked out at {where} with uncommitted changes", "commit or stash them first"
        )
    git.must(local, where, "-c", "core.hooksPath=/dev/null", "merge", "--quiet", "--ff-only", commit)


def _checked_out(local: Host, repo: Repo, branch: str) -> str | None:
    rows = git.must(local, repo.root, "worktree", "list", "--porcelain", "-z").split("\0\0")
    for row in rows:
        lines = row.split("\0")
        if f"branch refs/heads/{branch}" in lines:
            return next(line.removeprefix("worktree ") for line in lines if line.startswith("worktree "))
    return None


def _merge(ctx: Context, repo: Repo, record: AgentRecord, commit: str) -> bool:
    local = ctx.local
    if repo.branch is None:
        raise MngrError("HEAD is detached here", "check out the branch that shall have the work")
    if git.run(local, repo.root, "merge-base", "--is-ancestor", commit, "HEAD").code == 0:
        return False
    result = git.run(
        local,
        repo.root,
        "merge",
        "--quiet",
        "--no-edit",
        "-m",
        f"Merge {record.branch} of {record.name}",
        commit,
    )
    if result.code:
        conflicts = git.run(local, repo.root, "diff", "--name-only", "--diff-filter=U").text.split("\n")
        git.run(local, repo.root, "merge", "--abort")
        if any(conflicts):
            raise MngrError(
                f"merging {record.branch} conflicts in {', '.join(conflicts[:3])}; undone",
                f"git merge {record.branch}",
            )
        raise MngrError(
            f"merging {record.branch} failed: {result.problem}", "commit or stash your changes first"
        )
    return True


def _outputs(host: Host, root: str, record: AgentRecord) -> tuple[int, str | None]:
    """Files the agent left as its output, into `.mngr/outputs/NAME/`, which git never sees."""
    place = root
    for part in (".mngr", "outputs", record.name):
        place = os.path.join(place, part)
        if os.path.islink(place):
            raise MngrError(
                f"{place} is a link, so outputs would land elsewhere", "take it away, then pull again"
            )
    count = files.receive(
        sandbox.inside(host, record), os.path.join(host.home.agent(record.id), "outputs"), ["."], place
    )
    if not os.path.isdir(place):
        return 0, None
    ignore = os.path.join(os.path.dirname(place), ".gitignore")
    if not os.path.exists(ignore):
        with open(ignore, "w", encoding="utf-8") as file:
            file.write("*\n")
    return count, place
