"""Provider `scratch`: a host is a directory on this machine with its own home and tmux server."""

from __future__ import annotations

import os
import shutil

from mngr.base.errors import MngrError, NotFound
from mngr.base.paths import Home
from mngr.providers.local import LocalHost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.host.protocol import Host


class ScratchHost(LocalHost):
    """Runs commands on this machine, but keeps its files and agents separate from other hosts."""

    provider = "scratch"

    def __init__(self, name: str, home: Home) -> None:
        super().__init__(home)
        self.name = name


class ScratchProvider:
    """Treats every name as a host, and creates its directory on first use."""

    name = "scratch"
    can_create_hosts = True
    can_snapshot_hosts = False
    can_stop_hosts = False

    def __init__(self, home: Home, root: str) -> None:
        self._home = home
        self._root = os.path.expanduser(root)

    def list(self) -> list[str]:
        try:
            return sorted(os.listdir(self._root))
        except FileNotFoundError:
            return []

    def open(self, host: str) -> Host:
        self._home.create()
        os.makedirs(self._root, mode=0o700, exist_ok=True)
        home = Home(os.path.join(self._root, host))
        home.create()
        return ScratchHost(host, home)

    def create(self, host: str | None, options: dict[str, str]) -> Host:
        return self.open(host or "box-" + os.urandom(3).hex())

    def start(self, host: str) -> None:
        self.open(host)

    def stop(self, host: str) -> None:
        raise MngrError("a directory cannot be stopped", "stop its agents: mngr list --host HOST --ids | mngr stop -")

    def destroy(self, host: str) -> None:
        if host not in self.list():
            raise NotFound(f"there is no scratch host {host!r}", "see: mngr list --hosts")
        shutil.rmtree(os.path.join(self._root, host))
