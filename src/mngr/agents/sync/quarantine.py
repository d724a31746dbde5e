"""Where commits of an agent's wait until they are checked: a repository of ours, beside the objects that they shall join."""

from __future__ import annotations

import os

from mngr.agents.sync import files, transfer_limits
from mngr.agents.sync.transfer_limits import Limits
from mngr.base import clock
from mngr.base.errors import MngrError, TimedOut, Unreachable
from mngr.base.lock import Lock
from mngr.base.shell import Result
from mngr.host import git
from mngr.host.git import Repo
from mngr.host.protocol import Host

# Nothing the other repository says may run here, and every object is checked.
SAFE = (
    "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "fetch.fsckObjects=true",
    "-c", "transfer.fsckObjects=true", "-c", "submodule.recurse=false", "-c", "fetch.unpackLimit=1",
    "-c", "fetch.uriProtocols=", "-c", "transfer.bundleURI=false",
)  # fmt: skip
# A repository made from a shallow one is shallow too.
_FETCH = (
    "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance", "--update-shallow",
)  # fmt: skip
# One pack comes, so the largest file is all of it; what a delta of it makes is in memory. No signal leaves a core.
_LIMITS = 'ulimit -c 0; ulimit -f "$1" || :; ulimit -d "$2" 2>/dev/null || :; shift 2; exec "$@"'
# Every object that came is looked at once; trees in which a link could be, in full.
_CHECK = """
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
MOST_LINKS = 10_000
_INCOMING = "refs/mngr/incoming"
_PREFIX = "tmp_objdir-mngr-"  # as git calls such a place, so that `git prune` takes away what a crash left
_LEAST = 64 * 1024  # bytes: git writes more than the objects
_FEW = 100  # objects that git would not keep as a pack


class Refused(MngrError):
    """What a repository sends cannot be taken."""

    def __init__(self, why: str, hint: str = "nothing was changed here") -> None:
        super().__init__(why, hint)


def bring(local: Host, repo: Repo, there: Host, path: str, branch: str, limits: Limits) -> str:
    """The commit of a branch there, checked, and with all that it needs in our repository; raises Refused, Unreachable."""
    place = _make(repo)
    try:
        fetch(local, place, there, path, f"+refs/heads/{branch}:{_INCOMING}", limits=limits)
        commit = git.resolve(local, place, _INCOMING)
        if commit is None:
            raise Refused(f"{branch!r} is not a commit")
        pack = _pack(place)
        if pack is not None:
            _check(local, place, pack, limits)
            _let_in(local, repo, place, pack)
        return commit
    finally:
        local.run(["rm", "-rf", "--", place])


def fetch(local: Host, place: str, there: Host, path: str, *specs: str, limits: Limits) -> None:
    """Fetch into a repository of ours under limits, every object checked; nothing the other side says is run.

    Raises Refused, TimedOut, Unreachable.
    """
    way = git.reach(there, path, "upload-pack", git.guard(path))
    argv = ["git", "-C", place, *SAFE, *git.THROUGH, "fetch", *_FETCH, *way, *specs]
    most = max(limits.bytes, _LEAST)
    numbers = [str(most // 512), str((limits.file_bytes * 4 >> 10) + 256 * 1024)]
    try:
        result = local.run(["sh", "-c", _LIMITS, "fetch", *numbers, *argv], timeout=limits.seconds)
    except TimedOut:
        raise TimedOut(
            f"the commits did not come within {clock.age(limits.seconds)}; nothing was changed here",
            "try again, or raise the limit: -S pull.timeout=2h",
        ) from None
    if result.code == 0:
        return
    if _left_over(place) > most - 512:
        raise _too_much(limits)
    check_line(there, result)
    why = git.complaint(result)
    raise Refused(why, git.hint(why)) if "No space left" in why else Refused(why)


def _too_much(limits: Limits) -> Refused:
    return Refused(
        f"it has more than {transfer_limits.size(limits.bytes)} of new objects",
        "nothing was changed here; to take more, raise the limit: -S pull.max_bytes=N",
    )


def _left_over(place: str) -> int:
    """Take away what an interrupted fetch has left; how large it was."""
    folder, size = os.path.join(place, "objects", "pack"), 0
    for name in os.listdir(folder):
        if name.startswith("tmp_"):
            path = os.path.join(folder, name)
            size = max(size, os.path.getsize(path))
            os.unlink(path)
    return size


def check_line(there: Host, result: Result) -> None:
    """Unreachable when a fetch or push failed because the host did not answer to the end."""
    if there.is_here:
        return
    there.run(["true"], timeout=30)  # raises what is wrong now
    if git.is_lost(result):
        raise Unreachable(f"{there.name}: the connection was lost: {git.complaint(result)}", "try again")


def _make(repo: Repo) -> str:
    """An empty repository that sees the objects of another."""
    objects = os.path.join(repo.common_dir, "objects")
    place = os.path.join(objects, f"{_PREFIX}{os.getpid()}-{os.urandom(4).hex()}")
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
        raise MngrError(
            f"cannot write to {repo.common_dir}: {error.strerror}", "check space and permissions"
        ) from None
    return place


def _pack(place: str) -> str | None:
    """What came, without its ending; None when everything was here."""
    folder = os.path.join(place, "objects", "pack")
    found = [name.removesuffix(".idx") for name in os.listdir(folder) if name.endswith(".idx")]
    return os.path.join(folder, found[0]) if found else None


def _check(local: Host, place: str, pack: str, limits: Limits) -> None:
    """What git's own check does not look at: how large files are, and where links lead. Raises Refused."""
    if os.path.getsize(pack + ".pack") > limits.bytes:
        raise _too_much(limits)
    argv = ["sh", "-c", _CHECK, "check", place, pack, str(limits.file_bytes), _INCOMING]
    try:
        result = local.run(argv, timeout=limits.seconds)
    except TimedOut:
        raise Refused("checking it took too long") from None
    if result.code:
        raise Refused(f"it cannot be checked: {result.problem}")
    links: list[tuple[str, str]] = []
    for row in result.text.split("\n"):
        if row.startswith("large "):
            _, bytes_, path = row.split(" ", 2)
            most = transfer_limits.size(limits.file_bytes)
            raise Refused(
                f"{repr(path) if path else 'an object of it'} has {transfer_limits.size(int(bytes_))}, and the most that a file may have is {most}",
                f"nothing was changed here; to take it: -S pull.max_file_bytes={bytes_}",
            )
        modes, _, path = row.partition("\t")
        links += [(path, modes.split(" ")[-2])] if path else []
    if links:
        _check_links(local, place, links)


def _check_links(local: Host, place: str, links: list[tuple[str, str]]) -> None:
    """Links that are new may lead nowhere but to files of the same tree."""
    if len(links) > MOST_LINKS:
        raise Refused(f"more than {MOST_LINKS} links are new")
    asked = "".join(f"{oid}\n" for _, oid in links).encode()
    sizes = git.must(local, place, "cat-file", "--batch-check=%(objectsize)", stdin=asked).split()
    if max(map(int, sizes)) > 4096:
        raise Refused("a link is longer than any path can be")
    left = git.run(local, place, "cat-file", "--batch=", stdin=asked).out[1:]
    for (path, _), length in zip(links, map(int, sizes), strict=True):
        target, left = left[:length].decode("utf-8", "surrogateescape"), left[length + 2 :]
        into_git = ".git" in (part.lower() for part in target.split("/"))
        if into_git or not files.stays_inside(path.split("/"), target):
            raise Refused(
                f"{path!r} is a link to {target!r}, which leads out of the tree",
                "nothing was changed here; if you trust it, fetch it with git itself: git fetch mngr::NAME",
            )


def _let_in(local: Host, repo: Repo, place: str, pack: str) -> None:
    """The objects into our repository, as git itself would keep them."""
    with open(pack + ".pack", "rb") as file:
        count = int.from_bytes(file.read(12)[8:], "big")
    with Lock(os.path.join(repo.common_dir, "mngr.base.lock")):
        if os.path.exists(os.path.join(place, "shallow")):
            flags = [flag for flag in _FETCH if flag != "--quiet"]
            git.must(
                local,
                repo.root,
                "-c",
                "core.hooksPath=/dev/null",
                "fetch",
                "--quiet",
                *flags,
                "--",
                place,
                _INCOMING,
            )
        elif count < _FEW:
            line = 'exec git --git-dir="$1" unpack-objects -q <"$2"'
            result = local.run(["sh", "-c", line, "unpack", repo.common_dir, pack + ".pack"])
            if result.code:
                raise MngrError(f"git cannot keep what came: {result.problem}", git.hint(result.problem))
        else:
            folder = os.path.join(repo.common_dir, "objects", "pack")
            os.makedirs(folder, exist_ok=True)
            for ending in (".pack", ".rev", ".idx"):  # git looks for the last
                if os.path.exists(pack + ending):
                    os.replace(pack + ending, os.path.join(folder, os.path.basename(pack) + ending))
