"""What a sandboxed agent sees of the machine, as words for bubblewrap: nothing that is not named here."""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mngr.base.model import AgentRecord
    from mngr.base.paths import Home
    from mngr.host.protocol import Host

SYSTEM = ("/usr", "/etc", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store")
# As root the settings of the kernel could be written through /proc, one of which names a program to run outside.
_KERNEL = ("--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev")
_FRESH = ("--perms", "1777", "--tmpfs", "/tmp", "--perms", "1777", "--tmpfs", "/var/tmp", "--tmpfs", "/run")
_BINS = ("bin", "sbin", "shims")
_BESIDE = ("lib", "lib64", "libexec")  # of a directory with programs: what they are installed with


def private(
    home: Home, record: AgentRecord, shared: list[str], installed: list[str], show: list[str]
) -> list[str]:
    """The system's programs, the work dir, a home of its own, and of our home only what is this agent's."""
    directory = home.agent(record.id)
    words = [*_machine(home, record.source or ""), *_FRESH, "--symlink", "../run", "/var/run"]
    if record.network == "on":
        words += _names()
    for path in (*installed, *show, home.lib, directory):
        words += ["--ro-bind-try", path, path]
    own = [os.path.join(directory, name) for name in ("home", "outputs")]
    for path in (*shared, *own, record.work_dir):
        words += ["--bind", path, path]
    return [*words, "--setenv", "HOME", own[0], "--chdir", record.work_dir]


def room(
    home: Home, path: str, program: str, *, size: int, own: str, show: list[str], network: bool
) -> list[str]:
    """What all rooms of a host see: the system's programs, those on the PATH, and this one with what it is installed with.

    `own` is a home; it, /tmp and what is shared in memory are empty at each start, and hold so many bytes.
    """
    words = [*_machine(home), "--size", str(size), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    for place in ("/tmp", "/var/tmp"):
        words += ["--perms", "1777", "--size", str(size), "--tmpfs", place]
    for place in ("/run", own):
        words += ["--size", str(size), "--tmpfs", place]
    words += ["--symlink", "../run", "/var/run"]
    beside = _installation(os.path.dirname(program)) if os.path.isabs(program) else None
    installed = [*programs(home, path, program), *([beside] if beside else ())]
    secrets = tuple(os.path.realpath(place) for place in _secrets(home))
    linked = [place for above in installed for place in _linked(above) if not _is_below(secrets[0], (place,))]
    for place in dict.fromkeys((*installed, *linked, *show)):
        words += ["--ro-bind-try", place, place]
    return [*words, *(_names() if network else ())]


def _linked(place: str) -> list[str]:
    """Where a Python that is installed here has modules besides: those of projects that are installed as they lie."""
    found: list[str] = []
    for top in ("lib", "lib64"):
        for version in sorted(_entries(os.path.join(place, top))):
            folder = os.path.join(place, top, version, "site-packages")
            for name in sorted(_entries(folder)) if version.startswith("python") else ():
                if name.endswith(".pth"):
                    with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                        lines = [line.strip() for line in file]
                    found += [line for line in lines if os.path.isabs(line) and os.path.isdir(line)]
    return found


def _entries(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def of_environment(place: str) -> list[str]:
    """What the Python of a virtual environment is installed with, wherever that is."""
    program = os.path.join(place, "bin", "python")
    ends = dict.fromkeys((os.path.realpath(program), _next(program)))
    return [word for end in ends if os.path.isfile(end) for word in of_python(end)]


def whole(host: Host, record: AgentRecord) -> list[str]:
    """Everything as it is but for the places where sockets are: for an agent without a network, and nothing more."""
    words = ["--dev-bind", "/", "/", *_KERNEL[:4], "--tmpfs", "/run"]
    place = os.path.dirname(host.socket)
    os.makedirs(place, mode=0o700, exist_ok=True)
    return [*words, "--tmpfs", place, "--chdir", record.work_dir]


def of_python(program: str) -> list[str]:
    """What a Python needs to run."""
    place = _installation(os.path.dirname(program)) or program
    return [] if _is_below(place, SYSTEM) else ["--ro-bind", place, place]


def programs(home: Home, path: str, program: str) -> list[str]:
    """What must be seen so that programs on the PATH can run: where they are, and where their links lead."""
    found: dict[str, None] = {}
    secrets = tuple(os.path.realpath(place) for place in _secrets(home))
    for place in _places(path, program, secrets[1]):
        real = os.path.realpath(place)
        hides = any(_is_below(secret, (real,)) for secret in secrets) or _is_below(real, secrets[1:])
        if not hides and not _is_below(place, (*SYSTEM, *found)):
            found[place] = None
    return list(found)


def _places(path: str, program: str, ours: str) -> Iterator[str]:
    files = [program] if os.path.isabs(program) else []
    for folder in dict.fromkeys(path.split(":")):
        if os.path.isabs(folder) and os.path.isdir(folder) and os.access(folder, os.R_OK | os.X_OK):
            yield _installation(folder) or os.path.normpath(folder)
            files += [entry.path for entry in os.scandir(folder) if entry.is_symlink()]
    for file in files:
        real = os.path.realpath(file)
        by_agent = _is_below(os.path.realpath(os.path.dirname(file)), (ours,))  # it may lead anywhere
        if os.path.isfile(real) and not by_agent:
            for end in dict.fromkeys((real, _next(file))):
                yield _modules(end) or _installation(os.path.dirname(end)) or end
    if files[:1] == [program]:
        yield program


def _next(file: str) -> str:
    """Where a link leads by the path it lies under, which may itself lead through links."""
    target = os.readlink(file) if os.path.islink(file) else file
    return os.path.normpath(os.path.join(os.path.dirname(file), target))


def _modules(path: str) -> str | None:
    """Where a program for node finds its parts, which may be packages beside its own."""
    above, mark, _ = path.partition("/node_modules/")
    return f"{above}/node_modules" if mark else None


def _installation(folder: str) -> str | None:
    """The directory above one with programs, if it looks like an installation of them."""
    above, name = os.path.split(os.path.normpath(folder))
    home = os.path.realpath(os.path.expanduser("~"))
    if name not in _BINS or os.path.realpath(above) in (home, f"{home}/.local"):  # they have much besides
        return None
    return above if any(os.path.isdir(os.path.join(above, beside)) for beside in _BESIDE) else None


def _names() -> list[str]:
    """Where names of other machines are looked up, if that is a link out of /etc."""
    place = os.path.realpath("/etc/resolv.conf")
    return [] if _is_below(place, SYSTEM) else ["--ro-bind-try", place, place]


def _machine(home: Home, *hidden: str) -> list[str]:
    """The system's files without what is nobody's business; `hidden` may lie among them."""
    words = [*_system(), *_KERNEL]
    for path in (*_secrets(home), *hidden):
        if path not in SYSTEM and _is_below(path, SYSTEM) and os.path.isdir(path):
            words += ["--tmpfs", path]
    return words


def _system() -> list[str]:
    words: list[str] = []
    for path in SYSTEM:
        if os.path.islink(path):
            words += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            words += ["--ro-bind", path, path]
    for path, is_dir in _guarded("/etc"):
        words += ["--tmpfs", path, "--remount-ro", path] if is_dir else ["--ro-bind", "/dev/null", path]
    return words


def _guarded(top: str) -> Iterator[tuple[str, bool]]:
    """What this user may read and not everybody: as root that is keys and passwords."""
    for place, folders, files in os.walk(top):
        for name in (*folders, *files):
            path = os.path.join(place, name)
            try:
                mode = os.lstat(path).st_mode
            except OSError:
                continue  # gone meanwhile
            is_dir = stat.S_ISDIR(mode)
            open_to_all = mode & 0o005 == 0o005 if is_dir else mode & 0o004
            if stat.S_ISLNK(mode) or open_to_all or not os.access(path, os.R_OK):
                continue
            yield path, is_dir
            if is_dir:
                folders.remove(name)


def _secrets(home: Home) -> tuple[str, str]:
    """What no agent sees but for its own part of it."""
    return os.path.expanduser("~"), home.root


def _is_below(path: str, places: tuple[str, ...]) -> bool:
    """Whether a path is one of these or in one."""
    return any(path == place or path.startswith(place.rstrip("/") + "/") for place in places)
