"""Reads the observer's report of a pytest run. A hostile test can write into it, so a wrong value counts as missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mngr.base.model import Struct
from mngr.base.untrusted_json import as_list, as_object, get_int, get_object, get_objects, get_text
from mngr.tmr.cleanroom.clean_room import ObserverRow
from mngr.tmr.runners.test_run import NOTHING_RESOLVED, Failure, Frame, ProgramLocation, ResolvedCode, SuiteLines

_FIXTURE_PREFIX = "fixture:"  # of the contexts of shared fixtures
_MAX_RANGE = 1_000_000  # lines in a row of one file
_ENVIRONMENT_FIELDS = ("python", "pytest", "platform", "packages")


class TestPhase(Struct):
    """How the set-up, the call or the teardown of a test ended."""

    __test__ = False

    id: str
    when: str  # setup | call | teardown
    outcome: str  # passed | failed | skipped
    why: str = ""  # why it was skipped
    failure: Failure | None = None
    test: str = ""  # the id without parameters
    seconds: float = 0.0


class RecordedSession(Struct):
    """A session of mngr.e2e that a test left."""

    test: str
    path: str  # relative to the work dir
    text: str  # the transcript


class SessionEnd(Struct):
    """The facts that pytest knows at its end."""

    exit: int | None = None  # pytest's exit status
    imported: dict[str, str] = {}  # the file of each imported package of the project
    checkout_modules: list[str] = []  # files that were imported from the user's checkout
    resolved: ResolvedCode = NOTHING_RESOLVED  # if requested
    sessions: list[RecordedSession] = []
    environment: dict[str, str] = {}  # versions, and a hash of the installed packages


def select_rows(rows: Iterable[ObserverRow], kind: str) -> list[ObserverRow]:
    """Return the rows of a kind."""
    return [row for row in rows if row["row"] == kind]


def find_session_end(rows: Sequence[ObserverRow]) -> SessionEnd | None:
    """Return the facts of the last row about the end, or None when pytest did not get there."""
    end_rows = select_rows(rows, "end")
    if not end_rows:
        return None
    row = end_rows[-1]
    exit_status = row.get("exit")
    return SessionEnd(
        exit=exit_status if isinstance(exit_status, int) else None,
        imported=parse_texts(row.get("imported")),
        checkout_modules=[path for path in as_list(row.get("checkout_modules")) if isinstance(path, str)],
        resolved=_parse_resolved(get_object(row, "resolved")),
        sessions=[_parse_session(session) for session in get_objects(row, "e2e")],
        environment={key: str(row[key]) for key in _ENVIRONMENT_FIELDS if key in row},
    )


def _parse_resolved(row: ObserverRow) -> ResolvedCode:
    scripts = get_object(row, "scripts")
    return ResolvedCode(
        packages=parse_texts(row.get("packages")),
        scripts={str(name): _parse_program(as_object(script)) for name, script in scripts.items()},
        executable=get_text(row, "executable"),
    )


def _parse_program(row: ObserverRow) -> ProgramLocation:
    return ProgramLocation(path=get_text(row, "path"), module=get_text(row, "module"), code=get_text(row, "code"))


def _parse_session(row: ObserverRow) -> RecordedSession:
    return RecordedSession(test=get_text(row, "test"), path=get_text(row, "path"), text=get_text(row, "text"))


def parse_phase(row: ObserverRow) -> TestPhase:
    """Return the phase in a row of the kind `phase`."""
    return TestPhase(
        id=str(row.get("id")),
        when=str(row.get("when")),
        outcome=str(row.get("outcome")),
        why=get_text(row, "why"),
        failure=find_failure(row),
        test=str(row.get("test", row.get("id"))),
        seconds=float(seconds) if isinstance(seconds := row.get("seconds"), (int, float)) else 0.0,
    )


def find_failure(row: ObserverRow) -> Failure | None:
    """Return the failure in a row, or None."""
    failure = row.get("failure")
    if not isinstance(failure, dict):
        return None
    kind = str(row["row"])
    when = {"uncollected": "collect", "phase": str(row.get("when"))}.get(kind, kind)
    return Failure(
        id=str(row.get("id", "")),
        when=when,
        exception=get_text(failure, "exception"),
        cause=get_text(failure, "cause"),
        message=get_text(failure, "message"),
        frames=[_parse_frame(frame) for frame in get_objects(failure, "frames")],
        text=get_text(failure, "text"),
        sections=parse_texts(failure.get("sections")),
    )


def _parse_frame(row: ObserverRow) -> Frame:
    return Frame(
        path=get_text(row, "path"),
        line=get_int(row, "line"),
        function=get_text(row, "function"),
        project=row.get("project") is True,
    )


def parse_lines(rows: Sequence[ObserverRow]) -> dict[str, list[int]]:
    """Return the lines that were run, by file; empty unless the tracer reported them."""
    line_rows = select_rows(rows, "lines")
    if not line_rows:
        return {}
    files = get_object(line_rows[0], "files")
    return {
        str(path): [line for line in lines if isinstance(line, int)]
        for path, lines in files.items()
        if isinstance(lines, list)
    }


def count_started_programs(rows: Sequence[ObserverRow]) -> int:
    """Return how many programs the test started, 0 unless the tracer counted them."""
    return sum(get_int(row, "programs") for row in select_rows(rows, "lines"))


def parse_suite_lines(rows: Sequence[ObserverRow]) -> SuiteLines:
    """Return the lines of each test of a suite, with those of the shared fixtures that it used."""
    lines: dict[str, dict[str, set[int]]] = {}
    fixtures: dict[str, set[str]] = {}
    modules: dict[str, str] = {}
    for row in rows:
        if row["row"] == "modules":
            modules |= parse_texts(row.get("modules"))
        elif row["row"] == "lines" and "context" in row:
            context = get_text(row, "context")
            fixtures.setdefault(context, set()).update(str(name) for name in as_list(row.get("fixtures")))
            for path, ranges in get_object(row, "files").items():
                lines.setdefault(context, {}).setdefault(str(path), set()).update(_parse_ranges(ranges))
    tests: dict[str, dict[str, list[int]]] = {}
    for context, used in fixtures.items():
        if context and not context.startswith(_FIXTURE_PREFIX):
            merged: dict[str, set[int]] = {}
            for source in (context, *used):
                for path, numbers in lines.get(source, {}).items():
                    merged.setdefault(path, set()).update(numbers)
            tests[context] = {path: sorted(numbers) for path, numbers in merged.items()}
    outside = {path: sorted(numbers) for path, numbers in lines.get("", {}).items()}
    return SuiteLines(tests=tests, outside=outside, modules=modules)


def _parse_ranges(text: object) -> list[int]:
    """Return the numbers of a text like 1-5,8."""
    numbers: list[int] = []
    for part in str(text).split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last.isdigit() or not last):
            numbers += range(int(first), min(int(last or first), int(first) + _MAX_RANGE) + 1)
    return numbers


def find_loaded_files(rows: Sequence[ObserverRow]) -> list[str] | None:
    """Return the project's files that were imported, or None when that is not known."""
    loaded_rows = select_rows(rows, "loaded")
    paths = loaded_rows[0].get("files") if loaded_rows else None
    if not isinstance(paths, list):
        return None
    return [path for path in paths if isinstance(path, str)]


def parse_texts(value: object) -> dict[str, str]:
    """Return a dict of strings from an untrusted value; empty when the value is no dict."""
    return {str(key): str(text) for key, text in value.items()} if isinstance(value, dict) else {}


def make_row_paths_relative(rows: Sequence[ObserverRow], prefix: str) -> list[ObserverRow]:
    """Return the rows with all paths relative to the work dir, so that results are the same in all clean rooms."""
    return [{key: _remove_prefix(value, prefix) for key, value in row.items()} for row in rows]


def _remove_prefix(value: object, prefix: str) -> object:
    if isinstance(value, str):
        return value.replace(prefix, "")
    if isinstance(value, list):
        return [_remove_prefix(item, prefix) for item in value]
    if isinstance(value, dict):
        return {key: _remove_prefix(item, prefix) for key, item in value.items()}
    return value
