"""The adapter of the fault pack for `mngr tmr run`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from mngr.mapreduce.run_dir import RunDir
from tests.conftest import BIN_DIR, MngrProgram, run_git
from tests.support.journal_file import read_json_rows
from tests.tmr.faults.pack import Ended, Fault, Task, Wish, write_project

PYTEST = f"{sys.executable} -m pytest -q -p no:cacheprovider"
WISH = Wish()


class Tmr:
    """Runs `mngr tmr run` in the repository of a test."""

    def __init__(self, mngr: MngrProgram) -> None:
        self._mngr = mngr
        self._run = RunDir(str(mngr.repo), "r")

    def start(self, faults: list[Fault], wish: Wish = WISH) -> Running:
        """Start a run with the faults as tests."""
        repo = self._mngr.repo
        write_project(repo, faults)
        run_git(repo, "add", "-A")
        run_git(repo, "commit", "-qm", "tests")
        self._before = _describe_repo(repo)
        cases = [{"task": f"*::test_{fault.name}", "steps": fault.steps} for fault in faults]
        scenario = repo.parent / "scenario.json"
        scenario.write_text(json.dumps({"steps": [], "cases": cases}))
        words = [
            "run", "--name", "r", "--no-integrate", "--agent", wish.agent, "--pytest", PYTEST, "--runs", "1", "--verify-runs", "1",
            "--max-agents", str(wish.slots), "--timeout", f"{wish.task_seconds}s", "--stall", f"{wish.stall_seconds}s",
            "--canary", "0", "--alarm", str(wish.alarm), "--on-alarm", "probe" if wish.probe else "pause",
        ]  # fmt: skip
        words += ["--agent-arg", str(scenario)] if wish.agent == "player" else []
        return self._begin(words + ([] if wish.seconds is None else ["--deadline", f"{wish.seconds}s"]))

    def resume(self) -> Running:
        """Resume the run."""
        return self._begin(["resume", "r"])

    def _begin(self, words: list[str]) -> Running:
        stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115  (closed when it has ended)
        process = subprocess.Popen(
            [BIN_DIR / "mngr", "tmr", *words], cwd=self._mngr.repo, env=self._mngr.env, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=stderr, start_new_session=True,
        )  # fmt: skip
        return Running(self._mngr, self._run, self._before, process, stderr)


class Running:
    """A run in progress."""

    def __init__(
        self, mngr: MngrProgram, run: RunDir, before: object, process: subprocess.Popen[bytes], stderr: Any
    ) -> None:
        self._mngr, self._run, self._before, self.process, self._said = mngr, run, before, process, stderr

    @property
    def journal(self) -> str:
        """The path of the run's journal."""
        return self._run.journal

    def folder(self, name: str) -> Path:
        """Return the folder of a task's collected work."""
        (slug,) = [row["slug"] for row in self.rows("launch") if _name(row["slug"]) == name]
        return Path(self._run.task_path(slug))

    def kill(self, number: int) -> None:
        """Send a signal."""
        os.kill(self.process.pid, number)

    def rows(self, *types: str) -> list[dict[str, Any]]:
        """Return the journal rows of these types so far."""
        return [row for row in read_json_rows(self._run.journal) if row["type"] in types]

    def tasks_at_work(self) -> dict[str, str]:
        """Return the agents that got their prompt, by the name of the fault."""
        agents = {row["slug"]: row["agent"] for row in self.rows("launch")}
        return {_name(row["slug"]): agents[row["slug"]] for row in self.rows("prompted")}

    def wait(self, timeout: float = 300) -> Ended:
        """Wait for the end, at most until the timeout, and return how the run ended."""
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGKILL)
            code = self.process.wait()
        self._said.seek(0)
        stderr = self._said.read()
        self._said.close()
        status = self._mngr.run_json("tmr", "status", "r")
        tasks = {_name(row["slug"]): self._task(row) for row in status["tasks"]}
        alarms = [(row["error_kind"], row["text"]) for row in self.rows("alarm")]
        return Ended(code, status["state"], stderr, tasks, alarms, self._harm())

    def _task(self, row: dict[str, Any]) -> Task:
        folder = Path(self._run.task_path(row["slug"]))
        files: tuple[str, ...] = ()
        if row["commit"]:
            base = json.loads(Path(self._run.plan).read_text())["base"]
            names = _git(self._run.repo, "diff", "--name-only", "-z", base, row["commit"]).split("\0")
            files = tuple(sorted(name for name in names if name))
        transcript = _read(folder / "transcript.jsonl")
        prompts = sum("```mngr-job" in line and '"role": "user"' in line for line in transcript.splitlines())
        return Task(
            outcome=row["outcome"] or row["state"], verdict=row["verdict"], reason=row["reason"] or "",
            prompts=prompts, reminders=row["reminders"], files=files, transcript=transcript,
            uncommitted=_read(folder / "uncommitted.diff"),
        )  # fmt: skip

    def _harm(self) -> list[str]:
        """Return what changed in the user's repository, and what was executed or collected without permission."""
        problems = []
        repo = self._mngr.repo
        if _describe_repo(repo) != self._before:
            problems.append("the user's repository is not as it was")
        for directory in (self._mngr.home / "agents", Path(self._run.tasks)):
            problems += [f"a trap was sprung: {path}" for path in directory.rglob("trapped")]
        root = os.path.realpath(self._run.tasks)
        for top, folders, names in os.walk(root):
            for name in [*folders, *names]:
                path = os.path.join(top, name)
                if os.path.islink(path) and not os.path.realpath(path).startswith(root + "/"):
                    problems.append(f"a link leads out: {path}")
        return problems


def _name(slug: str) -> str:
    """Return the fault's name from a task's slug, such as `test-hang-0123ab`."""
    return slug.rpartition("-")[0].removeprefix("test-").replace("-", "_")


def _describe_repo(repo: Path) -> object:
    """Return the state of a repository as its user sees it."""
    return [
        run_git(repo, *words)
        for words in (
            ("status", "--porcelain"),
            ("for-each-ref",),
            ("rev-parse", "HEAD"),
            ("config", "--list"),
        )
    ]


def _git(repo: str, *words: str) -> str:
    process = subprocess.run(["git", "-C", repo, *words], capture_output=True, check=True)
    return process.stdout.decode("utf-8", "replace")


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except FileNotFoundError:
        return ""
