"""The walls around what a room runs, what it may use there at most, and what is found when it goes against them.

The words are for bubblewrap, which the warden starts on the room's host, around every command but never around the
project's set-up. In there a shell is the command's parent: it sets limits, and says at the end what was left running.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

from mngr.agents.sandbox import seccomp, visible_files
from mngr.agents.sandbox.bubblewrap import ISOLATION_FLAGS
from mngr.base.model import Struct
from mngr.tmr.finding import Finding

CLEAN_ROOM_HOME = "/home/room"  # the home of what runs in a room
_MAX_OPEN_FILES = 4096  # open in one process
_MAX_TMP_BYTES = 1 << 30  # bytes in the home, in /tmp and in shared memory, each
_BIN_DIRS = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")
# Its streams are the command's; 8 is the warden's, and what the shell itself says is nobody's business.
_PARENT_SCRIPT = """\
trap : INT # may be ours
trap hit=1 HUP QUIT TERM USR1 USR2 ALRM
exec 7>&2 2>/dev/null
ulimit -c 0; ulimit -f {blocks}; ulimit -n {files}; ulimit -u {processes} || ulimit -p {processes}
echo begun >&8
(exec "$@" 2>&7 7>&- 8>&-)
code=$?
left=-2 # it itself, and the first of all
for at in /proc/[0-9]*; do
    read -r row <"$at/stat" && case $row in *") Z "*) ;; *) left=$((left + 1)) ;; esac
done
echo $left ${{hit:-0}} >&8
exit $code
"""


class CleanRoomSandbox(Struct):
    """What is asked for: no network if not told otherwise, and how much a command may use."""

    network: bool = False
    program: str = "python3"  # what tests are run with: it may be elsewhere than on the PATH
    show: list[str] = []  # what is seen too, to read
    processes: int = 2000  # and threads, at once
    memory: int = 4 << 30  # bytes of all processes
    disk: int = 2 << 30  # bytes that one run may write

    def build_check_request(self, environments: list[str]) -> dict[str, Any]:
        """What the scout is told: also where the room has virtual environments."""
        with open(visible_files.__file__, encoding="utf-8") as file:
            text = file.read()
        return {
            "view": text,
            "places": _BIN_DIRS,
            "flags": [*ISOLATION_FLAGS, "--new-session", *(["--share-net"] if self.network else [])],
            "program": self.program,
            "facts": {
                "size": min(_MAX_TMP_BYTES, self.disk),
                "own": CLEAN_ROOM_HOME,
                "show": self.show,
                "network": self.network,
            },
            "environments": environments,
        }

    def build_job(self, words: list[str], work: str, outputs: str) -> dict[str, Any]:
        """How a command of a room is run: `words` are the same for all rooms of a host."""
        ours = os.path.join(outputs, "tmr")
        room = ["--bind", work, work, "--ro-bind", f"{work}/.git", f"{work}/.git"]
        room += ["--bind", outputs, outputs, "--ro-bind", ours, ours]
        # Of processes twice as many as are too many: what the kernel refuses nobody sees.
        shell = _PARENT_SCRIPT.format(blocks=self.disk >> 9, files=_MAX_OPEN_FILES, processes=2 * self.processes)
        return {
            "words": [*words, *room],
            "last": ["--chdir", work, "--remount-ro", "/", "--", "/bin/sh", "-c", shell, "room"],
            "filter": seccomp.build_filter(),
            "env": {"HOME": CLEAN_ROOM_HOME},
        }


def parse_isolation(word: str, program: str, show: list[str]) -> CleanRoomSandbox | None:
    """What `--walls` asks for (on, network or off), for tests that are run with `program`; `show` is what sandboxes may see."""
    if word == "off":
        return None
    return CleanRoomSandbox(
        network=word == "network", program=program, show=[os.path.expanduser(path) for path in show]
    )


class SandboxBuilder:
    """Builds the walls of a run's rooms; asks each host only once."""

    def __init__(self, walls: CleanRoomSandbox) -> None:
        self._sandbox = walls
        self._built: dict[tuple[str, str], tuple[list[str], str]] = {}

    def build(self, ask: Callable[[list[str]], dict[str, Any]], found: dict[str, str]) -> tuple[str, dict[str, Any]]:
        """What a room has for walls, in words for people and for the warden; `ask` runs a program there, `found` is its survey."""
        walls, key = self._sandbox, (found["host"], found["pythons"])
        if key not in self._built:
            wish = walls.build_check_request([name for name in found["environments"].split("\0") if name])
            self._built[key] = _try_sandbox(ask, wish)
        words, why = self._built[key]
        job: dict[str, Any] = {"most_used": {"processes": walls.processes, "memory": walls.memory, "disk": walls.disk}}
        if not words:
            return f"none: {why}", job
        job["walls"] = walls.build_job(words, found["place"], found["outputs"])
        return "on, with the network" if walls.network else "on", job


def _try_sandbox(ask: Callable[[list[str]], dict[str, Any]], wish: dict[str, Any]) -> tuple[list[str], str]:
    """The words for walls that hold, or why there are none."""
    with open(os.path.join(os.path.dirname(__file__), "sandbox_check.py"), encoding="utf-8") as file:
        answer = ask(["python3", "-I", "-S", "-c", file.read(), repr(wish)])
    if answer["exit_code"]:
        return [], _last_error_line(answer)
    found = json.loads(answer["stdout"])
    words = [str(word) for word in found["words"]]
    if words:
        trial = ask([*words, "--", "/bin/sh", "-c", ":"])
        if trial["exit_code"]:
            return [], f"bubblewrap does not work here: {_last_error_line(trial)}"
    return words, str(found["why"])


def _last_error_line(answer: dict[str, Any]) -> str:
    return str((answer["stderr"].strip().splitlines() or [f"exit code {answer['exit_code']}"])[-1])


# What is found

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_COLOUR_CODE = re.compile(r"\x1b\[[0-9;:]*m")
_VISIBLE_CODES = {code: f"\\x{code:02x}" for code in (*range(9), *range(11, 32), *range(127, 160))}
_OUTPUT_RULES = (
    (
        "room-outside",
        r"\[Errno 30\]|EROFS|[Rr]ead-only file system",
        "it tried to write outside its workspace, and could not",
    ),
    (
        "room-network",
        r"\[Errno 101\]|ENETUNREACH|[Nn]etwork is unreachable|EAI_AGAIN|[Tt]emporary failure in name resolution",
        "it tried to reach the network, which is not there in a room",
    ),
    (
        "room-disk",
        r"\[Errno 2[78]\]|ENOSPC|EFBIG|[Nn]o space left on device|File (size limit exceeded|too large)",
        "it tried to write more than a room has space for",
    ),
)


def escape_control_characters(value: Any) -> Any:
    """The same without colours, and with everything else that a terminal would obey made visible."""
    if isinstance(value, str):
        if not _CONTROL_CHARACTERS.search(value):
            return value
        return _COLOUR_CODE.sub("", value).replace("\r\n", "\n").translate(_VISIBLE_CODES)
    if isinstance(value, list):
        return [escape_control_characters(one) for one in value]
    if isinstance(value, dict):
        return {escape_control_characters(key): escape_control_characters(one) for key, one in value.items()}
    return value


def list_violations(ended: str, left: int, hit: int, texts: list[Any], *, walled: bool) -> list[Finding]:
    """What a run did that it should not: `ended` is the rule that it was ended by and a sentence, `texts` what it said.

    `hit`: its parent was sent a signal.
    """
    found: list[Finding] = []
    if ended:
        rule, _, what = ended.partition(" ")
        found.append(_make_finding(rule, "refuse", what))
    elif hit:
        found.append(_make_finding("room-parent", "note", "it sent its parent process a signal"))
    if left > 0:
        some = "a process" if left == 1 else f"{left} processes"
        found.append(_make_finding("room-left", "note", f"it left {some} running, which ended with it"))
    said = "\n".join(_iter_strings(texts))
    if _CONTROL_CHARACTERS.search(_COLOUR_CODE.sub("", said)):
        what = "it wrote codes that a terminal would obey; they are shown, not obeyed"
        found.append(_make_finding("room-escape", "note", what))
    for rule, pattern, what in _OUTPUT_RULES if walled else ():
        if rule not in {one.rule for one in found} and re.search(pattern, said):
            found.append(_make_finding(rule, "note", what))
    return found


def _make_finding(rule: str, level: str, what: str) -> Finding:
    return Finding(rule=rule, level=level, path="", what=what)


def _iter_strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _iter_strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from _iter_strings(one)
