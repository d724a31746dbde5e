"""Many ssh hosts on this machine: each is an sshd with its own loopback address and home."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.hosts.place import Place, children, end, kill, program, start, undone, wait_until

GITCONFIG = "[user]\n\tname = Test\n\temail = test@example.invalid\n[init]\n\tdefaultBranch = main\n"

SERVER = """\
Port {port}
ListenAddress {listen}
HostKey {dir}/hostkey
AuthorizedKeysFile {dir}/id.pub
PidFile {dir}/pid
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
StrictModes no
PrintMotd no
MaxSessions 100
MaxStartups 100:30:200
Subsystem sftp internal-sftp
"""

# This key exchange is fast. The default takes 100 ms for each new connection.
CLIENT = """\
Host {name}
  HostName {address}
  Port {port}
  User {user}
  IdentityFile {dir}/id
  IdentitiesOnly yes
  UserKnownHostsFile {dir}/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  KexAlgorithms curve25519-sha256
"""


@dataclass(frozen=True)
class Site:
    """The address of a host, and the directory with its files."""

    name: str
    address: str
    port: int
    dir: Path

    @property
    def home(self) -> Path:
        """The host's home directory."""
        return self.dir / "home"

    @property
    def log(self) -> Path:
        """The log of its sshd."""
        return self.dir / "sshd.log"

    def client(self) -> str:
        """Return its entry in an ssh_config."""
        return CLIENT.format(**vars(self), user=getpass.getuser())

    def prepare(self, listen: str, *lines: str) -> None:
        """Write the files that its sshd reads. Its keys must exist."""
        fresh_home(self.home)
        text = SERVER.format(port=self.port, listen=listen, dir=self.dir)
        (self.dir / "sshd_config").write_text(text + "".join(f"{line}\n" for line in lines))
        key = (self.dir / "hostkey.pub").read_text().rsplit(" ", 1)[0]
        (self.dir / "known_hosts").write_text(f"[{self.address}]:{self.port} {key}\n{self.address} {key}\n")

    def ssh(self, config: Path, words: tuple[str, ...], patience: int) -> subprocess.CompletedProcess[str]:
        """Run a command on the host with plain ssh, and wait `patience` seconds for the connection."""
        options = ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={patience}"]
        argv = ["ssh", "-F", str(config), *options, self.name, *words]
        return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)


def fresh_home(home: Path) -> None:
    """Create a home as on a new machine."""
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    (home / ".gitconfig").write_text(GITCONFIG)


def make_keys(sites: list[Site]) -> None:
    """Create a host key and a user key for each host."""
    for site in sites:
        site.dir.mkdir()
    files = [site.dir / name for site in sites for name in ("hostkey", "id")]
    argv = [program("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f"]
    for process in [subprocess.Popen([*argv, str(file)]) for file in files]:
        if process.wait() != 0:
            raise RuntimeError("ssh-keygen failed")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)


class Farm:
    """Ssh hosts h1, h2 and so on, and `dead`, which accepts connections and never answers."""

    dead = "dead"

    def __init__(self, count: int = 3, path: Path | None = None) -> None:
        """With `path`, commands on the hosts find only the programs in that directory."""
        self._place = Place("farm")
        self._path = f" PATH={path}" if path else ""
        self._servers: dict[str, subprocess.Popen[bytes]] = {}
        self.hosts: dict[str, Site] = {}
        self._silence = socket.socket()
        with undone(self.stop):
            self.config = self._place.dir / "ssh_config"
            self.hosts = {f"h{n}": self._site(f"h{n}", n) for n in range(1, count + 1)}
            self._start()

    def _site(self, name: str, number: int) -> Site:
        address = f"127.77.{self._place.number}.{number}"
        with socket.socket() as probe:
            probe.bind((address, 0))
            return Site(name, address, probe.getsockname()[1], self._place.dir / name)

    def _start(self) -> None:
        sites = list(self.hosts.values())
        make_keys(sites)
        self._silence.bind((f"127.77.{self._place.number}.254", 0))
        self._silence.listen(1000)
        address, port = self._silence.getsockname()
        dead = Site(self.dead, address, port, self._place.dir / self.dead)
        self.config.write_text("".join(site.client() for site in [*sites, dead]))
        for site in sites:
            site.prepare(site.address, f"SetEnv HOME={site.home}{self._path}")
            self._serve(site)
        for site in sites:
            self._ready(site)

    def _serve(self, site: Site) -> None:
        (site.dir / "pid").unlink(missing_ok=True)
        argv = ["sshd", "-D", "-e", "-f", str(site.dir / "sshd_config")]
        self._servers[site.name] = start(argv, site.log)

    def _ready(self, site: Site) -> None:
        wait_until((site.dir / "pid").exists, self._servers[site.name], site.log)

    def __enter__(self) -> Farm:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def names(self) -> list[str]:
        """The hosts that answer, by their names in the ssh configuration."""
        return list(self.hosts)

    def home(self, name: str) -> Path:
        """Return a host's home directory."""
        return self.hosts[name].home

    def ssh(self, name: str, *words: str, patience: int = 5) -> subprocess.CompletedProcess[str]:
        """Run a command on a host with plain ssh and its own connection."""
        return self.hosts[name].ssh(self.config, words, patience)

    def cut(self, name: str) -> None:
        """Break all connections of a host and refuse new ones until `mend`. Its processes keep running."""
        server = self._servers[name]
        if server.poll() is None:
            server.send_signal(signal.SIGSTOP)  # Stopped, so that it accepts no connection before it is killed.
            _drop(server.pid)
            server.kill()
            server.wait()

    def mend(self, name: str) -> None:
        """Make a host that was cut off reachable again."""
        if self._servers[name].poll() is not None:
            self._serve(self.hosts[name])
            self._ready(self.hosts[name])

    def reset(self) -> None:
        """Restore every host: reachable, without connections and processes, with an empty home."""
        for server in self._servers.values():
            _drop(server.pid)
        _clear(self.hosts)
        for name, site in self.hosts.items():
            fresh_home(site.home)
            self.mend(name)

    def stop(self) -> None:
        """End all servers and everything that was started on the hosts."""
        for server in self._servers.values():
            _drop(server.pid)
            end(server)
        _clear(self.hosts)
        self._silence.close()
        self._place.close()


def _drop(server: int) -> None:
    """Kill the processes of an sshd that hold its connections, but not what they started."""
    for pid in children(server):
        try:
            name = Path(f"/proc/{pid}/comm").read_text()
        except OSError:
            continue
        if name.startswith("sshd"):
            _drop(pid)
            kill(pid)


def _clear(hosts: dict[str, Site]) -> None:
    """Kill every process with one of these homes, and remove the tmux sockets, which are outside the homes."""
    marks = {os.fsencode(f"HOME={site.home}") for site in hosts.values()}
    while pids := _with_environment(marks):
        for pid in pids:
            kill(pid)
    for site in hosts.values():
        for depth in ("", "*/", "*/*/"):
            for link in site.home.glob(f"{depth}tmux.socket"):
                if link.is_symlink():
                    Path(os.readlink(link)).unlink(missing_ok=True)


def _with_environment(marks: set[bytes]) -> list[int]:
    """Return the processes that were started with one of these variables."""
    pids = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if not marks.isdisjoint(environment.split(b"\0")):
            pids.append(int(pid))
    return pids
