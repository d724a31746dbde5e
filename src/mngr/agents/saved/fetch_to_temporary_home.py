"""Copies an agent from a remote host into a temporary local home, which the code for local agents can read."""

from __future__ import annotations

import json
import os
import stat

from mngr.agents.context import Context
from mngr.agents.saved import host_stream, packs_in_user_repo, tar, worktree_state
from mngr.agents.saved import save as saving
from mngr.agents.saved.save import SaveRequest
from mngr.agents.saved_directory import SavedState
from mngr.agents.workdir.source import find_source_repo
from mngr.base import shell
from mngr.base.errors import MngrError
from mngr.base.model import AgentRecord, Struct
from mngr.base.paths import Home
from mngr.host import agent_origin, git, record_store, scripts
from mngr.host.git import Repo
from mngr.host.protocol import Host
from mngr.providers.local import LocalHost

MAX_READ_ATTEMPTS = 3  # Files may change while they are read.
_GATHERED_DIR = "gather"  # in the agent's directory: objects that the work dir's repository shares or borrows
_MAX_PRUNE_CHARS = 20_000  # The length of a command line is limited.
_GIT_CONFIG = "[core]\n\trepositoryformatversion = {version}\n\tfilemode = true\n\tbare = false\n{more}"
_SHA256_CONFIG = "[extensions]\n\tobjectFormat = sha256\n"


class StagingHome:
    """A private temporary directory with the layout of a home, deleted at the end of the `with` block."""

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
                os.path.join(self.root, saving.OWNER_FILE), json.dumps(record_store.describe_this_process()).encode()
            )
        except OSError as error:
            raise MngrError(
                f"cannot create {self.root}: {error.strerror}", shell.suggest_disk_check(os.path.dirname(self.root))
            ) from None
        return self

    def __exit__(self, *_: object) -> None:
        remove_tree(self._ctx.local_host, self.root)


def remove_tree(local: Host, path: str) -> None:
    """Delete a directory, even if it contains read-only directories."""
    if local.run(["rm", "-rf", "--", path]).code:
        local.run(["chmod", "-R", "u+rwX", "--", path])
        local.run(["rm", "-rf", "--", path])


class WorkDirFacts(Struct):
    """The facts that a host reports of a work dir before mngr copies its files."""

    git: str = "none"
    umask: str = "022"
    ignored: list[str] = []
    ignored_bytes: int = 0
    packs: list[str] = []  # only large packs
    git_dir: str = ""  # path on the host of the agent's git dir, if that shares or borrows objects


def save_agent(ctx: Context, host: Host, record: AgentRecord, request: SaveRequest) -> SavedState:
    """Save an agent of any host and return the description of the saved directory."""
    if host.is_local:
        return saving.save_local_agent(host, record, request)
    original = agent_origin.correct_record(ctx.home, record)
    try:
        return _save_copy(ctx, host, original, request, whole=False)
    except _UnreadableCopy:
        return _save_copy(ctx, host, original, request, whole=True)


class _UnreadableCopy(MngrError):
    """The copy relies on the local source repository, but git cannot read it that way."""


def _save_copy(ctx: Context, host: Host, original: AgentRecord, request: SaveRequest, *, whole: bool) -> SavedState:
    """Copy a remote agent here and save the copy. Without `whole`, packs that are here already are not copied."""
    record = original
    with StagingHome(ctx) as staging_home:
        try:
            staged, work_facts = copy_agent_here(ctx, host, original, staging_home, whole=whole)
        except OSError as error:
            raise MngrError(
                f"cannot copy {record.name} to {staging_home.root}: {error}",
                shell.suggest_disk_check(staging_home.root),
            ) from None
        if request.why == "destroy":
            record_store.add_event(staging_home.host, record.id, "destroyed", name=record.name, branch=record.branch)
        origin = saving.CopyOrigin(
            record=original,
            umask=work_facts.umask,
            needs_source=bool(work_facts.packs),
            ignored_bytes=work_facts.ignored_bytes,
            git_dir=work_facts.git_dir,
        )
        try:
            return saving.save_local_agent(staging_home.host, staged, request.replace(agent_files=True), origin)
        except saving.IncompleteCopy as error:
            raise _UnreadableCopy(error.message) from None


def copy_agent_here(
    ctx: Context, host: Host, record: AgentRecord, staging_home: StagingHome, *, whole: bool = True
) -> tuple[AgentRecord, WorkDirFacts]:
    """Copy an agent's directory and work dir from its host into the staging home.

    Return the record that fits the copy, and what the host reported of the work dir.
    """
    name = get_work_dir_name(host, record)
    facts = _collect_work_dir_facts(host, record.work_dir) if name else WorkDirFacts()
    repo = None if whole or not facts.packs else _find_source_repo(ctx, record)
    shared: list[str] = []
    if repo is not None:
        shared = packs_in_user_repo.list_local_packs(
            ctx.local_host, repo, host, record.work_dir, facts.packs, staging_home.root
        )
    facts = facts.replace(packs=shared)
    has_foreign_objects = facts.git in ("file", "borrows")
    gathered_ref = (record.branch or "HEAD") if has_foreign_objects else ""
    _fetch_files(host, record.id, name, gathered_ref, _build_find_prunes(name, facts), staging_home)
    work_dir = os.path.join(staging_home.host.home.work_dirs, name or record.name)
    staged = record.replace(work_dir=work_dir)
    if not name or not os.path.isdir(work_dir):
        return staged, facts
    _delete_ignored(work_dir, facts.ignored)
    if gathered_ref:
        facts = facts.replace(git_dir=_build_own_repository(ctx, staging_home, record.id, work_dir))
    if record.transfer == "copy":
        return staged, facts
    # A repository that leads git to files outside of the copy is saved as plain files, without running git on it.
    transfer = "mirror" if _is_self_contained(os.path.join(work_dir, ".git")) else "copy"
    if repo is not None and shared:
        if transfer == "copy":
            raise _UnreadableCopy(f"the repository of {record.name} leads elsewhere")
        packs_in_user_repo.add_alternate(ctx.local_host, repo, os.path.join(work_dir, ".git"))
    source = record.source if record.transfer == "mirror" else None  # A worktree's source is on the remote host.
    return staged.replace(transfer=transfer, source=source), facts


def _find_source_repo(ctx: Context, record: AgentRecord) -> Repo | None:
    """Return the local repository that a mirror was created from, or None."""
    return find_source_repo(ctx.local_host, record.source) if record.transfer == "mirror" else None


def copy_agent_files_here(host: Host, agent_id: str, staging_home: StagingHome) -> None:
    """Copy only the agent's own directory, without its work dir, into the staging home."""
    _fetch_files(host, agent_id, "", "", [], staging_home)


def get_work_dir_name(host: Host, record: AgentRecord) -> str:
    """Return the work dir's name among mngr's work dirs on the host, or an empty string if it is not one."""
    folder, name = os.path.split(record.work_dir)
    is_managed = folder == host.home.work_dirs and name not in ("", ".", "..") and record.transfer != "none"
    return name if is_managed else ""


def _collect_work_dir_facts(host: Host, work_dir: str) -> WorkDirFacts:
    """Ask the host about a work dir. Values that are not well-formed are replaced by defaults."""
    result = host.run(["sh", "-c", scripts.read_program("work_dir_facts.sh"), "work_dir_facts.sh", work_dir])
    facts: dict[str, str] = {}
    rows = result.out.split(b"\0")
    pack_rows: list[str] = []
    while rows and rows[0].split(b" ")[0] in (b"umask", b"git", b"ignored", b"pack"):
        key, _, value = rows.pop(0).decode("ascii", "replace").partition(" ")
        facts[key] = value
        if key == "pack":
            pack_rows.append(value)
    umask, size = facts.get("umask", ""), facts.get("ignored", "")
    is_umask = 0 < len(umask) < 5 and set(umask) <= set("01234567")
    is_size = len(size) < 16 and size.isascii() and size.isdigit()
    return WorkDirFacts(
        git=facts.get("git", "none"),
        umask=umask if is_umask else "022",
        ignored=[os.fsdecode(row[2:]) for row in rows if row.startswith(b"! ")],
        ignored_bytes=int(size) if is_size else 0,
        packs=packs_in_user_repo.parse_large_packs(pack_rows),
    )


def _build_find_prunes(name: str, facts: WorkDirFacts) -> list[str]:
    """Return arguments for find that skip ignored directories and shared packs.

    Their length is limited. Ignored files that are copied nevertheless are deleted here.
    """
    paths = [f"work/{name}/.git/objects/pack/{pack}.*" for pack in facts.packs]
    remaining = _MAX_PRUNE_CHARS
    ignored_dirs = [path for path in facts.ignored if path.endswith("/")]
    for path in ignored_dirs:
        remaining -= 2 * len(path)
        if remaining > 0:
            paths.append(f"work/{name}/{path.rstrip('/')}".translate(worktree_state.FIND_ESCAPES))
    return [word for path in paths for word in ("-path", path, "-prune", "-o")]


def _delete_ignored(work_dir: str, names: list[str]) -> None:
    """Delete what git on the host ignores, and directories that become empty. Never follow a link."""
    import shutil

    real_work_dir = os.path.realpath(work_dir)
    for name in names:
        path = os.path.join(work_dir, os.path.normpath(name))
        parent = os.path.dirname(path)
        leads_outside = os.path.isabs(name) or ".." in name.split("/")
        if leads_outside or name == ".":
            continue
        expected_parent = os.path.normpath(os.path.join(real_work_dir, os.path.relpath(parent, work_dir)))
        if os.path.realpath(parent) != expected_parent:  # A link is on the way.
            continue
        try:
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            elif os.path.lexists(path):
                os.unlink(path)
            while parent != work_dir and not os.listdir(parent):
                os.rmdir(parent)
                parent = os.path.dirname(parent)
        except OSError:  # The file is in a read-only directory and stays.
            continue


def _fetch_files(
    host: Host, agent_id: str, name: str, gathered_ref: str, find_prunes: list[str], staging_home: StagingHome
) -> None:
    """Copy files from the host as one tar stream, and check the archive before unpacking it."""
    argv = [
        "sh",
        "-c",
        scripts.read_program("pack_agent.sh"),
        "pack_agent.sh",
        host.home.root,
        agent_id,
        name,
        gathered_ref,
        *find_prunes,
    ]
    path = os.path.join(staging_home.root, "stream.tar")
    for attempt in range(MAX_READ_ATTEMPTS):
        if attempt:
            os.unlink(path)
        result = host_stream.receive_to_file(host, argv, path, max_bytes=tar.MAX_ARCHIVE_BYTES)
        if b"find: failed" in result.err:
            result = result.replace(code=result.code or 1)
        if result.code == 4:
            raise MngrError(f"{agent_id} is no longer on {host.name}", "list the agents: mngr list")
        if result.code == 3:
            raise MngrError(
                f"git on {host.name} cannot read the repository of {agent_id}: {result.error_line}",
                f"check the repository: mngr exec {agent_id} -- git fsck",
            )
        if not result.code or attempt == MAX_READ_ATTEMPTS - 1:
            tar.check_read_result(result, f"{host.home.root} on {host.name}")
            break
    agent_path, work_path = f"agents/{agent_id}", f"work/{name}"
    allowed_paths = (agent_path, work_path) if name else (agent_path,)
    members = tar.check_archive(path, only=allowed_paths)
    tar.unpack(staging_home.host, path, staging_home.root, "--no-same-owner", "--delay-directory-restore")
    os.unlink(path)
    _check_tree(staging_home.root, agent_id)
    if members.get(agent_path) != "dir" or members.get(work_path, "dir") != "dir":
        raise MngrError(
            f"the path of the agent {agent_id} on {host.name} is a link and not a directory, so mngr does not copy it",
            f"see the files: mngr exec {agent_id} -- ls -la",
        )


def _check_tree(root: str, agent_id: str) -> None:
    """Raise MngrError if a device or socket was copied. Delete links and pipes at the top of the agent's directory."""
    for top, folders, files in os.walk(root):
        for name in (*folders, *files):
            mode = os.lstat(os.path.join(top, name)).st_mode
            if stat.S_ISBLK(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode):
                raise MngrError(
                    f"the agent has a device or socket, {name!r}, but mngr copies only ordinary files",
                    f"delete it: mngr exec {agent_id} -- find . -name {shell.quote(name)} -delete",
                )
    agent_dir = os.path.join(root, "agents", agent_id)
    for name in os.listdir(agent_dir):
        path = os.path.join(agent_dir, name)
        mode = os.lstat(path).st_mode
        if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
            os.unlink(path)  # mngr opens files in this directory by name, and must not follow a link.


def _is_self_contained(git_dir: str) -> bool:
    """True when git would follow no link or path in this git dir to anything outside of it."""
    external_files = ("commondir", "objects/info/alternates", "objects/info/http-alternates", "config.worktree")
    return _has_only_regular_files(git_dir) and not any(
        os.path.exists(os.path.join(git_dir, name)) for name in external_files
    )


def _has_only_regular_files(git_dir: str) -> bool:
    """True when a git dir holds only files and directories. Hooks never run here, so they do not count."""
    if os.path.islink(git_dir) or not os.path.isdir(git_dir):
        return False
    for top, folders, files in os.walk(git_dir):
        if top == git_dir and "hooks" in folders:
            folders.remove("hooks")
        for name in (*folders, *files):
            mode = os.lstat(os.path.join(top, name)).st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                return False
    return True


def _build_own_repository(ctx: Context, staging_home: StagingHome, agent_id: str, work_dir: str) -> str:
    """Turn the files that `pack_agent.sh` collected into an independent repository for the work dir.

    Return the path of the original git dir on the host.
    """
    local, git_dir = ctx.local_host, os.path.join(work_dir, ".git")
    gathered_dir = os.path.join(staging_home.host.home.agent_dir(agent_id), _GATHERED_DIR)
    gathered_git_dir = os.path.join(gathered_dir, "git")
    if not _has_only_regular_files(gathered_dir):
        return ""
    has_gathered_git_dir = os.path.isdir(gathered_git_dir)
    if not has_gathered_git_dir and not _has_only_regular_files(git_dir):
        return ""
    if has_gathered_git_dir:
        os.unlink(git_dir)
        os.rename(gathered_git_dir, git_dir)
    for name in ("commondir", "gitdir", "locked", "config.worktree", "objects/info/alternates"):
        if os.path.exists(os.path.join(git_dir, name)):
            os.unlink(os.path.join(git_dir, name))
    for name in ("objects/pack", "refs"):
        os.makedirs(os.path.join(git_dir, name), exist_ok=True)
    with open(os.path.join(gathered_dir, "refs"), encoding="utf-8", errors="surrogateescape") as file:
        rows = sorted({row for row in file.read().split("\n") if row}, key=lambda row: row.partition(" ")[2])
    text = "".join(f"{row}\n" for row in rows)
    local.write(os.path.join(git_dir, "packed-refs"), text.encode("utf-8", "surrogateescape"), 0o644)
    if not os.path.exists(os.path.join(git_dir, "config")):
        is_sha256 = bool(rows) and len(rows[0].partition(" ")[0]) == 64
        config = _GIT_CONFIG.format(version=int(is_sha256), more=_SHA256_CONFIG if is_sha256 else "")
        local.write(os.path.join(git_dir, "config"), config.encode(), 0o644)
    line = 'pack=$1; shift; exec "$@" <"$pack"'
    index_pack = [*git.SAFE_GIT, f"--git-dir={git_dir}", "index-pack", "--stdin"]
    result = local.run(["sh", "-c", line, "index", os.path.join(gathered_dir, "pack"), *index_pack])
    if result.code:
        raise MngrError(
            f"git cannot read the repository that was copied from the host: {result.error_line}",
            "run the command again",
        )
    original_git_dir = local.read(os.path.join(gathered_dir, "dir")).decode("utf-8", "surrogateescape")
    remove_tree(local, gathered_dir)
    return original_git_dir
