"""Runs in a room: makes it clean, runs one command there to its end, and answers how that was.

Its one argument is the job, a table as Python writes it; standard library only, Python 3.9 or newer, and imports so little because it runs
for every test. The answer is a line of JSON with numbers, then the texts whose lengths it names. Nothing that the command
started outlives it: orphans become children of this process where the system can do that (Linux), else its process
group is ended.
"""

from __future__ import annotations

import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

JOB: dict[str, Any] = eval(sys.argv[1], {})
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_SIGNALS = (1, 2, 3, 13, 15, 25)  # HUP INT QUIT PIPE TERM XFSZ: as a command has them that a shell starts
_INT, _KILL = 2, 9
_GRACE = 3.0  # seconds for a test to put away what it made, after it was interrupted
_DRAIN = 2.0  # seconds to read what is left in the pipes, and to see the last process go
_INERT = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")  # a test may have set them
_FOUND = "__pycache__"  # not taken away: what Python makes of sources is as good as they are


def main() -> None:
    numbers: dict[str, float] = {}
    texts: dict[str, str] = {}
    try:
        if JOB.get("commit"):
            clean(JOB["commit"], JOB["keep"])
        if JOB.get("survey"):
            texts.update(survey())
        if JOB.get("argv"):
            run(numbers, texts)
    except Broken as error:
        texts = {"broken": str(error)}
    fields = [f'"{name}": {number}' for name, number in numbers.items()]
    fields.append('"texts": {' + ", ".join(f'"{name}": {len(text)}' for name, text in texts.items()) + "}")
    answer = "{" + ", ".join(fields) + "}\n" + "".join(texts.values())
    sys.stdout.buffer.write(answer.encode("utf-8", "replace"))


class Broken(Exception):
    """The room is no longer what it was made as."""


def clean(commit: str, keep: list[str]) -> None:
    """The commit's files, what set-up made, and nothing else."""
    git("reset", "--quiet", "--hard", "--no-recurse-submodules", commit, "--")
    git("clean", "-ffdxq", *[word for pattern in (*keep, _FOUND) for word in ("-e", pattern)])


def survey() -> dict[str, str]:
    """Where the room stands, and what git does not have of what is there: set-up has made it."""
    rows = git("status", "--porcelain=v1", "-z", "--ignored=traditional", "--untracked-files=normal").split(
        "\0"
    )
    made = "\0".join(row[3:] for row in rows if row[:2] in ("!!", "??"))
    return {"at": git("rev-parse", "HEAD", "HEAD^{tree}"), "made": made, "place": os.getcwd()}


def git(*words: str) -> str:
    command = Command(["git", *_INERT, *words], dict(os.environ), 1 << 24)
    command.wait(None)
    if command.code:
        said = command.text(1).strip().splitlines() or [f"exit code {command.code}"]
        raise Broken(f"git {words[0]}: {said[-1]}")
    return command.text(0)


def run(numbers: dict[str, float], texts: dict[str, str]) -> None:
    """The command itself, watched by the probe if there is one."""
    env = {**os.environ, **JOB["env"]}
    report = ""
    if "probe" in JOB:
        place = os.path.join(os.environ["MNGR_OUTPUT_DIR"], "tmr")
        install(place, JOB["probe"])
        report = os.path.join(place, f"rows-{os.getpid()}.jsonl")
        before = env.get("PYTHONPATH", "")
        env.update(MNGR_PROBE_REPORT=report, MNGR_PROBE_WORK=os.getcwd(), MNGR_PROBE_PATH=before)
        env["PYTHONPATH"] = place + (os.pathsep + before if before else "")
    adopt_orphans()
    used, began = cpu(), time.monotonic()
    command = Command(JOB["argv"], env, JOB["most"])
    command.watch_asker()
    timed_out = command.wait(JOB["timeout"])
    numbers.update(seconds=time.monotonic() - began, timed_out=int(timed_out), left=command.end_all())
    numbers.update(code=command.code or 0, cpu=cpu() - used)
    texts.update(
        out=command.text(0), err=command.text(1), rows=take(report, JOB["most_rows"]) if report else ""
    )


def install(place: str, text: str) -> None:
    path = os.path.join(place, "mngr_probe.py")
    try:
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    except OSError:
        os.makedirs(place, exist_ok=True)
    fresh = f"{path}.{os.getpid()}"
    with open(fresh, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(fresh, path)


def take(path: str, most: int) -> str:
    """What a report says, as far as it is not too long; it is gone then."""
    try:
        with open(path, "rb") as file:
            data = file.read(most)
        os.unlink(path)
    except OSError:
        return ""
    return data.decode("utf-8", "replace")


def cpu() -> float:
    """Seconds of all processes below this one that have ended."""
    used = os.times()
    return used.children_user + used.children_system


def adopt_orphans() -> None:
    if sys.platform.startswith("linux"):
        import ctypes

        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


class Command:
    """A process in a session of its own; of each of its streams the end is kept."""

    def __init__(self, argv: list[str], env: dict[str, str], most: int) -> None:
        self.code: int | None = None
        self._most = most
        self._poll = select.poll()
        self._open: dict[int, bytearray] = {}
        self._kept = [bytearray(), bytearray()]
        pipes = [os.pipe(), os.pipe()]
        actions: list[Any] = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
        actions += [(os.POSIX_SPAWN_DUP2, pipes[at][1], at + 1) for at in (0, 1)]
        self._exit = -1
        try:
            self.pid = os.posix_spawnp(
                argv[0], argv, env, file_actions=actions, setsid=True, setsigdef=_SIGNALS, setsigmask=()
            )
        except OSError as error:
            self.pid, self.code = 0, 127
            os.write(pipes[1][1], f"{argv[0]}: {error.strerror}\n".encode())
        for at, (end, other) in enumerate(pipes):
            os.close(other)
            self._open[end] = self._kept[at]
            self._poll.register(end, select.POLLIN)
        if self.pid and hasattr(os, "pidfd_open"):
            self._exit = os.pidfd_open(self.pid)
            self._poll.register(self._exit, select.POLLIN)

    def watch_asker(self) -> None:
        """From now on, when nobody is left to read the answer, all of it ends."""
        self._poll.register(1, 0)

    def wait(self, timeout: float | None) -> bool:
        """Until it has ended; whether it had to be."""
        if self._until(None if timeout is None else time.monotonic() + timeout):
            return False
        self._signal(_INT)
        if not self._until(time.monotonic() + _GRACE):
            self._signal(_KILL)
            self._until(None)
        return True

    def _until(self, end: float | None) -> bool:
        while self.code is None:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return False
            if self._exit < 0:
                left = 0.02 if left is None else min(left, 0.02)
            self._read(left)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        if self._exit >= 0:
            self._poll.unregister(self._exit)
            os.close(self._exit)
            self._exit = -1
        patience = 0.0 if reap() else _DRAIN  # who outlives it may hold its streams for ever
        while self._open and self._read(patience):
            pass
        return True

    def _read(self, timeout: float | None) -> bool:
        ready = self._poll.poll(None if timeout is None else timeout * 1000)
        for fd, _ in ready:
            if fd == self._exit:
                continue
            if fd == 1:
                self.end_all()
                os._exit(1)
            data = os.read(fd, 1 << 16)
            kept = self._open[fd]
            kept += data
            if len(kept) > 2 * self._most:
                del kept[: -self._most]
            if not data:
                self._poll.unregister(fd)
                os.close(fd)
                del self._open[fd]
        return bool(ready)

    def text(self, stream: int) -> str:
        return bytes(self._kept[stream][-self._most :]).decode("utf-8", "replace")

    def _signal(self, number: int) -> None:
        try:
            if self.pid:
                os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            pass

    def end_all(self) -> int:
        """End what the command left behind; how many processes that were."""
        self._signal(_KILL)
        ended: set[int] = set()
        end = time.monotonic() + _DRAIN
        while reap() and time.monotonic() < end:
            for pid in descendants(os.getpid()):
                ended.add(pid)
                try:
                    os.kill(pid, _KILL)
                except (ProcessLookupError, PermissionError):
                    pass
            time.sleep(0.001)
        return len(ended)


def reap() -> bool:
    """Take note of all that have ended; whether there are others."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def descendants(of: int) -> list[int]:
    """Every process below one; [] where the system does not tell."""
    below: dict[int, list[int]] = {}
    try:
        names = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    for name in names:
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except OSError:
            continue
        below.setdefault(parent, []).append(int(name))
    found = list(below.get(of, []))
    for pid in found:
        found += below.get(pid, [])
    return found


main()
