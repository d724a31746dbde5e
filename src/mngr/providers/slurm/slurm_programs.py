"""Slurm's programs: called with a clean environment, here or on a machine of the cluster, and what they say of jobs."""

from __future__ import annotations

import os
import time

from mngr.base import clock, shell
from mngr.base.errors import EngineBusy, MngrError, TimedOut, Unreachable
from mngr.base.model import Struct
from mngr.host import scripts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mngr.base.shell import ProcessResult

CALL_TIMEOUT = 20.0  # seconds for what the controller does at once
SILENCE_SECONDS = 5.0  # seconds for which one that did not answer is not asked again: each question costs 10
# What a job finds of ours. All else stays here: a variable of Slurm's own would count as an option, others may be secrets.
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
ARRAY_JOB_NAME = "mngr-hosts"  # the name of jobs for several hosts
_COMMENT_PREFIX = (
    "mngr"  # then the key of a home, NAME-TAG of each host with commas, and the directory that their own ones are in
)
_NODE_COMMENT_PREFIX = "mngr-node"  # in its place where the files are on the disk of the node
_QUEUE_FORMAT = "%i|%A|%t|%r|%L|%K|%k"


class SlurmJob(Struct):
    """A job of ours that is in the queue or was until just now."""

    id: str  # as squeue and scancel take it; of an array's elements ARRAY_ELEMENT
    number: str  # as srun takes it: an element has its own as soon as it runs
    state: str  # as two letters: PD, R, CG, TO, …
    reason: str  # why it is pending
    ends_at: str | None  # by its time limit
    name: str
    home_key: str
    tag: str
    host_dir: str
    is_shared: bool  # its files are not on the disk of its node


class SlurmPrograms:
    """Runs Slurm's programs. `through` is a command that hands a line on to a shell where they are, as `ssh login` does."""

    def __init__(self, through: Sequence[str]) -> None:
        self._through = list(through)
        self._away: tuple[float, Unreachable] | None = None

    def build_argv(self, words: Sequence[str], *, terminal: bool = False) -> list[str]:
        """What to run here for one of Slurm's programs."""
        given = [f"TERM={os.environ.get('TERM', 'xterm')}"] if terminal else []
        if not self._through:
            own = [f"{name}={os.environ[name]}" for name in _KEPT_VARIABLES if name in os.environ]
            return ["env", "-i", *own, *given, *words]
        own = [f'${{{name}+{name}="${name}"}}' for name in _KEPT_VARIABLES]
        line = scripts.format_one_line(f"exec env -i {' '.join(own)} {shell.join([*given, *words])}")
        is_ssh = os.path.basename(self._through[0]) == "ssh"
        return [*self._through, *(["-t"] if terminal and is_ssh else []), line]

    def run(self, *words: str, stdin: bytes = b"", timeout: float = CALL_TIMEOUT) -> ProcessResult:
        """How it ended; Unreachable when the controller does not answer."""
        if self._away is not None and time.monotonic() < self._away[0] + SILENCE_SECONDS:
            raise self._away[1]
        try:
            result = shell.run(self.build_argv(words), stdin=stdin, timeout=timeout)
        except TimedOut:
            raise self._note_silence(f"{words[0]} did not answer within {timeout:g}s") from None
        said = result.err.decode("utf-8", "replace").lower()
        is_lost = self._through and result.code > 128  # 255, or ended by a signal
        if result.code and (is_lost or any(word in said for word in _UNREACHABLE_MESSAGES)):
            raise self._note_silence(f"Slurm does not answer: {parse_error(result)}")
        if result.code == 127 and words[0] != "sh":
            hint = "install Slurm's programs, or say where they are: [providers.slurm] through"
            raise MngrError(f"there is no {words[0]}", hint)
        return result

    def _note_silence(self, message: str) -> Unreachable:
        error = Unreachable(message, "try: sinfo")
        self._away = (time.monotonic(), error)
        return error

    def submit(self, arguments: Sequence[str], script: str) -> str:
        """The number of a new job; Busy when there may be no more just now."""
        result = self.run("sbatch", "--parsable", *arguments, stdin=script.encode())
        if result.code == 0:
            return result.text.strip().split("\n")[-1].partition(";")[0]
        said = parse_error(result)
        if any(word in said.lower() for word in _BUSY_MESSAGES):
            raise EngineBusy(f"Slurm takes no more jobs now: {said}", "wait until others have ended")
        raise MngrError(f"Slurm does not take the job: {said}", "check what is asked for: sinfo -l")

    def list_jobs(self, *which: str) -> list[SlurmJob]:
        """Our jobs in the queue, of this user; those that `which` says, as words of squeue."""
        result = self.run("squeue", "-h", "-r", "--me", "-o", _QUEUE_FORMAT, *which)
        if result.code:
            if b"invalid job id" in result.err.lower():
                return []
            raise MngrError(f"the queue cannot be read: {parse_error(result)}", "try: squeue --me")
        return [job for line in result.text.splitlines() if (job := _parse_job(line)) is not None]

    def cancel(self, ids: Sequence[str]) -> None:
        """End jobs; that one is over already is no trouble."""
        result = self.run("scancel", *ids)
        if result.code and b"invalid job id" not in result.err.lower():
            raise MngrError(f"the job could not be cancelled: {parse_error(result)}", "try: squeue --me")

    def run_shell(self, program: str, *words: str) -> ProcessResult:
        """Run a shell program where Slurm's programs are."""
        return self.run("sh", "-c", program, "sh", *words, timeout=600.0)


def build_comment(whose: str, places: Sequence[str], *, is_shared: bool) -> str:
    """What marks a job as ours, and says which host each of its elements is."""
    mark = _COMMENT_PREFIX if is_shared else _NODE_COMMENT_PREFIX
    return f"{mark} {whose} {','.join(map(os.path.basename, places))} {os.path.dirname(places[0])}"


def _parse_job(line: str) -> SlurmJob | None:
    id_, number, state, reason, left, element, said = [*line.split("|", 6), *[""] * 6][:7]
    words = said.split(" ", 3)
    if len(words) != 4 or words[0] not in (_COMMENT_PREFIX, _NODE_COMMENT_PREFIX):
        return None
    own = [*words[2].split(","), ""][int(element) if element.isdecimal() else 0]
    name, _, tag = own.rpartition("-")
    ends = None if (seconds := _parse_duration(left)) is None else clock.format_timestamp(time.time() + seconds)
    return SlurmJob(
        id=id_, number=number, state=state, reason=reason, ends_at=ends, name=name, tag=tag,
        home_key=words[1], host_dir=f"{words[3]}/{own}", is_shared=words[0] == _COMMENT_PREFIX,
    )  # fmt: skip


def _parse_duration(text: str) -> int | None:
    """What `[[DAYS-]HOURS:]MINUTES:SECONDS` comes to; None for what is no time."""
    days, _, rest = ("0-" + text if "-" not in text else text).partition("-")
    parts = rest.split(":")
    if len(parts) < 2 or not all(part.isdecimal() for part in (days, *parts)):
        return None
    total = 0
    for part in parts:
        total = total * 60 + int(part)
    return total + int(days) * 86400


def parse_error(result: ProcessResult) -> str:
    """What is wrong, without the name of who says it."""
    said = result.error_line
    for preface in (
        "sbatch: ",
        "squeue: ",
        "scancel: ",
        "srun: ",
        "error: ",
        "Batch job submission failed: ",
    ):
        said = said.removeprefix(preface)
    return said
