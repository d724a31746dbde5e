"""The provider for this machine."""

from __future__ import annotations

import os

from mngr.base import shell
from mngr.base.errors import MngrError, NotFound
from mngr.base.lock import Lock
from mngr.host import tmux_server

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mngr.base.paths import Home
    from mngr.base.shell import Process, ProcessResult, Stream
    from mngr.host.protocol import Host

# When a git hook runs mngr, these variables would make git act on the repository of the hook.
_GIT_LOCAL = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_COMMON_DIR",
    "GIT_PREFIX",
)


class LocalHost:
    """The machine that mngr runs on."""

    name = "local"
    provider = "local"
    is_local = True

    def __init__(self, home: Home) -> None:
        self.home = home
        self._env = {name: value for name, value in os.environ.items() if name not in _GIT_LOCAL}
        self._env["LC_ALL"] = "C"  # mngr parses messages of git and tar
        self._env["GIT_TERMINAL_PROMPT"] = "0"
        self._env["PATH"] = shell.get_path_without_relative_entries()

    @property
    def tmux_socket(self) -> str:
        return tmux_server.get_socket_path(self.home)

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float | None = None) -> ProcessResult:
        words, env = self._apply_assignments(argv)
        return shell.run(words, stdin=stdin, timeout=timeout, env=env)

    def stream(
        self, argv: Sequence[str], *, stdin: Stream = None, stdout: Stream = None, stderr: Stream = None
    ) -> Process[bytes]:
        words, env = self._apply_assignments(argv)
        return shell.start_process(words, stdin=stdin, stdout=stdout, stderr=stderr, env=env)

    def _apply_assignments(self, argv: Sequence[str]) -> tuple[Sequence[str], dict[str, str]]:
        """Return the command and its environment. For `env A=B command`, this saves the start of env itself."""
        start = 1
        if argv[0] == "env":
            while start < len(argv) and "=" in argv[start] and argv[start][0] != "-":
                start += 1
        if start in (1, len(argv)):
            return argv, self._env
        assignments = dict(word.split("=", 1) for word in argv[1:start])
        return argv[start:], {**self._env, **assignments}

    def run_attached(self, argv: Sequence[str]) -> int:
        return shell.wait_process(self.stream(argv))

    def read(self, path: str) -> bytes:
        if os.path.exists(path) and not os.path.isfile(path):  # Reading a pipe would never end.
            raise MngrError(f"{path} is not a regular file", f"rename it: mv {path} {path}.old")
        try:
            with open(path, "rb") as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(f"there is no file {path}") from None
        except OSError as error:
            raise MngrError(f"cannot read {path}: {error.strerror}", f"check its permissions: ls -l {path}") from None

    def write(self, path: str, data: bytes, mode: int = 0o600) -> None:
        temporary_path = f"{path}.{os.getpid()}-{os.urandom(3).hex()}.new"
        try:
            fd = os.open(temporary_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            try:
                remaining = memoryview(data)
                while remaining:  # A disk that fills up accepts only a part.
                    remaining = remaining[os.write(fd, remaining) :]
                os.fsync(fd)
            finally:
                os.close(fd)
            os.replace(temporary_path, path)
        except OSError as error:
            try:
                os.unlink(temporary_path)
            except OSError:
                pass
            is_disk_full = error.errno in (27, 28, 122)
            hint = shell.suggest_disk_check(os.path.dirname(path))
            if is_disk_full:
                hint = "free some disk space, then run the command again: df -h"
            raise MngrError(f"cannot write {path}: {error.strerror}", hint) from None

    def has_path(self, path: str) -> bool:
        return os.path.lexists(path)

    def lock(self, path: str, timeout: float = 60.0) -> Lock:
        return Lock(path, timeout)

    def build_git_url(self, path: str, git_command: Sequence[str]) -> str:
        return path

    def build_attach_argv(self, argv: Sequence[str]) -> list[str]:
        return list(argv)

    def close(self) -> None:
        pass


class LocalProvider:
    """A provider with one host, this machine."""

    name = "local"
    can_create_hosts = False
    can_snapshot_hosts = False
    can_stop_hosts = False

    def __init__(self, home: Home) -> None:
        self._home = home

    def list(self) -> list[str]:
        return ["local"]

    def open(self, host: str) -> Host:
        if host != "local":
            raise NotFound(f"the local provider has no host {host!r}", "name this machine: NAME@local")
        return LocalHost(self._home)

    def create(self, host: str | None, options: dict[str, object]) -> Host:
        raise MngrError("the local provider does not create hosts", "leave out @ and the text after it")

    def start(self, host: str) -> None:
        self.open(host)

    def stop(self, host: str) -> None:
        raise MngrError("mngr cannot stop this machine", "stop the agent instead: mngr stop NAME")

    def destroy(self, host: str) -> None:
        raise MngrError("mngr cannot destroy this machine", "destroy the agent instead: mngr destroy NAME")
