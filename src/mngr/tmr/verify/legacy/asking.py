"""Whether a test asks the program at all, and whether what it looks at has been in the program's hands."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from mngr.tmr.verify.legacy.resolve import Escape, Resolver

_STARTS = ("subprocess", "pty", "runpy", "importlib", "multiprocessing", "socket", "http", "urllib", "os.system",
           "os.popen", "os.exec", "os.spawn", "os.posix_spawn", "asyncio.create_subprocess", "asyncio.subprocess",
           "xmlrpc", "smtplib", "ftplib", "telnetlib")  # fmt: skip
_FIXTURES = frozenset(
    "tmp_path tmpdir tmp_path_factory tmpdir_factory monkeypatch mocker request capsys capfd capsysbinary caplog "
    "recwarn record_property pytestconfig open input self cls testdir freezer faker benchmark subtests".split()
)
_LIBRARIES = frozenset(
    "pytest _pytest numpy pandas yaml toml tomli freezegun responses respx faker factory hypothesis mock attr attrs "
    "pydantic dateutil pytz bs4 lxml deepdiff dirty_equals rich".split()
)
_PLACES = ("sqlite3", "tmp_path", "tmpdir", "open", "os", "pathlib", "shutil", "glob", "io")


class Asked:
    """What of the world outside a test uses: of each call, and of each check."""

    def __init__(self, walk: Resolver) -> None:
        calls = self.calls = walk.asked
        self.moved = walk.cwd_moved
        self.checks = [(check, walk.module.outside(check.node)) for check in walk.checks if not check.empty]
        self.program = {n for names in calls for n in names if is_program(n)}
        self.program |= {n for _, names in self.checks for n in names if is_program(n)}

    def handled(self, names: frozenset[str]) -> bool:
        """Whether something that goes by one of these names was given to the program."""
        return any(names & given and any(map(is_program, given)) for given in self.calls)


def is_program(name: str) -> bool:
    """Whether a name may stand for the program under test, or for something that runs it."""
    plain = name.lstrip(".")
    first = plain.split(".", maxsplit=1)[0]
    if first in sys.stdlib_module_names:
        return plain.startswith(_STARTS) and not plain.startswith("importlib.metadata")
    return first not in _FIXTURES and first not in _LIBRARIES and not name.startswith("given ")


def lost(old: Asked, new: Asked, around: Sequence[Escape]) -> tuple[int, str] | None:
    """How the new test has come away from the program."""
    if not old.program:
        return None
    if not new.program:
        return 0, "the test no longer uses the program: it checks only its own data"
    if new.moved or any(e.rule in {"environment", "program-replaced", "input-given"} for e in around):
        return None
    before = [names for _, names in old.checks if _is_place(names)]
    if not before or not all(map(old.handled, before)):
        return None
    for check, names in new.checks:
        if _is_place(names) and not new.handled(names):
            return check.line, "the program never gets what the test checks"
    return None


def _is_place(names: frozenset[str]) -> bool:
    return bool(names) and all(name.split(".", maxsplit=1)[0] in _PLACES for name in names)
