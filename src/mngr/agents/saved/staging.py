"""An agent of another host, brought here exactly as it is: a small home of ours that the same code reads as any other."""

from __future__ import annotations

import functools
import json
import os
import shutil
import stat
from typing import Any

from mngr.agents.context import Context
from mngr.agents.saved import host_stream, shared_packs, tar, worktree_state
from mngr.agents.saved import save as saving
from mngr.agents.workdir.source import find_source_repo
from mngr.base.errors import MngrError
from mngr.base.model import AgentRecord, Struct
from mngr.base.paths import Home
from mngr.host import scripts, store
from mngr.host.git import Repo
from mngr.host.protocol import Host
from mngr.providers.local import LocalHost

MAX_READ_ATTEMPTS = 3  # to read files that change meanwhile
_GATHERED_DIR = "gather"  # in the agent's directory: objects of a repository that is not all there
_MAX_PRUNE_CHARS = 20_000  # characters of what find is told to leave out: a command has its limits
_GIT_CONFIG = "[core]\n\trepositoryformatversion = {version}\n\tfilemode = true\n\tbare = false\n{more}"
_SHA256_CONFIG = "[extensions]\n\tobjectFormat = sha256\n"


class StagingHome:
    """`with Stage(ctx) as stage:` a directory that nobody else can read, laid out as a home, gone afterwards."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self.root = os.path.join(ctx.home.cache, "stage", f"{os.getpid()}-{os.urandom(4).hex()}")
        self.host = LocalHost(Home(self.root))

    def __enter__(self) -> StagingHome:
        self._ctx.home.create()
        try:
            for path in (self.root, self.host.home.agents, self.host.home.work_dirs):
                os.makedirs(path, mode=0o700)
            self._ctx.local_host.write(
                os.path.join(self.root, saving.OWNER_FILE), json.dumps(store.describe_this_process()).encode()
            )
        except OSError as error:
            raise MngrError(f"cannot make {self.root}: {error.strerror}", "check space and permissions") from None
        return self

    def __exit__(self, *_: object) -> None:
        remove_tree(self._ctx.local_host, self.root)


def remove_tree(local: Host, path: str) -> None:
    """Delete a directory whose insides may be read-only."""
    if local.run(["rm", "-rf", "--", path]).code:
        local.run(["chmod", "-R", "u+rwX", "--", path])
        local.run(["rm", "-rf", "--", path])


class WorkDirFacts(Struct):
    """What a host says of a work dir before its files come."""

    git: str = "none"
    umask: str = "022"
    ignored: list[str] = []
    ignored_bytes: int = 0
    packs: list[str] = []  # large ones
    git_dir: str = ""  # of a worktree: where its own part of the repository was


def save_agent(
    ctx: Context,
    host: Host,
    record: AgentRecord,
    place: str,
    *,
    why: str,
    agent_files: bool = False,
    was_running: bool = False,
    more: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Write an agent's whole state to `place` in one step, wherever it is; what `meta.json` says about it.

    Of an agent on another host its own files always come along; `more` is for its `meta.json`.
    """
    if host.is_local:
        return saving.save_local_agent(host, record, place, why=why, agent_files=agent_files, was_running=was_running)
    real = record.replace(host=host.name, provider=host.provider)
    save_copy = functools.partial(_save_copy, ctx, host, real, place, why, was_running, more or {})
    try:
        return save_copy(whole=False)
    except _UnreadableCopy:
        return save_copy(whole=True)


class _UnreadableCopy(MngrError):
    """What came builds on the repository here, and cannot be read with it."""


def _save_copy(
    ctx: Context,
    host: Host,
    real: AgentRecord,
    place: str,
    why: str,
    was_running: bool,
    more: dict[str, Any],
    *,
    whole: bool,
) -> dict[str, Any]:
    """Bring an agent home and save the copy; without `whole` what is here already need not come."""
    record = real
    with StagingHome(ctx) as stage:
        try:
            staged, seen = copy_agent_here(ctx, host, real, stage, whole=whole)
        except OSError as error:
            raise MngrError(
                f"cannot copy {record.name} to {stage.root}: {error}", "check space and permissions"
            ) from None
        if why == "destroy":
            store.add_event(stage.host, record.id, "destroyed", name=record.name, branch=record.branch)
        facts = {"staged": True, "ignored_bytes": seen.ignored_bytes, **more}
        if seen.git_dir:
            facts["git_dir"] = seen.git_dir
        origin = saving.CopyOrigin(record=real, umask=seen.umask, needs_source=bool(seen.packs), extra_meta=facts)
        try:
            return saving.save_local_agent(
                stage.host, staged, place, why=why, agent_files=True, was_running=was_running, origin=origin
            )
        except saving.IncompleteCopy as error:
            raise _UnreadableCopy(error.message) from None


def copy_agent_here(
    ctx: Context, host: Host, record: AgentRecord, stage: StagingHome, *, whole: bool = True
) -> tuple[AgentRecord, WorkDirFacts]:
    """Copy an agent's directory and work dir from its host; the record that fits the copy, and what the host said."""
    name = get_work_dir_name(host, record)
    facts = _collect_work_dir_facts(host, record.work_dir) if name else WorkDirFacts()
    repo = None if whole or not facts.packs else _find_source_repo(ctx, record)
    known = (
        shared_packs.list_local_packs(ctx.local_host, repo, host, record.work_dir, facts.packs, stage.root)
        if repo
        else []
    )
    facts = facts.replace(packs=known)
    apart = record.branch or "HEAD" if facts.git in ("file", "borrows") else ""
    _fetch_files(host, record.id, name, apart, _build_find_prunes(name, facts), stage)
    work = os.path.join(stage.host.home.work_dirs, name or record.name)
    staged = record.replace(work_dir=work)
    if not name or not os.path.isdir(work):
        return staged, facts
    _delete_ignored(work, facts.ignored)
    if apart:
        facts = facts.replace(git_dir=_build_own_repository(ctx, stage, record.id, work))
    if record.transfer == "copy":
        return staged, facts
    # What git here would follow out of the copy is kept as files, and git is kept from it.
    kind = "mirror" if _is_self_contained(os.path.join(work, ".git")) else "copy"
    if repo is not None and known:
        if kind == "copy":
            raise _UnreadableCopy(f"the repository of {record.name} leads elsewhere")
        shared_packs.add_alternate(ctx.local_host, repo, os.path.join(work, ".git"))
    source = record.source if record.transfer == "mirror" else None  # a worktree's is on that host
    return staged.replace(transfer=kind, source=source), facts


def _find_source_repo(ctx: Context, record: AgentRecord) -> Repo | None:
    """The repository here that a mirror was made from."""
    return find_source_repo(ctx.local_host, record.source) if record.transfer == "mirror" else None


def copy_agent_files_here(host: Host, agent_id: str, stage: StagingHome) -> None:
    """Copy only an agent's own directory."""
    _fetch_files(host, agent_id, "", "", [], stage)


def get_work_dir_name(host: Host, record: AgentRecord) -> str:
    """The name of its work dir among those of its host; empty when it is not one of ours."""
    folder, name = os.path.split(record.work_dir)
    is_ours = folder == host.home.work_dirs and name not in ("", ".", "..") and record.transfer != "none"
    return name if is_ours else ""


def _collect_work_dir_facts(host: Host, work: str) -> WorkDirFacts:
    result = host.run(["sh", "-c", scripts.read_program("survey.sh"), "survey.sh", work])
    facts: dict[str, str] = {}
    rows = result.out.split(b"\0")
    large: list[str] = []
    while rows and rows[0].split(b" ")[0] in (b"umask", b"git", b"ignored", b"pack"):
        key, _, value = rows.pop(0).decode("ascii", "replace").partition(" ")
        facts[key] = value
        large += [value] if key == "pack" else []
    umask, size = facts.get("umask", ""), facts.get("ignored", "")
    return WorkDirFacts(
        git=facts.get("git", "none"),
        umask=umask if umask and set(umask) <= set("01234567") and len(umask) < 5 else "022",
        ignored=[os.fsdecode(row[2:]) for row in rows if row.startswith(b"! ")],
        ignored_bytes=int(size) if size.isascii() and size.isdigit() and len(size) < 16 else 0,
        packs=shared_packs.parse_large_packs(large),
    )


def _build_find_prunes(name: str, facts: WorkDirFacts) -> list[str]:
    """Words for find that leave out ignored directories and packs. Only so many: what comes all the same is dropped here."""
    paths = [f"work/{name}/.git/objects/pack/{pack}.*" for pack in facts.packs]
    left = _MAX_PRUNE_CHARS
    for path in facts.ignored:
        left -= 2 * len(path) if path.endswith("/") else 0
        if path.endswith("/") and left > 0:
            paths.append(f"work/{name}/{path.rstrip('/')}".translate(worktree_state.FIND_ESCAPES))
    return [word for path in paths for word in ("-path", path, "-prune", "-o")]


def _delete_ignored(work: str, names: list[str]) -> None:
    """Take away what git on the host ignores, and directories that held nothing else; never through a link."""
    real = os.path.realpath(work)
    for name in names:
        path = os.path.join(work, os.path.normpath(name))
        above = os.path.dirname(path)
        if os.path.isabs(name) or ".." in name.split("/") or name == ".":
            continue
        if os.path.realpath(above) != os.path.normpath(os.path.join(real, os.path.relpath(above, work))):
            continue
        try:
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            elif os.path.lexists(path):
                os.unlink(path)
            while above != work and not os.listdir(above):
                os.rmdir(above)
                above = os.path.dirname(above)
        except OSError:  # in a directory that is read-only; then it is kept
            continue


def _fetch_files(host: Host, agent_id: str, name: str, apart: str, words: list[str], stage: StagingHome) -> None:
    """One tar stream into the stage, checked before anything is taken out of it."""
    argv = [
        "sh",
        "-c",
        scripts.read_program("gather.sh"),
        "gather.sh",
        host.home.root,
        agent_id,
        name,
        apart,
        *words,
    ]
    path = os.path.join(stage.root, "stream.tar")
    for attempt in range(MAX_READ_ATTEMPTS):
        result = host_stream.receive_to_file(host, argv, path)
        if b"find: failed" in result.err:
            result = result.replace(code=result.code or 1)
        if result.code == 4:
            raise MngrError(f"{agent_id} is no longer on {host.name}", "see: mngr list")
        if result.code == 3:
            raise MngrError(
                f"git on {host.name} cannot read the repository of {agent_id}: {result.error_line}",
                "look at it there with: git fsck",
            )
        if not result.code or attempt == MAX_READ_ATTEMPTS - 1:
            tar.check_read_result(result, f"{host.home.root} on {host.name}")
            break
    found = tar.check_archive(path, only=(f"agents/{agent_id}", *([f"work/{name}"] if name else [])))
    tar.unpack(stage.host, path, stage.root, "--no-same-owner", "--delay-directory-restore")
    os.unlink(path)
    _check_tree(stage.root, agent_id)
    if found.get(f"agents/{agent_id}") != "dir" or found.get(f"work/{name}", "dir") != "dir":
        raise MngrError(
            f"{agent_id} is not what it should be on {host.name}: a link stands in its place",
            "look at it there",
        )


def _check_tree(root: str, agent_id: str) -> None:
    """Nothing but directories, files, links and pipes came; what stands at the top of the agent's own is no link."""
    for top, folders, files in os.walk(root):
        for name in (*folders, *files):
            mode = os.lstat(os.path.join(top, name)).st_mode
            if stat.S_ISBLK(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode):
                raise MngrError(
                    f"refused: {name!r} of the agent is a device",
                    "have it taken away: mngr exec NAME -- rm …",
                )
    own = os.path.join(root, "agents", agent_id)
    for name in os.listdir(own):
        path = os.path.join(own, name)
        mode = os.lstat(path).st_mode
        if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
            os.unlink(path)  # we read and write files there by name


def _is_self_contained(place: str) -> bool:
    """Whether a git directory is all there is of it: git would follow no link, and no word of it, to anywhere else."""
    outside = ("commondir", "objects/info/alternates", "objects/info/http-alternates", "config.worktree")
    return _has_only_regular_files(place) and not any(os.path.exists(os.path.join(place, name)) for name in outside)


def _has_only_regular_files(place: str) -> bool:
    """Whether a git directory holds only files and directories; hooks, which never run here, may be anything."""
    if os.path.islink(place) or not os.path.isdir(place):
        return False
    for top, folders, files in os.walk(place):
        if top == place and "hooks" in folders:
            folders.remove("hooks")
        for name in (*folders, *files):
            mode = os.lstat(os.path.join(top, name)).st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                return False
    return True


def _build_own_repository(ctx: Context, stage: StagingHome, agent_id: str, work: str) -> str:
    """A repository of its own from what `gather.sh` brought of one that shares or borrows objects; where that was."""
    local, place = ctx.local_host, os.path.join(work, ".git")
    extra = os.path.join(stage.host.home.agent_dir(agent_id), _GATHERED_DIR)
    came = os.path.join(extra, "git")
    if not _has_only_regular_files(extra) or (not os.path.isdir(came) and not _has_only_regular_files(place)):
        return ""
    if os.path.isdir(came):
        os.unlink(place)
        os.rename(came, place)
    for name in ("commondir", "gitdir", "locked", "config.worktree", "objects/info/alternates"):
        if os.path.exists(os.path.join(place, name)):
            os.unlink(os.path.join(place, name))
    for name in ("objects/pack", "refs"):
        os.makedirs(os.path.join(place, name), exist_ok=True)
    with open(os.path.join(extra, "refs"), encoding="utf-8", errors="surrogateescape") as file:
        rows = sorted({row for row in file.read().split("\n") if row}, key=lambda row: row.partition(" ")[2])
    text = "".join(f"{row}\n" for row in rows)
    local.write(os.path.join(place, "packed-refs"), text.encode("utf-8", "surrogateescape"), 0o644)
    if not os.path.exists(os.path.join(place, "config")):
        is_long = bool(rows) and len(rows[0].partition(" ")[0]) == 64
        config = _GIT_CONFIG.format(version=int(is_long), more=_SHA256_CONFIG if is_long else "")
        local.write(os.path.join(place, "config"), config.encode(), 0o644)
    line = 'exec git --git-dir="$1" index-pack --stdin <"$2"'
    made = local.run(["sh", "-c", line, "index", place, os.path.join(extra, "pack")])
    if made.code:
        raise MngrError(f"what came of the repository cannot be read: {made.error_line}", "try again")
    was = local.read(os.path.join(extra, "dir")).decode("utf-8", "surrogateescape")
    remove_tree(local, extra)
    return was
