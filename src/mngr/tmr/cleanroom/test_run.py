"""Runs one test in a clean room, and decides its outcome from the probe's report, never from the terminal output."""

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
TEST_TIMEOUT = 600.0  # seconds for one run of a test, by default
_MAX_OUTPUT = 8_000  # characters of pytest's output that a run keeps
_ENVIRONMENT_FIELDS = ("python", "pytest", "platform", "packages")


class TestFunction(Struct):
    """A test function with all its parameters: the subject of one task."""

    __test__ = False

    id: str  # without [parameters]
    ids: list[str]  # every node id
    path: str
    line: int | None = None
    name: str
    doc: str = ""
    markers: list[str] = []


class Frame(Struct):
    """A location in the code that was running."""

    path: str  # relative to the work dir, if it is the project's
    line: int
    function: str
    project: bool


class Failure(Struct):
    """Why a test, or its collection, failed."""

    id: str
    when: str  # collect | setup | call | teardown | interrupted | internal
    exception: str
    cause: str = ""  # the exception that it was raised from, if any
    message: str
    frames: list[Frame] = []  # outermost first
    text: str = ""  # pytest's explanation
    sections: dict[str, str] = {}  # captured output

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form that the journal holds."""
        return {**super().to_dict(), "frames": [frame.to_dict() for frame in self.frames]}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Return the failure that `to_dict` described."""
        return cls(**{**data, "frames": [Frame(**frame) for frame in data["frames"]]})


class TestRun(Struct):
    """One run of one test with all its parameters."""

    __test__ = False

    test: str
    outcome: str  # pass | fail | error | timeout | crash | skip
    why: str = ""  # one line for people, unless it passed
    seconds: float
    cpu: float = 0.0
    exit_code: int
    ids: dict[str, str] = {}  # each node id and its outcome
    missing: list[str] = []  # node ids that were collected and did not run
    failures: list[Failure] = []
    reruns: int = 0  # attempts that a plugin repeated because they failed
    command: str  # the command as a person would type it
    imported_from: dict[str, str] = {}  # the file of each of the project's packages
    wrong_code: list[str] = []  # imported project code from outside the clean room
    resolved: dict[str, Any] = {}  # the files of packages and programs, if requested
    output: str = ""  # the end of pytest's output
    transcripts: dict[str, str] = {}  # from mngr.e2e, by node id
    artifacts: list[str] = []  # directories of mngr.e2e in the work dir
    left: int = 0  # number of processes that it left running
    environment: dict[str, str] = {}  # versions, and for the first run a hash of the installed packages
    walls: str = ""  # the clean room's sandbox: on, on with the network, or why there was none
    findings: list[Finding] = []  # what it did that is not allowed in a clean room
    lines: dict[str, list[int]] = {}  # the lines that ran, by file, if requested
    loaded: list[str] | None = None  # the files that it imported, if requested and known

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form that the journal holds."""
        failures = [failure.to_dict() for failure in self.failures]
        findings = [finding.to_dict() for finding in self.findings]
        return {**super().to_dict(), "failures": failures, "findings": findings}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Return the run that `to_dict` described."""
        failures = [Failure.from_dict(failure) for failure in data["failures"]]
        findings = [Finding(**finding) for finding in data.get("findings", ())]
        return cls(**{**data, "failures": failures, "findings": findings})


class PytestOptions(Struct):
    """How the project's tests are run."""

    pytest: list[str]  # the command
    args: list[str] = []
    timeout: float = TEST_TIMEOUT  # seconds for one run of a test


class ProbeOptions(Struct):
    """The changes that the probe makes for one run of a test, and the extra facts that it reports."""

    seed: int | None = None
    files: dict[str, str | None] | None = None  # texts that replace files of the commit; None removes the file
    resolve: bool = False  # report the files of packages and programs
    program: str | None = None  # a program to resolve in addition to the installed ones
    trace: bool = False  # report the lines that are run
    loaded: bool = False  # report the files that are imported

    def build_request(self) -> dict[str, Any]:
        """Return the settings in the form that the probe reads."""
        request: dict[str, Any] = {"seed": self.seed, "resolve": self.resolve, "program": self.program}
        if self.files:
            request["files"] = {path: None if text is None else pack_text(text) for path, text in self.files.items()}
        plugins = (("replaced_files", self.files), ("tracer", self.trace), ("imported_files", self.loaded))
        request["plugins"] = {name: read_program(f"{name}.py") for name, is_wanted in plugins if is_wanted}
        return request


_DEFAULT_PROBE = ProbeOptions()


def build_command(pytest: Sequence[str], args: Sequence[str], test: str) -> list[str]:
    """Return the command that runs a test, without mngr's own arguments."""
    return [*pytest, *args, test]


def run_test(
    room: CleanRoom,
    options: PytestOptions,
    test: TestFunction,
    probe: ProbeOptions = _DEFAULT_PROBE,
    artifacts_dir: str | None = None,
) -> TestRun:
    """Run a test once in a clean room, and save its artifacts if there is a directory for them.

    Raises MngrError when the clean room fails, not the test.
    """
    env = {} if probe.seed is None else {"PYTHONHASHSEED": str(probe.seed % 4294967296)}
    argv = [*options.pytest, *PROBE_ARGS, *options.args, test.id]
    outcome = room.run(argv, env=env, timeout=options.timeout, probe=probe.build_request())
    command = join(build_command(options.pytest, options.args, test.id))
    result = read_test_run(test, outcome, command, room.inner_work_dir).replace(walls=room.isolation)
    if artifacts_dir is not None:
        for artifact in result.artifacts:
            os.makedirs(artifacts_dir, exist_ok=True)
            room.pull(artifact, os.path.join(artifacts_dir, os.path.basename(artifact)))
    return result


def read_test_run(test: TestFunction, command_outcome: CommandOutcome, command: str, work_dir: str) -> TestRun:
    """Build the run from the probe's report, with paths relative to the work dir."""
    work_dir_prefix = f"{work_dir}{os.sep}"
    command_outcome = command_outcome.replace(
        probe_rows=make_paths_relative(command_outcome.probe_rows, work_dir_prefix),
        out=make_paths_relative(command_outcome.out, work_dir_prefix),
        err=make_paths_relative(command_outcome.err, work_dir_prefix),
    )
    phases = [row for row in command_outcome.probe_rows if row["row"] == "phase"]
    end = next((row for row in reversed(command_outcome.probe_rows) if row["row"] == "end"), None)
    ids, reruns = _parse_outcomes(phases)
    failures = [
        failure for row in _last_attempts(command_outcome.probe_rows) if (failure := parse_failure(row)) is not None
    ]
    outcome, reason = _decide_outcome(command_outcome, ids, failures, phases, end)
    if outcome in ("fail", "error") and not failures:
        failures = [_make_output_failure(test, command_outcome, reason)]
    imported = parse_texts((end or {}).get("imported"))
    e2e = (end or {}).get("e2e")
    sessions = [parse_texts(row) for row in e2e if isinstance(row, dict)] if isinstance(e2e, list) else []
    return TestRun(
        test=test.id, outcome=outcome, why=reason, seconds=command_outcome.seconds, cpu=command_outcome.cpu, exit_code=command_outcome.code, ids=ids,
        missing=[node_id for node_id in test.ids if node_id not in ids], failures=failures, reruns=reruns, command=command,
        imported_from=imported, wrong_code=_list_wrong_code(imported, (end or {}).get("strays")),
        resolved=resolved if isinstance(resolved := (end or {}).get("resolved"), dict) else {},
        output=_cut_output(command_outcome.out + command_outcome.err), transcripts={row.get("test", ""): row.get("text", "") for row in sessions},
        artifacts=[row["path"] for row in sessions if _is_in_work_dir(row.get("path", ""))], left=command_outcome.leftover_processes,
        findings=[finding.replace(path=test.path) for finding in command_outcome.findings],
        environment={key: str(end[key]) for key in _ENVIRONMENT_FIELDS if key in end} if end else {},
        lines=_parse_lines(command_outcome.probe_rows), loaded=_parse_loaded_files(command_outcome.probe_rows),
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
    """Return the outcome of each node id's last attempt, and how many attempts were repeated."""
    outcomes: dict[str, str] = {}
    attempts: dict[str, int] = {}
    for row in phases:
        node_id, when, outcome = (str(row.get(key)) for key in ("id", "when", "outcome"))
        if when == "setup":
            attempts[node_id] = attempts.get(node_id, 0) + 1
            outcomes.pop(node_id, None)
        if outcome == "failed":
            outcomes[node_id] = "fail" if when == "call" or outcomes.get(node_id) == "fail" else "error"
        elif outcome == "skipped":
            outcomes.setdefault(node_id, "skip")
        elif when == "call":
            outcomes.setdefault(node_id, "pass")
    return outcomes, sum(attempts.values()) - len(attempts)


def _last_attempts(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows without those of repeated attempts."""
    last_setups = {str(row.get("id")): position for position, row in enumerate(rows) if row.get("when") == "setup"}
    return [
        row
        for position, row in enumerate(rows)
        if row["row"] != "phase" or position >= last_setups.get(str(row.get("id")), 0)
    ]


def _decide_outcome(
    command_outcome: CommandOutcome,
    ids: dict[str, str],
    failures: list[Failure],
    phases: list[dict[str, Any]],
    end: dict[str, Any] | None,
) -> tuple[str, str]:
    """Return the outcome of the run, and the reason when it is not a pass."""
    if command_outcome.timed_out and (end is None or end.get("exit") not in (0, 1)):  # otherwise it ended just in time
        return "timeout", f"it did not end within {command_outcome.timeout:g} s"
    if command_outcome.stop_reason:
        return "crash", command_outcome.stop_reason
    if end is None:
        if any(row["row"] in ("begin", "phase") for row in command_outcome.probe_rows):
            exit_text = (
                f"signal {-command_outcome.code}" if command_outcome.code < 0 else f"exit code {command_outcome.code}"
            )
            return "crash", f"pytest itself ended in the middle: {exit_text}"
        return "error", _last_line(command_outcome) or f"pytest did not begin: exit code {command_outcome.code}"
    for outcome in ("fail", "error"):
        if outcome in ids.values():
            return outcome, _headline(failures)
    if failures:
        return "error", _headline(failures)
    if not ids:
        return "error", _last_line(command_outcome) or "there was nothing to run"
    if set(ids.values()) == {"skip"}:
        return "skip", next((str(row["why"]) for row in phases if row.get("why")), "skipped")
    return "pass", ""


def parse_failure(row: dict[str, Any]) -> Failure | None:
    """Return the failure in a row of the probe's report, or None."""
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
    """Return a dict of strings from an untrusted value; empty when the value is no dict."""
    return {str(key): str(text) for key, text in value.items()} if isinstance(value, dict) else {}


def _make_output_failure(test: TestFunction, command_outcome: CommandOutcome, reason: str) -> Failure:
    """Return a failure from pytest's output, for options, plugins or a conftest that pytest rejected."""
    return Failure(
        id=test.id,
        when="collect",
        exception="",
        message=reason,
        text=_cut_output(command_outcome.err or command_outcome.out),
    )


def make_paths_relative(value: Any, prefix: str) -> Any:
    """Return the value with all paths relative to the work dir, so that results are the same in all rooms."""
    if isinstance(value, str):
        return value.replace(prefix, "")
    if isinstance(value, list):
        return [make_paths_relative(item, prefix) for item in value]
    if isinstance(value, dict):
        return {key: make_paths_relative(item, prefix) for key, item in value.items()}
    return value


def _list_wrong_code(imported: dict[str, str], strays: object) -> list[str]:
    """Describe the project's code that came from outside the clean room, or from an installed copy."""
    wrong = [f"{name} came from {path}" for name, path in imported.items() if not is_own_source(path)]
    if isinstance(strays, list):
        wrong += [f"{path} was imported" for path in strays if isinstance(path, str)]
    return wrong


def is_own_source(path: str) -> bool:
    """True when a path, relative to the work dir, is the clean room's own source and no installed copy."""
    return not os.path.isabs(path) and {"site-packages", "dist-packages"}.isdisjoint(path.split(os.sep))


def _is_in_work_dir(path: str) -> bool:
    return bool(path) and not os.path.isabs(path) and ".." not in path.split(os.sep)


def _headline(failures: list[Failure]) -> str:
    first = failures[0]
    return f"{first.exception}: {first_line(first.message)}".strip(": ") or first_line(first.text)


def first_line(message: str) -> str:
    """Return a message's first line. A heading or a command is joined with the line after it."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if len(lines) > 1 and (lines[0].endswith(":") or lines[0].startswith("$ ")):
        return f"{lines[0].rstrip(':')}: {lines[1]}"
    return lines[0] if lines else ""


def _last_line(command_outcome: CommandOutcome) -> str:
    """Return pytest's first error line, or its first line, about why it ran nothing."""
    lines = [line.strip() for line in (command_outcome.err + "\n" + command_outcome.out).splitlines() if line.strip()]
    error_lines = [line for line in lines if line.startswith(("ERROR", "E   ")) or "rror:" in line]
    return (error_lines or lines or [""])[0][:500]


def _cut_output(text: str) -> str:
    return text if len(text) <= _MAX_OUTPUT else text[-_MAX_OUTPUT:]
