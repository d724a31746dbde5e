"""What must hold of a tree beside its tests: the project's lint, and that the tutorial and its tests agree."""

from __future__ import annotations

from collections.abc import Callable

from mngr.host.protocol import Host
from mngr.tmr.cleanroom.rooms import Room
from mngr.tmr.commits.trees import files_at
from mngr.tmr.prepare.root_causes import is_test_file
from mngr.tutorial.blocks import parse
from mngr.tutorial.check import compare
from mngr.tutorial.citations import Citations, parse_tests

Check = Callable[[str, Room], tuple[bool, str]]


_TIMEOUT = 1800.0
_SHOWN = 2000  # characters of what a check said
_LARGEST = 1 << 22  # bytes of a file that is read


def lint(command: str) -> Check:
    """The project's own command, run in the room."""

    def check(commit: str, room: Room) -> tuple[bool, str]:
        ran = room.run(["sh", "-c", command], timeout=_TIMEOUT)
        said = (ran.out + ran.err).strip()[-_SHOWN:]
        return ran.code == 0, said if ran.code else ""

    return check


def tutorial(local: Host, repo: str, file: str, tests: str) -> Check:
    """What `mngr tutorial check` says of a commit; nothing is run."""

    def check(commit: str, room: Room) -> tuple[bool, str]:
        files = files_at(local, repo, commit, [file, tests], _LARGEST)
        script = files.pop(file, b"").decode("utf-8", "replace")
        read = [parse_tests(data, path) for path, data in files.items() if is_test_file(path)]
        every = Citations(
            citations=[one for some in read for one in some.citations],
            tests=[one for some in read for one in some.tests],
            problems=[one for some in read for one in some.problems],
        )
        found = [one for one in compare(parse(script, file), every).findings if not one.is_warning]
        said = "\n".join(f"{one.path}:{one.line}: {one.message}" for one in found)
        return not found, said[:_SHOWN]

    return check
