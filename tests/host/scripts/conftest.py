"""Hosts with different tools: dash and bash with GNU tools, busybox with its own; each with and without flock."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mngr import kinds
from mngr.base import shell
from mngr.host import scripts, tmux_server

TOOLS = (
    "awk cat chmod cp cut date df dirname env find getconf git grep head id infocmp ln ls mkdir mktemp mv nproc ps readlink rm rmdir"
    " du sed sleep sort sync tail tar timeout tmux touch tr true uname wc xargs"
).split()
# Behaves like busybox's flock, which not every build of busybox has.
FLOCK = '#!/bin/sh\ncase $1 in -w) echo "flock: invalid option -- w" >&2; exit 1 ;; esac\nexec {flock} "$@"\n'


def which(name: str) -> str:
    path = shutil.which(name)
    assert path is not None, name
    return path


@dataclass
class Land:
    """A shell and the programs on its PATH."""

    name: str
    bin: Path
    has_proc: bool = True
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def env(self) -> dict[str, str]:
        return {"PATH": str(self.bin), "HOME": str(self.bin.parent), "LANG": "C.UTF-8", "TERM": "dumb"}

    def text(self, program: str) -> str:
        """Return the text of a program as a host gets it."""
        text = (
            scripts.read_program_beside(kinds.__file__, program)
            if program == "hook.sh"
            else scripts.read_program(program)
        )
        return text if self.has_proc else text.replace("/proc/", "/nowhere/")

    def argv(self, program: str, *words: object) -> list[str]:
        return [str(self.bin / "sh"), "-c", self.text(program), program, *(str(word) for word in words)]

    def run(
        self, program: str, *words: object, stdin: str = "", timeout: float = 20, home: str | None = None, code: int = 0
    ) -> str:  # fmt: skip
        """Return the program's output. It must end with this code and write nothing to standard error."""
        result = subprocess.run(
            self.argv(program, *words),
            input=stdin,
            env={**self.env, "HOME": self.env["HOME"] if home is None else home},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
        assert (result.returncode, result.stderr) == (code, ""), result
        return result.stdout

    def start(self, program: str, *words: object) -> subprocess.Popen[str]:
        """Start a program that keeps running, with its input open."""
        process = subprocess.Popen(
            self.argv(program, *words),
            env=self.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def replace(self, tool: str, text: str) -> None:
        """Replace a tool by another program; `{real}` in its text is the path of the tool itself."""
        path = self.bin / tool
        real = os.path.realpath(path)
        assert os.path.basename(real) != "busybox", f"busybox takes its own {tool}, whatever the PATH"
        path.unlink(missing_ok=True)
        path.write_text(text.replace("{real}", real))
        path.chmod(0o755)


def land(where: Path, name: str, flock: bool) -> Land:
    """Create a directory with programs that is the whole PATH."""
    folder = where / "bin"
    folder.mkdir()
    if name == "busybox":
        busybox = which("busybox")
        applets = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
        for tool in applets:
            (folder / tool).symlink_to(busybox)
        for tool in ("git", "tmux"):
            (folder / tool).symlink_to(which(tool))
    else:
        for tool in TOOLS:
            (folder / tool).symlink_to(which(tool))
        (folder / "sh").symlink_to(which(name))
    (folder / "flock").unlink(missing_ok=True)
    new_land = Land(name, folder)
    if flock and name == "busybox":
        new_land.replace("flock", FLOCK.format(flock=which("flock")))
    elif flock:
        (folder / "flock").symlink_to(which("flock"))
    return new_land


def _lands(where: Path, name: str, flock: bool) -> Iterator[Land]:
    new_land = land(where, name, flock)
    yield new_land
    for process in new_land.processes:
        process.kill()
        process.communicate()


# `make test` uses the shell with the fewest extensions and the host with the fewest tools.
IN_TEST = (("dash", True), ("busybox", False))
IN_TEST_HOSTS = pytest.mark.hosts


@pytest.fixture(params=["dash", pytest.param("bash", marks=IN_TEST_HOSTS), "busybox"])
def plain(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Land]:
    """A host of each kind."""
    yield from _lands(tmp_path, request.param, True)


@pytest.fixture(
    params=[
        pytest.param((name, flock), marks=[] if (name, flock) in IN_TEST else [IN_TEST_HOSTS])
        for name in ("dash", "bash", "busybox")
        for flock in (True, False)
    ],
    ids=lambda param: f"{param[0]}{'' if param[1] else ' without flock'}",
)
def any_land(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Land]:
    """A host of each kind, with flock and without."""
    yield from _lands(tmp_path, *request.param)


@dataclass
class Place:
    """A home on a host, its tmux server, and agents created without mngr."""

    land: Land
    home: Path
    socket: Path

    @property
    def lib(self) -> Path:
        return self.home / "lib"

    def agent(self, number: int, *argv: str) -> Path:
        """Create the files of an agent with this command and return its directory."""
        agent_id = f"a-{number:012x}"
        folder = self.home / "agents" / agent_id
        folder.mkdir()
        (folder / "agent.json").write_text(f'{{"v":1,"id":"{agent_id}","name":"n{number}"}}\n')
        env = {"PATH": str(self.land.bin), "MNGR_AGENT_ID": agent_id, "MNGR_WORK_DIR": str(self.home)}
        env["MNGR_AGENT_DIR"] = str(folder)
        (folder / "env").write_text("".join(f"export {name}={shell.quote(value)}\n" for name, value in env.items()))
        (folder / "command").write_text("set -- " + shell.join(argv) + "\n")
        (folder / "events.jsonl").touch()
        return folder

    def start(self, number: int, *argv: str) -> Path:
        """Create and start an agent, and return its directory."""
        folder = self.agent(number, *argv)
        self.launch(folder)
        return folder

    def launch(self, folder: Path, code: int = 0) -> str:
        """Run start.sh and return its answer."""
        name = f"n{int(folder.name[2:], 16)}"
        conf = self.home / "tmux.conf"
        return self.land.run("start.sh", self.socket, conf, self.lib, folder, name, self.home, code=code)

    def stop(self, *folders: Path, grace: float = 5.0) -> None:
        self.land.run("stop.sh", self.socket, self.home, f"{grace:g}", "", *(folder.name for folder in folders))

    def list(self, *words: str) -> dict[str, str]:
        """Return the rows of list.sh. After `again`, only the second version of a row counts."""
        rows: dict[str, str] = {}
        for line in self.land.run("list.sh", self.home, self.socket, *words).split("\n"):
            word, _, rest = line.partition(" ")
            if word == "again":
                rows = {key: value for key, value in rows.items() if "/" not in key}
            elif "/" in word:
                path, _, text = line.partition(":")
                assert path not in rows, path
                rows[path] = text
            elif word:
                rows[f"{word} {rest.split(' ')[0]}" if word in ("dir", "pane") else word] = rest
        return rows

    def tmux(self, *words: str) -> str:
        argv = [which("tmux"), "-S", str(self.socket), *words]
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout


@pytest.fixture
def place(plain: Land, tmp_path: Path) -> Iterator[Place]:
    """A home on a host of each kind. Its tmux server is killed afterwards."""
    home = tmp_path / "home"
    plain.run("host_facts.sh", home, "make")
    for name in scripts.INSTALLED_PROGRAMS:
        (home / "lib" / name).write_text(plain.text(name))
    (home / "tmux.conf").write_text(tmux_server.build_configuration(None))
    with tempfile.TemporaryDirectory(prefix="mngr-", dir="/tmp") as socket_dir:
        new_place = Place(plain, home, Path(socket_dir) / f"mngr-{os.getuid()}" / "socket")
        yield new_place
        new_place.tmux("kill-server")
