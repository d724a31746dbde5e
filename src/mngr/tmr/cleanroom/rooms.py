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
from mngr.base.model import AgentView, Record
from mngr.host import git
from mngr.host.store import NameTaken
from mngr.tmr.cleanroom.sandbox import Mason, Walls, findings, plain
from mngr.tmr.finding import Finding

LABEL = {"role": "room"}
_HERE = os.path.dirname(__file__)
_SPARE = 60.0  # seconds that a host may take longer than the command on it
_ROWS = 1 << 23  # bytes of what the probe may say
_LARGEST = 1 << 26  # bytes of a file, encoded
_WARDEN = "import sys; sys.path.insert(0, %r); import mngr_warden"  # as Python has compiled it
_CHUNK = 90_000  # bytes that fit in one word of a command line, encoded


class Broken(MngrError):
    """A room is no longer what it was made as; another one may do."""


class Ran(Record):
    """How a command in a room ended."""

    code: int  # -N: ended by signal N
    out: str
    err: str
    seconds: float
    cpu: float = 0.0  # seconds of all processes together
    timed_out: bool = False  # it was ended after `timeout` seconds
    timeout: float | None = None
    left: int = 0  # processes that it left running, and that were ended
    rows: list[dict[str, Any]] = []  # what the probe saw
    ended: str = ""  # why it was ended before its time, in a sentence
    findings: list[Finding] = []  # what it did that is not for a room


def text_of(name: str, folder: str = _HERE) -> str:
    """Return the text of a program that runs in a clean room."""
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return file.read()


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Rooms:
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
        walls: Walls | None = None,
        called: str = "room",
    ) -> None:
        self.fleet, self.run, self.repo = fleet, run, os.path.abspath(repo)
        self.at_once = at_once or cores()
        self._on, self._env, self._sandbox, self._network = on, env, sandbox, network
        self._called = called
        self._mason = None if walls is None else Mason(walls)
        self.about = [on, None if walls is None else walls.to_dict()]  # what else a run depends on
        self._hosts: dict[int, str] = {}  # made for rooms, where a provider makes hosts
        self._free = list(range(self.at_once, 0, -1))
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def room(self, commit: str, source: str | None = None) -> Iterator[Room]:
        """A room at a commit of the project, or of `source`: another repository with the same history. Waits for a free one."""
        with self._changed:
            self._changed.wait_for(lambda: self._free)
            number = self._free.pop()
        try:
            room = self._make(number, commit, source)
            try:
                yield room
            finally:
                self.fleet.discard([room.name])
        finally:
            with self._changed:
                self._free.append(number)
                self._changed.notify()

    def _make(self, number: int, commit: str, source: str | None) -> Room:
        name = f"tmr-{self.run}-{self._called}-{number}"
        on = f"@{self._hosts[number]}{self._on[1:]}" if number in self._hosts else self._on
        try:
            view = self._create(name, on, commit, source)
        except NameTaken:  # by one that was left behind: nobody else makes rooms for this run
            self.fleet.discard([name])
            view = self._create(name, on, commit, source)
        if self._on.startswith("@."):
            self._hosts[number] = view.host
        try:
            return Room(self.fleet, view.name, view.work_dir, commit, self.repo, self._mason)
        except BaseException:
            self.fleet.discard([name])
            raise

    def _create(self, name: str, on: str, commit: str, source: str | None) -> AgentView:
        return self.fleet.create(
            name + on, "command", ["true"], source=source or self.repo, branch=f"{commit}:mngr/{name}", transfer="mirror",
            dirty="ignore", env=self._env, labels={**LABEL, "run": self.run}, sandbox=self._sandbox, network=self._network,
        )  # fmt: skip

    def sweep(self, *called: str) -> list[str]:
        """Take away the rooms, of these names or its own, that a killed process left, and the hosts made for them; their names."""
        begins = tuple(f"tmr-{self.run}-{name}-" for name in called or (self._called,))
        found = [
            agent
            for agent in self.fleet.list().agents
            if agent.labels.get("role") == LABEL["role"]
            and agent.labels.get("run") == self.run
            and agent.name.startswith(begins)
        ]
        gone = [outcome.name for outcome in self.fleet.discard([agent.name for agent in found]) if outcome.ok]
        if self._on.startswith("@."):
            self._end({agent.host for agent in found if agent.provider == self._on[2:]})
        return gone

    def close(self) -> None:
        """Give back the hosts that were made for rooms."""
        self._end(set(self._hosts.values()))
        self._hosts.clear()

    def _end(self, hosts: set[str]) -> None:
        names = [f"@{host}{self._on[1:]}" for host in sorted(hosts)]
        if names:
            with contextlib.suppress(MngrError):  # it is named by `mngr gc` then
                self.fleet.destroy(names, force=True)


class Room:
    """One workspace. Every command begins in the same state: the commit's files and what set-up made."""

    def __init__(
        self,
        fleet: Fleet,
        name: str,
        work: str,
        commit: str,
        repo: str,
        mason: Mason | None = None,
    ) -> None:
        self._fleet = fleet
        warden, self._probe = text_of("room_program.py"), text_of("pytest_probe.py")
        self._words = ["-c", warden]
        self.name, self.work, self.repo = name, work, repo
        programs = {"mngr_warden.py": warden, "mngr_limits.py": text_of("resource_limits.py")}
        _, found = self._ask({"survey": True, "programs": programs})
        self._words = ["-c", _WARDEN % found["kept"]]
        self.commit, self.tree = found["at"].split()
        if not self.commit.startswith(commit):
            raise Broken(f"{name} is at {self.commit}, not at {commit}", "try again")
        self.place = found["place"]  # the work dir as programs there see it
        self._keep = ["/" + _literal(path) for path in found["made"].split("\0") if path]
        self.walls = "none: they were not asked for"  # on, on with the network, or why there are none
        self.env: dict[str, str] = {}  # of every command
        self._around: dict[str, Any] = {}
        if mason is not None:
            self.walls, self._around = mason.build(lambda words: self._exec(words, _SPARE), found)

    def move(self, commit: str) -> None:
        """Be at another commit of the same repository from the next clean command on; what set-up made stays."""
        if commit != self.commit:
            self._fleet.give(self.name, self.repo, commit)
            local = self._fleet.context.local
            self.tree = git.must(local, self.repo, "rev-parse", f"{commit}^{{tree}}")
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
    ) -> Ran:
        """Run a command in the work dir, made clean before; of what it writes the last `most` bytes are kept.

        `probe` is what the probe is told, if the command is a pytest with it. Raises MngrError.
        """
        job: dict[str, Any] = {
            "argv": argv,
            "env": {**self.env, **(env or {})},
            "timeout": timeout,
            "most": most,
            "most_rows": _ROWS,
            **self._around,
        }
        if clean:
            job |= {"commit": self.commit, "keep": self._keep}
        if probe is not None:
            job["probe"] = self._probe
            job["env"] = {**job["env"], "MNGR_PROBE": json.dumps({"repo": self.repo, **probe})}
        numbers, texts = self._ask(job, timeout)
        rows = [row for line in texts["rows"].splitlines() if (row := _row(line)) is not None]
        said = [texts["out"], texts["err"], rows]
        left, hit = int(numbers["left"]), int(numbers["hit"])
        found = findings(texts["ended"], left, hit, said, walled="walls" in job)
        return Ran(
            code=int(numbers["code"]), out=plain(texts["out"]), err=plain(texts["err"]), seconds=numbers["seconds"],
            cpu=numbers["cpu"], timed_out=bool(numbers["timed_out"]), timeout=timeout, left=left,
            rows=plain(rows), ended=texts["ended"].partition(" ")[2], findings=found,
        )  # fmt: skip

    def read(self, path: str) -> bytes:
        """A file in the work dir, as it is after the last command; raises MngrError when it cannot be read."""
        ran = self.run(["base64", "--", path], clean=False, most=_LARGEST)
        if ran.code:
            raise MngrError(f"{path!r} in {self.name}: {ran.err.strip() or f'exit code {ran.code}'}")
        return base64.b64decode(ran.out)

    def write(self, path: str, data: bytes) -> None:
        """Write a file in the work dir; the next clean command takes it away unless git has it. Raises MngrError."""
        line = 'mkdir -p "$(dirname "$1")" && printf %s "$2" | base64 -d >>"$1"'
        chunks = [data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK)] or [b""]
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
        folder = os.path.dirname(os.path.join(self.place, path))
        there = self.run(["sh", "-c", 'cd -P -- "$1" && pwd -P', "pull", folder], clean=False)
        if not f"{there.out.rstrip()}/".startswith(f"{self.place}/"):
            raise MngrError(f"{path!r} is not in the work dir of {self.name}")
        return self._fleet.pull_path(self.name, path, target)

    def _ask(
        self, job: dict[str, Any], timeout: float | None = None
    ) -> tuple[dict[str, float], dict[str, str]]:
        """The numbers and texts of the warden's answer."""
        words = ["python3", "-I", "-S", *self._words, repr(job)]
        done = self._exec(words, None if timeout is None else timeout + _SPARE)
        return self._answer(done["stdout"], done["stderr"])

    def _exec(self, words: list[str], timeout: float | None) -> dict[str, Any]:
        outcome = self._fleet.exec([self.name], words, timeout=timeout)[0]
        if not outcome.extra.get("started"):
            kind = Unreachable if outcome.exit_code == Unreachable.exit_code else Broken
            raise kind(f"{self.name}: {outcome.error}", outcome.hint)
        return outcome.extra

    def _answer(self, out: str, err: str) -> tuple[dict[str, float], dict[str, str]]:
        head, _, rest = out.partition("\n")
        try:
            numbers: dict[str, Any] = json.loads(head)
        except ValueError:
            said = (err or head).strip().splitlines() or ["it said nothing"]
            raise Broken(f"{self.name}: {said[-1]}", "a room needs python3 (3.9 or newer) and git") from None
        texts: dict[str, str] = {}
        for name, length in numbers.pop("texts").items():
            texts[name], rest = rest[:length], rest[length:]
        if "broken" in texts:
            raise Broken(f"{self.name}: {texts['broken']}", "try again")
        return numbers, texts


def _row(line: str) -> dict[str, Any] | None:
    """A row of the probe's; a torn one is none."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and isinstance(row.get("row"), str) else None


def _literal(path: str) -> str:
    """A path as a pattern of git's that stands for nothing else."""
    return "".join(f"\\{char}" if char in "\\*?[]!#" else char for char in path)
