"""`save`: the whole state of an agent as files in a directory, byte for byte. Nothing of the agent's is changed."""

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
_EXCLUDED_GIT_FILES = (
    "HEAD",
    "commondir",
    "gitdir",
    "locked",
    "objects",
)  # of a git dir: made anew, or in the bundle


class CopyOrigin(Struct):
    """Where a copy of an agent comes from, and what the copy itself cannot tell."""

    record: AgentRecord
    umask: str
    needs_source: bool = False  # without the source, where that is here, the copy is not whole
    extra_meta: dict[str, Any]  # for its meta.json


class IncompleteCopy(MngrError):
    """The copy cannot be read with git, and as files it would not be whole."""


def save_local_agent(
    host: Host,
    record: AgentRecord,
    target: str,
    *,
    why: str,
    agent_files: bool = False,
    was_running: bool = False,
    origin: CopyOrigin | None = None,
) -> dict[str, Any]:
    """Write everything to `target` in one step; what `meta.json` says about it."""
    part = target + PARTIAL_SUFFIX
    real = origin.record if origin else record
    meta: dict[str, Any] = {
        "v": 1,
        "id": record.id,
        "name": record.name,
        "at": clock.format_timestamp(),
        "why": why,
    }
    meta.update(was_running=was_running, record=real.to_dict(), base=record.base)
    meta.update(dirty=False, unpulled=0, ignored_bytes=0)
    try:
        if os.path.lexists(part):
            host.run(["rm", "-rf", "--", part])
        os.makedirs(part, mode=0o700)
        host.write(os.path.join(part, OWNER_FILE), json.dumps(store.describe_this_process()).encode())
        meta.update(_save_work_dir(host, record, part, origin))
        meta.update(origin.extra_meta if origin else {})
        if agent_files:
            copied = host.run(["cp", "-Rp", "--", host.home.agent_dir(record.id), os.path.join(part, AGENT_DIR)])
            tar.check_read_result(copied, host.home.agent_dir(record.id))
        raw_git.remove_raw_git_dir(os.path.join(part, "raw"))
        write_meta(host, part, meta)
        rename_to_final(host, part, target)
    except BaseException as error:
        host.run(["rm", "-rf", "--", part])
        if isinstance(error, OSError):
            raise MngrError(
                f"cannot save {record.name} to {target}: {error.strerror}", "check space and permissions"
            ) from None
        raise
    return meta


def rename_to_final(host: Host, part: str, target: str) -> None:
    """Sync what lies in `part` and give it its name; what had that name before is gone."""
    for entry in os.scandir(part):
        if entry.is_file(follow_symlinks=False):
            _fsync(entry.path)
    _fsync(part)
    if os.path.lexists(target):
        host.run(["rm", "-rf", "--", target])
    os.rename(part, target)
    _fsync(os.path.dirname(target))


def _save_work_dir(host: Host, record: AgentRecord, part: str, origin: CopyOrigin | None) -> dict[str, Any]:
    """The work dir, by what it is."""
    work = record.work_dir
    if record.transfer == "none":
        return {"saved": "none"}
    if not os.path.isdir(work):
        return _save_branch(host, record, part)
    there = bubblewrap.open_sandboxed_host(host, record, part)
    place = raw_git.find_work_tree_repo(there, work) if record.transfer != "copy" else None
    is_whole = place is not None and os.path.realpath(place.git_dir or "") == os.path.join(
        os.path.realpath(work), ".git"
    )
    if place is not None and is_whole == (record.transfer == "mirror"):
        try:
            return _save_git(host, record, place, part, origin)
        except MngrError as error:  # a damaged index or the like: then every file as it is
            if origin and origin.needs_source:
                raise IncompleteCopy(error.message) from None
            for name in (BUNDLE_FILE, FILES_ARCHIVE, GIT_ARCHIVE):
                host.run(["rm", "-f", "--", os.path.join(part, name)])
            raw_git.remove_raw_git_dir(os.path.join(part, "raw"))
    elif origin and origin.needs_source:
        raise IncompleteCopy(f"{work} did not become a repository")
    branch = _save_branch(host, record, part) if record.transfer == "worktree" else {}
    tar.pack(there, work, tar.list_tree(there, work, ["."]), os.path.join(part, FILES_ARCHIVE))
    return {**branch, "saved": "files", "dirty": (origin.record if origin else record).transfer != "copy"}


def _save_branch(host: Host, record: AgentRecord, part: str) -> dict[str, Any]:
    """The work dir is gone or no longer a work tree: what its branch holds."""
    repo = git.find_repo(host, record.source) if record.source and os.path.isdir(record.source) else None
    tip = git.find_commit(host, repo.root, f"refs/heads/{record.branch}") if repo and record.branch else None
    if repo is None or tip is None:
        return {"saved": "none"}
    form = git.run_checked(host, repo.root, "rev-parse", "--show-object-format")
    place = raw_git.WorkTreeRepo(
        git_dir=None, common_dir=repo.common_dir, object_format=form, head=tip, branch=record.branch
    )
    raw = raw_git.make_raw_git_dir(os.path.join(part, "raw"), place)
    refs = {"HEAD": tip, f"refs/heads/{record.branch}": tip}
    meta = {"saved": "git", "head": tip, "branch": record.branch, "refs": refs, "form": form}
    return {**meta, **_write_bundle(host, record, raw, repo.root, place, refs, [], part)}


def _save_git(
    host: Host, record: AgentRecord, place: WorkTreeRepo, part: str, origin: CopyOrigin | None
) -> dict[str, Any]:
    """A work tree: what git can hold as a bundle, the rest as archives."""
    work, there = record.work_dir, bubblewrap.open_sandboxed_host(host, record, part)
    # What its own host ignores did not come, and what we ignore is no matter of an agent elsewhere.
    settings = {"core.excludesfile": os.devnull} if origin else worktree_state.read_git_settings(there, work)
    raw = raw_git.make_raw_git_dir(os.path.join(part, "raw"), place, settings.get("core.excludesfile"))
    state = worktree_state.read_work_tree_state(there, raw, work, place, settings, origin.umask if origin else None)
    if state.files:
        tar.pack(there, work, state.files, os.path.join(part, FILES_ARCHIVE))
    refs = _list_refs(there, record, place)
    bundle = _write_bundle(host, record, raw, work, place, refs, state.blobs, part)
    _save_git_dir(there, place, part, needs_index=state.needs_index, has_history=bool(bundle["new_objects"]))
    own = [row for row in state.dirty if not row.startswith(".mngr/") or row.startswith(".mngr/settings")]
    return {
        "saved": "git", "head": place.head, "branch": place.branch, "refs": refs, "form": place.object_format, "git_dir": place.git_dir,
        "umask": state.umask, "missing": state.missing, "dirty": bool(own) or _has_submodule(state.files), "ignored_bytes": state.ignored_bytes,
        "unpulled": count_unpulled(host, record) if place.head != record.base else 0, **bundle,
    }  # fmt: skip


def _has_submodule(files: list[str]) -> bool:
    """Whether a repository inside the work tree is saved with it; asking it for changes would run what it is set to."""
    return any(os.path.basename(path) == ".git" for path in files)


def _list_refs(host: Host, record: AgentRecord, place: WorkTreeRepo) -> dict[str, str]:
    """What a bundle names: a mirror's every ref, a worktree's HEAD and branches."""
    found: dict[str, str] = {} if place.head is None else {"HEAD": place.head}
    if record.transfer == "mirror":
        wanted: list[str] = []
    else:
        wanted = [f"refs/heads/{name}" for name in {place.branch, record.branch} if name]
        if not wanted or (place.head and wanted == [f"refs/heads/{place.branch}"]):
            return {**found, **{name: place.head for name in wanted if place.head}}
    listed = git.run_checked(host, record.work_dir, "for-each-ref", "--format=%(objectname) %(refname)", *wanted)
    rows = (row.partition(" ") for row in listed.split("\n") if row)
    return {**found, **{name: oid for oid, _, name in rows if not wanted or name in wanted}}


def _write_bundle(
    host: Host,
    record: AgentRecord,
    raw: str,
    work: str,
    place: WorkTreeRepo,
    refs: dict[str, str],
    blobs: list[str],
    part: str,
) -> dict[str, Any]:
    """Everything that the source's branches and tags do not hold, as a git bundle; none when that is nothing."""
    held = _list_source_commits(host, record, refs)
    roots = dict.fromkeys(
        [*refs.values(), *worktree_state.list_mentioned_objects(place.git_dir, place.object_format), *blobs]
    )
    new = [oid for oid in roots if oid not in held]
    there = bubblewrap.open_sandboxed_host(host, record, part)
    if new and set(new) - set(refs.values()) - set(blobs):
        asked = raw_git.run_checked(
            there, raw, work, "cat-file", "--batch-check", stdin="\n".join(new).encode() + b"\n"
        ).decode()
        new = [row.split(" ")[0] for row in asked.splitlines() if not row.endswith((" missing", " ambiguous"))]
    if not new:
        return {"prerequisites": held, "new_objects": 0}
    edge = _list_prerequisites(there, raw, work, new, held)
    head = (
        "# v2 git bundle\n"
        if place.object_format == "sha1"
        else f"# v3 git bundle\n@object-format={place.object_format}\n"
    )
    head += "".join(f"-{oid} \n" for oid in edge) + "".join(f"{oid} {name}\n" for name, oid in refs.items()) + "\n"
    path = os.path.join(part, BUNDLE_FILE)
    with open(path, "wb") as file:
        file.write(head.encode("utf-8", "surrogateescape"))
    wanted = "\n".join([*new, *(f"^{oid}" for oid in edge)]) + "\n"
    line = 'exec git --git-dir="$1" --no-replace-objects pack-objects --revs --stdout --delta-base-offset -q >>"$2"'
    packed = there.run(["sh", "-c", line, "pack", raw, path], stdin=wanted.encode())
    if packed.code:
        raise MngrError(
            f"git cannot pack the commits of {record.name}: {packed.error_line}",
            "look at its work dir with: git fsck",
        )
    stands_on = [place.head] if place.head in held else []
    return {"prerequisites": list(dict.fromkeys([*edge, *stands_on])), "new_objects": len(new)}


def _list_prerequisites(host: Host, raw: str, work: str, new: list[str], held: list[str]) -> list[str]:
    """Of what the source has, the commits that new ones build on: whatever else becomes of it, these are enough."""
    if not held:
        return []
    asked = "".join(f"{oid}\n" for oid in (*new, *(f"^{oid}" for oid in held)))
    listed = raw_git.run_checked(host, raw, work, "rev-list", "--boundary", "--stdin", stdin=asked.encode()).decode()
    return [row[1:] for row in listed.splitlines() if row.startswith("-")]


def _list_source_commits(host: Host, record: AgentRecord, refs: dict[str, str]) -> list[str]:
    """What need not be saved: the base, and for a mirror other tips and tags, if a lasting ref of the source has them."""
    source = record.source
    if record.base is None or source is None or not os.path.isdir(source):
        return []
    others = ["--exclude=mngr/*", *([f"--exclude={record.branch}"] if record.branch_is_new else [])]
    ask = ("rev-list", "--max-count=1", record.base, "--not", *others, "--branches", "--tags", "--remotes")
    said = git.run(host, source, *ask)
    if said.code or said.out:
        return []
    held = [record.base]
    if record.transfer == "mirror":
        tips = git.run_checked(
            host, source, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags"
        ).split("\n")
        known = {row.partition(" ")[0] for row in tips if not row.partition(" ")[2].startswith("refs/heads/mngr/")}
        held.extend(oid for oid in dict.fromkeys(refs.values()) if oid in known and oid != record.base)
    return held


def _save_git_dir(host: Host, place: WorkTreeRepo, part: str, *, needs_index: bool, has_history: bool) -> None:
    """The index, reflogs, a merge or rebase under way: all of the git dir that is not made anew."""
    assert place.git_dir is not None
    usual = {*_EXCLUDED_GIT_FILES, "index", "logs", "ORIG_HEAD", "refs"}
    names = [n for n in sorted(os.listdir(place.git_dir)) if n not in _EXCLUDED_GIT_FILES and not n.endswith(".lock")]
    if place.git_dir == place.common_dir or needs_index or has_history or not usual.issuperset(names):
        if not needs_index:
            names = [name for name in names if name != "index" and not name.startswith("sharedindex.")]
        tar.pack(host, place.git_dir, tar.list_tree(host, place.git_dir, names), os.path.join(part, GIT_ARCHIVE))


def _fsync(path: str) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def remove_saved_directory(ctx: Context, place: str) -> None:
    """Delete a saved directory: in one step for everybody who looks, then file by file."""
    gone = f"{place}{PARTIAL_SUFFIX}"
    ctx.local_host.run(["rm", "-rf", "--", gone])
    os.rename(place, gone)
    ctx.local_host.run(["chmod", "-R", "u+rwX", "--", gone])
    ctx.local_host.run(["rm", "-rf", "--", gone])
