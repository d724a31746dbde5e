"""Files between an agent's host and here, as a tar stream. What comes from an agent is checked, never trusted."""

from __future__ import annotations

import os

from mngr import shell
from mngr.errors import MngrError, NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    import tarfile
    from typing import IO

    from mngr.host import Host

MOST_FILES = 100_000
MOST_BYTES = 10 * 1024**3
DEEPEST = 100
_PACK = '[ -d "$1" ] && [ ! -L "$1" ] || exit 2; cd "$1" && shift && exec tar -cf - -- "$@"'
# Beside the target first, then into its place. A link of the agent's must not lead out of its work dir.
_UNPACK = """
set -e
root=$(cd -P -- "$1" && pwd) t=$2 b=$3
d=$(dirname -- "$t") p=$t
until [ -d "$p" ]; do p=$(dirname -- "$p"); done
case $(cd -P -- "$p" && pwd)/ in "$root"/*) ;; *) echo "a link there leads out of the work dir" >&2; exit 3 ;; esac
mkdir -p -- "$d"
x=$(mktemp -d "$d/.mngr-XXXXXX")
trap 'rm -rf "$x"' EXIT
tar -C "$x" -xf -
if [ -d "$t" ] && [ -d "$x/$b" ]; then (cd "$x/$b" && tar -cf - .) | tar -C "$t" -xpf -; else mv -f -- "$x/$b" "$t"; fi
"""


def receive(host: Host, source: str, names: list[str], target: str) -> int:
    """Copy what an agent has under `source` into the directory `target`, without `.git`; how many files came."""
    import tarfile
    import tempfile

    count = size = 0
    with tempfile.TemporaryFile() as complaints:
        pack = host.stream(["sh", "-c", _PACK, "pack", source, *names], stdout=shell.PIPE, stderr=complaints)
        try:
            assert pack.stdout is not None
            with pack.stdout, tarfile.open(fileobj=pack.stdout, mode="r|") as archive:
                for number, member in enumerate(archive, 1):
                    size += member.size
                    if number > MOST_FILES or size > MOST_BYTES:
                        limit = f"{MOST_FILES} files or {MOST_BYTES // 1024**3} GiB"
                        raise MngrError(f"more than {limit} come from the agent", "copy less at once")
                    count += _extract(archive, member, target)
        except tarfile.ReadError:
            pass  # tar itself says below what was wrong
        except BaseException:
            pack.kill()
            shell.wait(pack)
            raise
        if shell.wait(pack) > 1:  # 1: a file changed while it was read
            complaints.seek(0)
            said = complaints.read().decode("utf-8", "replace").strip().splitlines() or ["it is gone"]
            raise MngrError(f"cannot copy from {source}: {said[0]}", "try again")
    return count


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, target: str) -> int:
    """One entry, written through no link; what could leave the target is refused. How many files it is."""
    name = os.path.normpath(member.name)
    parts = name.split("/")
    if name == "." or ".git" in (part.lower() for part in parts):
        return 0  # the directory itself; or what git here would obey
    if name.startswith("/") or ".." in parts or len(parts) > DEEPEST:
        raise _refused(member, "its path is absolute, leaves the directory or is too deep")
    try:
        _make_real(target, parts[:-1])
        path = os.path.join(target, name)
        if member.isdir():
            _make_real(target, parts)
            return 0
        if os.path.lexists(path):
            os.unlink(path)
        if member.issym():
            if not _stays_inside(parts, member.linkname):
                raise _refused(member, f"it links to {member.linkname!r}, outside the directory")
            os.symlink(member.linkname, path)
        elif member.isreg() or member.islnk():
            _write(archive, member, target, path)
        else:
            raise _refused(member, "it is a pipe or a device")
    except OSError as error:
        raise MngrError(
            f"cannot write {member.name!r} here: {error.strerror}", "check space and permissions"
        ) from None
    return 1


def _refused(member: tarfile.TarInfo, why: str) -> MngrError:
    return MngrError(
        f"refused: {member.name!r} of the agent: {why}", "have it taken away: mngr exec NAME -- rm …"
    )


def _make_real(target: str, parts: list[str]) -> None:
    """The directories on the way; a link or file of an earlier time makes room for a directory."""
    os.makedirs(target, exist_ok=True)
    for end in range(1, len(parts) + 1):
        path = os.path.join(target, *parts[:end])
        if os.path.islink(path) or os.path.isfile(path):
            os.unlink(path)
        if not os.path.isdir(path):
            os.mkdir(path)


def _stays_inside(parts: list[str], link: str) -> bool:
    """Whether a link leads down, after at most as many steps up as the directory it is in is deep."""
    steps = link.split("/")
    ups = next((at for at, step in enumerate(steps) if step != ".."), len(steps))
    return not link.startswith("/") and ".." not in steps[ups:] and ups < len(parts)


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, target: str, path: str) -> None:
    import shutil

    data = archive.extractfile(member) if member.isreg() else _first_of(member, target)
    assert data is not None
    mode = 0o777 if member.mode & 0o100 else 0o666
    with (
        data,
        os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "wb") as file,
    ):
        shutil.copyfileobj(data, file)


def _first_of(member: tarfile.TarInfo, target: str) -> IO[bytes]:
    """The file that a hard link is a second name of; it came before."""
    first = os.path.join(target, os.path.normpath(member.linkname))
    if not os.path.realpath(first).startswith(os.path.realpath(target) + "/") or os.path.islink(first):
        raise _refused(member, "it is a second name of a file outside")
    return open(first, "rb")


def inside(work_dir: str, path: str) -> str:
    """`path` relative to the work dir; MngrError when it leaves it."""
    full = os.path.normpath(os.path.join(work_dir, path))
    if full != work_dir and not full.startswith(work_dir.rstrip("/") + "/"):
        raise MngrError(f"{path!r} is outside the agent's work dir", "paths are relative to its work dir")
    return os.path.relpath(full, work_dir)


def pull_path(host: Host, work_dir: str, path: str, target: str) -> str:
    """Copy a file or directory of the agent's here, as `cp -r` would; where it ended up."""
    import tempfile

    full = os.path.normpath(os.path.join(work_dir, inside(work_dir, path)))
    if host.run(["test", "-e", full]).code and host.run(["test", "-L", full]).code:
        looked = shell.quote(os.path.dirname(path) or ".")
        raise NotFound(f"the agent has no {path!r}", f"look with: mngr exec NAME -- ls {looked}")
    base = os.path.basename(full)
    end = os.path.join(target, base) if os.path.isdir(target) or target.endswith("/") else target
    place = os.path.dirname(os.path.abspath(end))
    if not os.path.isdir(place):
        raise MngrError(f"there is no directory {place}", "make it first")
    with tempfile.TemporaryDirectory(prefix=".mngr-", dir=place) as fresh:
        receive(host, os.path.dirname(full), [base], fresh)
        came = os.path.join(fresh, base)
        is_dir = os.path.isdir(came) and not os.path.islink(came)
        if os.path.isdir(end) and not os.path.islink(end):
            if not is_dir:
                raise MngrError(f"{end} is a directory", "name another target")
            _move_into(came, end)
        elif is_dir and os.path.lexists(end):
            raise MngrError(f"{end} is not a directory", "name another target")
        else:
            os.replace(came, end)
    return end


def _move_into(source: str, target: str) -> None:
    """Everything in one directory into another, through no link."""
    for name in os.listdir(source):
        path, end = os.path.join(source, name), os.path.join(target, name)
        if os.path.islink(end) or (os.path.isfile(end) and os.path.isdir(path)):
            os.unlink(end)
        if os.path.isdir(path) and not os.path.islink(path) and os.path.isdir(end):
            _move_into(path, end)
        elif os.path.isdir(end):
            raise MngrError(f"{end} is a directory", "name another target")
        else:
            os.replace(path, end)


def push_path(host: Host, source: str, work_dir: str, path: str) -> str:
    """Copy a file or directory to the agent, as `cp -r` would; where it ended up."""
    if not os.path.lexists(source):
        raise NotFound(f"there is no {source!r} here", "check the path")
    source = os.path.abspath(source)
    base = os.path.basename(source)
    end = os.path.normpath(os.path.join(work_dir, inside(work_dir, path or ".")))
    if path.endswith("/") or end == work_dir or host.run(["test", "-d", end]).code == 0:
        end = os.path.join(end, base)
    argv = ["tar", "-C", os.path.dirname(source), "-cf", "-", "--", base]
    pack = shell.start(argv, stdout=shell.PIPE, stderr=shell.DEVNULL)
    unpack = host.stream(
        ["sh", "-c", _UNPACK, "push", work_dir, end, base], stdin=pack.stdout, stderr=shell.PIPE
    )
    assert pack.stdout is not None
    pack.stdout.close()
    said = (unpack.communicate()[1] or b"").decode("utf-8", "replace").strip().splitlines()
    if shell.wait(unpack) or shell.wait(pack) > 1:
        problem = said[0] if said else "it cannot be read"
        raise MngrError(
            f"cannot copy {source} to the agent: {problem}", "check the path, space and permissions"
        )
    return end
