"""Builds the sandbox and the resource limits of a clean room, and finds violations in what a command did.

The clean room program starts bubblewrap around every command, but never around the project's set-up. Inside the
sandbox a shell is the command's parent: it sets limits, and reports at the end how many processes were left.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

from mngr.agents.context import Context
from mngr.agents.inspect import find
from mngr.agents.sandbox import scoped_sockets, seccomp, visible_files
from mngr.agents.sandbox.bubblewrap import ISOLATION_FLAGS
from mngr.agents.sandbox.host_isolation import KERNEL_FEATURES, SandboxUnavailable, check_isolation
from mngr.base.json_structs import encode
from mngr.base.model import Struct
from mngr.tmr.finding import Finding

CLEAN_ROOM_HOME = "/home/room"  # $HOME inside a sandboxed clean room
_MAX_OBSERVER_BYTES = 1 << 26  # bytes of the observer's report
_MAX_OPEN_FILES = 4096  # per process
_MAX_TMP_BYTES = 1 << 30  # bytes in the home, in /tmp and in shared memory, each
_BIN_DIRS = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")
_INSTALL_HINT = "install bubblewrap 0.8 or newer on that host, or run without a sandbox: add --isolation off"
# The shell passes its streams to the command and drops its own errors. Descriptor 8 reports to the clean room program.
_PARENT_SCRIPT = """\
trap : INT # mngr itself may send this signal
trap hit=1 HUP QUIT TERM USR1 USR2 ALRM
exec 7>&2 2>/dev/null
ulimit -c 0; ulimit -f {blocks}; ulimit -n {files}; ulimit -u {processes} || ulimit -p {processes}
echo begun >&8
(exec "$@" 2>&7 7>&- 8>&-)
code=$?
left=-2 # this shell and the first process of the sandbox do not count
for at in /proc/[0-9]*; do
    read -r row <"$at/stat" && case $row in *") Z "*) ;; *) left=$((left + 1)) ;; esac
done
echo $left ${{hit:-0}} >&8
exit $code
"""


class RoomSurvey(Struct):
    """The directories of a new clean room and the files that set-up created in it, as the clean room program reports."""

    at: str  # the commit and its tree
    place: str  # the work dir as programs in the clean room see it
    outputs: str
    host: str
    kept: str  # the directory with mngr's programs
    python: str  # the interpreter that runs mngr's programs; `python3` can be a slow script that only finds it
    made: str  # paths that set-up created outside git; lists are joined with a NUL
    submodules: str  # their paths
    environments: str  # those of the created paths that are virtual environments
    pythons: str  # their interpreters
    identities: str  # those of the repository and of the virtual environments


class RoomOutput(Struct):
    """The end of a command that ran in a clean room without the clean room program around it."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def last_error_line(self) -> str:
        """The last line of the errors, or the exit code."""
        lines = self.stderr.strip().splitlines()
        return lines[-1] if lines else f"exit code {self.exit_code}"


class VisibleFilesOptions(Struct):
    """The options of `build_clean_room_args` in visible_files.py."""

    size: int
    own: str
    show: list[str]
    network: bool


class SandboxCheckRequest(Struct):
    """The request for sandbox_check.py."""

    view: str  # the text of visible_files.py
    places: tuple[str, ...]  # directories that may have bubblewrap
    flags: list[str]
    program: str
    facts: VisibleFilesOptions
    environments: list[str]


class ResourceLimits(Struct):
    """The most that a command may use."""

    processes: int
    memory: int
    disk: int


class SandboxJob(Struct):
    """The sandbox part of a job for the clean room program."""

    words: list[str]  # bubblewrap and its arguments
    last: list[str]  # its last arguments, and the shell that is the command's parent
    filter: bytes  # for system calls
    env: dict[str, str]


class CleanRoomJob(Struct):
    """A job for the clean room program, which reads it as a Python literal."""

    argv: list[str] = []  # the command to run, if any
    env: dict[str, str] = {}
    virtualenv: str = ""  # the Python environment that is active for the command, relative to the work dir
    timeout: float | None = None
    stall: float | None = None  # seconds without a new row of the observer
    most: int = 0  # bytes to keep of each output stream
    most_rows: int = _MAX_OBSERVER_BYTES
    most_used: ResourceLimits | None = None
    sandbox: SandboxJob | None = None
    observer: str | None = None  # the text of the observer, if the command loads it
    commit: str | None = None  # first clean the work dir to this commit
    keep: list[str] = []  # patterns of the files that cleaning keeps
    setup_files: list[str] = []  # paths outside of Python environments that set-up created
    lfs_store: str = ""  # the directory with the contents of git-lfs files
    protected: dict[str, str] = {}  # directories that tests cannot write, and their identities
    programs: dict[str, str] | None = None  # first install these programs and survey the clean room


class RoomIsolation(Struct):
    """What separates the commands of a clean room from the host."""

    description: str  # for people: on, on with the network, or why there is no sandbox
    limits: ResourceLimits | None = None
    sandbox: SandboxJob | None = None


class CleanRoomSandbox(Struct):
    """The settings of a clean room's sandbox: network access (off by default) and resource limits."""

    network: bool = False
    program: str = "python3"  # runs the tests; it may be outside PATH
    visible_paths: list[str] = []  # further paths that are readable
    processes: int = 2000  # processes and threads at the same time
    memory: int = 4 << 30  # bytes, all processes together
    disk: int = 2 << 30  # bytes that one run may write

    def build_check_request(self, environments: list[str]) -> SandboxCheckRequest:
        """Return the request for sandbox_check.py; `environments` are the clean room's virtual environments."""
        with open(visible_files.__file__, encoding="utf-8") as file:
            visible_files_program = file.read()
        return SandboxCheckRequest(
            view=visible_files_program,
            places=_BIN_DIRS,
            flags=[*ISOLATION_FLAGS, "--new-session", *(["--share-net"] if self.network else [])],
            program=self.program,
            facts=VisibleFilesOptions(
                size=min(_MAX_TMP_BYTES, self.disk),
                own=CLEAN_ROOM_HOME,
                show=self.visible_paths,
                network=self.network,
            ),
            environments=environments,
        )

    def build_job(self, sandbox_args: list[str], work: str, outputs: str, environments: list[str]) -> SandboxJob:
        """Return the sandbox part of a job; all clean rooms of a host share the `sandbox_args`.

        `environments` are the virtual environments in the work dir, which tests cannot change.
        """
        observer_dir = os.path.join(outputs, "tmr")
        binds = ["--bind", work, work]
        for name in (".git", *environments):
            binds += ["--ro-bind", f"{work}/{name}", f"{work}/{name}"]
        binds += ["--bind", outputs, outputs, "--ro-bind", observer_dir, observer_dir]
        # The kernel allows twice the process limit, because mngr cannot see a fork that the kernel refuses.
        parent_script = _PARENT_SCRIPT.format(
            blocks=self.disk >> 9, files=_MAX_OPEN_FILES, processes=2 * self.processes
        )
        scope = scoped_sockets.WORDS if self.network else ()
        return SandboxJob(
            words=[*sandbox_args, *binds],
            last=["--chdir", work, "--remount-ro", "/", "--", *scope, "/bin/sh", "-c", parent_script, "room"],
            filter=seccomp.build_filter(),
            env={"HOME": CLEAN_ROOM_HOME},
        )


def parse_isolation(isolation: str, program: str, show: list[str]) -> CleanRoomSandbox | None:
    """Return the sandbox that `--isolation` asks for with on or network, or None for off.

    `program` is the program that runs the tests. `show` lists paths that a sandbox may read.
    """
    if isolation == "off":
        return None
    return CleanRoomSandbox(
        network=isolation == "network", program=program, visible_paths=[os.path.expanduser(path) for path in show]
    )


def require_isolation(ctx: Context, on: str) -> None:
    """Raise SandboxUnavailable if the host of `on` cannot isolate tests. An empty `on` is this machine.

    A host that does not exist yet is checked by its first clean room.
    """
    if on.startswith("@."):
        return
    host = find.get_host(ctx, find.parse_address(ctx, on)) if on else ctx.local_host
    isolation = check_isolation(host)
    if isolation.problem:
        raise _make_refusal("this machine" if host.is_local else host.name, isolation.problem, isolation.hint)


def _make_refusal(host_name: str, problem: str, hint: str) -> SandboxUnavailable:
    return SandboxUnavailable(f"mngr cannot isolate the tests on {host_name}: {problem}", hint)


class SandboxBuilder:
    """Builds the sandboxes of a run's clean rooms; checks each host only once."""

    def __init__(self, sandbox: CleanRoomSandbox) -> None:
        self._sandbox = sandbox
        self._built: dict[tuple[str, str], _WorkingSandbox] = {}

    def build(self, run_in_room: Callable[[list[str]], RoomOutput], survey: RoomSurvey) -> RoomIsolation:
        """Return the clean room's isolation. `run_in_room` runs a command in the clean room.

        Raises SandboxUnavailable if the host has no working bubblewrap: tests never run without the sandbox.
        """
        sandbox, key = self._sandbox, (survey.host, survey.pythons)
        environments = [name for name in survey.environments.split("\0") if name]
        if key not in self._built:
            self._built[key] = _try_sandbox(run_in_room, sandbox.build_check_request(environments), survey.host)
        working = self._built[key]
        network = "network open" if sandbox.network else "no network"
        return RoomIsolation(
            description=f"{working.version}, {KERNEL_FEATURES}; {network}",
            limits=ResourceLimits(processes=sandbox.processes, memory=sandbox.memory, disk=sandbox.disk),
            sandbox=sandbox.build_job(working.args, survey.place, survey.outputs, environments),
        )


class _WorkingSandbox(Struct):
    """The bubblewrap arguments that work on a host, and bubblewrap's version."""

    args: list[str]
    version: str


def _try_sandbox(
    run_in_room: Callable[[list[str]], RoomOutput], request: SandboxCheckRequest, host_name: str
) -> _WorkingSandbox:
    """Return a sandbox that works. Raise SandboxUnavailable if there is none."""
    with open(os.path.join(os.path.dirname(__file__), "sandbox_check.py"), encoding="utf-8") as file:
        answer = run_in_room(["python3", "-I", "-S", "-c", file.read(), repr(encode(request))])
    if answer.exit_code:
        raise _make_refusal(host_name, answer.last_error_line, _INSTALL_HINT)
    check = json.loads(answer.stdout)
    sandbox_args = [str(arg) for arg in check["words"]]
    if not sandbox_args:
        raise _make_refusal(host_name, str(check["why"]), _INSTALL_HINT)
    trial = run_in_room([*sandbox_args, "--", "/bin/sh", "-c", ":"])
    if trial.exit_code:
        raise _make_refusal(host_name, f"bubblewrap does not work: {trial.last_error_line}", _INSTALL_HINT)
    version = run_in_room([sandbox_args[0], "--version"])
    return _WorkingSandbox(args=sandbox_args, version=version.stdout.strip() or "bubblewrap")


# Find violations

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_COLOUR_CODE = re.compile(r"\x1b\[[0-9;:]*m")
_VISIBLE_CODES = {code: f"\\x{code:02x}" for code in (*range(9), *range(11, 32), *range(127, 160))}
_OUTPUT_RULES = (
    (
        "clean-room-outside",
        r"\[Errno 30\]|EROFS|[Rr]ead-only file system",
        "it tried to write outside its workspace; the sandbox prevented that",
    ),
    (
        "clean-room-network",
        r"\[Errno 101\]|ENETUNREACH|[Nn]etwork is unreachable|EAI_AGAIN|[Tt]emporary failure in name resolution",
        "it tried to use the network, which a clean room does not have",
    ),
    (
        "clean-room-disk",
        r"\[Errno 2[78]\]|ENOSPC|EFBIG|[Nn]o space left on device|File (size limit exceeded|too large)",
        "it tried to write more than the disk limit of a clean room allows",
    ),
)


def escape_control_characters(value: Any) -> Any:
    """Return the value without colours, and with all other control characters made visible."""
    if isinstance(value, str):
        if not _CONTROL_CHARACTERS.search(value):
            return value
        return _COLOUR_CODE.sub("", value).replace("\r\n", "\n").translate(_VISIBLE_CODES)
    if isinstance(value, list):
        return [escape_control_characters(item) for item in value]
    if isinstance(value, dict):
        return {escape_control_characters(key): escape_control_characters(item) for key, item in value.items()}
    return value


def list_violations(
    stop_reason: str, leftover: int, was_signalled: int, texts: list[Any], *, is_sandboxed: bool
) -> list[Finding]:
    """Return findings about a command that broke the rules of a clean room.

    `stop_reason` is the rule that it was stopped for and a sentence, `leftover` the number of processes that it left.
    `was_signalled` is 1 when its parent got a signal. `texts` is its output.
    """
    findings: list[Finding] = []
    if stop_reason:
        rule, _, what = stop_reason.partition(" ")
        findings.append(_make_finding(rule, "refuse", what))
    elif was_signalled:
        findings.append(_make_finding("clean-room-parent", "note", "it sent a signal to its parent process"))
    if leftover > 0:
        count = "a process" if leftover == 1 else f"{leftover} processes"
        findings.append(_make_finding("clean-room-left", "note", f"it left {count} running; mngr ended what was left"))
    output = "\n".join(_iter_strings(texts))
    if _CONTROL_CHARACTERS.search(_COLOUR_CODE.sub("", output)):
        what = "it printed terminal control codes; mngr shows them as plain text"
        findings.append(_make_finding("clean-room-escape", "note", what))
    for rule, pattern, what in _OUTPUT_RULES if is_sandboxed else ():
        if rule not in {finding.rule for finding in findings} and re.search(pattern, output):
            findings.append(_make_finding(rule, "note", what))
    return findings


def _make_finding(rule: str, level: str, what: str) -> Finding:
    return Finding(rule=rule, level=level, path="", what=what)


def _iter_strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _iter_strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _iter_strings(item)
