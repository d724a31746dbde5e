"""Slurm's programs: called with a clean environment, here or on a machine of the cluster, and what they say of jobs."""

from __future__ import annotations

import os
import time

from mngr import clock, onhost, shell
from mngr.errors import Busy, MngrError, TimedOut, Unreachable
from mngr.model import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mngr.shell import Result

PATIENCE = 20.0  # seconds for what the controller does at once
# What a job finds of ours. All else stays here: a variable of Slurm's own would count as an option, others may be secrets.
_KEPT = ("HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "SLURM_CONF")
_AWAY = (
    "unable to contact slurm controller",
    "socket timed out",
    "connection refused",
    "could not establish a configuration source",
    "zero bytes were transmitted",
    "unable to resolve",
    "protocol authentication error",
)
_FULL = ("submit limit", "submitjob", "temporarily unable to accept", "resource temporarily unavailable")
_COMMENT = "mngr"  # then the key of a home, the tag of a host, and where its files are
_ROW = "%i|%t|%r|%L|%j|%k"


class Job(Record):
    """A job of ours that is in the queue or was until just now."""

    id: str
    state: str  # as two letters: PD, R, CG, TO, …
    reason: str  # why it is pending
    ends_at: str | None  # by its time limit
    name: str
    whose: str
    tag: str
    place: str


class Calls:
    """Runs Slurm's programs. `through` is a command that hands a line on to a shell where they are, as `ssh login` does."""

    def __init__(self, through: Sequence[str]) -> None:
        self._through = list(through)

    def argv(self, words: Sequence[str], *, terminal: bool = False) -> list[str]:
        """What to run here for one of Slurm's programs."""
        given = [f"TERM={os.environ.get('TERM', 'xterm')}"] if terminal else []
        if not self._through:
            own = [f"{name}={os.environ[name]}" for name in _KEPT if name in os.environ]
            return ["env", "-i", *own, *given, *words]
        own = [f'${{{name}+{name}="${name}"}}' for name in _KEPT]
        line = onhost.line(f"exec env -i {' '.join(own)} {shell.join([*given, *words])}")
        is_ssh = os.path.basename(self._through[0]) == "ssh"
        return [*self._through, *(["-t"] if terminal and is_ssh else []), line]

    def run(self, *words: str, stdin: bytes = b"", timeout: float = PATIENCE) -> Result:
        """How it ended; Unreachable when the controller does not answer."""
        try:
            result = shell.run(self.argv(words), stdin=stdin, timeout=timeout)
        except TimedOut:
            raise Unreachable(f"{words[0]} did not answer within {timeout:g}s", "try: sinfo") from None
        said = result.err.decode("utf-8", "replace").lower()
        if result.code and ((result.code == 255 and self._through) or any(word in said for word in _AWAY)):
            raise Unreachable(f"Slurm does not answer: {complaint(result)}", "try: sinfo")
        return result

    def submit(self, arguments: Sequence[str], script: str) -> str:
        """The number of a new job; Busy when there may be no more just now."""
        result = self.run("sbatch", "--parsable", *arguments, stdin=script.encode())
        if result.code == 0:
            return result.text.strip().split("\n")[-1].partition(";")[0]
        said = complaint(result)
        if any(word in said.lower() for word in _FULL):
            raise Busy(f"Slurm takes no more jobs now: {said}", "wait until others have ended")
        raise MngrError(f"Slurm does not take the job: {said}", "check what is asked for: sinfo -l")

    def jobs(self, *which: str) -> list[Job]:
        """Our jobs in the queue, of this user; those that `which` says, as words of squeue."""
        result = self.run("squeue", "-h", "--me", "-o", _ROW, *which)
        if result.code:
            if b"invalid job id" in result.err.lower():
                return []
            raise MngrError(f"the queue cannot be read: {complaint(result)}", "try: squeue --me")
        return [job for line in result.text.splitlines() if (job := _job(line)) is not None]

    def cancel(self, ids: Sequence[str]) -> None:
        """End jobs; that one is over already is no trouble."""
        result = self.run("scancel", *ids)
        if result.code and b"invalid job id" not in result.err.lower():
            raise MngrError(f"the job could not be cancelled: {complaint(result)}", "try: squeue --me")

    def sh(self, program: str, *words: str) -> Result:
        """Run a shell program where Slurm's programs are."""
        return self.run("sh", "-c", program, "sh", *words, timeout=600.0)


def comment(whose: str, tag: str, place: str) -> str:
    """What marks a job as ours."""
    return f"{_COMMENT} {whose} {tag} {place}"


def _job(line: str) -> Job | None:
    number, state, reason, left, name, said = [*line.split("|", 5), "", "", "", "", ""][:6]
    words = said.split(" ", 3)
    if len(words) != 4 or words[0] != _COMMENT:
        return None
    ends = None if (seconds := _seconds(left)) is None else clock.stamp(time.time() + seconds)
    whose, tag, place = words[1:]
    return Job(
        id=number, state=state, reason=reason, ends_at=ends, name=name, whose=whose, tag=tag, place=place
    )


def _seconds(text: str) -> int | None:
    """What `[[DAYS-]HOURS:]MINUTES:SECONDS` comes to; None for what is no time."""
    days, _, rest = ("0-" + text if "-" not in text else text).partition("-")
    parts = rest.split(":")
    if len(parts) < 2 or not all(part.isdecimal() for part in (days, *parts)):
        return None
    total = 0
    for part in parts:
        total = total * 60 + int(part)
    return total + int(days) * 86400


def complaint(result: Result) -> str:
    """What is wrong, without the name of who says it."""
    said = result.problem
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
