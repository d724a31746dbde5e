"""A directory for measurements: repositories, an mngr home and a bare tmux server, in memory if possible."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.measure import seconds
from tests.support.paths import ROOT

BIN = Path(sys.executable).parent
SITE = "example-1.0.dist-info"
EXAMPLE = ROOT / "examples"


class World:
    """Keeps everything in one directory, and removes it afterwards."""

    def __init__(self) -> None:
        memory = Path("/dev/shm")
        self.root = Path(tempfile.mkdtemp(prefix="mngr-bench-", dir=memory if os.access(memory, os.W_OK) else None))
        self.home = self.root / "home"
        self.bare = self.root / "bare"
        self.socket = str(self.root / "s")
        user = self.root / "user"
        user.mkdir()
        (user / ".gitconfig").write_text("[user]\n\tname = Bench\n\temail = bench@example.invalid\n")
        self.env = {
            "HOME": str(user),
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "MNGR_HOME": str(self.home),
            "GIT_CONFIG_NOSYSTEM": "1",
        }

    def close(self) -> None:
        """Remove everything."""
        link = self.home / "tmux.socket"
        for socket in (self.socket, os.readlink(link) if link.is_symlink() else None):
            if socket:
                subprocess.run(["tmux", "-S", socket, "kill-server"], capture_output=True, check=False)
                Path(socket).unlink(missing_ok=True)
        shutil.rmtree(self.root, ignore_errors=True)

    def repo(self, files: int, size: int) -> Path:
        """Create a repository with one packed commit of `files` files."""
        root = self.root / f"repo-{files}"
        for number in range(files):
            path = root / f"d{number % 50}" / f"f{number}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.urandom(size // 3).hex().encode() + os.urandom(size // 6).hex().encode())
        self.sh(f"cd {root} && git init -q -b main . && git add -A && git -c gc.auto=0 commit -q -m first && git gc -q")
        return root

    def run(self, *argv: str, cwd: Path | None = None, env: dict[str, str] | None = None, stdin: str = "") -> None:
        """Run a command, which must succeed."""
        completed = subprocess.run(
            argv, cwd=cwd or self.root, env={**self.env, **(env or {})}, input=stdin, text=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False,
        )  # fmt: skip
        if completed.returncode:
            raise SystemExit(f"{' '.join(argv)[:200]}\nexit {completed.returncode}: {completed.stderr[-2000:]}")

    def sh(self, script: str) -> None:
        self.run("sh", "-ec", script)

    def time(self, *argv: str, cwd: Path | None = None, env: dict[str, str] | None = None, stdin: str = "") -> float:
        """Run a command and return how long it takes."""
        return seconds(lambda: self.run(*argv, cwd=cwd, env=env, stdin=stdin))

    def python(self, env: dict[str, str] | None = None) -> float:
        """Measure an empty Python program, the floor of everything written in Python."""
        return self.time(str(BIN / "python"), "-c", "pass", env=env)

    def mngr(self, *words: str, cwd: Path | None = None, env: dict[str, str] | None = None, stdin: str = "") -> float:
        return self.time(str(BIN / "mngr"), *words, cwd=cwd, env=env, stdin=stdin)

    def tmux(self, *words: str) -> list[str]:
        """Return a command for the bare tmux server."""
        return ["tmux", "-f", "/dev/null", "-S", self.socket, *words]

    def plugin(self) -> dict[str, str]:
        """Return the variables with which the example plugin is installed."""
        source = next(EXAMPLE.glob("**/src"))
        name = next(path.name for path in source.iterdir() if (path / "__init__.py").exists())
        info = self.root / "site" / SITE
        info.mkdir(parents=True, exist_ok=True)
        (info / "entry_points.txt").write_text(f"[mngr]\nexample = {name}\n")
        return {"PYTHONPATH": f"{source}:{self.root / 'site'}"}

    def add_agents(self, model: str, count: int, start: int) -> None:
        """Add agents that are done, as copies of a finished one."""
        agent_id = os.readlink(self.home / "names" / model)
        record = json.loads((self.home / "agents" / agent_id / "agent.json").read_text())
        for number in range(start, start + count):
            new_id = f"a-{number:012x}"
            agent_dir = self.home / "agents" / new_id
            agent_dir.mkdir()
            copied = {**record, "id": new_id, "name": f"copy-{number}"}
            (agent_dir / "agent.json").write_text(json.dumps(copied, separators=(",", ":")) + "\n")
            for name in ("exit", "proc"):
                shutil.copy(self.home / "agents" / agent_id / name, agent_dir / name)
            os.symlink(new_id, self.home / "names" / f"copy-{number}")
