"""From a saved directory back to a work dir: files, modes, links, index and branch exactly as they were."""

from __future__ import annotations

import json
import os
from typing import Any

from mngr.agents.saved import raw_git, shared_packs, tar
from mngr.agents.saved.save import BUNDLE_FILE, FILES_ARCHIVE, GIT_ARCHIVE
from mngr.agents.workdir.discard import RESTORING_FILE
from mngr.agents.workdir.source import find_source_repo
from mngr.agents.workdir.transfer import make_branch_taken_error
from mngr.base.errors import MngrError
from mngr.base.lock import Lock
from mngr.base.model import AgentRecord, Struct
from mngr.host import git, store
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
_NO_HOOKS = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
_AGENT_GIT_FILES = (
    "config",
    "hooks",
)  # of a mirror: the agent's own, put back when we are done with git there


class WorkDirRestore(Struct):
    """A work dir to bring back: from where, for whom, and on which new branch if not on its own."""

    host: Host
    saved_dir: str
    meta: dict[str, Any]
    record: AgentRecord
    branch: str | None
    fallback_branch: str | None  # a branch to take if its own is checked out elsewhere
    needs_own_repo: bool = False  # it shall have a repository of its own, whatever it had
    can_share_objects: bool = False  # that repository may use the source's objects: `make_whole` comes later
    notes: list[str]


def restore_work_dir(work: WorkDirRestore) -> AgentRecord:
    """Make the work dir; the record as it is then."""
    record = work.record
    repo = find_source_repo(work.host, record.source)
    if work.meta["saved"] == "files":
        return _restore_files(work, repo)
    if work.meta["saved"] == "none":
        if record.transfer != "worktree" or repo is None:
            raise MngrError(
                "its work dir was gone when it was destroyed: there is nothing to restore",
                f"see {work.saved_dir}",
            )
        form = git.run_checked(work.host, repo.root, "rev-parse", "--show-object-format")
        empty: dict[str, Any] = {
            "head": record.base,
            "branch": record.branch,
            "refs": {},
            "missing": [],
            "form": form,
        }
        work = work.replace(meta={**work.meta, **empty})
    if record.transfer == "mirror" or repo is None or work.needs_own_repo:
        return _restore_mirror(work, repo)
    return _restore_worktree(work, repo)


def _restore_worktree(work: WorkDirRestore, repo: Repo) -> AgentRecord:
    host, meta = work.host, work.meta
    _fetch_bundle(work, repo.root)
    record, branch, made = _choose_branch(work, repo)
    store.save_record(host, record)
    host.write(os.path.join(host.home.agent_dir(record.id), RESTORING_FILE), json.dumps(made).encode())
    for name, oid in made:
        git.run_checked(host, repo.root, "update-ref", f"refs/heads/{name}", oid, "0" * len(oid))
    start = str(meta["head"] or record.base)
    with Lock(os.path.join(repo.common_dir, "mngr.base.lock")):
        git.run_checked(
            host, repo.root, "worktree", "add", "--quiet", "--no-checkout", "--detach", record.work_dir, start
        )
    if branch is not None:
        git.run_checked(host, record.work_dir, "symbolic-ref", "HEAD", f"refs/heads/{branch}")
    _unpack_git_dir(work, record, skip=_OPERATION_FILES if work.branch else ())
    _write_files(work, record)
    _relink_submodules(work, record)
    return record


def _choose_branch(work: WorkDirRestore, repo: Repo) -> tuple[AgentRecord, str | None, list[tuple[str, str]]]:
    """The record, the branch to check out, and the branches to make with where they shall stand."""
    record, meta = work.record, work.meta
    head, branch, own = meta["head"], meta["branch"], record.branch
    if work.branch is not None:
        if git.has_branch(work.host, repo.root, work.branch):
            raise make_branch_taken_error(work.branch)
        return (
            record.replace(branch=work.branch, branch_is_new=True),
            work.branch,
            [(work.branch, head)] if head else [],
        )
    made: list[tuple[str, str]] = []
    if own and own != branch and f"refs/heads/{own}" in meta["refs"] and not git.has_branch(work.host, repo.root, own):
        made.append((own, meta["refs"][f"refs/heads/{own}"]))
    if branch is None or head is None:
        return record, branch, made
    oid, where = _get_branch_position(work.host, repo, branch)
    moved, said = branch, ""
    if where:
        if work.fallback_branch is None or git.has_branch(work.host, repo.root, work.fallback_branch):
            hint = "switch to another branch there, or bring it back as another: mngr undestroy NAME --as OTHER"
            raise MngrError(f"the branch {branch!r} is checked out at {where}", hint)
        branch, oid, said = work.fallback_branch, None, f"is checked out at {where}"
    elif oid is not None and oid != head:
        branch, said = f"{branch}-{record.id[2:8]}", "has moved on since"
    if said:
        work.notes.append(f"the branch {moved} {said}; {record.name} is on {branch} now")
        record = record.replace(branch=branch, branch_is_new=True) if moved == own else record
    if oid != head:
        made.append((branch, head))
    return record, branch, made


def _get_branch_position(host: Host, repo: Repo, branch: str) -> tuple[str | None, str]:
    """Where a branch stands, and the worktree that has it checked out."""
    ref = f"refs/heads/{branch}"
    listed = git.run_checked(host, repo.root, "for-each-ref", "--format=%(refname) %(objectname) %(worktreepath)", ref)
    for row in listed.split("\n"):
        name, _, rest = row.partition(" ")
        if name == ref:
            oid, _, where = rest.partition(" ")
            return oid, where
    return None, ""


def _restore_mirror(work: WorkDirRestore, repo: Repo | None) -> AgentRecord:
    """An independent repository; also what becomes of a worktree whose source is gone."""
    host, meta, record = work.host, work.meta, work.record
    has_bundle = os.path.exists(os.path.join(work.saved_dir, BUNDLE_FILE))
    if repo is None and (not has_bundle or meta.get("prerequisites")):
        raise MngrError(
            f"the repository it was made from is gone: {record.source}",
            f"put it back; the saved files are in {work.saved_dir}",
        )
    there = record.work_dir
    made = host.run(["git", "init", "--quiet", "--template=", f"--object-format={meta['form']}", there])
    if made.code:
        raise MngrError(f"git init failed: {made.error_line}", "see: mngr doctor")
    if repo is not None:
        shared_packs.add_alternate(host, repo, os.path.join(there, ".git"))
    if has_bundle:
        _fetch_bundle(work, there)
    if record.transfer == "worktree":
        if repo is not None:
            _copy_source_refs(work, repo, there)
        for ref, oid in meta["refs"].items():
            if ref != "HEAD":
                git.run_checked(host, there, "update-ref", ref, oid)
        record = record.replace(transfer="mirror", source=None if repo is None else record.source)
        if repo is None:
            work.notes.append("its source is gone: it has a repository of its own now")
    if meta["head"]:
        git.run_checked(host, there, "update-ref", "--no-deref", "HEAD", meta["head"])
    kept = _unpack_git_dir(work, record, skip=(*_AGENT_GIT_FILES, *(_OPERATION_FILES if work.branch else ())))
    record = _set_mirror_branch(work, record)
    _delete_dangling_refs(work, there)
    if repo is not None and not work.can_share_objects:
        copy_shared_objects(host, there)
    _write_files(work, record)
    _relink_submodules(work, record)
    settings = [f"./{name}" for name in _AGENT_GIT_FILES if name in kept]
    if settings and work.record.transfer == "mirror":
        tar.unpack(host, os.path.join(work.saved_dir, GIT_ARCHIVE), os.path.join(there, ".git"), *settings)
    return record


def copy_shared_objects(host: Host, there: str) -> None:
    """Give a repository that borrows objects all that it needs of them."""
    git.run_checked(host, there, *_NO_HOOKS, "repack", "-a", "-d", "-k", "-q")
    host.run(["rm", "-f", "--", os.path.join(there, ".git", shared_packs.ALTERNATES_FILE)])


def _copy_source_refs(work: WorkDirRestore, repo: Repo, there: str) -> None:
    """What any mirror has of its source: all branches and tags, and who commits."""
    host = work.host
    form = "--format=create %(refname) %(objectname)"
    refs = git.run_checked(host, repo.root, "for-each-ref", form, "refs/heads", "refs/tags")
    if refs:
        git.run_checked(host, there, "update-ref", "--stdin", stdin=f"{refs}\n".encode("utf-8", "surrogateescape"))
    for key in ("user.name", "user.email"):
        value = git.run(host, repo.root, "config", "--local", key)
        if value.code == 0:
            git.run_checked(host, there, "config", key, value.text)
    shallow = os.path.join(repo.common_dir, "shallow")
    if os.path.exists(shallow):
        host.write(os.path.join(there, ".git", "shallow"), host.read(shallow))


def _set_mirror_branch(work: WorkDirRestore, record: AgentRecord) -> AgentRecord:
    """HEAD as it was, or on the new branch."""
    host, there, branch = work.host, record.work_dir, work.meta["branch"]
    if work.branch not in (None, record.branch):
        assert work.branch is not None
        if git.has_branch(host, there, work.branch):
            raise make_branch_taken_error(work.branch)
        if work.meta["head"]:
            git.run_checked(host, there, "update-ref", f"refs/heads/{work.branch}", work.meta["head"])
        record, branch = record.replace(branch=work.branch, branch_is_new=True), work.branch
    if branch is not None:
        git.run_checked(host, there, "symbolic-ref", "HEAD", f"refs/heads/{branch}")
    return record


def _delete_dangling_refs(work: WorkDirRestore, there: str) -> None:
    """Refs to commits that were the source's and that it no longer has."""
    listed = git.run_checked(work.host, there, "for-each-ref", "--format=%(objectname) %(refname)").split("\n")
    rows = [row.partition(" ") for row in listed if row]
    asked = git.run_checked(
        work.host,
        there,
        "cat-file",
        "--batch-check=%(objecttype)",
        stdin="".join(f"{r[0]}\n" for r in rows).encode(),
    )
    for (_, _, ref), answer in zip(rows, asked.split("\n"), strict=False):
        if answer.endswith(" missing"):
            git.run(work.host, there, "update-ref", "-d", ref)
            work.notes.append(f"{ref} is left out: the source no longer has its commit")


def _fetch_bundle(work: WorkDirRestore, repository: str) -> None:
    path = os.path.join(work.saved_dir, BUNDLE_FILE)
    if not os.path.exists(path):
        return
    done = git.run(work.host, repository, "bundle", "unbundle", path)
    if done.code and b"prerequisite" in done.err:
        lost = ", ".join(oid[:12] for oid in work.meta["prerequisites"])
        raise MngrError(
            f"{repository} no longer has what the saved work builds on: {lost}",
            f"bring that commit back (git fetch), and try again; the saved files are in {work.saved_dir}",
        )
    if done.code:
        raise MngrError(f"{path} cannot be read: {done.error_line}", f"look at it with: git bundle verify {path}")


def _unpack_git_dir(work: WorkDirRestore, record: AgentRecord, skip: tuple[str, ...]) -> set[str]:
    """The index, reflogs and so on; the top names that were saved."""
    path = os.path.join(work.saved_dir, GIT_ARCHIVE)
    if not os.path.exists(path):
        return set()
    kept = {name.split("/")[0] for name in tar.check_archive(path, refuse=("HEAD", "objects", "commondir", "gitdir"))}
    target = git.run_checked(work.host, record.work_dir, "rev-parse", "--path-format=absolute", "--git-dir")
    tar.unpack(work.host, path, target, *(f"--exclude=./{name}" for name in skip))
    return kept


def _write_files(work: WorkDirRestore, record: AgentRecord) -> None:
    """The files: what git holds as it holds it, then the archive, which git has written nothing in the way of."""
    host, meta, there = work.host, work.meta, record.work_dir
    place = raw_git.find_work_tree_repo(host, there)
    if place is None or place.git_dir is None:
        raise MngrError(f"{there} did not become a repository", "see: mngr doctor")
    path = os.path.join(work.saved_dir, FILES_ARCHIVE)
    members = tar.check_archive(path, refuse=(".git",)) if os.path.exists(path) else {}
    above: set[str] = set()
    for name in members:
        while (name := os.path.dirname(name)) and name not in above:
            above.add(name)
    raw = raw_git.make_raw_git_dir(os.path.join(host.home.agent_dir(record.id), "raw"), place)
    if meta["head"] and not os.path.exists(os.path.join(place.git_dir, "index")):
        raw_git.run_checked(host, raw, there, "read-tree", meta["head"])
    gone = set(meta.get("missing", ()))
    wanted = [
        name for tag, mode, name in raw_git.parse_index_rows(raw_git.list_index_rows(host, raw, there))
        if tag in "Hh" and mode != "160000" and name not in members and name not in gone and name not in above
    ]  # fmt: skip
    line = f'umask {meta.get("umask", "022")}; exec git -C "$2" --git-dir="$1" --work-tree="$2" checkout-index -u -z --stdin'
    listed = "".join(f"{name}\0" for name in wanted).encode("utf-8", "surrogateescape")
    done = host.run(["sh", "-c", line, "checkout", raw, there], stdin=listed)
    raw_git.remove_raw_git_dir(raw)
    if done.code:
        raise MngrError(f"git checkout-index failed in {there}: {done.error_line}", "check space and permissions")
    if members:
        tar.unpack(host, path, there)


def _relink_submodules(work: WorkDirRestore, record: AgentRecord) -> None:
    """Submodules whose git dir lies in the worktree's own: point them at where that is now."""
    old, path = work.meta.get("git_dir"), os.path.join(work.saved_dir, FILES_ARCHIVE)
    if not old or not os.path.exists(path):
        return
    new = git.run_checked(work.host, record.work_dir, "rev-parse", "--path-format=absolute", "--git-dir")
    was = work.meta["record"]["work_dir"]
    if (old, was) == (new, record.work_dir):
        return
    for name, kind in tar.check_archive(path).items():
        file = os.path.join(record.work_dir, name)
        if kind != "file" or os.path.basename(name) != ".git" or not os.path.isfile(file):
            continue
        if os.path.getsize(file) > 4096:
            continue
        points = work.host.read(file).decode("utf-8", "surrogateescape").strip().removeprefix("gitdir: ")
        points = os.path.normpath(os.path.join(was, os.path.dirname(name), points))
        if points.startswith(old + "/"):
            there, folder = new + points[len(old) :], os.path.dirname(file)
            link = f"gitdir: {os.path.relpath(there, folder)}\n"
            work.host.write(file, link.encode("utf-8", "surrogateescape"), 0o644)
            settings = os.path.join(there, "config")
            work.host.run(["git", "config", "-f", settings, "core.worktree", os.path.relpath(folder, there)])


def _restore_files(work: WorkDirRestore, repo: Repo | None) -> AgentRecord:
    """A plain copy, or a work tree that was no longer one when it was saved."""
    host, record = work.host, work.record
    path = os.path.join(work.saved_dir, FILES_ARCHIVE)
    members = tar.check_archive(path)
    if (
        record.transfer == "worktree"
        and members.get(".git") != "dir"
        and repo is not None
        and record.branch
        and record.base
    ):
        _fetch_bundle(work, repo.root)
        branch = work.branch or record.branch
        start = work.meta.get("head") or record.base
        known = git.has_branch(host, repo.root, branch)
        words = [record.work_dir, branch] if known else ["--no-track", "-b", branch, record.work_dir, start]
        with Lock(os.path.join(repo.common_dir, "mngr.base.lock")):
            git.run_checked(host, repo.root, "worktree", "add", "--quiet", "--no-checkout", *words)
        tar.unpack(host, path, record.work_dir, "--exclude=./.git")
        git.run_checked(host, record.work_dir, "reset", "--quiet")
        return record.replace(branch=branch)
    os.makedirs(record.work_dir, exist_ok=True)
    if record.transfer == "worktree" and members.get(".git") == "file":
        tar.unpack(host, path, record.work_dir, "--exclude=./.git")
    else:
        tar.unpack(host, path, record.work_dir)
    if record.transfer == "copy":
        return record
    return record.replace(transfer="mirror" if members.get(".git") == "dir" else "copy")
