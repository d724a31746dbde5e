"""`save`: writes the whole state of an agent to a directory, byte for byte. It changes nothing of the agent."""

from __future__ import annotations

import json
import os

from mngr.agents.context import Context
from mngr.agents.sandbox import bubblewrap
from mngr.agents.saved import host_stream, tar, unfiltered_git, worktree_state
from mngr.agents.saved.unfiltered_git import RawGit, WorkTreeRepo
from mngr.agents.saved_directory import AGENT_DIR, PARTIAL_SUFFIX, SavedState, write_saved_state
from mngr.agents.workdir.git_state import count_unpulled
from mngr.base import shell, time_format
from mngr.base.errors import MngrError
from mngr.base.model import AgentRecord, Struct
from mngr.host import git, record_store
from mngr.host.protocol import Host

BUNDLE_FILE, FILES_ARCHIVE, GIT_ARCHIVE = "work.bundle", "work.tar", "git.tar"
OWNER_FILE = "owner"
_RAW_GIT_DIR, _AGENT_ARCHIVE = "raw", "agent.tar"  # in the partial directory, only while mngr saves
# Files in a git dir that the restore creates itself, or that the bundle holds.
_EXCLUDED_GIT_FILES = (
    "HEAD",
    "commondir",
    "gitdir",
    "locked",
    "objects",
)


class SaveRequest(Struct):
    """Where and why to save an agent, and what to save with its work dir."""

    target: str  # the saved directory, which appears only when it is complete
    why: str  # the operation: destroy, snapshot, clone or migrate
    agent_files: bool = False  # also save the agent's own files; mngr always saves those of a remote agent
    was_running: bool = False
    is_removal_pending: bool = False  # mngr removes the agent next, which a remote host has to confirm


class CopyOrigin(Struct):
    """The remote agent that a staged copy comes from, and facts that the copy itself does not contain."""

    record: AgentRecord
    umask: str
    needs_source: bool = False  # the copy lacks objects that only the local source has
    ignored_bytes: int = 0
    git_dir: str = ""  # path on the host of the agent's git dir, if that shares or borrows objects


class _Bundle(Struct):
    """What a bundle builds on, and how many objects it was made from. Without new objects there is no bundle."""

    prerequisites: list[str]
    new_objects: int


class IncompleteCopy(MngrError):
    """git cannot read the copy, and its files alone would be incomplete."""


def save_local_agent(
    host: Host, record: AgentRecord, request: SaveRequest, origin: CopyOrigin | None = None
) -> SavedState:
    """Save a local agent, or a staged copy from `origin`, and return the description of the saved directory."""
    target = request.target
    partial_dir = target + PARTIAL_SUFFIX
    saved = SavedState(
        id=record.id,
        name=record.name,
        at=time_format.format_timestamp(),
        why=request.why,
        was_running=request.was_running,
        record=origin.record if origin else record,
        base=record.base,
    )
    try:
        if os.path.lexists(partial_dir):
            host.run(["rm", "-rf", "--", partial_dir])
        os.makedirs(partial_dir, mode=0o700)
        host.write(os.path.join(partial_dir, OWNER_FILE), json.dumps(record_store.describe_this_process()).encode())
        saved = _save_work_dir(host, saved, record, partial_dir, origin)
        if origin:
            git_dir = origin.git_dir or saved.git_dir
            saved = saved.replace(
                staged=True, ignored_bytes=origin.ignored_bytes, git_dir=git_dir, leaving=request.is_removal_pending
            )
        if request.agent_files:
            _save_agent_files(host, record, partial_dir)
        unfiltered_git.remove_raw_git_dir(os.path.join(partial_dir, _RAW_GIT_DIR))
        write_saved_state(host, partial_dir, saved)
        rename_to_final(host, partial_dir, target)
    except BaseException as error:
        host.run(["rm", "-rf", "--", partial_dir])
        if isinstance(error, OSError):
            raise MngrError(
                f"cannot save {record.name} to {target}: {error.strerror}",
                shell.suggest_disk_check(os.path.dirname(target)),
            ) from None
        raise
    return saved


def _save_agent_files(host: Host, record: AgentRecord, partial_dir: str) -> None:
    """Copy the agent's own directory. A sandboxed agent may change its files meanwhile, so tar reads them inside."""
    agent_dir, target = host.home.agent_dir(record.id), os.path.join(partial_dir, AGENT_DIR)
    sandboxed_host = bubblewrap.open_sandboxed_host(host, record)
    if sandboxed_host is host:
        tar.check_read_result(host.run(["cp", "-Rp", "--", agent_dir, target]), agent_dir)
        return
    archive = os.path.join(partial_dir, _AGENT_ARCHIVE)
    tar.pack(sandboxed_host, agent_dir, tar.list_tree(sandboxed_host, agent_dir, ["."]), archive)
    tar.check_archive(archive)
    os.mkdir(target, mode=0o700)
    tar.unpack(host, archive, target)
    os.unlink(archive)


def rename_to_final(host: Host, partial_dir: str, target: str) -> None:
    """Sync the files in `partial_dir` to disk and rename it to `target`, replacing an older `target`."""
    for entry in os.scandir(partial_dir):
        if entry.is_file(follow_symlinks=False):
            _fsync(entry.path)
    _fsync(partial_dir)
    if os.path.lexists(target):
        host.run(["rm", "-rf", "--", target])
    os.rename(partial_dir, target)
    _fsync(os.path.dirname(target))


def _save_work_dir(
    host: Host, saved: SavedState, record: AgentRecord, partial_dir: str, origin: CopyOrigin | None
) -> SavedState:
    """Save the work dir with git if possible, else as plain files, and return the completed description."""
    work_dir = record.work_dir
    if record.transfer == "none":
        return saved
    if not os.path.isdir(work_dir):
        return _save_branch(host, saved, record, partial_dir)
    sandboxed_host = bubblewrap.open_sandboxed_host(host, record)
    repo = unfiltered_git.find_work_tree_repo(sandboxed_host, work_dir) if record.transfer != "copy" else None
    own_git_dir = os.path.join(os.path.realpath(work_dir), ".git")
    is_own_repo = repo is not None and os.path.realpath(repo.git_dir or "") == own_git_dir
    if repo is not None and is_own_repo == (record.transfer == "mirror"):
        try:
            return _save_git(host, saved, record, repo, partial_dir, origin)
        except MngrError as error:  # With a damaged index or the like, save all files as they are.
            if origin and origin.needs_source:
                raise IncompleteCopy(error.message) from None
            for name in (BUNDLE_FILE, FILES_ARCHIVE, GIT_ARCHIVE):
                host.run(["rm", "-f", "--", os.path.join(partial_dir, name)])
            unfiltered_git.remove_raw_git_dir(os.path.join(partial_dir, _RAW_GIT_DIR))
    elif origin and origin.needs_source:
        raise IncompleteCopy(f"git did not create a repository in {work_dir}")
    if record.transfer == "worktree":
        saved = _save_branch(host, saved, record, partial_dir)
    all_files = tar.list_tree(sandboxed_host, work_dir, ["."])
    tar.pack(sandboxed_host, work_dir, all_files, os.path.join(partial_dir, FILES_ARCHIVE))
    original = origin.record if origin else record
    return saved.replace(saved="files", dirty=original.transfer != "copy")


def _save_branch(host: Host, saved: SavedState, record: AgentRecord, partial_dir: str) -> SavedState:
    """Save only the agent's branch, because the work dir is gone or no longer a work tree."""
    has_source = record.source is not None and os.path.isdir(record.source)
    repo = git.find_repo(host, record.source or "", git.SAFE_GIT) if has_source else None
    tip = (
        git.find_commit(host, repo.root, f"refs/heads/{record.branch}", git.SAFE_GIT)
        if repo and record.branch
        else None
    )
    if repo is None or tip is None:
        return saved
    object_format = git.get_object_format(host, repo)
    tree_repo = unfiltered_git.WorkTreeRepo(
        git_dir=None, common_dir=repo.common_dir, object_format=object_format, head=tip, branch=record.branch
    )
    raw_git = unfiltered_git.open_raw_git(host, repo.root, tree_repo, os.path.join(partial_dir, _RAW_GIT_DIR))
    refs = {"HEAD": tip, f"refs/heads/{record.branch}": tip}
    bundle = _write_bundle(raw_git, record, tree_repo, refs, [], _list_source_commits(host, record, refs), partial_dir)
    return saved.replace(saved="git", head=tip, branch=record.branch, refs=refs, form=object_format, **bundle.to_dict())


def _save_git(
    host: Host,
    saved: SavedState,
    record: AgentRecord,
    repo: WorkTreeRepo,
    partial_dir: str,
    origin: CopyOrigin | None,
) -> SavedState:
    """Save a work tree: a bundle for what git can hold, and archives for the rest."""
    work_dir, sandboxed_host = record.work_dir, bubblewrap.open_sandboxed_host(host, record)
    # A staged copy has no ignored files, and this machine's ignore rules do not apply to a remote agent.
    if origin:
        settings = {"core.excludesfile": os.devnull}
    else:
        settings = worktree_state.read_ignore_and_conversion_settings(sandboxed_host, work_dir)
    raw_git_dir = os.path.join(partial_dir, _RAW_GIT_DIR)
    raw_git = unfiltered_git.open_raw_git(
        sandboxed_host, work_dir, repo, raw_git_dir, settings.get("core.excludesfile")
    )
    state = worktree_state.read_work_tree_state(raw_git, repo, settings, origin.umask if origin else None)
    if state.files:
        tar.pack(sandboxed_host, work_dir, state.files, os.path.join(partial_dir, FILES_ARCHIVE))
    refs = _list_refs(sandboxed_host, record, repo)
    source_commits = _list_source_commits(host, record, refs)
    bundle = _write_bundle(raw_git, record, repo, refs, state.blobs, source_commits, partial_dir)
    _save_git_dir(sandboxed_host, repo, partial_dir, needs_index=state.needs_index, has_history=bundle.new_objects > 0)
    is_dirty = any(_is_users_file(path) for path in state.dirty) or _has_submodule(state.files)
    return saved.replace(
        saved="git",
        head=repo.head,
        branch=repo.branch,
        refs=refs,
        form=repo.object_format,
        git_dir=repo.git_dir,
        umask=state.umask,
        missing=state.missing,
        dirty=is_dirty,
        ignored_bytes=state.ignored_bytes,
        unpulled=count_unpulled(host, record) if repo.head != record.base else 0,
        **bundle.to_dict(),
    )


def _is_users_file(path: str) -> bool:
    """False for a file that mngr writes into a project."""
    return path.startswith(".mngr/settings") or not path.startswith(".mngr/")


def _has_submodule(files: list[str]) -> bool:
    """True when a repository inside the work tree is saved with it.

    mngr does not ask git for changes in that repository, because its settings could run programs.
    """
    return any(os.path.basename(path) == ".git" for path in files)


def _list_refs(host: Host, record: AgentRecord, repo: WorkTreeRepo) -> dict[str, str]:
    """Return the refs for the bundle: all refs of a mirror, or HEAD and the branches of a worktree."""
    refs: dict[str, str] = {} if repo.head is None else {"HEAD": repo.head}
    ref_names: list[str] = []  # Empty for all refs.
    if record.transfer != "mirror":
        ref_names = [f"refs/heads/{name}" for name in {repo.branch, record.branch} if name]
        if not ref_names:
            return refs
        if repo.head and ref_names == [f"refs/heads/{repo.branch}"]:
            return {**refs, ref_names[0]: repo.head}
    words = ("for-each-ref", "--format=%(objectname) %(refname)", *ref_names)
    listed = git.run_checked(host, record.work_dir, *words, git_command=git.SAFE_GIT)
    for row in listed.split("\n"):
        oid, _, name = row.partition(" ")
        if name and (not ref_names or name in ref_names):
            refs[name] = oid
    return refs


def _write_bundle(
    raw_git: RawGit,
    record: AgentRecord,
    repo: WorkTreeRepo,
    refs: dict[str, str],
    blobs: list[str],
    source_commits: list[str],
    partial_dir: str,
) -> _Bundle:
    """Write a bundle of everything that the source's branches and tags lack. Write none if there is nothing."""
    roots = dict.fromkeys([*refs.values(), *repo.mentioned, *blobs])
    new_objects = [oid for oid in roots if oid not in source_commits]
    possibly_missing = set(new_objects) - set(refs.values()) - set(blobs)
    if possibly_missing:
        new_objects = _list_existing_objects(raw_git, new_objects)
    if not new_objects:
        return _Bundle(prerequisites=source_commits, new_objects=0)
    prerequisites = _list_prerequisites(raw_git, new_objects, source_commits)
    header = _format_bundle_header(repo.object_format, prerequisites, refs)
    revisions = "\n".join([*new_objects, *(f"^{oid}" for oid in prerequisites)]) + "\n"
    argv = raw_git.build_argv("pack-objects", "--revs", "--stdout", "--delta-base-offset", "-q")
    path = os.path.join(partial_dir, BUNDLE_FILE)
    result = host_stream.receive_to_file(raw_git.host, argv, path, stdin=revisions.encode(), header=header)
    if result.code:
        raise MngrError(
            f"git cannot pack the commits of {record.name}: {result.error_line}",
            f"check its repository: mngr exec {record.name} -- git fsck",
        )
    head_in_source = [repo.head] if repo.head in source_commits else []
    needed_commits = list(dict.fromkeys([*prerequisites, *head_in_source]))
    return _Bundle(prerequisites=needed_commits, new_objects=len(new_objects))


def _list_existing_objects(raw_git: RawGit, oids: list[str]) -> list[str]:
    """Return those of the objects that the repository has."""
    names = "\n".join(oids) + "\n"
    listed = raw_git.run_checked("cat-file", "--batch-check", stdin=names.encode())
    rows = listed.decode().splitlines()
    return [row.split(" ")[0] for row in rows if not row.endswith((" missing", " ambiguous"))]


def _format_bundle_header(object_format: str, prerequisites: list[str], refs: dict[str, str]) -> bytes:
    """Return the lines of a bundle that precede its pack."""
    lines = ["# v2 git bundle"] if object_format == "sha1" else ["# v3 git bundle", f"@object-format={object_format}"]
    lines += [f"-{oid} " for oid in prerequisites]
    lines += [f"{oid} {name}" for name, oid in refs.items()]
    text = "\n".join(lines) + "\n\n"
    return text.encode("utf-8", "surrogateescape")


def _list_prerequisites(raw_git: RawGit, new_objects: list[str], source_commits: list[str]) -> list[str]:
    """Return the commits of the source that the new commits build on directly."""
    if not source_commits:
        return []
    revisions = "".join(f"{oid}\n" for oid in (*new_objects, *(f"^{oid}" for oid in source_commits)))
    listed = raw_git.run_checked("rev-list", "--boundary", "--stdin", stdin=revisions.encode()).decode()
    return [row[1:] for row in listed.splitlines() if row.startswith("-")]


def _list_source_commits(host: Host, record: AgentRecord, refs: dict[str, str]) -> list[str]:
    """Return commits that need not be saved, because a lasting ref of the source has them.

    These are the base and, for a mirror, the tips of other branches and tags.
    """
    source = record.source
    if record.base is None or source is None or not os.path.isdir(source):
        return []
    if not set(record.base) <= set("0123456789abcdef"):
        return []  # The record comes from the agent's host. Git could take such a base for an option, such as --output.
    others = ["--exclude=mngr/*", *([f"--exclude={record.branch}"] if record.branch_is_new else [])]
    words = ("rev-list", "--max-count=1", record.base, "--not", *others, "--branches", "--tags", "--remotes")
    result = git.run(host, source, *words, git_command=git.SAFE_GIT)
    if result.code or result.out:
        return []
    commits = [record.base]
    if record.transfer == "mirror":
        for_each_ref = ("for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags")
        listed = git.run_checked(host, source, *for_each_ref, git_command=git.SAFE_GIT)
        tips = [row.partition(" ") for row in listed.split("\n")]
        known = {oid for oid, _, ref in tips if not ref.startswith("refs/heads/mngr/")}
        commits.extend(oid for oid in dict.fromkeys(refs.values()) if oid in known and oid != record.base)
    return commits


def _save_git_dir(host: Host, repo: WorkTreeRepo, partial_dir: str, *, needs_index: bool, has_history: bool) -> None:
    """Save the index, the reflogs and an unfinished merge or rebase: all that a restore cannot create."""
    assert repo.git_dir is not None
    usual = {*_EXCLUDED_GIT_FILES, "index", "logs", "ORIG_HEAD", "refs"}
    names = [name for name in repo.git_dir_names if name not in _EXCLUDED_GIT_FILES and not name.endswith(".lock")]
    if repo.git_dir == repo.common_dir or needs_index or has_history or not usual.issuperset(names):
        if not needs_index:
            names = [name for name in names if name != "index" and not name.startswith("sharedindex.")]
        tar.pack(host, repo.git_dir, tar.list_tree(host, repo.git_dir, names), os.path.join(partial_dir, GIT_ARCHIVE))


def _fsync(path: str) -> None:
    """Write a file or directory to disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def remove_saved_directory(ctx: Context, saved_dir: str) -> None:
    """Delete a saved directory. Renaming it first makes it disappear in one step."""
    doomed = f"{saved_dir}{PARTIAL_SUFFIX}"
    ctx.local_host.run(["rm", "-rf", "--", doomed])
    os.rename(saved_dir, doomed)
    ctx.local_host.run(["chmod", "-R", "u+rwX", "--", doomed])
    ctx.local_host.run(["rm", "-rf", "--", doomed])
