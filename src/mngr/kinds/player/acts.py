"""What a player does beside talking: the work of a task, and the faults that agents have.

The file is sent beside `player.py`, with `faults.py`, for a scenario that needs it; like those, it is plain Python 3.9.
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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mngr.kinds.player.player import Player

    Over = dict[str, Any]  # what ends the turn

KINDS = ("FIX_IMPL", "FIX_TEST", "IMPROVE_TEST", "ADD_TEST", "FIX_TUTORIAL", "FIX_DOC")
SHOWN = 4000  # characters of what a command printed
MEGABYTE = 1 << 20
SAYS = {
    "rate_limit": "API error 429: too many requests, slow down.",
    "quota": "The usage limit of this account is reached.",
    "login": "API error 401: this login is no longer valid. Log in again.",
}


def play(player: Player, verb: str, value: Any) -> Over | None:
    """Play one step; what is to be saved if it ends the turn."""
    try:
        said = ACTS[verb](player, value)
    except (OSError, ValueError, RecursionError) as error:
        said = f"failed: {error}"
    if isinstance(said, dict):
        return said
    given = value if isinstance(value, dict) else {"message": value}
    player._tool(verb, given, said)
    return None


def choose(player: Player) -> list[list[Any]]:
    """The steps of the first case that fits the task or the agent's name, else those without a case."""
    if player.at["case"] is None:
        names = (_job(player)["task"], os.environ.get("MNGR_AGENT_NAME", ""))
        fits = [any(fnmatchcase(name, pattern) for name in names) for pattern, _ in player.cases]
        player._save(case=fits.index(True) if True in fits else -1)
    case: int = player.at["case"]
    return player.steps if case < 0 else player.cases[case][1]


# --- work


def _run(player: Player, command: str) -> str:
    code, out = _call(player, ["sh", "-c", command])
    return f"exit {code}\n{out[-SHOWN:]}".strip()


def _test(player: Player, _: None) -> str:
    command = _job(player)["command"]
    if not command:
        raise ValueError("no message has named a command")
    code, out = _call(player, command)
    player._save(tests=[*player.at.get("tests", []), "fail" if code else "pass"])
    return f"exit {code}\n{out[-SHOWN:]}".strip()


def _edit(player: Player, value: dict[str, str]) -> str:
    path = _path(player, value["path"])
    text = _read(path)
    if text.count(value["old"]) != 1:
        raise ValueError(f"the old text is there {text.count(value['old'])} times")
    _write(path, text.replace(value["old"], value["new"]))
    return "done"


def _result(player: Player, form: str | dict[str, Any]) -> str:
    whole = _whole(player)
    if isinstance(form, dict):
        return _leave(json.dumps({**whole, **form}))
    if form in ("link", "pipe", "folder"):
        place = _clear(os.path.join(_outputs(), "result.json"))
        if form == "link":
            os.symlink("/etc/passwd", place)
        elif form == "pipe":
            os.mkfifo(place)
        else:
            os.mkdir(place)
        return "done"
    wrong = {
        "v": "1", "task": 7, "outcome": ["fixed"], "before": None, "after": True, "summary": {"a": 1},
        "changes": "none", "escalations": [3], "runs": {},
    }  # fmt: skip
    texts: dict[str, Callable[[], str]] = {
        "complete": lambda: json.dumps(whole),
        "partial": lambda: json.dumps({key: whole[key] for key in ("v", "task", "summary")}),
        "broken": lambda: json.dumps(whole)[:-20],
        "empty": lambda: "",
        "huge": lambda: json.dumps({**whole, "summary": "x" * 4 * MEGABYTE}),
        "deep": lambda: "[" * 100_000,
        "types": lambda: json.dumps(wrong),
        "words": lambda: json.dumps({**whole, "outcome": "great", "after": "green"}),
        "other": lambda: json.dumps({**whole, "task": "tests/test_other.py::test_other"}),
        "half": lambda: json.dumps({**whole, "summary": "half a character: \ud83d"}),
    }
    return _leave(texts[form]())


def _spend(player: Player, value: dict[str, Any]) -> str:
    used = {key: number for key, number in value.items() if key != "model"}
    player.book.say("assistant", "", model=value.get("model", "player"), usage=used)
    return "done"


# --- faults


def _lie(player: Player, _: None) -> str:
    """Change nothing that matters."""
    path = _job(player)["test"].partition("::")[0]
    if path:
        _write(_path(player, path), _read(_path(player, path)).rstrip("\n") + "\n# looked at again\n")
    else:
        _git(player, "commit", "--quiet", "--allow-empty", "--message", "[FIX_TEST] It passes now")
    return _claim(player, "It passes now", commit=bool(path))


def _weaken(player: Player, how: str) -> str:
    if how == "conftest":
        _write(_path(player, "conftest.py"), _faults().FORGED)
        return _claim(player, "Reports are stable now")
    path, _, names = _job(player)["test"].partition("[")[0].partition("::")
    if not names:
        raise ValueError("no message has named a test")
    place = _path(player, path)
    _write(place, _faults().weaken(_read(place), names.split("::"), how))
    return _claim(player, "The test is stable now")


def _dirt(player: Player, _: None) -> str:
    """Leave a changed file, a staged one and one that git does not know."""
    tracked = [name for name in _git(player, "ls-files", "-z").split("\0") if name]
    if tracked:
        _write(_path(player, tracked[0]), _read(_path(player, tracked[0])) + "\n# not committed\n")
    _write(_path(player, "dirt-staged.txt"), "staged\n")
    _git(player, "add", "dirt-staged.txt")
    _write(_path(player, "dirt.txt"), "unknown\n")
    return "done"


def _crash(player: Player, how: str) -> str:
    """End as no program wants to; a new start goes on behind this step."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    player._save(next=player.at["next"] + 1)
    if how == "lost":
        os.kill(os.getppid(), signal.SIGKILL)  # who would have written down how we ended
    if how == "TERM":
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGKILL if how == "lost" else getattr(signal, "SIG" + how))
    return "failed: it did not end"


def _deaf(player: Player, _: None) -> str:
    """Hang, and heed no signal that can be ignored."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    player._show("* deaf\n")
    while True:
        signal.pause()


def _flood(player: Player, megabytes: float) -> str:
    line = "\x1b[32mflood\x1b[0m " + "~" * 100 + "\n"
    for _ in range(int(megabytes * 16)):
        player._show(line * (MEGABYTE // 16 // len(line)))
        player._pump(0)
    return "done"


def _park(player: Player, value: str | dict[str, Any]) -> str | Over:
    given: dict[str, Any] = {"reason": value} if isinstance(value, str) else value
    if "while" in given and not os.path.exists(_path(player, given["while"])):
        return "no limit any more"
    reason = given["reason"]
    player._reply(given.get("text", SAYS[reason]))
    until = None if reason == "login" else _later(given.get("seconds", 60))
    return {"reason": reason, "until": until, **({"next": player.at["next"]} if "while" in given else {})}


def _retry(player: Player, seconds: float) -> str:
    player.book.status("RUNNING", "retrying")
    player._show("* " + SAYS["rate_limit"] + " Trying again.\n")
    player._pump(seconds)
    player.book.status("RUNNING", None)
    return "done"


def _conflict(player: Player, value: dict[str, Any]) -> str:
    """Change a line as every neighbour does, each in its own way."""
    path = _path(player, value["path"])
    lines = _read(path).splitlines()
    if value["line"] > len(lines):
        raise ValueError(f"it has {len(lines)} lines")
    lines[value["line"] - 1] += f"  # {os.environ.get('MNGR_AGENT_NAME', 'me')}"
    _write(path, "\n".join(lines) + "\n")
    return player._commit(f"[FIX_IMPL] Change line {value['line']} of {value['path']}")


def _hostile(player: Player, what: str) -> str:
    message = _faults().plant(what, _outputs(), player.work)
    if what == "escapes":
        player._reply(_faults().ESCAPES)
    return player._commit(message) if message else "done"


ACTS: dict[str, Callable[[Player, Any], str | Over]] = {
    "run": _run, "test": _test, "edit": _edit, "result": _result, "spend": _spend, "lie": _lie, "weaken": _weaken,
    "dirt": _dirt, "crash": _crash, "deaf": _deaf, "flood": _flood, "park": _park, "retry": _retry,
    "conflict": _conflict, "hostile": _hostile,
}  # fmt: skip


# --- what they share


def _faults() -> Any:
    """The other file beside this one."""
    return importlib.import_module("faults")


def _job(player: Player) -> dict[str, Any]:
    """The task as the last message with a job in it names it: its id, its test, the command that runs it."""
    try:
        job = json.loads(player.at["job"] or "{}")
    except (ValueError, RecursionError):
        job = {}
    job = job if isinstance(job, dict) else {}
    test, words = str(job.get("test") or ""), job.get("command")
    return {
        "task": str(job.get("task") or test or os.environ.get("MNGR_AGENT_NAME", "")),
        "test": test,
        "command": [str(word) for word in words] if isinstance(words, list) else [],
    }


def _call(player: Player, argv: list[str]) -> tuple[int, str]:
    """Run a command in the work dir while messages are taken in; its exit code and what it printed."""
    job = _job(player)
    env = {**os.environ, "TASK": job["task"], "TEST": job["test"]}
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(
            argv, cwd=player.work, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
        pause = 0.005
        try:
            while process.poll() is None:
                player._pump(pause)
                pause = min(0.25, pause * 1.5)
        finally:
            if process.poll() is None:
                process.kill()
        out.seek(0)
        return process.returncode, out.read().decode("utf-8", "replace")


def _git(player: Player, *words: str) -> str:
    code, out = _call(player, ["git", *words])
    if code:
        raise ValueError(out.strip())
    return out


def _claim(player: Player, message: str, *, commit: bool = True) -> str:
    """Commit what there is, and say that the test passes."""
    done = player._commit("[FIX_TEST] " + message) if commit else "done"
    if not done.startswith("failed: "):
        _leave(json.dumps({**_whole(player), "outcome": "fixed", "before": "fail", "after": "pass"}))
    return done


def _whole(player: Player) -> dict[str, Any]:
    """A result that is complete and true, as far as a player can know."""
    base = os.environ.get("MNGR_BASE")
    log = _git(player, "log", "--reverse", "--format=%H %s", f"{base}..HEAD") if base else ""
    changes = []
    for line in log.splitlines():
        commit, _, subject = line.partition(" ")
        kind, _, summary = subject.partition("] ")
        known = kind[1:] in KINDS
        changes.append(
            {
                "kind": kind[1:] if known else "FIX_TEST",
                "summary": summary if known else subject,
                "commits": [commit],
            }
        )
    tests = player.at.get("tests") or ["fail" if changes else "pass", "pass"]
    outcome = "blocked" if tests[-1] == "fail" else "unchanged" if not changes else "improved"
    return {
        "v": 1,
        "task": _job(player)["task"],
        "outcome": "fixed" if changes and (tests[0], tests[-1]) == ("fail", "pass") else outcome,
        "before": tests[0],
        "after": tests[-1],
        "summary": "Played by a script.",
        "changes": changes,
        "escalations": [],
        "runs": [],
    }


def _leave(text: str) -> str:
    """Put result.json in its place in one step."""
    place = os.path.join(_outputs(), "result.json")
    _write(place + ".new", text)
    if os.path.isdir(place) and not os.path.islink(place):
        os.rmdir(place)
    os.replace(place + ".new", place)
    return "done"


def _later(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() + seconds))


def _outputs() -> str:
    return os.environ["MNGR_OUTPUT_DIR"]


def _path(player: Player, name: str) -> str:
    return os.path.join(player.work, os.path.expandvars(name))


def _clear(path: str) -> str:
    if os.path.lexists(path):
        os.unlink(path)
    return path


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8", errors="surrogatepass") as file:
        file.write(text)
