"""Runs commands inside a running job. Each command is a job step, started by `srun`."""

from __future__ import annotations

import os
import select
import threading

from mngr.base import shell
from mngr.base.errors import HostGone, HostStopped, MngrError, Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mngr.base.shell import ChildProcess
    from mngr.providers.slurm.slurm_programs import SlurmPrograms

# When srun is killed, Slurm lets the command run on with its input open. So this guard ends the command when srun no
# longer listens. The guard ends with the command, because not every Slurm ends all processes of a step.
_GUARD_SCRIPT = """\
(trap "" HUP; exec </dev/null >/dev/null 2>&1
way=$SLURM_SRUN_COMM_HOST/$SLURM_SRUN_COMM_PORT missed=0
while [ $missed -lt 2 ] && sleep 2; do
    kill -0 $$ || exit
    if timeout 10 bash -c ": <>/dev/tcp/$way"; then missed=0; else missed=$((missed + 1)); fi
    command -v bash || exit
done
trap "" TERM; kill -TERM -$$; sleep 1; kill -KILL -$$) &
guard=$!
"""
# srun forwards only whole lines, unless it does not buffer. Then output is a terminal, so `cat` hides it.
_PLAIN_SCRIPT = """\
trap : INT
{ code=$({ { (eval "$1") 3>&- 4>&-; echo $? >&3; } | (trap "" INT; exec cat >&4 3>&- 4>&-); } 3>&1); } 4>&1
kill "$guard" 2>/dev/null
exit "${code:-255}"
"""
_STEP_OPTIONS = ("--overlap", "--mem=0", "--ntasks=1", "--nodes=1", "--chdir=/")
# srun must not mix its messages into the command's output, and an interrupt is for the command.
_QUIET_OPTIONS = ("-QQ", "--disable-status")
_END_REASONS = {
    "TO": "its job reached its time limit",
    "NF": "its node failed",
    "PR": "Slurm stopped its job in favour of another one",
    "OOM": "its job ran out of memory",
    "F": "its job failed",
    "BF": "its node could not start its job",
    "S": "its job is suspended",
}


class SlurmTransport:
    """The transport to one job."""

    def __init__(
        self, calls: SlurmPrograms, provider: str, host: str, job: str, number: str, *, is_shared: bool
    ) -> None:
        self._calls = calls
        self._place = (provider, host)
        self._job, self._number = job, number
        self._is_shared = is_shared

    def build_argv(self, program: str, *, terminal: bool = False, only: Sequence[str] | None = None) -> list[str]:
        if only is not None:
            program = "exec " + shell.join(["env", "-i", *only, "sh", "-c", program])
        terminal_option = "--pty" if terminal else "--unbuffered"
        words = ["srun", f"--jobid={self._number}", *_STEP_OPTIONS, *_QUIET_OPTIONS, terminal_option]
        step_program = [_GUARD_SCRIPT + program] if terminal else [_GUARD_SCRIPT + _PLAIN_SCRIPT, "sh", program]
        return self._calls.build_argv([*words, "sh", "-c", *step_program], terminal=terminal)

    def start_command(
        self, argv: Sequence[str], streams: tuple[int, int, int], timeout: float | None
    ) -> ChildProcess | None:
        """Start the command so that it ends when the reader of its output is gone. srun does not notice that."""
        if timeout is not None:  # mngr itself reads the output
            return None
        return _WatchedProcess(shell.spawn(argv, streams, None, is_leader=False), streams[1])

    def make_lost_error(self, stderr: str) -> Unreachable:
        try:
            jobs = self._calls.list_jobs("-t", "all", "-j", self._job)
        except Unreachable as unreachable:
            return unreachable
        except MngrError as error:
            return Unreachable(error.message, error.hint)
        provider, host = self._place
        state = jobs[0].state if jobs else "gone"
        if state in ("R", "CF"):
            why = stderr.splitlines()[-1].removeprefix("srun: error: ") if stderr else "the connection ended"
            return Unreachable(
                f"{host}: {why}", "mngr does not know whether the command ran; see the agents: mngr list"
            )
        if not self._is_shared:
            return HostGone(provider, host, _END_REASONS.get(state, "its job has ended"))
        if state == "PD":
            return HostStopped(provider, host, f"its job is in the queue again ({jobs[0].reason})")
        return HostStopped(provider, host, _END_REASONS.get(state))

    def close(self) -> None:
        pass


class _WatchedProcess:
    """A process that is killed when the pipe or socket of its output has no reader any more."""

    def __init__(self, child: ChildProcess, stdout_fd: int) -> None:
        self._child = child
        self._out = os.dup(stdout_fd)
        self._over = threading.Event()
        self._is_broken = False
        self._thread = threading.Thread(target=self._watch_reader, daemon=True)
        self._thread.start()

    def _watch_reader(self) -> None:
        poll = select.poll()
        poll.register(self._out, 0)  # poll reports errors even without a mask
        while not self._over.is_set():
            if any(event & select.POLLERR for _, event in poll.poll(100)):
                self._is_broken = True
                try:
                    self._child.kill()
                except (ProcessLookupError, ChildProcessError):
                    pass  # It has ended, and `wait` has already reaped it.
                break
        os.close(self._out)

    def wait(self) -> int:
        try:
            code = self._child.wait()
        except ChildProcessError:  # The watching thread has already reaped it.
            code = 141
        self._over.set()
        self._thread.join()
        return 141 if self._is_broken else code

    def kill(self) -> None:
        self._over.set()
        self._thread.join()
        if not self._is_broken:
            self._child.kill()
