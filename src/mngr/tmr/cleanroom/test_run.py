"""Run one test in a room, and say how it ended: by what the probe saw, never by what the terminal shows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Self

from mngr.base.model import Struct
from mngr.base.shell import join
from mngr.tmr.cleanroom.clean_rooms import CleanRoom, CommandOutcome, read_program
from mngr.tmr.cleanroom.replaced_files import pack_text
from mngr.tmr.finding import Finding

PROBE_ARGS = ("-p", "mngr_probe")
TEST_TIMEOUT = 600.0  # seconds of one run of a test, unless told otherwise
_MAX_OUTPUT = 8_000  # characters of what pytest printed that stay with a run
_ENVIRONMENT_FIELDS = ("python", "pytest", "platform", "packages")


class TestFunction(Struct):
    """A test function with all its parameters: what one task is about."""

    __test__ = False

    id: str  # without [parameters]
    ids: list[str]  # every node id
    path: str
    line: int | None = None
    name: str
    doc: str = ""
    markers: list[str] = []


class Frame(Struct):
    """A place in the code that was being run."""

    path: str  # from the work dir, if it is the project's
    line: int
    function: str
    project: bool


class Failure(Struct):
    """Why a test, or the collecting of it, failed."""

    id: str
    when: str  # collect | setup | call | teardown | interrupted | internal
    exception: str
    cause: str = ""  # the exception under it, if it was raised from one
    message: str
    frames: list[Frame] = []  # outermost first
    text: str = ""  # as pytest explains it
    sections: dict[str, str] = {}  # what was printed

    def to_dict(self) -> dict[str, Any]:
        """As it stands in a journal."""
        return {**super().to_dict(), "frames": [frame.to_dict() for frame in self.frames]}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """What `to_dict` gave."""
        return cls(**{**data, "frames": [Frame(**frame) for frame in data["frames"]]})


class TestRun(Struct):
    """One run of one test with all its parameters."""

    __test__ = False

    test: str
    outcome: str  # pass | fail | error | timeout | crash | skip
    why: str = ""  # a line for people, where it is not a pass
    seconds: float
    cpu: float = 0.0
    exit_code: int
    ids: dict[str, str] = {}  # each node id and its outcome
    missing: list[str] = []  # node ids that were collected and did not run
    failures: list[Failure] = []
    reruns: int = 0  # attempts that a plugin repeated because they failed
    command: str  # the command as a person would give it
    imported_from: dict[str, str] = {}  # the project's own packages, and the file each came from
    wrong_code: list[str] = []  # of these and of all modules, what is not the room's
    resolved: dict[str, Any] = {}  # where packages and programs lead, if that was asked
    output: str = ""  # how pytest's output ends
    transcripts: dict[str, str] = {}  # of mngr.e2e, by node id
    artifacts: list[str] = []  # directories of mngr.e2e in the work dir
    left: int = 0  # processes that it left running
    environment: dict[str, str] = {}  # versions, and of the first run a hash of what is installed
    walls: str = ""  # that the room had: on, on with the network, or why there were none
    findings: list[Finding] = []  # what it did that is not for a room
    lines: dict[str, list[int]] = {}  # that were run of the project's files, if that was asked
    loaded: list[str] | None = None  # of these files, if that was asked and is known

    def to_dict(self) -> dict[str, Any]:
        """As it stands in a journal."""
        failures = [failure.to_dict() for failure in self.failures]
        found = [finding.to_dict() for finding in self.findings]
        return {**super().to_dict(), "failures": failures, "findings": found}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """What `to_dict` gave."""
        failures = [Failure.from_dict(failure) for failure in data["failures"]]
        found = [Finding(**finding) for finding in data.get("findings", ())]
        return cls(**{**data, "failures": failures, "findings": found})


def build_command(pytest: Sequence[str], args: Sequence[str], test: str) -> list[str]:
    """What runs a test, with nothing of ours in it."""
    return [*pytest, *args, test]


def run_test(
    room: CleanRoom,
    pytest: Sequence[str],
    test: TestFunction,
    *,
    args: Sequence[str] = (),
    timeout: float = TEST_TIMEOUT,
    seed: int | None = None,
    resolve: bool = False,
    program: str | None = None,
    keep: str | None = None,
    trace: bool = False,
    loaded: bool = False,
    files: dict[str, str | None] | None = None,
) -> TestRun:
    """One run in a clean room. `resolve` asks also where packages and programs lead; `keep` is a directory for artifacts.

    `trace` asks which lines are run, `loaded` which files are imported. `files` are other than the commit has them: with these texts, or not there.
    Raises MngrError when the room, not the test, is the trouble.
    """
    env = {} if seed is None else {"PYTHONHASHSEED": str(seed % 4294967296)}
    facts: dict[str, Any] = {"seed": seed, "resolve": resolve, "program": program}
    if files:
        facts["files"] = {path: None if text is None else pack_text(text) for path, text in files.items()}
    facts["plugins"] = {
        name: read_program(f"{name}.py")
        for name, wanted in (("replaced_files", files), ("tracer", trace), ("imported_files", loaded))
        if wanted
    }
    ran = room.run([*pytest, *PROBE_ARGS, *args, test.id], env=env, timeout=timeout, probe=facts)
    result = read_test_run(test, ran, join(build_command(pytest, args, test.id)), room.inner_work_dir).replace(
        walls=room.isolation
    )
    if keep is not None:
        for place in result.artifacts:
            os.makedirs(keep, exist_ok=True)
            room.pull(place, os.path.join(keep, os.path.basename(place)))
    return result


def read_test_run(test: TestFunction, ran: CommandOutcome, line: str, work: str) -> TestRun:
    """What became of a test, from what the probe saw of it; paths in the room are named from its work dir."""
    place = f"{work}{os.sep}"
    ran = ran.replace(
        probe_rows=make_paths_relative(ran.probe_rows, place),
        out=make_paths_relative(ran.out, place),
        err=make_paths_relative(ran.err, place),
    )
    phases = [row for row in ran.probe_rows if row["row"] == "phase"]
    end = next((row for row in reversed(ran.probe_rows) if row["row"] == "end"), None)
    ids, reruns = _parse_outcomes(phases)
    failures = [failure for row in _last_attempts(ran.probe_rows) if (failure := parse_failure(row)) is not None]
    outcome, why = _decide_outcome(ran, ids, failures, phases, end)
    if outcome in ("fail", "error") and not failures:
        failures = [_make_output_failure(test, ran, why)]
    imported = parse_texts((end or {}).get("imported"))
    e2e = (end or {}).get("e2e")
    scenes = [parse_texts(row) for row in e2e if isinstance(row, dict)] if isinstance(e2e, list) else []
    return TestRun(
        test=test.id, outcome=outcome, why=why, seconds=ran.seconds, cpu=ran.cpu, exit_code=ran.code, ids=ids,
        missing=[one for one in test.ids if one not in ids], failures=failures, reruns=reruns, command=line,
        imported_from=imported, wrong_code=_list_wrong_code(imported, (end or {}).get("strays")),
        resolved=resolved if isinstance(resolved := (end or {}).get("resolved"), dict) else {},
        output=_cut_output(ran.out + ran.err), transcripts={row.get("test", ""): row.get("text", "") for row in scenes},
        artifacts=[row["path"] for row in scenes if _is_in_work_dir(row.get("path", ""))], left=ran.leftover_processes,
        findings=[finding.replace(path=test.path) for finding in ran.findings],
        environment={key: str(end[key]) for key in _ENVIRONMENT_FIELDS if key in end} if end else {},
        lines=_parse_lines(ran.probe_rows), loaded=_parse_loaded_files(ran.probe_rows),
    )  # fmt: skip


def _parse_lines(rows: list[dict[str, Any]]) -> dict[str, list[int]]:
    files = next((row.get("files") for row in rows if row["row"] == "lines"), None)
    if not isinstance(files, dict):
        return {}
    return {
        str(path): [line for line in lines if isinstance(line, int)]
        for path, lines in files.items()
        if isinstance(lines, list)
    }


def _parse_loaded_files(rows: list[dict[str, Any]]) -> list[str] | None:
    paths = next((row.get("files") for row in rows if row["row"] == "loaded"), None)
    return [path for path in paths if isinstance(path, str)] if isinstance(paths, list) else None


def _parse_outcomes(phases: list[dict[str, Any]]) -> tuple[dict[str, str], int]:
    """Each node id and how it ended, the last attempt counting; how many attempts there were too many."""
    found: dict[str, str] = {}
    begun: dict[str, int] = {}
    for row in phases:
        name, when, outcome = (str(row.get(key)) for key in ("id", "when", "outcome"))
        if when == "setup":
            begun[name] = begun.get(name, 0) + 1
            found.pop(name, None)
        if outcome == "failed":
            found[name] = "fail" if when == "call" or found.get(name) == "fail" else "error"
        elif outcome == "skipped":
            found.setdefault(name, "skip")
        elif when == "call":
            found.setdefault(name, "pass")
    return found, sum(begun.values()) - len(begun)


def _last_attempts(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows without those of attempts that were repeated."""
    begins = {str(row.get("id")): at for at, row in enumerate(rows) if row.get("when") == "setup"}
    return [row for at, row in enumerate(rows) if row["row"] != "phase" or at >= begins.get(str(row.get("id")), 0)]


def _decide_outcome(
    ran: CommandOutcome,
    ids: dict[str, str],
    failures: list[Failure],
    phases: list[dict[str, Any]],
    end: dict[str, Any] | None,
) -> tuple[str, str]:
    if ran.timed_out and (end is None or end.get("exit") not in (0, 1)):  # else it ended just then
        return "timeout", f"it did not end within {ran.timeout:g} s"
    if ran.stop_reason:
        return "crash", ran.stop_reason
    if end is None:
        if any(row["row"] in ("begin", "phase") for row in ran.probe_rows):
            how = f"signal {-ran.code}" if ran.code < 0 else f"exit code {ran.code}"
            return "crash", f"pytest itself ended in the middle: {how}"
        return "error", _last_line(ran) or f"pytest did not begin: exit code {ran.code}"
    for wanted in ("fail", "error"):
        if wanted in ids.values():
            return wanted, _headline(failures)
    if failures:
        return "error", _headline(failures)
    if not ids:
        return "error", _last_line(ran) or "there was nothing to run"
    if set(ids.values()) == {"skip"}:
        return "skip", next((str(row["why"]) for row in phases if row.get("why")), "skipped")
    return "pass", ""


def parse_failure(row: dict[str, Any]) -> Failure | None:
    """The failure that a row tells of, if it does."""
    data = row.get("failure")
    if not isinstance(data, dict):
        return None
    when = {"uncollected": "collect", "phase": row.get("when")}.get(row["row"], row["row"])
    frames = data.get("frames")
    return Failure(
        id=str(row.get("id", "")), when=str(when), exception=str(data.get("exception", "")), cause=str(data.get("cause", "")),
        message=str(data.get("message", "")), frames=_parse_frames(frames if isinstance(frames, list) else []),
        text=str(data.get("text", "")), sections=parse_texts(data.get("sections")),
    )  # fmt: skip


def _parse_frames(rows: list[Any]) -> list[Frame]:
    return [
        Frame(
            path=str(row.get("path", "")),
            line=line if isinstance(line := row.get("line"), int) else 0,
            function=str(row.get("function", "")),
            project=row.get("project") is True,
        )
        for row in rows
        if isinstance(row, dict)
    ]


def parse_texts(value: object) -> dict[str, str]:
    """A table of texts out of something that may be anything."""
    return {str(key): str(text) for key, text in value.items()} if isinstance(value, dict) else {}


def _make_output_failure(test: TestFunction, ran: CommandOutcome, why: str) -> Failure:
    """A failure that only pytest's output tells of: options, plugins or a conftest that it could not take."""
    return Failure(id=test.id, when="collect", exception="", message=why, text=_cut_output(ran.err or ran.out))


def make_paths_relative(value: Any, place: str) -> Any:
    """The same with every path in a room named from its work dir: what is told of a test is the same in all rooms."""
    if isinstance(value, str):
        return value.replace(place, "")
    if isinstance(value, list):
        return [make_paths_relative(one, place) for one in value]
    if isinstance(value, dict):
        return {key: make_paths_relative(one, place) for key, one in value.items()}
    return value


def _list_wrong_code(imported: dict[str, str], strays: object) -> list[str]:
    """What of the project's own code was not the room's: from elsewhere, or installed as a copy."""
    wrong = [f"{name} came from {path}" for name, path in imported.items() if not is_own_source(path)]
    if isinstance(strays, list):
        wrong += [f"{path} was imported" for path in strays if isinstance(path, str)]
    return wrong


def is_own_source(path: str) -> bool:
    """Whether a file, named from the work dir, is the room's own source: in there, and no installed copy."""
    return not os.path.isabs(path) and {"site-packages", "dist-packages"}.isdisjoint(path.split(os.sep))


def _is_in_work_dir(path: str) -> bool:
    return bool(path) and not os.path.isabs(path) and ".." not in path.split(os.sep)


def _headline(failures: list[Failure]) -> str:
    first = failures[0]
    return f"{first.exception}: {first_line(first.message)}".strip(": ") or first_line(first.text)


def first_line(message: str) -> str:
    """What a message begins with; a heading, or the command that it is about, with what follows it."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if len(lines) > 1 and (lines[0].endswith(":") or lines[0].startswith("$ ")):
        return f"{lines[0].rstrip(':')}: {lines[1]}"
    return lines[0] if lines else ""


def _last_line(ran: CommandOutcome) -> str:
    """What pytest said last about why it did not run anything."""
    lines = [line.strip() for line in (ran.err + "\n" + ran.out).splitlines() if line.strip()]
    wanted = [line for line in lines if line.startswith(("ERROR", "E   ")) or "rror:" in line]
    return (wanted or lines or [""])[0][:500]


def _cut_output(text: str) -> str:
    return text if len(text) <= _MAX_OUTPUT else text[-_MAX_OUTPUT:]
