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
    return MngrError(f"git worktree add failed: {problem}", git.hint(problem))


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
        raise MngrError(f"git init failed: {made.problem}", git.hint(made.problem))
    specs = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*", f"+{record.base}:refs/mngr/base")
    _fetch(host, work, repo.common_dir, *specs)
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


def _fetch(host: Host, work: str, source: str, *specs: str) -> None:
    """Into the agent's repository by copy; version 2 of git's protocol gives also what no branch or tag has."""
    flags = ("--quiet", "--no-tags", "--no-write-fetch-head", "--update-shallow", "--no-recurse-submodules")
    git.must(host, work, "-c", "protocol.version=2", "fetch", *flags, "--", source, *specs)


def make_copy(
    host: Host, source: str, repo: Repo | None, record: AgentRecord, guard: tuple[str, ...] = ()
) -> None:
    """The files as they are, without `.git` and what it ignores."""
    _mkdir(host, record.work_dir)
    if repo is None:
        names = _entries(source, host.home.root)
    else:
        listed = git.must(
            host, repo.root, *guard, "ls-files", "-z", "--cached", "--others", "--exclude-standard"
        )
        found = dict.fromkeys(listed.split("\0"))
        names = [n for n in found if n and os.path.lexists(os.path.join(source, n)) and not _is_state(n)]
    send_files(source, names, host, record.work_dir)


def _entries(source: str, home: str) -> list[str]:
    """Everything in a directory but git's and, if it is in there, our own home, which the copy is in."""
    found: list[str] = []
    for name in sorted(os.listdir(source)):
        path = os.path.join(source, name)
        if name == ".git" or path == home:
            continue
        inside = _entries(path, home) if home.startswith(path + os.sep) else None
        found.extend([name] if inside is None else [os.path.join(name, below) for below in inside])
    return found


def carry_dirty(
    host: Host, source: str, record: AgentRecord, rows: list[tuple[str, str]], guard: tuple[str, ...] = ()
) -> None:
    """Staged, changed, deleted and untracked files, exactly as they stand in the source."""
    work = record.work_dir
    tree = git.run(host, source, *guard, "write-tree")
    if tree.code:
        raise MngrError("the source has unmerged paths", "finish the merge first, or use --dirty ignore")
    if record.transfer == "mirror":
        _fetch(host, work, source, f"+{tree.text}:refs/mngr/index")
    there = [path for _, path in rows if os.path.lexists(os.path.join(source, path))]
    gone = dict.fromkeys(
        _top_missing(source, path) for _, path in rows if not os.path.lexists(os.path.join(source, path))
    )
    remove_files(host, work, [*gone, *(path.rstrip("/") for path in there)])
    send_files(source, there, host, work)
    git.must(host, work, "read-tree", tree.text)
    git.run(host, work, "update-index", "-q", "--refresh")
    if record.transfer == "mirror":
        git.must(host, work, "update-ref", "-d", "refs/mngr/index")


def _top_missing(source: str, path: str) -> str:
    """The highest directory of `path` that the source has no more, else `path`."""
    while (above := os.path.dirname(path)) and not os.path.lexists(os.path.join(source, above)):
        path = above
    return path


def send_files(source: str, names: list[str], host: Host, target: str) -> None:
    """Files and directories by a tar stream, names of any kind."""
    if not names:
        return
    import tempfile

    listed = "\0".join(names).encode("utf-8", "surrogateescape")
    with tempfile.TemporaryFile() as complaints:
        argv = ["tar", "-C", source, "--null", "-T", "-", "-cf", "-"]
        pack = shell.start(argv, stdin=shell.PIPE, stdout=shell.PIPE, stderr=complaints)
        unpack = host.stream(["tar", "-C", target, "-xpf", "-"], stdin=pack.stdout, stderr=complaints)
        assert pack.stdin is not None and pack.stdout is not None
        pack.stdout.close()
        try:
            pack.stdin.write(listed)
            pack.stdin.close()
        except BrokenPipeError:
            pass  # it has said why
        codes = (shell.wait(unpack), shell.wait(pack))
        if any(codes):
            complaints.seek(0)
            said = complaints.read().decode("utf-8", "replace").strip().splitlines() or ["tar failed"]
            problem = next((line for line in said if "No space left" in line), said[0])
            raise MngrError(f"copying files to {target} failed: {problem}", "check space and permissions")


def remove_files(host: Host, target: str, names: list[str]) -> None:
    """Take files away from a work dir."""
    if not names:
        return
    listed = "\0".join(f"./{name}" for name in names).encode("utf-8", "surrogateescape")
    result = host.run(["sh", "-c", 'cd "$1" && xargs -0 rm -rf --', "rm", target], stdin=listed)
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
        # Only git's memory of this one; `worktree prune` would also forget the user's on a disk that is not mounted.
        git.run(host, repo.root, "worktree", "remove", "--force", "--force", record.work_dir)
        if not record.branch_is_new or not record.branch:
            return 0
        return drop_branch(host, repo, record.branch, made_at=record.base if undo else None)


def drop_branch(host: Host, repo: Repo, branch: str, *, made_at: str | None = None) -> int:
    """Delete a branch that holds nothing of its own, or is still at `made_at`; else how many commits keep it."""
    stands = made_at is not None and git.resolve(host, repo.root, f"refs/heads/{branch}") == made_at
    kept = 0 if stands else git.unique_commits(host, repo.root, branch)
    if kept == 0:
        git.run(host, repo.root, "branch", "--quiet", "-D", "--", branch)
    return kept


def _remove_tree(host: Host, path: str) -> None:
    folder, name = os.path.split(path)
    if folder != host.home.work or name in ("", ".", ".."):
        return  # never anything but one of our own
    result = host.run(["rm", "-rf", "--", path])
    if result.code:  # a directory without write permission inside
        host.run(["chmod", "-R", "u+rwX", "--", path])
        result = host.run(["rm", "-rf", "--", path])
        if result.code:
            raise MngrError(f"cannot remove {path}: {result.problem}", "remove it by hand, then try again")


def _mkdir(host: Host, path: str) -> None:
    result = host.run(["mkdir", "-p", "--", path])
    if result.code:
        raise MngrError(f"cannot make {path}: {result.problem}", "check space and permissions")


def _is_state(name: str) -> bool:
    return name.startswith((".mngr/runs/", ".mngr/outputs/", ".mngr/e2e/"))
