"""How an agent gets its own copy of the project: worktree, mirror, copy or none."""

from __future__ import annotations

import os

from mngr.agents.workdir.source import is_same_machine
from mngr.base import shell
from mngr.base.errors import MngrError
from mngr.host import git, scripts
from mngr.host.batched_host import run_deferred

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.workdir.source import ProjectSource
    from mngr.base.model import AgentRecord
    from mngr.base.shell import ProcessResult
    from mngr.host.git import Repo
    from mngr.host.protocol import Host


class BranchTaken(MngrError):
    """The branch is somebody else's: nothing was made, so there is nothing of ours to take away."""


def make_worktree(host: Host, repo: Repo, record: AgentRecord) -> None:
    """Add under a lock on the repository, fill outside it: parallel `git worktree add` breaks."""
    assert record.branch is not None and record.base is not None
    if record.branch_is_new:
        words = ["--no-track", "-b", record.branch, record.work_dir, record.base]
    else:
        words = [record.work_dir, record.branch]
    with host.lock(os.path.join(repo.common_dir, "mngr.base.lock")):
        result = git.run(host, repo.root, "worktree", "add", "--quiet", "--no-checkout", *words)
    if result.code:
        raise _make_branch_error(record, result.error_line)
    git.run_checked(host, record.work_dir, "reset", "--quiet", "--hard", "--no-recurse-submodules")


def make_branch_taken_error(branch: str) -> BranchTaken:
    """The error for a branch that exists."""
    return BranchTaken(
        f"there is already a branch {branch!r}",
        f"take it up with --branch {branch}, or name another: --branch :NEW",
    )


def _make_branch_error(record: AgentRecord, problem: str) -> MngrError:
    branch = record.branch or ""
    if "already exists" in problem and "branch" in problem:
        return make_branch_taken_error(branch)
    if "already checked out" in problem or "already used by worktree" in problem:
        where = problem.rpartition(" at ")[2].strip("'")
        return MngrError(f"the branch {branch!r} is checked out at {where}", "make a new one: --branch BASE:NEW")
    if "not a valid branch name" in problem or "cannot lock ref" in problem:
        return MngrError(f"{branch!r} cannot be a branch here: {problem}", "name another: --branch :NEW")
    return MngrError(f"git worktree add failed: {problem}", git.suggest_hint(problem))


def make_mirror(host: Host, source: ProjectSource, record: AgentRecord) -> None:
    """An independent repository: all branches and tags, none of the hooks, settings, alternates or hard links."""
    assert record.branch is not None and record.base is not None and source.repo is not None
    origin, near = source.repo, source.host_copy or source.repo
    form = source.object_format or git.get_object_format(source.host, origin)
    who = ("config", "--local", "--null", "--get-regexp", r"^user\.(name|email)$")
    said = git.run(source.host, origin.root, *who).text.split("\0")
    person = [word for row in said if row for word in row.split("\n", 1)]
    argv = [
        "sh",
        "-c",
        scripts.read_program("mirror.sh"),
        "mirror.sh",
        near.common_dir,
        record.work_dir,
        form,
    ]

    def check(made: ProcessResult) -> None:
        if made.code == 9:
            raise make_branch_taken_error(record.branch or "")
        if made.code:
            raise MngrError(f"the repository could not be copied: {made.error_line}", git.suggest_hint(made.error_line))

    argv += [record.base, record.branch, "1" if record.branch_is_new else "0", *person]
    run_deferred(host, argv, check)


def make_copy(host: Host, source: ProjectSource, record: AgentRecord) -> None:
    """The files as they are, without `.git` and what it ignores."""
    _mkdir(host, record.work_dir)
    top = source.root_dir
    if source.repo is None:
        names = _list_entries(source.host, top, host.home.root)
    else:
        flags = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        found = dict.fromkeys(git.run_checked(source.host, top, *flags, by=source.git_command).split("\0"))
        names = list_existing_files(source.host, top, [n for n in found if n and not _is_mngr_output(n)])
    copy_files(source.host, top, names, host, record.work_dir)


def _list_entries(host: Host, source: str, home: str) -> list[str]:
    """Everything in a directory but git's and, if it is in there, our own home, which the copy is in."""
    if not host.is_local:
        listed = host.run(["sh", "-c", 'cd -- "$1" && find . ! -name . -prune -print0', "ls", source])
        names = [name.removeprefix("./") for name in listed.text.split("\0") if name]
        return sorted(name for name in names if name != ".git" and os.path.join(source, name) != home)
    found: list[str] = []
    for name in sorted(os.listdir(source)):
        path = os.path.join(source, name)
        if name == ".git" or path == home:
            continue
        inside = _list_entries(host, path, home) if home.startswith(path + os.sep) else None
        found.extend([name] if inside is None else [os.path.join(name, below) for below in inside])
    return found


# xargs brings the names in as many calls as they need.
_LIST_EXISTING = """cd -- "$1" && exec xargs -0 sh -c 'for n; do if [ -e "./$n" ] || [ -L "./$n" ]; then printf "%s\\0" "$n"; fi; done' there"""


def list_existing_files(host: Host, root: str, names: list[str]) -> list[str]:
    """Those of these names that are in a directory, be it as a link to nowhere."""
    if host.is_local:
        return [name for name in names if os.path.lexists(os.path.join(root, name))]
    if not names:
        return []
    out = host.run(["sh", "-c", _LIST_EXISTING, "there", root], stdin=_join_names(names)).out
    return [name for name in out.decode("utf-8", "surrogateescape").split("\0") if name]


def is_submodule(source: ProjectSource, path: str) -> bool:
    """Whether a path of the source is a repository of its own."""
    return source.host.has_path(os.path.join(source.root_dir, path, ".git"))


def copy_dirty_files(host: Host, source: ProjectSource, record: AgentRecord, rows: list[tuple[str, str]]) -> None:
    """Staged, changed, deleted and untracked files, exactly as they stand in the source."""
    work, top = record.work_dir, source.root_dir
    tree = git.run(source.host, top, "write-tree", by=source.git_command)
    if tree.code:
        raise MngrError("the source has unmerged paths", "finish the merge first, or use --dirty ignore")
    if record.transfer == "mirror":
        spec = f"+{tree.text}:refs/mngr/index"
        if is_same_machine(source.host, host):
            flags = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
            git.run_checked(host, work, "-c", "protocol.version=2", "fetch", *flags, "--", top, spec)
        else:
            flags = ("--quiet", "--no-verify", "--no-recurse-submodules", "--no-signed")
            words = (
                *git.ALLOW_EXT_PROTOCOL,
                "push",
                *flags,
                *git.build_remote_args(host, work, "receive-pack"),
                spec,
            )
            git.run_checked(source.host, top, *words, by=source.git_command)
    paths = [path for _, path in rows]
    has = list_existing_files(source.host, top, paths)
    gone = dict.fromkeys(_get_highest_missing(source, path) for path in paths if path not in has)
    remove_files(host, work, [*gone, *(path.rstrip("/") for path in has)])
    copy_files(source.host, top, has, host, work)
    git.run_checked(host, work, "read-tree", tree.text)
    git.run(host, work, "update-index", "-q", "--refresh")
    if record.transfer == "mirror":
        git.run_checked(host, work, "update-ref", "-d", "refs/mngr/index")


def _get_highest_missing(source: ProjectSource, path: str) -> str:
    """The highest directory of `path` that the source has no more, else `path`."""
    while (above := os.path.dirname(path)) and not source.host.has_path(os.path.join(source.root_dir, above)):
        path = above
    return path


# busybox's tar takes names as words only, which are then as many as one command can have.
_PACK_FILES = """cd -- "$1" || exit
if tar --null -T /dev/null -cf /dev/null 2>/dev/null; then exec tar --null -T - -cf -; fi
exec xargs -0 -x -n 100000 -s 1000000 tar -cf - --"""


def copy_files(origin: Host, source: str, names: list[str], host: Host, target: str) -> None:
    """Files and directories from one host to another by a tar stream, names of any kind."""
    if not names:
        return
    import tempfile

    with tempfile.TemporaryFile() as complaints, tempfile.TemporaryFile() as listed:
        listed.write(_join_names(names))
        listed.seek(0)
        argv = ["tar", "-C", source, "--null", "-T", "-", "-cf", "-"]
        if not origin.is_local:
            argv = ["sh", "-c", _PACK_FILES, "pack", source]
        pack = origin.stream(argv, stdin=listed, stdout=shell.PIPE, stderr=complaints)
        unpack = host.stream(["tar", "-C", target, "-xpf", "-"], stdin=pack.stdout, stderr=complaints)
        assert pack.stdout is not None
        pack.stdout.close()
        codes = (shell.wait_process(unpack), shell.wait_process(pack))
        if any(codes):
            complaints.seek(0)
            said = complaints.read().decode("utf-8", "replace").strip().splitlines() or ["tar failed"]
            problem = next((line for line in said if "No space left" in line), said[0])
            raise MngrError(f"copying files to {target} failed: {problem}", "check space and permissions")


def _join_names(names: list[str]) -> bytes:
    return "\0".join(names).encode("utf-8", "surrogateescape") + b"\0"


def remove_files(host: Host, target: str, names: list[str]) -> None:
    """Take files away from a work dir."""
    if not names:
        return
    line = 'cd "$1" && exec xargs -0 rm -rf --'
    result = host.run(["sh", "-c", line, "rm", target], stdin=_join_names([f"./{name}" for name in names]))
    if result.code:
        raise MngrError(f"cannot remove files in {target}: {result.error_line}")


def remove_work_dir(host: Host, record: AgentRecord, *, undo: bool = False) -> int:
    """Take the agent's copy away; nothing that was the user's before is touched. How many commits kept its branch.

    Safe to repeat. `undo` takes away also a branch that still stands where it was made, whoever has that commit.
    """
    if record.transfer == "none":
        return 0
    _remove_tree(host, record.work_dir)
    has_source = record.transfer == "worktree" and record.source is not None
    repo = git.find_repo(host, record.source) if has_source and record.source else None
    if repo is None:
        return 0
    with host.lock(os.path.join(repo.common_dir, "mngr.base.lock")):
        # Only git's memory of this one; `worktree prune` would also forget the user's on a disk that is not mounted.
        git.run(host, repo.root, "worktree", "remove", "--force", "--force", record.work_dir)
        if not record.branch_is_new or not record.branch:
            return 0
        return delete_unused_branch(host, repo, record.branch, made_at=record.base if undo else None)


def delete_unused_branch(host: Host, repo: Repo, branch: str, *, made_at: str | None = None) -> int:
    """Delete a branch that holds nothing of its own, or is still at `made_at`; else how many commits keep it."""
    stands = made_at is not None and git.find_commit(host, repo.root, f"refs/heads/{branch}") == made_at
    kept = 0 if stands else git.count_unique_commits(host, repo.root, branch)
    if kept == 0:
        git.run(host, repo.root, "branch", "--quiet", "-D", "--", branch)
    return kept


def _remove_tree(host: Host, path: str) -> None:
    folder, name = os.path.split(path)
    if folder != host.home.work_dirs or name in ("", ".", ".."):
        return  # never anything but one of our own
    result = host.run(["rm", "-rf", "--", path])
    if result.code:  # a directory without write permission inside
        host.run(["chmod", "-R", "u+rwX", "--", path])
        result = host.run(["rm", "-rf", "--", path])
        if result.code:
            raise MngrError(f"cannot remove {path}: {result.error_line}", "remove it by hand, then try again")


def _mkdir(host: Host, path: str) -> None:
    result = host.run(["mkdir", "-p", "--", path])
    if result.code:
        raise MngrError(f"cannot make {path}: {result.error_line}", "check space and permissions")


def _is_mngr_output(name: str) -> bool:
    return name.startswith((".mngr/runs/", ".mngr/outputs/", ".mngr/e2e/"))
