"""Restores a work dir from a saved directory: files, modes, links, index and branch exactly as they were."""

from __future__ import annotations

import json
import os
import stat

from mngr.agents.saved import packs_in_user_repo, tar, unfiltered_git
from mngr.agents.saved.save import BUNDLE_FILE, FILES_ARCHIVE, GIT_ARCHIVE
from mngr.agents.saved_directory import SavedState
from mngr.agents.workdir.discard_agent import RESTORING_FILE
from mngr.agents.workdir.source import find_source_repo
from mngr.agents.workdir.transfer import make_branch_taken_error
from mngr.base import shell
from mngr.base.errors import MngrError
from mngr.base.lock import Lock
from mngr.base.model import AgentRecord, Struct
from mngr.host import git, record_store
from mngr.host.git import Repo
from mngr.host.protocol import Host

_OPERATION_FILES = (
    "rebase-merge",
    "rebase-apply",
    "sequencer",
    "REBASE_HEAD",
    "BISECT_LOG",
    "BISECT_START",
    "BISECT_NAMES",
)
# Files in a mirror's git dir that the agent may have changed. They are restored last, so that they do not affect mngr's
# own git commands.
_AGENT_GIT_FILES = (
    "config",
    "hooks",
)


class WorkDirRestore(Struct):
    """A work dir to restore: its saved directory, its agent's record and its branch."""

    host: Host
    saved_dir: str
    saved: SavedState
    record: AgentRecord
    branch: str | None
    fallback_branch: str | None  # used if the agent's branch is checked out elsewhere
    needs_own_repo: bool = False  # restore as a separate repository, even if it was a worktree
    can_share_objects: bool = False  # may borrow the source's objects; they are added on the host
    notes: list[str]


def restore_work_dir(restore: WorkDirRestore) -> AgentRecord:
    """Restore the work dir and return the record with its branch and transfer mode."""
    record = restore.record
    repo = find_source_repo(restore.host, record.source)
    if restore.saved.saved == "files":
        return _restore_files(restore, repo)
    if restore.saved.saved == "none":
        if record.transfer != "worktree" or repo is None:
            raise MngrError(
                f"the work dir of {record.name} did not exist any more when the agent was destroyed, so nothing was saved",
                f"see what was saved: ls {restore.saved_dir}",
            )
        object_format = git.get_object_format(restore.host, repo)
        unchanged = restore.saved.replace(
            head=record.base, branch=record.branch, refs={}, missing=[], form=object_format
        )
        restore = restore.replace(saved=unchanged)
    if record.transfer == "mirror" or repo is None or restore.needs_own_repo:
        return _restore_mirror(restore, repo)
    return _restore_worktree(restore, repo)


def _restore_worktree(restore: WorkDirRestore, repo: Repo) -> AgentRecord:
    """Restore the work dir as a worktree of its source repository."""
    host = restore.host
    _fetch_bundle(restore, repo.root)
    record, branch, new_branches = _choose_branch(restore, repo)
    record_store.save_record(host, record)
    host.write(os.path.join(host.home.agent_dir(record.id), RESTORING_FILE), json.dumps(new_branches).encode())
    for name, oid in new_branches:
        _run_git(host, repo.root, "update-ref", f"refs/heads/{name}", oid, "0" * len(oid))
    start = str(restore.saved.head or record.base)
    with Lock(os.path.join(repo.common_dir, "mngr.base.lock")):
        _run_git(host, repo.root, "worktree", "add", "--quiet", "--no-checkout", "--detach", record.work_dir, start)
    if branch is not None:
        _run_git(host, record.work_dir, "symbolic-ref", "HEAD", f"refs/heads/{branch}")
    unpacked = _unpack_git_dir(restore, record, skip=_OPERATION_FILES if restore.branch else ())
    _write_files(restore, record)
    _relink_submodules(restore, record)
    _restore_links(unpacked.links)
    return record


def _choose_branch(restore: WorkDirRestore, repo: Repo) -> tuple[AgentRecord, str | None, list[tuple[str, str]]]:
    """Return the record, the branch to check out, and the branches to create with their commits."""
    record, saved = restore.record, restore.saved
    head, branch, own_branch = saved.head, saved.branch, record.branch
    new_branches: list[tuple[str, str]] = []
    if restore.branch is not None:
        if git.has_branch(restore.host, repo.root, restore.branch, git.SAFE_GIT):
            raise make_branch_taken_error(restore.branch)
        if head:
            new_branches.append((restore.branch, head))
        return record.replace(branch=restore.branch, branch_is_new=True), restore.branch, new_branches
    if own_branch and own_branch != branch:
        own_tip = saved.refs.get(f"refs/heads/{own_branch}")
        if own_tip and not git.has_branch(restore.host, repo.root, own_branch, git.SAFE_GIT):
            new_branches.append((own_branch, own_tip))
    if branch is None or head is None:
        return record, branch, new_branches
    oid, checked_out_at = _get_branch_position(restore.host, repo, branch)
    old_branch, reason = branch, ""
    if checked_out_at:
        if restore.fallback_branch is None or git.has_branch(
            restore.host, repo.root, restore.fallback_branch, git.SAFE_GIT
        ):
            hint = (
                f"check out another branch there: git -C {checked_out_at} switch OTHER; "
                f"or restore the agent under a new name: mngr undestroy {record.id} --as NEW"
            )
            raise MngrError(f"the branch {branch!r} is checked out at {checked_out_at}", hint)
        branch, oid, reason = restore.fallback_branch, None, f"is checked out at {checked_out_at}"
    elif oid is not None and oid != head:
        branch, reason = f"{branch}-{record.id[2:8]}", "has new commits"
    if reason:
        restore.notes.append(f"the branch {old_branch} {reason}, so {record.name} is on {branch} now")
        record = record.replace(branch=branch, branch_is_new=True) if old_branch == own_branch else record
    if oid != head:
        new_branches.append((branch, head))
    return record, branch, new_branches


def _get_branch_position(host: Host, repo: Repo, branch: str) -> tuple[str | None, str]:
    """Return the commit of a branch, or None, and the path of the worktree that has it checked out."""
    ref = f"refs/heads/{branch}"
    listed = _run_git(host, repo.root, "for-each-ref", "--format=%(refname) %(objectname) %(worktreepath)", ref)
    for row in listed.split("\n"):
        name, _, rest = row.partition(" ")
        if name == ref:
            oid, _, worktree = rest.partition(" ")
            return oid, worktree
    return None, ""


def _restore_mirror(restore: WorkDirRestore, repo: Repo | None) -> AgentRecord:
    """Restore the work dir as an independent repository. This includes a worktree whose source is gone."""
    host, record = restore.host, restore.record
    work_dir, head = record.work_dir, restore.saved.head
    _init_mirror(restore, repo)
    if record.transfer == "worktree":
        record = _convert_to_mirror(restore, repo)
    if head:
        _run_git(host, work_dir, "update-ref", "--no-deref", "HEAD", head)
    skipped_operations = _OPERATION_FILES if restore.branch else ()
    unpacked = _unpack_git_dir(restore, record, skip=(*_AGENT_GIT_FILES, *skipped_operations))
    record = _set_mirror_branch(restore, record)
    _delete_dangling_refs(restore, work_dir)
    if repo is not None and not restore.can_share_objects:
        copy_shared_objects(host, work_dir)
    _write_files(restore, record)
    _relink_submodules(restore, record)
    _restore_links(unpacked.links)
    agent_files = [f"./{name}" for name in _AGENT_GIT_FILES if name in unpacked.names]
    if agent_files and restore.record.transfer == "mirror":
        tar.unpack(host, os.path.join(restore.saved_dir, GIT_ARCHIVE), os.path.join(work_dir, ".git"), *agent_files)
    return record


def _init_mirror(restore: WorkDirRestore, repo: Repo | None) -> None:
    """Create the repository with the saved commits. It borrows the objects of its source."""
    host, work_dir = restore.host, restore.record.work_dir
    has_bundle = os.path.exists(os.path.join(restore.saved_dir, BUNDLE_FILE))
    needs_source = not has_bundle or bool(restore.saved.prerequisites)
    if repo is None and needs_source:
        raise MngrError(
            f"the repository that {restore.record.name} was created from no longer exists: {restore.record.source}",
            f"restore that repository first; the saved files of the agent are in {restore.saved_dir}",
        )
    init = ("init", "--quiet", "--template=", f"--object-format={restore.saved.form}", work_dir)
    result = host.run([*git.SAFE_GIT, *init])
    if result.code:
        raise MngrError(f"git init failed: {result.error_line}", f"check the host: mngr doctor @{host.name}")
    if repo is not None:
        packs_in_user_repo.add_alternate(host, repo, os.path.join(work_dir, ".git"))
    _fetch_bundle(restore, work_dir)


def _convert_to_mirror(restore: WorkDirRestore, repo: Repo | None) -> AgentRecord:
    """Give a former worktree the refs that it shared with its source, and return its record as a mirror."""
    work_dir = restore.record.work_dir
    if repo is not None:
        _copy_source_refs(restore, repo, work_dir)
    for ref, oid in restore.saved.refs.items():
        if ref != "HEAD":
            _run_git(restore.host, work_dir, "update-ref", ref, oid)
    if repo is None:
        restore.notes.append("the source repository no longer exists, so the agent now has its own repository")
        return restore.record.replace(transfer="mirror", source=None)
    return restore.record.replace(transfer="mirror")


def copy_shared_objects(host: Host, work_dir: str) -> None:
    """Copy all borrowed objects into the repository, so that it no longer needs the other one."""
    _run_git(host, work_dir, "repack", "-a", "-d", "-k", "-q")
    host.run(["rm", "-f", "--", os.path.join(work_dir, ".git", packs_in_user_repo.ALTERNATES_FILE)])


def _copy_source_refs(restore: WorkDirRestore, repo: Repo, work_dir: str) -> None:
    """Copy the source's branches, tags, committer settings and shallow boundary, as in any mirror."""
    host = restore.host
    row_format = "--format=create %(refname) %(objectname)"
    refs = _run_git(host, repo.root, "for-each-ref", row_format, "refs/heads", "refs/tags")
    if refs:
        _run_git(host, work_dir, "update-ref", "--stdin", stdin=f"{refs}\n".encode("utf-8", "surrogateescape"))
    for key in ("user.name", "user.email"):
        value = git.run(host, repo.root, "config", "--local", key, git_command=git.SAFE_GIT)
        if value.code == 0:
            _run_git(host, work_dir, "config", key, value.text)
    shallow = os.path.join(repo.common_dir, "shallow")
    if os.path.exists(shallow):
        host.write(os.path.join(work_dir, ".git", "shallow"), host.read(shallow))


def _set_mirror_branch(restore: WorkDirRestore, record: AgentRecord) -> AgentRecord:
    """Set HEAD to the branch it was on, or to the new branch, and return the record."""
    host, work_dir, branch = restore.host, record.work_dir, restore.saved.branch
    if restore.branch not in (None, record.branch):
        assert restore.branch is not None
        if git.has_branch(host, work_dir, restore.branch, git.SAFE_GIT):
            raise make_branch_taken_error(restore.branch)
        if restore.saved.head:
            _run_git(host, work_dir, "update-ref", f"refs/heads/{restore.branch}", restore.saved.head)
        record, branch = record.replace(branch=restore.branch, branch_is_new=True), restore.branch
    if branch is not None:
        _run_git(host, work_dir, "symbolic-ref", "HEAD", f"refs/heads/{branch}")
    return record


def _delete_dangling_refs(restore: WorkDirRestore, work_dir: str) -> None:
    """Delete refs to commits of the source that the source no longer has."""
    listed = _run_git(restore.host, work_dir, "for-each-ref", "--format=%(objectname) %(refname)").split("\n")
    rows = [row.partition(" ") for row in listed if row]
    object_ids = "".join(f"{row[0]}\n" for row in rows).encode()
    types = _run_git(restore.host, work_dir, "cat-file", "--batch-check=%(objecttype)", stdin=object_ids)
    for (_, _, ref), object_type in zip(rows, types.split("\n"), strict=False):
        if object_type.endswith(" missing"):
            git.run(restore.host, work_dir, "update-ref", "-d", ref, git_command=git.SAFE_GIT)
            restore.notes.append(f"mngr did not restore {ref}, because the source repository no longer has its commit")


def _fetch_bundle(restore: WorkDirRestore, repository: str) -> None:
    """Add the saved commits to a repository. Raise MngrError if it lacks the commits that they build on."""
    path = os.path.join(restore.saved_dir, BUNDLE_FILE)
    if not os.path.exists(path):
        return
    result = git.run(restore.host, repository, "bundle", "unbundle", path, git_command=git.SAFE_GIT)
    if result.code and b"prerequisite" in result.err:
        missing = ", ".join(oid[:12] for oid in restore.saved.prerequisites)
        raise MngrError(
            f"{repository} no longer has the commits that the saved work is based on: {missing}",
            f"fetch them, then run the command again: git -C {repository} fetch origin; the saved files are in {restore.saved_dir}",
        )
    if result.code:
        raise MngrError(
            f"git cannot read the saved commits in {path}: {result.error_line}",
            f"check the file: git bundle verify {path}",
        )


class _UnpackedGitDir(Struct):
    """The top-level names in the archive of a git dir, and the links that are not in place yet."""

    names: set[str] = set()
    links: list[tuple[str, str]] = []  # path and target


def _unpack_git_dir(restore: WorkDirRestore, record: AgentRecord, skip: tuple[str, ...]) -> _UnpackedGitDir:
    """Unpack the saved index, reflogs and so on, without their links.

    git would write through a link, for example one in place of the index, to any file of the user.
    """
    path = os.path.join(restore.saved_dir, GIT_ARCHIVE)
    if not os.path.exists(path):
        return _UnpackedGitDir()
    saved_names = {
        name.split("/")[0] for name in tar.check_archive(path, refuse=("HEAD", "objects", "commondir", "gitdir"))
    }
    target = _run_git(restore.host, record.work_dir, "rev-parse", "--path-format=absolute", "--git-dir")
    tar.unpack(restore.host, path, target, *(f"--exclude=./{name}" for name in skip))
    return _UnpackedGitDir(names=saved_names, links=_remove_links(target))


def _remove_links(git_dir: str) -> list[tuple[str, str]]:
    """Delete everything in a git dir that is neither a file nor a directory, and return the links with their targets."""
    links: list[tuple[str, str]] = []
    for top, folders, files in os.walk(git_dir):
        if top == git_dir and "objects" in folders:
            folders.remove("objects")  # The archive holds none.
        for name in (*folders, *files):
            path = os.path.join(top, name)
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                links.append((path, os.readlink(path)))
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                os.unlink(path)
    return links


def _restore_links(links: list[tuple[str, str]]) -> None:
    """Create the saved links of a git dir after mngr's last git command there, unless git made a file in their place."""
    for path, target in links:
        if not os.path.lexists(path):
            os.symlink(target, path)


def _run_git(host: Host, work_dir: str, *words: str, stdin: bytes = b"") -> str:
    """Run git on the restored repository and return its output. Raise MngrError if it fails."""
    return git.run_checked(host, work_dir, *words, stdin=stdin, git_command=git.SAFE_GIT)


def _write_files(restore: WorkDirRestore, record: AgentRecord) -> None:
    """Check out the files that git holds, then unpack the archive with all others."""
    host, saved, work_dir = restore.host, restore.saved, record.work_dir
    tree_repo = unfiltered_git.find_work_tree_repo(host, work_dir)
    if tree_repo is None or tree_repo.git_dir is None:
        raise MngrError(f"git did not create a repository in {work_dir}", f"check the host: mngr doctor @{host.name}")
    path = os.path.join(restore.saved_dir, FILES_ARCHIVE)
    members = tar.check_archive(path, refuse=(".git",)) if os.path.exists(path) else {}
    parents: set[str] = set()
    for name in members:
        while (name := os.path.dirname(name)) and name not in parents:
            parents.add(name)
    raw_git_dir = os.path.join(host.home.agent_dir(record.id), "raw")
    raw_git = unfiltered_git.open_raw_git(host, work_dir, tree_repo, raw_git_dir)
    if saved.head and not os.path.exists(os.path.join(tree_repo.git_dir, "index")):
        raw_git.run_checked("read-tree", saved.head)
    not_from_git = {*members, *parents, *saved.missing}
    index = unfiltered_git.parse_index_rows(unfiltered_git.list_index_rows(raw_git))
    tracked_files = [name for tag, mode, name in index if tag in "Hh" and mode != "160000"]
    to_check_out = [name for name in tracked_files if name not in not_from_git]
    line = f'umask {saved.umask}; exec "$@"'
    checkout = raw_git.build_argv("checkout-index", "-u", "-z", "--stdin")
    listed = "".join(f"{name}\0" for name in to_check_out).encode("utf-8", "surrogateescape")
    result = host.run(["sh", "-c", line, "checkout", *checkout], stdin=listed)
    unfiltered_git.remove_raw_git_dir(raw_git_dir)
    if result.code:
        raise MngrError(
            f"git checkout-index failed in {work_dir}: {result.error_line}", shell.suggest_disk_check(work_dir)
        )
    if members:
        tar.unpack(host, path, work_dir)


def _relink_submodules(restore: WorkDirRestore, record: AgentRecord) -> None:
    """Update submodules whose git dir is inside the worktree's git dir, because that has a new path."""
    old_git_dir, path = restore.saved.git_dir, os.path.join(restore.saved_dir, FILES_ARCHIVE)
    if not old_git_dir or not os.path.exists(path):
        return
    new_git_dir = _run_git(restore.host, record.work_dir, "rev-parse", "--path-format=absolute", "--git-dir")
    assert restore.saved.record is not None
    old_work_dir = restore.saved.record.work_dir
    if (old_git_dir, old_work_dir) == (new_git_dir, record.work_dir):
        return
    members = tar.check_archive(path)
    link_names = [name for name, kind in members.items() if kind == "file" and os.path.basename(name) == ".git"]
    for name in link_names:
        link_file = os.path.join(record.work_dir, name)
        if not os.path.isfile(link_file) or os.path.getsize(link_file) > 4096:
            continue
        link = restore.host.read(link_file).decode("utf-8", "surrogateescape").strip().removeprefix("gitdir: ")
        git_dir = os.path.normpath(os.path.join(old_work_dir, os.path.dirname(name), link))
        if git_dir.startswith(old_git_dir + "/"):
            _relink_submodule(restore.host, link_file, new_git_dir + git_dir[len(old_git_dir) :])


def _relink_submodule(host: Host, link_file: str, git_dir: str) -> None:
    """Let a submodule and its git dir refer to each other."""
    folder = os.path.dirname(link_file)
    link = f"gitdir: {os.path.relpath(git_dir, folder)}\n"
    host.write(link_file, link.encode("utf-8", "surrogateescape"), 0o644)
    settings = os.path.join(git_dir, "config")
    host.run([*git.SAFE_GIT, "config", "-f", settings, "core.worktree", os.path.relpath(folder, git_dir)])


def _restore_files(restore: WorkDirRestore, repo: Repo | None) -> AgentRecord:
    """Restore a work dir that was saved as plain files."""
    host, record = restore.host, restore.record
    path = os.path.join(restore.saved_dir, FILES_ARCHIVE)
    git_kind = tar.check_archive(path).get(".git")  # A worktree has a file, a repository a directory.
    was_worktree = record.transfer == "worktree"
    if was_worktree and git_kind != "dir" and repo is not None and record.branch and record.base:
        branch = restore.branch or record.branch
        start = restore.saved.head or record.base
        _restore_files_as_worktree(restore, repo, path, branch, start)
        return record.replace(branch=branch)
    os.makedirs(record.work_dir, exist_ok=True)
    if was_worktree and git_kind == "file":
        tar.unpack(host, path, record.work_dir, "--exclude=./.git")
    else:
        tar.unpack(host, path, record.work_dir)
    if record.transfer == "copy":
        return record
    return record.replace(transfer="mirror" if git_kind == "dir" else "copy")


def _restore_files_as_worktree(restore: WorkDirRestore, repo: Repo, archive: str, branch: str, start: str) -> None:
    """Create a worktree on the branch, which starts at `start` if it is new, and unpack the files into it."""
    host, work_dir = restore.host, restore.record.work_dir
    _fetch_bundle(restore, repo.root)
    if git.has_branch(host, repo.root, branch, git.SAFE_GIT):
        words = [work_dir, branch]
    else:
        words = ["--no-track", "-b", branch, work_dir, start]
    with Lock(os.path.join(repo.common_dir, "mngr.base.lock")):
        _run_git(host, repo.root, "worktree", "add", "--quiet", "--no-checkout", *words)
    tar.unpack(host, archive, work_dir, "--exclude=./.git")
    git.run_checked(host, work_dir, "reset", "--quiet", git_command=git.build_guarded_git(work_dir))
