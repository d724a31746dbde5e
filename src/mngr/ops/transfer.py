"""How an agent gets its own copy of the project: worktree, mirror, copy or none."""

from __future__ import annotations

import os

from mngr import git, shell
from mngr.errors import MngrError
from mngr.lock import Lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.git import Repo
    from mngr.host import Host
    from mngr.model import AgentRecord


class BranchTaken(MngrError):
    """The branch is somebody else's: nothing was made, so there is nothing of ours to take away."""


def make_worktree(host: Host, repo: Repo, record: AgentRecord) -> None:
    """Add under a lock on the repository, fill outside it: parallel `git worktree add` breaks."""
    assert record.branch is not None and record.base is not None
    if record.branch_is_new:
        words = ["--no-track", "-b", record.branch, record.work_dir, record.base]
    else:
        words = [record.work_dir, record.branch]
    with Lock(os.path.join(repo.common_dir, "mngr.lock")):
        result = git.run(host, repo.root, "worktree", "add", "--quiet", "--no-checkout", *words)
    if result.code:
        raise _branch_error(record, result.problem)
    git.must(host, record.work_dir, "reset", "--quiet", "--hard", "--no-recurse-submodules")


def branch_taken(branch: str) -> BranchTaken:
    """The error for a branch that exists."""
    return BranchTaken(
        f"there is already a branch {branch!r}",
        f"take it up with --branch {branch}, or name another: --branch :NEW",
    )


def _branch_error(record: AgentRecord, problem: str) -> MngrError:
    branch = record.branch or ""
    if "already exists" in problem and "branch" in problem:
        return branch_taken(branch)
    if "already checked out" in problem or "already used by worktree" in problem:
        where = problem.rpartition(" at ")[2].strip("'")
        return MngrError(
            f"the branch {branch!r} is checked out at {where}", "make a new one: --branch BASE:NEW"
        )
    if "not a valid branch name" in problem or "cannot lock ref" in problem:
        return MngrError(f"{branch!r} cannot be a branch here: {problem}", "name another: --branch :NEW")
    return MngrError(f"git worktree add failed: {problem}", "see: mngr doctor")


def make_mirror(host: Host, repo: Repo, record: AgentRecord) -> None:
    """An independent repository: all branches and tags, none of the hooks, settings, alternates or hard links."""
    assert record.branch is not None and record.base is not None
    work = record.work_dir
    form = git.must(host, repo.root, "rev-parse", "--show-object-format")
    made = host.run(
        [
            "git",
            "init",
            "--quiet",
            "--template=",
            f"--object-format={form}",
            "--initial-branch=mngr-unborn",
            work,
        ]
    )
    if made.code:
        raise MngrError(f"git init failed: {made.problem}", "see: mngr doctor")
    specs = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*", f"+{record.base}:refs/mngr/base"]
    fetch = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--update-shallow", repo.common_dir)
    result = git.run(host, work, *fetch, *specs)
    if result.code:  # a base on no branch or tag cannot be asked for by its id: push it instead
        git.must(host, work, *fetch, *specs[:2])
        git.must(host, repo.root, "push", "--quiet", "--no-verify", work, f"{record.base}:refs/mngr/base")
    if record.branch_is_new:
        if git.has_branch(host, work, record.branch):
            raise branch_taken(record.branch)
        git.must(host, work, "update-ref", f"refs/heads/{record.branch}", record.base)
    git.must(host, work, "symbolic-ref", "HEAD", f"refs/heads/{record.branch}")
    git.must(host, work, "update-ref", "-d", "refs/mngr/base")
    for key in ("user.name", "user.email"):
        value = git.run(host, repo.root, "config", "--local", key)
        if value.code == 0:
            git.must(host, work, "config", key, value.text)
    git.must(host, work, "reset", "--quiet", "--hard", "--no-recurse-submodules")


def make_copy(host: Host, source: str, repo: Repo | None, record: AgentRecord) -> None:
    """The files as they are, without `.git` and what it ignores."""
    _mkdir(host, record.work_dir)
    if repo is None:
        names = sorted(name for name in os.listdir(source) if name != ".git")
    else:
        listed = git.run(host, repo.root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        if listed.code:
            raise MngrError(f"git ls-files failed: {listed.problem}")
        found = dict.fromkeys(listed.out.decode("utf-8", "surrogateescape").split("\0"))
        names = [n for n in found if n and os.path.lexists(os.path.join(source, n)) and not _is_state(n)]
    send_files(source, names, host, record.work_dir)


def carry_dirty(host: Host, repo: Repo, record: AgentRecord, rows: list[tuple[str, str]]) -> None:
    """Staged, changed, deleted and untracked files, exactly as they stand in the source."""
    tree = git.run(host, repo.root, "write-tree")
    if tree.code:
        raise MngrError("the source has unmerged paths", "finish the merge first, or use --dirty ignore")
    if record.transfer == "mirror":
        git.must(
            host, repo.root, "push", "--quiet", "--no-verify", record.work_dir, f"{tree.text}:refs/mngr/index"
        )
    there: list[str] = []
    gone: list[str] = []
    for _, path in rows:
        (there if os.path.lexists(os.path.join(repo.root, path)) else gone).append(path)
    remove_files(host, record.work_dir, gone)
    remove_files(host, record.work_dir, [p for p in there if not p.endswith("/")])
    send_files(repo.root, there, host, record.work_dir)
    git.must(host, record.work_dir, "read-tree", tree.text)
    git.run(host, record.work_dir, "update-index", "-q", "--refresh")
    if record.transfer == "mirror":
        git.must(host, record.work_dir, "update-ref", "-d", "refs/mngr/index")


def send_files(source: str, names: list[str], host: Host, target: str) -> None:
    """Files and directories by a tar stream, names of any kind."""
    if not names:
        return
    listed = "\0".join(names).encode("utf-8", "surrogateescape")
    pack = shell.start(
        ["tar", "-C", source, "--null", "-T", "-", "-cf", "-"],
        stdin=shell.PIPE,
        stdout=shell.PIPE,
        stderr=shell.PIPE,
    )
    unpack = host.stream(["tar", "-C", target, "-xpf", "-"], stdin=pack.stdout, stderr=shell.PIPE)
    assert pack.stdin is not None and pack.stdout is not None
    pack.stdout.close()
    pack.stdin.write(listed)
    pack.stdin.close()
    pack.stdin = None
    problem = unpack.communicate()[1] or b""
    said = pack.stderr.read() if pack.stderr else b""
    if shell.wait(unpack) or shell.wait(pack):
        text = (problem or said).decode("utf-8", "replace").strip().splitlines()
        raise MngrError(
            f"copying files to {target} failed: {text[-1] if text else 'tar failed'}",
            "check space and permissions",
        )


def remove_files(host: Host, target: str, names: list[str]) -> None:
    """Take files away from a work dir."""
    if not names:
        return
    listed = "\0".join(f"./{name}" for name in names).encode("utf-8", "surrogateescape")
    result = host.run(["sh", "-c", 'cd "$1" && xargs -0 rm -f --', "rm", target], stdin=listed)
    if result.code:
        raise MngrError(f"cannot remove files in {target}: {result.problem}")


def remove_work_dir(host: Host, record: AgentRecord, *, undo: bool = False) -> int:
    """Take the agent's copy away; nothing that was the user's before is touched. How many commits kept its branch.

    Safe to repeat. `undo` takes away also a branch that still stands where it was made, whoever has that commit.
    """
    if record.transfer == "none":
        return 0
    _remove_tree(host, record.work_dir)
    has_source = record.transfer == "worktree" and record.source is not None and os.path.isdir(record.source)
    repo = git.find_repo(host, record.source) if has_source and record.source else None
    if repo is None:
        return 0
    with Lock(os.path.join(repo.common_dir, "mngr.lock")):
        gone = git.run(host, repo.root, "worktree", "remove", "--force", "--force", record.work_dir)
        if gone.code and b"is not a working tree" not in gone.err:
            _forget_worktree(host, repo, record.work_dir)
        if not record.branch_is_new or not record.branch:
            return 0
        return drop_branch(host, repo, record.branch, made_at=record.base if undo else None)


def _forget_worktree(host: Host, repo: Repo, work: str) -> None:
    """git's memory of one worktree. `git worktree prune` would also forget the user's on a disk that is not mounted."""
    place = os.path.join(repo.common_dir, "worktrees")
    for name in os.listdir(place) if os.path.isdir(place) else []:
        try:
            points = host.read(os.path.join(place, name, "gitdir")).decode("utf-8", "surrogateescape").strip()
        except MngrError:
            continue
        if points == os.path.join(work, ".git"):
            host.run(["rm", "-rf", "--", os.path.join(place, name)])


def drop_branch(host: Host, repo: Repo, branch: str, *, made_at: str | None = None) -> int:
    """Delete a branch that holds nothing of its own, or is still at `made_at`; else how many commits keep it."""
    tip = git.resolve(host, repo.root, f"refs/heads/{branch}")
    if tip is None:
        return 0
    kept = 0 if tip == made_at else git.unique_commits(host, repo.root, branch)
    if kept == 0:
        git.run(host, repo.root, "branch", "--quiet", "-D", "--", branch)
    return kept


def _remove_tree(host: Host, path: str) -> None:
    if not path.startswith(host.home.work + os.sep):
        return  # never outside the home
    result = host.run(["rm", "-rf", "--", path])
    if result.code:  # a directory without write permission inside
        host.run(["chmod", "-R", "u+rwX", "--", path])
        host.run(["rm", "-rf", "--", path])


def _mkdir(host: Host, path: str) -> None:
    result = host.run(["mkdir", "-p", "--", path])
    if result.code:
        raise MngrError(f"cannot make {path}: {result.problem}", "check space and permissions")


def _is_state(name: str) -> bool:
    return name.startswith((".mngr/runs/", ".mngr/outputs/", ".mngr/e2e/"))
