"""`save`: writes the whole state of an agent to a directory, byte for byte. It changes nothing of the agent."""

from __future__ import annotations

import json
import os
from typing import Any

from mngr.agents.context import Context
from mngr.agents.sandbox import bubblewrap
from mngr.agents.saved import raw_git, tar, worktree_state
from mngr.agents.saved.raw_git import WorkTreeRepo
from mngr.agents.saved_directory import AGENT_DIR, PARTIAL_SUFFIX, write_meta
from mngr.agents.workdir.git_state import count_unpulled
from mngr.base import clock
from mngr.base.errors import MngrError
from mngr.base.model import AgentRecord, Struct
from mngr.host import git, store
from mngr.host.protocol import Host

BUNDLE_FILE, FILES_ARCHIVE, GIT_ARCHIVE = "work.bundle", "work.tar", "git.tar"
OWNER_FILE = "owner"
_RAW_GIT_DIR = "raw"  # in the partial directory, only while mngr saves
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
    extra_meta: dict[str, Any] = {}  # added to meta.json of a remote agent


class CopyOrigin(Struct):
    """The remote agent that a staged copy comes from, and facts that the copy itself does not contain."""

    record: AgentRecord
    umask: str
    needs_source: bool = False  # the copy lacks objects that only the local source has
    extra_meta: dict[str, Any]  # added to meta.json


class IncompleteCopy(MngrError):
    """git cannot read the copy, and its files alone would be incomplete."""


def save_local_agent(
    host: Host, record: AgentRecord, request: SaveRequest, origin: CopyOrigin | None = None
) -> dict[str, Any]:
    """Save a local agent, or a staged copy from `origin`, and return its meta.json."""
    target = request.target
    partial_dir = target + PARTIAL_SUFFIX
    original = origin.record if origin else record
    meta: dict[str, Any] = {
        "v": 1,
        "id": record.id,
        "name": record.name,
        "at": clock.format_timestamp(),
        "why": request.why,
    }
    meta.update(was_running=request.was_running, record=original.to_dict(), base=record.base)
    meta.update(dirty=False, unpulled=0, ignored_bytes=0)
    try:
        if os.path.lexists(partial_dir):
            host.run(["rm", "-rf", "--", partial_dir])
        os.makedirs(partial_dir, mode=0o700)
        host.write(os.path.join(partial_dir, OWNER_FILE), json.dumps(store.describe_this_process()).encode())
        meta.update(_save_work_dir(host, record, partial_dir, origin))
        meta.update(origin.extra_meta if origin else {})
        if request.agent_files:
            agent_dir = host.home.agent_dir(record.id)
            result = host.run(["cp", "-Rp", "--", agent_dir, os.path.join(partial_dir, AGENT_DIR)])
            tar.check_read_result(result, agent_dir)
        raw_git.remove_raw_git_dir(os.path.join(partial_dir, _RAW_GIT_DIR))
        write_meta(host, partial_dir, meta)
        rename_to_final(host, partial_dir, target)
    except BaseException as error:
        host.run(["rm", "-rf", "--", partial_dir])
        if isinstance(error, OSError):
            raise MngrError(
                f"cannot save {record.name} to {target}: {error.strerror}", "check space and permissions"
            ) from None
        raise
    return meta


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


def _save_work_dir(host: Host, record: AgentRecord, partial_dir: str, origin: CopyOrigin | None) -> dict[str, Any]:
    """Save the work dir with git if possible, else as plain files, and return facts for meta.json."""
    work_dir = record.work_dir
    if record.transfer == "none":
        return {"saved": "none"}
    if not os.path.isdir(work_dir):
        return _save_branch(host, record, partial_dir)
    sandboxed_host = bubblewrap.open_sandboxed_host(host, record, partial_dir)
    repo = raw_git.find_work_tree_repo(sandboxed_host, work_dir) if record.transfer != "copy" else None
    own_git_dir = os.path.join(os.path.realpath(work_dir), ".git")
    is_own_repo = repo is not None and os.path.realpath(repo.git_dir or "") == own_git_dir
    if repo is not None and is_own_repo == (record.transfer == "mirror"):
        try:
            return _save_git(host, record, repo, partial_dir, origin)
        except MngrError as error:  # With a damaged index or the like, save all files as they are.
            if origin and origin.needs_source:
                raise IncompleteCopy(error.message) from None
            for name in (BUNDLE_FILE, FILES_ARCHIVE, GIT_ARCHIVE):
                host.run(["rm", "-f", "--", os.path.join(partial_dir, name)])
            raw_git.remove_raw_git_dir(os.path.join(partial_dir, _RAW_GIT_DIR))
    elif origin and origin.needs_source:
        raise IncompleteCopy(f"{work_dir} did not become a repository")
    branch_meta = _save_branch(host, record, partial_dir) if record.transfer == "worktree" else {}
    all_files = tar.list_tree(sandboxed_host, work_dir, ["."])
    tar.pack(sandboxed_host, work_dir, all_files, os.path.join(partial_dir, FILES_ARCHIVE))
    original = origin.record if origin else record
    return {**branch_meta, "saved": "files", "dirty": original.transfer != "copy"}


def _save_branch(host: Host, record: AgentRecord, partial_dir: str) -> dict[str, Any]:
    """Save only the agent's branch, because the work dir is gone or no longer a work tree."""
    repo = git.find_repo(host, record.source) if record.source and os.path.isdir(record.source) else None
    tip = git.find_commit(host, repo.root, f"refs/heads/{record.branch}") if repo and record.branch else None
    if repo is None or tip is None:
        return {"saved": "none"}
    object_format = git.run_checked(host, repo.root, "rev-parse", "--show-object-format")
    tree_repo = raw_git.WorkTreeRepo(
        git_dir=None, common_dir=repo.common_dir, object_format=object_format, head=tip, branch=record.branch
    )
    raw_git.make_raw_git_dir(os.path.join(partial_dir, _RAW_GIT_DIR), tree_repo)
    refs = {"HEAD": tip, f"refs/heads/{record.branch}": tip}
    meta = {"saved": "git", "head": tip, "branch": record.branch, "refs": refs, "form": object_format}
    return {**meta, **_write_bundle(host, record, repo.root, tree_repo, refs, [], partial_dir)}


def _save_git(
    host: Host, record: AgentRecord, repo: WorkTreeRepo, partial_dir: str, origin: CopyOrigin | None
) -> dict[str, Any]:
    """Save a work tree: a bundle for what git can hold, and archives for the rest."""
    work_dir, sandboxed_host = record.work_dir, bubblewrap.open_sandboxed_host(host, record, partial_dir)
    # A staged copy has no ignored files, and this machine's ignore rules do not apply to a remote agent.
    if origin:
        settings = {"core.excludesfile": os.devnull}
    else:
        settings = worktree_state.read_git_settings(sandboxed_host, work_dir)
    raw_git_dir = os.path.join(partial_dir, _RAW_GIT_DIR)
    raw_git.make_raw_git_dir(raw_git_dir, repo, settings.get("core.excludesfile"))
    state = worktree_state.read_work_tree_state(
        sandboxed_host, raw_git_dir, work_dir, repo, settings, origin.umask if origin else None
    )
    if state.files:
        tar.pack(sandboxed_host, work_dir, state.files, os.path.join(partial_dir, FILES_ARCHIVE))
    refs = _list_refs(sandboxed_host, record, repo)
    bundle = _write_bundle(host, record, work_dir, repo, refs, state.blobs, partial_dir)
    _save_git_dir(
        sandboxed_host, repo, partial_dir, needs_index=state.needs_index, has_history=bool(bundle["new_objects"])
    )
    is_dirty = any(_is_users_file(path) for path in state.dirty) or _has_submodule(state.files)
    return {
        "saved": "git",
        "head": repo.head,
        "branch": repo.branch,
        "refs": refs,
        "form": repo.object_format,
        "git_dir": repo.git_dir,
        "umask": state.umask,
        "missing": state.missing,
        "dirty": is_dirty,
        "ignored_bytes": state.ignored_bytes,
        "unpulled": count_unpulled(host, record) if repo.head != record.base else 0,
        **bundle,
    }


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
    listed = git.run_checked(host, record.work_dir, "for-each-ref", "--format=%(objectname) %(refname)", *ref_names)
    for row in listed.split("\n"):
        oid, _, name = row.partition(" ")
        if name and (not ref_names or name in ref_names):
            refs[name] = oid
    return refs


def _write_bundle(
    host: Host,
    record: AgentRecord,
    work_dir: str,
    repo: WorkTreeRepo,
    refs: dict[str, str],
    blobs: list[str],
    partial_dir: str,
) -> dict[str, Any]:
    """Write a bundle of everything that the source's branches and tags lack. Write none if there is nothing."""
    source_commits = _list_source_commits(host, record, refs)
    mentioned = worktree_state.list_mentioned_objects(repo.git_dir, repo.object_format)
    roots = dict.fromkeys([*refs.values(), *mentioned, *blobs])
    new_objects = [oid for oid in roots if oid not in source_commits]
    sandboxed_host = bubblewrap.open_sandboxed_host(host, record, partial_dir)
    raw_git_dir = os.path.join(partial_dir, _RAW_GIT_DIR)
    possibly_missing = set(new_objects) - set(refs.values()) - set(blobs)
    if possibly_missing:
        new_objects = _list_existing_objects(sandboxed_host, raw_git_dir, work_dir, new_objects)
    if not new_objects:
        return {"prerequisites": source_commits, "new_objects": 0}
    prerequisites = _list_prerequisites(sandboxed_host, raw_git_dir, work_dir, new_objects, source_commits)
    path = os.path.join(partial_dir, BUNDLE_FILE)
    with open(path, "wb") as file:
        file.write(_format_bundle_header(repo.object_format, prerequisites, refs))
    revisions = "\n".join([*new_objects, *(f"^{oid}" for oid in prerequisites)]) + "\n"
    line = 'exec git --git-dir="$1" --no-replace-objects pack-objects --revs --stdout --delta-base-offset -q >>"$2"'
    result = sandboxed_host.run(["sh", "-c", line, "pack", raw_git_dir, path], stdin=revisions.encode())
    if result.code:
        raise MngrError(
            f"git cannot pack the commits of {record.name}: {result.error_line}",
            "look at its work dir with: git fsck",
        )
    head_in_source = [repo.head] if repo.head in source_commits else []
    return {"prerequisites": list(dict.fromkeys([*prerequisites, *head_in_source])), "new_objects": len(new_objects)}


def _list_existing_objects(host: Host, raw_git_dir: str, work_dir: str, oids: list[str]) -> list[str]:
    """Return those of the objects that the repository has."""
    names = "\n".join(oids) + "\n"
    listed = raw_git.run_checked(host, raw_git_dir, work_dir, "cat-file", "--batch-check", stdin=names.encode())
    rows = listed.decode().splitlines()
    return [row.split(" ")[0] for row in rows if not row.endswith((" missing", " ambiguous"))]


def _format_bundle_header(object_format: str, prerequisites: list[str], refs: dict[str, str]) -> bytes:
    """Return the lines of a bundle that precede its pack."""
    lines = ["# v2 git bundle"] if object_format == "sha1" else ["# v3 git bundle", f"@object-format={object_format}"]
    lines += [f"-{oid} " for oid in prerequisites]
    lines += [f"{oid} {name}" for name, oid in refs.items()]
    text = "\n".join(lines) + "\n\n"
    return text.encode("utf-8", "surrogateescape")


def _list_prerequisites(
    host: Host, raw_git_dir: str, work_dir: str, new_objects: list[str], source_commits: list[str]
) -> list[str]:
    """Return the commits of the source that the new commits build on directly."""
    if not source_commits:
        return []
    revisions = "".join(f"{oid}\n" for oid in (*new_objects, *(f"^{oid}" for oid in source_commits)))
    listed = raw_git.run_checked(
        host, raw_git_dir, work_dir, "rev-list", "--boundary", "--stdin", stdin=revisions.encode()
    ).decode()
    return [row[1:] for row in listed.splitlines() if row.startswith("-")]


def _list_source_commits(host: Host, record: AgentRecord, refs: dict[str, str]) -> list[str]:
    """Return commits that need not be saved, because a lasting ref of the source has them.

    These are the base and, for a mirror, the tips of other branches and tags.
    """
    source = record.source
    if record.base is None or source is None or not os.path.isdir(source):
        return []
    others = ["--exclude=mngr/*", *([f"--exclude={record.branch}"] if record.branch_is_new else [])]
    words = ("rev-list", "--max-count=1", record.base, "--not", *others, "--branches", "--tags", "--remotes")
    result = git.run(host, source, *words)
    if result.code or result.out:
        return []
    commits = [record.base]
    if record.transfer == "mirror":
        listed = git.run_checked(
            host, source, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags"
        )
        tips = [row.partition(" ") for row in listed.split("\n")]
        known = {oid for oid, _, ref in tips if not ref.startswith("refs/heads/mngr/")}
        commits.extend(oid for oid in dict.fromkeys(refs.values()) if oid in known and oid != record.base)
    return commits


def _save_git_dir(host: Host, repo: WorkTreeRepo, partial_dir: str, *, needs_index: bool, has_history: bool) -> None:
    """Save the index, the reflogs and an unfinished merge or rebase: all that a restore cannot create."""
    assert repo.git_dir is not None
    usual = {*_EXCLUDED_GIT_FILES, "index", "logs", "ORIG_HEAD", "refs"}
    names = [
        name
        for name in sorted(os.listdir(repo.git_dir))
        if name not in _EXCLUDED_GIT_FILES and not name.endswith(".lock")
    ]
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
