"""The steps of a player beyond talking: the work of a task, and the faults that agents have.

mngr sends this file beside `player.py`, with `sabotage.py`, for a scenario that needs it. All three are plain Python 3.9.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import tempfile
import time
from fnmatch import fnmatchcase
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mngr.kinds.player.player import Player

    Over = dict[str, Any]  # the progress to save when a step ends the turn

CHANGE_KINDS = ("FIX_IMPL", "FIX_TEST", "IMPROVE_TEST", "ADD_TEST", "FIX_TUTORIAL", "FIX_DOC")
MAX_OUTPUT_LENGTH = 4000  # characters of a command's output that are kept
MEGABYTE = 1 << 20
PARK_MESSAGES = {
    "rate_limit": "API error 429: too many requests, slow down.",
    "quota": "The usage limit of this account is reached.",
    "login": "API error 401: this login is no longer valid. Log in again.",
}


class PlayerJob(NamedTuple):
    """The job in a message: a task, and its test and command if it has them."""

    task: str
    test: str
    command: list[str]


def play_step(player: Player, verb: str, value: Any) -> Over | None:
    """Play one step; return the progress to save if it ends the turn, else None."""
    try:
        outcome = STEP_FUNCTIONS[verb](player, value)
    except (OSError, ValueError, RecursionError) as error:
        outcome = f"failed: {error}"
    if isinstance(outcome, dict):
        return outcome
    tool_input = value if isinstance(value, dict) else {"message": value}
    player._record_tool_call(verb, tool_input, outcome)
    return None


def choose_steps(player: Player) -> list[list[Any]]:
    """Return the steps of the first case that matches the task or the agent's name, else the general steps."""
    if player.at["case"] is None:
        names = (_get_job(player).task, os.environ.get("MNGR_AGENT_NAME", ""))
        matches = [any(fnmatchcase(name, pattern) for name in names) for pattern, _ in player.cases]
        player._save_progress(case=matches.index(True) if True in matches else -1)
    case: int = player.at["case"]
    return player.steps if case < 0 else player.cases[case][1]


# --- work


def _run_command(player: Player, command: str) -> str:
    code, out = _call_command(player, ["sh", "-c", command])
    return f"exit {code}\n{out[-MAX_OUTPUT_LENGTH:]}".strip()


def _run_test(player: Player, _: None) -> str:
    command = _get_job(player).command
    if not command:
        raise ValueError("no message contains a test command")
    code, out = _call_command(player, command)
    player._save_progress(tests=[*player.at.get("tests", []), "fail" if code else "pass"])
    return f"exit {code}\n{out[-MAX_OUTPUT_LENGTH:]}".strip()


def _edit_file(player: Player, value: dict[str, str]) -> str:
    path = _resolve_path(player, value["path"])
    text = _read(path)
    if text.count(value["old"]) != 1:
        raise ValueError(f"the old text occurs {text.count(value['old'])} times, not once")
    _write(path, text.replace(value["old"], value["new"]))
    return "done"


def _write_result(player: Player, form: str | dict[str, object]) -> str:
    full_result = _build_full_result(player)
    if isinstance(form, dict):
        return _write_result_file(json.dumps({**full_result, **form}))
    if form in ("link", "pipe", "folder"):
        path = _remove_existing(os.path.join(_get_outputs_dir(), "result.json"))
        if form == "link":
            os.symlink("/etc/passwd", path)
        elif form == "pipe":
            os.mkfifo(path)
        else:
            os.mkdir(path)
        return "done"
    wrong_types = {
        "v": "1",
        "task": 7,
        "outcome": ["fixed"],
        "before": None,
        "after": True,
        "summary": {"a": 1},
        "changes": "none",
        "escalations": [3],
        "runs": {},
    }
    texts: dict[str, Callable[[], str]] = {
        "complete": lambda: json.dumps(full_result),
        "partial": lambda: json.dumps({key: full_result[key] for key in ("v", "task", "summary")}),
        "broken": lambda: json.dumps(full_result)[:-20],
        "empty": lambda: "",
        "huge": lambda: json.dumps({**full_result, "summary": "x" * 4 * MEGABYTE}),
        "deep": lambda: "[" * 100_000,
        "types": lambda: json.dumps(wrong_types),
        "words": lambda: json.dumps({**full_result, "outcome": "great", "after": "green"}),
        "other": lambda: json.dumps({**full_result, "task": "tests/test_other.py::test_other"}),
        "half": lambda: json.dumps({**full_result, "summary": "half a character: \ud83d"}),
    }
    return _write_result_file(texts[form]())


def _report_usage(player: Player, value: dict[str, object]) -> str:
    usage = {key: number for key, number in value.items() if key != "model"}
    player.book.append_transcript("assistant", "", model=value.get("model", "player"), usage=usage)
    return "done"


# --- faults


def _claim_without_fix(player: Player, _: None) -> str:
    """Make a change without effect and claim that the test passes."""
    path = _get_job(player).test.partition("::")[0]
    if path:
        _write(
            _resolve_path(player, path),
            _read(_resolve_path(player, path)).rstrip("\n") + "\n# looked at again\n",
        )
    else:
        _run_git(player, "commit", "--quiet", "--allow-empty", "--message", "[FIX_TEST] It passes now")
    return _commit_and_claim(player, "It passes now", commit=bool(path))


def _weaken_test(player: Player, weakening: str) -> str:
    if weakening == "conftest":
        _write(_resolve_path(player, "conftest.py"), _load_faults().FORGED_CONFTEST)
        return _commit_and_claim(player, "Reports are stable now")
    path, _, names = _get_job(player).test.partition("[")[0].partition("::")
    if not names:
        raise ValueError("no message contains a test")
    file_path = _resolve_path(player, path)
    _write(file_path, _load_faults().weaken_test(_read(file_path), names.split("::"), weakening))
    return _commit_and_claim(player, "The test is stable now")


def _leave_uncommitted_files(player: Player, _: None) -> str:
    """Leave a changed file, a staged file and an untracked file."""
    tracked = [name for name in _run_git(player, "ls-files", "-z").split("\0") if name]
    if tracked:
        _write(
            _resolve_path(player, tracked[0]),
            _read(_resolve_path(player, tracked[0])) + "\n# not committed\n",
        )
    _write(_resolve_path(player, "dirt-staged.txt"), "staged\n")
    _run_git(player, "add", "dirt-staged.txt")
    _write(_resolve_path(player, "dirt.txt"), "unknown\n")
    return "done"


def _crash_and_continue_later(player: Player, crash_kind: str) -> str:
    """Kill the player; after a restart it continues with the next step."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    player._save_progress(next=player.at["next"] + 1)
    if crash_kind == "lost":
        os.kill(os.getppid(), signal.SIGKILL)  # the parent would have recorded the exit
    if crash_kind == "TERM":
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGKILL if crash_kind == "lost" else getattr(signal, "SIG" + crash_kind))
    return "failed: it did not end"


def _hang_ignoring_signals(player: Player, _: None) -> str:
    """Hang, and ignore every signal that can be ignored."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    player._show_text("* deaf\n")
    while True:
        signal.pause()


def _print_megabytes(player: Player, megabytes: float) -> str:
    line = "\x1b[32mflood\x1b[0m " + "~" * 100 + "\n"
    for _ in range(int(megabytes * 16)):
        player._show_text(line * (MEGABYTE // 16 // len(line)))
        player._read_input(0)
    return "done"


def _park_turn(player: Player, value: str | dict[str, Any]) -> str | Over:
    options: dict[str, Any] = {"reason": value} if isinstance(value, str) else value
    if "while" in options and not os.path.exists(_resolve_path(player, options["while"])):
        return "no limit any more"
    reason = options["reason"]
    player._record_reply(options.get("text", PARK_MESSAGES[reason]))
    until = None if reason == "login" else _format_future_time(options.get("seconds", 60))
    return {"reason": reason, "until": until, **({"next": player.at["next"]} if "while" in options else {})}


def _wait_for_retry(player: Player, seconds: float) -> str:
    player.book.write_status("RUNNING", "retrying")
    player._show_text("* " + PARK_MESSAGES["rate_limit"] + " Trying again.\n")
    player._read_input(seconds)
    player.book.write_status("RUNNING", None)
    return "done"


def _edit_shared_line(player: Player, value: dict[str, Any]) -> str:
    """Change and commit a line that other agents change too, each with a different text."""
    path = _resolve_path(player, value["path"])
    lines = _read(path).splitlines()
    if value["line"] > len(lines):
        raise ValueError(f"the file has only {len(lines)} lines")
    lines[value["line"] - 1] += f"  # {os.environ.get('MNGR_AGENT_NAME', 'me')}"
    _write(path, "\n".join(lines) + "\n")
    return player._commit(f"[FIX_IMPL] Change line {value['line']} of {value['path']}")


def _plant_hostile_files(player: Player, kind: str) -> str:
    message = _load_faults().plant_hostile_files(kind, _get_outputs_dir(), player.work)
    if kind == "escapes":
        player._record_reply(_load_faults().ESCAPES)
    return player._commit(message) if message else "done"


STEP_FUNCTIONS: dict[str, Callable[[Player, Any], str | Over]] = {
    "run": _run_command,
    "test": _run_test,
    "edit": _edit_file,
    "result": _write_result,
    "spend": _report_usage,
    "lie": _claim_without_fix,
    "weaken": _weaken_test,
    "dirt": _leave_uncommitted_files,
    "crash": _crash_and_continue_later,
    "deaf": _hang_ignoring_signals,
    "flood": _print_megabytes,
    "park": _park_turn,
    "retry": _wait_for_retry,
    "conflict": _edit_shared_line,
    "hostile": _plant_hostile_files,
}


# --- shared functions


def _load_faults() -> Any:
    """Import `sabotage.py`, which is beside this file on the host."""
    return importlib.import_module("sabotage")


def _get_job(player: Player) -> PlayerJob:
    """Return the task id, the test and the command from the last job in a message."""
    try:
        job = json.loads(player.at["job"] or "{}")
    except (ValueError, RecursionError):
        job = {}
    job = job if isinstance(job, dict) else {}
    test, command = str(job.get("test") or ""), job.get("command")
    return PlayerJob(
        task=str(job.get("task") or test or os.environ.get("MNGR_AGENT_NAME", "")),
        test=test,
        command=[str(argument) for argument in command] if isinstance(command, list) else [],
    )


def _call_command(player: Player, argv: list[str]) -> tuple[int, str]:
    """Run a command in the work dir while messages are received; return its exit code and its output."""
    job = _get_job(player)
    env = {**os.environ, "TASK": job.task, "TEST": job.test}
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(argv, cwd=player.work, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        pause = 0.005
        try:
            while process.poll() is None:
                player._read_input(pause)
                pause = min(0.25, pause * 1.5)
        finally:
            if process.poll() is None:
                process.kill()
        out.seek(0)
        return process.returncode, out.read().decode("utf-8", "replace")


def _run_git(player: Player, *arguments: str) -> str:
    code, out = _call_command(player, ["git", *arguments])
    if code:
        raise ValueError(out.strip())
    return out


def _commit_and_claim(player: Player, message: str, *, commit: bool = True) -> str:
    """Commit all changes and claim that the test passes."""
    outcome = player._commit("[FIX_TEST] " + message) if commit else "done"
    if not outcome.startswith("failed: "):
        _write_result_file(
            json.dumps({**_build_full_result(player), "outcome": "fixed", "before": "fail", "after": "pass"})
        )
    return outcome


def _build_full_result(player: Player) -> dict[str, object]:
    """Return a complete result that is true as far as the player can know."""
    base = os.environ.get("MNGR_BASE")
    log = _run_git(player, "log", "--reverse", "--format=%H %s", f"{base}..HEAD") if base else ""
    changes = []
    for line in log.splitlines():
        commit, _, subject = line.partition(" ")
        kind, _, summary = subject.partition("] ")
        is_known = kind[1:] in CHANGE_KINDS
        changes.append(
            {
                "kind": kind[1:] if is_known else "FIX_TEST",
                "summary": summary if is_known else subject,
                "commits": [commit],
            }
        )
    tests = player.at.get("tests") or ["fail" if changes else "pass", "pass"]
    if tests[-1] == "fail":
        outcome = "blocked"
    elif changes and tests[0] == "fail" and tests[-1] == "pass":
        outcome = "fixed"
    else:
        outcome = "improved" if changes else "unchanged"
    return {
        "v": 1,
        "task": _get_job(player).task,
        "outcome": outcome,
        "before": tests[0],
        "after": tests[-1],
        "summary": "Played by a script.",
        "changes": changes,
        "escalations": [],
        "runs": [],
    }


def _write_result_file(text: str) -> str:
    """Write result.json in one step."""
    path = os.path.join(_get_outputs_dir(), "result.json")
    _write(path + ".new", text)
    if os.path.isdir(path) and not os.path.islink(path):
        os.rmdir(path)
    os.replace(path + ".new", path)
    return "done"


def _format_future_time(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() + seconds))


def _get_outputs_dir() -> str:
    return os.environ["MNGR_OUTPUT_DIR"]


def _resolve_path(player: Player, name: str) -> str:
    return os.path.join(player.work, os.path.expandvars(name))


def _remove_existing(path: str) -> str:
    if os.path.lexists(path):
        os.unlink(path)
    return path


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8", errors="surrogatepass") as file:
        file.write(text)
