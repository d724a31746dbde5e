"""Builds the bubblewrap arguments for the files that a sandbox shows. Everything else is hidden."""

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
# Root could change kernel settings through /proc, and one of them names a program that runs outside.
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
PYTHONS_NAME = "pythons"  # the directory in a project's package cache where set-ups install Pythons
_PROGRAM_DIRS = ("bin", "sbin", "shims")
_LIBRARY_DIRS = ("lib", "lib64", "libexec")  # Beside a directory of programs, these mark an installation.
# The parts of an installation that a sandbox shows. The same directory can also hold private files, such as passwords.
_INSTALLATION_PARTS = (
    *_PROGRAM_DIRS,
    *_LIBRARY_DIRS,
    "lib32",
    "include",
    "share",
    "ssl",
    "pyvenv.cfg",
    "conda-meta",
    "versions",  # of pyenv, rbenv and nodenv, like the next two
    "version",
    "plugins",
)
# The program that marks an installation of a language, and what its directory holds in addition.
_MORE_PARTS = {
    "bin/gofmt": ("src", "pkg", "VERSION", "go.env"),
    "bin/javac": ("conf", "jmods", "release"),
}


def build_sandbox_args(
    home: Home, record: AgentRecord, writable_files: list[str], program_paths: list[str], shown_paths: list[str]
) -> list[str]:
    """Return the arguments for an agent.

    It sees the system's programs, its work dir, its own home and, of mngr's home, only its own directory.
    """
    directory = home.agent_dir(record.id)
    args = [
        *build_system_args(home, record.source or ""),
        *_EMPTY_MOUNTS,
        "--symlink",
        "../run",
        "/var/run",
    ]
    if record.network == "on":
        args += build_resolver_args()
    for path in (*program_paths, *shown_paths, home.lib, directory):
        args += ["--ro-bind-try", path, path]
    own_dirs = [os.path.join(directory, name) for name in ("home", "outputs")]
    for path in (*(path.rstrip("/") for path in writable_files), *own_dirs, record.work_dir):
        args += ["--bind", path, path]
    return [*args, "--setenv", "HOME", own_dirs[0], "--chdir", record.work_dir]


def build_clean_room_args(
    home: Home, path: str, program: str, *, size: int, own: str, show: list[str], network: bool
) -> list[str]:
    """Return the arguments for all clean rooms of a host.

    They see the system's programs, those on the PATH, and `program` with its installation. The home `own`, /tmp and
    shared memory are empty at each start and hold `size` bytes each.
    """
    args = [*build_system_args(home), "--size", str(size), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    for directory in ("/tmp", "/var/tmp"):
        args += ["--perms", "1777", "--size", str(size), "--tmpfs", directory]
    for directory in ("/run", own):
        args += ["--size", str(size), "--tmpfs", directory]
    args += ["--symlink", "../run", "/var/run"]
    installation = _find_installation_dir(os.path.dirname(program)) if os.path.isabs(program) else None
    program_parts = _list_installation_parts(installation) if installation else []
    installed = [*list_program_paths(home, path, program), *program_parts]
    secrets = tuple(os.path.realpath(directory) for directory in _list_secret_dirs(home))
    linked = [
        directory
        for installed_path in installed
        for directory in _list_linked_modules(installed_path)
        if not _is_below(secrets[0], (directory,))
    ]
    for directory in dict.fromkeys((*installed, *linked, *show)):
        args += ["--ro-bind-try", directory, directory]
    return [*args, *(build_resolver_args() if network else ())]


def _list_linked_modules(library: str) -> list[str]:
    """Return the source directories that a Python's `lib` uses through .pth files, such as editable installs."""
    if os.path.basename(library) not in ("lib", "lib64"):
        return []
    linked_dirs: list[str] = []
    for version in sorted(_list_dir(library)):
        folder = os.path.join(library, version, "site-packages")
        for name in sorted(_list_dir(folder)) if version.startswith("python") else ():
            if name.endswith(".pth"):
                with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                    lines = [line.strip() for line in file]
                linked_dirs += [line for line in lines if os.path.isabs(line) and os.path.isdir(line)]
    return linked_dirs


def _list_dir(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def build_virtualenv_args(home: Home, virtualenv: str) -> list[str]:
    """Return the arguments that show the Python installation behind a virtual environment.

    A set-up wrote the environment, so its link may lead to any file. Only an installation of Python is shown.
    """
    program = os.path.join(virtualenv, "bin", "python")
    targets = dict.fromkeys((os.path.realpath(program), _resolve_link_once(program)))
    shown_dirs = dict.fromkeys(_find_python_dir(home, target) for target in targets)
    parts = [part for shown_dir in shown_dirs if shown_dir for part in _list_installation_parts(shown_dir)]
    return [arg for part in parts for arg in ("--ro-bind", part, part)]


def _find_python_dir(home: Home, program: str) -> str | None:
    """Return the directory that shows a Python with its library, or None.

    In mngr's home, this is the directory in which set-ups install Pythons. No set-up can replace it by a link.
    """
    real_program = os.path.realpath(program)
    secrets = tuple(os.path.realpath(directory) for directory in _list_secret_dirs(home))
    if _is_below(real_program, secrets[1:]):
        packages_dir = os.path.join(home.root, "cache", "packages")
        names = os.path.relpath(program, packages_dir).split("/")
        is_shared = "." not in names[0]  # A name with a dot is the home of one set-up, which may hold any link.
        return os.path.join(packages_dir, *names[:2]) if is_shared and names[1:2] == [PYTHONS_NAME] else None
    installation = _find_installation_dir(os.path.dirname(program))
    if installation is None or _is_below(installation, SYSTEM_DIRS):
        return None
    real_dir = os.path.realpath(installation)
    is_installed_there = real_dir == os.path.dirname(os.path.dirname(real_program))
    has_secret = any(_is_below(secret, (real_dir,)) for secret in secrets)
    return installation if is_installed_there and not has_secret and _is_python(real_program) else None


def _is_python(program: str) -> bool:
    """True for an executable file that is named like a Python and has the standard library beside it."""
    if not os.path.basename(program).startswith(("python", "pypy")) or not os.access(program, os.X_OK):
        return False
    libraries = [os.path.join(os.path.dirname(os.path.dirname(program)), name) for name in ("lib", "lib64")]
    return any(
        os.path.isfile(os.path.join(library, version, "os.py"))
        for library in libraries
        for version in _list_dir(library)
        if version.startswith("py")
    )


def build_network_only_args(host: Host, record: AgentRecord) -> list[str]:
    """Return the arguments for an agent with only a restricted network: all files except directories with sockets."""
    args = ["--dev-bind", "/", "/", *_KERNEL_MOUNTS[:4], "--tmpfs", "/run"]
    socket_dir = os.path.dirname(host.tmux_socket)
    os.makedirs(socket_dir, mode=0o700, exist_ok=True)
    return [*args, "--tmpfs", socket_dir, "--chdir", record.work_dir]


def build_python_args(program: str) -> list[str]:
    """Return the arguments that show a Python's installation."""
    installation = _find_installation_dir(os.path.dirname(program)) or program
    if _is_below(installation, SYSTEM_DIRS):
        return []
    return [arg for part in _list_installation_parts(installation) for arg in ("--ro-bind", part, part)]


def list_program_paths(home: Home, search_path: str, program: str) -> list[str]:
    """Return the paths that programs on the PATH need: their installations and the targets of their links."""
    paths: dict[str, None] = {}
    secrets = tuple(os.path.realpath(candidate) for candidate in _list_secret_dirs(home))
    for candidate in _iter_installations(search_path, program, secrets[1]):
        if _is_below(candidate, (*SYSTEM_DIRS, *paths)):
            continue
        real_path = os.path.realpath(candidate)
        is_secret = any(_is_below(secret, (real_path,)) for secret in secrets) or _is_below(real_path, secrets[1:])
        if not is_secret:
            paths[candidate] = None
    return list(paths)


def _iter_installations(search_path: str, program: str, mngr_home: str) -> Iterator[str]:
    """Yield the installations of all directories on the PATH, of the links in them, and of the program."""
    files = [program] if os.path.isabs(program) else []
    for folder in dict.fromkeys(search_path.split(":")):
        if os.path.isabs(folder) and os.path.isdir(folder) and os.access(folder, os.R_OK | os.X_OK):
            yield from _list_installation_parts(_find_installation_dir(folder) or os.path.normpath(folder))
            files += [entry.path for entry in os.scandir(folder) if entry.is_symlink()]
    installations: dict[str, None] = {}  # Many links lead to the same one.
    for file in files:
        real_path = os.path.realpath(file)
        targets = dict.fromkeys((real_path, _resolve_link_once(file)))
        hidden_targets = [target for target in targets if not _is_below(target, SYSTEM_DIRS)]
        if not hidden_targets or not os.path.isfile(real_path):
            continue
        if _is_below(os.path.realpath(os.path.dirname(file)), (mngr_home,)):
            continue  # An agent's link may lead anywhere.
        for target in hidden_targets:
            modules = _find_node_modules(target)
            installations[modules or _find_installation_dir(os.path.dirname(target)) or target] = None
    for installation in installations:
        yield from _list_installation_parts(installation)
    if files[:1] == [program]:
        yield program


def _resolve_link_once(file: str) -> str:
    """Return the direct target of a link, which may lead through other links."""
    target = os.readlink(file) if os.path.islink(file) else file
    return os.path.normpath(os.path.join(os.path.dirname(file), target))


def _find_node_modules(path: str) -> str | None:
    """Return the node_modules directory that holds a program's packages, or None."""
    parent, separator, _ = path.partition("/node_modules/")
    return f"{parent}/node_modules" if separator else None


def _find_installation_dir(folder: str) -> str | None:
    """Return the parent of a directory of programs when it looks like an installation, or None."""
    parent, name = os.path.split(os.path.normpath(folder))
    if name not in _PROGRAM_DIRS:
        return None
    home = os.path.realpath(os.path.expanduser("~"))
    if os.path.realpath(parent) in ("/", home, f"{home}/.local"):  # These also hold private files.
        return None
    return parent if any(os.path.isdir(os.path.join(parent, lib_name)) for lib_name in _LIBRARY_DIRS) else None


def _list_installation_parts(path: str) -> list[str]:
    """Return what a sandbox shows of an installation: its programs and libraries. Any other path is shown as it is."""
    programs = [os.path.join(path, name) for name in _PROGRAM_DIRS]
    if not any(_find_installation_dir(folder) for folder in programs if os.path.isdir(folder)):
        return [path]
    more = [names for program, names in _MORE_PARTS.items() if os.path.isfile(os.path.join(path, program))]
    names = dict.fromkeys((*_INSTALLATION_PARTS, *(name for group in more for name in group)))
    return [part for part in (os.path.join(path, name) for name in names) if os.path.exists(part)]


def build_resolver_args() -> list[str]:
    """Return the arguments that show the DNS configuration when it is a link out of /etc."""
    resolv_conf = os.path.realpath("/etc/resolv.conf")
    return [] if _is_below(resolv_conf, SYSTEM_DIRS) else ["--ro-bind-try", resolv_conf, resolv_conf]


def build_system_args(home: Home, *hidden: str) -> list[str]:
    """Return the arguments that show the system's files without secrets and without the `hidden` directories."""
    args = [*_build_system_mounts(), *_KERNEL_MOUNTS]
    for path in (*_list_secret_dirs(home), *hidden):
        if path not in SYSTEM_DIRS and _is_below(path, SYSTEM_DIRS) and os.path.isdir(path):
            args += ["--tmpfs", path]
    return args


def _build_system_mounts() -> list[str]:
    """Return the arguments that mount the system's directories without their private files."""
    args: list[str] = []
    for path in SYSTEM_DIRS:
        if os.path.islink(path):
            args += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            args += ["--ro-bind", path, path]
    for path, is_dir in _iter_private_paths("/etc"):
        args += ["--tmpfs", path, "--remount-ro", path] if is_dir else ["--ro-bind", "/dev/null", path]
    return args


def _iter_private_paths(top: str) -> Iterator[tuple[str, bool]]:
    """Yield (path, is directory) of files that this user can read but not everybody, such as keys and passwords."""
    for parent, folders, files in os.walk(top):
        for name in (*folders, *files):
            path = os.path.join(parent, name)
            try:
                mode = os.lstat(path).st_mode
            except OSError:
                continue  # gone meanwhile
            is_dir = stat.S_ISDIR(mode)
            is_public = mode & 0o005 == 0o005 if is_dir else mode & 0o004
            if stat.S_ISLNK(mode) or is_public or not os.access(path, os.R_OK):
                continue
            yield path, is_dir
            if is_dir:
                folders.remove(name)


def _list_secret_dirs(home: Home) -> tuple[str, str]:
    """Return the user's home and mngr's home, which a sandbox hides except for the agent's own part."""
    return os.path.expanduser("~"), home.root


def _is_below(path: str, directories: tuple[str, ...]) -> bool:
    """True when a path is one of these directories or inside one."""
    return any(path == directory or path.startswith(directory.rstrip("/") + "/") for directory in directories)
