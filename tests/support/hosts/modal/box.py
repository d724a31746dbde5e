"""A machine: namespaces, a file system over the layers of its image, and processes in it."""

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
# The first process reaps orphans. When its command ends, the kernel ends all other processes. Nobody may enter before
# it has its own root, because they would get the root of this machine.
_FIRST = """'echo ready >&{ready}; exec {ready}>&-; "$@" <&0 & wait $!; exit $?'"""


def lay_ground(state: Path, hidden: list[str]) -> None:
    """Mount the basis of all images: this machine's files without private directories.

    The mount is visible only to this process, so nothing remains.
    """
    layer, work, root = (state / name for name in ("ground", "ground.work", "root"))
    for directory in (layer, work, root):
        directory.mkdir(parents=True)
    for path in [*HIDDEN, *hidden]:
        hidden_dir = layer / path.lstrip("/")
        hidden_dir.mkdir(parents=True, exist_ok=True)
        hidden_dir.chmod(0o1777 if "tmp" in path else 0o755)
        os.setxattr(hidden_dir, "trusted.overlay.opaque", b"y")
    options = f"lowerdir=/,upperdir={layer},workdir={work}"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, str(root)], check=True)


class Box:
    """One machine. `layers` are those of its image, the last one first, below the state directory."""

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
        """Run the entry point. When it ends, everything else in the machine ends, too."""
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
            stderr = self.process.output[2].portion(0)
            fail(Status.INTERNAL, f"the sandbox did not start: {stderr[-400:]!r}")
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
        """Return the command line that runs a command in this machine."""
        assignments = [f"{key}={value}" for key, value in {**self.env, **env}.items()]
        command = ["--", "/usr/bin/env", "-i", "-C", cwd or "/", *assignments, *argv]
        return ["nsenter", f"--target={self._first}", *_SPACES, "--root", *command]

    def put(self, path: str, data: bytes) -> None:
        """Write a file before the machine starts."""
        target = self._dir / "up" / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)

    def kill(self) -> None:
        """End everything in the machine."""
        if self._first and self.process.code is None:
            try:
                os.kill(self._first, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.kill()

    async def snapshot(self, name: str) -> list[str]:
        """Save the written files as a layer, and return the layers of an image with it."""
        layer = f"layer/{name}"
        (self._state / layer).mkdir(parents=True)
        copy_command = ["cp", "-a", "--reflink=auto", f"{self._dir}/up/.", str(self._state / layer)]
        if await (await asyncio.create_subprocess_exec(*copy_command)).wait():
            fail(Status.INTERNAL, "the files could not be copied")
        return [layer, *self._layers]

    async def discard(self) -> None:
        """Delete the files of the machine."""
        await asyncio.to_thread(shutil.rmtree, self._dir, True)


async def _first_bytes(fd: int) -> bytes:
    """Return the first bytes from a pipe, and close it."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(fd, ready.set)
    await ready.wait()
    loop.remove_reader(fd)
    try:
        return os.read(fd, 16)
    finally:
        os.close(fd)
