"""Rooms: clean workspaces at a commit, in which we run tests ourselves. A room holds nobody's work and leaves no grave.

A room is an agent whose command has ended: so the project's set-up, walls, networks and other hosts are those of `create`.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import threading
from collections.abc import Iterator
from typing import Any

from mngr.api import Fleet
from mngr.base.errors import MngrError, Unreachable
from mngr.base.model import AgentView, Struct
from mngr.host import git
from mngr.host.store import NameTaken
from mngr.tmr.cleanroom.sandbox import (
    CleanRoomSandbox,
    SandboxBuilder,
    escape_control_characters,
    list_violations,
)
from mngr.tmr.finding import Finding

CLEAN_ROOM_LABEL = {"role": "room"}
_HERE = os.path.dirname(__file__)
_HOST_GRACE_SECONDS = 60.0  # seconds that a host may take longer than the command on it
_MAX_PROBE_BYTES = 1 << 23  # bytes of what the probe may say
_MAX_FILE_BYTES = 1 << 26  # bytes of a file, encoded
_PROGRAM_LOADER = "import sys; sys.path.insert(0, %r); import mngr_warden"  # as Python has compiled it
_MAX_ARG_BYTES = 90_000  # bytes that fit in one word of a command line, encoded


class CleanRoomBroken(MngrError):
    """A room is no longer what it was made as; another one may do."""


class CommandOutcome(Struct):
    """How a command in a room ended."""

    code: int  # -N: ended by signal N
    out: str
    err: str
    seconds: float
    cpu: float = 0.0  # seconds of all processes together
    timed_out: bool = False  # it was ended after `timeout` seconds
    timeout: float | None = None
    leftover_processes: int = 0  # processes that it left running, and that were ended
    probe_rows: list[dict[str, Any]] = []  # what the probe saw
    stop_reason: str = ""  # why it was ended before its time, in a sentence
    findings: list[Finding] = []  # what it did that is not for a room


def read_program(name: str, folder: str = _HERE) -> str:
    """Return the text of a program that runs in a clean room."""
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return file.read()


def count_cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class CleanRoomPool:
    """The rooms of one run: at most `at_once` at a time."""

    def __init__(
        self,
        fleet: Fleet,
        run: str,
        repo: str,
        *,
        at_once: int | None = None,
        on: str = "",  # as in an address: @HOST
        env: dict[str, str] | None = None,
        sandbox: bool = False,
        network: str | None = None,
        walls: CleanRoomSandbox | None = None,
        called: str = "room",
    ) -> None:
        self.fleet, self.run, self.repo = fleet, run, os.path.abspath(repo)
        self.max_rooms = at_once or count_cores()
        self._on, self._env, self._sandbox, self._network = on, env, sandbox, network
        self._name_prefix = called
        self._sandbox_builder = None if walls is None else SandboxBuilder(walls)
        self.cache_key = [on, None if walls is None else walls.to_dict()]  # what else a run depends on
        self._hosts: dict[int, str] = {}  # made for rooms, where a provider makes hosts
        self._free_numbers = list(range(self.max_rooms, 0, -1))
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def acquire(self, commit: str, source: str | None = None) -> Iterator[CleanRoom]:
        """A room at a commit of the project, or of `source`: another repository with the same history. Waits for a free one."""
        with self._changed:
            self._changed.wait_for(lambda: self._free_numbers)
            number = self._free_numbers.pop()
        try:
            room = self._create_room(number, commit, source)
            try:
                yield room
            finally:
                self.fleet.discard_clean_rooms([room.name])
        finally:
            with self._changed:
                self._free_numbers.append(number)
                self._changed.notify()

    def _create_room(self, number: int, commit: str, source: str | None) -> CleanRoom:
        name = f"tmr-{self.run}-{self._name_prefix}-{number}"
        on = f"@{self._hosts[number]}{self._on[1:]}" if number in self._hosts else self._on
        try:
            view = self._create_agent(name, on, commit, source)
        except NameTaken:  # by one that was left behind: nobody else makes rooms for this run
            self.fleet.discard_clean_rooms([name])
            view = self._create_agent(name, on, commit, source)
        if self._on.startswith("@."):
            self._hosts[number] = view.host
        try:
            return CleanRoom(self.fleet, view.name, view.work_dir, commit, self.repo, self._sandbox_builder)
        except BaseException:
            self.fleet.discard_clean_rooms([name])
            raise

    def _create_agent(self, name: str, on: str, commit: str, source: str | None) -> AgentView:
        return self.fleet.create(
            name + on, "command", ["true"], source=source or self.repo, branch=f"{commit}:mngr/{name}", transfer="mirror",
            dirty="ignore", env=self._env, labels={**CLEAN_ROOM_LABEL, "run": self.run}, sandbox=self._sandbox, network=self._network,
        )  # fmt: skip

    def remove_leftovers(self, *called: str) -> list[str]:
        """Take away the rooms, of these names or its own, that a killed process left, and the hosts made for them; their names."""
        begins = tuple(f"tmr-{self.run}-{name}-" for name in called or (self._name_prefix,))
        found = [
            agent
            for agent in self.fleet.list().agents
            if agent.labels.get("role") == CLEAN_ROOM_LABEL["role"]
            and agent.labels.get("run") == self.run
            and agent.name.startswith(begins)
        ]
        gone = [
            outcome.name for outcome in self.fleet.discard_clean_rooms([agent.name for agent in found]) if outcome.ok
        ]
        if self._on.startswith("@."):
            self._remove_hosts({agent.host for agent in found if agent.provider == self._on[2:]})
        return gone

    def release_hosts(self) -> None:
        """Give back the hosts that were made for rooms."""
        self._remove_hosts(set(self._hosts.values()))
        self._hosts.clear()

    def _remove_hosts(self, hosts: set[str]) -> None:
        names = [f"@{host}{self._on[1:]}" for host in sorted(hosts)]
        if names:
            with contextlib.suppress(MngrError):  # it is named by `mngr gc` then
                self.fleet.destroy(names, force=True)


class CleanRoom:
    """One workspace. Every command begins in the same state: the commit's files and what set-up made."""

    def __init__(
        self,
        fleet: Fleet,
        name: str,
        work: str,
        commit: str,
        repo: str,
        mason: SandboxBuilder | None = None,
    ) -> None:
        self._fleet = fleet
        warden, self._probe = read_program("clean_room_program.py"), read_program("pytest_probe.py")
        self._program_args = ["-c", warden]
        self.name, self.work_dir, self.repo = name, work, repo
        programs = {"mngr_warden.py": warden, "mngr_limits.py": read_program("resource_limits.py")}
        _, found = self._run_program({"survey": True, "programs": programs})
        self._program_args = ["-c", _PROGRAM_LOADER % found["kept"]]
        self.commit, self.tree = found["at"].split()
        if not self.commit.startswith(commit):
            raise CleanRoomBroken(f"{name} is at {self.commit}, not at {commit}", "try again")
        self.inner_work_dir = found["place"]  # the work dir as programs there see it
        self._kept_patterns = ["/" + _escape_pattern(path) for path in found["made"].split("\0") if path]
        self.isolation = "none: they were not asked for"  # on, on with the network, or why there are none
        self.env: dict[str, str] = {}  # of every command
        self._sandbox_job: dict[str, Any] = {}
        if mason is not None:
            self.isolation, self._sandbox_job = mason.build(
                lambda words: self._execute(words, _HOST_GRACE_SECONDS), found
            )

    def switch_commit(self, commit: str) -> None:
        """Be at another commit of the same repository from the next clean command on; what set-up made stays."""
        if commit != self.commit:
            self._fleet.send_commit(self.name, self.repo, commit)
            local = self._fleet.context.local_host
            self.tree = git.run_checked(local, self.repo, "rev-parse", f"{commit}^{{tree}}")
            self.commit = commit

    def run(
        self,
        argv: list[str],
        *,
        env: dict[str, str] | None = None,
        timeout: float | None = None,
        clean: bool = True,
        most: int = 1 << 16,
        probe: dict[str, Any] | None = None,
    ) -> CommandOutcome:
        """Run a command in the work dir, made clean before; of what it writes the last `most` bytes are kept.

        `probe` is what the probe is told, if the command is a pytest with it. Raises MngrError.
        """
        job: dict[str, Any] = {
            "argv": argv,
            "env": {**self.env, **(env or {})},
            "timeout": timeout,
            "most": most,
            "most_rows": _MAX_PROBE_BYTES,
            **self._sandbox_job,
        }
        if clean:
            job |= {"commit": self.commit, "keep": self._kept_patterns}
        if probe is not None:
            job["probe"] = self._probe
            job["env"] = {**job["env"], "MNGR_PROBE": json.dumps({"repo": self.repo, **probe})}
        numbers, texts = self._run_program(job, timeout)
        rows = [row for line in texts["rows"].splitlines() if (row := _parse_row(line)) is not None]
        said = [texts["out"], texts["err"], rows]
        left, hit = int(numbers["left"]), int(numbers["hit"])
        found = list_violations(texts["ended"], left, hit, said, walled="walls" in job)
        return CommandOutcome(
            code=int(numbers["code"]), out=escape_control_characters(texts["out"]), err=escape_control_characters(texts["err"]), seconds=numbers["seconds"],
            cpu=numbers["cpu"], timed_out=bool(numbers["timed_out"]), timeout=timeout, leftover_processes=left,
            probe_rows=escape_control_characters(rows), stop_reason=texts["ended"].partition(" ")[2], findings=found,
        )  # fmt: skip

    def read(self, path: str) -> bytes:
        """A file in the work dir, as it is after the last command; raises MngrError when it cannot be read."""
        ran = self.run(["base64", "--", path], clean=False, most=_MAX_FILE_BYTES)
        if ran.code:
            raise MngrError(f"{path!r} in {self.name}: {ran.err.strip() or f'exit code {ran.code}'}")
        return base64.b64decode(ran.out)

    def write(self, path: str, data: bytes) -> None:
        """Write a file in the work dir; the next clean command takes it away unless git has it. Raises MngrError."""
        line = 'mkdir -p "$(dirname "$1")" && printf %s "$2" | base64 -d >>"$1"'
        chunks = [data[at : at + _MAX_ARG_BYTES] for at in range(0, len(data), _MAX_ARG_BYTES)] or [b""]
        for at, chunk in enumerate(chunks):
            first = ': >"$1" && ' if at == 0 else ""
            word = base64.b64encode(chunk).decode()
            ran = self.run(
                ["sh", "-c", line.replace(" && printf", f" && {first}printf", 1), "write", path, word],
                clean=False,
            )
            if ran.code:
                raise MngrError(f"{path!r} in {self.name}: {ran.err.strip() or f'exit code {ran.code}'}")

    def pull(self, path: str, target: str) -> str:
        """Copy a file or directory of the room here; where it ended up. No link leads out of the work dir."""
        folder = os.path.dirname(os.path.join(self.inner_work_dir, path))
        there = self.run(["sh", "-c", 'cd -P -- "$1" && pwd -P', "pull", folder], clean=False)
        if not f"{there.out.rstrip()}/".startswith(f"{self.inner_work_dir}/"):
            raise MngrError(f"{path!r} is not in the work dir of {self.name}")
        return self._fleet.pull_path(self.name, path, target)

    def _run_program(
        self, job: dict[str, Any], timeout: float | None = None
    ) -> tuple[dict[str, float], dict[str, str]]:
        """The numbers and texts of the warden's answer."""
        words = ["python3", "-I", "-S", *self._program_args, repr(job)]
        done = self._execute(words, None if timeout is None else timeout + _HOST_GRACE_SECONDS)
        return self._parse_answer(done["stdout"], done["stderr"])

    def _execute(self, words: list[str], timeout: float | None) -> dict[str, Any]:
        outcome = self._fleet.exec([self.name], words, timeout=timeout)[0]
        if not outcome.extra.get("started"):
            kind = Unreachable if outcome.exit_code == Unreachable.exit_code else CleanRoomBroken
            raise kind(f"{self.name}: {outcome.error}", outcome.hint)
        return outcome.extra

    def _parse_answer(self, out: str, err: str) -> tuple[dict[str, float], dict[str, str]]:
        head, _, rest = out.partition("\n")
        try:
            numbers: dict[str, Any] = json.loads(head)
        except ValueError:
            said = (err or head).strip().splitlines() or ["it said nothing"]
            raise CleanRoomBroken(f"{self.name}: {said[-1]}", "a room needs python3 (3.9 or newer) and git") from None
        texts: dict[str, str] = {}
        for name, length in numbers.pop("texts").items():
            texts[name], rest = rest[:length], rest[length:]
        if "broken" in texts:
            raise CleanRoomBroken(f"{self.name}: {texts['broken']}", "try again")
        return numbers, texts


def _parse_row(line: str) -> dict[str, Any] | None:
    """A row of the probe's; a torn one is none."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and isinstance(row.get("row"), str) else None


def _escape_pattern(path: str) -> str:
    """A path as a pattern of git's that stands for nothing else."""
    return "".join(f"\\{char}" if char in "\\*?[]!#" else char for char in path)
