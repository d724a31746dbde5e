"""Provides a clean room: a fresh workspace at a commit, in which mngr runs commands.

`clean_rooms.py` creates clean rooms and keeps those that nobody uses.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable

from mngr.api import Fleet
from mngr.base.errors import MngrError, Unreachable
from mngr.base.json_structs import decode, encode
from mngr.base.model import Struct
from mngr.base.untrusted_json import parse_json
from mngr.host import git
from mngr.tmr.cleanroom.program_sources import PROGRAM_LOADER, read_clean_room_programs
from mngr.tmr.cleanroom.sandbox import (
    CleanRoomJob,
    RoomIsolation,
    RoomOutput,
    RoomSurvey,
    SandboxBuilder,
    escape_control_characters,
    list_violations,
)
from mngr.tmr.finding import Finding

ObserverRow = dict[str, object]  # "row" names its kind
_HOST_GRACE_SECONDS = 60.0  # seconds that a call to a host may take longer than its command
_MAX_FILE_BYTES = 1 << 26  # bytes of a file, encoded
_MAX_ARG_BYTES = 90_000  # bytes that fit in one command-line argument after encoding


class CleanRoomBroken(MngrError):
    """A clean room is no longer in the state in which it was created. Another one may work."""


class SetupFilesChanged(CleanRoomBroken):
    """A test changed files that set-up created."""


class CommandOutcome(Struct):
    """The outcome of a command in a clean room."""

    code: int  # -N: killed by signal N
    out: str
    err: str
    is_output_cut: bool = False  # only the end of `out` or `err` was kept
    seconds: float
    cpu: float = 0.0  # seconds of all processes together
    timed_out: bool = False  # it was stopped after `timeout` seconds
    timeout: float | None = None
    leftover_processes: int = 0  # processes that it left running, and that mngr killed
    observer_rows: list[ObserverRow] = []  # the observer's report
    stop_reason: str = ""  # why it was stopped early, in a sentence
    findings: list[Finding] = []  # what it did that is not allowed in a clean room


class Observer(Struct):
    """A Python program that observes a test runner from inside, and its settings.

    The clean room installs the program as the module `mngr_observer`, and returns the rows that it reports.
    """

    program: str
    settings: Struct


class CleanRoom:
    """A workspace for the tests of one commit, in which every clean command starts from the same files.

    These are the commit's files and those that set-up created. No other commit uses the room after its first command.
    """

    _protected: dict[str, str] = {}  # directories that tests cannot write, and their identities
    _virtualenv = ""  # the Python environment that is active for every command, relative to the work dir

    def __init__(
        self,
        fleet: Fleet,
        name: str,
        work: str,
        commit: str,
        repo: str,
        sandbox_builder: SandboxBuilder | None = None,
    ) -> None:
        self._fleet = fleet
        programs = read_clean_room_programs()
        self._program_args = ["python3", "-I", "-S", "-c", programs["mngr_clean_room.py"]]
        self.name, self.work_dir, self.repo = name, work, repo
        self.renew: Callable[[], None] = lambda: None  # replaces the workspace by a new one
        self._must_clean = False  # the next command begins with a clean work dir in any case
        self.lfs_store = ""  # where the user's repository keeps the contents of git-lfs files
        _, texts = self._run_program(CleanRoomJob(programs=programs))
        survey = decode(RoomSurvey, texts)
        self._program_args = [survey.python or "python3", "-I", "-S", "-c", PROGRAM_LOADER % survey.kept]
        self.commit, self.tree = survey.at.split()
        if not self.commit.startswith(commit):
            raise CleanRoomBroken(
                f"the clean room {name} has the commit {self.commit} checked out, not {commit}",
                "run the same command again; mngr then creates a new clean room",
            )
        self.inner_work_dir = survey.place  # the work dir as programs in the room see it
        made = {path for path in survey.made.split("\0") if path}
        submodules = {path for path in survey.submodules.split("\0") if path}
        self._setup_files = sorted((made | submodules) - set(survey.environments.split("\0")))
        self._kept_patterns = ["/" + _escape_pattern(path) for path in sorted(made)]
        self._virtualenv = _choose_virtualenv(survey.environments.split("\0"))
        protected_names = [".git", *(name.rstrip("/") for name in survey.environments.split("\0") if name)]
        self._protected = dict(zip(protected_names, survey.identities.split("\0"), strict=True))
        self.keeps_bytecode = False  # True for a trusted commit: a test can write bytecode that other tests would run
        isolation = RoomIsolation(description="none")
        self.env: dict[str, str] = {}  # added to every command's environment
        if sandbox_builder is not None:
            isolation = sandbox_builder.build(lambda argv: self._execute_on_host(argv, _HOST_GRACE_SECONDS), survey)
        self.isolation = isolation.description
        self._limits, self._sandbox = isolation.limits, isolation.sandbox

    def prepare_for_reuse(self) -> None:
        """Forget what the last user set and left, so that the next one finds a clean room as a new one."""
        self.env = {}
        self._must_clean = True

    def replace_by(self, other: CleanRoom) -> None:
        """Use another workspace of the same commit from now on."""
        vars(self).update({**vars(other), "env": self.env, "renew": self.renew})

    def switch_commit(self, commit: str, repo: str) -> None:
        """Replace the files of the commit that was set up by those of the commit under test. Set-up's files stay."""
        local = self._fleet.context.local_host
        commit, tree = git.run_checked(
            local, repo, "rev-parse", f"{commit}^{{commit}}", f"{commit}^{{tree}}", git_command=git.SAFE_GIT
        ).split()
        self._fleet.send_commit(self.name, repo, commit)
        job = CleanRoomJob(commit=commit, keep=self._kept_patterns, lfs_store=self.lfs_store, protected=self._protected)
        self._run_program(job)
        self.commit, self.tree = commit, tree

    def run(
        self,
        argv: list[str],
        *,
        env: dict[str, str] | None = None,
        timeout: float | None = None,
        clean: bool = True,
        max_output: int = 1 << 16,
        observer: Observer | None = None,
        stall: float | None = None,
    ) -> CommandOutcome:
        """Clean the work dir and run a command there; keep the last `max_output` bytes of each output stream.

        `observer` is for a command that loads the module `mngr_observer`. `stall` interrupts a command whose observer has not
        reported anything for so many seconds.
        Raises MngrError when the clean room fails.
        """
        job = CleanRoomJob(
            argv=argv,
            env={**self.env, **(env or {})},
            virtualenv=self._virtualenv,
            timeout=timeout,
            stall=stall,
            most=max_output,
            most_used=self._limits,
            sandbox=self._sandbox,
            protected=self._protected,
        )
        if clean or self._must_clean:
            kept_patterns = [*self._kept_patterns, *(["__pycache__"] if self.keeps_bytecode else [])]
            job = job.replace(commit=self.commit, keep=kept_patterns, lfs_store=self.lfs_store)
            job = job.replace(setup_files=self._setup_files)
        if observer is not None:
            request = json.dumps({"repo": self.repo, **encode(observer.settings)})
            job = job.replace(observer=observer.program, env={**job.env, "MNGR_OBSERVER": request})
        try:
            numbers, texts = self._run_program(job, timeout)
        except SetupFilesChanged:
            self.renew()
            return self.run(argv, env=env, timeout=timeout, max_output=max_output, observer=observer, stall=stall)
        self._must_clean = False
        rows = [row for line in texts["rows"].splitlines() if (row := parse_row(line)) is not None]
        output = [texts["out"], texts["err"], rows]
        leftover, was_signalled = int(numbers["left"]), int(numbers["hit"])
        findings = list_violations(
            texts["ended"], leftover, was_signalled, output, is_sandboxed=job.sandbox is not None
        )
        return CommandOutcome(
            code=int(numbers["code"]),
            out=escape_control_characters(texts["out"]),
            err=escape_control_characters(texts["err"]),
            seconds=numbers["seconds"],
            cpu=numbers["cpu"],
            timed_out=bool(numbers["timed_out"]),
            timeout=timeout or stall,
            leftover_processes=leftover,
            is_output_cut=bool(numbers["cut"]),
            observer_rows=escape_control_characters(rows),
            stop_reason=texts["ended"].partition(" ")[2],
            findings=findings,
        )

    def read(self, path: str) -> bytes:
        """Return a file of the work dir as the last command left it; raise MngrError when it cannot be read."""
        outcome = self.run(["base64", "--", path], clean=False, max_output=_MAX_FILE_BYTES)
        if outcome.code:
            raise MngrError(
                f"cannot read {path!r} in the clean room {self.name}: {outcome.err.strip() or f'exit code {outcome.code}'}"
            )
        return base64.b64decode(outcome.out)

    def write(self, path: str, data: bytes) -> None:
        """Write a file in the work dir. The next clean command removes or restores it. Raises MngrError."""
        script = 'mkdir -p "$(dirname "$1")" && printf %s "$2" | base64 -d >>"$1"'
        chunks = [data[position : position + _MAX_ARG_BYTES] for position in range(0, len(data), _MAX_ARG_BYTES)] or [
            b""
        ]
        for position, chunk in enumerate(chunks):
            truncate = ': >"$1" && ' if position == 0 else ""
            encoded = base64.b64encode(chunk).decode()
            outcome = self.run(
                ["sh", "-c", script.replace(" && printf", f" && {truncate}printf", 1), "write", path, encoded],
                clean=False,
            )
            if outcome.code:
                raise MngrError(
                    f"cannot write {path!r} in the clean room {self.name}: {outcome.err.strip() or f'exit code {outcome.code}'}"
                )

    def pull(self, path: str, target: str) -> str:
        """Copy a file or directory of the work dir to `target` and return the final path; reject links out of it."""
        folder = os.path.dirname(os.path.join(self.inner_work_dir, path))
        resolved = self.run(["sh", "-c", 'cd -P -- "$1" && pwd -P', "pull", folder], clean=False)
        if not f"{resolved.out.rstrip()}/".startswith(f"{self.inner_work_dir}/"):
            raise MngrError(f"{path!r} is outside the work dir of the clean room {self.name}")
        return self._fleet.pull_path(self.name, path, target)

    def _run_program(self, job: CleanRoomJob, timeout: float | None = None) -> tuple[dict[str, float], dict[str, str]]:
        """Run the clean room program and return the numbers and texts of its answer."""
        argv = [*self._program_args, repr(encode(job))]
        result = self._execute_on_host(argv, None if timeout is None else timeout + _HOST_GRACE_SECONDS)
        return self._parse_answer(result.stdout, result.stderr)

    def _execute_on_host(self, argv: list[str], timeout: float | None) -> RoomOutput:
        # mngr's own programs use the host's Python: set-up decides what lies in the workspace's environment.
        outcome = self._fleet.exec([self.name], argv, timeout=timeout, activate=False)[0]
        if not outcome.extra.get("started"):
            error_type = Unreachable if outcome.exit_code == Unreachable.exit_code else CleanRoomBroken
            raise error_type(f"{self.name}: {outcome.error}", outcome.hint)
        return decode(RoomOutput, outcome.extra)

    def _parse_answer(self, out: str, err: str) -> tuple[dict[str, float], dict[str, str]]:
        """Return an answer's numbers and texts; raise CleanRoomBroken when it is unreadable or reports a problem."""
        head, _, rest = out.partition("\n")
        try:
            numbers = json.loads(head)
        except ValueError:
            error_lines = (err or head).strip().splitlines() or ["it printed nothing"]
            raise CleanRoomBroken(
                f"mngr's program in the clean room {self.name} failed: {error_lines[-1]}",
                "install python3 (3.9 or newer) and git on the host of the clean room, then run the same command again",
            ) from None
        texts: dict[str, str] = {}
        for name, length in numbers.pop("texts").items():
            texts[name], rest = rest[:length], rest[length:]
        if "replaced" in texts:
            raise MngrError(f"mngr did not run the tests: {texts['replaced']}", "look at the commit: git show --stat")
        if "changed" in texts:
            reason = f"a test changed {texts['changed']}, which set-up created"
            raise SetupFilesChanged(f"the clean room {self.name} is used up: {reason}", "run the same command again")
        if "broken" in texts:
            raise CleanRoomBroken(
                f"the clean room {self.name} is broken: {texts['broken']}", "run the same command again"
            )
        return numbers, texts


def _choose_virtualenv(names: list[str]) -> str:
    """Return the environment that is active in a clean room: `.venv`, or the first one that set-up created."""
    stripped = [name.rstrip("/") for name in names if name]
    return ".venv" if ".venv" in stripped else next(iter(stripped), "")


def parse_row(line: str) -> ObserverRow | None:
    """Return a row of the observer's report, or None for an incomplete one."""
    try:
        row = parse_json(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and isinstance(row.get("row"), str) else None


def _escape_pattern(path: str) -> str:
    """Return a path as a git pattern that matches nothing else."""
    return "".join(f"\\{char}" if char in "\\*?[]!#" else char for char in path)
