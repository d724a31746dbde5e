"""Container engines for tests: a private dockerd, a private Podman, and an image of 20 kB."""

from __future__ import annotations

import http.client
import io
import os
import resource
import socket
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.support.hosts.place import PATH, Place, kill, program, start, undone, wait_until

IMAGE = "localhost/tiny:1"
USER = "1000:1000"  # `user` in the image, which has a home
TOOLS = ("-v", "/usr:/usr:ro", "-v", "/etc/alternatives:/etc/alternatives:ro")  # the programs of this machine


class Engine:
    """An engine that holds only the test image. `env` has the variables its program needs to find it."""

    program: str
    remove: tuple[str, ...] = ("rm", "-f", "-v")
    containers: str  # where it keeps containers, below `dir`
    volumes: str
    images: str
    image = IMAGE
    options = TOOLS

    def __init__(self) -> None:
        self._place = Place(self.program)
        self.dir = self._place.dir
        self.env: Mapping[str, str] = {}
        self._kept: set[str] = set()
        with undone(self.stop):
            self._start()
            tiny = self.dir / "tiny.tar"
            tiny.write_bytes(_image())
            self.run("import", str(tiny), IMAGE)
            self._kept = self._in(self.images)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def run(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run the engine's program. Raise RuntimeError with its stderr if it fails and `check` is True."""
        completed = subprocess.run(
            [program(self.program), *words],
            env={"HOME": str(self.dir), "PATH": PATH, **self.env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if check and completed.returncode != 0:
            raise RuntimeError(f"{self.program} {' '.join(words)}: {completed.stderr}")
        return completed

    def start_container(self, name: str, *options: str) -> None:
        """Start a container that sleeps and has this machine's programs."""
        self.run("run", "-d", "--name", name, *TOOLS, *options, IMAGE, "sleep", "infinity")

    def reset(self) -> None:
        """Remove all containers and volumes, and all images but the test image."""
        if names := self._in(self.containers):
            self.run(*self.remove, *names)
        if names := self._in(self.volumes):
            self.run("volume", "rm", "-f", *names)
        while names := self._in(self.images) - self._kept:  # base images can only be removed last
            if not self.run("rmi", "-f", *names, check=False).stdout:
                raise RuntimeError(f"{self.program}: these images stay: {names}")

    def stop(self) -> None:
        """Remove everything, in the engine and on disk."""
        try:
            self._end()
        finally:
            self._place.close()

    def _start(self) -> None:
        raise NotImplementedError

    def _end(self) -> None:
        raise NotImplementedError

    def _in(self, directory: str) -> set[str]:
        """Return the names in one of the engine's directories. Asking its program would take up to 100 ms."""
        try:
            entries = list(os.scandir(self.dir / directory))
        except FileNotFoundError:
            return set()
        return {entry.name for entry in entries if entry.is_dir() or len(entry.name) == 64}


class Docker(Engine):
    """A private daemon without a network, which clients find through DOCKER_HOST."""

    program = "docker"
    containers, volumes = "data/containers", "data/volumes"
    images = "data/image/overlay2/imagedb/content/sha256"
    _server: subprocess.Popen[bytes] | None = None

    def _start(self) -> None:
        sock, log, settings = self.dir / "docker.sock", self.dir / "log", self.dir / "daemon.json"
        settings.write_text("{}")
        self.env = {"DOCKER_HOST": f"unix://{sock}"}
        argv = ["dockerd", "--host", f"unix://{sock}", "--config-file", str(settings)]
        argv += ["--data-root", str(self.dir / "data"), "--exec-root", str(self.dir / "exec")]
        argv += ["--pidfile", str(self.dir / "pid"), "--bridge=none"]
        argv += ["--iptables=false", "--ip6tables=false", "--ip-forward=false"]
        self._server = start(argv, log)
        wait_until(lambda: _answers(sock), self._server, log)

    def _end(self) -> None:
        if not self._server:
            return
        if self._server.poll() is None:
            self.reset()
            self.run("network", "prune", "-f")
        self._server.kill()  # It is empty, and a graceful end takes a second.
        self._server.wait()
        below = self.dir / "exec/containerd/containerd.pid"
        if below.exists():
            kill(int(below.read_text()))


class Podman(Engine):
    """A Podman without a daemon and with its own files, which it finds through CONTAINERS_CONF."""

    program = "podman"
    remove = ("rm", "-f", "-v", "-t", "0")  # Without it, Podman asks the process to end and waits ten seconds.
    containers, volumes, images = "graph/overlay-containers", "graph/volumes", "graph/overlay-images"

    def _start(self) -> None:
        files, processes = _limit(resource.RLIMIT_NOFILE, 20000), _limit(resource.RLIMIT_NPROC, 30000)
        (self.dir / "containers.conf").write_text(f"""\
[containers]
default_ulimits = ["nofile={files}:{files}", "nproc={processes}:{processes}"]
netns = "none"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
tmp_dir = "{self.dir}/tmp"
[network]
network_config_dir = "{self.dir}/networks"
""")
        (self.dir / "storage.conf").write_text(f"""\
[storage]
driver = "overlay"
graphroot = "{self.dir}/graph"
runroot = "{self.dir}/run"
""")
        self.env = {
            "CONTAINERS_CONF": str(self.dir / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(self.dir / "storage.conf"),
        }

    def _end(self) -> None:
        self.reset()


def _limit(kind: int, wanted: int) -> int:
    """Return a limit that can be set. Podman's defaults are too high for root in some containers."""
    hard = resource.getrlimit(kind)[1]
    return wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)


def _answers(sock: Path) -> bool:
    """True when a daemon answers on a socket. It listens long before that, so this may wait."""
    connection = http.client.HTTPConnection("localhost", timeout=10)
    connection.sock = socket.socket(socket.AF_UNIX)
    try:
        connection.sock.connect(str(sock))
        connection.request("GET", "/_ping")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def _image() -> bytes:
    """Return a root file system with two users, and links to the mounted programs of this machine."""
    directories = ". usr sbin etc tmp root proc sys dev run var var/tmp home home/user".split()  # sbin: for --init
    links = [name for name in ("bin", "lib", "lib32", "lib64") if Path("/usr", name).exists()]
    files = {
        "etc/passwd": "root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000:user:/home/user:/bin/bash\n",
        "etc/group": "root:x:0:\nuser:x:1000:\n",
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in directories:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name.endswith("tmp") else 0o755
            entry.uid = entry.gid = 1000 if name == "home/user" else 0
            tar.addfile(entry)
        for name in links:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, f"usr/{name}"
            tar.addfile(entry)
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()
