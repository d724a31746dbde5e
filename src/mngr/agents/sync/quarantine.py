"""The quarantine: a temporary repository in which mngr checks an agent's commits before it takes them.

It lies inside the object directory of the repository that will get the commits.
"""

from __future__ import annotations

import os

from mngr.agents.sync import files
from mngr.agents.sync.transfer_limits import TransferLimits
from mngr.base import shell, time_format
from mngr.base.errors import MngrError, TimedOut, Unreachable
from mngr.base.lock import Lock
from mngr.base.shell import ProcessResult
from mngr.base.size_format import format_size
from mngr.host import git
from mngr.host.git import Repo
from mngr.host.protocol import Host

# With these options the agent's repository cannot run anything here, and git checks every object.
SAFE_GIT_OPTIONS = git.build_config_options(
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "fetch.fsckObjects=true",
    "transfer.fsckObjects=true",
    "submodule.recurse=false",
    "fetch.unpackLimit=1",
    "fetch.uriProtocols=",
    "transfer.bundleURI=false",
)
# A mirror of a shallow repository is shallow too.
_FETCH_OPTIONS = (
    "--quiet",
    "--no-tags",
    "--no-write-fetch-head",
    "--no-recurse-submodules",
    "--no-auto-maintenance",
    "--update-shallow",
)
# The fetch writes one pack, so the file size limit covers all of it. Deltas expand in memory, so data size is limited
# too. A signal must not leave a core file.
_RUN_WITH_LIMITS = 'ulimit -c 0; ulimit -f "$1" || :; ulimit -d "$2" 2>/dev/null || :; shift 2; exec "$@"'
# Checks the size of each received object once, and lists all new links if any tree may contain one.
_CHECK_OBJECTS = """
cd "$1" || exit
{ git show-index <"$2.idx" || echo failed; } | cut -d' ' -f2 |
    git cat-file --batch-check='%(objecttype) %(objectsize) %(objectname)' --buffer >came || exit
large=$(awk -v most="$3" '$2 > most { print $2, $3; exit }' came)
if [ -n "$large" ]; then
    name=$(git -c core.quotePath=false rev-list --objects "$4" --not --alternate-refs | grep -m 1 "^${large#* } ")
    echo "large ${large% *} ${name#* }"
    exit
fi
awk '$1 == "tree" { print $3 }' came | git cat-file --batch --buffer | grep -a -q '120000 ' || exit 0
git rev-list "$4" --not --alternate-refs |
    git -c core.quotePath=false diff-tree --stdin --root -r -c --raw --no-commit-id --no-abbrev --no-renames |
    grep -a -E '^:+([0-7]{6} )+120000 [0-9a-f]{40}' | head -n 10001
"""
MAX_LINKS = 10_000
_INCOMING_REF = "refs/mngr/incoming"
_QUARANTINE_PREFIX = "tmp_objdir-mngr-"  # git's own prefix, so that `git prune` deletes it after a crash
_MIN_LIMIT_BYTES = 64 * 1024  # git writes more than just the objects
_MIN_PACK_OBJECTS = 100  # git unpacks fewer objects than this


class CommitsRefused(MngrError):
    """mngr refuses the commits of a repository."""

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason, hint)


def fetch_checked_branch(local: Host, repo: Repo, remote: Host, path: str, branch: str, limits: TransferLimits) -> str:
    """Fetch a branch of an agent's repository into `repo` through the quarantine, and return its commit.

    Raise CommitsRefused when a check fails, or Unreachable.
    """
    quarantine_dir = _make_quarantine(repo)
    try:
        fetch_with_limits(local, quarantine_dir, remote, path, f"+refs/heads/{branch}:{_INCOMING_REF}", limits=limits)
        commit = git.find_commit(local, quarantine_dir, _INCOMING_REF, git.SAFE_GIT)
        if commit is None:
            raise CommitsRefused(f"its branch {branch!r} does not point to a commit")
        pack = _find_pack(quarantine_dir)
        if pack is not None:
            _check_pack(local, quarantine_dir, pack, limits)
            _import_objects(local, repo, quarantine_dir, pack)
        return commit
    finally:
        local.run(["rm", "-rf", "--", quarantine_dir])


def fetch_with_limits(local: Host, git_dir: str, remote: Host, path: str, *specs: str, limits: TransferLimits) -> None:
    """Fetch into a local repository with limits on size and time. git checks every object.

    Nothing in the remote repository can run a program here. Raise CommitsRefused, TimedOut or Unreachable.
    """
    remote_args = git.build_remote_args(remote, path, "upload-pack", git.build_guarded_git(path))
    git_command = git.allow_protocol(git.SAFE_GIT, "file" if remote.is_local else "ext")
    argv = [*git_command, "-C", git_dir, *SAFE_GIT_OPTIONS, "fetch", *_FETCH_OPTIONS, *remote_args, *specs]
    max_bytes = max(limits.bytes, _MIN_LIMIT_BYTES)
    ulimits = [str(max_bytes // 512), str((limits.file_bytes * 4 >> 10) + 256 * 1024)]
    try:
        result = local.run(["sh", "-c", _RUN_WITH_LIMITS, "fetch", *ulimits, *argv], timeout=limits.seconds)
    except TimedOut:
        raise TimedOut(
            f"the commits did not arrive within {time_format.format_age(limits.seconds)}; your repository is unchanged",
            "pull again, or raise the limit: mngr config set --user pull.timeout 2h",
        ) from None
    if result.code == 0:
        return
    if _remove_partial_packs(git_dir) > max_bytes - 512:
        raise _make_limit_error(limits)
    check_connection(remote, result)
    reason = git.describe_failure(result)
    raise CommitsRefused(reason, git.suggest_hint(reason)) if "No space left" in reason else CommitsRefused(reason)


def _make_limit_error(limits: TransferLimits) -> CommitsRefused:
    """Return the error for commits that exceed the size limit."""
    return CommitsRefused(
        f"they have more than {format_size(limits.bytes)} of new objects",
        "to pull them anyway, raise the limit: mngr config set --user pull.max_bytes N",
    )


def _remove_partial_packs(git_dir: str) -> int:
    """Delete what an interrupted fetch left, and return the size of its largest file."""
    folder, size = os.path.join(git_dir, "objects", "pack"), 0
    for name in os.listdir(folder):
        if name.startswith("tmp_"):
            path = os.path.join(folder, name)
            size = max(size, os.path.getsize(path))
            os.unlink(path)
    return size


def check_connection(remote: Host, result: ProcessResult) -> None:
    """Raise Unreachable when a fetch or push failed because the connection to the host was lost."""
    if remote.is_local:
        return
    remote.run(["true"], timeout=30)  # This raises Unreachable if the host does not answer now.
    if git.is_connection_lost(result):
        raise Unreachable(
            f"the connection to {remote.name} was lost: {git.describe_failure(result)}", "run the command again"
        )


def _make_quarantine(repo: Repo) -> str:
    """Create an empty repository that can read the objects of `repo`, and return its path."""
    objects = os.path.join(repo.common_dir, "objects")
    quarantine_dir = os.path.join(objects, f"{_QUARANTINE_PREFIX}{os.getpid()}-{os.urandom(4).hex()}")
    config = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
    if repo.head is not None and len(repo.head) == 64:
        config = "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = sha256\n"
    try:
        for name in ("objects/info", "objects/pack", "refs"):
            os.makedirs(os.path.join(quarantine_dir, name), mode=0o700)
        for name, content in (
            ("HEAD", "ref: refs/heads/none\n"),
            ("config", config),
            ("objects/info/alternates", f"{objects}\n"),
        ):
            with open(os.path.join(quarantine_dir, name), "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(content)
        shallow = os.path.join(repo.common_dir, "shallow")
        if os.path.exists(shallow):
            with (
                open(shallow, encoding="ascii") as source_file,
                open(os.path.join(quarantine_dir, "shallow"), "w", encoding="ascii") as target_file,
            ):
                target_file.write(source_file.read())
    except OSError as error:
        raise MngrError(
            f"cannot write to {repo.common_dir}: {error.strerror}", shell.suggest_disk_check(repo.common_dir)
        ) from None
    return quarantine_dir


def _find_pack(quarantine_dir: str) -> str | None:
    """Return the path of the received pack without its suffix, or None if all objects were here already."""
    folder = os.path.join(quarantine_dir, "objects", "pack")
    packs = [name.removesuffix(".idx") for name in os.listdir(folder) if name.endswith(".idx")]
    return os.path.join(folder, packs[0]) if packs else None


def _check_pack(local: Host, quarantine_dir: str, pack: str, limits: TransferLimits) -> None:
    """Check what git itself does not check: the size of files and the targets of links.

    Raise CommitsRefused when a check fails.
    """
    if os.path.getsize(pack + ".pack") > limits.bytes:
        raise _make_limit_error(limits)
    program = ("env", *git.SAFE_VARIABLES, "sh", "-c", _CHECK_OBJECTS, "check")
    argv = [*program, quarantine_dir, pack, str(limits.file_bytes), _INCOMING_REF]
    try:
        result = local.run(argv, timeout=limits.seconds)
    except TimedOut:
        raise CommitsRefused("checking them took too long") from None
    if result.code:
        raise CommitsRefused(f"git could not check them: {result.error_line}")
    links: list[tuple[str, str]] = []
    for row in result.text.split("\n"):
        if row.startswith("large "):
            _, size, path = row.split(" ", 2)
            maximum = format_size(limits.file_bytes)
            raise CommitsRefused(
                f"{repr(path) if path else 'one of their objects'} has a size of {format_size(int(size))}, and the limit for a file is {maximum}",
                f"to pull it anyway, raise the limit: mngr config set --user pull.max_file_bytes {size}",
            )
        modes, _, path = row.partition("\t")
        links += [(path, modes.split(" ")[-2])] if path else []
    if links:
        _check_links(local, quarantine_dir, links)


def _check_links(local: Host, quarantine_dir: str, links: list[tuple[str, str]]) -> None:
    """Raise CommitsRefused unless all new links lead to files of the same tree."""
    if len(links) > MAX_LINKS:
        raise CommitsRefused(f"they add more than {MAX_LINKS} symbolic links")
    object_ids = "".join(f"{oid}\n" for _, oid in links).encode()
    words = ("cat-file", "--batch-check=%(objectsize)")
    sizes = git.run_checked(local, quarantine_dir, *words, stdin=object_ids, git_command=git.SAFE_GIT).split()
    if max(map(int, sizes)) > 4096:
        raise CommitsRefused("a symbolic link is longer than any path can be")
    contents = git.run(local, quarantine_dir, "cat-file", "--batch=", stdin=object_ids, git_command=git.SAFE_GIT)
    remaining = contents.out[1:]
    for (path, _), length in zip(links, map(int, sizes), strict=True):
        target = remaining[:length].decode("utf-8", "surrogateescape")
        remaining = remaining[length + 2 :]
        into_git = ".git" in (part.lower() for part in target.split("/"))
        if into_git or not files.is_link_inside(path.split("/"), target):
            raise CommitsRefused(
                f"{path!r} is a symbolic link to {target!r}, outside of the repository",
                "if you trust the agent, fetch with git, which does not check links: git fetch mngr::NAME",
            )


def _import_objects(local: Host, repo: Repo, quarantine_dir: str, pack: str) -> None:
    """Move the checked objects into `repo`, in the form in which git itself would store them."""
    with open(pack + ".pack", "rb") as file:
        count = int.from_bytes(file.read(12)[8:], "big")
    with Lock(os.path.join(repo.common_dir, "mngr.base.lock")):
        if os.path.exists(os.path.join(quarantine_dir, "shallow")):
            flags = [flag for flag in _FETCH_OPTIONS if flag != "--quiet"]
            git.run_checked(
                local,
                repo.root,
                f"--git-dir={repo.common_dir}",
                "-c",
                "core.hooksPath=/dev/null",
                "fetch",
                "--quiet",
                *flags,
                "--",
                quarantine_dir,
                _INCOMING_REF,
                git_command=git.GIT,
            )
        elif count < _MIN_PACK_OBJECTS:
            unpack = [*git.SAFE_GIT, f"--git-dir={repo.common_dir}", "unpack-objects", "-q"]
            line = 'pack=$1; shift; exec "$@" <"$pack"'
            result = local.run(["sh", "-c", line, "unpack", pack + ".pack", *unpack])
            if result.code:
                raise MngrError(
                    f"git could not store the agent's commits: {result.error_line}", git.suggest_hint(result.error_line)
                )
        else:
            folder = os.path.join(repo.common_dir, "objects", "pack")
            os.makedirs(folder, exist_ok=True)
            for suffix in (".pack", ".rev", ".idx"):  # git uses a pack once its .idx exists, so that comes last.
                if os.path.exists(pack + suffix):
                    os.replace(pack + suffix, os.path.join(folder, os.path.basename(pack) + suffix))
