"""Files between an agent's host and here, as a tar stream. What comes from an agent is checked, never trusted."""

from __future__ import annotations

import os

from mngr import shell
from mngr.errors import MngrError, NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    import tarfile

    from mngr.host import Host

MOST_FILES = 100_000
MOST_BYTES = 10 * 1024**3


def receive(host: Host, source: str, names: list[str], target: str) -> int:
    """Copy what an agent has under `source` into the directory `target`; how many files came."""
    import tarfile

    os.makedirs(target, exist_ok=True)
    pack = host.stream(["tar", "-C", source, "-cf", "-", "--", *names], stdout=shell.PIPE, stderr=shell.PIPE)
    count = size = 0
    try:
        with tarfile.open(fileobj=pack.stdout, mode="r|") as archive:
            for member in archive:
                count += 1
                size += member.size
                if count > MOST_FILES or size > MOST_BYTES:
                    raise MngrError(
                        f"more than {MOST_FILES} files or {MOST_BYTES // 1024**3} GiB come from the agent", "copy less at once"
                    )
                _extract(archive, member, target)
    except tarfile.ReadError:
        pass  # tar itself says below what was wrong
    except BaseException:
        pack.kill()
        pack.communicate()
        raise
    said = pack.communicate()[1].decode("utf-8", "replace").strip().splitlines()
    if shell.wait(pack) > 1:  # 1: a file changed while it was read
        raise MngrError(f"cannot copy from {source}: {said[-1] if said else 'tar failed'}", "try again")
    return count


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, target: str) -> None:
    """One entry; a path or link that leaves the target, or a device, is refused."""
    import tarfile

    try:
        archive.extract(member, target, filter="data")
    except tarfile.FilterError as error:
        raise MngrError(f"refused: {error}", "the agent's files hold a path, link or device that leaves the directory") from None
    except OSError as error:
        raise MngrError(f"cannot write {member.name!r} here: {error.strerror}", "check space and permissions") from None


def inside(work_dir: str, path: str) -> str:
    """`path` relative to the work dir; MngrError when it leaves it."""
    full = os.path.normpath(os.path.join(work_dir, path))
    if full != work_dir and not full.startswith(work_dir.rstrip("/") + "/"):
        raise MngrError(f"{path!r} is outside the agent's work dir", "paths are relative to its work dir")
    return os.path.relpath(full, work_dir)


def pull_path(host: Host, work_dir: str, path: str, target: str) -> str:
    """Copy a file or directory of the agent's here, as `cp -r` would; where it ended up."""
    import shutil
    import tempfile

    name = inside(work_dir, path)
    if host.run(["test", "-e", os.path.join(work_dir, name)]).code:
        raise NotFound(f"the agent has no {path!r}", f"look with: mngr exec NAME -- ls {shell.quote(os.path.dirname(path) or '.')}")
    base = os.path.basename(os.path.normpath(os.path.join(work_dir, name)))
    end = os.path.join(target, base) if os.path.isdir(target) or target.endswith("/") else target
    place = os.path.dirname(os.path.abspath(end))
    if not os.path.isdir(place):
        raise MngrError(f"there is no directory {place}", "make it first")
    with tempfile.TemporaryDirectory(prefix=".mngr-", dir=place) as fresh:
        receive(host, os.path.dirname(os.path.normpath(os.path.join(work_dir, name))), [base], fresh)
        came = os.path.join(fresh, base)
        if os.path.isdir(end) and not os.path.islink(end):
            if not os.path.isdir(came):
                raise MngrError(f"{end} is a directory", "name another target")
            shutil.copytree(came, end, symlinks=True, dirs_exist_ok=True)
        elif os.path.isdir(came) and os.path.lexists(end):
            raise MngrError(f"{end} is not a directory", "name another target")
        else:
            os.replace(came, end)
    return end


def push_path(host: Host, source: str, work_dir: str, path: str) -> str:
    """Copy a file or directory to the agent, as `cp -r` would; where it ended up."""
    if not os.path.lexists(source):
        raise NotFound(f"there is no {source!r} here", "check the path")
    source = os.path.abspath(source)
    name = inside(work_dir, path or ".")
    end = os.path.join(work_dir, name)
    if path.endswith("/") or name == "." or host.run(["test", "-d", end]).code == 0:
        end = os.path.join(end, os.path.basename(source))
    program = 'set -e; t=$1; b=$2; d=$(dirname -- "$t"); mkdir -p -- "$d"; x=$(mktemp -d "$d/.mngr-XXXXXX"); trap \'rm -rf "$x"\' EXIT\n'
    program += 'tar -C "$x" -xf -; if [ -d "$t" ] && [ -d "$x/$b" ]; then cp -a "$x/$b/." "$t/"; else mv -f -- "$x/$b" "$t"; fi'
    base = os.path.basename(source)
    pack = shell.start(["tar", "-C", os.path.dirname(source), "-cf", "-", "--", base], stdout=shell.PIPE, stderr=shell.PIPE)
    unpack = host.stream(["sh", "-c", program, "push", end, base], stdin=pack.stdout, stderr=shell.PIPE)
    if pack.stdout:
        pack.stdout.close()
    said = (unpack.communicate()[1] or b"").decode("utf-8", "replace").strip()
    pack.communicate()
    if shell.wait(unpack) or shell.wait(pack):
        raise MngrError(f"cannot copy {source} to the agent: {said.splitlines()[-1] if said else 'tar failed'}")
    return end
