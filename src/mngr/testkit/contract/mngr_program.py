"""Runs the real mngr with its own home and repository for a check, and compares results."""

from __future__ import annotations

import atexit
import functools
import json
import os
import select
import shutil
import signal
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
# Set by `make test-all`: run at the scale that the docs promise.
IS_FULL_SCALE = os.environ.get("MNGR_TEST_SCALE") == "full"


@dataclass(frozen=True)
class ProgramResult:
    """The exit code and output of a command."""

    argv: tuple[str, ...]
    code: int
    out: str
    err: str

    def parse_json(self) -> Any:
        return json.loads(self.out)


@dataclass
class MngrProgram:
    """The real mngr, run in a repository with its own home and without the user's environment."""

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
        """Run mngr. Fail the test unless the exit code is `code` or `code` is None."""
        data = None if stdin is None else stdin.encode()
        completed = self.run_bytes(*words, data=data, cwd=cwd, env=env, timeout=timeout)
        result = ProgramResult(
            (str(BIN_DIR / "mngr"), *words),
            completed.returncode,
            completed.stdout.decode(errors="replace"),  # `diff` passes the bytes of a file on unchanged
            completed.stderr.decode(errors="replace"),
        )
        if code is not None and result.code != code:
            agents = self.run_bytes("list", "--format", "{name} {state} {state_reason} {exit_code}").stdout.decode()
            pytest.fail(
                f"{' '.join(result.argv)}\nexit {result.code}, expected {code}\n{result.out}\n{result.err}\nagents:\n{agents}"
            )
        return result

    def run_bytes(
        self,
        *words: str,
        data: bytes | None = None,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = 60,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run mngr with bytes as input and output."""
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
        """Run a command and return its parsed JSON."""
        return self("--format", "json", *words, **more).parse_json()

    def get_agent(self, name: str) -> dict[str, Any]:
        """Return the row of one agent from `list`."""
        matches = [a for a in self.run_json("list")["agents"] if name in (a["name"], a["id"])]
        assert len(matches) == 1, f"{name}: {matches}"
        return dict(matches[0])

    def list_agents(self) -> list[dict[str, Any]]:
        """Return the rows of all agents from `list`."""
        return list(self.run_json("list")["agents"])

    def get_agent_dir(self, name: str) -> Path:
        """Return the directory with a local agent's own files."""
        return self.home / "agents" / str(self.get_agent(name)["id"])

    def get_work_dir(self, name: str) -> Path:
        """Return a local agent's work dir."""
        return Path(self.get_agent(name)["work_dir"])

    def run_tmux(self, *words: str) -> str:
        """Run a tmux command on the server of this home, and return its output."""
        argv = ["tmux", "-S", os.readlink(self.home / "tmux.socket"), *words]
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout


class BackgroundProgram:
    """mngr as a background process. Leaving the `with` block ends it."""

    def __init__(self, mngr: MngrProgram, *words: str) -> None:
        self.argv = (str(BIN_DIR / "mngr"), *words)
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the block)
        self._read = b""
        self.process = subprocess.Popen(
            self.argv,
            cwd=mngr.repo,
            env=mngr.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            start_new_session=True,
        )

    def __enter__(self) -> BackgroundProgram:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.communicate(timeout=10)
        self._stderr.close()

    def read_line(self, timeout: float = 20.0) -> str:
        """Return the next line of output without its end, or an empty string at the end of output."""
        deadline = time.monotonic() + timeout
        while b"\n" not in self._read and self._read_more(deadline):
            pass
        line, _, self._read = self._read.partition(b"\n")
        return line.decode()

    def read_stderr(self) -> str:
        """Return everything that the process has written to stderr so far."""
        return os.pread(self._stderr.fileno(), 1 << 20, 0).decode()

    def wait_for_end(self, timeout: float = 60.0) -> ProgramResult:
        """Wait until the process ends. The result holds the output after the last line that was read."""
        deadline = time.monotonic() + timeout
        while self._read_more(deadline):
            pass
        code = self.process.wait(max(0.1, deadline - time.monotonic()))
        self._stderr.seek(0)
        return ProgramResult(self.argv, code, self._read.decode(), self._stderr.read().decode())

    def _read_more(self, deadline: float) -> bool:
        assert self.process.stdout is not None
        remaining = max(0.0, deadline - time.monotonic())
        if not select.select([self.process.stdout], [], [], remaining)[0]:
            pytest.fail(f"{' '.join(self.argv)} printed nothing more before the timeout; its output was {self._read!r}")
        data = os.read(self.process.stdout.fileno(), 65536)
        self._read += data
        return bool(data)


def run_git(directory: Path, *words: str) -> str:
    """Run git and return its output. Fail the test if git fails."""
    completed = subprocess.run(["git", "-C", str(directory), *words], capture_output=True, text=True, check=False)
    assert completed.returncode == 0, f"git {words} failed: {completed.stderr}"
    return completed.stdout.strip()


def commit_file(directory: Path, name: str = "more.txt", text: str = "more\n") -> str:
    """Write a file, commit everything, and return the commit."""
    (directory / name).write_text(text)
    run_git(directory, "add", "-A")
    run_git(directory, "commit", "-q", "-m", f"change {name}")
    return run_git(directory, "rev-parse", "HEAD")


def list_refs(directory: Path) -> dict[str, str]:
    """Return every ref with the object that it points at."""
    rows = run_git(directory, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return dict(row.split(" ") for row in rows)


def read_tree(directory: Path) -> dict[str, tuple[str, object]]:
    """Return every file, link and directory below, with its content, except `.git`."""
    entries: dict[str, tuple[str, object]] = {}
    for top, directories, files in os.walk(os.fsencode(directory)):
        directories[:] = [d for d in directories if d != b".git"]
        for name in [*directories, *files]:
            path = Path(os.fsdecode(os.path.join(top, name)))
            key = os.fsdecode(os.path.relpath(os.path.join(top, name), os.fsencode(directory)))
            if key == ".git":
                continue
            if path.is_symlink():
                entries[key] = ("link", os.readlink(path))
            elif path.is_dir():
                entries[key] = ("dir", None)
            else:
                entries[key] = ("file", (path.read_bytes(), path.stat().st_mode & 0o111))
    return entries


def wait_for(condition: Callable[[], Any], timeout: float = 20.0) -> Any:
    """Wait until the condition is true and return its value. Fail the test after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            pytest.fail(f"waited {timeout}s for {condition}")
        time.sleep(0.02)


def new_env(root: Path) -> dict[str, str]:
    """Return an environment without anything of the person who runs the tests."""
    user_home = root / "user"
    user_home.mkdir()
    (user_home / ".gitconfig").write_text(
        "[user]\n\tname = Test\n\temail = test@example.invalid\n[init]\n\tdefaultBranch = main\n"
    )
    return {
        "HOME": str(user_home),
        "PATH": f"{BIN_DIR}:{_build_path()}",
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "MNGR_HOME": str(root / "home"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "TZ": "UTC",
    }


def _build_path() -> str:
    """Return PATH without the directories that hold coding agents, because some commands use an installed one."""
    agent_programs = ("claude", "codex", "opencode", "gemini", "pi", "aider")
    directories = os.environ["PATH"].split(":")
    return ":".join(
        p
        for p in directories
        if p in ("/usr/bin", "/bin") or not any(os.path.exists(f"{p}/{n}") for n in agent_programs)
    )


def new_repo(root: Path, env: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a small repository with one commit, and set this process's environment to `env`, too."""
    for name in list(os.environ):
        if name.startswith(("GIT_", "MNGR_")) or name in ("TMUX", "TMUX_PANE"):
            monkeypatch.delenv(name)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    repo = root / "repo"
    shutil.copytree(_first_repo(), repo, symlinks=True)
    run_git(repo, "update-index", "-q", "--refresh")  # git must re-read the files of a copy
    return repo


@functools.cache
def _first_repo() -> Path:
    """Create the repository that every test copies, once per process."""
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


def kill_tmux_servers(directory: Path) -> None:
    """Kill the tmux server of every home below a directory."""
    for depth in range(6):  # A test host may keep its own home below the user's home.
        for link in directory.glob("*/" * depth + "tmux.socket"):
            if link.is_symlink():
                socket = os.readlink(link)
                subprocess.run(["tmux", "-S", socket, "kill-server"], capture_output=True, check=False)
                Path(socket).unlink(missing_ok=True)


def kill_agents_of(directory: Path) -> None:
    """Kill the processes of agents below the directory. A process can ignore that its terminal was closed.

    Other processes stay, for example an ssh connection that the next test uses too.
    """
    variable = os.fsencode(f"MNGR_AGENT_DIR={directory}/")
    for environ in Path("/proc").glob("[0-9]*/environ"):
        pid = int(environ.parent.name)
        try:
            is_agent = any(entry.startswith(variable) for entry in environ.read_bytes().split(b"\0"))
            if is_agent and pid != os.getpid():
                os.kill(pid, signal.SIGKILL)
        except OSError:
            continue  # It has ended, or it belongs to another user.


def clean_up(root: Path) -> None:
    """End everything that was started below a directory, and delete the directory."""
    kill_tmux_servers(root)
    kill_agents_of(root)
    shutil.rmtree(root, ignore_errors=True)
    if root.exists():  # A directory may be closed even to its owner.
        subprocess.run(["chmod", "-R", "u+rwX", str(root)], capture_output=True, check=False)
        shutil.rmtree(root, ignore_errors=True)
