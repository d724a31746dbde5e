"""What every test starts from: a fresh home, a fresh repository, the real program, real git and tmux."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

BIN = Path(sys.executable).parent
FULL = os.environ.get("MNGR_TEST_SCALE") == "full"  # make test-all: the counts that the promises name

settings.register_profile(
    "mngr", max_examples=1000 if FULL else 60, derandomize=not FULL, deadline=None, database=None
)
settings.load_profile("mngr")


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    argv: tuple[str, ...]
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class Mngr:
    """The real program, run in a repository with a home of its own and an environment that hides the user's."""

    repo: Path
    home: Path
    env: dict[str, str] = field(default_factory=dict)

    def __call__(
        self,
        *words: str,
        code: int | None = 0,
        stdin: str | None = None,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = 60,
    ) -> Ran:
        """Run it; the exit code must be `code` unless that is None."""
        argv = (str(BIN / "mngr"), *words)
        done = subprocess.run(
            argv,
            cwd=cwd or self.repo,
            env={**self.env, **(env or {})},
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        ran = Ran(argv, done.returncode, done.stdout, done.stderr)
        if code is not None and ran.code != code:
            pytest.fail(f"{' '.join(argv)}\nexit {ran.code}, expected {code}\n{ran.out}\n{ran.err}")
        return ran

    def json(self, *words: str, **more: Any) -> Any:
        """The command's JSON."""
        return self("--format", "json", *words, **more).json()

    def agent(self, name: str) -> dict[str, Any]:
        """One agent as `list` shows it."""
        found = [a for a in self.json("list")["agents"] if name in (a["name"], a["id"])]
        assert len(found) == 1, f"{name}: {found}"
        return dict(found[0])

    def agents(self) -> list[dict[str, Any]]:
        """Every agent as `list` shows it."""
        return list(self.json("list")["agents"])

    def dir(self, name: str) -> Path:
        """The directory of an agent's own files."""
        return self.home / "agents" / str(self.agent(name)["id"])

    def work(self, name: str) -> Path:
        """An agent's work dir."""
        return Path(self.agent(name)["work_dir"])

    def tmux(self, *words: str) -> str:
        """Ask the home's tmux server."""
        argv = ["tmux", "-S", os.readlink(self.home / "tmux.socket"), *words]
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout


def git(where: Path, *words: str) -> str:
    """git, which must succeed."""
    done = subprocess.run(["git", "-C", str(where), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"git {words}: {done.stderr}"
    return done.stdout.strip()


def wait_for(condition: Callable[[], Any], timeout: float = 20.0) -> Any:
    """Wait for a condition and give its value; fail when it does not come."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            pytest.fail(f"waited {timeout}s for {condition}")
        time.sleep(0.02)


def end_servers(where: Path) -> None:
    """End the tmux server of every home below a directory."""
    found = subprocess.run(
        ["find", str(where), "-maxdepth", "4", "-name", "tmux.socket", "-type", "l"],
        capture_output=True,
        text=True,
        check=False,
    )
    for link in found.stdout.splitlines():
        socket = os.readlink(link)
        subprocess.run(["tmux", "-S", socket, "kill-server"], capture_output=True, check=False)
        Path(socket).unlink(missing_ok=True)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """An environment that knows nothing of the person who runs the tests."""
    user = tmp_path / "user"
    user.mkdir()
    (user / ".gitconfig").write_text(
        "[user]\n\tname = Test\n\temail = test@example.invalid\n[init]\n\tdefaultBranch = main\n"
    )
    return {
        "HOME": str(user),
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "MNGR_HOME": str(tmp_path / "home"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "TZ": "UTC",
    }


@pytest.fixture
def repo(tmp_path: Path, env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small repository with one commit."""
    for name in list(os.environ):
        if name.startswith(("GIT_", "MNGR_")) or name in ("TMUX", "TMUX_PANE"):
            monkeypatch.delenv(name)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    root = tmp_path / "repo"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    (root / "README.md").write_text("hello\n")
    (root / "src").mkdir()
    (root / "src" / "app.py").write_text("print('hi')\n")
    (root / ".gitignore").write_text("*.log\nbuild/\n.venv/\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    return root


@pytest.fixture
def mngr(tmp_path: Path, repo: Path, env: dict[str, str]) -> Iterator[Mngr]:
    """The program, and afterwards no trace of what it started."""
    yield Mngr(repo, Path(env["MNGR_HOME"]), env)
    end_servers(tmp_path)
    subprocess.run(["chmod", "-R", "u+rwX", str(tmp_path)], capture_output=True, check=False)
    shutil.rmtree(tmp_path, ignore_errors=True)
