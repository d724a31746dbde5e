"""The real program in a world of its own: what every check drives, and what it compares."""

from __future__ import annotations

import atexit
import functools
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

BIN_DIR = Path(sys.executable).parent
IS_FULL_SCALE = os.environ.get("MNGR_TEST_SCALE") == "full"  # make test-all: the counts that the promises name


@dataclass(frozen=True)
class ProgramResult:
    """How a command ended."""

    argv: tuple[str, ...]
    code: int
    out: str
    err: str

    def parse_json(self) -> Any:
        return json.loads(self.out)


@dataclass
class MngrProgram:
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
    ) -> ProgramResult:
        """Run it; the exit code must be `code` unless that is None."""
        data = None if stdin is None else stdin.encode()
        done = self.run_bytes(*words, data=data, cwd=cwd, env=env, timeout=timeout)
        ran = ProgramResult(
            (str(BIN_DIR / "mngr"), *words), done.returncode, done.stdout.decode(), done.stderr.decode()
        )
        if code is not None and ran.code != code:
            pytest.fail(f"{' '.join(ran.argv)}\nexit {ran.code}, expected {code}\n{ran.out}\n{ran.err}")
        return ran

    def run_bytes(
        self,
        *words: str,
        data: bytes | None = None,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = 60,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run it with bytes in and bytes out."""
        return subprocess.run(
            [str(BIN_DIR / "mngr"), *words],
            cwd=cwd or self.repo,
            env={**self.env, **(env or {})},
            input=data,
            stdin=subprocess.DEVNULL if data is None else None,
            capture_output=True,
            timeout=timeout,
            check=False,
        )

    def run_json(self, *words: str, **more: Any) -> Any:
        """The command's JSON."""
        return self("--format", "json", *words, **more).parse_json()

    def get_agent(self, name: str) -> dict[str, Any]:
        """One agent as `list` shows it."""
        found = [a for a in self.run_json("list")["agents"] if name in (a["name"], a["id"])]
        assert len(found) == 1, f"{name}: {found}"
        return dict(found[0])

    def list_agents(self) -> list[dict[str, Any]]:
        """Every agent as `list` shows it."""
        return list(self.run_json("list")["agents"])

    def get_agent_dir(self, name: str) -> Path:
        """The directory of a local agent's own files."""
        return self.home / "agents" / str(self.get_agent(name)["id"])

    def get_work_dir(self, name: str) -> Path:
        """A local agent's work dir."""
        return Path(self.get_agent(name)["work_dir"])

    def run_tmux(self, *words: str) -> str:
        """Ask the home's tmux server."""
        argv = ["tmux", "-S", os.readlink(self.home / "tmux.socket"), *words]
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout


class BackgroundProgram:
    """The program while it runs beside the test: `with Beside(mngr, …) as process:` ends it with the block."""

    def __init__(self, mngr: MngrProgram, *words: str) -> None:
        self.argv = (str(BIN_DIR / "mngr"), *words)
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the block)
        self._read = b""
        self.process = subprocess.Popen(
            self.argv,
            cwd=mngr.repo,
            env=mngr.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._said,
            start_new_session=True,
        )

    def __enter__(self) -> BackgroundProgram:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.communicate(timeout=10)
        self._said.close()

    def read_line(self, timeout: float = 20.0) -> str:
        """The next line that it prints, without its end; empty when nothing more comes."""
        deadline = time.monotonic() + timeout
        while b"\n" not in self._read and self._read_more(deadline):
            pass
        line, _, self._read = self._read.partition(b"\n")
        return line.decode()

    def read_stderr(self) -> str:
        """What it has written to stderr until now."""
        return os.pread(self._said.fileno(), 1 << 20, 0).decode()

    def wait_for_end(self, timeout: float = 60.0) -> ProgramResult:
        """Wait until it ends; what it printed since the last line that was read."""
        deadline = time.monotonic() + timeout
        while self._read_more(deadline):
            pass
        code = self.process.wait(max(0.1, deadline - time.monotonic()))
        self._said.seek(0)
        return ProgramResult(self.argv, code, self._read.decode(), self._said.read().decode())

    def _read_more(self, deadline: float) -> bool:
        assert self.process.stdout is not None
        left = max(0.0, deadline - time.monotonic())
        if not select.select([self.process.stdout], [], [], left)[0]:
            pytest.fail(f"{' '.join(self.argv)} went silent; it printed {self._read!r}")
        data = os.read(self.process.stdout.fileno(), 65536)
        self._read += data
        return bool(data)


def run_git(where: Path, *words: str) -> str:
    """git, which must succeed."""
    done = subprocess.run(["git", "-C", str(where), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"git {words}: {done.stderr}"
    return done.stdout.strip()


def commit_file(where: Path, name: str = "more.txt", text: str = "more\n") -> str:
    """Write a file and commit everything; the commit."""
    (where / name).write_text(text)
    run_git(where, "add", "-A")
    run_git(where, "commit", "-q", "-m", f"change {name}")
    return run_git(where, "rev-parse", "HEAD")


def list_refs(where: Path) -> dict[str, str]:
    """Every ref and what it points at."""
    rows = run_git(where, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return dict(row.split(" ") for row in rows)


def read_tree(where: Path) -> dict[str, tuple[str, object]]:
    """Every file, link and directory below, with what is in it; not git's own."""
    found: dict[str, tuple[str, object]] = {}
    for top, directories, files in os.walk(os.fsencode(where)):
        directories[:] = [d for d in directories if d != b".git"]
        for name in [*directories, *files]:
            path = Path(os.fsdecode(os.path.join(top, name)))
            key = os.fsdecode(os.path.relpath(os.path.join(top, name), os.fsencode(where)))
            if key == ".git":
                continue
            if path.is_symlink():
                found[key] = ("link", os.readlink(path))
            elif path.is_dir():
                found[key] = ("dir", None)
            else:
                found[key] = ("file", (path.read_bytes(), path.stat().st_mode & 0o111))
    return found


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


def new_env(root: Path) -> dict[str, str]:
    """An environment that knows nothing of the person who runs the tests."""
    user = root / "user"
    user.mkdir()
    (user / ".gitconfig").write_text(
        "[user]\n\tname = Test\n\temail = test@example.invalid\n[init]\n\tdefaultBranch = main\n"
    )
    return {
        "HOME": str(user),
        "PATH": f"{BIN_DIR}:{_build_path()}",
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "MNGR_HOME": str(root / "home"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "TZ": "UTC",
    }


def _build_path() -> str:
    """Without the coding agents that a person has: some commands take one that is there."""
    own = ("claude", "codex", "opencode", "gemini", "pi", "aider")
    places = os.environ["PATH"].split(":")
    return ":".join(p for p in places if p in ("/usr/bin", "/bin") or not any(os.path.exists(f"{p}/{n}") for n in own))


def new_repo(root: Path, env: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small repository with one commit; from now on this process has that environment too."""
    for name in list(os.environ):
        if name.startswith(("GIT_", "MNGR_")) or name in ("TMUX", "TMUX_PANE"):
            monkeypatch.delenv(name)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    repo = root / "repo"
    shutil.copytree(_first_repo(), repo, symlinks=True)
    run_git(repo, "update-index", "-q", "--refresh")  # the files of a copy are new to git
    return repo


@functools.cache
def _first_repo() -> Path:
    """Make the repository that every test gets a copy of, once in a process."""
    root = Path(tempfile.mkdtemp(prefix="mngr-repo-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    repo = root / "repo"
    repo.mkdir()
    run_git(repo, "init", "-q", "-b", "main")
    (repo / "README.md").write_text("hello\n")
    (repo / "src").mkdir()
    (repo / "src" / "app.py").write_text("print('hi')\n")
    (repo / ".gitignore").write_text("*.log\nbuild/\n.venv/\n")
    run_git(repo, "add", "-A")
    run_git(repo, "commit", "-q", "-m", "first")
    return repo


def kill_tmux_servers(where: Path) -> None:
    """End the tmux server of every home below a directory."""
    for depth in range(6):  # a host of a test may keep its own home below that of its user
        for link in where.glob("*/" * depth + "tmux.socket"):
            if link.is_symlink():
                socket = os.readlink(link)
                subprocess.run(["tmux", "-S", socket, "kill-server"], capture_output=True, check=False)
                Path(socket).unlink(missing_ok=True)


def clean_up(root: Path) -> None:
    """Leave no trace of what was started or written below a directory."""
    kill_tmux_servers(root)
    shutil.rmtree(root, ignore_errors=True)
    if root.exists():  # a directory in there may be closed even to its owner
        subprocess.run(["chmod", "-R", "u+rwX", str(root)], capture_output=True, check=False)
        shutil.rmtree(root, ignore_errors=True)
