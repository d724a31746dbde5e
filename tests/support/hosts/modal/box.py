"""A machine: namespaces, a file system over those of its image, and processes in it."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

from grpclib import Status  # type: ignore[import-not-found, unused-ignore]

from tests.support.hosts.modal.process import Process
from tests.support.hosts.modal.rpc import fail

HIDDEN = "/tmp /var/tmp /root /home /mnt /srv /media".split()
SEARCH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SPACES = ["--mount", "--pid", "--uts", "--ipc", "--net"]
# The first process reaps orphans; when what it started ends, the kernel ends all the rest. Not before it has its root may
# anybody enter: whoever does would have this machine's.
_FIRST = """'echo ready >&{ready}; exec {ready}>&-; "$@" <&0 & wait $!; exit $?'"""


def lay_ground(state: Path, hidden: list[str]) -> None:
    """What all images stand on: this machine's files without what is private. Mounted for us alone, so nothing stays."""
    layer, work, root = (state / name for name in ("ground", "ground.work", "root"))
    for one in (layer, work, root):
        one.mkdir(parents=True)
    for path in [*HIDDEN, *hidden]:
        place = layer / path.lstrip("/")
        place.mkdir(parents=True, exist_ok=True)
        place.chmod(0o1777 if "tmp" in path else 0o755)
        os.setxattr(place, "trusted.overlay.opaque", b"y")
    options = f"lowerdir=/,upperdir={layer},workdir={work}"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, str(root)], check=True)


class Box:
    """One machine. `layers` are those of its image, the last first, below the state directory."""

    def __init__(self, state: Path, name: str, layers: list[str]) -> None:
        self._state = state
        self._layers = layers
        self._name = name
        self._dir = state / "box" / name
        self.env: dict[str, str] = {}
        self._first = 0
        self.process: Process
        for part in ("up", "work", "root"):
            (self._dir / part).mkdir(parents=True)

    async def start(self, argv: list[str], env: dict[str, str], cwd: str, size: tuple[int, int] | None = None) -> None:
        """Run its entry point; when that ends, so does everything else in it."""
        self.env = env
        ready_r, ready_w = os.pipe()
        inner = ["/usr/bin/env", "-i", "-C", cwd, *(f"{key}={value}" for key, value in env.items()), *argv]
        script = self._script(cwd, ready_w)
        flags = [*_SPACES, "--fork", "--kill-child=SIGKILL"]
        outer = ["setpriv", "--pdeathsig", "KILL", "unshare", *flags, "/bin/bash", "-c", script, "box"]
        self.process = Process([*outer, *inner], size, (ready_w,))
        os.close(ready_w)
        if not await _first_bytes(ready_r):
            await self.process.wait()
            said = self.process.output[2].portion(0)
            fail(Status.INTERNAL, f"the sandbox did not start: {said[-400:]!r}")
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        self._first = int(children[0])

    def _script(self, cwd: str, ready: int) -> str:
        root = self._dir / "root"
        lower = ":".join([*self._layers, "root"])
        upper = f"upperdir={self._dir}/up,workdir={self._dir}/work"
        return "\n".join(
            [
                f"set -e; cd {shlex.quote(str(self._state))}",
                f"mount -t overlay overlay -o lowerdir={lower},{upper} {root}",
                f"mount -t proc proc {root}/proc; mount --rbind /dev {root}/dev; mount -t tmpfs tmpfs {root}/run",
                f"hostname {self._name[:20]}; ip link set lo up",
                f"mkdir -p {shlex.quote(str(root) + cwd)}",
                f'exec chroot {root} /bin/bash -c {_FIRST.format(ready=ready)} init "$@"',
            ]
        )

    def enter(self, argv: list[str], env: dict[str, str], cwd: str) -> list[str]:
        """What to run so that a command runs in here."""
        words = [f"{key}={value}" for key, value in {**self.env, **env}.items()]
        inside = ["--", "/usr/bin/env", "-i", "-C", cwd or "/", *words, *argv]
        return ["nsenter", f"--target={self._first}", *_SPACES, "--root", *inside]

    def put(self, path: str, data: bytes) -> None:
        """Write a file, before it starts."""
        place = self._dir / "up" / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)

    def kill(self) -> None:
        """End everything in it."""
        if self._first and self.process.code is None:
            try:
                os.kill(self._first, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.kill()

    async def snapshot(self, name: str) -> list[str]:
        """Keep what was written as a layer; the layers of an image with it."""
        layer = f"layer/{name}"
        (self._state / layer).mkdir(parents=True)
        copy = ["cp", "-a", "--reflink=auto", f"{self._dir}/up/.", str(self._state / layer)]
        if await (await asyncio.create_subprocess_exec(*copy)).wait():
            fail(Status.INTERNAL, "the files could not be copied")
        return [layer, *self._layers]

    async def discard(self) -> None:
        """Its files are no longer needed."""
        await asyncio.to_thread(shutil.rmtree, self._dir, True)


async def _first_bytes(fd: int) -> bytes:
    """What comes first from a pipe, which is closed then."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(fd, ready.set)
    await ready.wait()
    loop.remove_reader(fd)
    try:
        return os.read(fd, 16)
    finally:
        os.close(fd)
