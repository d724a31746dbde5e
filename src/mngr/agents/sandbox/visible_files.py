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

SYSTEM_DIRS = (
    "/usr",
    "/etc",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
)
# As root the settings of the kernel could be written through /proc, one of which names a program to run outside.
_KERNEL_MOUNTS = ("--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev")
_EMPTY_MOUNTS = (
    "--perms",
    "1777",
    "--tmpfs",
    "/tmp",
    "--perms",
    "1777",
    "--tmpfs",
    "/var/tmp",
    "--tmpfs",
    "/run",
)
_PROGRAM_DIRS = ("bin", "sbin", "shims")
_LIBRARY_DIRS = ("lib", "lib64", "libexec")  # of a directory with programs: what they are installed with


def build_sandbox_args(
    home: Home, record: AgentRecord, shared: list[str], installed: list[str], show: list[str]
) -> list[str]:
    """The system's programs, the work dir, a home of its own, and of our home only what is this agent's."""
    directory = home.agent_dir(record.id)
    words = [
        *_build_system_args(home, record.source or ""),
        *_EMPTY_MOUNTS,
        "--symlink",
        "../run",
        "/var/run",
    ]
    if record.network == "on":
        words += _build_resolver_args()
    for path in (*installed, *show, home.lib, directory):
        words += ["--ro-bind-try", path, path]
    own = [os.path.join(directory, name) for name in ("home", "outputs")]
    for path in (*shared, *own, record.work_dir):
        words += ["--bind", path, path]
    return [*words, "--setenv", "HOME", own[0], "--chdir", record.work_dir]


def build_clean_room_args(
    home: Home, path: str, program: str, *, size: int, own: str, show: list[str], network: bool
) -> list[str]:
    """What all rooms of a host see: the system's programs, those on the PATH, and this one with what it is installed with.

    `own` is a home; it, /tmp and what is shared in memory are empty at each start, and hold so many bytes.
    """
    words = [*_build_system_args(home), "--size", str(size), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    for place in ("/tmp", "/var/tmp"):
        words += ["--perms", "1777", "--size", str(size), "--tmpfs", place]
    for place in ("/run", own):
        words += ["--size", str(size), "--tmpfs", place]
    words += ["--symlink", "../run", "/var/run"]
    beside = _find_installation_dir(os.path.dirname(program)) if os.path.isabs(program) else None
    installed = [*list_program_paths(home, path, program), *([beside] if beside else ())]
    secrets = tuple(os.path.realpath(place) for place in _list_secret_dirs(home))
    linked = [
        place for above in installed for place in _list_linked_modules(above) if not _is_below(secrets[0], (place,))
    ]
    for place in dict.fromkeys((*installed, *linked, *show)):
        words += ["--ro-bind-try", place, place]
    return [*words, *(_build_resolver_args() if network else ())]


def _list_linked_modules(place: str) -> list[str]:
    """Where a Python that is installed here has modules besides: those of projects that are installed as they lie."""
    found: list[str] = []
    for top in ("lib", "lib64"):
        for version in sorted(_list_dir(os.path.join(place, top))):
            folder = os.path.join(place, top, version, "site-packages")
            for name in sorted(_list_dir(folder)) if version.startswith("python") else ():
                if name.endswith(".pth"):
                    with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                        lines = [line.strip() for line in file]
                    found += [line for line in lines if os.path.isabs(line) and os.path.isdir(line)]
    return found


def _list_dir(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def build_virtualenv_args(place: str) -> list[str]:
    """What the Python of a virtual environment is installed with, wherever that is."""
    program = os.path.join(place, "bin", "python")
    ends = dict.fromkeys((os.path.realpath(program), _resolve_link_once(program)))
    return [word for end in ends if os.path.isfile(end) for word in build_python_args(end)]


def build_network_only_args(host: Host, record: AgentRecord) -> list[str]:
    """Everything as it is but for the places where sockets are: for an agent without a network, and nothing more."""
    words = ["--dev-bind", "/", "/", *_KERNEL_MOUNTS[:4], "--tmpfs", "/run"]
    place = os.path.dirname(host.tmux_socket)
    os.makedirs(place, mode=0o700, exist_ok=True)
    return [*words, "--tmpfs", place, "--chdir", record.work_dir]


def build_python_args(program: str) -> list[str]:
    """What a Python needs to run."""
    place = _find_installation_dir(os.path.dirname(program)) or program
    return [] if _is_below(place, SYSTEM_DIRS) else ["--ro-bind", place, place]


def list_program_paths(home: Home, path: str, program: str) -> list[str]:
    """What must be seen so that programs on the PATH can run: where they are, and where their links lead."""
    found: dict[str, None] = {}
    secrets = tuple(os.path.realpath(place) for place in _list_secret_dirs(home))
    for place in _iter_program_paths(path, program, secrets[1]):
        real = os.path.realpath(place)
        hides = any(_is_below(secret, (real,)) for secret in secrets) or _is_below(real, secrets[1:])
        if not hides and not _is_below(place, (*SYSTEM_DIRS, *found)):
            found[place] = None
    return list(found)


def _iter_program_paths(path: str, program: str, ours: str) -> Iterator[str]:
    files = [program] if os.path.isabs(program) else []
    for folder in dict.fromkeys(path.split(":")):
        if os.path.isabs(folder) and os.path.isdir(folder) and os.access(folder, os.R_OK | os.X_OK):
            yield _find_installation_dir(folder) or os.path.normpath(folder)
            files += [entry.path for entry in os.scandir(folder) if entry.is_symlink()]
    for file in files:
        real = os.path.realpath(file)
        by_agent = _is_below(os.path.realpath(os.path.dirname(file)), (ours,))  # it may lead anywhere
        if os.path.isfile(real) and not by_agent:
            for end in dict.fromkeys((real, _resolve_link_once(file))):
                yield _find_node_modules(end) or _find_installation_dir(os.path.dirname(end)) or end
    if files[:1] == [program]:
        yield program


def _resolve_link_once(file: str) -> str:
    """Where a link leads by the path it lies under, which may itself lead through links."""
    target = os.readlink(file) if os.path.islink(file) else file
    return os.path.normpath(os.path.join(os.path.dirname(file), target))


def _find_node_modules(path: str) -> str | None:
    """Where a program for node finds its parts, which may be packages beside its own."""
    above, mark, _ = path.partition("/node_modules/")
    return f"{above}/node_modules" if mark else None


def _find_installation_dir(folder: str) -> str | None:
    """The directory above one with programs, if it looks like an installation of them."""
    above, name = os.path.split(os.path.normpath(folder))
    home = os.path.realpath(os.path.expanduser("~"))
    if name not in _PROGRAM_DIRS or os.path.realpath(above) in (
        home,
        f"{home}/.local",
    ):  # they have much besides
        return None
    return above if any(os.path.isdir(os.path.join(above, beside)) for beside in _LIBRARY_DIRS) else None


def _build_resolver_args() -> list[str]:
    """Where names of other machines are looked up, if that is a link out of /etc."""
    place = os.path.realpath("/etc/resolv.conf")
    return [] if _is_below(place, SYSTEM_DIRS) else ["--ro-bind-try", place, place]


def _build_system_args(home: Home, *hidden: str) -> list[str]:
    """The system's files without what is nobody's business; `hidden` may lie among them."""
    words = [*_build_system_mounts(), *_KERNEL_MOUNTS]
    for path in (*_list_secret_dirs(home), *hidden):
        if path not in SYSTEM_DIRS and _is_below(path, SYSTEM_DIRS) and os.path.isdir(path):
            words += ["--tmpfs", path]
    return words


def _build_system_mounts() -> list[str]:
    words: list[str] = []
    for path in SYSTEM_DIRS:
        if os.path.islink(path):
            words += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            words += ["--ro-bind", path, path]
    for path, is_dir in _iter_private_paths("/etc"):
        words += ["--tmpfs", path, "--remount-ro", path] if is_dir else ["--ro-bind", "/dev/null", path]
    return words


def _iter_private_paths(top: str) -> Iterator[tuple[str, bool]]:
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


def _list_secret_dirs(home: Home) -> tuple[str, str]:
    """What no agent sees but for its own part of it."""
    return os.path.expanduser("~"), home.root


def _is_below(path: str, places: tuple[str, ...]) -> bool:
    """Whether a path is one of these or in one."""
    return any(path == place or path.startswith(place.rstrip("/") + "/") for place in places)
