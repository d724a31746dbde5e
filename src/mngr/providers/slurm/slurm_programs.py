"""Runs Slurm's programs in a clean environment, here or on a login node, and parses their output."""

from __future__ import annotations

import os
import time

from mngr.base import shell, time_format
from mngr.base.errors import EngineBusy, MngrError, TimedOut, Unreachable
from mngr.base.model import Struct
from mngr.host import scripts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mngr.base.shell import ProcessResult

CALL_TIMEOUT = 20.0  # seconds; for calls that the controller answers at once
SILENCE_SECONDS = 5.0  # After a call without an answer (it costs 10 s), calls fail at once for this time.
# The variables that a job inherits. Others could be secrets, and Slurm reads its own variables as options.
_KEPT_VARIABLES = (
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "PATH",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "SLURM_CONF",
)
_UNREACHABLE_MESSAGES = (
    "unable to contact slurm controller",
    "socket timed out",
    "connection refused",
    "could not establish a configuration source",
    "zero bytes were transmitted",
    "unable to resolve",
    "protocol authentication error",
)
_BUSY_MESSAGES = (
    "submit limit",
    "submitjob",
    "temporarily unable to accept",
    "resource temporarily unavailable",
)
ARRAY_JOB_NAME = "mngr-hosts"  # the name of an array of jobs for several hosts
_COMMENT_PREFIX = "mngr"  # followed by the home's key, NAME-TAG of each host (with commas) and their parent directory
_NODE_COMMENT_PREFIX = "mngr-node"  # the same for hosts whose files are on the disk of the node
_QUEUE_FORMAT = "%i|%A|%t|%r|%L|%K|%k"


class SlurmJob(Struct):
    """A job of mngr that is in the queue or has just left it."""

    id: str  # for squeue and scancel; ARRAY_ELEMENT for an element of an array
    number: str  # for srun; an element of an array gets its number when it starts
    state: str  # Slurm's short form: PD, R, CG, TO, …
    reason: str  # why it is pending
    ends_at: str | None  # when it reaches its time limit
    name: str
    home_key: str
    tag: str
    host_dir: str
    is_shared: bool  # its files are on the cluster's shared disk


class SlurmPrograms:
    """Runs Slurm's programs. `through` is a command, such as `ssh login`, that runs a line where they are."""

    def __init__(self, through: Sequence[str]) -> None:
        self._through = list(through)
        self._last_failure: tuple[float, Unreachable] | None = None

    def build_argv(self, words: Sequence[str], *, terminal: bool = False) -> list[str]:
        """Return the local command that runs one of Slurm's programs."""
        terminal_variables = [f"TERM={os.environ.get('TERM', 'xterm')}"] if terminal else []
        if not self._through:
            variables = [f"{name}={os.environ[name]}" for name in _KEPT_VARIABLES if name in os.environ]
            return ["env", "-i", *variables, *terminal_variables, *words]
        variables = [f'${{{name}+{name}="${name}"}}' for name in _KEPT_VARIABLES]
        line = scripts.format_one_line(f"exec env -i {' '.join(variables)} {shell.join([*terminal_variables, *words])}")
        is_ssh = os.path.basename(self._through[0]) == "ssh"
        return [*self._through, *(["-t"] if terminal and is_ssh else []), line]

    def run(self, *words: str, stdin: bytes = b"", timeout: float = CALL_TIMEOUT) -> ProcessResult:
        """Run one of Slurm's programs and return its result. Raise Unreachable if the controller does not answer."""
        if self._last_failure is not None and time.monotonic() < self._last_failure[0] + SILENCE_SECONDS:
            raise self._last_failure[1]
        try:
            result = shell.run(self.build_argv(words), stdin=stdin, timeout=timeout)
        except TimedOut:
            raise self._note_silence(f"{words[0]} did not answer within {timeout:g}s") from None
        stderr = result.err.decode("utf-8", "replace").lower()
        is_lost = self._through and result.code > 128  # 255, or ended by a signal
        if result.code and (is_lost or any(word in stderr for word in _UNREACHABLE_MESSAGES)):
            raise self._note_silence(f"Slurm does not answer: {parse_error(result)}")
        if result.code == 127 and words[0] != "sh":
            hint = "install the programs of Slurm, or name the login node that has them: mngr config set providers.slurm.through HOST"
            raise MngrError(f"the Slurm program {words[0]} is not installed", hint)
        return result

    def _note_silence(self, message: str) -> Unreachable:
        """Return an Unreachable error and remember it for SILENCE_SECONDS."""
        error = Unreachable(message, "see whether Slurm answers: sinfo")
        self._last_failure = (time.monotonic(), error)
        return error

    def submit(self, arguments: Sequence[str], script: str) -> str:
        """Submit a job and return its number. Raise EngineBusy if Slurm accepts no more jobs now."""
        result = self.run("sbatch", "--parsable", *arguments, stdin=script.encode())
        if result.code == 0:
            return result.text.strip().split("\n")[-1].partition(";")[0]
        reason = parse_error(result)
        if any(word in reason.lower() for word in _BUSY_MESSAGES):
            raise EngineBusy(
                f"Slurm accepts no more jobs now: {reason}", "wait until other jobs have ended: squeue --me"
            )
        raise MngrError(
            f"Slurm rejected the job: {reason}", "compare the options of the host with the cluster: sinfo -l"
        )

    def list_jobs(self, *filters: str) -> list[SlurmJob]:
        """Return mngr's jobs of this user in the queue. `filters` are additional arguments of squeue."""
        result = self.run("squeue", "-h", "-r", "--me", "-o", _QUEUE_FORMAT, *filters)
        if result.code:
            if b"invalid job id" in result.err.lower():
                return []
            raise MngrError(f"mngr cannot read the queue: {parse_error(result)}", "see what Slurm reports: squeue --me")
        return [job for line in result.text.splitlines() if (job := _parse_job(line)) is not None]

    def cancel(self, ids: Sequence[str]) -> None:
        """Cancel jobs. A job that has ended is no error."""
        result = self.run("scancel", *ids)
        if result.code and b"invalid job id" not in result.err.lower():
            raise MngrError(f"mngr could not cancel the job: {parse_error(result)}", "see your jobs: squeue --me")

    def run_shell_script(self, script: str, *args: str) -> ProcessResult:
        """Run a shell script on the machine that has Slurm's programs."""
        return self.run("sh", "-c", script, "sh", *args, timeout=600.0)


def build_comment(home_key: str, host_dirs: Sequence[str], *, is_shared: bool) -> str:
    """Return the comment that marks a job as mngr's and names the host of each of its elements."""
    prefix = _COMMENT_PREFIX if is_shared else _NODE_COMMENT_PREFIX
    return f"{prefix} {home_key} {','.join(map(os.path.basename, host_dirs))} {os.path.dirname(host_dirs[0])}"


def _parse_job(line: str) -> SlurmJob | None:
    """Return the job in a line of squeue, or None if it is not a job of mngr."""
    id_, number, state, reason, time_left, element, comment = [*line.split("|", 6), *[""] * 6][:7]
    words = comment.split(" ", 3)
    if len(words) != 4 or words[0] not in (_COMMENT_PREFIX, _NODE_COMMENT_PREFIX):
        return None
    dir_name = [*words[2].split(","), ""][int(element) if element.isdecimal() else 0]
    name, _, tag = dir_name.rpartition("-")
    ends_at = (
        None if (seconds := _parse_duration(time_left)) is None else time_format.format_timestamp(time.time() + seconds)
    )
    return SlurmJob(
        id=id_,
        number=number,
        state=state,
        reason=reason,
        ends_at=ends_at,
        name=name,
        tag=tag,
        home_key=words[1],
        host_dir=f"{words[3]}/{dir_name}",
        is_shared=words[0] == _COMMENT_PREFIX,
    )


def _parse_duration(text: str) -> int | None:
    """Return the seconds of `[[DAYS-]HOURS:]MINUTES:SECONDS`, or None if the text is not a duration."""
    days, _, rest = ("0-" + text if "-" not in text else text).partition("-")
    parts = rest.split(":")
    if len(parts) < 2 or not all(part.isdecimal() for part in (days, *parts)):
        return None
    total = 0
    for part in parts:
        total = total * 60 + int(part)
    return total + int(days) * 86400


def parse_error(result: ProcessResult) -> str:
    """Return the error message of a Slurm program without its prefix."""
    message = result.error_line
    for prefix in (
        "sbatch: ",
        "squeue: ",
        "scancel: ",
        "srun: ",
        "error: ",
        "Batch job submission failed: ",
    ):
        message = message.removeprefix(prefix)
    return message
