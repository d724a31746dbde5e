"""Machines that can crash and be cut off: each has its own namespaces, network link and sshd as pid 1."""

from __future__ import annotations

import pwd
import socket
import subprocess
import uuid
from pathlib import Path

from tests.support.hosts.place import PATH, Place, children, end, kill, program, start, undone, wait_until
from tests.support.hosts.sshd import Site, make_keys

# A machine first sets up its network, its name, a private home, /tmp and /run, and a new boot id.
BOOT = """\
set -eu
ip addr add "$address/30" dev eth0
ip link set lo up
ip link set eth0 up
hostname "$name"
mount --bind "$dir/boot_id" /proc/sys/kernel/random/boot_id
mount --bind "$dir/home" "$root"
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/sshd
exec "$sshd" -D -e -f "$dir/sshd_config"
"""

NEW = ["--fork", "--kill-child", "--pid", "--mount", "--uts", "--ipc", "--mount-proc"]


class Machine:
    """A machine that can crash, restart, lose its network and get it back."""

    def __init__(self, site: Site, config: Path, link: str, our_address: str) -> None:
        self.site, self.config = site, config
        self.name, self.home, self.address = site.name, site.home, site.address
        self._link, self._ours = link, our_address
        self._network: subprocess.Popen[bytes] | None = None
        self._boot: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Boot, and do not wait."""
        self._plug()
        (self.site.dir / "boot_id").write_text(f"{uuid.uuid4()}\n")
        (self.site.dir / "pid").unlink(missing_ok=True)
        variables = {
            "address": self.address,
            "name": self.name,
            "dir": str(self.site.dir),
            "root": pwd.getpwuid(0).pw_dir,
            "sshd": program("sshd"),
        }
        command = ["env", *(f"{key}={value}" for key, value in variables.items()), "sh", "-c", BOOT]
        argv = [*self._inside(), program("unshare"), *NEW, *command]
        self._boot = start(argv, self.site.log, farewell="KILL")

    def ready(self) -> None:
        """Wait until the machine accepts connections."""
        assert self._boot
        wait_until((self.site.dir / "pid").exists, self._boot, self.site.log)

    def ssh(self, *words: str, patience: int = 5) -> subprocess.CompletedProcess[str]:
        """Run a command on the machine with plain ssh and its own connection."""
        return self.site.ssh(self.config, words, patience)

    def crash(self) -> None:
        """Cut the power: all processes end without a word on the network, but the disk stays."""
        if self._boot:
            self.partition()
            # This is pid 1 of the machine. Once it is reaped, all processes of the machine have ended.
            for pid in children(self._boot.pid):
                kill(pid)
            end(self._boot)
            self._boot = None

    def restart(self) -> None:
        """Boot again, after a crash. The home is kept."""
        self.crash()
        self.start()
        self.ready()

    def partition(self) -> None:
        """Take the machine's network down at its own end, so that packets are lost instead of refused."""
        _run([*self._inside(), "ip", "link", "set", "eth0", "down"])

    def heal(self) -> None:
        """Bring the network up again, and wait until the machine can be reached."""
        _run([*self._inside(), "ip", "link", "set", "eth0", "up"])
        assert self._boot is not None
        wait_until(self._is_reached, self._boot, self.site.log)

    def _is_reached(self) -> bool:
        try:
            socket.create_connection((str(self.address), 22), timeout=1).close()
        except OSError:
            return False
        return True

    def stop(self) -> None:
        """Remove the machine and its network."""
        self.crash()
        self._unplug()

    def _inside(self) -> list[str]:
        assert self._network
        return ["nsenter", f"--net=/proc/{self._network.pid}/ns/net"]

    def _plug(self) -> None:
        """Create a new network for each boot, which does not know connections of the previous boot."""
        self._unplug()
        argv = [program("unshare"), "--net", "sh", "-c", "echo; exec cat"]
        self._network = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._network.stdout
        self._network.stdout.readline()
        _run(["ip", "-batch", "-"], f"""\
link add {self._link} type veth peer name eth0 netns {self._network.pid}
addr add {self._ours}/30 dev {self._link}
link set {self._link} up
""")  # fmt: skip

    def _unplug(self) -> None:
        if self._network:
            subprocess.run([program("ip"), "link", "del", self._link], capture_output=True, check=False)
            self._network.communicate()
            self._network = None


class Machines:
    """Machines m1, m2 and so on, each with its own network link. Needs root."""

    def __init__(self, count: int = 3) -> None:
        self._place = Place("machines")
        self.machines: dict[str, Machine] = {}
        with undone(self.stop):
            self.config = self._place.dir / "ssh_config"
            for number in range(1, count + 1):
                self.machines[f"m{number}"] = self._machine(number)
            self._start()

    def _machine(self, number: int) -> Machine:
        block = f"198.18.{self._place.number}"
        site = Site(f"m{number}", f"{block}.{number * 4 + 2}", 22, self._place.dir / f"m{number}")
        link = f"mngr{self._place.number}m{number}"
        return Machine(site, self.config, link, f"{block}.{number * 4 + 1}")

    def _start(self) -> None:
        sites = [machine.site for machine in self.machines.values()]
        make_keys(sites)
        self.config.write_text("".join(site.client() for site in sites))
        for site, machine in zip(sites, self.machines.values(), strict=True):
            site.prepare("0.0.0.0")
            machine.start()
        for machine in self.machines.values():
            machine.ready()

    def __getitem__(self, name: str) -> Machine:
        return self.machines[name]

    def __enter__(self) -> Machines:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def names(self) -> list[str]:
        """The names of the machines in the ssh configuration."""
        return list(self.machines)

    def stop(self) -> None:
        """Remove all machines."""
        for machine in self.machines.values():
            machine.stop()
        self._place.close()


def _run(argv: list[str], stdin: str = "") -> None:
    command = [program(argv[0]), *argv[1:]]
    completed = subprocess.run(command, input=stdin, capture_output=True, text=True, env={"PATH": PATH}, check=False)
    if completed.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}: {completed.stderr}{stdin}")
