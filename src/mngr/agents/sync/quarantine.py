"""Where commits of an agent's wait until they are checked: a repository of ours, beside the objects that they shall join."""

from __future__ import annotations

import os

from mngr.agents.sync import files, transfer_limits
from mngr.agents.sync.transfer_limits import TransferLimits
from mngr.base import clock
from mngr.base.errors import MngrError, TimedOut, Unreachable
from mngr.base.lock import Lock
from mngr.base.shell import ProcessResult
from mngr.host import git
from mngr.host.git import Repo
from mngr.host.protocol import Host

# Nothing the other repository says may run here, and every object is checked.
SAFE_GIT_OPTIONS = (
    "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "fetch.fsckObjects=true",
    "-c", "transfer.fsckObjects=true", "-c", "submodule.recurse=false", "-c", "fetch.unpackLimit=1",
    "-c", "fetch.uriProtocols=", "-c", "transfer.bundleURI=false",
)  # fmt: skip
# A repository made from a shallow one is shallow too.
_FETCH_OPTIONS = (
    "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance", "--update-shallow",
)  # fmt: skip
# One pack comes, so the largest file is all of it; what a delta of it makes is in memory. No signal leaves a core.
_RUN_WITH_LIMITS = 'ulimit -c 0; ulimit -f "$1" || :; ulimit -d "$2" 2>/dev/null || :; shift 2; exec "$@"'
# Every object that came is looked at once; trees in which a link could be, in full.
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
_QUARANTINE_PREFIX = "tmp_objdir-mngr-"  # as git calls such a place, so that `git prune` takes away what a crash left
_MIN_LIMIT_BYTES = 64 * 1024  # bytes: git writes more than the objects
_MIN_PACK_OBJECTS = 100  # objects that git would not keep as a pack


class CommitsRefused(MngrError):
    """What a repository sends cannot be taken."""

    def __init__(self, why: str, hint: str = "nothing was changed here") -> None:
        super().__init__(why, hint)


def fetch_checked_branch(local: Host, repo: Repo, there: Host, path: str, branch: str, limits: TransferLimits) -> str:
    """The commit of a branch there, checked, and with all that it needs in our repository; raises Refused, Unreachable."""
    place = _make_quarantine(repo)
    try:
        fetch_with_limits(local, place, there, path, f"+refs/heads/{branch}:{_INCOMING_REF}", limits=limits)
        commit = git.find_commit(local, place, _INCOMING_REF)
        if commit is None:
            raise CommitsRefused(f"{branch!r} is not a commit")
        pack = _find_pack(place)
        if pack is not None:
            _check_pack(local, place, pack, limits)
            _import_objects(local, repo, place, pack)
        return commit
    finally:
        local.run(["rm", "-rf", "--", place])


def fetch_with_limits(local: Host, place: str, there: Host, path: str, *specs: str, limits: TransferLimits) -> None:
    """Fetch into a repository of ours under limits, every object checked; nothing the other side says is run.

    Raises Refused, TimedOut, Unreachable.
    """
    way = git.build_remote_args(there, path, "upload-pack", git.build_guarded_git(path))
    argv = [
        "git",
        "-C",
        place,
        *SAFE_GIT_OPTIONS,
        *git.ALLOW_EXT_PROTOCOL,
        "fetch",
        *_FETCH_OPTIONS,
        *way,
        *specs,
    ]
    most = max(limits.bytes, _MIN_LIMIT_BYTES)
    numbers = [str(most // 512), str((limits.file_bytes * 4 >> 10) + 256 * 1024)]
    try:
        result = local.run(["sh", "-c", _RUN_WITH_LIMITS, "fetch", *numbers, *argv], timeout=limits.seconds)
    except TimedOut:
        raise TimedOut(
            f"the commits did not come within {clock.format_age(limits.seconds)}; nothing was changed here",
            "try again, or raise the limit: -S pull.timeout=2h",
        ) from None
    if result.code == 0:
        return
    if _remove_partial_packs(place) > most - 512:
        raise _make_limit_error(limits)
    check_connection(there, result)
    why = git.describe_failure(result)
    raise CommitsRefused(why, git.suggest_hint(why)) if "No space left" in why else CommitsRefused(why)


def _make_limit_error(limits: TransferLimits) -> CommitsRefused:
    return CommitsRefused(
        f"it has more than {transfer_limits.format_size(limits.bytes)} of new objects",
        "nothing was changed here; to take more, raise the limit: -S pull.max_bytes=N",
    )


def _remove_partial_packs(place: str) -> int:
    """Take away what an interrupted fetch has left; how large it was."""
    folder, size = os.path.join(place, "objects", "pack"), 0
    for name in os.listdir(folder):
        if name.startswith("tmp_"):
            path = os.path.join(folder, name)
            size = max(size, os.path.getsize(path))
            os.unlink(path)
    return size


def check_connection(there: Host, result: ProcessResult) -> None:
    """Unreachable when a fetch or push failed because the host did not answer to the end."""
    if there.is_local:
        return
    there.run(["true"], timeout=30)  # raises what is wrong now
    if git.is_connection_lost(result):
        raise Unreachable(f"{there.name}: the connection was lost: {git.describe_failure(result)}", "try again")


def _make_quarantine(repo: Repo) -> str:
    """An empty repository that sees the objects of another."""
    objects = os.path.join(repo.common_dir, "objects")
    place = os.path.join(objects, f"{_QUARANTINE_PREFIX}{os.getpid()}-{os.urandom(4).hex()}")
    text = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
    if repo.head is not None and len(repo.head) == 64:
        text = "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = sha256\n"
    try:
        for name in ("objects/info", "objects/pack", "refs"):
            os.makedirs(os.path.join(place, name), mode=0o700)
        for name, words in (
            ("HEAD", "ref: refs/heads/none\n"),
            ("config", text),
            ("objects/info/alternates", f"{objects}\n"),
        ):
            with open(os.path.join(place, name), "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(words)
        shallow = os.path.join(repo.common_dir, "shallow")
        if os.path.exists(shallow):
            with (
                open(shallow, encoding="ascii") as here,
                open(os.path.join(place, "shallow"), "w", encoding="ascii") as there,
            ):
                there.write(here.read())
    except OSError as error:
        raise MngrError(f"cannot write to {repo.common_dir}: {error.strerror}", "check space and permissions") from None
    return place


def _find_pack(place: str) -> str | None:
    """What came, without its ending; None when everything was here."""
    folder = os.path.join(place, "objects", "pack")
    found = [name.removesuffix(".idx") for name in os.listdir(folder) if name.endswith(".idx")]
    return os.path.join(folder, found[0]) if found else None


def _check_pack(local: Host, place: str, pack: str, limits: TransferLimits) -> None:
    """What git's own check does not look at: how large files are, and where links lead. Raises Refused."""
    if os.path.getsize(pack + ".pack") > limits.bytes:
        raise _make_limit_error(limits)
    argv = ["sh", "-c", _CHECK_OBJECTS, "check", place, pack, str(limits.file_bytes), _INCOMING_REF]
    try:
        result = local.run(argv, timeout=limits.seconds)
    except TimedOut:
        raise CommitsRefused("checking it took too long") from None
    if result.code:
        raise CommitsRefused(f"it cannot be checked: {result.error_line}")
    links: list[tuple[str, str]] = []
    for row in result.text.split("\n"):
        if row.startswith("large "):
            _, bytes_, path = row.split(" ", 2)
            most = transfer_limits.format_size(limits.file_bytes)
            raise CommitsRefused(
                f"{repr(path) if path else 'an object of it'} has {transfer_limits.format_size(int(bytes_))}, and the most that a file may have is {most}",
                f"nothing was changed here; to take it: -S pull.max_file_bytes={bytes_}",
            )
        modes, _, path = row.partition("\t")
        links += [(path, modes.split(" ")[-2])] if path else []
    if links:
        _check_links(local, place, links)


def _check_links(local: Host, place: str, links: list[tuple[str, str]]) -> None:
    """Links that are new may lead nowhere but to files of the same tree."""
    if len(links) > MAX_LINKS:
        raise CommitsRefused(f"more than {MAX_LINKS} links are new")
    asked = "".join(f"{oid}\n" for _, oid in links).encode()
    sizes = git.run_checked(local, place, "cat-file", "--batch-check=%(objectsize)", stdin=asked).split()
    if max(map(int, sizes)) > 4096:
        raise CommitsRefused("a link is longer than any path can be")
    left = git.run(local, place, "cat-file", "--batch=", stdin=asked).out[1:]
    for (path, _), length in zip(links, map(int, sizes), strict=True):
        target, left = left[:length].decode("utf-8", "surrogateescape"), left[length + 2 :]
        into_git = ".git" in (part.lower() for part in target.split("/"))
        if into_git or not files.is_link_inside(path.split("/"), target):
            raise CommitsRefused(
                f"{path!r} is a link to {target!r}, which leads out of the tree",
                "nothing was changed here; if you trust it, fetch it with git itself: git fetch mngr::NAME",
            )


def _import_objects(local: Host, repo: Repo, place: str, pack: str) -> None:
    """The objects into our repository, as git itself would keep them."""
    with open(pack + ".pack", "rb") as file:
        count = int.from_bytes(file.read(12)[8:], "big")
    with Lock(os.path.join(repo.common_dir, "mngr.base.lock")):
        if os.path.exists(os.path.join(place, "shallow")):
            flags = [flag for flag in _FETCH_OPTIONS if flag != "--quiet"]
            git.run_checked(
                local,
                repo.root,
                "-c",
                "core.hooksPath=/dev/null",
                "fetch",
                "--quiet",
                *flags,
                "--",
                place,
                _INCOMING_REF,
            )
        elif count < _MIN_PACK_OBJECTS:
            line = 'exec git --git-dir="$1" unpack-objects -q <"$2"'
            result = local.run(["sh", "-c", line, "unpack", repo.common_dir, pack + ".pack"])
            if result.code:
                raise MngrError(f"git cannot keep what came: {result.error_line}", git.suggest_hint(result.error_line))
        else:
            folder = os.path.join(repo.common_dir, "objects", "pack")
            os.makedirs(folder, exist_ok=True)
            for ending in (".pack", ".rev", ".idx"):  # git looks for the last
                if os.path.exists(pack + ending):
                    os.replace(pack + ending, os.path.join(folder, os.path.basename(pack) + ending))
