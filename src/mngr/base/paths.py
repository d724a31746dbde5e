"""All paths that mngr uses."""

from __future__ import annotations

import os
import stat

from mngr.base.errors import UPDATE_HINT, MngrError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

HOME_VERSION = 1
OTHER_HOME_HINT = "choose another home: mngr --home DIR list, or export MNGR_HOME=DIR"
PROJECT_SETTINGS = os.path.join(".mngr", "settings.toml")
# Entries of a host's home that belong to its agents or to mngr itself. A snapshot of the host omits them.
SNAPSHOT_EXCLUDES = (
    "agents",
    "names",
    "work",
    "trash",
    "snapshots",
    "hosts",
    "ssh",
    "crashes",
    "settings.toml",
    "tmux.socket",
    "trust",
    "own_runs",
    "history",
    "web",
    "notifications",
)
LOCAL_SETTINGS = os.path.join(".mngr", "settings.local.toml")


class Home:
    """The directory that holds everything mngr knows, `~/.mngr` by default."""

    def __init__(self, root: str) -> None:
        self.root = root if os.path.isabs(root) else os.path.normpath(os.path.join(get_current_dir(), root))
        self.agents = os.path.join(self.root, "agents")
        self.names = os.path.join(self.root, "names")
        self.work_dirs = os.path.join(self.root, "work")
        self.trash = os.path.join(self.root, "trash")
        self.snapshots = os.path.join(self.root, "snapshots")
        self.cache = os.path.join(self.root, "cache")
        self.lib = os.path.join(self.root, "lib")
        self.hosts = os.path.join(self.root, "hosts")
        self.ssh = os.path.join(self.root, "ssh")
        self.ssh_config = os.path.join(self.ssh, "config")
        self.crashes = os.path.join(self.root, "crashes")
        self.trust = os.path.join(self.root, "trust")
        self.own_runs = os.path.join(self.root, "own_runs")
        self.history = os.path.join(self.root, "history")
        self.web = os.path.join(self.root, "web")
        self.notifications = os.path.join(self.root, "notifications")
        self.settings = os.path.join(self.root, "settings.toml")
        self.version_file = os.path.join(self.root, "version")
        self.socket_link = os.path.join(self.root, "tmux.socket")
        self.tmux_conf = os.path.join(self.root, "tmux.conf")

    def agent_dir(self, agent_id: str) -> str:
        """Return the directory with an agent's own files."""
        return os.path.join(self.agents, agent_id)

    def exists(self) -> bool:
        """True when mngr has used this home. Raise MngrError if another program or a newer mngr owns it."""
        try:
            with open(self.version_file, encoding="utf-8") as file:
                words = file.read().split()
        except FileNotFoundError:
            self._check_foreign_files()
            return False
        except OSError as error:
            raise MngrError(f"cannot read {self.version_file}: {error.strerror}", OTHER_HOME_HINT) from None
        if words[:1] != ["mngr"] or len(words) != 2 or not words[1].isdigit():
            raise MngrError(
                f"{self.root} belongs to another program: mngr did not write its file `version`",
                OTHER_HOME_HINT,
            )
        if int(words[1]) > HOME_VERSION:
            raise MngrError(
                f"a newer mngr wrote {self.root}: it has layout {words[1]}, and this mngr knows layout {HOME_VERSION}",
                f"{UPDATE_HINT}; or choose another home: mngr --home DIR list",
            )
        return True

    def create(self) -> None:
        """Create the directories that are missing. Every command that writes calls this method first."""
        if self.exists():
            return
        try:
            for path in (
                self.root,
                self.agents,
                self.names,
                self.work_dirs,
                self.trash,
                self.snapshots,
                self.cache,
                self.lib,
            ):
                os.makedirs(path, mode=0o700, exist_ok=True)
            temporary_path = f"{self.version_file}.{os.getpid()}"
            with open(temporary_path, "w", encoding="utf-8") as file:
                file.write(f"mngr {HOME_VERSION}\n")
            os.replace(temporary_path, self.version_file)
        except OSError as error:
            raise MngrError(
                f"cannot write to {self.root}: {error.strerror}",
                "choose a directory that you can write to: export MNGR_HOME=DIR",
            ) from None

    def _check_foreign_files(self) -> None:
        """Raise MngrError if the directory has no mngr marker and contains files that mngr does not write."""
        try:
            entries = set(os.listdir(self.root))
        except FileNotFoundError:
            return
        except NotADirectoryError:
            raise MngrError(f"{self.root} is not a directory", OTHER_HOME_HINT) from None
        except OSError as error:
            raise MngrError(f"cannot read {self.root}: {error.strerror}", OTHER_HOME_HINT) from None
        known_entries = {
            "agents",
            "names",
            "work",
            "trash",
            "snapshots",
            "cache",
            "lib",
            "hosts",
            "crashes",
            "settings.toml",
        }
        known_entries |= {"settings.local.toml", "runs", "outputs", "e2e", "tmux.conf", "tmux.socket", "ssh", "trust"}
        known_entries |= {"own_runs", "history", "notifications"}
        foreign_entries = sorted(name for name in entries - known_entries if not name.startswith("version"))
        if foreign_entries:
            raise MngrError(
                f"{self.root} belongs to another program: it contains {foreign_entries[0]!r} and no `version` file of mngr",
                OTHER_HOME_HINT,
            )


def build_socket_path(root: str, uid: int) -> str:
    """Return `/tmp/mngr-UID/HASH12`, with a hash of the home's real path. It is short enough for a socket."""
    import hashlib

    return f"/tmp/mngr-{uid}/{hashlib.sha256(root.encode()).hexdigest()[:12]}"


def get_default_home() -> str:
    """Return `$MNGR_HOME`, or `~/.mngr` when it is not set."""
    return os.environ.get("MNGR_HOME") or os.path.join(os.path.expanduser("~"), ".mngr")


def get_current_dir() -> str:
    """Return the current directory, or raise MngrError when it was deleted."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise MngrError("the current directory no longer exists", "go to another directory: cd ~") from None


def read_plain_file(path: str, max_bytes: int) -> bytes:
    """Return a file of a project, whose author may be hostile. Follow no link at the file or its directory.

    Raise FileNotFoundError, another OSError, or MngrError for a link, a special file or a file that is too large.
    """
    refuse_links(path)
    directory, name = os.path.split(path)
    directory_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        with open_plain_file(name, directory_fd) as file:
            data = file.read(max_bytes + 1)
    except SpecialFile:
        raise MngrError(f"{path} is not a regular file", f"rename it: mv {path} {path}.old") from None
    finally:
        os.close(directory_fd)
    if len(data) > max_bytes:
        raise MngrError(f"{path} is larger than {max_bytes // 1024} KB", f"rename it: mv {path} {path}.old")
    return data


class SpecialFile(OSError):
    """A file is a pipe, a device or a directory where a regular file was expected."""


def open_plain_file(path: str, directory_fd: int | None = None) -> BinaryIO:
    """Open a file that an agent or a test wrote and may have replaced. Follow no link at the file, and wait for no pipe.

    Raise OSError for a link, and SpecialFile, an OSError, for everything else that is no regular file.
    """
    # Without O_NONBLOCK, opening a pipe waits until somebody writes to it.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(path, flags, dir_fd=directory_fd)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise SpecialFile(22, "it is not a regular file", path)
    return open(fd, "rb")


def refuse_links(path: str) -> None:
    """Raise MngrError if a project's file or its directory is a link, which could lead out of the project."""
    for place in (os.path.dirname(path), path):
        if os.path.islink(place):
            raise MngrError(
                f"mngr does not follow the link {place}",
                f"remove the link: rm {place}",
            )


def is_owned_by_user(path: str, root: str) -> bool:
    """True when a project's file and the directory around it belong to the user, or git's safe.directory allows `root`."""
    allowed_users = {os.geteuid()}
    if os.geteuid() == 0 and os.environ.get("SUDO_UID", "").isdigit():
        allowed_users.add(int(os.environ["SUDO_UID"]))
    try:
        owners = {os.stat(path).st_uid, os.lstat(path).st_uid, os.stat(os.path.dirname(path)).st_uid}
    except OSError:
        return False
    return owners <= allowed_users or _is_safe_directory(root)


def _is_safe_directory(root: str) -> bool:
    """True when the user's own git settings name the directory, or all directories, as safe."""
    from mngr.base import shell

    listed = shell.run(["git", "config", "--global", "--get-all", "safe.directory"])
    names = listed.text.splitlines()
    return "*" in names or os.path.realpath(root) in {
        os.path.realpath(os.path.expanduser(name)) for name in names if name
    }


def find_project_root(start: str) -> str | None:
    """Return the nearest directory at or above `start` with a `.git` or a `.mngr/settings.toml`, or None."""
    directory = os.path.abspath(start)
    while True:
        if os.path.exists(os.path.join(directory, ".git")) or os.path.exists(os.path.join(directory, PROJECT_SETTINGS)):
            return directory
        parent = os.path.dirname(directory)
        if parent == directory:
            return None
        directory = parent
