"""Creates and removes an agent's copy of the project: a worktree, a mirror or a copy."""

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
    """The branch exists already. Nothing was created, so nothing must be removed."""


def make_worktree(host: Host, repo: Repo, record: AgentRecord, *, runs_filters: bool = True) -> None:
    """Create a worktree. A lock protects `git worktree add`, which fails when it runs in parallel.

    Without `runs_filters`, git runs none of the filters that the user has set up.
    """
    assert record.branch is not None and record.base is not None
    if record.branch_is_new:
        words = ["--no-track", "-b", record.branch, record.work_dir, record.base]
    else:
        words = [record.work_dir, record.branch]
    with host.lock(os.path.join(repo.common_dir, "mngr.base.lock")):
        result = git.run(host, repo.root, "worktree", "add", "--quiet", "--no-checkout", *words, git_command=git.GIT)
    if result.code:
        raise _make_branch_error(host, record, result.error_line)
    git_command = (*git.GIT, *([] if runs_filters else _list_filter_options(host, repo)))
    words = ["reset", "--quiet", "--hard", "--no-recurse-submodules"]
    git.run_checked(host, record.work_dir, *words, git_command=git_command)


def _list_filter_options(host: Host, repo: Repo) -> list[str]:
    """Return git's options that turn off all filters of the user and of the repository."""
    words = ("config", "--null", "--name-only", "--get-regexp", r"^filter\..*\.(smudge|process|required)$")
    keys = sorted(set(git.run(host, repo.root, *words, git_command=git.SAFE_GIT).text.split("\0")) - {""})
    return [word for key in keys for word in ("-c", f"{key}=" + ("false" if key.endswith(".required") else ""))]


def make_branch_taken_error(branch: str) -> BranchTaken:
    """Return the error for a branch that exists already."""
    return BranchTaken(
        f"there is already a branch {branch!r}",
        f"continue on it with --branch {branch}, or choose another name: --branch :NEW",
    )


def _make_branch_error(host: Host, record: AgentRecord, problem: str) -> MngrError:
    """Return the error for a failed `git worktree add`, from git's message."""
    branch = record.branch or ""
    if "already exists" in problem and "branch" in problem:
        return make_branch_taken_error(branch)
    if "already checked out" in problem or "already used by worktree" in problem:
        worktree = problem.rpartition(" at ")[2].strip("'")
        return MngrError(
            f"the branch {branch!r} is checked out at {worktree}", f"start a new branch from it: --branch {branch}:NEW"
        )
    if "not a valid branch name" in problem or "cannot lock ref" in problem:
        return MngrError(f"git cannot create the branch {branch!r}: {problem}", "choose another name: --branch :NEW")
    return MngrError(f"git worktree add failed: {problem}", git.suggest_hint(problem, host))


def make_mirror(host: Host, source: ProjectSource, record: AgentRecord, *, runs_filters: bool = True) -> None:
    """Create an independent repository with all branches and tags of the source.

    It has none of the source's hooks, settings, alternates or hard links. Without `runs_filters`, git runs none of the
    filters that the user has set up.
    """
    assert record.branch is not None and record.base is not None and source.repo is not None
    origin, nearest = source.repo, source.host_copy or source.repo
    object_format = source.object_format or git.get_object_format(source.host, origin)
    words = ("config", "--local", "--null", "--get-regexp", r"^user\.(name|email)$")
    rows = git.run(source.host, origin.root, *words, git_command=git.SAFE_GIT).text.split("\0")
    identity = [word for row in rows if row for word in row.split("\n", 1)]
    argv = [
        "sh",
        "-c",
        scripts.read_program("mirror.sh"),
        "mirror.sh",
        nearest.common_dir,
        record.work_dir,
        object_format,
    ]

    def check(result: ProcessResult) -> None:
        if result.code == 9:
            raise make_branch_taken_error(record.branch or "")
        if result.code:
            raise MngrError(
                f"git could not copy the repository: {result.error_line}", git.suggest_hint(result.error_line, host)
            )

    argv += [record.base, record.branch, "1" if record.branch_is_new else "0", "1" if runs_filters else "0", *identity]
    run_deferred(host, argv, check)


def make_copy(host: Host, source: ProjectSource, record: AgentRecord) -> None:
    """Copy the project's files as they are, without `.git` and ignored files."""
    _mkdir(host, record.work_dir)
    root_dir = source.root_dir
    if source.repo is None:
        names = _list_entries(source.host, root_dir, host.home.root)
    else:
        words = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        listed = git.run_checked(source.host, root_dir, *words, git_command=source.git_command)
        unique_paths = dict.fromkeys(listed.split("\0"))
        wanted_paths = [path for path in unique_paths if _is_project_file(path)]
        names = list_existing_files(source.host, root_dir, wanted_paths)
    copy_files(source.host, root_dir, names, host, record.work_dir)


def _list_entries(host: Host, source: str, home: str) -> list[str]:
    """Return everything in a directory except `.git` and mngr's home, which would contain the copy itself."""
    if not host.is_local:
        listed = host.run(["sh", "-c", 'cd -- "$1" && find . ! -name . -prune -print0', "ls", source])
        names = [name.removeprefix("./") for name in listed.text.split("\0") if name]
        return sorted(name for name in names if name != ".git" and os.path.join(source, name) != home)
    entries: list[str] = []
    for name in sorted(os.listdir(source)):
        path = os.path.join(source, name)
        if name == ".git" or path == home:
            continue
        contains_home = home.startswith(path + os.sep)
        if contains_home:
            entries.extend(os.path.join(name, entry) for entry in _list_entries(host, path, home))
        else:
            entries.append(name)
    return entries


# xargs splits the names into as many calls as necessary.
_LIST_EXISTING = """cd -- "$1" && exec xargs -0 sh -c 'for n; do if [ -e "./$n" ] || [ -L "./$n" ]; then printf "%s\\0" "$n"; fi; done' there"""


def list_existing_files(host: Host, root: str, names: list[str]) -> list[str]:
    """Return the names that exist in a directory. Broken links count as existing."""
    if host.is_local:
        return [name for name in names if os.path.lexists(os.path.join(root, name))]
    if not names:
        return []
    out = host.run(["sh", "-c", _LIST_EXISTING, "there", root], stdin=_join_names(names)).out
    return [name for name in out.decode("utf-8", "surrogateescape").split("\0") if name]


def is_submodule(source: ProjectSource, path: str) -> bool:
    """True when a path of the source is a repository itself."""
    return source.host.has_path(os.path.join(source.root_dir, path, ".git"))


def write_index_tree(source: ProjectSource) -> str:
    """Return the tree of the source's index. Raise MngrError if the index has conflicts."""
    tree = git.run(source.host, source.root_dir, "write-tree", git_command=source.git_command)
    if tree.code:
        raise MngrError(
            "the source has unmerged files", "finish the merge first, or leave the changes here: --dirty ignore"
        )
    return tree.text


def copy_dirty_files(host: Host, source: ProjectSource, record: AgentRecord, rows: list[tuple[str, str]]) -> None:
    """Copy staged, changed, deleted and untracked files to the work dir, exactly as they are in the source."""
    work_dir, origin = record.work_dir, source.origin or source
    tree = source.index_tree or write_index_tree(origin)
    if record.transfer == "mirror":
        _send_tree(host, source, work_dir, tree)
    paths = [path for _, path in rows]
    existing = list_existing_files(origin.host, origin.root_dir, paths)
    missing = dict.fromkeys(_get_highest_missing(origin, path) for path in paths if path not in existing)
    replaced = _select_topmost([*missing, *(path.rstrip("/") for path in existing)])
    _check_paths_are_inside(host, work_dir, replaced)
    remove_files(host, work_dir, replaced)
    copy_files(origin.host, origin.root_dir, existing, host, work_dir)
    git.run_checked(host, work_dir, "read-tree", tree, git_command=git.SAFE_GIT)
    git_command = (
        git.SAFE_GIT if source.origin is None else git.ISOLATED_GIT
    )  # The user's filters read no file of an agent.
    git.run(host, work_dir, "update-index", "-q", "--refresh", git_command=git_command)
    if record.transfer == "mirror":
        git.run_checked(host, work_dir, "update-ref", "-d", "refs/mngr/index", git_command=git.SAFE_GIT)


def _select_topmost(paths: list[str]) -> list[str]:
    """Return the paths that are not below another of the paths."""
    known = set(paths)
    return [path for path in dict.fromkeys(paths) if known.isdisjoint(_list_parents(path))]


def _list_parents(path: str) -> list[str]:
    """Return the directories that contain a relative path, the topmost first."""
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


_LIST_LINKS = (
    """cd -- "$1" && exec xargs -0 sh -c 'for n; do if [ -L "./$n" ]; then printf "%s\\0" "$n"; fi; done' links"""
)


def _check_paths_are_inside(host: Host, work_dir: str, paths: list[str]) -> None:
    """Raise MngrError if a path leads out of the work dir or into its repository.

    git reports whatever a hostile index contains, and a commit can contain a link in place of a directory.
    """
    parents = list(dict.fromkeys(parent for path in paths for parent in _list_parents(path)))
    listed = host.run(["sh", "-c", _LIST_LINKS, "links", work_dir], stdin=_join_names(parents)).out if parents else b""
    links = set(listed.decode("utf-8", "surrogateescape").split("\0"))
    for path in paths:
        parts = path.lower().split("/")
        if not {"", ".", "..", ".git"}.isdisjoint(parts) or not links.isdisjoint(_list_parents(path)):
            raise MngrError(
                f"the uncommitted path {path!r} leads out of the work dir", "leave the changes there: --dirty ignore"
            )


def _send_tree(host: Host, source: ProjectSource, work_dir: str, tree: str) -> None:
    """Give a mirror the objects of a tree of its source, under the temporary ref `refs/mngr/index`."""
    spec = f"+{tree}:refs/mngr/index"
    if is_same_machine(source.host, host):
        flags = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
        git.run_checked(
            host,
            work_dir,
            "-c",
            "protocol.version=2",
            "fetch",
            *flags,
            "--",
            source.root_dir,
            spec,
            git_command=git.allow_protocol(git.SAFE_GIT, "file"),
        )
        return
    flags = ("--quiet", "--no-verify", "--no-recurse-submodules", "--no-signed")
    remote = git.build_remote_args(host, work_dir, "receive-pack", git.SAFE_GIT)
    git_command = git.allow_protocol(source.git_command, "file" if host.is_local else "ext")
    git.run_checked(source.host, source.root_dir, "push", *flags, *remote, spec, git_command=git_command)


def _get_highest_missing(source: ProjectSource, path: str) -> str:
    """Return the topmost parent directory of `path` that the source lacks, or `path` itself."""
    while (parent := os.path.dirname(path)) and not source.host.has_path(os.path.join(source.root_dir, parent)):
        path = parent
    return path


# busybox's tar accepts names only as arguments, so their number is limited to one command line.
_PACK_FILES = """cd -- "$1" || exit
if tar --null -T /dev/null -cf /dev/null 2>/dev/null; then exec tar --null -T - -cf -; fi
exec xargs -0 -x -n 100000 -s 1000000 tar -cf - --"""


def copy_files(origin: Host, source: str, names: list[str], host: Host, target: str) -> None:
    """Copy files and directories from one host to another through a tar stream. Names may have any characters."""
    if not names:
        return
    import tempfile

    with tempfile.TemporaryFile() as stderr, tempfile.TemporaryFile() as listed:
        listed.write(_join_names(names))
        listed.seek(0)
        argv = ["tar", "-C", source, "--null", "-T", "-", "-cf", "-"]
        if not origin.is_local:
            argv = ["sh", "-c", _PACK_FILES, "pack", source]
        sender = origin.stream(argv, stdin=listed, stdout=shell.PIPE, stderr=stderr)
        receiver = host.stream(["tar", "-C", target, "-xpf", "-"], stdin=sender.stdout, stderr=stderr)
        assert sender.stdout is not None
        sender.stdout.close()
        codes = (shell.wait_process(receiver), shell.wait_process(sender))
        if any(codes):
            stderr.seek(0)
            lines = stderr.read().decode("utf-8", "replace").strip().splitlines() or ["tar failed"]
            problem = next((line for line in lines if "No space left" in line), lines[0])
            raise MngrError(
                f"cannot copy files to {target}: {problem}",
                shell.suggest_disk_check(target, None if host.is_local else host.name),
            )


def _join_names(names: list[str]) -> bytes:
    """Return the names as bytes, each ended by a NUL."""
    return "\0".join(names).encode("utf-8", "surrogateescape") + b"\0"


def remove_files(host: Host, target: str, names: list[str]) -> None:
    """Delete files in a work dir."""
    if not names:
        return
    line = 'cd "$1" && exec xargs -0 rm -rf --'
    result = host.run(["sh", "-c", line, "rm", target], stdin=_join_names([f"./{name}" for name in names]))
    if result.code:
        raise MngrError(f"cannot remove files in {target}: {result.error_line}", shell.suggest_disk_check(target))


def remove_work_dir(host: Host, record: AgentRecord, *, undo: bool = False) -> int:
    """Delete the agent's copy, and its branch if that is unused. Return how many commits kept the branch.

    It touches nothing that the user had before, and can be repeated. `undo` also deletes a branch that is still at the
    commit on which it was created, even if no other branch has that commit.
    """
    if record.transfer == "none":
        return 0
    _remove_tree(host, record.work_dir)
    if record.transfer != "worktree" or not record.source:
        return 0
    repo = git.find_repo(host, record.source, git.SAFE_GIT)
    if repo is None:
        return 0
    with host.lock(os.path.join(repo.common_dir, "mngr.base.lock")):
        # Remove only this worktree's entry: `worktree prune` would also forget worktrees on a disk that is not mounted.
        git.run(host, repo.root, "worktree", "remove", "--force", "--force", record.work_dir, git_command=git.GIT)
        if not record.branch_is_new or not record.branch:
            return 0
        initial_commit = record.base if undo else None
        return delete_unused_branch(host, repo, record.branch, initial_commit=initial_commit)


def delete_unused_branch(host: Host, repo: Repo, branch: str, *, initial_commit: str | None = None) -> int:
    """Delete a branch that has no unique commits or is at `initial_commit`. Return how many commits kept it."""
    is_unmoved = False
    if initial_commit is not None:
        is_unmoved = git.find_commit(host, repo.root, f"refs/heads/{branch}", git.SAFE_GIT) == initial_commit
    unique_commits = 0 if is_unmoved else git.count_unique_commits(host, repo.root, branch, git.SAFE_GIT)
    if unique_commits == 0:
        git.run(host, repo.root, "branch", "--quiet", "-D", "--", branch, git_command=git.GIT)
    return unique_commits


def _remove_tree(host: Host, path: str) -> None:
    """Delete a work dir. Do nothing for a path that is not directly inside mngr's work dirs."""
    folder, name = os.path.split(path)
    if folder != host.home.work_dirs or name in ("", ".", ".."):
        return  # mngr must never delete a directory that is not one of its work dirs.
    result = host.run(["rm", "-rf", "--", path])
    if result.code:  # The tree may contain directories without write permission.
        host.run(["chmod", "-R", "u+rwX", "--", path])
        result = host.run(["rm", "-rf", "--", path])
        if result.code:
            raise MngrError(
                f"cannot remove {path} on {host.name}: {result.error_line}",
                f"check its owner and permissions on {host.name}: ls -ld {shell.quote(path)}; "
                "remove it there, then run the command again",
            )


def _mkdir(host: Host, path: str) -> None:
    """Create a directory and its parents. Raise MngrError if that fails."""
    result = host.run(["mkdir", "-p", "--", path])
    if result.code:
        raise MngrError(f"cannot create {path}: {result.error_line}", shell.suggest_disk_check(os.path.dirname(path)))


def _is_mngr_output(name: str) -> bool:
    """True when mngr wrote this file into the project."""
    return name.startswith((".mngr/runs/", ".mngr/outputs/", ".mngr/e2e/"))


def _is_project_file(name: str) -> bool:
    """True for a path inside the project that mngr did not write. A hostile index can list its own repository."""
    return bool(name) and not _is_mngr_output(name) and {".git", ".."}.isdisjoint(name.lower().split("/"))
