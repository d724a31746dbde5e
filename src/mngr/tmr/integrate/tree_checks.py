"""What must hold of a tree beside its tests: the project's lint, and that the tutorial and its tests agree."""

from __future__ import annotations

from collections.abc import Callable

from mngr.host.protocol import Host
from mngr.tmr.cleanroom.clean_rooms import CleanRoom
from mngr.tmr.commits.trees import read_files
from mngr.tmr.prepare.root_causes import is_test_file
from mngr.tutorial.blocks import parse_script
from mngr.tutorial.check import compare_with_tests
from mngr.tutorial.citations import Citations, parse_tests

TreeCheck = Callable[[str, CleanRoom], tuple[bool, str]]


_TIMEOUT = 1800.0
_MAX_OUTPUT = 2000  # characters of what a check said
_MAX_FILE_BYTES = 1 << 22  # bytes of a file that is read


def make_lint_check(command: str) -> TreeCheck:
    """The project's own command, run in the room."""

    def check(commit: str, room: CleanRoom) -> tuple[bool, str]:
        ran = room.run(["sh", "-c", command], timeout=_TIMEOUT)
        said = (ran.out + ran.err).strip()[-_MAX_OUTPUT:]
        return ran.code == 0, said if ran.code else ""

    return check


def make_tutorial_check(local: Host, repo: str, file: str, tests: str) -> TreeCheck:
    """What `mngr tutorial check` says of a commit; nothing is run."""

    def check(commit: str, room: CleanRoom) -> tuple[bool, str]:
        files = read_files(local, repo, commit, [file, tests], _MAX_FILE_BYTES)
        script = files.pop(file, b"").decode("utf-8", "replace")
        read = [parse_tests(data, path) for path, data in files.items() if is_test_file(path)]
        every = Citations(
            citations=[one for some in read for one in some.citations],
            tests=[one for some in read for one in some.tests],
            problems=[one for some in read for one in some.problems],
        )
        found = [one for one in compare_with_tests(parse_script(script, file), every).findings if not one.is_warning]
        said = "\n".join(f"{one.path}:{one.line}: {one.message}" for one in found)
        return not found, said[:_MAX_OUTPUT]

    return check
